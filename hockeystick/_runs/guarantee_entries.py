"""The entries of a guarantee in results: ε at one δ with its bracket, each method's ε, curves, the graph with costs.

They hold everything that a report shows as plain values, so that a page can be made later from the JSON file alone.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from hockeystick._words.guarantee_terms import terms
from hockeystick.accounting import DPSGD, METHODS, AccountantGraph, Guarantee, HockeystickError
from hockeystick.accounting.engines import best_bound
from hockeystick.accounting.engines.tradeoff_curve import trade_off
from hockeystick.accounting.graph.drawing.mermaid import costs

_DELTAS = (0.0, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3)
_ALARMS = np.unique(np.concatenate([np.linspace(0.0, 1.0, 41), np.geomspace(1e-4, 0.1, 16)]))

if TYPE_CHECKING:
    from hockeystick.learners import PrintedGuarantee

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


def certified_content(
    guarantee: Guarantee, learner: str, *, epsilon: float, delta: float, further: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Returns the entries with which the plan of a release from a table begins: its ε, on what it rests, its graph.

    Args:
      guarantee: The guarantee of the plan.
      learner: What is planned, by which a report is chosen.
      epsilon: The target.
      delta: The δ of the guarantee.
      further: Assumptions beyond those of the graph.
    """
    found = guarantee.epsilon(delta, bracket=True)
    return {
        "mode": "plan",
        "learner": learner,
        "epsilon_target": epsilon,
        "delta": delta,
        "epsilon": found.upper,
        "epsilon_lower": found.lower,
        "method": found.method,
        "adjacency": guarantee.adjacency.value,
        "threat_model": guarantee.threat_model,
        "assumptions": [*guarantee.assumptions, *further],
        **drawn_content(guarantee, delta),
    }


def drawn_from(data: str, seed: int | None) -> dict[str, Any]:
    """Returns the entries that a release from a file adds to its plan; with a ``seed`` it is a simulation."""
    return {
        "mode": "release" if seed is None else "simulation",
        "simulated": seed is not None,
        "seed": seed,
        "data": data,
    }


def training_content(run: DPSGD, noise_multiplier: float, delta: float) -> dict[str, Any]:
    """Returns the numbers of a training, with the filter of a strategy of buffers.

    Args:
      run: The training.
      noise_multiplier: Noise/clip.
      delta: The δ of the guarantee.
    """
    found: dict[str, Any] = {
        "what": "dp-sgd",
        "noise_multiplier": noise_multiplier,
        "standard_deviation": None if run.clip is None else run.standard_deviation(noise_multiplier),
        "scheme": run.sampling,
        "known_epsilon": run.known_epsilon(noise_multiplier, delta),
        "training": {
            "records": run.records,
            "batch": run.batch,
            "epochs": run.epochs,
            "steps": run.steps,
            "clip": run.clip,
            "user_records": run.user_records,
        },
        "loader": run.loader,
    }
    if run.buffers:
        found["filter"] = _filter(run)
        if run.clip is not None:  # of z: the product is off by U
            deviation = found["standard_deviation"] * found["filter"]["sensitivity"]
            found["standard_deviation"] = math.nextafter(deviation, math.inf)
    return found


def _filter(run: DPSGD) -> dict[str, Any]:
    """Returns the filter with the least error for the training's participations, and its sensitivity to them."""
    from hockeystick.mechanisms import factorisations

    times, apart = int(run.epochs), run.batches
    made = factorisations.blt(run.steps, run.buffers, participations=times, separation=apart)
    sensitivity = made.participation_sensitivity(participations=times, separation=apart)
    return {
        "participations": times,
        "separation": apart,
        "decays": list(made.decays),
        "weights": list(made.weights),
        "sensitivity": sensitivity.value,
        "largest_error": made.max_error(participations=times, separation=apart),
    }


def other_samplings(
    run: DPSGD, delta: float, step: Step, *, noise_multiplier: float | None = None, epsilon: float | None = None
) -> list[dict[str, Any]]:
    """Returns a row for each other sampling: the noise multiplier for ``epsilon``, or the ε of a ``noise_multiplier``.

    Args:
      run: The training.
      delta: The δ of all rows.
      step: Called with the current step.
      noise_multiplier, epsilon: One of them.
    """
    rows = []
    for other in run.others():
        step(f"comparing with {other.sampling}")
        row: dict[str, Any] = {"sampling": other.sampling, "adjacency": other.relation.value, "steps": other.steps}
        try:
            if epsilon is not None:
                noise = row["noise_multiplier"] = other.calibrated(epsilon, delta).value
                row["known_epsilon"] = other.known_epsilon(noise, delta)
            elif noise_multiplier is not None:
                row["epsilon"] = other.epsilon(noise_multiplier, delta).upper
                row["known_epsilon"] = other.known_epsilon(noise_multiplier, delta)
        except HockeystickError as error:
            row["refused"] = str(error)
        rows.append(row)
    return rows


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


def printed_content(printed: PrintedGuarantee | None, reason: str | None) -> dict[str, Any]:
    """Returns a printed guarantee as plain values, or the ``reason`` why there is none."""
    if printed is None:
        return {"source": None, "applies": False, "conditions": [], "constants": {}, "reason": reason}
    conditions = [
        {"statement": one.statement, "value": one.value, "limit": one.limit, "holds": one.holds}
        for one in printed.conditions
    ]
    return {
        "source": printed.source,
        "applies": printed.applies,
        "conditions": conditions,
        "constants": dict(printed.constants),
        "reason": None,
    }
