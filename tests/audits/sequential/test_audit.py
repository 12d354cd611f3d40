"""Sequential audits: what they find, how soon, and how seldom they raise a false alarm."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from hockeystick import accounting, mechanisms
from hockeystick.accounting import InvalidArgumentError
from hockeystick.audits.claims.claim import Claim
from hockeystick.audits.outputs.reading import read
from hockeystick.audits.sequential import events as sequential_events
from hockeystick.audits.sequential.audit import Run, sequential_audit
from hockeystick.audits.sequential.events import FixedEvents, GivenEvents, Memory
from hockeystick.audits.sequential.game import Game, ladder, looks, next_change
from hockeystick.audits.sequential.verdict import SequentialVerdict
from hockeystick.audits.sequential.whole_laws import SMOOTHINGS, best_factors, smoothed
from hockeystick.audits.targets.calling import TargetError

PAIR = (0.0, 1.0)


def fair(value: float, rng: np.random.Generator, runs: int) -> np.ndarray:
    return value + rng.laplace(size=runs)


def half(value: float, rng: np.random.Generator, runs: int) -> np.ndarray:
    return value + rng.laplace(scale=0.5, size=runs)


def above(outputs: np.ndarray) -> np.ndarray:
    return outputs >= 1.0


@pytest.mark.statistical
def test_half_the_noise_is_found_within_a_few_hundred() -> None:
    verdict = sequential_audit(half, claim=Claim(1.0), neighbours=PAIR, rng=1)
    assert verdict.refuted and verdict.samples < 900
    assert verdict.log_wealth >= math.log(1e6)
    assert verdict.stopped_at <= verdict.samples <= 1.2 * verdict.stopped_at + 10
    assert 1.0 <= verdict.epsilon_lower <= 2.0


def test_the_right_noise_is_not_refuted_and_the_detectable_epsilon_is_stated() -> None:
    verdict = sequential_audit(fair, claim=Claim(1.0), neighbours=PAIR, rng=1, events=above, most_samples=20_000)
    assert verdict.outcome == "consistent"
    assert verdict.samples == verdict.stopped_at == 20_000
    assert verdict.epsilon_lower <= 1.0
    assert 1.05 < verdict.detectable_epsilon < 1.4
    assert verdict.event == "above"


@pytest.mark.statistical
def test_the_same_seed_gives_the_same_verdict() -> None:
    first, second = (sequential_audit(half, claim=Claim(1.0), neighbours=PAIR, rng=5) for _ in range(2))
    plain = [{k: v for k, v in own.to_dict().items() if k != "seconds"} for own in (first, second)]
    assert plain[0] == plain[1]


@pytest.mark.statistical
def test_a_refutation_tells_counts_an_exact_event_a_hint_and_the_data() -> None:
    """As verdicts on fixed samples do; the noise is half of what the claim needs."""
    verdict = sequential_audit(half, claim=Claim(1.0), neighbours=PAIR, rng=1)
    known = sequential_audit(half, claim=Claim(1.0), neighbours=PAIR, rng=1, events=above)
    right = sequential_audit(half, claim=Claim(2.0), neighbours=PAIR, rng=1, most_samples=2000)

    assert verdict.refuted and 0 <= verdict.count_q < verdict.count_p <= verdict.trials <= verdict.samples
    assert "as if the noise were" in verdict.hint and f"hint: {verdict.hint}" in str(verdict)
    assert f"happened {verdict.count_p:,} of {verdict.trials:,} times" in str(verdict)
    assert verdict.data == ("0", "1") and "d0: 0, d1: 1" in str(verdict)
    assert len(verdict.event_exact) >= len(verdict.event)
    assert known.refuted and known.hint == "" and known.event_exact == "above"
    assert known.count_p / known.trials == pytest.approx(known.frequency_p, abs=1 / known.trials)
    assert not right.refuted and right.hint == ""


def test_directions_and_words() -> None:
    verdict = sequential_audit(half, claim=Claim(1.0), neighbours=PAIR, rng=1, events=above)
    assert verdict.direction == "d1->d0" and verdict.refuted
    assert verdict.frequency_p > 2 * verdict.frequency_q
    swapped = sequential_audit(half, claim=Claim(1.0), neighbours=PAIR[::-1], rng=1, events=above)
    assert swapped.direction == "d0->d1" and swapped.refuted
    assert "refuted" in str(verdict) and "above" in str(verdict)


@pytest.mark.statistical
def test_a_curve_is_refuted_at_another_point() -> None:
    curve = Claim.curve(accounting.Gaussian(1.0), 1e-6)
    verdict = sequential_audit(mechanisms.Gaussian(0.5), claim=curve, neighbours=PAIR, rng=1)
    assert verdict.refuted and verdict.samples < 1000
    assert verdict.delta_tested > 1e-3


@pytest.mark.statistical
def test_outputs_of_several_layouts_and_one_at_a_time() -> None:
    def sometimes(value: float, rng: np.random.Generator) -> Any:
        return None if rng.random() < 0.3 + 0.6 * value else float(rng.normal())

    verdict = sequential_audit(sometimes, claim=Claim(0.5), neighbours=PAIR, rng=1, most_samples=2000)
    assert verdict.refuted

    def late(value: float, rng: np.random.Generator) -> Any:  # layouts that are new to the bets
        return str(int(rng.integers(200)))

    assert not sequential_audit(late, claim=Claim(0.5), neighbours=PAIR, rng=1, most_samples=150).refuted


@pytest.mark.statistical
def test_statistics_and_likelihood_ratios() -> None:
    def score(outputs: np.ndarray) -> np.ndarray:
        return np.asarray(np.clip(outputs, 0, 1))

    assert sequential_audit(half, claim=Claim(1.0), neighbours=PAIR, rng=1, events=score).refuted
    several = sequential_audit(half, claim=Claim(1.0), neighbours=PAIR, rng=1, events=[above, lambda x: x < 0])
    assert several.refuted and several.event in ("above", "event 2")


def test_an_uninformative_event_refutes_nothing() -> None:
    verdict = sequential_audit(
        half, claim=Claim(1.0), neighbours=PAIR, rng=1, events=lambda x: x > 50, most_samples=500
    )
    assert verdict.outcome == "inconclusive"


@pytest.mark.statistical
def test_verdicts_survive_json() -> None:
    for most in (20, 300):
        verdict = sequential_audit(fair, claim=Claim(1.0), neighbours=PAIR, rng=1, most_samples=most)
        assert SequentialVerdict.from_json(verdict.to_json()) == verdict
    for text in ("{", "[]", '{"schema": 99}', verdict.to_json().replace('"alpha"', '"beta"')):
        with pytest.raises(InvalidArgumentError):
            SequentialVerdict.from_json(text)


@pytest.mark.parametrize(
    "arguments",
    [
        {"alpha": 0.0},
        {"alpha": 0.5},
        {"alpha": math.nan},
        {"alpha": True},
        {"most_samples": 19},
        {"most_samples": math.inf},
        {"claim": None},
        {"claim": "one"},
        {"neighbours": None},
        {"neighbours": (1, 2, 3)},
        {"events": []},
        {"events": [3]},
        {"events": "likelihood ratio"},
        {"rng": -1},
        {"grid": 0.0},
        {"exceptions_as_output": True},
    ],
)
def test_bad_arguments_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError):
        sequential_audit(fair, **{"claim": Claim(1.0), "neighbours": PAIR, "rng": 1, **arguments})


def test_targets_and_events_that_fail() -> None:
    def broken(value: float, rng: np.random.Generator, runs: int) -> np.ndarray:
        raise ValueError("no")

    with pytest.raises(TargetError, match="raised"):
        sequential_audit(broken, claim=Claim(1.0), neighbours=PAIR, rng=1)
    with pytest.raises(TargetError, match="shape"):
        sequential_audit(fair, claim=Claim(1.0), neighbours=PAIR, rng=1, events=lambda x: x[:3] > 0)


def test_equal_data_sets_are_pointed_out() -> None:
    verdict = sequential_audit(fair, claim=Claim(1.0), neighbours=(0.0, 0.0), rng=1, most_samples=20)
    assert any("equal" in warning for warning in verdict.warnings)


@given(st.floats(0, 50))
def test_the_ladder_increases(epsilon: float) -> None:
    assert np.all(np.diff(ladder(epsilon)) > 0) and epsilon in ladder(epsilon)


@given(st.integers(0, 10**7), st.integers(1, 10**5), st.integers(1, 10**5))
def test_looks_do_not_depend_on_batches(start: int, first: int, second: int) -> None:
    whole = looks(start, start + first + second)
    parts = np.concatenate([looks(start, start + first), looks(start + first, start + first + second)])
    assert set(whole) <= set(parts) <= set(whole) | {start + first}
    assert next_change(start) > start


@pytest.mark.statistical
@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**32), st.lists(st.integers(1, 60), min_size=1, max_size=6))
def test_wealth_on_learned_laws_does_not_depend_on_batches(seed: int, sizes: list[int]) -> None:
    rng = np.random.default_rng(seed)
    memory, total = Memory(None), sum(sizes)
    outputs = rng.normal([[0.0], [1.5]], 1.0, (2, 30 + total))

    def batch(start: int, stop: int) -> list[Any]:
        return [read(own[start:stop], stop - start, memory.book, vectorised=True) for own in outputs]

    d0, d1 = batch(0, 30)
    memory.keep((d0, d1))
    events = memory.learn()
    one, many = (Game(Claim(0.5), np.array([0.4]), np.full(2, math.inf)) for _ in range(2))

    def play(game: Game, start: int, stop: int) -> None:
        d0, d1 = batch(start, stop)
        game.settle((events.happened(d0), events.happened(d1)), (events.places(d0), events.places(d1)))

    one.change(events)
    many.change(events)
    play(one, 30, 30 + total)
    at = 30
    for size in sizes:
        play(many, at, at + size)
        at += size
    assert one.log_money is not None and many.log_money is not None
    np.testing.assert_allclose(one.log_money, many.log_money, atol=1e-9)
    (cut,) = events.cuts
    laws = one.log_money[:, -len(SMOOTHINGS) :]
    assert np.all(np.isfinite(laws[0])) and np.all(np.isinf(laws[1]))
    np.testing.assert_array_equal(
        cut.counts, [np.bincount(events.places(own)[0], minlength=cut.partition.cells) for own in batch(0, 30)]
    )
    # money on the laws by hand, from the cells of the outputs after those that the laws were estimated from
    p, q = smoothed(cut.counts, ordered=True)
    f, g = best_factors(p, q, np.array([0.5]), np.array([0.0]))
    x, y = (events.places(own)[0] for own in batch(30, 30 + total))
    gain = np.log1p(0.97 * (f[:, x] - 1)).sum(axis=1) + np.log1p(0.97 * (g[:, y] - 1)).sum(axis=1)
    fresh = Game(Claim(0.5), np.array([0.4]), np.full(2, math.inf))
    fresh.change(events)
    assert fresh.log_money is not None
    np.testing.assert_allclose(laws[0, :, 0] - fresh.log_money[0, -len(SMOOTHINGS) :, 0], gain, atol=1e-9)
    assert fresh.log_totals == pytest.approx(np.zeros(2), abs=1e-9)


@settings(max_examples=20)
@given(st.integers(0, 2**32), st.lists(st.integers(1, 60), min_size=1, max_size=6))
def test_wealth_does_not_depend_on_batches(seed: int, sizes: list[int]) -> None:
    rng = np.random.default_rng(seed)
    pairs = rng.random((2, 3, sum(sizes))) < np.array([0.6, 0.2])[:, None, None]

    def game() -> Game:
        found = Game(Claim(0.5), np.array([0.4]), np.full(2, math.inf))
        found.change(FixedEvents(("a", "b", "c"), np.zeros((3, 2), dtype=np.int64), 0))
        return found

    one, many, at = game(), game(), 0
    one.settle((pairs[0], pairs[1]))
    for size in sizes:
        many.settle((pairs[0][:, at : at + size], pairs[1][:, at : at + size]))
        at += size
    assert one.log_money is not None and many.log_money is not None
    np.testing.assert_allclose(one.log_money, many.log_money, atol=1e-9)
    assert one.pairs == many.pairs == sum(sizes)


def test_learned_events_are_those_of_their_cells() -> None:
    """The events' indicators agree with counts, graded events are nested, and what is new belongs to the last cell."""
    rng = np.random.default_rng(1)
    memory = Memory(None)
    batch = [read(rng.normal(side, 1, 400), 400, memory.book, vectorised=True) for side in (0, 1)]
    memory.keep((batch[0], batch[1]))
    events = memory.learn()
    happened = [events.happened(own) for own in batch]
    plain = len(events.counts) - 7 * events.graded
    unranked = slice(0, 40)  # orders that no counts decided
    np.testing.assert_array_equal(events.counts[unranked, 0], happened[0][unranked].sum(axis=1))
    nested = happened[0][plain:].reshape(events.graded, 7, -1)
    assert np.all(nested[:, :-1] >= nested[:, 1:])
    new = read(["x"] * 5, 5, memory.book, vectorised=False)
    assert events.happened(new).shape == (len(events.counts), 5)


