"""Tests of tree aggregation: linear algebra by brute force, the law of answers, its cost, and refuted mutants."""

from __future__ import annotations

import itertools
import json
import math
import pickle
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from divergences import gaussian_delta, larger_hockey_stick
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scored import Scored, scored

from hockeystick import accounting
from hockeystick.accounting import InvalidArgumentError, UnsupportedEventError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.events.noise.correlated_noise import tree_encoder, tree_levels
from hockeystick.audits import Claim, audit
from hockeystick.mechanisms import AuditableMechanism, SimulationNoise, check_mechanism
from hockeystick.mechanisms.randomness import noise_on_a_grid
from hockeystick.mechanisms.streams import tree_blocks
from hockeystick.mechanisms.streams.tree_aggregation import TreeAggregation, _laplace_tails

FALSE_ALARM = 1e-6
CONFIDENCE = 1 - 1e-6
EPSILONS = (0.0, 0.2, 0.7, 1.5, 3.0)
STEPS = [1, 2, 3, 4, 5, 6, 7, 8, 11, 16]
ESTIMATES = ["plain", "below", "full"]


def decoder(steps: int, estimate: Any) -> FloatArray:
    """The matrix from all blocks, in the order of ``tree_encoder``, to the prefix sums."""
    counts = tree_blocks.counts(steps)
    unit = np.split(np.eye(sum(counts)), np.cumsum(counts)[:-1], axis=1)
    found = tree_blocks.prefixes(tree_blocks.improved([b[:, :, None] for b in unit], estimate), steps)
    return np.asarray(found[:, :, 0].T)


def prefix_matrix(steps: int) -> FloatArray:
    return np.tril(np.ones((steps, steps)))


def whitened(mechanism: TreeAggregation, errors: FloatArray) -> FloatArray:
    b = decoder(mechanism.steps, mechanism.estimate)
    return np.linalg.solve(np.linalg.cholesky(b @ b.T), errors.T).T / mechanism.scale


def refuted(mechanism: Any, target: Any, *, samples: int = 40_000, rng: int, bits: bool = False) -> bool:
    claim = Claim.curve(mechanism.event(), 1e-3)
    pair = mechanism.worst_case_neighbours()
    return audit(
        target, claim=claim, neighbours=pair, samples=samples, rng=rng, confidence=CONFIDENCE, bits=bits
    ).refuted


class TestLinearAlgebra:
    @pytest.mark.parametrize("steps", STEPS)
    @pytest.mark.parametrize("estimate", ESTIMATES)
    def test_answers_are_unbiased_with_the_stated_variance(self, steps: int, estimate: Any) -> None:
        b, c = decoder(steps, estimate), tree_encoder(steps)
        np.testing.assert_allclose(b @ c, prefix_matrix(steps), atol=1e-12)
        mechanism = TreeAggregation(steps, 2.0, estimate=estimate)
        np.testing.assert_allclose(mechanism.variances(), 4.0 * (b**2).sum(axis=1), rtol=1e-12)
        laplace = TreeAggregation(steps, 2.0, estimate=estimate, law="laplace")
        np.testing.assert_allclose(laplace.variances(), 8.0 * (b**2).sum(axis=1), rtol=1e-12)

    @pytest.mark.parametrize("steps", STEPS)
    def test_full_is_least_squares(self, steps: int) -> None:
        best = prefix_matrix(steps) @ np.linalg.pinv(tree_encoder(steps))
        np.testing.assert_allclose(decoder(steps, "full"), best, atol=1e-12)

    @pytest.mark.parametrize("steps", STEPS)
    def test_below_is_least_squares_on_what_is_known_so_far(self, steps: int) -> None:
        c, b = tree_encoder(steps), decoder(steps, "below")
        last = np.array([np.flatnonzero(row)[-1] for row in c])
        for t in range(steps):
            known = c[last <= t]
            best = prefix_matrix(steps)[t] @ np.linalg.pinv(known)
            np.testing.assert_allclose(b[t][last <= t], best, atol=1e-12)
            assert not b[t][last > t].any()

    @pytest.mark.parametrize("steps", STEPS)
    def test_plain_uses_one_block_a_step(self, steps: int) -> None:
        b = decoder(steps, "plain")
        assert (np.abs(b).max(axis=0) > 0).sum() == steps
        assert set(np.unique(b)) <= {0.0, 1.0}
        np.testing.assert_array_equal(b.sum(axis=1), [t.bit_count() for t in range(1, steps + 1)])

    @pytest.mark.statistical
    @given(st.integers(1, 300), st.integers(0, 2**32))
    def test_last_blocks_undo_prefixes(self, steps: int, seed: int) -> None:
        noise = [np.random.default_rng(seed).normal(size=(2, count, 1)) for count in tree_blocks.counts(steps)]
        answers = tree_blocks.prefixes(noise, steps)
        found = tree_blocks.last_blocks(answers)
        for t in range(1, steps + 1):
            h = (t & -t).bit_length() - 1
            np.testing.assert_allclose(found[:, t - 1], noise[h][:, (t >> h) - 1], atol=1e-9)

    def test_variance_of_long_streams(self) -> None:
        plain, below, full = (TreeAggregation(2**16, 1.0, estimate=e).variances() for e in ("plain", "below", "full"))
        assert plain.max() == 16.0
        assert (full <= below + 1e-12).all() and (below <= plain).all()
        assert below[-1] == pytest.approx(0.5, rel=1e-4) and full[-1] == pytest.approx(below[-1], rel=1e-12)
        assert full.mean() < 0.6 * below.mean() < 0.4 * plain.mean()


