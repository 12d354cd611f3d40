"""Tests of the shuffle model against the exact law of the multiset, by enumeration of all data for few persons."""

import itertools
import math

import numpy as np
import pytest
from scipy import special

from hockeystick.accounting import (
    AccountantGraph,
    Adjacency,
    InvalidArgumentError,
    LocalRandomizer,
    UnsupportedAdjacencyError,
    compose,
    delta,
    epsilon,
)
from hockeystick.accounting.events import catalogue as c
from hockeystick.accounting.events.sampling import shuffle_bounds
from hockeystick.accounting.events.sampling.shuffle_bounds import Blanket, Clone, distinct_pairs
from hockeystick.accounting.events.sampling.shuffled import Shuffled

response = LocalRandomizer.randomized_response
SKEW = ((0.6, 0.2, 0.2), (0.2, 0.6, 0.2), (0.1, 0.1, 0.8))


def counts(rows, data):
    """The law of the histogram of the reports of ``data``: the product of n polynomials, an axis for each report."""
    law = np.ones((1,) * rows.shape[1])
    for x in data:
        longer = np.zeros(tuple(size + 1 for size in law.shape))
        for y in range(rows.shape[1]):
            place = tuple(slice(int(y == z), int(y == z) + size) for z, size in enumerate(law.shape))
            longer[place] += rows[x, y] * law
        law = longer
    return law


def exact(rows, n, eps, pairs=None):
    """The largest hockey-stick divergence over all data of the others, and all ordered pairs of inputs."""
    inputs = range(len(rows))
    found = 0.0
    for others in itertools.combinations_with_replacement(inputs, n - 1):
        laws = {x: counts(rows, (x, *others)) for x in inputs}
        for x, z in pairs or itertools.permutations(inputs, 2):
            found = max(found, float(np.maximum(laws[x] - math.exp(eps) * laws[z], 0.0).sum()))
    return found


CASES = [(2, 1.0, 3), (2, 0.3, 5), (3, 1.0, 4), (3, 3.0, 3), (4, 2.0, 3)]
LONG = [(2, 1.0, 8), (2, 3.0, 8), (3, 1.0, 8), (3, 2.0, 6), (4, 2.0, 5), (4, 0.5, 6)]


@pytest.mark.parametrize(
    ("k", "eps0", "n"), [*CASES, *(pytest.param(*case, marks=pytest.mark.statistical) for case in LONG)]
)
@pytest.mark.parametrize("eps", [0.0, 0.1, 0.4, 1.2])
def test_no_bound_of_randomized_response_is_below_the_law_of_the_multiset(k, eps0, n, eps):
    local = response(eps0, k)
    true, found = exact(local.table(), n, eps), delta(Shuffled(local, n), eps)
    clone = delta(Shuffled(c.RandomizedResponse(eps0, k), n), eps)
    strong = delta(Shuffled(c.PureDP(eps0), n), eps)
    assert true <= found.upper + 1e-15 and true <= clone.upper + 1e-15
    assert found.upper <= clone.upper * 1.002 and clone.upper <= strong.upper * 1.002 + 1e-15
    if k == 2:
        assert found.upper == pytest.approx(true, abs=1e-10)
        assert found.upper == 0.0 or found.method == "shuffle-exact"


@pytest.mark.statistical
def test_no_bound_of_any_table_is_below_the_law_of_the_multiset():
    rng = np.random.default_rng(7)
    for trial in range(60):
        reports, inputs, n = int(rng.integers(2, 5)), int(rng.integers(2, 4)), int(rng.integers(2, 5))
        rows = rng.dirichlet(np.full(reports, 0.7), size=inputs)
        if trial % 3 == 0:  # some reports that some inputs never send
            rows = np.where(rows < 0.15, 0.0, rows)
        rows /= rows.sum(axis=1, keepdims=True)
        local = LocalRandomizer(rows)
        event = Shuffled(local, n)
        for eps in (0.0, 0.2, 0.7, 1.5):
            true = exact(local.table(), n, eps)
            found = delta(event, eps).upper
            assert true <= found * (1 + 1e-12) + 1e-15, (rows, n, eps)
            if reports == 2:
                assert found == pytest.approx(true, abs=1e-10)


# --- the blanket -----------------------------------------------------------------------------------------------------


