"""Smooth MWEM: its law against exact formulas, its laws D against a dense domain, privacy, and mutants."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

from hockeystick.accounting import AccountantGraph, Adjacency, HockeystickError, InvalidArgumentError, Ledger
from hockeystick.accounting.graph.parts.nodes import Release
from hockeystick.learners.smoothed.classes.boxes.intervals import Intervals, Thresholds
from hockeystick.learners.smoothed.measures.base_measure import UniformCube, UniformGrid
from hockeystick.learners.smoothed.queries.answers import PrivateAnswers, Transcripts, private_report
from hockeystick.learners.smoothed.queries.box_cells import BoxCells
from hockeystick.learners.smoothed.queries.canary import mwem_canary
from hockeystick.learners.smoothed.queries.cells import MatrixCells
from hockeystick.learners.smoothed.queries.plan import calibrated, printed
from hockeystick.learners.smoothed.queries.smooth_mwem import SmoothMWEM
from hockeystick.mechanisms import SimulationNoise

FALSE_ALARM = 1e-6
seeds = st.integers(0, 2**32 - 1)


def thresholds(gamma: float = 0.05, *, points: int = 64, signed: bool = False) -> BoxCells:
    return BoxCells.of(Thresholds().cover(gamma, UniformGrid(points)), signed=signed)


def learner(cells: object = None, **options: Any) -> SmoothMWEM:
    given: dict[str, Any] = {"cells": cells or thresholds(), "records": 40, "sigma": 0.25, "rounds": 3}
    return SmoothMWEM(**(given | {"epsilon_em": 0.3, "epsilon_lap": 0.2} | options))


def window(n: int, points: int, rng: np.random.Generator, *, sigma: float = 0.25) -> np.ndarray:
    """n records, independent and uniform on a window of a share sigma of the points."""
    return UniformGrid(points).position(0, points // 3 + rng.integers(0, round(sigma * points), n))


# --- laws are functions of transcripts -------------------------------------------------------------------------------


def dense_laws(found: SmoothMWEM, points: np.ndarray, transcript: Transcripts) -> np.ndarray:
    """The average law on a dense domain, by Algorithms 2 and 3 as they stand, corrected; one transcript."""
    cover, N = found.cells.cover, len(points)  # type: ignore[attr-defined]
    values = cover.predict(points).astype(float)
    rate = 0.5 if found.step == "paper" else 4.0 / found.cells.width**2
    law, laws = np.full(N, 1.0 / N), []
    for q, m in zip(transcript.queries[0], transcript.measurements[0], strict=True):
        laws.append(law)
        law = law * np.exp(rate * values[q] * (np.clip(m, 0.0, 1.0) - values[q] @ law))
        law = law / law.sum()
        if found.project:
            caps = np.full(N, 1.0 / (found.sigma * N))
            factors = np.sort(caps / law)[:, None]
            best = np.minimum(factors * law, caps).sum(axis=1)
            c = np.interp(1.0, np.append(best, best[-1]), np.append(factors, factors[-1])) if best[-1] > 1 else 1.0
            law = np.minimum(c * law, caps) if (law > caps).any() else law
    return np.asarray(np.mean([*laws, law], axis=0))


@pytest.mark.statistical
@settings(max_examples=40, deadline=None)
@given(seeds, st.booleans(), st.sampled_from(["paper", "hoeffding"]), st.sampled_from([Thresholds(), Intervals()]))
def test_cells_give_the_laws_of_a_dense_domain(seed: int, project: bool, step: str, concepts: Thresholds) -> None:
    """F27: the state by cells is the state by points, to 1e-10; and a projected law is sigma-smooth (F22)."""
    rng = np.random.default_rng(seed)
    cells = BoxCells.of(concepts.cover(0.15, UniformGrid(64)))
    found = learner(cells, rounds=5, project=project, step=step)
    points = np.arange(64)[:, None] / 63
    transcript = Transcripts(rng.integers(0, cells.queries, (1, 5)), rng.normal(0.5, 0.7, (1, 5)))
    dense = dense_laws(found, points, transcript)
    at = np.array([int(np.argmax(cells.counts(point[None]))) for point in points])
    by_cells = found.weights(transcript)[0]
    np.testing.assert_allclose(by_cells, np.bincount(at, dense, minlength=len(cells.masses)), atol=1e-10)
    if project:
        assert found.answers(transcript, simulated=True).density().max() <= 4.0 * (1 + 1e-12)


def test_laws_start_at_the_base_measure_and_all_count() -> None:
    """F20: R rounds average R + 1 laws, mu first; the printed average has R, without mu."""
    first = Transcripts(np.array([[3]]), np.array([[0.9]]))
    masses = thresholds().masses
    last = learner(rounds=1, output="last").weights(first)[0]
    np.testing.assert_allclose(learner(rounds=1).weights(first)[0], (masses + last) / 2.0)
    np.testing.assert_allclose(learner(rounds=1, printed=True).weights(first)[0], last)
    exact = Transcripts(np.array([[3, 4]]), thresholds().answers(masses)[None, [3, 4]])
    np.testing.assert_allclose(learner(rounds=2).weights(exact)[0], masses, atol=1e-15)


def test_a_wild_measurement_leaves_a_law() -> None:
    wild = Transcripts(np.array([[3, 9, 3]]), np.array([[1e6, -1e6, 1e6]]))
    for clip in (True, False):
        weights = learner(clip=clip, project=True).weights(wild)[0]
        assert abs(math.fsum(weights) - 1.0) < 1e-9
        assert weights.min() >= 0.0


# --- the law of transcripts ------------------------------------------------------------------------------------------


def first_choice(found: SmoothMWEM, records: np.ndarray) -> np.ndarray:
    """Exact odds of the first choice: exp(eps n |q(mu) - q(D_B)| / (2w)), normalised."""
    cells = found.cells
    gap = np.abs(found.records * cells.answers(cells.masses) - cells.answers(cells.counts(records)))
    return np.asarray(special.softmax(found.epsilon_em * gap / (2.0 * cells.width)))


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("noise", ["laplace", "discrete laplace"])
def test_choices_and_measurements_follow_their_laws(noise: str, signed: bool) -> None:
    """G-tests and Kolmogorov-Smirnov, false-alarm probability 1e-6 each; M3, M6 and M16 are caught."""
    rng = np.random.default_rng(11)
    records = window(40, 64, rng)
    found = learner(thresholds(signed=signed), rounds=2, epsilon_em=0.8, noise=noise)
    runs = found.simulate(records, rng, 20_000)
    drawn = np.bincount(runs.queries[:, 0], minlength=found.cells.queries)
    assert stats.chisquare(drawn, 20_000 * first_choice(found, records)).pvalue > FALSE_ALARM
    for mutant in (evolve(found, epsilon_em=1.6), evolve(found, epsilon_em=0.8 / 40)):  # M3; M16, a score without n
        assert stats.chisquare(drawn, 20_000 * first_choice(mutant, records)).pvalue < FALSE_ALARM

    truth = found.cells.answers(found.cells.counts(records))
    off = runs.measurements * 40 - truth[runs.queries]
    scale = found.cells.width / 0.2
    for column in off.T:
        if noise == "laplace":
            assert stats.kstest(column, stats.laplace(scale=scale).cdf).pvalue > FALSE_ALARM
            assert stats.kstest(column, stats.laplace(scale=scale / 2).cdf).pvalue < FALSE_ALARM
        else:
            whole = np.clip(np.rint(column), -25, 25).astype(int)
            np.testing.assert_allclose(column, np.rint(column), atol=1e-9)
            inner = np.tanh(0.5 / scale) * np.exp(-np.abs(np.arange(-24, 25)) / scale)
            law = np.concatenate([[(1 - inner.sum()) / 2], inner, [(1 - inner.sum()) / 2]])
            assert stats.chisquare(np.bincount(whole + 25, minlength=51), 20_000 * law).pvalue > FALSE_ALARM
    # fresh noise in each round (M5): ranks of the two rounds are independent
    assert stats.spearmanr(off[:, 0], off[:, 1]).pvalue > FALSE_ALARM
    assert stats.spearmanr(off[:, 0], off[:, 0]).pvalue < FALSE_ALARM


def test_log_likelihood_is_that_of_the_formulas() -> None:
    """Round by round, from the definition, for two records of the second round's law."""
    rng = np.random.default_rng(12)
    records = window(40, 64, rng)
    found = learner(rounds=2)
    runs = found.simulate(records, rng, 5)
    sums = found.cells.answers(found.cells.counts(records))
    for r in range(5):
        expected, laws = 0.0, [found.cells.masses, evolve(found, rounds=1, output="last").weights(_first(runs, r))[0]]
        for law, q, m in zip(laws, runs.queries[r], runs.measurements[r], strict=True):
            logits = found.epsilon_em * np.abs(40 * found.cells.answers(law) - sums) / 2.0
            expected += logits[q] - special.logsumexp(logits)
            expected += stats.laplace(loc=sums[q] / 40, scale=1 / (40 * 0.2)).logpdf(m)
        assert found.log_likelihood(runs, records)[r] == pytest.approx(expected, abs=1e-9)


