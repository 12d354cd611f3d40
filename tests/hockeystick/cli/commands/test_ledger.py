"""Tests of ``hockeystick ledger``: made, charged, shown, verified, exported and moved; refused in one line each."""

from __future__ import annotations

import hashlib
import json
from functools import partial
from pathlib import Path

import command_line
import pytest
from command_line import assert_refused, strict_json

from hockeystick import events
from hockeystick.accounting import Adjacency, DurableLedger, GDPFilter, PureFilter, RDPFilter, ZCDPFilter
from hockeystick.audits import EvidenceLedger

run = partial(command_line.run, "ledger")
TARGET = ["--epsilon", "3", "--delta", "1e-6"]


@pytest.fixture
def place(tmp_path: Path) -> str:
    found = run("create", tmp_path / "budget.db", *TARGET)
    assert found.exit_code == 0 and "RDPFilter under add-or-remove-one" in found.stdout
    assert "ε = 3 at δ = 1e-06" in found.stdout
    return str(tmp_path / "budget.db")


@pytest.mark.parametrize(
    ("options", "made"),
    [
        (["--epsilon", "3"], PureFilter(3.0)),
        ([*TARGET], RDPFilter.for_target(3.0, 1e-6)),
        ([*TARGET, "--filter", "gaussian"], GDPFilter.for_target(3.0, 1e-6)),
        (
            [*TARGET, "--filter", "zcdp", "--adjacency", "replace-one"],
            ZCDPFilter.for_target(3.0, 1e-6, adjacency=Adjacency.REPLACE_ONE),
        ),
    ],
)
def test_every_filter_can_be_made(tmp_path, options, made):
    assert run("create", tmp_path / "l.db", *options).exit_code == 0
    assert DurableLedger.open(tmp_path / "l.db").budget() == made


def test_charges_are_those_of_the_library_and_shown(place):
    found = run("charge", place, "Gaussian(40)", "--count", "3", "--note", "weekly [red]mean\x1b[2J", "--who", "batch")
    assert found.exit_code == 0 and found.stdout.startswith("charge 1, digest ")
    nested = "PoissonSampled(0.01, Gaussian(noise_multiplier=2))"
    assert run("charge", place, nested).exit_code == 0
    one, two = DurableLedger.open(place).charges()
    assert (one.event, one.count, one.who) == (events.Gaussian(40.0), 3, "batch")
    assert two.event == events.PoissonSampled(0.01, events.Gaussian(2.0))

    shown = run("show", place)
    assert shown.exit_code == 0 and "2 charges" in shown.stdout and "[red]mean" in shown.stdout
    assert "\x1b" not in shown.stdout and "ε = 3 at δ = 1e-06" in shown.stdout
    assert (
        f"ε = {DurableLedger.open(place).budget().epsilon(1e-4):.6g} at" in run("show", place, "--delta", "1e-4").stdout
    )
    assert "2 charges, the last 1:" in run("show", place, "--last", "1").stdout

    content = strict_json(run("show", place, "--json", "-").stdout)
    assert content == strict_json(run("export", place).stdout)
    assert [charge["number"] for charge in content["charges"]] == [1, 2]
    left = DurableLedger.open(place).budget().remaining()
    assert {name: amounts["left"] for name, amounts in content["budgets"].items()} == left

    verified = run("verify", place)
    assert verified.exit_code == 0 and f"all holds: charge 2, digest {two.digest}" in verified.stdout


def test_a_file_takes_the_export(place, tmp_path):
    assert run("export", place, "--json", tmp_path / "out.json").exit_code == 0
    assert json.loads((tmp_path / "out.json").read_text())["filter"] == "RDPFilter"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["charge", "Gaussian(0.1)"], "is left"),
        (["charge", "Gaussian(-1)"], "noise_multiplier"),
        (["charge", "os.system(1)"], "no such event"),
        (["charge", "Gaussian"], "is not an event"),
        (["charge", "Gaussian(1"], "is not an event"),
        (["charge", "Gaussian(1, 2, 3, 4, 5)"], "is not an event"),
        (["charge", "__import__('os')"], "no such event"),
        (["create", "--epsilon", "1"], "exists"),
        (["create", "--epsilon", "1", "--delta", "1e-6", "--filter", "pure"], "--delta"),
        (["create", "--epsilon", "1", "--filter", "zcdp"], "needs --delta"),
        (["show", "--json", "no/such/folder.json"], "--json"),
    ],
)
def test_what_cannot_be_done_is_refused_and_charges_nothing(place, words, said):
    command, *rest = words
    assert_refused(run(command, place, *rest), said)
    assert not DurableLedger.open(place).charges()


def test_a_damaged_or_missing_ledger_ends_with_2(tmp_path):
    (tmp_path / "text").write_text("no ledger" * 99)
    for command in ("show", "verify", "export"):
        assert_refused(run(command, tmp_path / "text"), "not a database")
        assert_refused(run(command, tmp_path / "none"), "no such ledger")


def test_an_old_ledger_is_named_and_moved(tmp_path):
    old = tmp_path / "old.jsonl"
    old.write_text('{"digest": "x"}\n')
    assert_refused(run("show", old), "hockeystick ledger import")
    assert_refused(run("import", old, tmp_path / "new.db"), "line 1 is damaged")
    assert not (tmp_path / "new.db").exists()


def test_evidence_of_an_earlier_version_is_moved_once(tmp_path):
    body = {"alpha": 1e-3, "evidence": []}
    digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
    old, new = tmp_path / "evidence.json", tmp_path / "evidence.db"
    old.write_text(json.dumps({"kind": "hockeystick evidence", "schema": 1, "digest": digest, "body": body}))
    assert_refused(run("import", old, "postgresql://host/db"), "evidence ledger is a file")
    found = run("import", old, new)
    assert found.exit_code == 0 and "evidence on 0 keys, at level 0.001" in found.stdout
    assert not old.exists() and EvidenceLedger(new, alpha=1e-3).evidence() == ()
    assert_refused(run("import", old, tmp_path / "more.db"), "give its text file")
