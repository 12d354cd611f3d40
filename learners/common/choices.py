"""Learners that were compared by their regret bounds, and why others were not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import frozen

from hockeystick.accounting import HockeystickError
from hockeystick.learners.common.online_learner import OnlineLearner
from hockeystick.learners.common.regret_bound import RegretBound


@frozen
class Candidate:
    """A learner that was considered.

    Attributes:
        name: A short name.
        learner: The learner, calibrated to the target.
        bound: Its regret bound.

    See ``choose`` for an example.
    """

    name: str
    learner: Any
    bound: RegretBound


@frozen
class Choice:
    """The learner of least bound, and those that it was compared with. See ``choose`` for an example.

    Attributes:
        candidates: All candidates, the one of the least bound first.
        refused: Why other learners were not considered, by name.
    """

    candidates: tuple[Candidate, ...]
    refused: dict[str, str]

    @property
    def learner(self) -> Any:
        """The chosen learner."""
        return self.candidates[0].learner

    @property
    def bound(self) -> RegretBound:
        """Its bound on the expected regret."""
        return self.candidates[0].bound

    def __str__(self) -> str:
        chosen = self.candidates[0]
        lines = [f"{chosen.name}: expected regret at most {chosen.bound:.4g}, for {chosen.bound.adversary} losses"]
        lines += [f"  {other.name}: {other.bound:.4g}" for other in self.candidates[1:]]
        return "\n".join(lines + [f"  {name}: {why}" for name, why in self.refused.items()])


def compared(
    makers: Mapping[str, tuple[type[OnlineLearner], Callable[[], Any]]],
    bound: Callable[[Any], RegretBound],
    *,
    mixtures: bool = False,
) -> Choice:
    """Makes learners and sorts them by their bounds; those that can't be made, or have no bound, are refused.

    There may be no candidate.

    Args:
        makers: The class of each learner, and a function that returns it, by name.
        bound: Returns the bound of a learner.
        mixtures: Refuse learners that do not publish their mixtures.
    """
    found: list[Candidate] = []
    refused: dict[str, str] = {}
    for name, (kind, make) in makers.items():
        if mixtures and "release_mixtures" in kind.refuses:
            refused[name] = kind.refuses["release_mixtures"]
            continue
        try:
            learner = make()
            found.append(Candidate(name, learner, bound(learner)))
        except HockeystickError as error:
            refused[name] = str(error)
    return Choice(tuple(sorted(found, key=lambda candidate: candidate.bound)), refused)
