"""Training with Opacus, charged here: an accountant for its privacy engine, and the engine with that accountant.

    engine = opacus_engine()
    model, optimizer, loader = engine.make_private(module=model, optimizer=optimizer, data_loader=loader, ...)
    ...  # the training loop, as it was
    engine.accountant.graph()  # its steps, as a graph to be composed with other releases
    engine.get_epsilon(delta=1e-5)

Opacus tells an accountant the noise multiplier and the sample rate of each step, and not whether they mean anything.
So what its numbers do not cover is refused here, before the step that it concerns changes the model:

* Batches that are no Poisson samples (``poisson_sampling=False``): a shuffled batch of the same size costs more.
* Gradients of k batches added up in one step. Opacus charges them as one sample at rate kq, but a record may be in
  several of them: at q = 0.01, k = 4, sigma = 1 and 1000 steps, ε is 8.90 at δ = 1e-5 and not 8.49.
* Steps of several batches of the loader, or of none: by ``optimizer.signal_skip_step``, say, or of joined batches.
  The engine counts what its loader hands out: each batch has a step of its own. So it is under Opacus's
  ``BatchMemoryManager``, which makes a step of the pieces of one batch (with ``num_workers=0``: workers draw ahead).
* A clipping norm below the one that the gradients were clipped to, as a scheduler leaves it in "ghost" and "per_layer".
* Adaptive clipping. Its clipping norm follows the share of unclipped gradients, and the size of the batch in that
  share's denominator is not noised.
* A made-up record in place of an empty sample (``rand_on_empty``): whoever is alone in a batch changes it by twice the
  clipping norm. Distributed training: there Opacus passes over empty samples, so that a record is in more of the rest.

An engine of Opacus's own, with the accountant alone, does not say how its loader fills an empty sample, nor how many
batches were drawn: there steps that add up pieces are refused, and the rest is the caller's to see to.

Opacus looks accountants up by name: making the first of these registers "hockeystick".
"""

from __future__ import annotations

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
from hockeystick.accounting.interop.opacus_history import from_opacus
from hockeystick.accounting.optional_packages import require

NAME = "hockeystick"
"""Under which Opacus finds the accountant."""

_ARGUMENTS = frozenset(
    (
        "module", "optimizer", "criterion", "data_loader", "noise_multiplier", "max_grad_norm", "batch_first",
        "loss_reduction", "noise_generator", "grad_sample_mode", "wrap_model", "poisson_sampling", "clipping",
        "rand_on_empty", "epsilon_tolerance",
    )
)  # fmt: skip  # of make_private; the last is of the calibration alone, which hands it on
_TARGETS = frozenset(("target_epsilon", "target_delta", "epochs"))
_ROUNDED = 1.0 - 1e-6  # norms of several layers are added up in single precision

_ASSUMPTION = "each batch is a Poisson sample at the recorded rate; gradients are clipped to the stated norm"


class _Batches:
    """What a loader handed out since the last step, and the largest norm that gradients were clipped to meanwhile."""

    def __init__(self, clipping_norm: Callable[[], float]) -> None:
        self._clipping_norm = clipping_norm
        self._drawn, self._norm = 0, 0.0

    def add(self) -> None:
        """Counts a batch, before it is handed out."""
        self._drawn += 1
        self._norm = max(self._norm, self._clipping_norm())

    def check(self, optimizer: Any) -> None:
        """Refuses a step that is not of one batch, or whose noise is for a smaller norm than it was clipped to.

        Raises:
          InvalidArgumentError: it is such a step.
        """
        if self._drawn != 1:
            reason = "batches of the loader were drawn since the last step, and its charge is for one"
            remedy = (
                "make a step for each batch of the loader that make_private returned, and draw no others from it (nor"
                " ahead, as workers under a memory manager do: num_workers=0)"
            )
            raise InvalidArgumentError("batches", self._drawn, reason, remedy)
        norm = max(self._norm, self._clipping_norm())
        if not optimizer.max_grad_norm >= norm * _ROUNDED:
            reason = f"is below {norm}, to which gradients were clipped: the noise does not cover them"
            remedy = "change it between steps, with flat clipping and in another mode than ghost"
            raise InvalidArgumentError("max_grad_norm", optimizer.max_grad_norm, reason, remedy)

    def restart(self) -> None:
        """Begins to count for the next step."""
        self._drawn, self._norm = 0, 0.0


class _Counting:
    """A loader, or its sampler, that counts what it hands out."""

    _counted: Any
    _batches: _Batches

    def __iter__(self) -> Iterator[Any]:
        for each in self._counted:
            self._batches.add()
            yield each


def _counting(counted: Any, batches: _Batches, **others: Any) -> Any:
    """A copy that counts, of the same class for all that asks."""
    kind: Any = type(type(counted).__name__, (_Counting, type(counted)), {})
    made = kind.__new__(kind)
    vars(made).update(vars(counted), _counted=counted, _batches=batches, **others)  # a loader lets none be set
    return made


