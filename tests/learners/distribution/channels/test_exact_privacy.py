"""Tests of the exact oracle of messages about labels, and of the published and the corrected sensitivity."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hockeystick import accounting
from hockeystick.accounting import InvalidArgumentError, NumericalError
from hockeystick.learners.distribution.channels import exact_privacy
from hockeystick.learners.distribution.channels.all_channels import (
    OneBit,
    SampledDiscreteLaplace,
    SampledLaplace,
    VectorLaplace,
)
from hockeystick.learners.distribution.channels.candidates import LabelTable
from hockeystick.learners.distribution.channels.levels import CeiledBlocks, Envelope, Levels, Reference, UniformMixture
from hockeystick.learners.distribution.channels.printed import (
    lemma_2,
    printed_sampled,
    printed_sensitivity,
    printed_vector,
)

REFERENCES: tuple[Reference, ...] = (CeiledBlocks(), Envelope(), UniformMixture(), CeiledBlocks(calibrated=False))


def family_w(experts: int, labels: int) -> LabelTable:
    """Disjoint supports; masses just above 1/M, so that nearly every block is rounded up from 1 to 2 symbols."""
    width = labels // experts
    table, small = np.zeros((experts, labels)), (1.0 + 1e-6) / labels
    for j in range(experts):
        table[j, j * width : (j + 1) * width] = small
        table[j, j * width] = 1.0 - (width - 1) * small
    return LabelTable(table)


def two_rare_labels(experts: int) -> LabelTable:
    """Label 0 is rare under the first half of the candidates, label 1 under the others; each has a label of its own."""
    labels = experts + 2
    table = np.zeros((experts, labels))
    for j in range(experts):
        table[j, 0 if j < experts // 2 else 1] = 1.0 / labels
        table[j, 2 + j] = 1.0 - 1.0 / labels
    return LabelTable(table)


def zero_mass() -> LabelTable:
    return LabelTable(np.array([[0.6, 0.4, 0.0, 0.0], [0.0, 0.3, 0.7, 0.0]]))


def random_tables(count: int) -> list[LabelTable]:
    rng = np.random.default_rng(11)
    tables = []
    for _ in range(count):
        experts, labels = int(rng.integers(2, 5)), int(rng.integers(2, 7))
        drawn = rng.dirichlet(np.full(labels, rng.choice([0.05, 0.3, 2.0])), size=experts)
        tables.append(LabelTable(drawn / drawn.sum(axis=1, keepdims=True)))
    return tables


FAMILIES: dict[str, list[LabelTable]] = {
    "random": random_tables(8),
    "W": [family_w(2, 20), family_w(4, 40)],
    "two rare labels": [two_rare_labels(4)],
    "point masses": [LabelTable(np.eye(3)), LabelTable(np.eye(3)[[0, 0, 2]])],
    "zero mass": [zero_mass()],
    "identical": [LabelTable(np.full((3, 4), 0.25))],
}


# --- the oracle itself -----------------------------------------------------------------------------------------------


def densities(points: Any, levels: Any, mixture: Any, scale: float) -> np.ndarray[Any, Any]:
    """Of K numbers, shape (points, labels): written down anew."""
    kernel = np.exp(-np.abs(points[:, None, :] - levels[None, :, :]).sum(axis=2) / scale)
    return np.asarray(kernel @ np.asarray(mixture).T)


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 5), st.integers(1, 2), st.integers(2, 4), st.floats(0.2, 5.0), st.integers(0, 10**6))
def test_the_oracle_is_the_largest_loss_of_any_message(
    rows: int, coordinates: int, labels: int, scale: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    levels = rng.uniform(-3, 3, size=(rows, coordinates))
    mixture = rng.dirichlet(np.full(rows, 0.4), size=labels)
    found = exact_privacy.vector_laplace_epsilon(levels, scale=scale, mixture=mixture)
    at = densities(rng.uniform(-8, 8, size=(4000, coordinates)), levels, mixture, scale)
    assert np.log(at.max(axis=1) / at.min(axis=1)).max() <= found + 1e-9
    knots = np.array(list(itertools.product(*levels.T)))
    at = densities(knots, levels, mixture, scale)
    assert np.log(at.max(axis=1) / at.min(axis=1)).max() == pytest.approx(found, abs=1e-9)


def test_without_a_mixture_the_loss_is_the_distance() -> None:
    levels = np.array([[0.0, 1.0, -2.0], [1.0, 1.0, 0.5], [0.5, 0.0, 0.0]])
    found = exact_privacy.vector_laplace_epsilon(levels, scale=2.0)
    assert found == pytest.approx(1.75)
    assert exact_privacy.vector_laplace_epsilon(levels, scale=2.0, mixture=np.eye(3)) == pytest.approx(1.75)
    assert exact_privacy.laplace_epsilon([3.0, 3.0], scale=1.0) == 0.0


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 12), min_size=2, max_size=5), st.floats(0.5, 20.0), st.integers(0, 10**6))
def test_discrete_laplace_noise_against_all_outputs(levels: list[int], scale: float, seed: int) -> None:
    mixture = np.random.default_rng(seed).dirichlet(np.full(len(levels), 0.5), size=3)
    outputs = np.arange(-30, 45)
    masses = np.exp(-np.abs(outputs[:, None] - np.array(levels)) / scale) @ mixture.T
    brute = np.log(masses.max(axis=1) / masses.min(axis=1)).max()
    found = exact_privacy.discrete_laplace_epsilon(levels, scale=scale, mixture=mixture)
    assert found == pytest.approx(brute, abs=1e-9)
    assert found == pytest.approx(exact_privacy.laplace_epsilon(levels, scale=scale, mixture=mixture), abs=1e-9)


def test_a_bit_in_fractions() -> None:
    rows = [Fraction(1, 4), Fraction(1, 2), Fraction(2, 3)]
    assert exact_privacy.bit_ratio(rows) == Fraction(8, 3)  # 1s: (2/3)/(1/4); 0s: (3/4)/(1/3) = 9/4
    half = Fraction(1, 2)
    assert exact_privacy.bit_ratio(rows[:2], mixture=[[1, 0], [half, half]]) == Fraction(3, 2)
    assert exact_privacy.at_most_exp(Fraction(5, 2), 1.0) and not exact_privacy.at_most_exp(Fraction(11, 4), 1.0)
    assert exact_privacy.log_ratio(Fraction(8, 3)) >= math.log(8 / 3) * (1 - 1e-15)


def test_bad_arguments_are_refused() -> None:
    bad: list[Any] = [
        lambda: exact_privacy.laplace_epsilon([math.nan], scale=1.0),
        lambda: exact_privacy.laplace_epsilon([], scale=1.0),
        lambda: exact_privacy.laplace_epsilon([0.0, 1.0], scale=0.0),
        lambda: exact_privacy.laplace_epsilon([0.0, 1.0], scale=True),
        lambda: exact_privacy.laplace_epsilon([0.0, 1.0], scale=1.0, mixture=[[0.5, 0.6]]),
        lambda: exact_privacy.laplace_epsilon([0.0, 1.0], scale=1.0, mixture=[[-0.5, 1.5]]),
        lambda: exact_privacy.discrete_laplace_epsilon([0.5], scale=1.0),
        lambda: exact_privacy.bit_ratio([Fraction(0)]),
        lambda: exact_privacy.bit_ratio([0.5]),
        lambda: exact_privacy.bit_ratio([Fraction(1, 2)], mixture=[[Fraction(1, 2)]]),
        lambda: exact_privacy.exchange_mixture([0.5, 0.6], probability=0.1),
    ]
    for call in bad:
        with pytest.raises(InvalidArgumentError):
            call()
    with pytest.raises(NumericalError):  # 100 knots for each of 8 coordinates
        levels = np.random.default_rng(0).random((100, 8))
        exact_privacy.vector_laplace_epsilon(levels, scale=1.0, mixture=np.eye(100))


# --- the published sensitivity ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("experts", "labels", "rounds", "delivered"),
    [(2, 100, 100, 1.0619), (2, 100, 1000, 1.0512), (2, 100, 100_000, 1.0327), (16, 160, 1000, 1.005)],
)
def test_the_published_sensitivity_is_refuted(experts: int, labels: int, rounds: int, delivered: float) -> None:
    """Golden numbers: the specification's erratum E1, epsilon claimed 1, with the exchange of labels."""
    levels = CeiledBlocks().levels(family_w(experts, labels), rounds)
    claim = printed_sampled(levels, epsilon=1.0)
    assert claim.delivered == pytest.approx(delivered, abs=2e-4)
    assert claim.verdict == "fails" and not claim.printed.applies
    assert claim.scale == pytest.approx(math.log(experts * rounds), rel=1e-12)
    corrected = SampledLaplace(levels, epsilon=1.0, resample=True).exact_epsilon()
    assert 0.988 <= corrected <= 1.0


