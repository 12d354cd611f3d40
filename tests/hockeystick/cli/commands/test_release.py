"""Tests of ``hockeystick release``: plans, simulations, releases, written files, refused and hidden values."""

from __future__ import annotations

import csv
import json
import re
from functools import partial
from pathlib import Path

import command_line
import numpy as np
import pytest
from command_line import assert_refused

import hockeystick as hs
import hockeystick._runs.releases.release
from hockeystick._files.release_table import read_columns
from hockeystick.accounting import Adjacency, DurableLedger, InvalidArgumentError, PureFilter
from hockeystick.learners.smoothed.measures.public_column import PublicColumn
from hockeystick.learners.smoothed.queries.query_release import QueryRelease
from hockeystick.mechanisms import choose_counts
from hockeystick.mechanisms.randomness.noise import SimulationNoise

N = 3000
AGE = ["--column", "age", "--low", "0", "--high", "120", "--points", "121"]
TARGET = ["--sigma", "0.25", "--epsilon", "2", "--rounds", "6", "--vacuous"]

run, result_of = partial(command_line.run, "release"), partial(command_line.result_of, "release")


@pytest.fixture
def table(tmp_path: Path) -> str:
    rng = np.random.default_rng(0)
    rows = [f"{age:.1f},{pay:.3f}" for age, pay in zip(rng.normal(45, 12, N), rng.gamma(2.0, 1.0, N), strict=True)]
    (tmp_path / "T.csv").write_text("age,pay\n" + "\n".join(rows))
    return str(tmp_path / "T.csv")


def test_a_simulation_is_the_librarys_and_writes_its_files(table: str, tmp_path: Path) -> None:
    answers, rows = tmp_path / "A.csv", tmp_path / "S.csv"
    options = ["--simulate", "--seed", "5", "--answers", str(answers), "--synthetic", str(rows), "--rows", "50"]
    found = result_of("--data", table, *AGE, *TARGET, *options)

    column = PublicColumn(name="age", low=0.0, high=120.0, points=121)
    of = QueryRelease.calibrated(
        [column], queries="thresholds", records=N, sigma=0.25, epsilon=2.0, rounds=6, vacuous=True
    )
    data = read_columns("--data", table, ["age"])
    known = of.release(data, noise=SimulationNoise(np.random.default_rng(5)))
    assert found["published"]["measurements"] == known.law.transcripts.measurements[0].tolist()
    measured = known.measured()
    assert (found["measured_error"], found["measured_error_on_cover"]) == (measured.error, measured.cover)
    assert found["error_bound"] > found["measured_error"] and found["measured_error_failure"] == pytest.approx(0.05)
    assert found["epsilon"] == of.guarantee().epsilon(0.0).upper <= 2.0
    assert (found["mode"], found["seed"], found["records"]) == ("simulation", 5, N)
    with answers.open() as file:
        heads, *told = list(csv.reader(file))
    assert heads == ["age at least", "share"] and len(told) == found["parameters"]["cover_size"]
    np.testing.assert_array_equal([float(row[1]) for row in told], known.cover_answers())
    synthetic = read_columns("--data", str(rows), ["age"])
    assert synthetic.shape == (50, 1) and (synthetic == np.rint(synthetic)).all()


def test_the_last_law_has_a_bound_once_it_is_released(table: str) -> None:
    """The plan has no bound, and the run has a measured one; the report states both."""
    options = [*AGE, *TARGET, "--output", "last", "--replay", "2"]
    assert result_of(*options, "--plan", "--records", str(N))["error_bound"] is None
    found = result_of("--data", table, *options, "--simulate")
    assert found["error_bound"] is None and 0.0 < found["measured_error_on_cover"] <= found["measured_error"] < 1.0
    words = " ".join(run("--data", table, *options, "--simulate").stdout.split())
    assert "measured bound" in words and "without the assumption" in words and "none for the last" in words


# --- counts of one column's cells ------------------------------------------------------------------------------------


