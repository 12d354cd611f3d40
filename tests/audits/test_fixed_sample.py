"""Whole audits: broken mechanisms are refuted, correct ones are not, and the verdict says what was done.

Every audit here runs at confidence 1 - 1e-6 or is of a mechanism far from its claim, with fixed seeds. So a test of a
correct mechanism fails by chance with probability at most 1e-6, over the choice of the seed.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import deep_examples
from scipy import stats

from hockeystick import accounting
from hockeystick.accounting import InvalidArgumentError
from hockeystick.audits import Claim, Recorded, TargetError, Verdict, audit
from hockeystick.audits.bounds.two_counts import frontier
from hockeystick.audits.verdicts.verdict import TradeoffPoint

Batch = Callable[[Any, np.random.Generator, int], Any]
SURE = 1 - 1e-6
SIGMA = 3.7306316  # of a Gaussian of sensitivity 1 that is (1, 1e-5)-DP


def checked(target: Any, samples: int, **options: Any) -> Verdict:
    """Audits the claim of epsilon = 1 on data sets 0 and 1, unless the options say otherwise."""
    return audit(target, samples=samples, **{"claim": Claim(1.0), "neighbours": (0, 1), "rng": 1, **options})


def on_a_grid(sample: Batch) -> Batch:
    """Outputs rounded to multiples of 2^-20, which hides how they were computed."""
    return lambda data, rng, runs: np.round(sample(data, rng, runs) * 2.0**20) / 2.0**20


def laplace(scale: float) -> Batch:
    return lambda data, rng, runs: data + rng.laplace(scale=scale, size=runs)


def gaussian(sigma: float) -> Batch:
    return lambda data, rng, runs: data + sigma * rng.standard_normal(runs)


def randomised_response(epsilon: float) -> Batch:
    keep = math.exp(epsilon) / (1 + math.exp(epsilon))
    return lambda data, rng, runs: np.where(rng.random(runs) < keep, data, 1 - data)


def geometric(epsilon: float) -> Batch:
    p = 1 - math.exp(-epsilon)
    return lambda data, rng, runs: data + rng.geometric(p, runs) - rng.geometric(p, runs)


CURVE = Claim.curve(accounting.Gaussian(SIGMA), 1e-5)


@pytest.mark.parametrize(
    ("correct", "broken", "claim", "samples"),
    [
        (laplace(1.0), laplace(0.5), Claim(1.0), 4000),
        (gaussian(SIGMA), gaussian(SIGMA / 2), CURVE, 10_000),
        (gaussian(1.0), gaussian(0.5), Claim(1.0, 0.12693673750664394), 4000),
        (randomised_response(1.0), randomised_response(2.0), Claim(1.0), 4000),
        (geometric(1.0), geometric(2.0), Claim(1.0), 4000),
        (geometric(0.1), geometric(0.2), Claim(0.1), 100_000),
    ],
    ids=["laplace", "gaussian curve", "gaussian point", "randomised response", "geometric", "geometric, small epsilon"],
)
def test_half_the_noise_is_refuted_and_the_full_noise_is_not(
    correct: Batch, broken: Batch, claim: Claim, samples: int
) -> None:
    fine = checked(correct, samples, claim=claim, confidence=SURE)
    wrong = checked(broken, samples, claim=claim, confidence=SURE)

    assert fine.outcome == "consistent"
    assert not fine.refuted
    assert fine.epsilon_lower <= claim.epsilon
    assert wrong.outcome == "refuted"
    assert wrong.refuted
    if not claim.also:
        assert wrong.epsilon_lower > claim.epsilon


def test_a_curve_is_refuted_with_far_fewer_samples_than_its_stated_point() -> None:
    curve = checked(gaussian(SIGMA / 2), 4000, claim=CURVE, rng=2)
    point = checked(gaussian(SIGMA / 2), 4000, claim=Claim(CURVE.epsilon, CURVE.delta), rng=2)

    assert curve.refuted
    assert not point.refuted
    assert curve.delta_tested > 1e-3
    assert (curve.epsilon_claimed, curve.delta) == (CURVE.epsilon, 1e-5)


@pytest.mark.parametrize("swapped", [False, True])
def test_both_directions_are_searched(swapped: bool) -> None:
    """Only one order of the two data sets shows the violation: S is impossible on one, seldom on the other."""

    def rare(data: int, rng: np.random.Generator, runs: int) -> np.ndarray:
        return (rng.random(runs) < 0.1 * data).astype(int)

    pair = (1, 0) if swapped else (0, 1)
    verdict = checked(rare, 2000, neighbours=pair)

    assert verdict.refuted
    assert verdict.direction == ("d0->d1" if swapped else "d1->d0")
    assert verdict.count_q == 0
    assert verdict.count_p / verdict.trials == pytest.approx(0.1, abs=0.05)


def none_or(p0: float, p1: float, number: Callable[[np.random.Generator], Any]) -> Callable[..., Any]:
    return lambda data, rng: None if rng.random() < (p1 if data else p0) else number(rng)


OTHER_KINDS: dict[str, tuple[Callable[..., Any], str]] = {
    "string": (lambda d, r: "yes" if r.random() < 0.1 + 0.8 * d else "no", "output is '"),
    "bytes": (lambda d, r: b"y" if r.random() < 0.1 + 0.8 * d else b"n", "output is b'"),
    "bool": (lambda d, r: bool(r.random() < 0.1 + 0.8 * d), "output "),
    "integer": (lambda d, r: int(r.integers(10)) + 7 * d, "output "),
    "none or number": (none_or(0.1, 0.9, lambda r: r.normal()), "output is "),
    "none or integer": (none_or(0.1, 0.9, lambda r: int(r.integers(5))), "output is "),
    "tuple": (lambda d, r: ("a", r.normal() + 4 * d, int(r.integers(3))), ""),
    "nested tuple": (lambda d, r: (None, (r.normal() + 4 * d, "x")), "output[1][0] "),
    "list of varying length": (lambda d, r: [0] * int(r.integers(2, 4) + d), "output is ["),
    "dictionary": (lambda d, r: {"mean": r.normal() + 4 * d, "name": "x"}, "output.mean "),
    "vector": (lambda d, r: r.normal(size=3) + [0, 4 * d, 0], ""),
    "shape": (lambda d, r: np.zeros(2 + d), "output is an array of float64 with shape ("),
    "dtype": (lambda d, r: np.float32(0) if d else np.float64(0), "output is a number (float"),
    "negative zero": (lambda d, r: -0.0 if d else 0.0, "output "),
    "nan": (lambda d, r: math.nan if r.random() < 0.5 * d else r.normal(), "output = nan"),
    "infinity": (lambda d, r: math.inf if r.random() < 0.5 * d else r.normal(), "output "),
    "nan in a vector": (lambda d, r: [r.normal(), math.nan if r.random() < 0.5 * d else 0.0], "output[1] = nan"),
    "a set": (lambda d, r: {"a", "b"} if r.random() < 0.1 + 0.8 * d else {"a"}, "output is {"),
    "unseen strings": (
        lambda d, r: str(r.integers(1 << 60)) if r.random() < 0.05 + 0.9 * d else "x",
        "any output that was never",
    ),
    "sum of a vector": (lambda d, r: r.normal(size=8) + 1.5 * d, ""),
    "order of a vector": (lambda d, r: np.sort(r.normal(size=6)) if d else r.normal(size=6), ""),
    "ties in a vector": (lambda d, r: r.integers(0, 100 if d else 3, size=6), ""),
    "spread": (lambda d, r: (1 + 5 * d) * r.normal(size=2), ""),
    "weights of a vector": (
        lambda d, r: 9 * r.normal() + r.normal(size=4) + d * np.array([2, -2, 2, -2]),
        "output[0] - ",
    ),
    "many small signs": (
        lambda d, r: (2 * r.integers(2, size=12) + (r.random(12) < 0.35 + 0.3 * d)) * 5 % 7,
        "a sum of per-coordinate scores",
    ),
    "a value among others": (lambda d, r: 0.5 if r.random() < 0.1 * d else r.normal(), "output = 0.5"),
    "signs of a product": (lambda d, r: np.abs(r.normal(size=2)) * [1, 1 if d else -1], ""),
}


@pytest.mark.parametrize("kind", OTHER_KINDS)
def test_every_kind_of_output_can_refute(kind: str) -> None:
    target, words = OTHER_KINDS[kind]

    verdict = checked(target, 1000)

    assert verdict.refuted
    assert any(event.startswith(words) for event in (verdict.event, verdict.event_back))
    assert verdict.count_p > math.e * verdict.count_q


@pytest.mark.parametrize("kind", OTHER_KINDS)
@pytest.mark.every(3)
def test_no_kind_of_output_refutes_equal_distributions(kind: str) -> None:
    target, _ = OTHER_KINDS[kind]

    def same(data: int, rng: np.random.Generator) -> Any:
        return target(int(rng.random() < 0.5), rng)

    verdict = checked(same, 1000, claim=Claim(0.0), confidence=SURE)

    assert not verdict.refuted


def above_threshold(scale: float) -> Callable[..., int | None]:
    """Index of the first query above a noisy threshold, or None: (2 / scale)-DP for queries that move by 1."""

    def run(queries: list[float], rng: np.random.Generator) -> int | None:
        threshold = 1 + rng.laplace(scale=2 * scale)
        for index, query in enumerate(queries):
            if query + rng.laplace(scale=4 * scale) >= threshold:
                return index
        return None

    return run


@pytest.mark.statistical
def test_a_stream_that_may_end_without_an_answer() -> None:
    pair = ([0.0, 0.0, 1.0, 0.0], [1.0, 1.0, 0.0, 1.0])

    fine = checked(above_threshold(1.0), 10_000, neighbours=pair, confidence=SURE)
    wrong = checked(above_threshold(0.1), 10_000, neighbours=pair)

    assert not fine.refuted
    assert wrong.refuted


@pytest.mark.parametrize("confidence", [0.999, SURE])
def test_noise_in_floating_point_leaks_through_its_bits_only(confidence: float) -> None:
    def run(sample: Batch, bits: bool) -> Verdict:
        return checked(sample, 20_000, confidence=confidence, bits=bits, first_look=False)

    as_reals, as_bits = run(laplace(1.0), False), run(laplace(1.0), True)

    assert as_reals.outcome == "consistent"
    assert as_reals.float_leak
    assert len(as_reals.warnings) == 1
    assert "low bits" in as_reals.warnings[0]
    assert as_bits.refuted
    assert as_bits.float_leak
    assert as_bits.epsilon_lower > 3
    assert as_bits.warnings == ()
    assert "bit" in as_bits.event


@pytest.mark.parametrize("bits", [False, True])
@pytest.mark.parametrize("scale", [1.0, 0.5])
def test_rounded_noise_never_leaks_through_its_bits(bits: bool, scale: float) -> None:
    verdict = checked(on_a_grid(laplace(scale)), 20_000, confidence=SURE, bits=bits)

    assert verdict.refuted is (scale < 1)
    assert not verdict.float_leak
    assert verdict.warnings == ()


def test_too_little_noise_in_floating_point_leaks_as_well() -> None:
    verdict = checked(laplace(0.5), 20_000)

    assert verdict.refuted
    assert verdict.float_leak


def test_different_values_are_not_reported_as_a_leak_of_bits() -> None:
    verdict = checked(lambda d, r: float(d), 1000)

    assert verdict.refuted
    assert not verdict.float_leak


def test_the_grid_hides_differences_between_its_points() -> None:
    def fine_structure(data: int, rng: np.random.Generator, runs: int) -> np.ndarray:
        return rng.integers(5, size=runs) * 1e-3 + 1e-5 * data

    assert checked(fine_structure, 2000).refuted
    assert not checked(fine_structure, 2000, grid=1e-3).refuted


def test_the_public_grid_hides_last_bits_that_bit_patterns_show() -> None:
    def last_bits(data: int, rng: np.random.Generator, runs: int) -> np.ndarray:
        return rng.integers(1, 5, size=runs) * (1 + 1e-13 * data)

    def run(bits: bool) -> Verdict:
        return checked(last_bits, 2000, bits=bits)

    assert run(False).outcome == "consistent"
    assert run(False).float_leak
    assert run(True).refuted


@pytest.mark.statistical
def test_a_seed_fixes_everything_but_the_clock() -> None:
    def run(rng: Any) -> dict[str, Any]:
        plain = checked(laplace(1.0), 3000, rng=rng).to_dict()
        del plain["seconds"]
        return plain

    first = run(5)

    assert run(5) == first
    assert run(6) != first
    assert run(np.random.default_rng(3)) == run(np.random.default_rng(3))
    fresh = run(None)
    assert fresh["seed"] != run(None)["seed"]
    assert run(fresh["seed"]) == fresh


def test_the_two_data_sets_get_different_noise() -> None:
    drawn: list[np.ndarray] = []

    def spy(data: int, rng: np.random.Generator, runs: int) -> np.ndarray:
        drawn.append(rng.random(runs))
        return drawn[-1]

    checked(spy, 1000)

    audited, again = drawn[:-2], drawn[-2:]  # at the end a few outputs are drawn twice: whether the seed repeats them
    assert sum(map(len, audited)) == 2000
    assert len(np.unique(np.concatenate(audited))) == 2000
    assert np.array_equal(again[0], again[1])


@pytest.mark.parametrize("samples", [20, 21, 999, 1000])
@pytest.mark.parametrize("target", [laplace(1.0), lambda d, r: d + r.laplace()], ids=["vectorised", "single"])
def test_the_verdict_states_the_number_of_outputs_drawn(target: Any, samples: int) -> None:
    seen: list[tuple[int, int]] = []

    verdict = checked(target, samples, progress=lambda done, total: seen.append((done, total)))

    assert verdict.samples == samples
    assert not verdict.timed
    assert verdict.trials == samples - max(samples // 6, min(samples // 4, 30))
    assert seen[-1] == (2 * samples, 2 * samples)
    assert seen == sorted(set(seen))


@pytest.mark.statistical
def test_the_default_number_of_samples_of_a_vectorised_target() -> None:
    verdict = audit(laplace(1.0), claim=Claim(1.0), neighbours=(0, 1), rng=1)

    assert verdict.samples <= 1_000_000
    assert verdict.timed is (verdict.samples < 1_000_000)
    assert verdict.epsilon_lower > 0.9


def test_a_slow_target_gets_fewer_default_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that runs with the target's calls, a tenth of a second each."""
    now = 0.0

    def slow(data: int, rng: np.random.Generator) -> float:
        nonlocal now
        now += 0.1
        return data + rng.laplace()

    for module in ("fixed_sample", "drawing.draws"):
        clock = SimpleNamespace(perf_counter=lambda: now)
        monkeypatch.setattr(sys.modules[f"hockeystick.audits.{module}"], "time", clock)

    verdict = audit(slow, claim=Claim(1.0), neighbours=(0, 1), rng=1)
    again = checked(slow, verdict.samples)

    assert verdict.timed
    assert 100 <= verdict.samples <= 115
    assert verdict.seconds <= 30
    assert (again.count_p, again.count_q, again.event) == (verdict.count_p, verdict.count_q, verdict.event)


