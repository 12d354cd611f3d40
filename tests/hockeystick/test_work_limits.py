"""Tests that every call ends or raises a typed error for all numbers of its domain. No time is measured: the tests
count calls of the part that did the endless work, or the generated numbers.
"""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from divergences import shifted_hockey_stick
from laws import discrete_gaussian, skellam
from scipy import special
from spies import spied

import hockeystick as hs
from hockeystick import accounting, audits, events, learners, mechanisms
from hockeystick.accounting import InvalidArgumentError, NumericalError
from hockeystick.accounting.budgets import calibration
from hockeystick.accounting.engines import best_bound
from hockeystick.accounting.events.noise import integer_noise
from hockeystick.accounting.graph.parts import nodes
from hockeystick.accounting.losses import dominating_pairs, integer_noise_tables
from hockeystick.accounting.numerics import work_limit
from hockeystick.audits.one_run import several_runs
from hockeystick.learners.distribution import LabelTable
from hockeystick.learners.divergence import AssumedCounts, Harmonic, Smoothed
from hockeystick.learners.federated import UniformLosses
from hockeystick.learners.lazy import Box
from hockeystick.learners.smoothed import BinarySearch, Blocks, CellConcentration, UniformCube
from hockeystick.learners.smoothed.nets import net_bounds
from hockeystick.mechanisms.contract import arguments
from hockeystick.mechanisms.numbers import added_integers

HUGE = 10**18


# --- Skellam noise of a large variance: a closed form in place of tables -------------------------------------------


@pytest.mark.parametrize("variance", [1e5, 1e6, 1e8, 1e17])
def test_the_rate_of_wide_skellam_noise_takes_no_table(variance, monkeypatch):
    calls = spied(monkeypatch, integer_noise_tables, "skellam")
    rho = events.Skellam(variance).zcdp_rho()
    assert not calls
    # Normal noise costs 1/(2V), and Skellam noise, which tends to it, a little more.
    least = 1 / (2 * min(variance, 1e8))
    assert least <= rho <= least * (1 + 1.2 * min(variance, 1e8) ** (-2 / 3) * 2)


def renyi_over_order(variance: float, order: float) -> float:
    """D_α(Z + 1 ‖ Z)/α by a direct sum over Bessel functions of scipy."""
    y = np.arange(int(25 * math.sqrt(variance)))
    half = np.log(special.ive(y, variance))
    log_p = np.concatenate([half[:0:-1], half])
    losses, q = log_p[:-1] - log_p[1:], np.exp(log_p[1:])
    return math.log1p(float(q @ np.expm1(order * losses))) / (order - 1) / order


@pytest.mark.parametrize("variance", [1e5, 1e6])
def test_the_rate_of_wide_skellam_noise_is_above_the_truth_at_every_order(variance):
    rho = events.Skellam(variance).zcdp_rho()
    found = [renyi_over_order(variance, order) for order in (1.001, 1.1, 2.0, 10.0, 100.0, 1e3)]
    # A sum over floats is off by some 1e-9 of the divergence near order 1.
    assert max(found) * (1 - 1e-7) <= rho <= max(found) * (1 + 3e-4)


def test_the_closed_form_agrees_with_the_table_where_both_are_known():
    closed, table = integer_noise._wide_skellam_rho(2e4), integer_noise._skellam_rho(2e4)
    assert min(closed, table) >= 1 / 4e4
    assert closed == pytest.approx(table, rel=1.5e-3)


@pytest.mark.parametrize("variance", [10, 300, 2000])
def test_the_steps_of_the_skellam_loss_are_below_their_bound(variance):
    """The step at y is ln(I_y²/(I_{y−1}·I_{y+1})); the bound on it is what the closed form rests on."""
    bound = -math.log1p(-(1.0 + 2.0 / variance) / variance)
    with mpmath.workdps(60):
        for y in (0, 1, 2, 5, round(variance**0.5), round(variance / 2), 3 * round(variance)):
            before, here, after = (mpmath.besseli(y + shift, variance) for shift in (-1, 0, 1))
            assert mpmath.log(here**2 / (before * after)) < bound


