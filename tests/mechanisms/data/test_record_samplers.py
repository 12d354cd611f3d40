"""Tests of samplers and noisy sums of samples: law by enumeration, cost by quadrature, and refuted mutants."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache, lru_cache
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from divergences import larger_hockey_stick
from laws import discrete_laplace
from numpy.typing import NDArray
from scipy import stats
from scored import Scored, scored

from hockeystick import accounting
from hockeystick.accounting import (
    Adjacency,
    InvalidArgumentError,
    PrivacyEvent,
    UnsupportedAdjacencyError,
    UnsupportedEventError,
)
from hockeystick.accounting.arrays import FloatArray
from hockeystick.audits import Claim, audit
from hockeystick.mechanisms import AuditableMechanism, Gaussian, Laplace, ReleaseNoise, SimulationNoise, check_mechanism
from hockeystick.mechanisms.data.record_samplers import (
    FixedBatches,
    PoissonSample,
    Sampler,
    SampleWithoutReplacement,
    TruncatedPoissonSample,
)
from hockeystick.mechanisms.data.subsampled_sum import Subsampled

FALSE_ALARM = 1e-6
CONFIDENCE = 1 - 1e-6
EPSILONS = (0.0, 0.1, 0.4, 1.0, 2.0, 3.5)

SAMPLERS: list[tuple[Sampler, int]] = [
    (PoissonSample(0.3), 5),
    (PoissonSample(0.0), 3),
    (PoissonSample(1.0), 3),
    (SampleWithoutReplacement(6, 2), 6),
    (SampleWithoutReplacement(4, 4), 4),
    (SampleWithoutReplacement(5, 1), 5),
    (TruncatedPoissonSample(5, 0.5, 2), 5),
    (TruncatedPoissonSample(5, 0.5, 2), 4),
    (TruncatedPoissonSample(4, 0.3, 7), 4),
    (TruncatedPoissonSample(3, 1.0, 1), 3),
]


@cache
def exact_law(sampler: Sampler, records: int) -> FloatArray:
    """The probability of every subset, by its bits, from the sampler's definition."""
    found = [Fraction(0)] * 2**records
    if isinstance(sampler, SampleWithoutReplacement):
        for chosen in itertools.combinations(range(records), sampler.sample):
            found[sum(1 << i for i in chosen)] = Fraction(1, math.comb(records, sampler.sample))
        return np.array([float(p) for p in found])
    assert isinstance(sampler, (PoissonSample, TruncatedPoissonSample))
    q = Fraction(sampler.probability)
    batch = sampler.batch if isinstance(sampler, TruncatedPoissonSample) else records
    for joined in range(2**records):
        members = [i for i in range(records) if joined >> i & 1]
        p = q ** len(members) * (1 - q) ** (records - len(members))
        kept = list(itertools.combinations(members, min(batch, len(members))))
        for chosen in kept:
            found[sum(1 << i for i in chosen)] += p / len(kept)
    return np.array([float(p) for p in found])


def fits(counts: NDArray[Any], law: FloatArray) -> bool:
    """A chi-square test; what is impossible must not happen."""
    if counts[law == 0].any():
        return False
    possible = law > 0
    if possible.sum() == 1:
        return True
    return bool(stats.chisquare(counts[possible], law[possible] * counts.sum()).pvalue > FALSE_ALARM)


def bits(indices: Any) -> int:
    return sum(1 << int(i) for i in indices)


