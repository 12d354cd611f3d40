"""The mutants M1 to M19 and M25 of private query release: each is caught by the named check, which correct ones pass.

"audit": a black-box audit at confidence 1 - 1e-6. "exact": a number that has to hold, from closed forms or listings.
"law": a chi-square, Kolmogorov-Smirnov or rank test of what is drawn, at 1e-6: it catches what costs no privacy, too.
"metamorphic": with the same transcripts, what is shown must be the same on both of two neighbouring data sets; so it
is no check of chance. "relation": what the learner refuses.

M20 to M24 break online learning and no privacy; their tests are beside the learners: M20, M21, M23 and M24 in
tests/learners/smoothed/online/test_smooth_adversaries.py, M22 in tests/learners/smoothed/online/test_hindsight.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, Literal

import attrs
import numpy as np
import pytest
from attrs import evolve
from divergences import kkt_residual, relative_entropy
from mutant_table import Row, auditing, parameter
from scipy import stats

from hockeystick.accounting import BoundedRange, InvalidArgumentError, NonPrivate
from hockeystick.audits.catalogue.parts.instances import canary
from hockeystick.audits.catalogue.smoothed import mutants
from hockeystick.audits.catalogue.smoothed.cases import smoothed_cases
from hockeystick.audits.catalogue.smoothed.mutants import OFF_COVER, Altered
from hockeystick.audits.catalogue.smoothed.views import (
    FirstRound,
    choice,
    net,
    net_law,
    seen_by_one_query,
    sums_of,
    windowed,
)
from hockeystick.learners.smoothed.measures.projection import kl_projection
from hockeystick.learners.smoothed.measures.smooth_data import smoothness
from hockeystick.learners.smoothed.nets.net_bounds import labelled_smoothness
from hockeystick.learners.smoothed.nets.subsampled_net import SubsampledNet
from hockeystick.learners.smoothed.queries.answers import Transcripts
from hockeystick.learners.smoothed.queries.plan import calibrated
from hockeystick.learners.smoothed.queries.smooth_mwem import SmoothMWEM
from hockeystick.mechanisms import SimulationNoise

CASES = {case.name.removeprefix("learner/"): case for case in smoothed_cases()}
FALSE_ALARM = 1e-6
RUNS = 20_000
HALVED = labelled_smoothness(0.5)


# --- audits ----------------------------------------------------------------------------------------------------------


_audited = auditing(CASES)


# --- laws ------------------------------------------------------------------------------------------------------------


def _choices_conform(**rule: Any) -> bool:
    """Chi-square of 20,000 first choices of nine thresholds against exact odds: false alarm 1e-6."""
    learner, pair = windowed(rounds=1)
    learner = evolve(learner, epsilon_em=2.0)
    sampled: Any = Altered(learner=learner, **rule) if "chosen" in rule or "scores" in rule else evolve(learner, **rule)
    drawn = sampled.simulate(pair[0], np.random.default_rng(3), RUNS).queries[:, 0]
    odds = np.exp(choice(learner, learner.cells.masses[None], sums_of(learner, pair))[0, 0])
    return bool(stats.chisquare(np.bincount(drawn, minlength=len(odds)), RUNS * odds).pvalue > FALSE_ALARM)


def _noise_conforms(noise: Literal["fresh", "once", "none"] = "fresh", **changes: Any) -> bool:
    """KS of 20,000 standardised measurements in two rounds, and that their ranks are unrelated: 1e-6 in all.

    Independent ranks give a correlation within 5.2/sqrt(20,000) but for 2e-7.
    """
    learner, pair = seen_by_one_query()
    sampled = Altered(learner=evolve(learner, **changes), noise=noise)
    found = sampled.simulate(pair[0], np.random.default_rng(4), RUNS)
    sums = sums_of(learner, pair)[0]
    noises = (found.measurements * learner.records - sums[found.queries]) / learner.measurement.scale
    if not np.ptp(noises):
        return False
    fits = all(stats.kstest(column, stats.laplace.cdf).pvalue > FALSE_ALARM / 3 for column in noises.T)
    return bool(fits and abs(stats.spearmanr(*noises.T).statistic) < 5.2 / math.sqrt(RUNS))


def _net_conforms(law: Any = None, **changes: Any) -> bool:
    """Chi-square of 20,000 nets against the enumerated law: false alarm 1e-6."""
    right, pair = net()
    runs = np.random.default_rng(5)
    nets = right.candidates()
    if law is None:
        index = {tuple(row): i for i, row in enumerate(nets)}
        drawn = evolve(right, **changes).simulate(pair[1], runs, RUNS)
        counts = np.bincount([index[tuple(sorted(row))] for row in drawn], minlength=len(nets))
    else:
        counts = runs.multinomial(RUNS, law(right, pair[1]))
    return bool(stats.chisquare(counts, RUNS * right.law(pair[1])).pvalue > FALSE_ALARM)


# --- exact numbers ---------------------------------------------------------------------------------------------------


def _net_costs(epsilon: float = 1.0, **changes: Any) -> bool:
    mechanism, pair = net(epsilon=epsilon, **changes)
    return net_law(mechanism, pair).epsilon() <= 1.0


def _certified(rounds: int) -> bool:
    """T = 7 laws take 6 rounds; budgets are for as many, and each one more is charged."""
    planned = calibrated(windowed()[0].cells, records=40, sigma=0.5, epsilon=1.0, delta=0.0, rounds=6, vacuous=True)
    return evolve(planned, rounds=rounds).graph().guarantee().epsilon(0.0).upper <= 1.0


def _chain_is_certified(steps: int | None) -> bool:
    mechanism = evolve(net()[0], metropolis_steps=steps)
    assert isinstance(mechanism.event(), BoundedRange if steps is None else NonPrivate)
    return math.isfinite(mechanism.graph().guarantee().epsilon(0.0).upper)


def _stays_smooth(project: Any) -> bool:
    """Whether 50 laws are sigma-smooth after a projection."""
    laws, caps = _laws_and_caps()
    return bool((np.stack([project(law, caps) for law in laws]) <= caps * (1 + 1e-12)).all())


def _is_nearest(project: Any) -> bool:
    """Whether 50 projections are the nearest smooth laws, by their optimality conditions."""
    laws, caps = _laws_and_caps()
    return bool(kkt_residual(laws, caps, np.stack([project(law, caps) for law in laws])) <= 1e-9)


def _laws_and_caps() -> tuple[Any, Any]:
    learner, pair = windowed()
    found = learner.simulate(pair[0], np.random.default_rng(6), 50)
    return evolve(learner, project=False, output="last").weights(found), learner.cells.masses / 0.9


def _untouched(law: Any, caps: Any) -> Any:
    return law


def _clipped_and_scaled(law: Any, caps: Any) -> Any:
    """A law cut at its caps and normalised, which lifts it above them again."""
    cut = np.minimum(law, caps)
    return cut / cut.sum()


def _law_by_cover(mechanism: SubsampledNet, data: Any) -> Any:
    """The law of nets that are scored on two queries instead of the whole class."""
    queries = [[0.5], [9.0]]
    inside = mechanism.concepts.predict(queries, mechanism.domain).astype(float)
    truth = mechanism.concepts.predict(queries, data).mean(axis=1)
    gaps = np.abs(inside[:, mechanism.candidates()].mean(axis=2) - truth[:, None]).max(axis=0)
    weights = np.exp(-mechanism.epsilon * mechanism.records * gaps / 2.0)
    return weights / weights.sum()


PAIRS = np.array([0.25, 0.0] * 2 + [0.0] * 4 + [0.0, 0.25] * 2 + [0.0] * 4)
"""The law of (label, point): points 0 to 3 of 8, with the label of their parity."""


def _pairs_are_smooth(sigma: float) -> bool:
    """Points on half of the line, with certain labels, are 1/2-smooth; whether their pairs are sigma-smooth."""
    return smoothness(PAIRS, np.full(16, 1 / 16)) >= sigma * (1 - 1e-9)


def _projection_helps(sigma: float) -> bool:
    """Whether a projection to sigma-smooth laws leaves the pairs' own law no further away in KL."""
    base = np.full(16, 1 / 16)
    law = 0.9 * PAIRS + 0.1 * base
    moved = kl_projection(law, base / sigma)
    return bool(relative_entropy(PAIRS, moved) <= relative_entropy(PAIRS, law) + 1e-12)