def test_an_explicit_method_computes_no_other_one(monkeypatch):
    """The zCDP parameter of noise given as a table takes a search over orders; it was made for every method."""
    calls = spied(monkeypatch, integer_noise_tables, "steepest")
    event = events.DiscreteGaussian(3.3125).noise()
    assert 0.0 < hs.delta(event, 1.0, method="pld").upper < 1.0
    assert not calls
    hs.delta(event, 1.0, method="zcdp")
    assert len(calls) == 1


# --- calibration -----------------------------------------------------------------------------------------------------


def test_no_search_where_the_least_noise_will_do(monkeypatch):
    calls = spied(monkeypatch, accounting, "calibrate")
    assert mechanisms.Skellam.calibrated(epsilon=100.0, delta=1e-6).variance == 1e-9
    assert mechanisms.SkellamShares.calibrated(epsilon=100.0, delta=1e-5, survivors=1).share_variance == 1e-9
    assert not calls


@pytest.mark.parametrize(("epsilon", "delta"), [(1e-100, 1e-5), (1e-20, 0.3), (1e-6, 1e-5)])
def test_a_target_that_is_hardly_above_0_takes_few_evaluations(epsilon, delta):
    """There ε falls from far above the target to 0 within a hair's breadth: bisections took minutes."""
    found = accounting.calibrate(lambda sigma: events.Gaussian(sigma).at(2.0), (epsilon, delta))
    least = 1.0 / (math.sqrt(2.0) * mpmath.erfinv(delta))  # δ(0) = erf(μ/√8) for a shift of μ = 2/σ
    assert found.evaluations <= 15
    assert least * (1 - 1e-9) <= found.value * (1 + 2 * epsilon / delta) and found.value <= least * (1 + 2e-6)


@pytest.mark.statistical
@pytest.mark.parametrize("epsilon", [1e-100, *(pytest.param(e, marks=pytest.mark.deep) for e in (1e-6, 1.0)), 1e4])
def test_dp_sgd_is_calibrated_to_any_epsilon_in_few_evaluations(epsilon, monkeypatch):
    """A guarantee's event has one branch, for which the quick inversions that lead a search were left out."""
    run = accounting.DPSGD(records=200, batch=10, epochs=2)
    calls = spied(monkeypatch, best_bound, "_methods")
    found = run.calibrated(epsilon, 1e-5)
    assert found.evaluations <= 7 and len(calls) <= 60
    event, less = found.event, run.guarantee(found.value * (1 - 4e-4)).event
    lower = hs.delta(less, epsilon, bracket=True).lower
    assert lower is not None and hs.delta(event, epsilon).upper <= 1e-5 < lower


def test_a_search_that_takes_too_much_work_is_refused(monkeypatch):
    """Each bound is counted as if it took half of what a search may take."""
    kept, tried = best_bound._delta, []

    def costly(event, at, bracket, only):
        tried.append(event)
        work_limit.count(calibration._MOST_WORK / 1.9)
        return kept(event, at, bracket, only)

    monkeypatch.setattr(best_bound, "_delta", costly)
    with pytest.raises(NumericalError, match="takes too long to find: .* give a guess near it"):
        accounting.calibrate(events.Gaussian, accounting.Advantage(0.1))
    assert len(tried) == 2


@pytest.mark.parametrize("advantage", [1e-10, 0.3, 0.999999, 1 - 1e-10])
def test_advantages_next_to_0_and_1_take_few_evaluations(advantage):
    """The advantage of Gaussian noise of deviation σ is erf(1/(√8·σ)), which mpmath inverts."""
    found = accounting.calibrate(events.Gaussian, accounting.Advantage(advantage))
    with mpmath.workdps(40):
        least = float(1 / (mpmath.sqrt(8) * mpmath.erfinv(mpmath.mpf(advantage))))
    assert found.evaluations <= 15 and least * (1 - 1e-9) <= found.value <= least * (1 + 2e-6)


