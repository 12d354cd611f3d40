"""Private query release and private nets as cases of the catalogue, with mutants that make the same claim.

The view of multiplicative weights is the log-likelihood ratio of the whole transcript, the most powerful statistic; or
the one event that a black-box attack would find; or the published output. For nets it is the net, or the predicate
learned from it. The data are the worst ones (:mod:`hockeystick.audits.catalogue.smoothed.views`); they are not smooth,
for privacy does not depend on smoothness. Truths are exact: closed forms, or the enumeration of all outcomes.

A mutant is a learner with other budgets than claimed, or one of :mod:`hockeystick.audits.catalogue.smoothed.mutants`.
Wrong laws that cost no privacy, and mistakes in the accounting only, need other checks and are not here.

Source: Haghtalab, Roughgarden & Shetty 2020, Algorithms 2 to 4, corrected; Hardt, Ligett & McSherry 2012.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from attrs import evolve

from hockeystick.audits.catalogue.parts.cases import Case, Subject
from hockeystick.audits.catalogue.parts.instances import canary
from hockeystick.audits.catalogue.parts.views import LossOf
from hockeystick.audits.catalogue.smoothed import mutants
from hockeystick.audits.catalogue.smoothed.mutants import Altered, Publishes
from hockeystick.audits.catalogue.smoothed.views import (
    DELTA,
    FirstRound,
    Hit,
    LearnedFrom,
    Scene,
    Seen,
    at_one_point,
    difference,
    first_query,
    labelled,
    net,
    net_law,
    pure_claim,
    rows,
    seen_by_one_query,
    small_database,
    smoothed_case,
    sums_of,
    transcript_law,
    windowed,
)
from hockeystick.audits.claims.claim import Claim
from hockeystick.learners.smoothed.nets.agnostic_learner import AgnosticLearner


def smoothed_cases() -> Iterator[Case]:
    """Yields the cases of private query release and private nets."""
    yield from _transcripts()
    yield from _several_rounds()
    yield from _publications()
    yield from _nets()


# --- multiplicative weights ------------------------------------------------------------------------------------------


def _transcripts() -> Iterator[Case]:
    """Yields the cases of one round, by its log-likelihood ratio."""
    near = partial(canary, gap=3.0)
    yield smoothed_case("smoothed", _loss(near))
    yield smoothed_case("smoothed[noise T/(eps n)]", _loss(near, epsilon_lap=1.0), 20_000)
    yield smoothed_case("smoothed[weight e^(eps s)]", _loss(near, epsilon_em=1.0), 40_000)
    yield smoothed_case("smoothed[each step takes all]", _loss(near, epsilon_em=1.0, epsilon_lap=1.0), 16_000)
    yield smoothed_case("smoothed[n twice]", _loss(near, epsilon_lap=50.0), 1_000)
    yield smoothed_case("smoothed[no noise]", _altered(near, rows, noise="none"), 1_000)
    yield smoothed_case(
        "smoothed[largest score]", _altered(partial(canary, gap=0.0), first_query, chosen="largest"), 1_000
    )
    yield smoothed_case("smoothed-rare", _loss(canary))
    yield smoothed_case("smoothed-signed", _loss(partial(canary, gap=3.0, signed=True)))
    yield smoothed_case(
        "smoothed-signed[noise of range 1]", _loss(partial(canary, gap=3.0, signed=True), printed=True), 16_000
    )
    yield smoothed_case("smoothed-discrete", _loss(partial(canary, gap=3.0, noise="discrete laplace")))
    yield smoothed_case("smoothed:event", _hit(near))
    yield smoothed_case("smoothed:event[each step takes all]", _hit(near, epsilon_em=1.0, epsilon_lap=1.0), 8_000)
    three = partial(canary, gap=3.0, moved=3)
    yield smoothed_case("smoothed-group", _loss(three, group=3))
    yield smoothed_case("smoothed-group[charged as one]", _loss(three), 1_000)
    yield smoothed_case("smoothed-one-point", _loss(at_one_point))
    yield smoothed_case("smoothed-one-point[n twice]", _loss(at_one_point, epsilon_lap=12.0), 1_000)


def _several_rounds() -> Iterator[Case]:
    """Yields the cases of several rounds, which claim a whole curve, and of differences between rounds."""
    whole = partial(canary, gap=2.0, rounds=3, noise="discrete laplace")
    smooth = partial(canary, gap=1.0, rounds=3, noise="discrete laplace", project=True, sigma=0.9)
    for name, scene in (("smoothed-three", whole), ("smoothed-projected", smooth)):
        yield smoothed_case(name, _curve(scene))
        yield smoothed_case(f"{name}[each step takes a half]", _curve(scene, epsilon_em=0.5, epsilon_lap=0.5), 8_000)
    yield smoothed_case("smoothed-three-laplace", _curve(partial(canary, gap=2.0, rounds=3)), known=False)
    two = partial(canary, gap=2.0, rounds=2, noise="discrete laplace")
    yield smoothed_case("smoothed-two", _curve(two))
    yield smoothed_case("smoothed-two[three are run]", _curve(two, rounds=3), 80_000)
    yield smoothed_case("smoothed-difference", _altered(seen_by_one_query, difference, truth=None), known=False)
    yield smoothed_case("smoothed-difference[one noise]", _altered(seen_by_one_query, difference, noise="once"), 1_000)


def _publications() -> Iterator[Case]:
    """Yields the cases of outputs made from transcripts, and of outputs that should not be published."""
    yield smoothed_case("smoothed-published", _published(mutants.one_mass, truth=None), known=False)
    for what, publication in (
        ("cover from records", mutants.cover_from_records),
        ("parameters from records", mutants.parameters_from_records),
        ("stops when right", mutants.stops_when_right),
        ("true error", mutants.with_true_error),
        ("starts at records", mutants.starts_at_records),
        ("answers from records", mutants.answers_from_records),
        ("nearest on records", mutants.nearest_on_records),
    ):
        yield smoothed_case(f"smoothed-published[{what}]", _published(publication), 1_000)


def _loss(scene: Callable[[], Scene], *, group: int = 1, **changes: Any) -> Callable[[], Subject]:
    """Returns a builder of the subject: the transcript's ratio, of the changed learner under the original's claim."""

    def build() -> Subject:
        learner, pair = scene()
        runs = evolve(learner, **changes)
        law = FirstRound.of(runs, pair) if runs.noise == "laplace" else transcript_law(runs, pair)
        claim = pure_claim(learner, group=group)
        return Subject(target=LossOf(runs, pair), neighbours=pair, claim=claim, truth=law.epsilon())

    return build


def _curve(scene: Callable[[], Scene], **changes: Any) -> Callable[[], Subject]:
    """Returns the same builder, with the claim of the whole curve."""

    def build() -> Subject:
        learner, pair = scene()
        runs = evolve(learner, **changes)
        truth = None if runs.noise == "laplace" else transcript_law(runs, pair).epsilon(DELTA)
        claim = Claim.curve(learner.graph().guarantee(), DELTA)
        return Subject(target=LossOf(runs, pair), neighbours=pair, claim=claim, truth=truth)

    return build


def _hit(scene: Callable[[], Scene], **changes: Any) -> Callable[[], Subject]:
    """Returns a builder of the subject that shows the canary's event only."""

    def build() -> Subject:
        learner, pair = scene()
        runs = evolve(learner, **changes)
        cut = float(sums_of(learner, pair)[1, 1]) / learner.records
        law = FirstRound.of(runs, pair)
        hits = law.hits(1)
        truth = float(max(abs(np.log(hits[0] / hits[1])), abs(np.log1p(-hits[0]) - np.log1p(-hits[1]))))
        return Subject(target=Seen(runs, Hit(cut)), neighbours=pair, claim=pure_claim(learner), truth=truth)

    return build


