"""Record and replay: prices of paths, refusals, the result; and a replay that is broken is noticed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from attrs import evolve

from hockeystick.accounting import InvalidArgumentError, InvalidDataError, Laplace
from hockeystick.audits.replay import comparison, queries, run, tape, values
from hockeystick.audits.replay.run import replay
from hockeystick.audits.replay.verdict import ReplayVerdict
from hockeystick.audits.targets.calling import TargetError

FIVE = [0.2, 0.9, 0.4, 1.0, 0.7]
FOUR = FIVE[:-1]


def count(x: Any, rng: Any) -> Any:
    return len(x) + rng.laplace(scale=1.0)


def unpaid(x: Any, rng: Any) -> Any:
    return {"noisy": len(x) + rng.laplace(scale=1.0), "exact": len(x)}


def foreign(x: Any, rng: Any) -> Any:
    return len(x) + np.random.default_rng().laplace()


def late(x: Any, rng: Any) -> Any:
    """The last of eight calls is at fault."""
    return [len(x) * (0.1 if step < 7 else 20.0) + rng.laplace(scale=8.0) for step in range(8)]


def replayed(algorithm: Any, epsilon: float = 1.0, **options: Any) -> ReplayVerdict:
    return replay(algorithm, FIVE, FOUR, epsilon=epsilon, **{"seed": 1, **options})


def test_the_price_of_a_path_is_that_of_its_last_call_too() -> None:
    """A price of 30 for the comparison, then one of .001: they add up."""

    def both(x: Any, rng: Any) -> Any:
        threshold = 3.0 + rng.laplace(scale=0.1)
        bit = bool(len(x) + rng.laplace(scale=0.1) >= threshold)
        return bit, len(x) + rng.laplace(scale=1000.0)

    found = replay(both, FIVE, FOUR, epsilon=1.0, seed=1)

    assert found.outcome == "not certified"
    assert found.epsilon_path == pytest.approx(10.001)  # as if the compared count had been released with scale .1
    assert replayed(both, 11.0).outcome == "agrees"


def test_a_stream_of_comparisons_is_priced_as_above_threshold_or_as_releases_whichever_is_less() -> None:
    def stream(queries: int, query_scale: float) -> float:
        def algorithm(x: Any, rng: Any) -> Any:
            threshold = rng.laplace(scale=2.0)
            return [bool(len(x) - 100 + rng.laplace(scale=query_scale) >= threshold) for _ in range(queries)]

        return replay(algorithm, FIVE, FOUR, epsilon=9.0, seed=1, paths=2).epsilon_path

    assert stream(1, 4.0) == pytest.approx(1 / 4)
    assert stream(50, 4.0) == pytest.approx(1 / 2 + 2 / 4)


# --- a replay that is broken is noticed -------------------------------------------------------------------------------


def test_answers_that_are_not_frozen_would_convict_the_correct(monkeypatch: pytest.MonkeyPatch) -> None:
    ask = tape.Tape.ask

    def fresh(self: tape.Tape, query: Any, make: Any, *, where: str = "") -> Any:
        answer = ask(self, query, make, where=where)
        return answer + 1.0 if self.before is not None and isinstance(answer, np.ndarray) else answer

    monkeypatch.setattr(tape.Tape, "ask", fresh)
    assert replayed(count).outcome != "agrees"


def test_the_wrong_norm_would_miss_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def vector(x: Any, rng: Any) -> Any:
        return np.array([len(x), clipped_twice(x)]) + rng.laplace(scale=1.0, size=2)

    def clipped_twice(x: Any) -> Any:
        return len(x) * 1.0

    assert replay(vector, FIVE, FOUR, epsilon=1.5, seed=1).outcome == "violation"
    wrong = lambda *given: Laplace(queries.per_unit(values.rate("l2", *given)))  # noqa: E731
    monkeypatch.setattr(queries, "laplace_event", wrong)
    monkeypatch.setattr(queries.AddedNoise, "loss", lambda *_: None)
    assert replay(vector, FIVE, FOUR, epsilon=1.5, seed=1).outcome == "agrees"


def test_without_the_second_run_foreign_noise_would_convict(monkeypatch: pytest.MonkeyPatch) -> None:
    assert replayed(foreign).findings[0].kind == "own randomness"
    original = run._Session._run
    last: list[Any] = []

    def skipped(self: Any, recorded: tape.Tape, side: int) -> Any:
        if recorded.before is not None and last[-1][1] == side:  # the second run: taken to be the first
            return last[-1][0]
        last.append((original(self, recorded, side), side))
        return last[-1][0]

    monkeypatch.setattr(run._Session, "_run", skipped)
    assert replayed(foreign).findings[0].kind != "own randomness"


def test_without_the_value_returned_an_unpaid_release_would_be_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert replayed(unpaid).outcome == "violation"
    monkeypatch.setattr(comparison, "difference", lambda *_: None)
    assert replayed(unpaid).outcome == "agrees"


def test_comparing_five_calls_only_would_miss_the_eighth(monkeypatch: pytest.MonkeyPatch) -> None:
    assert replayed(late).outcome == "violation"
    kept = comparison.compare

    def first_five(one: Any, other: Any, *rest: Any) -> Any:
        short = []
        for ran in (one, other):
            cut = tape.Tape(ran.tape.rng, ran.tape.before, steps=ran.tape.steps[:5])
            short.append(evolve(ran, tape=cut))
        return kept(*short, *rest)

    monkeypatch.setattr(run, "compare", first_five)
    assert replayed(late).outcome == "agrees"


# --- refusals, messages -----------------------------------------------------------------------------------------------


def test_data_changed_in_place_are_an_error_that_does_not_tell_them() -> None:
    def sorts(x: Any, rng: Any) -> Any:
        x.sort()
        return x[0] + rng.laplace()

    with pytest.raises(InvalidDataError, match="changed in place") as caught:
        replay(sorts, [3.25, 1.75], [1.75, 3.25], epsilon=1.0, seed=1)
    assert "1.75" not in str(caught.value) and "3.25" not in str(caught.value)


def test_messages_do_not_tell_data() -> None:
    secret = "Zaphod"

    def leaks(x: Any, rng: Any) -> Any:
        return {**dict.fromkeys(x, 1), "noisy": len(x) + rng.laplace()}

    found = replay(leaks, ["a", secret], ["a", "b"], epsilon=1.0, seed=1)
    assert found.violated and secret not in str(found) and secret not in found.to_json()


def test_an_algorithm_that_raises_is_refused_on_the_recorded_data_and_an_output_on_the_other() -> None:
    def strict(x: Any, rng: Any) -> Any:
        noisy = len(x) + rng.laplace()
        if len(x) < 5:
            raise ValueError(f"too few: {x}")
        return float(noisy)

    with pytest.raises(TargetError, match="raised ValueError on d1 at") as caught:
        replay(strict, FIVE, FOUR, epsilon=1.0, seed=1)
    assert "0.9" not in str(caught.value)


@pytest.mark.parametrize(
    "algorithm",
    [
        lambda x, rng: rng.bit_generator.random_raw(),
        lambda x, rng: rng.standard_normal(dtype=np.float32),
        lambda x, rng: rng.standard_normal(out=np.empty(1)),
        lambda x, rng: rng.random(dtype=np.float32),
        lambda x, rng: rng.permuted([1, 2]),
    ],
)
def test_what_is_not_followed_is_said(algorithm: Any) -> None:
    found = replay(algorithm, [1], [2], epsilon=1.0, seed=1)

    assert found.outcome == "not covered"
    assert "test_run.py" in found.findings[0].where


def test_a_value_that_can_t_be_compared_is_refused() -> None:
    with pytest.raises(InvalidDataError, match="can't be compared"):
        replayed(lambda x, rng: (value for value in x))


def test_spawned_generators_are_recorded() -> None:
    def with_children(x: Any, rng: Any) -> Any:
        return [len(x) + child.laplace(scale=2.0) for child in rng.spawn(2)]

    found = replay(with_children, FIVE, FOUR, epsilon=1.0, seed=1)
    assert found.outcome == "agrees" and found.calls == 2 and found.epsilon_path == 1.0


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"epsilon": -1.0}, "epsilon"),
        ({"epsilon": float("nan")}, "epsilon"),
        ({"epsilon": 1.0, "delta": 2.0}, "delta"),
        ({"epsilon": 1.0, "paths": 0}, "paths"),
        ({"epsilon": 1.0, "seed": -1}, "rng"),
        ({"epsilon": 1.0, "seed": 1, "rng": 2}, "seed"),
    ],
)
def test_bad_arguments_are_named(options: dict[str, Any], argument: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        replay(count, FIVE, FOUR, **options)
    assert caught.value.argument == argument


def test_equal_data_sets_and_algorithms_without_noise_are_warned_of() -> None:
    found = replay(lambda x, rng: 1, FIVE, FIVE, epsilon=1.0, seed=1)

    assert found.outcome == "agrees" and len(found.warnings) == 2


def test_a_seed_repeats_a_replay() -> None:
    def bare(found: ReplayVerdict) -> dict[str, Any]:
        return {**found.to_dict(), "seconds": 0.0}

    assert bare(replayed(late, seed=3)) == bare(replayed(late, seed=3))
    assert replayed(count, seed=None).seed != replayed(count, seed=None).seed


# --- the result -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", [count, unpaid, foreign, late])
@pytest.mark.parametrize("delta", [0.0, 1e-5])
@pytest.mark.every(4)
def test_a_verdict_survives_json(algorithm: Any, delta: float) -> None:
    found = replayed(algorithm, delta=delta)

    assert ReplayVerdict.from_json(found.to_json()) == found


@pytest.mark.parametrize(
    "change",
    [
        {"outcome": "agrees"},
        {"outcome": "refuted"},
        {"schema": 2},
        {"type": "audit"},
        {"delta": 2},
        {"findings": [1]},
        {"paths": -1},
        {"more": 1},
    ],
)
def test_a_changed_verdict_is_refused(change: dict[str, Any]) -> None:
    plain = replayed(late).to_dict()

    with pytest.raises(InvalidArgumentError):
        ReplayVerdict.from_dict({**plain, **change})


def table(rows: Any, rng: Any, read: Callable[[Any], Any]) -> Any:
    """A table whose noisy column is read by another package, and whose counts have no noise."""
    pyarrow = pytest.importorskip("pyarrow")
    cities = ["Bern", "Rome"]
    totals = np.array([float(sum(age for home, age in rows if home == city)) for city in cities])
    counts = [sum(home == city for home, _ in rows) for city in cities]
    return pyarrow.table({"city": cities, "total": read(totals + rng.laplace(0, 200.0, 2)), "n": counts})


def test_a_column_of_a_table_without_noise_is_named() -> None:
    d0, d1 = [("Bern", 30), ("Rome", 97)], [("Bern", 30)]
    found = replay(
        lambda rows, rng: table(rows, rng, lambda x: np.asarray(x, dtype=float)), d0, d1, epsilon=0.5, seed=1
    )
    assert found.outcome == "violation" and "(column 2[1])" in found.findings[0].message
    whole = replay(
        lambda rows, rng: table(rows, rng, lambda x: np.asarray(x, dtype=float)).drop(["n"]), d0, d1, epsilon=0.5
    )
    assert whole.outcome == "agrees"


def test_a_noisy_number_that_another_package_cannot_read_is_told_with_a_remedy_at_the_users_line() -> None:
    with pytest.raises(TargetError) as caught:
        replay(lambda rows, rng: table(rows, rng, lambda x: x), [("Bern", 30)], [], epsilon=0.5, seed=1)
    told = str(caught.value)
    assert "ArrowInvalid on d0 at " in told and "test_run.py:" in told and "np.asarray(number, dtype=float)" in told
