"""The exact law of the number of right guesses that a private mechanism allows in a one-run audit.

Setting. Each of m canaries is included in the data or not by its own fair coin. A mechanism that is private for every
single coin, for all values of the other coins, is run once. From its output alone, an attacker guesses r of the coins
and abstains from the others. Steinke, Nasr & Jagielski 2023 bound the number of right guesses; the bound below is
exact.

Proof. Let T in {-1, 0, 1}^m be the guesses, r of them not 0, and K the number of wrong guesses. Flip the coins by a
random sign vector and shuffle the canaries, run, and undo both on T: K keeps its law, and the new mechanism is as
private as the old one (a mixture, then post-processing). Its Pr[T = t | coins] depends on the number k of wrong guesses
alone; call it q_k / C(m, r), so that Pr[K = k] = C(r, k) q_k. Flip one coin. If it is not guessed (a share 1 - r/m of
all T), nothing changes; if it is, k and k + 1 swap. With claimed points (eps_j, delta_j), privacy means, for every j,

    (r/m) sum over k < r of C(r-1, k) [q_k - exp(eps_j) q_(k+1)]_+  <=  delta_j,                                    (1)

with the same sum for k and k + 1 swapped added on the left; an upper bound may omit that sum. The largest Pr[K <= w]
under (1) is a linear program. For every lambda >= 0 and every theta such that, for all q >= 0,

    sum_{k<=w} C(r,k) q_k - sum_j lambda_j sum_k C(r-1,k) [q_k - exp(eps_j) q_(k+1)]_+  <=  theta sum_k C(r,k) q_k, (2)

Pr[K <= w] <= theta + (m/r) sum_j lambda_j delta_j. One pass over k decides (2): both sides are homogeneous and couple
neighbours only, so the largest difference of the terms before k is a multiple omega_k of C(r, k) q_k, and omega_(k+1)
is the maximum over z = q_k / q_(k+1) of a function that is linear between the exp(eps_j).

One point. With p = 1/(1 + e^eps), and F and b_r the distribution function and the masses of Bin(r, p), the pass has a
closed form: (2) holds iff theta >= F(w)/F(k) - lambda (1-p) b_(r-1)(k)/F(k) for w <= k < r, and theta >= F(w). The
minimum over lambda and theta is the upper concave hull, at m delta/r, of the costs (1-p) b_(r-1)(k)/F(k) and gains
F(w)/F(k) - F(w) of truncating r independent randomised responses at k wrong guesses. Mixtures of those satisfy (1) and
the swapped sum, which is 0 for them, so the value is attained. For delta = 0 it is F(w), the binomial of Steinke et al.

Many points. The smallest bound of the single points holds, as all of them bound the same probability. It is improved by
lambda from the linear program on a window of k. The result does not depend on the solver's accuracy, because the pass
determines theta. Mahloujifar, Melis & Chaudhuri 2024 sum (1) without []_+ over the tails k <= K only; their recursion
is never below the program's value for the whole curve.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy import optimize, sparse, special

from hockeystick.accounting.arrays import FloatArray

Points = tuple[tuple[float, float], ...]

_ROUND_OFF = 1.0 + 1e-7  # relative: above the error of the binomial masses, of the pass and of its sums
_LEAST = 1e-200  # a smaller tail is replaced by that of a larger count
_MOST_CELLS = 8_000  # of the linear program: window times points
_THETAS = 65


def point_tail(wrong: int, guesses: int, canaries: int, epsilon: float, delta: float) -> float:
    """Returns the largest Pr[K <= wrong] under one claimed point, rounded up: the module's closed form."""
    if wrong >= guesses or delta >= 1.0:
        return 1.0
    miss = float(special.expit(-epsilon))
    budget = canaries * delta / guesses
    if budget > 0.0:  # the tail is increasing in ``wrong``, so a larger one is an upper bound
        wrong = _first_readable(wrong, guesses, miss)
    within = float(special.betainc(guesses - wrong, wrong + 1, 1 - miss))
    if budget == 0.0 or wrong >= guesses:
        return min(1.0, max(within, 5e-324) * _ROUND_OFF)
    reach = 12 * math.sqrt(guesses * miss * (1 - miss)) + 60
    last = int(min(guesses - 1, max(wrong, guesses * miss) + reach))
    k = np.arange(wrong, last + 1, dtype=float)
    below = special.betainc(guesses - k, k + 1, 1 - miss)
    cost = np.exp(_log_mass(k, guesses - 1, miss)) * (1 - miss) / below
    gain = within / below - within
    cost, gain = np.append(cost, 0.0), np.append(gain, 0.0)  # the choice not to truncate
    if budget >= cost[0]:
        return 1.0
    left, right = len(cost) - 1, 0  # cost[left] <= budget < cost[right]: cost falls with k
    while True:  # moves to the edge of the hull above the budget; each step finds a vertex farther out
        price = (gain[right] - gain[left]) / (cost[right] - cost[left])
        above = gain - price * cost
        best = int(np.argmax(above))
        if above[best] <= above[left] + 1e-14:
            break
        left, right = (left, best) if cost[best] > budget else (best, right)
    beyond = 0.0  # truncating farther out than ``last`` gains no more than this
    if last < guesses - 1:
        beyond = within * float(special.betainc(last + 2, guesses - last - 1, miss)) / below[-1]
    total = within + price * budget + max(float(above[best]), float(above[left])) + beyond
    return float(min(1.0, total * _ROUND_OFF))


