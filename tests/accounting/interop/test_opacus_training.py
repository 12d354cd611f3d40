"""Tests of Opacus training runs with this accountant: the accountant with a fake Opacus, and the engine with Opacus
itself."""

from __future__ import annotations

import inspect
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
)
from hockeystick.accounting.interop import opacus_training
from hockeystick.accounting.interop.opacus_training import TrainingAccountant
from hockeystick.accounting.optional_packages import MissingExtraError

STEP = PoissonSampled(0.1, Gaussian(2.0))


def optimizer(noise: float = 2.0, batches: int = 1, **more: Any) -> Any:
    return SimpleNamespace(noise_multiplier=noise, accumulated_iterations=batches, **more)


def trained(steps: int, **options: Any) -> TrainingAccountant:
    accountant = TrainingAccountant(poisson_sampling=True, **options)
    hook = accountant.get_optimizer_hook_fn(0.1)
    for _ in range(steps):
        hook(optimizer())
    return accountant


@pytest.mark.statistical
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


@pytest.mark.statistical
def test_added_up_batches_are_refused_and_would_cost_more_than_opacus_charges() -> None:
    accountant = trained(0)
    with pytest.raises(InvalidArgumentError, match="accumulated_iterations=4"):
        accountant.get_optimizer_hook_fn(0.01)(optimizer(batches=4))
    assert len(accountant) == 0
    truth = epsilon(compose((PoissonSampled(0.01, Gaussian(1.0)).at(4), 1000)), 1e-5).upper
    charged = epsilon(from_opacus([(1.0, 0.04, 1000)]), 1e-5).upper
    assert charged == pytest.approx(8.49, abs=0.01) and truth == pytest.approx(8.90, abs=0.01)


def test_partial_steps_are_refused_if_batches_are_not_counted() -> None:
    """The pieces may be of one batch (Opacus's memory manager) or of several; an accountant alone cannot distinguish
    them."""
    accountant = trained(0)
    with pytest.raises(InvalidArgumentError, match="signal_skip_step=True") as caught:
        accountant.get_optimizer_hook_fn(0.1)(optimizer(_is_last_step_skipped=True))
    assert "opacus_engine" in caught.value.remedy and len(accountant) == 0
    accountant.get_optimizer_hook_fn(0.1)(optimizer(_is_last_step_skipped=False))
    assert len(accountant) == 1


def test_adaptive_clipping_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="follows the size of each batch"):
        trained(0).get_optimizer_hook_fn(0.1)(optimizer(unclipped_num_std=5.0))


@pytest.mark.parametrize("noise", [math.nan, -1.0, True, "1"])
def test_an_invalid_step_is_refused(noise: object) -> None:
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


class Loader:
    """As torch's: some attributes can't be set once it is made."""

    def __init__(self, batch_sampler: Any, workers: int = 0) -> None:
        self.batch_sampler, self.workers, self.made = batch_sampler, workers, True

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "batch_sampler" and hasattr(self, "made"):
            raise ValueError("batch_sampler attribute should not be set")
        super().__setattr__(name, value)

    def __iter__(self) -> Iterator[list[int]]:
        ahead = []
        for batch in self.batch_sampler:  # workers draw ahead
            ahead.append(batch)
            if len(ahead) > self.workers:
                yield ahead.pop(0)
        yield from ahead

    def __len__(self) -> int:
        return len(self.batch_sampler)


class UniformWithReplacementSampler:
    """As Opacus's, of batches that are known."""

    def __init__(self) -> None:
        self.batches = [[0, 1, 2], [], [2], [0, 1, 2, 3, 4], [1, 3]]

    def __iter__(self) -> Iterator[list[int]]:
        return iter(self.batches)

    def __len__(self) -> int:
        return len(self.batches)


class DistributedUniformWithReplacementSampler(UniformWithReplacementSampler):
    """As Opacus's."""


