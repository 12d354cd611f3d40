"""Tests of ``hockeystick histogram``: plans, simulations, releases, cells, persons, refused and hidden values."""

from __future__ import annotations

import csv
import json
import math
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import command_line
import numpy as np
import pytest
from attrs import evolve
from command_line import assert_refused

import hockeystick as hs
import hockeystick._runs.releases.histogram
from hockeystick._files.histogram_table import OTHER, CountedColumn, read_cells
from hockeystick._runs.releases.histogram import Histogram
from hockeystick.accounting import Adjacency, DurableLedger, InvalidArgumentError, PureFilter
from hockeystick.mechanisms import BoundedHistogram, DiscreteLaplace
from hockeystick.mechanisms.randomness.noise import SimulationNoise

AGES = [3, 10, 19.5, 100, 100.5, -1, 77]
AGE = ["--column", "age=0:100:10"]
ADD, REPLACE = Adjacency.ADD_OR_REMOVE_ONE, Adjacency.REPLACE_ONE

run, result_of = partial(command_line.run, "histogram"), partial(command_line.result_of, "histogram")


@pytest.fixture
def table(tmp_path: Path) -> str:
    path = tmp_path / "T.csv"
    regions = ["north", "south", "north", "mars", "", "south", "south"]
    path.write_text("age,region\n" + "".join(f"{a},{r}\n" for a, r in zip(AGES, regions, strict=True)))
    return str(path)


def planned(**given: Any) -> Histogram:
    column = CountedColumn.of("--column", "ward=A,B,C")
    target: dict[str, Any] = {"epsilon": 1.0, "delta": 0.0, "adjacency": ADD}
    return Histogram.calibrated([column], **target | given)


def test_a_simulation_adds_the_librarys_noise_to_the_exact_counts(table: str, tmp_path: Path) -> None:
    file = tmp_path / "C.csv"
    columns = [*AGE, "--column", "region=north,south"]
    found = result_of("--data", table, *columns, "--epsilon", "2", "--simulate", "--seed", "5", "--counts", str(file))
    exact = np.zeros((11, 3), dtype=np.int64)
    for cell in [(0, 0), (1, 1), (1, 0), (9, 2), (10, 2), (10, 1), (7, 1)]:
        exact[cell] += 1
    noise = DiscreteLaplace.calibrated(epsilon=2.0)
    noisy = noise.release(exact.ravel(), noise=SimulationNoise(np.random.default_rng(5)))
    assert found["counts"] == noisy.tolist() and found["simulated"] is True
    assert (found["scale"], found["sensitivity"], found["epsilon"]) == (0.5, 1, 2.0)
    with file.open() as lines:
        heads, *rows = list(csv.reader(lines))
    assert heads == ["age", "region", "count"] and [int(row[2]) for row in rows] == noisy.tolist()
    assert rows[0][:2] == ["[0, 10)", "north"] and rows[-4][:2] == ["[90, 100]", OTHER] and rows[-1][:2] == [OTHER] * 2


def test_the_stated_error_is_that_of_all_counts_together() -> None:
    plan = planned(epsilon=0.3)
    t, scale = plan.mechanism.accuracy(0.05, entries=4), plan.mechanism.scale
    assert result_of("--plan", "--column", "ward=A,B,C", "--epsilon", "0.3")["largest_error"] == t
    within = [sum(math.tanh(0.5 / scale) * math.exp(-abs(k) / scale) for k in range(-r, r + 1)) for r in (t - 1, t)]
    assert within[0] ** 4 < 0.95 <= within[1] ** 4


@pytest.mark.parametrize(
    ("options", "moved"),
    [
        ("", 1),
        ("--adjacency replace-one", 2),
        ("--person who", 1),
        ("--person who --most-cells 2 --most-each 3", 6),
        ("--person who --most-cells 2 --most-each 3 --adjacency replace-one", 12),
        ("--person who --most-cells 9 --adjacency replace-one", 4),  # of four cells
    ],
)
def test_the_noise_is_for_what_one_person_moves_and_the_graph_certifies_it(options: str, moved: int) -> None:
    found = result_of("--plan", "--column", "ward=A,B,C", "--epsilon", "0.5", *options.split())
    assert (found["sensitivity"], found["mode"]) == (moved, "plan") and "counts" not in found
    cost = hs.epsilon(DiscreteLaplace(found["scale"], sensitivity=moved), 0.0).upper
    assert 0.5 * (1 - 1e-12) < found["epsilon"] <= 0.5 and cost == pytest.approx(found["epsilon"], rel=1e-12)
    graph = hs.AccountantGraph.from_json(json.dumps(found["graph"]))
    assert graph.guarantee().epsilon(0.0).upper == found["epsilon"]


