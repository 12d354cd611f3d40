"""``hockeystick verify``: checks a certificate in ball arithmetic, by code that shares nothing with the accountant."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from hockeystick._cli.frame.destinations import output_file, write
from hockeystick._cli.frame.ending import working
from hockeystick._cli.frame.option_types import FileName
from hockeystick._cli.frame.shared_options import POSITIVE, flag, option
from hockeystick._cli.frame.streams import print_bytes


@click.command("verify")
@click.argument("certificate", metavar="CERTIFICATE.json", type=FileName())
@flag("--quick", "Check the headline alone, within seconds.")
@option("--seconds S", POSITIVE, "Processor time after which the rest is not decided.", default=300.0)
@option("--key FILE", FileName(), "A public key (PEM) that must have signed the file; may be repeated.", multiple=True)
@option("--signature FILE", FileName(), "The detached signature. Default with --key: CERTIFICATE.json.sig.")
@option("--json FILE", FileName("output"), "Write the verdict as JSON ('-': to the standard output).", dest="json_file")
def verify_command(certificate: str, json_file: str | None, **given: Any) -> int:
    """Check a certificate without trusting the accountant that wrote it.

    The graph in the file is read anew, and δ at each certified ε is enclosed in ball arithmetic, with every rounding,
    truncation and tail inside the ball. The verdict is "verified" if the upper end is at most δ, "refuted" if the lower
    end is above, and "not decided" otherwise, with the reason. Events that the checker has no rule for are named.

    \b
    Examples:
      hockeystick account graph.json --delta 1e-6 --certificate c.json --privacy-unit "one row"
      hockeystick verify c.json
      hockeystick verify c.json --quick
      hockeystick verify c.json --key public.pem

    It needs the extra "verify". "python -m hockeystick_verify" is the same checker without the rest of hockeystick.

    \b
    Exit status:
      0  verified
      1  refuted
      2  the file can't be read, has another schema, or a wrong digest or signature
      3  not decided
    """
    path = None if json_file in (None, "-") else output_file("--json", str(json_file))
    from hockeystick.accounting.optional_packages import require
    from hockeystick_verify.documents import UnusableError

    require("flint", "hockeystick verify", extra="verify")
    content = _read("CERTIFICATE.json", certificate)
    beside = f"{certificate}.sig"
    signature = given["signature"] or (beside if given["key"] or Path(beside).exists() else None)
    if signature is not None:
        require("cryptography", "a signature", extra="verify")
    signed = None if signature is None else _read("--signature", signature)
    keys = [_read("--key", key) for key in given["key"]]
    from hockeystick_verify.verdicts import check

    try:
        with working(patience=1.0) as progress:
            progress("checking")
            verdict = check(content, quick=given["quick"], seconds=given["seconds"], signature=signed, keys=keys)
    except UnusableError as error:
        raise click.ClickException(f"{certificate}: {error}") from None
    text = json.dumps(verdict.to_json(), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    if path is not None:
        write(path, text)
    print_bytes(text.encode() if json_file == "-" else ("\n".join(verdict.lines()) + "\n").encode())
    return verdict.exit_status()


def _read(argument: str, file: str) -> bytes:
    from hockeystick.accounting.files import reading
    from hockeystick_verify.documents import MOST_BYTES

    try:
        return reading.read_bytes(file, most=MOST_BYTES)
    except reading.UnreadableFileError as error:
        raise error.about(argument, file, "give a file that hockeystick account or openssl has made") from None
