"""Tests of ``hockeystick verify`` and of ``--certificate``: files, signatures, exit status."""

from __future__ import annotations

import json
from pathlib import Path

import command_line
import pytest

from hockeystick.accounting import AccountantGraph, Gaussian, Laplace, chain

pytest.importorskip("flint")
GRAPH = AccountantGraph().source("people").release("mean", Gaussian(5.0), reads=["people"])
UNIT = ("--privacy-unit", "one row")


def keys(folder: Path) -> tuple[Path, Path]:
    ed25519 = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ed25519")
    forms = pytest.importorskip("cryptography.hazmat.primitives.serialization")
    key = ed25519.Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
    private, public = folder / "private.pem", folder / "public.pem"
    private.write_bytes(key.private_bytes(forms.Encoding.PEM, forms.PrivateFormat.PKCS8, forms.NoEncryption()))
    public.write_bytes(key.public_key().public_bytes(forms.Encoding.PEM, forms.PublicFormat.SubjectPublicKeyInfo))
    return private, public


@pytest.mark.statistical
def test_a_signed_certificate_goes_from_account_to_verify(tmp_path: Path) -> None:
    private, public = keys(tmp_path)
    graph, file, verdict = tmp_path / "graph.json", tmp_path / "c.json", tmp_path / "verdict.json"
    graph.write_text(GRAPH.to_json(), encoding="utf-8")
    made = command_line.run("account", graph, "--delta", "1e-6", "--certificate", file, *UNIT, "--sign", private)
    assert made.exit_code == 0 and file.exists() and (tmp_path / "c.json.sig").exists(), made.stderr

    found = command_line.run("verify", file, "--key", public, "--json", verdict)
    assert found.exit_code == 0 and found.stdout.startswith("verified: 8 points") and "signed by key" in found.stdout
    content = json.loads(verdict.read_text(encoding="utf-8"))
    assert content["verdict"] == "verified" and all(point["width"] < 1e-6 for point in content["points"])
    command_line.assert_refused(command_line.run("verify", file), "needs a key")  # a signature lies beside it
    (tmp_path / "c.json.sig").unlink()
    command_line.assert_refused(command_line.run("verify", file, "--key", public), "--signature", "no such file")
    assert command_line.run("verify", file, "--quick").exit_code == 0
    file.write_bytes(file.read_bytes().replace(b"one row", b"one Row"))
    command_line.assert_refused(command_line.run("verify", file), "digest")


def test_what_is_not_decided_ends_with_3_and_what_is_refuted_with_1(tmp_path: Path) -> None:
    from hockeystick_verify import documents

    file = tmp_path / "c.json"
    graph = AccountantGraph().source("d").release("r", chain(Laplace(9.0), 2), reads=["d"])
    file.write_text(graph.guarantee().certificate(privacy_unit="a row").to_json(), encoding="utf-8")
    found = command_line.run("verify", file, "--quick", "--json", "-")
    assert found.exit_code == 3 and json.loads(found.stdout.split("\n}\n")[0] + "}")["not_covered"] == ["Chain"]

    content = GRAPH.guarantee().certificate(privacy_unit="a row").content()
    content["curve"][content["headline"]]["epsilon"] = 0.5
    content["digest"] = documents.digest(content)
    file.write_text(documents.canonical(content), encoding="utf-8")
    lowered = command_line.run("verify", file, "--quick")
    assert lowered.exit_code == 1 and lowered.stdout.startswith("refuted: δ(0.5) is at least")


def test_options_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    graph, file = tmp_path / "graph.json", tmp_path / "c.json"
    graph.write_text(GRAPH.to_json(), encoding="utf-8")
    account = ("account", graph, "--delta", "1e-6")
    command_line.assert_refused(command_line.run(*account, "--certificate", file), "--privacy-unit")
    command_line.assert_refused(command_line.run(*account, *UNIT), "need --certificate")
    command_line.assert_refused(
        command_line.run(*account, "--certificate", graph, *UNIT), "which the result would replace"
    )
    sign = ("--certificate", file, *UNIT, "--sign", tmp_path / "none.pem")
    command_line.assert_refused(command_line.run(*account, *sign), "--sign")
    command_line.assert_refused(command_line.run("verify", tmp_path / "none.json"), "CERTIFICATE", "no such file")
    assert not file.exists()


def test_the_checker_alone_has_the_same_exit_status(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from hockeystick_verify.__main__ import main

    file = tmp_path / "c.json"
    file.write_text(GRAPH.guarantee().certificate(privacy_unit="a row").to_json(), encoding="utf-8")
    assert main([str(file), "--quick"]) == 0 and capsys.readouterr().out.startswith("verified: the headline alone")
    assert main([str(file), "--quick", "--json"]) == 0 and json.loads(capsys.readouterr().out)["quick"] is True
    assert main([str(tmp_path / "none.json")]) == 2 and "error" in capsys.readouterr().err
