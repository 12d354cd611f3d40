"""``hockeystick audit`` of recorded outputs, and of claims that are curves."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from audit_commands import SURE, folder_of_targets
from command_line import assert_refused, run, strict_json


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working directory with a module of targets."""
    with folder_of_targets(tmp_path, monkeypatch) as made:
        yield made


def record(folder: Path, scale: float, runs: int = 2000) -> tuple[str, str]:
    rng = np.random.default_rng(1)
    for name, value in ("d0.npy", 0.0), ("d1.npy", 1.0):
        np.save(folder / name, value + rng.laplace(scale=scale, size=runs))
    return "d0.npy", "d1.npy"


def test_recorded_outputs_are_audited_without_data_sets(folder: Path) -> None:
    """Laplace noise of scale 1/2 at ε = 1: refuted with probability 1 - 1e-9 at 2,000 outputs."""
    result = run("audit", "--recorded", *record(folder, 0.5), "--epsilon", "1", "--seed", "1", "--json", "-")

    found = strict_json(result.stdout)
    assert result.exit_code == 1 and found["outcome"] == "refuted" and found["samples"] == 2000
    assert (found["target"], found["d0"], found["d1"]) == ("recorded outputs", "d0.npy", "d1.npy")
    assert "2,000 on each data set" in result.stderr and "independent runs" in result.stderr


def test_a_correct_record_is_not_refuted(folder: Path) -> None:
    """By chance with probability 1e-6."""
    assert run("audit", "--recorded", *record(folder, 1.0), "--epsilon", "1", "--seed", "1", *SURE).exit_code == 0


SERVICE = """import json, random, sys
data, runs, scale = json.load(open(sys.argv[1])), int(sys.argv[2]), float(sys.argv[4])
noise = random.Random(sys.argv[3])
for _ in range(runs): print(round(sum(data) + scale * (noise.expovariate(1) - noise.expovariate(1)), 6))
"""


@pytest.mark.statistical
def test_a_program_is_audited_on_files_and_on_inline_data(folder: Path) -> None:
    """Half the noise at ε = 1: refuted with probability 1 - 1e-9 at 2,000 outputs."""
    (folder / "count.py").write_text(SERVICE)
    (folder / "d1.txt").write_text("[1]")
    command = f"{sys.executable} -S count.py {{data}} {{runs}} {{seed}} 0.5"
    fixed = ["--epsilon", "1", "--samples", "2000", "--seed", "1", "--workers", "2", "--json", "-"]

    result = run("audit", "--command", command, "--d0", "[]", "--d1", "d1.txt", *fixed)

    found = strict_json(result.stdout)
    assert result.exit_code == 1 and found["target"] == command and found["d1"] == "d1.txt"
    assert all("seed" not in warning for warning in found["warnings"])


def test_a_program_that_fails_ends_with_one_line(folder: Path) -> None:
    command = f"{sys.executable} -S -c 'import sys; sys.exit(int(open(sys.argv[1]).read()))' {{data}}"
    words = ["--command", command, "--d0", "5", "--d1", "0", "--epsilon", "1", "--samples", "40"]

    assert_refused(run("audit", *words), "CommandError: the program ended with status 5")
    assert run("audit", *words, "--exceptions-as-output", "--confidence", "0.6", "--seed", "1").exit_code == 1


