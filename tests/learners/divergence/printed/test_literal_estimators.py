"""Tests of the estimators as printed and as run: their noise and biases, and that they have no guarantee."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

from hockeystick import accounting
from hockeystick.accounting import HockeystickError, InvalidArgumentError, UnsupportedEventError
from hockeystick.learners.divergence import variance as divergences
from hockeystick.learners.divergence.client_counts import ClientCounts
from hockeystick.learners.divergence.printed.claims import printed_noise
from hockeystick.learners.divergence.printed.literal_estimators import (
    LiteralKL,
    Model,
    NotPrivate,
    PublishedExperiment,
    _distinct,
)
from hockeystick.learners.divergence.query_average import QueryAverage

PI = np.array([0.5, 0.3, 0.2])
SAMPLES = 40
MODELS: list[Model] = ["trusted", "aggregated", "distributed"]


def data() -> ClientCounts:
    """20 clients with 5 records each."""
    symbols = np.random.default_rng(0).choice(3, 100, p=[0.4, 0.3, 0.3])
    return ClientCounts.of_records(np.repeat(np.arange(20), 5), symbols, symbol_count=3)


def average(mode: Any = "fixed", size: int | None = None) -> QueryAverage:
    rng = np.random.default_rng(1)
    records = np.full(20, 5)
    return QueryAverage.drawn(PI, records, samples=SAMPLES, rng=rng, mode=mode, cohort_size=size, weights="draws")


def literal(model: Model, **more: Any) -> LiteralKL:
    given: dict[str, Any] = {"average": average(), "samples": SAMPLES, "epsilon": 1.0, "delta": 1e-5, "multiplier": 0.5}
    return LiteralKL(model=model, **(given | more))


def experiment(model: Model, **more: Any) -> PublishedExperiment:
    private = np.arange(1.0, 41.0) / 820.0
    given: dict[str, Any] = {"reference": np.full(40, 0.025), "private": private, "epsilon": 0.05}
    return PublishedExperiment(model=model, **(given | more))


def within(found: np.ndarray, mean: float, deviation: float) -> bool:
    """Mean and variance of normal-like numbers, each within 6 standard errors: missed with probability 4e-9."""
    runs = len(found)
    off = abs(found.mean() - mean) / (deviation / math.sqrt(runs))
    wide = abs(found.var() / deviation**2 - 1.0) / math.sqrt(2.0 / runs)
    return bool(off < 6.0 and wide < 6.0)


def test_trusted_noise_is_printed_noise() -> None:
    """False alarm 4e-9; with exactly calibrated noise it would not pass."""
    plan = literal("trusted")
    logs, ratios = plan.sums(data())
    found = plan.simulate(data(), np.random.default_rng(2), 20_000).estimates
    sigma = printed_noise(1.0, 1e-5, sensitivity=math.log(2.0))

    assert plan.noise_deviation == pytest.approx(sigma)
    assert within(found, 0.5 * ratios - logs, sigma)
    assert not within(found, 0.5 * ratios - logs, 1.1 * sigma)


def test_one_draw_serves_both_sums() -> None:
    """(A + B)/T has twice the noise of one sum, sqrt(2) times the trusted server's; (B - A)/T has none."""
    plan, sigma = literal("aggregated"), literal("trusted").noise_deviation
    logs, ratios = plan.sums(data())
    found = plan.simulate(data(), np.random.default_rng(3), 20_000).estimates
    corrected = literal("aggregated", sign="corrected").simulate(data(), np.random.default_rng(3), 50).estimates

    assert within(found, 0.5 * ratios + logs, math.sqrt(2.0) * sigma)
    assert corrected == pytest.approx(np.full(50, 0.5 * ratios - logs))


@pytest.mark.parametrize("normaliser", ["clients", "records"])
def test_distributed_noise_is_fresh_for_every_repetition(normaliser: Any) -> None:
    """Mean and variance by quadrature over the noise of one frequency, clamped; false alarm 1e-8."""
    plan = literal("distributed", normaliser=normaliser, delta=0.5, epsilon=6.0, floor=0.05)
    sigma = printed_noise(6.0, 0.5, sensitivity=math.sqrt(2.0) / SAMPLES)
    size = 20 if normaliser == "clients" else 100
    mean = variance = 0.0
    for share, symbol in zip(plan.average.shares, plan.average.symbols, strict=True):
        p = (data().total()[symbol] + 1.0) / (size + 3.0)

        def moment(order: int, p: float = p, pi: float = PI[symbol]) -> float:
            def term(z: float) -> float:
                value = float(divergences.query([max(p + sigma * z, 0.05) / pi], 0.5)[0])
                return value**order * float(stats.norm.pdf(z))

            kink = (0.05 - p) / sigma
            return float(integrate.quad(term, -9.0, 9.0, points=[kink] if abs(kink) < 9 else None, limit=200)[0])

        mean += share * moment(1)
        variance += share * (moment(2) - moment(1) ** 2) / SAMPLES
    found = plan.simulate(data(), np.random.default_rng(4), 20_000).estimates

    assert plan.noise_deviation == pytest.approx(sigma)
    assert abs(found.mean() - mean) < 6 * math.sqrt(variance / 20_000)
    assert found.var() == pytest.approx(variance, rel=0.1)  # of repetitions that share noise, many times as much


def test_literal_ratios_are_not_probabilities() -> None:
    """Divided by clients, frequencies of smoothed counts sum to more than 1."""
    by = {way: literal("trusted", normaliser=way).sums(data())[1] for way in ("clients", "records")}

    assert by["clients"] > 3.0
    assert abs(by["records"]) < 0.5


