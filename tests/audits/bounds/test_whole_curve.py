"""Tests of bounds on whole curves: exact levels in rational arithmetic, false alarms and power by simulation,
conversions."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from hockeystick import accounting
from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.losses import gaussian_profile
from hockeystick.audits import Claim, Region, clopper_pearson, frontier
from hockeystick.audits.bounds.order_statistics import crossing_probability, equal_level, lower_bounds
from hockeystick.audits.bounds.whole_curve import CurveBounds, _band, _renyi, cell_curve_bounds, curve_bounds

RARE = 1e-6  # false-alarm rate of each statistical test
SEED = 20261


def allowed(alpha: float, runs: int) -> int:
    """The number of misses that is exceeded with probability 1e-6."""
    return int(stats.binom.isf(RARE, runs, alpha))


def exact_crossing(low: list[Fraction]) -> Fraction:
    """1 - n! times the volume of l_k <= u_1 <= ... <= u_k <= ... <= 1, by integrating polynomials one after another."""
    polynomial, factorial = [Fraction(1)], 1
    for k, start in enumerate(low, 1):
        integral = [Fraction(0), *(c / (i + 1) for i, c in enumerate(polynomial))]
        integral[0] = -sum((c * start**i for i, c in enumerate(integral)), Fraction(0))
        polynomial, factorial = integral, factorial * k
    return 1 - factorial * sum(polynomial, Fraction(0))


@settings(max_examples=40)
@given(st.lists(st.floats(0, 0.999), min_size=1, max_size=9))
def test_the_chance_of_a_crossing_is_the_rational_one(values: list[float]) -> None:
    low = sorted(values)
    exact = float(exact_crossing([Fraction(x) for x in low]))

    found = crossing_probability(np.array(low))

    assert exact * (1 - 1e-13) <= found <= exact * (1 + 1e-8) + 1e-20


@pytest.mark.parametrize("alpha", [0.05, 1e-3, 1e-12])
@pytest.mark.parametrize("n", [1, 2, 12, 40])
def test_the_level_of_the_band_is_exact(n: int, alpha: float) -> None:
    low = lower_bounds(np.arange(1, n + 1), n, equal_level(n, alpha))

    missed = float(exact_crossing([Fraction(x) for x in low.tolist()]))

    assert 0.99 * alpha * (1 if n > 1 else 1 - 1e-9) <= missed <= alpha


@pytest.mark.parametrize("n", [50, pytest.param(1000, marks=pytest.mark.statistical)])
def test_order_statistics_cross_the_band_at_the_stated_rate(n: int) -> None:
    runs, alpha = 2_000_000 // n, 0.05
    band = lower_bounds(np.arange(1, n + 1), n, equal_level(n, alpha))
    sample = np.sort(np.random.default_rng(SEED).random((runs, n)), axis=1)

    crossed = int((sample < band).any(axis=1).sum())

    assert stats.binom.isf(1 - RARE / 2, runs, 0.99 * alpha) <= crossed <= stats.binom.isf(RARE / 2, runs, alpha)


def test_local_levels_that_are_not_corrected_are_crossed_too_often() -> None:
    band = lower_bounds(np.arange(1, 51), 50, 0.05)
    sample = np.sort(np.random.default_rng(SEED).random((5000, 50)), axis=1)

    assert (sample < band).any(axis=1).sum() > allowed(0.05, 5000)


def gaussian_truth(mu: float) -> CurveBounds:
    """The bounds that perfect knowledge of the probabilities of all thresholds would give."""
    t = np.linspace(-4.0, 6.0, 2001)
    p, q = stats.norm.sf(t - mu)[:, None], stats.norm.sf(t)[:, None]
    none = np.zeros((len(t), 2), dtype=np.int64)
    return CurveBounds(0.999, "band", (0, 0), np.ones(len(t), dtype=np.int64), t, none, p, q)


@pytest.mark.parametrize("mu", [1.0, *(pytest.param(mu, marks=pytest.mark.statistical) for mu in (0.3, 2.0))])
def test_perfect_knowledge_gives_back_the_curve(mu: float) -> None:
    bounds = gaussian_truth(mu)

    assert bounds.mu() == pytest.approx(mu, rel=1e-7)
    assert bounds.total_variation() == pytest.approx(math.erf(mu / math.sqrt(8)), rel=1e-4)
    for epsilon in (0.1, 1.0, 3.0):
        exact = math.exp(gaussian_profile.log_delta(mu, epsilon))
        assert exact * 0.999 - 1e-8 <= bounds.delta(epsilon) <= exact + 1e-12
    for delta in (1e-1, 1e-3, 1e-5):
        exact = accounting.epsilon(accounting.Gaussian(1 / mu), delta).upper
        assert exact - 1e-3 <= bounds.epsilon(delta) <= exact
    for order in (1.0, 1.5, 2.0, 10.0):
        assert 0.4 * order * mu**2 / 2 <= bounds.renyi(order) <= order * mu**2 / 2 + 1e-9
    assert 0.75 * mu**2 / 2 <= bounds.rho() <= mu**2 / 2 + 1e-9
    fpr, fnr = bounds.tradeoff()
    assert np.all(fnr >= stats.norm.cdf(stats.norm.isf(fpr) - mu) - 1e-12)
    assert not bounds.refutes(Claim.gdp(1.001 * mu))
    assert not bounds.refutes(Claim.zcdp(mu**2 / 2))
    assert bounds.refutes(Claim.gdp(0.98 * mu))


@pytest.mark.parametrize("order", [1.0, 1.0 + 1e-9, 1.3, 2.0, 30.0, 1e4, math.inf])
def test_the_divergence_of_two_coins_is_the_closed_form(order: float) -> None:
    p, q = np.array([[0.6]]), np.array([[0.2]])
    a = min(max(order, 1 + 1e-5), 1e4)
    sums = (
        [(x**a * y ** (1 - a) + (1 - x) ** a * (1 - y) ** (1 - a)) for x, y in ((0.6, 0.2), (0.2, 0.6))]
        if a < 100
        else []
    )
    expected = [math.log(s) / (a - 1) for s in sums] or [math.log(3.0), math.log(2.0)]

    found = [float(way[0, 0]) for way in _renyi(p, q, order)]

    assert found == pytest.approx(expected, rel=1e-3 if a > 100 else 1e-4)
    assert float(_renyi(q, p, order)[0][0, 0]) == 0.0


@pytest.mark.statistical
@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.floats(0, 1), st.floats(1e-9, 1)), min_size=1, max_size=6),
    st.floats(0, 1),
    st.floats(0, 1),
    st.floats(0, 20),
    st.floats(0, 20),
)
def test_bounds_are_monotone_and_ordered(
    pairs: list[tuple[float, float]], delta: float, more: float, epsilon: float, further: float
) -> None:
    p, q = (np.array(side)[:, None] for side in zip(*pairs, strict=True))
    size = len(pairs)
    bounds = CurveBounds(
        0.99, "band", (9, 9), np.ones(size, dtype=np.int64), np.zeros(size), np.zeros((size, 2), dtype=np.int64), p, q
    )

    assert bounds.epsilon(min(1.0, delta + more)) <= bounds.epsilon(delta)
    assert bounds.delta(epsilon + further) <= bounds.delta(epsilon) <= bounds.total_variation()
    assert bounds.delta(bounds.epsilon(delta) * (1 + 1e-9) + 1e-9) <= delta + 1e-9
    assert bounds.renyi(1.0) <= bounds.renyi(1.5) + 1e-12 <= bounds.renyi(5.0) + 2e-12
    assert bounds.rho() >= bounds.renyi(2.0) / 2 * (1 - 1e-2)
    fpr, fnr = bounds.tradeoff()
    assert (fpr[0], fnr[-1]) == (0.0, 0.0)
    assert (np.diff(fpr) > 0).all() and (np.diff(fnr) <= 0).all()
    slopes = np.diff(fnr) / np.diff(fpr)
    assert (np.diff(slopes) >= -1e-9 * np.abs(slopes[1:])).all()
    for x, y in pairs:
        assert np.interp(y, fpr, fnr) <= 1 - x + 1e-12


Sample = Callable[[np.random.Generator, tuple[int, ...]], tuple[np.ndarray, np.ndarray]]


def gaussian(rng: np.random.Generator, size: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    return rng.standard_normal(size), 1 + rng.standard_normal(size)


def laplace(rng: np.random.Generator, size: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    return rng.laplace(size=size), 1 + rng.laplace(size=size)


def response(rng: np.random.Generator, size: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    keep = math.e / (1 + math.e)
    return (rng.random(size) >= keep).astype(float), (rng.random(size) < keep).astype(float)


LAPLACE, RESPONSE = accounting.Laplace(1.0), accounting.PureDP(1.0)
TIGHT: dict[str, tuple[Sample, accounting.PrivacyEvent, float, float]] = {
    "gaussian": (gaussian, accounting.Gaussian(1.0), 1.0, 0.5),
    "laplace": (laplace, LAPLACE, 1.1, LAPLACE.zcdp_rho()),
    "response": (response, RESPONSE, 2 * float(stats.norm.ppf(math.e / (1 + math.e))), RESPONSE.zcdp_rho()),
}


def false(bounds: CurveBounds, event: accounting.PrivacyEvent, mu: float, rho: float, truth: dict[str, Any]) -> bool:
    """Returns whether any statement about a mechanism with exactly this event is wrong."""
    slack = 1e-9
    return (
        any(bounds.epsilon(delta) > epsilon + slack for delta, epsilon in truth["epsilon"])
        or any(bounds.delta(epsilon) > delta + slack for epsilon, delta in truth["delta"])
        or bounds.mu() > mu + slack
        or bounds.rho() > rho + slack
        or bounds.renyi(2.0) > truth["renyi"] + slack
        or bounds.refutes(truth["claim"])
    )


def facts(event: accounting.PrivacyEvent) -> dict[str, Any]:
    return {
        "epsilon": [(d, accounting.epsilon(event, d).upper) for d in (0.0, 1e-3, 1e-2, 0.1)],
        "delta": [(e, accounting.delta(event, e).upper) for e in (0.0, 0.3, 1.0, 1.5)],
        "renyi": float(event.rdp(np.array([2.0]))[0]),
        "claim": Claim.curve(event, 1e-3),
    }


def alone(bounds: CurveBounds, i: int) -> CurveBounds:
    part = ("direction", "threshold", "count", "p_low", "q_high")
    return evolve(bounds, **{name: getattr(bounds, name)[i : i + 1] for name in part})


CUTS = np.array([-1.5, -0.75, -0.25, 0.25, 0.5, 0.75, 1.25, 1.75, 2.5])


def tables(sample: Sample, runs: int, n: int, rng: np.random.Generator) -> np.ndarray:
    """Counts of fixed cells, shape (runs, 2, cells)."""
    size = len(CUTS) + 1
    rows = np.arange(runs)[:, None] * size
    sides = [np.searchsorted(CUTS, side, side="right") + rows for side in sample(rng, (runs, n))]
    return np.stack([np.bincount(side.ravel(), minlength=runs * size).reshape(runs, size) for side in sides], axis=1)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("mechanism", "method"),
    [
        pytest.param(name, how, marks=[] if (name == "gaussian") == (how == "joint") else [pytest.mark.deep])
        for name in TIGHT
        for how in ("joint", "band")
    ],
)
def test_all_statements_about_a_tight_mechanism_hold_together(mechanism: str, method: str) -> None:
    sample, event, mu, rho = TIGHT[mechanism]
    """False alarm 1e-6; a level of 0.135 instead of 0.1 would be seen with probability 0.99."""
    runs, alpha, rng = 5000, 0.1, np.random.default_rng(SEED)
    pilot = tables(sample, 1, 200, rng)[0] if method == "joint" else None
    drawn = tables(sample, runs, 30, rng)
    plan = cell_curve_bounds(drawn[0], pilot, confidence=1 - alpha)  # its events are those of all runs
    events = list(zip(plan.direction.tolist(), plan.threshold.astype(int).tolist(), strict=True))
    above = drawn[..., ::-1].cumsum(axis=-1)[..., ::-1]
    inside = [above[..., cell] if side == 1 else 30 - above[..., cell] for side, cell in events]
    happened = np.stack([own[:, [side, 1 - side]] for own, (side, _) in zip(inside, events, strict=True)], axis=1)
    truth, wrong, known = facts(event), 0, dict[tuple[int, ...], bool]()
    for counts, by_event in zip(drawn, happened, strict=True):
        # each statement is the best that any one event gives: one of all is wrong if and only if that of some event is
        keys = [(i, *own) for i, own in enumerate(by_event.tolist())]
        if not known.keys() >= set(keys):
            bounds = cell_curve_bounds(counts, pilot, confidence=1 - alpha)
            np.testing.assert_array_equal(bounds.count, by_event)
            erred = false(bounds, event, mu, rho, truth)
            known |= {k: erred and false(alone(bounds, k[0]), event, mu, rho, truth) for k in keys if k not in known}
        wrong += any(known[key] for key in keys)

    print(f"{mechanism}, {method}: {wrong} of {runs} wrong, allowed {allowed(alpha, runs)}")
    assert wrong <= allowed(alpha, runs)


@pytest.mark.statistical
@pytest.mark.parametrize("method", ["joint", "band"])
@pytest.mark.parametrize("mechanism", TIGHT)
def test_bounds_of_a_tight_mechanism_keep_their_level(mechanism: str, method: Any) -> None:
    sample, event, mu, rho = TIGHT[mechanism]
    n = 1500 if method == "band" else 20_000
    scores = sample(np.random.default_rng(SEED), (n,))

    bounds = curve_bounds(*scores, confidence=1 - RARE, method=method)

    assert not false(bounds, event, mu, rho, facts(event))
    assert bounds.epsilon(0.0) > 0.3 and bounds.mu() > 0.5  # and they are not vacuous


@pytest.mark.statistical
@pytest.mark.parametrize("method", ["joint", "band"])
def test_half_the_noise_is_refuted(method: Any) -> None:
    rng = np.random.default_rng(SEED)
    scores = rng.standard_normal(3000) / 2, 1 + rng.standard_normal(3000) / 2

    bounds = curve_bounds(*scores, method=method)

    assert bounds.refutes(Claim.gdp(1.0)) and bounds.refutes((1.0, 0.1))
    assert bounds.mu() > 1.5
    assert not bounds.refutes(Claim.gdp(2.0))


def dkw(scores: tuple[np.ndarray, np.ndarray], alpha: float) -> CurveBounds:
    """Massart's band of both distribution functions, one-sided, at alpha / 2 each."""
    return elsewhere(scores, lambda k, n: np.maximum(0.0, k / n - math.sqrt(math.log(2 / alpha) / (2 * n))))