class TrainingAccountant:
    """What an Opacus accountant does, without Opacus; ``opacus_accountant`` makes one of Opacus's kind.

    Attributes:
      history: steps as Opacus keeps them, [(noise multiplier, sample rate, number of steps)].
      poisson_sampling: whether batches are Poisson samples; it has to be True before an optimizer is hooked.
      filter: what is left of the budget; None without one.
    """

    def __init__(self, *, poisson_sampling: bool | None = None, filter: PrivacyFilter | None = None) -> None:
        if poisson_sampling is not None and not isinstance(poisson_sampling, bool):
            raise InvalidArgumentError("poisson_sampling", poisson_sampling, "is not a bool")
        if filter is not None and not isinstance(filter, PrivacyFilter):
            raise InvalidArgumentError("filter", filter, "is no privacy filter", "give an RDPFilter, say")
        if filter is not None and filter.adjacency is not Adjacency.ADD_OR_REMOVE_ONE:
            raise InvalidArgumentError("filter", filter, "has another relation than Poisson samples", "add-or-remove")
        self.history: list[tuple[float, float, int]] = []
        self.poisson_sampling = poisson_sampling
        self.filter = filter
        self._budget = filter

    @classmethod
    def mechanism(cls) -> str:
        """The accountant's name for Opacus."""
        return NAME

    def step(self, *, noise_multiplier: float, sample_rate: float) -> None:
        """Records one step.

        Raises:
          InvalidArgumentError: a number out of range.
          BudgetExceededError: the filter has no room for it; nothing was recorded.
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
        """All steps so far, as one event, under add-or-remove-one."""
        return from_opacus(self.history)

    def graph(self, *, source: str = "records", name: str = "training") -> AccountantGraph:
        """All steps so far as a graph: one release of ``source``, to be composed with what else reads it."""
        graph = AccountantGraph(adjacency=Adjacency.ADD_OR_REMOVE_ONE, assumptions=(_ASSUMPTION,)).source(source)
        return graph.release(name, self.event(), reads=[source])

    def guarantee(self) -> Guarantee:
        """What the steps so far cost one record, had their number and noise been fixed in advance.

        Where these follow what was seen, as with early stopping, the guarantee is the filter's: ``filter.epsilon``.
        """
        return self.graph().guarantee()

    def get_epsilon(self, delta: float) -> float:
        """The least certified ε of the steps so far at ``delta``; inf if there is none."""
        return best_bound.epsilon(self.event(), delta).upper

    def __len__(self) -> int:
        """How many steps there were."""
        return sum(steps for _, _, steps in self.history)

    def get_optimizer_hook_fn(self, sample_rate: float, *, batches: _Batches | None = None) -> Callable[[Any], None]:
        """What Opacus calls with its optimizer after the noise was added, and before the model changes.

        Without a count of ``batches``, which ``interop.opacus_training`` keeps, a step that adds up pieces is refused:
        they may be of one batch or of several. Nor is it seen then whether the loader has ``rand_on_empty``.

        Raises:
          InvalidArgumentError: nobody said that batches are Poisson samples.
        """
        if self.poisson_sampling is not True:
            reason = "but the rates that Opacus tells are those of Poisson samples"
            remedy = (
                "use opacus_engine(), or set accountant.poisson_sampling = True where the loader draws such samples"
            )
            raise InvalidArgumentError("poisson_sampling", self.poisson_sampling, reason, remedy)

        def record(optimizer: Any) -> None:
            if hasattr(optimizer, "unclipped_num_std"):
                raise _adaptive("an optimizer that adapts its clipping norm")
            added = optimizer.accumulated_iterations
            if added != 1:
                reason = "batches add up in one step, in several of which a record may be"
                remedy = "make a step for each, or a larger batch in pieces by Opacus's BatchMemoryManager"
                raise InvalidArgumentError("accumulated_iterations", added, reason, remedy)
            if batches is not None:
                batches.check(optimizer)
            elif getattr(optimizer, "_is_last_step_skipped", False):
                reason = "added up what may be several batches, in some of which a record is more than once"
                raise InvalidArgumentError("signal_skip_step", True, reason, "use opacus_engine(), which counts them")
            self.step(noise_multiplier=optimizer.noise_multiplier, sample_rate=sample_rate)
            if batches is not None:
                batches.restart()

        return record

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Takes the steps of a checkpoint in place of its own; a filter is charged with them.

        Raises:
          InvalidArgumentError: a row outside its domain.
          BudgetExceededError: the filter's whole budget has no room for them; nothing was changed.
          ValueError: (Opacus's) no state of this accountant.
        """
        if isinstance(state_dict, Mapping) and "history" in state_dict:
            event = from_opacus(state_dict)
            left = None if self._budget is None else self._budget.after(event)
            super().load_state_dict(state_dict)  # type: ignore[misc]
            self.filter = left
        else:
            super().load_state_dict(state_dict)  # type: ignore[misc]


def _adaptive(value: object) -> InvalidArgumentError:
    reason = "has a clipping norm that follows the size of each batch, which no noise covers"
    return InvalidArgumentError("clipping", value, reason, 'use "flat" or "per_layer"')


