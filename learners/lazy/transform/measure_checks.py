"""Is a sequence of measures fit for the lazy transform? A search for violations of what the transform assumes.

The lazy transform takes any base learner that draws from measures mu_t, functions of the losses before round t, such
that (Asi, Koren, Liu & Talwar 2024, Assumption 3.1)

* the ratio mu_{t+1}(x) / mu_t(x) is a fixed function of the last loss and x, up to a factor that does not depend on
  x. The coins look at nothing else; that is why a person is read by one decision only;
* normalised measures P, Q of consecutive rounds are (eta, delta_0)-indistinguishable: P(S) <= e^eta Q(S) + delta_0,
  both ways.

It follows that mu_t does not depend on the order of the past losses, and that the measures of neighbouring streams are
(2 eta, (1 + e^eta) delta_0)-indistinguishable. :func:`check_measure` evaluates all of these for a measure over finitely
many points, at given losses after random histories, and returns what fails, with the losses that show it.

What it returns is no proof beyond the streams it looked at, with one exception: ``ratio_width`` bounds eta at
delta_0 = 0 for these losses after *any* history. A claimed ratio width is checked, too.
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

_LARGEST_ETA = 0.1  # of the assumption
_ROUNDING = 1e-9  # of log-weights, relative to their size, that passes for equal


@frozen(eq=False)
class Violation:
    """One condition that does not hold.

    Attributes:
        condition: Which, in words.
        value: What was found.
        limit: What is allowed.
        history: The losses before, shape ``(t, m)``; None where the condition is about the constants.
        loss: The losses added to them, shape ``(k, m)``, or None.
    """

    condition: str
    value: float
    limit: float
    history: FloatArray | None = None
    loss: FloatArray | None = None


@frozen(eq=False)
class MeasureReport:
    """What :func:`check_measure` found.

    Attributes:
        violations: The worst violation of each condition that fails; empty if none does.
        delta_at_eta: The largest delta at the claimed eta, of all consecutive measures looked at.
        ratio_width: The largest range of ``log_func`` over the points, of all losses looked at. Where ratios depend on
            the loss alone, consecutive measures differ by factors within e^(+-ratio_width) after any history.
        pairs: How many pairs of consecutive measures were looked at.
    """

    violations: tuple[Violation, ...]
    delta_at_eta: float
    ratio_width: float
    pairs: int

    @property
    def passes(self) -> bool:
        """Whether nothing fails."""
        return not self.violations


class _Worst:
    """The worst violation of each condition so far."""

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
    """Looks for violations of Assumption 3.1 after random histories.

    Args:
        measure: Over m points.
        losses: Shape ``(k, m)``: losses of the class, such as its extreme points; histories are drawn from them, too.
        rng: Draws the histories and their permutations.
        histories: How many, beside the empty one.
        length: How many losses each has.

    Returns:
        The report, after work of order histories * k^2 * m.

    Raises:
        InvalidArgumentError: bad losses, a claimed constant that is no number >= 0, or a measure that does not return
            m numbers (log-weights of -inf, for no mass, are taken; NaN and +inf are not).
    """
    given: FloatArray = array("losses", losses, ndim=2, data=True)
    if given.size == 0:
        raise InvalidDataError("losses", given, "are none", "give at least one loss over at least one point")
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
    """How far two lists of log-weights are from equal up to a constant, and how far rounding may take them."""
    if not np.array_equal(np.isinf(one), np.isinf(other)):
        return math.inf, 0.0
    finite = np.isfinite(one)
    scale = max(1.0, float(np.abs(one[finite]).max()), float(np.abs(other[finite]).max()))
    return float(np.ptp(one[finite] - other[finite])), _ROUNDING * scale


def _delta(log_p: FloatArray, log_q: FloatArray, epsilon: float) -> float:
    """The larger of the two hockey-stick divergences of laws given by their logarithms."""
    p, q = np.exp(log_p), np.exp(log_q)
    scale = math.exp(epsilon)
    return max(float(np.maximum(p - scale * q, 0.0).sum()), float(np.maximum(q - scale * p, 0.0).sum()))