def union(scores: tuple[np.ndarray, np.ndarray], alpha: float) -> CurveBounds:
    """Clopper-Pearson at 32 thresholds, each at alpha / 64."""
    return elsewhere(
        scores, lambda k, n: clopper_pearson(k, n, confidence=1 - alpha / 64, side="lower")[0], np.linspace(-3, 4, 32)
    )


def elsewhere(
    scores: tuple[np.ndarray, np.ndarray], low: Callable[[np.ndarray, int], np.ndarray], cuts: np.ndarray | None = None
) -> CurveBounds:
    at = np.unique(np.concatenate(scores)) if cuts is None else cuts
    n = len(scores[0])
    below, above = np.searchsorted(np.sort(scores[0]), at), n - np.searchsorted(np.sort(scores[1]), at)
    return _band(low(below, n), low(above, n), below, above, (n, n), at, 0.05)


@pytest.mark.statistical
@pytest.mark.parametrize("mechanism", ["gaussian", pytest.param("laplace", marks=pytest.mark.deep)])
def test_the_bounds_are_sharper_than_the_usual_ones(mechanism: str) -> None:
    """Mean of 4 pairs of samples of 4000, at 0.95, in epsilon, mu and rho. Massart's band suits the middle alone."""
    sample = TIGHT[mechanism][0]
    rows = []
    for seed in range(4):
        scores = sample(np.random.default_rng(seed), (4000,))
        every = [curve_bounds(*scores, confidence=0.95, method=m) for m in ("joint", "band")]
        every += [union(scores, 0.05), dkw(scores, 0.05)]
        rows.append([[b.epsilon(0.0), b.epsilon(0.01), b.mu(), b.rho()] for b in every])
    joint, band, cells, massart = np.mean(rows, axis=0)

    print(f"{mechanism}: epsilon(0), epsilon(.01), mu, rho", joint, band, cells, massart, sep="\n")
    assert (joint[1:] > band[1:]).all() and (joint[1:] > cells[1:]).all()
    assert (joint > massart).all()
    if mechanism == "gaussian":  # its epsilons are seen in the tails
        assert (band[:2] > 1.2 * massart[:2]).all()