@pytest.mark.parametrize(("sampler", "records"), SAMPLERS, ids=str)
class TestLaw:
    @pytest.mark.statistical
    def test_drawn_samples_follow_their_law(self, sampler: Sampler, records: int) -> None:
        law, noise = exact_law(sampler, records), SimulationNoise(601)
        drawn = [sampler.draw(records, noise=noise) for _ in range(2500)]
        assert all(d.dtype == np.int64 and (np.diff(d) > 0).all() for d in drawn)
        assert fits(np.bincount([bits(d) for d in drawn], minlength=2**records), law)

    @pytest.mark.every(2)
    def test_securely_drawn_samples_follow_their_law(self, sampler: Sampler, records: int) -> None:
        noise = ReleaseNoise()
        counts = np.bincount([bits(sampler.draw(records, noise=noise)) for _ in range(1500)], minlength=2**records)
        assert fits(counts, exact_law(sampler, records))

    def test_simulated_samples_follow_their_law(self, sampler: Sampler, records: int) -> None:
        masks = sampler.simulate(records, np.random.default_rng(602), 40_000)
        assert masks.shape == (40_000, records) and masks.dtype == np.bool_
        law = exact_law(sampler, records)
        assert fits(np.bincount(masks @ (1 << np.arange(records)), minlength=2**records), law)
        again = sampler.simulate(records, np.random.default_rng(602), 40_000)
        np.testing.assert_array_equal(masks, again)

    def test_sizes_of_samples_follow_their_law(self, sampler: Sampler, records: int) -> None:
        sizes = np.exp(sampler.log_sizes(records))
        popcount = np.array([i.bit_count() for i in range(2**records)])
        np.testing.assert_allclose(
            sizes, np.bincount(popcount, weights=exact_law(sampler, records), minlength=records + 1), atol=1e-12
        )


def test_the_tests_of_the_law_have_power() -> None:
    masks = PoissonSample(0.33).simulate(5, np.random.default_rng(603), 40_000)
    counts = np.bincount(masks @ (1 << np.arange(5)), minlength=32)
    assert not fits(counts, exact_law(PoissonSample(0.3), 5))
    ordered = np.bincount([0b11] * 100 + [0b101] * 100, minlength=64)
    assert not fits(ordered, exact_law(SampleWithoutReplacement(6, 2), 6))


class TestFixedBatches:
    @pytest.mark.parametrize(("population", "batches"), [(1, 1), (7, 3), (10, 5), (4, 4)])
    def test_every_record_lies_in_one_batch(self, population: int, batches: int) -> None:
        for order in ("given", "random"):
            parts = FixedBatches(population, batches, order).draw(noise=SimulationNoise(604))
            assert len(parts) == batches
            np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(population))
            assert max(map(len, parts)) - min(map(len, parts)) <= 1
        given = FixedBatches(population, batches, "given").draw()
        np.testing.assert_array_equal(np.concatenate(given), np.arange(population))

    @pytest.mark.statistical
    def test_random_orders_are_uniform(self) -> None:
        sampler, noise = FixedBatches(4, 2), SimulationNoise(605)
        firsts = np.bincount([bits(sampler.draw(noise=noise)[0]) for _ in range(4000)], minlength=16)
        law = exact_law(SampleWithoutReplacement(4, 2), 4)
        assert fits(firsts, law)
        batch = sampler.simulate(np.random.default_rng(606), 20_000)
        assert batch.shape == (20_000, 4)
        assert fits(np.bincount((batch == 0) @ (1 << np.arange(4)), minlength=16), law)
        given = evolve(sampler, order="given").simulate(np.random.default_rng(606), 2)
        np.testing.assert_array_equal(given, [[0, 0, 1, 1]] * 2)

    def test_it_costs_what_one_batch_costs(self) -> None:
        inner = accounting.Gaussian(2.0)
        for order in ("given", "random"):
            sampler = FixedBatches(100, 10, order)
            assert sampler.event(inner) == inner
            assert sampler.event(inner, epochs=3, adjacency=Adjacency.REPLACE_WITH_NULL) == accounting.compose(
                (inner, 3)
            )

    def test_what_has_no_theorem_is_refused(self) -> None:
        sampler = FixedBatches(100, 10)
        with pytest.raises(UnsupportedAdjacencyError, match="moves others to other batches"):
            sampler.event(accounting.Gaussian(2.0), adjacency=Adjacency.ADD_OR_REMOVE_ONE)
        with pytest.raises(UnsupportedAdjacencyError, match="no amplification by shuffling"):
            sampler.event(accounting.RandomizedResponse(0.25), adjacency=Adjacency.LOCAL)

    def test_adding_a_record_does_move_others(self) -> None:
        """Why add-or-remove is refused: in the given order one more record at the front moves others."""
        before, after = FixedBatches(7, 3, "given").draw(), FixedBatches(8, 3, "given").draw()
        moved = [set((a - 1).tolist()) != set(b.tolist()) for a, b in zip(after, before, strict=True)]
        assert sum(moved) >= 2