def normal(value: float, rng: np.random.Generator, runs: int) -> np.ndarray:
    return value + rng.standard_normal(runs)


def response(value: float, rng: np.random.Generator, runs: int) -> np.ndarray:
    return np.asarray((rng.random(runs) < math.e / (1 + math.e)) == bool(value))


def refuted_at(
    target: Any, claim: Claim, seed: int, most: int, *, lower: bool, alpha: float = 0.1, events: Any = None
) -> int | None:
    """Number of pairs after which an audit at level ``alpha`` refutes; None if it does not."""
    given: dict[str, Any] = {"events": events, "exceptions_as_output": False, "grid": None, "lower": lower}
    run = Run.of(target, claim=claim, neighbours=PAIR, alpha=alpha, most_samples=most, rng=seed, **given)
    run.bet()
    return run.stopped_at


def refuted(target: Any, claim: Claim, runs: int, most: int, alpha: float) -> int:
    """Number of audits that refute, of ``runs`` without a lower bound: see the next test."""
    return sum(refuted_at(target, claim, seed, most, lower=False, alpha=alpha) is not None for seed in range(runs))


@pytest.mark.statistical
def test_a_claim_is_refuted_at_the_same_time_with_and_without_a_lower_bound() -> None:
    for target, claim in (
        (half, Claim(1.0)),
        (fair, Claim(0.7)),
        (normal, Claim.curve(accounting.Gaussian(2.0), 1e-5)),
    ):
        for seed in range(2):
            stops = [refuted_at(target, claim, seed, 150, lower=lower) for lower in (True, False)]
            assert stops[0] == stops[1]
    assert stops[0] is not None


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("target", "claim"),
    [
        pytest.param(fair, Claim(1.0), marks=pytest.mark.deep),
        (normal, Claim.curve(accounting.Gaussian(1.0), 1e-5)),
        pytest.param(response, Claim(1.0), marks=pytest.mark.deep),
    ],
    ids=["laplace", "curve", "response"],
)
@pytest.mark.parametrize(("alpha", "runs"), [(0.005, 32), pytest.param(0.02, 50, marks=pytest.mark.deep)])
def test_false_alarms_of_whole_audits(target: Any, claim: Claim, alpha: float, runs: int) -> None:
    """Exactly tight claims: more alarms than allowed have probability 1e-6, and a rate of 0.33 would be seen."""
    allowed = stats.binom.isf(1e-6, runs, alpha)
    assert refuted(target, claim, runs, 150, alpha) <= allowed
    assert stats.binom.sf(allowed, runs, 0.33) > 0.99