def test_one_column_needs_no_assumption_and_errs_within_its_bound(table: str, tmp_path: Path) -> None:
    """One simulation with a fixed seed; the bound fails with probability 0.05 over seeds."""
    answers, rows, page = tmp_path / "A.csv", tmp_path / "S.csv", tmp_path / "P.html"
    files = ["--answers", str(answers), "--synthetic", str(rows), "--rows", "80", "--private-report", str(page)]
    found = result_of("--data", table, *AGE, "--epsilon", "1", "--simulate", "--seed", "3", *files)
    known = choose_counts(cells=121, records=N, epsilon=1.0)
    assert known.bound.share is not None
    assert found["learner"] == "cell-counts" and found["error_bound"] == known.bound.share < 0.02
    assert found["epsilon"] == 1.0 and found["adjacency"] == "replace-one"
    assert [one["name"] for one in found["candidates"]] == [one.name for one in known.candidates]
    ages = np.clip(np.rint(read_columns("--data", table, ["age"])[:, 0]), 0, 120)
    told = np.loadtxt(answers, delimiter=",", skiprows=1)
    true = np.array([(ages >= at).mean() for at in told[:, 0]])
    assert told[:, 0].tolist() == list(range(121)) and np.abs(told[:, 1] - true).max() <= found["error_bound"]
    mechanism, sums = known.mechanism, np.array(found["published"]["noisy_sums"])
    assert told[:, 1] == pytest.approx(1.0 - mechanism.answers(sums).cumulative[:-1] / N, abs=1e-12)
    synthetic = read_columns("--data", str(rows), ["age"])
    assert synthetic.shape == (80, 1) and (synthetic == np.rint(synthetic)).all()
    assert "NOT PRIVATE" in page.read_text()


def test_cells_of_a_continuum_are_chosen_by_public_sizes(table: str) -> None:
    options = ["--data", table, "--column", "pay", "--low", "0", "--high", "12", "--epsilon", "1", "--simulate"]
    found = result_of(*options)

    def known(cells: int) -> float:
        return choose_counts(cells=cells, records=N, epsilon=1.0).candidates[0].error / N + 1.0 / cells

    assert found["parameters"]["cells"] == min((16, 32, 64, 128, 256, 512, 1024), key=known) == 256
    fewer = result_of(*options, "--cells", "16", "--queries", "intervals", "--failure", "0.1")
    assert fewer["parameters"]["cells"] == 16 and fewer["error_bound_failure"] == 0.1
    report = run(*options).stdout
    assert "every answer within" in report and "nothing about the records" in report and "Candidates" in report


def test_smooth_mwem_is_compared_where_smoothness_is_declared() -> None:
    plan = ["--plan", "--records", "3000", *AGE, "--epsilon", "1", "--sigma", "0.25"]
    both = result_of(*plan)
    assert both["learner"] == "cell-counts" and both["compared"]["cells"] == both["error_bound"]
    other = result_of(*plan, "--method", "mwem")
    assert (
        other["learner"] == "query-release" and other["error_bound"] == both["compared"]["mwem"] > both["error_bound"]
    )