class TestEvents:
    inner = accounting.Gaussian(2.0)

    def test_events_are_those_of_the_accounting(self) -> None:
        q = PoissonSample(0.1)
        assert q.event(self.inner) == accounting.PoissonSampled(0.1, self.inner)
        assert q.event(self.inner, adjacency=Adjacency.REPLACE_WITH_NULL) == accounting.PoissonSampled(0.1, self.inner)
        assert q.event(self.inner, adjacency=Adjacency.REPLACE_ONE) == accounting.PoissonSampledReplace(0.1, self.inner)
        fixed = SampleWithoutReplacement(50, 5).event(self.inner)
        assert fixed == accounting.SampledWithoutReplacement(50, 5, self.inner)
        cut = TruncatedPoissonSample(50, 0.1, 9).event(self.inner)
        assert cut == accounting.TruncatedPoissonSampled(50, 0.1, 9, 2.0)
        cut = TruncatedPoissonSample(50, 0.1, 9).event(self.inner, adjacency=Adjacency.REPLACE_ONE)
        assert cut == accounting.TruncatedPoissonSampledReplace(50, 0.1, 9, 2.0)
        cut = TruncatedPoissonSample(50, 0.1, 9).event(self.inner, adjacency=Adjacency.REPLACE_WITH_NULL)
        assert cut == accounting.TruncatedPoissonSampledNull(50, 0.1, 9, 2.0)

    @pytest.mark.parametrize(
        ("sampler", "adjacency"),
        [
            (PoissonSample(0.1), Adjacency.LOCAL),
            (SampleWithoutReplacement(5, 2), Adjacency.ADD_OR_REMOVE_ONE),
            (SampleWithoutReplacement(5, 2), Adjacency.REPLACE_WITH_NULL),
            (SampleWithoutReplacement(5, 2), Adjacency.LOCAL),
            (TruncatedPoissonSample(5, 0.1, 2), Adjacency.LOCAL),
        ],
        ids=str,
    )
    def test_relations_without_a_theorem_are_refused(self, sampler: Sampler, adjacency: Adjacency) -> None:
        with pytest.raises(UnsupportedAdjacencyError, match=adjacency.value):
            sampler.event(self.inner, adjacency=adjacency)

    def test_accesses_without_a_theorem_are_refused(self) -> None:
        with pytest.raises(UnsupportedEventError, match="Gaussian"):
            TruncatedPoissonSample(5, 0.1, 2).event(accounting.Laplace(2.0))
        with pytest.raises(UnsupportedAdjacencyError, match="no meaning"):
            PoissonSample(0.1).event(accounting.SampledWithoutReplacement(5, 2, self.inner))
        for sampler in (PoissonSample(0.1), SampleWithoutReplacement(5, 2), TruncatedPoissonSample(5, 0.1, 2)):
            with pytest.raises(InvalidArgumentError, match="event"):
                sampler.event(2.0)  # type: ignore[arg-type]


def density(mechanism: Subsampled, value: FloatArray, z: FloatArray) -> FloatArray:
    """Of the output, by listing all subsets."""
    law = exact_law(mechanism.sampler, len(value))
    noise: Any = (
        stats.norm(0, mechanism.mechanism.sigma)
        if isinstance(mechanism.mechanism, Gaussian)
        else stats.laplace(0, mechanism.mechanism.scale)
    )
    masses: dict[float, float] = {}
    for subset in np.flatnonzero(law):
        total = sum(value[i] for i in range(len(value)) if subset >> i & 1)
        masses[total] = masses.get(total, 0.0) + law[subset]
    return np.asarray(sum(mass * noise.pdf(z - total) for total, mass in masses.items()))


