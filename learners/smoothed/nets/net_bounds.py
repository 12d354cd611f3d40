"""Error bounds of a synthetic net: the exponential mechanism over multisets of a public random sub-domain.

The error has four parts: χ, the distance of the data from some σ-smooth law; γ_1, the error of the M public points as a
sample of that law; γ_2, the error of m of them; and the error of the private choice.

*Domain reduction.* If each public point x is accepted with probability σ p(x), the accepted ones are independent draws
from the law of density p <= 1/σ against the base measure. M = ceil(4 k/σ) points yield k of them except with
probability e^(-9 k/8), by Chernoff. The printed e^(-M) is false: for k = 1 and σ = 0.1 the probability is 0.0148.

*The private choice* falls short of the best candidate by more than (2 w/(ε n)) (ln |C| + t) with probability at most
e^-t, for |C| candidates and queries of range w; the printed tail has the wrong sign, and 4 in place of 2 w. These are
bounds on utility; privacy rests on no smoothness.

Sources: Haghtalab, Roughgarden & Shetty 2020, Lemma G.3 and Theorem G.4, corrected; Vapnik & Chervonenkis 1971;
Massart 1990; McSherry & Talwar 2007.
"""

import functools
import math

from attrs import field, frozen

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.validate import MOST, boolean, integer, probability, real
from hockeystick.learners.common import arguments

_MOST_POINTS = 10**6  # of a planned sub-domain
_FEW_POINTS = 2**30
_FEW_TERMS = 64


def labelled_smoothness(sigma: float) -> float:
    """Returns σ/2, the smoothness of pairs (x, y) against μ x Unif{0, 1} if x is σ-smooth against μ.

    A pair may have the whole density of its point, p(x, y) <= p(x) <= μ(x)/σ, and its base mass is μ(x)/2.
    """
    return arguments.sigma(sigma) / 2.0


def domain_size(accepted: int, sigma: float) -> int:
    """Returns M = ceil(4 k/σ), the number of points that contain k draws of a σ-smooth law, see ``shortfall``."""
    points = 4 * integer("accepted", accepted, low=1, high=MOST) / arguments.sigma(sigma)
    if math.isinf(points):
        raise InvalidArgumentError("sigma", sigma, "needs more points than a float can count", "use a larger sigma")
    return math.ceil(points)


def shortfall(accepted: int) -> float:
    """Returns e^(-9 k/8), a bound on the probability that ceil(4 k/σ) points contain fewer than k draws of the law."""
    return math.exp(-9.0 * integer("accepted", accepted, low=1, high=MOST) / 8.0)


def log_growth(vc_dimension: int, points: int) -> float:
    """Returns ln of Sauer's bound on the number of labellings of k points, the sum over i <= d of C(k, i).

    If d and k exceed 64, the smaller of (e k/d)^d and 2^k is used: the sum itself may have millions of digits.
    """
    d, k = integer("vc_dimension", vc_dimension, low=1), integer("points", points, low=1)
    if min(d, k) > _FEW_TERMS:
        labels = k * math.log(2.0)
        # ln is off by 2 U, and by U of 1 from its quotient; sum and products by U each: 6 U of the 10 U added.
        return (labels if d >= k else min(labels, d * (1.0 + math.log(k / d)))) * (1 + 1e-15)
    return math.log(sum(math.comb(k, i) for i in range(min(d, k) + 1)))


def sample_deviation(vc_dimension: int, draws: int, failure: float, *, thresholds: bool = False) -> float:
    """Returns a bound on the largest gap of k independent draws over a class, except with probability ``failure``.

    sqrt(ln(2/failure)/(2 k)) for thresholds (Massart 1990), sqrt(8 (ln 4 Π(2 k) - ln failure)/k) in general (Vapnik &
    Chervonenkis 1971). For predicates; the bound for queries of range w is w times larger.

    Raises:
        InvalidArgumentError: an argument outside its domain.
    """
    k, eta = integer("draws", draws, low=1), probability("failure", failure, open=True)
    if boolean("thresholds", thresholds):
        return math.sqrt(math.log(2.0 / eta) / (2.0 * k))
    return math.sqrt(8.0 * (log_growth(vc_dimension, 2 * k) + math.log(4.0 / eta)) / k)


def net_gap(vc_dimension: int, size: int, *, thresholds: bool = False) -> float:
    """Returns a gap over a class within which every law has a multiset of m points of its support.

    1/(2 m) for thresholds, by quantiles. In general the least gap that m draws exceed with probability below 1, so that
    some m points do not; at most 1.

    Raises:
        InvalidArgumentError: an argument outside its domain.
    """
    m = integer("size", size, low=1)
    if boolean("thresholds", thresholds):
        return 0.5 / m
    # A probability below 1.
    return min(1.0, sample_deviation(vc_dimension, m, 1.0 - 2.0**-40))


def log_multisets(points: int, size: int) -> float:
    """Returns ln C(M + m - 1, m), the number of multisets of m out of M points; an upper bound beyond 2^30 points."""
    m, last = integer("size", size, low=1), integer("points", points, low=1) - 1
    if m + last > _FEW_POINTS:  # differences of logarithms of factorials would be rounding errors, or overflow
        less, more = sorted((m, last))
        found = less * math.log(more + less) - math.lgamma(less + 1)
        share = less / (more + less)
        return found if share < 1e-9 else min(found, less * -math.log(share) + more * -math.log1p(-share))
    return math.lgamma(m + last + 1) - math.lgamma(m + 1) - math.lgamma(last + 1)


