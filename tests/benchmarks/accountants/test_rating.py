"""Tests of the rating of accountants: the reference values against other derivations, and wrong accountants."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import dp_accounting
import mpmath
import pytest
from benchmark_scripts import benchmark
from divergences import exact_gaussian_delta
from hypothesis import given, settings
from hypothesis import strategies as st

from hockeystick.accounting import Accountant, InvalidArgumentError, Laplace, compose, from_dp_event

compositions, rating = benchmark("accountants.compositions"), benchmark("accountants.rating")
_composed, _discrete_laplace, _response = compositions._composed, compositions._discrete_laplace, compositions._response
gaussian_epsilon, lattice_epsilon = compositions.gaussian_epsilon, compositions.lattice_epsilon
known_compositions = compositions.known_compositions
ACCOUNTANTS, TOLERANCE, RatedAccountant = rating.ACCOUNTANTS, rating.TOLERANCE, rating.RatedAccountant
accountant, judge, rate, rate_accountant = rating.accountant, rating.judge, rating.rate, rating.rate_accountant

KNOWN = {one.name: one for one in known_compositions()}
SGD = KNOWN["sampled Gaussian q=0.01 σ=0.8 ×1000, δ=1e-06"]
GAUSSIAN = KNOWN["Gaussian σ=1 ×10, δ=1e-06"]
RESPONSE = KNOWN["randomised response r=0.9 ×100, δ=1e-06"]


def ours(event: Any, delta: float) -> float:
    return Accountant().compose(event).get_epsilon(delta)


def rated(epsilon: Any, composition: Any = GAUSSIAN, **more: Any) -> Any:
    return rate_accountant(RatedAccountant("mine", epsilon, **more), composition)


def test_compositions_are_of_as_many_events() -> None:
    laplace = dp_accounting.LaplaceDpEvent(1.0)
    assert _composed([(laplace, 1)]) == laplace
    for count in (2, 3):
        assert from_dp_event(_composed([(laplace, count)])) == compose((Laplace(1.0), count))
    assert from_dp_event(_composed([(laplace, 2), (laplace, 3)])) == compose((Laplace(1.0), 5))


# --- the truth -------------------------------------------------------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(st.floats(1e-3, 20.0), st.integers(-15, -2))
def test_the_closed_form_of_gaussian_noise_encloses_that_of_fifty_digits(mu: float, exponent: int) -> None:
    delta = 10.0**exponent
    with mpmath.workdps(50):
        if exact_gaussian_delta(mu, 0.0) <= 2.0 * delta:
            return  # no ε above 0, or hardly
        low, high = gaussian_epsilon(mu, delta)
        assert exact_gaussian_delta(mu, low) > delta > exact_gaussian_delta(mu, high) and high <= low * (1.0 + 3e-10)


def exact_delta(laws: list[tuple[Fraction, Fraction]], epsilon: float) -> Any:
    """δ of independent pairs of probabilities, by every outcome."""
    slope = mpmath.exp(mpmath.mpf(epsilon))
    return sum(
        (max(mpmath.mpf(0), mpmath.mpf(p.numerator) / p.denominator - slope * q.numerator / q.denominator))
        for p, q in laws
    )


def all_outcomes(one: list[tuple[Fraction, Fraction]], count: int) -> list[tuple[Fraction, Fraction]]:
    return [
        (math.prod((p for p, _ in several), start=Fraction(1)), math.prod((q for _, q in several), start=Fraction(1)))
        for several in itertools.product(one, repeat=count)
    ]


@pytest.mark.parametrize(("noise", "buckets", "count"), [(0.5, 2, 4), (0.75, 3, 3), (0.3, 5, 2), (0.9, 2, 1)])
@pytest.mark.parametrize("delta", [0.0, 1e-9, 1e-2])
def test_responses_by_all_outcomes(noise: float, buckets: int, count: int, delta: float) -> None:
    r = Fraction(noise)
    true, other = 1 - r + r / buckets, r / buckets
    one = [(true, other), (other, true), *[(other, other)] * (buckets - 2)]
    low, high = lattice_epsilon([_response(noise, buckets, count)], delta)
    with mpmath.workdps(40):
        assert exact_delta(all_outcomes(one, count), high) <= delta <= exact_delta(all_outcomes(one, count), low)
    assert 0.0 < low < high <= low * (1.0 + 1e-14)


@pytest.mark.parametrize(("sensitivity", "delta"), [(1, 1e-9), (1, 0.1), (2, 1e-3), (2, 0.5), (3, 1e-9), (3, 0.5)])
def test_discrete_laplace_noise_by_its_values(sensitivity: int, delta: float) -> None:
    """Three releases, so that a loss of any size has a share; beyond 400 the noise's values hold less than e^-200."""
    low, high = lattice_epsilon([_discrete_laplace(0.5, sensitivity, 3)], delta)
    with mpmath.workdps(40):
        a = mpmath.mpf(0.5)
        by_loss: dict[int, Any] = {}
        for k in range(-400, 400 + sensitivity):
            loss = abs(k - sensitivity) - abs(k)
            by_loss[loss] = by_loss.get(loss, 0) + mpmath.exp(-a * abs(k)) * mpmath.tanh(a / 2)

        def profile(epsilon: float) -> Any:
            return sum(
                p * q * r * max(0, 1 - mpmath.exp(epsilon - a * (x + y + z)))
                for (x, p), (y, q), (z, r) in itertools.product(by_loss.items(), repeat=3)
            )

        assert profile(high) <= delta <= profile(low)


