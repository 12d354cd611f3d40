"""Private training with Opacus: an accountant of this package for its privacy engine, and an engine that uses it.

    engine = opacus_engine()
    model, optimizer, loader = engine.make_private(module=model, optimizer=optimizer, data_loader=loader, ...)
    ...  # the training loop is unchanged
    engine.accountant.graph()  # the steps so far as a graph, to be composed with other releases
    engine.get_epsilon(delta=1e-5)

Opacus gives an accountant the noise multiplier and the sample rate of each step. These two numbers don't describe every
training that Opacus allows. A step that they don't describe is refused before it changes the model:

* Batches that are not Poisson samples (``poisson_sampling=False``): a shuffled batch of the same size costs more.
* Gradients of k batches added up in one step. Opacus charges them as one sample at rate kq, but a record may be in
  several of the batches: at q = 0.01, k = 4, σ = 1 and 1000 steps, ε is 8.90 at δ = 1e-5, not 8.49.
* A step over several batches of the loader, or over none, for example by ``optimizer.signal_skip_step`` or after
  joining batches. The engine counts the batches that its loader yields: each one needs its own step. This also holds
  under Opacus's ``BatchMemoryManager``, which makes one step of the pieces of a batch. It needs ``num_workers=0``,
  because workers draw batches ahead.
* A clipping norm lower than the one that the gradients were clipped to, as a scheduler leaves it under "ghost" and
  "per_layer" clipping.
* Adaptive clipping. The clipping norm follows the share of unclipped gradients, and the denominator of that share, the
  size of the batch, has no noise.
* An artificial record in place of an empty sample (``rand_on_empty``): a record that is alone in its batch then changes
  the gradient by twice the clipping norm.
* Training in several processes, by DDP or FSDP. Each process samples its own part of the records. Opacus skips a
  process's empty samples, so a record is in the remaining ones more often. Processes with the same seed sample with the
  same coins, so one record's presence tells another's.

With a plain Opacus engine, the accountant does not learn how the loader fills an empty sample, nor how many batches
were drawn. It then refuses steps that add up pieces, and the caller has to see to the other conditions.

Opacus finds accountants by name: the first use of this module registers "hockeystick".
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

from hockeystick.accounting.adjacency import Adjacency
from hockeystick.accounting.budgets.filters import PrivacyFilter
from hockeystick.accounting.engines import best_bound
from hockeystick.accounting.errors import InvalidArgumentError
from hockeystick.accounting.events.basic.event import PrivacyEvent
from hockeystick.accounting.graph.accountant_graph import AccountantGraph
from hockeystick.accounting.graph.guarantee import Guarantee
from hockeystick.accounting.interop.loader_sampling import sampling_of
from hockeystick.accounting.interop.opacus_history import from_opacus
from hockeystick.accounting.optional_packages import require

NAME = "hockeystick"
"""The name under which Opacus finds the accountant."""

_ARGUMENTS = frozenset(
    (
        "module", "optimizer", "criterion", "data_loader", "noise_multiplier", "max_grad_norm", "batch_first",
        "loss_reduction", "noise_generator", "grad_sample_mode", "wrap_model", "poisson_sampling", "clipping",
        "rand_on_empty", "epsilon_tolerance",
    )
)  # fmt: skip  # those of make_private, and epsilon_tolerance, which make_private_with_epsilon passes on to it
_SEVERAL_PROCESSES = frozenset(
    (
        "DistributedDataParallel",
        "DifferentiallyPrivateDistributedDataParallel",
        "FSDPModule",
        "FullyShardedDataParallel",
    )
)  # modules of PyTorch and Opacus
_TARGETS = frozenset(("target_epsilon", "target_delta", "epochs"))
_ROUNDING = 1.0 - 1e-6  # Opacus combines the norms of several layers in single precision

_ASSUMPTION = "each batch is a Poisson sample at the recorded rate; gradients are clipped to the stated norm"


class _Batches:
    """The number of batches drawn since the last step, and the largest clipping norm in that time."""

    def __init__(self, clipping_norm: Callable[[], float]) -> None:
        self._clipping_norm = clipping_norm
        self._drawn, self._norm = 0, 0.0

    def add(self) -> None:
        """Counts a batch, just before the loader yields it."""
        self._drawn += 1
        self._norm = max(self._norm, self._clipping_norm())

    def check(self, optimizer: Any) -> None:
        """Refuses a step that is not over exactly one batch, or whose noise is scaled to less than its clipping norm.

        Raises:
          InvalidArgumentError: the step is of one of these kinds.
        """
        if self._drawn != 1:
            reason = "batches of the loader were drawn since the last step, whose cost is that of one batch"
            remedy = (
                "make one step for each batch of the loader that make_private returned, and draw no batches ahead of"
                " their step (workers under a memory manager do: set num_workers=0)"
            )
            raise InvalidArgumentError("batches", self._drawn, reason, remedy)
        norm = max(self._norm, self._clipping_norm())
        if not optimizer.max_grad_norm >= norm * _ROUNDING:
            reason = f"is below {norm}, the norm to which gradients were clipped, so the noise is too small for them"
            remedy = "change it only between steps, under flat clipping, and not in ghost mode"
            raise InvalidArgumentError("max_grad_norm", optimizer.max_grad_norm, reason, remedy)

    def restart(self) -> None:
        """Resets the count for the next step."""
        self._drawn, self._norm = 0, 0.0


class _Counting:
    """A loader or a sampler that counts the batches it yields."""

    _counted: Any
    _batches: _Batches

    def __iter__(self) -> Iterator[Any]:
        for batch in self._counted:
            self._batches.add()
            yield batch


def _counting(counted: Any, batches: _Batches, **changes: Any) -> Any:
    """Returns a copy of a loader or sampler that counts its batches, of a subclass of the same name."""
    subclass: Any = type(type(counted).__name__, (_Counting, type(counted)), {})
    copy = subclass.__new__(subclass)
    vars(copy).update(vars(counted), _counted=counted, _batches=batches, **changes)  # a loader forbids setattr
    return copy


class TrainingAccountant:
    """The methods of an Opacus accountant, without Opacus. ``opacus_accountant`` makes one that Opacus accepts.

    Attributes:
      history: the steps in Opacus's form, [(noise multiplier, sample rate, number of steps)].
      poisson_sampling: whether batches are Poisson samples. It has to be True before an optimizer is hooked.
      filter: the privacy filter with the rest of the budget, or None.

    Example:
      >>> accountant = TrainingAccountant(poisson_sampling=True)
      >>> for _ in range(3):
      ...     accountant.step(noise_multiplier=1.0, sample_rate=0.01)
      >>> accountant.history, len(accountant)
      ([(1.0, 0.01, 3)], 3)
    """

    def __init__(self, *, poisson_sampling: bool | None = None, filter: PrivacyFilter | None = None) -> None:
        if poisson_sampling is not None and not isinstance(poisson_sampling, bool):
            raise InvalidArgumentError("poisson_sampling", poisson_sampling, "is not a bool")
        if filter is not None and not isinstance(filter, PrivacyFilter):
            raise InvalidArgumentError("filter", filter, "is not a privacy filter", "use an RDPFilter, for example")
        if filter is not None and filter.adjacency is not Adjacency.ADD_OR_REMOVE_ONE:
            reason = "is under another neighbouring relation than Poisson samples"
            raise InvalidArgumentError("filter", filter, reason, "use a filter under add-or-remove-one")
        self.history: list[tuple[float, float, int]] = []
        self.poisson_sampling = poisson_sampling
        self.filter = filter
        self._budget = filter

    @classmethod
    def mechanism(cls) -> str:
        """Returns the name under which Opacus knows the accountant."""
        return NAME

    def step(self, *, noise_multiplier: float, sample_rate: float) -> None:
        """Records one step.

        Raises:
          InvalidArgumentError: a number is out of range.
          BudgetExceededError: the step exceeds the filter's budget; nothing was recorded.
        """
        event = from_opacus([(noise_multiplier, sample_rate, 1)])
        if self.filter is not None:
            self.filter = self.filter.after(event)
        row = (float(noise_multiplier), float(sample_rate))
        if self.history and tuple(self.history[-1][:2]) == row:
            self.history[-1] = (*row, self.history[-1][2] + 1)
        else:
            self.history.append((*row, 1))

    def event(self) -> PrivacyEvent:
        """Returns all steps so far as one event, under add-or-remove-one."""
        return from_opacus(self.history)

    def graph(self, *, source: str = "records", name: str = "training") -> AccountantGraph:
        """Returns all steps so far as a graph with one release of ``source``, to be composed with other releases."""
        graph = AccountantGraph(adjacency=Adjacency.ADD_OR_REMOVE_ONE, assumptions=(_ASSUMPTION,)).source(source)
        return graph.release(name, self.event(), reads=[source])

    def guarantee(self) -> Guarantee:
        """Returns the guarantee of the steps so far, if their number and noise were fixed in advance.

        If they depend on earlier results, as with early stopping, only the guarantee of the filter holds
        (``filter.epsilon``).
        """
        return self.graph().guarantee()

    def get_epsilon(self, delta: float) -> float:
        """Returns the smallest certified ε of the steps so far at ``delta``, or inf if none is finite."""
        return best_bound.epsilon(self.event(), delta).upper

    def __len__(self) -> int:
        """Returns the number of steps."""
        return sum(steps for _, _, steps in self.history)

    def get_optimizer_hook_fn(self, sample_rate: float, *, batches: _Batches | None = None) -> Callable[[Any], None]:
        """Returns the hook that Opacus calls with its optimizer after adding noise and before changing the model.

        Without a count of ``batches``, which only ``opacus_engine`` keeps, a step that adds up pieces is refused: they
        may be of one batch or of several. The hook does not see then whether the loader uses ``rand_on_empty``.

        Raises:
          InvalidArgumentError: ``poisson_sampling`` is not True.
        """
        if self.poisson_sampling is not True:
            reason = "has to be True, as the sample rates that Opacus reports are those of Poisson samples"
            remedy = "use opacus_engine(), or set accountant.poisson_sampling = True if the loader draws such samples"
            raise InvalidArgumentError("poisson_sampling", self.poisson_sampling, reason, remedy)

        def record(optimizer: Any) -> None:
            if hasattr(optimizer, "world_size"):
                raise _distributed("world_size", optimizer.world_size)
            if hasattr(optimizer, "unclipped_num_std"):
                raise _adaptive("an optimizer that adapts its clipping norm")
            accumulated = optimizer.accumulated_iterations
            if accumulated != 1:
                reason = "adds up batches in one step, and a record may be in several of them"
                remedy = "make one step for each batch, or split a larger batch by Opacus's BatchMemoryManager"
                raise InvalidArgumentError("accumulated_iterations", accumulated, reason, remedy)
            if batches is not None:
                batches.check(optimizer)
            elif getattr(optimizer, "_is_last_step_skipped", False):
                reason = "may have added up several batches, and a record may be in more than one of them"
                raise InvalidArgumentError(
                    "signal_skip_step", True, reason, "use opacus_engine(), which counts batches"
                )
            self.step(noise_multiplier=optimizer.noise_multiplier, sample_rate=sample_rate)
            if batches is not None:
                batches.restart()

        return record

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Replaces the steps by those of a checkpoint, and charges the filter's whole budget with them.

        Raises:
          InvalidArgumentError: a row is out of range.
          BudgetExceededError: the steps exceed the filter's whole budget; nothing was changed.
          ValueError: (raised by Opacus) the state is not one of this accountant.
        """
        if isinstance(state_dict, Mapping) and "history" in state_dict:
            event = from_opacus(state_dict)
            left = None if self._budget is None else self._budget.after(event)
            super().load_state_dict(state_dict)  # type: ignore[misc]
            self.filter = left
        else:
            super().load_state_dict(state_dict)  # type: ignore[misc]


