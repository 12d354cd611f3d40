"""Limited Updates: a single-player learner that redraws its expert each time the number of rounds has doubled.

Limited Updates (Asi, Feldman, Koren & Talwar 2023, Algorithm 1) draws its first expert uniformly, and another before
rounds 2, 4, 8, ... by the exponential mechanism on the losses of the rounds since the last draw. The losses of a round
enter at most one draw, so a person pays for one draw whatever T is, and the experts are independent of each other.

It is the baseline of the federated learners: each client runs it on its own losses, and :meth:`LimitedUpdates.average`
returns the mean regret.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
from attrs import field, frozen
from scipy import special

from hockeystick.accounting import AccountantGraph, Adjacency, InvalidArgumentError, InvalidDataError, PrivacyEvent
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.graph.parts.nodes import SAME
from hockeystick.accounting.validate import array
from hockeystick.learners.common import arguments
from hockeystick.learners.experts.expert_losses import TakesLosses, regret_floor
from hockeystick.mechanisms import ExponentialMechanism
from hockeystick.mechanisms.contract.arguments import generator, quotient_up, run_count, zeros
from hockeystick.mechanisms.randomness.noise import Noise, check_noise
from hockeystick.mechanisms.release import AnyLedger, charged

_BITS = 30  # binary digits of a loss after the point, in releases
_WHOLE_BITS = 62  # of a sum of losses

Experts = npt.NDArray[np.int64]


@frozen(kw_only=True)
class LimitedUpdates(TakesLosses):
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

    rounds: int = field(converter=arguments.rounds)
    experts: int = field(converter=arguments.experts)
    learning_rate: float = field(converter=arguments.learning_rate)
    clip: bool = field(default=False, converter=arguments.clip)

    def __attrs_post_init__(self) -> None:
        _ = self.draw  # refuses a rate that no mechanism can have

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

    def event(self) -> PrivacyEvent:
        """Returns the cost of a run to one person, as one event for a larger graph or a ledger."""
        return self.graph().guarantee().event

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
        ratios = self._log_law(self._stream(losses0)) - self._log_law(self._stream(losses1))
        return np.asarray(ratios[np.arange(self.epochs + 1), rows.astype(np.int64)].sum(axis=1))

    # --- runs --------------------------------------------------------------------------------------------------------

    def simulate(self, losses: npt.ArrayLike, rng: np.random.Generator, runs: int) -> Experts:
        """Returns the expert of each epoch in ``runs`` independent runs, shape (runs, epochs + 1)."""
        law, source, count = np.exp(self._log_law(self._stream(losses))), generator(rng), run_count(runs)
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

    def release(
        self,
        losses: npt.ArrayLike,
        *,
        ledger: AnyLedger | None = None,
        name: str | None = None,
        reads: Iterable[str] | None = None,
        noise: Noise | None = None,
    ) -> Experts:
        """Returns the expert of each round, shape (rounds,), by secure noise; arguments as for a mechanism's release.

        Losses are rounded to multiples of 2^-30 (coarser beyond 2^32 rounds) before they are added up.
        """
        stream, source = self._stream(losses), check_noise(noise)
        bits = min(_BITS, _WHOLE_BITS - self.rounds.bit_length())
        whole = np.rint(stream * 2.0**bits).astype(np.int64)
        draw = ExponentialMechanism(quotient_up(2.0 * 2**bits, self.learning_rate), sensitivity=float(2**bits))

        def play() -> Experts:
            experts = [int(source.uniform(self.experts, 1)[0])]
            for first, stop in zip(self.edges[:-2], self.edges[1:-1], strict=True):
                experts.append(int(draw.release(-whole[first:stop].sum(axis=0), noise=source)))
            return self.plays(np.array(experts))

        return charged(self.event(), play, source, ledger, name, reads, adjacency=Adjacency.REPLACE_ONE)

    # --- utility -----------------------------------------------------------------------------------------------------

    def marginals(self, losses: npt.ArrayLike) -> FloatArray:
        """Returns the exact law of the expert of each epoch, shape (epochs + 1, experts); epochs are independent."""
        return np.asarray(np.exp(self._log_law(self._stream(losses))))

    def expected_regret(self, losses: npt.ArrayLike) -> float:
        """Returns the exact expected regret against the best single expert."""
        stream = self._stream(losses)
        return self._expected_loss(stream) - regret_floor(stream)[1]

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
        checked = [self._stream(stream) for stream in streams]
        best = float(np.sum(checked, axis=(0, 1)).min())
        return (sum(self._expected_loss(stream) for stream in checked) - best) / len(checked)

    def _expected_loss(self, stream: FloatArray) -> float:
        sums = np.add.reduceat(stream, self.edges[:-1], axis=0)
        return float(np.sum(np.exp(self._log_law(stream)) * sums))

    def _log_law(self, stream: FloatArray) -> FloatArray:
        """ln P of each epoch's expert, shape (epochs + 1, experts)."""
        found = np.zeros((self.epochs + 1, self.experts))
        if self.epochs:
            known = stream[: self.edges[-2]]
            found[1:] = np.add.reduceat(known, self.edges[:-2], axis=0) / -self.draw.scale
        return np.asarray(special.log_softmax(found, axis=1))
