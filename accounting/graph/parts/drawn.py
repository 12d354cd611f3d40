"""Protocols of a graph and of a guarantee for drawings, which may not import them."""

from __future__ import annotations

from typing import Protocol

from hockeystick.accounting.adjacency import Adjacency
from hockeystick.accounting.engines.best_bound import Bracket
from hockeystick.accounting.graph.parts.charges import Move
from hockeystick.accounting.graph.parts.nodes import Node, View


class Moves(Protocol):
    """The moves of a guarantee."""

    @property
    def moves(self) -> tuple[Move, ...]:
        """The moves that can be the worst."""


class GraphLike(Protocol):
    """The methods of ``AccountantGraph`` that drawings use."""

    @property
    def adjacency(self) -> Adjacency:
        """The neighbouring relation."""

    @property
    def pinned(self) -> bool:
        """Whether each record stays in its block."""

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes, in the order in which they were added."""

    @property
    def views(self) -> tuple[View, ...]:
        """The threat models."""

    def guarantee_for(self, source: str, *, view: str | None = None) -> Moves:
        """Returns the guarantee to the records of one source."""

    def to_json(self) -> str:
        """Returns the graph as JSON."""


class GuaranteeLike(Protocol):
    """The attributes and methods of ``Guarantee`` that notebooks and certificates use."""

    @property
    def adjacency(self) -> Adjacency:
        """The neighbouring relation."""

    @property
    def group(self) -> int:
        """The number of records that may differ."""

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The assumptions of the guarantee."""

    @property
    def threat_model(self) -> str:
        """The threat model, in words."""

    def epsilon(self, delta: float) -> Bracket:
        """Returns the least certified ε at ``delta``."""