# --- the same on both data sets --------------------------------------------------------------------------------------


def _best_iterate(learner: SmoothMWEM, transcripts: Transcripts, records: Any) -> Any:
    """The law of the round with the least true error."""
    laws = mutants.iterates(learner, transcripts)
    best = np.argmin([mutants.true_error(learner, law, records) for law in laws], axis=0)
    return np.stack(laws)[best, np.arange(len(best))]


def _capped_by_records(learner: SmoothMWEM, transcripts: Transcripts, records: Any) -> Any:
    """The released law, projected below 1/sigma times the records' masses."""
    caps = mutants.smoothed_masses(learner, records) / learner.sigma
    return kl_projection(learner.weights(transcripts), caps)


def _same_on_both(publication: Any) -> bool:
    """Whether 50 transcripts show the same with either of two neighbouring data sets behind them."""
    learner, pair = windowed(rounds=4)
    found = learner.simulate(pair[0], np.random.default_rng(8), 50)
    first, second = (publication(learner, found, records) for records in pair)
    return np.array_equal(first, second)


def _is_public(learner: SmoothMWEM, transcripts: Transcripts, records: Any) -> Any:
    """All that the learner publishes, and all that it was made of."""
    asked = np.stack([learner.answers(transcripts[i : i + 1], simulated=True).answer(OFF_COVER) for i in range(5)])
    cells = learner.cells
    parts = (learner.weights(transcripts), asked, cells.masses, cells.nearest(OFF_COVER), cells.inside(np.arange(9)))
    made = np.array([learner.records, learner.sigma, learner.rounds, learner.epsilon_em, learner.epsilon_lap])
    return np.concatenate([np.ravel(part) for part in (*parts, made)])


