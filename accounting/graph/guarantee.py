"""The guarantee of a graph: ε at δ, the whole curve, the contribution of each node, and the assumptions."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from attrs import field, frozen

from hockeystick._guess.attributes import guessing_attributes
from hockeystick.accounting import field_checks, validate
from hockeystick.accounting.adjacency import Adjacency
from hockeystick.accounting.engines import best_bound
from hockeystick.accounting.engines.best_bound import Bracket
from hockeystick.accounting.errors import GraphError, UnsupportedAdjacencyError
from hockeystick.accounting.events import event_json
from hockeystick.accounting.events.basic.composition import Parallel, compose
from hockeystick.accounting.events.basic.event import NO_EVENT, PrivacyEvent
from hockeystick.accounting.files.reading import UnreadableFileError, json_value
from hockeystick.accounting.graph.certificate import NOT_COVERED, Certificate, certificate_of
from hockeystick.accounting.graph.drawing.curves import plot_event
from hockeystick.accounting.graph.parts.charges import EVERYTHING, Charge, Contribution, Move
from hockeystick.accounting.numerics import rounded_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SCHEMA_VERSION = 1


class Guaranteeing(Protocol):
    """The graph that a guarantee was computed from."""

    def guarantee(self, *, group: int = 1, view: str | None = None, under: Adjacency | None = None) -> Guarantee:
        """Returns its guarantee."""

    def to_json(self) -> str:
        """Returns the graph as JSON text."""


@guessing_attributes
@frozen
class Guarantee:
    """An (ε, δ) guarantee at every δ, for the worst move that the adjacency allows.

    Attributes:
      moves: the moves that can be the worst, each with its charges.
      adjacency: the neighbouring relation.
      group: the number of records that may differ.
      assumptions: the assumptions of the guarantee.
      threat_model: which values the adversary sees, in words.
      graph, view: where a guarantee of a whole graph was computed from; not part of its value, nor of its JSON.

    Example:
      >>> from hockeystick.accounting import AccountantGraph, Gaussian, Laplace
      >>> graph = AccountantGraph().source("people").release("mean", Gaussian(5.0), reads=["people"])
      >>> guarantee = graph.release("count", Laplace(2.0), reads=["people"]).guarantee()
      >>> print(guarantee)
      (1.304, 1e-06)-DP under add-or-remove-one
      >>> [(share.node, round(share.epsilon_alone, 2)) for share in guarantee.contributions(1e-6)]
      [('mean', 0.83), ('count', 0.5)]
    """

    moves: tuple[Move, ...]
    adjacency: Adjacency
    group: int = 1
    assumptions: tuple[str, ...] = ()
    threat_model: str = EVERYTHING
    graph: Guaranteeing | None = field(default=None, eq=False, repr=False)
    view: str | None = field(default=None, eq=False, repr=False)

    @property
    def event(self) -> PrivacyEvent:
        """The whole guarantee as one event, for further compositions.

        It has no rule for groups, as blocks with the same costs are represented only once: use the graph instead.
        """
        return Parallel(tuple(move.event() for move in self.moves)) if self.moves else NO_EVENT

    def epsilon(self, delta: float, *, bracket: bool = False) -> Bracket:
        """Returns the least certified ε at ``delta`` in [0, 1]: ``.upper`` is the bound, ``.method`` the best method.

        Raises:
          InvalidArgumentError: delta is not in [0, 1].
        """
        return best_bound.epsilon(self.event, delta, bracket=bracket)

    def delta(self, epsilon: float, *, bracket: bool = False) -> Bracket:
        """Returns the least certified δ at ``epsilon`` ≥ 0."""
        return best_bound.delta(self.event, epsilon, bracket=bracket)

    def under(self, relation: Adjacency) -> Guarantee:
        """Returns the guarantee of the same graph and view under another relation; see ``AccountantGraph.guarantee``.

        Raises:
          UnsupportedAdjacencyError: the graph's relation does not imply it, or the graph is not known.
        """
        if relation is self.adjacency:
            return self
        if self.graph is None:
            raise UnsupportedAdjacencyError(
                "a guarantee without its graph can't change its relation: use the graph's guarantee(under=...)"
            )
        return self.graph.guarantee(group=self.group, view=self.view, under=relation)

    def worst_move(self, delta: float) -> Move:
        """Returns the move with the largest ε at ``delta``."""
        delta = validate.probability("delta", delta)
        if not self.moves:
            return Move("nothing is read", ())
        return max(self.moves, key=lambda move: best_bound.epsilon(move.event(), delta).upper)

    def contributions(self, delta: float) -> tuple[Contribution, ...]:
        """Returns, for the worst move at ``delta``, each node's ε alone and the ε left without it, largest first."""
        move = self.worst_move(delta)
        rows = []
        for name in dict.fromkeys(charge.node for charge in move.charges):
            own = [charge for charge in move.charges if charge.node == name]
            alone = compose(*((charge.event, charge.count) for charge in own))
            rows.append(
                Contribution(
                    name,
                    own[0].event if len(own) == 1 else alone,
                    own[0].count if len(own) == 1 else 1,
                    best_bound.epsilon(alone, delta).upper,
                    best_bound.epsilon(move.event(without=name), delta).upper,
                )
            )
        return tuple(sorted(rows, key=lambda row: -row.epsilon_alone))

    def plot(self, kind: str = "utility", *, delta: float = 1e-6, points: int = 20, ax: Any = None) -> Axes:
        """Draws the guarantee, and returns the axes of matplotlib, which can be restyled.

        | kind        | shows                                                                                |
        |-------------|--------------------------------------------------------------------------------------|
        | "utility"   | ε over the noise, from half to four times that of this guarantee                     |
        | "steps"     | ε over the steps so far; releases of other counts advance in proportion, rounded up  |
        | "profile"   | δ over ε                                                                             |
        | "trade-off" | the misses of any attack over its false alarms                                       |

        The points are certified bounds. Between two of them the line shows the worse one.

        Args:
          kind: one of the above.
          delta: the δ of "utility" and "steps".
          points: the number of points of "utility" and "steps".
          ax: axes to draw into; by default those of a new figure.

        Raises:
          MissingExtraError: matplotlib is not installed.
          InvalidArgumentError: an argument is outside its domain, or no ε is finite at ``delta``.
          UnsupportedEventError: "utility" of an event without noise that can be scaled.

        Example:
          >>> from hockeystick.accounting import AccountantGraph, Gaussian
          >>> graph = AccountantGraph().source("people").release("mean", Gaussian(5.0), reads=["people"], count=10)
          >>> axes = graph.guarantee().plot("steps", delta=1e-5)
          >>> axes.get_ylabel()
          'ε at δ = 1e-05'
        """
        return plot_event(self.event, kind, delta=delta, points=points, ax=ax)

    def certificate(
        self,
        delta: float = 1e-6,
        *,
        privacy_unit: str,
        subject: Mapping[str, str] | None = None,
        not_covered: Iterable[str] = NOT_COVERED,
        exact: bool = False,
    ) -> Certificate:
        """Returns the certificate of the guarantee: a file that anyone can check, by ``hockeystick verify``.

        It holds the graph, the relation, the unit of privacy, the assumptions, and ε at ``delta`` and at nine other δ.

        Args:
          delta: of the headline, in [0, 1).
          privacy_unit: whose data one record is, in words: "one row", "all rows of one person".
          subject: any of title, description, data_digest, code_digest and parameters_digest.
          not_covered: the limits of the certificate, one sentence each.
          exact: write each ε with all digits; by default it is rounded up to five, which are checked faster.

        Raises:
          GraphError: the guarantee is not that of a whole graph, or the graph has no canonical form.
          InvalidArgumentError: an argument outside its domain, or no finite ε at ``delta``.

        See ``Certificate`` for an example.
        """
        return certificate_of(
            self, delta, privacy_unit=privacy_unit, subject=subject, not_covered=not_covered, exact=exact
        )

    def to_json(self) -> str:
        """Returns the guarantee as JSON text."""
        data = {
            "schema_version": SCHEMA_VERSION,
            "adjacency": self.adjacency.value,
            "group": self.group,
            "threat_model": self.threat_model,
            "assumptions": list(self.assumptions),
            "moves": [
                {
                    "label": move.label,
                    "charges": [
                        {
                            "node": charge.node,
                            "event": event_json.event_to_json(charge.event),
                            "count": charge.count,
                            "leading": charge.leading,
                        }
                        for charge in move.charges
                    ],
                }
                for move in self.moves
            ],
        }
        return json.dumps(data, indent=1, allow_nan=False, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Guarantee:
        """Returns the guarantee that ``to_json`` wrote.

        Raises:
          GraphError: the text is not a guarantee of this schema.
        """
        try:
            data = json_value(text)
        except UnreadableFileError as error:
            raise GraphError(f"guarantee: not valid JSON ({error})") from None
        top = event_json.mapping(data, "guarantee")
        keys = {"schema_version", "adjacency", "group", "threat_model", "assumptions", "moves"}
        event_json.check_keys(top, keys, keys, "guarantee")
        if top["schema_version"] != SCHEMA_VERSION:
            raise GraphError(f"guarantee: schema_version {top['schema_version']!r} is not {SCHEMA_VERSION}")
        try:
            adjacency = Adjacency(top["adjacency"])
        except ValueError:
            raise GraphError(f"guarantee: unknown adjacency {top['adjacency']!r}") from None
        moves = []
        for i, row in enumerate(event_json.listing(top["moves"], "guarantee.moves")):
            where = f"guarantee.moves[{i}]"
            move = event_json.mapping(row, where)
            event_json.check_keys(move, {"label", "charges"}, {"label", "charges"}, where)
            charges = [_charge(c, f"{where}.charges") for c in event_json.listing(move["charges"], where)]
            moves.append(Move(str(move["label"]), tuple(charges)))
        assumptions = tuple(map(str, event_json.listing(top["assumptions"], "guarantee.assumptions")))
        group = validate.integer("group", top["group"], low=1)
        return cls(tuple(moves), adjacency, group, assumptions, str(top["threat_model"]))

    def __str__(self) -> str:
        parts = []
        for delta in (0.0, 1e-6):
            if math.isfinite(upper := self.epsilon(delta).upper):
                parts.append(f"({rounded_text.upper(upper, 4)}, {delta:g})")
        claims = " and ".join(parts) or "no"
        return f"{claims}-DP under {self.adjacency.value}" + (f", groups of {self.group}" if self.group > 1 else "")

    def _repr_html_(self) -> str:
        from hockeystick.accounting.graph.drawing.notebook_reprs import guarantee_html

        return guarantee_html(self)

    def _repr_markdown_(self) -> str:
        from hockeystick.accounting.graph.drawing.notebook_reprs import guarantee_markdown

        return guarantee_markdown(self)


def _charge(data: Any, where: str) -> Charge:
    row = event_json.mapping(data, where)
    keys = {"node", "event", "count", "leading"}
    event_json.check_keys(row, keys, keys, where)
    if not isinstance(row["leading"], bool):
        raise GraphError(f"{where}.leading: expected true or false")
    event = event_json.event_from_json(row["event"], f"{where}.event")
    return Charge(str(row["node"]), event, field_checks.count(row["count"]), row["leading"])