def _first_readable(wrong: int, guesses: int, miss: float) -> int:
    if special.betainc(guesses - wrong, wrong + 1, 1 - miss) >= _LEAST:
        return wrong
    low, high = wrong, guesses
    while high - low > 1:
        middle = (low + high) // 2
        small = special.betainc(guesses - middle, middle + 1, 1 - miss) < _LEAST
        low, high = (middle, high) if small else (low, middle)
    return high


def _log_mass(k: FloatArray, trials: int, p: float) -> FloatArray:
    choose = special.gammaln(trials + 1) - special.gammaln(k + 1) - special.gammaln(trials - k + 1)
    return np.asarray(choose + k * math.log(p) + (trials - k) * math.log1p(-p))


@lru_cache(maxsize=1 << 12)
def points_tail(wrong: int, guesses: int, canaries: int, points: Points) -> float:
    """Returns an upper bound on Pr[K <= wrong] under all claimed points; for one point, the largest value."""
    best = min(point_tail(wrong, guesses, canaries, *point) for point in points)
    return min(best, _curve_tail(wrong, guesses, canaries, points)) if len(points) > 1 else best


def _curve_tail(wrong: int, guesses: int, canaries: int, points: Points) -> float:
    """Returns theta + (m/r) sum lambda delta for good multipliers, or 1 if none are found."""
    if 2 * wrong >= guesses:
        return 1.0
    middle = centre(wrong, guesses)
    near = sorted(sorted(points, key=lambda point: abs(point[0] - middle))[:20])
    epsilon, delta = np.array(near).T
    window = _window(wrong, guesses)
    if len(near) < 2 or (window[1] - window[0]) * len(near) > _MOST_CELLS:
        return 1.0
    price = _multipliers(wrong, guesses, canaries, epsilon, delta, window)
    used = price > 1e-9
    if not used.any():
        return 1.0
    epsilon, delta, price = epsilon[used], delta[used], price[used]
    return min(_certified(wrong, guesses, canaries, epsilon, delta, price * more) for more in (1.0, 1.01, 1.05))


def centre(wrong: int, guesses: int) -> float:
    """Returns the epsilon whose binomial has about ``wrong`` as its 0.02-quantile, near which the test decides."""
    return max(0.0, math.log((guesses - wrong) / (wrong + 2 * math.sqrt(wrong) + 2)))


def _window(wrong: int, guesses: int) -> tuple[int, int]:
    spread = math.sqrt(wrong + 1.0)
    return max(0, int(wrong - 6 * spread - 3)), min(guesses, int(wrong + 10 * spread + 12))


