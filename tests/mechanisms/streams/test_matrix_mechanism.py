"""Tests of the matrix mechanism: the law of its answers against brute-force covariances, its cost, and refuted
mutants."""

from __future__ import annotations

import itertools
import json
import math
import pickle
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from divergences import gaussian_delta
from scipy import stats
from scored import Scored, scored

from hockeystick import accounting
from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.events.noise.correlated_noise import matrix_mechanism, tree_encoder
from hockeystick.audits import Claim, audit
from hockeystick.mechanisms import AuditableMechanism, SimulationNoise, check_mechanism
from hockeystick.mechanisms.streams.buffered_filters import BufferedToeplitz
from hockeystick.mechanisms.streams.factor_encoders import UNIT, Dense, Factorisation, Toeplitz
from hockeystick.mechanisms.streams.factorisations import blt, identity, optimised_band, square_root
from hockeystick.mechanisms.streams.matrix_mechanism import MatrixMechanism

FALSE_ALARM = 1e-6
CONFIDENCE = 1 - 1e-6
EPSILONS = (0.0, 0.2, 0.7, 1.5, 3.0)

FACTORISATIONS: list[Factorisation] = [
    square_root(7),
    square_root(7, band=3),
    optimised_band(7, 2),
    identity(5),
    BufferedToeplitz(7, (0.9, 0.4), (0.2, 0.3)),
    square_root(6, workload="stream"),
    Dense(tree_encoder(6)),
    Dense(np.random.default_rng(501).normal(size=(6, 4)), np.random.default_rng(502).normal(size=(3, 6))),
]


def matrices(f: Factorisation) -> tuple[FloatArray, FloatArray]:
    """B and C."""
    if isinstance(f, Dense):
        return f.decoder, f.encoder
    assert isinstance(f, (Toeplitz, BufferedToeplitz))
    a = np.tril(np.ones((f.steps, f.steps))) if f.workload == "prefix_sums" else np.eye(f.steps)
    return a @ np.linalg.inv(f.matrix()), f.matrix()


def whitened(mechanism: MatrixMechanism, errors: FloatArray) -> FloatArray:
    b, _ = matrices(mechanism.factorisation)
    return np.linalg.solve(np.linalg.cholesky(b @ b.T), errors.T).T / mechanism.scale


def refuted(claimed: Any, target: Any, *, neighbours: Any = None, samples: int = 40_000, rng: int, **more: Any) -> bool:
    return audit(
        target,
        claim=Claim.curve(claimed.event(), 1e-3),
        neighbours=neighbours or claimed.worst_case_neighbours(),
        samples=samples,
        rng=rng,
        confidence=CONFIDENCE,
        **more,
    ).refuted