@pytest.mark.deep
def test_power_of_whole_audits() -> None:
    assert refuted(half, Claim(1.0), 60, 200, 0.1) >= 48


@pytest.mark.statistical
@pytest.mark.parametrize("audits", [90, pytest.param(200, marks=pytest.mark.deep)])
def test_the_detectable_epsilon_is_detected(audits: int) -> None:
    """A violation of the size stated is found in 9 of 10 audits: of 90, in 65 at least but with probability 1e-6."""
    stated = sequential_audit(
        fair, claim=Claim(1.0), neighbours=PAIR, rng=3, events=above, most_samples=2000, alpha=0.01
    )
    q = 0.5 / math.e  # of the event on d0; stated.frequency_q is an estimate of it
    rates = q, math.exp(stated.detectable_epsilon) * q

    def broken(value: float, rng: np.random.Generator, runs: int) -> np.ndarray:
        return np.asarray(2.0 * (rng.random(runs) < rates[int(value)]))

    found = sum(
        refuted_at(broken, Claim(1.0), seed, 2000, lower=False, alpha=0.01, events=above) is not None
        for seed in range(audits)
    )
    assert found >= stats.binom.ppf(1e-6, audits, 0.9)


def test_events_that_are_named_are_counted_as_they_come() -> None:
    batch = np.array([[True, False, True], [False, False, True]]), np.array([[False] * 3, [True] * 3])
    events = FixedEvents(("odd", "large"), np.zeros((2, 2), dtype=np.int64), 0).after(batch).after(batch)
    assert events.trials == 6 and events.counts.tolist() == [[4, 0], [2, 6]]
    assert events.happened(batch[0]) is batch[0] and events.places(batch[0]).shape == (0, 3)
    assert [events.words(i) for i in range(2)] == ["odd", "large"]


