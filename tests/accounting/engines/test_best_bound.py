"""Tests of ε and δ of compositions against exact enumeration, closed forms and known defects of other accountants.

B1 to B11 are the defects listed in docs/accounting.md.
"""

import itertools
import math
import operator
import sys
from decimal import Decimal
from fractions import Fraction

import dp_accounting
import mpmath
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from samples import deep_examples, diagonal
from scipy import stats

from hockeystick.accounting import (
    METHODS,
    NO_EVENT,
    ZCDP,
    ApproximateDP,
    BoundedRange,
    Bracket,
    Failure,
    Gaussian,
    InvalidArgumentError,
    Laplace,
    LazySwitchDecision,
    MixtureOfGaussians,
    NonPrivate,
    Oriented,
    PoissonSampled,
    PrivacyEvent,
    PureDP,
    RandomizedResponse,
    VisibleMixture,
    compose,
    delta,
    epsilon,
    optional_packages,
    parallel,
    validate,
)
from hockeystick.accounting.engines import contour_integral, loss_distribution, renyi
from hockeystick.accounting.events.answers.drifting_law import LogLipschitz
from hockeystick.accounting.events.basic.given_curves import RenyiCurve
from hockeystick.accounting.events.basic.given_laws import DiscretePair
from hockeystick.accounting.losses import gaussian_profile, piecewise_profiles
from hockeystick.accounting.losses.dominating_pairs import Atoms
from hockeystick.accounting.numerics import exact_sums

# Exact laws of a few-outcome event: [(P mass, loss)], losses of one direction -----------------------------------------


def atoms(event: PrivacyEvent) -> list[tuple[float, float]]:
    pair = event.pair()
    assert isinstance(pair, Atoms)
    return [(p, loss) for p, loss in zip(pair.p, pair.losses, strict=True) if p > 0]


def ends(bracket: Bracket) -> tuple[float, float]:
    assert bracket.lower is not None
    return bracket.lower, bracket.upper


def exact_delta(events: list[list[tuple[float, float]]], eps: float) -> float:
    total = 0.0
    for outcome in itertools.product(*events):
        loss = sum(row[1] for row in outcome)
        total += math.prod(row[0] for row in outcome) * max(0.0, -math.expm1(eps - loss))
    return total


LEAF = st.one_of(
    st.builds(PureDP, st.floats(0.01, 2)),
    st.builds(RandomizedResponse, st.floats(0.01, 2), st.integers(2, 6)),
    st.builds(Oriented, st.builds(LazySwitchDecision, st.floats(0.05, 0.95), st.floats(0.01, 1)), st.booleans()),
)


@deep_examples(
    25, 100, events=st.lists(st.tuples(LEAF, st.integers(1, 2)), min_size=1, max_size=3), share=st.floats(0, 0.99)
)
def test_composition_of_few_outcomes_is_enumerated(events, share):
    rows = [atoms(event) for event, count in events for _ in range(count)]
    top = sum(max(loss for _, loss in row) for row in rows)
    eps = share * max(top, 0.0)
    exact = exact_delta(rows, eps)
    got = delta(compose(*events), eps, bracket=True, method="pld")
    lower, upper = ends(got)
    assert lower - 1e-15 <= exact <= upper + 1e-15
    assert upper <= exact + 1e-4


def test_a_visible_mixture_has_the_losses_of_its_branches():
    for event in (LogLipschitz(1.0, 0.5), Gaussian(1.0), compose((Laplace(0.5), 3))):
        low, high = event.loss_support()
        assert low < 0.0 < high and VisibleMixture(0.3, event).loss_support() == (low, high)


@deep_examples(25, 100, inner=LEAF, r=st.floats(0.01, 0.99), count=st.integers(1, 3), share=st.floats(0, 0.9))
def test_mixture_and_nested_composition_are_enumerated(inner, r, count, share):
    row = [(1 - r, 0.0)] + [(r * p * q, a + b) for (p, a), (q, b) in itertools.product(atoms(inner), repeat=2)]
    event = compose((VisibleMixture(r, compose((inner, 2))), count))
    eps = share * count * 2 * inner.pure_epsilon()
    got = delta(event, eps, bracket=True, method="pld")
    exact = exact_delta([row] * count, eps)
    lower, upper = ends(got)
    assert lower - 1e-15 <= exact <= upper + 1e-15
    assert got.upper <= exact + 1e-4