class Optimizer:
    """As Opacus's, without gradients."""

    def __init__(self, noise_multiplier: float, max_grad_norm: Any) -> None:
        self.noise_multiplier, self.accumulated_iterations, self.queue = noise_multiplier, 1, list[bool]()
        self.max_grad_norm: float = max_grad_norm
        if isinstance(max_grad_norm, list):
            self.max_grad_norms, self.max_grad_norm = max_grad_norm, math.hypot(*max_grad_norm)
        self._is_last_step_skipped = False

    def attach_step_hook(self, hook: Any) -> None:
        self.hook = hook

    def signal_skip_step(self, do_skip: bool = True) -> None:
        self.queue.append(do_skip)

    def step(self) -> None:
        skipped = bool(self.queue) and self.queue.pop(0)
        if not skipped:
            self.hook(self)
        self._is_last_step_skipped = skipped


def in_pieces(loader: Any, optimizer: Any, size: int, workers: int = 0) -> Loader:
    """As Opacus's BatchMemoryManager: a loader of its own over the pieces of another's batches."""

    class Pieces:
        def __iter__(self) -> Iterator[list[int]]:
            for batch in loader.batch_sampler:
                pieces = [batch[i : i + size] for i in range(0, len(batch), size)] or [[]]
                for piece in pieces:
                    optimizer.signal_skip_step(piece is not pieces[-1])
                    yield piece

    return Loader(Pieces(), workers)


class Engine:
    """As Opacus's."""

    def __init__(self, *, accountant: str, secure_mode: bool) -> None:
        self.accountant: Any = accountant

    def make_private(
        self, *, module: Any, noise_multiplier: float = 2.0, max_grad_norm: Any = 1.0, grad_sample_mode: str = "hooks",
        **arguments: Any,
    ) -> Any:  # fmt: skip
        assert not arguments.keys() - {"clipping", "poisson_sampling"}
        distributed = module == "distributed"
        sampler = DistributedUniformWithReplacementSampler() if distributed else UniformWithReplacementSampler()
        made, loader = Optimizer(noise_multiplier, max_grad_norm), Loader(sampler)
        made.attach_step_hook(self.accountant.get_optimizer_hook_fn(sample_rate=1 / len(loader)))
        wrapped = SimpleNamespace(max_grad_norm=max_grad_norm)
        return (wrapped, made, "loss", loader) if grad_sample_mode == "ghost" else (wrapped, made, loader)

    def make_private_with_epsilon(self, *, target_epsilon: float, **arguments: Any) -> Any:
        return self.make_private(noise_multiplier=7.0 * target_epsilon, **arguments)


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
    module = import_module("hockeystick.accounting.interop.opacus_training")
    module._accountant_class.cache_clear()
    module._engine_class.cache_clear()


@pytest.mark.parametrize("mode", ["hooks", "ghost"])
def test_the_engine_charges_a_step_for_each_batch(stand_in: dict[str, Any], mode: str) -> None:
    engine = opacus_training.opacus_engine(filter=RDPFilter.for_target(epsilon=50.0, delta=1e-5))
    assert isinstance(engine.accountant, IAccountant) and isinstance(stand_in["hockeystick"](), TrainingAccountant)
    _, optimizer, *loss, loader = engine.make_private(module=3, grad_sample_mode=mode)
    assert loss == (["loss"] if mode == "ghost" else [])
    assert isinstance(loader, Loader) and isinstance(loader.batch_sampler, UniformWithReplacementSampler)
    assert len(loader) == 5
    for _ in range(2):
        batches = []
        for batch in loader:
            optimizer.step()
            batches.append(batch)
        assert batches == UniformWithReplacementSampler().batches
    assert engine.accountant.history == [(2.0, 0.2, 10)]


@pytest.mark.parametrize("mode", ["hooks", "ghost"])
def test_partial_batches_make_one_step(stand_in: dict[str, Any], mode: str) -> None:
    engine = opacus_training.opacus_engine()
    _, optimizer, *_, loader = engine.make_private(module=3, grad_sample_mode=mode)
    pieces = 0
    for _ in in_pieces(loader, optimizer, 2):
        optimizer.step()
        pieces += 1
    assert pieces == 8 and engine.accountant.history == [(2.0, 0.2, 5)]
    with pytest.raises(InvalidArgumentError, match="batches=4") as caught:
        for _ in in_pieces(loader, optimizer, 2, workers=3):
            optimizer.step()
    assert "num_workers=0" in caught.value.remedy


