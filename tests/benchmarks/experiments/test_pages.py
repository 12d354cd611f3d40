"""Tests of the frame of the experiments: every experiment is on its page of docs/, and results survive an
interruption."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from benchmark_scripts import benchmark
from benchmark_scripts import experiment_script as script

ROOT = Path(__file__).parents[3]
command, frame = script("command"), benchmark("frame")


@pytest.mark.parametrize("name", command.NAMES)
def test_every_experiment_is_on_its_page_and_holds(name: str) -> None:
    page = (ROOT / "docs" / command.PAGES[name.split("_")[0]]).read_text(encoding="utf-8")
    part = page[page.index(f"<!-- {name} -->") : page.index(f"<!-- /{name} -->")]
    assert f"Written by `python -m benchmarks.experiments {name} --write`." in part
    assert ": NO." not in part and "| --- |" in part
    assert callable(script(f"{command.NAMES[name]}.{name}").experiment)


def test_an_experiment_is_run_by_its_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert command.main(["nobody"]) == 2 and "lazy_rates" in capsys.readouterr().out
    module = script("lazy.lazy_rates")
    monkeypatch.setattr(module, "experiment", lambda cells: frame.Report("a table", {"it is so": True}))
    assert command.main(["lazy_rates", "--work", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "a table\n\nholds: it is so\n"


def test_a_check_that_fails_is_an_exit_status(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- trial -->\n<!-- /trial -->\n")
    for holds in (True, False):
        report = frame.Report(
            (frame.markdown("a", [[1.5]]), "text"), {"it is so": holds}, lambda f: f.subplots(), "Nothing."
        )
        given = ["--write", "--work", str(tmp_path / "work")]
        status = frame.experiment("trial", lambda cells, r=report: r, given, page=page, sources=())
        assert status == (0 if holds else 1)
        assert ("DOES NOT HOLD: it is so" in capsys.readouterr().out) is not holds
        text = page.read_text()
        assert "| 1.5 |\n\ntext\n\n![Nothing.](figures/trial.svg)\n\n" in text
        assert f"- it is so: {'yes' if holds else 'NO'}.\n\nWritten by" in text
    picture = (tmp_path / "figures" / "trial.svg").read_text()
    assert picture == frame.svg(report.draw)  # the same text every time
    assert "<svg" in picture


def test_only_the_text_between_the_markers_is_replaced() -> None:
    page = "before\n<!-- a -->\nold\n<!-- /a -->\nbetween\n<!-- b -->\n<!-- /b -->\n"
    new = frame.replaced(page, "a", r"\1 new")
    assert new == page.replace("old\n", "\n\\1 new\n\n")
    assert frame.replaced(new, "a", r"\1 new") == new
    with pytest.raises(ValueError, match="markers"):
        frame.replaced(page, "c", "new")


# --- results ---------------------------------------------------------------------------------------------------------


def test_results_are_kept_until_their_sources_change(tmp_path: Path) -> None:
    file, computed = tmp_path / "kept.jsonl", []

    def compute(x: int) -> dict[str, Any]:
        computed.append(x)
        return {"value": math.inf, "pair": (0.1, True)}

    first = frame.Cells(file, "a")
    assert first.one(compute, x=1) == first.one(compute, x=1) == {"value": math.inf, "pair": [0.1, True]}
    with file.open("a") as out:
        out.write('[1]\n{"key": "interrup')
    again = frame.Cells(file, "a")
    assert again.knows({"x": 1}, compute) and not again.knows({"x": 2}, compute)
    assert again.one(compute, x=1)["pair"] == [0.1, True] and computed == [1]
    again.one(compute, x=2)  # on a line of its own, after the interrupted one
    assert frame.Cells(file, "a").knows({"x": 2}, compute)
    frame.Cells(file, "b").one(compute, x=1)
    frame.Cells().one(compute, x=1)
    assert computed == [1, 2, 1, 1]


def absolute(x: float, sign: int = 1) -> dict[str, float]:
    return {"abs": sign * abs(x)}


def other(x: float, sign: int = 1) -> dict[str, float]:
    return {"x": x}


def test_results_of_many_settings(tmp_path: Path) -> None:
    """In order, each computed once, and not confused with another function's."""
    cells = frame.Cells(tmp_path / "kept.jsonl", "a")
    cells.one(other, x=1, sign=-1)
    found = cells.each(absolute, [3, -1, 2, 3], sign=-1)
    assert list(found.items()) == [(3, {"abs": -3}), (-1, {"abs": -1}), (2, {"abs": -2})]
    assert cells.each(other, [(1, -1), (-1, -1)]) == {(1, -1): {"x": 1}, (-1, -1): {"x": -1}}
    again = frame.Cells(tmp_path / "kept.jsonl", "a")
    assert again.all([{"x": -1, "sign": -1}, {"x": 3.0}], absolute, "numbers") == [{"abs": -1}, {"abs": 3.0}]