def test_outcomes_follow_from_the_counts() -> None:
    def outcome(claim: Claim, samples: int) -> str:
        return checked(laplace(1.0), samples, claim=claim).outcome

    assert outcome(Claim(1.0), 20) == "inconclusive"
    assert outcome(Claim(1.0), 20_000) == "consistent"
    assert outcome(Claim(0.5), 20_000) == "refuted"


@pytest.mark.parametrize("outcome", ["inconclusive", "consistent"])
def test_an_audit_that_cannot_detect_a_violation_near_the_claim_is_inconclusive(outcome: str) -> None:
    samples = {"inconclusive": 100, "consistent": 5000}[outcome]
    verdict = checked(laplace(1.0), samples)

    assert verdict.outcome == outcome
    assert (verdict.detectable_epsilon > 2.0) is (outcome == "inconclusive")


def test_the_detectable_epsilon_of_a_curve_is_at_the_tested_delta() -> None:
    """At the point of the curve that was tested, and not below the claim there."""
    verdict = checked(gaussian(SIGMA), 20_000, claim=CURVE, neighbours=(0.0, 1.0), confidence=SURE)

    assert verdict.outcome == "consistent" and verdict.tested_elsewhere
    assert verdict.epsilon_tested < verdict.detectable_epsilon < verdict.epsilon_tested + 0.5
    assert f"at delta={verdict.delta_tested:g} through such an event" in str(verdict)