def neighbours(mechanism: Subsampled, records: int) -> list[tuple[FloatArray, FloatArray]]:
    """All pairs of contributions in {−1, 0, 1}, up to order."""
    found = []
    for others in itertools.combinations_with_replacement((-1.0, 0.0, 1.0), records - 1):
        for end in (-1.0, 1.0):
            if mechanism.adjacency is Adjacency.REPLACE_ONE:
                found += [(np.array([*others, end]), np.array([*others, x])) for x in (-end, 0.0)]
            elif mechanism.adjacency is Adjacency.REPLACE_WITH_NULL:
                found.append((np.array([*others, end]), np.array([*others, 0.0])))
            else:
                found.append((np.array([*others, end]), np.array(others)))
    return found


SUMS = [
    Subsampled(PoissonSample(0.2), Gaussian(0.8)),
    Subsampled(PoissonSample(0.5), Laplace(0.7)),
    Subsampled(PoissonSample(0.5), Gaussian(2.0), adjacency=Adjacency.REPLACE_WITH_NULL),
    Subsampled(SampleWithoutReplacement(4, 1), Gaussian(1.0)),
    Subsampled(SampleWithoutReplacement(4, 3), Laplace(1.5)),
    Subsampled(TruncatedPoissonSample(4, 0.5, 2), Gaussian(1.0)),
    Subsampled(TruncatedPoissonSample(4, 0.3, 1), Gaussian(0.7)),
]


@pytest.mark.parametrize("mechanism", SUMS, ids=str)
class TestCost:
    @pytest.mark.statistical
    def test_event_covers_the_real_pairs(self, mechanism: Subsampled) -> None:
        z = np.arange(-18.0, 18.0, 0.01) + 0.005
        stated = [accounting.delta(mechanism.event(), e).upper for e in EPSILONS]
        worst = np.zeros(len(EPSILONS))
        law = cache(lambda value: density(mechanism, np.array(value), z) * 0.01)  # of contributions in any order
        for pair in neighbours(mechanism, 4):
            p, q = (law(tuple(sorted(v))) for v in pair)
            for i, e in enumerate(EPSILONS):
                truth = larger_hockey_stick(p, q, e)
                assert truth <= stated[i] + 1e-5
                worst[i] = max(worst[i], truth)
        if not isinstance(mechanism.sampler, TruncatedPoissonSample):
            np.testing.assert_allclose(worst, stated, rtol=2e-3, atol=2e-4)

    def test_worst_neighbours_are_nearly_the_worst(self, mechanism: Subsampled) -> None:
        z = np.arange(-18.0, 18.0, 0.01) + 0.005

        def at(pair: tuple[Any, Any]) -> float:
            p, q = (density(mechanism, np.asarray(v), z) * 0.01 for v in pair)
            return float(larger_hockey_stick(p, q, 0.4))

        assert at(mechanism.worst_case_neighbours()) >= 0.6 * max(map(at, neighbours(mechanism, 4)))


@pytest.mark.parametrize("sampler", [PoissonSample(0.3), SampleWithoutReplacement(3, 1)], ids=str)
@pytest.mark.parametrize("grid", [0.25, 1.0])
def test_event_covers_integer_noise(sampler: Sampler, grid: float) -> None:
    """All released laws of contributions on a fine lattice in [−1, 1], rounded to a coarse grid."""
    mechanism = Subsampled(sampler, Laplace(1.5, grid=grid))
    drawn: list[float] = []  # the scales that the release draws with

    class Spy(SimulationNoise):
        def laplace(self, scale: float, count: int) -> NDArray[np.int64]:
            drawn.append(scale)
            return np.zeros(count, dtype=np.int64)

    mechanism.release(np.zeros(3), noise=Spy(1))
    (scale,) = drawn
    k, noise = np.arange(-400, 401), discrete_laplace(scale, 400)

    def law(value: tuple[float, ...]) -> FloatArray:
        steps, found = np.rint(np.array(value) / grid).astype(int), np.zeros(len(k))
        for subset in np.flatnonzero(probabilities := exact_law(sampler, len(value))):
            total = sum(int(steps[i]) for i in range(len(value)) if subset >> i & 1)
            found += probabilities[subset] * np.roll(noise, total)
        return found

    points = (-1.0, -0.6, 0.0, 0.45, 1.0)
    stated = [accounting.delta(mechanism.event(), e).upper for e in EPSILONS]
    for other, a, b in itertools.product(points, repeat=3):
        if isinstance(sampler, PoissonSample):
            p, q = law((other, a)), law((other,))
        else:
            p, q = law((other, 0.3, a)), law((other, 0.3, b))
        for e, bound in zip(EPSILONS, stated, strict=True):
            truth = larger_hockey_stick(p, q, e)
            assert truth <= bound + 1e-9


