"""Tests that the command line does not lose, mix up or reveal inputs, outputs, checkpoints and private numbers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from command_line import assert_refused, run, strict_json

import hockeystick as hs
from hockeystick._cli.frame.option_types import FileName
from hockeystick._cli.program import cli
from hockeystick.accounting import AccountantGraph, Adjacency, GraphError, InvalidArgumentError
from hockeystick.accounting.files.result_files import check_writable, write_atomically
from hockeystick.audits import Answers, RealRecords
from hockeystick.audits.catalogue.lazy.sample_sizes import _best_event
from hockeystick.audits.claims.claim import Claim
from hockeystick.audits.drawing import draws
from hockeystick.audits.drawing.workers import Workers
from hockeystick.learners.divergence.public_coins import draw_queries
from hockeystick.learners.federated.made_up_streams import UniformLosses

TARGET = """
def correct(data, rng, runs):
    return data + rng.laplace(size=runs)

def leaky(data, rng, runs):
    return data + 0.1 * rng.laplace(size=runs)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Holds a target, a graph, a table and losses, and is the working directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(TARGET)
    graph = AccountantGraph(Adjacency.REPLACE_ONE).source("people")
    graph = graph.release("mean", hs.events.Laplace(1.0), reads=["people"])
    (tmp_path / "g.json").write_text(graph.to_json())
    (tmp_path / "T.csv").write_text("age\n" + "\n".join(str(20 + i % 60) for i in range(50)))
    (tmp_path / "R.csv").write_text("symbol,count\na,5\nb,7\n")
    (tmp_path / "C.csv").write_text("symbol,client\na,1\nb,2\n")
    np.save(tmp_path / "d0.npy", np.zeros(()))
    np.save(tmp_path / "L.npy", np.full((20, 3), 0.5))
    return tmp_path


def program(
    *words: str, shell: str = "", coding: str | None = None, stdin: Any = subprocess.DEVNULL
) -> subprocess.CompletedProcess[bytes]:
    """The program in a process of its own, with streams as the shell gives them."""
    command = [sys.executable, "-c", "from hockeystick._cli.program import main; main()", *words]
    environment = {**os.environ, **({} if coding is None else {"PYTHONIOENCODING": coding})}
    if shell:
        command = ["bash", "-c", f'"$@" {shell}', "bash", *command]
    return subprocess.run(command, capture_output=True, env=environment, stdin=stdin, check=False)


# --- inputs are not replaced -----------------------------------------------------------------------------------------

AGE = "--column age --low 0 --high 120 --sigma 0.2 --epsilon 1"


@pytest.mark.parametrize(
    ("words", "kept", "option"),
    [
        ("account g.json --delta 0 --json g.json", "g.json", "GRAPH.json"),
        ("account g.json --delta 0 --json ./link.json", "g.json", "GRAPH.json"),
        ("graph g.json --mermaid g.json", "g.json", "GRAPH.json"),
        ("calibrate g.json --epsilon 1 --graph g.json", "g.json", "MECHANISM|GRAPH.json"),
        ("report g.json --html g.json", "g.json", "RESULT.json"),
        ("audit mine.py:correct --d0 d0.npy --d1 1 --epsilon 1 --json d0.npy", "d0.npy", "--d0"),
        ("audit mine:correct --d0 0 --d1 1 --epsilon 1 --markdown mine.py", "mine.py", "MODULE:CALLABLE"),
        ("audit mine:correct --d0 0 --d1 1 --epsilon 1 --checkpoint ck --json ck", None, "--checkpoint"),
        ("audit mine:correct --d0 0 --d1 1 --epsilon 1 --checkpoint ck --json ck.audit", None, "--checkpoint"),
        (f"release --data T.csv {AGE} --simulate --answers T.csv", "T.csv", "--data"),
        (f"release --data T.csv {AGE} --ledger book --json book", None, "--ledger"),
        (f"release --data T.csv {AGE} --ledger book --synthetic book-journal", None, "--ledger"),
        ("histogram --data T.csv --column age=0:9:1 --epsilon 1 --simulate --counts T.csv", "T.csv", "--data"),
        ("kl --reference R.csv --clients C.csv --epsilon 1 --json C.csv", "C.csv", "--clients"),
        ("kl --reference R.csv --clients C.csv --epsilon 1 --html R.csv", "R.csv", "--reference"),
        ("run lazy-experts --losses L.npy --epsilon 1 --delta 1e-6 --actions L.npy", "L.npy", "--losses"),
    ],
)
def test_no_result_overwrites_an_input_or_a_saved_file(folder: Path, words: str, kept: str | None, option: str) -> None:
    (folder / "link.json").symlink_to("g.json")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert_refused(run(*words.split()), f"is the file of {option}, which the result would replace")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert kept is None or kept in before