def test_the_engines_count_their_work():
    before = work_limit.done()
    hs.epsilon(hs.compose((events.PoissonSampled(0.0123, events.Gaussian(0.987)), 77)), 1e-6)
    middle = work_limit.done()
    hs.epsilon(hs.compose((events.PoissonSampled(0.0123, events.Gaussian(0.987)), 78)), 1e-6, method="contour")
    assert before < middle < work_limit.done()


def test_choices_of_many_candidates_are_calibrated_in_few_steps(monkeypatch):
    calls = spied(monkeypatch, accounting, "gumbel_top")
    found = mechanisms.TopK.calibrated(k=2**53, epsilon=0.3)
    assert len(calls) < 70 and 0.3 * (1 - 1e-9) < found.event().pure_epsilon() <= 0.3


def test_shares_of_discrete_gaussian_noise_refuse_a_target_whose_table_would_take_long() -> None:
    """The factor by which a share is multiplied grows with the root of ε; at 10^6 each of 31 trials took a second."""
    with pytest.raises(InvalidArgumentError, match="epsilon=1000000.0"):
        mechanisms.DiscreteGaussianShares.calibrated(epsilon=1e6, delta=1e-5, survivors=1)


@pytest.mark.statistical
@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (5.0, 1e-12)])
def test_skellam_noise_is_calibrated_in_few_steps(epsilon, delta, monkeypatch):
    calls = spied(monkeypatch, added_integers._Profile, "excess")
    found = mechanisms.Skellam.calibrated(epsilon=epsilon, delta=delta)
    assert len(calls) <= 50
    assert hs.epsilon(found.event(), delta).upper <= epsilon
    assert hs.delta(events.Skellam(found.variance * (1 - 1e-6)), epsilon, method="pld").upper > delta


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("make", "law", "sensitivity"),
    [
        pytest.param(mechanisms.DiscreteGaussian, discrete_gaussian, 3, marks=pytest.mark.deep),
        (mechanisms.DiscreteGaussian, discrete_gaussian, 5),
        (mechanisms.Skellam, skellam, 4),
    ],
)
def test_of_many_worst_vectors_few_are_calibrated(make, law, sensitivity, monkeypatch):
    """The noise of each vector is enough, by a sum of its own for that of one coordinate, and a little less is not."""
    vectors = make(4.0, sensitivity=sensitivity).event().shifts()
    assert vectors[0] == (sensitivity,) and len(vectors) >= 4
    calls = spied(monkeypatch, best_bound, "_methods")
    found = make.calibrated(epsilon=1.0, delta=1e-6, sensitivity=sensitivity)
    assert len(calls) <= 60 + 5 * len(vectors)
    assert hs.epsilon(found.event(), 1e-6).upper <= 1.0 and hs.delta(found.event(), 1.0).upper <= 1e-6
    noise = found.sigma if make is mechanisms.DiscreteGaussian else found.variance
    assert shifted_hockey_stick(law(noise, 1000), sensitivity, 1.0) <= 1e-6
    assert hs.delta(make(noise * (1 - 1e-7), sensitivity=sensitivity).event(), 1.0).upper > 1e-6
    if make is mechanisms.DiscreteGaussian and sensitivity == 5:  # the shift of one coordinate is the worst
        assert shifted_hockey_stick(law(noise * (1 - 1e-7), 1000), sensitivity, 1.0) > 1e-6