class TestCost:
    @pytest.mark.parametrize("steps", STEPS)
    @pytest.mark.parametrize("estimate", ESTIMATES)
    def test_event_covers_the_real_pair_of_normal_laws(self, steps: int, estimate: Any) -> None:
        mechanism = TreeAggregation(steps, 3.0, sensitivity=1.5, estimate=estimate)
        b = decoder(steps, estimate)
        mus = [
            np.linalg.norm(whitened(mechanism, 1.5 * prefix_matrix(steps)[:, [i]].T)) for i in range(steps)
        ]  # whitened by the decoder's covariance
        assert np.linalg.matrix_rank(b) == steps
        for epsilon in EPSILONS:
            truth = gaussian_delta(float(max(mus)), epsilon)
            stated = accounting.delta(mechanism.event(), epsilon).upper
            assert truth <= stated * (1 + 1e-12)
            if estimate != "below":  # nothing is lost by the other two at step 0
                assert stated <= truth * (1 + 1e-9)

    @pytest.mark.parametrize(("steps", "times", "gap"), [(5, 2, 1), (7, 2, 3), (8, 3, 2), (11, 5, 2), (6, 9, 4)])
    def test_event_covers_several_participations(self, steps: int, times: int, gap: int) -> None:
        mechanism = TreeAggregation(steps, 2.0, participations=times, separation=gap)
        laplace = evolve(mechanism, law="laplace")
        c, worst, worst_l1 = tree_encoder(steps), 0.0, 0.0
        for size in range(1, min(times, steps) + 1):
            for chosen in itertools.combinations(range(steps), size):
                if all(j - i >= gap for i, j in itertools.pairwise(chosen)):
                    moved = c[:, list(chosen)].sum(axis=1)
                    worst, worst_l1 = max(worst, float(np.linalg.norm(moved))), max(worst_l1, float(moved.sum()))
        assert worst**2 / 8.0 <= mechanism.event().zcdp_rho() <= worst**2 / 8.0 * 1.2
        assert laplace.event().pure_epsilon() == pytest.approx(worst_l1 / 2.0, rel=1e-12)
        assert laplace.event().pure_epsilon() >= worst_l1 / 2.0
        zero, one = mechanism.worst_case_neighbours()
        assert np.linalg.norm(c @ (one - zero)) >= 0.8 * worst

    @pytest.mark.statistical
    @pytest.mark.parametrize("scale", [0.7, 2.0])
    def test_event_covers_the_real_pair_of_laplace_laws(self, scale: float) -> None:
        """Three steps, plain: the record of step 0 shifts blocks 0 and 0–1, step 1 the second, step 2 its own."""
        mechanism = TreeAggregation(3, scale, law="laplace", estimate="plain")
        z = (np.arange(1600) - 799.5) / 50
        near, far = stats.laplace.pdf(z, 0, scale), stats.laplace.pdf(z, 1, scale)
        p, q = near[:, None] * near[None, :] / 2500, far[:, None] * far[None, :] / 2500
        for epsilon in EPSILONS:
            stated = accounting.delta(mechanism.event(), epsilon).upper
            truth = larger_hockey_stick(p, q, epsilon)
            assert truth <= stated + 1e-4
            assert stated <= truth + 2e-3
        assert mechanism.event().pure_epsilon() == pytest.approx(2 / scale, rel=1e-15)

    @pytest.mark.parametrize("grid", [0.5, 1.0, 2.0])
    def test_event_covers_integer_laplace_noise(self, grid: float) -> None:
        """All roundings of a contribution that moves by 1: two blocks move by up to ⌊1/grid⌋ + 1 steps."""
        mechanism = TreeAggregation(3, 4.0, law="laplace", estimate="plain", grid=grid)
        scale, step = mechanism._on_grid(mechanism._moved_entries(1))
        assert step == grid
        k = np.arange(-120, 121)
        base = np.exp(-np.abs(k) / scale)
        moved = np.exp(-np.abs(k - (math.floor(1 / grid) + 1)) / scale)
        total = (1 + math.exp(-1 / scale)) / (1 - math.exp(-1 / scale))
        p, q = (np.outer(x, x) / total**2 for x in (base, moved))
        for epsilon in EPSILONS:
            truth = larger_hockey_stick(p, q, epsilon)
            assert truth <= accounting.delta(mechanism.event(), epsilon).upper + 1e-9

    @pytest.mark.parametrize("steps", [1, 6, 100])
    @pytest.mark.parametrize("width", [1, 9])
    @pytest.mark.parametrize("times", [1, 3])
    def test_event_covers_integer_gaussian_noise_in_zcdp(self, steps: int, width: int, times: int) -> None:
        """ρ of the discrete noise is that of a shift by the rounded sensitivity (Canonne, Kamath & Steinke 2020)."""
        mechanism = TreeAggregation(steps, 0.9, sensitivity=2.5, participations=times)
        scale, step = mechanism._on_grid(mechanism._moved_entries(width))
        moved = math.sqrt(2 * mechanism.event().zcdp_rho()) * 0.9 / 2.5 * (2.5 / step + math.sqrt(width))
        assert moved**2 / (2 * scale**2) <= mechanism.event().zcdp_rho()
        assert scale * step <= 0.9 * (1 + 2.0**-15)

    @pytest.mark.statistical
    def test_event_covers_integer_gaussian_noise(self) -> None:
        """One step: the largest rounded move, and the discrete law summed up point by point."""
        mechanism = TreeAggregation(1, 1.0, grid=2.0**-20)
        s, step = mechanism._on_grid(mechanism._moved_entries(1))
        moved = int(1 / step) + 1
        far = int(9 * s)

        def below(c: int) -> float:
            """P(noise ≤ c)."""
            edges = [*range(-far, c, 1 << 20), c + 1]
            parts = (np.exp(-((np.arange(a, b) / s) ** 2) / 2).sum() for a, b in itertools.pairwise(edges))
            return math.fsum(parts) / (s * math.sqrt(2 * math.pi))

        for epsilon in EPSILONS:
            c = math.floor(moved / 2 - epsilon * s * s / moved)  # up to here the ratio is at least e^ε
            truth = below(c) - math.exp(epsilon) * below(c - moved)
            stated = accounting.delta(mechanism.event(), epsilon).upper
            assert truth <= stated <= truth * (1 + 1e-4)

    def test_rounded_contributions_move_no_more_than_stated(self) -> None:
        """Of 20,000 pairs at distance at most 1, in 1 to 5 entries, on a coarse grid."""
        rng = np.random.default_rng(321)
        for width in (1, 2, 5):
            a = rng.uniform(-4, 4, size=(20_000, width))
            d = rng.normal(size=a.shape)
            for order, reach in ((2, math.sqrt(width)), (1, width)):
                b = a + d / np.linalg.norm(d, ord=order, axis=1, keepdims=True)
                moved = np.linalg.norm(noise_on_a_grid.steps(a, 0.5) - noise_on_a_grid.steps(b, 0.5), ord=order, axis=1)
                assert moved.max() <= 1 / 0.5 + reach

    def test_event_is_per_record(self) -> None:
        event = TreeAggregation(100, 6.0, sensitivity=3.0).event()
        assert event == accounting.compose((accounting.Gaussian(2.0), 7))
        assert event.at(4) == TreeAggregation(100, 6.0, sensitivity=12.0).event()

    @pytest.mark.parametrize("leaves", [1, 2, 8, 64])
    def test_opendp_counts_the_same_levels(self, leaves: int) -> None:
        dp = pytest.importorskip("opendp.prelude")
        dp.enable_features("contrib")
        space = dp.vector_domain(dp.atom_domain(T="i64"), leaves), dp.l1_distance(T="i64")
        tree = dp.t.make_b_ary_tree(*space, leaf_count=leaves, branching_factor=2)
        noisy = tree >> dp.m.then_laplace(scale=2.0)
        # their layers hold the same number of blocks over one leaf
        stated = TreeAggregation(leaves, 2.0, law="laplace").event().pure_epsilon()
        assert noisy.map(1) == pytest.approx(stated, rel=1e-9)


