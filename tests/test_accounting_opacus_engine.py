"""Opacus's trainings charged here: the accountant with a stand-in for Opacus, and the engine with Opacus itself."""

from __future__ import annotations

import math
import sys
from collections import OrderedDict
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from hockeystick.accounting import (
    Adjacency,
    BudgetExceededError,
    Gaussian,
    InvalidArgumentError,
    PoissonSampled,
    RDPFilter,
    ZCDPFilter,
    compose,
    epsilon,
    from_opacus,
    opacus_engine,
)
from hockeystick.accounting.extras import MissingExtraError
from hockeystick.accounting.opacus_engine import TrainingAccountant

STEP = PoissonSampled(0.1, Gaussian(2.0))


def optimizer(noise: float = 2.0, batches: int = 1, **more: Any) -> Any:
    return SimpleNamespace(noise_multiplier=noise, accumulated_iterations=batches, **more)


def trained(steps: int, **options: Any) -> TrainingAccountant:
    accountant = TrainingAccountant(poisson_sampling=True, **options)
    hook = accountant.get_optimizer_hook_fn(0.1)
    for _ in range(steps):
        hook(optimizer())
    return accountant


def test_steps_become_a_graph() -> None:
    accountant = trained(7)
    accountant.get_optimizer_hook_fn(0.2)(optimizer(3.0))
    event = compose((STEP, 7), PoissonSampled(0.2, Gaussian(3.0)))
    assert accountant.history == [(2.0, 0.1, 7), (3.0, 0.2, 1)] and len(accountant) == 8
    assert accountant.event() == event == from_opacus(accountant.history)
    assert accountant.get_epsilon(1e-5) == epsilon(event, 1e-5).upper
    graph = accountant.graph(source="people").release("count", Gaussian(5.0), reads=["people"])
    assert graph.adjacency is Adjacency.ADD_OR_REMOVE_ONE
    assert graph.guarantee().epsilon(1e-5).upper == epsilon(compose(event, Gaussian(5.0)), 1e-5).upper
    assert accountant.guarantee().epsilon(1e-5).upper == accountant.get_epsilon(1e-5)


def test_rates_of_unknown_batches_are_refused() -> None:
    for said in (None, False):
        with pytest.raises(InvalidArgumentError, match="poisson_sampling") as caught:
            TrainingAccountant(poisson_sampling=said).get_optimizer_hook_fn(0.1)
        assert "opacus_engine" in caught.value.remedy


def test_added_up_batches_are_refused_and_would_cost_more_than_opacus_charges() -> None:
    accountant = trained(0)
    with pytest.raises(InvalidArgumentError, match="accumulated_iterations=4"):
        accountant.get_optimizer_hook_fn(0.01)(optimizer(batches=4))
    assert len(accountant) == 0
    truth = epsilon(compose((PoissonSampled(0.01, Gaussian(1.0)).at(4), 1000)), 1e-5).upper
    charged = epsilon(from_opacus([(1.0, 0.04, 1000)]), 1e-5).upper
    assert charged == pytest.approx(8.49, abs=0.01) and truth == pytest.approx(8.90, abs=0.01)


def test_adaptive_clipping_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="follows the size of each batch"):
        trained(0).get_optimizer_hook_fn(0.1)(optimizer(unclipped_num_std=5.0))


@pytest.mark.parametrize("noise", [math.nan, -1.0, True, "1"])
def test_a_step_that_is_none_is_refused(noise: object) -> None:
    accountant = trained(1)
    with pytest.raises(InvalidArgumentError):
        accountant.step(noise_multiplier=noise, sample_rate=0.1)  # type: ignore[arg-type]
    assert len(accountant) == 1
    accountant.step(noise_multiplier=0.0, sample_rate=0.1)
    assert accountant.get_epsilon(1e-5) == math.inf


def test_a_step_beyond_the_budget_is_not_recorded() -> None:
    budget = RDPFilter.for_target(epsilon=1.0, delta=1e-5)
    accountant = TrainingAccountant(poisson_sampling=True, filter=budget)
    hook = accountant.get_optimizer_hook_fn(0.1)
    with pytest.raises(BudgetExceededError):
        for _ in range(10_000):
            hook(optimizer())
    assert 5 < len(accountant) < 10_000
    assert accountant.get_epsilon(1e-5) <= 1.0 and accountant.filter is not None
    assert accountant.filter.epsilon(1e-5) <= 1.0 + 1e-9


