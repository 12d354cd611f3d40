"""Follow the leader of noisy prefix sums: private learners with free switching, for experts and over R^d.

All past losses, or gradients, are published as prefix sums with noise that is correlated over rounds (binary tree, or
matrix mechanism), and each round's action is a function of the latest sum. A person costs one contribution to the
prefix sums, whatever the actions: the price grows with the dimension and not with the number of switches. These are
the baselines of the lazy learners.

* :class:`TreeExperts`: the expert with the least noisy loss so far (Agarwal & Singh 2017). A person's d losses move by
  at most sqrt(d) in L2, which is expensive in high dimension.
* :class:`PrivateFTRL`: the minimiser of <noisy gradient sum, x> + (λ/2) ||x||^2 over a domain (DP-FTRL; Kairouz et
  al. 2021). Gradients of norm at most L move by at most 2 L. They depend on earlier noise; the prefix sums' noise stays
  private under that (Denisov et al. 2022, Theorem 2.1).

The last round's losses are never read. Neighbouring streams differ in one round's losses (replace-one; rounds keep
their places).
"""

import math
from collections.abc import Iterable
from typing import Literal

import numpy as np
import numpy.typing as npt
from attrs import field, frozen
from scipy.special import log_ndtr

from hockeystick import accounting
from hockeystick.accounting import AccountantGraph, Adjacency, InvalidDataError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import one_of, real
from hockeystick.learners.common import arguments
from hockeystick.learners.experts.expert_losses import TakesLosses, regret_floor
from hockeystick.learners.lazy.convex.losses import convex_losses
from hockeystick.learners.lazy.convex.losses.convex_losses import ConvexLosses, Domain, LinearLosses, scaled_down
from hockeystick.mechanisms import MatrixMechanism, TreeAggregation
from hockeystick.mechanisms.contract.arguments import generator, quotient_up, zeros
from hockeystick.mechanisms.randomness.noise import Noise, check_noise
from hockeystick.mechanisms.release import AnyLedger, charged
from hockeystick.mechanisms.streams.factorisations import square_root
from hockeystick.mechanisms.streams.matrix_mechanism import MatrixStream
from hockeystick.mechanisms.streams.tree_aggregation import TreeStream

Sums = Literal["tree", "square root"]
PrefixSums = TreeAggregation | MatrixMechanism

_WINDOW = 9.0  # the leader's noise lies within so many standard deviations, up to 1e-18
_CELLS = 1 << 20
_GRID = 2.0**-24  # grid step of a released perturbation, relative to its scale


@frozen(eq=False)
class PublishedRuns:
    """The published part of R runs: the noisy sums, of which the actions are post-processing.

    Attributes:
        sums: Shape ``(R, rounds - 1, d)``: noisy sums of the first 1, 2, ... rounds' losses or gradients.
        actions: The expert of each round, shape ``(R, rounds)``; or its point, shape ``(R, rounds, d)``.
    """

    sums: FloatArray
    actions: npt.NDArray[np.int64] | FloatArray


def _perturbation(value: object) -> float:
    return real("perturbation", value, low=0.0)


def _sums(value: object) -> Sums:
    return one_of("sums", value, "tree", "square root")


def _regularisation(value: object) -> float | None:
    return None if value is None else real("regularisation", value, low=0.0, low_open=True)


def _prefix_sums(sums: Sums, rounds: int, scale: float, sensitivity: float) -> PrefixSums:
    if sums == "tree":
        return TreeAggregation(rounds - 1, scale, sensitivity=sensitivity)
    return MatrixMechanism(square_root(rounds - 1), scale, sensitivity=sensitivity)


def _calibrated(sums: Sums, rounds: int, sensitivity: float, epsilon: float, delta: float) -> float:
    """Returns the least scale that meets the target."""
    if _sums(sums) == "tree":
        scale = TreeAggregation.calibrated(rounds - 1, epsilon=epsilon, delta=delta, sensitivity=sensitivity).scale
    else:
        root = square_root(rounds - 1)
        scale = MatrixMechanism.calibrated(root, epsilon=epsilon, delta=delta, sensitivity=sensitivity).scale
    # A mechanism rebuilt from its scale may cost an ulp more than the calibrated one.
    step = 2.0**-52
    while accounting.epsilon(_prefix_sums(sums, rounds, scale, sensitivity).event(), delta).upper > epsilon:
        scale, step = scale * (1.0 + step), 2.0 * step
    return scale


