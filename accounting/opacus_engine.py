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
* Adaptive clipping. Its clipping norm follows the share of unclipped gradients, and the size of the batch in that
  share's denominator is not noised.

Opacus looks accountants up by name: making the first of these registers "hockeystick".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from . import bounds
from .adjacency import Adjacency
from .errors import InvalidArgumentError
from .event import PrivacyEvent
from .extras import require
from .filters import PrivacyFilter
from .graph import AccountantGraph
from .guarantee import Guarantee
from .opacus_history import from_opacus

NAME = "hockeystick"
"""Under which Opacus finds the accountant."""

_ASSUMPTION = "each batch is a Poisson sample at the recorded rate; gradients are clipped to the stated norm"


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
            self.filter = self.filter.spend(event)
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
        return bounds.epsilon(self.event(), delta).upper

    def __len__(self) -> int:
        """How many steps there were."""
        return sum(steps for _, _, steps in self.history)

    def get_optimizer_hook_fn(self, sample_rate: float) -> Callable[[Any], None]:
        """What Opacus calls with its optimizer after the noise was added, and before the model changes.

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
            batches = optimizer.accumulated_iterations
            if batches != 1:
                reason = "batches add up in one step, in several of which a record may be"
                remedy = "make a step for each, or a larger batch in pieces by Opacus's BatchMemoryManager"
                raise InvalidArgumentError("accumulated_iterations", batches, reason, remedy)
            self.step(noise_multiplier=optimizer.noise_multiplier, sample_rate=sample_rate)

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
            left = None if self._budget is None else self._budget.spend(event)
            super().load_state_dict(state_dict)  # type: ignore[misc]
            self.filter = left
        else:
            super().load_state_dict(state_dict)  # type: ignore[misc]


def _adaptive(value: object) -> InvalidArgumentError:
    reason = "has a clipping norm that follows the size of each batch, which no noise covers"
    return InvalidArgumentError("clipping", value, reason, 'use "flat" or "per_layer"')


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

        def make_private(self, *, poisson_sampling: bool = True, clipping: str = "flat", **arguments: Any) -> Any:
            """As Opacus's, for Poisson samples and clipping norms that do not follow the data.

            Raises:
              InvalidArgumentError: batches of another kind, or adaptive clipping.
            """
            if poisson_sampling is not True:
                reason = "is asked for, and then batches are no Poisson samples: their cost is another"
                raise InvalidArgumentError("poisson_sampling", poisson_sampling, reason, "leave it at True")
            if clipping == "adaptive":
                raise _adaptive(clipping)
            self.accountant.poisson_sampling = True
            return super().make_private(poisson_sampling=True, clipping=clipping, **arguments)

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
