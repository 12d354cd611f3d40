"""Tests of drift watches: coverage of intervals, budgets, the cost of alarms, and resuming."""

from __future__ import annotations

import itertools
import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from hockeystick.accounting import (
    AccountantGraph,
    Adjacency,
    BudgetExceededError,
    FilteredLedger,
    InvalidArgumentError,
    PureFilter,
    RefinementError,
)
from hockeystick.learners.divergence.client_counts import ClientCounts
from hockeystick.learners.divergence.count_logarithms import AssumedCounts, Harmonic, Smoothed
from hockeystick.learners.divergence.drift.alarms import DriftAlarms
from hockeystick.learners.divergence.drift.count_noise import LaplaceCounts
from hockeystick.learners.divergence.drift.methods import choose_drift_method
from hockeystick.learners.divergence.drift.monitor import DriftMonitor
from hockeystick.learners.divergence.drift.watch import Scope
from hockeystick.learners.divergence.intervals import Spread, interval, largest_divergence, variance_factor
from hockeystick.learners.divergence.trusted import Law
from hockeystick.learners.divergence.variance import kl, parabola
from hockeystick.mechanisms import AboveThreshold, Gaussian, Laplace
from hockeystick.mechanisms.randomness.noise import SimulationNoise
from hockeystick.mechanisms.thresholds.threshold_stream import StreamHaltedError

PI = np.array([0.4, 0.3, 0.2, 0.1])
K, CLIENTS, EACH = len(PI), 50, 8
DRIFTED = np.array([0.1, 0.2, 0.3, 0.4])


def drawn(p: np.ndarray[Any, Any], seed: int) -> ClientCounts:
    symbols = np.random.default_rng(seed).choice(K, CLIENTS * EACH, p=p)
    return ClientCounts.of_records(np.repeat(np.arange(CLIENTS), EACH), symbols, symbol_count=K)


def truth(data: ClientCounts, a: float = 1.0) -> float:
    return kl(PI, (data.total() + a) / (data.records().sum() + a * K))


def monitor(**more: Any) -> DriftMonitor:
    known: dict[str, Any] = {
        "reference": PI,
        "threshold": 0.2,
        "epsilon": 1.0,
        "delta": 1e-6,
        "windows": 4,
        "method": "priest",
    }
    return DriftMonitor(**known | more)


def small(records: list[list[int]]) -> ClientCounts:
    who = np.repeat(np.arange(len(records)), [len(own) for own in records])
    return ClientCounts.of_records(
        who, np.concatenate([np.array(own, dtype=np.int64) for own in records]), symbol_count=3
    )


# --- intervals -------------------------------------------------------------------------------------------------------

RUNS = 40_000


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
@pytest.mark.parametrize("p", [PI, DRIFTED])
def test_intervals_cover_ninety_five_per_cent(law: Law, p: np.ndarray[Any, Any]) -> None:
    """Within one per cent, which is nine standard deviations: a false alarm has probability below 1e-18.

    Intervals of half the noise are caught.
    """
    watch, data = monitor(noise=law), drawn(p, 1)
    average = watch.average(data.records(), np.random.default_rng(0))
    found = watch.simulate([average], [data], np.random.default_rng(2), RUNS)[:, 0]

    low, high = watch.interval(average, found)
    assert abs(((low <= truth(data)) & (truth(data) <= high)).mean() - 0.95) < 0.01
    half = watch.estimator(average).mechanism
    spread = Spread(
        noise=Laplace(half.scale / 2) if isinstance(half, Laplace) else Gaussian(half.sigma / 2),
        largest=largest_divergence(average),
        factor=0.0,
        samples=1,
    )
    low, high = interval(found, spread, 0.025)
    assert ((low <= truth(data)) & (truth(data) <= high)).mean() < 0.94