@pytest.mark.statistical
def test_a_search_that_nothing_satisfies_ends_at_the_largest_noise():
    """Each vector meets the target, and all together never do: the noise grows to its end, and is not held there."""
    asked = []

    class Never(added_integers._Profile):
        def excess(self, event, method=None):
            if not isinstance(event, integer_noise.DiscreteGaussian):
                return super().excess(event, method)
            asked.append(event.sigma)
            assert len(asked) <= 100, "goes round"
            return 1.0

    least = mechanisms.DiscreteGaussian.calibrated(epsilon=1.0, delta=1e-6, sensitivity=3).sigma
    high = least * (1 + 1e-6)
    found = added_integers._worst_first(
        lambda sigma: mechanisms.DiscreteGaussian(sigma, sensitivity=3), Never(1.0, 1e-6), least, 1e-9, high
    )
    assert found is None
    assert sorted(set(asked)) == asked and least * (1 - 1e-8) < asked[0] < asked[-1] < high


@pytest.mark.statistical
def test_the_least_epsilon_of_all_floats_is_as_good_as_zero():
    with pytest.raises(NumericalError, match="no value"):
        mechanisms.DiscreteGaussian.calibrated(epsilon=5e-324, delta=1e-16)


# --- accounting ------------------------------------------------------------------------------------------------------


def test_patterns_of_epochs_are_listed_up_to_a_limit():
    assert sum(map(len, accounting.fixed_epochs(2**12, 2))) == 2**12
    for steps in (2**31, 2**53, HUGE):
        with pytest.raises(InvalidArgumentError, match="matrix_sensitivity"):
            accounting.fixed_epochs(steps, 2)


def test_members_of_a_family_are_listed_up_to_a_limit():
    with pytest.raises(InvalidArgumentError, match="give the members"):
        nodes.Reach(0, 3).counts(2**53)
    assert nodes.Reach(0, 3).largest_count(2**53) == 4
    with pytest.raises(InvalidArgumentError, match="size"):
        nodes.Reach(0, 3).largest_count(0)


@pytest.mark.parametrize("delta", [5e-324, 1e-300, 1e-10])
def test_the_epsilon_of_a_renyi_filter_is_found_in_few_steps(delta, monkeypatch):
    tight = accounting.RDPFilter.for_target(5.0, 1e-6)
    calls = spied(monkeypatch, accounting.RDPFilter, "_curve_delta")
    assert tight.epsilon(delta) > 5.0
    assert len(calls) <= 1200


def test_a_renyi_filter_refuses_a_delta_that_it_cannot_divide():
    with pytest.raises(InvalidArgumentError, match=r"^delta=5e-324: is too small"):
        accounting.RDPFilter.for_target(5, 5e-324)
    assert accounting.RDPFilter.for_target(5, 1e-300).delta(5.0) <= 1e-300


def test_wide_cells_of_a_loss_are_cut_into_a_bounded_number_of_pieces(monkeypatch):
    pieces = [0]
    quadrature = dominating_pairs.GaussianPair._quadrature

    def count(self, low, high, nodes):
        pieces[0] += len(low)
        return quadrature(self, low, high, nodes)

    monkeypatch.setattr(dominating_pairs.GaussianPair, "_quadrature", count)
    law = dominating_pairs.GaussianPair(1e4)
    law.cells(np.linspace(*law.support(), 1000))
    assert pieces[0] <= 30 * 1e4 + 2000
    with pytest.raises(NumericalError, match="cut into"):
        events.Gaussian(1e-8).loss_law(1e8, True)


@pytest.mark.parametrize("scale", [1e-20, 1e-90])
def test_losses_beyond_whole_numbers_of_a_grid_are_refused(scale):
    with pytest.raises(NumericalError, match="too large for a grid"):
        events.DiscreteLaplace(scale).loss_law(1e-3, True)


# --- audits ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("asked", "most"), [("samples", 10**9), ("rounds", 10**4)])
def test_no_search_of_more_than_can_be_drawn_is_begun(asked, most):
    def target(data, rng):
        raise AssertionError("drawn")

    domain = audits.FiniteRecords(values=range(3))
    for call in (audits.search_neighbours, audits.audit_with_search):
        with pytest.raises(InvalidArgumentError, match=f"^{asked}="):
            call(target, domain, hs.Claim(1.0), adjacency=hs.Adjacency.ADD_OR_REMOVE_ONE, **{asked: most + 1})


