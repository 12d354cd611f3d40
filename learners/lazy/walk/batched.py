"""The common base of all lazy learners: rounds in batches of B, with one action per batch."""

from __future__ import annotations

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.validate import integer
from hockeystick.learners.common.online_learner import EXACT_WEIGHTS, OnlineLearner


class Batched(OnlineLearner):
    """A lazy learner with the fields ``rounds`` and ``batch``.

    Raises:
        InvalidArgumentError: a batch longer than the run.
    """

    __slots__ = ()
    refuses = {"release_mixtures": EXACT_WEIGHTS}

    rounds: int
    batch: int

    def __attrs_post_init__(self) -> None:
        if self.batch > self.rounds:
            raise InvalidArgumentError("batch", self.batch, f"exceeds rounds={self.rounds}", "use a smaller batch")

    @property
    def batches(self) -> int:
        """Number of batches n = ceil(T / B)."""
        return -(-self.rounds // self.batch)

    def epsilon_for(self, round_: int, delta: float) -> float:
        """Returns the certified ε at ``delta`` for the person of round ``round_`` (0-based), less in later rounds."""
        round_ = integer("round_", round_, low=0, high=self.rounds - 1)
        return self.graph().epsilon_for("batches", delta, member=round_ // self.batch + 1)
