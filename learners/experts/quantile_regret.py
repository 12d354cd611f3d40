"""Quantile regret of a finished run, with a confidence band, from what its release published.

The regret against the q-quantile of d experts is the learner's loss minus that of the ⌈q·d⌉-th best expert (Chaudhuri,
Freund & Hsu 2009); for q = 0 it is the regret against the best one. A report reads noisy sums and mixtures alone, so it
is post-processing, whose cost is 0. All its intervals hold together with the stated confidence.

*Band.* Let S_1, …, S_n, n = T − 1, be the noisy sums, L_t the exact ones, and a such that with probability 1 − β every
|S_t(i) − L_t(i)| ≤ a, from the known law of the noise. All that follows is true whenever that is, for every way in
which losses come about, whatever the plays depend on.

*Experts.* The k-th smallest entry of L_n is within a of that of S_n, as order statistics move by no more than entries.

*Learner.* It plays mixtures p_t, a point mass for an expert. Let q_t be constant on blocks of rounds, which begin after
the rounds s_0 = 0, s_1, … and end with s_m = n. The sum of ⟨q_t, S_t − S_(t−1)⟩ errs by at most a·(1 + Σ‖q_(j+1) −
q_j‖₁), by summation by parts, and ⟨p_t, ℓ_t⟩ by at most the total variation of p_t and q_t. The intervals for blocks of
1, 2, 4, … rounds, with each block's mean mixture, are intersected.

*Hedge at the rate η.* Let r_t bound η times the range of (what round t read − L_(t−1)): that of −ln p_t/η − S_(t−1),
plus 2a. Without noise, the odds of any set of experts would be larger or smaller by at most e^(r_t), so the mixture p_t
is within τ_t of that without noise in total variation, with τ_t = tanh(r_t/4), or less if one expert has nearly all
weight: a set of weight x ≤ 1/(1 + e^(r_t/2)) has at most x·e^(r_t)/(1 − x + x·e^(r_t)) there. Weights too small for
floats are bounded by the sums. The mixtures without noise lose at least m = −ln(mean of e^(−η·L_n(i)))/η in total, and
at most m + η·n/8. And m is at most the k-th smallest entry of L_n plus ln(d/k)/η. So the regret in T rounds is at most
ln(d/k)/η + η·T/8 + Σ τ_t.

*Discounted losses.* With L_t = γ·L_(t−1) + ℓ_t the regret of round t counts γ^(T−t). All sums over rounds have these
weights: those of ⟨q_t, S_t − γ·S_(t−1)⟩ err by at most a·(1 + Σ γ^(n−t)·‖q_(t+1) − q_t‖₁), round t reads γ·L_(t−1), and
with W for the sum of the weights the mixtures without noise lose at most m + η·W/8, as m is a concave function of the
sums that is 0 at 0. The lower bound m holds for γ = 1 alone. Hoeffding's inequality has the sum of the squared weights.

*The last round*, which no sum includes, moves a regret by at most 1.

*Drawn experts* whose draws the losses of their rounds ignore differ in total loss from the mixtures by at most √(T·ln(2
/β′)/2) with probability 1 − β′ (Hoeffding 1963, Azuma 1967).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal

import numpy as np
from attrs import frozen
from scipy import special

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import array, one_of, probability
from hockeystick.learners.common.noisy_sum_stream import PublishedMixtures

Plays = Literal["experts", "mixtures"]

_DEAD = 1e-300  # weights below it may have lost digits, or be 0
_STEEP = 600.0  # e to that power is a float; only weights below its inverse are moved less than by the whole tanh


@frozen
class Band:
    """A confidence interval. See ``RegretReport`` for an example.

    Attributes:
        lower, upper: Its ends.
    """

    lower: float
    upper: float

    @property
    def middle(self) -> float:
        """The estimate."""
        return (self.lower + self.upper) / 2.0

    def __str__(self) -> str:
        return f"{self.middle:.1f} [{self.lower:.1f}, {self.upper:.1f}]"

    def meeting(self, lower: float, upper: float) -> Band:
        """Returns the intersection with another interval, or the gap between them, which neither may miss at once."""
        return Band(*sorted((max(self.lower, lower), min(self.upper, upper))))


@frozen
class RegretReport:
    """Quantile regrets of a finished run.

    Attributes:
        quantiles: The quantiles q, from 0 for the best expert to 1 for the worst.
        ranks: The rank ⌈q·d⌉ of the expert of each quantile, at least 1.
        regrets: The regret against each of them, in units of loss.
        loss: The learner's own loss.
        confidence: The probability that all these intervals are right together.
        plays: What was played: the drawn "experts", or the "mixtures" with their mean loss.

    Example:
        >>> from hockeystick.learners import TreeExperts
        >>> from hockeystick.mechanisms import SimulationNoise
        >>> learner = TreeExperts.calibrated(rounds=2000, experts=4, epsilon=4.0, delta=1e-6, policy="hedge")
        >>> run = learner.release_mixtures([[0.2, 0.6, 1.0, 1.0]] * 2000, noise=SimulationNoise(1))
        >>> print(learner.regret_report(run, quantiles=(0.0, 0.5, 1.0), plays="mixtures"))
        loss of the mixtures: 445.4 [287.3, 603.4]
        regret against quantile 0 (rank 1): 31.7 [-197.8, 261.3]
        regret against quantile 0.5 (rank 2): -742.6 [-972.1, -513.0]
        regret against quantile 1 (rank 4): -1520.9 [-1712.7, -1329.0]
        all with confidence 0.95
    """

    quantiles: tuple[float, ...]
    ranks: tuple[int, ...]
    regrets: tuple[Band, ...]
    loss: Band
    confidence: float
    plays: Plays

    def __str__(self) -> str:
        rows = zip(self.quantiles, self.ranks, self.regrets, strict=True)
        lines = [f"regret against quantile {q:g} (rank {k}): {band}" for q, k, band in rows]
        return "\n".join([f"loss of the {self.plays}: {self.loss}", *lines, f"all with confidence {self.confidence:g}"])


def checked_quantiles(values: Iterable[float], experts: int) -> tuple[tuple[float, ...], tuple[int, ...]]:
    """Returns the quantiles, in [0, 1], and the rank of each among the experts.

    Raises:
        InvalidArgumentError: they are not numbers in [0, 1].
    """
    found = array("quantiles", list(values) if isinstance(values, Iterable) else values, ndim=1, low=0.0, high=1.0)
    quantiles = tuple(found.tolist())
    return quantiles, tuple(max(1, math.ceil(round(q * experts, 9))) for q in quantiles)  # 0.1·30 is above 3 in floats


def checked_run(run: object, rounds: int, experts: int) -> PublishedMixtures:
    """Returns the run, of the given shape.

    Raises:
        InvalidArgumentError: it is none, or has another shape.
    """
    if not isinstance(run, PublishedMixtures):
        raise InvalidArgumentError(
            "run", type(run).__name__, "is not a PublishedMixtures", "give one of release_mixtures"
        )
    if run.mixtures.shape != (rounds, experts) or run.sums.shape != (rounds - 1, experts):
        raise InvalidArgumentError("run", run.mixtures.shape, "has another shape", f"expected {(rounds, experts)}")
    return run


def checked_confidence(confidence: float) -> float:
    """Returns the failure probability of a band."""
    return 1.0 - probability("confidence", confidence, open=True)


def reported(
    run: PublishedMixtures,
    *,
    errs: float,
    failure: float,
    rate: float | None,
    quantiles: Iterable[float],
    confidence: float,
    plays: Plays,
    discount: float = 1.0,
) -> RegretReport:
    """Returns the report on a run; see the module for the proof.

    Args:
        run: The run.
        errs: a: the sums are off by no more than that, up to the probability that the caller has spent.
        failure: β′: what is left for drawn experts.
        rate: η of Hedge; None for a leader.
        quantiles, confidence, plays: As in the report.
        discount: γ; the sums are discounted, too.
    """
    kind: Plays = one_of("plays", plays, "experts", "mixtures")
    rounds, experts = run.mixtures.shape
    values, ranks = checked_quantiles(quantiles, experts)
    weights = discount ** np.arange(rounds - 1.0, -1.0, -1.0)  # of the last round it is 1
    total, before = float(weights.sum()), float(weights[1:].sum())
    drift = np.zeros(rounds) if rate is None else _drift(run, errs, rate, discount)
    own, apart = _own_loss(run.sums, run.mixtures, errs, weights[1:], discount), 0.0
    if rate is not None:
        floor = (math.log(experts) - special.logsumexp(-rate * run.sums[-1])) / rate
        moved = errs + float(drift[:-1] @ weights[1:])
        own = own.meeting(floor - moved if discount == 1.0 else -math.inf, floor + moved + rate * before / 8.0)
    if kind == "experts":
        if run.actions is None:
            raise InvalidArgumentError("plays", kind, "are drawn by each client, and not in the run", 'use "mixtures"')
        apart = 0.0 if rate is None else math.sqrt(float(weights @ weights) * math.log(2.0 / failure) / 2.0)
        drawn = _own_loss(run.sums, np.eye(experts)[run.actions], errs, weights[1:], discount)
        own = drawn.meeting(own.lower - apart, own.upper + apart)
    ordered, regrets = np.sort(run.sums[-1]), []
    for rank in ranks:
        lost = Band(0.0, before).meeting(ordered[rank - 1] - errs, ordered[rank - 1] + errs)
        found = Band(-total, total).meeting(
            discount * (own.lower - lost.upper) - 1.0, discount * (own.upper - lost.lower) + 1.0
        )
        if rate is not None:
            most = math.log(experts / rank) / rate + rate * total / 8.0 + float(drift @ weights)
            found = found.meeting(-math.inf, most + apart)
        regrets.append(found)
    lost = Band(discount * own.lower, discount * own.upper + 1.0)
    return RegretReport(values, ranks, tuple(regrets), lost, confidence, kind)


def _drift(run: PublishedMixtures, errs: float, rate: float, discount: float) -> FloatArray:
    """Returns τ_t of every round, shape (T,)."""
    sums = discount * np.concatenate([np.zeros_like(run.sums[:1]), run.sums])
    alive = run.mixtures > _DEAD
    with np.errstate(divide="ignore"):
        off = -np.log(run.mixtures) / rate - sums
    wide = np.max(off, axis=1, where=alive, initial=-np.inf) - np.min(off, axis=1, where=alive, initial=np.inf)
    twice = np.append(0.0, np.full(len(run.sums), 2.0 * discount * errs))
    moved, rest = rate * (wide + twice), np.sort(run.mixtures, axis=1)[:, :-1].sum(axis=1)  # all but the heaviest
    odds = np.expm1(np.minimum(moved, _STEEP))
    found = np.where(
        rest <= special.expit(-moved / 2.0), rest * (1.0 - rest) * odds / (1.0 + rest * odds), np.tanh(moved / 4.0)
    )
    behind = sums - sums.min(axis=1, keepdims=True) - twice[:, None]
    dead = np.sum(np.exp(-rate * np.maximum(behind, 0.0)), axis=1, where=~alive)
    return np.asarray(np.minimum(found + dead, 1.0))


def _own_loss(sums: FloatArray, mixtures: FloatArray, errs: float, weights: FloatArray, discount: float) -> Band:
    """Returns the intersection of the intervals for the loss in the first n rounds, over the lengths of blocks.

    The weights of rounds are γ^(n - t).
    """
    steps = len(sums)
    found, plays, width = Band(0.0, float(weights.sum())), mixtures[:steps], 1
    grown = sums - discount * np.concatenate([np.zeros_like(sums[:1]), sums[:-1]])
    grown *= weights[:, None]
    while True:
        starts = np.arange(0, steps, width)
        ends = np.append(starts[1:], steps)
        means = np.add.reduceat(plays, starts, axis=0) / (ends - starts)[:, None]
        apart = 0.0
        if width > 1:
            apart = float(weights @ np.abs(plays - np.repeat(means, ends - starts, axis=0)).sum(axis=1)) / 2.0
        off = errs * (1.0 + float(weights[ends[:-1] - 1] @ np.abs(np.diff(means, axis=0)).sum(axis=1))) + apart
        middle = float(np.einsum("td,td->", means, np.add.reduceat(grown, starts, axis=0)))
        found = found.meeting(middle - off, middle + off)
        if width >= steps:
            return found
        width *= 2