def test_a_plan_for_very_many_small_runs_sums_few_masses(monkeypatch):
    """The number of right ones among 60,000 guesses has 60,001 masses, nearly all of them negligible."""
    sizes = []
    product = several_runs._product

    def spied_product(a, b, e):
        sizes.append(len(a) * len(b))
        return product(a, b, e)

    monkeypatch.setattr(several_runs, "_product", spied_product)
    several_runs._tail_of_all.cache_clear()
    plan = audits.OneRunPlan.of(hs.Claim.gdp(1.0, delta=1e-5), 1, runs=60_000, confidence=0.95)
    assert sizes and sum(sizes) < 3e8
    # One canary a run: guesses are right with probability at most δ + (1 − δ)·e^ε/(1 + e^ε), best at ε = 0.
    at_0 = float(special.ndtr(0.5))
    assert special.bdtrc(plan.needed - 1, 60_000, at_0) <= 0.05 * (1 + 1e-6)
    assert special.bdtrc(plan.needed - 400, 60_000, at_0) > 0.05


# --- arrays as large as an argument ----------------------------------------------------------------------------------

SIMULATED = [
    (mechanisms.Laplace(1.0), 0.0),
    (mechanisms.Gaussian(1.0), [0.0, 1.0]),
    (mechanisms.Staircase(1.0), 0.0),
    (mechanisms.DiscreteLaplace(1.0), 0),
    (mechanisms.DiscreteGaussian(1.0), [0, 1]),
    (mechanisms.Skellam(1.0), 0),
    (mechanisms.RandomizedResponse(1.0), 0),
    (mechanisms.UnaryEncoding.optimised(1.0, categories=4), 0),
    (mechanisms.HadamardResponse(1.0, categories=4), 0),
    (mechanisms.SubsetSelection(1.0, categories=4), 0),
    (mechanisms.OneBitChannel(1.0, low=0.0, high=1.0), 0.5),
    (mechanisms.ExponentialMechanism(1.0), [0.0, 1.0]),
    (mechanisms.NoisyMax(1.0), [0.0, 1.0]),
    (mechanisms.PermuteAndFlip(1.0), [0.0, 1.0]),
    (mechanisms.TopK(1.0, k=2), [0.0, 1.0, 2.0]),
    (mechanisms.TreeAggregation(steps=4, scale=1.0), [0.0, 1.0, 0.0, 0.0]),
    (mechanisms.AboveThreshold(0.0, threshold_scale=1.0, query_scale=1.0), [0.0, 1.0]),
    (mechanisms.CumulativeAboveThreshold(0.0, threshold_scale=1.0, query_scale=1.0), [0.0, 1.0]),
]


@pytest.mark.parametrize(("mechanism", "value"), SIMULATED, ids=lambda x: type(x).__name__)
@pytest.mark.parametrize("runs", [arguments.MOST_NUMBERS + 1, 2**31, 2**53, HUGE])
def test_no_simulation_of_more_numbers_than_fit_is_begun(mechanism, value, runs):
    with pytest.raises(InvalidArgumentError, match=f"runs={runs}"):
        mechanism.simulate(value, np.random.default_rng(0), runs)


def test_the_width_of_a_run_counts():
    wide = np.zeros(2**16)
    with pytest.raises(InvalidArgumentError, match="make at most 4096 in one call"):
        mechanisms.Laplace(1.0).simulate(wide, np.random.default_rng(0), 2**13)