def adaptive_delta(choices: list[list[list[tuple[float, float]]]], eps: float) -> float:
    """The largest δ when each step's law may be chosen from a list after seeing the loss so far."""
    if not choices:
        return max(0.0, -math.expm1(eps))
    return max(
        sum(
            p * adaptive_delta(choices[1:], eps - loss) if choices[1:] else p * max(0.0, -math.expm1(eps - loss))
            for p, loss in law
        )
        for law in choices[0]
    )


@deep_examples(
    20,
    80,
    k=st.floats(0.1, 0.95),
    kappa=st.floats(0.05, 1.0),
    e=st.floats(0.05, 1.0),
    count=st.integers(1, 3),
    share=st.floats(0, 0.9),
)
def test_free_orientation_covers_an_adaptive_choice_of_the_order(k, kappa, e, count, share):
    decision = LazySwitchDecision(k, kappa)
    orders = [atoms(order) for order in decision.orientations()]
    steps = [orders] * count + [[atoms(PureDP(e))]]
    eps = share * (count * decision.pure_epsilon() + e)
    assert adaptive_delta(steps, eps) <= delta(compose((decision, count), PureDP(e)), eps).upper + 1e-13


def test_the_maximum_over_fixed_orders_would_be_too_small_for_an_adaptive_choice():
    """Orders are maximised at the node, because an adversary that picks them adaptively beats every fixed choice."""
    decision = LazySwitchDecision(0.3, 0.5)
    orders = [atoms(order) for order in decision.orientations()]
    adaptive = adaptive_delta([orders] * 3, 0.8)
    fixed = max(exact_delta(list(rows), 0.8) for rows in itertools.product(orders, repeat=3))
    assert fixed * 1.24 < adaptive
    assert adaptive <= delta(compose((decision, 3)), 0.8).upper + 1e-13


@deep_examples(
    25,
    100,
    a=st.floats(0.1, 2),
    b=st.floats(0.1, 2),
    k=st.floats(0.1, 0.9),
    kappa=st.floats(0.1, 1),
    count=st.integers(1, 3),
    share=st.floats(0, 0.9),
)
def test_parallel_composes_further_over_an_adaptive_choice_of_the_branch(a, b, k, kappa, count, share):
    branches = [PureDP(a), Oriented(LazySwitchDecision(k, kappa), True), RandomizedResponse(b, 4)]
    steps = [[atoms(branch) for branch in branches]] * count
    event = compose((parallel(*branches), count))
    eps = share * event.pure_epsilon()
    exact = adaptive_delta(steps, eps)
    for method in ("pld", "rdp", "zcdp"):
        assert exact <= delta(event, eps, method=method).upper + 1e-13
    assert delta(event, eps, method="pld").upper <= 1.1 * exact + 1e-3  # the maximum is taken at every ε at once


def test_parallel_of_equal_events_is_the_event():
    event = parallel(PureDP(0.5), PureDP(0.5), PureDP(0.4))
    assert epsilon(compose((event, 10)), 1e-6).upper == pytest.approx(
        epsilon(compose((PureDP(0.5), 10)), 1e-6).upper, rel=1e-4
    )


# Closed forms ----------------------------------------


@pytest.mark.parametrize("mu", [1e-3, 0.1, 1.0, 7.0])
@pytest.mark.parametrize("d", [0.3, 1e-3, 1e-6, 1e-10, 1e-15, 1e-30])
@pytest.mark.every(3)
def test_numerical_composition_brackets_the_gaussian_closed_form(mu, d):
    """B7: the general engine does not use the Gaussian closed form, and stays above the truth at tiny δ."""
    event = compose((Gaussian(10 / mu), 100))
    exact = dp_accounting.get_epsilon_gaussian(1 / mu, d)
    upper, lower = loss_distribution.epsilon(event, d), loss_distribution.epsilon(event, d, upper=False)
    assert lower <= exact * (1 + 1e-9) + 1e-12
    assert exact <= upper * (1 + 1e-12) + 1e-12  # the closed form's own root is good to that
    assert upper - lower <= 2e-5 * exact + 2e-5 * mu
    assert epsilon(event, d).upper == pytest.approx(exact, rel=1e-9, abs=1e-9)
    assert exact == 0.0 or epsilon(event, d).method == "gaussian"