def test_a_release_of_cells_charges_a_ledger_first(table: str, tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    DurableLedger.create(path, PureFilter(1.0, adjacency=Adjacency.REPLACE_ONE))
    options = ["--data", table, *AGE, "--epsilon", "1", "--ledger", str(path)]
    found = result_of(*options)
    assert found["simulated"] is False and len(DurableLedger.open(path).charges()) == 1
    assert_refused(run(*options, "--json", "-"), "needs epsilon=1, but 0 is left")
    assert len(DurableLedger.open(path).charges()) == 1


# --- Smooth MWEM -----------------------------------------------------------------------------------------------------


@pytest.mark.statistical
def test_published_files_never_contain_the_true_answers(table: str, tmp_path: Path) -> None:
    """The owner's page is a file of its own, marked; result and report are the same with and without it."""
    page = tmp_path / "P.html"
    options = ["--data", table, *AGE, *TARGET, "--simulate"]
    plain, beside = run(*options, "--json", "-"), run(*options, "--json", "-", "--private-report", str(page))
    assert plain.stdout == beside.stdout and "NOT private" in beside.stderr
    text = page.read_text()
    assert "NOT PRIVATE" in text and "true and released" in text and "<svg" in text
    assert "true" not in json.loads(plain.stdout) and "largest_error" not in plain.stdout


def test_a_plan_reads_nothing_and_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hockeystick._files.symbol_tables.open", None, raising=False)
    columns = [*AGE[:-2], "--column", "pay", "--low", "0", "--high", "10"]
    options = ["--plan", "--records", "1e6", "--queries", "rectangles", "--gamma", "0.5", *TARGET]
    found = result_of(*columns, *options)
    assert found["mode"] == "plan" and "published" not in found and found["records"] == 10**6
    assert found["error_bound"] >= 1.0 and found["error_bound_failure"] == pytest.approx(0.05)
    words = " ".join(run(*columns, *options).stdout.split())
    assert "which is vacuous" in words and "is public" in words and "not an assumption of the guarantee" in words


def test_a_release_takes_secure_noise_and_is_recorded(
    table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def secure() -> SimulationNoise:
        asked.append(1)
        return SimulationNoise(np.random.default_rng(1))

    monkeypatch.setattr(hockeystick._runs.releases.release, "ReleaseNoise", secure)
    DurableLedger.create(tmp_path / "book", PureFilter(3.0, adjacency=Adjacency.REPLACE_ONE))
    options = ["--data", table, *AGE, *TARGET, "--ledger", str(tmp_path / "book")]
    found = run(*options)
    assert found.exit_code == 0 and asked == [1] and "was not saved" in found.stderr
    assert [charge.note for charge in DurableLedger.open(tmp_path / "book").charges()] == [
        "hockeystick release (simulated)"
    ]
    assert_refused(run(*options), "needs epsilon=2, but 1 is left")


def test_an_unsuitable_ledger_is_refused_before_the_records_are_read(tmp_path: Path) -> None:
    """Replace-one hides no record's presence, so that a ledger for add-or-remove-one would be charged too little."""
    book = tmp_path / "book"
    DurableLedger.create(book, PureFilter(3.0))
    options = ["--data", str(tmp_path / "no-such.csv"), *AGE, *TARGET, "--ledger"]
    assert_refused(run(*options, str(book)), "--ledger", "add-or-remove-one", "--adjacency replace-one")
    assert not DurableLedger.open(book).charges()
    assert_refused(run(*options, str(tmp_path / "none")), "no such ledger")
    assert_refused(run(*options, str(tmp_path)), "is not a file")
    assert [one.name for one in tmp_path.iterdir()] == ["book"]


def test_a_public_reference_is_the_base_measure(table: str, tmp_path: Path) -> None:
    public = tmp_path / "R.csv"
    public.write_text("age\n" + "\n".join(str(20 + i % 60) for i in range(600)))
    found = result_of("--data", table, *AGE[:-2], "--reference", str(public), *TARGET, "--simulate")
    assert found["columns"][0]["base_measure"] == "reference" and found["parameters"]["cover_size"] == 61


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--column age --low 0 --high 120 --sigma 0.2 --epsilon 1", "or --plan"),
        ("--column age --low 0 --sigma 0.2 --epsilon 1 --plan --records 9", "--high"),
        ("--column age --column pay --low 0 --high 1 --sigma 0.2 --epsilon 1 --data T", "give one for each"),
        ("--column age --low 0 --high 1 --points 3 --points 4 --sigma 0.2 --epsilon 1 --data T", "--points"),
        ("--column age --low 5 --high 1 --sigma 0.2 --epsilon 1 --plan --records 9", "not above low"),
        ("--column age --low nan --high 1 --sigma 0.2 --epsilon 1 --plan --records 9", "finite"),
        ("--column age --low 0 --high 120 --epsilon 1 --plan --records 9 --method mwem", "--sigma"),
        ("--column age --low 0 --high 120 --epsilon 1 --plan --records 9 --rounds 4", "--sigma"),
        ("--column age --low 0 --high 120 --epsilon 1 --plan --records 9 --queries rectangles", "--sigma"),
        ("--column age --low 0 --high 120 --epsilon 1 --plan --records 9 --cells 4 --points 9", "--points"),
        ("--column age --low 0 --high 120 --epsilon 1 --plan --records 9 --cells 4 --sigma 0.2", "--sigma"),
        (
            "--column age --low 0 --high 120 --epsilon 1 --plan --records 9 --cells 4 --method mwem --sigma 0.2",
            "--cells",
        ),
        ("--column age --low 0 --high 120 --epsilon 1 --plan --records 9 --method cells --rounds 4", "--rounds"),
        ("--column age --low 0 --high 120 --epsilon 1 --plan --records 9 --method cells --queries rectangles", "cells"),
        ("--column age --low 0 --high 120 --epsilon 1 --plan --records 9 --cells 64", "too few"),
        ("--column age --low 0 --high 120 --sigma 0.2 --epsilon 1 --plan", "--records"),
        ("--column age --low 0 --high 120 --sigma 0.2 --epsilon 1 --data T --seed 3", "can be subtracted"),
        ("--column age --low 0 --high 120 --sigma 0.2 --epsilon 1 --data T --rows 3", "--synthetic"),
        ("--column age --low 0 --high 120 --sigma 0.2 --epsilon 1 --data T --simulate --ledger L", "--ledger"),
        ("--column age --low 0 --high 120 --sigma 0.2 --epsilon 1 --plan --records 9 --answers A", "--answers"),
        ("--column age --low 0 --high 120 --sigma 0.2 --epsilon 1 --plan --records 30 --method mwem", "too few"),
        ("--column age --low 0 --high 1 --points 9 --reference R --sigma 0.2 --epsilon 1 --data T", "--reference"),
    ],
)
def test_incompatible_options_are_refused(options: str, said: str) -> None:
    assert_refused(run(*options.split()), said)