def test_the_published_claim_holds_where_its_condition_does() -> None:
    claim = printed_sampled(UniformMixture().levels(family_w(2, 100), 100), epsilon=1.0)
    assert claim.printed.applies and claim.verdict == "holds"


@pytest.mark.parametrize(("sensitivity", "delivered"), [(math.log(100), 1.221), (math.log(2), 5.6)])
def test_smaller_sensitivities_are_refuted_by_more(sensitivity: float, delivered: float) -> None:
    """Mutants ln T and ln K; golden: the specification's section 7 (1.221 exact, 5.4 to 5.6 measured)."""
    levels = CeiledBlocks().levels(family_w(2, 100), 100)
    mutant = SampledLaplace(levels, epsilon=levels.span / sensitivity, resample=True)
    assert mutant.exact_epsilon() == pytest.approx(delivered, rel=0.06 if delivered > 2 else 1e-3)


def test_the_violation_has_the_known_maximum() -> None:
    """The specification has 1.064 at most for K = 2; with more labels it is a little more, 1.0646 at T = 80."""
    levels = CeiledBlocks().levels(family_w(2, 1000), 80)
    assert printed_sampled(levels, epsilon=0.01).delivered / 0.01 == pytest.approx(1.0646, abs=1e-4)


def test_all_numbers_with_the_noise_of_one_are_refuted() -> None:
    """Mutant: the noise of the sampled channel on all K numbers. All of them move, and the loss is K times epsilon."""
    levels = CeiledBlocks().levels(two_rare_labels(8), 1000)
    scale = SampledLaplace(levels, epsilon=1.0).scale
    assert VectorLaplace(levels, scale=scale).exact_epsilon() > 7.9