@pytest.mark.statistical
@pytest.mark.parametrize(("count", "d"), diagonal([1, 10**3, 10**4, 10**5], [1e-8, 1e-10, 1e-12, 1e-14, 1e-15]))
def test_many_compositions_at_tiny_delta_stay_above_the_truth(count, d):
    """B7 with many compositions: the FFT's round-off is bounded and added."""
    event = compose((Gaussian(math.sqrt(count)), count))
    exact = dp_accounting.get_epsilon_gaussian(1.0, d)
    upper = loss_distribution.epsilon(event, d)
    assert exact * (1 - 1e-12) <= upper <= exact * (1 + 1e-5)


@pytest.mark.parametrize("e, n, d", [(0.1, 100, 1e-6), (1e-5, 10**4, 1e-6), (1.0, 20, 1e-10), (0.01, 2000, 1e-12)])
def test_repeated_pure_events_against_the_binomial(e, n, d):
    """B2, B9: the count is charged, and tiny events are not rounded up."""
    k = np.arange(n + 1)
    mass, loss = stats.binom.pmf(k, n, 1 / (1 + math.exp(-e))), (2 * k - n) * e

    def exact(x):
        return float(mass @ np.maximum(0.0, -np.expm1(np.minimum(x - loss, 0.0))))

    got = epsilon(compose((PureDP(e), n)), d)
    assert exact(got.upper) <= d * (1 + 1e-9)
    assert exact(got.upper * (1 - 2e-4)) > d
    assert got.upper <= n * e


@pytest.mark.parametrize("scale", [0.2, 5.442036845, 60.0])
@pytest.mark.parametrize("d", [1e-2, 1e-8, 1e-12])
def test_an_atom_on_the_grid_is_not_split(scale, d):
    """Laplace alone: δ(ε) = 1 − e^{(ε − 1/scale)/2} for ε ≤ 1/scale (Balle, Barthe & Gaboardi 2018)."""
    exact = max(0.0, 1 / scale + 2 * math.log1p(-d))
    got = loss_distribution.epsilon(Laplace(scale), d)
    assert exact * (1 - 1e-12) <= got <= exact * (1 + 1e-7) + 1e-12


def test_bounds_agree_with_golden_values():
    """Gaussian: Balle & Wang 2018; Laplace, pure: contour inversion and the binomial, to six digits."""
    assert epsilon(Gaussian(1), 1e-6).upper == pytest.approx(4.886554117, rel=1e-9)
    assert epsilon(compose((Gaussian(1), 1000)), 1e-6).upper == pytest.approx(649.385089, rel=1e-8)
    assert epsilon(compose((Laplace(10), 1000)), 1e-6).upper == pytest.approx(18.950287, rel=1e-6)
    assert epsilon(compose((PureDP(0.1), 100)), 1e-6).upper == pytest.approx(4.774568, rel=1e-6)
    assert epsilon(compose((BoundedRange(1.0), 100)), 1e-6).method == "rdp"
    assert epsilon(compose((BoundedRange(1.0), 100)), 1e-6).upper == pytest.approx(36.36, abs=0.02)
    assert epsilon(compose((BoundedRange(1.0), 100)), 1e-6, method="pld").upper == pytest.approx(41.50, abs=0.01)
    assert epsilon(ZCDP(0.005), 1e-6).upper == pytest.approx(0.42994146883694934, rel=1e-6)


# Laws ----------------------------------------

