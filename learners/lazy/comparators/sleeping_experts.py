"""Hedge on noisy sums for experts that sleep: some may be played in a round, the others may not.

Who is awake is public. The regret against an expert counts its awake rounds alone: the learner's loss there, minus the
expert's (Freund, Schapire, Singer & Warmuth 1997; Blum & Mansour 2007). The learner publishes the mixture p_t that it
draws from, on the experts A_t that are awake, and adds to each of their sums ℓ_t(i) − ⟨p_t, ℓ_t⟩, to the others' 0.

*Privacy.* p_t and A_t follow from what was published before. So one person moves one round's contribution, by v − ⟨p_t,
v⟩·1 on A_t for some v in [−1, 1]^m, m = |A_t|. Its squared length is convex in v; at a corner with a entries +1, b
entries −1, and mixture weight q on the latter, it is 4·(a·q² + b·(1 − q)²), convex in q, so at most 4·(m − 1): the
person moves the sums by at most 2·sqrt(m − 1) in L2. The mechanisms of sums allow contributions that depend on earlier
answers.

*Regret.* Let R_t(i) be the regret against i so far, n_t(i) its awake rounds, w_t(i) = e^(η·R_t(i) − η²·n_t(i)/8), and
q_t the mixture with these weights on A_t, while p_t has them with noise in R. If the noise has range r_t, then p_t is
within τ_t = tanh(η·r_t/4) of q_t in total variation, whatever losses follow. So by Hoeffding's lemma the awake weights
grow by at most a factor e^(η·τ_t), and the others stay: w_T(i) ≤ d·e^(η·Σ τ_t), or R_T(i) ≤ ln(d)/η + η·n_T(i)/8 + Σ
τ_t, for all experts at once, all losses, and whoever is awake. For normal noise of deviation s, E τ_t ≤ tanh(η·s·M/2),
where M is the expected maximum of d standard normal numbers; round 1 has no noise. The term of the noise counts all T
rounds, not only those in which i is awake: a bound without that has no proof here.
"""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
from attrs import evolve, field, frozen
from scipy.special import softmax

from hockeystick.accounting import AccountantGraph, InvalidArgumentError, PrivacyEvent
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import array, as_array, integer
from hockeystick.learners.common import arguments, noisy_sum_stream
from hockeystick.learners.common.noisy_sum_stream import Coins, PublishedMixtures, SumsStream
from hockeystick.learners.common.online_learner import OnlineLearner
from hockeystick.learners.common.prefix_sums import (
    RELEASED,
    PrefixSums,
    PublishedRuns,
    Sums,
    calibrated_scale,
    checked_sums,
    least_spread,
    mechanism_of,
    plan,
)
from hockeystick.learners.common.regret_bound import Adversary, RegretBound, checked_adversary
from hockeystick.learners.experts import noisy_sum_bounds, quantile_regret
from hockeystick.learners.experts.expert_losses import TakesLosses, checked_losses
from hockeystick.learners.experts.quantile_regret import Band
from hockeystick.mechanisms.contract.arguments import generator, zeros
from hockeystick.mechanisms.randomness.noise import Noise, SimulationNoise
from hockeystick.mechanisms.release import AnyLedger

Mask = npt.NDArray[np.bool_]


