"""Tests of ``hs.plots``: several curves in one figure, and the power of an audit to come."""

from __future__ import annotations

from typing import Any

import pytest
from matplotlib.figure import Figure

import hockeystick as hs


def axes() -> Any:
    return Figure().subplots()


@pytest.mark.statistical
def test_guarantees_events_and_claims_stand_in_one_figure() -> None:
    graph = hs.AccountantGraph().source("people").release("count", hs.events.Laplace(2.0), reads=["people"])
    curves: dict[str, Any] = {"graph": graph.guarantee(), "event": hs.events.Gaussian(2.0), "claim": hs.Claim(0.5)}
    found: Any = hs.plots.trade_off(curves, ax=axes())

    assert [line.get_label() for line in found.lines] == ["a random guess", "graph", "event", "claim"]
    graph_line, claim_line = found.lines[1], found.lines[3]  # Laplace noise of scale 2 is 0.5-DP, and better
    assert (graph_line.get_ydata() >= claim_line.get_ydata() - 1e-9).all()


@pytest.mark.parametrize("curves", [{}, [hs.events.Gaussian(1.0)], {"one": 3}, None])
def test_other_things_are_refused(curves: Any) -> None:
    with pytest.raises(hs.InvalidArgumentError, match="curves"):
        hs.plots.trade_off(curves, ax=axes())


def test_the_cost_of_an_event_is_that_of_its_guarantee() -> None:
    event = hs.compose((hs.events.Gaussian(5.0), 4))
    found: Any = hs.plots.cost(event, "steps", delta=1e-5, ax=axes()).lines[0]

    assert list(found.get_xdata()) == [0, 1, 2, 3, 4]
    assert found.get_ydata()[-1] == hs.epsilon(event, 1e-5).upper


def test_power_refuses_events_that_do_not_exist() -> None:
    with pytest.raises(hs.InvalidArgumentError, match="give a smaller event_probability"):
        hs.plots.power(1.0, true_epsilons=[2.0], event_probability=0.5, ax=axes())
