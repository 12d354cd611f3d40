"""Tests that releases are charged to the given ledger before they are drawn, and are marked if they were simulated."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen
from command_line import run

from hockeystick import accounting
from hockeystick.accounting import AccountantGraph, DurableLedger, FilteredLedger, InvalidArgumentError, Ledger
from hockeystick.accounting.budgets.filters import BudgetExceededError, GDPFilter, PureFilter
from hockeystick.accounting.graph.drawing.mermaid import to_mermaid
from hockeystick.accounting.graph.plan_refinement import RefinementError
from hockeystick.mechanisms import Gaussian, Laplace, SimulationNoise
from hockeystick.mechanisms.randomness import noise
from hockeystick.mechanisms.release import Releasable

PLAN = AccountantGraph().source("people").release("count", accounting.Laplace(2.0), reads=["people"], count=2)


@frozen
class Watched(Releasable):
    """Notes what was recorded when it draws."""

    ledger: Any
    seen: list[Any]

    def event(self) -> accounting.PrivacyEvent:
        return accounting.Laplace(2.0)

    def _checked(self, value: Any) -> Any:
        if value is None:
            raise InvalidArgumentError("value", value, "is none")
        return value

    def _draw(self, checked: Any, noise: Any) -> Any:
        self.seen.append(self.ledger.recorded("count"))
        raise KeyboardInterrupt


def test_the_charge_stands_before_the_draw_and_stays_if_that_is_interrupted() -> None:
    ledger, seen = Ledger(PLAN), list[Any]()
    with pytest.raises(KeyboardInterrupt):
        Watched(ledger, seen).release(1.0, ledger=ledger, name="count", noise=SimulationNoise(1))
    assert seen == [1] and ledger.recorded("count") == 1


@pytest.mark.parametrize(
    ("value", "arguments", "error"),
    [
        (None, {"name": "count"}, InvalidArgumentError),
        (1.0, {}, InvalidArgumentError),
        (1.0, {"name": "count", "reads": ["people"]}, InvalidArgumentError),
        (1.0, {"name": "other"}, RefinementError),
        (1.0, {"name": "count", "noise": 7}, InvalidArgumentError),
    ],
)
def test_a_refusal_records_and_draws_nothing(value: Any, arguments: dict[str, Any], error: type[Exception]) -> None:
    ledger, seen = Ledger(PLAN), list[Any]()
    with pytest.raises(error):
        Watched(ledger, seen).release(value, ledger=ledger, **{"noise": SimulationNoise(1), **arguments})
    assert seen == [] and ledger.recorded("count") == 0


def test_a_plan_a_filter_and_a_file_are_charged(tmp_path: Path) -> None:
    ledger = Ledger(PLAN)
    Laplace(2.0).release(3, ledger=ledger, name="count")
    Laplace(4.0).release(3, ledger=ledger, name="count")
    assert ledger.recorded("count") == 2
    with pytest.raises(RefinementError):
        Laplace(4.0).release(3, ledger=ledger, name="count")
    assert ledger.graph().simulated() == () and not ledger.guarantee().assumptions

    filtered = FilteredLedger(AccountantGraph().source("people"), GDPFilter.for_target(1.0, 1e-6))
    Gaussian(8.0).release([1.0, 2.0], ledger=filtered, name="mean", reads=["people"])
    with pytest.raises(BudgetExceededError):
        Gaussian(4.0).release(1.0, ledger=filtered, name="more", reads=["people"])
    with pytest.raises(InvalidArgumentError, match="reads"):
        Gaussian(8.0).release(1.0, ledger=filtered, name="more")

    durable = DurableLedger.create(tmp_path / "people.ledger", PureFilter(1.0))
    Laplace(2.0).release(3, ledger=durable, name="count")
    Laplace(4.0).release(3, ledger=durable, noise=SimulationNoise(1))
    with pytest.raises(BudgetExceededError):
        Laplace(2.0).release(3, ledger=durable)
    assert [charge.note for charge in durable.charges()] == ["count", " (simulated)"]


@pytest.mark.statistical
def test_a_simulated_release_is_marked_everywhere(tmp_path: Path) -> None:
    ledger = Ledger(PLAN)
    Laplace(2.0).release(3, ledger=ledger, name="count", noise=SimulationNoise(1))
    Laplace(2.0).release(3, ledger=ledger, name="count")
    assert ledger.graph().simulated() == ("count",)
    assert any("simulated" in sentence for sentence in ledger.guarantee().assumptions)
    assert any("simulated" in sentence for sentence in ledger.graph().guarantee().assumptions)
    assert AccountantGraph.from_json(ledger.graph().to_json()) == ledger.graph()
    assert "simulated" in to_mermaid(ledger.graph()) and "simulated" not in to_mermaid(PLAN)
    file = tmp_path / "graph.json"
    file.write_text(ledger.graph().to_json())
    told = run("account", file, "--delta", "0")
    assert told.exit_code == 0 and "warning: the noise of count was simulated" in told.stderr
    file.write_text(PLAN.to_json())
    assert "simulated" not in run("account", file, "--delta", "0").stderr

    filtered = FilteredLedger(AccountantGraph().source("people"), PureFilter(1.0))
    Laplace(2.0).release(3, ledger=filtered, name="count", reads=["people"], noise=SimulationNoise(1))
    assert filtered.graph().simulated() == ("count",)
    assert any("simulated" in sentence for sentence in filtered.guarantee().assumptions)


def test_simulated_releases_repeat_and_secure_ones_do_not() -> None:
    one, two = (Gaussian(2.0).release([0.0] * 20, noise=SimulationNoise(4)) for _ in range(2))
    assert (one == two).all()
    one, two = (Gaussian(2.0).release([0.0] * 20) for _ in range(2))
    assert (one != two).any()
    with pytest.raises(TypeError):
        noise.ReleaseNoise(4)  # type: ignore[call-arg]
    for seed in (None, 1.5, True, -1, math.nan):
        with pytest.raises(InvalidArgumentError, match="rng"):
            SimulationNoise(seed)


def test_a_name_without_a_ledger_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="ledger"):
        Laplace(2.0).release(3, name="count", noise=SimulationNoise(1))
    with pytest.raises(InvalidArgumentError, match="ledger"):
        Laplace(2.0).release(3, ledger=PLAN, name="count", noise=SimulationNoise(1))  # type: ignore[arg-type]