@pytest.mark.statistical
@pytest.mark.parametrize("lam", [pytest.param(0.0, marks=pytest.mark.deep), 0.5])
def test_intervals_cover_drawn_symbols_too(lam: float) -> None:
    """Coins and noise are drawn anew for each of 200 intervals, of which at least 95 % - 9 % must cover.

    False alarm: 3e-7, by the binomial law. Intervals by the noise alone are caught: more than a fifth of them does not
    cover.
    """
    pi = 1.0 / np.arange(1.0, 301.0)
    pi /= pi.sum()
    watch = monitor(reference=pi, samples=60, multiplier=lam, epsilon=30.0)
    rng = np.random.default_rng(4)
    symbols = rng.choice(300, CLIENTS * EACH, p=pi[::-1])
    data = ClientCounts.of_records(np.repeat(np.arange(CLIENTS), EACH), symbols, symbol_count=300)
    known = kl(pi, (data.total() + 1.0) / (CLIENTS * EACH + 300.0))
    hits, misses, runs = 0, 0, 200
    for _ in range(runs):
        average = watch.average(data.records(), rng)
        found, noise = watch.simulate([average], [data], rng, 1)[0, 0], watch.estimator(average).mechanism
        low, high = watch.interval(average, found)
        hits += bool(low <= known <= high)
        misses += abs(found - known) > Spread(noise=noise, largest=9.0, factor=0.0, samples=1).reach(0.025)
    assert hits >= 0.86 * runs
    assert misses >= 0.2 * runs


def test_as_many_draws_as_symbols_ask_for_all() -> None:
    """So they are as good as no samples at all: weights of the reference, and no width for the draws."""
    data = drawn(DRIFTED, 3)
    whole, sampled = monitor(), monitor(samples=K, multiplier=1.0)
    averages = [each.average(data.records(), np.random.default_rng(1)) for each in (whole, sampled)]
    assert all(each.whole and (each.weights() == PI).all() for each in averages)
    assert averages[1].value(data, 1.0) == pytest.approx(truth(data), rel=1e-12)
    ends = [np.array(each.interval(own, [0.3])) for each, own in zip((whole, sampled), averages, strict=True)]
    assert ends[0] == pytest.approx(ends[1], rel=1e-12)
    assert not monitor(samples=K - 1).average(data.records(), np.random.default_rng(1)).whole


@pytest.mark.parametrize("ratio", [0.01, 0.5, 1.0, 3.0, 40.0])
@pytest.mark.every(2)
def test_tails_of_laplace_and_normal_noise_together(ratio: float) -> None:
    """Against quadrature over the normal part."""
    divergence = np.array(1.0)
    spread = Spread(noise=Laplace(1.0 / ratio), largest=9.0, factor=2.0, samples=1)  # deviation 1 at D = 1
    for off in (-2.0, 0.0, 0.3, 1.7, 4.0):

        def integrand(z: float, off: float = off) -> float:
            return float(stats.norm.pdf(z) * stats.laplace.sf((off - z) * ratio))

        exact = integrate.quad(integrand, -12.0, 12.0, points=[off] if abs(off) < 12 else None, limit=200)[0]
        assert spread.tail(np.array(off), divergence) == pytest.approx(exact, rel=1e-6, abs=1e-12)


laws = st.lists(st.integers(0, 60), min_size=K, max_size=K).filter(lambda counts: sum(counts) > 0)


@pytest.mark.statistical
@given(counts=laws, lam=st.floats(0.0, 3.0), a=st.sampled_from([0.01, 0.5, 1.0, 4.0]), tilt=st.floats(0.01, 0.97))
def test_the_public_bounds_hold(counts: list[int], lam: float, a: float, tilt: float) -> None:
    """Of the variance, against its exact parabola, and of the divergence; for every data set of these sizes."""
    pi = np.array([tilt, *np.full(K - 1, (1.0 - tilt) / (K - 1))])
    n = sum(counts)
    watch = monitor(reference=pi / math.fsum(pi), samples=7, multiplier=lam, logarithm=Smoothed(a))
    average = watch.average(np.array([n]), np.random.default_rng(0))
    p = (np.array(counts) + a) / (n + a * K)
    exact, divergence = (
        parabola(watch.reference, p / p.sum(), samples=1).variance(lam),
        kl(watch.reference, p / p.sum()),
    )

    factor = variance_factor(average, lam)
    assert exact <= (factor * divergence - divergence**2) * (1 + 1e-9) + 1e-12
    assert divergence <= largest_divergence(average) * (1 + 1e-12)