NOISE = [
    lambda noise, count: noise.laplace(1.0, count),
    lambda noise, count: noise.gaussian(1.0, count),
    lambda noise, count: noise.gaussian(1e5, count),
    lambda noise, count: noise.uniform(6, count),
    lambda noise, count: noise.coins(0.25, count),
    lambda noise, count: noise.coins(1, count),
    lambda noise, count: mechanisms.PolyaShares(1.0, survivors=2).share(count, noise=noise),
]


@pytest.mark.parametrize("draw", NOISE)
@pytest.mark.parametrize("count", [2**31, HUGE, -1])
def test_no_more_noise_than_fits_is_drawn(draw, count):
    with pytest.raises(InvalidArgumentError, match=f"count={count}"):
        draw(mechanisms.SimulationNoise(1), count)


@pytest.mark.parametrize(
    "call",
    [
        lambda: mechanisms.TopK.calibrated(k=HUGE, epsilon=2).worst_case_neighbours(),
        lambda: mechanisms.TopK(1.0, k=2**50).accuracy(0.1, candidates=2**50 + 1),
        lambda: mechanisms.RandomizedResponse(1.0).group_neighbours(HUGE),
        lambda: mechanisms.OneBitChannel(1.0, low=0.0, high=1.0).group_neighbours(2**31),
        lambda: mechanisms.PoissonSample(0.5).log_sizes(2**31),
        lambda: mechanisms.FixedBatches(2**31, 2).draw(noise=mechanisms.SimulationNoise(1)),
        lambda: mechanisms.FixedBatches(2**31, 2).simulate(np.random.default_rng(1), 2),
        lambda: mechanisms.HadamardResponse(1.0, categories=2**40).frequencies([1, 2]),
        lambda: mechanisms.factorisations.square_root(2**20, band=4).matrix(),
    ],
)
def test_no_list_of_more_numbers_than_fit_is_made(call):
    with pytest.raises(InvalidArgumentError, match=str(arguments.MOST_NUMBERS)):
        call()


@pytest.mark.parametrize(
    "call",
    [
        lambda: UniformLosses(clients=2**20, rounds=2**20, experts=4).losses(np.random.default_rng(0)),
        lambda: UniformLosses(clients=2**31, rounds=2**20, experts=4).totals(np.random.default_rng(0)),
        lambda: BinarySearch(UniformCube(1), 0.5).begin(10, HUGE, np.random.default_rng(0)),
        lambda: Blocks(UniformCube(1), 0.5).begin(10, 2**31, np.random.default_rng(0)),
        lambda: CellConcentration(UniformCube(1), 0.5, cells=2**10).begin(10, 2**20, np.random.default_rng(0)),
        lambda: Box.cube(2**31, 1.0),
    ],
)
def test_no_game_or_stream_of_more_numbers_than_fit_is_begun(call):
    with pytest.raises(InvalidArgumentError):
        call()


# --- logarithms of counts ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("group", [1, 2, 63, 64, 65, 66, 1000, 10**9, 2**53])
def test_the_rise_of_a_harmonic_logarithm_is_a_harmonic_number(group):
    with mpmath.workdps(40):
        exact = mpmath.digamma(group + 1) + mpmath.euler
        assert exact <= Harmonic().largest_rise(group) <= exact * (1 + mpmath.mpf(2) ** -46)


@pytest.mark.parametrize("rule", [Harmonic(), Smoothed(0.5), AssumedCounts(3)])
@pytest.mark.parametrize("bad", [0, -1, 2**53 + 2, 0.5, math.nan, "x", None])
def test_the_counts_of_a_rise_are_checked(rule, bad):
    with pytest.raises(InvalidArgumentError, match="group"):
        rule.largest_rise(bad)
    with pytest.raises(InvalidArgumentError, match="records"):
        rule.least_rise(bad)


