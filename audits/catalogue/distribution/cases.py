"""Private messages about labels as cases of the catalogue, with mutants that make the same claim.

Neighbours: one person's label is replaced by another. The audit sees the message itself (its log-likelihood ratio, the
most powerful statistic), its effect on the server's weights, or on the next published prediction
(:mod:`hockeystick.audits.catalogue.distribution.views`). Labels and candidates are the worst ones: disjoint supports
with masses just above 1/M, so that blocks are rounded up from one symbol to two (where the published sensitivity is too
small), and two rare labels that move all K levels at once. The server may choose the candidate that a message is about,
and here it chooses the worst one.

The claim is that of one person's plan. Mistakes that cost utility, or that are in the accounting only, need other
checks and are not here.

Source: Sima, Wu, Milenkovic & Szpankowski 2024 (arXiv 2402.00315), Algorithms 1 and 2, corrected.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import Any

import numpy as np
from attrs import evolve, frozen

from hockeystick.accounting import InputMix
from hockeystick.audits.catalogue.distribution.mutants import (
    BitBeyondRange,
    IndexOfLikeliest,
    NoiseCut,
    NoiseUsedTwice,
    OneNoiseForAll,
    RangeOfLabel,
    Silent,
    ToldExchange,
)
from hockeystick.audits.catalogue.distribution.views import (
    Pair,
    Published,
    Ratio,
    Told,
    TwoRounds,
    WeightMove,
    about,
    barely_two_symbols,
    disputed_and_agreed,
    extremes,
    first_less_last,
    number,
    two_labels,
    two_rare_labels,
)
from hockeystick.audits.catalogue.parts.cases import Case, Subject
from hockeystick.audits.catalogue.parts.views import exact_epsilon
from hockeystick.audits.claims.claim import Claim
from hockeystick.learners.distribution.channels.all_channels import (
    Channel,
    OneBit,
    RandomizedLabels,
    SampledDiscreteLaplace,
    SampledLaplace,
    VectorGaussian,
    VectorLaplace,
)
from hockeystick.learners.distribution.channels.candidates import LabelTable
from hockeystick.learners.distribution.channels.levels import CeiledBlocks, Levels, UniformMixture
from hockeystick.learners.distribution.channels.printed import printed_sensitivity
from hockeystick.learners.distribution.online_distribution import OnlineDistribution

DELTA = 1e-6
"""The delta of claims of messages about all candidates."""


# --- cases -----------------------------------------------------------------------------------------------------------


def distribution_cases() -> Iterator[Case]:
    """Yields the cases of messages about labels."""
    yield from sampled_cases()
    yield from bit_cases()
    yield from vector_cases()


@lru_cache
def sampled(epsilon: float = 1.0) -> SampledLaplace:
    """Returns a channel whose published sensitivity is too small: two candidates, 100 labels and rounds, exchanges."""
    return SampledLaplace(CeiledBlocks().levels(barely_two_symbols(), 100), epsilon=epsilon, resample=True)


def with_range(channel: SampledLaplace, distance: float) -> SampledLaplace:
    """Returns the channel with noise for the range ``distance`` instead of that of its levels."""
    return evolve(channel, epsilon=channel.epsilon * channel.span / distance)


@lru_cache
def disputed() -> SampledLaplace:
    """Returns a channel of four labels, one of them impossible."""
    return SampledLaplace(CeiledBlocks().levels(disputed_and_agreed(), 100), epsilon=1.0)


@lru_cache
def short() -> SampledLaplace:
    """Returns a channel for two rounds, with exchanges of probability 1/2 and messages often outside [0, 1]."""
    return SampledLaplace(UniformMixture().levels(two_labels(), 2), epsilon=1.0, resample=True)


@lru_cache
def learning(channel: Callable[..., Channel] = SampledLaplace, epsilon: float = 1.0) -> OnlineDistribution:
    """Returns a learner of two candidates that are certain of one label each."""
    rule: Any = "printed" if channel is SampledLaplace else "tuned"
    return OnlineDistribution.build(two_labels(), rounds=100, channel=channel, epsilon=epsilon, rule=rule)


def sampled_cases() -> Iterator[Case]:
    """Yields the cases of messages that are a number about one candidate."""
    one = sampled()
    yield _case("sampled", one, partial(_ratio, one))
    for what, range_, samples in (
        ("ln(K T)", printed_sensitivity(one.levels), 128_000),
        ("ln T", math.log(100.0), 16_000),
        ("ln K", math.log(2.0), 1_000),
        ("scale taken for deviation", one.span / math.sqrt(2.0), 8_000),
    ):
        yield _case(f"sampled[{what}]", one, partial(_ratio, with_range(one, range_)), samples)
    yield _case("released", one, partial(_ratio, one, released=True))
    yield _case(
        "released[scale taken for deviation]", one, partial(_ratio, sampled(math.sqrt(2.0)), released=True), 8_000
    )
    for view in (WeightMove, Published):
        for owner, channel in (("sampled", SampledLaplace), ("one-bit", OneBit)):
            name = f"{owner}:{'weight' if view is WeightMove else 'prediction'}"
            yield _case(name, learning(channel).channels[0], partial(_learned, learning(channel), view))
            twice = learning(channel, 2.0)
            yield _case(f"{name}[half the noise]", learning(channel).channels[0], partial(_learned, twice, view), 4_000)

    yield _case("index", one, partial(_shown, Told(channel=one, read=about), truth=0.0))
    yield _case("index[of the likeliest]", one, partial(_shown, IndexOfLikeliest(one), truth=math.inf), 1_000)
    there = extremes(one.levels)[1]
    yield _case("two-rounds", one, partial(_shown, TwoRounds(one, there)), known=False)
    yield _case("two-rounds[noise used twice]", one, partial(_shown, NoiseUsedTwice(one, there), truth=math.inf), 1_000)

    few = disputed()
    yield _case("disputed", few, partial(_shown, Told(channel=few, read=number, index=0), pair=(0, 1), truth=1.0))
    yield _case(
        "disputed[range of the label]", few, partial(_shown, RangeOfLabel(few), pair=(0, 2)), 1_000, known=False
    )
    bits = Told(channel=few, read=number, index=0, released=True)
    floats = evolve(bits, released=False)
    yield _case("low-bits", few, partial(_shown, bits, pair=(0, 1), truth=1.0), bits=True)
    yield _case("low-bits[floats]", few, partial(_shown, floats, pair=(0, 1), truth=math.inf), 4_000, bits=True)
    dull = Silent(few, "dull")
    yield _case("disputed[silent if dull]", few, partial(_shown, dull, pair=(0, 1), truth=math.inf), 1_000)
    yield _case("impossible", few, partial(_shown, Told(channel=few, read=number, index=0), pair=(3, 1)), known=False)
    mute = Silent(few, "impossible")
    yield _case("impossible[silent]", few, partial(_shown, mute, pair=(3, 1), truth=math.inf), 1_000)

    brief = short()
    yield _case("exchanged", brief, partial(_ratio, brief))
    yield _case("exchanged[and told so]", brief, partial(_shown, ToldExchange(brief), truth=1.0), 16_000)
    plain = evolve(brief, resample=False)
    cut = NoiseCut(plain, plain.scale)
    yield _case("brief", plain, partial(_ratio, plain))
    yield _case("brief[noise cut]", plain, partial(_shown, cut, truth=math.inf), 1_000)

    each = evolve(plain, epsilon=0.5)
    yield _case("four-answers", each, partial(_ratio, each, answers=4), answers=4)
    yield _case("four-answers[charged once]", each, partial(_ratio, each, answers=4), 4_000)

    grid = SampledDiscreteLaplace(one.levels, epsilon=1.0)
    yield _case("discrete", grid, partial(_ratio, grid))
    yield _case("discrete[half the steps]", grid, partial(_ratio, evolve(grid, epsilon=2.0)), 4_000)


def bit_cases() -> Iterator[Case]:
    """Yields the cases of messages that are a bit about one candidate, or the label under randomised response."""
    levels = sampled().levels
    bit = OneBit(levels, epsilon=1.0)
    beyond = BitBeyondRange(levels, printed_sensitivity(levels), 1.0)
    high, low = (beyond.chances(label)[0] for label in extremes(levels))
    truth = float(max(abs(math.log(high / low)), abs(math.log((1.0 - high) / (1.0 - low)))))
    yield _case("one-bit", bit, partial(_ratio, bit, released=True))
    yield _case("one-bit[range ln(K T)]", bit, partial(_shown, beyond, truth=truth), 64_000)

    four = UniformMixture().levels(LabelTable(np.eye(4)), 100)
    randomised = RandomizedLabels(four, epsilon=1.0)
    lie = 3.0 / (math.e + 3.0)  # the probability of another label; drawn among all four labels, 3/4 of it remain
    redrawn = RandomizedLabels(four, epsilon=math.log(3.0 * (1.0 - 0.75 * lie) / (0.75 * lie)))
    yield _case("randomized", randomised, partial(_ratio, randomised, released=True))
    yield _case("randomized[a lie may be true]", randomised, partial(_ratio, redrawn, released=True), 8_000)


@lru_cache
def rare_levels(experts: int = 16) -> Levels:
    """Returns the levels of two rare labels in 1000 rounds: replacing one by the other moves all of them far."""
    return CeiledBlocks().levels(two_rare_labels(experts), 1000)


@lru_cache
def calibrated() -> VectorLaplace:
    """Returns a channel of sixteen numbers, calibrated to (1, 1e-6)."""
    return VectorLaplace.calibrated(rare_levels(), epsilon=1.0, delta=DELTA)


@lru_cache
def published() -> VectorLaplace:
    """Returns a channel of sixteen numbers with the published noise for (1, 1e-6), without exchanges of labels."""
    return VectorLaplace.printed(rare_levels(), epsilon=1.0, delta=DELTA, resample=False)


def vector_cases() -> Iterator[Case]:
    """Yields the cases of messages about all candidates, which claim their whole curves."""
    wide = published()
    normal = VectorGaussian.calibrated(rare_levels(), epsilon=1.0, delta=DELTA)
    yield _case("vector", calibrated, lambda: _ratio(calibrated()))
    yield _case("vector[half the noise]", calibrated, lambda: _ratio(_halved(calibrated())), 16_000)
    yield _case("vector:difference", calibrated, _shown_difference, known=False)
    yield _case("vector:difference[one noise]", calibrated, _shown_shared_noise, 1_000)
    yield _case("vector-published", wide, partial(_ratio, wide))
    rootless = evolve(wide, scale=wide.scale / 4.0)
    yield _case("vector-published[root of K missing]", wide, partial(_ratio, rootless), 12_000)
    exchanged = evolve(wide, resample=True)
    yield _case("vector-exchanged", exchanged, partial(_ratio, exchanged), known=False)
    yield _case(
        "vector-exchanged[root of K missing]",
        exchanged,
        partial(_ratio, evolve(rootless, resample=True)),
        12_000,
        known=False,
    )
    yield _case("normal", normal, partial(_ratio, normal))
    yield _case("normal[one range]", normal, partial(_ratio, evolve(normal, sigma=normal.sigma / 4.0)), 2_000)

    one = SampledLaplace(rare_levels(), epsilon=1.0)
    every = VectorLaplace(rare_levels(), scale=one.scale)
    yield _case("one-of-sixteen", one, partial(_ratio, one))
    yield _case("one-of-sixteen[all told]", one, partial(_ratio, every), 1_000)


@frozen(eq=False)
class _Seen:
    target: Any
    pair: Pair
    truth: float | None


def _ratio(channel: Channel, *, answers: int = 1, released: bool = False) -> _Seen:
    """Returns the view of the whole message, about candidate 0 if about one, at the worst labels."""
    asked = channel.payload not in ("reals", "label")
    pair = extremes(channel.levels) if asked else (0, 1)
    read, index = Ratio(channel, pair), 0 if asked else None
    target = Told(channel=channel, read=read, index=index, answers=answers, released=released)
    if channel.payload != "reals":
        return _Seen(target, pair, answers * channel.exact_epsilon())
    exchanged = isinstance(channel.event(), InputMix)  # only a bound on its curve is known
    return _Seen(target, pair, None if exchanged else exact_epsilon(channel.event(), DELTA))


def _halved(channel: VectorLaplace) -> VectorLaplace:
    return evolve(channel, scale=channel.scale / 2.0)


def _shown_difference() -> _Seen:
    return _shown(Told(channel=calibrated(), read=first_less_last), pair=(0, 1))


def _shown_shared_noise() -> _Seen:
    return _shown(OneNoiseForAll(calibrated()), pair=(0, 1), truth=math.inf)


def _learned(learner: OnlineDistribution, view: type[WeightMove] | type[Published]) -> _Seen:
    channel = learner.channels[0]
    return _Seen(Told(channel=channel, read=view(learner)), (0, 1), channel.exact_epsilon())


def _shown(target: Any, *, pair: Pair | None = None, truth: float | None = None) -> _Seen:
    if pair is None:
        pair = extremes(target.levels if isinstance(target, BitBeyondRange) else target.channel.levels)
    return _Seen(target, pair, truth)


def _case(
    name: str,
    claimed: Channel | Callable[[], Channel],
    seen: Callable[[], _Seen],
    samples: int | None = None,
    *,
    answers: int = 1,
    bits: bool = False,
    known: bool = True,
) -> Case:
    return Case.of(
        f"learner/labels-{name}",
        partial(_subject, claimed, seen, answers),
        samples,
        source="Sima, Wu, Milenkovic & Szpankowski 2024, corrected",
        oracle="the exact law of the output" if known else "",
        options={"bits": True} if bits else {},
    )


def _subject(claimed: Channel | Callable[[], Channel], seen: Callable[[], _Seen], answers: int) -> Subject:
    channel = claimed if isinstance(claimed, Channel) else claimed()
    found = seen()
    plan = channel.graph(users=1, answers=answers).guarantee()
    claim = Claim.curve(plan, DELTA) if channel.payload == "reals" else Claim(plan.epsilon(0.0).upper)
    return Subject(target=found.target, neighbours=found.pair, claim=claim, truth=found.truth)