@pytest.mark.statistical
@given(
    estimates=st.lists(st.floats(-5, 5), min_size=1, max_size=5), factor=st.floats(0.0, 20.0), scale=st.floats(0.01, 2)
)
def test_intervals_are_within_the_possible_range(estimates: list[float], factor: float, scale: float) -> None:
    for noise in (Laplace(scale), Gaussian(scale)):
        spread = Spread(noise=noise, largest=2.5, factor=factor, samples=100)
        low, high = interval(np.array(estimates), spread, 0.025)
        alone = interval(np.array(estimates), Spread(noise=noise, largest=2.5, factor=0.0, samples=1), 0.025)
        assert ((low >= 0.0) & (low <= high) & (high <= 2.5)).all()
        assert (low <= alone[0] + 1e-6).all() and (high >= alone[1] - 1e-6).all()  # a second error widens it
        where = np.linspace(low, high, 9)[1:-1]
        inside = (low < high) & (np.array(estimates) > 0.0) & (np.array(estimates) < 2.5)
        plausible = spread.tail(np.abs(np.array(estimates) - where), where) >= 0.025 * (1 - 1e-6)
        assert plausible[:, inside].all()


# --- budgets ---------------------------------------------------------------------------------------------------------


@pytest.mark.statistical
@settings(max_examples=15)
@given(
    epsilon=st.floats(0.1, 5.0),
    delta=st.sampled_from([0.0, 1e-6]),
    windows=st.sampled_from([1, 2, 30]),
    scope=st.sampled_from(["record", "client"]),
)
def test_the_whole_watch_is_within_its_budget(epsilon: float, delta: float, windows: int, scope: Scope) -> None:
    for law in ("auto", "laplace", "gaussian"):
        if law == "gaussian" and delta == 0.0:
            continue
        watch = monitor(epsilon=epsilon, delta=delta, windows=windows, scope=scope, noise=law)
        certified = watch.graph().guarantee().epsilon(delta).upper
        assert certified <= epsilon
        assert certified >= 0.95 * epsilon


@pytest.mark.statistical
def test_windows_share_a_budget_only_for_clients() -> None:
    """One record is in one window; a client's are in all, which costs more, and least by the better law."""
    alone, shared = monitor(noise="gaussian"), monitor(noise="gaussian", scope="client", group=1)
    data = small([[0], [1], [2]])
    plan = DriftMonitor(
        method="priest", reference=PI[:3] / PI[:3].sum(), threshold=0.1, epsilon=1.0, windows=1
    ).average(data.records(), np.random.default_rng(0))
    first, second = (watch.estimator(plan).noise_deviation for watch in (alone, shared))
    assert second == pytest.approx(2.0 * first, rel=1e-6)  # the square root of four windows
    both = [monitor(scope="client", windows=w).estimator(plan).mechanism for w in (1, 40)]
    assert isinstance(both[0], Laplace) and isinstance(both[1], Gaussian)


@pytest.mark.statistical
@pytest.mark.parametrize("samples", [None, 2])
def test_noise_is_for_all_that_a_client_can_change(samples: int | None) -> None:
    """By enumeration of one client's two records; noise for one record alone would be too little."""
    watch = monitor(reference=[0.6, 0.3, 0.1], scope="client", group=2, samples=samples, logarithm=Smoothed(0.5))
    largest = 0.0
    sets = [list(itertools.combinations_with_replacement(range(3), size)) for size in (3, 2)]
    for others in sets[0]:
        for own, new in itertools.product(sets[1], repeat=2):
            data = [small([list(mine), [others[0]], list(others[1:])]) for mine in (own, new)]
            average = watch.average(data[0].records(), np.random.default_rng(5))
            values = [average.value(each, watch.multiplier) for each in data]
            largest = max(largest, abs(values[0] - values[1]))
    assert largest <= watch.estimator(average).mechanism.sensitivity * (1 + 1e-12)
    assert largest > average.sensitivity(watch.multiplier)


def test_looks_are_charged_and_end_with_the_budget() -> None:
    watch, data = monitor(windows=2), drawn(PI, 1)
    session = watch.start(noise=SimulationNoise(1))
    first, second = (session.look(data, np.random.default_rng(i)) for i in range(2))
    assert (first.window, second.window, session.looks) == (0, 1, 2)
    assert first.simulated and first.estimate != second.estimate
    with pytest.raises(RefinementError, match="window 3 of a watch whose budget is for 2"):
        session.look(data, np.random.default_rng(0))
    averages = [watch.average(data.records(), np.random.default_rng(0))] * 3
    with pytest.raises(InvalidArgumentError, match="more windows than the 2"):
        watch.simulate(averages, [data] * 3, np.random.default_rng(0), 1)
    assert session.guarantee().epsilon(1e-6).upper <= 1.0
    assert "look" in session.guarantee().assumptions[-1]  # simulated, and says so