def _altered(
    scene: Callable[[], Scene], read: Callable[[Any], Any], *, truth: float | None = math.inf, **rule: Any
) -> Callable[[], Subject]:
    def build() -> Subject:
        learner, pair = scene()
        target = Seen(Altered(learner=learner, **rule), read)
        return Subject(target=target, neighbours=pair, claim=pure_claim(learner), truth=truth)

    return build


def _published(publication: Any, *, truth: float | None = math.inf) -> Callable[[], Subject]:
    def build() -> Subject:
        learner, pair = windowed()
        return Subject(target=Publishes(learner, publication), neighbours=pair, claim=pure_claim(learner), truth=truth)

    return build


# --- nets ------------------------------------------------------------------------------------------------------------


def _nets() -> Iterator[Case]:
    """Yields the cases of nets by their log-likelihood ratio, and of the predicate learned from one."""
    yield smoothed_case("smoothed-net", _net_loss(net))
    yield smoothed_case("smoothed-net[weight e^(-eps n s)]", _net_loss(net, epsilon=2.0), 10_000)
    yield smoothed_case("smoothed-net[range 2 as printed]", _net_loss(net, width=2, printed=True), 10_000)
    yield smoothed_case("smoothed-small-database", _net_loss(small_database))
    yield smoothed_case("smoothed-small-database[weight e^(-eps n s)]", _net_loss(small_database, epsilon=2.0), 24_000)
    yield smoothed_case("smoothed-learner:net", _net_loss(labelled))
    yield smoothed_case("smoothed-learner:net[weight e^(-eps n s)]", _net_loss(labelled, epsilon=2.0), 8_000)
    yield smoothed_case("smoothed-learner", _learned)


def _net_loss(scene: Callable[..., Scene], **changes: Any) -> Callable[[], Subject]:
    def build() -> Subject:
        (learner, pair), (other, _) = scene(), scene(**changes)
        runs = other.net if isinstance(other, AgnosticLearner) else other
        truth = net_law(runs, pair).epsilon()
        return Subject(target=LossOf(runs, pair), neighbours=pair, claim=pure_claim(learner), truth=truth)

    return build


def _learned() -> Subject:
    learner, pair = labelled()
    read = LearnedFrom(learner)
    truth = net_law(learner.net, pair).grouped(read(learner.net.candidates())).epsilon()
    return Subject(target=Seen(learner.net, read), neighbours=pair, claim=pure_claim(learner), truth=truth)