def brute(records: list[tuple[str, int]], cells: int, each: int) -> list[int]:
    """The counts that a loop over the records finds."""
    met: dict[str, list[int]] = {}
    taken: Counter[tuple[str, int]] = Counter()
    for who, where in records:
        mine = met.setdefault(who, [])
        if where not in mine and len(mine) < cells:
            mine.append(where)
        if where in mine and taken[who, where] < each:
            taken[who, where] += 1
    return [sum(n for (_, at), n in taken.items() if at == cell) for cell in range(4)]


def test_a_person_is_counted_in_few_cells(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    records = [(f"p{rng.integers(6)}", int(rng.integers(4))) for _ in range(60)]
    path = tmp_path / "V.csv"
    path.write_text("who,ward\n" + "".join(f"{who},{'ABCX'[where]}\n" for who, where in records))
    for cells, each in ((1, 1), (2, 1), (3, 2), (9, 9)):
        plan = planned(person="who", most_cells=cells, most_each=each)
        assert plan.exact(str(path)).tolist() == brute(records, cells, each)
    assert planned().exact(str(path)).tolist() == [sum(where == i for _, where in records) for i in range(4)]


@pytest.mark.statistical
def test_an_audit_does_not_refute_the_counts_and_refutes_counts_of_all_visits(tmp_path: Path) -> None:
    """False-alarm rate 1e-6. The mutant counts all records of a person with the noise for one."""
    d0, d1 = str(tmp_path / "d0.csv"), str(tmp_path / "d1.csv")
    Path(d1).write_text("who,ward\nann,A\nbob,B\n")
    Path(d0).write_text("who,ward\nann,A\nbob,B\n" + "cyd,A\n" * 3 + "cyd,C\n")
    plan = planned(person="who")
    mutant = evolve(plan, counts=BoundedHistogram(4, most_partitions=2, most_each=3))

    def verdict(of: Histogram) -> hs.audits.Verdict:
        pair = of.exact(d0), of.exact(d1)
        return hs.audit(
            of.mechanism.simulate, claim=hs.Claim(1.0), neighbours=pair, samples=20_000, confidence=1 - 1e-6, rng=1
        )

    assert verdict(plan).outcome == "consistent"
    assert verdict(mutant).refuted


def test_a_release_takes_secure_noise_and_is_recorded(
    table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def secure() -> SimulationNoise:
        asked.append(1)
        return SimulationNoise(np.random.default_rng(1))

    monkeypatch.setattr(hockeystick._runs.releases.histogram, "ReleaseNoise", secure)
    DurableLedger.create(tmp_path / "book", PureFilter(1.5, adjacency=ADD))
    options = ["--data", table, *AGE, "--epsilon", "1", "--ledger", str(tmp_path / "book")]
    found = run(*options)
    assert found.exit_code == 0 and asked == [1] and "was not saved" in found.stderr
    assert [one.note for one in DurableLedger.open(tmp_path / "book").charges()] == [
        "hockeystick histogram (simulated)"
    ]
    assert_refused(run(*options), "needs epsilon=1, but 0.5 is left")
    assert_refused(run(*options, "--adjacency", "replace-one"), "--adjacency replace-one")
    DurableLedger.create(tmp_path / "other", PureFilter(3.0, adjacency=REPLACE))
    options[-1] = str(tmp_path / "other")
    assert_refused(run(*options), "the cost of this release is under add-or-remove-one")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--column age --epsilon 1 --plan", "names a column without cells"),
        ("--column =1,2 --epsilon 1 --plan", "names a column without cells"),
        ("--column age=0:100:30 --epsilon 1 --plan", "whole number of steps"),
        ("--column age=0:9:0.000001 --epsilon 1 --plan", "whole number of steps below"),
        ("--column age=9:0:1 --epsilon 1 --plan", "no numbers between"),
        ("--column age=0:9:-1 --epsilon 1 --plan", "no numbers between"),
        ("--column a=100000000000000:100000000000001:0.001 --epsilon 1 --plan", "floats do not tell apart"),
        ("--column ward=A,,B --epsilon 1 --plan", "an empty value"),
        ("--column ward=A,A --epsilon 1 --plan", "a value twice"),
        ("--column ward=A,(other) --epsilon 1 --plan", "(other)"),
        ("--column ward=A --column ward=B --epsilon 1 --plan", "twice"),
        ("--column ward=A --person ward --epsilon 1 --plan", "twice"),
        ("--column a=0:1e3:1 --epsilon 1 --plan --most-each 2", "--person"),
        ("--column a=0:999:1 --column b=0:1000:1 --epsilon 1 --plan", "1001000 cells"),
        ("--column ward=A --epsilon 1", "or --plan"),
        ("--column ward=A --epsilon 1 --data T --seed 3", "can be subtracted"),
        ("--column ward=A --epsilon 1 --data T --simulate --ledger L", "--ledger"),
        ("--column ward=A --epsilon 1 --plan --counts C", "--counts"),
        ("--column ward=A --epsilon 0 --plan", "--epsilon"),
        ("--column ward=A --epsilon 1 --data none.csv", "none.csv"),
    ],
)
def test_bad_options_are_refused(options: str, said: str) -> None:
    assert_refused(run(*options.split()), said)