def _of_zcdp(sums: Sums, rounds: int, sensitivity: float, rho: float) -> float:
    """Returns the scale at which a person costs ``rho``, rounded up."""
    unit = _prefix_sums(_sums(sums), rounds, sensitivity, sensitivity).event().zcdp_rho()
    # The root and two products are off by at most 3 * 2^-53, less than the factor's 8 * 2^-53.
    return sensitivity * math.sqrt(quotient_up(unit, real("rho", rho, low=0.0, low_open=True))) * (1.0 + 2.0**-50)


def _plan(mechanism: PrefixSums, rounds: int, assumption: str) -> AccountantGraph:
    return (
        AccountantGraph(
            adjacency=Adjacency.REPLACE_ONE, pinned=True, assumptions=(assumption, "each person is one round")
        )
        .source("rounds", size=rounds)
        .release("prefix sums", mechanism.event(), reads=("rounds",))
        .post("actions", reads=("prefix sums",))
    )


# --- experts ---------------------------------------------------------------------------------------------------------


@frozen(kw_only=True)
class TreeExperts(TakesLosses):
    """The learner that follows the expert with the least noisy prefix sum of losses.

    Args:
        rounds: T >= 2, one person each.
        experts: d >= 2.
        scale: Standard deviation of the noise on each measurement (each block of the tree), per expert.
        sums: "tree", with estimates of least variance from below, or "square root" for the matrix mechanism of that
            name.
        perturbation: Standard deviation of a normal variate per expert, drawn once and added to all sums. It
            stabilises the leader where the noise is too small to do so, and has no privacy cost.
        clip: Clip losses to [0, 1], infinite ones too, instead of refusing those outside; NaN is always refused.

    Raises:
        InvalidArgumentError: an argument outside its domain.

    Example:
        >>> learner = TreeExperts.of_zcdp(rounds=64, experts=3, rho=0.1)
        >>> round(learner.scale, 3), round(learner.graph().guarantee().event.zcdp_rho(), 6)
        (9.487, 0.1)
        >>> learner.run(np.tile([0.0, 1.0, 1.0], (64, 1)), np.random.default_rng(1)).shape
        (64,)
    """

    rounds: int = field(converter=arguments.two_rounds)
    experts: int = field(converter=arguments.experts)
    scale: float = field(converter=arguments.scale)
    sums: Sums = field(default="tree", converter=_sums)
    perturbation: float = field(default=0.0, converter=_perturbation)
    clip: bool = field(default=False, converter=arguments.clip)

    @classmethod
    def calibrated(
        cls,
        *,
        rounds: int,
        experts: int,
        epsilon: float,
        delta: float,
        sums: Sums = "tree",
        perturbation: float = 0.0,
    ) -> "TreeExperts":
        """Returns the learner with the least noise that is (ε, δ)-DP."""
        distance = _losses_sensitivity(arguments.experts(experts))
        scale = _calibrated(sums, arguments.two_rounds(rounds), distance, epsilon, delta)
        return cls(rounds=rounds, experts=experts, scale=scale, sums=sums, perturbation=perturbation)

    @classmethod
    def of_zcdp(
        cls, *, rounds: int, experts: int, rho: float, sums: Sums = "tree", perturbation: float = 0.0
    ) -> "TreeExperts":
        """Returns the learner that is ρ-zCDP."""
        scale = _of_zcdp(sums, arguments.two_rounds(rounds), _losses_sensitivity(arguments.experts(experts)), rho)
        return cls(rounds=rounds, experts=experts, scale=scale, sums=sums, perturbation=perturbation)

    @property
    def mechanism(self) -> PrefixSums:
        """The prefix sums of the first T - 1 rounds; replacing a person's losses moves them by up to sqrt(d) in L2."""
        return _prefix_sums(self.sums, self.rounds, self.scale, _losses_sensitivity(self.experts))

    def graph(self) -> AccountantGraph:
        """Returns the data-independent plan: the prefix sums as one release, the actions as post-processing."""
        return _plan(self.mechanism, self.rounds, "every loss lies in [0, 1]")

    def worst_case_neighbours(self) -> tuple[FloatArray, FloatArray]:
        """Returns two streams of shape (rounds, experts) at the largest distance: the first losses are all 1, or all 0.

        They maximise the privacy loss of the sums; the leaders alone do not differ, as all experts move alike.
        """
        first, second = zeros((2, self.rounds, self.experts))
        first[0] = 1.0
        return first, second

    def simulate(self, losses: npt.ArrayLike, rng: np.random.Generator, runs: int) -> PublishedRuns:
        """Returns ``runs`` independent runs, with real-valued noise, runs on the leading axis."""
        stream = self._stream(losses)
        noise, perturbing = generator(rng).spawn(2)
        sums = self.mechanism.simulate(stream[:-1], noise, runs)
        return PublishedRuns(
            sums, self._leaders(sums, self.perturbation * perturbing.standard_normal((runs, 1, self.experts)))
        )

    def run(self, losses: npt.ArrayLike, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        """Returns the expert of each round of one simulated run, shape (rounds,): seeded, so not a private release."""
        actions: npt.NDArray[np.int64] = np.asarray(self.simulate(losses, rng, 1).actions[0], dtype=np.int64)
        return actions

    def release(
        self,
        losses: npt.ArrayLike,
        *,
        ledger: AnyLedger | None = None,
        name: str | None = None,
        reads: Iterable[str] | None = None,
        noise: Noise | None = None,
    ) -> npt.NDArray[np.int64]:
        """Returns the expert of each round, shape (rounds,), from secure noise; arguments as ``Laplace.release``."""
        stream, source = self._stream(losses), check_noise(noise)

        def drawn() -> FloatArray:
            return np.asarray(self.mechanism.release(stream[:-1], noise=source))

        sums = charged(self.mechanism.event(), drawn, source, ledger, name, reads, adjacency=Adjacency.REPLACE_ONE)
        shift: FloatArray = np.zeros(self.experts)
        if self.perturbation:
            shift = source.gaussian(1.0 / _GRID, self.experts).astype(np.float64) * (self.perturbation * _GRID)
        found: npt.NDArray[np.int64] = self._leaders(sums[None], shift[None, None])[0]
        return found

    def log_likelihood_ratio(self, found: PublishedRuns, losses0: npt.ArrayLike, losses1: npt.ArrayLike) -> FloatArray:
        """Returns ln p(sums | losses0) / p(sums | losses1), one number per run."""
        given = (self._stream(losses)[:-1] for losses in (losses0, losses1))
        return np.asarray(self.mechanism.log_likelihood_ratio(found.sums, *given))

    def marginals(self, losses: npt.ArrayLike) -> FloatArray:
        """Returns the law of each round's expert, shape ``(rounds, experts)``, by quadrature to about 1e-12.

        The experts' noises in one round are independent with one variance: expert j leads with its sum at y with
        density p_j(y) * prod_{k != j} P(sum_k > y). In round 0, if the perturbation is 0, expert 0 leads.
        """
        stream = self._stream(losses)
        totals = np.zeros_like(stream)
        np.cumsum(stream[:-1], axis=0, out=totals[1:])
        spread = np.sqrt(np.append(0.0, self.mechanism.variances()) + self.perturbation**2)
        found = np.zeros_like(stream)
        if spread[0] == 0.0:
            found[0, 0], spread[0] = 1.0, 1.0
        z = np.linspace(-_WINDOW, _WINDOW, 361)
        rows = max(1, _CELLS // (z.size * self.experts))
        for start in range(1 if self.perturbation == 0.0 else 0, self.rounds, rows):
            part = slice(start, min(self.rounds, start + rows))
            lead = (totals[part] - totals[part].min(axis=1, keepdims=True)) / spread[part, None]
            gap = z[None, :, None] - lead[:, None, :]  # for a leader at z, relative to the best expert's mean
            beaten = log_ndtr(-gap)
            density = np.exp(-0.5 * gap**2 + beaten.sum(axis=2, keepdims=True) - beaten)
            found[part] = density.sum(axis=1) * (z[1] - z[0]) / math.sqrt(2.0 * math.pi)
        return found

    def expected_regret(self, losses: npt.ArrayLike) -> float:
        """Returns the exact expected regret against the best single expert, without simulation."""
        stream = self._stream(losses)
        return float(np.sum(self.marginals(stream) * stream)) - regret_floor(stream)[1]

    def _leaders(self, sums: FloatArray, shift: FloatArray) -> npt.NDArray[np.int64]:
        first = np.argmin(shift, axis=2)
        return np.concatenate([first, np.argmin(sums + shift, axis=2)], axis=1)


def _losses_sensitivity(experts: int) -> float:
    """Returns sqrt(d), rounded up: the L2 sensitivity to the replacement of one round's losses in [0, 1]^d."""
    return math.nextafter(math.sqrt(experts), math.inf)


# --- convex losses ---------------------------------------------------------------------------------------------------


@frozen(kw_only=True)
class PrivateFTRL:
    """DP-FTRL: the learner that follows the regularised leader of noisy gradient sums.

    Args:
        rounds: T >= 2, one person each.
        domain: X, a ball or a box.
        lipschitz: L > 0. Gradients are first scaled down to norm L, so that privacy does not rest on the losses.
        scale: Standard deviation of the noise on each entry of each measurement, in the units of L.
        regularisation: λ > 0, in units of loss per squared length; None for the value of least regret bound.
        sums: "tree" or "square root"; see :class:`TreeExperts`.

    Raises:
        InvalidArgumentError: an argument outside its domain.

    Example:
        >>> learner = PrivateFTRL.of_zcdp(rounds=16, domain=convex_losses.Ball(2, 1.0), lipschitz=1.0, rho=0.5)
        >>> round(learner.scale, 3), round(learner.regret_bound(), 2)
        (4.0, 14.73)
        >>> learner.run(LinearLosses(np.zeros((16, 2))), np.random.default_rng(1)).shape
        (16, 2)
    """

    rounds: int = field(converter=arguments.two_rounds)
    domain: Domain = field(converter=convex_losses.checked_domain)
    lipschitz: float = field(converter=arguments.lipschitz)
    scale: float = field(converter=arguments.scale)
    regularisation: float | None = field(default=None, converter=_regularisation)
    sums: Sums = field(default="tree", converter=_sums)

    @classmethod
    def calibrated(
        cls, *, rounds: int, domain: Domain, lipschitz: float, epsilon: float, delta: float, sums: Sums = "tree"
    ) -> "PrivateFTRL":
        """Returns the learner with the least noise that is (ε, δ)-DP."""
        scale = _calibrated(
            sums, arguments.two_rounds(rounds), _gradient_sensitivity(arguments.lipschitz(lipschitz)), epsilon, delta
        )
        return cls(rounds=rounds, domain=domain, lipschitz=lipschitz, scale=scale, sums=sums)

    @classmethod
    def of_zcdp(
        cls, *, rounds: int, domain: Domain, lipschitz: float, rho: float, sums: Sums = "tree"
    ) -> "PrivateFTRL":
        """Returns the learner that is ρ-zCDP."""
        scale = _of_zcdp(sums, arguments.two_rounds(rounds), _gradient_sensitivity(arguments.lipschitz(lipschitz)), rho)
        return cls(rounds=rounds, domain=domain, lipschitz=lipschitz, scale=scale, sums=sums)

    @property
    def mechanism(self) -> PrefixSums:
        """The prefix sums of the first T - 1 gradients; replacing a person's loss moves them by up to 2L in L2."""
        return _prefix_sums(self.sums, self.rounds, self.scale, _gradient_sensitivity(self.lipschitz))

    def graph(self) -> AccountantGraph:
        """Returns the data-independent plan: the prefix sums as one release, the points as post-processing."""
        return _plan(self.mechanism, self.rounds, "the gradient of a round depends on its own loss and its point alone")

    @property
    def strength(self) -> float:
        """λ: as given, or sqrt(2A)/D0 for the A and D0 of :meth:`regret_bound`."""
        if self.regularisation is not None:
            return self.regularisation
        return math.sqrt(2.0 * self._drift()) / self.domain.largest_norm

    def regret_bound(self) -> float:
        """Returns a bound on the expected regret: λ D0^2 / 2 + A / λ, D0 = max ||x||.

        It holds for every stream of L-Lipschitz losses, with A = T L^2 / 2 + L sum_t sqrt(d var_t). The first part of A
        is that of follow the regularised leader without noise (Orabona 2019, chapter 7); an error N in a sum moves the
        leader by at most ||N|| / λ.
        """
        return self.strength * self.domain.largest_norm**2 / 2.0 + self._drift() / self.strength

    def _drift(self) -> float:
        noise = np.sqrt(self.domain.dimension * self.mechanism.variances()).sum()
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

    def release(
        self,
        losses: ConvexLosses,
        *,
        ledger: AnyLedger | None = None,
        name: str | None = None,
        reads: Iterable[str] | None = None,
        noise: Noise | None = None,
    ) -> FloatArray:
        """Returns the point of each round, shape (rounds, d), from secure noise; arguments as ``Laplace.release``."""
        stream, d = self._stream(losses), self.domain.dimension
        source = check_noise(noise)

        def begun() -> MatrixStream | TreeStream:
            return self.mechanism.stream((d,), noise=source)

        running = charged(self.mechanism.event(), begun, source, ledger, name, reads, adjacency=Adjacency.REPLACE_ONE)
        points = np.empty((self.rounds, d))
        points[0] = self._leader(np.zeros((1, d)))[0]
        for t in range(self.rounds - 1):
            noisy = running.add(self._gradient(stream, points[[t]], t)[0])
            points[t + 1] = self._leader(noisy[None])[0]
        return points

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