class TestCost:
    @pytest.mark.parametrize("f", FACTORISATIONS, ids=lambda f: type(f).__name__)
    @pytest.mark.parametrize(("times", "gap"), [(1, 1), (2, 2), (3, 1)])
    def test_event_covers_the_real_pair_of_normal_laws(self, f: Factorisation, times: int, gap: int) -> None:
        mechanism = MatrixMechanism(f, 2.0, sensitivity=1.5, participations=times, separation=gap)
        b, c = matrices(f)
        inverse = np.linalg.pinv(b @ b.T, hermitian=True)
        worst = 0.0
        for size in range(1, times + 1):
            for chosen in itertools.combinations(range(f.steps), size):
                if all(j - i >= gap for i, j in itertools.pairwise(chosen)):
                    for signs in itertools.product((1.0, -1.0), repeat=size):
                        moved = b @ c[:, list(chosen)] @ np.array(signs) * 1.5
                        worst = max(worst, math.sqrt(moved @ inverse @ moved) / 2.0)
        for epsilon in EPSILONS:
            truth = gaussian_delta(worst, epsilon)
            stated = accounting.delta(mechanism.event(), epsilon).upper
            assert truth <= stated * (1 + 1e-9)
            if f.is_filter:  # B is invertible, and all coefficients ≥ 0: nothing is lost
                assert stated <= truth * (1 + 1e-6)

    @pytest.mark.parametrize("f", FACTORISATIONS, ids=lambda f: type(f).__name__)
    def test_event_is_that_of_the_accounting(self, f: Factorisation) -> None:
        ours = MatrixMechanism(f, 3.0, sensitivity=1.5, participations=2, separation=2).event()
        general = matrix_mechanism(matrices(f)[1], noise_multiplier=2.0, participations=2, separation=2)
        assert ours.zcdp_rho() == pytest.approx(general.zcdp_rho(), rel=1e-9)

    @pytest.mark.parametrize("f", FACTORISATIONS, ids=lambda f: type(f).__name__)
    @pytest.mark.parametrize("width", [1, 9])
    @pytest.mark.parametrize("scale", [0.01, 1.0, 1e7])
    def test_event_covers_integer_noise_in_zcdp(self, f: Factorisation, width: int, scale: float) -> None:
        """ρ of discrete noise is that of the rounded sensitivity (Canonne, Kamath & Steinke 2020)."""
        mechanism = MatrixMechanism(f, scale, sensitivity=2.5, participations=2, separation=2)
        whole, step = mechanism._on_grid(width)
        moved = mechanism._reach * (2.5 / step + math.sqrt(width)) / UNIT
        assert moved**2 / (2 * whole**2) <= mechanism.event().zcdp_rho()
        assert whole * step * UNIT <= scale * (1 + (2.0**-15 if scale < 1e6 else 2.0**-8))
        assert whole <= 2.0**52

    @pytest.mark.statistical
    def test_rounded_streams_move_no_more_than_stated(self) -> None:
        """Of 5000 pairs of streams that differ in two steps, on a coarse grid, through the exact encoder."""
        f, rng = square_root(6, band=3), np.random.default_rng(503)
        mechanism = MatrixMechanism(f, 2.0**24, participations=2, separation=2, grid=0.5)
        for _ in range(5000):
            x = rng.uniform(-3, 3, size=(6, 2))
            other, first = x.copy(), int(rng.integers(0, 4))
            for t in (first, int(rng.integers(first + 2, 6))):
                d = rng.normal(size=2)
                other[t] += d / np.linalg.norm(d)
            moved = np.linalg.norm((f.encode(mechanism._whole(x, 0.5)) - f.encode(mechanism._whole(other, 0.5))) * 1.0)
            assert moved <= mechanism._reach * (1 / 0.5 + math.sqrt(2)) / UNIT

    def test_opendp_charges_the_same(self) -> None:
        dp = pytest.importorskip("opendp.prelude")
        dp.enable_features("contrib")
        mechanism = MatrixMechanism(square_root(50, band=5), 4.0)
        space = dp.vector_domain(dp.atom_domain(T="f64", nan=False)), dp.l2_distance(T="f64")
        theirs = dp.m.make_gaussian(*space, scale=4.0).map(mechanism._reach)
        assert theirs == pytest.approx(mechanism.event().zcdp_rho(), rel=1e-9)

    def test_event_is_per_record(self) -> None:
        f = square_root(20)
        event = MatrixMechanism(f, 6.0, sensitivity=3.0).event()
        assert event.at(4).zcdp_rho() == pytest.approx(MatrixMechanism(f, 6.0, sensitivity=12.0).event().zcdp_rho())


SQUARE = [f for f in FACTORISATIONS if not (isinstance(f, Dense) and f.answers < 6)]