def _first(runs: Transcripts, row: int) -> Transcripts:
    return Transcripts(runs.queries[row : row + 1, :1], runs.measurements[row : row + 1, :1])


@pytest.mark.statistical
@settings(max_examples=25, deadline=None)
@given(seeds, st.sampled_from(["laplace", "discrete laplace"]), st.sampled_from([1, 3]), st.booleans(), st.booleans())
def test_no_transcript_tells_neighbours_apart_by_more_than_epsilon(
    seed: int, noise: str, rounds: int, signed: bool, project: bool
) -> None:
    """Whatever the data (F40: also far from smooth), a swap of one record moves no log-likelihood by more."""
    rng = np.random.default_rng(seed)
    found = learner(thresholds(signed=signed), rounds=rounds, epsilon_em=1.0, noise=noise, project=project)
    first = window(40, 64, rng) if seed % 2 else np.zeros(40)
    second = first.copy()
    second[0] = 1.0
    runs = found.simulate(first, rng, 200)
    ratio = found.log_likelihood_ratio(runs, first, second)
    assert np.abs(ratio).max() <= found.event().pure_epsilon() * (1 + 1e-9)
    both = [found.log_likelihood(runs, records) for records in (first, second)]
    np.testing.assert_allclose(ratio, both[0] - both[1], atol=1e-9)