@pytest.mark.parametrize("bad", ["secret", "nan", ""])
def test_records_without_a_number_are_refused_and_not_shown(tmp_path: Path, bad: str) -> None:
    path = tmp_path / "T.csv"
    path.write_text(f"age,pay\n41,1\n{bad},77777\n")
    found = run("--data", str(path), *AGE, *TARGET, "--simulate")
    assert_refused(found, "'age'")
    assert not re.search("secret|nan|77777|41", found.stderr.replace(str(path), ""))


def test_columns_that_are_not_read_are_named(tmp_path: Path) -> None:
    path = tmp_path / "T.csv"
    path.write_text("age,count,pay\n" + "41,2,1\n" * 60)
    said = "warning: --data has columns that are not read: 'count', 'pay'\n"
    assert said in run("--data", str(path), *AGE, *TARGET, "--simulate").stderr
    whole = [*AGE, "--column", "count", "--low", "0", "--high", "9", "--column", "pay", "--low", "0", "--high", "9"]
    assert "not read" not in run("--data", str(path), *whole, *TARGET, "--simulate").stderr


def test_tables_are_read(tmp_path: Path) -> None:
    path = tmp_path / "T.csv"
    path.write_text("a,b\n1,inf\n2e3,-0.5\n")
    np.testing.assert_array_equal(read_columns("--data", str(path), ["b", "a"]), [[np.inf, 1.0], [-0.5, 2000.0]])
    path.write_text("a\n")
    with pytest.raises(InvalidArgumentError, match="no records"):
        read_columns("--data", str(path), ["a"])


def test_parquet_tables_have_numbers_of_all_kinds(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.table({"a": [1, 2], "b": [0.1, float("inf")]}), tmp_path / "T")
    np.testing.assert_array_equal(read_columns("--data", str(tmp_path / "T"), ["a", "b"]), [[1.0, 0.1], [2.0, np.inf]])


# --- marginals -------------------------------------------------------------------------------------------------------

CELLS = ["--marginals", "2", "--column", "age=0:90:30", "--column", "region=north,south", "--column", "sex=f,m"]


@pytest.fixture
def people(tmp_path: Path) -> str:
    rng = np.random.default_rng(1)
    age, region, sex = rng.integers(0, 100, 600), rng.choice(["north", "south", ""], 600), rng.choice(["f", "m"], 600)
    rows = [",".join(map(str, row)) for row in zip(age, region, sex, strict=True)]
    (tmp_path / "P.csv").write_text("age,region,sex\n" + "\n".join(rows))
    return str(tmp_path / "P.csv")


def test_marginals_are_the_librarys_and_write_their_files(people: str, tmp_path: Path) -> None:
    answers, rows = tmp_path / "A.csv", tmp_path / "S.csv"
    options = ["--simulate", "--seed", "5", "--answers", str(answers), "--synthetic", str(rows), "--rows", "40"]
    found = result_of("--data", people, *CELLS, "--epsilon", "1", "--delta", "1e-6", *options)
    cells: dict[str, list[object]] = {"age": [0, 30, 60, 90], "region": ["north", "south"], "sex": ["f", "m"]}
    known = hs.release_marginals(people, cells, marginals=2, epsilon=1.0, delta=1e-6, seed=5)
    assert found["published"]["noisy_sums"] == np.asarray(known.output).tolist()
    assert found["error_bound_records"] == known.bound and found["epsilon"] <= 1.0 and found["mode"] == "simulation"
    assert [one["name"] for one in found["candidates"]] == [one.name for one in known.of.choice.candidates]
    with answers.open() as file:
        heads, *told = list(csv.reader(file))
    assert heads == ["column 1", "value 1", "column 2", "value 2", "count", "deviation", "within"]
    assert len(told) == 4 * 3 + 4 * 3 + 3 * 3 and told[1][:4] == ["age", "[0, 30)", "region", "south"]
    table = known.table("age", "region")
    assert [float(row[4]) for row in told[:12]] == pytest.approx(table.ravel())
    assert float(told[0][5]) == pytest.approx(known.deviation("age", "region"), rel=1e-5)
    with rows.open() as file:
        names, *synthetic = list(csv.reader(file))
    assert names == ["age", "region", "sex"] and len(synthetic) == 40
    assert {row[1] for row in synthetic} <= {"north", "south", "(other)"}
    assert all(row[0] == "" or 0 <= int(row[0]) < 90 for row in synthetic)


