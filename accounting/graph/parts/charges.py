"""The cost of a change of the data: the charges of a move, and the contribution of one node."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import frozen

from hockeystick.accounting.events.basic.composition import compose, parallel
from hockeystick.accounting.events.basic.event import PrivacyEvent

EVERYTHING = "every release is published"


def simulated_assumption(names: Iterable[str]) -> tuple[str, ...]:
    """Returns the assumption of a guarantee on releases with simulated noise, if there are any."""
    shown = ", ".join(map(repr, names))
    return (f"nobody knows the seed of the simulated noise in {shown}: not for publication",) if shown else ()


@frozen
class Charge:
    """The cost of one release for a move. See ``Move`` for an example.

    Attributes:
      node: the name of the release.
      event: its event at the move's distance.
      count: how many times the move pays it.
      leading: see ``Release``.
    """

    node: str
    event: PrivacyEvent
    count: int
    leading: bool = False


@frozen
class Move:
    """A change to a neighbouring data set, and its cost.

    Attributes:
      label: the source, and the block or blocks, of the changed records.
      charges: the costs of all releases that the change reaches.

    Example:
      >>> from hockeystick.accounting import AccountantGraph, Laplace
      >>> graph = AccountantGraph().source("people").release("count", Laplace(2.0), reads=["people"], count=3)
      >>> (move,) = graph.guarantee(group=2).moves
      >>> move.charges
      (Charge(node='count', event=Laplace(noise_multiplier=1.0), count=3, leading=False),)
      >>> move.event().pure_epsilon()
      3.0
    """

    label: str
    charges: tuple[Charge, ...]

    def event(self, *, without: str | None = None) -> PrivacyEvent:
        """Returns the composed cost, optionally without one node.

        For a single leading release, paid once and before any other, the maximum over its two orders is taken last, as
        the order depends only on earlier values, whose law is the same for both data sets.
        """
        charges = [charge for charge in self.charges if charge.node != without]
        leading = [charge for charge in charges if charge.leading]
        if len(leading) == 1 and leading[0] is charges[0] and leading[0].count == 1:
            rest = [(charge.event, charge.count) for charge in charges if charge is not leading[0]]
            return parallel(*(compose(order, *rest) for order in leading[0].event.orientations()))
        return compose(*((charge.event, charge.count) for charge in charges))


@frozen
class Contribution:
    """The contribution of one node to ε in the worst move. Contributions need not add up to the total.

    Attributes:
      node: the name of the release.
      event: its event at the move's distance.
      count: how many times the move pays it.
      epsilon_alone: ε if this node were the only one.
      epsilon_without: ε of all other nodes.

    See ``Guarantee`` for an example.
    """

    node: str
    event: PrivacyEvent
    count: int
    epsilon_alone: float
    epsilon_without: float