ANY = st.one_of(
    st.builds(Gaussian, st.floats(0.5, 50)),
    st.builds(Laplace, st.floats(0.5, 50)),
    st.builds(PureDP, st.floats(0.001, 1)),
    st.builds(BoundedRange, st.floats(0.001, 1)),
    st.builds(RandomizedResponse, st.floats(0.01, 1), st.integers(2, 5)),
    st.builds(LazySwitchDecision, st.floats(0.1, 0.9), st.floats(0.01, 0.3)),
    st.builds(lambda r, w: VisibleMixture(r, BoundedRange(w)), st.floats(0.01, 0.99), st.floats(0.01, 1)),
)


@deep_examples(20, 80, event=ANY, n=st.integers(2, 12), d=st.sampled_from([1e-3, 1e-6, 1e-12]))
def test_repetition_is_a_list_and_more_costs_more(event, n, d):
    assert compose((event, n)) == compose(*[event] * n)
    assert epsilon(event, d).upper <= epsilon(compose((event, n)), d).upper * (1 + 1e-9)
    assert epsilon(compose((event, n)), d).upper <= n * event.pure_epsilon() * (1 + 1e-12)


@deep_examples(15, 40, event=ANY, other=ANY, d=st.sampled_from([1e-2, 1e-6, 1e-12]))
def test_every_method_bounds_the_lower_end_of_the_numerical_composition(event, other, d):
    whole = compose(event, (other, 5))
    best = epsilon(whole, d, bracket=True)
    # The second engine steps in where the first refuses; tests/accounting/graph/test_random_graphs.py holds it against
    # the others.
    values = {method: epsilon(whole, d, method=method).upper for method in METHODS if method != "contour"}
    assert best.upper == min(values.values()) and values[best.method] == best.upper
    lower, upper = ends(best)
    assert lower <= upper
    if not any("BoundedRange" in repr(e) for e in (event, other)):  # its RDP curve is below its dominating pair's
        lower = loss_distribution.epsilon(whole, d, upper=False)
        assert lower <= best.upper * (1 + 1e-9) + 1e-12


@deep_examples(15, 40, event=ANY, other=ANY, d=st.sampled_from([1e-2, 1e-6, 1e-10]))
def test_delta_of_epsilon_returns_to_delta(event, other, d):
    whole = compose((event, 3), other)
    found = epsilon(whole, d).upper
    if found > 0:
        assert delta(whole, found * (1 + 1e-6)).upper <= d * (1 + 1e-6)
        assert delta(whole, 0.999 * found).upper > d * (1 - 1e-6)


@pytest.mark.parametrize("event", [Laplace(3), compose((PureDP(0.1), 7)), BoundedRange(0.4)])
def test_pure_events_have_a_finite_epsilon_at_every_delta(event):
    """B8: at δ = 0 and below every rounding error."""
    assert epsilon(event, 0.0).upper == pytest.approx(event.pure_epsilon())
    for d in (1e-15, 1e-18, 1e-100, 1e-300):
        assert epsilon(event, d).upper <= event.pure_epsilon() * (1 + 1e-15)


def test_epsilon_and_delta_of_zero_and_one():
    assert epsilon(NO_EVENT, 0.0, bracket=True).upper == 0.0
    assert delta(NO_EVENT, 0.0, bracket=True).upper == 0.0
    assert epsilon(Gaussian(1), 1.0).upper == 0.0
    for method in ("pure", "zcdp", "rdp", "pld", "contour"):
        assert epsilon(compose((Laplace(0.1), 30)), 1.0, method=method).upper == 0.0
    assert epsilon(ApproximateDP(1.0, 1.0), 1.0, method="pld").upper == 0.0
    assert epsilon(Gaussian(1), 0.0).upper == math.inf
    assert delta(Gaussian(1), math.inf).upper == 0.0
    assert epsilon(PureDP(0.0), 0.0).upper == 0.0