@lru_cache(maxsize=64)
def claimed(event: PrivacyEvent) -> Claim:
    return Claim.curve(event, 1e-2)


def refuted(event: PrivacyEvent, target: Any, pair: Any, *, samples: int = 30_000, rng: int, **more: Any) -> bool:
    return audit(
        target, claim=claimed(event), neighbours=pair, samples=samples, rng=rng, confidence=CONFIDENCE, **more
    ).refuted


@pytest.mark.parametrize("mechanism", SUMS, ids=str)
class TestContract:
    def test_the_mechanism_satisfies_the_protocol(self, mechanism: Subsampled) -> None:
        assert isinstance(mechanism, AuditableMechanism)
        for value in mechanism.worst_case_neighbours():
            check_mechanism(mechanism, value)
        assert mechanism == evolve(mechanism) and hash(mechanism) == hash(evolve(mechanism))

    def test_log_likelihood_ratio_is_exact(self, mechanism: Subsampled) -> None:
        for pair in (mechanism.worst_case_neighbours(), *neighbours(mechanism, 4)[:5]):
            outputs = mechanism.simulate(pair[0], np.random.default_rng(607), 200)
            expected = np.log(density(mechanism, pair[0], outputs)) - np.log(density(mechanism, pair[1], outputs))
            np.testing.assert_allclose(mechanism.log_likelihood_ratio(outputs, *pair), expected, atol=1e-8)

    def test_simulated_outputs_have_the_law(self, mechanism: Subsampled) -> None:
        value = np.array([1.0, -0.5, 0.0, 0.7])
        outputs = mechanism.simulate(value, np.random.default_rng(608), 20_000)
        z = np.linspace(-30, 30, 60_001)
        cdf = np.cumsum(density(mechanism, value, z)) * 0.001
        assert stats.kstest(outputs, lambda x: np.interp(x, z + 0.0005, cdf)).pvalue > FALSE_ALARM

    @pytest.mark.statistical
    def test_released_outputs_have_the_law(self, mechanism: Subsampled) -> None:
        value, noise = np.array([1.0, -0.5, 0.0, 0.7]), SimulationNoise(609)
        outputs = np.array([mechanism.release(value, noise=noise) for _ in range(1200)])
        z = np.linspace(-30, 30, 60_001)
        cdf = np.cumsum(density(mechanism, value, z)) * 0.001
        assert stats.kstest(outputs, lambda x: np.interp(x, z + 0.0005, cdf)).pvalue > FALSE_ALARM
        wrong = np.interp(outputs * 1.3 + 0.3, z, cdf)
        assert stats.kstest(wrong, "uniform").pvalue < FALSE_ALARM

    @pytest.mark.statistical
    def test_audit_does_not_refute_it_and_refutes_half_the_noise(self, mechanism: Subsampled) -> None:
        pair, noise = mechanism.worst_case_neighbours(), mechanism.mechanism
        assert not refuted(mechanism.event(), scored(mechanism), pair, rng=610)
        half: Any = Gaussian(noise.sigma / 2) if isinstance(noise, Gaussian) else Laplace(noise.scale / 2)
        assert refuted(mechanism.event(), scored(evolve(mechanism, mechanism=half)), pair, rng=611)


