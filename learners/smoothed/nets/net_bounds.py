"""How good a synthetic net is: bounds for the exponential mechanism over multisets of a public random sub-domain.

The error has four parts: chi, how far the data are from some sigma-smooth law; gamma_1, how well the M public points
can imitate that law; gamma_2, how well m of them can; and what the private choice costs.

*Domain reduction.* Accepting each public point x with probability sigma p(x) turns the accepted ones into independent
draws from the law of density p <= 1/sigma against the base measure. M = ceil(4 k/sigma) points yield k of them but for
a chance of e^(-9 k/8), by Chernoff. The printed e^(-M) is false: with k = 1 and sigma = 0.1 the chance is 0.0148.

*The private choice* falls short of the best candidate by more than (2 w/(epsilon n)) (ln |C| + t) with probability at
most e^-t, for |C| candidates and queries that range over a width w; the printed tail has the wrong sign, and 4 stands
for 2 w. Nothing here concerns privacy, which rests on no smoothness.

Sources: Haghtalab, Roughgarden & Shetty 2020, Lemma G.3 and Theorem G.4, corrected; Vapnik & Chervonenkis 1971;
Massart 1990; McSherry & Talwar 2007.
"""

import math

import numpy as np
import numpy.typing as npt
from attrs import field, frozen

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import BoolArray
from hockeystick.accounting.validate import array, boolean, integer, probability, real

_MOST_POINTS = 10**6  # of a sub-domain that is planned
_FEW_POINTS = 2**30
_FEW_TERMS = 64


def smoothness(value: object) -> float:
    """sigma in (0, 1]: densities against the base measure are at most 1/sigma."""
    return real("sigma", value, low=0.0, high=1.0, low_open=True)


def labelled_smoothness(sigma: float) -> float:
    """sigma/2: the smoothness of pairs (x, y) against mu x Unif{0, 1} if x is sigma-smooth against mu.

    The density of a pair may be all of its point's, p(x, y) <= p(x) <= mu(x)/sigma, and its base mass is mu(x)/2.
    """
    return smoothness(sigma) / 2.0


def domain_size(accepted: int, sigma: float) -> int:
    """M = ceil(4 k/sigma): so many public points hold k draws of any sigma-smooth law, see ``shortfall``."""
    points = 4 * integer("accepted", accepted, low=1) / smoothness(sigma)
    if math.isinf(points):
        raise InvalidArgumentError("sigma", sigma, "asks for more points than a float counts", "give a larger one")
    return math.ceil(points)


def shortfall(accepted: int) -> float:
    """e^(-9 k/8): a bound on the chance that ceil(4 k/sigma) public points hold fewer than k draws of the law."""
    return math.exp(-9.0 * integer("accepted", accepted, low=1) / 8.0)


def accepted_points(density: npt.ArrayLike, sigma: float, rng: np.random.Generator) -> BoolArray:
    """Which public points stand for draws from the law of density p against the base measure: each with chance sigma p.

    The coupling of the domain reduction, for checks; no algorithm needs it.

    Args:
        density: p at the public points, shape (..).
        sigma: In (0, 1].
        rng: The coins.

    Raises:
        InvalidArgumentError: p exceeds 1/sigma somewhere: the law is not that smooth.
    """
    smooth = smoothness(sigma)
    chance = smooth * array("density", density, low=0.0)
    if (chance > 1.0 + 1e-12).any():
        raise InvalidArgumentError(
            "density", float(chance.max() / smooth), f"exceeds 1/sigma = {1.0 / smooth:g}", "take a smaller sigma"
        )
    return np.asarray(rng.random(chance.shape) < chance)


def log_growth(vc_dimension: int, points: int) -> float:
    """ln of Sauer's bound on how many ways a class labels so many points, sum over i <= d of C(points, i).

    For d above 64 it is at most (e k/d)^d, and 2^k: the sum itself has millions of digits.
    """
    d, k = integer("vc_dimension", vc_dimension, low=1), integer("points", points, low=1)
    if min(d, k) > _FEW_TERMS:
        labels = k * math.log(2.0)
        # ln is off by 2 U and by U of 1 for its quotient; sum and products by U each: 6 of the 10 U.
        return (labels if d >= k else min(labels, d * (1.0 + math.log(k / d)))) * (1 + 1e-15)
    return math.log(sum(math.comb(k, i) for i in range(min(d, k) + 1)))


def sample_deviation(vc_dimension: int, draws: int, failure: float, *, thresholds: bool = False) -> float:
    """Of k independent draws: the largest gap over a class stays below this but for a chance of ``failure``.

    sqrt(ln(2/failure)/(2 k)) for thresholds (Massart 1990), sqrt(8 (ln 4 Pi(2 k) - ln failure)/k) in general (Vapnik &
    Chervonenkis 1971). For predicates; queries of range width w deviate w times as far.

    Raises:
        InvalidArgumentError: an argument outside its domain.
    """
    k, eta = integer("draws", draws, low=1), probability("failure", failure, open=True)
    if boolean("thresholds", thresholds):
        return math.sqrt(math.log(2.0 / eta) / (2.0 * k))
    return math.sqrt(8.0 * (log_growth(vc_dimension, 2 * k) + math.log(4.0 / eta)) / k)