def test_the_catalogues_own_file_is_replaced_by_its_continuation() -> None:
    found = run("catalogue", "run", "zoo/none-such", "--json", "x.json", "--resume", "x.json")
    assert found.exit_code == 2 and "would replace" not in found.stderr


# --- outputs ---------------------------------------------------------------------------------------------------------


@pytest.mark.statistical
def test_pipes_and_devices_are_written_as_they_were_named(folder: Path) -> None:
    devices = ("--html", "/dev/stdout", "--markdown", "/dev/null")
    found = program("account", "g.json", "--delta", "0", *devices, shell="--json >(cat > piped; touch done)")
    assert found.returncode == 0, found.stderr
    assert found.stdout.startswith(b"<!doctype html>") and b"</html>" in found.stdout
    for _ in range(200):
        if (folder / "done").exists():
            break
        subprocess.run(["sleep", "0.05"], check=True)
    assert strict_json((folder / "piped").read_text())["epsilon_upper"] == 1.0


@pytest.mark.statistical
def test_a_file_that_also_takes_the_standard_output_is_refused(folder: Path) -> None:
    """Replacing it would leave the report in a file without a name."""
    found = program("account", "g.json", "--delta", "0", "--json", "out.json", shell="> out.json")
    assert found.returncode == 2 and b"give '-'" in found.stderr and (folder / "out.json").read_text() == ""


def test_unwritable_results_are_refused_before_the_work(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draws.Counter, "__call__", lambda *_: 1 / 0)
    arguments = ["audit", "mine:correct", "--d0", "0", "--d1", "1", "--epsilon", "1", "--samples", "2000"]
    for option, file in (("--checkpoint", "/nope/x"), ("--json", "/nope/x"), ("--checkpoint", str(folder))):
        assert_refused(run(*arguments, option, file), option)
    if sys.platform == "linux":
        with pytest.raises(InvalidArgumentError, match="not writable"):
            check_writable("--json", "/proc/x")  # whose permissions say otherwise to root
    long = folder / ("n" * 250)
    write_atomically(check_writable("--json", long), "text")
    assert long.read_text() == "text"


@pytest.mark.statistical
@pytest.mark.parametrize("option", ["--markdown", pytest.param("--html", marks=pytest.mark.deep), "--json"])
def test_machine_readable_output_is_always_utf_8(option: str) -> None:
    found = program("account", "g.json", "--delta", "0", option, "-", coding="ascii")
    assert found.returncode == 0 and b"\\u03b5" not in found.stdout.split(b'"curve"')[0]
    assert "ε" in found.stdout.decode("utf-8") or option == "--json"


@pytest.mark.statistical
def test_drawings_are_utf_8_too(folder: Path) -> None:
    found = program("graph", "g.json", "--delta", "0", "--svg", "-", coding="latin-1")
    assert "ε" in found.stdout.decode("utf-8")


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("words", "shell", "status", "said"),
    [
        ("--help", "> /dev/full", 2, b"No space left"),
        ("account g.json --delta 0", "> /dev/full", 2, b"No space left"),
        ("account g.json --delta 0 --json -", ">&-", 2, b"the standard output is closed"),
        ("account - --delta 0", "<&-", 2, b"the standard input is closed"),
    ],
)
def test_streams_that_are_full_or_closed_end_in_one_line(words: str, shell: str, status: int, said: bytes) -> None:
    found = program(*words.split(), shell=shell)
    assert found.returncode == status and said in found.stderr and b"Traceback" not in found.stderr
    assert len(found.stderr.splitlines()) <= 1