class TestLaw:
    @pytest.mark.parametrize("f", SQUARE, ids=lambda f: type(f).__name__)
    @pytest.mark.every(2)
    def test_simulated_errors_have_the_joint_normal_law(self, f: Factorisation) -> None:
        mechanism, value = MatrixMechanism(f, 2.5), np.arange(float(f.steps))
        outputs = mechanism.simulate(value, np.random.default_rng(504), 20_000)
        b, c = matrices(f)
        white = whitened(mechanism, outputs - b @ c @ value)
        assert stats.kstest(white.ravel(), "norm").pvalue > FALSE_ALARM
        squares = (white**2).sum(axis=1)
        assert stats.kstest(squares, stats.chi2(f.answers).cdf).pvalue > FALSE_ALARM
        assert stats.kstest(squares * 1.1, stats.chi2(f.answers).cdf).pvalue < FALSE_ALARM

    def test_entries_have_independent_noise(self) -> None:
        mechanism = MatrixMechanism(square_root(4, band=2), 1.0)
        outputs = mechanism.simulate(np.ones((4, 2, 3)), np.random.default_rng(505), 20_000)
        assert outputs.shape == (20_000, 4, 2, 3)
        last = outputs[:, -1].reshape(20_000, 6)
        assert np.abs(np.corrcoef(last.T) - np.eye(6)).max() < 0.05

    def test_a_long_filter_is_transformed_to_the_same_law(self) -> None:
        mechanism = MatrixMechanism(square_root(100), 2.0)
        white = whitened(mechanism, mechanism.simulate(np.zeros(100), np.random.default_rng(506), 2000))
        assert stats.kstest((white**2).sum(axis=1), stats.chi2(100).cdf).pvalue > FALSE_ALARM

    @pytest.mark.parametrize("f", SQUARE, ids=lambda f: type(f).__name__)
    def test_released_errors_have_the_joint_normal_law(self, f: Factorisation) -> None:
        """4000 entries of one release are independent of each other."""
        mechanism = MatrixMechanism(f, 2.0)
        value = np.linspace(-50, 50, f.steps)[:, None] * np.ones((1, 4000))
        b, c = matrices(f)
        white = whitened(mechanism, (mechanism.release(value, noise=SimulationNoise(507)) - b @ c @ value).T)
        assert stats.kstest(white.ravel(), "norm").pvalue > FALSE_ALARM
        assert stats.kstest((white**2).sum(axis=1), stats.chi2(f.answers).cdf).pvalue > FALSE_ALARM

    @pytest.mark.parametrize("f", [g for g in SQUARE if isinstance(g, Toeplitz)], ids=str)
    def test_a_stream_gives_the_answers_of_a_batch(self, f: Toeplitz) -> None:
        """With the same noise, drawn row by row, the answers agree to rounding."""
        mechanism, value = MatrixMechanism(f, 2.0), np.random.default_rng(508).normal(size=(f.steps, 500))
        batch = mechanism.release(value, noise=SimulationNoise(509))
        stream = mechanism.stream((500,), noise=SimulationNoise(509))
        rows = np.array([stream.add(row) for row in value])
        np.testing.assert_allclose(rows, batch, atol=1e-9)

    def test_secure_noise_has_the_stated_law(self) -> None:
        mechanism = MatrixMechanism(square_root(4, band=3), 2.0)
        white = whitened(mechanism, mechanism.release(np.zeros((4, 800))).T)
        assert stats.kstest(white.ravel(), "norm").pvalue > FALSE_ALARM
        stream = mechanism.stream((800,))
        white = whitened(mechanism, np.array([stream.add(np.zeros(800)) for _ in range(4)]).T)
        assert stats.kstest(white.ravel(), "norm").pvalue > FALSE_ALARM