def net_gap(vc_dimension: int, size: int, *, thresholds: bool = False) -> float:
    """A gap over a class within which every law has some multiset of m points of its support.

    1/(2 m) for thresholds, by quantiles. In general the least gap at which m draws fail with a chance below 1, so that
    some m points do not; capped at 1.

    Raises:
        InvalidArgumentError: an argument outside its domain.
    """
    m = integer("size", size, low=1)
    if boolean("thresholds", thresholds):
        return 0.5 / m
    # A chance below 1.
    return min(1.0, sample_deviation(vc_dimension, m, 1.0 - 2.0**-40))


def log_multisets(points: int, size: int) -> float:
    """ln |C| = ln C(M + m - 1, m): of all multisets of m out of M points; a bound on it beyond 2^30 points."""
    m, last = integer("size", size, low=1), integer("points", points, low=1) - 1
    if m + last > _FEW_POINTS:  # differences of logarithms of factorials are round-off, and then no floats
        less, more = sorted((m, last))
        found = less * math.log(more + less) - math.lgamma(less + 1)
        share = less / (more + less)
        return found if share < 1e-9 else min(found, less * -math.log(share) + more * -math.log1p(-share))
    return math.lgamma(m + last + 1) - math.lgamma(m + 1) - math.lgamma(last + 1)


def choice_error(*, log_candidates: float, records: int, epsilon: float, failure: float, width: float = 1.0) -> float:
    """(2 w/(epsilon n)) (ln |C| - ln failure): how far the private choice falls short of the best, but for ``failure``.

    Raises:
        InvalidArgumentError: an argument outside its domain.
    """
    n, eps = integer("records", records, low=1), real("epsilon", epsilon, low=0.0, low_open=True)
    logs, w = real("log_candidates", log_candidates, low=0.0), real("width", width, low=0.0, low_open=True)
    return 2.0 * w / (eps * n) * (logs - math.log(probability("failure", failure, open=True)))


@frozen(kw_only=True)
class NetBound:
    """max over q of |q(data) - q(net)| <= ``total`` but for a chance of ``failure``, over public and secret coins.

    Attributes:
        accepted: k, draws of the smooth law that the sub-domain holds.
        points: M = ceil(4 k/sigma), points of the sub-domain.
        size: m, points of the net.
        chi: How far the data are from a sigma-smooth law, over the class.
        domain: gamma_1, what imitating that law by the sub-domain costs.
        net: gamma_2, what imitating it by m points costs.
        choice: What the private choice costs.
        failure: eta + e^(-9 k/8).
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
        """chi + gamma_1 + gamma_2 + the choice's."""
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
    """The corrected bound of Theorem G.4: half of ``failure`` goes to the sub-domain, half to the private choice.

    Args:
        vc_dimension: d of the class.
        sigma: Smoothness of the law near the data; sigma/2 for labelled pairs, see ``labelled_smoothness``.
        accepted: k.
        size: m.
        records: n, public.
        epsilon: Of the choice.
        failure: eta in (0, 1).
        width: w, of the queries' range: 1 for {0, 1}, 2 for {-1, 1}.
        chi: How far the data are from a sigma-smooth law, over the class, in the queries' own range.
        thresholds: The class is that of thresholds on the line, where gamma_1 and gamma_2 are smaller.

    Raises:
        InvalidArgumentError: an argument outside its domain.
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
    """The k and m of least bound, by public inputs alone: powers of 2^(1/4), sub-domains of up to 10^6 points.

    Args: as for ``net_bound``.

    Raises:
        InvalidArgumentError: an argument outside its domain, or no k and m whose bound is below the queries' width.
    """
    most = max(1, int(_MOST_POINTS * smoothness(sigma) / 4.0))
    sizes = sorted({round(2.0 ** (i / 4.0)) for i in range(4 * 20)})

    def bound(accepted: int, size: int) -> NetBound:
        return net_bound(
            vc_dimension=vc_dimension,
            sigma=sigma,
            accepted=accepted,
            size=size,
            records=records,
            epsilon=epsilon,
            failure=failure,
            width=width,
            chi=chi,
            thresholds=thresholds,
        )

    best = bound(1, 1)
    for accepted in (k for k in sizes if k <= most):
        for size in sizes:
            found = bound(accepted, size)
            if found.total < best.total:
                best = found
            if found.choice > min(best.total, best.width):  # and more so for larger nets
                break
    if best.total >= best.width or best.failure >= 1.0:
        raise InvalidArgumentError(
            "records",
            records,
            f"is too few: the bound is {best.total:.3g}, as good as none",
            "give more, or a larger ε",
        )
    return best
