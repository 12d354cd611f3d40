"""The lazy learner of experts as an audit target, correct and broken, in the full view that its certificate covers.

A target is called as ``f(losses, rng, runs)`` and returns one number per run: the log-likelihood ratio of the run's
whole transcript, or of its first switching decision alone, between two fixed neighbouring streams under the target's
own law. It is a public function of what the adversary sees, so testing it tests the claim; being the likelihood ratio,
no test of the same view is more powerful.

The broken variants are those that matter in practice:

* ``"no fake switches"``: p = 0 with the tight normaliser. A redraw may then prove which stream it was.
* ``"unclipped losses"``: the range of the losses is declared as [0, 1] and not enforced.

Because each variant is a :class:`~hockeystick.learners.LazyChain`, its exact privacy loss is known, and from it how
many samples an audit needs (:func:`samples_needed`).
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import numpy.typing as npt
from attrs import field, frozen
from scipy import stats

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.validate import array, integer, real
from hockeystick.audits.bounds import clopper_pearson
from hockeystick.audits.claim import Claim
from hockeystick.learners import ExactLoss, LazyChain, LazyExperts, batch_sums, exact_decision_loss, exact_loss
from hockeystick.learners.lazy_chain import decision_log_likelihood_ratio, log_likelihood_ratio
from hockeystick.learners.lazy_oracle import LossLaw

FloatArray = npt.NDArray[np.float64]
Mutation = Literal["no fake switches", "unclipped losses"]
View = Literal["run", "decision"]

MUTATIONS: tuple[Mutation, ...] = ("no fake switches", "unclipped losses")
_PROOF = 100.0  # stands for an infinite log-likelihood ratio
_ENTRIES = 1 << 24  # of one transcript array drawn at a time


def _one_of(name: str, value: object, allowed: tuple[object, ...]) -> None:
    if value not in allowed:
        raise InvalidArgumentError(name, value, "is unknown", f"use one of {', '.join(map(repr, allowed))}")


@frozen(kw_only=True, eq=False)
class LazyTarget:
    """One variant of the lazy learner on two neighbouring streams.

    Args:
        learner: The learner whose certificate is the claim.
        neighbours: Two streams of shape (rounds, experts) that differ in one round.
        mutation: What is broken; None for the correct learner.
        view: "run" for the whole transcript, "decision" for the first decision that may differ.

    Raises:
        InvalidArgumentError: unknown mutation or view, or streams that the variant does not take.
    """

    learner: LazyExperts
    neighbours: tuple[FloatArray, FloatArray]
    mutation: Mutation | None = field(default=None)
    view: View = field(default="run")

    def __attrs_post_init__(self) -> None:
        _one_of("mutation", self.mutation, (None, *MUTATIONS))
        _one_of("view", self.view, ("run", "decision"))
        for stream in self.neighbours:
            self.chain(stream)

    def __call__(self, losses: npt.ArrayLike, rng: np.random.Generator, runs: int) -> FloatArray:
        """The log-likelihood ratio of ``runs`` transcripts drawn on ``losses``, shape (runs,); +-100 where infinite."""
        runs = integer("runs", runs, low=1)
        chain, (chain0, chain1) = self.chain(losses), self.chains()
        ratio = log_likelihood_ratio if self.view == "run" else decision_log_likelihood_ratio
        block = max(1, _ENTRIES // chain.batches)
        parts = [
            ratio(chain.simulate(rng, min(block, runs - start)), chain0, chain1) for start in range(0, runs, block)
        ]
        return np.clip(np.concatenate(parts), -_PROOF, _PROOF)

    def chains(self) -> tuple[LazyChain, LazyChain]:
        """The laws of the transcript on the two neighbouring streams."""
        return self.chain(self.neighbours[0]), self.chain(self.neighbours[1])

    def chain(self, losses: npt.ArrayLike) -> LazyChain:
        """The variant's law of the transcript on ``losses`` of shape (rounds, experts)."""
        learner = self.learner
        if self.mutation is None:
            return learner.chain(losses)
        unsafe = self.mutation == "unclipped losses"
        if unsafe:
            sums = batch_sums(array("losses", losses, shape=(learner.rounds, learner.experts)), learner.batch)
        else:
            sums = learner.chain(losses).batch_losses
        dartboard = learner.variant == "dartboard"
        return LazyChain(
            batch_losses=sums,
            learning_rate=learner.learning_rate,
            fake_switch_probability=learner.fake_switch_probability if unsafe else 0.0,
            shadow_probability=None if dartboard else learner.refresh_probability,
            log_normaliser=learner.log_normaliser if unsafe or dartboard else learner.batch * learner.learning_rate,
        )

    def exact(self) -> ExactLoss:
        """The exact privacy loss of the view on the two streams: what an audit with unlimited samples would find."""
        oracle = exact_loss if self.view == "run" else exact_decision_loss
        return oracle(*self.chains())


