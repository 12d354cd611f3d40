"""A simultaneous lower band for all order statistics of a uniform sample, with the same exact level for each.

Let U_(1) <= ... <= U_(n) be the order statistics of n independent uniform numbers; U_(k) has the law Beta(k, n-k+1).
The band U_(k) >= l_k for all k, with l_k the eta-quantile of that law, gives every k the same chance eta of a miss, so
it is as sharp in the tails as in the middle; that of Dvoretzky, Kiefer and Wolfowitz (Massart 1990) is not. With c of n
outputs in the event "score >= t" of unknown probability P(t), P(t) >= l_c for all t at once (l_0 = 0): scores are a
nonincreasing function of uniform numbers U such that score >= t if and only if U <= P(t) (quantile transform, ties or
not), so U_(c) <= P(t). l_c is the Clopper-Pearson bound at level eta.

The probability of any miss follows from the count N(t) = #{U_i <= t}, which has to stay below k at l_k. Given its total
n, N is a Poisson process of rate n, whose increments are independent (Moscovich and Nadler 2017). So there is one
convolution for each k, and the mass that crosses the band is weighted with the probability of reaching n from there.
All terms are positive, so that small levels keep their relative accuracy.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy import special

from hockeystick.accounting.arrays import FloatArray

MOST_EXACT = 10_000
"""The largest sample size for which the exact level is computed, which takes about a second."""

_TRIMMED = 1e-26  # mass of counts far below the band that is dropped, and added to the result
_EVERY = 16  # steps between two trims
_ROUND_OFF = 1e-13  # relative, per step: above that of a convolution of positive terms


def crossing_probability(low: FloatArray) -> float:
    """Returns Pr[U_(k) < low[k - 1] for some k], n = len(low), never below the truth and above it by less than 1e-8.

    Args:
      low: nondecreasing, in [0, 1).
    """
    n = len(low)
    rates = n * np.diff(low, prepend=0.0)
    widths = (rates + 10 * np.sqrt(rates) + 30).astype(np.int64)
    log_factorial = special.gammaln(np.arange(max(n, int(widths.max())) + 2) + 1.0)
    log_rates = np.log(np.maximum(rates, 1e-300))
    log_whole = n * math.log(n) - n - float(log_factorial[n])  # log Pr[N(1) = n]
    state, first, missed = np.ones(1), 0, 0.0
    given_up = float(special.pdtrc(widths - 1, rates).sum())
    for k in range(n):
        jumps = np.arange(widths[k])
        state = np.convolve(state, np.exp(jumps * log_rates[k] - rates[k] - log_factorial[: widths[k]]))
        allowed = k + 1 - first  # counts first, ..., k
        if len(state) > allowed:
            left = n - np.arange(first + allowed, min(first + len(state), n + 1))
            rest = n * (1.0 - low[k])
            to_n = np.exp(left * math.log(rest) - rest - log_factorial[left] - log_whole)
            missed += float(state[allowed : allowed + len(left)] @ to_n)
            state = state[:allowed]
        if k % _EVERY == 0:
            drop = int(np.searchsorted(np.cumsum(state), _TRIMMED))
            given_up += _TRIMMED if drop else 0.0
            state, first = state[drop:], first + drop
    # n! <= e sqrt(n) (n/e)^n: given N(1) = n, the dropped mass is at most that much likelier
    return min(1.0, missed * (1 + _ROUND_OFF * (n + 100)) + given_up * math.e * math.sqrt(n))


@lru_cache(maxsize=256)
def equal_level(n: int, alpha: float) -> float:
    """Returns the largest eta (within 0.3 %) at which the band misses any of n order statistics with at most ``alpha``.

    Args:
      n: at most ``MOST_EXACT``.
      alpha: in [1e-15, 1).
    """
    best, ratio = alpha / n, min(float(n), 4.0 + 4.0 * math.log(n))
    eta = alpha / ratio
    for _ in range(12):
        found = crossing_probability(lower_bounds(np.arange(1, n + 1), n, eta))
        if found <= alpha:
            best = max(best, eta)
            if found >= 0.997 * alpha:
                break
        # A step of the search, to just below the level; ``best`` has met it.
        eta *= 0.9985 * alpha / found
    return best


def lower_bounds(counts: npt.NDArray[np.int64], n: int, eta: float) -> FloatArray:
    """Returns the band's lower bounds on the probabilities of events that happened ``counts`` times out of n."""
    c = np.maximum(counts, 1).astype(float)
    return np.asarray(np.where(counts > 0, special.betaincinv(c, n - c + 1, eta), 0.0))