@pytest.mark.statistical
def test_a_refuted_curve_is_not_called_a_refuted_point() -> None:
    """A randomised response of the same ε breaks the Gaussian's curve, and not its one point (1, 1e-5)."""
    target = randomised_response(1.0)
    refuted = checked(target, 50_000, claim=CURVE, confidence=SURE)
    alone = checked(target, 50_000, claim=Claim(1.0, 1e-5), confidence=SURE)

    assert refuted.refuted and refuted.epsilon_lower < refuted.epsilon_claimed
    assert "is refuted as a curve, at its point" in str(refuted) and "itself" in str(refuted)
    assert not alone.refuted and "curve" not in str(alone)


@pytest.mark.statistical
def test_the_detectable_epsilon_is_detected_nine_times_in_ten() -> None:
    """On a mechanism whose best event is known, so that all audits choose it: 200 audits, 6 standard errors.

    The sum over all counts is in bounds/test_two_counts.py.
    """

    def response(p: float, q: float) -> Batch:
        return lambda data, rng, runs: (rng.random(runs) < (p if data else q)).astype(int)

    q = 0.1
    verdict = checked(response(math.e * q, q), 4000, rng=3)
    p = math.exp(verdict.detectable_epsilon) * q
    found = [checked(response(p, q), 4000, rng=seed).refuted for seed in range(200)]

    assert np.mean(found) == pytest.approx(0.9, abs=6 * (0.09 / 200) ** 0.5)