def blanket(rows, x, z, n, eps):
    """The blanket bound by its definition: a changed report among a binomial number of reports of the common part."""
    least = rows.min(axis=0)
    share, c_ = least.sum(), math.exp(eps)
    common = least / share
    total = float(np.maximum(rows[x] - c_ * rows[z], 0.0)[least == 0.0].sum())
    for m in range(n):
        law = counts(common[None, :], (0,) * m)
        ends = [np.zeros(tuple(size + 1 for size in law.shape)) for _ in range(2)]
        for end, row in zip(ends, (rows[x], rows[z]), strict=True):
            for y in np.flatnonzero(least):
                place = tuple(slice(int(y == w), int(y == w) + size) for w, size in enumerate(law.shape))
                end[place] += row[y] * law
        mass = math.comb(n - 1, m) * share**m * (1 - share) ** (n - 1 - m)
        total += mass * float(np.maximum(ends[0] - c_ * ends[1], 0.0).sum())
    return total


@pytest.mark.parametrize("rows", [response(1.0, 3).laws, SKEW, ((0.5, 0.3, 0.2, 0.0), (0.4, 0.3, 0.1, 0.2))])
@pytest.mark.parametrize("n", [2, 6])
def test_blanket_is_the_curve_of_a_report_hidden_among_those_of_the_common_part(rows, n):
    table = np.array(rows)
    for eps in (0.0, 0.3, 0.9):
        true = max(blanket(table, x, z, n, eps) for x, z in itertools.permutations(range(len(table)), 2))
        found = Blanket(math.inf, distinct_pairs(table), n).delta(eps)
        assert true * (1 - 1e-12) <= found <= true * 1.002 + 1e-15


def test_the_common_part_is_that_of_all_inputs_and_not_of_the_changed_ones():
    table = np.array(SKEW)
    true = exact(table, 8, 0.3, pairs=[(0, 1)])
    two = np.stack([table[0], table[1], table[:2].min(axis=0)])
    three = np.stack([table[0], table[1], table.min(axis=0)])
    assert true == pytest.approx(0.145854, abs=1e-6)
    assert Blanket(math.inf, (three,), 8).delta(0.3) == pytest.approx(0.146644, rel=1e-3)
    assert Blanket(math.inf, (two,), 8).delta(0.3) < 0.08 < true  # what the wrong common part would claim
    assert delta(Shuffled(LocalRandomizer(SKEW), 8), 0.3).upper > true


def test_a_report_that_one_input_never_sends_is_charged_in_full():
    local = LocalRandomizer(((0.5, 0.5, 0.0), (0.5, 0.0, 0.5)))
    event = Shuffled(local, 3)
    found = delta(event, math.log(2.0)).upper
    assert found >= exact(local.table(), 3, math.log(2.0)) == 0.5
    assert found <= 0.5 + 1e-12 and epsilon(event, 0.4).upper == math.inf


def published_variation_ratio(p, k, n, c_):
    """The bound of Wang et al. 2023 with their parameters of k-ary randomised response, by its own counts."""
    ratio = (p - 1) / (p + k - 1)
    alpha = ratio / (p - 1)
    rate = alpha
    laws: tuple[dict[tuple[int, int], float], dict[tuple[int, int], float]] = ({}, {})
    for clones in range(n):
        mass = math.comb(n - 1, clones) * (2 * rate) ** clones * (1 - 2 * rate) ** (n - 1 - clones)
        for a in range(clones + 1):
            each = mass * math.comb(clones, a) / 2**clones
            rest = 1 - alpha - p * alpha
            for i, j, one, two in ((1, 0, p * alpha, alpha), (0, 1, alpha, p * alpha), (0, 0, rest, rest)):
                key = (a + i, clones - a + j)
                for law, part in zip(laws, (one, two), strict=True):
                    law[key] = law.get(key, 0.0) + each * part
    return sum(max(laws[0][key] - c_ * laws[1][key], 0.0) for key in laws[0])


def test_published_parameters_of_randomized_response_are_below_the_truth_and_not_used():
    rows, data = response(1.0, 3).table(), (0, 2, 2, 2, 2, 2, 2)
    here, there = counts(rows, (0, *data)), counts(rows, (1, *data))
    true = float(np.maximum(here - math.exp(0.4) * there, 0.0).sum())
    published = published_variation_ratio(math.e, 3, 8, math.exp(0.4))
    assert true == pytest.approx(0.0382092, abs=1e-7) and published == pytest.approx(0.0375825, abs=1e-7)
    for local in (response(1.0, 3), c.RandomizedResponse(1.0, 3)):
        assert delta(Shuffled(local, 8), 0.4).upper >= true > published