class TestMutants:
    """What an implementation does that the accounting does not know of."""

    poisson = Subsampled(PoissonSample(0.2), Gaussian(0.7))
    fixed = Subsampled(SampleWithoutReplacement(10, 2), Gaussian(1.0))

    @pytest.mark.statistical
    def test_batches_in_a_fixed_order_accounted_as_poisson_are_refuted(self) -> None:
        """The last record lies in the last fifth, and that is this batch."""
        records = 10

        def last_batch(value: FloatArray, rng: np.random.Generator, runs: int) -> FloatArray:
            batch = FixedBatches(records, 5, "given").draw()[-1]
            return np.asarray(value[batch].sum() + 0.7 * rng.standard_normal(runs))

        pair = np.zeros(records), np.append(np.zeros(records - 1), 1.0)
        assert refuted(self.poisson.event(), last_batch, pair, rng=612)
        assert not refuted(self.poisson.event(), self.poisson, pair, rng=613)
        stated = FixedBatches(records, 5).event(Gaussian(0.7).event(), adjacency=Adjacency.REPLACE_WITH_NULL)
        assert not refuted(stated, last_batch, pair, rng=614)

    @pytest.mark.statistical
    def test_a_sample_that_is_published_is_refuted(self) -> None:
        def public(value: FloatArray, rng: np.random.Generator, runs: int) -> FloatArray:
            chosen = self.fixed.sampler.simulate(10, rng, runs)
            return np.stack([chosen @ value + rng.standard_normal(runs), chosen[:, -1]], axis=1)

        def known(out: FloatArray) -> FloatArray:
            return np.asarray(np.where(out[:, 1] == 1.0, out[:, 0], 0.0))

        pair = self.fixed.worst_case_neighbours()
        assert refuted(self.fixed.event(), Scored(public, known), pair, rng=615)
        assert not refuted(self.fixed.event(), Scored(public, lambda out: out[:, 0]), pair, rng=616)
        # It is what the noise alone costs.
        assert not refuted(self.fixed.mechanism.event().at(2), Scored(public, known), pair, rng=617)

    def test_the_published_number_of_the_sampled_is_refuted(self) -> None:
        """All records at probability 1, say: the size tells of the record that was added."""
        sure = Subsampled(PoissonSample(0.9), Gaussian(2.0))

        def sized(value: FloatArray, rng: np.random.Generator, runs: int) -> FloatArray:
            return np.asarray(sure.sampler.simulate(len(value), rng, runs).sum(axis=1))

        assert refuted(sure.event(), sized, (np.zeros(1), np.zeros(2)), rng=618)

    @pytest.mark.statistical
    def test_sampling_with_replacement_accounted_as_without_is_refuted(self) -> None:
        whole = Subsampled(SampleWithoutReplacement(4, 3), Gaussian(1.0))

        def repeated(value: FloatArray, rng: np.random.Generator, runs: int) -> FloatArray:
            return np.asarray(value[rng.integers(0, 4, size=(runs, 3))].sum(axis=1) + rng.standard_normal(runs))

        pair = whole.worst_case_neighbours()
        assert refuted(whole.event(), repeated, pair, samples=100_000, rng=619)
        assert not refuted(whole.event(), whole, pair, samples=100_000, rng=620)

    @pytest.mark.statistical
    def test_a_sample_drawn_once_for_all_steps_is_refuted(self) -> None:
        def one_sample(value: FloatArray, rng: np.random.Generator, runs: int) -> FloatArray:
            total = self.poisson.sampler.simulate(len(value), rng, runs) @ value
            return np.asarray(total + 0.7 / math.sqrt(8) * rng.standard_normal(runs))  # the mean of 8 releases

        def eight(value: FloatArray, rng: np.random.Generator, runs: int) -> FloatArray:
            return np.asarray(self.poisson.simulate(value, rng, 8 * runs).reshape(runs, 8).mean(axis=1))

        event = accounting.compose((self.poisson.event(), 8))
        pair = self.poisson.worst_case_neighbours()
        assert not refuted(event, eight, pair, rng=621)
        inside = PoissonSample(0.2).event(accounting.compose((Gaussian(0.7).event(), 8)))
        assert not refuted(inside, one_sample, pair, rng=622)
        assert refuted(self.poisson.event(), one_sample, pair, rng=623)

    def test_twice_the_probability_is_refuted(self) -> None:
        twice = Subsampled(PoissonSample(0.4), Gaussian(0.7))
        assert refuted(self.poisson.event(), scored(twice), self.poisson.worst_case_neighbours(), rng=624)

    @pytest.mark.statistical
    def test_records_that_are_not_clipped_are_refuted(self) -> None:
        pair = np.zeros(1), np.array([0.0, 5.0])

        def unclipped(value: FloatArray, rng: np.random.Generator, runs: int) -> FloatArray:
            chosen = self.poisson.sampler.simulate(len(value), rng, runs)
            return np.asarray(chosen @ value + 0.7 * rng.standard_normal(runs))

        assert refuted(self.poisson.event(), unclipped, pair, rng=625)
        assert not refuted(self.poisson.event(), self.poisson, pair, rng=626)

    @pytest.mark.statistical
    def test_the_released_path_is_audited_by_its_bits(self) -> None:
        small = Subsampled(PoissonSample(0.5), Laplace(1.0, grid=2.0**-3))
        pair = np.zeros(1), np.array([0.0, 0.999])

        def released(value: FloatArray, rng: np.random.Generator, runs: int) -> FloatArray:
            noise = SimulationNoise(rng)
            return np.array([small.release(value, noise=noise) for _ in range(runs)])

        def unrounded(value: FloatArray, rng: np.random.Generator, runs: int) -> FloatArray:
            chosen = small.sampler.simulate(len(value), rng, runs)
            return np.asarray(chosen @ value + released(np.zeros(1), rng, runs))

        assert not refuted(small.event(), released, pair, samples=2000, rng=627, bits=True)
        assert refuted(small.event(), unrounded, pair, samples=2000, rng=628, bits=True)