def test_printed_noise_for_queries_of_range_two_costs_twice() -> None:
    """M1 (F19): the graph says 2 epsilon, and of 20,000 transcripts some have a ratio above 1.5."""
    cells = MatrixCells(matrix=[[-1.0, 1.0, 1.0], [-1.0, -1.0, 1.0]], masses=[0.1, 0.8, 0.1])
    found = printed(cells, records=100, sigma=0.1, epsilon=1.0, rounds=1)
    right = evolve(found, printed=False)
    first = np.repeat([0, 1, 2], [42, 28, 30])
    second = np.append(first[1:], 2)
    worst = []
    for mechanism, cost in ((found, 2.0), (right, 1.0)):
        assert mechanism.graph().guarantee().epsilon(0.0).upper == pytest.approx(cost, rel=1e-9)
        runs = mechanism.simulate(first, np.random.default_rng(13), 20_000)
        worst.append(float(np.abs(mechanism.log_likelihood_ratio(runs, first, second)).max()))
    assert 1.5 < worst[0] <= 2.0 + 1e-9
    assert worst[1] <= 1.0 + 1e-9


@pytest.mark.statistical
def test_the_released_path_has_the_same_law() -> None:
    """Released code on simulated noise: choices by a G-test, false-alarm probability 1e-6; a wrong law is rejected."""
    rng = np.random.default_rng(14)
    found = learner(thresholds(0.2), rounds=1, epsilon_em=0.2, noise="discrete laplace")
    records, noise = window(40, 64, rng), SimulationNoise(rng)
    runs = [found.release(records, noise=noise) for _ in range(200)]
    drawn = np.bincount([run.transcripts.queries[0, 0] for run in runs], minlength=found.cells.queries)
    assert stats.chisquare(drawn, 200 * first_choice(found, records)).pvalue > FALSE_ALARM
    assert stats.chisquare(drawn, 200 * np.roll(first_choice(found, records), 1)).pvalue < FALSE_ALARM
    off = [run.transcripts.measurements[0, 0] * 40 - s for run, s in _sums(found, records, runs)]
    np.testing.assert_allclose(off, np.rint(off), atol=1e-9)
    assert all(run.simulated for run in runs)