def skipping(loader: Any, optimizer: Any) -> None:
    """A loop with four batches in one step costs 8.92 at sigma = 1, q = 1/8, and not 1.92."""
    for _, skip in zip(loader, [True, True, True, False], strict=False):
        optimizer.signal_skip_step(skip)
        optimizer.step()


def joined(loader: Any, optimizer: Any) -> None:
    batches = iter(loader)
    assert next(batches) + next(batches)
    optimizer.step()


def again(loader: Any, optimizer: Any) -> None:
    for _ in loader:
        optimizer.step()
        optimizer.step()


def another(loader: Any, optimizer: Any) -> None:
    for _ in UniformWithReplacementSampler():
        optimizer.step()


def left_over(loader: Any, optimizer: Any) -> None:
    for _ in range(2):
        for piece in in_pieces(loader, optimizer, 2):
            if len(piece) == 1:
                break  # the rest of a batch whose first piece was added up
            optimizer.step()


@pytest.mark.parametrize(
    ("loop", "batches"),
    [(skipping, 4), (joined, 2), (again, 0), (another, 0), (left_over, 2)],
    ids=lambda x: getattr(x, "__name__", str(x)),
)
@pytest.mark.parametrize("mode", ["hooks", "ghost"])
def test_a_step_of_other_than_one_batch_is_refused(
    stand_in: dict[str, Any], loop: Any, batches: int, mode: str
) -> None:
    engine = opacus_training.opacus_engine()
    _, optimizer, *_, loader = engine.make_private(module=3, grad_sample_mode=mode)
    with pytest.raises(InvalidArgumentError, match=f"batches={batches}: batches of the loader were drawn"):
        loop(loader, optimizer)
    assert len(engine.accountant) == (1 if loop is again else 0)


@pytest.mark.parametrize(
    ("options", "lower"),
    [
        ({}, False),
        ({"grad_sample_mode": "ghost"}, True),
        ({"max_grad_norm": [0.6, 0.8], "clipping": "per_layer"}, True),
    ],
)
def test_noise_for_a_smaller_norm_than_gradients_were_clipped_to_is_refused(
    stand_in: dict[str, Any], options: dict[str, Any], lower: bool
) -> None:
    """An Opacus scheduler lowers the optimizer's norm, but in two modes gradients are clipped to another norm."""
    engine = opacus_training.opacus_engine()
    _, optimizer, *_, loader = engine.make_private(module=3, **options)
    steps = iter(loader)
    next(steps)
    optimizer.step()
    optimizer.max_grad_norm = 0.9
    next(steps)
    if lower:
        with pytest.raises(InvalidArgumentError, match=r"max_grad_norm=0.9: is below 1.0"):
            optimizer.step()
        optimizer.max_grad_norm = 1.1
    optimizer.step()
    next(steps)
    optimizer.max_grad_norm = 0.5  # a part of the batch may have been clipped or not
    with pytest.raises(InvalidArgumentError, match=r"max_grad_norm=0.5"):
        optimizer.step()
    assert len(engine.accountant) == 2


@pytest.mark.parametrize("method", ["make_private", "make_private_with_epsilon"])
@pytest.mark.parametrize(
    ("named", "value"),
    [("poisson_sampling", False), ("clipping", "adaptive"), ("rand_on_empty", True), ("rand_on_empty", 1),
     ("surprise", 3)],
)  # fmt: skip
def test_options_that_change_the_cost_of_a_step_are_refused(
    stand_in: dict[str, Any], method: str, named: str, value: object
) -> None:
    with pytest.raises(InvalidArgumentError, match=named) as caught:
        target = {"target_epsilon": 1.0} if method.endswith("epsilon") else {}
        getattr(opacus_training.opacus_engine(), method)(module=3, **target, **{named: value})
    assert caught.value.argument == named and caught.value.remedy


def test_options_that_do_not_affect_the_cost_are_passed_on(stand_in: dict[str, Any]) -> None:
    engine = opacus_training.opacus_engine()
    options = {"poisson_sampling": True, "clipping": "flat", "rand_on_empty": False, "epsilon_tolerance": 0.1}
    _, optimizer, loader = engine.make_private_with_epsilon(module=3, target_epsilon=1.0, **options)
    for _ in loader:
        optimizer.step()
    assert engine.accountant.history == [(7.0, 0.2, 5)]