@pytest.mark.parametrize(("scope", "spent"), [("record", 1.0), ("client", 2.0)])
def test_the_odometer_knows_whether_windows_are_disjoint(scope: Scope, spent: float) -> None:
    session = monitor(delta=0.0, scope=scope, group=1 if scope == "record" else EACH, epsilon=4.0).start(
        noise=SimulationNoise(1)
    )
    for i in range(2):
        session.look(drawn(PI, i), np.random.default_rng(i))
    assert session.reading(1e-9).epsilon == pytest.approx(4.0 if scope == "record" else spent, rel=1e-6)


def test_an_outer_budget_may_end_it_before() -> None:
    watch, data = monitor(delta=0.0, windows=9, epsilon=0.5), drawn(PI, 1)
    outer = FilteredLedger(
        AccountantGraph(Adjacency.REPLACE_ONE).source("people"), PureFilter(1.0, adjacency=Adjacency.REPLACE_ONE)
    )
    session = watch.start(noise=SimulationNoise(1), ledger=outer, reads=["people"])
    for i in range(2):
        session.look(data, np.random.default_rng(i))
    with pytest.raises(BudgetExceededError):
        session.look(data, np.random.default_rng(0))
    assert session.looks == 2 and outer.budget.remaining()["epsilon"] < 1e-9


def test_findings_follow_from_the_intervals() -> None:
    watch = monitor(epsilon=50.0)
    session = watch.start(noise=SimulationNoise(1))
    found = [session.look(drawn(p, 1), np.random.default_rng(0)).finding for p in (DRIFTED, PI)]
    assert found == ["above", "below"]
    vague = monitor(epsilon=0.01).start(noise=SimulationNoise(1)).look(drawn(PI, 1), np.random.default_rng(0))
    assert vague.finding == "unclear" and vague.low == 0.0 < vague.high <= math.log(0.4 * 404 / 1.0)


# --- states ----------------------------------------------------------------------------------------------------------


def test_a_watch_goes_on_from_its_checkpoint() -> None:
    watch, data = monitor(windows=3), drawn(PI, 1)
    session = watch.start(noise=SimulationNoise(1))
    session.look(data, np.random.default_rng(0))
    state = json.loads(json.dumps(session.checkpoint()))

    again = monitor(windows=3).resume(state, noise=SimulationNoise(2))
    assert again.looks == 1
    assert [again.look(data, np.random.default_rng(0)).window for _ in range(2)] == [1, 2]
    with pytest.raises(RefinementError):
        again.look(data, np.random.default_rng(0))
    assert again.reading(1e-6) == session.reading(1e-6)  # disjoint windows


def test_a_checkpoint_contains_no_data() -> None:
    states = []
    for p in (PI, DRIFTED):
        session = monitor().start(noise=SimulationNoise(1))
        session.look(drawn(p, 1), np.random.default_rng(0))
        states.append(session.checkpoint())
    assert states[0] == states[1]


def test_bad_checkpoints_are_refused() -> None:
    session = monitor().start(noise=SimulationNoise(1))
    state = session.checkpoint()
    nearly = PI + [1e-10, -1e-10, 0, 0]
    for other in (monitor(windows=5), monitor(epsilon=2.0), monitor(reference=nearly)):
        with pytest.raises(InvalidArgumentError, match="other parameters"):
            other.resume(state, noise=SimulationNoise(1))
    with pytest.raises(InvalidArgumentError, match="changed"):
        monitor().resume(state | {"looks": 3}, noise=SimulationNoise(1))
    with pytest.raises(InvalidArgumentError, match="drift monitor"):
        monitor().resume({"looks": 3}, noise=SimulationNoise(1))


# --- alarms ----------------------------------------------------------------------------------------------------------


def alarms(**more: Any) -> DriftAlarms:
    known: dict[str, Any] = {"reference": PI, "threshold": 0.2, "epsilon": 1.0, "method": "priest"}
    return DriftAlarms(**known | more)


@pytest.mark.parametrize(("samples", "lam"), [(None, 0.0), (2, 0.0), (2, 2.0)])
def test_queries_change_by_one_at_most(samples: int | None, lam: float) -> None:
    watch = alarms(reference=[0.6, 0.3, 0.1], samples=samples, multiplier=lam)
    largest = 0.0
    for records in itertools.combinations_with_replacement(range(3), 4):
        data = small([list(records)])
        here = watch.query(data, np.random.default_rng(3))
        for other in data.neighbours():
            largest = max(largest, abs(here - watch.query(other, np.random.default_rng(3))))
    assert 0.5 < largest <= 1.0


