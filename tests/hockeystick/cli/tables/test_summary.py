"""Tests of ``hockeystick summary`` and ``hs.summary``: answers, the choice of quantiles, and the public total."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import command_line
import numpy as np
import pytest
from command_line import assert_refused

import hockeystick as hs
from hockeystick._runs.releases.moment_release import Measure, MomentNoise
from hockeystick.accounting import Adjacency, InvalidArgumentError
from hockeystick.mechanisms import RowMoments

ADD, REPLACE = Adjacency.ADD_OR_REMOVE_ONE, Adjacency.REPLACE_ONE


def result_of(*words: object) -> dict[str, Any]:
    found: dict[str, Any] = command_line.result_of("summary", *words)
    return found


@pytest.fixture
def ages(tmp_path: Path) -> str:
    path = tmp_path / "T.csv"
    values = np.random.default_rng(1).gamma(9.0, 4.0, 3000).round(1)
    path.write_text("age,id\n" + "".join(f"{x},p{i % 1000}\n" for i, x in enumerate(values)))
    return str(path)


def test_answers_are_near_the_truth_and_in_their_intervals(ages: str) -> None:
    x = np.loadtxt(ages, delimiter=",", skiprows=1, usecols=0)
    words = ["--data", ages, "--column", "age=0:128", "--variance", "--quantiles", "0.25,0.5,0.75", "--epsilon", "5"]
    found = {row[0]: row[1:] for row in result_of(*words, "--simulate", "--seed", "3")["answers"]}
    true = {"count": 3000, "sum of age": x.sum(), "mean of age": x.mean(), "variance of age": x.var()}
    true |= {f"quantile {q:g}": np.quantile(x, q) for q in (0.25, 0.5, 0.75)}
    assert set(found) == set(true)
    for name, (value, low, high) in found.items():
        assert low is None or low <= true[name] <= high, name
        assert value == pytest.approx(true[name], rel=0.05) and (low is None) <= name.startswith("quantile")


def test_the_mechanism_of_quantiles_has_the_smaller_bound() -> None:
    one, many = (
        result_of("--plan", "--column", "age=0:128", "--quantiles", levels, "--epsilon", "1")["quantiles"]
        for levels in ("0.5", "0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8,0.9")
    )
    assert (one["mechanism"], many["mechanism"]) == ("exponential mechanism", "counts of cells")
    for found in (one, many):
        assert found["rank_errors"][found["mechanism"]] == min(found["rank_errors"].values())


def test_a_total_is_public_only_where_no_row_is_left_out_and_each_is_a_persons(ages: str) -> None:
    words = ["--data", ages, "--column", "age=0:128", "--epsilon", "1", "--simulate", "--adjacency", "replace-one"]
    known, dropped = result_of(*words, "--missing", "0"), result_of(*words)
    people = result_of(*words, "--missing", "0", "--person", "id")
    assert known["records"] == 3000 and known["scale"] == pytest.approx(1.0, rel=1e-4)
    assert (dropped["records"], dropped["scale"]) == (None, 2.0) and (people["records"], people["scale"]) == (None, 2.0)
    assert "count" in [row[0] for row in dropped["answers"]] and "count" not in [row[0] for row in known["answers"]]
    assert all(one["epsilon"] <= 1.0 for one in (known, dropped, people))


def test_rows_of_a_person_are_charged_together() -> None:
    words = ["--plan", "--column", "age=0:128", "--quantiles", "0.5", "--epsilon", "1", "--person", "id"]
    errors = [result_of(*words, "--rows", rows)["quantiles"]["rank_errors"] for rows in (1, 4)]
    for name in errors[0]:
        assert errors[1][name] == pytest.approx(4 * errors[0][name], rel=0.1)
    assert result_of(*words, "--rows", 4)["scale"] == 8.0 and result_of(*words, "--rows", 4)["epsilon"] <= 1.0


def test_python_and_a_repeatable_simulation(ages: str) -> None:
    given: dict[str, Any] = {"bounds": (0, 128), "epsilon": 1.0, "seed": 4}
    first, again = (hs.summary(ages, "age", **given).answers for _ in range(2))
    assert first == again != hs.summary(ages, "age", **(given | {"seed": 5})).answers
    for odd in ({"bounds": (1, 1)}, {"quantiles": [2.0]}, {"missing": "maybe"}, {"epsilon": -1.0}, {"rows": 0}):
        with pytest.raises(InvalidArgumentError):
            hs.summary(ages, "age", **(given | odd))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--column age --epsilon 1", "is not a column with bounds"),
        ("--column age=0:1 --quantiles 2 --epsilon 1", "not in [0, 1]"),
        ("--column age=0:1 --quantiles x --epsilon 1", "not in [0, 1]"),
        ("--column age=0:1 --cells 3 --epsilon 1", "needs --quantiles"),
        ("--column age=0:1 --records 3 --epsilon 1", "is for --plan"),
        ("--column age=0:1 --person age --epsilon 1", "two roles"),
    ],
)
def test_bad_options_are_refused(ages: str, words: str, said: str) -> None:
    assert_refused(command_line.run("summary", "--data", ages, *words.split()), said)


@pytest.mark.parametrize("kind", ["mean", "variance", "sum"])
def test_noise_for_a_public_total_covers_every_replaced_value(kind: Any) -> None:
    """The first of several sums is what the others leave; a row's shares are enumerated on a grid of values."""
    moments = RowMoments(kind, 0.0, 2.0)
    values = np.linspace(0.0, 2.0, 81)
    rows = np.array([moments([x], [0], groups=1)[0] for x in values])[:, (1 if moments.shares > 1 else 0) :]
    apart = np.abs(rows[:, None] - rows[None]).sum(axis=2).max()
    noise = MomentNoise.calibrated(
        [Measure("x", moments)], epsilon=1.0, delta=0.0, rows=1, adjacency=REPLACE, records=9
    )
    assert apart <= noise.scale <= apart * (1 + 1e-4)