def choice_error(*, log_candidates: float, records: int, epsilon: float, failure: float, width: float = 1.0) -> float:
    """Returns (2 w/(ε n)) (ln |C| - ln failure), by which the private choice may fall short, except with ``failure``.

    Raises:
        InvalidArgumentError: an argument outside its domain.
    """
    n, eps = integer("records", records, low=1), real("epsilon", epsilon, low=0.0, low_open=True)
    logs, w = real("log_candidates", log_candidates, low=0.0), real("width", width, low=0.0, low_open=True)
    return 2.0 * w / (eps * n) * (logs - math.log(probability("failure", failure, open=True)))


@frozen(kw_only=True)
class NetBound:
    """A bound on max over q of |q(data) - q(net)|: at most ``total``, except with probability ``failure``.

    The probability is over public and secret coins. See :func:`net_bound`.

    Attributes:
        accepted: k, the number of draws of the smooth law that the sub-domain contains.
        points: M = ceil(4 k/σ), the number of points of the sub-domain.
        size: m, the number of points of the net.
        chi: χ, the distance of the data from a σ-smooth law, over the class.
        domain: γ_1, the error of the sub-domain.
        net: γ_2, the error of m points.
        choice: The error of the private choice.
        failure: η + e^(-9 k/8).
        width: w, the trivial bound.
    """

    accepted: int
    points: int
    size: int
    chi: float
    domain: float
    net: float
    choice: float
    failure: float
    width: float = field(default=1.0)

    @property
    def total(self) -> float:
        """The sum of χ, γ_1, γ_2 and the error of the choice."""
        return self.chi + self.domain + self.net + self.choice


def net_bound(
    *,
    vc_dimension: int,
    sigma: float,
    accepted: int,
    size: int,
    records: int,
    epsilon: float,
    failure: float,
    width: float = 1.0,
    chi: float = 0.0,
    thresholds: bool = False,
) -> NetBound:
    """Returns the corrected bound of Theorem G.4: half of η is for the sub-domain, half for the private choice.

    Args:
        vc_dimension: d of the class.
        sigma: The smoothness of the law near the data; σ/2 for labelled pairs, see ``labelled_smoothness``.
        accepted: k.
        size: m.
        records: n, public.
        epsilon: ε of the choice.
        failure: η in (0, 1).
        width: The range w of the queries: 1 for {0, 1}, 2 for {-1, 1}.
        chi: χ, the distance of the data from a σ-smooth law, over the class, in the queries' range.
        thresholds: Whether the class is that of thresholds on the line, for which γ_1 and γ_2 are smaller.

    Raises:
        InvalidArgumentError: an argument outside its domain.

    Example:
        >>> from hockeystick.learners.smoothed import net_bound
        >>> bound = net_bound(vc_dimension=1, sigma=0.1, accepted=738, size=20, records=10_000, epsilon=1.0,
        ...                   failure=0.1, thresholds=True)
        >>> bound.points, round(bound.domain, 3), round(bound.net, 3), round(bound.choice, 3)
        (29520, 0.05, 0.025, 0.033)
    """
    w, eta = real("width", width, low=0.0, low_open=True), probability("failure", failure, open=True)
    points = domain_size(accepted, sigma)
    return NetBound(
        accepted=accepted,
        points=points,
        size=size,
        chi=real("chi", chi, low=0.0),
        domain=w * sample_deviation(vc_dimension, accepted, eta / 2.0, thresholds=thresholds),
        net=w * net_gap(vc_dimension, size, thresholds=thresholds),
        choice=choice_error(
            log_candidates=log_multisets(points, size), records=records, epsilon=epsilon, failure=eta / 2.0, width=w
        ),
        failure=eta + shortfall(accepted),
        width=w,
    )


def plan_net(
    *,
    vc_dimension: int,
    sigma: float,
    records: int,
    epsilon: float,
    failure: float,
    width: float = 1.0,
    chi: float = 0.0,
    thresholds: bool = False,
) -> NetBound:
    """Returns the bound of the best k and m among powers of 2^(1/4), with sub-domains of up to 10^6 points.

    The choice depends on public inputs alone. For the arguments see :func:`net_bound`.

    Raises:
        InvalidArgumentError: an argument outside its domain, or no bound is below the queries' range.

    Example:
        >>> from hockeystick.learners.smoothed import plan_net
        >>> plan = plan_net(vc_dimension=1, sigma=0.1, records=10_000, epsilon=1.0, failure=0.1, thresholds=True)
        >>> plan.points, plan.size, round(plan.total, 3)
        (926800, 16, 0.079)
    """
    most = max(1, int(_MOST_POINTS * arguments.sigma(sigma) / 4.0))
    sizes = sorted({round(2.0 ** (i / 4.0)) for i in range(4 * 20)})

    bound = functools.partial(
        net_bound,
        vc_dimension=vc_dimension,
        sigma=sigma,
        records=records,
        epsilon=epsilon,
        failure=failure,
        width=width,
        chi=chi,
        thresholds=thresholds,
    )
    best = bound(accepted=1, size=1)
    by_size = [bound(accepted=1, size=size) for size in sizes]  # the error of a net depends on its size alone
    for accepted in (k for k in sizes if k <= most):
        mine = bound(accepted=accepted, size=1)
        for size, other in zip(sizes, by_size, strict=True):
            candidates = log_multisets(mine.points, size)
            choice = choice_error(
                log_candidates=candidates, records=records, epsilon=epsilon, failure=failure / 2.0, width=width
            )
            if mine.chi + mine.domain + other.net + choice < best.total:
                best = bound(accepted=accepted, size=size)
            if choice > min(best.total, best.width):  # larger for larger nets
                break
    if best.total >= best.width or best.failure >= 1.0:
        raise InvalidArgumentError(
            "records",
            records,
            f"is too few: the error bound is {best.total:.3g}, which is vacuous",
            "give more records, or a larger ε",
        )
    return best