class TestStream:
    def test_memory_is_the_band_and_pickles_go_on(self) -> None:
        stream = MatrixMechanism(square_root(300, band=5), 1e-3, sensitivity=1e-3).stream(noise=SimulationNoise(510))
        for t in range(300):
            if t == 100:
                stream = pickle.loads(pickle.dumps(stream))
            assert stream.add(1.0) == pytest.approx(t + 1, abs=0.2)
            assert [len(rows) for rows in stream.state()["filter"].values()] == [min(4, t + 1)] * 2
        with pytest.raises(InvalidArgumentError, match="no further one"):
            stream.add(1.0)

    def test_answers_are_copies(self) -> None:
        stream = MatrixMechanism(square_root(3, band=2), 1.0).stream((2,), noise=SimulationNoise(511))
        twin = MatrixMechanism(square_root(3, band=2), 1.0).stream((2,), noise=SimulationNoise(511))
        first = stream.add([1.0, 2.0])
        np.testing.assert_array_equal(first, twin.add([1.0, 2.0]))
        first += 100.0
        np.testing.assert_array_equal(stream.add([0.0, 0.0]), twin.add([0.0, 0.0]))

    def test_a_refused_contribution_leaves_the_stream_as_it_was(self) -> None:
        stream = MatrixMechanism(square_root(3), 1.0).stream((2,), noise=SimulationNoise(512))
        for bad in (math.nan, [1.0], "x", [math.inf, 0.0]):
            with pytest.raises(InvalidArgumentError):
                stream.add(bad)
        assert stream.state() == {"done": 0, "total": [0.0, 0.0], "filter": {"contributions": [], "estimates": []}}

    @pytest.mark.parametrize("f", [square_root(9), square_root(9, band=3), blt(9, 2)], ids=str)
    def test_states_go_on_with_the_same_noise(self, f: Factorisation) -> None:
        mechanism, rows = MatrixMechanism(f, 2.0), np.random.default_rng(1).normal(size=(9, 2))
        twin = mechanism.stream((2,), noise=SimulationNoise(4))
        whole = [twin.add(row) for row in rows]
        at_once = mechanism.stream((2,), noise=SimulationNoise(4))
        np.testing.assert_allclose(at_once.extend(rows), whole, atol=1e-9)
        assert at_once.done == 9
        noise = SimulationNoise(4)
        stream, found = mechanism.stream((2,), noise=noise), []
        for row in rows:
            found.append(stream.add(row))
            stream = mechanism.resume(json.loads(json.dumps(stream.state())), (2,), noise=noise)
        np.testing.assert_array_equal(found, whole)
        wrong: Any = ({}, {"done": 10}, {**stream.state(), "total": [0.0]}, {**stream.state(), "filter": {}}, [], None)
        for bad in wrong:
            with pytest.raises(InvalidArgumentError):
                mechanism.resume(bad, (2,), noise=noise)

    def test_it_is_charged_whole_and_needs_a_filter(self) -> None:
        mechanism = MatrixMechanism(square_root(8), 2.0)
        plan = accounting.AccountantGraph().source("people").release("sums", mechanism.event(), reads=["people"])
        ledger = accounting.Ledger(plan)
        mechanism.stream(ledger=ledger, name="sums", noise=SimulationNoise(1))
        with pytest.raises(accounting.RefinementError):
            mechanism.release(np.zeros(8), ledger=ledger, name="sums", noise=SimulationNoise(1))
        with pytest.raises(InvalidArgumentError, match="all steps at once"):
            MatrixMechanism(Dense(np.eye(3)), 1.0).stream(noise=SimulationNoise(1))


CONTRACT = [
    *(MatrixMechanism(f, 2.0) for f in FACTORISATIONS),
    MatrixMechanism(square_root(8, band=3), 5.0, sensitivity=3.0, participations=3, separation=3),
]


@pytest.mark.parametrize("mechanism", CONTRACT, ids=lambda m: type(m.factorisation).__name__)
class TestContract:
    def test_the_mechanism_satisfies_the_protocol(self, mechanism: MatrixMechanism) -> None:
        assert isinstance(mechanism, AuditableMechanism)
        for value in mechanism.worst_case_neighbours():
            check_mechanism(mechanism, value)
        assert mechanism == evolve(mechanism) and hash(mechanism) == hash(evolve(mechanism))

    def test_log_likelihood_ratio_has_mean_one(self, mechanism: MatrixMechanism) -> None:
        pair = mechanism.worst_case_neighbours()
        for side, sign in ((0, -1), (1, 1)):
            outputs = mechanism.simulate(pair[side], np.random.default_rng(513), 50_000)
            inverse = np.exp(sign * mechanism.log_likelihood_ratio(outputs, *pair))
            assert abs(inverse.mean() - 1) <= 6 * inverse.std() / math.sqrt(50_000)

    @pytest.mark.statistical
    def test_audit_does_not_refute_it_and_refutes_half_the_noise(self, mechanism: MatrixMechanism) -> None:
        assert not refuted(mechanism, scored(mechanism), rng=514)
        f = mechanism.factorisation
        if f.is_filter or f.answers >= f.steps:  # fewer answers tell less than the event allows
            assert refuted(mechanism, scored(evolve(mechanism, scale=mechanism.scale / 2)), rng=515)


