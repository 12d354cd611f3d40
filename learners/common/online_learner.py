"""The interface of online learners: the methods that each has, or refuses with its reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NoReturn, Protocol, runtime_checkable

from hockeystick.accounting import AccountantGraph, Guarantee, HockeystickError, PrivacyEvent

METHODS = (
    "calibrated",
    "graph",
    "guarantee",
    "event",
    "start",
    "resume",
    "release",
    "release_mixtures",
    "simulate",
    "log_likelihood_ratio",
    "worst_case_neighbours",
    "regret_bound",
    "expected_regret",
)
"""The methods of the interface, in the order of its table in the documentation."""


EXACT_WEIGHTS = "it draws from weights of exact losses, which a mixture would reveal"
"""The reason why most learners that draw experts publish no mixtures."""


class RefusedMethodError(HockeystickError, AttributeError):
    """The error of a method that a learner can't have; the message says why.

    It is an ``AttributeError``, so that ``hasattr`` tells the methods that a learner has.

    Example:
        >>> from hockeystick.learners import MultiplicativeWeights
        >>> hedge = MultiplicativeWeights(rounds=10, experts=2)
        >>> hasattr(hedge, "regret_bound"), hasattr(hedge, "release")
        (True, False)
        >>> hedge.release
        Traceback (most recent call last):
        ...
        hockeystick.learners.common.online_learner.RefusedMethodError: MultiplicativeWeights has no release: it is the \
baseline without privacy
    """


@runtime_checkable
class Session(Protocol):
    """One run of an online learner, round by round; see ``LazyStream`` for an example."""

    @property
    def round(self) -> int:
        """Number of rounds that are over."""

    @property
    def simulated(self) -> bool:
        """Whether the noise is simulated; if so, this is not a release."""

    def predict(self) -> Any:
        """Returns the action of the next round; the same one until ``update``. Contextual learners take contexts."""

    def update(self, losses: Any, /) -> None:
        """Reads the losses of the next round."""

    def checkpoint(self) -> dict[str, Any]:
        """Returns the state, ready for JSON, for ``resume`` of the learner."""


@runtime_checkable
class Learner(Protocol):
    """A private online learner that can be deployed: it certifies, runs round by round, and publishes.

    ``isinstance(learner, Learner)`` tells whether a learner has all of these methods. Most learners have more; see the
    table in the documentation.

    Example:
        >>> from hockeystick.learners import LimitedUpdates, MultiplicativeWeights
        >>> isinstance(LimitedUpdates(rounds=8, experts=2, learning_rate=1.0), Learner)
        True
        >>> isinstance(MultiplicativeWeights(rounds=8, experts=2), Learner)  # it has no privacy
        False
    """

    @property
    def rounds(self) -> int:
        """T."""

    def graph(self) -> AccountantGraph:
        """Returns the data-independent plan."""

    def guarantee(self, view: Any = None, *, group: int = 1) -> Guarantee:
        """Returns the guarantee in a view of the plan, for ``group`` people together."""

    def event(self) -> PrivacyEvent:
        """Returns the cost of a whole run as one event."""

    def start(self, *, ledger: Any = None, name: Any = None, reads: Any = None, noise: Any = None) -> Session:
        """Begins a run; records its whole cost before anything is drawn.

        Args:
            ledger: Records :meth:`event` under ``name``; see ``Laplace.release``.
            name: The run's name in the ledger.
            reads: The sources that the run reads, for a ``FilteredLedger``.
            noise: None for secure noise; ``SimulationNoise`` for reproducible runs, which are not releases.

        Returns:
            The run, before its first round. In each round call its ``predict()``, then ``update(...)``.

        Raises:
            HockeystickError: the ledger refuses.
        """

    def resume(self, checkpoint: dict[str, Any], *, ledger: Any = None, noise: Any = None) -> Session:
        """Continues the run that a session's ``checkpoint()`` saved; its cost was recorded at its start.

        Args:
            checkpoint: The value of ``checkpoint()``, possibly after a round trip through JSON.
            ledger: That of ``start``, which refuses to resume a checkpoint twice; without one there is a warning.
            noise: As for ``start``, and of the same kind as there.

        Returns:
            The run, after the round in which it was saved.

        Raises:
            LedgerError: another session has resumed the checkpoint, or the ledger was not charged for its run.
            InvalidArgumentError: the checkpoint is malformed, was changed, or belongs to a learner with other
                parameters or to noise of the other kind.
        """

    def release(
        self, losses: Any, *, ledger: Any = None, name: Any = None, reads: Any = None, noise: Any = None
    ) -> Any:
        """Returns a run over all rounds for publication, from secure noise; it costs what ``event()`` says.

        Args:
            losses: Those of all rounds; each learner says in which form.
            ledger, name, reads, noise: As for ``start``.

        Raises:
            InvalidArgumentError: bad losses.
            HockeystickError: the ledger refuses; nothing is drawn.
        """

    def regret_bound(self) -> float:
        """Returns a bound on the expected regret, for the losses that it holds for by default."""


class OnlineLearner:
    """Base of the online learners: what follows from the graph, and refusals.

    Attributes:
        refuses: The methods of the interface that the learner can't have, and why.
    """

    __slots__ = ()
    refuses: ClassVar[Mapping[str, str]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        own = cls.__dict__.get("refuses", {})
        cls.refuses = {**getattr(super(cls, cls), "refuses", {}), **own}
        for name, reason in own.items():
            setattr(cls, name, _Refused(name, reason))

    def graph(self) -> AccountantGraph:
        """Returns the data-independent plan."""
        raise NotImplementedError

    def guarantee(self, view: str | None = None, *, group: int = 1) -> Guarantee:
        """Returns the guarantee of a run.

        Args:
            view: A view of :meth:`graph`; None for the whole plan.
            group: Number of people who are protected together, or of rounds of one user.

        Raises:
            InvalidArgumentError: there is no such view.
        """
        return self.graph().guarantee(view=view, group=group)

    def event(self) -> PrivacyEvent:
        """Returns the cost of a whole run to one person, as one event for a larger graph or a ledger."""
        return self.guarantee().event


class _Refused:
    """A method of which already the name is refused."""

    def __init__(self, name: str, reason: str) -> None:
        self._name, self._reason = name, reason

    def __get__(self, instance: object, owner: type) -> NoReturn:
        raise RefusedMethodError(f"{owner.__name__} has no {self._name}: {self._reason}")