def test_a_web_service_is_audited(folder: Path) -> None:
    """Half the noise at ε = 1: refuted with probability 1 - 1e-9 at 2,000 outputs."""
    (folder / "h.json").write_text('{"X-Key": "secret"}')
    asked: list[tuple[str, bool]] = []

    class Service(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            read = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append((self.headers["X-Key"], "seed" in read))
            body = json.dumps((sum(read["data"]) + rng.laplace(scale=0.5, size=read["runs"])).tolist()).encode()
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    rng = np.random.default_rng(1)
    with HTTPServer(("127.0.0.1", 0), Service) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/count"
        words = ["audit", "--url", url, "--d0", "[]", "--d1", "[1]", "--epsilon", "1", "--samples", "2000"]
        result = run(*words, "--headers", "h.json", "--unseeded", "--batch", "500", "--seed", "1")
        server.shutdown()

    assert result.exit_code == 1 and set(asked) == {("secret", False)} and "secret" not in result.output
    assert "source of random numbers" in result.stderr and url in result.stdout


def test_a_query_is_audited_on_a_copy_of_the_database(folder: Path) -> None:
    """0 is an output on d0 alone, in a third of the runs."""
    with contextlib.closing(sqlite3.connect(folder / "people.db", isolation_level=None)) as made:
        made.execute("CREATE TABLE people (age INTEGER)")
    words = ["audit", "--sql", "sqlite:///people.db", "--epsilon", "1", "--samples", "500", "--seed", "1"]
    words += ["--query", "SELECT count(*) + abs(random() % 3) FROM people"]
    before = (folder / "people.db").read_bytes()

    result = run(*words, "--insert", 'people={"age": 97}', "--json", "-")

    found = strict_json(result.stdout)
    assert result.exit_code == 1 and (found["d0"], found["d1"]) == ("sqlite:///people.db", "1 row inserted")
    assert (folder / "people.db").read_bytes() == before
    assert_refused(run(*words, "--delete", 'people={"age": 97}'), "matches 0 rows of the table 'people'")
    assert_refused(run(*words, "--insert", "people=97"), "--insert=<str>: is not a table with a row")
    assert_refused(run(*words), "--insert=None: is missing")
    assert_refused(run(*words[:-2], "--insert", 'people={"age": 97}'), "Missing option '--query'")


def test_a_sequential_audit_stops_early_and_has_a_report_of_its_own(folder: Path) -> None:
    """Laplace noise of scale 1/2 at ε = 1 falls within a few hundred outputs; the limit is 10,000."""
    words = [
        "audit",
        "mymech:half_noise",
        "--d0",
        "0",
        "--d1",
        "1",
        "--epsilon",
        "1",
        "--seed",
        "1",
        "--samples",
        "1e4",
    ]
    result = run(*words, "--sequential", "--json", "-", "--html", "page.html")

    found = strict_json(result.stdout)
    assert result.exit_code == 1 and found["command"] == "audit --sequential" and found["stopped_at"] < 5000
    assert found["alpha"] == pytest.approx(0.001) and "Sequential privacy audit" in (folder / "page.html").read_text()
    (folder / "v.json").write_text(result.stdout)
    assert "whenever the audit stops" in run("report", "v.json").stdout
    assert_refused(run(*words, "--sequential", "--workers", "2"), "--workers can't be combined with --sequential")


STATISTICS = """
def one_half(data, rng):
    return data + rng.laplace(scale=0.5)

def low(output):
    return output <= 0

def any_output(output):
    return output <= 50
"""


@pytest.mark.parametrize("more", [["--samples", "2000"], ["--sequential", "--samples", "4000"]])
@pytest.mark.parametrize("target", ["mymech:half_noise", "mymech:one_half"])
@pytest.mark.every(2)
def test_a_statistic_is_all_that_the_audit_looks_at(more: list[str], target: str, folder: Path) -> None:
    """The event "at most 0" shows half the noise at ε = 1 at once, and "at most 50" never."""
    module = folder / "mymech.py"
    module.write_text(f"{module.read_text()}{STATISTICS}")
    words = ["audit", target, "--d0", "0", "--d1", "1", "--epsilon", "1", "--seed", "1", *more]

    assert run(*words, "--statistic", "mymech:low").exit_code == 1
    assert run(*words, "--statistic", "mymech:any_output").exit_code == 0
    assert_refused(run(*words, "--statistic", "mymech:hi"), "--statistic='mymech:hi': mymech has no 'hi'")
    assert_refused(run(*words, "--statistic", "likelihood-ratio"), "log_likelihood_ratio")


REFUSED = [
    (["--epsilon", "1"], "name what to audit: give MODULE:CALLABLE or one of --recorded"),
    (["mymech:one", "--recorded", "d0.npy", "d1.npy", "--epsilon", "1"], "name one system only"),
    (["--recorded", "d0.npy", "d1.npy", "--epsilon", "1", "--json", "d1.npy"], "d1.npy"),
    (["mymech:one", "--d0", "1", "--d1", "1", "--claim", "c.json", "--json", "c.json"], "c.json"),
    (["--recorded", "d0.npy", "d1.npy"], "Missing option '--epsilon', or '--claim'"),
    (["--recorded", "d0.npy", "d1.npy", "--epsilon", "1", "--claim", "gdp:1"], "not both"),
    (["--recorded", "d0.npy", "d1.npy", "--epsilon", "1", "--d0", "1"], "--d0 can't be combined with --recorded"),
    (
        ["--recorded", "d0.npy", "d1.npy", "--epsilon", "1", "--checkpoint", "c"],
        "--checkpoint can't be combined with --recorded",
    ),
    (["--recorded", "d0.npy", "none.npy", "--epsilon", "1"], "--recorded='none.npy': there is no such file"),
    (["--recorded", "d0.npy", "few.npy", "--epsilon", "1"], "has 3 outputs left"),
    (["--recorded", "d0.npy", "d1.npy", "--claim", "gdp:x"], "--claim='gdp:x': is not a claim in words"),
    (["mymech:one", "--d0", "1", "--epsilon", "1"], "Missing option '--d1'"),
    (
        ["mymech:one", "--d0", "1", "--d1", "1", "--epsilon", "1", "--batch", "2"],
        "--batch can't be combined with MODULE",
    ),
    (["--command", "no-such {data}", "--d0", "1", "--d1", "1", "--epsilon", "1"], "there is no program 'no-such'"),
    (["--command", "cat", "--d0", "1", "--d1", "1", "--epsilon", "1", "--workers", "0"], "--workers=0: starts nothing"),
    (["--url", "ftp://x", "--d0", "1", "--d1", "1", "--epsilon", "1"], "--url='ftp://x': is not an address of http"),
    (["--url", "http://x", "--headers", "d0.npy", "--d0", "1", "--d1", "1", "--epsilon", "1"], "--headers='d0.npy'"),
    (["--command", "cat", "--rate", "3", "--d0", "1", "--d1", "1", "--epsilon", "1"], "--rate can't be combined"),
    (["--command", "cat", "--d0", "{", "--d1", "1", "--epsilon", "1"], "--d0='{': is neither JSON"),
]


@pytest.mark.parametrize(("args", "said"), REFUSED)
def test_what_names_no_audit_runs_nothing(args: list[str], said: str, folder: Path) -> None:
    record(folder, 1.0, 50)
    np.save(folder / "few.npy", np.array([3.0, 1.0, 2.0]))

    assert_refused(run("audit", *args), said)


def test_a_claimed_curve_is_tested_and_named(folder: Path) -> None:
    """At ε = 0.1 and δ = 1e-6, 0.02-Gaussian DP is far below Laplace noise of scale 1/2."""
    words: dict[str, Any] = {}
    for claim in "gdp:0.1", "gdp:3":
        result = run("audit", "--recorded", *record(folder, 0.5), "--claim", claim, "--seed", "1", *SURE, "--json", "-")
        words[claim] = strict_json(result.stdout)

    assert words["gdp:0.1"]["refuted"] and words["gdp:0.1"]["claim"] == "gdp:0.1"
    assert not words["gdp:3"]["refuted"] and words["gdp:3"]["delta"] == 1e-6
    (folder / "v.json").write_text(result.stdout)
    assert "gdp:3" in run("report", "v.json").stdout
