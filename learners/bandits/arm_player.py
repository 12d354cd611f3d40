"""The base of the bandits: their losses, their noise, and the ways to run them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt

from hockeystick.accounting import AccountantGraph, Adjacency
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.errors import unchained
from hockeystick.accounting.graph.parts.nodes import SAME
from hockeystick.accounting.validate import MOST, integer, real
from hockeystick.learners.bandits.arm_stream import ArmStream, BanditRelease
from hockeystick.learners.bandits.sum_noise import SumNoise
from hockeystick.learners.common import arguments
from hockeystick.learners.common.online_learner import OnlineLearner
from hockeystick.learners.common.round_stream import charged_run
from hockeystick.learners.experts.batches import checked_rows
from hockeystick.learners.experts.expert_losses import checked_losses, regret_floor
from hockeystick.mechanisms import Laplace
from hockeystick.mechanisms.contract.arguments import MOST_NUMBERS, quotient_up, zeros
from hockeystick.mechanisms.randomness.noise import Noise, check_noise
from hockeystick.mechanisms.release import AnyLedger

Player = TypeVar("Player", bound="ArmPlayer")


def checked_arms(value: object) -> int:
    """Number of arms K >= 2."""
    return integer("arms", value, low=2, high=MOST_NUMBERS)


def checked_rounds(value: object) -> int:
    """Number of rounds T >= 1."""
    return integer("rounds", value, low=1, high=MOST)


def quietest(build: Callable[[float], Player], epsilon: object, group: object) -> Player:
    """Returns the bandit of the least scale of noise that is ε-DP for a group whose losses are moved by 1 each.

    Args:
        build: The bandit of a scale.
        epsilon, group: The target.

    Raises:
        InvalidArgumentError: an argument outside its domain.
    """
    goal, people = real("epsilon", epsilon, low=1e-90, high=1e90), arguments.group(group)
    scale = quotient_up(people, goal)
    while (found := build(scale)).guarantee(group=people).epsilon(0.0).upper > goal:  # a quotient was rounded
        scale *= 1.0 + 2.0**-50
    return found


class ArmPlayer(OnlineLearner):
    """A bandit with noisy sums: each round lies in one block, and one release reads a block, with Laplace noise.

    Which block that is, and which arm its rounds play, was decided by what was published before. So one person, who is
    one round, pays for one release, whatever the losses (adaptive parallel composition): the outputs before the
    person's block have one law in both worlds; given them, the block's release is Laplace noise on sums of which one
    moves by at most 1; and all that follows is a function of the outputs and of later losses.

    The people of a group may share a block or lie in several ones, and earlier outputs may decide which.
    The charge is that of one block that holds all k of them. It covers several blocks whose sums move by k together,
    because Laplace noise is detected most easily if one sum moves by all of k (see ``accounting.LogLipschitz``). By
    induction from the last block to the first, it covers blocks that earlier outputs choose.
    """

    __slots__ = ()
    refuses = {"release_mixtures": "its release has all sums; the laws of its arms follow from them"}
    _session: ClassVar[type[ArmStream]]

    rounds: int
    arms: int
    scale: float
    clip: bool

    @property
    def mechanism(self) -> Laplace:
        """The mechanism of a noisy sum; one person moves one sum of losses by at most 1."""
        return Laplace(self.scale)

    @property
    def sum_noise(self) -> SumNoise:
        """The noise of a release."""
        return SumNoise.of(self.mechanism, self._longest)

    @property
    def _longest(self) -> int:
        """The largest number of losses in a sum."""
        raise NotImplementedError

    # --- privacy -----------------------------------------------------------------------------------------------------

    def _plan(self, blocks: str, size: int) -> AccountantGraph:
        """Returns the plan with a family of blocks; ``size`` is the largest number of sums in a run."""
        found = AccountantGraph(
            adjacency=Adjacency.REPLACE_ONE,
            pinned=True,
            assumptions=("every loss lies in [0, 1]", "each person is one round"),
        ).source(blocks, size=max(1, size))
        if not size:
            return found  # all rounds are played before any sum is published
        found = found.release("noisy sums", self.mechanism.event(), reads=(blocks,), reach=SAME)
        return found.post("plays", reads=("noisy sums",))

    def worst_case_neighbours(self) -> tuple[FloatArray, FloatArray]:
        """Returns two neighbouring tables, shape (rounds, arms), that are as easy to tell apart as any.

        In the first round all arms lose 1, or none does. All other losses are 0.
        """
        first, second = zeros((2, self.rounds, self.arms))
        first[0] = 1.0
        return first, second

    # --- runs --------------------------------------------------------------------------------------------------------

    def _stream(self, losses: npt.ArrayLike, name: str = "losses") -> FloatArray:
        return checked_losses(name, losses, rounds=self.rounds, experts=self.arms, clip=self.clip)

    def simulate(self, losses: npt.ArrayLike, rng: np.random.Generator, runs: int) -> Any:
        """Returns ``runs`` independent runs."""
        raise NotImplementedError

    def regrets(self, losses: npt.ArrayLike, rng: np.random.Generator, runs: int) -> FloatArray:
        """Returns the regret against the best single arm in ``runs`` simulated runs, shape (runs,)."""
        table = self._stream(losses)
        return np.asarray(self.simulate(table, rng, runs).losses - regret_floor(table)[1])

    def start(
        self,
        *,
        ledger: AnyLedger | None = None,
        name: str | None = None,
        reads: Iterable[str] | None = None,
        noise: Noise | None = None,
    ) -> Any:
        """Begins a run that reads one loss a round; records its whole cost before anything is drawn.

        Args:
            ledger, name, reads: As for a mechanism's release.
            noise: None for secure noise; ``SimulationNoise`` for reproducible runs, which are not releases.

        Returns:
            The run, before its first round. In each round call its ``predict()``, then ``update(...)``.

        Raises:
            InvalidArgumentError: no source draws noise of so large a scale; nothing was recorded.
            HockeystickError: the ledger refuses.
        """
        source = check_noise(noise)
        source.laplace(self.sum_noise.steps, 0)  # refuses what can't be drawn, before the charge
        kind: Any = self._session
        return charged_run(self.event(), lambda: kind(self, source), source, ledger, name, reads)

    @unchained()
    def resume(self, checkpoint: dict[str, Any], *, ledger: AnyLedger | None = None, noise: Noise | None = None) -> Any:
        """Continues the run that ``checkpoint()`` saved; its cost was recorded at its start.

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
        source, kind = check_noise(noise), self._session
        body = kind._opened(self, checkpoint, source.simulated)
        stream = kind(self, source, body)
        return stream._continuing(checkpoint, ledger)

    def release(
        self,
        losses: npt.ArrayLike | Iterable[npt.ArrayLike],
        *,
        ledger: AnyLedger | None = None,
        name: str | None = None,
        reads: Iterable[str] | None = None,
        noise: Noise | None = None,
    ) -> BanditRelease:
        """Returns a run for publication on a table of recorded losses, by secure noise; arguments as for ``start``.

        Losses are an array of shape (rounds, arms), possibly memory-mapped, or an iterable of blocks of rows. Only the
        losses of the arms that are played enter the result, each rounded to a multiple of 2^-30 (coarser where a block
        has more than 2^22 rounds).

        Raises:
            InvalidArgumentError: bad losses. An array is checked before anything is recorded; a bad block of an
                iterable ends the run, and the charge remains.
            HockeystickError: the ledger refuses.
        """
        blocks = checked_rows(losses, rounds=self.rounds, experts=self.arms, clip=self.clip)
        stream: ArmStream = self.start(ledger=ledger, name=name, reads=reads, noise=noise)
        return stream._played(blocks)
