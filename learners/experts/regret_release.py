"""A separate private release of the total losses of a stream, from which the quantile regret of any plays is known."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
from attrs import field, frozen

from hockeystick.accounting import AccountantGraph, Adjacency, Guarantee, InvalidDataError, PrivacyEvent
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import array, as_array, integer
from hockeystick.learners.common import arguments
from hockeystick.learners.experts import quantile_regret
from hockeystick.learners.experts.expert_losses import TakesLosses, binary_digits, on_grid
from hockeystick.learners.experts.quantile_regret import Band, RegretReport
from hockeystick.mechanisms import Gaussian
from hockeystick.mechanisms.contract.arguments import noise_scale, zeros
from hockeystick.mechanisms.randomness.noise import Noise
from hockeystick.mechanisms.release import AnyLedger


@frozen(kw_only=True)
class RegretRelease(TakesLosses):
    """The total loss of each of d experts and of the published plays, with Gaussian noise.

    Neighbouring streams differ in one round's losses, replaced by any others in [0, 1] (replace-one; rounds keep their
    places). The plays were published before, and are the same in both: what their release cost comes on top. Each round
    adds its d losses and that of its play, so that one person moves the d + 1 totals by at most sqrt(d + 1) in L2.

    It serves every learner, also those that publish nothing but their plays.

    Source: Dwork & Roth 2014 (Gaussian mechanism, adaptive composition).

    Args:
        rounds: T >= 1, one person each.
        experts: d >= 2.
        sigma: Standard deviation of the noise on each total, in units of loss.
        clip: Clip losses to [0, 1], infinite ones too, instead of refusing those outside; NaN is always refused.

    Raises:
        InvalidArgumentError: an argument outside its domain.

    Example:
        >>> import numpy as np
        >>> from hockeystick.learners.experts import RegretRelease
        >>> from hockeystick.mechanisms import SimulationNoise
        >>> release = RegretRelease.calibrated(rounds=2000, experts=4, epsilon=0.5, delta=1e-6)
        >>> round(release.sigma, 1), round(release.guarantee().epsilon(1e-6).upper, 6)
        (18.0, 0.5)
        >>> losses, plays = [[0.0, 0.0, 1.0, 1.0]] * 2000, [2] * 100 + [0] * 1900
        >>> print(release.release(losses, plays, quantiles=(0.0, 1.0), noise=SimulationNoise(1)))
        loss of the experts: 116.3 [70.0, 162.6]
        regret against quantile 0 (rank 1): 110.1 [17.5, 202.7]
        regret against quantile 1 (rank 4): -1889.6 [-1982.2, -1797.0]
        all with confidence 0.95
    """

    rounds: int = field(converter=arguments.rounds)
    experts: int = field(converter=arguments.experts)
    sigma: float = field(converter=noise_scale)
    clip: bool = field(default=False, converter=arguments.clip)

    def __attrs_post_init__(self) -> None:
        _ = self.mechanism  # refuses a ratio that is no noise multiplier

    @classmethod
    def calibrated(
        cls, *, rounds: int, experts: int, epsilon: float, delta: float, group: int = 1, clip: bool = False
    ) -> RegretRelease:
        """Returns the release with the least noise that is (ε, δ)-DP for ``group`` people together.

        Raises:
            InvalidArgumentError: an argument outside its domain.
        """
        people = integer("group", group, low=1, high=arguments.rounds(rounds))
        reach = _sensitivity(arguments.experts(experts)) * people
        sigma = Gaussian.calibrated(epsilon=epsilon, delta=delta, sensitivity=reach).sigma
        found = cls(rounds=rounds, experts=experts, sigma=sigma, clip=clip)
        step = 2.0**-52  # a quotient of rounded numbers may cost an ulp more
        while found.guarantee(group=people).epsilon(delta).upper > epsilon:
            sigma, step = sigma * (1.0 + step), 2.0 * step
            found = cls(rounds=rounds, experts=experts, sigma=sigma, clip=clip)
        return found

    @property
    def mechanism(self) -> Gaussian:
        """The mechanism of the d + 1 totals."""
        return Gaussian(self.sigma, sensitivity=_sensitivity(self.experts))

    def graph(self) -> AccountantGraph:
        """Returns the data-independent plan: the totals as one release, the report as post-processing."""
        return (
            AccountantGraph(
                adjacency=Adjacency.REPLACE_ONE,
                pinned=True,
                assumptions=(
                    "every loss lies in [0, 1]",
                    "each person is one round",
                    "the plays were published before",
                ),
            )
            .source("rounds", size=self.rounds)
            .release("totals", self.event(), reads=("rounds",))
            .post("report", reads=("totals",))
        )

    def guarantee(self, *, group: int = 1) -> Guarantee:
        """Returns the guarantee for ``group`` people together."""
        return self.graph().guarantee(group=group)

    def event(self) -> PrivacyEvent:
        """Returns the cost to one person as one event, for a larger graph or a ledger."""
        return self.mechanism.event()

    def worst_case_neighbours(self) -> tuple[FloatArray, FloatArray]:
        """Returns two streams at the largest distance: the first round's losses are all 1, or all 0."""
        first, second = zeros((2, self.rounds, self.experts))
        first[0] = 1.0
        return first, second

    def totals(self, losses: npt.ArrayLike, plays: npt.ArrayLike) -> FloatArray:
        """Returns the exact totals, of the experts and last of the plays, shape (d + 1,): private data.

        Args:
            losses: Shape (rounds, experts); rounded to multiples of 2^-30 (coarser beyond 2^22 rounds).
            plays: As for ``release``.

        Raises:
            InvalidArgumentError: bad losses or plays.
        """
        rows, played = on_grid(self._stream(losses), self.rounds), self._plays(plays)
        own = np.clip(on_grid(np.einsum("td,td->t", played, rows), self.rounds), 0.0, 1.0)
        return np.append(rows.sum(axis=0), own.sum())

    def error(self, confidence: float = 0.95) -> float:
        """Returns a number by which no noisy total is off with this probability; regrets are off by twice as much.

        Raises:
            InvalidArgumentError: ``confidence`` is not in (0, 1).
        """
        noise = self.mechanism.accuracy(quantile_regret.checked_confidence(confidence), entries=self.experts + 1)
        # Rounding of losses, of their mean over a mixture, and of the release and its noise to a grid.
        return noise + self.rounds * 2.0 ** (1 - binary_digits(self.rounds)) + self.sigma * 2.0**-10

    def simulate(
        self, losses: npt.ArrayLike, rng: np.random.Generator, runs: int, *, plays: npt.ArrayLike | None = None
    ) -> FloatArray:
        """Returns noisy totals, shape (runs, experts + 1), with real-valued noise; without plays, of expert 0."""
        return self.mechanism.simulate(self.totals(losses, self._or_first(plays)), rng, runs)

    def log_likelihood_ratio(
        self,
        found: FloatArray,
        losses0: npt.ArrayLike,
        losses1: npt.ArrayLike,
        *,
        plays: npt.ArrayLike | None = None,
    ) -> FloatArray:
        """Returns ln p(totals | losses0) / p(totals | losses1), one number per run; plays as for ``simulate``."""
        given = (self.totals(losses, self._or_first(plays)) for losses in (losses0, losses1))
        return np.asarray(self.mechanism.log_likelihood_ratio(found, *given))

    def release(
        self,
        losses: npt.ArrayLike,
        plays: npt.ArrayLike,
        *,
        quantiles: Iterable[float] = (0.0, 0.1, 0.5),
        confidence: float = 0.95,
        ledger: AnyLedger | None = None,
        name: str | None = None,
        reads: Iterable[str] | None = None,
        noise: Noise | None = None,
    ) -> RegretReport:
        """Returns the regret of plays against quantiles of the experts, from secure noise.

        With the stated confidence all d + 1 noisy totals are off by at most a. Then so is the learner's loss, and
        quantiles of the experts, too, so that all regrets are off by at most 2a.

        Args:
            losses: Shape (rounds, experts).
            plays: The published experts, shape (rounds,), or mixtures, shape (rounds, experts). They must not have been
                chosen with other access to the losses than by private releases.
            quantiles: In [0, 1], 0 for the best expert.
            confidence: The probability with which all bands hold.
            ledger: Records the event under ``name``; see ``Laplace.release``.
            name: The release's name in the ledger.
            reads: The sources that it reads, for a ``FilteredLedger``.
            noise: None for secure noise; ``SimulationNoise`` for reproducible numbers, which must not be published.

        Raises:
            InvalidArgumentError: bad losses, plays or other arguments; nothing was recorded.
            HockeystickError: the ledger refuses.
        """
        values, ranks = quantile_regret.checked_quantiles(quantiles, self.experts)
        errs = self.error(confidence)
        exact = self.totals(losses, plays)
        found = self.mechanism.release(exact, ledger=ledger, name=name, reads=reads, noise=noise)
        ordered, most = np.sort(found[:-1]), float(self.rounds)
        own = Band(0.0, most).meeting(found[-1] - errs, found[-1] + errs)
        regrets = tuple(
            Band(-most, most).meeting(found[-1] - ordered[k - 1] - 2.0 * errs, found[-1] - ordered[k - 1] + 2.0 * errs)
            for k in ranks
        )
        kind: quantile_regret.Plays = "experts" if np.ndim(plays) == 1 else "mixtures"
        return RegretReport(values, ranks, regrets, own, confidence, kind)

    def _or_first(self, plays: npt.ArrayLike | None) -> npt.ArrayLike:
        return np.zeros(self.rounds, dtype=np.int64) if plays is None else plays

    def _plays(self, plays: npt.ArrayLike) -> FloatArray:
        """Returns the plays as mixtures, shape (rounds, experts)."""
        given = as_array("plays", plays)
        if given.ndim == 1:
            most = self.experts - 1
            chosen = array("plays", given, shape=(self.rounds,), low=0, high=most, dtype=np.int64)
            return np.asarray(np.eye(self.experts)[chosen])
        mixed = array("plays", given, shape=(self.rounds, self.experts), low=0.0, high=1.0)
        if not np.allclose(mixed.sum(axis=1), 1.0, rtol=0.0, atol=1e-9):
            raise InvalidDataError("plays", mixed, "has a row that is not a distribution", "rows must add up to 1")
        return np.asarray(mixed)


def _sensitivity(experts: int) -> float:
    """Returns sqrt(d + 1), rounded up."""
    return math.nextafter(math.sqrt(experts + 1), math.inf)
