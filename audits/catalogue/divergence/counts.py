"""Noisy counts behind an estimate of KL(Pi || P) as cases of the catalogue, with mutants that make the same claim.

The statistic is the likelihood ratio of all published counts, the difference of two symbols' counts ("gap"), the
clamped estimate of an almost empty cell ("estimate"), or the first count alone ("first"). In "client" the adversary
knows one client's noise, and in "eight-of-ten" two of ten clients drop out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from attrs import evolve

from hockeystick.accounting import InvalidArgumentError, PrivacyEvent
from hockeystick.audits.catalogue.divergence.mutants import (
    FoldedNoise,
    FreshNoiseForRepeats,
    OneNoiseForAll,
    WeightedNoise,
)
from hockeystick.audits.catalogue.divergence.views import (
    DELTA,
    FOUR,
    Estimated,
    Shown,
    WithNoiseOf,
    all_records_of_one,
    first,
    first_symbol,
    gap,
    kl_case,
    kl_subject,
    one_report,
)
from hockeystick.audits.catalogue.parts.cases import Case, Subject
from hockeystick.audits.catalogue.parts.instances import two_symbols
from hockeystick.audits.catalogue.parts.views import LossOf, exact_epsilon
from hockeystick.audits.claims.claim import Claim
from hockeystick.learners.divergence.distributed import DistributedKL, Law
from hockeystick.learners.divergence.local_baselines import RandomizedKL
from hockeystick.mechanisms import DiscreteGaussianShares, SkellamShares

_REPEATS = 5
_GROUP = 11
_MANY = 200
_TINY = 0.373  # of 200 shares: continuous Gaussian shares of this deviation would add up to noise for (1, 1e-5)


def counts_cases() -> Iterator[Case]:
    """Yields the cases of noisy counts: first by statistic, then by the clients whose noise they contain."""
    yield kl_case("kl-counts", lambda: _subject(counted()))
    yield kl_case("kl-counts[distance 1]", lambda: _subject(counted(), with_variance(counted(), 0.5)), 32_000)
    yield kl_case("kl-counts[half as many records]", lambda: _subject(counted(), with_variance(counted(), 0.25)), 8_000)
    yield kl_case("kl-counts[a hundredth]", lambda: _subject(counted(), with_variance(counted(), 1e-4)), 1_000)
    yield kl_case("kl-counts:gap", lambda: _gap(counted(), truth=exact_epsilon(_of_gap(counted(), 1), DELTA)))
    for what, broken, samples in (
        ("fresh noise for repeats", _repeated, 4_000),
        ("one noise for all", lambda: _gap(OneNoiseForAll(counted()), truth=math.inf), 1_000),
        ("noise of the weights", lambda: _gap(WeightedNoise(counted()), truth=_of_weighted(counted())), 8_000),
    ):
        yield kl_case(f"kl-counts:gap[{what}]", broken, samples)
    yield kl_case("kl-counts:first", _first)
    yield kl_case("kl-counts:first[folded noise]", _folded, 4_000)
    yield kl_case("kl-counts:estimate", _estimated, known=False)

    yield kl_case("kl-counts:client", lambda: _known_but(3, of=4, survivors=3))
    yield kl_case("kl-counts:client[own share counted]", lambda: _known_but(3, of=4, survivors=4), 256_000)
    yield kl_case("kl-counts:eight-of-ten", lambda: _known_but(8, of=10, survivors=8))
    yield kl_case("kl-counts:eight-of-ten[sized for all]", lambda: _known_but(8, of=10, survivors=10), 256_000)
    yield kl_case("kl-counts-in-rounds", lambda: _subject(in_rounds()))
    yield kl_case("kl-counts-in-rounds[each round alone]", _each_round_alone, 8_000)
    yield kl_case("kl-counts-of-many", lambda: _subject(spread_over(_MANY, survivors=_MANY)))
    yield kl_case("kl-counts-of-many[shares of the deviation]", _shares_of_the_deviation, 1_000)

    yield kl_case("kl-discrete-gaussian-shares", lambda: _subject(counted("discrete gaussian", clients=_MANY)))
    yield kl_case("kl-discrete-gaussian-shares[tiny]", _tiny_shares, 16_000)
    yield kl_case("kl-polya-shares", lambda: _subject(counted("polya")))
    yield kl_case("kl-eleven-records", lambda: _eleven(noise_for=_GROUP))
    yield kl_case("kl-eleven-records[noise for one]", lambda: _eleven(noise_for=1), 1_000)
    yield kl_case("kl-randomised", _randomised)


@lru_cache
def counted(law: Law = "skellam", *, clients: int = 4) -> DistributedKL:
    """Returns noisy counts of two symbols, (1, 1e-5)-DP if all clients add their noise."""
    delta = 0.0 if law == "polya" else DELTA
    return DistributedKL.calibrated(two_symbols(clients=clients), epsilon=1.0, delta=delta, law=law)


def spread_over(clients: int, *, survivors: int) -> DistributedKL:
    """Returns the same Skellam noise in shares for ``survivors`` of ``clients`` clients."""
    shares = SkellamShares(counted().shares.variance() / survivors, survivors=survivors)
    return DistributedKL(average=two_symbols(clients=clients), shares=shares)


@lru_cache
def in_rounds() -> DistributedKL:
    """Returns counts for which each client is queried about each symbol three times, with three times the variance."""
    return evolve(with_variance(counted(), 3.0), average=two_symbols(rounds=3))


def with_variance(plan: DistributedKL, share: float) -> DistributedKL:
    """Returns the plan with a share of the variance of its Skellam noise, and the event of it."""
    return evolve(plan, shares=evolve(_skellam(plan), share_variance=share * _skellam(plan).share_variance))


def _skellam(plan: DistributedKL) -> SkellamShares:
    if not isinstance(plan.shares, SkellamShares):
        raise InvalidArgumentError("plan", plan.shares, "is not of Skellam noise", 'use law="skellam"')
    return plan.shares


def _subject(claimed: DistributedKL, sampled: DistributedKL | None = None) -> Subject:
    runs, pair = sampled or claimed, claimed.worst_case_neighbours()
    return kl_subject(claimed, runs, pair=pair, shown=LossOf(runs, pair))


def _gap(sampled: Any, *, truth: float) -> Subject:
    return kl_subject(counted(), sampled, shown=Shown(sampled, gap), truth=truth)


def _of_gap(plan: DistributedKL, repeats: int) -> PrivacyEvent:
    """Returns the event of the gap between two counts, each published ``repeats`` times: 2c answers that move by 1."""
    own, answers = _skellam(plan), 2 * repeats
    return evolve(own, share_variance=answers * own.share_variance, rise=answers).event()


def _repeated() -> Subject:
    broken = FreshNoiseForRepeats(counted(), _REPEATS)
    return _gap(broken, truth=exact_epsilon(_of_gap(counted(), _REPEATS), DELTA))


def _of_weighted(plan: DistributedKL) -> float:
    """Returns the exact epsilon of the gap under halved noise, relative to which it moves by 4."""
    own = _skellam(plan)
    return exact_epsilon(evolve(own, share_variance=2 * own.share_variance, rise=4).event(), DELTA)


def _first() -> Subject:
    truth = exact_epsilon(evolve(counted().shares, rise=1).event(), DELTA)
    return kl_subject(counted(), shown=Shown(counted(), first), truth=truth)


def _folded() -> Subject:
    broken = FoldedNoise(counted())
    return kl_subject(counted(), broken, shown=Shown(broken, first), truth=math.inf)


def _estimated() -> Subject:
    found = kl_subject(counted(), shown=Shown(counted(), Estimated(counted().average)))
    return evolve(found, truth=None)


def _known_but(clients: int, *, of: int, survivors: int) -> Subject:
    plan = spread_over(of, survivors=survivors)
    seen, pair = WithNoiseOf(plan, clients), plan.worst_case_neighbours()
    return kl_subject(plan, seen, pair=pair, shown=LossOf(seen, pair))


def _each_round_alone() -> Subject:
    return _subject(in_rounds(), evolve(in_rounds(), shares=counted().shares))


def _shares_of_the_deviation() -> Subject:
    right = spread_over(_MANY, survivors=_MANY)
    return _subject(right, with_variance(right, 1.0 / _MANY))


def _tiny_shares() -> Subject:
    right = counted("discrete gaussian", clients=_MANY)
    return _subject(right, evolve(right, shares=DiscreteGaussianShares(_TINY, survivors=_MANY)))


def _eleven(*, noise_for: int) -> Subject:
    average = two_symbols(records=_GROUP)
    one = evolve(counted(), average=average, group=_GROUP)
    right, runs = with_variance(one, float(_GROUP**2)), with_variance(one, float(noise_for**2))
    pair = all_records_of_one(average)
    return kl_subject(right, runs, pair=pair, shown=LossOf(runs, pair))


def _randomised() -> Subject:
    one = RandomizedKL(reference=FOUR, clients=1, epsilon=1.0)
    return kl_subject(one, pair=one_report(), shown=Shown(one, first_symbol), delta=0.0, claim=Claim(1.0))