# --- checkpoints are of one target -----------------------------------------------------------------------------------


def interrupt(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.statistical
@pytest.mark.parametrize("searched", [False, True])
def test_a_checkpoint_is_of_one_function_as_it_was_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch, searched: bool
) -> None:
    """Half of the outputs would be another function's, and the verdict about neither."""

    def audit(target: str) -> Any:
        given = ["search", target, "--domain", "counts", "--adjacency", "add-or-remove-one"]
        given = given if searched else ["audit", target, "--d0", "0", "--d1", "1"]
        more = ["--epsilon", "1", "--samples", "40000", "--checkpoint", "kept"]
        return run(*given, *more)

    with monkeypatch.context() as patch:
        patch.setattr(draws.Counter, "__call__", interrupt)
        stopped = audit("mine:correct")
    assert stopped.exit_code == 130 and "resumes from kept" in stopped.stderr
    assert_refused(audit("mine:leaky"), "--checkpoint", "give the same target")
    (folder / "mine.py").write_text(TARGET.replace("+ rng", "+ 2 * rng"))
    assert_refused(audit("mine:correct"), "--checkpoint", "give the same target")
    (folder / "mine.py").write_text(TARGET)
    assert audit("mine:correct").exit_code == 0 and not list(folder.glob("kept*"))


def test_an_interruption_names_only_existing_files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draws.Draws, "choosing", interrupt)
    found = run("audit", "mine:correct", "--d0", "0", "--d1", "1", "--epsilon", "1", "--checkpoint", "kept")
    assert found.exit_code == 130 and "nothing was saved in kept yet" in found.stderr
    assert not (folder / "kept").exists()


# --- completion ------------------------------------------------------------------------------------------------------


def commands(group: click.Command, name: str = "") -> dict[str, click.Command]:
    """All commands below a group."""
    if not isinstance(group, click.Group):
        return {name: group}
    found: dict[str, click.Command] = {}
    for key, one in group.commands.items():
        found |= commands(one, f"{name} {key}".strip())
    return found


def test_every_option_that_takes_a_file_completes_its_name() -> None:
    """By this type a command knows which files it reads, too."""
    for name, command in commands(cli).items():
        for parameter in command.params:
            words = str(parameter.metavar)
            if "FILE" in words or ".json" in words or ".npy" in words or "MODULE" in words:
                assert isinstance(parameter.type, FileName), (name, parameter.opts)


# --- huge numbers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("account g.json --delta 0 --group 1e30", "--group"),
        ("account huge.json --delta 0", "huge.json: count="),
        (
            "run lazy-experts --plan --rounds 1e25 --experts 2 --batch 1 --eta 1 --fake-switch 0.1 --delta 1e-6",
            "too large",
        ),
        ("kl --reference R.csv --plan --population 9e15 --records-each 9e15 --epsilon 1", "--population"),
        (
            "kl --reference R.csv --plan --population 9 --records-each 9 --windows 9e15 --threshold 1 --epsilon 1",
            "records",
        ),
        ("run fed-svt --clients 9e15 --rounds 9 --experts 2 --epsilon 1 --adversary zero-expert", "clients="),
        ("run online-distribution --models half-uniform --experts 9e15 --rounds 9 --epsilon 1 --plan", "--experts"),
        ("audit mine:correct --d0 0 --d1 1 --epsilon 1 --samples 2000 --workers 999999999", "--workers"),
        ("audit mine:correct --d0 0 --d1 1 --epsilon 1 --samples 2000 --backend nope", "--backend"),
        ("catalogue run zoo/laplace* --samples 200 --backend nope", "--backend"),
    ],
)
def test_numbers_beyond_reason_and_unknown_backends_are_refused(folder: Path, words: str, said: str) -> None:
    plain = json.loads((folder / "g.json").read_text())
    plain["nodes"][1]["count"] = 10**30
    (folder / "huge.json").write_text(json.dumps(plain))
    assert_refused(run(*words.split()), said)