@pytest.mark.parametrize("size", [1e-100, 1e-60, 1e-20, 1e20, 1e60, 1e100])
def test_extreme_sizes_give_bounds_that_are_never_zero(size):
    """Neither underflow nor overflow turns a cost into 0."""
    for event in (
        Gaussian(size),
        Laplace(size),
        PureDP(size),
        BoundedRange(size),
        ZCDP(size),
        LazySwitchDecision(0.5, size),
    ):
        assert delta(event, 0.0).upper > 0.0
        assert 0.0 <= epsilon(event, 1e-6).upper <= math.inf
        if event.pure_epsilon() == math.inf:
            assert delta(event, 0.5).upper > 0.0
    with pytest.raises(InvalidArgumentError, match="noise_multiplier"):
        Gaussian(size).at(1e300)


def test_sizes_beyond_the_extremes_are_rounded_to_the_safe_side_or_refused():
    assert PureDP(1e-300) == PureDP(1e-100) and PureDP(0.0).epsilon == 0.0
    assert ZCDP(1e-300) == ZCDP(1e-200) and BoundedRange(5e-324) == BoundedRange(1e-100)
    assert Gaussian(1e300) == Gaussian(1e100) and Laplace(1e200) == Laplace(1e100)
    for refused in (lambda: PureDP(1e101), lambda: ZCDP(1e201), lambda: Gaussian(1e-101), lambda: BoundedRange(1e101)):
        with pytest.raises(InvalidArgumentError, match="out of range"):
            refused()


def test_a_delta_next_to_one_is_not_rounded_below_it():
    """It is 1 - e^-200 and less."""
    for mu, eps in ((60.0, 0.0), (60.0, 1.0), (100.0, 1000.0)):
        assert gaussian_profile.log_delta(mu, eps) >= 0.0 >= gaussian_profile.log_delta(mu, eps, upper=False) >= -1e-11


@pytest.mark.parametrize("eps", [0.05, 0.3, 1.0, 1.8])
@pytest.mark.every(2)
def test_digits_of_deltas_near_one_are_bounded(eps):
    """The logarithm is a small difference of large numbers here."""
    for mu in np.linspace(10.0, 13.0, 301).tolist():
        with mpmath.workdps(60):
            a = mpmath.mpf(mu) / 2 - mpmath.mpf(eps) / mu
            exact = mpmath.log(mpmath.ncdf(a) - mpmath.exp(eps) * mpmath.ncdf(a - mu))
            assert gaussian_profile.log_delta(mu, eps, upper=False) <= exact <= gaussian_profile.log_delta(mu, eps)


@pytest.mark.parametrize("mu", [1e-30, 1e-12, 1e-6, 0.1, 1.0, 30.0])
def test_gaussian_total_variation(mu):
    exact = math.erf(mu / math.sqrt(8))
    lower, upper = ends(delta(Gaussian(1 / mu), 0.0, bracket=True))
    assert exact * (1 - 1e-13) <= lower <= exact <= upper <= exact * (1 + 1e-13)


def test_failures_are_added_last():
    event = compose(PureDP(1.0), (Failure(1e-7), 5))
    assert epsilon(event, 4e-7).upper == math.inf
    assert epsilon(event, 5.1e-7).upper <= 1.0
    assert delta(event, 1.0).upper == pytest.approx(5e-7)
    assert delta(event, math.inf).upper == pytest.approx(5e-7)


@pytest.mark.parametrize("bad", [math.nan, -1e-9, 1.1, math.inf, "x", None, True])
def test_bad_targets_are_refused(bad):
    """B4: NaN is never 0."""
    with pytest.raises(InvalidArgumentError, match="delta"):
        epsilon(Gaussian(1), bad)


@pytest.mark.parametrize("bad", [math.nan, -1.0, "x", None, True])
def test_bad_epsilon_is_refused(bad):
    with pytest.raises(InvalidArgumentError, match="epsilon"):
        delta(Gaussian(1), bad)


def test_unknown_methods_and_objects_that_are_not_events_are_refused():
    with pytest.raises(InvalidArgumentError, match="method"):
        epsilon(Gaussian(1), 1e-6, method="magic")
    with pytest.raises(InvalidArgumentError, match="what=.*has no event"):
        epsilon(0.5, 1e-6)