def test_the_bracket_of_one_sampled_gaussian_encloses_its_closed_form() -> None:
    """Where the record is in one data set: a threshold on the output, in both directions."""
    q, known = mpmath.mpf(0.02), KNOWN["sampled Gaussian q=0.02 σ=1, δ=1e-06"]
    with mpmath.workdps(40):

        def profile(epsilon: float) -> Any:
            slope = mpmath.exp(mpmath.mpf(epsilon))
            at = mpmath.log((slope - 1 + q) / q) + mpmath.mpf(0.5)  # where the mixture is slope times the plain law
            removed = (1 - q) * mpmath.ncdf(-at) + q * mpmath.ncdf(1 - at) - slope * mpmath.ncdf(-at)
            inverse = 1 / slope - 1 + q
            if inverse <= 0:
                return removed
            at = mpmath.log(inverse / q) + mpmath.mpf(0.5)
            added = mpmath.ncdf(at) - slope * ((1 - q) * mpmath.ncdf(at) + q * mpmath.ncdf(at - 1))
            return max(removed, added)

        low, high = known.truth
        assert profile(high) <= known.delta <= profile(low) and high <= low * (1.0 + 1e-8)


def test_one_laplace_release_by_its_integral() -> None:
    known = KNOWN["Laplace b=0.25, δ=0.01"]
    with mpmath.workdps(30):

        def profile(epsilon: float) -> Any:
            """P(x ≤ t) − e^ε·Q(x ≤ t) where the loss 4 − 8x, within [0, 1], is ε at t."""
            at = (4 - mpmath.mpf(epsilon)) / 8
            return 1 - mpmath.exp(-4 * at) / 2 - mpmath.exp(epsilon) * mpmath.exp(-4 * (1 - at)) / 2

        low, high = known.truth
        assert profile(high) <= known.delta <= profile(low)


def test_the_set_of_compositions_is_as_described() -> None:
    """Names are unique, all kinds of reference occur even in a quick run, and nothing is computed before it is
    needed."""
    compositions = known_compositions()
    assert len(KNOWN) == len(compositions) > 20
    assert all(0 <= one.delta < 1 for one in compositions)
    for some in (compositions, [one for one in compositions if one.quick]):
        assert {one.source for one in some} == {"closed form", "exact law", "bracket"}
    assert not any("truth" in vars(one) for one in known_compositions())


def test_our_accountant_is_near_the_truth() -> None:
    answers = list(rate(ACCOUNTANTS[:1], list(KNOWN.values())))
    assert judge(answers) == "not below" and [one.composition for one in answers if one.judgement != "not below"] == []
    assert max(one.ratio_most or math.inf for one in answers) < 1.0 + 1e-6
    assert min(one.ratio_of_lower or 0.0 for one in answers if KNOWN[one.composition].quick) > 1.0 - 1e-5
    assert {one.truth_upper >= one.truth_lower > 0.0 for one in answers} == {True}


def test_a_renyi_accountant_is_above_the_truth() -> None:
    answers = list(rate([accountant("dp-accounting-rdp")], [GAUSSIAN, RESPONSE, SGD]))
    assert judge(answers) == "not below" and all((one.ratio or 0.0) > 1.01 for one in answers)


# --- wrong accountants -----------------------------------------------------------------------------------------------