class TestLaw:
    @pytest.mark.parametrize("estimate", ESTIMATES)
    def test_simulated_errors_have_the_joint_normal_law(self, estimate: Any) -> None:
        mechanism = TreeAggregation(7, 2.5, estimate=estimate)
        value = np.arange(7.0)
        outputs = mechanism.simulate(value, np.random.default_rng(301), 20_000)
        errors = whitened(mechanism, outputs - np.cumsum(value))
        assert stats.kstest(errors.ravel(), "norm").pvalue > FALSE_ALARM
        squares = (errors**2).sum(axis=1)  # sees dependence, too
        assert stats.kstest(squares, stats.chi2(7).cdf).pvalue > FALSE_ALARM
        assert stats.kstest(squares * 1.1, stats.chi2(7).cdf).pvalue < FALSE_ALARM

    def test_simulated_plain_blocks_are_laplace(self) -> None:
        mechanism = TreeAggregation(6, 0.8, law="laplace", estimate="plain")
        outputs = mechanism.simulate(np.ones((6, 2)), np.random.default_rng(302), 10_000)
        assert outputs.shape == (10_000, 6, 2)
        errors = tree_blocks.last_blocks(outputs - np.cumsum(np.ones((6, 2)), axis=0))
        assert stats.kstest(errors.ravel(), stats.laplace(0, 0.8).cdf).pvalue > FALSE_ALARM
        assert np.abs(np.corrcoef(errors.reshape(10_000, 12).T) - np.eye(12)).max() < 0.06

    @pytest.mark.statistical
    @pytest.mark.parametrize("estimate", ESTIMATES)
    @pytest.mark.parametrize("law", ["gaussian", "laplace"])
    def test_released_errors_have_the_stated_covariance(self, estimate: Any, law: Any) -> None:
        mechanism = TreeAggregation(5, 2.0, law=law, estimate=estimate)
        noise, value = SimulationNoise(303), np.array([0.3, -4.0, 100.0, 2.0, 0.0])
        errors = np.array([mechanism.release(value, noise=noise) for _ in range(2000)]) - np.cumsum(value)
        white = whitened(mechanism, errors) / (1.0 if law == "gaussian" else math.sqrt(2))
        if law == "gaussian":
            assert stats.kstest(white.ravel(), "norm").pvalue > FALSE_ALARM
            assert stats.kstest((white**2).sum(axis=1), stats.chi2(5).cdf).pvalue > FALSE_ALARM
        elif estimate == "plain":
            blocks = tree_blocks.last_blocks(errors[:, :, None])
            assert stats.kstest(blocks.ravel(), stats.laplace(0, 2.0).cdf).pvalue > FALSE_ALARM
        # six standard errors and more: sd of a squared Laplace variate is √5 times its mean
        assert np.abs(white.T @ white / 2000 - np.eye(5)).max() < 0.35

    @pytest.mark.parametrize("estimate", ["plain", "below"])
    def test_streamed_errors_have_the_law_of_a_batch(self, estimate: Any) -> None:
        mechanism, noise = TreeAggregation(6, 2.0, estimate=estimate), SimulationNoise(304)
        value = np.array([[0.3, -4.0, 100.0, 2.0, 0.0, 7.5]]).T * np.ones((1, 400))  # 400 independent entries a run
        errors = []
        for _ in range(5):
            stream = mechanism.stream((400,), noise=noise)
            errors.append((np.array([stream.add(row) for row in value]) - np.cumsum(value, axis=0)).T)
        white = whitened(mechanism, np.concatenate(errors))
        assert stats.kstest(white.ravel(), "norm").pvalue > FALSE_ALARM
        assert stats.kstest((white**2).sum(axis=1), stats.chi2(6).cdf).pvalue > FALSE_ALARM

    def test_secure_noise_has_the_stated_law(self) -> None:
        mechanism = TreeAggregation(4, 2.0, estimate="below")
        errors = mechanism.release(np.zeros((4, 800))).T
        assert stats.kstest(whitened(mechanism, errors).ravel(), "norm").pvalue > FALSE_ALARM
        stream = mechanism.stream((800,))
        errors = np.array([stream.add(np.zeros(800)) for _ in range(4)]).T
        assert stats.kstest(whitened(mechanism, errors).ravel(), "norm").pvalue > FALSE_ALARM

    def test_whole_numbers_stay_whole_on_a_grid_of_one(self) -> None:
        mechanism = TreeAggregation(6, 2.0, law="laplace", estimate="plain", grid=1.0)
        found = mechanism.release(np.arange(6), noise=SimulationNoise(305))
        np.testing.assert_array_equal(found, np.rint(found))


