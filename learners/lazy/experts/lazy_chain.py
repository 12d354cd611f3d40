"""The lazy transform over experts: a chain that mostly repeats its last expert and keeps the base measure's marginals.

A `LazyChain` is the law of the whole transcript on one loss stream, in batches (Asi, Koren, Liu & Talwar 2024,
Algorithm 1, over multiplicative weights; the shadowless variant is the shrinking dartboard of Geulen, Voecking &
Winkler 2010 with fake switches added). At the boundary into batch s it reads only the losses L of batch s-1:

    keep x with probability (1 - p) * exp(min(0, r - c)),   r = -η * (L[x] - L[y])      (with a shadow y)
    keep x with probability (1 - p) * exp(min(0, -η * L[x]))                            (dartboard: no shadow)

and otherwise draws x afresh from the measure before batch s. The shadow y is redrawn with probability p_y, whatever
the data. A chain does not restrict its losses: the guarantees and the checks that they need belong to the learner. So
a chain can also represent a broken variant, with its exact law.
"""

import math
from functools import cached_property

import numpy as np
import numpy.typing as npt
from attrs import field, frozen

from hockeystick.accounting import InvalidArgumentError, InvalidDataError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import array, integer
from hockeystick.learners.common import arguments
from hockeystick.learners.experts.multiplicative_weights import log_weights

_FEW = 32  # experts, up to which tables and comparisons are the faster way


@frozen(eq=False)
class Transcripts:
    """The full view of R runs of n batches; only its first field, the actions, is played.

    Attributes:
        actions: Shape ``(R, n)``: the expert played in each batch.
        switched: Shape ``(R, n)``, bool: whether the action was drawn afresh for the batch (possibly the same
            expert again). Column 0 is False: the first draw is uniform and no decision precedes it.
        shadows: Shape ``(R, n)``: the shadow expert, or None without a shadow.
        refreshed: Shape ``(R, n)``, bool: whether the shadow was drawn afresh, or None without a shadow.

    Example:
        >>> seen = Transcripts(np.array([[2, 2, 0]]), np.array([[False, False, True]]))
        >>> seen.runs, seen.draws.tolist(), seen.stopped(0).actions.tolist()
        (1, [[0, 0, 1]], [[2, 2, 2]])
    """

    actions: npt.NDArray[np.integer]
    switched: npt.NDArray[np.bool_]
    shadows: npt.NDArray[np.integer] | None = None
    refreshed: npt.NDArray[np.bool_] | None = None

    @property
    def runs(self) -> int:
        """Number of runs R."""
        return int(self.actions.shape[0])

    @property
    def draws(self) -> npt.NDArray[np.intp]:
        """Number of draws of each run up to each batch, not counting the first ones; shape ``(R, n)``."""
        made = self.switched if self.refreshed is None else self.switched + self.refreshed.astype(np.int8)
        return np.cumsum(made, axis=1, dtype=np.intp)

    def stopped(self, draws: int) -> "Transcripts":
        """Returns the same runs, each frozen after its ``draws``-th draw.

        At a boundary the action is drawn before the shadow. Coins depend on the past of a run only, so that this is the
        law of runs that stop tossing them.
        """
        before = np.concatenate([np.zeros((self.runs, 1), np.intp), self.draws[:, :-1]], axis=1)
        switched = self.switched & (before < draws)
        actions = _held(self.actions, switched)
        if self.shadows is None or self.refreshed is None:
            return Transcripts(actions, switched)
        refreshed = self.refreshed & (before + switched < draws)
        return Transcripts(actions, switched, _held(self.shadows, refreshed), refreshed)


def _held(values: npt.NDArray[np.integer], drawn: npt.NDArray[np.bool_]) -> npt.NDArray[np.integer]:
    """Returns each row's value at its latest draw, or at the start."""
    latest = np.maximum.accumulate(np.where(drawn, np.arange(drawn.shape[1]), 0), axis=1)
    return np.take_along_axis(values, latest, axis=1)


def _batch_losses(value: object) -> FloatArray:
    losses = array("batch_losses", value, ndim=2, data=True)
    if losses.size == 0:
        raise InvalidDataError("batch_losses", value, "has no batch or no expert")
    return losses


