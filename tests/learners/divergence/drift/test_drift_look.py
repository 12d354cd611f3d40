"""Tests of drift looks: exact means, proved intervals by enumeration, coverage, dropouts and refusals."""

from __future__ import annotations

import itertools
import math
from typing import Any

import laws
import numpy as np
import pytest
from samples import chi_square
from scipy import stats

from hockeystick.accounting import Adjacency, InvalidArgumentError, InvalidDataError, epsilon
from hockeystick.learners.divergence.client_counts import ClientCounts
from hockeystick.learners.divergence.distributed import DistributedKL
from hockeystick.learners.divergence.drift.cell_terms import (
    DIVERGENCES,
    Divergence,
    cell_term,
    checked_divergences,
    pair_term,
)
from hockeystick.learners.divergence.drift.centres import centres_of
from hockeystick.learners.divergence.drift.count_noise import LaplaceCounts, sum_law
from hockeystick.learners.divergence.drift.look import drift_look
from hockeystick.learners.divergence.drift.noisy_histogram import (
    HistogramRelease,
    NoisyHistogram,
    local_oracle,
    release_histogram,
)
from hockeystick.learners.divergence.drift.proved_intervals import box_interval, prefixes
from hockeystick.learners.divergence.query_average import QueryAverage
from hockeystick.mechanisms import HadamardResponse, PolyaShares, RandomizedResponse, SubsetSelection, UnaryEncoding
from hockeystick.mechanisms.randomness.noise import SimulationNoise

CELLS: tuple[Divergence, ...] = tuple(name for name in DIVERGENCES if name != "wasserstein")
PI = np.array([0.5, 0.3, 0.15, 0.05])


def discrete_laplace(a: float, reach: int) -> tuple[Any, Any]:
    z = np.arange(-reach, reach + 1.0)
    return z, (1 - a) / (1 + a) * a ** np.abs(z)


def plain(name: str, pi: Any, q: Any, floor: float) -> float:
    """The divergences as written in books, without Bregman's linear parts."""
    r = np.maximum(q, floor)
    if name == "kl":
        return float((pi * np.log(pi / r) - pi + r).sum())
    if name == "kl_reverse":
        return float(stats.entropy(q, pi)) if abs(q.sum() - 1) < 1e-9 else math.nan
    if name == "psi":
        return float(((r - pi) * np.log(r / pi)).sum())
    if name == "js":
        return float(0.5 * stats.entropy(pi, (pi + q) / 2) + 0.5 * stats.entropy(q, (pi + q) / 2))
    if name == "chi2":
        return float(((q - pi) ** 2 / pi).sum())
    if name == "hellinger2":
        return float(1.0 - np.sqrt(q * pi).sum())
    return float(0.5 * np.abs(q - pi).sum())


@pytest.mark.parametrize("name", CELLS)
def test_terms_are_the_divergences(name: str) -> None:
    for counts in ([100, 60, 30, 10], [100, 70, 30, 0], [1, 190, 9, 0]):
        h = np.array(counts, dtype=float)
        found = float(cell_term(name, PI, 200, "table")(h).sum())
        assert found == pytest.approx(plain(name, PI, h / 200, 0.5 / 200), rel=1e-9, abs=1e-15)
        assert float(pair_term(name, (200, 400), "table")(h, 400 * PI).sum()) == pytest.approx(
            found, rel=1e-9, abs=1e-15
        )


@pytest.mark.parametrize("name", CELLS)
def test_terms_are_flat_at_the_reference(name: str) -> None:
    """Without the linear parts the noise of the total would enter: the slope at the reference is 0, by terms >= 0."""
    term = cell_term(name, PI, 1e6, "table")
    assert (term(1e6 * PI) == 0.0).all()
    steps = np.arange(-300.0, 301.0)[:, None]
    around = term(1e6 * PI + steps)
    assert (around >= 0.0).all()
    if name != "tv":
        assert (np.abs(around[301] - around[299]) < 1e-3 * around[301]).all()