def central_limit(event: Any, delta: float) -> float:
    """Gaussian differential privacy of many samples in the limit (Bu et al. 2020): an approximation, no bound."""
    q, sigma, steps = event.event.sampling_probability, event.event.event.noise_multiplier, event.count
    return float(gaussian_epsilon(q * math.sqrt(steps * math.expm1(sigma**-2)), delta)[1])


def counted_once(event: Any, delta: float) -> float:
    return ours(event.event, delta)


@pytest.mark.parametrize(
    ("wrong", "composition"),
    [
        (lambda event, delta: 0.99999 * ours(event, delta), SGD),
        (lambda event, delta: (1.0 - 1e-8) * ours(event, delta), RESPONSE),
        (lambda event, delta: ours(event, 1.001 * delta), GAUSSIAN),
        (lambda event, delta: 0.0, GAUSSIAN),
        (central_limit, SGD),
        (counted_once, RESPONSE),
    ],
)
def test_an_accountant_with_too_small_an_epsilon_is_invalid(wrong: Any, composition: Any) -> None:
    found = rated(wrong, composition)
    assert found.judgement == "INVALID" and found.ratio is not None and found.ratio < 1.0
    assert judge([rated(ours, composition), found]) == "INVALID"


def test_round_off_is_not_a_defect() -> None:
    assert rated(lambda *_: RESPONSE.truth[0] * (1.0 - 0.5 * TOLERANCE), RESPONSE).judgement == "not below"
    assert rated(lambda *_: RESPONSE.truth[0] * (1.0 - 2.0 * TOLERANCE), RESPONSE).judgement == "INVALID"


def test_a_lower_end_above_the_truth_is_invalid() -> None:
    known = accountant("hockeystick")
    assert rated(ours, SGD, lower=known.lower).judgement == "not below"
    assert rated(ours, SGD, lower=lambda *_: 1.001 * SGD.truth[1]).judgement == "INVALID"


def test_an_infinite_epsilon_is_a_sound_bound() -> None:
    found = rated(lambda *_: math.inf)
    assert (found.judgement, found.ratio) == ("not below", math.inf)


@pytest.mark.parametrize("error", [NotImplementedError("no such\nevent"), ZeroDivisionError(), MemoryError()])
def test_a_refusal_is_not_counted_as_a_defect(error: Exception) -> None:
    def refuses(event: Any, delta: float) -> float:
        raise error

    found = rated(refuses)
    assert (found.judgement, found.epsilon, found.ratio, found.ratio_of_lower) == ("no answer", None, None, None)
    assert found.refused.startswith(type(error).__name__) and "\n" not in found.refused
    assert judge([found]) == "no answer" and judge([found, rated(ours)]) == "not below" and judge([]) == "no answer"


@pytest.mark.parametrize("said", [None, "1.0", math.nan, -1.0, True, (1.0, 2.0)])
def test_a_result_that_is_not_an_epsilon_could_not_run(said: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="mine: epsilon"):
        rated(lambda *_: said)


def test_an_accountant_gets_a_copy_of_the_event() -> None:
    known = KNOWN["Gaussian σ=2, 3 ×5, 5 ×20, δ=1e-06"]

    def drops_the_rest(event: Any, delta: float) -> float:
        del event.events[1:]
        return ours(event, delta)

    assert rated(drops_the_rest, known).judgement == "INVALID"
    assert len(known.event.events) == 3 and rated(ours, known).judgement == "not below"


def test_warnings_and_logs_of_accountants_are_kept_back(recwarn: pytest.WarningsRecorder) -> None:
    import logging
    import warnings

    def noisy(event: Any, delta: float) -> float:
        warnings.warn("much ado", RuntimeWarning, stacklevel=1)
        return ours(event, delta)

    before = logging.root.manager.disable
    assert rated(noisy).judgement == "not below"
    assert not recwarn.list and logging.root.manager.disable == before


def test_names_are_checked() -> None:
    assert {accountant(one.name) for one in ACCOUNTANTS} == set(ACCOUNTANTS)
    with pytest.raises(InvalidArgumentError, match="MODULE:CALLABLE"):
        accountant("prv")


def test_native_accountants_are_run_under_a_supported_relation() -> None:
    """Randomised response has one for replaced records alone, Gaussian noise counts once for an added one."""
    renyi = accountant("dp-accounting-rdp")
    assert renyi.epsilon(RESPONSE.event, 1e-6) < math.inf
    plain = dp_accounting.rdp.RdpAccountant().compose(GAUSSIAN.event).get_epsilon(1e-6)
    assert renyi.epsilon(GAUSSIAN.event, 1e-6) == plain
