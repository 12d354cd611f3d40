"""Follow the leader of noisy gradient sums over R^d (DP-FTRL); see ``tree_experts`` for experts.

Gradients of norm at most L move by at most 2 L. They depend on earlier noise; the prefix sums' noise stays private
under that (Denisov et al. 2022, Theorem 2.1). The last round's losses are never read. Neighbouring streams differ in
one round's losses (replace-one; rounds keep their places).
"""

import math
from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt
from attrs import field, frozen

from hockeystick.accounting import AccountantGraph, InvalidDataError, PrivacyEvent
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import array, real
from hockeystick.learners.common import arguments, noisy_sum_stream
from hockeystick.learners.common.noisy_sum_stream import Coins
from hockeystick.learners.common.online_learner import OnlineLearner
from hockeystick.learners.common.prefix_sums import (
    PrefixSums,
    PublishedRuns,
    Sums,
    calibrated_scale,
    checked_sums,
    mechanism_of,
    plan,
    scale_of_zcdp,
    variances_between,
)
from hockeystick.learners.common.regret_bound import Adversary, RegretBound, checked_adversary
from hockeystick.learners.lazy.convex.losses import convex_losses
from hockeystick.learners.lazy.convex.losses.convex_losses import ConvexLosses, Domain, LinearLosses, scaled_down
from hockeystick.mechanisms.contract.arguments import generator
from hockeystick.mechanisms.randomness.noise import Noise
from hockeystick.mechanisms.release import AnyLedger


def _regularisation(value: object) -> float | None:
    return None if value is None else real("regularisation", value, low=0.0, low_open=True)