def kind_of_module(*names: str) -> Any:
    """A model as PyTorch's wrappers leave it: a class with theirs among its bases."""
    return type("FSDPLinear", tuple(type(name, (), {}) for name in names), {})()


@pytest.mark.parametrize(
    "arguments, named",
    [
        ({"module": "distributed"}, "sampler"),  # Opacus found out itself
        ({"module": kind_of_module("FSDPModule", "Linear")}, "module"),
        ({"module": kind_of_module("FullyShardedDataParallel")}, "module"),  # which Opacus takes for one process
        ({"module": kind_of_module("DistributedDataParallel")}, "module"),
        ({"module": 3, "grad_sample_mode": "ghost_fsdp"}, "grad_sample_mode"),
    ],
)
def test_training_in_several_processes_is_refused(
    stand_in: dict[str, Any], arguments: dict[str, Any], named: str
) -> None:
    """Opacus passes over empty samples there, and processes with one seed share the coins of their samples."""
    with pytest.raises(InvalidArgumentError, match="skips the empty samples.*same coins") as caught:
        opacus_training.opacus_engine().make_private(**arguments)
    assert caught.value.argument == named and "BatchMemoryManager" in caught.value.remedy


def test_an_optimizer_of_several_processes_is_refused_by_the_accountant_alone() -> None:
    accountant = trained(0)
    with pytest.raises(InvalidArgumentError, match="world_size=2"):
        accountant.get_optimizer_hook_fn(0.1)(optimizer(world_size=2, rank=0))
    assert len(accountant) == 0
    accountant.step(noise_multiplier=2.0, sample_rate=0.1)  # for a loop with samples of its own
    assert len(accountant) == 1


def test_a_checkpoint_is_charged_to_the_filter(stand_in: dict[str, Any]) -> None:
    budget = RDPFilter.for_target(epsilon=1.0, delta=1e-5)
    first, second = (opacus_training.opacus_accountant(poisson_sampling=True, filter=budget) for _ in range(2))
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


def test_without_opacus_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opacus", None)
    _forget()
    for make in (opacus_training.opacus_engine, opacus_training.opacus_accountant):
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


@pytest.mark.statistical
@pytest.mark.usefixtures("opacus")
@pytest.mark.filterwarnings("ignore")  # of torch and opacus
def test_a_training_with_opacus_feeds_a_graph() -> None:
    engine = opacus_training.opacus_engine()
    fit(engine, epochs=2)
    assert engine.accountant.history == [(2.0, 0.25, 8)]
    expected = epsilon(compose((PoissonSampled(0.25, Gaussian(2.0)), 8)), 1e-5).upper
    assert engine.get_epsilon(1e-5) == expected
    assert engine.accountant.graph().guarantee().epsilon(1e-5).upper == expected
    theirs = import_module("opacus.accountants").RDPAccountant()
    theirs.history = engine.accountant.history
    assert expected < theirs.get_epsilon(1e-5)


@pytest.mark.statistical
@pytest.mark.usefixtures("opacus")
@pytest.mark.filterwarnings("ignore")
def test_opacus_calibrates_noise_with_this_accountant() -> None:
    engine = opacus_training.opacus_engine()
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


@pytest.mark.statistical
@pytest.mark.usefixtures("opacus")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mode", ["hooks", "ghost"])
def test_a_schedule_of_the_noise_is_charged_step_by_step_also_without_a_wrapped_model(mode: str) -> None:
    if "wrap_model" not in inspect.signature(import_module("opacus").PrivacyEngine.make_private).parameters:
        pytest.skip("Opacus before 1.6")
    engine, (model, optimizer, loader) = opacus_training.opacus_engine(), model_of()
    _, optimizer, *criterion, loader = engine.make_private(
        module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=2.0, max_grad_norm=1.0,
        wrap_model=False, grad_sample_mode=mode,
    )  # fmt: skip
    loss = criterion[0] if criterion else import_module("torch").nn.functional.cross_entropy
    schedule = import_module("opacus.schedulers").ExponentialNoise(optimizer, gamma=0.5)
    for inputs, labels in loader:
        optimizer.zero_grad()
        loss(model(inputs), labels).backward()
        optimizer.step()
        schedule.step()
    assert engine.accountant.history == [(2.0 / 2**i, 0.25, 1) for i in range(4)]
    expected = compose(*(PoissonSampled(0.25, Gaussian(2.0 / 2**i)) for i in range(4)))
    assert engine.get_epsilon(1e-5) == epsilon(expected, 1e-5).upper