def _domain_is_public(from_records: bool) -> bool:
    mechanism, pair = net()
    first, second = (
        evolve(mechanism, domain=np.unique(records) if from_records else mechanism.domain).domain for records in pair
    )
    return np.array_equal(first, second)


# --- the relation ----------------------------------------------------------------------------------------------------


def _refuses_others(by_records: bool) -> bool:
    """Whether a data set of one record less is refused; else its loss grows without bound in the measurement."""
    learner, (first, _) = canary()
    far = Transcripts(np.array([[1]]), np.array([[100.0]]))

    def loss(records: Any) -> float:
        own = evolve(learner, records=len(records)) if by_records else learner
        return float(own.log_likelihood(far, records)[0])

    try:
        losses = [loss(records) for records in (first, first[:-1])]
    except InvalidArgumentError:
        return True
    return abs(losses[0] - losses[1]) <= 1.0


# --- the table -------------------------------------------------------------------------------------------------------


def _law(mutant: str, defect: str, conforms: Callable[..., bool], **changes: Any) -> Row:
    return Row(mutant, defect, "law", conforms, lambda: conforms(**changes))


def _metamorphic(mutant: str, publication: Any) -> Row:
    name = publication.__name__.lstrip("_")
    return Row(mutant, name, "metamorphic", lambda: _same_on_both(_is_public), lambda: _same_on_both(publication))