def test_a_range_taken_from_the_label_is_refuted() -> None:
    """Mutant: noise in proportion to the label's own levels. Two scales have no finite ratio in the tail."""
    rows = UniformMixture().levels(LabelTable(np.array([[0.9, 0.1, 0.0], [0.2, 0.3, 0.5]])), 100).of([1, 2])
    scales = np.ptp(rows, axis=1)
    far = 200.0
    densities_far = -np.abs(far - rows[:, 0]) / scales - np.log(2 * scales)
    assert abs(densities_far[0] - densities_far[1]) > 10.0


def test_a_scale_taken_for_a_deviation_costs_the_root_of_two() -> None:
    levels = UniformMixture().levels(LabelTable(np.eye(2)), 100)
    scale = SampledLaplace(levels, epsilon=1.0).scale / math.sqrt(2.0)
    assert exact_privacy.laplace_epsilon(levels.of([0, 1])[:, 0], scale=scale) == pytest.approx(math.sqrt(2.0))


def test_levels_without_smoothing_have_an_infinite_loss() -> None:
    with np.errstate(divide="ignore"):
        raw = np.log(zero_mass().table()).T
    with pytest.raises(InvalidArgumentError, match="not finite"):
        exact_privacy.vector_laplace_epsilon(raw, scale=1.0)


def test_lemma_3_survives_its_sensitivity() -> None:
    """The closed form wastes a factor of two; the sensitivity is short by less."""
    for experts, rounds in ((2, 100), (4, 1000)):
        levels = CeiledBlocks().levels(family_w(experts, 100), rounds)
        claim = printed_vector(levels, epsilon=1.0, delta=1e-6)
        assert not claim.printed.applies and claim.verdict == "holds"
        assert claim.delivered < 0.5


def test_lemma_2_is_the_conversion_of_zcdp_and_above_the_other_curves() -> None:
    for count, each, delta in ((4, 0.1, 1e-3), (64, 0.02, 1e-6), (16, 1.0, 1e-9)):
        printed = lemma_2(count, epsilon=each, delta=delta)
        rho = count * each * each / 2
        assert printed == pytest.approx(rho + 2 * math.sqrt(rho * -math.log(delta)), rel=1e-12)
        event = accounting.compose((accounting.Laplace(1.0 / each), count))
        renyi = accounting.epsilon(event, delta, method="rdp").upper
        assert printed >= renyi >= accounting.epsilon(event, delta, method="pld").upper * (1 - 1e-6)


# --- the corrected channels ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("resample", [False, True])
@pytest.mark.every(4)
def test_exact_epsilon_never_exceeds_the_claim_or_the_event(family: str, resample: bool) -> None:
    for table, reference, rounds in itertools.product(FAMILIES[family], REFERENCES, (2, 50)):
        levels = reference.levels(table, rounds)
        for epsilon in (0.3, 2.0):
            # Balle, Barthe & Gaboardi 2018, Theorem 2
            bound = math.log1p((1.0 - 1.0 / rounds) * math.expm1(epsilon)) if resample else epsilon
            sampled = SampledLaplace(levels, epsilon=epsilon, resample=resample)
            discrete = SampledDiscreteLaplace(levels, epsilon=epsilon, steps=16, resample=resample)
            bit = OneBit(levels, epsilon=epsilon, resample=resample)
            for channel in (sampled, discrete, bit):
                event = channel.event().pure_epsilon()
                assert channel.exact_epsilon() <= event + 1e-9, (type(channel), table)
                assert event == pytest.approx(bound, rel=1e-9)


