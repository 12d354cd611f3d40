"""Tests of drift watches: exact p-values and e-values, alarms, refusals and resuming."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

from hockeystick.accounting import (
    AccountantGraph,
    Adjacency,
    BudgetExceededError,
    FilteredLedger,
    InvalidArgumentError,
    InvalidDataError,
    PureFilter,
    RefinementError,
)
from hockeystick.learners.divergence.client_counts import ClientCounts
from hockeystick.learners.divergence.drift import drift_watch
from hockeystick.learners.divergence.drift.cell_terms import cell_term
from hockeystick.learners.divergence.drift.count_noise import LaplaceCounts
from hockeystick.learners.divergence.drift.drift_watch import DriftWatch
from hockeystick.learners.divergence.drift.evidence import (
    Ball,
    largest_probability,
    log_evidence,
    p_no_drift,
    p_within,
)
from hockeystick.mechanisms.randomness.noise import SimulationNoise

PI = np.full(10, 0.1)


def watch(**more: Any) -> DriftWatch:
    known = {"reference": PI, "epsilon": 1.0, "windows": 20, "independent": True}
    return DriftWatch(**known | ({} if "run_length" in more else {"false_alarms": 0.05}) | more)  # type: ignore[arg-type]


def exact_law(records: int, most: float, a: float, cells: int) -> tuple[Any, Any]:
    """The law of Bin(N, p) plus the sum of discrete Laplace variables, by direct convolution of their masses."""
    reach = int(40 / -math.log(a))
    z = np.arange(-reach, reach + 1)
    one = (1 - a) / (1 + a) * a ** np.abs(z)
    law = stats.binom.pmf(np.arange(records + 1), records, most)
    for _ in range(cells):
        law = np.convolve(law, one)
    return np.arange(len(law)) - cells * reach, law


@pytest.mark.parametrize(
    ("records", "share", "tau", "cells", "target"), [(200, 0.1, 0.02, 3, 0.5), (60, 0.4, 0.005, 4, 1.0)]
)
def test_p_values_within_a_radius_are_tails_of_the_exact_law(
    records: int, share: float, tau: float, cells: int, target: float
) -> None:
    """At the edge of the null; one that is shifted by one is caught, and the mean of the e-values is at most 1."""
    noise = LaplaceCounts(2.0 / target)
    most = largest_probability(share, "kl_reverse", tau)
    values, law = exact_law(records, most, noise.base, cells)
    seen = np.flatnonzero(law > 1e-9)
    found = np.array(
        [p_within(share, records, noise, cells, float(values[i]), ball="kl_reverse", radius=tau) for i in seen]
    )
    tails = np.cumsum(law[::-1])[::-1][seen]
    assert found == pytest.approx(tails, rel=1e-7, abs=1e-10)
    assert (found >= tails * (1 - 1e-9)).all()
    shifted = np.cumsum(law[::-1])[::-1][seen + 1]
    assert np.abs(found - shifted).max() > 1e-3
    gained = np.exp([log_evidence(p) for p in found])
    assert float(law[seen] @ gained) <= 1.0
    assert all(law[seen][found <= t].sum() <= t for t in (1e-4, 0.01, 0.05, 0.5))


def test_p_values_hold_where_noise_is_wide() -> None:
    """128 cells at ε = 0.1: a law on a grid of ± 400 wraps around there and gives 0.129 for 0.05."""
    noise, rng = LaplaceCounts(20.0), np.random.default_rng(0)
    most = largest_probability(0.5, "kl_reverse", 0.0005)
    draws = rng.binomial(2000, most, 400) + noise.draw(np.zeros(128), rng, 400).sum(axis=1)
    found = np.array([p_within(0.5, 2000, noise, 128, x, ball="kl_reverse", radius=0.0005) for x in draws[:60]])
    assert stats.kstest(found, "uniform").pvalue > 1e-6
    spread = math.sqrt(128 * 2 * noise.half_variance + 2000 * most * (1 - most))
    at = p_within(0.5, 2000, noise, 128, 2000 * most + 1.645 * spread, ball="kl_reverse", radius=0.0005)
    assert at == pytest.approx(0.05, rel=0.02)


@pytest.mark.parametrize("ball", ["kl", "kl_reverse", "js", "psi", "chi2", "hellinger2", "tv"])
def test_no_law_within_the_radius_gives_a_set_more(ball: Ball) -> None:
    """Against random laws of four cells, moved towards a set until they are at the radius."""
    rng, pi = np.random.default_rng(1), np.array([0.4, 0.3, 0.2, 0.1])
    radius, best = 0.02, 0.0
    most = largest_probability(float(pi[:2].sum()), ball, radius)
    for i in range(60):
        # The extreme law raises a set evenly; the others are random.
        to = pi * [1.4, 1.4, 1e-9, 1e-9] if i == 0 else rng.dirichlet(np.ones(4)) + 1e-9
        to, low, high = to / to.sum(), 0.0, 1.0
        for _ in range(30):
            mid = 0.5 * (low + high)
            q = pi + mid * (to - pi)
            # counts in units of 10^9 records, so that the floor of half a record does not matter
            inside = float(cell_term(ball, pi, 1e9, "table")(1e9 * q).sum()) <= radius
            low, high = (mid, high) if inside else (low, mid)
        best = max(best, float((pi + low * (to - pi))[:2].sum()))
    assert most - 1e-4 < best <= most


def test_p_values_of_no_drift_are_ranks() -> None:
    """Super-uniform at no drift, for whole-number statistics with ties too: 300 windows, by the binomial law, 1e-6."""
    rng, pi, noise = np.random.default_rng(2), np.array([0.9, 0.1]), LaplaceCounts(0.5)
    found = np.array(
        [p_no_drift(pi, 12, noise, rng.multinomial(12, pi) + noise.draw(pi, rng, 1)[0], rng, 99) for _ in range(300)]
    )
    for level in (0.05, 0.2, 0.5):
        assert stats.binom.sf((found <= level).sum() - 1, 300, level) > 1e-6
    far = p_no_drift(pi, 1000, noise, np.array([100.0, 900.0]), rng, 99)
    assert far == 0.01
    same = p_no_drift(np.array([0.5, 0.5]), 4, LaplaceCounts(1e-3), np.array([2.0, 2.0]), rng, 99)
    assert same == 1.0  # the smallest statistic: all simulated ones tie or are above


def test_evidence_is_a_fair_bet() -> None:
    """The mean of e(p) over uniform p, with p = u^40 so that the integral has no pole."""
    mean, _ = integrate.quad(lambda u: math.exp(log_evidence(u**40)) * 40 * u**39, 1e-7, 1.0)
    assert mean == pytest.approx(1.0, rel=1e-6)
    assert log_evidence(1.0) < 0.0 < log_evidence(0.01)


def test_drift_is_found_and_no_drift_is_not() -> None:
    rng, moved = np.random.default_rng(3), PI * np.where(np.arange(10) % 2, 1.3, 0.7)
    session = watch().start(noise=SimulationNoise(1), seed=1)
    quiet = [session.look(rng.multinomial(2000, PI)).alarm for _ in range(10)]
    loud = [session.look(rng.multinomial(2000, moved)).alarm for _ in range(10)]
    assert not any(quiet)
    assert loud[-1]
    with pytest.raises(RefinementError, match="window 21"):
        session.look(rng.multinomial(2000, PI))


def test_run_length_starts_anew_after_an_alarm() -> None:
    session = watch(run_length=10.0).start(noise=SimulationNoise(1), seed=1)
    moved = 200 * np.where(np.arange(10) % 2, 1.5, 0.5)
    found = [session.look(moved) for _ in range(3)]
    assert found[0].alarm
    assert found[0].evidence == pytest.approx(found[1].evidence) == pytest.approx(found[2].evidence)
    assert found[0].evidence == pytest.approx(math.exp(log_evidence(1e-3)))


def test_the_cells_are_chosen_from_earlier_windows() -> None:
    """A window that departs in other cells than those before it is no evidence; cells of its own would be."""
    tilt = np.zeros(10)
    tilt[:5], other = 40.0, np.zeros(10)
    tilt[5:] = -40.0
    other[5:], other[:5] = 100.0, -100.0
    session = watch(within=0.001, divergence="kl_reverse").start(noise=SimulationNoise(1))
    first = session.look(200 + tilt)
    assert (first.p_value, first.evidence, first.alarm) == (1.0, 1.0, False)
    assert session.look(200 + other).p_value > 0.999
    assert session.look(200 + tilt).p_value > 0.999  # the past of both points to the other cells


def test_drift_above_the_radius_alarms_and_below_does_not() -> None:
    moved = PI * np.where(np.arange(10) % 2, 1.2, 0.8)  # KL 0.02
    for within, alarm in ((0.005, True), (0.03, False)):
        session = watch(within=within, divergence="kl_reverse").start(noise=SimulationNoise(4))
        assert [session.look(np.rint(20_000 * moved)).alarm for _ in range(5)][-1] is alarm


def test_dependent_records_are_refused() -> None:
    session = watch(independent=False).start(noise=SimulationNoise(1), seed=1)
    with pytest.raises(InvalidDataError, match="independent"):
        session.look(np.full(10, 20))
    twice = ClientCounts.of_records([0, 0, 1], [0, 0, 1], symbol_count=10, client_count=9)
    with pytest.raises(InvalidDataError, match="more than one record"):
        session.look(twice)
    once = ClientCounts.of_records([0, 1], [0, 1], symbol_count=10, client_count=9)
    session.look(once)
    with pytest.raises(InvalidDataError, match="earlier windows"):
        session.look(ClientCounts.of_records([1, 2], [0, 1], symbol_count=10, client_count=9))
    session.look(ClientCounts.of_records([3, 2], [0, 1], symbol_count=10, client_count=9))
    assert session.looks == 2


def test_the_budget_is_that_of_one_window() -> None:
    plan = watch()
    assert 1.0 - 1e-9 < plan.start().guarantee().epsilon(0.0) <= 1.0
    people = AccountantGraph(Adjacency.REPLACE_ONE).source("people")
    ledger = FilteredLedger(people, PureFilter(1.5, adjacency=Adjacency.REPLACE_ONE))
    session = plan.start(noise=SimulationNoise(1), ledger=ledger, reads=["people"])
    session.look(np.full(10, 20))
    with pytest.raises(BudgetExceededError):
        session.look(np.full(10, 20))
    assert session.looks == 1


def test_a_watch_resumes() -> None:
    plan, data = watch(within=0.001), [200 + 20 * np.arange(-5, 5), np.arange(150, 250, 10)]
    whole, part = plan.start(noise=SimulationNoise(1), seed=5), plan.start(noise=SimulationNoise(1), seed=5)
    assert whole.look(data[0]).p_value == part.look(data[0]).p_value == 1.0
    again = plan.resume(json.loads(json.dumps(part.checkpoint())), noise=SimulationNoise(2))
    assert again.looks == 1
    assert again.look(data[1]).p_value == pytest.approx(whole.look(data[1]).p_value, abs=0.9)
    assert again.looks == 2
    with pytest.raises(InvalidArgumentError, match="checkpoint"):
        watch(within=0.002).resume(part.checkpoint(), noise=SimulationNoise(1))
    with pytest.raises(InvalidArgumentError, match="checkpoint"):
        plan.resume(part.checkpoint() | {"looks": 0}, noise=SimulationNoise(1))


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"false_alarms": None}, "false_alarms"),
        ({"run_length": 100.0, "false_alarms": 0.1}, "false_alarms"),
        ({"false_alarms": 0.0}, "false_alarms"),
        ({"false_alarms": math.nan}, "false_alarms"),
        ({"run_length": 1.0}, "run_length"),
        ({"within": 0.0}, "within"),
        ({"divergence": "wasserstein"}, "divergence"),
        ({"windows": 0}, "windows"),
        ({"simulations": 10}, "simulations"),
        ({"independent": 1}, "independent"),
        ({"epsilon": -1.0}, "epsilon"),
    ],
)
def test_bad_arguments_are_refused(more: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        watch(**more)


def test_each_window_has_simulations_of_its_own_that_are_the_same_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """One set for all windows would make their p-values depend on each other."""
    seen: list[int] = []

    def spied(reference: Any, records: int, noise: Any, counts: Any, rng: np.random.Generator, runs: int) -> float:
        seen.append(int(rng.integers(2**60)))
        return 0.5

    monkeypatch.setattr(drift_watch, "p_no_drift", spied)
    for _ in range(2):
        session = watch(false_alarms=0.01).start(noise=SimulationNoise(1), seed=3)
        for _ in range(4):
            session.look([100] * 10)
    assert len(set(seen[:4])) == 4 and seen[:4] == seen[4:]