def test_a_whole_watch_for_alarms_is_private() -> None:
    """By the exact law of the bits, for neighbours in all windows; queries that are not scaled down cost more."""
    pair = [small([[own], [1], [1], [1]]) for own in (0, 1)]
    known: dict[str, Any] = {"reference": [0.6, 0.3, 0.1], "scope": "client", "logarithm": Smoothed(0.05), "alarms": 2}
    values = [alarms(threshold=0.0, **known).average([1] * 4, np.random.default_rng(0)).value(d, 0.0) for d in pair]
    watch = alarms(threshold=sum(values) / 2.0, **known)
    here, there = (watch.query(each, np.random.default_rng(0)) for each in pair)
    queries = np.array([[here] * 3 + [there] * 2, [there] * 3 + [here] * 2])
    rows = [bits for bits in itertools.product([0, 1], repeat=5) if sum(bits) < 2 or (sum(bits) == 2 and bits[-1])]

    mechanism = watch.mechanism()
    assert isinstance(mechanism, AboveThreshold)

    def loss(first: np.ndarray[Any, Any], second: np.ndarray[Any, Any]) -> float:
        return float(np.abs(mechanism.log_likelihood_ratio(np.array(rows), first, second)).max())

    assert abs(here - there) <= 1.0
    assert 0.3 < loss(*queries) <= watch.graph().guarantee().epsilon(0.0).upper <= 1.0
    assert loss(*(4.0 * queries)) > 1.0


def test_alarms_come_where_drift_is() -> None:
    watch = alarms(epsilon=60.0, alarms=2)
    session = watch.start(noise=SimulationNoise(1))
    found = [session.look(drawn(p, 1), np.random.default_rng(0)) for p in (PI, DRIFTED, PI, DRIFTED)]
    assert found == [False, True, False, True] and session.halted
    with pytest.raises(StreamHaltedError):
        session.look(drawn(PI, 1), np.random.default_rng(0))
    bits = watch.simulate([drawn(p, 1) for p in (PI, DRIFTED)], np.random.default_rng(0), np.random.default_rng(1), 50)
    assert (bits == [0, 1]).mean() > 0.99


@pytest.mark.statistical
def test_the_cost_of_alarms_does_not_grow_with_windows() -> None:
    """Where a client is in all windows, estimates of many cost more noise than one alarm."""
    assert (
        alarms(scope="client", group=8).event()
        == alarms().event()
        == AboveThreshold.calibrated(0.0, epsilon=1.0).event()
    )
    noise = [monitor(scope="client", group=8, windows=w)._mechanism for w in (10, 60)]
    assert isinstance(noise[0], Gaussian) and isinstance(noise[1], Gaussian) and noise[1].sigma > 2 * noise[0].sigma


# --- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        {"threshold": -0.1},
        {"threshold": math.nan},
        {"epsilon": 0.0},
        {"delta": 1.5},
        {"windows": 0},
        {"windows": True},
        {"confidence": 1.0},
        {"scope": "all"},
        {"group": 2},
        {"multiplier": 1.0},
        {"samples": 0},
        {"logarithm": Harmonic()},
        {"logarithm": 1.0},
        {"noise": "cauchy"},
        {"noise": "gaussian", "delta": 0.0},
        {"reference": [0.5, 0.5, 0.0, 0.0]},
    ],
)
def test_invalid_monitors_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError):
        monitor(**wrong)


def test_data_that_do_not_fit_are_refused() -> None:
    session = monitor(scope="client", group=2).start(noise=SimulationNoise(1))
    with pytest.raises(InvalidArgumentError, match="more than 2 records"):
        session.look(drawn(PI, 1), np.random.default_rng(0))
    with pytest.raises(InvalidArgumentError):
        session.look("data", np.random.default_rng(0))  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError):
        alarms().query("data", np.random.default_rng(0))  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError):
        alarms(alarms=0)
    assert session.looks == 0


def test_assumed_counts_are_stated_as_an_assumption() -> None:
    watch = monitor(logarithm=AssumedCounts(2), epsilon=50.0)
    assert "every count" in " ".join(watch.graph().guarantee().assumptions)
    look = watch.start(noise=SimulationNoise(1)).look(drawn(PI, 1), np.random.default_rng(0))
    assert look.high <= math.log(0.4 * 400 / 2)


# --- by histogram ----------------------------------------------------------------------------------------------------