TABLE = (
    _audited("M1", "smoothed-signed[noise of range 1]"),
    _audited("M2", "smoothed[noise T/(eps n)]"),
    _law("M2", "noise T/(eps n)", _noise_conforms, epsilon_lap=0.5),
    _audited("M3", "smoothed[weight e^(eps s)]"),
    _law("M3", "weight e^(eps s)", _choices_conform, epsilon_em=4.0),
    _audited("M4", "smoothed[each step takes all]"),
    _audited("M4", "smoothed:event[each step takes all]"),
    _audited("M4", "smoothed-three[each step takes a half]"),
    _audited("M4", "smoothed-projected[each step takes a half]"),
    _audited("M5", "smoothed-difference[one noise]"),
    _law("M5", "one noise for all rounds", _noise_conforms, noise="once"),
    _audited("M6", "smoothed[n twice]"),
    _audited("M6", "smoothed-one-point[n twice]"),
    _law("M6", "n twice", _noise_conforms, epsilon_lap=25.0),
    _audited("M7", "smoothed[no noise]"),
    _audited("M7", "smoothed[largest score]"),
    _law("M7", "no noise", _noise_conforms, noise="none"),
    _law("M7", "largest score", _choices_conform, chosen="largest"),
    _audited("M8", "smoothed-published[cover from records]"),
    _metamorphic("M8", mutants.cover_from_records),
    Row("M8", "V from records", "metamorphic", lambda: _domain_is_public(False), lambda: _domain_is_public(True)),
    _audited("M9", "smoothed-published[parameters from records]"),
    _audited("M9", "smoothed-published[stops when right]"),
    _metamorphic("M9", mutants.parameters_from_records),
    _metamorphic("M9", mutants.stops_when_right),
    _audited("M10", "smoothed-published[true error]"),
    _metamorphic("M10", mutants.with_true_error),
    _metamorphic("M10", _best_iterate),
    _audited("M11", "smoothed-published[starts at records]"),
    _metamorphic("M11", mutants.starts_at_records),
    _metamorphic("M12", _capped_by_records),
    Row(
        "M13",
        "cut and divided: caps",
        "exact",
        lambda: _stays_smooth(kl_projection),
        lambda: _stays_smooth(_clipped_and_scaled),
    ),
    Row(
        "M13",
        "cut and divided: optimality",
        "exact",
        lambda: _is_nearest(kl_projection),
        lambda: _is_nearest(_clipped_and_scaled),
    ),
    Row("M14", "no projection", "exact", lambda: _stays_smooth(kl_projection), lambda: _stays_smooth(_untouched)),
    Row("M15", "T rounds for the budget of T - 1", "exact", lambda: _certified(6), lambda: _certified(7)),
    _audited("M15", "smoothed-two[three are run]"),
    _law("M16", "a score without n", _choices_conform, epsilon_em=2.0 / 40),
    _law("M16", "|q(D_B)| for the error", _choices_conform, scores="sums"),
    _audited("M17", "smoothed-published[answers from records]"),
    _audited("M17", "smoothed-published[nearest on records]"),
    _metamorphic("M17", mutants.answers_from_records),
    _metamorphic("M17", mutants.nearest_on_records),
    _audited("M18", "smoothed-net[weight e^(-eps n s)]"),
    _audited("M18", "smoothed-net[range 2 as printed]"),
    _audited("M18", "smoothed-small-database[weight e^(-eps n s)]"),
    _audited("M18", "smoothed-learner:net[weight e^(-eps n s)]"),
    Row("M18", "weight e^(-eps n s)", "exact", _net_costs, lambda: _net_costs(2.0)),
    Row("M18", "range 2 as printed", "exact", _net_costs, lambda: _net_costs(width=2, printed=True)),
    Row("M18", "a chain, certified", "exact", lambda: _chain_is_certified(None), lambda: _chain_is_certified(5)),
    _law("M18", "a short chain", _net_conforms, metropolis_steps=2),
    _law("M18", "two queries for the class", _net_conforms, law=_law_by_cover),
    Row("M19", "one removed", "relation", lambda: _refuses_others(False), lambda: _refuses_others(True)),
    Row("M25", "sigma for pairs", "exact", lambda: _pairs_are_smooth(HALVED), lambda: _pairs_are_smooth(0.5)),
    Row("M25", "projected to sigma", "exact", lambda: _projection_helps(HALVED), lambda: _projection_helps(0.5)),
    _audited("F41", "smoothed-group[charged as one]"),
)