class SleepingStream(SumsStream):
    """One run of ``SleepingExperts``.

    Example:
        >>> learner = SleepingExperts.calibrated(rounds=100, experts=3, epsilon=1.0, delta=1e-6)
        >>> stream = learner.start(noise=SimulationNoise(1))
        >>> stream.predict([True, False, True]) in (0, 2), stream.mixture().round(2).tolist()
        (True, [0.5, 0.0, 0.5])
        >>> stream.update([1.0, 0.0, 0.5])  # the second loss is ignored
        >>> stream.round, stream.predict([False, True, False])
        (1, 1)
    """

    __slots__ = ("_awake", "_counts", "_read", "_sums")

    def __init__(self, learner: "SleepingExperts", running: Any, coins: Coins, simulated: bool) -> None:
        self._counts, self._awake = np.zeros(learner.experts), None
        super().__init__(learner, running, coins, simulated)

    def predict(self, awake: npt.ArrayLike | None = None) -> int:
        """Returns the expert of the next round, one that is awake; the same one until ``update``.

        Args:
            awake: Who is awake in this round, shape (experts,), of bools; None for all, or as before in this round.

        Raises:
            StreamHaltedError: all rounds are over.
            InvalidArgumentError: nobody or too many are awake, or others than before in this round.
        """
        return int(np.argmax(np.where(self._waking(awake), self._action, -np.inf)))

    def mixture(self, awake: npt.ArrayLike | None = None) -> FloatArray:
        """Returns the distribution that the next expert is drawn from; arguments and errors as in ``predict``."""
        return np.asarray(self._learner._mixtures_of(self._read, self._waking(awake)))

    def update(self, losses: npt.ArrayLike, awake: npt.ArrayLike | None = None) -> None:
        """Reads the losses of the next round, shape (experts,); those of experts that sleep are ignored.

        Raises:
            StreamHaltedError: all rounds are over.
            InvalidArgumentError: bad losses, or as in ``predict``; nothing was read.
        """
        before = self._awake
        try:
            awaken = self._waking(awake)
            given = as_array("losses", losses, data=True)[None]
            row = self._learner._rows(given, awaken[None], self._round)[0]
        except Exception:
            self._awake = before
            raise
        added = contribution(row, self._learner._mixtures_of(self._read, awaken), awaken)
        self._counts, self._awake = self._counts + awaken, None
        self._take(added)

    def _waking(self, awake: npt.ArrayLike | None) -> Mask:
        self._check_open()
        if awake is None:
            found = self._learner._mask(np.ones(self._learner.experts, bool)) if self._awake is None else self._awake
        else:
            found = self._learner._mask(awake)
        if self._awake is not None and (found != self._awake).any():
            raise InvalidArgumentError("awake", found, "differs from what this round had", "decide once a round")
        self._awake = found
        return np.asarray(found)

    def _act(self, sums: FloatArray) -> None:
        self._sums, self._read = sums[0], self._learner._exponents(sums[0], self._counts)
        self._action = self._read + self._coins.gumbel.gumbel(size=self._read.shape)

    def _body(self) -> dict[str, Any]:
        awake = None if self._awake is None else self._awake.tolist()
        return super()._body() | {"read": self._read.tolist(), "counts": self._counts.tolist(), "awake": awake}

    def _restore(self, body: dict[str, Any]) -> None:
        shape = (self._learner.experts,)
        self._read, self._counts = (array(name, body[name], shape=shape) for name in ("read", "counts"))
        self._awake = None if body["awake"] is None else self._learner._mask(body["awake"])