def lazy_target(
    learner: LazyExperts, mutation: Mutation | None = None, *, view: View = "run", excess: float = 2.0
) -> LazyTarget:
    """The target on the learner's own worst-case neighbours.

    Args:
        learner: The learner whose certificate is the claim.
        mutation: What is broken; None for the correct learner.
        view: See :class:`LazyTarget`.
        excess: For unclipped losses: by what factor the changed round exceeds the declared range.
    """
    excess = real("excess", excess, low=1.0)
    focus: View = "decision" if view == "decision" or mutation == "no fake switches" else "run"
    first, second = learner.worst_case_neighbours(focus=focus)
    if mutation == "unclipped losses":
        first[0] *= excess
        second[0] *= excess
    return LazyTarget(learner=learner, neighbours=(first, second), mutation=mutation, view=view)


def samples_needed(exact: ExactLoss, claim: Claim, *, confidence: float = 0.999, power: float = 0.9) -> float:
    """Samples from each data set with which an audit refutes ``claim`` with probability ``power``; inf if it holds.

    For each claimed point and each threshold of the exact privacy loss, in both directions, the event's probabilities
    P and Q are known. Half of the samples choose the event; on the other half its counts are bounded by Clopper-Pearson
    at ``confidence``, half of the error to each side. The best event is found by its normal approximation, its sample
    size then by exact binomial quantiles.
    """
    confidence = real("confidence", confidence, low=0.0, high=1.0, low_open=True, high_open=True)
    power = real("power", power, low=0.0, high=1.0, low_open=True, high_open=True)
    best = math.inf
    for law in (exact.forward[0], exact.backward[0]):
        event = _best_event(law, claim)
        if event is not None:
            best = min(best, 2.0 * _held_out(*event, confidence, power))
    return best


def _best_event(law: LossLaw, claim: Claim) -> tuple[float, float, float, float] | None:
    """(P, Q, epsilon, delta) of the threshold and the claimed point that show the violation best, if there is one."""
    p, q = law.tails()
    found: tuple[float, tuple[float, float, float, float]] | None = None
    for epsilon, delta in claim.points:
        scale = math.exp(epsilon)
        gap = p - scale * q - delta
        worth = np.where(gap > 1e-12, gap, 0.0) ** 2 / np.maximum(p * (1 - p) + scale**2 * q * (1 - q), 1e-300)
        # A rare event has to be seen at all, whatever its variance says.
        worth = np.minimum(worth, np.maximum(gap, 0.0))
        index = int(np.argmax(worth))
        if worth[index] > 0.0 and (found is None or worth[index] > found[0]):
            found = float(worth[index]), (float(p[index]), float(q[index]), epsilon, delta)
    return None if found is None else found[1]


def _held_out(p: float, q: float, epsilon: float, delta: float, confidence: float, power: float) -> float:
    """Smallest number of held-out samples per side at which P > e^epsilon Q + delta is shown with the given power."""
    miss = (1.0 - power) / 2.0
    level = 1.0 - (1.0 - confidence) / 2.0

    def shows(n: int) -> bool:
        x, y = stats.binom.ppf(miss, n, p), stats.binom.isf(miss, n, q)
        low = clopper_pearson(x, n, confidence=level, side="lower")[0]
        high = clopper_pearson(y, n, confidence=level, side="upper")[1]
        return bool(low > math.exp(epsilon) * high + delta)

    high = 16
    while not shows(high):
        high *= 2
        if high > 1 << 50:
            return math.inf
    low = high // 2
    while high - low > max(1, low // 50):
        middle = (low + high) // 2
        low, high = (low, middle) if shows(middle) else (middle, high)
    return float(high)