@pytest.mark.statistical
@pytest.mark.usefixtures("opacus")
@pytest.mark.filterwarnings("ignore")
def test_uncovered_features_of_opacus_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="poisson_sampling=False.*sampling is 'shuffle'") as caught:
        fit(opacus_training.opacus_engine(), poisson_sampling=False)
    assert 'sampling="shuffle"' in caught.value.remedy
    with pytest.raises(InvalidArgumentError, match="clipping='adaptive'"):
        fit(opacus_training.opacus_engine(), clipping="adaptive")
    with pytest.raises(InvalidArgumentError, match="rand_on_empty=True"):
        fit(opacus_training.opacus_engine(), rand_on_empty=True)
    own = import_module("opacus").PrivacyEngine(accountant="hockeystick")
    with pytest.raises(InvalidArgumentError, match="poisson_sampling=None"):
        fit(own)
    own.accountant.poisson_sampling = True
    fit(own)
    assert len(own.accountant) == 4


@pytest.mark.statistical
@pytest.mark.usefixtures("opacus")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mode", ["hooks", "ghost"])
def test_loops_of_opacus_make_one_step_per_batch(mode: str) -> None:
    """Opacus's memory manager and schedulers work, and uncovered uses of them are refused."""
    torch, manager = import_module("torch"), import_module("opacus.utils.batch_memory_manager").BatchMemoryManager
    decay = import_module("opacus.schedulers").ExponentialGradClip
    engine = opacus_training.opacus_engine()

    def made() -> tuple[Any, Any, Any]:
        module, optimizer, loader = model_of()
        module, optimizer, *loss, loader = engine.make_private(
            module=module, optimizer=optimizer, data_loader=loader, noise_multiplier=2.0, max_grad_norm=1.0,
            grad_sample_mode=mode, criterion=torch.nn.CrossEntropyLoss(), rand_on_empty=False,
        )  # fmt: skip
        criterion = loss[0] if loss else torch.nn.functional.cross_entropy

        def step(batch: Any) -> None:
            optimizer.zero_grad()
            criterion(module(batch[0]), batch[1]).backward()
            optimizer.step()

        return optimizer, loader, step

    optimizer, loader, step = made()
    pieces = 0
    for _ in range(2):
        with manager(data_loader=loader, max_physical_batch_size=4, optimizer=optimizer) as managed:
            for batch in managed:
                step(batch)
                pieces += 1
    assert pieces > 8 and engine.accountant.history == [(2.0, 0.25, 8)]
    with pytest.raises(InvalidArgumentError, match="batches=4"):
        for i, batch in enumerate(loader):
            optimizer.signal_skip_step(i < 3)
            step(batch)
    assert len(engine.accountant) == 8
    optimizer, loader, step = made()
    schedule = decay(optimizer, gamma=0.9)
    if mode == "ghost":
        with pytest.raises(InvalidArgumentError, match=r"max_grad_norm=0.9"):
            for batch in loader:
                step(batch)
                schedule.step()
    else:
        for batch in loader:
            step(batch)
            schedule.step()
    assert len(engine.accountant) == 8 + (1 if mode == "ghost" else 4)


@pytest.mark.statistical
@pytest.mark.usefixtures("opacus")
@pytest.mark.filterwarnings("ignore")
def test_a_step_beyond_the_budget_leaves_the_model_as_it_was() -> None:
    torch = import_module("torch")
    budget = RDPFilter.for_target(epsilon=1.0, delta=1e-5)
    engine = opacus_training.opacus_engine(filter=budget)
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