@pytest.mark.parametrize("f", SQUARE, ids=lambda f: type(f).__name__)
def test_log_likelihood_ratio_is_that_of_the_normal_densities(f: Factorisation) -> None:
    mechanism, rng = MatrixMechanism(f, 0.7), np.random.default_rng(516)
    v0, v1 = rng.normal(size=(2, f.steps, 2))
    outputs = mechanism.simulate(v0, rng, 20)
    b, c = matrices(f)
    laws = [[stats.multivariate_normal(b @ c @ v[:, j], 0.49 * b @ b.T) for j in range(2)] for v in (v0, v1)]
    expected = sum(laws[0][j].logpdf(outputs[:, :, j]) - laws[1][j].logpdf(outputs[:, :, j]) for j in range(2))
    np.testing.assert_allclose(mechanism.log_likelihood_ratio(outputs, v0, v1), expected, atol=1e-8)


class TestMutants:
    mechanism = MatrixMechanism(square_root(16), 2.0)

    def test_a_forgotten_column_is_refuted(self) -> None:
        """A mutant that is charged as if a record affected only the measurement of its own step."""
        diagonal = evolve(self.mechanism, factorisation=identity(16))
        assert refuted(diagonal, scored(self.mechanism), neighbours=self.mechanism.worst_case_neighbours(), rng=517)

    @pytest.mark.statistical
    def test_uncharged_participations_are_refuted(self) -> None:
        again = evolve(self.mechanism, participations=4, separation=4)
        pair = again.worst_case_neighbours()
        assert refuted(self.mechanism, scored(again), neighbours=pair, rng=518)
        assert not refuted(again, scored(again), rng=519)

    @pytest.mark.statistical
    def test_noise_that_starts_anew_at_every_step_is_refuted(self) -> None:
        """Each answer has the right marginal law, but together they cost more than is charged."""
        variances = self.mechanism.variances()

        def fresh(value: FloatArray, rng: np.random.Generator, runs: int) -> FloatArray:
            return np.cumsum(value) + np.sqrt(variances) * rng.standard_normal((runs, 16))

        def mean(out: FloatArray) -> FloatArray:
            return np.asarray((out / variances).sum(axis=1))

        assert refuted(self.mechanism, Scored(fresh, mean), rng=520)
        assert not refuted(self.mechanism, Scored(self.mechanism.simulate, mean), rng=521)

    @pytest.mark.statistical
    def test_the_same_noise_at_every_step_is_refuted(self) -> None:
        def reused(value: FloatArray, rng: np.random.Generator, runs: int) -> FloatArray:
            noise = np.repeat(rng.standard_normal((runs, 1, 1)), 16, axis=1) * 2.0
            return np.asarray(np.cumsum(value) + self.mechanism.factorisation.decode(noise)[:, :, 0])

        def increment(out: FloatArray) -> FloatArray:  # C⁻¹ of a constant at steps 0 and 1
            return np.asarray(out[:, 1] - 1.5 * out[:, 0])

        assert refuted(self.mechanism, Scored(reused, increment), rng=522)
        assert not refuted(self.mechanism, Scored(self.mechanism.simulate, increment), rng=523)

    @pytest.mark.statistical
    def test_the_released_path_is_audited_by_its_bits(self) -> None:
        small = MatrixMechanism(identity(2), 2.0**-4, sensitivity=2.0**-4)

        def released(value: FloatArray, rng: np.random.Generator, runs: int) -> FloatArray:
            noise = SimulationNoise(rng)
            return np.array([small.release(value, noise=noise) for _ in range(runs)])

        def correlated_floats(value: FloatArray, rng: np.random.Generator, runs: int) -> FloatArray:
            """Noise rounded by itself, and values added to it: their low bits stay."""
            return np.asarray(np.cumsum(value) * 0.999 + np.rint(small.simulate(value * 0, rng, runs) * 64) / 64)

        assert not refuted(small, released, samples=3000, rng=524, bits=True)
        assert refuted(small, correlated_floats, samples=3000, rng=525, bits=True)


