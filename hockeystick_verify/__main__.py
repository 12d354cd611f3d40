"""``python -m hockeystick_verify CERTIFICATE.json``: the checker by itself, where hockeystick is not wanted.

Exit status: 0 verified, 1 refuted, 2 the file can't be checked, 3 not decided.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from hockeystick_verify.documents import MOST_BYTES, UnusableError


def contents(path: str) -> bytes:
    """Returns the bytes of a file, of which no more than the largest accepted number is read.

    Raises:
      UnusableError: it can't be read.
    """
    try:
        with open(path, "rb") as file:
            return file.read(MOST_BYTES + 1)
    except OSError as error:
        raise UnusableError(f"{path}: {error.strerror}") from None


def main(arguments: Sequence[str] | None = None) -> int:
    """Checks a certificate, prints the verdict and returns the exit status."""
    parser = argparse.ArgumentParser("hockeystick_verify", description="Check a certificate of hockeystick.")
    parser.add_argument("certificate")
    parser.add_argument("--quick", action="store_true", help="check the headline alone")
    parser.add_argument("--seconds", type=float, default=300.0, help="after which the rest is not decided")
    parser.add_argument("--key", action="append", default=[], help="a public key (PEM) that must have signed the file")
    parser.add_argument("--signature", help="the signature file; default: CERTIFICATE.sig")
    parser.add_argument("--json", action="store_true", help="print the verdict as JSON")
    given = parser.parse_args(arguments)
    try:
        return _checked(given)
    except UnusableError as error:
        print(f"hockeystick_verify: error: {error}", file=sys.stderr)
        return 2


def _checked(given: argparse.Namespace) -> int:
    content = contents(given.certificate)
    beside = f"{given.certificate}.sig"
    signature = given.signature or (beside if given.key or Path(beside).exists() else None)
    try:
        from hockeystick_verify.verdicts import check

        verdict = check(
            content,
            quick=given.quick,
            seconds=given.seconds,
            signature=None if signature is None else contents(signature),
            keys=[contents(key) for key in given.key],
        )
    except ModuleNotFoundError as error:
        raise UnusableError(f"the checker needs {error.name}: pip install python-flint cryptography") from None
    print(json.dumps(verdict.to_json(), indent=1) if given.json else "\n".join(verdict.lines()))
    return verdict.exit_status()


if __name__ == "__main__":
    raise SystemExit(main())
