"""The event of integer noise with any law, given as a table of log-probabilities."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache
from typing import ClassVar

import numpy as np
from attrs import evolve, field, frozen

from hockeystick.accounting import validate
from hockeystick.accounting.errors import InvalidArgumentError, UnsupportedEventError
from hockeystick.accounting.events.basic.composition import parallel
from hockeystick.accounting.events.basic.event import Array, PrivacyEvent
from hockeystick.accounting.losses import integer_noise_tables
from hockeystick.accounting.losses.dominating_pairs import Atoms, DominatingPair
from hockeystick.accounting.losses.loss_grid import LossPmf
from hockeystick.accounting.numerics.directed_rounding import U

_ROUNDING = 1e-11  # a law counts as symmetric if it is this close to its mirror image


def _tail(value: float) -> float:
    return validate.real("tail", value, low=0.0, high=1.0)


def _log_pmf(value: Iterable[float]) -> tuple[float, ...]:
    raw = validate.array("log_pmf", list(value) if isinstance(value, Iterable) else value, ndim=1)
    if not 1 <= len(raw) <= integer_noise_tables.MAX_TABLE:
        remedy = f"give 1 to {integer_noise_tables.MAX_TABLE} entries"
        raise InvalidArgumentError("log_pmf", len(raw), "is not a possible number of entries", remedy)
    return tuple(float(x) + 0.0 for x in raw)


@frozen(cache_hash=True)
class IntegerNoise(PrivacyEvent):
    """Integer noise with any law, given by ln p on consecutive integers; the inputs are ``distance`` apart in L1.

    Each coordinate of the released integers has independent noise of that law. The failure consists of the outcomes
    that only one of the two laws has (the ends of the table), and of ``tail`` for each changed coordinate; the other
    curves hold outside it. So a table that is cut too early has a large δ, never a small ε.

    At distance 1, one coordinate of an integer vector changes by one, and any law is supported. Beyond, the law must be
    log-concave (up to 1e-9) and, unless a single integer is released, symmetric (up to 1e-11): the worst vector is then
    the shift of one coordinate by the whole distance, as proved in ``events/noise/integer_noise.py``. For changes in
    known coordinates compose one event for each, as in ``compose((noise.at(s), 2))`` for shifts by ±s of two counts.

    Attributes:
      log_pmf: ln p on an interval of integers, finite; the place of the interval does not matter.
      tail: a bound on the mass outside the table.
      distance: L1 distance between the noiseless integers, rounded up to an integer.
      coordinates: the number of released integers: 1, or None for any number.

    Example:
      >>> import numpy as np
      >>> from hockeystick.accounting import IntegerNoise
      >>> event = IntegerNoise(np.log([0.05, 0.2, 0.5, 0.2, 0.05]))
      >>> round(event.failure_delta(), 6), round(event.pure_epsilon(), 3)
      (0.05, 1.386)
    """

    log_pmf: tuple[float, ...] = field(converter=_log_pmf)
    tail: float = field(default=0.0, converter=_tail)
    distance: float = field(default=1.0, converter=integer_noise_tables.distance, kw_only=True)
    coordinates: int | None = field(default=None, converter=integer_noise_tables.coordinates, kw_only=True)
    norm: ClassVar[str] = "l1"

    def __attrs_post_init__(self) -> None:
        if max(self.log_pmf) > 1e-9:
            remedy = "give numbers ≤ 0"
            raise InvalidArgumentError("log_pmf", max(self.log_pmf), "is not the logarithm of a probability", remedy)
        total = math.fsum(map(math.exp, self.log_pmf))
        if not -self.tail - 1e-12 <= total - 1.0 <= 1e-12:
            remedy = "normalise it, and declare the mass outside as tail"
            raise InvalidArgumentError("log_pmf", total, f"does not add up to 1 within tail={self.tail:g}", remedy)
        if self._shift() > 1:
            log_p, fault = np.array(self.log_pmf), ""
            if (integer_noise_tables.hull(log_p) - log_p).max() > 1e-9:
                fault = "is not log-concave"
            elif self.coordinates != 1 and _asymmetry(log_p) > _ROUNDING:
                fault = "is not symmetric, for more than one integer"
            if fault:
                raise UnsupportedEventError(
                    f"noise with a law that {fault} has no rule at distance {self.distance:g}: "
                    "compose one event at distance 1 for each coordinate that changes by one"
                )

    def _shift(self) -> int:
        return integer_noise_tables.whole(self.distance)

    def _scaled(self, distance: float) -> PrivacyEvent:
        return evolve(self, distance=self.distance * distance)

    def failure_delta(self) -> float:
        return _conditional(self).failure

    def pure_epsilon(self) -> float:
        law = _conditional(self)
        return max((float(np.abs(losses).max()) for _, losses in law.ways if len(losses)), default=0.0)

    def _rdp(self, orders: Array) -> Array:
        a, law = np.asarray(orders, dtype=float), _conditional(self)
        out = np.zeros(a.shape)
        for log_p, losses in law.ways:
            if len(losses):
                out = np.maximum(out, integer_noise_tables.renyi(log_p, losses, a, log_error=law.error))
        return np.asarray(np.minimum(out + a / (a - 1) * law.slack, self.pure_epsilon()))

    def zcdp_rho(self) -> float:
        epsilon = self.pure_epsilon()
        if epsilon == 0.0:
            return 0.0
        general = 0.5 * epsilon * epsilon  # Bun & Steinke 2016, Prop. 1.4
        return min(general, _steepest_noise(self))

    def pair(self) -> DominatingPair | None:
        law = _conditional(self)
        return _atoms(*law.ways[0], law) if len(law.ways) == 1 else None

    def has_profile(self) -> bool:
        return True

    def loss_support(self) -> tuple[float, float]:
        return self._sides().loss_support()

    def _loss_law(self, step: float, upper: bool) -> LossPmf:
        return self._sides().loss_law(step, upper)

    def _sides(self) -> PrivacyEvent:
        return parallel(*(_OneSide(self, side) for side in range(len(_conditional(self).ways))))

    def sum_of(self, count: int) -> IntegerNoise:
        """Returns the sum of ``count`` independent draws, for example of the noise shares of honest participants.

        The law is convolved with itself directly, not by Fourier transforms, so that its tails keep their relative
        accuracy; the mass that is cut off is added to ``tail``.

        Raises:
          InvalidArgumentError: count is not an integer ≥ 1.
          UnsupportedEventError: the table would be too long.
        """
        left = validate.integer("count", count, low=1)
        square = np.exp(self.log_pmf), self.tail
        result = np.ones(1), 0.0
        while left:
            if left & 1:
                result = _convolve(result, square)
            left >>= 1
            if left:
                square = _convolve(square, square)
        p, tail = result
        with np.errstate(divide="ignore"):  # a gap in the law is refused below
            log_p = np.log(p)
        return evolve(self, log_pmf=tuple((log_p - math.log(math.fsum(p))).tolist()), tail=min(1.0, tail))


@frozen
class _OneSide(PrivacyEvent):
    """One direction of ``IntegerNoise`` with an asymmetric law."""

    noise: IntegerNoise
    side: int

    def pair(self) -> DominatingPair:
        law = _conditional(self.noise)
        return _atoms(*law.ways[self.side], law)


@frozen(eq=False)
class _Conditional:
    """A shift of one coordinate, given that the outcome is possible under both laws.

    Attributes:
      ways: ln P and the losses of the law against its shift and, if it is not symmetric, of the reverse.
      failure: the probability of the other outcomes.
      error: the error of ln P where one direction represents both.
      slack: the error of ln P, and of the losses, because the law is not exactly log-concave.
    """

    ways: tuple[tuple[Array, Array], ...]
    failure: float
    error: float
    slack: float


def _asymmetry(log_p: Array) -> float:
    return float(np.abs(log_p - log_p[::-1]).max())


@lru_cache(maxsize=64)
def _conditional(noise: IntegerNoise) -> _Conditional:
    log_p, shift = np.array(noise.log_pmf), noise._shift()
    slack = 0.0
    if shift > 1:
        # The law and its concave majorant, both normalised, agree within a factor e^η on each of ≤ shift coordinates.
        above = integer_noise_tables.hull(log_p)
        slack = 2 * shift * float((above - log_p).max())
        log_p = above - math.log(math.fsum(np.exp(above)) / math.fsum(np.exp(log_p)))
    # The ends are outcomes of one law only. ``tail`` counts once for each changed coordinate.
    ends = max(math.fsum(np.exp(log_p[:shift])), math.fsum(np.exp(log_p[-shift:])))
    failure = min(1.0, (ends + shift * noise.tail) * math.exp(slack) * (1 + 8 * U))
    if shift >= len(log_p):
        return _Conditional(((np.zeros(0), np.zeros(0)),), 1.0, 0.0, 0.0)
    asymmetry = _asymmetry(log_p)
    low, high = log_p[:-shift], log_p[shift:]
    less, more = math.log(math.fsum(np.exp(low))), math.log(math.fsum(np.exp(high)))

    def way(p: Array, q: Array, log_p_all: float, log_q_all: float, error: float) -> tuple[Array, Array]:
        losses = (p - q) + (log_q_all - log_p_all)
        return p - log_p_all, losses + 4 * U * (1 + np.abs(losses)) + slack + 2 * error

    if asymmetry <= _ROUNDING:
        off = (asymmetry + abs(less - more)) * (1 + 4 * U) + 4 * U  # the reverse has the normaliser of the other law
        return _Conditional((way(low, high, less, more, off),), failure, off, slack)
    ways = way(low, high, less, more, 0.0), way(high, low, more, less, 0.0)
    return _Conditional(ways, failure, 0.0, slack)


def _atoms(log_p: Array, losses: Array, law: _Conditional) -> Atoms:
    p = np.exp(log_p + law.error + law.slack)
    return Atoms(tuple(losses[p > 0.0].tolist()), tuple(p[p > 0.0].tolist()))


@lru_cache(maxsize=64)
def _steepest_noise(noise: IntegerNoise) -> float:
    return integer_noise_tables.steepest(noise.rdp, lambda order: noise.pure_epsilon() / order)


def _convolve(a: tuple[Array, float], b: tuple[Array, float]) -> tuple[Array, float]:
    (p, p_tail), (q, q_tail) = a, b
    if len(p) * len(q) > 2**31 or len(p) + len(q) > integer_noise_tables.MAX_TABLE:
        raise UnsupportedEventError(f"a sum of noise over {len(p) + len(q)} integers is beyond what is tabulated")
    law = np.convolve(p, q)
    # Cut either end where the mass outside is below 1e-50.
    left, right = np.cumsum(law), np.cumsum(law[::-1])
    i, j = int(np.searchsorted(left, 1e-50)), int(np.searchsorted(right, 1e-50))
    cut = (float(left[i - 1]) if i else 0.0) + (float(right[j - 1]) if j else 0.0)
    return law[i : len(law) - j], p_tail + q_tail + cut