def test_no_value_of_a_record_is_refused_and_broken_lines_are_not_shown(tmp_path: Path) -> None:
    path = tmp_path / "T.csv"
    path.write_text("age\nsecret\nnan\ninf\n\n-inf\n1e400\n0\n" + '""\n')
    cells, people = read_cells("--data", str(path), [CountedColumn.of("--column", "age=0:10:5")])
    assert cells.tolist() == [2, 2, 2, 2, 2, 0, 2] and people is None
    path.write_text("age,pay\n\n,77777\n41\n")
    found = run("--data", str(path), *AGE, "--epsilon", "1", "--simulate")
    assert_refused(found, "has 1 fields in line 4, but 2 in the first")
    assert "77777" not in found.stderr and "41" not in found.stderr
    path.write_text("age\n")
    assert run("--data", str(path), *AGE, "--epsilon", "1", "--simulate").exit_code == 0  # no records are counts of 0


def test_edges_are_exact_decimals_and_each_number_is_in_one_cell() -> None:
    column = CountedColumn.of("--column", "x=-0.3:0.3:0.1")
    assert column.edges == (-0.3, -0.2, -0.1, 0.0, 0.1, 0.2, 0.3)
    assert column.cells[0] == "[-0.3, -0.2)" and column.cells[-2:] == ("[0.2, 0.3]", OTHER)
    texts = ["-0.3", "-0.31", "0.1", "0.09999", "0.2", "0.3", "3e-1", "0.30000001", "x", ""]
    assert column.places(texts).tolist() == [0, 6, 4, 3, 5, 5, 5, 6, 6, 6]
    with pytest.raises(InvalidArgumentError):
        CountedColumn.of("--column", "x=")


def test_parquet_tables_are_counted(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.table({"w": ["A", None, "B"], "x": [0.5, 1.0, None], "n": [1, 2, 3]}), tmp_path / "T")
    columns = [CountedColumn.of("--column", text) for text in ("x=0:1:1", "w=A", "n=1,2")]
    cells, _ = read_cells("--data", str(tmp_path / "T"), columns)
    assert cells.tolist() == [0, 4, 11]


def test_the_report_says_what_is_protected(table: str) -> None:
    words = " ".join(run("--plan", "--column", "ward=A", "--person", "who", "--epsilon", "1").stdout.split())
    assert "one person (column 'who'), add-or-remove-one" in words and "the first 1 in the table" in words
    shown = " ".join(run("--data", table, "--column", "age=0:150:1", "--epsilon", "1", "--simulate").stdout.split())
    assert "Noisy counts of the first 100 of 151 cells" in shown and "one record, add-or-remove-one" in shown


@pytest.mark.parametrize("rule", ["other", "category", "drop"])
def test_records_without_a_value_follow_the_rule(rule: Any, tmp_path: Path) -> None:
    """Of six records one has no age, one has a text for an age, and one has no region."""
    path = tmp_path / "T.csv"
    path.write_text("id,age,region\na,1,north\nb,,north\nc,old,north\nd,7,\ne,12,mars\nf,7,north\n")
    plan = Histogram.calibrated(
        [CountedColumn.of("--column", text) for text in ("age=0:10:5", "region=north,south")],
        epsilon=1.0,
        delta=0.0,
        adjacency=ADD,
        missing=rule,
    )
    counts = {cell: count for cell, count in zip(plan.cells(), plan.exact(str(path)).tolist(), strict=True) if count}
    low, high = "[0, 5)", "[5, 10]"
    expected = {(low, "north"): 1, (high, "north"): 1, (OTHER, OTHER): 1}
    if rule == "category":
        assert counts == expected | {("(missing)", "north"): 2, (high, "(missing)"): 1}
    elif rule == "drop":
        assert counts == expected
    else:
        assert counts == expected | {(OTHER, "north"): 2, (high, OTHER): 1}
    person = evolve(plan, person="id", counts=BoundedHistogram(plan.counts.partitions, most_partitions=1))
    assert person.exact(str(path)).tolist() == plan.exact(str(path)).tolist()


def test_a_cell_for_missing_values_is_in_the_result_and_can_not_be_there_twice(table: str) -> None:
    words = ["--plan", "--epsilon", "1", "--missing", "category"]
    found = result_of(*words, "--column", "region=north,south")
    assert found["columns"][0]["cells"] == ["north", "south", "(missing)", OTHER] and found["missing"] == "category"
    assert_refused(run(*words, "--column", "region=north,(missing)"), "(missing)")