def _sums(found: SmoothMWEM, records: np.ndarray, runs: list[PrivateAnswers]) -> list[tuple[PrivateAnswers, float]]:
    sums = found.cells.answers(found.cells.counts(records))
    return [(run, float(sums[run.transcripts.queries[0, 0]])) for run in runs]


@pytest.mark.parametrize("noise", ["laplace", "discrete laplace"])
@pytest.mark.parametrize("signed", [False, True])
def test_the_canary_comes_close_to_epsilon(signed: bool, noise: str) -> None:
    """The exact loss of its event in one round at epsilon = 1: above 0.9, and never above 1."""
    canary = mwem_canary(epsilon=1.0, signed=signed, noise=noise)
    odds = [first_choice(canary.learner, records)[1] for records in (canary.first, canary.second)]
    assert (canary.first != canary.second).sum() == 1
    assert 0.03 < odds[0] < odds[1]
    assert 0.9 < math.log(odds[1] / odds[0]) + 0.5 <= 1.0  # the measurement is above its own mean half the time
    runs = canary.learner.simulate(canary.second, np.random.default_rng(20), 20_000)
    share = canary.event(runs.queries[:, 0], runs.measurements[:, 0]).mean()
    assert 0.4 * odds[1] < share < 0.75 * odds[1]


@settings(max_examples=10, deadline=None)
@given(st.sampled_from([Thresholds(), Intervals()]), st.integers(1, 9))
def test_worst_case_neighbours_differ_in_one_record(concepts: Thresholds, n: int) -> None:
    cells = BoxCells.of(concepts.cover(0.1, UniformGrid(64)))
    first, second = learner(cells, records=n).worst_case_neighbours()
    assert len(first) == len(second) == n
    assert (first != second).any(axis=1).sum() == 1
    assert np.abs(cells.answers(cells.counts(first)) - cells.answers(cells.counts(second))).max() == 1


# --- privacy ---------------------------------------------------------------------------------------------------------


def test_the_plan_counts_every_round_and_nothing_else_reads_records() -> None:
    """F18, F20, M15: R choices and R measurements; a round more than was calibrated for shows in the total."""
    found = learner(rounds=7)
    graph = found.graph()
    readers = [node for node in graph.nodes if "records" in getattr(node, "reads", ())]
    assert [(node.name, node.count) for node in readers if isinstance(node, Release)] == [
        ("choices", 7),
        ("measurements", 7),
    ]
    assert len(readers) == 2
    assert graph.adjacency is Adjacency.REPLACE_ONE
    assert graph.guarantee().epsilon(0.0).upper == pytest.approx(7 * 0.5, rel=1e-9)
    assert evolve(found, rounds=8).event().pure_epsilon() == pytest.approx(8 * 0.5, rel=1e-9)


def test_post_processing_changes_no_cost() -> None:
    """F21: steps, clipping, replays, projection and output; discrete noise does change it, at delta > 0."""
    found = learner()
    for options in ({"step": "paper"}, {"clip": False}, {"replay": 2}, {"project": True}, {"output": "last"}):
        assert evolve(found, **options).event() == found.event()
    whole = evolve(found, noise="discrete laplace").graph().guarantee()
    assert whole.epsilon(0.0).upper == pytest.approx(found.event().pure_epsilon(), rel=1e-9)
    assert whole.epsilon(0.1).upper > found.graph().guarantee().epsilon(0.1).upper


def test_groups_pay_by_their_events() -> None:
    """F41: the range of a choice and the distance of a measurement grow with the group."""
    graph = learner(rounds=2).graph()
    assert graph.guarantee(group=3).epsilon(0.0).upper == pytest.approx(3.0, rel=1e-9)
    assert graph.guarantee(group=3).epsilon(1e-3).upper < 3.0