@given(event=ANY, n=st.integers(1, 40), d=st.sampled_from([1e-2, 1e-6]))
@settings(deadline=None, max_examples=30)
def test_rdp_floor_is_below_and_close(event, n, d):
    lower, upper = ends(epsilon(compose((event, n)), d, bracket=True, method="rdp"))
    if 0 < upper < math.inf:
        assert 0.99 * upper <= lower <= upper


def test_delta_at_infinite_epsilon_is_the_mass_of_infinite_losses():
    assert delta(Gaussian(1.0), math.inf, method="rdp").upper == 0.0
    assert delta(NonPrivate(), math.inf, method="rdp").upper == 1.0


def test_a_lower_bound_lost_in_rounding_is_minus_infinity():
    assert gaussian_profile.log_delta(1.0, 1e8, upper=False) == -math.inf
    assert gaussian_profile.log_delta(1.0, 1e8) <= -1e15


@pytest.mark.parametrize("value", [np.array(0.5), np.float32(0.5), Fraction(1, 2), Decimal("0.5")])
def test_every_real_number_type_is_accepted(value):
    assert validate.real("x", value) == 0.5
    with pytest.raises(InvalidArgumentError):
        validate.real("x", np.array(True))


def test_the_error_for_a_number_out_of_range_states_the_range():
    for low, high, words in ((None, 1.0, r"\(-inf, 1\]"), (3.0, None, r"\[3, inf\)"), (3.0, 4.0, r"\[3, 4\]")):
        with pytest.raises(InvalidArgumentError, match=words):
            validate.real("x", 2.0, low=low, high=high)