class TestSums:
    def test_vectors_are_clipped_in_the_norm_of_the_noise(self) -> None:
        value = np.array([[3.0, 4.0], [0.3, 0.4], [0.0, -7.0]])
        for noise, kept in ((Gaussian(1e-4), [[0.6, 0.8], [0.3, 0.4], [0, -1]]), (Laplace(1e-4), None)):
            mechanism = Subsampled(PoissonSample(1.0), noise)
            expected = np.array(kept or [[3 / 7, 4 / 7], [0.3, 0.4], [0, -1]]).sum(axis=0)
            out = mechanism.simulate(value, np.random.default_rng(629), 3)
            assert out.shape == (3, 2)
            np.testing.assert_allclose(out, [expected] * 3, atol=3e-3)
            np.testing.assert_allclose(mechanism.release(value, noise=SimulationNoise(1)), expected, atol=3e-3)
        huge = Subsampled(PoissonSample(1.0), Gaussian(1.0)).release([[1e300, 1e300]], noise=SimulationNoise(1))
        assert np.isfinite(huge).all() and np.abs(huge).max() < 50

    @pytest.mark.statistical
    def test_log_likelihood_ratio_of_vectors_and_many_equal_records(self) -> None:
        mechanism = Subsampled(SampleWithoutReplacement(30, 4), Gaussian(1.0))
        v0 = np.zeros((30, 2))
        v0[:9], v0[9:12] = [0.6, 0.0], [0.0, -0.5]
        v1 = v0.copy()
        v1[-1] = [0.0, 1.0]
        outputs = mechanism.simulate(v0, np.random.default_rng(630), 50_000)
        ratio = np.exp(-mechanism.log_likelihood_ratio(outputs, v0, v1))
        assert abs(ratio.mean() - 1) <= 6 * ratio.std() / math.sqrt(50_000)
        with pytest.raises(UnsupportedEventError, match="different sums"):
            mechanism.log_likelihood_ratio(outputs, np.arange(60.0).reshape(30, 2) / 100, v1)

    def test_a_release_is_charged_first(self) -> None:
        mechanism = SUMS[0]
        plan = accounting.AccountantGraph().source("people").release("step", mechanism.event(), reads=["people"])
        ledger = accounting.Ledger(plan)
        mechanism.release(np.zeros(4), ledger=ledger, name="step", noise=SimulationNoise(1))
        with pytest.raises(accounting.RefinementError):
            mechanism.release(np.zeros(4), ledger=ledger, name="step", noise=SimulationNoise(1))

    def test_no_records_are_a_data_set(self) -> None:
        assert SUMS[0].simulate(np.zeros(0), np.random.default_rng(1), 3).shape == (3,)
        assert isinstance(SUMS[0].release(np.zeros(0), noise=SimulationNoise(1)), float)

    def test_what_has_no_theorem_is_refused(self) -> None:
        with pytest.raises(UnsupportedEventError):
            Subsampled(TruncatedPoissonSample(4, 0.5, 2), Laplace(1.0))
        with pytest.raises(UnsupportedAdjacencyError, match="no bound is known"):
            Subsampled(PoissonSample(0.5), Gaussian(1.0), adjacency=Adjacency.REPLACE_ONE)
        with pytest.raises(UnsupportedAdjacencyError):
            Subsampled(SampleWithoutReplacement(4, 2), Gaussian(1.0), adjacency=Adjacency.ADD_OR_REMOVE_ONE)