# --- Gaussian noise, and lower ends ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("sigma", "n"), [(0.5, 2), (1.0, 5), pytest.param(4.0, 8, marks=pytest.mark.statistical)])
def test_gaussian_noise_put_into_cells_is_below_the_bound_by_any_part_and_above_the_lower_end(sigma, n):
    edges = np.array([-0.5 * sigma, 0.5, 1 + 0.5 * sigma]) - np.array([[0.0], [0.5], [1.0]])
    rows = np.diff(special.ndtr(edges / sigma), axis=1, prepend=0.0, append=1.0)
    curve = Clone(math.inf, c.Gaussian(sigma).pair(), n)
    for eps in (0.0, 0.05, 0.5, 1.5):
        true, h = exact(rows, n, eps), delta(c.Gaussian(sigma), eps).upper
        parts = [curve._part(aim) for aim in (1.0, 0.02, 1e-4, 1e-9)]
        assert all(curve._by(p, tau, math.exp(eps), h) >= true for p, tau in parts)
        assert curve.delta_floor(eps) <= true <= curve.delta(eps) <= h * (1 + 1e-9)
        assert Blanket(math.inf, distinct_pairs(rows), n).delta_floor(eps) <= true * (1 + 1e-12)
        if sigma == 0.5:  # what would be claimed if the others lacked nothing
            assert curve._by(parts[0][0], 0.0, math.exp(eps), h) < true


@pytest.mark.statistical
def test_gaussian_reports_hide_each_other():
    found = epsilon(Shuffled(c.Gaussian(3.0), 10**4), 1e-6, bracket=True)
    assert found.method == "shuffle-clone" and found.lower is not None and 0.0080 < found.lower < found.upper < 0.0545
    assert epsilon(c.Gaussian(3.0), 1e-6).upper > 1.4


@pytest.mark.deep
def test_the_curve_of_gaussian_reports_leaves_hardly_anything_out():
    assert Shuffled(c.Gaussian(3.0), 10**4).failure_delta() < 1e-15


@pytest.mark.parametrize("local", [response(1.0, 3), LocalRandomizer(SKEW), c.Laplace(1.0)])
def test_lower_ends_of_a_thousand_reports_are_near(local):
    found = epsilon(Shuffled(local, 1000), 1e-6, bracket=True)
    assert found.lower is not None and 0.7 * found.upper < found.lower < found.upper


# --- two reports -----------------------------------------------------------------------------------------------------


def others_high(j, n, eps, rows):
    """Both orders' larger δ where j of the others have the first input."""
    laws = [counts(rows, (x, *[0] * j, *[1] * (n - 1 - j))) for x in (0, 1)]
    return max(float(np.maximum(a - math.exp(eps) * b, 0.0).sum()) for a, b in (laws, laws[::-1]))


def test_the_worst_others_of_two_reports_are_a_mixture():
    rows = response(1.0).table()
    each = [others_high(j, 8, 0.4, rows) for j in range(8)]
    found = delta(Shuffled(response(1.0), 8), 0.4, bracket=True)
    assert max(each) > 1.001 * max(each[0], each[-1])  # to look at the ends alone would be below the truth
    assert found.upper == pytest.approx(max(each), abs=1e-12) and found.upper >= max(each) - 1e-17
    assert found.lower == pytest.approx(max(each), abs=1e-12) and found.lower <= max(each)


@pytest.mark.parametrize(
    ("eps0", "n", "at", "known"),
    [
        pytest.param(*(1.0, 1000, 1e-6, 0.1266145), marks=pytest.mark.statistical),
        pytest.param(*(3.0, 1000, 1e-6, 0.694847), marks=pytest.mark.statistical),
        # At 994 of 999, where the ends have 0.159783:
        pytest.param(*(3.0, 1000, 1e-2, 0.160245), marks=pytest.mark.statistical),
        (1.0, 30, 1e-3, 0.508657),
        (1.0, 100, 1e-3, 0.227012),
        (3.0, 100, 1e-3, 2.862046),
    ],
)
def test_exact_curve_of_two_reports(eps0, n, at, known):
    found = epsilon(Shuffled(response(eps0), n), at, bracket=True)
    assert found.method == "shuffle-exact" and found.upper == pytest.approx(known, abs=2e-6)
    assert found.lower is not None and found.lower <= found.upper <= found.lower * (1 + 1e-6)