def _multipliers(
    wrong: int, guesses: int, canaries: int, epsilon: FloatArray, delta: FloatArray, window: tuple[int, int]
) -> FloatArray:
    """Returns lambda, shape of ``epsilon``, from the linear program on a window of k; any values are valid."""
    k = np.arange(window[0], window[1] + 1)
    cells, points = len(k) - 1, len(epsilon)
    row = np.arange(points * cells)
    point, cell = np.divmod(row, cells)
    stay, move = (guesses - k[:-1]) / guesses, (k[:-1] + 1) / guesses  # C(r-1,k) q_k and C(r-1,k) q_(k+1), by masses
    excess = sparse.csr_matrix(
        (
            np.concatenate([stay[cell], -np.exp(epsilon)[point] * move[cell], np.full(len(row), -1.0)]),
            (np.tile(row, 3), np.concatenate([cell, cell + 1, len(k) + row])),
        ),
        shape=(len(row), len(k) + len(row)),
    )
    budgets = sparse.csr_matrix((np.ones(len(row)), (point, len(k) + row)), shape=(points, len(k) + len(row)))
    inside = np.concatenate([(k <= wrong).astype(float), np.zeros(len(row))])
    one = sparse.csr_matrix(np.concatenate([np.ones(len(k)), np.zeros(len(row))]))
    found = optimize.linprog(
        -inside,
        A_ub=sparse.vstack([excess, budgets]),
        b_ub=np.concatenate([np.zeros(len(row)), delta * canaries / guesses]),
        A_eq=one,
        b_eq=[1.0],
        method="highs",
    )
    return -np.asarray(found.ineqlin.marginals[-points:]) if found.status == 0 else np.zeros(points)


def _certified(
    wrong: int, guesses: int, canaries: int, epsilon: FloatArray, delta: FloatArray, price: FloatArray
) -> float:
    """Returns theta + (m/r) sum lambda delta with the least theta for which the pass over k proves (2)."""
    low, high = 0.0, 1.0
    for _ in range(4):
        theta = np.linspace(low, high, _THETAS)
        holds = _proved(wrong, guesses, epsilon, price, theta)
        if not holds.any():
            return 1.0
        first = int(np.argmax(holds))
        low, high = float(theta[max(first - 1, 0)]), float(theta[first])
    return float(min(1.0, (high + canaries / guesses * float(price @ delta)) * _ROUND_OFF))


def _proved(
    wrong: int, guesses: int, epsilon: FloatArray, price: FloatArray, theta: FloatArray
) -> npt.NDArray[np.bool_]:
    """Returns, for each theta, whether (2) holds, by the pass: ``value`` is omega_k - theta, plus 1 while k <= wrong.

    The pass starts at a k where the binomial of the smallest epsilon gives omega in closed form, since no excess is
    bought below it.
    """
    ratio, prices = np.exp(epsilon), np.cumsum(price)
    paid = np.cumsum(price * ratio)
    start, omega = _start(wrong, guesses, float(epsilon[0]), float(prices[0]), theta)
    open_, proved = np.ones(len(theta), dtype=bool), np.zeros(len(theta), dtype=bool)
    for k in range(start, guesses + 1):
        # 1e-15 covers most of the rounding of ω (three products, a difference, a quotient); ``_ROUND_OFF`` the rest.
        value = omega * (1 + 1e-15) - theta + (1.0 if k <= wrong else 0.0)
        if k > wrong:
            proved |= open_ & (value <= 0.0)
        if k == guesses:
            break
        share = (guesses - k) / guesses
        at = np.searchsorted(prices, value / share)  # buys at all points whose price is below the value of a unit
        open_ &= ~proved & (at < len(prices))
        if not open_.any():
            break
        at = np.minimum(at, len(prices) - 1)
        top = value * ratio[at] - share * (prices[at] * ratio[at] - paid[at])
        omega = np.where(open_, (k + 1) / (guesses - k) * top, 0.0)
    return proved


def _start(wrong: int, guesses: int, epsilon: float, price: float, theta: FloatArray) -> tuple[int, FloatArray]:
    """Returns the first k that the pass visits, and omega at that k, for each theta."""
    start, _ = _window(wrong, guesses)
    if start > 0:
        miss, k = float(special.expit(-epsilon)), start - 1
        mass = math.exp(float(_log_mass(np.array(float(k)), guesses, miss)))
        below = float(special.betainc(guesses - k, k + 1, 1 - miss))
        if mass > 1e-280:
            value = (1 - theta) * below / mass * _ROUND_OFF
            # the left side increases with k and the right side decreases, so it holds for all smaller k too
            if np.all(value <= price * (guesses - k) / guesses):
                return start, start / (guesses - k) * math.exp(epsilon) * value
    return 0, np.zeros(len(theta))