def _adaptive(value: object) -> InvalidArgumentError:
    reason = "has a clipping norm that follows the size of each batch, which no noise hides"
    return InvalidArgumentError("clipping", value, reason, 'use "flat" or "per_layer"')


def _distributed(name: str, value: object) -> InvalidArgumentError:
    reason = (
        "trains in several processes, of which Opacus's loader skips the empty samples, so a record is in the others"
        " more often than at its rate, and processes with the same seed sample with the same coins"
    )
    remedy = (
        "train in one process, with large batches in pieces by BatchMemoryManager; or draw one Poisson sample a step"
        " for all processes yourself, train on the empty ones too, and charge each step by accountant.step()"
    )
    return InvalidArgumentError(name, value, reason, remedy)


def _checked(arguments: dict[str, Any], more: frozenset[str] = frozenset()) -> dict[str, Any]:
    """Returns the arguments of an engine's method, if they are known not to change the cost of a step."""
    sampling = arguments.get("poisson_sampling", True)
    if sampling is not True:
        reason = "gives batches that are not Poisson samples, whose cost is different"
        remedy = "leave it at True, or charge batches of a shuffled list by hockeystick.events.ShuffledBatches"
        with contextlib.suppress(InvalidArgumentError):
            seen = sampling_of(arguments.get("data_loader"))
            reason += f": the loader's sampling is {seen!r}"
            remedy = f'leave it at True, or charge hockeystick.DPSGD(records, batch, epochs, clip=C, sampling="{seen}")'
        raise InvalidArgumentError("poisson_sampling", sampling, reason, remedy)
    if arguments.get("clipping") == "adaptive":
        raise _adaptive("adaptive")
    kinds = _SEVERAL_PROCESSES.intersection(kind.__name__ for kind in type(arguments.get("module")).__mro__)
    if kinds:
        raise _distributed("module", min(kinds))
    if arguments.get("grad_sample_mode") in ("ghost_fsdp", "ghost_tp"):
        raise _distributed("grad_sample_mode", arguments["grad_sample_mode"])
    rand_on_empty = arguments.get("rand_on_empty", False)
    if rand_on_empty is not False:
        reason = "fills an empty batch by an artificial record, so a record may change it by twice the clipping norm"
        raise InvalidArgumentError("rand_on_empty", rand_on_empty, reason, "leave it at False")
    known = _ARGUMENTS | more
    for name in sorted(arguments.keys() - known):
        reason = "is not known to leave the cost of a step unchanged"
        raise InvalidArgumentError(name, arguments[name], reason, f"use {', '.join(sorted(known))}")
    return {name: value for name, value in arguments.items() if name != "rand_on_empty"}