def test_a_monitor_reads_histograms_unless_asked_for_something_else() -> None:
    by_default = DriftMonitor(reference=PI, threshold=0.2, epsilon=1.0, windows=4)
    look = by_default.start(noise=SimulationNoise(1)).look(drawn(DRIFTED, 1), np.random.default_rng(1))
    exact = kl(PI, drawn(DRIFTED, 1).total() / (CLIENTS * EACH))
    assert look.low <= exact <= look.high
    assert (look.finding, look.simulated) == ("above", True)
    assert (
        look.noise_deviation
        < 0.1 * monitor().estimator(monitor().average(np.full(CLIENTS, EACH), np.random.default_rng(0))).noise_deviation
    )
    assert look.histogram is not None
    again = by_default.look_at(look.histogram, ("psi", "kl"))
    assert again["kl"].estimate == look.estimate
    for more in ({"samples": 3}, {"noise": "gaussian", "delta": 1e-6}, {"logarithm": Smoothed(0.5)}):
        assert not DriftMonitor(reference=PI, threshold=0.2, epsilon=1.0, windows=4, **more).by_histogram
        with pytest.raises(InvalidArgumentError):
            DriftMonitor(reference=PI, threshold=0.2, epsilon=1.0, windows=4, method="histogram", **more)
    with pytest.raises(InvalidArgumentError, match="estimator of one number"):
        by_default.estimator(monitor().average(np.full(CLIENTS, EACH), np.random.default_rng(0)))


@pytest.mark.parametrize(("scope", "windows", "delta"), [("record", 5, 0.0), ("client", 5, 0.0), ("client", 400, 1e-6)])
def test_histograms_of_all_windows_are_within_the_budget(scope: Scope, windows: int, delta: float) -> None:
    watch = DriftMonitor(
        reference=PI,
        threshold=0.2,
        epsilon=1.0,
        delta=delta,
        windows=windows,
        scope=scope,
        group=EACH if scope == "client" else 1,
    )
    assert 0.999 < watch.graph().guarantee().epsilon(delta).upper <= 1.0
    noisy = watch.histogram(drawn(PI, 1).total(), SimulationNoise(1))
    moved = 2 * EACH * windows if scope == "client" else 2
    assert isinstance(noisy.noise, LaplaceCounts)
    assert noisy.noise.scale == pytest.approx(moved, rel=1e-9) or (delta > 0.0 and noisy.noise.scale < 0.5 * moved)
    if scope == "client":
        with pytest.raises(InvalidArgumentError, match="more than 1 records"):
            DriftMonitor(reference=PI, threshold=0.2, epsilon=1.0, windows=1, scope="client").start().look(
                drawn(PI, 1), np.random.default_rng(0)
            )


def test_alarms_by_histogram_cost_one_window_and_end() -> None:
    alarms = DriftAlarms(reference=PI, threshold=0.05, epsilon=1.0, alarms=1)
    assert alarms.by_histogram
    assert not DriftAlarms(reference=PI, threshold=0.05, epsilon=1.0, scope="client", group=EACH).by_histogram
    assert 0.999 < alarms.graph().guarantee().epsilon(0.0).upper <= 1.0
    session, rng = alarms.start(noise=SimulationNoise(1)), np.random.default_rng(0)
    found = [session.look(drawn(p, 1), rng) for p in (PI, PI, DRIFTED)]
    assert found == [False, False, True]
    assert session.halted
    with pytest.raises(StreamHaltedError):
        session.look(drawn(PI, 1), rng)
    rows = alarms.simulate([drawn(p, 1) for p in (PI, DRIFTED, PI)], rng, rng, 2)
    assert rows.tolist() == [[0, 1, -1], [0, 1, -1]]


def test_the_method_is_chosen_by_public_sizes() -> None:
    found = choose_drift_method(np.full(10, 0.1), records=20_000, epsilon=1.0)
    assert found.method == "histogram" and found.errors["histogram"] < 1e-4 < found.errors["priest"]
    small = choose_drift_method(np.full(256, 1 / 256), records=1000, epsilon=1.0)
    assert small.method == "priest" and small.errors["priest"] < small.errors["histogram"]
    for bad in ({"records": 0}, {"epsilon": math.nan}, {"group": 0}):
        with pytest.raises(InvalidArgumentError):
            choose_drift_method(np.full(10, 0.1), **({"records": 100, "epsilon": 1.0} | bad))