@pytest.mark.parametrize("shares", [1.0, 2.0])
@pytest.mark.parametrize("name", CELLS)
def test_corrected_terms_have_no_bias(name: str, shares: float) -> None:
    """By the whole law of the noise, at the scale of the relation; that of the other relation is caught."""
    term = cell_term(name, PI, 200, "table")
    for target in (0.3, 1.0, 3.0):
        noise = LaplaceCounts(2.0 / target, shares)
        a, reach = math.exp(-target / 2), int(90 / target) + 30
        z, law = discrete_laplace(a, reach)
        if shares == 2.0:
            law, z = np.convolve(law, law), np.arange(-2.0 * reach, 2.0 * reach + 1)
        for h in (0.0, 1.0, 7.0, 30.0):
            mean = law @ noise.corrected(term)(h + z[:, None] * np.ones(4))
            exact = term(np.full(4, h))
            assert mean == pytest.approx(exact, abs=2e-12)
            if name != "tv" and target == 1.0 and h == 7.0:
                other = law @ LaplaceCounts(1.0 / target, shares).corrected(term)(h + z[:, None] * np.ones(4))
                assert np.abs(other - exact).max() > 1e-6


def test_a_release_has_the_noise_of_its_relation() -> None:
    replaced = release_histogram([70, 30], epsilon=0.5, noise=SimulationNoise(1))
    assert replaced.noise == LaplaceCounts(4.0)
    assert (replaced.records, replaced.total_known) == (100, True)
    added = HistogramRelease.calibrated(
        cells=2, epsilon=0.5, records=100, adjacency=Adjacency.ADD_OR_REMOVE_ONE, declared=True
    )
    assert added.counts.scale == pytest.approx(2.0)
    paid = HistogramRelease.calibrated(cells=2, epsilon=0.5, records=100, adjacency=Adjacency.ADD_OR_REMOVE_ONE)
    assert 0.4999 < epsilon(paid.event(), 0.0) <= 0.5
    assert paid.counts.scale > added.counts.scale


@pytest.mark.parametrize("name", ["kl", "chi2", "tv"])
def test_two_noisy_tables_have_no_bias(name: str) -> None:
    pair, noises = pair_term(name, (40, 60), "table"), (LaplaceCounts(0.7), LaplaceCounts(1.0))
    (z, law), (y, other) = discrete_laplace(math.exp(-1 / 0.7), 60), discrete_laplace(math.exp(-1.0), 60)
    x1, x2 = (each.ravel()[:, None] for each in np.meshgrid(5.0 + z, 3.0 + y, indexing="ij"))
    corrected = noises[0].corrected(lambda first: noises[1].corrected(lambda second: pair(first, second))(x2))(x1)
    assert float(np.outer(law, other).ravel() @ corrected[:, 0]) == pytest.approx(
        float(pair(np.array([5.0]), np.array([3.0]))[0]), abs=1e-12
    )


def test_chi2_of_the_law_has_no_sampling_bias() -> None:
    p, n = 0.1, 50
    h = np.arange(n + 1.0)
    mean = stats.binom.pmf(h, n, p) @ cell_term("chi2", np.array([0.2]), n, "law")(h[:, None])
    assert mean[0] == pytest.approx((p - 0.2) ** 2 / 0.2, rel=1e-9)


def test_the_largest_noise_is_bounded_by_its_exact_law() -> None:
    for scale, shares in ((2.0, 1.0), (20.0, 1.0), (2.0, 1.25)):
        noise = LaplaceCounts(scale, shares)
        q = noise.largest(10, 0.95)
        values, masses, missed = sum_law(noise.base, shares)
        inside = float(masses[np.abs(values) <= q].sum())
        assert 0.95 <= inside**10 < 0.985
        assert inside + missed >= 0.994
    values, masses, _ = sum_law(math.exp(-0.5), 1.0)
    assert masses == pytest.approx(discrete_laplace(math.exp(-0.5), int(values[-1]))[1], abs=1e-12)


