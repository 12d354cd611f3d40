"""The events of banded matrix mechanisms whose contributions come from secret samples.

Let C be lower triangular with at most b bands, so that the contribution of step i reaches the rows i … i + b − 1 only.
If two participations of a record are b or more steps apart, they share no row. Each is then an access of its own to C·x
with Gaussian noise, of sensitivity ‖C_i‖, that the record makes or not by a coin that nobody sees. Other records'
contributions may depend on all earlier outputs: they are the same function of the outputs in both worlds.

* Groups in turn (BandMF: Choquette-Choo et al. 2023). Records are divided into b groups, each by a choice of its own,
  and step i samples group i mod b: at most ⌈T/b⌉ accesses to a Poisson sample of the group.
* Separated samples (Dong & Ganesh 2026). A record joins each step with probability p unless it did so in one of the
  last b − 1. Here is a bound of our own. The gaps between its steps have the generating function g(z) =
  p·z^b/(1 − (1−p)z). Let 0 < q ≤ 1 and a = (1−q)p/q. The series h(z) = 1/(1 − (1−p)z + a·z^b) has no negative
  coefficient if a ≤ (1−p)^b·(b−1)^(b−1)/b^b: with r = (1−p)(b−1)/b, h_n ≥ r·h_{n−1} for all n, by induction on
  h_n = (1−p)·h_{n−1} − a·h_{n−b}. Then f = (p/q)·z^b·h is the law of a gap of at least b, and g = q·f/(1 − (1−q)f): the
  record's steps are those of a renewal process with gaps f, each kept with probability q by a coin of its own. That
  process depends on nothing else and may be published: a Poisson sample of rate q at each of its N ≤ ⌈T/b⌉ steps. With
  d the law of its first step, P(N ≥ j) ≤ z^(1−T)·d(z)·f(z)^(j−1) for each z in (0, 1].

A group of records is charged record by record, because their participations may share rows.
"""

from __future__ import annotations

import math

import numpy as np
from attrs import field, frozen

from hockeystick.accounting import field_checks, validate
from hockeystick.accounting.adjacency import Adjacency
from hockeystick.accounting.errors import InvalidArgumentError
from hockeystick.accounting.events.basic.built_event import BuiltEvent
from hockeystick.accounting.events.basic.checked_event import is_event
from hockeystick.accounting.events.basic.composition import VisibleMixture, compose
from hockeystick.accounting.events.basic.event import NO_EVENT, Array, PrivacyEvent
from hockeystick.accounting.events.basic.group_steps import chain
from hockeystick.accounting.events.noise.gaussian_laplace import Gaussian
from hockeystick.accounting.events.sampling.allocation import RandomAllocation
from hockeystick.accounting.events.sampling.poisson import PoissonSampled
from hockeystick.accounting.losses.dominating_pairs import DominatingPair
from hockeystick.accounting.losses.loss_grid import LossPmf

_TAILS = (1e-4, 1e-9)  # probabilities of more steps than are charged in full


@frozen
class RecordByRecord(BuiltEvent):
    """An access that costs ``event`` for one record, and for a group of g records a chain of g of them.

    It is for accesses whose ``at(g)`` would assume that all records of a group take part at the same places.

    Attributes:
      event: the cost for one record that is added, removed or replaced by null.

    Example:
      >>> from hockeystick.accounting import Gaussian, RecordByRecord, chain
      >>> RecordByRecord(Gaussian(2.0)).at(3) == chain(RecordByRecord(Gaussian(2.0)), 3)
      True
    """

    event: PrivacyEvent = field(validator=is_event)
    adjacencies = frozenset({Adjacency.ADD_OR_REMOVE_ONE, Adjacency.REPLACE_WITH_NULL})

    def restated(self) -> PrivacyEvent:
        """Returns ``event``, as which one record is charged."""
        return self.event

    @property
    def method(self) -> str:
        """The name of the bound, which is that of ``event``: none."""
        return ""

    def _scaled(self, distance: float) -> PrivacyEvent:
        return chain(self, math.ceil(distance))

    def directions(self) -> tuple[PrivacyEvent, ...]:
        return self.event.directions()

    def failure_delta(self) -> float:
        return self.event.failure_delta()

    def pure_epsilon(self) -> float:
        return self.event.pure_epsilon()

    def zcdp_rho(self) -> float:
        return self.event.zcdp_rho()

    def _rdp(self, orders: Array) -> Array:
        return self.event.rdp(orders)

    def pair(self) -> DominatingPair | None:
        return self.event.pair()

    def loss_support(self) -> tuple[float, float]:
        return self.event.loss_support()

    def _loss_law(self, step: float, upper: bool) -> LossPmf:
        return self.event.loss_law(step, upper)