def test_missing_values_are_a_category_and_cells_cover_all_records(people: str) -> None:
    cells: dict[str, list[object]] = {"region": ["north", "south"], "age": [0, 30, 60, 90]}
    found = hs.release_marginals(people, cells, marginals=1, epsilon=200.0, seed=1)
    assert found.table("region").sum() == pytest.approx(600) and found.table("region")[2] > 150
    frame = {"region": ["north", None, "east"] * 50, "age": [float("nan"), 10.0, 90.0] * 50}
    framed = hs.release_marginals(frame, cells, marginals=1, epsilon=200.0, seed=1)
    assert framed.table("region").round().tolist() == [50, 0, 100]
    assert framed.table("age").round().tolist() == [50, 0, 50, 50]


def test_a_release_of_marginals_charges_once_and_hides_the_records(people: str, tmp_path: Path) -> None:
    ledger, page = str(tmp_path / "L"), tmp_path / "R.html"
    DurableLedger.create(ledger, PureFilter(1.5, adjacency=Adjacency.REPLACE_ONE))
    found = result_of("--data", people, *CELLS, "--epsilon", "1", "--ledger", ledger, "--html", str(page))
    assert found["mode"] == "release" and "seed" in found and page.exists()
    refused = run("--data", people, *CELLS, "--epsilon", "1", "--ledger", ledger)
    assert_refused(refused, "needs epsilon=1, but 0.5 is left")
    plan = result_of("--plan", "--records", "600", *CELLS, "--epsilon", "1")
    assert plan["error_bound"] == found["error_bound"] and "published" not in plan


@pytest.mark.parametrize(
    "options",
    [
        ["--marginals", "2", "--column", "age=0:90:30"],
        ["--marginals", "1", "--column", "age"],
        ["--marginals", "1", "--column", "age=0:90:30", "--column", "age=0:90:45"],
        ["--marginals", "1", "--column", "age=0:90:30", "--low", "0", "--high", "90"],
        ["--marginals", "1", "--column", "age=0:90:30", "--sigma", "0.5"],
        ["--marginals", "1", "--column", "age=0:90:30", "--method", "cells"],
        ["--marginals", "1", "--column", "age=0:90:30", "--queries", "intervals"],
        ["--marginals", "1", "--column", "age=0:90:30", "--output", "last"],
        ["--column", "age", "--low", "0"],
    ],
)
def test_marginals_and_queries_are_not_mixed(options: list[str]) -> None:
    assert_refused(run("--plan", "--records", "600", "--epsilon", "1", *options))


@pytest.mark.parametrize("cells", [[], ["a", "a"], ["a", ""], ["(other)"], [1.0, 0.0], [0.0], ["a", 1], "abc", 3])
def test_cells_that_are_none_are_refused(cells, people: str) -> None:
    with pytest.raises(InvalidArgumentError):
        hs.release_marginals(people, {"age": cells}, marginals=1, epsilon=1.0)


def test_a_record_without_a_number_counts_as_the_stated_one_or_is_refused(tmp_path: Path) -> None:
    file, full = tmp_path / "T.csv", tmp_path / "F.csv"
    file.write_text("id,age\n" + "\n".join(["a,10", "b,", "c,old", "d,nan", "e,30"] * 40))
    full.write_text("age\n" + "\n".join(["10", "50", "50", "50", "30"] * 40))
    words = ["--column", "age", "--low", 0, "--high", 100, "--cells", 10, "--epsilon", 5, "--simulate", "--seed", 3]
    found = result_of("--data", file, *words, "--missing", 50)
    other = result_of("--data", full, *words)
    assert found["published"] == other["published"] and found["records"] == 200 and found["missing"] == 50.0
    assert any("counts as 50" in sentence for sentence in found["assumptions"])
    assert other["missing"] is None and any("must not be published" in one for one in other["assumptions"])
    assert_refused(run("--data", file, *words), "has no 'age' in line 3")
    for rule in ("drop", "category", "often"):
        assert_refused(run("--data", file, *words, "--missing", rule), "--missing")