def test_several_events_that_are_not_bools_are_refused() -> None:
    numbers = GivenEvents.of([lambda x: x > 0.0, lambda x: x])
    assert numbers is not None
    with pytest.raises(TargetError, match="each of several events must return one bool per output"):
        numbers.read(np.zeros(4), 4)


def test_every_learned_event_has_words_also_where_outputs_have_no_order() -> None:
    rng = np.random.default_rng(2)
    memory = Memory(None)
    answers = [rng.choice(["yes", "no", "maybe"], 300, p=p) for p in ([0.6, 0.3, 0.1], [0.2, 0.3, 0.5])]
    batch = [read([str(x) for x in side], 300, memory.book, vectorised=False) for side in answers]
    memory.keep((batch[0], batch[1]))
    events = memory.learn()
    plain = len(events.counts) - 7 * events.graded
    said = [events.words(event) for event in range(plain + events.graded)]
    assert all(words.startswith("a score in [0, 1], largest if ") for words in said[plain:]) and plain < len(said)
    assert any("yes" in words for words in said[:plain]) and not any(
        words.startswith("a score") for words in said[:plain]
    )
    with pytest.raises(AssertionError):
        events.words(plain + 7 * events.graded)


def test_the_oldest_outputs_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sequential_events, "_MOST_OUTPUTS", 25)
    memory = Memory(None)
    for i in range(6):
        batch = [read(np.full(10, float(i)), 10, memory.book, vectorised=True) for _ in range(2)]
        memory.keep((batch[0], batch[1]))
    for side in memory.tables:
        assert [float(table.blocks[0][0, 0]) for table in side] == [3.0, 4.0, 5.0]  # 30 runs: with one less only 20


@pytest.mark.statistical
def test_progress_counts_outputs_of_both_data_sets() -> None:
    told: list[tuple[int, int]] = []
    found = sequential_audit(
        normal,
        claim=Claim(5.0),
        neighbours=PAIR,
        alpha=0.1,
        most_samples=600,
        rng=1,
        progress=lambda done, most: told.append((done, most)),
    )
    assert {most for _, most in told} == {1200} and [done for done, _ in told] == sorted({done for done, _ in told})
    assert not found.refuted and told[-1][0] == 1200


def test_an_event_is_a_bool_on_both_data_sets_or_a_number_on_both() -> None:
    def undecided(outputs: np.ndarray) -> np.ndarray:
        return outputs > 0.0 if outputs[0] > 50.0 else outputs

    def apart(value: float, rng: np.random.Generator, runs: int) -> np.ndarray:
        return 100.0 * value + rng.standard_normal(runs)

    with pytest.raises(TargetError, match="bools for some outputs and numbers for others"):
        sequential_audit(apart, claim=Claim(1.0), neighbours=(0.0, 1.0), most_samples=100, rng=1, events=undecided)