def test_the_table_has_all_of_them() -> None:
    assert {row.mutant for row in TABLE} == {*(f"M{i}" for i in range(1, 20)), "M25", "F41"}
    broken = {name for name, case in CASES.items() if case.broken}
    assert {row.defect for row in TABLE if row.check == "audit"} == broken


def _marked(row: Row) -> Any:
    return parameter(row, slow=row.check == "audit" and CASES[row.defect].samples > 10_000)


@pytest.mark.parametrize("row", [_marked(row) for row in TABLE])
def test_the_mutant_is_caught_and_the_correct_variant_passes(row: Row) -> None:
    """Audits: false alarm 1e-6 each; the mutant is refuted with probability about 0.9 or more at its sample size."""
    assert row.correct()
    assert not row.broken()


# --- beside the table ------------------------------------------------------------------------------------------------


def test_altered_without_alterations_is_the_learner() -> None:
    """The mutants' loop is the learner's own: the same choices and measurements for the same coins."""
    learner, pair = windowed(rounds=3)
    ours, own = (one.simulate(pair[0], np.random.default_rng(9), 30) for one in (Altered(learner=learner), learner))
    assert np.array_equal(ours.queries, own.queries)
    np.testing.assert_allclose(ours.measurements, own.measurements, atol=1e-12)


def test_published_values_are_a_function_of_the_transcript() -> None:
    """F37: a run's law, to the bit, is that of its transcript, which knows no records; and no result holds any."""
    learner, pair = windowed(rounds=4)
    for records in pair:
        for run in (
            learner.run(records, np.random.default_rng(10)),
            learner.release(records, noise=SimulationNoise(11)),
        ):
            assert np.array_equal(run.weights, learner.weights(run.transcripts)[0])
            means = learner.cells.answers(learner.counts(records)) / learner.records
            secret = (records, means, learner.counts(records), learner.counts(records) / learner.records)
            for leaf in _arrays(run):
                assert not any(leaf.shape == s.shape and np.allclose(leaf, s, rtol=1e-9, atol=0.0) for s in secret)


def test_nothing_but_choices_and_measurements_reads_records() -> None:
    """F37: any other reader of the records would be a node that is charged, or a graph that is refused."""
    reads = [node for node in windowed()[0].graph().nodes if "records" in getattr(node, "reads", ())]
    assert [node.name for node in reads] == ["choices", "measurements"]


def test_the_true_losses_of_the_printed_range() -> None:
    """M1: 2 in all, 1.996 on the canary; half of it once the range is counted. The graph says so (F19)."""
    learner, pair = canary(signed=True)
    printed = evolve(learner, printed=True)
    assert FirstRound.of(printed, pair).epsilon() == pytest.approx(1.996, abs=1e-3)
    assert FirstRound.of(learner, pair).epsilon() == pytest.approx(0.970, abs=1e-3)
    found = [one.graph().guarantee().epsilon(0.0).upper for one in (learner, printed)]
    assert found == pytest.approx([1.0, 2.0], rel=1e-9)


def test_the_pythagorean_inequality_does_not_distinguish_a_projection_from_cutting() -> None:
    """M13: KL(z || w) >= KL(z || Pw) + KL(Pw || w) for smooth z holds for both, so it is the caps that have to be seen.

    With c the divisor's inverse the difference is the sum over cut cells of (z - c cap) ln(cap/w): no term is negative.
    """
    laws, caps = _laws_and_caps()
    rng = np.random.default_rng(7)
    for project in (kl_projection, _clipped_and_scaled):
        for law in laws:
            z, moved = kl_projection(rng.dirichlet(np.ones(len(caps))), caps), project(law, caps)
            assert relative_entropy(z, law) >= relative_entropy(z, moved) + relative_entropy(moved, law) - 1e-9


def _arrays(value: object) -> Iterator[Any]:
    """All arrays that can be reached from a result, but for those of its public cells."""
    kind: Any = type(value)
    if isinstance(value, np.ndarray):
        yield value
    elif attrs.has(kind):
        for each in attrs.fields(kind):
            if each.name != "cells":
                yield from _arrays(getattr(value, each.name))