@pytest.mark.parametrize(
    "options",
    [{"poisson_sampling": 1}, {"filter": 3.0}, {"filter": ZCDPFilter(1.0, adjacency=Adjacency.REPLACE_ONE)}],
)
def test_bad_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError):
        TrainingAccountant(**options)


# ------------------------------------------------------------------------------------------------- a stand-in of Opacus


class IAccountant:
    """As Opacus's."""

    def state_dict(self) -> OrderedDict[str, Any]:
        return OrderedDict(history=list(self.history), mechanism=self.mechanism())  # type: ignore[attr-defined]

    def load_state_dict(self, state_dict: Any) -> None:
        if not state_dict or state_dict.get("mechanism") != self.mechanism():  # type: ignore[attr-defined]
            raise ValueError("no state of this accountant")
        self.history = state_dict["history"]


class Engine:
    """As Opacus's."""

    def __init__(self, *, accountant: str, secure_mode: bool) -> None:
        self.accountant: Any = accountant

    def make_private(self, *, poisson_sampling: bool, clipping: str, **arguments: Any) -> Any:
        self.accountant.get_optimizer_hook_fn(0.1)(optimizer())
        return arguments


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    known: dict[str, Any] = {}
    opacus, accountants = ModuleType("opacus"), ModuleType("opacus.accountants")
    parts = {"IAccountant": IAccountant, "register_accountant": lambda name, kind, force: known.update({name: kind})}
    vars(accountants).update(parts)
    vars(opacus).update({"PrivacyEngine": Engine, "accountants": accountants})
    monkeypatch.setitem(sys.modules, "opacus", opacus)
    monkeypatch.setitem(sys.modules, "opacus.accountants", accountants)
    _forget()
    yield known
    _forget()


def _forget() -> None:
    module = import_module("hockeystick.accounting.opacus_engine")
    module._accountant_class.cache_clear()
    module._engine_class.cache_clear()


def test_the_engine_says_how_batches_are_drawn(stand_in: dict[str, Any]) -> None:
    engine = opacus_engine.opacus_engine(filter=RDPFilter.for_target(epsilon=1.0, delta=1e-5))
    assert engine.make_private(module=3) == {"module": 3}
    assert len(engine.accountant) == 1 and isinstance(engine.accountant, IAccountant)
    assert isinstance(stand_in["hockeystick"](), TrainingAccountant)
    with pytest.raises(InvalidArgumentError, match="poisson_sampling=False"):
        engine.make_private(module=3, poisson_sampling=False)
    with pytest.raises(InvalidArgumentError, match="clipping='adaptive'"):
        engine.make_private(module=3, clipping="adaptive")


def test_a_checkpoint_is_charged_to_the_filter(stand_in: dict[str, Any]) -> None:
    budget = RDPFilter.for_target(epsilon=1.0, delta=1e-5)
    first, second = (opacus_engine.opacus_accountant(poisson_sampling=True, filter=budget) for _ in range(2))
    assert first.poisson_sampling is True and first.filter is budget
    for _ in range(5):
        first.step(noise_multiplier=2.0, sample_rate=0.1)
    second.load_state_dict(first.state_dict())
    assert second.history == first.history and second.filter.remaining() == first.filter.remaining()
    with pytest.raises(BudgetExceededError):
        second.load_state_dict(OrderedDict(history=[(0.1, 0.5, 1000)], mechanism="hockeystick"))
    with pytest.raises(ValueError, match="no state"):
        second.load_state_dict(OrderedDict(history=[(2.0, 0.1, 1)], mechanism="rdp"))
    with pytest.raises(ValueError, match="no state"):
        second.load_state_dict({})
    with pytest.raises(InvalidArgumentError, match="history"):
        second.load_state_dict(OrderedDict(history=[(math.nan, 0.1, 1)], mechanism="hockeystick"))
    assert second.history == first.history and second.filter.remaining() == first.filter.remaining()


def test_without_opacus_the_way_out_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opacus", None)
    _forget()
    for make in (opacus_engine.opacus_engine, opacus_engine.opacus_accountant):
        with pytest.raises(MissingExtraError, match=r"hockeystick\[opacus\]"):
            make()


# -------------------------------------------------------------------------------------------------------- Opacus itself