@pytest.mark.statistical
def test_blocks_of_many_others_are_above_the_exact_curve_and_near(monkeypatch):
    curve = Shuffled(response(1.0), 5000).bound()
    found = curve.delta(0.045)
    monkeypatch.setattr(shuffle_bounds, "_EXACT_SCAN", 10**6)
    assert curve.delta_floor(0.045) <= curve.delta(0.045) < found < curve.delta(0.045) * 1.02
    assert curve.delta(0.045) < curve.delta_floor(0.045) * (1 + 1e-6)


# --- numbers that are known ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("local", "n", "at", "low", "high"),
    [
        (c.RandomizedResponse(1.0), 1000, 1e-6, 0.1485, 0.148697),
        (c.PureDP(2.0), 1000, 1e-6, 0.3965, 0.39715),
        pytest.param(*(response(2.0, 4), 10**4, 1e-6, 0.1015, 0.10199), marks=pytest.mark.statistical),
        pytest.param(*(response(3.0, 16), 10**6, 1e-8, 0.0193, 0.019455), marks=pytest.mark.statistical),
        pytest.param(*(response(3.0, 16), 10**9, 1e-8, 0.000495, 0.000506), marks=pytest.mark.statistical),
        (response(2.0, 3), 30, 1e-3, 1.560983, 1.7),
        (c.Laplace(1.0), 1000, 1e-6, 0.1302, 0.13659),
        (c.Laplace(0.5), 1000, 1e-6, 0.3258, 0.35970),
    ],
)
def test_bounds_of_known_size(local, n, at, low, high):
    found = epsilon(Shuffled(local, n), at)
    assert low <= found.upper <= high
    assert found.method == ("shuffle-blanket" if isinstance(local, LocalRandomizer) else "shuffle-clone")


@pytest.mark.statistical
def test_laplace_noise_put_into_cells_is_below_the_bound_of_laplace_noise():
    edges = np.linspace(-4.0, 5.0, 61)
    inside = 0.5 * (1 + np.sign(d := edges[None, :] - np.array([[0.0], [0.5], [1.0]])) * -np.expm1(-np.abs(d)))
    rows = np.diff(np.concatenate([np.zeros((3, 1)), inside, np.ones((3, 1))], axis=1), axis=1)
    cells = epsilon(Shuffled(LocalRandomizer(rows), 1000), 1e-6).upper
    assert 0.129 < cells < epsilon(Shuffled(c.Laplace(1.0), 1000), 1e-6).upper


# --- laws ------------------------------------------------------------------------------------------------------------

LOCALS = [response(1.0), response(2.0, 3), LocalRandomizer(SKEW), c.RandomizedResponse(1.0, 5), c.Laplace(1.5)]


@pytest.mark.parametrize("local", LOCALS, ids=lambda event: type(event).__name__)
def test_more_reports_cost_less_and_none_more_than_the_local_event(local):
    for eps in (0.05, 0.3):
        found = [delta(Shuffled(local, n), eps).upper for n in (2, 3, 10, 100)]
        assert all(after <= before * 1.002 for before, after in itertools.pairwise(found))
        assert found[0] <= delta(local, eps).upper * 1.002
    assert epsilon(Shuffled(local, 50), 0.0).upper == pytest.approx(local.pure_epsilon())
    assert Shuffled(local, 50).pure_epsilon() == local.pure_epsilon()


def test_reports_that_do_not_depend_on_the_input_cost_nothing():
    same = ((0.2, 0.3, 0.5), (0.2, 0.3, 0.5))
    for local in (LocalRandomizer(same), c.PureDP(0.0)):
        assert epsilon(Shuffled(local, 10), 1e-9).upper == 0.0


@pytest.mark.statistical
@pytest.mark.parametrize("rows", [response(1.0).table(), np.array(((0.9, 0.1), (0.5, 0.5))), np.array(SKEW)])
def test_a_composition_is_not_below_two_shuffles_of_the_same_data(rows):
    event = compose((Shuffled(LocalRandomizer(rows), 4), 2))
    for eps in (0.1, 0.5, 1.0):
        true = 0.0
        for others in itertools.combinations_with_replacement(range(len(rows)), 3):
            laws = [counts(rows, (x, *others)).ravel() for x in range(len(rows))]
            for a, b in itertools.permutations(laws, 2):
                true = max(true, float(np.maximum(np.outer(a, a) - math.exp(eps) * np.outer(b, b), 0.0).sum()))
        found = delta(event, eps)
        assert true <= found.upper + 1e-12 and found.method == "pld"