@frozen(kw_only=True, eq=False, slots=False)
class LazyChain:
    """Law of the lazy learner's transcript on one loss stream.

    Args:
        batch_losses: Shape ``(n, d)``: the summed losses of each batch; any finite numbers.
        learning_rate: η > 0, per unit of loss.
        fake_switch_probability: p in [0, 1]; with 1 every batch's expert is drawn afresh.
        shadow_probability: p_y in [0, 1), or None for the dartboard chain, which has no shadow.
        log_normaliser: c >= 0; 0 for the dartboard chain, which has no normaliser.

    Example:
        >>> chain = LazyChain(batch_losses=[[1.0, 0.0], [0.0, 0.0]], learning_rate=0.5, fake_switch_probability=0.1)
        >>> np.exp(chain.log_keep(1, np.array([0, 1]), None)).round(4).tolist()
        [0.5459, 0.9]
        >>> chain.simulate(np.random.default_rng(1), runs=3).actions.shape
        (3, 2)
    """

    batch_losses: FloatArray = field(converter=_batch_losses)
    learning_rate: float = field(converter=arguments.learning_rate)
    fake_switch_probability: float = field(converter=arguments.redraw_probability)
    shadow_probability: float | None = field(default=None, converter=arguments.shadow_probability)
    log_normaliser: float = field(default=0.0, converter=arguments.log_normaliser)

    def __attrs_post_init__(self) -> None:
        if self.shadow_probability is None and self.log_normaliser != 0.0:
            raise InvalidArgumentError(
                "log_normaliser", self.log_normaliser, "a chain without a shadow has no normaliser", "leave it at 0"
            )

    @property
    def batches(self) -> int:
        """Number of batches n."""
        return int(self.batch_losses.shape[0])

    @property
    def experts(self) -> int:
        """Number of experts d."""
        return int(self.batch_losses.shape[1])

    @cached_property
    def log_weights(self) -> FloatArray:
        """Log-probabilities of the measure before each batch, shape ``(n, d)``."""
        return log_weights(self.batch_losses, self.learning_rate)

    def log_keep(self, s: int, x: npt.NDArray[np.integer], y: npt.NDArray[np.integer] | None) -> FloatArray:
        """Returns the log-probability of keeping x at the boundary into batch s >= 1 (0-based); broadcasts x and y."""
        p = self.fake_switch_probability
        log_probability: FloatArray = self._log_real_keep(s, x, y) + (math.log1p(-p) if p < 1.0 else -math.inf)
        return log_probability

    def _log_real_keep(self, s: int, x: npt.NDArray[np.integer], y: npt.NDArray[np.integer] | None) -> FloatArray:
        # Sums of losses, never a ratio of densities: equal (x, y) then have bit-identical coins whatever the past.
        before = self.batch_losses[s - 1]
        if y is None:
            log_ratio = -self.learning_rate * before[x]
        else:
            log_ratio = -self.learning_rate * (before[x] - before[y]) - self.log_normaliser
        log_probability: FloatArray = np.minimum(0.0, log_ratio)
        return log_probability

    def _real_keep(self, s: int, x: npt.NDArray[np.integer], y: npt.NDArray[np.integer] | None) -> FloatArray:
        """Returns e^_log_real_keep; most batches of an audit's streams cost all experts the same."""
        if not np.ptp(self.batch_losses[s - 1]):
            x, y = x[:1], None if y is None else y[:1]
        elif self.experts <= _FEW and y is not None:
            every = np.arange(self.experts)
            return np.exp(self._log_real_keep(s, every[:, None], every)).ravel()[x * self.experts + y]
        return np.exp(self._log_real_keep(s, x, y))

    def simulate(self, rng: np.random.Generator, runs: int) -> Transcripts:
        """Draws ``runs`` independent transcripts, vectorised over runs: O(d + runs) per batch.

        The real switch, the fake switch, the shadow's coin and the two kinds of draws come from five independent
        substreams seeded by ``rng``.
        """
        runs = integer("runs", runs, low=1)
        real_coin, fake_coin, shadow_coin, x_draw, y_draw = substreams(rng, 5)
        n, d = self.batch_losses.shape
        label = np.min_scalar_type(d - 1)
        actions = np.empty((n, runs), dtype=label)
        switched = np.zeros((n, runs), dtype=np.bool_)
        with_shadow = self.shadow_probability is not None
        shadows = np.empty((n, runs), dtype=label) if with_shadow else None
        refreshed = np.zeros((n, runs), dtype=np.bool_) if with_shadow else None

        weights = np.exp(self.log_weights)
        x = _draw(weights[0], x_draw, runs)
        y = _draw(weights[0], y_draw, runs) if with_shadow else None
        actions[0] = x
        if shadows is not None:
            shadows[0] = y
        for s in range(1, n):
            # Uniforms lie in [0, 1): a keep probability of exactly 1 always keeps.
            switch = real_coin.random(runs) >= self._real_keep(s, x, y)
            switch |= fake_coin.random(runs) < self.fake_switch_probability
            moved = np.flatnonzero(switch)
            x[moved] = _draw(weights[s], x_draw, moved.size)
            actions[s] = x
            switched[s] = switch
            if y is not None and shadows is not None and refreshed is not None:
                redrawn = np.flatnonzero(shadow_coin.random(runs) < (self.shadow_probability or 0.0))
                y[redrawn] = _draw(weights[s], y_draw, redrawn.size)
                shadows[s] = y
                refreshed[s, redrawn] = True
        return Transcripts(
            actions.T, switched.T, None if shadows is None else shadows.T, None if refreshed is None else refreshed.T
        )


