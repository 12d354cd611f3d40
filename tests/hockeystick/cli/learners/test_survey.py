"""Tests of ``hockeystick survey``: a whole survey through files, in rounds, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import command_line
import numpy as np
import pytest
from command_line import assert_refused

from hockeystick.accounting import Adjacency, DurableLedger, PureFilter


def run(*words: object) -> Any:
    return command_line.run("survey", *words)


def result_of(*words: object) -> dict[str, Any]:
    found: dict[str, Any] = command_line.result_of("survey", *words)
    return found


def done(*words: object) -> None:
    found = run(*words)
    assert found.exit_code == 0, found.output


@pytest.mark.parametrize("model", ["local", "trusted"])
def test_a_survey_through_files(model: str, tmp_path: Path) -> None:
    asked, values, text = tmp_path / "R.json", tmp_path / "V.txt", tmp_path / "M.bin"
    plan = result_of(
        "ask", "--categories", "red,blue", "--epsilon", 20, "--clients", 40, "--model", model, "--round", asked
    )
    assert plan["mode"] == "plan" and plan["epsilon"] <= 20.0 and plan["rounds"] == 1 and plan["message_bytes"] > 18
    values.write_text("\n".join(["red"] * 30 + ["pink"] * 10))
    done("answer", "--round", asked, "--values", values, "--most-epsilon", 20, "--simulate", "--message", text)
    assert len(text.read_bytes()) == 40 * plan["message_bytes"]
    found = result_of("count", "--round", asked, "--messages", text, "--messages", text, "--simulated")
    assert found["mode"] == "simulation" and found["answered"] == 40
    assert found["refused"] == {"the client has answered": 40}
    assert {row[0]: row[1] for row in found["answers"]} == pytest.approx(
        {"red": 0.75, "blue": 0, "(other)": 0.25}, abs=1e-3
    )


def test_a_client_answers_once_by_its_own_ledger_and_within_its_limit(tmp_path: Path) -> None:
    asked, text, place = tmp_path / "R.json", tmp_path / "M.bin", tmp_path / "L.db"
    done("ask", "--mean", "0:10", "--epsilon", 1, "--clients", 5, "--round", asked)
    DurableLedger.create(place, PureFilter(1.5, adjacency=Adjacency.LOCAL))
    words = ["answer", "--round", asked, "--number", 2, "--value", "7.5", "--ledger", place, "--message", text]
    assert_refused(run(*words, "--most-epsilon", 0.5), "most_epsilon")
    done(*words, "--most-epsilon", 1)
    size = len(text.read_bytes())
    assert size == 19
    assert_refused(run(*words, "--most-epsilon", 1), "is left")
    found = result_of("count", "--round", asked, "--messages", text)
    assert found["mode"] == "release" and found["answered"] == 1


def test_words_take_rounds(tmp_path: Path) -> None:
    first, second, values, text = (tmp_path / name for name in ("R.json", "R2.json", "V.txt", "M.bin"))
    ask = ["ask", "--words", "abc:2", "--share", 0.2, "--epsilon", 20, "--clients", 400, "--round", first]
    assert result_of(*ask)["rounds"] == 2
    words = np.random.default_rng(1).permutation(["ab", "c"] * 200)
    values.write_text("\n".join(words))
    answer = ["--values", values, "--most-epsilon", 20, "--simulate", "--message", text]
    done("answer", "--round", first, *answer)
    count = ["count", "--messages", text, "--simulated"]
    assert_refused(run(*count, "--round", first), "--next")
    assert result_of(*count, "--round", first, "--next", second)["round"] == 1
    done("answer", "--round", second, *answer)
    found = result_of(*count, "--round", second)
    assert {row[0] for row in found["answers"]} == {"ab", "c"} and found["detectable"] < 0.4 and found["complete"]
    assert_refused(run(*count, "--round", first, "--ledger", tmp_path / "L.db"), "client's own")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("ask", "--epsilon", 1, "--clients", 9, "--round", "R.json"), "give one of"),
        (("ask", "--mean", "0:x", "--epsilon", 1, "--clients", 9, "--round", "R.json"), "LOW:HIGH"),
        (("ask", "--mean", "0:1", "--share", 0.5, "--epsilon", 1, "--clients", 9, "--round", "R.json"), "--words"),
        (("ask", "--words", "abc", "--epsilon", 1, "--clients", 9, "--round", "R.json"), "ALPHABET"),
        (("answer", "--round", "no.json", "--value", "x", "--most-epsilon", 1, "--message", "M"), "--number"),
        (
            (
                "answer",
                "--round",
                "no.json",
                "--number",
                1,
                "--value",
                "x",
                "--seed",
                1,
                "--most-epsilon",
                1,
                "--message",
                "M",
            ),
            "--simulate",
        ),
        (("count", "--round", "no.json", "--messages", "M"), "no.json"),
    ],
)
def test_bad_words_are_refused(words: tuple[object, ...], said: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    assert_refused(run(*words), said)
    assert not list(tmp_path.iterdir())
