"""What a change of the data costs: the charges of a move, and one node's share of them."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import frozen

from hockeystick.accounting.events.basic.composition import compose, parallel
from hockeystick.accounting.events.basic.event import PrivacyEvent

EVERYTHING = "every release is published"


def simulated_assumption(names: Iterable[str]) -> tuple[str, ...]:
    """Returns what a guarantee says of releases whose noise was simulated, if there are any."""
    shown = ", ".join(map(repr, names))
    return (f"nobody knows the seed of the simulated noise in {shown}: not for publication",) if shown else ()


@frozen
class Charge:
    """What one release costs a move: ``event`` (at the move's distance) ``count`` times."""

    node: str
    event: PrivacyEvent
    count: int
    leading: bool = False


@frozen
class Move:
    """One way to pass to a neighbouring data set, and everything that it costs."""

    label: str
    charges: tuple[Charge, ...]

    def event(self, *, without: str | None = None) -> PrivacyEvent:
        """Returns the composed cost, optionally leaving one node out.

        A single leading release, met once and before any other, may take the maximum over its two orders last: the
        worlds share the law of everything before it, which fixes the order.
        """
        charges = [charge for charge in self.charges if charge.node != without]
        leading = [charge for charge in charges if charge.leading]
        if len(leading) == 1 and leading[0] is charges[0] and leading[0].count == 1:
            rest = [(charge.event, charge.count) for charge in charges if charge is not leading[0]]
            return parallel(*(compose(order, *rest) for order in leading[0].event.orientations()))
        return compose(*((charge.event, charge.count) for charge in charges))


@frozen
class Contribution:
    """One node's share of ε in the worst move; the shares need not add up to the total.

    Attributes:
      node, event, count: the release, its event at the move's distance, and how often the move pays it.
      epsilon_alone: ε if this node were the only one.
      epsilon_without: ε of the rest.
    """

    node: str
    event: PrivacyEvent
    count: int
    epsilon_alone: float
    epsilon_without: float