# --- learners of extreme numbers --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        lambda: learners.LazyExperts.calibrated(rounds=10**6, experts=2, epsilon=5e-324, delta=5e-324),
        lambda: learners.ShrinkingDartboard.calibrated(rounds=10**6, experts=2, epsilon=5e-324, delta=0.5),
        lambda: learners.LazyConvex.calibrated(
            rounds=10**6, domain=Box.cube(2, 1.0), lipschitz=1.0, epsilon=5e-324, delta=5e-324
        ),
        lambda: learners.lazy.paper_stmt_3_10(rounds=10**6, experts=2, epsilon=5e-324, delta=0.5),
        lambda: learners.lazy.paper_proof_3_10(rounds=10**6, experts=2, epsilon=1.0, delta=5e-324),
        lambda: learners.lazy.paper_3_12(
            rounds=10, domain=Box.cube(2, 1.0), lipschitz=1.0, epsilon=5e-324, delta=0.9999
        ),
        lambda: learners.lazy.paper_epsilon(
            rounds=10**6, batch=1, learning_rate=0.1, fake_switch_probability=0.5, delta=5e-324
        ),
    ],
)
def test_a_target_that_leaves_the_floats_is_refused(call):
    with pytest.raises(InvalidArgumentError, match=r"^(epsilon|delta)="):
        call()


@pytest.mark.parametrize("rounds", [2**20 + 1, 2**53])
def test_no_simulation_of_more_rounds_than_end_is_begun(rounds):
    learner = learners.OnlineDistribution.build(LabelTable([[0.9, 0.1], [0.1, 0.9]]), rounds=2**21, epsilon=2.0)
    with pytest.raises(InvalidArgumentError, match="^rounds="):
        learners.InteractiveDistribution(learner).simulate(1, np.random.default_rng(1), 1, rounds=rounds)


def test_a_net_is_not_planned_if_every_choice_is_vacuous(monkeypatch):
    calls = spied(monkeypatch, net_bounds, "net_bound")
    with pytest.raises(InvalidArgumentError, match="too few"):
        learners.smoothed.plan_net(vc_dimension=10**6, sigma=1e-300, records=10**6, epsilon=1e-12, failure=1e-300)
    assert len(calls) <= 100


@pytest.mark.parametrize(("points", "size"), [(2**40, 1), (2**41, 3), (2**40, 2**40), (3, 2**45), (10**306, 7)])
def test_multisets_of_many_points_are_counted_from_above(points, size):
    with mpmath.workdps(400):
        exact = mpmath.loggamma(points + size) - mpmath.loggamma(size + 1) - mpmath.loggamma(points)
        assert exact * (1 - 1e-9) <= net_bounds.log_multisets(points, size) <= exact * (1 + 1e-9) + 20


@pytest.mark.parametrize(("d", "k"), [(64, 1000), (65, 64), (65, 1000), (500, 700), (700, 700), (900, 700)])
def test_ways_to_label_points_are_counted_from_above(d, k):
    exact = math.log(sum(math.comb(k, i) for i in range(min(d, k) + 1)))
    assert exact * (1 - 1e-15) <= net_bounds.log_growth(d, k) <= exact * 1.1


def test_no_sum_of_many_terms_counts_the_ways_to_label_points(monkeypatch):
    calls = spied(monkeypatch, math, "comb")
    for d, k in ((10**6, 2 * 10**6), (2**53, 2**53), (65, 2**53), (64, 2**53)):
        assert 0.0 < net_bounds.log_growth(d, k) < math.inf
    assert len(calls) <= 65


def test_a_domain_larger_than_floats_is_refused():
    with pytest.raises(InvalidArgumentError, match=r"^sigma="):
        net_bounds.domain_size(1, 5e-324)


@pytest.mark.parametrize("degree", [54, 10**6, 2**53])
def test_monomials_beyond_whole_floats_are_not_counted(degree):
    with pytest.raises(InvalidArgumentError, match=r"^degree="):
        _ = learners.smoothed.PolynomialThresholds(degree, degree).vc_dimension
    assert learners.smoothed.PolynomialThresholds(53, 53).vc_dimension == math.comb(106, 53)