def test_a_ledger_is_charged_once_for_all_rounds() -> None:
    found = learner()
    plan = AccountantGraph(adjacency=Adjacency.REPLACE_ONE).source("people")
    ledger = Ledger(plan.release("answers", found.event(), reads=["people"]))
    run = found.release(np.zeros(40), ledger=ledger, name="answers", noise=SimulationNoise(1))
    assert run.simulated
    with pytest.raises(HockeystickError):
        found.release(np.zeros(40), ledger=ledger, name="answers", noise=SimulationNoise(1))


# --- answers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("project", [False, True])
def test_answers_off_the_cover_are_within_the_bound(project: bool) -> None:
    """F18, F22, F28, F32: a run fails with probability 2R/K + 1e-9 at most; it has a fixed seed."""
    rng = np.random.default_rng(15)
    n, sigma, points = 30_000, 0.25, 2**24
    gamma = 0.02 * sigma / (2 if project else 1)
    cells = BoxCells.of(Thresholds().cover(gamma, UniformGrid(points)))
    found = calibrated(cells, records=n, sigma=sigma, epsilon=2.0, project=project)
    records = window(n, points, rng)
    run = found.run(records, rng)
    others = rng.random((200, 1))
    report = private_report(run, records, others)
    chi = math.sqrt(math.log(2.0 / 1e-9) / (2 * n))
    bound = found.error_bound(chi=chi)
    assert report.max_error <= bound.error < 0.6
    assert run.bound == found.error_bound()
    if project:
        drawn = run.sample(rng, 20_000)
        sampled = cells.answers(cells.counts(drawn)) / 20_000
        assert np.abs(sampled - cells.answers(run.weights)).max() < 0.02
    else:
        assert np.isin(run.answer(others), cells.answers(run.weights)).all()


def test_errors_do_not_grow_with_the_domain() -> None:
    """F35: the same data scaled to 2^12, 2^24 points and to a continuum; costs and errors are alike."""
    errors = []
    for measure in (UniformGrid(2**12), UniformGrid(2**24), UniformCube(1)):
        cells = BoxCells.of(Thresholds().cover(0.004, measure))
        found = calibrated(cells, records=20_000, sigma=0.25, epsilon=2.0, rounds=20, project=True)
        records = 0.3 + 0.25 * np.random.default_rng(16).random(20_000)
        errors.append(private_report(found.run(records, np.random.default_rng(17)), records).max_error)
    assert max(errors) - min(errors) < 0.02
    assert max(errors) < 0.2


def test_a_run_reports_its_progress_and_is_a_simulation_of_one() -> None:
    seen: list[tuple[int, int]] = []
    found, records = learner(), window(40, 64, np.random.default_rng(18))
    run = found.run(records, np.random.default_rng(19), progress=lambda done, of: seen.append((done, of)))
    assert seen == [(1, 3), (2, 3), (3, 3)]
    same = found.simulate(records, np.random.default_rng(19), 1)
    assert (same.as_array() == run.transcripts.as_array()).all()


@pytest.mark.parametrize(
    "options",
    [
        {"sigma": 0.0},
        {"sigma": 1.5},
        {"rounds": 0},
        {"rounds": True},
        {"epsilon_em": 0.0},
        {"epsilon_lap": math.nan},
        {"step": "newton"},
        {"noise": "gaussian"},
        {"output": "best"},
        {"project": 1},
        {"replay": -1},
        {"cells": "thresholds"},
        {"cells": MatrixCells(matrix=[[0.0, 0.5]]), "noise": "discrete laplace"},
    ],
)
def test_bad_parameters_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(InvalidArgumentError):
        learner(**options)


def test_bad_data_and_transcripts_are_refused() -> None:
    found = learner()
    for attempt in (
        lambda: found.simulate(np.zeros(39), np.random.default_rng(1), 1),
        lambda: found.simulate(np.full(40, math.nan), np.random.default_rng(1), 1),
        lambda: found.weights(Transcripts(np.zeros((1, 2), np.int64), np.zeros((1, 2)))),
        lambda: found.weights(Transcripts(np.full((1, 3), 99), np.zeros((1, 3)))),
        lambda: found.weights(Transcripts(np.zeros((1, 3), np.int64), np.full((1, 3), math.inf))),
        lambda: evolve(found, output="last").error_bound(),
        lambda: evolve(found, replay=1).error_bound(),
    ):
        with pytest.raises(InvalidArgumentError):
            attempt()
