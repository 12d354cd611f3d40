"""The last iterate of a noisy iteration in a graph: its cost to a view that sees no other one, and its assumptions."""

from __future__ import annotations

import math

from attrs import field, frozen

from hockeystick.accounting import validate
from hockeystick.accounting.errors import InvalidArgumentError
from hockeystick.accounting.events.basic.event import PrivacyEvent
from hockeystick.accounting.events.iterates.contraction import Contraction
from hockeystick.accounting.events.iterates.published_last import last_iterate

_ONLY = (
    "of the iterates of {0!r} only the last one is seen: no earlier one, no average, no best or early one, and nothing "
    "computed from them, such as a validation score or a time to stop"
)
_PLAIN = (
    "{0!r} is a plain noisy iteration: its start, number of steps, learning rates, clip and projection are chosen "
    "without the data, each step's noise is fresh, and there is no momentum and no adaptive rate"
)
_CYCLE = (
    "the batch of a record, one of {0} that take turns, depends on that record alone, never on its position in a list"
)
_UNREAD = "at least {0} steps that don't read the record follow the last one that does"
_DOMAIN = (
    "each iterate is projected onto one public closed convex set, whose diameter is at most {0:g} times the most that "
    "one record moves a step"
)


def _contraction(value: object) -> Contraction:
    if not isinstance(value, Contraction):
        remedy = "give Contraction.of_gradient_descent(...), or Contraction.proved(factor)"
        raise InvalidArgumentError("contraction", value, "is not a Contraction", remedy)
    return value


def _batches(value: int) -> int:
    return validate.integer("batches", value, low=1, high=validate.MOST)


def _unread(value: int) -> int:
    return validate.integer("unread", value, low=0, high=validate.MOST)


def _diameter(value: float) -> float:
    return validate.real("diameter", value, low=0.0, low_open=True, allow_inf=True)


@frozen
class HiddenIterates:
    """The terms on which the last iterate of a release is charged to who sees no other one; see ``last_iterate``.

    Attributes:
      contraction: the Lipschitz constant of a step without its noise.
      batches: the number of batches that take turns; the release counts the accesses to one record.
      unread: the number of steps since a record was last read, at least.
      diameter: of the public domain, in units of the most that one record moves a step.
    """

    contraction: Contraction = field(converter=_contraction)
    batches: int = field(default=1, converter=_batches)
    unread: int = field(default=0, converter=_unread)
    diameter: float = field(default=math.inf, converter=_diameter)

    def event(self, step: PrivacyEvent, count: int) -> PrivacyEvent:
        """Returns the cost of the last iterate, for ``count`` accesses to a record in as many rounds of the batches."""
        return last_iterate(
            step,
            count * self.batches,
            contraction=self.contraction,
            batches=self.batches,
            unread=self.unread,
            diameter=self.diameter,
        )

    def assumptions(self, step: str) -> tuple[str, ...]:
        """Returns what the cost assumes about the release ``step``, in words."""
        cycle = (_CYCLE.format(self.batches),) if self.batches > 1 else ()
        domain = (_DOMAIN.format(self.diameter),) if self.diameter < math.inf else ()
        unread = (_UNREAD.format(self.unread),) if self.unread else ()
        return (_ONLY.format(step), _PLAIN.format(step), *self.contraction.assumptions, *cycle, *unread, *domain)
