"""What reports on learners share, and that each learner has one report."""

from __future__ import annotations

import math

import pytest

from hockeystick._report import results
from hockeystick._report.parts.content import Mark
from hockeystick._report.parts.learner_sections import headline, parameter_facts, privacy_facts
from hockeystick.accounting import InvalidArgumentError

RESULT = {
    "mode": "plan",
    "epsilon": 1.000001,
    "delta": 1e-6,
    "epsilon_lower": 0.999999,
    "method": "M",
    "assumptions": [],
}
KNOWN = "KL = 1, ε ≤ 1 at δ = 1e-06"


def test_every_learner_has_one_report() -> None:
    names = [*results._COMMANDS, *(learner for reports in results._LEARNERS for learner in reports)]
    assert len(names) == len(set(names)) == len(results._REPORTS)
    assert {"lazy-experts", "lazy-convex", "fed-svt", "fed-stoch", "online-distribution", "kl-dist"} < set(names)
    for unknown in ({"learner": "nobody", "command": "run"}, {"command": "nothing"}):
        with pytest.raises(InvalidArgumentError, match="is not a command"):
            results.to_report(unknown)


@pytest.mark.parametrize(
    ("mode", "epsilon", "text", "tone"),
    [
        ("plan", 1.000001, "certified: KL = 1, ε ≤ 1.0001 at δ = 1e-06, in public", "plain"),
        ("release", 1.0, "released: KL = 1, ε ≤ 1 at δ = 1e-06, in public", "plain"),
        ("simulation", 1.0, f"simulated: {KNOWN}, at home, for those who don't know the seed", "doubt"),
        ("release", math.inf, "no finite ε at δ = 1e-06, anywhere", "doubt"),
        ("simulation", "inf", "no finite ε at δ = 1e-06, anywhere", "doubt"),
    ],
)
def test_each_learner_has_its_headline(mode: str, epsilon: float | str, text: str, tone: str) -> None:
    words = {"found": "KL = 1, ", "public": ", in public", "simulated": ", at home", "infinite": ", anywhere"}
    assert headline(RESULT | {"mode": mode, "epsilon": epsilon}, **words) == Mark(text, tone)  # type: ignore[arg-type]


def test_bounds_are_rounded_away_from_the_truth() -> None:
    facts = privacy_facts(RESULT | {"assumptions": ["a", "b"]}, ("for", "one"), target="ε ≤ 2")
    assert [name for name, _ in facts] == ["certified", "requested", "bracket", "method", "for", "assumes", "assumes"]
    assert facts[0][1] == "ε ≤ 1.0001 at δ = 1e-06" and str(facts[2][1]).startswith("0.99999 to 1.0001 ")
    assert [name for name, _ in privacy_facts(RESULT)] == ["certified", "bracket", "method"]


def test_parameters_are_listed() -> None:
    given = {"a_b": None, "c": True, "d": "inf", "e": 1234.0, "f": 1234.0}
    assert parameter_facts(given, whole_numbers=("e",)) == (
        ("a b", "none"),
        ("c", "yes"),
        ("d", "inf"),
        ("e", "1,234"),
        ("f", "1234"),
    )
