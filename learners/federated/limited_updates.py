"""Limited Updates: a single-player learner that redraws its expert each time the number of rounds has doubled.

Limited Updates (Asi, Feldman, Koren & Talwar 2023, Algorithm 1) draws its first expert uniformly, and another before
rounds 2, 4, 8, ... by the exponential mechanism on the losses of the rounds since the last draw. The losses of a round
enter at most one draw, so a person pays for one draw whatever T is, and the experts are independent of each other.

It is the baseline of the federated learners: each client runs it on its own losses, and :meth:`LimitedUpdates.average`
returns the mean regret.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
from attrs import field, frozen
from scipy import special

from hockeystick.accounting import (
    AccountantGraph,
    Adjacency,
    InvalidArgumentError,
    InvalidDataError,
)
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.errors import unchained
from hockeystick.accounting.graph.parts.nodes import SAME
from hockeystick.accounting.validate import array, integer, real
from hockeystick.learners.common import arguments
from hockeystick.learners.common.calibration_search import Target, largest_certified
from hockeystick.learners.common.online_learner import EXACT_WEIGHTS, OnlineLearner
from hockeystick.learners.common.regret_bound import Adversary, RegretBound, checked_adversary
from hockeystick.learners.common.round_stream import RoundStream, charged_run
from hockeystick.learners.common.stream_checkpoint import reading_a_state
from hockeystick.learners.experts.batches import checked_rows, exact_batch_sums
from hockeystick.learners.experts.expert_losses import TakesLosses
from hockeystick.mechanisms import ExponentialMechanism
from hockeystick.mechanisms.contract.arguments import generator, quotient_up, run_count, zeros
from hockeystick.mechanisms.randomness.noise import Noise, check_noise
from hockeystick.mechanisms.release import AnyLedger

_BITS = 30  # binary digits of a loss after the point, in releases
_WHOLE_BITS = 62  # of a sum of losses

Experts = npt.NDArray[np.int64]


@frozen(kw_only=True)
class LimitedUpdates(TakesLosses, OnlineLearner):
    """A private learner of experts that draws a new expert before rounds 2, 4, 8, ... (counted from 1).

    Neighbouring streams differ in the losses of one round, replaced by any others in [0, 1] (replace-one; rounds keep
    their places). The learner is eta-DP.

    Source: Asi, Feldman, Koren & Talwar 2023, Algorithm 1.

    Args:
        rounds: T >= 1, one person each.
        experts: d >= 2.
        learning_rate: eta > 0. A draw has odds exp(-eta*sum/2), and costs eta.
        clip: Clip losses to [0, 1] at ingestion, infinite ones too, instead of refusing those outside; NaN is refused.

    Raises:
        InvalidArgumentError: an argument outside its domain.

    Example:
        >>> import numpy as np
        >>> from hockeystick.learners import LimitedUpdates
        >>> learner = LimitedUpdates(rounds=8, experts=2, learning_rate=1.0)
        >>> round(learner.graph().guarantee().epsilon(0.0).upper, 6)
        1.0
        >>> losses = np.tile([0.0, 1.0], (8, 1))  # expert 0 never loses
        >>> learner.marginals(losses).round(2).tolist()  # the law of the expert in rounds 1, 2-3, 4-7 and 8
        [[0.5, 0.5], [0.62, 0.38], [0.73, 0.27], [0.88, 0.12]]
    """

    refuses = {"release_mixtures": EXACT_WEIGHTS}

    rounds: int = field(converter=arguments.rounds)
    experts: int = field(converter=arguments.experts)
    learning_rate: float = field(converter=arguments.learning_rate)
    clip: bool = field(default=False, converter=arguments.clip)

    def __attrs_post_init__(self) -> None:
        _ = self.draw  # refuses a rate that no mechanism can have

    @classmethod
    def calibrated(
        cls, *, rounds: int, experts: int, epsilon: float, delta: float = 0.0, group: int = 1, clip: bool = False
    ) -> LimitedUpdates:
        """Returns the learner with the largest rate that is (ε, δ)-DP for ``group`` people together.

        For δ = 0 the rate is ε divided by the number of people.

        Raises:
            InvalidArgumentError: an argument outside its domain.
        """
        goal, people = real("epsilon", epsilon, low=0.0, low_open=True), integer("group", group, low=1)
        allowed = real("delta", delta, low=0.0, high=1.0, high_open=True)

        def learner(rate: float) -> LimitedUpdates:
            return cls(rounds=rounds, experts=experts, learning_rate=rate, clip=clip)

        rate = goal / people
        if allowed and learner(rate).epochs:
            target, start = Target(epsilon=goal, delta=allowed, group=people), math.log(rate)
            found = largest_certified(
                target, lambda x: learner(math.exp(x)).guarantee(group=people).event, start, start + 20.0
            )
            rate = rate if found is None else max(rate, math.exp(found))
        while learner(rate).guarantee(group=people).epsilon(allowed).upper > goal:  # a quotient was rounded
            rate *= 1.0 - 2.0**-50
        return learner(rate)

    @property
    def epochs(self) -> int:
        """The number of draws that read data: before rounds 2, 4, ..., 2^epochs <= T."""
        return self.rounds.bit_length() - 1

    @property
    def edges(self) -> npt.NDArray[np.int64]:
        """The first round (from 0) of each epoch, and at the end T; shape (epochs + 2,)."""
        return np.append(2 ** np.arange(self.epochs + 1) - 1, self.rounds)

    @property
    def draw(self) -> ExponentialMechanism:
        """The mechanism of one draw; its scores are minus sums of losses."""
        return ExponentialMechanism(quotient_up(2.0, self.learning_rate))

    # --- privacy -----------------------------------------------------------------------------------------------------

    def graph(self) -> AccountantGraph:
        """Returns the data-independent plan: draw q reads the losses of rounds 2^(q-1) .. 2^q - 1 (from 1)."""
        found = AccountantGraph(
            adjacency=Adjacency.REPLACE_ONE,
            pinned=True,
            assumptions=("every loss lies in [0, 1]", "each person is one round"),
        ).source("epochs", size=max(1, self.epochs))
        if self.epochs == 0:
            return found  # the first expert is drawn before any data is seen
        found = found.release("draws", self.draw.event(), reads=("epochs",), reach=SAME)
        return found.post("plays", reads=("draws",))

    def worst_case_neighbours(self) -> tuple[FloatArray, FloatArray]:
        """Returns two neighbouring streams, shape (rounds, experts), that are as easy to tell apart as any.

        In the first round all experts but number 0 lose 1, or number 0 alone does. All later losses are 0.
        """
        first, second = zeros((2, self.rounds, self.experts))
        first[0, 1:] = 1.0
        second[0, 0] = 1.0
        return first, second

    def log_likelihood_ratio(
        self, experts: npt.ArrayLike, losses0: npt.ArrayLike, losses1: npt.ArrayLike
    ) -> FloatArray:
        """Returns ln P(experts | losses0) / P(experts | losses1), shape (R,), of experts of shape (R, epochs + 1).

        Raises:
            InvalidArgumentError: the experts or the losses have a wrong shape or invalid entries.
        """
        rows = array("experts", experts, shape=(None, self.epochs + 1), low=0, high=self.experts - 1)
        if (rows != np.floor(rows)).any():
            raise InvalidArgumentError("experts", experts, "are not whole numbers", "give indices of experts")
        ratios = self._log_law(self._sums(losses0)) - self._log_law(self._sums(losses1))
        return np.asarray(ratios[np.arange(self.epochs + 1), rows.astype(np.int64)].sum(axis=1))

    # --- runs --------------------------------------------------------------------------------------------------------

    def simulate(self, losses: npt.ArrayLike, rng: np.random.Generator, runs: int) -> Experts:
        """Returns the expert of each epoch in ``runs`` independent runs, shape (runs, epochs + 1)."""
        law, source, count = np.exp(self._log_law(self._sums(losses))), generator(rng), run_count(runs)
        found = np.empty((count, self.epochs + 1), np.int64)
        for column, odds in zip(found.T, np.cumsum(law, axis=1), strict=True):
            drawn = np.searchsorted(odds, source.random(count) * odds[-1], side="right")
            np.minimum(drawn, self.experts - 1, out=column)
        return found

    def run(self, losses: npt.ArrayLike, rng: np.random.Generator) -> Experts:
        """Returns the expert of each round of one simulated run, shape (rounds,). Its noise is seeded: no release."""
        return self.plays(self.simulate(losses, rng, 1)[0])

    def plays(self, experts: Experts) -> Experts:
        """Returns the expert of each round, shape (..., rounds), from the experts of the epochs."""
        return np.repeat(experts, np.diff(self.edges), axis=-1)

    # --- one round at a time, and releases ---------------------------------------------------------------------------

    def start(
        self,
        *,
        ledger: AnyLedger | None = None,
        name: str | None = None,
        reads: Iterable[str] | None = None,
        noise: Noise | None = None,
    ) -> UpdatesStream:
        """Begins a run that reads one round at a time; records its whole cost before anything is drawn.

        Args:
            ledger, name, reads: As for a mechanism's release.
            noise: None for secure noise; ``SimulationNoise`` for reproducible runs, which are not releases.

        Returns:
            The run, before its first round. In each round call its ``predict()``, then ``update(...)``.

        Raises:
            HockeystickError: the ledger refuses.
        """
        source = check_noise(noise)
        return charged_run(self.event(), lambda: UpdatesStream(self, source), source, ledger, name, reads)

    @unchained()
    def resume(
        self, checkpoint: dict[str, Any], *, ledger: AnyLedger | None = None, noise: Noise | None = None
    ) -> UpdatesStream:
        """Continues the run that ``UpdatesStream.checkpoint`` saved; its cost was recorded at its start.

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
        source = check_noise(noise)
        stream = UpdatesStream(self, source, UpdatesStream._opened(self, checkpoint, source.simulated))
        return stream._continuing(checkpoint, ledger)

    def release(
        self,
        losses: npt.ArrayLike | Iterable[npt.ArrayLike],
        *,
        ledger: AnyLedger | None = None,
        name: str | None = None,
        reads: Iterable[str] | None = None,
        noise: Noise | None = None,
    ) -> Experts:
        """Returns the expert of each round, shape (rounds,), by secure noise; arguments as for ``start``.

        Losses are an array of shape (rounds, experts), possibly memory-mapped, or an iterable of blocks of rows. They
        are rounded to multiples of 2^-30 (coarser beyond 2^32 rounds) before they are added up.

        Raises:
            InvalidArgumentError: bad losses. An array is checked before anything is recorded; a bad block of an
                iterable ends the run, and the charge remains.
            HockeystickError: the ledger refuses.
        """
        blocks = checked_rows(losses, rounds=self.rounds, experts=self.experts, clip=self.clip)
        stream = self.start(ledger=ledger, name=name, reads=reads, noise=noise)
        experts = [stream.predict()]
        for block in blocks:
            rows = np.asarray(block, dtype=np.float64)
            while len(rows):
                ahead = int(self.edges[len(experts)]) - stream.round
                stream._take(rows[:ahead])
                rows = rows[ahead:]
                if stream.round == self.edges[len(experts)] < self.rounds:
                    experts.append(stream.predict())
        return self.plays(np.array(experts))

    # --- utility -----------------------------------------------------------------------------------------------------

    def marginals(self, losses: npt.ArrayLike | Iterable[npt.ArrayLike]) -> FloatArray:
        """Returns the exact law of the expert of each epoch, shape (epochs + 1, experts); epochs are independent."""
        return np.asarray(np.exp(self._log_law(self._sums(losses))))

    def expected_regret(self, losses: npt.ArrayLike | Iterable[npt.ArrayLike]) -> float:
        """Returns the exact expected regret against the best single expert; losses are read in blocks."""
        sums = self._sums(losses)
        return self._expected_loss(sums) - float(sums.sum(axis=0).min())

    def regret_bound(self, *, adversary: Adversary = "stochastic") -> RegretBound:
        """Returns a bound on the expected regret for independent losses of one law in each round.

        The draw on n rounds has an expected excess of 2 ln(d)/eta on them, and of sqrt(n ln(d)/2) more in the mean of
        a new round, times n. A further sqrt(T ln(d)/2) compares with the best expert in hindsight.

        Raises:
            InvalidArgumentError: other losses: the learner forgets all but the last epoch, so that its regret may grow
                linearly with the rounds.
        """
        if checked_adversary(adversary) != "stochastic":
            raise InvalidArgumentError(
                "adversary", adversary, "may change the best expert after each epoch", 'use "stochastic"'
            )
        spread = math.log(self.experts)
        found = 1.0 + math.sqrt(self.rounds * spread / 2.0)
        for q in range(1, self.epochs + 1):
            read, length = 2 ** (q - 1), int(self.edges[q + 1] - self.edges[q])
            excess = (2.0 * spread / self.learning_rate + math.sqrt(read * spread / 2.0)) / read
            found += length * min(1.0, excess)
        return RegretBound(found, most=self.rounds, adversary="stochastic")

    def average(self, losses: npt.ArrayLike) -> float:
        """Returns the exact expected regret per client if each client plays alone.

        The regret is against the one expert that is best for all clients together.

        Args:
            losses: Shape (clients, rounds, experts).
        """
        shape = (None, self.rounds, self.experts)
        streams = array("losses", losses, shape=shape, infinite=self.clip, bools=True, data=True)
        if not len(streams):
            raise InvalidDataError("losses", losses, "has no clients", "give at least one")
        sums = [self._sums(stream) for stream in streams]
        best = float(np.sum(sums, axis=(0, 1)).min())
        return (sum(self._expected_loss(each) for each in sums) - best) / len(sums)

    def _sums(self, losses: npt.ArrayLike | Iterable[npt.ArrayLike]) -> FloatArray:
        """Returns the sum of each epoch's losses, shape (epochs + 1, experts)."""
        found, first = np.zeros((self.epochs + 1, self.experts)), 0
        for rows in exact_batch_sums(losses, rounds=self.rounds, experts=self.experts, clip=self.clip):
            edges = np.clip(self.edges - first, 0, len(rows))
            (met,) = np.nonzero(np.diff(edges))
            found[met] += np.add.reduceat(rows, edges[met], axis=0)
            first += len(rows)
        return found

    def _expected_loss(self, sums: FloatArray) -> float:
        return float(np.sum(np.exp(self._log_law(sums)) * sums))

    def _log_law(self, sums: FloatArray) -> FloatArray:
        """ln P of each epoch's expert, shape (epochs + 1, experts), from the epochs' sums."""
        found = np.zeros((self.epochs + 1, self.experts))
        found[1:] = sums[:-1] / -self.draw.scale
        return np.asarray(special.log_softmax(found, axis=1))