def test_equal_data_sets_are_allowed_and_warned_about() -> None:
    for pair in ((1, 1), (np.zeros(3), np.zeros(3)), ([1, "a"], [1, "a"])):
        verdict = checked(lambda d, r: r.random(), 100, claim=Claim(0.5), neighbours=pair)
        assert "equal" in verdict.warnings[0]
    different = checked(lambda d, r: r.random(), 100, claim=Claim(0.5), neighbours=(1, 2))
    assert different.warnings == ()


class Noisy:
    def simulate(self, value: float, rng: np.random.Generator, runs: int) -> np.ndarray:
        return value + rng.laplace(size=runs)

    def worst_case_neighbours(self) -> tuple[float, float]:
        return 0.0, 1.0


def test_a_mechanism_brings_its_own_neighbours() -> None:
    alone = audit(Noisy(), claim=Claim(1.0), samples=2000, rng=1)
    named = checked(Noisy(), 2000, neighbours=(0.0, 1.0))

    assert (alone.count_p, alone.count_q) == (named.count_p, named.count_q)
    with pytest.raises(InvalidArgumentError, match="neighbours"):
        audit(laplace(1.0), claim=Claim(1.0), samples=2000, rng=1)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("claim", 1.0),
        ("claim", (1.0, 2.0, 3.0)),
        ("neighbours", (1, 2, 3)),
        ("neighbours", "ab"),
        ("neighbours", {"d0": 1, "d1": 2}),
        ("neighbours", 3),
        ("samples", 19),
        ("samples", 100.5),
        ("samples", math.nan),
        ("samples", True),
        ("rng", -1),
        ("rng", "seed"),
        ("rng", True),
        ("rng", 1.5),
        ("confidence", 0.5),
        ("confidence", 1.0),
        ("confidence", math.nan),
        ("grid", 0.0),
        ("grid", -1.0),
        ("grid", math.inf),
        ("target", 3),
    ],
)
def test_a_bad_argument_is_refused_before_anything_is_drawn(name: str, value: object) -> None:
    def never(data: int, rng: np.random.Generator) -> float:
        raise AssertionError("drawn")

    arguments: dict[str, Any] = {"target": never, "claim": Claim(1.0), "neighbours": (0, 1), "samples": 100, "rng": 1}

    with pytest.raises(InvalidArgumentError) as caught:
        audit(**{**arguments, name: value})
    assert caught.value.argument == name