@pytest.mark.parametrize("name", [name for name in CELLS if name != "tv"])
def test_proved_intervals_hold_all_tables_that_the_noise_allows(name: str) -> None:
    """By enumeration of all tables within q of a noisy one, for a public reference and for a private one."""
    pi, n = np.array([0.7, 0.2, 0.1]), 12
    table = NoisyHistogram(counts=[9, 4, -1], records=n, noise=LaplaceCounts(0.4))
    q = table.noise.largest(3, 0.95)
    term = cell_term(name, pi, n, "table")
    low, high = box_interval(lambda c: term(c[0]), (table,), pi, "table", 0.95)
    tables = [np.array(h) for h in itertools.product(range(n + 1), repeat=3) if sum(h) == n]
    near = [h for h in tables if np.abs(h - table.counts).max() <= q]
    found = [float(term(h.astype(float)).sum()) for h in near]
    assert len(near) > 3
    assert low <= min(found) <= max(found) <= high < 6 * max(found)

    other = NoisyHistogram(counts=[2, 3, 7], records=n, noise=LaplaceCounts(0.4))
    pair = pair_term(name, (n, n), "table")
    low, high = box_interval(lambda c: pair(*c), (table, other), None, "table", 0.95)
    beside = [h for h in tables if np.abs(h - other.counts).max() <= other.noise.largest(3, 0.975)]
    found = [float(pair(h.astype(float), g.astype(float)).sum()) for h in near for g in beside]
    assert 0.0 < low <= min(found) <= max(found) <= high


def test_law_intervals_are_wider_and_hold_the_law() -> None:
    table = NoisyHistogram(counts=1000 * PI, records=1000, noise=LaplaceCounts(0.5))
    term = cell_term("chi2", PI, 1000, "table")
    ends = [box_interval(lambda c: term(c[0]), (table,), PI, target, 0.95) for target in ("table", "law")]
    assert ends[0][0] == ends[1][0] == 0.0
    assert ends[1][1] > 5 * ends[0][1]
    q, each = table.noise.largest(4, 0.975), 0.025 / 8
    high = stats.beta.isf(each, 1000 * PI + q + 1, 1000 - 1000 * PI - q)
    assert ends[1][1] >= ((high - PI) ** 2 / PI).sum() * 0.99


def test_a_distance_is_off_by_the_size_of_the_noise_at_most() -> None:
    """So its interval is the noisy distance ± a quantile of that size: coverage by the binomial law, 1e-6."""
    rng, n, hits, runs = np.random.default_rng(3), 2000, 0, 60
    h, noise = n * np.array([0.4, 0.3, 0.2, 0.1]), LaplaceCounts(20.0)
    truth = float(np.abs(np.cumsum(h / n - PI)[:-1]) @ [1.0, 2.0, 0.5])
    for run in range(runs):
        table = NoisyHistogram(counts=h + noise.draw(h, rng, 1)[0], records=n, noise=noise)
        one = drift_look(table, PI, divergences="wasserstein", positions=[0, 1, 3, 3.5], seed=run)["wasserstein"]
        assert one.kind == "proved"
        assert one.low <= one.estimate <= one.high
        hits += one.low <= truth <= one.high
    assert stats.binom.cdf(hits, runs, 0.95) > 1e-6
    assert prefixes(h + 4.0, NoisyHistogram(counts=h, records=n, noise=noise)) == pytest.approx(np.cumsum(h / n)[:-1])


