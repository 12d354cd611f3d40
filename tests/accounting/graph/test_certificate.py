"""Tests of certificates: their fields against the schema, their digest, rounding, and what has none."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from hockeystick.accounting import (
    AccountantGraph,
    Certificate,
    Gaussian,
    GraphError,
    InvalidArgumentError,
    Laplace,
)
from hockeystick.accounting.graph.json_schema import certificate_schema
from hockeystick_verify import documents

GRAPH = AccountantGraph(assumptions=["rows are clipped"]).source("d").release("r", Gaussian(5.0), reads=["d"], count=10)
GRAPH = GRAPH.release("s", Laplace(9.0), reads=["d"]).view("v", sees=["r"])


def test_fields_follow_the_schema_and_the_guarantee() -> None:
    guarantee = GRAPH.guarantee(group=2, view="v")
    subject = {"title": "census", "code_digest": "sha256:0"}
    certificate = guarantee.certificate(1e-5, privacy_unit="one row", subject=subject, not_covered=["timing"])
    content = json.loads(certificate.to_json())

    jsonschema.validate(content, certificate_schema())
    assert AccountantGraph.from_json(json.dumps(content["graph"])) == GRAPH
    assert (content["group"], content["view"], content["relation"]) == (2, "v", "add-or-remove-one")
    assert (content["assumptions"], content["not_covered"]) == (["rows are clipped"], ["timing"])
    assert (content["subject"], content["threat_model"]) == (subject, guarantee.threat_model)
    assert [point["delta"] for point in content["curve"]] == [0, 1e-12, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3]
    assert content["curve"][0]["epsilon"] == "inf" and certificate.delta == 1e-5
    assert content["digest"] == certificate.digest == documents.digest(content)
    assert certificate.text == documents.canonical(content) + "\n"


def test_epsilon_is_rounded_up_to_five_digits_unless_all_are_asked_for() -> None:
    guarantee = GRAPH.guarantee()
    bound = guarantee.epsilon(2e-7).upper
    rounded, exact = (guarantee.certificate(2e-7, privacy_unit="a row", exact=one) for one in (False, True))

    assert (
        exact.epsilon == bound < rounded.epsilon <= bound * (1 + 1e-4)
        and float(f"{rounded.epsilon:.5g}") == rounded.epsilon
    )
    assert len(exact.content()["curve"]) == 10


def test_a_changed_text_is_not_a_certificate() -> None:
    text = GRAPH.guarantee().certificate(privacy_unit="one row").to_json()
    assert Certificate(text).epsilon > 0
    for changed in (text.replace("one row", "one Row"), "{}", "x", text[:-5]):
        with pytest.raises(InvalidArgumentError):
            Certificate(changed)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"privacy_unit": " "}, "privacy_unit"),
        ({"privacy_unit": "a row", "delta": 1.0}, "delta"),
        ({"privacy_unit": "a row", "delta": 0.0}, "no finite"),
        ({"privacy_unit": "a row", "subject": {"author": "me"}}, "unknown fields"),
    ],
)
def test_arguments_are_checked(given: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidArgumentError, match=says):
        GRAPH.guarantee().certificate(**given)


def test_guarantees_without_a_graph_and_numbers_without_a_form_have_no_certificate() -> None:
    with pytest.raises(GraphError, match="without its graph"):
        GRAPH.guarantee_for("d").certificate(privacy_unit="a row")
    wide = AccountantGraph().source("d").release("r", Gaussian(1e17), reads=["d"])
    with pytest.raises(GraphError, match="canonical form"):
        wide.guarantee().certificate(privacy_unit="a row")


def test_a_certificate_is_signed_by_a_key_alone() -> None:
    pytest.importorskip("cryptography")
    certificate = GRAPH.guarantee().certificate(privacy_unit="one row")
    with pytest.raises(InvalidArgumentError, match="private_key"):
        certificate.sign(b"x")