class UpdatesStream(RoundStream):
    """One run of ``LimitedUpdates``, which its ``start`` begins and its ``resume`` continues.

    Memory is one row of losses, whatever the number of rounds.

    Example:
        >>> from hockeystick.learners import LimitedUpdates
        >>> from hockeystick.mechanisms import SimulationNoise
        >>> stream = LimitedUpdates(rounds=8, experts=2, learning_rate=1.0).start(noise=SimulationNoise(1))
        >>> stream.update([0.0, 1.0])
        >>> stream.round, stream.predict() in (0, 1)
        (1, True)
    """

    __slots__ = ("_action", "_draw", "_noise", "_steps", "_sums")

    def __init__(self, learner: LimitedUpdates, noise: Noise, body: dict[str, Any] | None = None) -> None:
        super().__init__(learner, noise.simulated)
        self._noise = noise
        bits = min(_BITS, _WHOLE_BITS - learner.rounds.bit_length())
        self._steps, scale = 2.0**bits, quotient_up(2.0 * 2**bits, learner.learning_rate)
        self._draw = ExponentialMechanism(scale, sensitivity=self._steps)
        self._sums = np.zeros(learner.experts, np.int64)
        if body is None:
            self._action = int(noise.uniform(learner.experts, 1)[0])
            return
        with reading_a_state():
            self._round = integer("round", body["round"], low=0, high=learner.rounds)
            self._action = integer("action", body["action"], low=0, high=learner.experts - 1)
            self._sums = array("sums", body["sums"], shape=(learner.experts,), low=0.0, dtype=np.int64)

    def predict(self) -> int:
        """Returns the expert for the next round; the same one until the epoch is over.

        Raises:
            StreamHaltedError: all rounds are over.
        """
        self._check_open()
        return self._action

    def update(self, losses: npt.ArrayLike) -> None:
        """Reads the losses of the next round, shape ``(experts,)``, in [0, 1].

        Raises:
            StreamHaltedError: all rounds are over.
            InvalidArgumentError: bad losses; nothing was read.
        """
        self._check_open()
        self._take(self._learner._row("losses", losses, self._round))

    def _take(self, rows: FloatArray) -> None:
        """Reads checked rounds that all lie in the current epoch, and draws the next expert if it ends with them."""
        self._sums += np.rint(rows * self._steps).astype(np.int64).sum(axis=0)
        self._round += len(rows)
        after = self._round + 1
        if after & (after - 1) == 0 and self._round < self._learner.rounds:  # before rounds 2, 4, 8, … from 1
            self._action = int(self._draw.release(-self._sums, noise=self._noise))
            self._sums[:] = 0

    def _body(self) -> dict[str, Any]:
        return {"action": self._action, "sums": self._sums.tolist()}
