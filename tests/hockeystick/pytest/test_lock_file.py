"""The privacy lock file and the shares of a suite's false alarms: their laws, without running pytest."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from hockeystick import AccountantGraph, Adjacency, Guarantee, events, learners, mechanisms
from hockeystick._pytest.budget_fixture import Certified, sentence
from hockeystick._pytest.levels import UNREGISTERED, call_share, confidence, part, share
from hockeystick._pytest.lock_file import TOLERANCE, Budget, LockFile, PrivacyLockError, compare, digest, round_up
from hockeystick.accounting import InvalidArgumentError, PrivacyEvent, UnsupportedAdjacencyError, epsilon

GRAPH = AccountantGraph().source("people").release("mean", events.Gaussian(5.0), reads=["people"])


def budget(value: float = 1.0, **changes: object) -> Budget:
    plain = Budget(((1e-6, value, "pld"),), "replace-one", "one record", 1, "all", (), "graph/1 sha256:aa", "v1")
    return evolve(plain, **changes)  # type: ignore[arg-type]


positive = st.floats(min_value=1e-300, max_value=1e300)

# ------------------------------------------------------------------------------------------------------------- numbers


@given(positive, st.integers(1, 15))
def test_rounding_goes_one_way_and_is_as_close_as_its_digits_say(value: float, digits: int) -> None:
    assert value <= round_up(value, digits) <= value * (1 + 10.0 ** (1 - digits)) * (1 + 1e-15)
    assert round_up(round_up(value, digits), digits) == round_up(value, digits)
    assert round_up(0.2) == 0.2 and round_up(0.1 + 0.2) == 0.300000000001 and round_up(0.1 + 0.2, 15) > 0.1 + 0.2


@given(positive, positive)
def test_an_epsilon_that_is_larger_is_never_passed_beyond_the_tolerance(old: float, new: float) -> None:
    locked, now = budget(round_up(old)), budget(round_up(new))
    kind = compare(locked, now).kind
    assert (kind == "rise") == (now.epsilons[0][1] > locked.epsilons[0][1] * (1 + TOLERANCE))
    assert kind in ("rise", "fall", "same")
    if new > old * (1 + 2e-9):
        assert kind == "rise"
    if compare(now, locked).kind == "rise":
        assert kind != "rise"


def test_tolerance_is_for_the_same_graph_alone() -> None:
    noise = budget(1.0 + 5e-10)
    assert compare(budget(), noise).kind == "same"
    assert compare(budget(), evolve(noise, digest="graph/1 sha256:bb")).kind == "rise"
    assert compare(budget(), budget(digest="graph/1 sha256:bb")).kind == "graph"
    assert compare(budget(digest=None), evolve(noise, digest=None)).kind == "same"
    assert compare(budget(0.0), budget(1e-300)).kind == "rise"


@pytest.mark.parametrize(
    "changes, line",
    [
        ({"adjacency": "local"}, "adjacency: replace-one -> local"),
        ({"unit": "one person"}, "unit: one record -> one person"),
        ({"group": 2}, "group: 1 -> 2"),
        ({"threat_model": "output"}, "threat model: all -> output"),
        ({"assumptions": ("a", "b")}, "assumptions: none -> a; b"),
        ({"epsilons": ((1e-5, 0.5, "pld"),)}, "at δ = 1e-05: ε = 0.5, not locked"),
    ],
)
def test_numbers_about_something_else_are_refused_even_if_they_fell(changes: dict[str, Any], line: str) -> None:
    change = compare(budget(), budget(0.9, **changes) if "epsilons" not in changes else budget(**changes))
    assert change.kind == "terms" and change.refused and line in change.lines


def test_a_rise_at_one_delta_fails_and_the_message_lists_all_changes() -> None:
    old = budget(epsilons=((1e-6, 1.0, "pld"), (1e-3, 0.5, "pld")))
    new = budget(epsilons=((1e-6, 0.5, "rdp"), (1e-3, 0.6, "pld")), version="v2")
    change = compare(old, new)
    assert change.kind == "rise" and change.refused
    text = sentence("sum", change, "privacy.lock.json")
    assert "'sum' rose above privacy.lock.json" in text and "at δ = 0.001: ε = 0.5 -> 0.6" in text
    assert "the event graph is the same; v1 -> v2" in text and "pytest --privacy-update" in text
    assert compare(None, new).refused
    # the method and the version alone are no change
    assert compare(old, evolve(old, epsilons=((1e-6, 1.0, "rdp"), (1e-3, 0.5, "rdp")), version="v2")).kind == "same"


# ---------------------------------------------------------------------------------------------------------------- file


def test_a_file_comes_back_sorted_and_is_written_only_if_it_changed(tmp_path: Path) -> None:
    path = tmp_path / "privacy.lock.json"
    assert LockFile.read(path) == LockFile()
    lock = LockFile({"b": budget(), 'a "quoted" ö': budget(2.0, digest=None)}, {"t::y": 2, "t::x": 5}, 7)
    assert lock.write(path) and not lock.write(path)
    assert LockFile.read(path) == lock
    assert list(json.loads(path.read_text())["budgets"]) == ['a "quoted" ö', "b"]
    assert list(json.loads(path.read_text())["audits"]) == ["t::x", "t::y"]


def test_one_changed_budget_is_one_changed_line() -> None:
    before = LockFile({"a": budget(), "b": budget(2.0)}, {"t": 1}, 1)
    after = evolve(before, budgets={**before.budgets, "b": budget(3.0)})
    old, new = before.text().splitlines(), after.text().splitlines()
    changed = [(a.strip(), b.strip()) for a, b in zip(old, new, strict=True) if a != b]
    assert changed == [('"1e-06": 2.0', '"1e-06": 3.0')]


def test_two_branches_that_gave_one_number_to_two_tests(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    LockFile({}, {"t::x": 2, "t::y": 2, "t::z": 1}, 2).write(path)
    found = LockFile.read(path)
    assert found.audits == {"t::x": 2, "t::z": 1} and found.registered == 2


@pytest.mark.parametrize(
    "broken, complaint",
    [
        ("", "is not JSON"),
        ("<<<<<<< HEAD\n{}", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("[]", "is not a privacy lock file"),
        ('{"format": "other"}', "is not a privacy lock file"),
        ("SCHEMA", "has schema 2, but this version reads 1"),
        ("NAN", "NaN is not allowed"),
        ("TWICE", "repeated key 'b'"),
        ("NEGATIVE", "budget 'b' can't be read (epsilon -1.0 is not a finite number"),
        ("BOOLEAN", "budget 'b' can't be read (epsilon True is not a finite number"),
        ("FIELD", "budget 'b' can't be read (expected the fields"),
        ("GROUP", "group is not a positive whole number"),
        ("DELTA", "a delta is not in [0, 1)"),
        ("SPELLING", "budget 'b' can't be read (delta '1e-6' has to be written as '1e-06')"),
        ("TWO SPELLINGS", "budget 'b' can't be read (delta '0.000001' has to be written as '1e-06')"),
        ("MINUS", "budget 'b' can't be read (delta '-0.0' has to be written as '0.0')"),
        ("HUGE", "budget 'b' can't be read (epsilon 9999999999999999999999999999999999999... is not a finite number"),
        ("INFINITE", "budget 'b' can't be read (an ε is infinite)"),
        ("NUMBER", "audits can't be read (the number of 't' is not between 1 and"),
        ("HUGE NUMBER", "audits can't be read (the number of 't' is not between 1 and"),
        ("HUGE COUNT", "audits can't be read (audits_registered is not a whole number between 0 and"),
    ],
)
def test_a_damaged_file_is_a_typed_error_of_one_line_and_is_left_alone(
    tmp_path: Path, broken: str, complaint: str
) -> None:
    good = LockFile({"b": budget()}, {"t": 1}, 1).text()
    text = {
        "SCHEMA": good.replace('"schema": 1', '"schema": 2'),
        "NAN": good.replace("1.0", "NaN"),
        "TWICE": good.replace('"budgets": {', '"budgets": {"b": {},'),
        "NEGATIVE": good.replace("1.0", "-1.0"),
        "BOOLEAN": good.replace("1.0", "true"),
        "FIELD": good.replace('"unit"', '"units"'),
        "GROUP": good.replace('"group": 1', '"group": true'),
        "DELTA": good.replace("1e-06", "1.0"),
        "SPELLING": good.replace("1e-06", "1e-6"),
        "TWO SPELLINGS": good.replace('"1e-06": 1.0', '"1e-06": 1.0, "0.000001": 9.0').replace(
            '"1e-06": "pld"', '"1e-06": "pld", "0.000001": "pld"'
        ),
        "MINUS": good.replace("1e-06", "-0.0"),
        "HUGE": good.replace("1.0", 400 * "9"),
        "INFINITE": good.replace("1.0", "null"),
        "NUMBER": good.replace('"t": 1', '"t": 0'),
        "HUGE NUMBER": good.replace('"t": 1', '"t": ' + 400 * "9"),
        "HUGE COUNT": good.replace('registered": 1', 'registered": ' + 400 * "9"),
    }.get(broken, broken)
    assert text != good
    path = tmp_path / "privacy.lock.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(PrivacyLockError) as error:
        LockFile.read(path)
    assert complaint in str(error.value) and "\n" not in str(error.value)
    assert path.read_text(encoding="utf-8") == text


# -------------------------------------------------------------------------------------------------------------- digest


@pytest.mark.statistical
def test_the_digest_is_of_the_canonical_form_and_does_not_depend_on_the_machine() -> None:
    assert digest("x", {"b": [1.0, "ö"], "a": None}) == digest("x", {"a": None, "b": [1.0, "ö"]})
    here = Certified.of(GRAPH).digest
    assert here == "graph/1 sha256:1e07261ecabe320055e3e0f972f974969637582c2574411c0ab82027fbd3e0fe"
    code = (
        "from hockeystick import AccountantGraph, events;"
        "from hockeystick._pytest.budget_fixture import Certified;"
        "g = AccountantGraph().source('people').release('mean', events.Gaussian(5.0), reads=['people']);"
        "print(Certified.of(g).digest)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={"PYTHONHASHSEED": "7"})
    assert run.stdout.strip() == here, run.stderr


def test_every_part_of_a_graph_is_in_its_digest() -> None:
    others = [
        AccountantGraph().source("people").release("mean", events.Gaussian(5.0000000001), reads=["people"]),
        AccountantGraph().source("people").release("mean", events.Gaussian(5), reads=["people"], count=2),
        AccountantGraph(Adjacency.REPLACE_ONE).source("people").release("mean", events.Gaussian(5), reads=["people"]),
        AccountantGraph().source("persons").release("mean", events.Gaussian(5.0), reads=["persons"]),
        GRAPH.post("rounded", reads=["mean"]),
    ]
    assert len({Certified.of(graph).digest for graph in [GRAPH, *others]}) == 6
    same = AccountantGraph().source("people").release("mean", events.Gaussian(5), reads=["people"])
    assert Certified.of(same).digest == Certified.of(GRAPH).digest


# ----------------------------------------------------------------------------------------------------------- certified


def test_graphs_guarantees_learners_and_events_can_be_certified() -> None:
    whole = GRAPH.guarantee()
    learner = learners.LazyExperts(rounds=8, experts=3, learning_rate=0.1, fake_switch_probability=0.2)
    laplace = mechanisms.Laplace(2.0)
    for what, how, bound in [
        (GRAPH, {}, whole.epsilon(1e-6)),
        (whole, {}, whole.epsilon(1e-6)),
        (GRAPH, {"group": 3}, GRAPH.guarantee(group=3).epsilon(1e-6)),
        (GRAPH, {"under": Adjacency.REPLACE_ONE}, whole.under(Adjacency.REPLACE_ONE).epsilon(1e-6)),
        (learner, {}, learner.graph().guarantee().epsilon(1e-6)),
        (laplace, {"adjacency": Adjacency.LOCAL}, epsilon(laplace.event(), 1e-6)),
        (laplace.event(), {"adjacency": Adjacency.LOCAL, "group": 2}, epsilon(laplace.event().at(2), 1e-6)),
    ]:
        found = Certified.of(what, **how)  # type: ignore[arg-type]
        ((delta, value, method),) = found.budget(1e-6).epsilons
        assert delta == 1e-6 and bound.upper <= value <= bound.upper * (1 + 1e-11) and method == bound.method
        assert found.digest is not None and isinstance(found.value, (Guarantee, PrivacyEvent))
    assert Certified.of(whole).digest == Certified.of(GRAPH).digest
    assert Certified.of(Guarantee.from_json(whole.to_json())).digest != Certified.of(GRAPH).digest
    assert Certified.of(GRAPH, group=3).budget([1e-6, 1e-9]).group == 3


def test_an_event_of_the_users_own_is_certified_without_a_digest() -> None:
    class Mine(events.Gaussian):
        pass

    assert Certified.of(Mine(3.0), adjacency=Adjacency.LOCAL).digest is None


@pytest.mark.parametrize(
    "what, how, error",
    [
        (object(), {}, InvalidArgumentError),
        ((1.0, 1e-6), {}, InvalidArgumentError),
        (mechanisms.Laplace, {}, InvalidArgumentError),
        (events.Laplace(1.0), {}, InvalidArgumentError),
        (events.Laplace(1.0), {"adjacency": "local"}, InvalidArgumentError),
        (events.Laplace(1.0), {"adjacency": Adjacency.LOCAL, "view": "v"}, InvalidArgumentError),
        (GRAPH, {"adjacency": Adjacency.LOCAL}, InvalidArgumentError),
        (GRAPH.guarantee(), {"group": 2}, InvalidArgumentError),
        (GRAPH, {"group": True}, InvalidArgumentError),
        (GRAPH, {"under": Adjacency.LOCAL}, UnsupportedAdjacencyError),
    ],
)
def test_objects_without_a_guarantee_cannot_be_certified(
    what: object, how: dict[str, object], error: type[Exception]
) -> None:
    with pytest.raises(error):
        Certified.of(what, **how)  # type: ignore[arg-type]


def test_an_epsilon_that_becomes_infinite_rose_and_is_above_every_finite_one() -> None:
    now = Certified.of(GRAPH).budget([-0.0, 1e-6])
    assert [epsilon for _, epsilon, _ in now.epsilons] == [math.inf, pytest.approx(0.8341, abs=1e-4)]
    assert not now.finite and Budget.from_dict(json.loads(json.dumps(now.to_dict(), allow_nan=False))) == now
    locked = evolve(now, epsilons=((0.0, 0.5, "pure"), now.epsilons[1]))
    change = compare(locked, now)
    assert change.kind == "rise" and change.lines[0] == "at δ = 0: ε = 0.5 -> infinite"
    assert "an infinite ε can't be locked" in sentence("a", change, "file") and "update" not in change.way_out
    assert compare(None, now).refused and "ε = infinite at δ = 0" in str(now)


@pytest.mark.parametrize("delta", [-1e-9, 1.0, math.nan, True, "1e-6", [], [1e-6, None]])
def test_an_invalid_delta_is_refused(delta: object) -> None:
    with pytest.raises(InvalidArgumentError, match="delta"):
        Certified.of(GRAPH).budget(delta)  # type: ignore[arg-type]


# -------------------------------------------------------------------------------------------------------- false alarms


def test_all_shares_sum_to_one_exactly() -> None:
    def exact(k: int) -> Fraction:
        j = k.bit_length() - 1
        return Fraction(1, (1 << j) * (j + 1) * (j + 2))

    for j in range(1, 12):  # the first 2^j - 1 numbers leave 1/(j+1), which tends to nothing
        assert sum(map(exact, range(1, 1 << j))) == 1 - Fraction(1, j + 1)
    assert all(math.isclose(share(k), exact(k), rel_tol=1e-15) for k in (1, 2, 3, 4, 7, 8, 1000, 1 << 40))
    assert all(share(k) >= share(k + 1) for k in range(1, 300))
    calls = [call_share(c) for c in range(1, 1 << 10)]
    assert 0.97 < math.fsum(calls) < 1 and calls[0] == 0.75


@given(st.floats(min_value=1e-14, max_value=0.4))
def test_a_confidence_is_never_laxer_than_its_level(level: float) -> None:
    assert level * 0.98 < 1 - confidence(level) <= level


def test_a_level_below_rounding_is_refused() -> None:
    with pytest.raises(pytest.fail.Exception, match="raise privacy_false_alarms"):
        confidence(1e-17)


@pytest.mark.statistical
@given(st.sets(st.integers(1, 3000)), st.integers(0, UNREGISTERED))
def test_registered_tests_and_a_thousand_others_have_at_most_all_together(registered: set[int], others: int) -> None:
    assert math.fsum([*map(part, registered), *[part(None)] * others]) <= 1
    assert UNREGISTERED * part(None) + math.fsum(map(part, range(1, 1 << 12))) == pytest.approx(1 - 0.75 / 13)
