"""Parameters of Fed-SVT for a given privacy budget: the number of switches, the threshold and the learning rate.

All of them are public: they depend on m, T, N, d, the privacy target, the expected loss of the best expert, and the
probability rho that they are too small. The privacy guarantee does not depend on whether they suffice.

*Switches.* Give each expert the weight exp(-eta*score/2), and let W be the sum. As long as one expert loses at most
m*Lstar, the least score, W stays above 1/d of its first value, and the run falls into at most s = ceil(log2 d)
stretches, of which each but the last ends when W has halved. Within a stretch the experts that the learner will still
leave, whose weights fall by e^2, hold at most 1/(2 (1 - e^-2)) of W. So each switch of a stretch except the first has
at most that probability: the total is at most s plus a negative binomial number. The losses must not depend on the
draws.

*Threshold.* A test compares the sum of a window with the threshold; its error is the difference of two noises. Of K
tests one errs by more than the margin A with probability at most K P(|difference| > A), although they are dependent.
With L = m*Lstar + A + 4/eta the learner leaves an expert only after it has lost enough.

Sources: Gao, Huang & Yang 2024, Lemmas 12 and 13; Asi, Feldman, Koren & Talwar 2023; Dwork & Roth 2014, Theorem 3.24.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, get_args

from attrs import frozen
from scipy import optimize, stats

from hockeystick.accounting import InvalidArgumentError, PrivacyEvent
from hockeystick.accounting import epsilon as least_epsilon
from hockeystick.accounting.numerics.directed_rounding import quotient_up
from hockeystick.accounting.validate import integer, one_of, probability, real
from hockeystick.learners.common import arguments
from hockeystick.learners.federated.one_good_expert.plan import printed_approximate, printed_pure
from hockeystick.mechanisms.contract.arguments import target_epsilon

Budget = Literal["printed", "safe", "negative binomial"]
Margin = Literal["printed", "proved", "tight"]

FURTHER = 1.0 / (2.0 * -math.expm1(-2.0))
"""The largest probability of one more switch, after the first, before the weights are halved."""


def switch_budget(experts: int, rho: float, *, form: Budget = "negative binomial") -> int:
    """Returns a number of switches that suffices with probability 1 - rho, if one expert loses at most m*Lstar.

    Args:
        experts: d >= 2.
        rho: In (0, 1).
        form: "printed": 3 ceil(ln d) + 24 ln(1/rho), which the printed proof does not prove for large d. "safe":
            9 ceil(log2 d) + 24 ln(1/rho), which it proves. "negative binomial": the exact quantile of the dominating
            law; the least of the three.

    Raises:
        InvalidArgumentError: an argument outside its domain.
    """
    d, beyond = arguments.experts(experts), probability("rho", rho, open=True)
    s, tail = (d - 1).bit_length(), math.ceil(24.0 * -math.log(beyond))
    one_of("form", form, *get_args(Budget))
    if form == "printed":
        return 3 * math.ceil(math.log(d)) + tail
    if form == "safe":
        return 9 * s + tail
    budget = int(stats.nbinom.isf(beyond, s, 1.0 - FURTHER))
    while stats.nbinom.sf(budget, s, 1.0 - FURTHER) > beyond:
        budget += 1
    return s + budget


def log_tail(margin: float, threshold_scale: float, query_scale: float) -> float:
    """Returns ln P(X + Y > ``margin``) for independent Laplace X and Y of the two scales, exactly; margin >= 0."""
    t = real("margin", margin, low=0.0)
    b1, b2 = _scales(threshold_scale, query_scale)
    small, large = min(b1, b2), max(b1, b2)
    gap = t / small - t / large
    if large - small <= 1e-6 * large:
        # For equal scales it is (2 + t/b) exp(-t/b)/4, which grows with the scale: the larger scale is the safe one.
        return -t / large + math.log((2.0 + t / large) / 4.0)
    ratio = small / large
    return -t / large - math.log(2.0) + math.log1p(-(ratio**2) * math.exp(-gap)) - math.log1p(-(ratio**2))


def noise_margin(
    rho: float, *, tests: int, threshold_scale: float, query_scale: float, form: Margin = "tight"
) -> float:
    """Returns the margin A that bounds the errors of all tests with probability 1 - rho.

    Args:
        rho: In (0, 1).
        tests: K >= 1, the number of comparisons with a threshold: T/N.
        threshold_scale, query_scale: b1 and b2.
        form: "tight": the least A with K P(|noise| > A) <= rho, for any scales. "printed": b2 ln(2 K^2/rho), which is
            8 ln(2 T^2/(N^2 rho))/ε for the printed scales 4/ε and 8/ε. "proved": twice that, as the accuracy
            theorem of the printed proof requires. The last two are for these scales only. (The printed margin is
            enough: K P(|noise| > A) <= (2/3) rho/K. The theorem is loose.)

    Raises:
        InvalidArgumentError: an argument outside its domain, or a printed form for scales that are not 1 to 2.
    """
    beyond, count = probability("rho", rho, open=True), integer("tests", tests, low=1)
    b1, b2 = _scales(threshold_scale, query_scale)
    if one_of("form", form, *get_args(Margin)) != "tight":
        if not math.isclose(2.0 * b1, b2, rel_tol=1e-12):
            raise InvalidArgumentError("form", form, f"is for b2 = 2*b1, not for {b1:g} and {b2:g}", 'use "tight"')
        return (2.0 if form == "proved" else 1.0) * b2 * math.log(2.0 * count**2 / beyond)
    wanted = math.log(beyond) - math.log(2.0 * count)

    def excess(margin: float) -> float:
        return log_tail(margin, b1, b2) - wanted

    if excess(0.0) <= 0.0:
        return 0.0
    high = max(b1, b2)
    while excess(high) > 0.0:
        high *= 2.0
    found = float(optimize.brentq(excess, 0.0, high, xtol=1e-12 * high, rtol=1e-14))
    while excess(found) > 0.0:
        # brentq may stop on the wrong side; the loop ends where the bound itself is met.
        found *= 1.0 + 1e-12
    return found


def threshold_level(margin: float, *, clients: int, best_loss: float, learning_rate: float) -> float:
    """Returns L = m*Lstar + A + 4/eta: an expert that is left has lost m*Lstar + 4/eta or more, if noise is within A.

    Args:
        margin: A >= 0, see :func:`noise_margin`.
        clients: m >= 1.
        best_loss: Lstar >= 0, per client: an assumed bound on the best expert's loss in all rounds.
        learning_rate: eta > 0.

    Raises:
        InvalidArgumentError: an argument outside its domain.
    """
    m, floor = integer("clients", clients, low=1), real("best_loss", best_loss, low=0.0)
    return m * floor + real("margin", margin, low=0.0) + 4.0 / arguments.learning_rate(learning_rate)


def _scales(threshold_scale: float, query_scale: float) -> tuple[float, float]:
    return (
        real("threshold_scale", threshold_scale, low=0.0, low_open=True),
        real("query_scale", query_scale, low=0.0, low_open=True),
    )


@frozen(kw_only=True)
class SVTParameters:
    """The result of a calibration; see :class:`~hockeystick.learners.federated.one_good_expert.fed_svt.FedSVT`."""

    switches: int
    learning_rate: float
    threshold: float
    threshold_scale: float
    query_scale: float


def printed(
    *,
    clients: int,
    tests: int,
    experts: int,
    epsilon: float,
    delta: float,
    best_loss: float,
    rho: float,
    budget: Budget = "printed",
    margin: Margin = "printed",
) -> SVTParameters:
    """Returns the printed noise and learning rate for (ε, δ), with switches and threshold of these forms.

    Raises:
        InvalidArgumentError: an argument outside its domain.
    """
    kappa = switch_budget(experts, rho, form=budget)
    pure = real("delta", delta, low=0.0) == 0.0
    claim = printed_pure(epsilon, switches=kappa) if pure else printed_approximate(epsilon, delta, switches=kappa)
    given = dict(claim.constants)
    rate, b1, b2 = given["learning_rate"], given["threshold_scale"], given["query_scale"]
    room = noise_margin(rho, tests=tests, threshold_scale=b1, query_scale=b2, form=margin)
    level = threshold_level(room, clients=clients, best_loss=best_loss, learning_rate=rate)
    return SVTParameters(switches=kappa, learning_rate=rate, threshold=level, threshold_scale=b1, query_scale=b2)


def calibrate(
    *,
    clients: int,
    tests: int,
    experts: int,
    epsilon: float,
    delta: float,
    best_loss: float,
    rho: float,
    event: Callable[[SVTParameters], PrivacyEvent],
    group: int = 1,
) -> SVTParameters:
    """Returns equal noise on threshold and queries, and a learning rate, that nearly minimise 2A + 4/eta.

    A share e of ε goes to the thresholds, b1 = b2 = k/e for a group of k. The learning rate is nearly the largest whose
    certified ε at ``delta`` meets the target.

    Args:
        clients, experts: m and d.
        tests: T/N.
        epsilon, delta: The target, ε at least 1e-90; δ = 0 for a pure one.
        best_loss: Lstar.
        rho: Failure probability of the switch budget, and also of the margin.
        event: Returns the certified cost of given parameters to the group.
        group: k >= 1.

    Raises:
        InvalidArgumentError: an argument outside its domain.
    """
    target, failure = target_epsilon(epsilon), real("delta", delta, low=0.0, high=1.0)
    kappa = switch_budget(experts, rho)
    unit = noise_margin(rho, tests=tests, threshold_scale=1.0, query_scale=1.0)
    draws = min(kappa, tests)

    def parameters(share: float, rate: float) -> SVTParameters:
        scale = quotient_up(group, share * target)
        margin = noise_margin(rho, tests=tests, threshold_scale=scale, query_scale=scale)
        level = threshold_level(margin, clients=clients, best_loss=best_loss, learning_rate=rate)
        return SVTParameters(
            switches=kappa, learning_rate=rate, threshold=level, threshold_scale=scale, query_scale=scale
        )

    def guess(share: float) -> float:
        """A first guess of the learning rate: by pure or by concentrated DP."""
        pure = (1.0 - share) * target / draws / group
        if failure == 0.0:
            return pure
        log = -math.log(failure)
        rho_all = (math.sqrt(log + target) - math.sqrt(log)) ** 2
        left = rho_all - (share * target) ** 2 / 2.0
        return max(pure, math.sqrt(8.0 * left / draws) / group) if left > 0.0 else pure

    def cost(share: float) -> float:
        return 2.0 * unit * group / (share * target) + 4.0 / guess(share)

    share = float(optimize.minimize_scalar(cost, bounds=(0.01, 0.99), method="bounded").x)

    def fits(rate: float) -> bool:
        cost = event(parameters(share, rate))
        found = cost.pure_epsilon()
        if failure > 0.0:  # beside these two, profiles take long and gain nothing here
            found = min(found, least_epsilon(cost, failure, method="rdp").upper)
        return found <= target

    low = high = guess(share)
    while not fits(low):
        low *= 0.5
        if low < 1e-90:
            raise InvalidArgumentError(
                "epsilon", epsilon, f"no learning rate meets it at delta={failure:g}", "ask for a larger epsilon"
            )
    while fits(high) and high < 1e6 * guess(share):
        low, high = high, 2.0 * high
    for _ in range(16):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if fits(middle) else (low, middle)
    return parameters(share, low)