class TestStream:
    def test_memory_is_logarithmic_and_pickles_go_on(self) -> None:
        stream = TreeAggregation(1000, 1e-3, sensitivity=1e-3).stream(noise=SimulationNoise(306))
        for t in range(1000):
            if t == 500:
                stream = pickle.loads(pickle.dumps(stream))
            assert stream.add(1.0) == pytest.approx(t + 1, abs=0.05)
            assert len(stream._sums) == len(stream._noisy) == (t + 1).bit_count()
        with pytest.raises(InvalidArgumentError, match="no further one"):
            stream.add(1.0)

    def test_a_refused_contribution_leaves_the_stream_as_it_was(self) -> None:
        stream = TreeAggregation(4, 1.0).stream((2,), noise=SimulationNoise(307))
        for bad in (math.nan, [1.0], "x", [math.inf, 0.0]):
            with pytest.raises(InvalidArgumentError):
                stream.add(bad)
        assert stream.done == 0 and stream.add([1.0, 2.0]).shape == (2,)

    @pytest.mark.parametrize("estimate", ["plain", "below"])
    @pytest.mark.parametrize("steps", [1, 7, 64, 100, 257])
    def test_blocks_of_any_length_give_the_same_answers(self, steps: int, estimate: Any) -> None:
        """Bit by bit, with noise tied to the nodes: in a release, row by row, in blocks, and after every checkpoint."""
        mechanism = TreeAggregation(steps, 2.0, estimate=estimate)
        rows = np.random.default_rng(steps).normal(size=(steps, 3))
        whole = mechanism.release(rows, noise=SimulationNoise(5))
        stream = mechanism.stream((3,), noise=SimulationNoise(5))
        np.testing.assert_array_equal([stream.add(row) for row in rows], whole)
        noise = SimulationNoise(5)
        stream, found = mechanism.stream((3,), noise=noise), []
        for part in np.split(rows, [1, 2, 5, 30, 99]):
            found.append(stream.extend(part))
            stream = mechanism.resume(json.loads(json.dumps(stream.state())), (3,), noise=noise)
        np.testing.assert_array_equal(np.concatenate(found), whole)
        with pytest.raises(InvalidArgumentError, match="no further one"):
            stream.extend(rows[:1])

    def test_states_of_other_streams_are_refused(self) -> None:
        mechanism = TreeAggregation(4, 2.0)
        stream = mechanism.stream((2,), noise=SimulationNoise(5))
        stream.extend(np.ones((3, 2)))
        state = stream.state()
        wrong: Any = ({}, None, {**state, "done": 5}, {**state, "done": 2.5}, {**state, "sums": {"0": [1, 2]}}, [state])
        for bad in wrong:
            with pytest.raises(InvalidArgumentError):
                mechanism.resume(bad, (2,), noise=SimulationNoise(5))
        with pytest.raises(InvalidArgumentError):
            mechanism.resume(state, (3,), noise=SimulationNoise(5))

    def test_closing_order_is_that_of_the_steps(self) -> None:
        """Of 2^c steps: each one closes the blocks that end there, the lower ones first."""
        closed = [(h, t // 2**h - 1) for t in range(1, 33) for h in range(6) if t % 2**h == 0]
        for h in range(6):
            places = tree_blocks.closing_order(h, 32 >> h)
            assert [closed[place] for place in places] == [(h, j) for j in range(32 >> h)]

    def test_full_needs_all_steps(self) -> None:
        with pytest.raises(InvalidArgumentError, match="all steps at once"):
            TreeAggregation(4, 1.0, estimate="full").stream()

    def test_the_whole_stream_is_charged_at_its_start(self) -> None:
        mechanism = TreeAggregation(8, 2.0)
        plan = accounting.AccountantGraph().source("people").release("sums", mechanism.event(), reads=["people"])
        ledger = accounting.Ledger(plan)
        mechanism.stream(ledger=ledger, name="sums", noise=SimulationNoise(1))
        assert ledger.recorded("sums") == 1 and any("seed" in a for a in ledger.guarantee().assumptions)
        with pytest.raises(accounting.RefinementError):
            mechanism.release(np.zeros(8), ledger=ledger, name="sums", noise=SimulationNoise(1))


CONTRACT = [
    TreeAggregation(5, 2.0),
    TreeAggregation(5, 2.0, estimate="full"),
    TreeAggregation(8, 2.0, estimate="plain"),
    TreeAggregation(5, 2.0, law="laplace", estimate="plain"),
    TreeAggregation(6, 5.0, sensitivity=3.0, participations=2, separation=2),
]


@pytest.mark.parametrize("mechanism", CONTRACT, ids=str)
class TestContract:
    def test_the_mechanism_satisfies_the_protocol(self, mechanism: TreeAggregation) -> None:
        assert isinstance(mechanism, AuditableMechanism)
        for value in mechanism.worst_case_neighbours():
            check_mechanism(mechanism, value)
        assert mechanism == evolve(mechanism) and hash(mechanism) == hash(evolve(mechanism))

    def test_log_likelihood_ratio_has_mean_one(self, mechanism: TreeAggregation) -> None:
        pair = mechanism.worst_case_neighbours()
        for side, sign in ((0, -1), (1, 1)):
            outputs = mechanism.simulate(pair[side], np.random.default_rng(308), 50_000)
            inverse = np.exp(sign * mechanism.log_likelihood_ratio(outputs, *pair))
            assert abs(inverse.mean() - 1) <= 6 * inverse.std() / math.sqrt(50_000)

    @pytest.mark.statistical
    def test_audit_does_not_refute_it_and_refutes_half_the_noise(self, mechanism: TreeAggregation) -> None:
        assert not refuted(mechanism, scored(mechanism), rng=309)
        half = evolve(mechanism, scale=mechanism.scale / 2)
        assert refuted(mechanism, scored(half), rng=310)


@pytest.mark.parametrize("estimate", ESTIMATES)
def test_log_likelihood_ratio_is_that_of_the_normal_densities(estimate: Any) -> None:
    mechanism = TreeAggregation(6, 0.7, estimate=estimate)
    rng = np.random.default_rng(311)
    v0, v1 = rng.normal(size=(2, 6, 2))
    outputs = mechanism.simulate(v0, rng, 30)
    b = decoder(6, estimate)
    laws = [[stats.multivariate_normal(np.cumsum(v[:, j]), 0.49 * b @ b.T) for j in range(2)] for v in (v0, v1)]
    expected = sum(laws[0][j].logpdf(outputs[:, :, j]) - laws[1][j].logpdf(outputs[:, :, j]) for j in range(2))
    np.testing.assert_allclose(mechanism.log_likelihood_ratio(outputs, v0, v1), expected, atol=1e-9)


class TestMutants:
    mechanism = TreeAggregation(15, 3.0, estimate="plain")

    @pytest.mark.statistical
    def test_fresh_noise_for_every_prefix_is_refuted(self) -> None:
        """Each answer has the right marginal law; together they reveal step 0 with μ² = Σ 1/ones(t)."""
        variances = self.mechanism.variances()

        def fresh(value: FloatArray, rng: np.random.Generator, runs: int) -> FloatArray:
            return np.cumsum(value) + np.sqrt(variances) * rng.standard_normal((runs, 15))

        target = Scored(fresh, lambda out: (out / variances).sum(axis=1))
        assert refuted(self.mechanism, target, rng=312)
        assert not refuted(self.mechanism, Scored(self.mechanism.simulate, target.score), rng=313)

    @pytest.mark.statistical
    def test_one_noise_for_all_blocks_of_a_height_is_refuted(self) -> None:
        def reused(value: FloatArray, rng: np.random.Generator, runs: int) -> FloatArray:
            noise = [
                np.repeat(rng.standard_normal((runs, 1, 1)), count, axis=1) * self.mechanism.scale
                for count in tree_blocks.counts(15)
            ]
            return np.asarray(np.cumsum(value) + tree_blocks.prefixes(noise, 15)[:, :, 0])

        def two_leaves(out: FloatArray) -> FloatArray:
            blocks = tree_blocks.last_blocks(out[:, :, None])[:, :, 0]
            return np.asarray(blocks[:, 0] - blocks[:, 2])

        assert refuted(self.mechanism, Scored(reused, two_leaves), rng=314)
        assert not refuted(self.mechanism, Scored(self.mechanism.simulate, two_leaves), rng=315)

    @pytest.mark.statistical
    def test_an_uncharged_second_participation_is_refuted(self) -> None:
        again = evolve(self.mechanism, participations=8)
        pair = again.worst_case_neighbours()
        verdict = audit(
            scored(again),
            claim=Claim.curve(self.mechanism.event(), 1e-3),
            neighbours=pair,
            samples=40_000,
            rng=316,
            confidence=CONFIDENCE,
        )
        assert verdict.refuted
        assert not refuted(again, scored(again), rng=317)

    @pytest.mark.statistical
    def test_the_released_path_is_audited_by_its_bits(self) -> None:
        small = TreeAggregation(2, 3.0, law="laplace", grid=2.0**-3)

        def released(value: FloatArray, rng: np.random.Generator, runs: int) -> FloatArray:
            noise = SimulationNoise(rng)
            return np.array([small.release(value, noise=noise) for _ in range(runs)])

        def unrounded(value: FloatArray, rng: np.random.Generator, runs: int) -> FloatArray:
            return released(np.zeros(2), rng, runs) + np.cumsum(value) * 0.999

        assert not refuted(small, released, samples=2000, rng=318, bits=True)
        assert refuted(small, unrounded, samples=2000, rng=319, bits=True)


class TestAccuracy:
    @pytest.mark.parametrize("law", ["gaussian", "laplace"])
    @pytest.mark.parametrize("estimate", ESTIMATES)
    @pytest.mark.parametrize("beta", [0.3, 0.02])
    @pytest.mark.every(3)
    def test_all_answers_are_within_the_radius(self, law: Any, estimate: Any, beta: float) -> None:
        mechanism = TreeAggregation(20, 2.0, law=law, estimate=estimate)
        radius = mechanism.accuracy(beta, entries=2)
        errors = np.abs(mechanism.simulate(np.zeros((20, 2)), np.random.default_rng(320), 20_000)).max(axis=(1, 2))
        missed = float((errors > radius).mean())
        assert missed <= beta + 6 * math.sqrt(beta / 20_000)
        assert np.quantile(errors, 1 - beta) >= radius / (1.35 if law == "gaussian" else 2.4)

    @pytest.mark.parametrize("blocks", [1, 2, 5])
    @pytest.mark.parametrize("t", [0.5, 3.0, 30.0])
    def test_laplace_tails_are_chernoffs_bound(self, blocks: int, t: float) -> None:
        """P(|sum of k Laplace variates| > t) ≤ 2·min over λ of e^(−λt)/(1 − λ²)^k, here for the largest weight 1."""
        root = max(1.0, math.sqrt(blocks))
        lam = np.linspace(0, 1 / root, 200_001)[:-1]
        bound = 2 * np.exp(-lam * t - blocks / root**2 * np.log1p(-((lam * root) ** 2))).min()
        found = float(_laplace_tails(t, np.array([float(blocks)]))[0])
        assert found == pytest.approx(min(1.0, bound), rel=1e-6)
        sums = np.random.default_rng(322).laplace(size=(50_000, blocks)).sum(axis=1)
        assert (np.abs(sums) > t).mean() <= found + 6 * math.sqrt(found / 50_000)

    def test_radius_of_a_single_step_is_the_quantile(self) -> None:
        assert TreeAggregation(1, 2.0).accuracy(0.05) == pytest.approx(2 * stats.norm.isf(0.025), rel=1e-9)


class TestCalibration:
    @pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
    @pytest.mark.parametrize("times", [1, 3])
    def test_calibrated_meets_the_target_tightly(self, epsilon: float, times: int) -> None:
        gauss = TreeAggregation.calibrated(50, epsilon=epsilon, delta=1e-6, sensitivity=0.3, participations=times)
        assert gauss.law == "gaussian"
        assert accounting.delta(gauss.event(), epsilon).upper <= 1e-6
        assert accounting.delta(evolve(gauss, scale=gauss.scale * (1 - 1e-9)).event(), epsilon).upper > 1e-6
        laplace = TreeAggregation.calibrated(50, epsilon=epsilon, sensitivity=0.3, participations=times)
        assert laplace.law == "laplace" and laplace.event().pure_epsilon() <= epsilon
        assert evolve(laplace, scale=laplace.scale * (1 - 1e-9)).event().pure_epsilon() > epsilon
        if times == 1:
            assert laplace.scale == pytest.approx(0.3 * tree_levels(50) / epsilon, rel=1e-12)


BAD: list[tuple[str, dict[str, Any]]] = [
    ("steps", {"steps": 0}),
    ("steps", {"steps": True}),
    ("steps", {"steps": 2.5}),
    ("steps", {"steps": 10_000, "participations": 2}),
    ("scale", {"scale": 0.0}),
    ("scale", {"scale": math.nan}),
    ("sensitivity", {"sensitivity": -1.0}),
    ("law", {"law": "cauchy"}),
    ("estimate", {"estimate": "best"}),
    ("participations", {"participations": 0}),
    ("separation", {"separation": 0}),
    ("grid", {"grid": 0.3}),
]


@pytest.mark.parametrize(("argument", "changed"), BAD, ids=str)
def test_bad_parameters_are_refused(argument: str, changed: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        TreeAggregation(**{"steps": 4, "scale": 1.0, **changed})
    assert caught.value.argument == argument


@pytest.mark.parametrize("value", [np.zeros(3), 1.0, [0.0, math.nan, 0.0, 0.0], np.zeros((4, 0)), ["a"] * 4])
def test_bad_values_are_refused_before_anything_is_drawn(value: Any) -> None:
    mechanism = TreeAggregation(4, 1.0)
    for call in (
        lambda: mechanism.simulate(value, np.random.default_rng(1), 2),
        lambda: mechanism.release(value, noise=SimulationNoise(1)),
    ):
        with pytest.raises(InvalidArgumentError):
            call()


def test_noise_without_a_closed_density_is_refused() -> None:
    for estimate in ("below", "full"):
        mechanism = TreeAggregation(4, 1.0, law="laplace", estimate=estimate)
        with pytest.raises(UnsupportedEventError, match="plain"):
            mechanism.log_likelihood_ratio(np.zeros((2, 4)), np.zeros(4), np.ones(4))
    with pytest.raises(UnsupportedEventError, match="too many"):
        TreeAggregation(3000, 1.0).log_likelihood_ratio(np.zeros((1, 3000)), np.zeros(3000), np.ones(3000))
