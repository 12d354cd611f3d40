"""A search for violations of the assumptions of the lazy transform on its base measures.

``base_learner.py`` states the assumptions (Asi, Koren, Liu & Talwar 2024, Assumption 3.1). It follows that the measure
does not depend on the order of the past losses, and that the measures of neighbouring streams are
(2 η, (1 + e^η) δ_0)-indistinguishable. :func:`check_measure` evaluates all of these for a measure over finitely
many points, at given losses after random histories, and returns the failing conditions with the losses that show it.

A pass is not a proof beyond the tested streams, with one exception: ``ratio_width`` bounds η at δ_0 = 0 for these
losses after *any* history.
"""

import math

import numpy as np
import numpy.typing as npt
from attrs import frozen

from hockeystick.accounting import InvalidArgumentError, InvalidDataError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import array, integer, real
from hockeystick.learners.lazy.transform.base_learner import FiniteMeasure as FiniteMeasure
from hockeystick.learners.lazy.transform.base_learner import MultiplicativeMeasure as MultiplicativeMeasure

_LARGEST_ETA = 0.1  # part of the assumption
_ROUNDING = 1e-9  # log-weights within this relative distance count as equal


@frozen(eq=False)
class Violation:
    """One condition that does not hold.

    Attributes:
        condition: The condition in words.
        value: The value found.
        limit: The value allowed.
        history: The earlier losses, shape ``(t, m)``; None if the condition is about the constants.
        loss: The additional losses, shape ``(k, m)``, or None.
    """

    condition: str
    value: float
    limit: float
    history: FloatArray | None = None
    loss: FloatArray | None = None


@frozen(eq=False)
class MeasureReport:
    """The result of ``check_measure``; see there for an example.

    Attributes:
        violations: The worst violation of each failing condition; empty if all hold.
        delta_at_eta: The largest δ at the claimed η, over all tested pairs of consecutive measures.
        ratio_width: The largest range of ``log_func`` over the points, over all tested losses. If ratios depend on the
            loss alone, consecutive measures differ by factors within e^(+-ratio_width) after any history.
        pairs: Number of tested pairs of consecutive measures.
    """

    violations: tuple[Violation, ...]
    delta_at_eta: float
    ratio_width: float
    pairs: int

    @property
    def passes(self) -> bool:
        """Whether all conditions hold."""
        return not self.violations


class _Worst:
    """A collection of the worst violation of each condition."""

    def __init__(self) -> None:
        self.found: dict[str, Violation] = {}

    def note(self, violation: Violation) -> None:
        known = self.found.get(violation.condition)
        excess = violation.value - violation.limit
        if not excess <= 0.0 and (known is None or not excess <= known.value - known.limit):
            self.found[violation.condition] = violation


