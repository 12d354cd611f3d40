"""The lazy learner of experts, broken on purpose: each mutant is the law of its transcript, so its exact loss is known.

* ``"no fake switches"``: p = 0 with the tight normaliser. A redraw may then prove which stream was used.
* ``"unclipped losses"``: the losses are declared to lie in [0, 1], but are not clipped.
* ``"inverted fake coin"``: p is used as the probability of *keeping*. The smaller p, the more draws are not charged.
* ``"decisions every round"``: a decision is made after each of the B rounds of a batch, but fake switches happen only
  at the start of a batch. Inside the first batch this is the learner without fake switches. Its transcript has one
  entry per round.
* ``"one coin for both switches"``: the real and the fake switch share one uniform number, so that the action is kept
  with the smaller of their probabilities instead of the product. If the real one is always the smaller, no switch is
  fake.

Not every mutant exceeds the claim of every learner: an inverted coin does for small p, decisions in every round for
B > 1, one coin for small p with a normaliser above B*eta.
:meth:`~hockeystick.audits.catalogue.lazy.experts.LazyTarget.exact` gives the loss.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt
from attrs import evolve, field, frozen

from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import array, integer
from hockeystick.learners import LazyExperts
from hockeystick.learners.experts import batch_sums
from hockeystick.learners.lazy import LazyChain, Transcripts

_Chain = TypeVar("_Chain", bound=LazyChain)
Mutation = Literal[
    "no fake switches", "unclipped losses", "inverted fake coin", "decisions every round", "one coin for both switches"
]

MUTATIONS: tuple[Mutation, ...] = (
    "no fake switches",
    "unclipped losses",
    "inverted fake coin",
    "decisions every round",
    "one coin for both switches",
)


def mutant_chain(learner: LazyExperts, losses: npt.ArrayLike, mutation: Mutation | None) -> LazyChain:
    """Returns the law of the transcript of ``learner``, broken by ``mutation``, on ``losses`` (rounds, experts).

    Raises:
        InvalidArgumentError: The learner refuses the losses; only "unclipped losses" takes losses outside [0, 1].
    """
    if mutation is None:
        return learner.chain(losses)
    if mutation == "unclipped losses":
        stream = array("losses", losses, shape=(learner.rounds, learner.experts))
        correct = learner.chain(np.zeros((learner.rounds, learner.experts)))
        return evolve(correct, batch_losses=batch_sums(stream, learner.batch))
    if mutation == "decisions every round":
        c = learner.normaliser
        roundwise = evolve(learner, batch=1, normaliser=c if isinstance(c, str) else c / learner.batch).chain(losses)
        return _as(_RoundwiseChain, roundwise, period=learner.batch)
    correct = learner.chain(losses)
    if mutation == "inverted fake coin":
        return evolve(correct, fake_switch_probability=1.0 - learner.fake_switch_probability)
    if mutation == "one coin for both switches":
        return _as(_SharedCoinChain, correct)
    tight = 0.0 if learner.variant == "dartboard" else learner.batch * learner.learning_rate
    return evolve(correct, fake_switch_probability=0.0, log_normaliser=tight)


@frozen(kw_only=True, eq=False, slots=False)
class _OneCoinChain(LazyChain):
    """A chain that is simulated with one coin per boundary, which keeps the action with probability e^``log_keep``."""

    def simulate(self, rng: np.random.Generator, runs: int) -> Transcripts:
        """Returns ``runs`` independent transcripts, vectorised over runs."""
        runs = integer("runs", runs, low=1)
        n, d = self.batch_losses.shape
        weights, again = np.exp(self.log_weights), self.shadow_probability

        def drawn(s: int, size: int) -> npt.NDArray[np.intp]:
            sums = np.cumsum(weights[s])
            found: npt.NDArray[np.intp] = np.searchsorted(sums[:-1], rng.random(size) * sums[-1], side="right")
            return found

        label = np.min_scalar_type(d - 1)
        actions, shadows = np.empty((n, runs), dtype=label), np.empty((n, runs), dtype=label)
        switched, refreshed = np.zeros((n, runs), dtype=np.bool_), np.zeros((n, runs), dtype=np.bool_)
        x, y = drawn(0, runs), drawn(0, runs)
        actions[0], shadows[0] = x, y
        for s in range(1, n):
            keep = np.exp(self.log_keep(s, x, None if again is None else y))
            moved = np.flatnonzero(rng.random(runs) >= keep)
            x[moved] = drawn(s, moved.size)
            actions[s], switched[s, moved] = x, True
            if again is not None:
                redrawn = np.flatnonzero(rng.random(runs) < again)
                y[redrawn] = drawn(s, redrawn.size)
                shadows[s], refreshed[s, redrawn] = y, True
        if again is None:
            return Transcripts(actions.T, switched.T)
        return Transcripts(actions.T, switched.T, shadows.T, refreshed.T)


def _period(value: object) -> int:
    return integer("period", value, low=1)


@frozen(kw_only=True, eq=False, slots=False)
class _RoundwiseChain(_OneCoinChain):
    """A chain over single rounds, with a fake coin at every ``period``-th boundary only."""

    period: int = field(converter=_period)

    @cached_property
    def _bare(self) -> LazyChain:
        return _as(LazyChain, self, fake_switch_probability=0.0)

    def log_keep(self, s: int, x: npt.NDArray[np.integer], y: npt.NDArray[np.integer] | None) -> FloatArray:
        """Returns ln of the probability of keeping; inside a batch without the fake coin."""
        return self._bare.log_keep(s, x, y) if s % self.period else super().log_keep(s, x, y)


@frozen(kw_only=True, eq=False, slots=False)
class _SharedCoinChain(_OneCoinChain):
    """A chain that keeps with the smaller of the two probabilities, not with their product."""

    @cached_property
    def _bare(self) -> LazyChain:
        return _as(LazyChain, self, fake_switch_probability=0.0)

    def log_keep(self, s: int, x: npt.NDArray[np.integer], y: npt.NDArray[np.integer] | None) -> FloatArray:
        """Returns ln of the smaller probability of keeping."""
        kept: FloatArray = np.minimum(np.log1p(-self.fake_switch_probability), self._bare.log_keep(s, x, y))
        return kept


def _as(kind: type[_Chain], chain: LazyChain, **changes: Any) -> _Chain:
    """Returns ``chain`` as a chain of another kind, with ``changes``."""
    names = ("batch_losses", "learning_rate", "fake_switch_probability", "shadow_probability", "log_normaliser")
    return kind(**{name: getattr(chain, name) for name in names} | changes)