@pytest.mark.parametrize("family", FAMILIES)
def test_exact_epsilon_of_vectors_never_exceeds_the_claim(family: str) -> None:
    for table, reference, resample in itertools.product(FAMILIES[family], REFERENCES[:3], (False, True)):
        levels = reference.levels(table, 20)
        if resample and table.count > 3:
            continue  # the grid of levels grows with the power of the candidates
        channel = VectorLaplace(levels, scale=4.0 * levels.span, resample=resample)
        assert channel.exact_epsilon() <= channel.event().pure_epsilon() + 1e-9


def test_the_claim_is_attained() -> None:
    """Two point masses: without an exchange of labels all of epsilon is there, with one all that is left of it."""
    levels = UniformMixture().levels(LabelTable(np.eye(2)), 1000)
    assert SampledLaplace(levels, epsilon=1.0).exact_epsilon() == pytest.approx(1.0, abs=1e-9)
    assert OneBit(levels, epsilon=1.0).exact_epsilon() == pytest.approx(1.0, abs=1e-9)
    mixed = SampledLaplace(levels, epsilon=1.0, resample=True)
    assert mixed.exact_epsilon() == pytest.approx(mixed.event().pure_epsilon(), rel=2e-3)
    assert mixed.exact_epsilon() < 1.0


def test_two_rare_labels_move_all_candidates_at_once() -> None:
    """The specification's section 7: K = 16, T = 1000 moves every level by 9.63, against ln(K T) = 9.68."""
    levels = CeiledBlocks().levels(two_rare_labels(16), 1000)
    moved = np.abs(np.subtract(*levels.of([0, 1])))
    assert moved == pytest.approx(np.full(16, 9.63), abs=0.01)
    channel = VectorLaplace(levels, scale=levels.span)
    assert channel.exact_epsilon() == pytest.approx(16 * 9.63 / levels.span, rel=2e-3)


def test_the_released_bit_is_private_in_exact_arithmetic() -> None:
    """Thresholds are whole numbers of 2^-60 or so: their ratios are fractions, compared with e^epsilon to 80 digits."""
    for levels, epsilon in itertools.product(_extreme_levels(), (1e-6, 0.1, 1.0, 5.0, 30.0)):
        channel = OneBit(levels, epsilon=epsilon)
        ratios = [exact_privacy.bit_ratio(column) for column in channel.probabilities()]
        assert all(exact_privacy.at_most_exp(ratio, epsilon) for ratio in ratios)
        # One unit more at both ends would break the bound, so that nothing is given away.
        farther = Fraction(channel._room + 1, 1 << channel._bits)
        beyond = [Fraction(1, 2) - farther, min(Fraction(1, 2) + farther, 1 - Fraction(1, 10**30))]
        assert not exact_privacy.at_most_exp(exact_privacy.bit_ratio(beyond), epsilon)


def test_a_probability_from_losses_that_are_not_clipped_is_refuted() -> None:
    """Mutant: a span below that of the levels, and probabilities cut off at 0 and 1."""
    levels = UniformMixture().levels(LabelTable(np.eye(2)), 1000)
    tilt = (levels.middle - levels.of([0, 1])[:, 0]) / (0.8 * levels.span) * math.tanh(0.5)
    assert not exact_privacy.at_most_exp(exact_privacy.bit_ratio([Fraction(0.5 + t) for t in tilt]), 1.0)


@pytest.mark.statistical
def test_the_released_integer_is_private_in_rational_arithmetic() -> None:
    """The ratio of discrete Laplace masses is e^(steps/t): steps/t <= epsilon, compared as fractions."""
    levels = UniformMixture().levels(LabelTable(np.eye(2)), 1000)
    for epsilon, steps in itertools.product((1e-3, 0.3, 1.0, 7.7), (1, 10, 256, 4096)):
        channel = SampledDiscreteLaplace(levels, epsilon=epsilon, steps=steps)
        assert Fraction(steps) / Fraction(channel.scale) <= Fraction(epsilon)
        assert channel.exact_epsilon() <= epsilon
        low, high, _ = channel._rounded(np.array([-channel.span / 2, channel.span / 2]))
        assert low.min() == 0 and high.max() == steps


def _extreme_levels() -> list[Levels]:
    return [
        UniformMixture().levels(LabelTable(np.eye(2)), 1000),
        CeiledBlocks().levels(family_w(2, 20), 10**6),
        Envelope(calibrated=False).levels(LabelTable(np.full((3, 4), 0.25)), 100),
    ]


def test_the_sensitivity_that_is_printed() -> None:
    levels = UniformMixture().levels(LabelTable(np.eye(2)), 100)
    assert printed_sensitivity(levels) == pytest.approx(math.log(200))