class TestAccuracyAndCalibration:
    @pytest.mark.parametrize("beta", [0.3, 0.02])
    def test_all_answers_are_within_the_radius(self, beta: float) -> None:
        mechanism = MatrixMechanism(square_root(30, band=6), 2.0)
        radius = mechanism.accuracy(beta, entries=2)
        errors = np.abs(mechanism.simulate(np.zeros((30, 2)), np.random.default_rng(526), 20_000)).max(axis=(1, 2))
        assert float((errors > radius).mean()) <= beta + 6 * math.sqrt(beta / 20_000)
        assert np.quantile(errors, 1 - beta) >= radius / 1.3
        assert MatrixMechanism(identity(1), 2.0).accuracy(0.05) == pytest.approx(2 * stats.norm.isf(0.025), rel=1e-9)

    @pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0, 8.0])
    @pytest.mark.parametrize("times", [1, 3])
    def test_calibrated_meets_the_target_tightly(self, epsilon: float, times: int) -> None:
        found = MatrixMechanism.calibrated(
            square_root(50, band=8), epsilon=epsilon, delta=1e-3, sensitivity=0.3, participations=times, separation=8
        )
        assert accounting.delta(found.event(), epsilon).upper <= 1e-3
        assert accounting.delta(evolve(found, scale=found.scale * (1 - 1e-9)).event(), epsilon).upper > 1e-3

    def test_noise_is_least_for_the_better_factorisation(self) -> None:
        def error(f: Factorisation) -> float:
            m = MatrixMechanism.calibrated(f, epsilon=1.0, delta=1e-6)
            return math.sqrt(float(m.variances().mean()))

        assert error(optimised_band(64, 64)) < error(square_root(64)) < error(Dense(tree_encoder(64)))
        assert error(Dense(tree_encoder(64))) < error(identity(64))


BAD: list[tuple[str, dict[str, Any]]] = [
    ("factorisation", {"factorisation": np.eye(3)}),
    ("scale", {"scale": 0.0}),
    ("scale", {"scale": math.nan}),
    ("sensitivity", {"sensitivity": -1.0}),
    ("participations", {"participations": 1.5}),
    ("separation", {"separation": 0}),
    ("grid", {"grid": 0.3}),
]


@pytest.mark.parametrize(("argument", "changed"), BAD, ids=str)
def test_bad_parameters_are_refused(argument: str, changed: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        MatrixMechanism(**{"factorisation": square_root(4), "scale": 1.0, **changed})
    assert caught.value.argument == argument


@pytest.mark.parametrize("value", [np.zeros(3), 1.0, [0.0, math.nan, 0.0, 0.0], np.zeros((4, 0)), ["a"] * 4])
def test_bad_values_are_refused(value: Any) -> None:
    mechanism = MatrixMechanism(square_root(4), 1.0)
    for call in (
        lambda: mechanism.simulate(value, np.random.default_rng(1), 2),
        lambda: mechanism.release(value, noise=SimulationNoise(1)),
    ):
        with pytest.raises(InvalidArgumentError):
            call()


def test_a_grid_too_coarse_for_the_noise_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="grid"):
        MatrixMechanism(square_root(4), 1.0, grid=1024.0).release(np.zeros(4), noise=SimulationNoise(1))