def test_scores_may_be_sorted_tied_or_infinite() -> None:
    rng = np.random.default_rng(SEED)
    one, two = -np.sort(-rng.standard_normal(12_000)), np.sort(rng.standard_normal(12_000))

    assert curve_bounds(one, two, confidence=1 - RARE, method="band").total_variation() == 0.0
    for method in ("joint", "band"):
        tied = curve_bounds(np.zeros(500), np.ones(500), method=method)
        assert tied.total_variation() > 0.9
        infinite = curve_bounds(np.full(500, -np.inf), np.full(500, np.inf), method=method)
        assert infinite.epsilon(0.0) == tied.epsilon(0.0)
        json.dumps(infinite.to_dict(), allow_nan=False)
        assert curve_bounds(np.zeros(50), np.zeros(50), method=method).epsilon(0.0) == 0.0


def test_reversed_scores_of_swapped_data_sets_give_the_same_bounds() -> None:
    """Reversed scores of the swapped data sets give the same bounds for the other direction."""
    rng = np.random.default_rng(SEED)
    scores = (rng.random(500) < 0.001).astype(float), (rng.random(500) < 0.2).astype(float)

    there = curve_bounds(*scores, method="band")
    back = curve_bounds(-scores[1], -scores[0], method="band")

    assert there.epsilon(0.0) == pytest.approx(back.epsilon(0.0)) and there.epsilon(0.0) > 1
    assert there.rho() == pytest.approx(back.rho())