@pytest.fixture
def opacus() -> Any:
    _forget()
    return pytest.importorskip("opacus", reason="opacus is not installed")


def model_of() -> tuple[Any, Any, Any]:
    torch, loading = import_module("torch"), import_module("torch.utils.data")
    features = torch.randn(40, 3, generator=torch.Generator().manual_seed(1))
    data = loading.TensorDataset(features, (features[:, 0] > 0).long())
    model = torch.nn.Linear(3, 2)
    return model, torch.optim.SGD(model.parameters(), lr=0.1), loading.DataLoader(data, batch_size=10)


def fit(engine: Any, epochs: int = 1, **options: Any) -> Any:
    torch = import_module("torch")
    model, optimizer, loader = model_of()
    model, optimizer, loader = engine.make_private(
        module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=2.0, max_grad_norm=1.0, **options
    )
    for _ in range(epochs):
        for inputs, labels in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(inputs), labels).backward()
            optimizer.step()
    return model


@pytest.mark.slow
@pytest.mark.usefixtures("opacus")
@pytest.mark.filterwarnings("ignore")  # of torch and opacus
def test_a_training_with_opacus_feeds_a_graph() -> None:
    engine = opacus_engine.opacus_engine()
    fit(engine, epochs=2)
    assert engine.accountant.history == [(2.0, 0.25, 8)]
    expected = epsilon(compose((PoissonSampled(0.25, Gaussian(2.0)), 8)), 1e-5).upper
    assert engine.get_epsilon(1e-5) == expected
    assert engine.accountant.graph().guarantee().epsilon(1e-5).upper == expected
    theirs = import_module("opacus.accountants").RDPAccountant()
    theirs.history = engine.accountant.history
    assert expected < theirs.get_epsilon(1e-5)


@pytest.mark.slow
@pytest.mark.usefixtures("opacus")
@pytest.mark.filterwarnings("ignore")
def test_opacus_calibrates_its_noise_by_it() -> None:
    engine = opacus_engine.opacus_engine()
    model, optimizer, loader = model_of()
    engine.make_private_with_epsilon(
        module=model, optimizer=optimizer, data_loader=loader, target_epsilon=2.0, target_delta=1e-5, epochs=3,
        max_grad_norm=1.0,
    )  # fmt: skip
    create = import_module("opacus.accountants").create_accountant
    assert isinstance(create("hockeystick"), TrainingAccountant)
    sigma = import_module("opacus.accountants.utils").get_noise_multiplier(
        target_epsilon=2.0, target_delta=1e-5, sample_rate=0.25, epochs=3, accountant="hockeystick"
    )
    assert 1.9 < epsilon(from_opacus([(sigma, 0.25, 12)]), 1e-5).upper <= 2.0


@pytest.mark.slow
@pytest.mark.usefixtures("opacus")
@pytest.mark.filterwarnings("ignore")
def test_what_opacus_can_do_and_numbers_do_not_cover_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="poisson_sampling=False"):
        fit(opacus_engine.opacus_engine(), poisson_sampling=False)
    with pytest.raises(InvalidArgumentError, match="clipping='adaptive'"):
        fit(opacus_engine.opacus_engine(), clipping="adaptive")
    own = import_module("opacus").PrivacyEngine(accountant="hockeystick")
    with pytest.raises(InvalidArgumentError, match="poisson_sampling=None"):
        fit(own)
    own.accountant.poisson_sampling = True
    fit(own)
    assert len(own.accountant) == 4


@pytest.mark.slow
@pytest.mark.usefixtures("opacus")
@pytest.mark.filterwarnings("ignore")
def test_a_step_beyond_the_budget_leaves_the_model_as_it_was() -> None:
    torch = import_module("torch")
    budget = RDPFilter.for_target(epsilon=1.0, delta=1e-5)
    engine = opacus_engine.opacus_engine(filter=budget)
    model, optimizer, loader = model_of()
    model, optimizer, loader = engine.make_private(
        module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=2.0, max_grad_norm=1.0
    )
    before = None
    with pytest.raises(BudgetExceededError):
        while True:
            for inputs, labels in loader:
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(model(inputs), labels).backward()
                before = [p.detach().clone() for p in model.parameters()]
                optimizer.step()
    assert before is not None
    assert all(torch.equal(old, new) for old, new in zip(before, model.parameters(), strict=True))
    assert engine.get_epsilon(1e-5) <= 1.0
