"""Experts drawn anew when the number of rounds has doubled: the single-player baseline of the federated learners.

Limited Updates (Asi, Feldman, Koren & Talwar 2023, Algorithm 1) draws its first expert uniformly, and another before
rounds 2, 4, 8, ... by the exponential mechanism on the losses of the rounds since the last draw. Each round's losses
enter one draw at most, so that a person costs one draw whatever T is, and experts are independent of each other.

As a federated baseline each client runs it on its own losses, and regrets are averaged: :meth:`LimitedUpdates.average`.
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
from hockeystick.mechanisms.contract.arguments import generator, quotient_up, run_count
from hockeystick.mechanisms.randomness.noise import Noise, check_noise
from hockeystick.mechanisms.release import AnyLedger, charged

_BITS = 30  # binary digits of a loss after the point, in releases
_WHOLE_BITS = 62  # of a sum of losses

Experts = npt.NDArray[np.int64]


@frozen(kw_only=True)
class LimitedUpdates(TakesLosses):
    """The learner of experts that draws anew before rounds 2, 4, 8, ... (counted from 1).

    Neighbouring streams differ in one round's losses, replaced by any others in [0, 1] (replace-one; rounds keep their
    places).

    Args:
        rounds: T >= 1, one person each.
        experts: d >= 2.
        learning_rate: eta > 0: a draw has odds exp(-eta*sum/2), and costs eta. The learner is eta-DP.
        clip: Clip losses to [0, 1] at ingestion, infinite ones too, instead of refusing those outside; NaN is refused.

    Raises:
        InvalidArgumentError: an argument outside its domain.
    """

    rounds: int = field(converter=arguments.rounds)
    experts: int = field(converter=arguments.experts)
    learning_rate: float = field(converter=arguments.learning_rate)
    clip: bool = field(default=False, converter=arguments.clip)

    def __attrs_post_init__(self) -> None:
        _ = self.draw  # refuses a rate that no mechanism can have

    @property
    def epochs(self) -> int:
        """How many draws read data: before rounds 2, 4, ..., 2^epochs <= T."""
        return self.rounds.bit_length() - 1

    @property
    def edges(self) -> npt.NDArray[np.int64]:
        """The first round (from 0) that is played with each expert, and last T, shape (epochs + 2,)."""
        return np.append(2 ** np.arange(self.epochs + 1) - 1, self.rounds)

    @property
    def draw(self) -> ExponentialMechanism:
        """One draw, for scores that are minus a sum of losses."""
        return ExponentialMechanism(quotient_up(2.0, self.learning_rate))

    # --- privacy -----------------------------------------------------------------------------------------------------

    def graph(self) -> AccountantGraph:
        """The data-independent plan: epoch q's losses, rounds 2^(q-1) .. 2^q - 1 (from 1), enter draw q alone."""
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
        """What a run costs one person, as one event for a larger graph or a ledger."""
        return self.graph().guarantee().event

    def worst_case_neighbours(self) -> tuple[FloatArray, FloatArray]:
        """Two streams of shape (rounds, experts): in the first round all experts but number 0 lose 1, or it alone does.

        All later losses are 0, so that the one draw that reads the first round reads nothing else.
        """
        first, second = np.zeros((2, self.rounds, self.experts))
        first[0, 1:] = 1.0
        second[0, 0] = 1.0
        return first, second

    def log_likelihood_ratio(
        self, experts: npt.ArrayLike, losses0: npt.ArrayLike, losses1: npt.ArrayLike
    ) -> FloatArray:
        """ln P(experts | losses0) / P(experts | losses1), shape (R,), of experts of shape (R, epochs + 1).

        Raises:
            InvalidArgumentError: the experts or the losses have another form.
        """
        rows = array("experts", experts, shape=(None, self.epochs + 1), low=0, high=self.experts - 1)
        if (rows != np.floor(rows)).any():
            raise InvalidArgumentError("experts", experts, "are no experts", "give their indices")
        ratios = self._log_law(self._stream(losses0)) - self._log_law(self._stream(losses1))
        return np.asarray(ratios[np.arange(self.epochs + 1), rows.astype(np.int64)].sum(axis=1))

    # --- runs --------------------------------------------------------------------------------------------------------

    def simulate(self, losses: npt.ArrayLike, rng: np.random.Generator, runs: int) -> Experts:
        """``runs`` independent runs: the expert of each epoch, shape (runs, epochs + 1)."""
        law, source, count = np.exp(self._log_law(self._stream(losses))), generator(rng), run_count(runs)
        found = np.empty((count, self.epochs + 1), np.int64)
        for column, odds in zip(found.T, np.cumsum(law, axis=1), strict=True):
            drawn = np.searchsorted(odds, source.random(count) * odds[-1], side="right")
            np.minimum(drawn, self.experts - 1, out=column)
        return found

    def run(self, losses: npt.ArrayLike, rng: np.random.Generator) -> Experts:
        """The expert of each round of one simulated run, shape (rounds,): seeded, so not a private release."""
        return self.plays(self.simulate(losses, rng, 1)[0])

    def plays(self, experts: Experts) -> Experts:
        """The expert of each round, shape (..., rounds), from those of epochs."""
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
        """The expert of each round, shape (rounds,), from secure noise; arguments as for a mechanism's release.

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
        """The exact law of each epoch's expert, shape (epochs + 1, experts); epochs are independent."""
        return np.asarray(np.exp(self._log_law(self._stream(losses))))

    def expected_regret(self, losses: npt.ArrayLike) -> float:
        """Exact expected regret against the best single expert, without simulation."""
        stream = self._stream(losses)
        return self._expected_loss(stream) - regret_floor(stream)[1]

    def average(self, losses: npt.ArrayLike) -> float:
        """Exact expected regret per client where each client plays alone, shape (clients, rounds, experts).

        The regret is against the one expert that is best for all clients together.
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
