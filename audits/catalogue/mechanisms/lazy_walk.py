"""Lazy walks as cases of the catalogue, run step by step by ``LazyWalk``, with mutants.

A walk over two experts by multiplicative weights, two boundaries long, publishes its actions and when they were drawn.
One record changes the first batch's loss of an expert. The output has at most 32 values, whose exact law is computed.

Source: Asi, Koren, Liu & Talwar 2024, Algorithm 1; Geulen, Vöcking & Winkler 2010 (without a shadow).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

import numpy as np
import numpy.typing as npt
from attrs import evolve, frozen

from hockeystick.accounting import PrivacyEvent
from hockeystick.accounting.arrays import FloatArray
from hockeystick.audits.catalogue.parts.cases import Case, Subject
from hockeystick.audits.claims.claim import Claim
from hockeystick.mechanisms import ExponentialMechanism, LazySampler, LazySwitch, LazyWalk, SimulationNoise

STATED_AT = 1e-6
"""The delta of the claims."""

_RATE = 0.5
_GREEDY = 64.0  # factor on the losses, so that almost all draws are of the best expert


@frozen
class Walk:
    """A dartboard walk over two experts.

    Attributes:
      fake_switch: The probability of a fake switch.
      budget: The largest number of draws; None for no limit.
      follows: Whether draws follow multiplicative weights; otherwise almost all are of the best expert so far.
    """

    fake_switch: float = 0.3
    budget: int | None = None
    follows: bool = True

    @property
    def plan(self) -> LazySampler:
        """The mechanism of the walk, for losses in [0, 1] of which one record moves one."""
        switch = LazySwitch.dartboard(self.fake_switch, sensitivity=_RATE, lowest=-_RATE)
        return LazySampler(switch, self.draw.event(), boundaries=2, budget=self.budget)

    @property
    def draw(self) -> ExponentialMechanism:
        """The mechanism that draws from the weights of the losses so far."""
        return ExponentialMechanism(1.0 / _RATE)

    def event(self) -> PrivacyEvent:
        """Returns the event of the walk, for one record."""
        return self.plan.event()

    def simulate(self, losses: FloatArray, rng: np.random.Generator, runs: int) -> npt.NDArray[np.int64]:
        """Returns the outputs of ``runs`` walks: (action, switched, action, switched, action) as one number.

        Args:
          losses: Losses of shape (batches, experts), here (2, 2).
        """
        noise, plan, found = SimulationNoise(rng), self.plan, np.empty(runs, dtype=np.int64)
        sums = np.cumsum(losses, axis=0)
        for run in range(runs):
            walk = LazyWalk(plan, lambda source: int(source.coins(0.5, 1)[0]), noise)
            code = walk.action
            for batch in range(2):
                read = losses[batch]
                scores = -sums[batch] * (1.0 if self.follows else _GREEDY)
                walk.step(
                    lambda action, read=read: float(-_RATE * read[action]),  # type: ignore[misc]
                    lambda source, scores=scores: int(self.draw.release(scores, noise=source)),  # type: ignore[misc]
                )
                code = 4 * code + 2 * int(walk.switched) + walk.action
            found[run] = code
        return found

    def law(self, losses: FloatArray) -> FloatArray:
        """Returns the probability of each output, shape (32,)."""
        found = np.zeros(32)
        sums = np.cumsum(losses, axis=0)
        states = [(action, action, 0.5, self.budget) for action in (0, 1)]  # code, action, probability, draws left
        for batch in range(2):
            read = losses[batch]
            weights = np.exp(-_RATE * (sums[batch] - sums[batch].min()) * (1.0 if self.follows else _GREEDY))
            fresh, after = weights / weights.sum(), []
            for code, action, chance, left in states:
                keep = 1.0 if left == 0 else (1.0 - self.fake_switch) * math.exp(-_RATE * read[action])
                after.append((4 * code + action, action, chance * keep, left))
                for drawn in (0, 1):
                    less = None if left is None else left - 1
                    after.append((4 * code + 2 + drawn, drawn, chance * (1.0 - keep) * fresh[drawn], less))
            states = after
        for code, _, chance, _ in states:
            found[code] += chance
        return found

    def epsilon(self, pair: tuple[FloatArray, FloatArray], delta: float) -> float:
        """Returns the exact epsilon at ``delta`` of the outputs on two data sets."""
        p, q = self.law(pair[0]), self.law(pair[1])
        return max(_epsilon(p, q, delta), _epsilon(q, p, delta))


def _epsilon(p: FloatArray, q: FloatArray, delta: float) -> float:
    """Returns the least epsilon >= 0 at which the hockey-stick divergence, linear between losses, is at most delta."""
    if p[q == 0.0].sum() > delta:
        return math.inf
    inside = (p > 0.0) & (q > 0.0)
    p, q, base = p[inside], q[inside], float(p[q == 0.0].sum())
    order = np.argsort(q / p)  # largest loss first
    p, q = p[order], q[order]
    above, below = base + np.cumsum(p), np.cumsum(q)
    # Between the k-th and the next loss, delta(epsilon) = above_k - e^epsilon below_k.
    wanted = np.log(np.maximum(above - delta, 1e-300) / below)
    return max(0.0, float(wanted.max()))


def walk_pair() -> tuple[FloatArray, FloatArray]:
    """Returns two data sets that differ in the first batch's loss of an expert."""
    return np.array([[0.0, 1.0], [0.5, 0.5]]), np.array([[1.0, 1.0], [0.5, 0.5]])


def walk_cases() -> Iterator[Case]:
    """Yields the cases of lazy walks."""
    walk = Walk()
    yield _case("lazy-sampler", walk, walk)
    yield _case("lazy-sampler[no fake switches]", walk, evolve(walk, fake_switch=0.0), 2_000)
    yield _case("lazy-sampler[the best expert drawn]", walk, evolve(walk, follows=False), 1_000)
    brief = Walk(budget=1)
    yield _case("lazy-sampler-budget", brief, brief)


def _case(name: str, claimed: Walk, sampled: Walk, samples: int | None = None) -> Case:
    more = {"source": "Asi, Koren, Liu & Talwar 2024", "oracle": "the exact law of the output"}
    return Case.of(f"mechanism/{name}", partial(_subject, claimed, sampled), samples, correct=1_000, **more)


def _subject(claimed: Walk, sampled: Walk) -> Subject:
    claim = Claim.curve(claimed.event(), STATED_AT)
    pair = walk_pair()
    return Subject(target=sampled, neighbours=pair, claim=claim, truth=sampled.epsilon(pair, claim.delta))