def test_results_by_several_processes(tmp_path: Path) -> None:
    keys = [{"x": x} for x in range(5)]
    cells = frame.Cells(tmp_path / "kept.jsonl", "a", workers=2)
    cells.one(dict, x=1)
    assert cells.all(keys, dict, "numbers") == keys
    assert frame.Cells(tmp_path / "kept.jsonl", "a").all(keys, dict, "numbers") == keys


def endless() -> dict[str, Any]:
    while True:
        pass


def test_a_process_that_takes_too_long_is_ended() -> None:
    assert frame.apart(endless, seconds=1, memory=4 * 2**30) == {"error": "over 1 CPU s", "cpu": 1.0}
    assert frame.apart(lambda: {"x": 1.0}, seconds=5, memory=4 * 2**30)["x"] == 1.0
    assert frame.apart(lambda: {"x": 1 / 0}, seconds=5, memory=4 * 2**30)["error"] == "ZeroDivisionError"


def test_a_digest_is_of_files_and_of_folders() -> None:
    assert frame.digest("accounting") == frame.digest("accounting") != frame.digest("accounting/losses")
    assert frame.digest("benchmarks/frame.py") not in (frame.digest(), frame.digest("benchmarks"))


# --- tables ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (math.inf, "∞"),
        (0.0, "0"),
        (1.0, "1"),
        (0.12345678, "0.1235"),
        (123456.7, "123457"),
        (1e-6, "1e-6"),
        (1.234e9, "1.23e9"),
    ]
    + [(7, "7"), (True, "yes"), ("x", "x"), (-1234.56, "-1235")],
)
def test_numbers_in_tables(value: object, text: str) -> None:
    assert frame.shown(value) == text


def test_tables() -> None:
    table = frame.markdown("a | b", [[1.5, "x|y"]])
    assert table == frame.markdown(["a", "b"], [[1.5, "x|y"]]) == "| a | b |\n| --- | --- |\n| 1.5 | x\\|y |"
    assert frame.Row(("a", "b"), True).markdown() == "| PASS | a | b |" and frame.Row(("a",)).markdown() == "|  | a |"
    assert [frame.within("a", x, 2.0).met for x in (1.0, 3.0)] == [True, False]
    assert frame.within("a", 3.0, 2.0, "/s", at_least=True) == frame.Row(("a", "3 /s", "at least 2 /s"), True)


def test_a_comparison_that_misses_a_limit_is_an_exit_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(frame, "DOCS", tmp_path)
    monkeypatch.setattr("sys.argv", ["x", "--quick", "--write"])
    for met in (True, None, False):
        rows = lambda quick, met=met: [frame.Row((f"quick: {quick}",), met)]  # noqa: E731
        assert frame.compare("page.md", "| | a |", rows, "# Title\n\n{table}\n", quick="") == (met is False)
        text = (tmp_path / "page.md").read_text()
        assert (
            text.startswith("# Title\n\n")
            and "quick: True |" in text
            and text.strip() in (f"# Title\n\n{capsys.readouterr().out.strip()}")
        )
