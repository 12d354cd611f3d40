"""Features of outputs: places of symbols, count tables of patterns, increments, and what a target tells of itself."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from attrs import frozen
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from hockeystick import mechanisms
from hockeystick.accounting import InvalidArgumentError
from hockeystick.audits import Claim, TargetError, audit
from hockeystick.audits.attacks.partitions import Evidence, real_partitions
from hockeystick.audits.outputs.cells import from_ordinal, ordinal
from hockeystick.audits.outputs.features import (
    Scored,
    Symbol,
    _fisher,
    fit_bayes,
    fit_innovations,
    simple_fits,
    unfitted,
)
from hockeystick.audits.outputs.float_bits import Pattern, Values
from hockeystick.audits.outputs.output_patterns import Atoms, fit_table
from hockeystick.audits.outputs.reading import Codebook, read
from hockeystick.audits.targets.target_features import RATIO, WithStatistics, with_statistics
from hockeystick.learners import LazyExperts

RNG = np.random.default_rng(0)


@settings(max_examples=50)
@given(hnp.arrays(np.float64, (7, 4), elements=st.sampled_from([0.0, 1.0, -0.0, math.nan])))
def test_places_of_a_symbol_are_those_of_a_list(words: np.ndarray) -> None:
    rows = [["nan" if math.isnan(x) else repr(x) for x in row] for row in words.tolist()]

    def places(value: float, what: Any) -> list[float]:
        return list(from_ordinal(Symbol(value, what).keys(words, words)))

    for value in (0.0, 1.0, -0.0, math.nan):
        symbol = "nan" if math.isnan(value) else repr(value)
        assert places(value, "number") == [row.count(symbol) for row in rows]
        assert places(value, "first") == [row.index(symbol) if symbol in row else 4 for row in rows]
        assert places(value, "last") == [3 - row[::-1].index(symbol) if symbol in row else 4 for row in rows]


def test_symbols_are_looked_for_where_there_are_any() -> None:
    words, numbers = RNG.integers(3, size=(400, 5)).astype(float), RNG.random((400, 5))

    symbols = {f.value for f in unfitted((words, words)) if isinstance(f, Symbol)}

    assert symbols == {0.0, 1.0, 2.0}
    assert not any(isinstance(f, Symbol) for f in unfitted((numbers, numbers)))


def test_patterns_are_told_apart_by_their_atoms() -> None:
    every = np.array(list(itertools.product([0.0, -0.0, math.nan, -1000.0], repeat=4)))
    atoms = Atoms.of((np.repeat(every, 8, axis=0), every))
    assert atoms is not None

    codes, free = atoms.patterns(every)
    mixed = every.copy()
    mixed[:, 2] = RNG.random(len(every))
    mixed_codes, mixed_free = atoms.patterns(mixed)

    assert len(np.unique(codes)) == len(every)
    assert not free.any()
    assert mixed_free.sum(axis=0).tolist() == [0, 0, len(every), 0]
    assert len(np.unique(mixed_codes)) == len(every) // 4


def test_real_numbers_and_long_outputs_have_no_table() -> None:
    numbers, long = RNG.random((500, 3)), np.zeros((50, 300))

    assert fit_table((numbers, numbers), RNG) is None
    assert fit_table((long, long), RNG) is None
    rare = RNG.integers(2, size=(100, 40)).astype(float)  # atoms everywhere, and no pattern twice
    assert fit_table((rare, rare), RNG) is None


def test_a_table_uses_its_counts_and_single_numbers_elsewhere() -> None:
    """Three bits; in 000 and 111 the ratio of the data sets is 4, though each bit by itself is fair on both."""
    p = np.array([4, 1, 1, 1, 1, 1, 1, 4]) / 14
    q = np.array([1, 2, 2, 2, 2, 2, 2, 1]) / 14
    bits = np.array(list(itertools.product([0.0, 1.0], repeat=3)))
    pair = bits[RNG.choice(8, 20_000, p=p)], bits[RNG.choice(8, 20_000, p=q)]

    table = fit_table(pair, RNG)
    unseen = fit_table((pair[0][pair[0].sum(axis=1) < 3], pair[1][pair[1].sum(axis=1) < 3]), RNG)

    assert table is not None and unseen is not None
    assert table(bits) == pytest.approx(np.log(p / q), abs=0.1)
    single = fit_bayes((pair[0][pair[0].sum(axis=1) < 3], pair[1][pair[1].sum(axis=1) < 3]), RNG)
    assert unseen(bits[7:]) == pytest.approx(single(bits[7:]), abs=0.05)


def test_continuous_numbers_are_scored_given_the_pattern() -> None:
    """A flag, and a number that is larger on d0 if the flag is set, smaller if not."""

    def draw(value: int, runs: int) -> np.ndarray:
        flag = RNG.integers(2, size=runs)
        return np.stack([flag, RNG.standard_normal(runs) + value * (2 * flag - 1)], axis=1)

    table = fit_table((draw(1, 5000), draw(0, 5000)), RNG)
    assert table is not None

    fresh = draw(0, 2000)
    assert stats.pearsonr(table(fresh), (2 * fresh[:, 0] - 1) * fresh[:, 1])[0] > 0.95


def test_innovations_of_partial_sums_are_the_summands() -> None:
    summands = RNG.laplace(size=(20_000, 6))
    score = fit_innovations((np.cumsum(summands[:10_000] + 0.3, axis=1), np.cumsum(summands[10_000:], axis=1)), RNG)

    fresh = RNG.laplace(size=(2000, 6))
    exact = (np.abs(fresh) - np.abs(fresh - 0.3)).sum(axis=1)

    assert stats.pearsonr(score(np.cumsum(fresh, axis=1)), exact)[0] > 0.95


def evidence_of(*outputs: Any) -> Evidence:
    book = Codebook()
    tables = [read(side, len(side), book, vectorised=True) for side in outputs]
    return Evidence.of((tables[0], tables[1]), tuple(book.layouts), None)


def test_infinities_and_nan_are_cells_of_their_own_however_rare() -> None:
    numbers = RNG.standard_normal((2, 50_000))
    numbers[0, :4] = math.inf, math.nan, -math.inf, math.inf

    (partition,) = real_partitions(evidence_of(*numbers))
    cells = partition.parts[0].index(ordinal(np.array([-math.inf, -1e308, 0.0, 1e308, math.inf, math.nan])))

    assert len(set(cells.tolist())) == 6
    totals = evidence_of(*numbers).tally(partition).sum(axis=(0, 1))
    assert totals[cells].tolist()[0] == 1
    assert totals[cells].tolist()[-2:] == [2, 1]


@frozen
class Shifted:
    """Laplace noise in two numbers and a word; exactly 1-DP. Knows its ratio, and the difference of its numbers."""

    scale: float = 1.0
    broken: str = ""

    def simulate(self, value: float, rng: np.random.Generator, runs: int) -> np.ndarray:
        return np.asarray(rng.laplace(scale=self.scale, size=(runs, 2)) + np.array([value, 0.0]))

    def log_likelihood_ratio(self, output: np.ndarray, d0: float, d1: float) -> Any:
        ratio = (np.abs(output[:, 0] - d1) - np.abs(output[:, 0] - d0)) / self.scale
        match self.broken:
            case "nan":
                return np.where(ratio > 0, math.nan, ratio)
            case "short":
                return ratio[1:]
            case "wide":
                return output
            case "words":
                return ["much"] * len(ratio)
            case "random":
                return ratio + np.random.default_rng().random(len(ratio))
        return ratio

    def audit_statistics(self, output: np.ndarray) -> Any:
        match self.broken:
            case "list":
                return [output[:, 0]]
            case "name":
                return {RATIO: output[:, 0]}
        return {"gap": output[:, 0] - output[:, 1], "signs": np.sign(output).astype(int)}


def test_outputs_come_with_the_targets_statistics_for_both_data_sets() -> None:
    told = WithStatistics(Shifted(), 0.0, 1.0)

    for value in (0.0, 1.0, 5.0):
        found = told.simulate(value, np.random.default_rng(3), 1000)
        outputs = Shifted().simulate(value, np.random.default_rng(3), 1000)

        assert list(found) == ["value", "gap", "signs", RATIO]
        assert np.array_equal(found["value"], outputs)
        assert np.array_equal(found["gap"], outputs[:, 0] - outputs[:, 1])
        assert np.abs(found[RATIO] - Shifted().log_likelihood_ratio(outputs, 0.0, 1.0)).max() <= 2.0**-21


def test_a_known_likelihood_ratio_needs_no_classifier_and_finds_the_event() -> None:
    told = with_statistics(Shifted(scale=0.5), (0.0, 1.0))

    verdict = audit(told, claim=Claim(1.0), neighbours=(0.0, 1.0), samples=2000, rng=1)

    assert verdict.refuted
    assert verdict.event.startswith((f"output.{RATIO}", "output.value"))
    assert verdict.epsilon_lower > 1.6
    outputs = [told.simulate(value, RNG, 500) for value in (0.0, 1.0)]
    book = Codebook()
    tables = [read(output, 500, book, vectorised=True) for output in outputs]
    evidence = Evidence.of((tables[0], tables[1]), tuple(book.layouts), None)
    assert len(list(real_partitions(evidence))) == 6  # two numbers, a gap, two signs and the ratio


def test_a_correct_target_with_a_likelihood_ratio_is_not_refuted() -> None:
    """False-alarm rate 1e-6."""
    told = with_statistics(Shifted(), (0.0, 1.0))

    verdict = audit(told, claim=Claim(1.0), neighbours=(0.0, 1.0), samples=20_000, rng=1, confidence=1 - 1e-6)

    assert not verdict.refuted
    assert verdict.epsilon_lower > 0.75


def test_a_wrong_ratio_hides_nothing_that_the_output_shows() -> None:
    @frozen
    class Wrong(Shifted):
        def log_likelihood_ratio(self, output: np.ndarray, d0: float, d1: float) -> Any:
            return np.zeros(len(output))

    verdict = audit(
        with_statistics(Wrong(scale=0.5), (0.0, 1.0)), claim=Claim(1.0), neighbours=(0.0, 1.0), samples=2000, rng=1
    )

    assert verdict.refuted


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        ("nan", "log_likelihood_ratio is NaN"),
        ("short", r"shape \(199,\): return numbers, with 200 runs"),
        ("wide", r"shape \(200, 2\): return one number"),
        ("words", "return numbers"),
        ("random", "log_likelihood_ratio changed when computed again"),
        ("list", "audit_statistics returned a list"),
        ("name", "use another name"),
    ],
)
def test_invalid_statistics_are_refused(broken: str, words: str) -> None:
    told = WithStatistics(Shifted(broken=broken), 0.0, 1.0)

    with pytest.raises(TargetError, match=words):
        told.simulate(0.0, np.random.default_rng(0), 200)


def test_targets_without_statistics_are_unchanged() -> None:
    class Plain:
        def simulate(self, value: float, rng: np.random.Generator, runs: int) -> np.ndarray:
            return rng.random(runs)

    plain = Plain()

    assert with_statistics(plain, (0, 1)) is plain
    assert with_statistics(max, (0, 1)) is max
    assert isinstance(with_statistics(Shifted(), (0, 1)), WithStatistics)
    with pytest.raises(InvalidArgumentError, match="neither log_likelihood_ratio.*audit the target itself"):
        WithStatistics(plain, 0, 1)


def test_outputs_that_one_data_set_never_gives_are_an_event() -> None:
    """A uniform number in [0, 1) or [0.02, 1.02): the ratio is infinite on a fiftieth of the outputs."""

    class Window:
        def simulate(self, value: float, rng: np.random.Generator, runs: int) -> np.ndarray:
            return value + rng.random(runs)

        def log_likelihood_ratio(self, output: np.ndarray, d0: float, d1: float) -> np.ndarray:
            with np.errstate(divide="ignore"):
                inside = [np.log(((output >= d) & (output < d + 1)).astype(float)) for d in (d0, d1)]
            return np.asarray(inside[0] - inside[1])

    told = with_statistics(Window(), (0.0, 0.02))

    verdict = audit(told, claim=Claim(1.0), neighbours=(0.0, 0.02), samples=5000, rng=1)

    assert verdict.refuted
    assert verdict.count_q == 0
    assert verdict.event in (f"output.{RATIO} >= inf", f"output.{RATIO} = inf", f"output.{RATIO} = -inf")


@pytest.mark.parametrize("mechanism", [mechanisms.Laplace(1.0), mechanisms.RandomizedResponse(1.0, categories=4)])
def test_the_ratio_of_a_mechanism_shows_its_epsilon(mechanism: Any) -> None:
    pair = mechanism.worst_case_neighbours()
    told = with_statistics(mechanism, pair)

    loose = audit(told, claim=Claim(0.5), neighbours=pair, samples=5000, rng=1)
    tight = audit(told, claim=Claim(1.0), neighbours=pair, samples=5000, rng=1, confidence=1 - 1e-6)

    assert loose.refuted and not tight.refuted
    assert RATIO in loose.event or "output.value" in loose.event


def test_transcripts_of_a_learner_are_read_by_their_ratio_alone() -> None:
    learner = LazyExperts(rounds=6, experts=3, learning_rate=0.5, fake_switch_probability=0.2)
    pair = learner.worst_case_neighbours()

    found = WithStatistics(learner, *pair).simulate(pair[0], np.random.default_rng(0), 100)

    assert list(found) == [RATIO]
    assert found[RATIO].shape == (100,)


def test_places_and_bits_have_words() -> None:
    book = Codebook()
    read(np.zeros((2, 3)), 2, book, vectorised=True)
    layout = book.layouts[0]
    assert Symbol(1.0, "number").words(layout) == "the number of 1s"
    assert Symbol(0.5, "last").words(layout) == "the index of the last 0.5"
    assert Pattern(2).words(layout) == "the exact bits of output[2]"


def test_without_values_every_number_is_in_the_one_cell() -> None:
    keys = np.array([3, -1, 7])
    assert Values(Pattern(0), np.zeros(0, dtype=np.int64)).index(keys).tolist() == [0, 0, 0]
    assert Values(Pattern(0), np.array([-1, 3])).index(keys).tolist() == [1, 0, 2]


def test_statistics_need_a_target_that_makes_batches() -> None:
    class SinglyTold:
        def __call__(self, data: float, rng: np.random.Generator) -> float:
            return data

        def log_likelihood_ratio(self, outputs: Any, d0: float, d1: float) -> Any:
            return np.zeros(len(outputs))

    with pytest.raises(InvalidArgumentError, match="is called once per output"):
        WithStatistics(SinglyTold(), 0.0, 1.0)


def test_fits_and_keys_at_the_ends() -> None:
    assert simple_fits(1) == () and "bayes" in simple_fits(2) and simple_fits(10**6) == ("linear",)
    none = Scored(lambda block: block.sum(axis=1), "sum").keys(np.zeros((0, 2)), np.zeros((0, 2)))
    assert none.shape == (0,) and none.dtype == np.int64


def test_a_wide_projection_uses_each_number_by_itself() -> None:
    rng = np.random.default_rng(4)
    first, second = rng.standard_normal((40, 300)), rng.standard_normal((40, 300))
    second[:, 0] = 3.0 * second[:, 0] + 6.0
    first[:, 1], second[:, 1] = 1.0, 1.0  # never moves: no division by its variance
    found = _fisher((first, second))
    gap, spread = first.mean(axis=0) - second.mean(axis=0), (first.var(axis=0) + second.var(axis=0)) / 2
    wanted = gap / np.where(spread > 0.0, spread, 1.0)
    assert found.weights == pytest.approx(wanted, rel=1e-12) and found.weights[1] == 0.0
    assert found(first).mean() == pytest.approx(-found(second).mean()) and found(first).mean() > 0.0


def test_a_projection_does_not_depend_on_the_units_of_the_numbers() -> None:
    """Least squares by singular values, which is what it was, reads numbers of a small unit as round-off."""
    rng, unit = np.random.default_rng(5), np.array([1e-12, 1.0, 1e12])
    first, second = rng.standard_normal((200, 3)) + 0.5, rng.standard_normal((200, 3))
    spread = (np.cov(first, rowvar=False) + np.cov(second, rowvar=False)) / 2
    wanted = np.linalg.lstsq(spread, first.mean(axis=0) - second.mean(axis=0), rcond=None)[0]
    assert _fisher((first, second)).weights == pytest.approx(wanted, rel=1e-4)  # a ridge of 1e-6
    assert _fisher((first * unit, second * unit)).weights * unit == pytest.approx(_fisher((first, second)).weights)