def test_cells_of_an_audit_give_the_same_as_scores() -> None:
    rng = np.random.default_rng(SEED)
    pilot, counts = tables(gaussian, 2, 20_000, rng)

    joint, band = cell_curve_bounds(counts, pilot), cell_curve_bounds(counts)

    assert joint.method == "joint" and band.method == "band"
    assert 1.0 < band.epsilon(0.01) < joint.epsilon(0.01) < accounting.epsilon(accounting.Gaussian(1.0), 0.01).upper
    assert joint.trials == (20_000, 20_000)
    for direction, cell, count in zip(joint.direction, joint.threshold.astype(int), joint.count, strict=True):
        inside = (counts[:, cell:] if direction else counts[:, :cell]).sum(axis=1)
        assert count.tolist() == [inside[direction], inside[1 - direction]]
    assert set(joint.direction.tolist()) == {0, 1}


def test_all_events_share_one_level(monkeypatch: pytest.MonkeyPatch) -> None:
    module, levels = sys.modules[cell_curve_bounds.__module__], []

    def recorded(*counts: int, slope: float, alpha: float) -> Region:
        levels.append(alpha)
        return frontier(*counts, slope=slope, alpha=alpha)

    monkeypatch.setattr(module, "frontier", recorded)
    pilot, counts = tables(gaussian, 2, 2000, np.random.default_rng(SEED))
    bounds = cell_curve_bounds(counts, pilot, confidence=0.95)

    assert len(levels) == len(bounds.direction) > 3
    assert sum(levels) <= 0.05 * (1 + 1e-9)