@cache
def _accountant_class() -> Any:
    accountants = require("opacus.accountants", "an accountant for Opacus", extra="opacus")
    bases = (TrainingAccountant, accountants.IAccountant)
    accountant = type("HockeystickAccountant", bases, {"__doc__": TrainingAccountant.__doc__})
    accountants.register_accountant(NAME, accountant, force=True)
    return accountant


def opacus_accountant(*, poisson_sampling: bool | None = None, filter: PrivacyFilter | None = None) -> Any:
    """Returns an ``opacus.accountants.IAccountant`` that is also a ``TrainingAccountant``.

    Afterwards Opacus knows the name "hockeystick", as in ``PrivacyEngine(accountant="hockeystick")`` and
    ``get_noise_multiplier``. A plain Opacus engine does not pass on how its loader samples: state it here.

    Args:
      poisson_sampling: whether batches are Poisson samples, where each record is in each batch independently.
      filter: a privacy filter with the budget. A step that exceeds it raises, and does not change the model.

    Raises:
      MissingExtraError: Opacus is not installed.
      InvalidArgumentError: an argument has the wrong type, or the filter another relation than add-or-remove-one.

    Example (with Opacus installed):
      accountant = opacus_accountant(poisson_sampling=True)
      optimizer.attach_step_hook(accountant.get_optimizer_hook_fn(sample_rate=0.01))

    See ``TrainingAccountant`` for an example that runs without Opacus.
    """
    return _accountant_class()(poisson_sampling=poisson_sampling, filter=filter)


