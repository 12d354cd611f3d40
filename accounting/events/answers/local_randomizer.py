"""A local randomiser with finitely many inputs and reports, given by its table of probabilities."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import ClassVar

import numpy as np
from attrs import field, frozen

from hockeystick.accounting import field_checks
from hockeystick.accounting.adjacency import Adjacency
from hockeystick.accounting.errors import InvalidArgumentError
from hockeystick.accounting.events.basic.event import Array
from hockeystick.accounting.events.basic.given_curves import WorstPair, worst_under_profile
from hockeystick.accounting.events.basic.given_laws import numbers
from hockeystick.accounting.losses.dominating_pairs import Atoms
from hockeystick.accounting.numerics.directed_rounding import U

_MOST_CELLS = 2**20  # inputs times inputs times reports
_MOST_CORNERS = 256
_FARTHEST = 690.0  # a loss whose exponential is a float


def _laws(values: object) -> tuple[tuple[float, ...], ...]:
    if isinstance(values, np.ndarray) and values.ndim == 2:
        values = values.tolist()
    if not isinstance(values, Sequence) or isinstance(values, (str, bytes)) or len(values) < 2:
        raise InvalidArgumentError("laws", values, "is not a table of two rows or more", "give a row for each input")
    # Rounded probabilities may add up to slightly more than 1: they are divided by their sum later.
    rows = tuple(numbers(f"laws[{i}]", row, low=0.0, high=1.0 + 1e-9) for i, row in enumerate(values))
    for i, row in enumerate(rows):
        if len(row) != len(rows[0]) or len(row) < 2:
            reason = f"has {len(row)} entries"
            remedy = "give a probability for each report, of which there are two or more, in every row"
            raise InvalidArgumentError(f"laws[{i}]", row, reason, remedy)
        if abs(math.fsum(row) - 1.0) > 1e-9:
            reason = f"adds up to {math.fsum(row)!r}"
            raise InvalidArgumentError(f"laws[{i}]", row, reason, "give probabilities that add up to 1")
    if len(rows) ** 2 * len(rows[0]) > _MOST_CELLS:
        reason = f"has {len(rows)} rows of {len(rows[0])}"
        raise InvalidArgumentError("laws", "...", reason, "state its pure ε, by PureDP")
    return rows


@frozen
class LocalRandomizer(WorstPair):
    """A local randomiser: one person's report by a table, with the law of the report for each input.

        ε = max over inputs x, x′ and reports y of ln(R_x(y)/R_x′(y)),
        δ(ε) = max over x, x′ of Σ_y (R_x(y) − e^ε·R_x′(y))₊.

    As one input takes another value, the event is meant only under replace-one and local adjacency. If some report is
    impossible for some input and not for another, ε is infinite and the profile is not trivial. ``Shuffled`` uses the
    whole table, so it must be that of the complete message.

    Attributes:
      laws: for each input, the probabilities of the reports, in one order; each row adds up to 1 and is divided by its
        sum.

    Raises:
      InvalidArgumentError: not such a table, or one with more than 2^20 entries times inputs.

    Example:
      >>> from hockeystick.accounting import LocalRandomizer, delta
      >>> event = LocalRandomizer(((0.6, 0.2, 0.2), (0.2, 0.6, 0.2), (0.1, 0.1, 0.8)))
      >>> round(event.pure_epsilon(), 4), round(delta(event, 0.5).upper, 4)
      (1.7918, 0.4703)
    """

    laws: tuple[tuple[float, ...], ...] = field(converter=_laws)
    adjacencies: ClassVar[frozenset[Adjacency] | None] = frozenset({Adjacency.REPLACE_ONE, Adjacency.LOCAL})

    @classmethod
    def randomized_response(cls, epsilon: float, categories: int = 2) -> LocalRandomizer:
        """Returns the table of k-ary randomised response, at most 2^6 categories.

        Raises:
          InvalidArgumentError: an ε that is not in [0, 690], or categories that are not from 2 to 64.
        """
        loss, k = field_checks.epsilon(epsilon), field_checks.categories(categories)
        if loss > _FARTHEST:
            raise InvalidArgumentError("epsilon", epsilon, "leaves no float for a lie", f"give at most {_FARTHEST:g}")
        if k > 64:
            raise InvalidArgumentError("categories", k, "makes a large table", "use RandomizedResponse, the event")
        total = 1.0 + (k - 1) * math.exp(-loss)
        true, lie = 1.0 / total, math.exp(-loss) / total
        return cls(tuple(tuple(true if x == y else lie for y in range(k)) for x in range(k)))

    def table(self) -> Array:
        """Returns the table, shape (inputs, reports); its entries are off by at most 2 U of themselves."""
        rows = np.array(self.laws)
        return np.asarray(rows / np.array([math.fsum(row) for row in self.laws])[:, None])

    def _worst(self) -> Atoms:
        return _worst_of(self)

    def pure_epsilon(self) -> float:
        return _losses(self)[-1]


def _losses(event: LocalRandomizer) -> list[float]:
    """The finite losses from 0 on, ascending, each rounded up, and thinned out if there are many."""
    rows = event.table()
    with np.errstate(divide="ignore"):
        logs = np.log(rows)
    with np.errstate(invalid="ignore"):
        apart = (logs[:, None, :] - logs[None, :, :]).ravel()
    kept = np.unique(apart[np.isfinite(apart) & (apart > 0.0)])
    # Logarithms are off by 2 U of themselves and of 1, for the entries' errors; the difference by U.
    kept = kept + 8 * U * (1.0 + float(np.abs(logs[np.isfinite(logs)]).max()))
    if len(kept) > _MOST_CORNERS:
        kept = np.concatenate([np.linspace(0.0, float(kept[-1]), _MOST_CORNERS)[1:-1], kept[-1:]])
    return [0.0, *kept.tolist()]


@lru_cache(maxsize=64)
def _worst_of(event: LocalRandomizer) -> Atoms:
    """Chords of the largest profile of all pairs of rows: its corners are among the losses."""
    rows, losses, deltas = event.table(), _losses(event), []
    for loss in losses:
        c = math.exp(loss) * (1 - 4 * U)
        gains = np.maximum(rows[:, None, :] * (1 + 8 * U) - c * rows[None, :, :] * (1 - 8 * U), 0.0).sum(axis=-1)
        deltas.append(min(1.0, float(gains.max()) * (1 + 2 * len(rows[0]) * U)))  # a sum of so many terms
    if ((rows > 0.0) == (rows.max(axis=0) > 0.0)).all():
        deltas[-1] = 0.0  # no report is impossible for one input alone: there is no larger loss
    return worst_under_profile(tuple(losses), tuple(deltas))
