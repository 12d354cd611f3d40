"""What results say of a guarantee: ε at one δ and its bracket, every method's ε, both curves, and the graph with costs.

All that a report draws is in there as plain values, so that a page can be made later from the JSON file alone.
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
    """Returns what ``guarantee`` says at ``delta``, and its curves.

    Args:
      guarantee: Of a graph or of one move's events.
      delta: In [0, 1].
      step: Is told what is computed next.

    Raises:
      InvalidArgumentError: Delta is not in [0, 1].
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
    """Returns a graph as it is written to files, and the ε that each release costs alone (none without ``delta``).

    Raises:
      UnsupportedAdjacencyError: See ``AccountantGraph.guarantee``. GraphError: no such view.
    """
    spent = None if delta is None else costs(graph, delta, view=view)
    return {"graph": json.loads(graph.to_json()), "view": view, "costs": spent}


def drawn_content(guarantee: Guarantee, delta: float) -> dict[str, Any]:
    """Returns what draws a guarantee's graph, with the costs at ``delta`` in its view; nothing where there is none."""
    graph = guarantee.graph
    return graph_content(graph, delta, guarantee.view) if isinstance(graph, AccountantGraph) else {}


def _point(guarantee: Guarantee, delta: float) -> dict[str, Any]:
    found = guarantee.epsilon(delta)
    return {"delta": delta, "epsilon": found.upper, "method": found.method}


def _known(guarantee: Guarantee, delta: float, method: str) -> float | None:
    """ε by one method alone; None where it does not apply or has no finite answer."""
    try:
        found = best_bound.epsilon(guarantee.event, delta, method=method).upper
    except HockeystickError:
        return None
    return found if np.isfinite(found) else None


def _certified_curve(guarantee: Guarantee) -> list[list[float]] | None:
    """Returns points (false alarms, least misses) of any test; None where no engine has them."""
    try:
        misses = trade_off(guarantee.event, _ALARMS)
    except HockeystickError:
        return None
    return [[float(x), float(y)] for x, y in zip(_ALARMS, misses, strict=True)]