def log_likelihood_ratio(
    transcripts: Transcripts, chain0: LazyChain, chain1: LazyChain, *, most_draws: int | None = None
) -> FloatArray:
    """Returns ln P0(transcript) / P1(transcript) of each run, shape ``(R,)``; +-inf where one law excludes it.

    This is the full view: the switching decisions and every draw, including shadows. Runs that stop after
    ``most_draws`` draws decide nothing from then on, so that their keeping carries no information.
    """
    total = decision_log_likelihood_ratio(transcripts, chain0, chain1, most_draws=most_draws)
    drawn = chain0.log_weights - chain1.log_weights
    for s in np.flatnonzero(np.any(drawn != 0.0, axis=1)):
        moved = np.flatnonzero(transcripts.switched[:, s])
        total[moved] += drawn[s][transcripts.actions[moved, s]]
        if transcripts.shadows is not None and transcripts.refreshed is not None:
            redrawn = np.flatnonzero(transcripts.refreshed[:, s])
            total[redrawn] += drawn[s][transcripts.shadows[redrawn, s]]
    return total


def decision_log_likelihood_ratio(
    transcripts: Transcripts, chain0: LazyChain, chain1: LazyChain, *, most_draws: int | None = None
) -> FloatArray:
    """Returns the switching decisions' part of :func:`log_likelihood_ratio`, shape ``(R,)``.

    Only boundaries right after a batch on which the two streams differ contribute.
    """
    _require_alike(chain0, chain1)
    if transcripts.actions.shape[1] != chain0.batches or (transcripts.shadows is None) != (
        chain0.shadow_probability is None
    ):
        raise InvalidArgumentError(
            "transcripts", transcripts.actions.shape, "are not transcripts of these chains", "simulate one of them"
        )
    total = np.zeros(transcripts.runs)
    differ = np.any(chain0.batch_losses[:-1] != chain1.batch_losses[:-1], axis=1)
    for s in np.flatnonzero(differ) + 1:
        x = transcripts.actions[:, s - 1]
        y = None if transcripts.shadows is None else transcripts.shadows[:, s - 1]
        stayed, moved = bit_log_ratios(chain0, chain1, int(s), x, y)
        ratio = np.where(transcripts.switched[:, s], moved, stayed)
        total += ratio if most_draws is None else np.where(transcripts.draws[:, s - 1] < most_draws, ratio, 0.0)
    return total


def bit_log_ratios(
    chain0: LazyChain, chain1: LazyChain, s: int, x: npt.NDArray[np.integer], y: npt.NDArray[np.integer] | None
) -> tuple[FloatArray, FloatArray]:
    """Returns ``(ln k0/k1, ln (1-k0)/(1-k1))``: losses of keeping and moving at the boundary into s, given (x, y)."""
    keep0, keep1 = chain0.log_keep(s, x, y), chain1.log_keep(s, x, y)
    with np.errstate(divide="ignore", invalid="ignore"):
        stayed = keep0 - keep1
        moved = np.log(-np.expm1(keep0)) - np.log(-np.expm1(keep1))
    # A transcript that is impossible under both laws does not occur: its ratio is immaterial.
    return np.nan_to_num(stayed, nan=0.0, posinf=np.inf, neginf=-np.inf), np.nan_to_num(
        moved, nan=0.0, posinf=np.inf, neginf=-np.inf
    )


def _require_alike(chain0: LazyChain, chain1: LazyChain) -> None:
    if chain0.batch_losses.shape != chain1.batch_losses.shape or (
        chain0.shadow_probability != chain1.shadow_probability
    ):
        raise InvalidArgumentError(
            "chain1", chain1.batch_losses.shape, "is not a chain of the same shape and shadow as chain0"
        )


def substreams(rng: np.random.Generator, count: int) -> list[np.random.Generator]:
    """Returns independent generators seeded by the state of ``rng``, which advances."""
    seed = np.random.SeedSequence(rng.integers(0, 2**32, size=8, dtype=np.uint32).tolist())
    return [np.random.Generator(np.random.PCG64(child)) for child in seed.spawn(count)]


def _draw(weights: FloatArray, rng: np.random.Generator, size: int) -> npt.NDArray[np.intp]:
    """Returns ``size`` draws from ``weights`` (shape (d,), summing to 1 up to rounding) by inverting their sums."""
    sums = np.cumsum(weights)
    points = rng.random(size) * sums[-1]
    if len(sums) > _FEW:
        found: npt.NDArray[np.intp] = np.searchsorted(sums[:-1], points, side="right")
        return found
    drawn = np.zeros(size, np.uint8)  # for few experts comparisons are faster than a search
    for bound in sums[:-1]:
        drawn += points >= bound
    return drawn.astype(np.intp)