@pytest.mark.statistical
def test_a_composition_of_large_shuffles_is_near_that_of_the_normal_limit():
    one, ten = (epsilon(compose((Shuffled(response(1.0), 1000), k)), 1e-6).upper for k in (1, 10))
    assert math.sqrt(10) * one < ten < 1.1 * math.sqrt(10) * one


@pytest.mark.parametrize("rows", [((0.9, 0.1), (0.5, 0.5)), ((0.1, 0.9), (0.5, 0.5))])
def test_both_orders_of_an_asymmetric_table_are_charged(rows):
    rows = np.array(rows)
    one, two = (exact(rows, 3, 0.2, pairs=[pair]) for pair in ((0, 1), (1, 0)))
    assert one != pytest.approx(two, rel=1e-3)
    assert delta(Shuffled(LocalRandomizer(rows), 3), 0.2).upper >= max(one, two)


@pytest.mark.statistical
def test_many_different_rows_are_charged_by_the_local_cost():
    rows = np.random.default_rng(3).dirichlet(np.full(5, 8.0), size=12)
    event = Shuffled(LocalRandomizer(rows), 50)
    found = epsilon(event, 1e-3)
    assert found.method == "shuffle-clone"
    assert found.upper >= epsilon(Shuffled(LocalRandomizer(rows[:4]), 50), 1e-3).upper


@pytest.mark.parametrize("eps0", [1e-9, 1e-3, 30.0, 250.0, 690.0])
def test_extreme_local_costs_end_in_sound_numbers(eps0):
    event = Shuffled(c.PureDP(eps0), 10)
    found = delta(event, eps0 / 2).upper
    assert 0.0 <= found <= delta(c.PureDP(eps0), eps0 / 2).upper * (1 + 1e-9) + 1e-14
    assert 0.0 <= epsilon(event, 1e-6).upper <= eps0
    assert epsilon(compose((event, 2)), 1e-6).upper <= 2 * eps0 * (1 + 1e-9)


# --- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [0, 1, -3, 2.5, math.nan, math.inf, True, "10", None, 10**13])
def test_numbers_of_reports_that_are_none_are_refused(n):
    with pytest.raises(InvalidArgumentError) as raised:
        Shuffled(c.PureDP(1.0), n)
    assert raised.value.argument == "n"


@pytest.mark.parametrize(
    ("local", "way_out"),
    [
        (c.ZCDP(0.5), "use the local event itself"),
        (c.PureDP(700.0), "use the local event itself"),
        (c.ApproximateDP(1.0, 1e-6), "give the event without it"),
        (c.PrivacyProfile((0.4,), (1e-6,)), "give the event without it"),
        (c.PoissonSampled(0.1, c.PureDP(1.0)), "give a local event"),
        (c.DiscretePair((0.7, 0.3), (0.3, 0.7), orientation="forward"), "give the event of both"),
        (compose((c.Oriented(c.LazySwitchDecision(0.7, 0.2), True), 2)), "give the event of both"),
        ("local", "LocalRandomizer"),
        (None, "LocalRandomizer"),
    ],
)
def test_local_costs_without_a_bound_are_refused_with_a_way_out(local, way_out):
    with pytest.raises(InvalidArgumentError, match=way_out) as raised:
        Shuffled(local, 10)
    assert raised.value.argument == "local"


@pytest.mark.parametrize("adjacency", [a for a in Adjacency if a is not Adjacency.REPLACE_ONE])
def test_only_replaced_records_are_hidden(adjacency):
    event = Shuffled(c.PureDP(1.0), 10)
    with pytest.raises(UnsupportedAdjacencyError, match="change the graph's adjacency"):
        AccountantGraph(adjacency).source("people").release("reports", event, reads=["people"])
    graph = AccountantGraph(Adjacency.REPLACE_ONE).source("people").release("reports", event, reads=["people"])
    assert graph.guarantee().epsilon(1e-3).upper == epsilon(event, 1e-3).upper