def check_measure(
    measure: FiniteMeasure,
    losses: npt.ArrayLike,
    *,
    rng: np.random.Generator,
    histories: int = 8,
    length: int = 12,
) -> MeasureReport:
    """Searches for violations of Assumption 3.1 after random histories.

    Args:
        measure: A measure over m points.
        losses: Shape ``(k, m)``: losses of the class, such as its extreme points; histories consist of them too.
        rng: Draws the histories and their permutations.
        histories: Number of histories in addition to the empty one.
        length: Number of losses per history.

    Returns:
        The report, after work of order histories * k^2 * m.

    Raises:
        InvalidArgumentError: bad losses, a claimed constant that is not a number >= 0, or a measure that does not
            return m log-weights (-inf, for no mass, is allowed; NaN and +inf are not).

    Example:
        >>> measure = MultiplicativeMeasure(learning_rate=0.05)
        >>> report = check_measure(measure, [[1.0, 0.0], [0.0, 1.0]], rng=np.random.default_rng(1))
        >>> report.passes, report.ratio_width, report.pairs
        (True, 0.05, 18)
    """
    given: FloatArray = array("losses", losses, ndim=2, data=True)
    if given.size == 0:
        raise InvalidDataError("losses", given, "are empty", "give at least one loss over at least one point")
    histories, length = integer("histories", histories, low=0), integer("length", length, low=1)
    eta = real("measure.eta", measure.eta, low=0.0)
    delta0 = real("measure.delta0", measure.delta0, low=0.0)
    claimed = measure.ratio_width
    if claimed is not None:
        claimed = real("measure.ratio_width", claimed, low=0.0)
    worst, largest, width = _Worst(), 0.0, 0.0
    worst.note(Violation("eta <= 1/10", eta, _LARGEST_ETA))
    worst.note(Violation("delta0 <= eta", delta0, eta))

    added = [_weights("log_func", measure.log_func(loss), given.shape[1]) for loss in given]
    width = max(float(np.ptp(ratio)) if np.isfinite(ratio).all() else math.inf for ratio in added)
    if claimed is not None:
        worst.note(Violation("one loss adds no more than ratio_width", width, claimed))
    pasts = [given[:0]] + [given[rng.integers(0, len(given), length)] for _ in range(histories)]
    for past in pasts:
        before = _weights("log_measure", measure.log_measure(past), given.shape[1])
        shuffled = _weights("log_measure", measure.log_measure(past[rng.permutation(len(past))]), given.shape[1])
        worst.note(Violation("the order of losses does not matter", *_differ(before, shuffled), past))
        after = []
        for loss, ratio in zip(given, added, strict=True):
            now = _weights("log_measure", measure.log_measure(np.vstack([past, loss])), given.shape[1])
            after.append(_normalised(now))
            here = past, loss[None]
            worst.note(
                Violation("the ratio depends on the last loss and x alone", *_differ(now, before + ratio), *here)
            )
            moved = _delta(after[-1], _normalised(before), eta)
            largest = max(largest, moved)
            worst.note(Violation("consecutive measures are (eta, delta0)-close", moved, delta0 + _ROUNDING, *here))
        for i, one in enumerate(after):
            for j, other in enumerate(after[:i]):
                apart = _delta(one, other, 2.0 * eta)
                limit = (1.0 + math.exp(eta)) * delta0 + _ROUNDING
                pair = given[[i, j]]
                worst.note(Violation("neighbours are (2 eta, (1+e^eta) delta0)-close", apart, limit, past, pair))
    return MeasureReport(tuple(worst.found.values()), largest, width, len(pasts) * len(given))


def _weights(name: str, value: npt.ArrayLike, points: int) -> FloatArray:
    found: FloatArray = np.asarray(value, dtype=np.float64)
    if found.shape != (points,) or np.isnan(found).any() or (found == np.inf).any() or (found == -np.inf).all():
        raise InvalidArgumentError(f"measure.{name}", value, f"is not {points} log-weights", "return one per point")
    return found


def _normalised(log_weights: FloatArray) -> FloatArray:
    found: FloatArray = log_weights - np.logaddexp.reduce(log_weights)
    return found


def _differ(one: FloatArray, other: FloatArray) -> tuple[float, float]:
    """Returns the distance of two lists of log-weights up to a constant, and the distance that rounding may cause."""
    if not np.array_equal(np.isinf(one), np.isinf(other)):
        return math.inf, 0.0
    finite = np.isfinite(one)
    scale = max(1.0, float(np.abs(one[finite]).max()), float(np.abs(other[finite]).max()))
    return float(np.ptp(one[finite] - other[finite])), _ROUNDING * scale


def _delta(log_p: FloatArray, log_q: FloatArray, epsilon: float) -> float:
    """Returns the larger of the two hockey-stick divergences of laws given by their logarithms."""
    p, q = np.exp(log_p), np.exp(log_q)
    scale = math.exp(epsilon)
    return max(float(np.maximum(p - scale * q, 0.0).sum()), float(np.maximum(q - scale * p, 0.0).sum()))