@pytest.mark.parametrize("name", ["epsilon", "delta"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -0.1, "1", True, None, 701.0])
def test_a_claim_out_of_range_is_refused(name: str, value: Any) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        Claim(**{"epsilon": 1.0, "delta": 0.1, name: value})
    assert caught.value.argument == name


class Curve:
    """A profile that is not a guarantee."""

    def __init__(self, at_zero: float = 0.3, least: float = 1.0) -> None:
        self.at_zero, self.least = at_zero, least

    def epsilon(self, delta: float) -> float:
        return self.least

    def delta(self, epsilon: float) -> float:
        return self.at_zero * max(0.0, 1 - epsilon / self.least)


def test_a_curve_is_read_on_a_grid() -> None:
    claim = Claim.curve(Curve(), 1e-6)

    assert (claim.epsilon, claim.delta) == (1.0, 1e-6)
    assert (0.0, 0.3) in claim.points
    assert claim.points[0] == (1.0, 1e-6)
    assert all(delta == pytest.approx(max(0.0, 0.3 * (1 - epsilon))) for epsilon, delta in claim.also)
    assert hash(claim) == hash(Claim.curve(Curve(), 1e-6))


def test_a_bracket_counts_by_its_upper_end() -> None:
    claim = Claim.curve(accounting.Laplace(2.0), 0.0)

    assert claim.epsilon == pytest.approx(0.5)
    assert dict(claim.also)[0.0] == pytest.approx(1 - math.exp(-0.25), rel=1e-3)