def test_centres_hold_more_and_less_drift_than_was_seen() -> None:
    """A rare cell may hold more than it shows, or nothing, and all that is seen may be noise."""
    pi = np.array([0.001, 0.333, 0.333, 0.333])
    table = NoisyHistogram(counts=[8, 660, 670, 662], records=2000, noise=LaplaceCounts(2 / 0.3))
    found = [centre[0] for centre in centres_of((table,), pi, "table", np.random.default_rng(0))]
    assert all(centre.sum() == 2000 and (centre >= 0).all() and (centre % 1 == 0).all() for centre in found)
    spread = math.sqrt(2 * table.noise.half_variance)  # type: ignore[attr-defined]
    assert max(centre[0] for centre in found) >= 8 + 1.9 * spread
    assert min(centre[0] for centre in found) == 0
    assert min(np.abs(centre - 2000 * pi).max() for centre in found) < 2
    moderate = NoisyHistogram(counts=[520, 480, 520, 480], records=2000, noise=LaplaceCounts(2 / 0.3))
    found = [centre[0] for centre in centres_of((moderate,), np.full(4, 0.25), "table", np.random.default_rng(0))]
    sizes = [float(np.abs(centre - 500).max()) for centre in found[:3]]
    assert sizes[2] < 0.7 * sizes[0] <= 0.95 * sizes[1] <= 19


@pytest.mark.statistical
@pytest.mark.parametrize(("rare", "now", "target"), [(0.001, 0.01, "table"), (0.001, 0.01, "law")])
def test_intervals_cover_drift_in_a_rare_cell(rare: float, now: float, target: Any) -> None:
    """At a coverage of 0.95 this fails with a probability below 1e-6 (binomial, 80 looks). The rows of the page have
    1000, and the test above checks the centres without which some 0.75 of these intervals cover."""
    pi = np.append(rare, np.full(9, (1 - rare) / 9))
    law = np.append(now, np.full(9, (1 - now) / 9))
    rng, hits, runs, noise = np.random.default_rng(11), 0, 80, LaplaceCounts(2 / 0.3)
    for run in range(runs):
        h = rng.multinomial(2000, law)
        table = NoisyHistogram(counts=h + noise.draw(h.astype(float), rng, 1)[0], records=2000, noise=noise)
        one = drift_look(table, pi, divergences="chi2", target=target, seed=run)["chi2"]
        q = h / 2000 if target == "table" else law
        hits += one.low <= float(((q - pi) ** 2 / pi).sum()) <= one.high
    assert stats.binom.cdf(hits, runs, 0.95) > 1e-6


def test_dropouts_take_their_records_with_them() -> None:
    """30 % of the clients drop out: shares are of the others' records, and their noise is known."""
    rng = np.random.default_rng(1)
    data = ClientCounts.of_records(np.arange(2000), rng.choice(4, 2000, p=PI), symbol_count=4)
    average = QueryAverage.drawn(PI, data.records(), samples=4, rng=rng)
    estimator = DistributedKL.calibrated(average, epsilon=2.0, delta=0.0, law="polya", survivors=1000)
    sums = estimator.release(data, answering=range(1400), noise=SimulationNoise(2))
    found = NoisyHistogram.of_sums(estimator, sums)
    assert found.records == 1400
    assert isinstance(estimator.shares, PolyaShares)
    assert found.noise == LaplaceCounts(estimator.shares.scale, 1.4)
    look = drift_look(found, PI, target="law", divergences="kl")
    assert look["kl"].estimate < 0.01 < math.log(1 / 0.7) / 2  # what all clients' records would add
    skellam = DistributedKL.calibrated(average, epsilon=2.0, delta=1e-6)
    with pytest.raises(InvalidArgumentError, match="polya"):
        NoisyHistogram.of_sums(skellam, skellam.release(data, noise=SimulationNoise(2)))


