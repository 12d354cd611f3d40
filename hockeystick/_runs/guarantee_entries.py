"""The entries of a guarantee in results: ε at one δ with its bracket, each method's ε, curves, the graph with costs.

They hold everything that a report shows as plain values, so that a page can be made later from the JSON file alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np

from hockeystick._words.guarantee_terms import terms
from hockeystick.accounting import METHODS, AccountantGraph, Guarantee, HockeystickError
from hockeystick.accounting.engines import best_bound
from hockeystick.accounting.engines.tradeoff_curve import trade_off
from hockeystick.accounting.graph.drawing.mermaid import costs

_DELTAS = (0.0, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3)
_ALARMS = np.unique(np.concatenate([np.linspace(0.0, 1.0, 41), np.geomspace(1e-4, 0.1, 16)]))

Step = Callable[[str], None]


def guarantee_content(guarantee: Guarantee, delta: float, *, step: Step = lambda _: None) -> dict[str, Any]:
    """Returns the entries of ``guarantee`` at ``delta``, with its curves.

    Args:
      guarantee: The guarantee of a graph or of the events of one move.
      delta: In [0, 1].
      step: Called with the current step.

    Raises:
      InvalidArgumentError: ``delta`` is not in [0, 1].
    """
    step("bounding ε")
    total = guarantee.epsilon(delta, bracket=True)
    step("bounding each node's share")
    nodes = [
        {
            "node": share.node,
            "event": str(share.event),
            "count": share.count,
            "epsilon_alone": share.epsilon_alone,
            "epsilon_without": share.epsilon_without,
        }
        for share in guarantee.contributions(delta)
    ]
    step("computing curves")
    return {
        "delta": delta,
        "epsilon_upper": total.upper,
        "epsilon_lower": total.lower,
        "method": total.method,
        "adjacency": guarantee.adjacency.value,
        "group": guarantee.group,
        **terms(guarantee),
        "worst_move": guarantee.worst_move(delta).label,
        "threat_model": guarantee.threat_model,
        "assumptions": guarantee.assumptions,
        "nodes": nodes,
        "methods": {method: _known(guarantee, delta, method) for method in METHODS},
        "curve": [_point(guarantee, at) for at in sorted({*_DELTAS, delta})],
        "certified_curve": _certified_curve(guarantee),
        **drawn_content(guarantee, delta),
    }


def graph_content(graph: AccountantGraph, delta: float | None, view: str | None) -> dict[str, Any]:
    """Returns a graph as in its file, and the ε of each release alone (None without ``delta``).

    Raises:
      UnsupportedAdjacencyError: See ``AccountantGraph.guarantee``.
      GraphError: There is no such view.
    """
    spent = None if delta is None else costs(graph, delta, view=view)
    return {"graph": json.loads(graph.to_json()), "view": view, "costs": spent}


def drawn_content(guarantee: Guarantee, delta: float) -> dict[str, Any]:
    """Returns the entries that draw a guarantee's graph, with costs at ``delta`` in its view; empty without a graph."""
    graph = guarantee.graph
    return graph_content(graph, delta, guarantee.view) if isinstance(graph, AccountantGraph) else {}


def _point(guarantee: Guarantee, delta: float) -> dict[str, Any]:
    found = guarantee.epsilon(delta)
    return {"delta": delta, "epsilon": found.upper, "method": found.method}


def _known(guarantee: Guarantee, delta: float, method: str) -> float | None:
    """Returns ε by one method alone; None if it does not apply or is infinite."""
    try:
        found = best_bound.epsilon(guarantee.event, delta, method=method).upper
    except HockeystickError:
        return None
    return found if np.isfinite(found) else None


def _certified_curve(guarantee: Guarantee) -> list[list[float]] | None:
    """Returns points (false alarms, least misses) of the trade-off curve; None if no engine has it."""
    try:
        misses = trade_off(guarantee.event, _ALARMS)
    except HockeystickError:
        return None
    return [[float(x), float(y)] for x, y in zip(_ALARMS, misses, strict=True)]