def test_the_same_samples_and_seed_give_the_same_bounds() -> None:
    scores = gaussian(np.random.default_rng(SEED), (3000,))
    first, second = (json.dumps(curve_bounds(*scores, rng=7).to_dict(), allow_nan=False) for _ in range(2))

    assert first == second
    plain = json.loads(first)
    assert plain["schema"] == 1 and plain["delta"][0][1] == plain["total_variation"]
    assert len(plain["events"]) <= 17


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"scores0": [1.0, math.nan]}, "scores0"),
        ({"scores1": [1.0]}, "scores1"),
        ({"scores1": [[1.0, 2.0]]}, "scores1"),
        ({"scores1": [True, False]}, "scores1"),
        ({"scores1": ["a", "b"]}, "scores1"),
        ({"confidence": 0.5}, "confidence"),
        ({"confidence": 1.0}, "confidence"),
        ({"confidence": math.nan}, "confidence"),
        ({"method": "dkw"}, "method"),
        ({"rng": -1}, "rng"),
        ({"rng": True}, "rng"),
    ],
)
def test_bad_scores_are_refused_by_name(change: dict[str, Any], name: str) -> None:
    arguments: dict[str, Any] = {"scores0": [0.0, 1.0], "scores1": [0.0, 1.0], **change}
    with pytest.raises(InvalidArgumentError) as caught:
        curve_bounds(arguments.pop("scores0"), arguments.pop("scores1"), **arguments)

    assert caught.value.argument == name


@pytest.mark.parametrize(
    ("counts", "pilot", "name"),
    [
        ([[1, 2]], None, "counts"),
        ([[1], [2]], None, "counts"),
        ([[1, 2], [0, 0]], None, "counts"),
        ([[1, -2], [3, 4]], None, "counts"),
        ([[1.5, 2], [3, 4]], None, "counts"),
        ([[1, 2], [3, 4]], [[1, 2, 3], [4, 5, 6]], "pilot"),
        ([[1, 2], [3, 4]], [[0, 0], [4, 5]], "pilot"),
    ],
)
def test_bad_counts_are_refused_by_name(counts: Any, pilot: Any, name: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        cell_curve_bounds(counts, pilot)

    assert caught.value.argument == name


def test_bad_queries_are_refused() -> None:
    bounds = cell_curve_bounds([[30, 5], [5, 30]])

    for ask in (
        lambda: bounds.epsilon(1.5),
        lambda: bounds.epsilon(math.nan),
        lambda: bounds.delta(-1.0),
        lambda: bounds.renyi(0.5),
        lambda: bounds.renyi(math.nan),
        lambda: bounds.refutes("claim"),
    ):
        with pytest.raises(InvalidArgumentError):
            ask()
