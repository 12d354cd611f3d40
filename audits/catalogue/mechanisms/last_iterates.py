"""Last iterates of noisy descents as cases of the catalogue, each with its exact law, and with conditions that fail.

A correct case is a quadratic whose last iterate is Gaussian and attains the bound: its curvature is the same in every
step, or its record is in one batch of a cycle. Each mutant claims the same event where one condition of it fails: the
loss has a kink, a step expands, batches are empty, the average is published, or a batch is charged as an earlier one.

Source: Bok, Su & Altschuler 2024; the conditions are those of ``hockeystick.accounting.events.last_iterate``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from attrs import frozen

from hockeystick.accounting import Gaussian, GaussianDP, PoissonSampled, PrivacyEvent, epsilon, last_iterate
from hockeystick.accounting.arrays import FloatArray
from hockeystick.audits.catalogue.parts.cases import Case, Subject
from hockeystick.audits.claims.claim import Claim

STATED_AT = 1e-6
"""The delta of the claims."""

_T = 100


@frozen
class LinearDescent:
    """A weighted sum of t steps, X = Σ w_k·(value·s_k + Z_k): the last iterate of a quadratic, or an average of all.

    Attributes:
      weights: w_k, of step k in the result, shape (t,).
      moves: s_k, how far a record moves it, shape (t,).
    """

    weights: FloatArray
    moves: FloatArray

    @property
    def mu(self) -> float:
        """The exact Gaussian parameter."""
        return float(self.weights @ self.moves) / math.sqrt(float(self.weights @ self.weights))

    def __call__(self, value: float, rng: np.random.Generator, runs: int) -> FloatArray:
        scale = math.sqrt(float(self.weights @ self.weights))
        return scale * (self.mu * value + rng.standard_normal(runs))


@frozen
class KinkedDescent:
    """Step 1 moves by ``move``, step 2 has a loss with a kink between both centres, and the others are flat.

    The kink's gradient, of size ``jump``, tells on which side of it the first iterate was: all losses are convex, and
    one is not smooth.
    """

    steps: int
    move: float
    jump: float

    def __call__(self, value: float, rng: np.random.Generator, runs: int) -> FloatArray:
        first = value * self.move + rng.standard_normal(runs)
        pushed = first - self.jump * np.sign(first - self.move / 2)
        return np.asarray(pushed + math.sqrt(self.steps - 1) * rng.standard_normal(runs))


@frozen
class SampledDescent:
    """The last iterate of a quadratic on Poisson samples: step k moves by w_k·``move`` if it draws the record.

    With equal weights it is a data set that has one record or none: all other batches are empty, and nothing contracts.

    Attributes:
      weights: w_k, shape (t,).
      rate: the probability that a step draws the record.
      move: how far the record moves a step.
    """

    weights: FloatArray
    rate: float
    move: float

    def __call__(self, value: float, rng: np.random.Generator, runs: int) -> FloatArray:
        drawn = (rng.random((runs, len(self.weights))) < self.rate) @ self.weights
        scale = math.sqrt(float(self.weights @ self.weights))
        return np.asarray(value * self.move * drawn + scale * rng.standard_normal(runs))


def last_iterate_cases() -> Iterator[Case]:
    """Yields the cases of last iterates."""
    falling = _powers(0.95)
    full = last_iterate(Gaussian(2.0), _T, contraction=0.95)
    yield _case("last-iterate", full, LinearDescent(falling, np.full(_T, 0.5)))
    yield _case("last-iterate[noise of 0.97]", full, LinearDescent(falling, np.full(_T, 0.5 / 0.97)), 128_000)
    turns, first = np.zeros(_T), np.zeros(_T)
    turns[9::10], first[::10] = 1.0, 1.0
    earliest = last_iterate(Gaussian(1.0), _T, contraction=0.95, batches=10, unread=9)
    yield _case("last-iterate-first-batch", earliest, LinearDescent(falling, first))
    yield _case("last-iterate-first-batch[read last]", earliest, LinearDescent(falling, turns), 2_000)
    once = last_iterate(Gaussian(0.5), _T, contraction=1.0, batches=_T, unread=_T - 1)
    single = np.zeros(_T)
    single[0] = 2.0
    yield _case("last-iterate-read-once", once, LinearDescent(np.ones(_T), single))
    yield _case("last-iterate-read-once[expanding steps]", once, LinearDescent(_powers(1.2), single), 250)
    average = np.arange(_T, 0, -1) / _T
    yield _case("last-iterate-read-once[average published]", once, LinearDescent(average, single), 12_000)
    yield _case("last-iterate-read-once[loss with a kink]", once, KinkedDescent(_T, 2.0, 8 * math.sqrt(_T)), 250)
    step = PoissonSampled(0.1, Gaussian(2.0))
    short, long = (last_iterate(step, t, contraction=0.9) for t in (_T, 2000))
    yield _case("last-iterate-sampled", short, SampledDescent(_powers(0.9), 0.1, 0.5))
    yield _case("last-iterate-sampled[empty batches]", long, SampledDescent(np.ones(2000), 0.1, 0.5), 250)


def _powers(factor: float) -> FloatArray:
    """Returns what is left of each step's move after those that follow."""
    return np.asarray(factor ** np.arange(_T, dtype=float)[::-1], dtype=np.float64)


def _case(name: str, claimed: PrivacyEvent, target: Any, refuted_by: int | None = None) -> Case:
    known = isinstance(target, LinearDescent)
    oracle = "the Gaussian law of the sum" if known else ""
    build = partial(_subject, claimed, target, known)
    return Case.of(f"mechanism/{name}", build, refuted_by, correct=40_000, oracle=oracle)


def _subject(claimed: PrivacyEvent, target: Any, known: bool) -> Subject:
    claim = Claim.curve(claimed, STATED_AT)
    truth = epsilon(GaussianDP(target.mu), claim.delta).upper if known else None
    return Subject(target=target, neighbours=(0.0, 1.0), claim=claim, truth=truth)