@frozen(kw_only=True)
class SleepingExperts(TakesLosses, OnlineLearner):
    """Hedge on noisy sums of the losses of experts of which some sleep in each round.

    Neighbouring streams differ in one round's losses, replaced by any others in [0, 1] (replace-one; rounds keep their
    places). Who is awake is public: it is the same in both, or follows from what was published before.

    Sources: Freund, Schapire, Singer & Warmuth 1997 and Blum & Mansour 2007 (sleeping experts); Denisov, McMahan, Rush,
    Smith & Thakurta 2022 (contributions that depend on earlier answers).

    Args:
        rounds: T >= 2, one person each.
        experts: d >= 2.
        scale: Standard deviation of the noise on each measurement, per expert, in units of loss.
        learning_rate: η > 0, per unit of loss.
        most_awake: m in 2 .. d: the largest number of experts that are awake in a round; None for d.
        sums: As for ``TreeExperts``.
        clip: Clip losses to [0, 1], infinite ones too, instead of refusing those outside; NaN is always refused.

    Raises:
        InvalidArgumentError: an argument outside its domain.

    Example:
        >>> learner = SleepingExperts.calibrated(rounds=10**5, experts=4, epsilon=2.0, delta=1e-6)
        >>> round(learner.guarantee().epsilon(1e-6).upper, 6), round(learner.regret_bound())
        (2.0, 5200)
        >>> losses, awake = [[0.0, 1.0, 1.0, 1.0]] * 10, [[False, True, True, True]] * 5 + [[True] * 4] * 5
        >>> learner = SleepingExperts.calibrated(rounds=10, experts=4, epsilon=2.0, delta=1e-6)
        >>> learner.release(losses, awake=awake, noise=SimulationNoise(1)).shape
        (10,)
    """

    refuses = {"expected_regret": "the mixtures depend on the noise of all earlier rounds; simulate, and see regrets()"}

    rounds: int = field(converter=arguments.two_rounds)
    experts: int = field(converter=arguments.experts)
    scale: float = field(converter=arguments.scale)
    learning_rate: float = field(converter=arguments.learning_rate)
    most_awake: int | None = field(default=None)
    sums: Sums = field(default="tree", converter=checked_sums)
    clip: bool = field(default=False, converter=arguments.clip)

    def __attrs_post_init__(self) -> None:
        if self.most_awake is not None:
            object.__setattr__(self, "most_awake", _most(self.most_awake, self.experts))

    @classmethod
    def calibrated(
        cls,
        *,
        rounds: int,
        experts: int,
        epsilon: float,
        delta: float,
        group: int = 1,
        most_awake: int | None = None,
        sums: Sums = "tree",
        clip: bool = False,
    ) -> "SleepingExperts":
        """Returns the learner with the least noise that is (ε, δ)-DP for ``group`` people, and its best rate."""
        awake = _most(most_awake, arguments.experts(experts))
        scale = calibrated_scale(sums, arguments.two_rounds(rounds), _sensitivity(awake), epsilon, delta, group)
        found = cls(
            rounds=rounds,
            experts=experts,
            scale=scale,
            learning_rate=1.0,
            most_awake=most_awake,
            sums=sums,
            clip=clip,
        )
        spread = least_spread(found.mechanism, found.experts)
        rate = noisy_sum_bounds.best_adaptive_rate(found.rounds, found.experts, spread)
        return evolve(found, learning_rate=rate)

    @property
    def mechanism(self) -> PrefixSums:
        """The sums of the first T - 1 contributions, which a person moves by at most 2 sqrt(m - 1) in L2."""
        most = _most(self.most_awake, self.experts)
        return mechanism_of(self.sums, self.rounds, self.scale, _sensitivity(most))

    def graph(self) -> AccountantGraph:
        """Returns the data-independent plan: the prefix sums as one release, the mixtures as post-processing."""
        return plan(
            self.mechanism,
            self.rounds,
            "losses of experts that are awake lie in [0, 1], and who is awake follows from what was published",
        )

    def event(self) -> PrivacyEvent:
        """Returns the cost of a whole run as one event, for a larger graph or a ledger."""
        return self.mechanism.event()

    def worst_case_neighbours(self) -> tuple[FloatArray, FloatArray]:
        """Returns two streams of shape (rounds, experts) at nearly the largest distance, if all are awake.

        In the first half of the rounds expert 0 is best. Then it loses 1 in one round while others lose 0, or the other
        way round.
        """
        first, second = zeros((2, self.rounds, self.experts))
        middle = (self.rounds - 1) // 2
        first[:middle, 1:] = second[:middle, 1:] = 1.0
        first[middle, 0] = second[middle, 1:] = 1.0
        return first, second

    # --- runs ---------------------------------------------------------------------------------------------------------

    def simulate(
        self, losses: npt.ArrayLike, rng: np.random.Generator, runs: int, *, awake: npt.ArrayLike | None = None
    ) -> PublishedRuns:
        """Returns ``runs`` independent runs, with real-valued noise, runs on the leading axis; loops over rounds.

        Args:
            losses: Shape (rounds, experts).
            rng: Generator of the noise and of the draws.
            runs: Number of runs.
            awake: Who is awake, shape (rounds, experts), of bools; None for all, always.
        """
        masks = self._masks(awake)
        rows = self._rows(losses, masks)
        noise, coins = generator(rng).spawn(2)
        sums = self.mechanism.simulate(np.zeros((self.rounds - 1, self.experts)), noise, runs)  # the noise
        actions = zeros((len(sums), self.rounds)).astype(np.int64)
        total, counts, read = np.zeros((len(sums), self.experts)), np.zeros(self.experts), np.zeros(sums[:, 0].shape)
        for t, (row, mask) in enumerate(zip(rows, masks, strict=True)):
            perturbed = self._exponents(read, counts) + coins.gumbel(size=read.shape)
            actions[:, t] = np.argmax(np.where(mask, perturbed, -np.inf), axis=1)
            if t == self.rounds - 1:
                break
            total += contribution(row, self._mixtures_of(self._exponents(read, counts), mask), mask)
            counts += mask
            sums[:, t] += total
            read = sums[:, t]
        return PublishedRuns(sums, actions)

    def regrets(self, losses: npt.ArrayLike, found: PublishedRuns, *, awake: npt.ArrayLike | None = None) -> FloatArray:
        """Returns the regret of each run's mixtures against each expert in its awake rounds, shape (R, experts)."""
        masks = self._masks(awake)
        rows, mixtures = self._rows(losses, masks), self._all_mixtures(found.sums, masks)
        return np.asarray(-contribution(rows, mixtures, masks).sum(axis=1))

    def log_likelihood_ratio(
        self,
        found: PublishedRuns,
        losses0: npt.ArrayLike,
        losses1: npt.ArrayLike,
        *,
        awake: npt.ArrayLike | None = None,
    ) -> FloatArray:
        """Returns ln p(sums | losses0) / p(sums | losses1), one number per run, with each run's own mixtures."""
        masks = self._masks(awake)
        mixtures = self._all_mixtures(found.sums, masks)
        first, second = (
            contribution(self._rows(losses, masks), mixtures, masks)[:, :-1] for losses in (losses0, losses1)
        )
        errors = found.sums - np.cumsum((first + second) / 2.0, axis=1)
        flat, ratio = np.moveaxis(errors, 2, 1).reshape(-1, self.rounds - 1), np.zeros(len(errors))
        # The ratio is linear in the errors, and in the distance of each round and expert.
        for t in np.flatnonzero((first != second).any(axis=(0, 2))):
            half = np.zeros(self.rounds - 1)
            half[t] = 0.5
            each = self.mechanism.log_likelihood_ratio(flat, half, -half).reshape(-1, self.experts)
            ratio += np.sum((first - second)[:, t] * each, axis=1)
        return ratio

    def run(
        self, losses: npt.ArrayLike, rng: np.random.Generator, *, awake: npt.ArrayLike | None = None
    ) -> npt.NDArray[np.int64]:
        """Returns the expert of each round of one simulated run, shape (rounds,): seeded, so not a private release."""
        return self.release(losses, awake=awake, noise=SimulationNoise(generator(rng)))

    # --- one round at a time, and releases ----------------------------------------------------------------------------

    def start(
        self,
        *,
        ledger: AnyLedger | None = None,
        name: str | None = None,
        reads: Iterable[str] | None = None,
        noise: Noise | None = None,
    ) -> SleepingStream:
        """Begins a run that reads one round at a time; records its whole cost before anything is drawn.

        Args:
            ledger: Records :meth:`event` under ``name``; see ``Laplace.release``.
            name: The run's name in the ledger.
            reads: The sources that the run reads, for a ``FilteredLedger``.
            noise: None for secure noise; ``SimulationNoise`` for reproducible runs, which are not releases.

        Returns:
            The run, before its first round. In each round call its ``predict(awake)``, then ``update(losses)``.

        Raises:
            HockeystickError: the ledger refuses.
        """
        return noisy_sum_stream.begun(SleepingStream, self, ledger, name, reads, noise)

    def resume(
        self, checkpoint: dict[str, Any], *, ledger: AnyLedger | None = None, noise: Noise | None = None
    ) -> SleepingStream:
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
        return noisy_sum_stream.continued(SleepingStream, self, checkpoint, ledger, noise)

    def release(
        self,
        losses: npt.ArrayLike,
        *,
        awake: npt.ArrayLike | None = None,
        ledger: AnyLedger | None = None,
        name: str | None = None,
        reads: Iterable[str] | None = None,
        noise: Noise | None = None,
    ) -> npt.NDArray[np.int64]:
        """Returns the expert of each round, shape (rounds,), from secure noise.

        Args:
            losses: Shape (rounds, experts); those of experts that sleep are ignored.
            awake: Who is awake, shape (rounds, experts), of bools; None for all, always.
            ledger, name, reads, noise: As for ``start``.

        Raises:
            InvalidArgumentError: bad losses or masks; nothing was recorded.
            HockeystickError: the ledger refuses.
        """
        found = self.release_mixtures(losses, awake=awake, ledger=ledger, name=name, reads=reads, noise=noise)
        assert found.actions is not None
        return found.actions

    def release_mixtures(
        self,
        losses: npt.ArrayLike,
        *,
        awake: npt.ArrayLike | None = None,
        ledger: AnyLedger | None = None,
        name: str | None = None,
        reads: Iterable[str] | None = None,
        noise: Noise | None = None,
    ) -> PublishedMixtures:
        """Returns the run of ``release`` with its noisy sums and mixtures, which everybody may compute.

        The sums are of ℓ_t(i) - ⟨p_t, ℓ_t⟩: minus the regret against each expert in its awake rounds.

        Args:
            losses, awake, ledger, name, reads, noise: As for ``release``.

        Raises:
            HockeystickError: as for ``release``.
        """
        masks = self._masks(awake)
        rows = self._rows(losses, masks)
        stream = self.start(ledger=ledger, name=name, reads=reads, noise=noise)
        sums, mixtures = np.zeros((self.rounds - 1, self.experts)), np.zeros((self.rounds, self.experts))
        experts = np.zeros(self.rounds, dtype=np.int64)
        for t, (row, mask) in enumerate(zip(rows, masks, strict=True)):
            experts[t], mixtures[t] = stream.predict(mask), stream.mixture()
            stream.update(row)
            if t < self.rounds - 1:
                sums[t] = stream._sums
        return PublishedMixtures(sums, mixtures, experts)

    def regret_bands(self, run: PublishedMixtures, *, confidence: float = 0.95) -> tuple[Band, ...]:
        """Returns the regret of a finished run's mixtures against each expert in its awake rounds, with bands.

        The published sums are minus these regrets but for the last round, within their noise. It costs nothing, and all
        bands hold together with the stated confidence, for all losses.

        Args:
            run: From ``release_mixtures`` of this learner.
            confidence: The probability, over the noise, with which all bands hold.

        Raises:
            InvalidArgumentError: an argument outside its domain, or a run of another shape.
        """
        failure = quantile_regret.checked_confidence(confidence)
        found = -quantile_regret.checked_run(run, self.rounds, self.experts).sums[-1]
        # A release rounds contributions, and its noise, to a grid: each sum is off by less than two steps per round.
        errs = self.mechanism.accuracy(failure, entries=self.experts) * RELEASED
        errs += 1.0 + 2.0 * self.rounds * self.mechanism.rounding(self.experts)
        most = float(self.rounds)
        return tuple(Band(-most, most).meeting(one - errs, one + errs) for one in found.tolist())

    @property
    def _entries(self) -> int:
        """d, the length of the sums."""
        return self.experts

    @property
    def _shift_scale(self) -> float:
        """0: there is no shift."""
        return 0.0

    def _exponents(self, sums: FloatArray, counts: FloatArray) -> FloatArray:
        """Returns the logarithms of weights after noisy sums of shape (..., d), and numbers of awake rounds."""
        return np.asarray(-self.learning_rate * sums - self.learning_rate**2 / 8.0 * counts)

    def _mixtures_of(self, exponents: FloatArray, masks: Mask) -> FloatArray:
        return np.asarray(softmax(np.where(masks, exponents, -np.inf), axis=-1))

    def _all_mixtures(self, sums: FloatArray, masks: Mask) -> FloatArray:
        """Returns the mixtures of all rounds, shape (R, rounds, d)."""
        before = np.concatenate([np.zeros_like(sums[:, :1]), sums], axis=1)
        return self._mixtures_of(self._exponents(before, np.cumsum(masks, axis=0) - masks), masks)

    def _mask(self, awake: npt.ArrayLike) -> Mask:
        """Returns who is awake in one round, checked, shape (d,)."""
        return np.asarray(self._masks(as_array("awake", awake)[None], 1)[0])

    def _masks(self, awake: npt.ArrayLike | None, rounds: int | None = None) -> Mask:
        """Returns who is awake in so many rounds, by default all, checked, shape (rounds, d)."""
        shape = (self.rounds if rounds is None else rounds, self.experts)
        found = np.ones(shape, dtype=np.bool_) if awake is None else as_array("awake", awake)
        if found.dtype != np.bool_ or found.shape != shape:
            raise InvalidArgumentError("awake", found.shape, f"is not an array of bools of shape {shape}")
        most, counts = _most(self.most_awake, self.experts), found.sum(axis=1)
        wrong = np.flatnonzero((counts < 1) | (counts > most))
        if wrong.size:
            raise InvalidArgumentError(
                f"awake[{wrong[0]}]", int(counts[wrong[0]]), "experts are awake", f"need 1 to most_awake={most}"
            )
        return np.asarray(found)

    def _rows(self, losses: npt.ArrayLike, masks: Mask, first: int = 0) -> FloatArray:
        """Returns the losses, checked, with 0 for experts that sleep, in the shape of the masks."""
        given = as_array("losses", losses, data=True)
        if given.dtype.kind in "biuf" and given.shape == masks.shape:
            given = np.where(masks, given, 0)
        return checked_losses("losses", given, rounds=len(masks), experts=self.experts, clip=self.clip, first=first)

    # --- bounds -------------------------------------------------------------------------------------------------------

    def regret_bound(self, *, awake: int | None = None, adversary: Adversary = "oblivious") -> RegretBound:
        """Returns a bound on the expected regret against any expert in its awake rounds: ln d/η + η·n/8 + noise.

        It holds for the drawn experts and for the mixtures, and for all experts at once in this sense: the expected
        largest excess of a regret of the mixtures over η/8 times the expert's awake rounds is at most the rest. Losses
        and who is awake may depend on everything published before, with the mixture of the round.

        Args:
            awake: n: the number of rounds in which the expert is awake; None for all T.
            adversary: "oblivious", "adaptive" or "stochastic"; the bound is the same.

        Raises:
            InvalidArgumentError: an argument outside its domain.
        """
        checked = checked_adversary(adversary)
        count = self.rounds if awake is None else integer("awake", awake, low=1, high=self.rounds)
        least = noisy_sum_bounds.adaptive_hedge(
            self.rounds, self.experts, least_spread(self.mechanism, self.experts), self.learning_rate
        )
        least -= self.learning_rate * (self.rounds - count) / 8.0
        rounding = self.rounds * self.mechanism.rounding(self.experts)
        return RegretBound(least + rounding, most=count, adversary=checked)


def contribution(losses: FloatArray, mixtures: FloatArray, masks: Mask) -> FloatArray:
    """Returns the losses minus the mixture's, 0 for experts that sleep; arrays of shapes (..., d)."""
    own = np.clip(np.sum(mixtures * losses, axis=-1, keepdims=True), 0.0, 1.0)
    return np.asarray(np.where(masks, losses - own, 0.0))


def _most(most_awake: int | None, experts: int) -> int:
    """Returns m."""
    return experts if most_awake is None else integer("most_awake", most_awake, low=2, high=experts)


def _sensitivity(awake: int) -> float:
    """Returns 2·sqrt(m − 1), rounded up."""
    # A mean over a mixture of m weights in floats is off by less than 2·m·2^-53; so is their sum from 1.
    return 2.0 * math.sqrt(awake - 1) * (1.0 + (awake + 4) * 2.0**-50)
