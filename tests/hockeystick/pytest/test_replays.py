"""``privacy_replay`` and ``privacy_audit(replay=True)``, from outside: small projects that pytest runs on their own."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

import hockeystick.mechanisms  # before pytest runs in this process, which forgets the modules that it imports
from hockeystick.audits import ReplayVerdict
from hockeystick.audits.replay import run

assert run and hockeystick.mechanisms

ALGORITHMS = """
    import numpy as np
    import pytest
    import hockeystick as hs

    PAIR = [0.2, 0.9, 1.2], [0.2, 0.9]

    def right(x, rng):
        return np.clip(x, 0, 1).sum() + rng.laplace()

    def slipped(x, rng):
        return np.clip(x, 0, 1.03).sum() + rng.laplace()

    def dear(x, rng):
        return bool(np.sum(x) + rng.laplace() > 1)

    def coin(x, rng):
        return len(x) if rng.random() < 0.5 else 0
"""


def project(pytester: pytest.Pytester, tests: str, *arguments: str) -> pytest.RunResult:
    pytester.makeini(
        "[pytest]\naddopts = --strict-markers\nfilterwarnings =\n    default\n"
        "    ignore::hockeystick._pytest.audit_fixtures.FloatLeakWarning"
    )
    pytester.makepyfile(ALGORITHMS + tests)
    return pytester.runpytest("-p", "no:cacheprovider", *arguments)


def test_a_violation_fails_the_test_with_its_line_and_agreement_passes(pytester: pytest.Pytester) -> None:
    found = project(
        pytester,
        """
    @pytest.mark.privacy_replay(epsilon=1.0)
    def test_right(privacy_replay):
        assert privacy_replay(right, neighbours=PAIR).agrees

    @pytest.mark.privacy_replay(epsilon=1.0)
    def test_slipped(privacy_replay):
        privacy_replay(slipped, neighbours=PAIR)
    """,
        "--junitxml=junit.xml",
    )

    found.assert_outcomes(passed=1, failed=1)
    found.stdout.fnmatch_lines(
        ["privacy replay: violation: *", "*test_a_violation_fails*.py:11: loss: * 1.03, above the claimed 1*"]
    )
    properties = ElementTree.parse(pytester.path / "junit.xml").iter("property")
    verdicts = [
        ReplayVerdict.from_json(one.attrib["value"]) for one in properties if one.attrib["name"] == "privacy_replay"
    ]
    assert [verdict.outcome for verdict in verdicts] == ["agrees", "violation"]


def test_not_certified_fails_unless_it_is_allowed_and_not_covered_warns(pytester: pytest.Pytester) -> None:
    found = project(
        pytester,
        """
    @pytest.mark.privacy_replay(epsilon=1.0)
    def test_dear(privacy_replay):
        privacy_replay(dear, neighbours=PAIR)

    @pytest.mark.privacy_replay(epsilon=1.0)
    def test_allowed(privacy_replay):
        assert privacy_replay(dear, neighbours=PAIR, certify=False).outcome == "not certified"

    @pytest.mark.privacy_replay(epsilon=1.0)
    def test_coin(privacy_replay):
        assert privacy_replay(coin, neighbours=PAIR, paths=5).outcome == "not covered"
    """,
    )

    found.assert_outcomes(passed=2, failed=1, warnings=2)
    found.stdout.fnmatch_lines(["privacy replay: not certified: *", "*PrivacyAuditWarning: replay: not c*"])


def test_an_audit_may_be_preceded_by_a_replay(pytester: pytest.Pytester) -> None:
    """At 1,000 outputs a slip of 3 % is invisible to the audit: only the replay fails the test."""
    found = project(
        pytester,
        """
    @pytest.mark.privacy(epsilon=1.0)
    def test_audit_alone(privacy_audit):
        privacy_audit(slipped, neighbours=PAIR, samples=1000, confidence=1 - 1e-6)

    @pytest.mark.privacy(epsilon=1.0, replay=True)
    def test_by_marker(privacy_audit):
        privacy_audit(slipped, neighbours=PAIR, samples=1000, confidence=1 - 1e-6)

    @pytest.mark.privacy(epsilon=1.0)
    def test_by_argument(privacy_audit):
        privacy_audit(slipped, neighbours=PAIR, samples=1000, confidence=1 - 1e-6, replay=True)

    @pytest.mark.privacy(epsilon=1.0, replay=True)
    def test_right(privacy_audit):
        privacy_audit(right, neighbours=PAIR, samples=1000, confidence=1 - 1e-6)
    """,
    )

    found.assert_outcomes(passed=2, failed=2)
    for name in ("test_by_marker", "test_by_argument"):
        found.stdout.fnmatch_lines([f"*_ {name} _*", "privacy replay: violation: *", f"FAILED *::{name} - *"])


@pytest.mark.statistical
def test_markers_limit_the_time_of_a_run(pytester: pytest.Pytester) -> None:
    found = project(
        pytester,
        """
    def waits(x, rng):
        import time
        time.sleep(1000)

    @pytest.mark.privacy_replay(epsilon=1.0, timeout=0.5)
    def test_replay(privacy_replay):
        privacy_replay(waits, neighbours=PAIR)

    @pytest.mark.privacy(epsilon=1.0, replay=True, timeout=0.5)
    def test_audit(privacy_audit):
        privacy_audit(waits, neighbours=PAIR)
    """,
    )

    found.assert_outcomes(failed=2)
    for name in ("test_replay", "test_audit"):
        found.stdout.fnmatch_lines([f"*_ {name} _*", "*took longer than 0.5 s in one call*"])


def test_a_mechanism_brings_its_own_neighbours_and_a_claim_may_be_given(pytester: pytest.Pytester) -> None:
    found = project(
        pytester,
        """
    def test_given(privacy_replay):
        first = privacy_replay(hs.mechanisms.Laplace(2.0), claim=(0.5, 0.0))
        again = privacy_replay(hs.mechanisms.Laplace(2.0), claim=hs.events.Laplace(2.0), certify=False, seed=7)
        assert first.epsilon_path == 0.5 and again.seed == 7 != first.seed

    @pytest.mark.privacy(epsilon=0.4)
    def test_of_the_other_marker(privacy_replay):
        privacy_replay(hs.mechanisms.Laplace(2.0))
    """,
    )

    found.assert_outcomes(passed=1, failed=1)


@pytest.mark.parametrize(
    ("marker", "body", "said"),
    [
        ("privacy_replay(epsilon=1.0)", "pass", "states a privacy claim but does not use the fixture privacy_replay"),
        ("privacy_replay(epsilon=1.0)", "privacy_replay", "uses the fixture privacy_replay but never calls it"),
        (
            "privacy_replay(1.0)",
            "privacy_replay",
            "marker privacy_replay: unexpected 1.0; write @pytest.mark.privacy_replay(",
        ),
        ("privacy_replay(epsilon=-1)", "privacy_replay", "marker privacy_replay: epsilon=-1"),
        ("privacy(epsilon=1.0, replay=2)", "privacy_audit", "replay is neither True nor False"),
        ("privacy_replay(epsilon=1.0, replay=True)", "privacy_replay", "unexpected replay"),
    ],
)
def test_a_claim_that_nothing_tests_or_that_can_t_be_read_is_reported(
    pytester: pytest.Pytester, marker: str, body: str, said: str
) -> None:
    fixture = "" if body == "pass" else body
    found = project(pytester, f"\n    @pytest.mark.{marker}\n    def test_it({fixture}):\n        {body}\n")

    assert said in found.stdout.str()