def test_estimates_with_one_cohort_per_round_are_finite() -> None:
    """One symbol a round, each divided by its cohort's clients."""
    for mode, size in (("independent", 4), ("fixed", 4)):
        plan = literal("distributed", average=average(mode, size))
        assert np.isfinite(plan.simulate(data(), np.random.default_rng(0), 7).estimates).all()


# --- as run ----------------------------------------------------------------------------------------------------------


def test_the_figures_at_small_epsilon() -> None:
    """Mean squares of about 10^3 and 10^4 at epsilon .05: the noise, and nothing but the noise.

    Means of 1e5 squares of Laplace (kurtosis 6) and normal noise, within 6 standard errors (1.4e-3 of either side).
    """
    runs, rng = 100_000, np.random.default_rng(5)
    for model, known, kurtosis in (("trusted", 2293.4, 6.0), ("aggregated", 95.0**2, 3.0)):
        found = experiment(model).simulate(rng, runs).estimates  # type: ignore[arg-type]
        square = float((found**2).mean())
        assert abs(square / known - 1.0) < 6 * math.sqrt((kurtosis - 1.0) / runs) + 0.01


def test_distributed_noise_is_never_negative() -> None:
    """Mutant K12: the summands only rise, so that |sum| grows; with symmetric noise it would not."""
    found = experiment("distributed", epsilon=1.0)
    wide = experiment("distributed", epsilon=0.05)
    kl = divergences.kl(found.reference, found.private)
    runs = 2000
    estimates = wide.simulate(np.random.default_rng(6), runs).estimates
    # 17 half-normal terms of mean .76 each: r is far above 1, and |ln r| with it.
    expected = math.log(17 * 0.95 * math.sqrt(2.0 / math.pi) / kl)

    assert estimates.mean() == pytest.approx(expected, rel=0.1)
    assert found.noise_deviation < wide.noise_deviation / 300


def test_without_noise_it_is_a_function_of_a_partial_sum() -> None:
    """All symbols are chosen where there are 17; then r = 1 and the query is 0 for every divergence."""
    pi, p = np.full(17, 1 / 17), np.arange(1.0, 18.0) / 153.0
    found = experiment("aggregated", reference=pi, private=p, epsilon=1e4).simulate(np.random.default_rng(0), 20)

    assert found.estimates == pytest.approx(np.zeros(20), abs=1e-4)
    assert divergences.kl(pi, p) > 0.1


def test_symbols_are_chosen_alike() -> None:
    """A chi-square test over 40 symbols in 4000 draws of 17, with a twin that leaves one out; false alarm below 1e-7.

    Counts of symbols drawn without replacement vary less than the test assumes.
    """
    found = _distinct(np.random.default_rng(8), 40, 17, 4000)
    counts = np.bincount(found.ravel(), minlength=40)
    short = np.bincount(_distinct(np.random.default_rng(8), 39, 17, 4000).ravel(), minlength=40)

    assert all(len(set(row)) == 17 for row in found[:200].tolist())
    assert stats.chisquare(counts).pvalue > 1e-7
    assert stats.chisquare(short).pvalue < 1e-7


# --- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", MODELS)
def test_literal_estimators_have_no_guarantee(model: Model) -> None:
    plan, run = literal(model), experiment(model)
    results = [plan.simulate(data(), np.random.default_rng(0), 3), run.simulate(np.random.default_rng(0), 3)]
    everything: list[Any] = [plan, run, *results]
    for found in everything:
        with pytest.raises(UnsupportedEventError, match="not private: .*use TrustedKL"):
            found.graph()
        with pytest.raises(HockeystickError):
            accounting.compose(found)
        assert not hasattr(found, "event")
    assert all(isinstance(found, NotPrivate) and found.reason for found in results)
    assert all(found.estimates.shape == (3,) for found in results)


@pytest.mark.parametrize("model", MODELS)
def test_a_seed_repeats_it(model: Model) -> None:
    first, second = (literal(model).simulate(data(), np.random.default_rng(7), 5).estimates for _ in range(2))

    assert (first == second).all()


def test_bad_arguments_are_refused() -> None:
    wrong: list[tuple[str, Any]] = [
        ("model", "best"),
        ("samples", 41),
        ("samples", 0),
        ("epsilon", 0.0),
        ("epsilon", math.nan),
        ("delta", 1.0),
        ("multiplier", -1.0),
        ("normaliser", "people"),
        ("sign", "none"),
        ("reading", "both"),
        ("floor", 0.0),
        ("average", None),
    ]
    for name, bad in wrong:
        with pytest.raises(InvalidArgumentError, match=name):
            literal(**({"model": "distributed"} | {name: bad}))
    wrong = [("sweep", "both"), ("private", np.full(40, 0.025)), ("epsilon", -1.0)]
    for name, bad in wrong:
        with pytest.raises(InvalidArgumentError, match=name):
            experiment("trusted", **{name: bad})
    with pytest.raises(InvalidArgumentError, match="fewer than 17"):
        experiment("trusted", reference=PI, private=PI[::-1])
    with pytest.raises(InvalidArgumentError, match="not positive"):
        literal("trusted", reading="inside", delta=0.9)
    plan = literal("trusted", average=QueryAverage.drawn(PI, [4, 4], samples=40, rng=np.random.default_rng(1)))
    with pytest.raises(InvalidArgumentError, match="data"):
        plan.simulate(data(), np.random.default_rng(0), 1)