@cache
def _engine_class() -> Any:
    base: Any = require("opacus", "a privacy engine", extra="opacus").PrivacyEngine
    _accountant_class()

    class PrivacyEngine(base):  # type: ignore[misc]  # the base is known only after its import
        """Opacus's engine with the accountant of this package, which refuses steps of unknown cost."""

        def __init__(self, *, filter: PrivacyFilter | None = None, secure_mode: bool = False) -> None:
            super().__init__(accountant=NAME, secure_mode=secure_mode)
            self.accountant = opacus_accountant(filter=filter)

        def make_private(self, **arguments: Any) -> Any:
            """Works like Opacus's method, for Poisson samples and clipping norms that do not depend on the data.

            Raises:
              InvalidArgumentError: batches are not Poisson samples, clipping is adaptive, training is distributed, or
                an argument is not known to leave the cost of a step unchanged.
            """
            arguments = _checked(arguments)
            arguments.pop("epsilon_tolerance", None)
            self.accountant.poisson_sampling = True
            module, optimizer, *others, loader = super().make_private(**arguments)
            if type(loader.batch_sampler).__name__ != "UniformWithReplacementSampler":
                raise _distributed("sampler", type(loader.batch_sampler).__name__)

            def clipping_norm() -> float:
                if hasattr(optimizer, "max_grad_norms"):
                    return math.hypot(*optimizer.max_grad_norms)
                clips = module if "ghost" in arguments.get("grad_sample_mode", "hooks") else optimizer
                return float(clips.max_grad_norm)

            batches = _Batches(clipping_norm)
            optimizer.attach_step_hook(self.accountant.get_optimizer_hook_fn(1 / len(loader), batches=batches))
            sampler = _counting(loader.batch_sampler, batches)  # for a loader built on it, as by BatchMemoryManager
            return module, optimizer, *others, _counting(loader, batches, batch_sampler=sampler)

        def make_private_with_epsilon(self, **arguments: Any) -> Any:
            """Works like Opacus's method, with the noise for a target ε; refuses the same as ``make_private``."""
            return super().make_private_with_epsilon(**_checked(arguments, _TARGETS))

    return PrivacyEngine


def opacus_engine(*, filter: PrivacyFilter | None = None, secure_mode: bool = False) -> Any:
    """Returns an ``opacus.PrivacyEngine`` whose ``accountant`` comes from ``opacus_accountant``.

    Args:
      filter: a privacy filter with the budget. A step that exceeds it raises ``BudgetExceededError``, and does not
        change the model.
      secure_mode: Opacus's option for noise from a secure generator. By default a training is only an experiment.

    Raises:
      MissingExtraError: Opacus is not installed.

    Example (with Opacus installed):
      engine = opacus_engine()
      model, optimizer, loader = engine.make_private(module=model, optimizer=optimizer, data_loader=loader, ...)
    """
    return _engine_class()(filter=filter, secure_mode=secure_mode)