def test_a_missing_dependency_of_an_installed_extra_raises_its_own_error(tmp_path, monkeypatch):
    (tmp_path / "half_installed.py").write_text("import a_package_that_is_missing\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="a_package_that_is_missing") as caught:
        optional_packages.require("half_installed", "this test", extra="test")
    assert not isinstance(caught.value, optional_packages.MissingExtraError)
    with pytest.raises(
        optional_packages.MissingExtraError, match=r"this test needs not_installed: pip install 'hockeystick\[test\]'"
    ):
        optional_packages.require("not_installed.part", "this test", extra="test")


def test_sums_beyond_the_largest_float_are_rounded_outwards():
    much = 2 * exact_sums.exact(sys.float_info.max)
    assert exact_sums.rounded(much, up=True) == math.inf
    assert exact_sums.rounded(much, up=False) == sys.float_info.max
    assert exact_sums.rounded(-1, up=True) == 0.0
    third = exact_sums.exact(1.0) // 3
    low, high = exact_sums.rounded(third, up=False), exact_sums.rounded(third, up=True)
    assert exact_sums.exact(low) < third < exact_sums.exact(high) and high == math.nextafter(low, 1.0)


def test_atoms_of_a_profile_in_exact_arithmetic():
    one, half = Fraction(1), Fraction(1, 2)
    # the smaller of two heights at a place counts, and a corner where the slope does not change holds no mass
    assert piecewise_profiles.lower_hull([(0 * one, one), (0 * one, half), (one, 0 * one)]) == [
        (0 * one, half),
        (one, 0 * one),
    ]
    pair = piecewise_profiles.atoms([(0 * one, one), (one, half), (2 * one, 0 * one)])
    assert pair.losses == pytest.approx((math.log(2),), rel=1e-15) and pair.p == pytest.approx((1.0,), rel=1e-14)
    assert pair.losses[0] >= math.log(2) and pair.infinity() == 0.0


@pytest.mark.parametrize(
    "x", [Fraction(10**400, 3), Fraction(3, 10**400), Fraction(10**301), Fraction(7, 2), 1 + Fraction(1, 10**9)]
)
def test_logarithms_of_fractions_are_rounded_up(x):
    with mpmath.workdps(60):
        exact = mpmath.log(x.numerator) - mpmath.log(x.denominator)
        assert exact <= piecewise_profiles._log_up(x) <= exact + 1e-12 * (1 + abs(exact))


def test_the_contours_upper_end_is_the_upper_bound():
    event = compose((Gaussian(2.0), 3), (Laplace(1.5), 4))
    found = delta(event, 1.0, bracket=True, method="contour")
    low, high = contour_integral.delta(event, 1.0)
    assert low < high and (found.lower, found.upper) == (low, high)


def test_a_hull_has_only_corners_unless_all_points_are_requested():
    points = [(Fraction(x), Fraction(y)) for x, y in ((0, 4), (1, 3), (2, 3), (3, 1), (5, 0))]
    assert piecewise_profiles.lower_hull(points) == [points[0], points[3], points[4]]
    assert piecewise_profiles.lower_hull(points, straight=True) == [points[0], points[1], points[3], points[4]]


def test_a_likely_delta_needs_no_negative_epsilon():
    """The best order gives ε = −1.6 there, and the definition of δ does not cover a negative ε."""
    assert renyi.epsilon(Gaussian(1e3), 0.9) == 0.0


@given(size=st.floats(1e-9, 0.5), count=st.integers(1, 50))
@example(size=1e-9, count=1)
def test_the_total_variation_by_renyi_orders_is_not_below_the_exact_one(size, count):
    gaussian, response = Gaussian(1 / size), RandomizedResponse(size)
    assert renyi._total_variation(compose((gaussian, count))) >= math.erf(size * math.sqrt(count / 8)) * (1 - 1e-15)
    assert renyi._total_variation(response) >= math.tanh(size / 2) * (1 - 1e-15)
    assert renyi._total_variation(Laplace(1 / size)) >= -math.expm1(-size / 2) * (1 - 1e-15)
    assert renyi._total_variation(response) <= 1.02 * math.tanh(size / 2)  # Pinsker's inequality is sharp there


@pytest.mark.parametrize("direction", ["removal", "addition"])
def test_the_total_variation_of_a_rare_access_is_not_below_the_exact_one(direction):
    """It is q·δ_G(0). Below 1e-16 the probability 1 − q is 1 in floats, whose logarithm is 0."""
    for exponent, sigma in itertools.product(range(1, 18), (0.3, 1.0, 50.0)):
        q = 10.0**-exponent
        event = PoissonSampled(q, Gaussian(sigma)).towards(direction)
        assert renyi._total_variation(event) >= q * math.erf(1 / sigma / math.sqrt(8)) * (1 - 1e-14)
        if direction == "addition":
            assert (
                0.0
                < q * (1 - 1e-15)
                <= MixtureOfGaussians((0, 1), (1 - q, q), sigma, direction=direction).pure_epsilon()
            )


def test_an_epsilon_of_zero_needs_no_grid(monkeypatch):
    """δ(0) of the limit, N(μ, 1) with μ = q√(n(e^{1/σ²} − 1)), is 4e-7."""
    monkeypatch.setattr(loss_distribution, "epsilon", None)
    event = compose((PoissonSampled(1e-8, Gaussian(10.0)), 10**6))
    assert epsilon(event, 1e-5) == Bracket(0.0, None, "rdp")
    assert epsilon(event, 1e-5, bracket=True).lower == 0.0
    mu = 1e-8 * math.sqrt(1e6 * math.expm1(1e-2))
    assert mu / math.sqrt(2 * math.pi) < math.exp(renyi.log_delta(event, 0.0)) < 1.3 * mu / math.sqrt(2 * math.pi)


@pytest.mark.parametrize("knot", [1.7, 2.3, 5.7, 9.3])
def test_no_order_beats_the_rdp_floor_even_if_the_best_one_is_not_tried(knot):
    """The curve turns upwards at ``knot``, between two orders, so the best order is there."""
    event, delta = RenyiCurve((knot, 2 * knot), (1.0, 20.0)), 1e-3
    best = 1.0 + math.log1p(-1 / knot) - (math.log(delta) + math.log(knot)) / (knot - 1)
    found = renyi.epsilon(event, delta)
    assert best * (1 - 0.01) <= renyi.epsilon_floor(event, delta, found) <= best * (1 + 1e-14)
    assert best * (1 + 1e-9) < found


def test_the_rdp_floor_is_near_even_if_two_slopes_agree_to_the_last_bit():
    """A flat curve at large orders does this; the caller must not see a division by zero."""
    event, delta = PureDP(1.0), 1e-10
    found = renyi.epsilon(event, delta)
    assert found * (1 - 1e-6) <= renyi.epsilon_floor(event, delta, found) <= found


def test_deltas_by_orders_are_rounded_up_where_their_terms_cancel():
    rng = np.random.default_rng(0)
    for _ in range(10):
        sigmas = rng.uniform(0.01, 1.0, 12).tolist()
        event = compose(*((Gaussian(sigma), 1) for sigma in sigmas))
        for order in (1e3, 1e6, 1e9):
            with mpmath.workdps(60):
                a = mpmath.mpf(order)
                divergence = sum(a / (2 * mpmath.mpf(sigma) ** 2) for sigma in sigmas)
                epsilon = float(divergence)
                exact = (a - 1) * (divergence - epsilon + mpmath.log(1 - 1 / a)) - mpmath.log(a)
            (found,) = renyi._log_deltas(event, np.array(epsilon), np.array([order]))
            assert found >= exact


def test_no_order_beats_the_rdp_floor_where_the_best_one_is_beyond_all_that_are_tried():
    event, delta = PureDP(1e-6), 1e-300
    found = renyi.epsilon(event, delta)
    assert 0.999e-6 < renyi.epsilon_floor(event, delta, found) <= 1e-6 < found


def test_both_orders_of_parallel_branches_are_those_of_the_branches():
    a, b, c = DiscretePair((0.9, 0.1), (0.5, 0.5), orientation="tied"), PureDP(0.3), Gaussian(2.0)
    first, second = a.directions()
    assert parallel(a, b, c).directions() == (parallel(first, b, c), parallel(second, b, c))
    assert parallel(b, c).directions() == (parallel(b, c),)


@pytest.mark.parametrize("x", [Fraction(1, 3), Fraction(2, 3), Fraction(1, 10), 1 + Fraction(1, 2**60), Fraction(1, 2)])
def test_fractions_are_rounded_up_to_the_next_float(x):
    value = piecewise_profiles.float_up(x)
    assert Fraction(math.nextafter(value, -math.inf)) < x <= Fraction(value)


@pytest.mark.statistical
def test_sums_of_divergences_are_bounded_at_orders_below_two():
    """If many divergences cancel against ε, their round-off exceeds that of the remainder."""
    rhos = [0.1 + i / 1000 for i in range(400)]
    event, total = compose(*map(ZCDP, rhos)), sum(map(Fraction, rhos))
    with mpmath.workdps(40):
        for order in (1.05, 1.2, 1.5, 1.9):
            less, divergence = mpmath.mpf(order) - 1, mpmath.mpf(total.numerator) / total.denominator * order
            for shift in np.linspace(-1e-3, 1e-3, 21).tolist():
                eps = float(total) * order + shift
                exact = less * (divergence - eps - mpmath.log1p(1 / less)) - mpmath.log(order)
                assert exact <= renyi._log_deltas(event, np.array(eps), np.array([order]))[0] <= exact + 1e-8


def test_a_bracket_as_a_number_is_its_upper_end():
    bound = Bracket(1.00004, 0.9, "pld")
    assert float(bound) == 1.00004 and f"{bound:.3f}" == "1.001" and f"{bound}" == str(bound)
    assert bound < 1.00005 and bound <= 1.00004 and bound > 1.0 and bound >= np.float64(1.00004)
    assert not bound < 1.00004 and not bound > 1.00004 and not bound <= 1.0 and not bound >= 2
    assert operator.lt(np.float64(1.0), bound) and operator.gt(2, bound) and not operator.ge(1, bound)
    assert bound < Bracket(1.1, None, "rdp") and max(bound, Bracket(1.0, 1.0, "rdp")) is bound
    assert not bound < math.nan and not bound >= math.nan
    with pytest.raises(TypeError):
        assert bound < "2"
    with pytest.raises(ValueError, match="ormat"):
        f"{bound:d}"