@pytest.mark.parametrize(
    "guarantee",
    [5, None, Curve(at_zero=math.nan), Curve(least=math.inf), Curve(at_zero=-1.0), accounting.Gaussian(1.0)],
)
def test_invalid_curves_are_refused(guarantee: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        Claim.curve(guarantee, 0.0 if isinstance(guarantee, accounting.Gaussian) else 1e-6)


def refuted_verdict() -> Verdict:
    return checked(laplace(0.5), 4000, claim=Claim(1.0, 1e-9))


def test_a_verdict_survives_json() -> None:
    verdict = refuted_verdict()

    assert Verdict.from_json(verdict.to_json()) == verdict
    assert Verdict.from_dict(verdict.to_dict()) == verdict
    assert hash(Verdict.from_json(verdict.to_json())) == hash(verdict)
    plain = json.loads(verdict.to_json())
    promised = {"outcome", "refuted", "epsilon_claimed", "delta", "epsilon_lower", "confidence", "samples", "direction"}
    promised |= {"event", "seconds", "detectable_epsilon", "float_leak", "seed", "count_p", "count_q", "trials"}
    assert promised <= plain.keys()
    assert plain["refuted"] is True


def test_an_infinite_detectable_epsilon_is_null_in_json() -> None:
    verdict = checked(lambda d, r: 1, 100)

    assert verdict.detectable_epsilon == math.inf
    assert json.loads(verdict.to_json())["detectable_epsilon"] is None
    assert Verdict.from_json(verdict.to_json()) == verdict
    assert "infinite" in str(verdict)


@pytest.mark.statistical
def test_the_summary_states_the_finding_and_never_that_a_claim_holds() -> None:
    refuted = refuted_verdict()
    summary = str(refuted)

    assert "refuted" in summary
    assert refuted.event in summary
    assert f"{refuted.count_p:,} of {refuted.trials:,} times" in summary
    assert "0.999" in summary
    assert "seed 1" in summary
    for samples in (20, 20_000):
        text = str(checked(laplace(1.0), samples)).lower()
        assert not any(word in text for word in ("verified", "passed", "proved"))


def test_the_trade_off_curve_lies_within_its_bands_and_near_the_truth() -> None:
    """Laplace(1) at distance 1: the trade-off function has its corner at fpr = fnr = e^(-1/2) / 2."""
    verdict = checked(on_a_grid(laplace(1.0)), 200_000)

    assert len(verdict.tradeoff) >= 10
    for point in verdict.tradeoff:
        assert isinstance(point, TradeoffPoint)
        assert 0 <= point.fpr_low <= point.fpr <= point.fpr_high <= 1
        assert 0 <= point.fnr_low <= point.fnr <= point.fnr_high <= 1
    fpr = [point.fpr for point in verdict.tradeoff]
    assert fpr == sorted(fpr)
    for point in verdict.tradeoff:
        best = max(1 - math.e * point.fpr, math.exp(-1) * (1 - point.fpr))
        if point.fpr <= 0.5 * math.exp(-1) or point.fpr >= 0.5:
            assert point.fnr == pytest.approx(best, abs=0.02)


@deep_examples(6, 50, st.permutations(range(6)), st.integers(0, 2**32))
def test_names_of_categories_do_not_matter(names: list[int], seed: int) -> None:
    def categorical(labels: list[str]) -> Callable[..., str]:
        weights = np.array([[1, 2, 3, 4, 5, 6], [6, 5, 4, 3, 2, 1]]) / 21
        return lambda data, rng: labels[int(rng.choice(6, p=weights[data]))]

    plain, renamed = (
        checked(categorical(labels), 300, rng=seed) for labels in (list("abcdef"), [f"label {i}" for i in names])
    )

    assert (plain.count_p, plain.count_q, plain.direction) == (renamed.count_p, renamed.count_q, renamed.direction)
    assert plain.epsilon_lower == renamed.epsilon_lower


@pytest.mark.statistical
@settings(max_examples=25)
@given(st.floats(0.01, 100), st.integers(0, 2**32))
def test_the_unit_of_the_outputs_does_not_matter(unit: float, seed: int) -> None:
    unit = 2.0 ** round(math.log2(unit))  # exact in floating point
    plain, scaled = (
        checked(lambda d, r, runs, u=u: u * (d + r.laplace(size=runs)), 400, rng=seed) for u in (1.0, unit)
    )

    assert (plain.count_p, plain.count_q) == (scaled.count_p, scaled.count_q)


@pytest.mark.statistical
@settings(max_examples=25)
@given(st.integers(0, 2**32), st.floats(0.2, 1.2), st.sampled_from([0.0, 0.05]))
def test_swapping_the_data_sets_turns_the_verdict_round(seed: int, epsilon: float, delta: float) -> None:
    """The same outputs under the other name: what was found from d0 to d1 is found from d1 to d0."""
    rng = np.random.default_rng(seed)
    drawn = np.stack([rng.laplace(size=2000), 1 + rng.laplace(size=2000)])

    class Drawn:
        def __init__(self) -> None:
            self.at = [0, 0]

        def simulate(self, value: int, rng: np.random.Generator, runs: int) -> np.ndarray:
            self.at[value] += runs
            return drawn[value, self.at[value] - runs : self.at[value]]

    claim = Claim(epsilon, delta)
    forth = checked(Drawn(), 2000, claim=claim)
    back = checked(Drawn(), 2000, claim=claim, neighbours=(1, 0))

    assert {forth.direction, back.direction} == {"d0->d1", "d1->d0"}
    assert (forth.count_p, forth.count_q, forth.epsilon_lower) == (back.count_p, back.count_q, back.epsilon_lower)


def test_unreadable_outputs_are_refused() -> None:
    with pytest.raises(TargetError, match="can't be distinguished"):
        checked(lambda d, r: object(), 100)
    with pytest.raises(TargetError, match="leading axis"):
        checked(lambda d, r, runs: np.zeros(3), 100)


@pytest.mark.statistical
def test_a_mechanism_states_its_own_claim():
    from hockeystick.mechanisms import Laplace
    from hockeystick.mechanisms.testing import Released

    fair = audit(Laplace(2.0), samples=20_000, rng=1, confidence=1 - 1e-6)
    assert not fair.refuted and fair.delta == 1e-6 and fair.epsilon_claimed <= 0.5
    assert not audit(Released(Laplace(2.0)), samples=4_000, rng=1, confidence=1 - 1e-6, bits=True).refuted
    with pytest.raises(InvalidArgumentError, match="claim"):
        audit(lambda data, rng: rng.random(), neighbours=(0, 1), samples=100, rng=1)


def test_a_verdict_states_the_samples_to_detect_an_under_claim() -> None:
    verdict = checked(laplace(1.0), 20_000)
    needed = dict(verdict.samples_to_detect((1.1, 1.3, 1.5)))

    assert needed[1.1] > needed[1.3] > needed[1.5] > 20
    assert "samples to refute an under-claim through this event" in verdict.summary()
    assert verdict.to_dict()["samples_to_detect"] == [[1.1, needed[1.1]], [1.5, needed[1.5]]]
    assert Verdict.from_json(verdict.to_json()) == verdict


def test_no_factor_makes_a_violation_of_nothing() -> None:
    verdict = checked(lambda data, rng, runs: rng.random(runs), 200, claim=Claim(0.0))

    assert verdict.samples_to_detect() == ()


def test_a_certain_event_cannot_show_a_violation() -> None:
    verdict = checked(laplace(1.0), 2000)

    assert dict(verdict.samples_to_detect((50.0,))) == {50.0: math.inf}


@pytest.mark.statistical
@pytest.mark.parametrize("factor", [1.5, pytest.param(1.1, marks=pytest.mark.deep)])
def test_the_samples_stated_do_refute_the_under_claim(factor: float) -> None:
    """At the size stated, 200 audits: the bound is missed with probability 1e-6 if the power is 0.87.

    The claim is 1; the event has probability 0.2 on d0, and on d1 what the stated epsilon makes of it.
    """

    def event(epsilon: float) -> Any:
        return lambda data, rng, runs: rng.random(runs) < 0.2 * math.exp(epsilon * data)

    now = checked(event(1.0), 200_000, statistic=np.asarray)
    samples = int(dict(now.samples_to_detect((factor,)))[factor])
    found = sum(checked(event(factor), samples, statistic=np.asarray, rng=seed).refuted for seed in range(200))

    assert found >= stats.binom.ppf(1e-6, 200, 0.87)


def test_a_claim_that_is_far_too_small_ends_an_audit_after_2000_outputs() -> None:
    """The bounds are those of the first outputs, at a twentieth of the level, and leave out the second look's."""
    verdict = checked(on_a_grid(laplace(0.5)), 100_000)
    share = (1 - 0.999) / 20

    assert verdict.refuted and verdict.stopped
    assert (verdict.samples, verdict.planned, verdict.trials) == (2000, 100_000, 2000 - 2000 // 6)
    assert verdict.level == pytest.approx(share)
    assert verdict.confidence == 0.999
    assert "stopped after 2,000 of 100,000 samples" in str(verdict)
    counts = np.array([[verdict.count_p, verdict.count_back_q], [verdict.count_q, verdict.count_back_p]])
    assert counts.max() <= verdict.trials
    assert 1.0 < verdict.epsilon_lower < 2.0
    assert Verdict.from_json(verdict.to_json()) == verdict


def test_the_first_look_is_an_audit_of_2000_outputs_at_a_twentieth_of_the_level() -> None:
    for scale in (0.5, 0.7):
        stopped = checked(on_a_grid(laplace(scale)), 30_000, rng=5)
        alone = checked(on_a_grid(laplace(scale)), 2000, rng=5, confidence=1 - (1 - 0.999) / 20)
        assert stopped.refuted and stopped.trials == alone.trials
        assert stopped.epsilon_lower == pytest.approx(alone.epsilon_lower, abs=0.35)  # other outputs of the same law


def test_the_last_look_has_what_the_first_one_left_of_the_level(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that is asked at the levels α/20 and 19α/20, with disjoint outputs, has the level α by the union bound."""
    module = sys.modules["hockeystick.audits.fixed_sample"]
    levels: list[float] = []
    original = module.Bound.of

    def spy(*args: Any, alpha: float, **rest: Any) -> Any:
        levels.append(alpha)
        return original(*args, alpha=alpha, **rest)

    monkeypatch.setattr(module.Bound, "of", spy)
    both = checked(on_a_grid(laplace(1.0)), 20_000, confidence=0.99)
    assert both.level == levels[1] and sum(levels) <= 0.01 * (1 + 1e-12)
    assert levels == pytest.approx([0.01 / 20, 0.01 * 19 / 20])

    levels.clear()
    assert checked(on_a_grid(laplace(1.0)), 20_000, confidence=0.99, first_look=False).level == levels[0]
    assert checked(on_a_grid(laplace(1.0)), 11_000, confidence=0.99).level == levels[1]  # 2,000 would not choose
    assert levels == pytest.approx([0.01, 0.01])


def test_outputs_of_the_first_look_are_not_counted_again() -> None:
    """Of a record each output is used once: a sixth chooses, with the first 2,000 in it, and the others are counted."""
    rng = np.random.default_rng(3)
    numbers = rng.laplace(size=(2, 20_000))
    numbers[1, 2000:] += 2.0  # the first 2,000 say nothing, the others refute
    recorded = Recorded(*numbers)

    verdict = audit(recorded, claim=Claim(1.0), samples=20_000, rng=1)
    below = (numbers[:, 20_000 // 6 :] < 1.0).sum(axis=1)

    assert verdict.refuted and not verdict.stopped
    assert recorded.left == 0
    assert verdict.trials == 20_000 - 20_000 // 6
    assert max(verdict.count_p, verdict.count_back_p) < below.max() + 2000


def test_what_the_first_look_only_counts_does_not_choose_its_event() -> None:
    """The leak begins after the 1,000 outputs that choose the first look's event, so the last look finds it."""
    calls = {0: 0, 1: 0}

    def late(data: int, rng: np.random.Generator) -> Any:
        calls[data] += 1
        return "leak" if data and calls[1] > 1000 and rng.random() < 0.5 else "x"

    verdict = checked(late, 8000, confidence=SURE)

    assert verdict.refuted and not verdict.stopped
    assert verdict.event == "output is 'leak'"


@pytest.mark.statistical
def test_true_claims_are_refuted_as_seldom_as_promised_with_a_first_look() -> None:
    """Randomised response at its claim, 400 audits at level 0.2: more than 120 have probability below 1e-6."""
    found = [checked(randomised_response(1.0), 8000, confidence=0.8, rng=seed) for seed in range(400)]

    assert stats.binom.sf(120, 400, 0.2) < 1e-6
    assert sum(one.refuted for one in found) <= 120
    assert any(one.epsilon_lower > 0.9 for one in found)


def test_a_refutation_bounds_delta_and_states_no_figure_without_meaning() -> None:
    """The true δ at the claimed ε = 1 of Laplace noise of scale 1/2 is 1 - e^(-1/2)."""
    verdict = checked(on_a_grid(laplace(0.5)), 100_000, first_look=False)
    truth = 1 - math.exp(-0.5)

    assert truth - 0.2 < verdict.delta_lower < truth
    assert verdict.samples_to_detect() == ()
    text = str(verdict) + verdict._repr_markdown_() + verdict._repr_html_()
    assert "and delta at least 0." in text and "δ ≥ 0." in text
    assert not any(words in text for words in ("with probability 0.9", "under-claim", "could have caught", "stopped"))
    assert verdict.to_dict()["samples_to_detect"] == []
    assert "with probability 0.9" in str(checked(laplace(1.0), 3000))


def test_the_bound_on_delta_is_what_the_region_leaves() -> None:
    region = frontier(600, 1000, 100, 1000, slope=math.e, alpha=1e-3)
    delta = region.delta(1.0)

    assert 0.15 < delta < 0.6 - math.e * 0.1
    assert region.refutes(1.0, delta * (1 - 1e-9)) and not region.refutes(1.0, delta + 1e-9)
    assert frontier(100, 1000, 100, 1000, slope=math.e, alpha=1e-3).delta(1.0) == 0.0
    assert region.delta(0.0) > delta > region.delta(1.2)


def test_a_time_limit_sets_the_number_of_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that runs with the target's calls, a hundredth of a second each."""
    now = 0.0

    def slow(data: int, rng: np.random.Generator) -> float:
        nonlocal now
        now += 0.01
        return data + rng.laplace()

    for module in ("fixed_sample", "drawing.draws"):
        clock = SimpleNamespace(perf_counter=lambda: now)
        monkeypatch.setattr(sys.modules[f"hockeystick.audits.{module}"], "time", clock)

    free = checked(slow, None, seconds=20.0)  # type: ignore[arg-type]
    assert free.timed and 700 <= free.samples <= 1000 and free.seconds <= 20.5

    least = checked(slow, 200, seconds=20.0)
    assert not least.timed and least.samples == 200
    fewer = checked(slow, 5000, seconds=20.0)
    assert fewer.timed and fewer.samples < 1000 and fewer.seconds <= 20.5
    again = checked(slow, fewer.samples)
    assert again.samples == fewer.samples


@pytest.mark.parametrize("seconds", [0.0, -1.0, math.nan, math.inf, "1", True])
def test_a_bad_time_limit_is_refused(seconds: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="seconds"):
        checked(laplace(1.0), 100, seconds=seconds)


def test_a_time_limit_and_a_checkpoint_are_refused_together(tmp_path: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="checkpoint"):
        checked(laplace(1.0), 100, seconds=1.0, checkpoint=tmp_path / "state")
