"""Certificates: a guarantee as a file that anyone can check with the independent checker, ``hockeystick_verify``.

The file holds the claim and the whole graph that it is about. The checker reads the graph and the claim, and none of
the numbers in between. Format: ``hockeystick/schemas/certificate.schema.json``.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import math
import os
import sys
import uuid
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

from attrs import field, frozen

from hockeystick.accounting import validate
from hockeystick.accounting.engines.best_bound import Bracket
from hockeystick.accounting.errors import GraphError, InvalidArgumentError
from hockeystick.accounting.graph.parts.drawn import GuaranteeLike
from hockeystick.accounting.numerics import rounded_text
from hockeystick.accounting.optional_packages import require
from hockeystick_verify import documents

SCHEMA = "hockeystick.certificate/1"
DELTAS = (0.0, 1e-12, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3)
"""The δ of every certificate's curve, besides the one that is asked for."""
NOT_COVERED = (
    "the time that computations take, their errors and their logs",
    "choices that were made by looking at the data before the first release",
    "copies of the data outside the graph",
)
"""The limits that a certificate states unless others are given."""
DIGITS = 5
SUBJECT = ("title", "description", "data_digest", "code_digest", "parameters_digest")


class WholeGraph(Protocol):
    """The graph of a guarantee."""

    def to_json(self) -> str:
        """Returns it as JSON text."""


class Certifiable(GuaranteeLike, Protocol):
    """The attributes and methods of a guarantee that a certificate takes."""

    @property
    def view(self) -> str | None:
        """The name of the threat model."""

    @property
    def graph(self) -> WholeGraph | None:
        """The graph, if it is that of a whole one."""

    def epsilon(self, delta: float, *, bracket: bool = False) -> Bracket:
        """Returns the least certified ε."""


@frozen
class Certificate:
    """A guarantee with the graph that it is about, as canonical text; see ``Guarantee.certificate``.

    Attributes:
      text: the JSON text, canonical (RFC 8785) and with a final line end.

    Raises:
      InvalidArgumentError: the text is not a certificate, or its digest is not that of its content.

    Example:
      >>> from hockeystick.accounting import AccountantGraph, Gaussian
      >>> graph = AccountantGraph().source("people").release("mean", Gaussian(5.0), reads=["people"], count=10)
      >>> certificate = graph.guarantee().certificate(1e-6, privacy_unit="all rows of one person")
      >>> certificate.epsilon, certificate.delta, certificate.digest[:7]
      (2.9217, 1e-06, 'sha256:')
    """

    text: str = field(repr=False)

    def __attrs_post_init__(self) -> None:
        content = self.content()
        if content.get("schema") != SCHEMA or content.get("digest") != documents.digest(content):
            raise InvalidArgumentError(
                "text", content.get("schema"), "isn't a certificate, or was changed", "write it anew"
            )

    def content(self) -> dict[str, Any]:
        """Returns the fields."""
        try:
            return documents.parsed(self.text.encode("utf-8"))
        except documents.UnusableError as error:
            raise InvalidArgumentError("text", "a text", f"is not a certificate: {error}") from None

    @property
    def digest(self) -> str:
        """The digest of all other fields."""
        return str(self.content()["digest"])

    @property
    def epsilon(self) -> float:
        """ε of the headline."""
        return float(self._headline()["epsilon"])

    @property
    def delta(self) -> float:
        """δ of the headline."""
        return float(self._headline()["delta"])

    def _headline(self) -> dict[str, Any]:
        content = self.content()
        point: dict[str, Any] = content["curve"][content["headline"]]
        return point

    def to_json(self) -> str:
        """Returns the text: the bytes that ``sign`` signs."""
        return self.text

    def sign(self, private_key: bytes) -> bytes:
        """Returns the content of the detached signature file, by an Ed25519 key in PEM (PKCS#8, not encrypted).

        Raises:
          InvalidArgumentError: another key.
          MissingExtraError: the package cryptography is not installed.
        """
        require("cryptography", "a signature", extra="verify")
        try:
            return documents.sign(self.text.encode("utf-8"), private_key)
        except documents.UnusableError as error:
            raise InvalidArgumentError("private_key", "a key", str(error)) from None


def certificate_of(
    guarantee: Certifiable,
    delta: float,
    *,
    privacy_unit: str,
    subject: Mapping[str, str] | None = None,
    not_covered: Iterable[str] = NOT_COVERED,
    exact: bool = False,
) -> Certificate:
    """Returns the certificate of a guarantee; see ``Guarantee.certificate``."""
    if guarantee.graph is None:
        raise GraphError("a guarantee without its graph has no certificate: use the graph's guarantee()")
    asked = validate.real("delta", delta, low=0.0, high=1.0, high_open=True)
    if not isinstance(privacy_unit, str) or not privacy_unit.strip():
        raise InvalidArgumentError(
            "privacy_unit", privacy_unit, "is not in words", 'say "one row", or whose data it is'
        )
    about = dict(subject or {})
    if unknown := set(about) - set(SUBJECT):
        raise InvalidArgumentError(
            "subject", sorted(unknown), "has unknown fields", f"give some of {', '.join(SUBJECT)}"
        )
    deltas = sorted({*DELTAS, asked})
    curve = [_claim(guarantee, one, exact, bracket=one == asked) for one in deltas]
    headline = deltas.index(asked)
    if curve[headline]["epsilon"] == "inf":
        raise InvalidArgumentError(
            "delta", delta, "has no finite ε, so that there is nothing to certify", "give a larger one"
        )
    content: dict[str, Any] = {
        "schema": SCHEMA,
        "id": str(uuid.uuid4()),
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        "software": {"name": "hockeystick", "version": _version(), "source_digest": _source_digest()},
        "subject": about,
        "relation": guarantee.adjacency.value,
        "privacy_unit": privacy_unit,
        "group": guarantee.group,
        "view": guarantee.view,
        "threat_model": guarantee.threat_model,
        "graph": json.loads(guarantee.graph.to_json()),
        "curve": curve,
        "headline": headline,
        "assumptions": list(guarantee.assumptions),
        "not_covered": [str(one) for one in not_covered],
        "extensions": {},
    }
    try:
        content["digest"] = documents.digest(content)
        text = documents.canonical(content) + "\n"
    except documents.UnusableError as error:
        raise GraphError(f"the graph has no canonical form: {error}") from None
    return Certificate(text)


def _claim(guarantee: Certifiable, delta: float, exact: bool, *, bracket: bool) -> dict[str, Any]:
    found = guarantee.epsilon(delta, bracket=bracket)
    if math.isinf(found.upper):
        return {"epsilon": "inf", "delta": delta, "lower": None, "method": found.method}
    epsilon = found.upper if exact else float(rounded_text.upper(found.upper, DIGITS))
    return {"epsilon": epsilon, "delta": delta, "lower": found.lower, "method": found.method}


def _version() -> str:
    return str(sys.modules["hockeystick"].__version__)


@lru_cache(maxsize=1)
def _source_digest() -> str:
    """The digest of the package's own modules: of their names and digests, in order."""
    root = Path(str(sys.modules["hockeystick"].__file__)).parent
    files = [Path(folder) / name for folder, _, names in os.walk(root, followlinks=True) for name in names]
    total = hashlib.sha256()
    for path in sorted(path for path in files if path.suffix == ".py"):
        name = path.relative_to(root).as_posix()
        total.update(f"{name} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return "sha256:" + total.hexdigest()
