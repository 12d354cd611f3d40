"""Baselines of the learners, and counts under a single noise, as cases of the catalogue with their mutants.

Source: Dwork, Naor, Pitassi & Rothblum 2010 and Chan, Shi & Song 2011 (Hedge on noisy sums); Dwork, McSherry, Nissim &
Smith 2006 (noise on every query); Scott, Biswas, Cormode & Maple 2024, corrected (counts).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from attrs import evolve, frozen

from hockeystick.accounting.arrays import FloatArray
from hockeystick.audits.catalogue.parts.cases import Case, Subject
from hockeystick.audits.catalogue.parts.instances import canary, two_symbols
from hockeystick.audits.claims.claim import Claim
from hockeystick.learners.divergence.local_baselines import LocalKL, TrustedHistogram
from hockeystick.learners.federated.anytime_noisy_hedge import AnytimeNoisyHedge
from hockeystick.learners.federated.noisy_hedge import NoisyHedge
from hockeystick.learners.smoothed.queries.laplace_per_query import LaplacePerQuery

STATED_AT = 1e-6
"""The delta of the claims."""

Pair = tuple[Any, Any]


# --- targets ---------------------------------------------------------------------------------------------------------


@frozen(eq=False)
class HedgeWeights:
    """The log-odds of the first expert in every law played after the first round, which determine the noisy sums.

    Attributes:
      learner: A learner of two experts.
    """

    learner: NoisyHedge | AnytimeNoisyHedge

    def __call__(self, losses: FloatArray, rng: np.random.Generator, runs: int) -> FloatArray:
        """Returns log-odds, shape (runs, rounds - 1), of a known horizon in units of a client's loss.

        Args:
          losses: Losses of shape (clients, rounds, experts).
        """
        laws = self.learner.simulate(losses.mean(axis=0), rng, runs)[:, 1:]
        odds = np.log(laws[..., 0]) - np.log(laws[..., 1])
        return np.asarray(odds * self.learner.clients / getattr(self.learner, "rate", 1.0))


@frozen(eq=False)
class AllMessages:
    """The first client's messages of a ``LocalKL``, as its server sees them."""

    learner: LocalKL

    def __call__(self, data: Any, rng: np.random.Generator, runs: int) -> FloatArray:
        return self.learner.messages(data, 0, rng, runs)


# --- the cases -------------------------------------------------------------------------------------------------------


def baseline_cases() -> Iterator[Case]:
    """Yields the cases of the baselines."""
    yield from _hedge()
    yield from _queries()
    yield from _counts()


def _hedge() -> Iterator[Case]:
    learner = NoisyHedge(clients=3, rounds=2, experts=2, scale=2.0)
    yield _case("noisy-hedge", partial(_hedged, learner, learner))
    longer = NoisyHedge(clients=3, rounds=4, experts=2, scale=2.0)
    yield _case("noisy-hedge-four-rounds", partial(_hedged, longer, longer))
    one_expert = evolve(learner, scale=1.0)
    yield _case("noisy-hedge[one expert's sensitivity]", partial(_hedged, learner, one_expert), 8_000)
    of_mean = evolve(learner, scale=learner.scale / learner.clients)
    yield _case("noisy-hedge[noise of the mean on the sums]", partial(_hedged, learner, of_mean), 2_000)
    yield _case("noisy-hedge[losses not clipped]", partial(_hedged, learner, learner, times=4.0), 2_000)
    normal = NoisyHedge(clients=3, rounds=4, experts=2, scale=1.5, law="gaussian")
    yield _case("noisy-hedge-normal", partial(_hedged, normal, evolve(normal, steady=True)))
    mean = evolve(normal, scale=normal.scale / normal.clients)
    yield _case("noisy-hedge-normal[noise of the mean on the sums]", partial(_hedged, normal, mean), 2_000)
    anytime = AnytimeNoisyHedge(clients=3, experts=2, scale=1.5, rounds=8)
    yield _case("anytime-noisy-hedge", partial(_hedged, anytime, anytime))
    mean_of_any = evolve(anytime, scale=anytime.scale / anytime.clients)
    yield _case("anytime-noisy-hedge[noise of the mean on the sums]", partial(_hedged, anytime, mean_of_any), 2_000)
    level = evolve(longer, scale=longer.scale / 2)  # three steps have two levels
    yield _case("noisy-hedge-four-rounds[levels not charged]", partial(_hedged, longer, level), 16_000)


def _hedged(
    claimed: NoisyHedge | AnytimeNoisyHedge, sampled: NoisyHedge | AnytimeNoisyHedge, times: float = 1.0
) -> Subject:
    claim = Claim.curve(claimed.guarantee(), STATED_AT)
    pair = claimed.worst_case_neighbours()
    target: Any = HedgeWeights(sampled) if times == 1.0 else _Unclipped(sampled, times)
    return Subject(target=target, neighbours=pair, claim=claim)


@frozen(eq=False)
class _Unclipped:
    """Hedge on losses that exceed their range and are not clipped: the noise is smaller relative to them."""

    learner: NoisyHedge | AnytimeNoisyHedge
    times: float

    def __call__(self, losses: FloatArray, rng: np.random.Generator, runs: int) -> FloatArray:
        finer = evolve(self.learner, scale=self.learner.scale / self.times)
        return HedgeWeights(finer)(losses, rng, runs) * self.times


def _queries() -> Iterator[Case]:
    """Yields noise on every query of a cover, for the sensitivity of all queries together."""
    yield _case("laplace-per-query", partial(_queried, 1.0))
    yield _case("laplace-per-query[queries not charged]", partial(_queried, 0.25), 8_000)


def _queried(share: float) -> Subject:
    learner, pair = canary()
    baseline = LaplacePerQuery.calibrated(learner.cells, records=learner.records, epsilon=1.0)
    sampled = evolve(baseline, scale=baseline.scale * share)
    return Subject(target=sampled, neighbours=pair, claim=Claim.curve(baseline.event(), STATED_AT))


def _counts() -> Iterator[Case]:
    """Yields counts with a single noise: per client, or of all clients at a trusted server."""
    for name, build in (("kl-local-counts", _local), ("kl-trusted-counts", _trusted)):
        yield _case(name, partial(build, 1.0))
        yield _case(f"{name}[twice the epsilon]", partial(build, 2.0), 16_000)


def _local(epsilon: float) -> Subject:
    claimed, sampled = (_whole(LocalKL, e) for e in (1.0, epsilon))
    target = AllMessages(sampled)
    return Subject(target=target, neighbours=claimed.worst_case_neighbours(), claim=_claim(claimed))


def _trusted(epsilon: float) -> Subject:
    claimed, sampled = (_whole(TrustedHistogram, e) for e in (1.0, epsilon))
    return Subject(target=sampled, neighbours=claimed.worst_case_neighbours(), claim=_claim(claimed))


def _whole(kind: Any, epsilon: float) -> Any:
    return kind.calibrated(two_symbols(), epsilon=epsilon, delta=0.0, law="polya")


def _claim(claimed: Any) -> Claim:
    return Claim.curve(claimed.event(), STATED_AT)


def _case(name: str, build: Callable[[], Subject], samples: int | None = None) -> Case:
    return Case.of(f"learner/{name}", build, samples, correct=20_000)
