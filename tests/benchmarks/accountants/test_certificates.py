"""Tests of the campaign of random certificates: few of them here, and what the journal is for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.accountants import certificates

pytest.importorskip("flint")


def test_random_certificates_are_verified_and_the_journal_spares_the_second_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    journal = tmp_path / "journal.jsonl"
    given = ["--number", "3", "--first", "0", "--journal", str(journal)]
    assert certificates.drawn(5) == certificates.drawn(5) != certificates.drawn(6)
    assert certificates.main(given) == 0 and capsys.readouterr().out == "{'verified': 3}\n"
    monkeypatch.setattr(certificates, "verdict_of", lambda *_: pytest.fail("checked again"))
    assert certificates.main(given) == 0

    rows = [json.loads(line) for line in journal.read_text(encoding="utf-8").splitlines()]
    rows[1]["verdict"] = "refuted"
    journal.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    capsys.readouterr()
    assert certificates.main(given) == 1 and '"refuted"' in capsys.readouterr().out
