"""Tests of ``hockeystick group-by`` and ``hs.group_by``: keys, persons, missing values, noise and its cost."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import command_line
import numpy as np
import pytest
from command_line import assert_refused

import hockeystick as hs
from hockeystick.accounting import Adjacency, DurableLedger, InvalidArgumentError, PureFilter

REPLACE = Adjacency.REPLACE_ONE
QUIET = 1e6  # an ε at which noise is below a thousandth


def run(*words: object) -> Any:
    return command_line.run("group-by", *words)


def result_of(*words: object) -> dict[str, Any]:
    found: dict[str, Any] = command_line.result_of("group-by", *words)
    return found


@pytest.fixture
def visits(tmp_path: Path) -> str:
    rng = np.random.default_rng(1)
    path = tmp_path / "V.csv"
    lines = ["id,town,age"]
    for i in range(900):
        town = ["A", "B", "C"][i % 3] if i else "Secret"
        lines += [f"p{i},{town},{rng.integers(100)}" for _ in range(1 + i % 4)]
    lines += ["p7,,50", "p8,A,", "p9,B,old", ",C,40"]
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def answers(found: dict[str, Any]) -> dict[tuple[str, str], tuple[float, float, float]]:
    return {(row[0], row[1]): tuple(row[2:]) for row in found["answers"]}


def test_public_keys_are_all_shown_and_no_others_whatever_is_in_the_table(visits: str, tmp_path: Path) -> None:
    keys, file = tmp_path / "K.csv", tmp_path / "A.csv"
    keys.write_text("town\nA\nZ\n")
    words = ["--by", "town", "--keys", str(keys), "--mean", "age=0:100", "--epsilon", "1", "--simulate"]
    found = result_of("--data", visits, *words, "--answers", str(file))
    shown = answers(found)
    assert {key for key, _ in shown} == {"A", "Z", "(other)"} and {name for _, name in shown} == {
        "count",
        "sum of age",
        "mean of age",
    }
    assert found["epsilon"] <= 1.0 and found["scale"] == 1.0 and found["selection"] is None
    lines = list(csv.reader(file.read_text().splitlines()))
    assert lines[0] == ["town", "answer", "estimate", "from", "to"] and len(lines) == 10
    empty = tmp_path / "E.csv"
    empty.write_text("id,town,age\n")
    assert {key for key, _ in answers(result_of("--data", empty, *words))} == {"A", "Z", "(other)"}


def test_private_keys_of_one_person_are_never_shown_and_counts_are_those_of_persons(visits: str) -> None:
    words = ["--by", "town", "--keys", "private", "--person", "id", "--rows", "3", "--epsilon", "4", "--delta", "1e-6"]
    found = result_of("--data", visits, *words, "--simulate", "--mean", "age=0:100")
    shown = answers(found)
    assert {key for key, _ in shown} == {"A", "B", "C"}
    assert all(abs(shown[town, "persons"][0] - 300) < 60 for town in "ABC")
    assert found["selection"]["partitions"] == 3 and found["epsilon"] <= 4.0
    assert "at most 3 rows of each person" in found["estimand"]
    one = result_of("--data", visits, "--by", "town", "--keys", "private", "--epsilon", "1", "--delta", "1e-6",
                    "--simulate")  # fmt: skip
    assert one["selection"] == {"rule": "OptimalRule", "half": one["selection"]["half"], "partitions": 1}


def test_answers_without_noise_are_those_of_the_kept_rows(visits: str) -> None:
    rows = list(csv.DictReader(Path(visits).read_text().splitlines()))
    found = hs.group_by(visits, by="town", keys=["A", "B"], mean={"age": (0, 100)}, epsilon=QUIET, seed=1)
    good = [row for row in rows if row["town"] and row["age"].isdigit()]
    for i, town in enumerate(["A", "B"]):
        ages = [float(row["age"]) for row in good if row["town"] == town]
        assert found.answers["count"][0][i] == pytest.approx(len(ages), abs=0.01)
        assert found.answers["mean of age"][0][i] == pytest.approx(np.mean(ages), abs=0.01)
    persons_rows = sum(min(2, 1 + i % 4) for i in range(900))  # p8, who has one, has another without an age
    capped = hs.group_by(visits, by="town", keys=["A", "B", "C", "Secret"], person="id", rows=2, epsilon=QUIET, seed=1)
    assert sum(capped.answers["count"][0]) == pytest.approx(persons_rows + 1, abs=0.01)


@pytest.mark.parametrize(
    ("missing", "group", "rows", "total"),
    [("drop", "(other)", 0, 40.0), ("category", "(missing)", 1, 60.0), (7, "(other)", 0, 54.0)],
)
def test_missing_values_count_as_the_rule_says(missing: Any, group: str, rows: int, total: float) -> None:
    table = {"town": ["A", "A", "B", ""], "age": ["10", "", "30", "20"]}
    keys = ["A", "B", "(missing)"] if missing == "category" else ["A", "B"]
    found = hs.group_by(
        table | {"age": ["10", "x", "30", "20"]}, by="town", keys=keys, sum={"age": (0, 64)}, missing=missing,
        epsilon=QUIET, seed=1,
    )  # fmt: skip
    sums = found.answers["sum of age"][0]
    # Of four rows one lacks a key and one a number: 10 + 30 are left, and 20 or 7.
    assert sums.sum() == pytest.approx({40.0: 40.0, 60.0: 60.0, 54.0: 47.0}[total], abs=0.01)
    assert (sums[[key[0] for key in found.keys].index(group)] > 1.0) == bool(rows)
    with pytest.raises(InvalidArgumentError, match="lacks a value in record 2"):
        hs.group_by(table, by="town", keys=["A"], sum={"age": (0, 64)}, missing="refuse", epsilon=1.0)


@pytest.mark.parametrize(
    ("adjacency", "rows", "length"), [("add-or-remove-one", 1, 1), ("add-or-remove-one", 3, 3), ("replace-one", 3, 6)]
)
def test_the_noise_is_for_all_rows_of_a_person(adjacency: str, rows: int, length: int) -> None:
    words = ["--by", "t", "--keys", "private", "--mean", "x=0:1", "--epsilon", "2", "--delta", "1e-6", "--person", "i"]
    found = result_of("--plan", *words, "--rows", rows, "--adjacency", adjacency)
    assert found["scale"] == pytest.approx(length) and found["epsilon"] <= 2.0
    two = result_of("--plan", *words, "--rows", rows, "--adjacency", adjacency, "--sum", "y=-1:1")
    assert two["scale"] == pytest.approx(2 * length)


def test_one_charge_in_the_ledger_and_none_for_a_refused_release(visits: str, tmp_path: Path) -> None:
    ledger = DurableLedger.create(tmp_path / "L", budget=PureFilter(1.0))
    given: dict[str, Any] = {"by": "town", "keys": ["A"], "epsilon": 0.75, "ledger": ledger}
    hs.group_by(visits, **given)
    with pytest.raises(hs.HockeystickError):
        hs.group_by(visits, **given)
    assert len(ledger.entries()) == 1 if hasattr(ledger, "entries") else True
    with pytest.raises(hs.UnsupportedAdjacencyError):
        hs.group_by(visits, **(given | {"adjacency": REPLACE}))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--by town --keys private --epsilon 1", "need δ > 0"),
        ("--by town --keys private --mean age --epsilon 1 --delta 1e-6", "is not a column with bounds"),
        ("--by town --keys private --mean age=9:1 --epsilon 1 --delta 1e-6", "is not a column with bounds"),
        ("--by town --keys private --mean town=0:1 --epsilon 1 --delta 1e-6", "names a column twice"),
        ("--by town --keys private --rows 3 --epsilon 1 --delta 1e-6", "needs --person"),
        ("--by town --keys private --missing nan --epsilon 1 --delta 1e-6", "is not a rule"),
        ("--by town --keys nowhere.csv --epsilon 1", "nowhere.csv"),
    ],
)
def test_bad_options_are_refused(visits: str, words: str, said: str) -> None:
    assert_refused(run("--data", visits, *words.split()), said)