def test_local_reports_are_read() -> None:
    """The variance of counts is the one that reports have, and the total variance decides on the mechanism."""
    assert isinstance(local_oracle(4, epsilon=1.0), RandomizedResponse)
    best = local_oracle(10, epsilon=1.0)  # the rule k < 3e^ε + 2 says otherwise
    assert isinstance(best, SubsetSelection) and best.size == 3
    answers = np.repeat(np.arange(4), [400, 300, 200, 100])
    for oracle in (
        RandomizedResponse(1.0, categories=4),
        SubsetSelection(1.0, categories=4, size=2),
        UnaryEncoding.optimised(1.0, categories=4),
    ):
        runs = oracle.simulate(answers, np.random.default_rng(1), runs=400)
        tables = [NoisyHistogram.of_reports(oracle, reports, simulated=True) for reports in runs]
        found = np.array([table.counts for table in tables])
        noise = tables[0].noise
        exact = noise.variances(np.array([400.0, 300, 200, 100]))
        assert found.var(axis=0) / exact == pytest.approx(np.ones(4), abs=0.5)  # 7 deviations
        drawn = noise.draw(np.array([400.0, 300, 200, 100]), np.random.default_rng(2), 4000)
        assert drawn.var(axis=0) / exact == pytest.approx(np.ones(4), abs=0.2)
        assert (np.abs(found - [400, 300, 200, 100]).max(axis=1) <= noise.largest(4, 0.95)).mean() > 0.9
        look = drift_look(tables[0], [0.4, 0.3, 0.2, 0.1], divergences=["chi2", "wasserstein"])
        assert look["chi2"].estimator != "unbiased" and look["chi2"].low == 0.0
        assert look["wasserstein"].low == 0.0
    with pytest.raises(InvalidArgumentError, match="oracle"):
        NoisyHistogram.of_reports(HadamardResponse(1.0, categories=4), answers)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="pure noise"):
        local_oracle(4, epsilon=0.0)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"divergences": "kullback"}, "divergences"),
        ({"divergences": []}, "divergences"),
        ({"target": "both"}, "target"),
        ({"confidence": 1.0}, "confidence"),
        ({"confidence": math.nan}, "confidence"),
        ({"positions": [0, 1]}, "positions"),
        ({"positions": [0, 2, 1, 3]}, "positions"),
        ({"seed": -1}, "seed"),
    ],
)
def test_bad_arguments_are_refused(more: dict[str, Any], words: str) -> None:
    table = NoisyHistogram(counts=[10, 5, 3, 2], records=20, noise=LaplaceCounts(2.0))
    with pytest.raises(InvalidArgumentError, match=words):
        drift_look(table, PI, **more)
    with pytest.raises(InvalidArgumentError, match="reference"):
        drift_look(table, [0.5, 0.5])
    with pytest.raises(InvalidArgumentError, match="wasserstein"):
        drift_look(table, PI, divergences="kl")["wasserstein"]


def test_bad_data_are_refused_and_not_told() -> None:
    for counts in ([1.5, 2], [-1, 2], [math.nan, 2], [0, 0], [7], "ab"):
        with pytest.raises(InvalidDataError) as caught:
            release_histogram(counts, epsilon=1.0)
        assert "1.5" not in str(caught.value)
        assert "-1" not in str(caught.value)
    with pytest.raises(InvalidArgumentError, match="whole numbers"):
        NoisyHistogram(counts=[1.5, 2], records=3, noise=LaplaceCounts(2.0))
    with pytest.raises(InvalidArgumentError, match="declared"):
        release_histogram([1, 2], epsilon=1.0, declared=3)
    with pytest.raises(InvalidArgumentError, match="adjacency"):
        release_histogram([1, 2], epsilon=1.0, adjacency="replace")  # type: ignore[arg-type]
    assert checked_divergences(["tv", "kl"]) == ("kl", "tv")


@pytest.mark.parametrize("shares", [1.0, 2.0])
def test_simulated_noise_of_counts_follows_its_law(shares: float) -> None:
    """A fixed seed; a false alarm has probability 1e-6, and noise that is shifted by one is caught."""
    one = laws.discrete_laplace(2.0, 60)
    law = one if shares == 1.0 else np.convolve(one, one)
    drawn = LaplaceCounts(2.0, shares).draw(np.zeros(2), np.random.default_rng(5), 10_000)
    assert chi_square(drawn.astype(int), law) > 1e-6 > chi_square(drawn.astype(int) + 1, law)