BAD: list[tuple[str, Callable[[], Any]]] = [
    ("probability", lambda: PoissonSample(1.5)),
    ("probability", lambda: PoissonSample(math.nan)),
    ("probability", lambda: PoissonSample(True)),
    ("sample", lambda: SampleWithoutReplacement(3, 4)),
    ("sample", lambda: SampleWithoutReplacement(3, 0)),
    ("population", lambda: SampleWithoutReplacement(0, 1)),
    ("batch", lambda: TruncatedPoissonSample(3, 0.5, 0)),
    ("batches", lambda: FixedBatches(3, 4)),
    ("order", lambda: FixedBatches(3, 2, "secret")),  # type: ignore[arg-type]
    ("epochs", lambda: FixedBatches(3, 2).event(accounting.Gaussian(1.0), epochs=0)),
    ("records", lambda: PoissonSample(0.5).draw(-1)),
    ("records", lambda: SampleWithoutReplacement(3, 2).draw(4)),
    ("records", lambda: TruncatedPoissonSample(3, 0.5, 2).draw(1)),
    ("records", lambda: TruncatedPoissonSample(3, 0.5, 2).simulate(4, np.random.default_rng(1), 1)),
    ("rng", lambda: PoissonSample(0.5).simulate(3, 1, 1)),  # type: ignore[arg-type]
    ("runs", lambda: PoissonSample(0.5).simulate(3, np.random.default_rng(1), 0)),
    ("noise", lambda: PoissonSample(0.5).draw(3, noise=1)),  # type: ignore[arg-type]
    ("sampler", lambda: Subsampled(0.5, Gaussian(1.0))),  # type: ignore[arg-type]
    ("mechanism", lambda: Subsampled(PoissonSample(0.5), accounting.Gaussian(1.0))),  # type: ignore[arg-type]
    ("value", lambda: SUMS[0].simulate(3.0, np.random.default_rng(1), 1)),
    ("value", lambda: SUMS[0].release([0.0, math.inf], noise=SimulationNoise(1))),
    ("records", lambda: SUMS[3].release([0.0], noise=SimulationNoise(1))),
    ("grid", lambda: Subsampled(PoissonSample(0.5), Laplace(1.0, grid=2.0**-50)).release([0.0])),
]


@pytest.mark.parametrize(("argument", "call"), BAD, ids=[f"{name}-{i}" for i, (name, _) in enumerate(BAD)])
def test_bad_input_is_refused(argument: str, call: Callable[[], Any]) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        call()
    assert caught.value.argument.split("[")[0] == argument
