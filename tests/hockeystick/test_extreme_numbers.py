"""Numbers at the ends of a domain give a sound result or a typed error; a warning would fail a test."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pytest
from spies import spied

import hockeystick as hs
from hockeystick import events, mechanisms
from hockeystick.accounting import HockeystickError, InvalidArgumentError, UnsupportedAdjacencyError
from hockeystick.accounting.engines import contour_integral
from hockeystick.learners import (
    ClientCounts,
    DriftAlarms,
    FedStoch,
    FedSVT,
    LazyExperts,
    LimitedUpdates,
    NoisyHedge,
    RandomizedKL,
    TreeExperts,
)
from hockeystick.learners.distribution import (
    Envelope,
    HadamardClass,
    LabelTable,
    Messages,
    OneBit,
    RandomizedLabels,
    SampledDiscreteLaplace,
    SampledLaplace,
    UniformMixture,
    VectorGaussian,
    VectorLaplace,
    choose_channel,
)
from hockeystick.learners.experts import MultiplicativeWeights
from hockeystick.learners.federated import (
    ClassDistributions,
    PackingAdversary,
    Sizes,
    SmoothedCrossEntropy,
    StochSetting,
    Targets,
    TreePhase,
    certified_phases,
    theorem_6,
)
from hockeystick.learners.smoothed import MatrixCells, SmoothMWEM
from hockeystick.mechanisms.contract import arguments
from hockeystick.mechanisms.streams import tree_blocks

SAMPLED = events.PoissonSampled(0.01, events.Gaussian(1.0))
EVENTS = [
    SAMPLED,
    hs.compose((SAMPLED, 10)),
    events.PoissonSampled(0.01, events.Gaussian(1e-50)),
    events.PoissonSampled(0.01, events.Gaussian(1e50)),
    hs.compose((events.Skellam(9.0), 3)),
    hs.compose((events.Laplace(1.0), 3), (events.Gaussian(2.0), 2)),
]
LEVELS = UniformMixture().levels(LabelTable([[0.9, 0.1], [0.1, 0.9]]), 100)
HUGE = (2**31, 2**53, 10**18)


# --- bounds -----------------------------------------------------------------------------------------------------------


def gaussian_delta(mu, epsilon):
    """δ(ε) of N(mu, 1) against N(0, 1) in the precision of the context."""
    mu, epsilon = mpmath.mpf(mu), mpmath.mpf(epsilon)
    return mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu)


@pytest.mark.parametrize("epsilon", [1e16, 1e30, 1e90])
@pytest.mark.parametrize("delta", [1e-6, 0.5])
def test_gaussian_noise_for_a_huge_epsilon_meets_it_and_hardly_more(epsilon, delta):
    sigma = mechanisms.Gaussian.calibrated(epsilon=epsilon, delta=delta).sigma
    with mpmath.workdps(400):
        assert gaussian_delta(1 / mpmath.mpf(sigma), epsilon) <= delta
        assert gaussian_delta((1 + mpmath.mpf(10) ** -12) / sigma, epsilon) > delta


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("epsilon", [1e149, 1e200, 1e308])
def test_delta_at_a_huge_epsilon_is_hardly_any(event, epsilon):
    assert 0.0 <= hs.delta(event, epsilon).upper <= 5e-324


def test_a_loss_grid_asked_for_a_huge_epsilon_gives_what_it_left_out_at_most():
    event = hs.compose((events.Skellam(9.0), 3))
    assert 0.0 <= hs.delta(event, 1e308, method="pld").upper <= 1e-30


@pytest.mark.parametrize("event", [EVENTS[0], EVENTS[2], EVENTS[3], EVENTS[5]])
@pytest.mark.parametrize("epsilon", [5e-324, 1e-308, 1e-160])
@pytest.mark.every(3)
def test_delta_at_a_tiny_epsilon_is_that_at_none(event, epsilon):
    none = hs.delta(event, 0.0).upper
    assert none * (1 - 1e-6) <= hs.delta(event, epsilon).upper <= none * (1 + 1e-6)


@pytest.mark.statistical
def test_delta_of_a_composition_at_a_tiny_epsilon_is_that_at_none():
    event = hs.compose((SAMPLED, 10))
    above, none = hs.delta(event, 1e-6).upper, hs.delta(event, 0.0).upper
    for epsilon in (5e-324, 1e-160):
        assert above * (1 - 1e-6) <= hs.delta(event, epsilon).upper <= none * (1 + 1e-6)


@pytest.mark.statistical
def test_a_contour_that_can_not_tell_masses_below_those_of_floats_gives_up(monkeypatch):
    calls = spied(monkeypatch, contour_integral._Direct, "logs")
    assert hs.epsilon(SAMPLED, 1e-300, method="contour").upper == math.inf
    assert len(calls) <= 2000


@pytest.mark.parametrize("width", [1e90])
def test_draws_of_a_huge_cost_are_charged_in_full(width):
    learner = FedSVT(
        clients=10,
        rounds=20,
        experts=4,
        switches=3,
        learning_rate=width,
        threshold=5.0,
        threshold_scale=1.0,
        query_scale=1.0,
    )
    # At δ near 0 three draws that may be told apart cost three widths; tests of sums add a few units at most.
    assert hs.epsilon(learner.event(), 1e-6).upper >= 3 * width * (1 - 1e-15)
    hedge = NoisyHedge.calibrated(clients=9, rounds=9, experts=4, epsilon=width)
    assert hedge.guarantee("client").epsilon(1e-6).upper <= width


# --- trees ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [1, 2, 7, 8, 1000, 70_001])
@pytest.mark.parametrize("estimate", ["plain", "below"])
def test_the_variances_of_a_tree_are_those_of_the_blocks_that_its_sums_use(steps, estimate):
    found = tree_blocks.variances(steps, estimate)
    for t in {1, 2, 3, 6, 999, 65_536, 65_537, 70_001}:
        if t <= steps:
            used = [h for h in range(t.bit_length()) if t >> h & 1]
            assert found[t - 1] == sum(1.0 if estimate == "plain" else tree_blocks.weight(h) for h in used)
    assert tree_blocks.mean_variance(steps, estimate) == pytest.approx(found.mean(), rel=1e-13)


@pytest.mark.parametrize("law", ["gaussian", "laplace"])
@pytest.mark.parametrize("estimate", ["plain", "below", "full"])
def test_rounding_the_variances_of_many_sums_makes_their_error_bound_hardly_larger(law, estimate, monkeypatch):
    tree = mechanisms.TreeAggregation(3000, 1.0, law=law, estimate=estimate)
    exact = tree.accuracy(0.05)
    monkeypatch.setattr(tree_blocks, "_KEPT", 1000)
    assert len(tree_blocks.variance_counts(3000, estimate)[0]) <= 2**16
    assert exact * (1 - 1e-12) <= tree.accuracy(0.05) <= exact * (1 + 2e-4)


def test_the_error_bound_of_a_long_stream_is_sought_over_few_variances():
    """All 2^18 variances of estimates from below differ; a search over as many numbers takes seconds."""
    variances, counts = tree_blocks.variance_counts(2**18, "below")
    assert len(variances) <= 10 * 2**12
    assert counts.sum() == 2**18


# --- learners ---------------------------------------------------------------------------------------------------------


def test_regret_bounds_take_any_numbers():
    few = {"clients": 10, "rounds": 20, "scale": 1.0}
    assert NoisyHedge(**few, experts=10**30).regret_bound(0.1) <= 20.0
    assert mechanisms.TreeAggregation(100, 1.0).accuracy(0.1, entries=2**62) > 9.0  # a product of counts is no int64
    assert NoisyHedge(**few, experts=4, learning_rate=5e-324).regret_bound() == 20.0
    assert MultiplicativeWeights(rounds=10**30, experts=10**30).regret_bound() == pytest.approx(
        math.sqrt(10**30 * math.log(10**30) / 2)
    )
    assert NoisyHedge(clients=10, rounds=2**30, experts=2, scale=1.0).regret_bound() <= 2**30


def sampled_setting():
    phases = certified_phases(Sizes(clients=10, experts=4, epsilon=1.0), 31, trees=1)
    return StochSetting(clients=10, phases=phases, noise="gumbel")


def svt(**numbers):
    return FedSVT.calibrated(**{"clients": 10, "rounds": 20, "experts": 4, "epsilon": 1.0, **numbers})


@pytest.mark.parametrize("many", HUGE)
@pytest.mark.parametrize(
    "call",
    [
        lambda many: svt(rounds=many).edges,
        lambda many: svt(experts=many).worst_case_neighbours(),
        lambda many: NoisyHedge(clients=many, rounds=20, experts=4, scale=1.0).worst_case_neighbours(),
        lambda many: LimitedUpdates(rounds=8, experts=many, learning_rate=1.0).worst_case_neighbours(),
        lambda many: LazyExperts(
            rounds=many, experts=4, learning_rate=0.1, fake_switch_probability=0.1
        ).worst_case_neighbours(),
        lambda many: TreeExperts(rounds=8, experts=many, scale=1.0).worst_case_neighbours(),
        lambda many: FedStoch(setting=sampled_setting(), rounds=31, experts=many).worst_case_neighbours(),
        lambda many: PackingAdversary(clients=10, rounds=many, experts=4, entries=3).average(0),
        lambda many: PackingAdversary(clients=many, rounds=3, experts=4, entries=3).losses(0),
        lambda many: ClassDistributions(clients=1, rounds=1, experts=many).start(np.random.default_rng(1)),
        lambda many: Targets(clients=1, rounds=1, experts=many).start(np.random.default_rng(1)),
        lambda many: RandomizedKL(reference=[0.5, 0.5], clients=many, epsilon=1.0).worst_case_neighbours(),
    ],
)
def test_no_data_sets_of_more_numbers_than_fit_are_made(call, many):
    with pytest.raises(InvalidArgumentError, match=str(arguments.MOST_NUMBERS)):
        call(many)


@pytest.mark.parametrize("epsilon", [5e-324, 1e-308, 1e-100])
@pytest.mark.parametrize(
    "call",
    [
        lambda epsilon: svt(epsilon=epsilon),
        lambda epsilon: svt(epsilon=epsilon, delta=1e-6),
        lambda epsilon: FedStoch(setting=sampled_setting(), rounds=31, experts=4).recalibrated(
            "output", epsilon=epsilon, delta=1e-6
        ),
        lambda epsilon: theorem_6(
            StochSetting(clients=10, phases=sampled_setting().phases), experts=4, epsilon=epsilon, delta=1e-6
        ),
    ],
)
def test_a_target_below_what_events_can_tell_is_refused(call, epsilon):
    with pytest.raises(InvalidArgumentError, match=r"^epsilon="):
        call(epsilon)


SIZES = Sizes(clients=10, experts=4, epsilon=1.0)


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: SIZES.phase(16, 10**7, 4), "trees"),
        (lambda: SIZES.phase(16, 2, 0), "batch"),
        (lambda: SIZES.phase(16, 2, 10**310), "batch"),
        (lambda: SIZES.trees(0.0), "batch"),
        (lambda: TreePhase(records=16, trees=2, batch=4, scales=(1.0, 2.0)).scale(3), "tree"),
        (lambda: TreePhase(records=16, trees=2, batch=4, scales=(1.0, 2.0)).scale(-1), "tree"),
        (lambda: StochSetting(clients=10, phases=sampled_setting().phases, high=1e300), "high"),
        (lambda: Targets(clients=3, rounds=10, experts=4, spread=1.7e308), "spread"),
        (lambda: SmoothedCrossEntropy(experts=4, mixing=1e-160), "mixing"),
        (lambda: VectorGaussian(LEVELS, sigma=1.7e308), "sigma"),
        (lambda: UniformMixture().largest_ratio(10**310), "count"),
        (lambda: Envelope().density_total(0), "count"),
    ],
)
def test_numbers_that_leave_the_floats_are_refused(call, argument):
    with pytest.raises(InvalidArgumentError, match=rf"^{argument}="):
        call()


def test_the_number_of_trees_is_a_sum_of_logarithms():
    extreme = Sizes(clients=4, experts=3, epsilon=1e-80, lipschitz=1e300, smoothness=1e280)
    exact = (math.log2(8) - 100 * math.log2(10) - math.log2(math.log(3)) + 1.0) / 2
    assert extreme.trees(8.0) == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize(
    "make",
    [
        lambda scale: mechanisms.Laplace(scale),
        lambda scale: mechanisms.Gaussian(scale),
        lambda scale: mechanisms.Staircase(1.0, sensitivity=scale / 1e100),
        lambda scale: mechanisms.TreeAggregation(8, scale),
        lambda scale: mechanisms.MatrixMechanism(mechanisms.factorisations.square_root(8), scale),
    ],
)
def test_noise_on_numbers_is_far_from_where_sums_overflow(make):
    with pytest.raises(InvalidArgumentError, match=r"^(scale|sigma|sensitivity)="):
        make(1.1e300)
    mechanism = make(1e300)
    first, second = mechanism.worst_case_neighbours()
    drawn = mechanism.simulate(first, np.random.default_rng(1), 100)
    assert np.isfinite(drawn).all()
    assert np.isfinite(mechanism.log_likelihood_ratio(drawn, first, second)).all()


@pytest.mark.parametrize("make", [mechanisms.Laplace, mechanisms.Gaussian])
def test_noise_that_is_out_of_proportion_to_its_distance_is_not_released(make):
    with pytest.raises(HockeystickError):
        make(1e300, sensitivity=1e-160).release(0.0, noise=mechanisms.SimulationNoise(1))


@pytest.mark.parametrize("epsilon", [1.1e4, 1e6, 1e30])
def test_whole_noise_for_a_huge_epsilon_is_not_sought(epsilon):
    with pytest.raises(InvalidArgumentError, match=r"^epsilon="):
        mechanisms.DiscreteGaussian.calibrated(epsilon=epsilon, delta=1e-6)


def test_atoms_far_apart_ask_for_no_finer_grid():
    event = mechanisms.DiscreteGaussian(7e-4).event()
    assert hs.epsilon(event, 1e-6).upper >= 1 / (2 * 7e-4**2) * (1 - 1e-12)


def mwem(rounds, replay=0):
    cells = MatrixCells(matrix=[[0.0, 1.0]])
    return SmoothMWEM(
        cells=cells,
        records=100,
        sigma=5e-324,
        rounds=rounds,
        epsilon_em=0.1,
        epsilon_lap=0.1,
        replay=replay,
        project=True,
    )


@pytest.mark.parametrize("rounds", [2**14 + 1, *HUGE])
def test_a_run_of_many_rounds_is_refused(rounds):
    with pytest.raises(InvalidArgumentError, match=r"^rounds="):
        mwem(rounds)


def test_a_run_of_many_replays_is_refused():
    assert mwem(100, replay=12).replay == 12
    with pytest.raises(InvalidArgumentError, match=r"^replay=13"):
        mwem(100, replay=13)


def test_laws_that_may_be_as_rough_as_they_like_are_not_projected():
    found = mwem(2).run(np.repeat([0, 1], 50), np.random.default_rng(1))
    assert np.isfinite(found.weights).all()
    assert found.weights.sum() == pytest.approx(1.0)


# --- thresholds, counts of people and of labels -----------------------------------------------------------------------

ABOVE: dict[str, Any] = {"threshold": 5.0, "threshold_scale": 2.0, "query_scale": 4.0}
RANDOMIZED: dict[str, Any] = {"reference": [0.5, 0.5], "clients": 2}
RNG = np.random.default_rng(1)
FRACTION: Any = 30.5


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: mechanisms.AboveThreshold(**ABOVE, answers=2**53 + 2), "answers"),
        (lambda: mechanisms.AboveThreshold.calibrated(0.0, epsilon=1e-90, answers=2**53), "epsilon"),
        (lambda: mechanisms.AboveThreshold.calibrated(0.0, epsilon=1.0, sensitivity=1e160), "epsilon"),
        (lambda: mechanisms.AboveThreshold.calibrated(0.0, epsilon=1e-60, sensitivity=1e-60, answers=1), None),
        (lambda: mechanisms.CumulativeAboveThreshold.calibrated(0.0, epsilon=1.0, sensitivity=1e160), "epsilon"),
        (lambda: mechanisms.AboveThreshold(**ABOVE).accuracy(5e-324, queries=1), "beta"),
        (lambda: mechanisms.AboveThreshold(**ABOVE).accuracy(0.1, queries=2**53 + 2), "queries"),
        (
            lambda: DriftAlarms(
                reference=[0.5, 0.5], threshold=0.2, epsilon=1.0, alarms=10**160, method="priest"
            ).event(),
            "answers",
        ),
        (lambda: mechanisms.RandomizedResponse(1.0, categories=3).accuracy(0.1, respondents=10**308), "respondents"),
        (lambda: mechanisms.HadamardResponse(1.0, categories=3).variance(respondents=10**308), "respondents"),
        (lambda: ClientCounts.of_records([0], [0], symbol_count=2**63), "symbol_count"),
        (lambda: ClientCounts.of_records([0], [0], symbol_count=2, client_count=2**53), "client_count"),
        (lambda: ClientCounts.of_records([0], [0], symbol_count=2, client_count=FRACTION), "client_count"),
        (lambda: RandomizedKL(**RANDOMIZED, epsilon=1e-300).estimates([1.0, 1.0]), "epsilon"),
        (lambda: RandomizedKL(**RANDOMIZED, epsilon=1.0).estimates([1.0, 1.0], 1.7e308), "multiplier"),
        (lambda: LabelTable([[0.5, 0.5], [0.1, 0.9]]).sample(0, 10**9, RNG), "count"),
        (lambda: LEVELS.resample(2**53, RNG), "count"),
        (lambda: HadamardClass.hardest(4, rounds=100, epsilon=5e-324), "rounds"),
    ],
)
def test_more_than_can_be_counted_or_told_is_refused(call, argument):
    if argument is None:
        assert call().event().pure_epsilon() <= 1e-60
        return
    with pytest.raises(InvalidArgumentError, match=rf"^{argument}="):
        call()


def test_a_calibration_whose_noise_is_charged_in_full_meets_its_target():
    for epsilon, answers in ((1e-80, 1), (1e-80, 2**53), (1e80, 1)):
        found = mechanisms.AboveThreshold.calibrated(0.0, epsilon=epsilon, answers=answers)
        assert epsilon * (1 - 1e-9) <= found.event().pure_epsilon() <= epsilon


def test_comparisons_at_a_hardly_any_sensitivity_are_not_released():
    mechanism = mechanisms.AboveThreshold(**ABOVE, sensitivity=5e-324)
    with pytest.raises(HockeystickError):
        mechanism.release([1.0, 2.0], noise=mechanisms.SimulationNoise(1))


@pytest.mark.parametrize("epsilon", [5e-324, 1e-308, 1e-9])
def test_the_channel_for_a_tiny_epsilon_is_that_of_the_limit(epsilon):
    chosen = {m: choose_channel(experts=16, labels=m, epsilon=epsilon) for m in (2, 7, 9, 1000)}
    assert chosen == {2: "randomized-labels", 7: "randomized-labels", 9: "one-bit", 1000: "one-bit"}


# --- channels ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        lambda span: OneBit(LEVELS, epsilon=1.0, span=span),
        lambda span: SampledLaplace(LEVELS, epsilon=1.0, span=span),
        lambda span: SampledDiscreteLaplace(LEVELS, epsilon=1.0, span=span),
        lambda span: VectorLaplace(LEVELS, scale=1e90, span=span),
    ],
)
def test_the_span_of_a_channel_is_far_from_where_sums_overflow(make):
    with pytest.raises(InvalidArgumentError, match=r"^span="):
        make(1e101)
    channel = make(1e90)
    messages = channel.simulate(np.zeros(5, dtype=int), np.random.default_rng(1))
    assert np.isfinite(channel.decode(messages)[1]).all()


@pytest.mark.parametrize("epsilon", [1.0, 700.0, 1e4])
def test_the_loss_of_a_label_that_is_hardly_ever_a_lie_is_epsilon(epsilon):
    channel = RandomizedLabels(LEVELS, epsilon=epsilon)
    messages = Messages(None, np.array([0, 1]))
    assert channel.log_likelihood_ratio(messages, 0, 1) == pytest.approx([epsilon, -epsilon], rel=1e-12)
    unknown = channel.log_likelihood_ratio(messages, 0, 7)  # 7 is no label: a uniform draw
    truth = math.log(2.0) - math.log1p(math.exp(-epsilon))
    assert unknown == pytest.approx([truth, truth - epsilon], rel=1e-12)


# --- arguments of another kind ----------------------------------------------------------------------------------------

OTHER: Any = 1
EMPTY: Any = np.zeros((0, 3))
TABLE = UniformMixture().levels(LabelTable([[0.9, 0.1], [0.1, 0.9]]), 100)


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: mechanisms.ClipNorm(1.0, norm=EMPTY), "norm"),
        (lambda: mechanisms.AboveThreshold.calibrated(0.0, epsilon=1.0, monotone=EMPTY), "monotone"),
        (lambda: mechanisms.FixedBatches(4, 2, order=EMPTY), "order"),
        (lambda: svt(indexing=EMPTY), "indexing"),
        (lambda: svt().plays(OTHER), "runs"),
        (lambda: svt().regret(OTHER, np.zeros((10, 20, 4))), "runs"),
        (lambda: svt().log_likelihood_ratio(OTHER, np.zeros((10, 20, 4)), np.zeros((10, 20, 4))), "runs"),
        (lambda: TABLE.level(0, 2), "expert"),
        (lambda: TABLE.level(0, -1), "expert"),
        (lambda: TABLE.pick([0, 1], np.array([0, 2])), "experts"),
        (lambda: TABLE.pick([0, 1], np.array([0])), "experts"),
        (lambda: mechanisms.CumulativeAboveThreshold.calibrated(0.0, epsilon=1.0).accuracy(5e-324, terms=1), "beta"),
    ],
)
def test_what_is_of_another_kind_is_refused_by_its_name(call, argument):
    with pytest.raises(InvalidArgumentError, match=rf"^{argument}"):
        call()


@pytest.mark.parametrize("mechanism", [mechanisms.Laplace(1.0), mechanisms.DiscreteLaplace(1.0)])
def test_no_outputs_have_no_losses(mechanism):
    assert mechanism.log_likelihood_ratio([], 0, 1).shape == (0,)
    assert mechanism.log_likelihood_ratio(np.zeros((0, 2)), [0, 0], [1, 0]).shape == (0,)


@pytest.mark.parametrize("relation", [EMPTY, "replace-one"])
def test_a_relation_of_another_type_has_no_stability(relation):
    with pytest.raises(UnsupportedAdjacencyError):
        mechanisms.ClippedSum(0.0, 1.0).stability(relation)
    with pytest.raises(UnsupportedAdjacencyError):
        mechanisms.ClippedMean(0.0, 1.0, records=5).stability(relation)