def banded_matrix_mechanism(
    steps: int,
    *,
    bands: int,
    noise_multiplier: float,
    groups: int | None = None,
    sampling_rate: float | None = None,
    participations: int | None = None,
) -> PrivacyEvent:
    """Returns the event of a banded matrix mechanism on samples of groups that take turns (BandMF).

    Records are divided into ``groups``, and step i samples group i mod ``groups``. The group of a record may depend on
    the record and on public or secret coins (its hash, a draw of its own), never on other records. Groups of equal
    sizes, by sorting or by a permutation, depend on the number of records: then only replace-with-null is sound.

    Args:
      steps: T.
      bands: the number of bands of C, which is lower triangular: C_ij = 0 for i ≥ j + ``bands``.
      noise_multiplier: the standard deviation of each entry's noise, per unit of clip × the longest column of C.
      groups: their number, at least ``bands``; by default ``bands``.
      sampling_rate: the probability q with which a record of the step's group joins the step. Of N records, N·q/groups
        are expected in a batch.
      participations: instead, each record takes part in exactly so many of its group's steps, all sets equally likely.

    Returns:
      ⌈T/groups⌉ times ``PoissonSampled(q, Gaussian(noise_multiplier))``, or ``RandomAllocation`` of the given
      participations among ⌊T/groups⌋ steps (a group with one step more costs less). It is a ``RecordByRecord``.

    Raises:
      InvalidArgumentError: an argument outside its domain, fewer groups than bands, more participations than a group
        has steps, or not exactly one of ``sampling_rate`` and ``participations``.

    Example: 2000 steps, 8 bands, and batches of 1 % of the records.

      >>> from hockeystick.accounting import banded_matrix_mechanism, epsilon
      >>> event = banded_matrix_mechanism(2000, bands=8, noise_multiplier=4.0, sampling_rate=0.08)
      >>> print(f"{epsilon(event, 1e-6):.3f}")
      1.436
    """
    total, width = _integer("steps", steps), _integer("bands", bands)
    turns = width if groups is None else _integer("groups", groups)
    access = Gaussian(field_checks.noise_multiplier(noise_multiplier))
    if turns < width:
        raise InvalidArgumentError(
            "groups",
            turns,
            f"is below bands={width}: two steps of a group then share rows of C",
            "give at least as many groups as bands, or charge matrix_mechanism without sampling",
        )
    if (sampling_rate is None) == (participations is None):
        raise InvalidArgumentError(
            "sampling_rate", sampling_rate, f"and participations={participations!r}: give exactly one of them"
        )
    if sampling_rate is not None:
        sample = PoissonSampled(field_checks.probability(sampling_rate), access)
        return RecordByRecord(compose((sample, -(-total // turns))))
    assert participations is not None
    chosen, least = _integer("participations", participations), total // turns
    if chosen > least:
        raise InvalidArgumentError(
            "participations",
            chosen,
            f"is above the {least} steps of the smallest group",
            "give fewer participations or fewer groups",
        )
    return RecordByRecord(RandomAllocation(least, chosen, access))


def min_separated_matrix_mechanism(
    steps: int,
    *,
    separation: int,
    sampling_rate: float,
    noise_multiplier: float,
    bands: int | None = None,
    warm_start: bool = True,
) -> PrivacyEvent:
    """Returns the event of a banded matrix mechanism on b-min-separated samples.

    In each step a record joins with probability p = ``sampling_rate`` unless it did so in one of the last b − 1 steps,
    b = ``separation``, independently of other records. The published analysis (Dong & Ganesh 2026) is by Monte Carlo;
    this is a certified bound: see the module. It is never above that without amplification, ⌈T/b⌉ accesses.

    Args:
      steps: T.
      separation: b, at least ``bands``; 1 is Poisson sampling.
      sampling_rate: p. Of N records, N·p/(1 + (b−1)p) are expected in a batch.
      noise_multiplier: the standard deviation of each entry's noise, per unit of clip × the longest column of C.
      bands: the number of bands of C; by default ``separation``.
      warm_start: whether the first step is like all others, as if there had been steps before it. If not, all records
        may join it.

    Raises:
      InvalidArgumentError: an argument outside its domain, or more bands than the separation.

    Example: without amplification, 16 accesses need 1.766.

      >>> from hockeystick.accounting import epsilon, min_separated_matrix_mechanism
      >>> event = min_separated_matrix_mechanism(64, separation=4, sampling_rate=0.02, noise_multiplier=10.0)
      >>> print(f"{epsilon(event, 1e-6):.3f}")
      0.248
    """
    total, b = _integer("steps", steps), _integer("separation", separation)
    p, access = field_checks.probability(sampling_rate), Gaussian(field_checks.noise_multiplier(noise_multiplier))
    if bands is not None and _integer("bands", bands) > b:
        raise InvalidArgumentError(
            "bands",
            bands,
            f"is above separation={b}: two steps of a record then share rows of C",
            "give a separation of at least the number of bands, or charge matrix_mechanism without sampling",
        )
    if p == 0.0:
        return NO_EVENT
    most = -(-total // b)
    if b == 1:
        return RecordByRecord(compose((PoissonSampled(p, access), most)))
    q = retention(p, b)
    part = PoissonSampled(q, access)
    counts = [*(_count_below(total, b, p, q, warm_start, tail) for tail in _TAILS), most]
    # N exceeds counts[i] with probability at most tails[i]; more steps cost more, and N is public.
    rest: PrivacyEvent = NO_EVENT
    for i in range(len(_TAILS), 0, -1):
        if counts[i] > counts[i - 1]:
            rest = compose((part, counts[i] - counts[i - 1]), rest)
        ratio = _TAILS[i - 1] / (_TAILS[i - 2] if i > 1 else 1.0) * (1 + 2.0**-40)  # the quotient is off by U
        rest = VisibleMixture(ratio, rest) if rest != NO_EVENT else rest
    return RecordByRecord(compose((part, counts[0]), rest))


def retention(sampling_rate: float, separation: int) -> float:
    """Returns the least q, rounded up, for which b-min-separated steps are known to be a Poisson sample of rate q.

    It is p/(p + m), m = (1−p)^b·(b−1)^(b−1)/b^b: p for b = 1, and about e·b·p for small p and large b; see the module.

    Raises:
      InvalidArgumentError: the rate is not in [0, 1], or the separation not an integer ≥ 1.

    Example:
      >>> from hockeystick.accounting import retention
      >>> retention(0.25, 1), round(retention(0.001, 10), 4)
      (0.25, 0.0254)
    """
    p, b = field_checks.probability(sampling_rate), _integer("separation", separation)
    if b == 1 or p in (0.0, 1.0):
        return p
    # Round-off: logarithms are off by 2 U of themselves, and b multiplies that; 1e-14 is 90 U.
    m = math.exp(b * math.log1p(-p) + (b - 1) * math.log1p(-1 / b) - math.log(b)) * (1 - 1e-14 * b)
    return min(1.0, p / (p + max(m, 0.0)) * (1 + 2.0**-40))  # sum and quotient are off by U each


def _count_below(steps: int, b: int, p: float, q: float, warm: bool, tail: float) -> int:
    """Returns a j such that there are more than j steps of the renewal process with probability at most ``tail``."""
    rates = np.concatenate([[0.0], np.geomspace(1e-9, 50.0, 400)])  # s = −ln z
    a = (1.0 - q) * p / q
    z = np.exp(-rates)
    # 1 − (1−p)z + a·z^b, and 1 − z, without cancellation at small s
    gone = -np.expm1(-rates)
    below = p * z + gone + a * np.exp(-b * rates)
    log_f = math.log(p / q) - b * rates - np.log(below)
    if warm:
        mean = q * (b - 1 + 1 / p)
        with np.errstate(divide="ignore", invalid="ignore"):
            log_d = np.where(rates > 0.0, np.log(-np.expm1(log_f)) - np.log(mean * gone), 0.0)
    else:
        log_d = math.log(p / q) - np.log(below)
    start = (steps - 1) * rates + log_d + 1e-6  # far more than all rounding
    target = math.log(tail)
    low, high = 0, -(-steps // b)  # N > high is impossible
    while low < high:  # the least j with a bound on P(N ≥ j + 1) below the tail
        middle = (low + high) // 2
        low, high = (low, middle) if float(np.min(start + middle * log_f)) <= target else (middle + 1, high)
    return low


def _integer(name: str, value: int) -> int:
    return validate.integer(name, value, low=1, high=2**40)