@frozen(kw_only=True)
class PrivateFTRL(OnlineLearner):
    """DP-FTRL: the learner that follows the regularised leader of noisy gradient sums.

    Args:
        rounds: T >= 2, one person each.
        domain: X, a ball or a box.
        lipschitz: L > 0. Gradients are first scaled down to norm L, so that privacy does not rest on the losses.
        scale: Standard deviation of the noise on each entry of each measurement, in the units of L.
        regularisation: λ > 0, in units of loss per squared length; None for the value of least regret bound.
        sums: "tree", "square root" or "buffered"; see ``TreeExperts``.

    Raises:
        InvalidArgumentError: an argument outside its domain.

    Example:
        >>> learner = PrivateFTRL.of_zcdp(rounds=16, domain=convex_losses.Ball(2, 1.0), lipschitz=1.0, rho=0.5)
        >>> round(learner.scale, 3), round(learner.regret_bound(), 2)
        (4.0, 14.73)
        >>> learner.run(LinearLosses(np.zeros((16, 2))), np.random.default_rng(1)).shape
        (16, 2)
    """

    refuses = {
        "release_mixtures": "its actions are points of a domain, not draws from a mixture of experts",
        "expected_regret": "the points' law has no closed form; simulate, and see losses_of()",
    }

    rounds: int = field(converter=arguments.two_rounds)
    domain: Domain = field(converter=convex_losses.checked_domain)
    lipschitz: float = field(converter=arguments.lipschitz)
    scale: float = field(converter=arguments.scale)
    regularisation: float | None = field(default=None, converter=_regularisation)
    sums: Sums = field(default="tree", converter=checked_sums)

    @classmethod
    def calibrated(
        cls,
        *,
        rounds: int,
        domain: Domain,
        lipschitz: float,
        epsilon: float,
        delta: float,
        group: int = 1,
        sums: Sums = "tree",
    ) -> "PrivateFTRL":
        """Returns the learner with the least noise that is (ε, δ)-DP for ``group`` people together."""
        distance = _gradient_sensitivity(arguments.lipschitz(lipschitz))
        scale = calibrated_scale(sums, arguments.two_rounds(rounds), distance, epsilon, delta, group)
        return cls(rounds=rounds, domain=domain, lipschitz=lipschitz, scale=scale, sums=sums)

    @classmethod
    def of_zcdp(
        cls, *, rounds: int, domain: Domain, lipschitz: float, rho: float, sums: Sums = "tree"
    ) -> "PrivateFTRL":
        """Returns the learner that is ρ-zCDP."""
        scale = scale_of_zcdp(
            sums, arguments.two_rounds(rounds), _gradient_sensitivity(arguments.lipschitz(lipschitz)), rho
        )
        return cls(rounds=rounds, domain=domain, lipschitz=lipschitz, scale=scale, sums=sums)

    @property
    def mechanism(self) -> PrefixSums:
        """The prefix sums of the first T - 1 gradients; replacing a person's loss moves them by up to 2L in L2."""
        return mechanism_of(self.sums, self.rounds, self.scale, _gradient_sensitivity(self.lipschitz))

    def graph(self) -> AccountantGraph:
        """Returns the data-independent plan: the prefix sums as one release, the points as post-processing."""
        return plan(self.mechanism, self.rounds, "the gradient of a round depends on its own loss and its point alone")

    def event(self) -> PrivacyEvent:
        """Returns the cost of a whole run as one event, for a larger graph or a ledger."""
        return self.mechanism.event()

    @property
    def strength(self) -> float:
        """λ: as given, or sqrt(2A)/D0 for the A and D0 of :meth:`regret_bound`."""
        if self.regularisation is not None:
            return self.regularisation
        return math.sqrt(2.0 * self._drift()) / self.domain.largest_norm

    def regret_bound(self, *, adversary: Adversary = "adaptive") -> RegretBound:
        """Returns a bound on the expected regret: λ D0^2 / 2 + A / λ, D0 = max ||x||.

        It holds for every stream of L-Lipschitz losses, adaptive ones too, with A = T L^2 / 2 + L sum_t sqrt(d var_t).
        The first part of A is that of follow the regularised leader without noise (Orabona 2019, chapter 7); an error N
        in a sum moves the leader by at most ||N|| / λ.
        """
        bound = self.strength * self.domain.largest_norm**2 / 2.0 + self._drift() / self.strength
        most = self.rounds * self.lipschitz * self.domain.diameter
        return RegretBound(bound, most=most, adversary=checked_adversary(adversary))

    def _drift(self) -> float:
        entries = self.domain.dimension
        noise = np.sqrt(entries * variances_between(self.mechanism, 1, self.rounds, entries=entries)).sum()
        return self.rounds * self.lipschitz**2 / 2.0 + self.lipschitz * float(noise)

    def worst_case_neighbours(self) -> tuple[LinearLosses, LinearLosses]:
        """Returns two streams at the largest distance; see ``steepest_pair``."""
        return convex_losses.steepest_pair(self.domain, self.lipschitz, self.rounds)

    def simulate(self, losses: ConvexLosses, rng: np.random.Generator, runs: int) -> PublishedRuns:
        """Returns ``runs`` independent runs, with real-valued noise, on the leading axis; loops over rounds only."""
        stream = self._stream(losses)
        shape = (self.rounds - 1, self.domain.dimension)
        sums = self.mechanism.simulate(np.zeros(shape), generator(rng), runs)  # the noise; the sums are added below
        points = np.empty((len(sums), self.rounds, self.domain.dimension))
        total = np.zeros((len(sums), self.domain.dimension))
        points[:, 0] = self._leader(total)
        for t in range(self.rounds - 1):
            total += self._gradient(stream, points[:, t], t)
            sums[:, t] += total
            points[:, t + 1] = self._leader(sums[:, t])
        return PublishedRuns(sums, points)

    def run(self, losses: ConvexLosses, rng: np.random.Generator) -> FloatArray:
        """Returns the point of each round of one simulated run, shape (rounds, d): seeded, so not a private release."""
        return np.asarray(self.simulate(losses, rng, 1).actions[0])

    # --- one round at a time, and releases ---------------------------------------------------------------------------

    start = noisy_sum_stream.start
    resume = noisy_sum_stream.resume

    def release(
        self,
        losses: ConvexLosses,
        *,
        ledger: AnyLedger | None = None,
        name: str | None = None,
        reads: Iterable[str] | None = None,
        noise: Noise | None = None,
    ) -> FloatArray:
        """Returns the point of each round, shape (rounds, d), from secure noise; other arguments as for ``start``."""
        given = self._stream(losses)
        stream = self.start(ledger=ledger, name=name, reads=reads, noise=noise)
        points = np.empty((self.rounds, self._entries))
        for t in range(self.rounds):
            points[t] = stream.predict()
            stream._take(self._gradient(given, points[[t]], t)[0])
        return points

    @property
    def _entries(self) -> int:
        """d, the length of the gradient sums."""
        return self.domain.dimension

    @property
    def _shift_scale(self) -> float:
        """0: the points have no coins beyond the noise of the sums."""
        return 0.0

    def _contribution(
        self, losses: ConvexLosses | npt.ArrayLike | Callable[[FloatArray], npt.ArrayLike], action: FloatArray, at: int
    ) -> FloatArray:
        """Returns the gradient of a round's loss at the point, shape (d,), scaled down to norm L.

        Args:
            losses: One loss as ``ConvexLosses`` of one round; or a gradient, shape (d,); or a function that takes a
                point, shape (d,), and returns the gradient there.
            action: The point that was played.
            at: The number of the round, from 0.

        Raises:
            InvalidArgumentError: none of these, or a gradient that is not finite.
        """
        if isinstance(losses, ConvexLosses):
            convex_losses.checked_losses("loss", losses, rounds=1, domain=self.domain, lipschitz=self.lipschitz)
            return np.asarray(self._gradient(losses, np.asarray(action)[None], 0)[0])
        given = losses(np.array(action)) if callable(losses) else losses
        gradient: FloatArray = array(f"gradient[{at}]", given, shape=(self._entries,), data=True)
        return np.asarray(scaled_down(gradient[None], self.lipschitz)[0])

    def _padded(self, sums: FloatArray, first: int, coins: Coins) -> FloatArray:
        """Returns the noisy sums."""
        return sums

    def _mixtures_of(self, read: FloatArray) -> FloatArray:
        raise NotImplementedError

    def _actions_of(self, read: FloatArray, first: int, coins: Coins) -> FloatArray:
        """Returns the points after the noisy sums, shape (n, d)."""
        return self._leader(read)

    # --- utility -----------------------------------------------------------------------------------------------------

    def losses_of(self, losses: ConvexLosses, found: PublishedRuns) -> FloatArray:
        """Returns the total loss of each run's points, shape ``(R,)``."""
        stream = self._stream(losses)
        points: FloatArray = np.asarray(found.actions, dtype=np.float64)
        return np.asarray(np.sum([stream.total(points[:, t], t, t + 1) for t in range(self.rounds)], axis=0))

    def log_likelihood_ratio(self, found: PublishedRuns, losses0: LinearLosses, losses1: LinearLosses) -> FloatArray:
        """Returns ln p(sums | losses0) / p(sums | losses1), one number per run, for linear losses.

        Raises:
            InvalidArgumentError: other losses, whose gradients depend on each run's points.
        """
        given = []
        for losses in (losses0, losses1):
            if not isinstance(losses, LinearLosses):
                raise InvalidDataError("losses", losses, "are not linear", "give LinearLosses")
            self._stream(losses)
            given.append(scaled_down(losses.gradients[:-1], self.lipschitz))
        return np.asarray(self.mechanism.log_likelihood_ratio(found.sums, *given))

    def _stream(self, losses: ConvexLosses) -> ConvexLosses:
        return convex_losses.checked_losses(
            "losses", losses, rounds=self.rounds, domain=self.domain, lipschitz=self.lipschitz
        )

    def _gradient(self, losses: ConvexLosses, points: FloatArray, t: int) -> FloatArray:
        return scaled_down(losses.gradient(points, t, t + 1), self.lipschitz)

    def _leader(self, sums: FloatArray) -> FloatArray:
        return self.domain.project(-sums / self.strength)


def _gradient_sensitivity(lipschitz: float) -> float:
    """Returns 2L, with a margin for the rounding error of scaling down to norm L."""
    # Norms of up to 2^24 coordinates are summed in pairs, with a relative error of at most 200 * 2^-53.
    return 2.0 * lipschitz * (1.0 + 2.0**-40)