def test_the_library_refuses_numbers_beyond_reason() -> None:
    people = AccountantGraph().source("people")
    for made in (
        lambda: people.release("a", hs.events.Laplace(1.0), reads=["people"], count=10**30),
        lambda: AccountantGraph().source("people", size=10**30),
        lambda: people.release("a", hs.events.Laplace(1.0), reads=["people"]).guarantee(group=10**30),
        lambda: RealRecords(low=0.0, high=1.0, dimension=10**30),
        lambda: RealRecords(low=0.0, high=1.0, most=10**30),
        lambda: Answers(size=10**30),
        lambda: Workers(10**9),
        lambda: draw_queries([0.5, 0.5], 10**30, np.random.default_rng(1)),
        lambda: UniformLosses(clients=10**15, rounds=9, experts=2).blocks(np.random.default_rng(1)),
    ):
        with pytest.raises(InvalidArgumentError):
            made()
    many = people.release("a", hs.events.Laplace(1.0), reads=["people"])
    assert many.guarantee(group=10**15).epsilon(0.0).upper >= 1e15
    assert RealRecords(low=0.0, high=1.0, dimension=2.0).dimension == 2  # type: ignore[arg-type]


def test_a_claim_with_a_huge_epsilon_can_be_audited() -> None:
    from types import SimpleNamespace

    law: Any = SimpleNamespace(tails=lambda: (np.array([0.0, 0.5, 1.0]), np.array([0.0, 1e-300, 1.0])))
    assert _best_event(law, Claim(650.0)) is not None and _best_event(law, Claim(400.0, 0.6)) is None


# --- what was written elsewhere --------------------------------------------------------------------------------------


@pytest.mark.statistical
def test_a_damaged_result_is_refused_in_one_line(folder: Path) -> None:
    run("account", "g.json", "--delta", "0", "--json", "whole.json")
    plain = json.loads((folder / "whole.json").read_text())
    for name, value in (("method", [1]), ("worst_move", [1]), ("assumptions", [1]), ("epsilon_upper", {})):
        (folder / "bad.json").write_text(json.dumps({**plain, name: value}))
        assert_refused(run("report", "bad.json", "--html", "page.html"), "bad.json", "can't be shown")


def test_a_key_that_stands_twice_is_refused(folder: Path) -> None:
    """One of the two values would count, and the other would be read by people."""
    text = (folder / "g.json").read_text().replace('"count": 1', '"count": 1, "count": 100')
    (folder / "twice.json").write_text(text)
    assert_refused(run("account", "twice.json", "--delta", "0"), "repeated key 'count'")
    with pytest.raises(GraphError, match="repeated key"):
        AccountantGraph.from_json(text)


# --- private numbers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "values", "place"),
    [
        ("lazy-experts --delta 1e-6", [[0.5, 0.25], [1.7182, 0.5], [0.5, 0.5]], "losses[1, 0]"),
        ("lazy-experts --delta 1e-6", [[0.5, 0.71828], [float("nan"), 0.5], [0.5, 0.5]], "losses[1, 0]"),
        ("lazy-convex --delta 1e-6", [[0.5, 0.25], [2.71828, 0.5], [0.5, 0.5]], "losses.lipschitz[1]"),
        ("lazy-convex --delta 1e-6", [[0.5, 0.71828], [float("nan"), 0.5], [0.5, 0.5]], "not finite"),
        ("fed-svt", [[[0.5, 0.25], [3.71828, 0.5]]], "losses[0, 1, 0]"),
        ("fed-stoch", [[[0.5, 0.71828], [float("nan"), 0.5]]], "--losses"),
    ],
)
def test_errors_give_the_location_of_private_numbers_and_never_the_numbers(
    command: str, values: Any, place: str
) -> None:
    np.save("private.npy", np.array(values))
    found = run("run", *command.split(), "--losses", "private.npy", "--epsilon", "1")
    assert_refused(found, "--losses='private.npy'", place)
    assert "718" not in found.stderr and "0.25" not in found.stderr and "array" not in found.stderr


def test_labels_are_private_too() -> None:
    np.save("labels.npy", np.array([0, 1, 77, 2]))
    options = "--models half-uniform --experts 4 --labels labels.npy --epsilon 1"
    found = run("run", "online-distribution", *options.split())
    assert_refused(found, "--labels='labels.npy'")
    assert "77" not in found.stderr