def _known(arguments: dict[str, Any], more: frozenset[str] = frozenset()) -> dict[str, Any]:
    """The arguments of an engine's, if all are known to leave the cost of a step as it is."""
    sampling = arguments.get("poisson_sampling", True)
    if sampling is not True:
        reason = "is asked for, and then batches are no Poisson samples: their cost is another"
        raise InvalidArgumentError("poisson_sampling", sampling, reason, "leave it at True")
    if arguments.get("clipping") == "adaptive":
        raise _adaptive("adaptive")
    made_up = arguments.get("rand_on_empty", False)
    if made_up is not False:
        reason = "puts a made-up record into an empty batch, which a record then changes by twice the clipping norm"
        raise InvalidArgumentError("rand_on_empty", made_up, reason, "leave it at False")
    known = _ARGUMENTS | more
    for name in sorted(arguments.keys() - known):
        reason = "is not known to leave the cost of a step as it is"
        raise InvalidArgumentError(name, arguments[name], reason, f"known are {', '.join(sorted(known))}")
    return {name: value for name, value in arguments.items() if name != "rand_on_empty"}


@cache
def _accountant_class() -> Any:
    accountants = require("opacus.accountants", "an accountant for Opacus", extra="opacus")
    kind = type(
        "HockeystickAccountant", (TrainingAccountant, accountants.IAccountant), {"__doc__": TrainingAccountant.__doc__}
    )
    accountants.register_accountant(NAME, kind, force=True)
    return kind


def opacus_accountant(*, poisson_sampling: bool | None = None, filter: PrivacyFilter | None = None) -> Any:
    """Returns an ``opacus.accountants.IAccountant`` that charges steps here; a ``TrainingAccountant`` besides.

    From then on Opacus knows it as "hockeystick", in ``PrivacyEngine(accountant="hockeystick")`` and in
    ``get_noise_multiplier``. An engine of Opacus's own does not say how its loader samples: tell the accountant.

    Args:
      poisson_sampling: whether batches are Poisson samples, each record in each batch by a coin of its own.
      filter: a budget; the step that does not fit into it raises, and does not change the model.

    Raises:
      MissingExtraError: Opacus is not installed.
      InvalidArgumentError: an argument of another kind.
    """
    return _accountant_class()(poisson_sampling=poisson_sampling, filter=filter)


@cache
def _engine_class() -> Any:
    base: Any = require("opacus", "a privacy engine", extra="opacus").PrivacyEngine
    _accountant_class()

    class PrivacyEngine(base):  # type: ignore[misc]  # known once it is imported
        """Opacus's engine with an accountant of this package, which refuses what that can't charge."""

        def __init__(self, *, filter: PrivacyFilter | None = None, secure_mode: bool = False) -> None:
            super().__init__(accountant=NAME, secure_mode=secure_mode)
            self.accountant = opacus_accountant(filter=filter)

        def make_private(self, **arguments: Any) -> Any:
            """As Opacus's, for Poisson samples and clipping norms that do not follow the data.

            Raises:
              InvalidArgumentError: batches of another kind, adaptive clipping, distributed training, or an argument
                that is not known to leave a step's cost as it is.
            """
            arguments = _known(arguments)
            arguments.pop("epsilon_tolerance", None)
            self.accountant.poisson_sampling = True
            module, optimizer, *others, loader = super().make_private(**arguments)
            if type(loader.batch_sampler).__name__ != "UniformWithReplacementSampler":
                reason = "passes over empty samples, so that a record is in more of the others than its rate says"
                sampler = type(loader.batch_sampler).__name__
                raise InvalidArgumentError("sampler", sampler, reason, "train in one process, not distributed")

            def clipping_norm() -> float:
                if hasattr(optimizer, "max_grad_norms"):
                    return math.hypot(*optimizer.max_grad_norms)
                clips = module if "ghost" in arguments.get("grad_sample_mode", "hooks") else optimizer
                return float(clips.max_grad_norm)

            batches = _Batches(clipping_norm)
            optimizer.attach_step_hook(self.accountant.get_optimizer_hook_fn(1 / len(loader), batches=batches))
            sampler = _counting(loader.batch_sampler, batches)  # for what makes a loader of its own, as in pieces
            return module, optimizer, *others, _counting(loader, batches, batch_sampler=sampler)

        def make_private_with_epsilon(self, **arguments: Any) -> Any:
            """As Opacus's, with noise for a target; the same is refused as in ``make_private``."""
            return super().make_private_with_epsilon(**_known(arguments, _TARGETS))

    return PrivacyEngine


def opacus_engine(*, filter: PrivacyFilter | None = None, secure_mode: bool = False) -> Any:
    """Returns an ``opacus.PrivacyEngine`` whose ``accountant`` is that of ``opacus_accountant``.

    Args:
      filter: a budget; a step that does not fit in raises ``BudgetExceededError`` and does not change the model.
      secure_mode: Opacus's, for noise from a secure generator; without it a training is an experiment.

    Raises:
      MissingExtraError: Opacus is not installed.
    """
    return _engine_class()(filter=filter, secure_mode=secure_mode)
