"""Certificates with any claim, for the tests of their checker."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from hockeystick.accounting import AccountantGraph
from hockeystick_verify import documents


def certificate(
    graph: AccountantGraph | dict[str, Any],
    claims: Sequence[tuple[float | str, float]],
    *,
    group: int = 1,
    view: str | None = None,
    **changed: Any,
) -> bytes:
    """The bytes of a certificate of a graph that claims these (ε, δ), the last of which is its headline."""
    content = graph if isinstance(graph, dict) else json.loads(graph.to_json())
    fields: dict[str, Any] = {
        "schema": "hockeystick.certificate/1",
        "id": "0",
        "created": "2026-01-01T00:00:00Z",
        "software": {"name": "hockeystick", "version": "0", "source_digest": "sha256:0"},
        "relation": content["adjacency"],
        "privacy_unit": "one row",
        "group": group,
        "view": view,
        "threat_model": "every release is published",
        "graph": content,
        "curve": [{"epsilon": e, "delta": d, "lower": None, "method": "pld"} for e, d in claims],
        "headline": len(claims) - 1,
        "assumptions": [],
        "not_covered": [],
        **changed,
    }
    return documents.canonical({"digest": documents.digest(fields), **fields}).encode()


@pytest.fixture
def forged() -> Callable[..., bytes]:
    return certificate
