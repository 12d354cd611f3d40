"""``--certificate``, ``--privacy-unit`` and ``--sign``: a command's guarantee as a file that anyone can check."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from hockeystick._cli.frame.destinations import output_file, write
from hockeystick._cli.frame.option_types import Command, FileName, together
from hockeystick._cli.frame.shared_options import Given, need, option

if TYPE_CHECKING:
    from hockeystick.accounting import Guarantee

_LARGEST_KEY = 1 << 16


class Planned(NamedTuple):
    """The files of a certificate, and the key that signs it; None where there is none."""

    path: Path | None
    signature: Path | None
    key: bytes | None
    unit: str


def certificate_options() -> Callable[[Command], Command]:
    """The three options."""
    return together(
        option("--certificate FILE", FileName("output"), "Write a certificate, for 'hockeystick verify'."),
        option("--privacy-unit WORDS", click.STRING, "With --certificate: whose data one record is ('one row')."),
        option("--sign KEY", FileName(), "With --certificate: sign it by an Ed25519 key (PEM), into FILE.sig."),
    )


def planned(given: Given, *others: Path | None) -> Planned:
    """Returns the files of a certificate, after checking before the work starts that they can be written.

    Raises:
      click.UsageError: options that don't fit together.
      InvalidArgumentError: a file can't be written, or the key not read.
    """
    if given["certificate"] is None:
        if given["sign"] is not None or given["privacy_unit"] is not None:
            raise click.UsageError("--sign and --privacy-unit need --certificate")
        return Planned(None, None, None, "")
    need(given, "--certificate", "privacy_unit")
    path = output_file("--certificate", given["certificate"], *others)
    if given["sign"] is None:
        return Planned(path, None, None, given["privacy_unit"])
    from hockeystick.accounting.files import reading

    signature = output_file("--sign", f"{given['certificate']}.sig", path, *others)
    try:
        key = reading.read_bytes(given["sign"], most=_LARGEST_KEY)
    except reading.UnreadableFileError as error:
        raise error.about("--sign", given["sign"], "give a private key in PEM") from None
    return Planned(path, signature, key, given["privacy_unit"])


def write_certificate(plan: Planned, guarantee: Guarantee, delta: float) -> None:
    """Writes the certificate of a guarantee, and its signature, if they were asked for."""
    if plan.path is None:
        return
    certificate = guarantee.certificate(delta, privacy_unit=plan.unit)
    signed = None if plan.key is None else certificate.sign(plan.key)
    write(plan.path, certificate.to_json())
    if plan.signature is not None and signed is not None:
        write(plan.signature, signed)
