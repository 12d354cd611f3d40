"""The pytest plugin, from outside: small projects that pytest runs on their own.

Seeds are fixed by the names of the tests, so nothing here is random from run to run. The false alarms of all audits of
a project have probability 0.001 together; those that must pass ask for a confidence of 1 - 1e-6.
"""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from xml.etree import ElementTree

import pytest

from hockeystick._pytest.audit_fixtures import stable_seed
from hockeystick._pytest.records import key
from hockeystick.audits import Verdict

MECHANISMS = """
    import pytest
    import hockeystick as hs

    def laplace(total, rng, runs):
        return total + rng.laplace(scale=1.0, size=runs)

    def half_the_noise(total, rng, runs):
        return total + rng.laplace(scale=0.5, size=runs)
"""
HANGING = """
    import os, time
    import pytest

    def hanging(data, rng):
        time.sleep(1000)

    def leaving(data, rng):
        os._exit(0)

    @pytest.mark.privacy(epsilon=1.0, timeout=2.0)
    @pytest.mark.parametrize("target", [hanging, leaving])
    def test_limited(privacy_audit, target):
        privacy_audit(target, neighbours=(0, 1), samples=100)

    @pytest.mark.privacy(epsilon=1.0, timeout=2.0)
    def test_evidence(privacy_evidence):
        privacy_evidence(hanging, neighbours=(0, 1))

    @pytest.mark.privacy(epsilon=1.0)
    def test_leaving(privacy_audit):
        privacy_audit(leaving, neighbours=(0, 1), samples=100)
"""
OWN = """
    import pytest

    def count(data, rng, runs):  # epsilon is 0.5 on the first pair, and 2 on the second
        return data + rng.laplace(0.0, 0.5, runs)

    PAIRS = [(0.0, 0.25), (0.0, 1.0)]

    @pytest.mark.privacy(epsilon=[0.5, 2.0])
    def test_true(privacy_audit):
        assert privacy_audit(count, neighbours=PAIRS, samples=20_000, confidence=1 - 1e-6).pairs[1].claim == "(2, 0)"

    @pytest.mark.privacy(epsilon=[0.5, 1.0])
    def test_false(privacy_audit):
        privacy_audit(count, neighbours=PAIRS, samples=20_000, confidence=1 - 1e-6)

    @pytest.mark.privacy(epsilon=[0.5, 1.0])
    def test_evidence(privacy_evidence):
        privacy_evidence(count, neighbours=PAIRS[0])
"""
SURE = "confidence=1 - 1e-6"


def project(pytester: pytest.Pytester, tests: str, *arguments: str) -> pytest.RunResult:
    """Runs a project of one test file; the leak of floating-point noise is ignored, as none of it is released."""
    pytester.makeini(
        "[pytest]\nfilterwarnings =\n    default\n    ignore::hockeystick._pytest.audit_fixtures.FloatLeakWarning"
    )
    pytester.makepyfile(MECHANISMS + tests)
    return pytester.runpytest("-p", "no:cacheprovider", *arguments)


def verdicts(pytester: pytest.Pytester, *arguments: str) -> dict[str, list[Verdict]]:
    """Runs pytest again and returns the verdicts of each test, from the JUnit file."""
    pytester.runpytest("-p", "no:cacheprovider", "--junitxml=junit.xml", *arguments)
    cases = ElementTree.parse(pytester.path / "junit.xml").iter("testcase")
    return {
        case.attrib["name"]: [
            Verdict.from_json(entry.attrib["value"])
            for entry in case.iter("property")
            if entry.attrib["name"] == "privacy"
        ]
        for case in cases
    }


def without_time(verdict: Verdict) -> dict[str, object]:
    """All of a verdict but how long it took."""
    return {name: value for name, value in verdict.to_dict().items() if name != "seconds"}


# ------------------------------------------------------------------------------------------------------- outcomes


@pytest.mark.statistical
def test_five_lines_make_a_privacy_test(pytester: pytest.Pytester) -> None:
    result = project(
        pytester,
        f"""
    @pytest.mark.privacy(epsilon=1.0)
    def test_laplace(privacy_audit):
        verdict = privacy_audit(laplace, neighbours=(0.0, 1.0), {SURE})
        assert verdict.outcome == "consistent"
        assert (verdict.epsilon_claimed, verdict.delta) == (1.0, 0.0)
        assert verdict.samples == 100_000
        assert privacy_audit.verdicts == [verdict]
    """,
    )

    result.assert_outcomes(passed=1)


@pytest.mark.statistical
def test_a_refuted_claim_fails_with_the_evidence_and_without_internals(pytester: pytest.Pytester) -> None:
    result = project(
        pytester,
        """
    @pytest.mark.privacy(epsilon=1.0)
    def test_half(privacy_audit):
        privacy_audit(half_the_noise, neighbours=(0.0, 1.0))
    """,
    )

    result.assert_outcomes(failed=1)
    result.stdout.re_match_lines(
        [
            r"privacy claim \(1, 0\) is refuted \(confidence 0.9999998125\)",
            r"event: .*output (<|>=) .*",
            r"happened [\d,]+ of 1,667 times \([\d.]+ %\) on d[01], [\d,]+ \([\d.]+ %\) on d[01]",
            r"epsilon is at least 1\.\d+ at delta=0, and delta at least 0\.\d+ at epsilon=1",
            r"stopped after 2,000 of 100,000 samples from each data set, seed \d+, .*",
            r"a true claim is refuted with probability at most 1.88e-7, .* at most 0.001, per version .*",
            r"FAILED test_.*::test_half.*",
        ]
    )
    result.stdout.no_fnmatch_line("*pytest_support*")
    result.stdout.no_fnmatch_line("*def test_half*")


def test_outputs_that_are_all_one_value_fail_the_test(pytester: pytest.Pytester) -> None:
    result = project(
        pytester,
        """
    @pytest.mark.privacy(epsilon=1.0)
    def test_forgotten(privacy_audit):
        def forgotten(total, rng):
            total + rng.laplace()
        privacy_audit(forgotten, neighbours=(0.0, 1.0), samples=400)
    """,
    )

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["nothing was audited: every output was the same value on both data sets: *"])


def test_a_target_with_its_own_random_numbers_passes_with_a_warning(pytester: pytest.Pytester) -> None:
    result = project(
        pytester,
        """
    @pytest.mark.privacy(epsilon=1.0)
    def test_own(privacy_audit):
        import numpy as np
        own = np.random.default_rng(7)
        privacy_audit(lambda total, rng: total + own.laplace(), neighbours=(0.0, 1.0), samples=20_000)
    """,
    )

    result.assert_outcomes(passed=1, warnings=1)
    result.stdout.fnmatch_lines(["*PrivacyAuditWarning: the outputs come from the target's own source of random*"])


@pytest.mark.statistical
def test_a_target_that_hangs_or_leaves_fails_the_test(pytester: pytest.Pytester) -> None:
    result = project(pytester, MECHANISMS + HANGING)
    result.assert_outcomes(failed=4)
    result.stdout.fnmatch_lines(
        [
            "*TargetEndedError: target took longer than 2 s in one call*",
            "*TargetEndedError: target called os._exit(0)*",
            "*TargetEndedError: target took longer than 2 s in one call*",
            "*TargetEndedError: target called os._exit(0)*",
        ]
    )


def test_an_inconclusive_audit_passes_with_a_warning_at_the_line_of_the_test(pytester: pytest.Pytester) -> None:
    tests = """
    @pytest.mark.privacy(epsilon=0.01)
    def test_few_samples(privacy_audit):
        assert privacy_audit(laplace, neighbours=(0.0, 0.01), samples=200).outcome == "inconclusive"
    """
    result = project(pytester, tests)

    result.assert_outcomes(passed=1, warnings=1)
    result.stdout.fnmatch_lines(
        ["*test_*.py:12: PrivacyAuditWarning: inconclusive: too few samples*", "*give more samples="]
    )
    project(pytester, tests, "-W", "error::hockeystick._pytest.audit_fixtures.PrivacyAuditWarning").assert_outcomes(
        failed=1
    )


@pytest.mark.statistical
def test_notes_of_an_audit_are_warnings(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        MECHANISMS
        + """
    @pytest.mark.privacy(epsilon=1.0)
    @pytest.mark.filterwarnings("ignore")
    def test_leak_ignored(privacy_audit):
        assert privacy_audit(laplace, neighbours=(0.0, 1.0)).float_leak

    @pytest.mark.privacy(epsilon=1.0)
    def test_leak(privacy_audit):
        with pytest.warns(FloatLeakWarning, match="low bits.*once a run") as caught:
            privacy_audit(laplace, neighbours=(0.0, 1.0))
            privacy_audit(laplace, neighbours=(0.0, 1.0))
        assert len(caught) == 1 and all(verdict.float_leak for verdict in privacy_audit.verdicts)

    @pytest.mark.privacy(epsilon=1.0)
    def test_equal(privacy_audit):
        with pytest.warns(PrivacyAuditWarning, match="equal") as caught:
            privacy_audit(laplace, neighbours=(1.0, 1.0))
        assert {warning.category for warning in caught} == {PrivacyAuditWarning}

    @pytest.mark.privacy(epsilon=1.0)
    @pytest.mark.filterwarnings("error")
    def test_a_mechanism_that_releases_by_other_means(privacy_audit):
        assert privacy_audit(hockeystick.mechanisms.Laplace(1.0)).float_leak

    import hockeystick
    from hockeystick._pytest.audit_fixtures import FloatLeakWarning, PrivacyAuditWarning
    """
    )
    pytester.runpytest("-p", "no:cacheprovider").assert_outcomes(passed=4)


# --------------------------------------------------------------------------------------------------------- claims


@pytest.mark.statistical
def test_options_and_claims_of_a_call(pytester: pytest.Pytester) -> None:
    result = project(
        pytester,
        f"""
    @pytest.mark.privacy(epsilon=1.0)
    def test_marker_is_replaced(privacy_audit):
        wide = hs.Claim(2.0, 1e-6)
        first = privacy_audit(half_the_noise, neighbours=(0.0, 1.0), claim=wide, samples=20_000, {SURE}, seed=5)
        assert (first.epsilon_claimed, first.delta, first.samples, first.seed) == (2.0, 1e-6, 20_000, 5)
        assert first.confidence >= 1 - 1e-6
        second = privacy_audit(laplace, neighbours=(0.0, 1.0), {SURE})
        assert second.epsilon_claimed == 1.0
        assert privacy_audit.verdicts == [first, second]

    def test_no_marker(privacy_audit):
        claim = hs.Claim(1.0)
        assert privacy_audit(laplace, claim=claim, neighbours=(0.0, 1.0), {SURE}).outcome == "consistent"

    @pytest.mark.privacy(epsilon=0.5, delta=1e-6)
    def test_mechanism_with_its_own_neighbours(privacy_audit):
        assert privacy_audit(hs.mechanisms.Laplace(2.0), {SURE}).delta == 1e-6

    @pytest.mark.privacy(epsilon=1.0)
    def test_an_option_of_the_audit(privacy_audit):
        with pytest.raises(pytest.fail.Exception, match="refuted"):
            privacy_audit(laplace, neighbours=(0.0, 1.0), bits=True)

    @pytest.mark.privacy(epsilon=1.0)
    class TestClass:
        def test_marker_of_the_class(self, privacy_audit):
            privacy_audit(laplace, neighbours=(0.0, 1.0), {SURE})

        @pytest.mark.privacy(epsilon=3.0)
        def test_the_nearest_marker_counts(self, privacy_audit):
            assert privacy_audit(half_the_noise, neighbours=(0.0, 1.0), {SURE}).epsilon_claimed == 3.0
    """,
    )

    result.assert_outcomes(passed=6)


@pytest.mark.parametrize(
    "marker, complaint",
    [
        ("privacy", "marker privacy: epsilon is missing; write @pytest.mark.privacy(epsilon=1.0, delta=1e-6)"),
        ("privacy(delta=1e-6)", "marker privacy: epsilon is missing; write *"),
        ("privacy(1.0)", "marker privacy: unexpected 1.0; write *"),
        ("privacy(epsilon=1.0, eps=2.0)", "marker privacy: unexpected eps; write *"),
        ("privacy(epsilon=-1.0)", "marker privacy: epsilon=-1.0: is out of range; expected a number in *; write *"),
        ("privacy(epsilon=float('nan'))", "marker privacy: epsilon=nan: is not finite; *; write *"),
        ("privacy(epsilon='1')", "marker privacy: epsilon='1': is not a real number; *; write *"),
        ("privacy(epsilon=True)", "marker privacy: epsilon=True: is not a real number; *; write *"),
        ("privacy(epsilon=1.0, delta=1.5)", "marker privacy: delta=1.5: is out of range; *; write *"),
    ],
)
def test_a_marker_that_cannot_be_read_is_an_error_of_set_up(
    pytester: pytest.Pytester, marker: str, complaint: str
) -> None:
    result = project(
        pytester,
        f"""
    @pytest.mark.{marker}
    def test_laplace(privacy_audit):
        privacy_audit(laplace, neighbours=(0.0, 1.0))
    """,
    )

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([complaint])
    result.stdout.no_fnmatch_line("*Traceback*")


def test_an_audit_without_a_claim_fails(pytester: pytest.Pytester) -> None:
    result = project(
        pytester,
        """
    def test_laplace(privacy_audit):
        privacy_audit(laplace, neighbours=(0.0, 1.0))
    """,
    )

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["privacy_audit has no claim: mark the test with @pytest.mark.privacy(*) or give claim="]
    )


@pytest.mark.statistical
def test_bad_arguments_point_at_the_line_of_the_test(pytester: pytest.Pytester) -> None:
    result = project(
        pytester,
        """
    @pytest.mark.privacy(epsilon=1.0)
    def test_samples(privacy_audit):
        privacy_audit(laplace, neighbours=(0.0, 1.0), samples=-5)

    @pytest.mark.privacy(epsilon=1.0)
    def test_raising_target(privacy_audit):
        def broken(data, rng):
            raise ZeroDivisionError("in the mechanism")
        privacy_audit(broken, neighbours=(0.0, 1.0))
    """,
    )

    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(
        [
            ">       privacy_audit(laplace, neighbours=(0.0, 1.0), samples=-5)",
            "E*InvalidArgumentError: samples=-5: *",
            "*ZeroDivisionError*in the mechanism*",
        ]
    )
    result.stdout.no_fnmatch_line("*__tracebackhide__*")


# --------------------------------------------------------------------------------------- tests that audit nothing


@pytest.mark.statistical
def test_a_claim_that_is_never_audited_is_warned_of(pytester: pytest.Pytester) -> None:
    result = project(
        pytester,
        """
    @pytest.mark.privacy(epsilon=1.0)
    def test_no_fixture():
        pass

    @pytest.mark.privacy(epsilon=1.0)
    def test_no_call(privacy_audit):
        pass

    @pytest.mark.privacy(epsilon=1.0)
    def test_skipped(privacy_audit):
        pytest.skip("not today")

    @pytest.mark.privacy
    def test_somebodys_own_category():
        pass

    @pytest.mark.privacy(epsilon=1.0)
    def test_that_asks_while_it_runs(request):
        request.getfixturevalue("privacy_audit")(laplace, neighbours=(0.0, 1.0), samples=20_000)
    """,
        "--strict-markers",
    )

    result.assert_outcomes(passed=4, skipped=1, warnings=2)
    result.stdout.fnmatch_lines(
        [
            "*test_no_fixture states a privacy claim but does not use the fixture privacy_audit: nothing was audited",
            "*test_no_call uses the fixture privacy_audit but never calls it: nothing was audited",
        ]
    )


# ---------------------------------------------------------------------------------- the same verdict in every run

REPEATED = """
    @pytest.mark.parametrize("scale", [1.0, 2.0])
    @pytest.mark.privacy(epsilon=1.0)
    def test_scaled(privacy_audit, scale):
        for _ in range(2):
            noisy = lambda x, rng, runs: x + rng.laplace(scale=scale, size=runs)
            privacy_audit(noisy, neighbours=(0.0, 1.0), samples=5000)

    @pytest.mark.privacy(epsilon=1.0)
    def test_half(privacy_audit):
        privacy_audit(half_the_noise, neighbours=(0.0, 1.0), samples=5000)
"""


@pytest.mark.statistical
def test_reruns_alone_or_in_parallel_agree_and_every_call_has_a_seed_of_its_own(pytester: pytest.Pytester) -> None:
    project(pytester, REPEATED).assert_outcomes(passed=2, failed=1)
    first = verdicts(pytester)
    alone = verdicts(pytester, "-k", "2.0")
    parallel = verdicts(pytester, "-n", "2", "--dist", "loadgroup")

    assert [len(found) for found in first.values()] == [2, 2, 1]
    assert [verdict.outcome for verdict in first["test_half"]] == ["refuted"]
    assert [without_time(v) for v in alone["test_scaled[2.0]"]] == [without_time(v) for v in first["test_scaled[2.0]"]]
    assert parallel.keys() == first.keys()
    for name, found in first.items():
        assert [without_time(v) for v in parallel[name]] == [without_time(v) for v in found]
    seeds = [verdict.seed for found in first.values() for verdict in found]
    assert len(set(seeds)) == 5


@pytest.mark.statistical
def test_the_seed_depends_on_the_collecting_file_and_the_names_alone(pytester: pytest.Pytester) -> None:
    source = """
    import pytest

    class TestIt:
        @pytest.mark.parametrize("way", ["a/b", r"a\\b", "a@b"])
        def test_{name}(self, way): pass
    """
    pytester.makeini("[pytest]")
    (pytester.path / "sub").mkdir()
    (pytester.path / "sub" / "__init__.py").write_text("")

    def keys(source: str, where: str = "sub/test_a.py") -> list[pytest.Item]:
        (pytester.path / where).write_text(textwrap.dedent(source))
        importlib.invalidate_caches()
        items, _ = pytester.inline_genitems(str(pytester.path / where), "--keep-duplicates", "-p", "no:cacheprovider")
        return items

    first = keys(source.format(name="it"))
    assert [key(item) for item in first][::2] == [
        "sub/test_a.py::TestIt::test_it[a/b]",
        "sub/test_a.py::TestIt::test_it[a@b]",
    ]
    assert [key(item) for item in first] == [item.nodeid for item in first]
    moved = keys("\n\n\n" + source.format(name="it"))
    for one, other in zip(first, moved, strict=True):
        other._nodeid = f"{other.nodeid}@group"  # type: ignore[attr-defined]  # as a parallel run does
        assert stable_seed(other, 0) == stable_seed(one, 0) != stable_seed(one, 1)
    others = keys(source.format(name="other")) + keys(source.format(name="it"), "sub/test_b.py")
    assert len({stable_seed(item, 0) for item in [*first, *others]}) == 9


CONTRACT = """
import pytest

@pytest.mark.privacy(epsilon=1.0)
class Contract:
    def test_release(self, privacy_audit):
        privacy_audit(lambda x, rng, runs: x + rng.laplace(size=runs), neighbours=(0.0, 1.0), samples=200)
"""


@pytest.mark.statistical
def test_a_test_that_several_files_inherit_or_import_is_one_test_in_each(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\npythonpath = .\nfilterwarnings = default")
    pytester.makepyfile(
        contract=CONTRACT,
        test_a="from contract import Contract\nclass TestIt(Contract): pass",
        test_b="from contract import Contract\nclass TestIt(Contract): pass\nclass TestToo(Contract): pass",
    )
    for arguments in ([], ["--privacy-update"], []):
        found = verdicts(pytester, *arguments)
        pytester.runpytest("-p", "no:cacheprovider", "--privacy-report", "found.json", *arguments)
        audits = json.loads((pytester.path / "found.json").read_text(encoding="utf-8"))["audits"]
        assert found and len({audit["verdict"]["seed"] for audit in audits}) == len(audits) == 3
    names = ["test_a.py::TestIt::test_release", "test_b.py::TestIt::test_release", "test_b.py::TestToo::test_release"]
    assert [audit["test"] for audit in audits] == names and [audit["number"] for audit in audits] == [1, 2, 3]


TWINS = """
import pytest

def pytest_pycollect_makeitem(collector, name, obj):
    if name == "test_twins":
        return [pytest.Function.from_parent(collector, name="test_same", callobj=one) for one in obj]
"""


def test_two_tests_of_one_name_are_refused_and_one_that_is_asked_for_twice_is_not(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(TWINS)
    tests = """
    def one(privacy_audit):
        pass

    def two(privacy_audit):
        pass

    test_twins = [one, two]
    """
    result = project(pytester, tests)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: *.py::test_same: two auditing tests have this name *; rename one"])
    alone = tests.replace("[one, two]", "[one]")
    project(pytester, alone, "--keep-duplicates", ".", ".").assert_outcomes(passed=2, warnings=2)


@pytest.mark.statistical
def test_two_tests_of_one_name_fail_in_a_parallel_run(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(TWINS)
    tests = "\n    def one(privacy_audit): pass\n    def two(privacy_audit): pass\n    test_twins = [one, two]\n"
    result = project(pytester, tests, "-n", "1")
    result.assert_outcomes(errors=2)
    result.stdout.no_fnmatch_line("*INTERNALERROR*")


# ----------------------------------------------------------------------------------------- what a bare run costs


@pytest.mark.statistical
def test_a_run_that_does_not_use_the_plugin_loads_nothing_of_the_library(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
    import sys

    def test_nothing_is_loaded():
        heavy = {"numpy", "scipy", "dp_accounting", "networkx", "attr", "attrs", "rich", "click"}
        assert not heavy & set(sys.modules)
        ours = {name for name in sys.modules if name.partition(".")[0] == "hockeystick"}
        assert ours == {"hockeystick", "hockeystick._guess", "hockeystick._guess.names", "hockeystick._pytest_plugin"}
    """
    )
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)


@pytest.mark.statistical
def test_the_benchmark_of_the_plugins_overhead_runs() -> None:
    script = Path(__file__).parents[3] / "benchmarks" / "pytest_plugin_overhead.py"
    run = subprocess.run([sys.executable, script, "1"], capture_output=True, text=True, check=True)

    loaded = (
        r"hockeystick, hockeystick\._guess, hockeystick\._guess\.names, hockeystick\._pytest_plugin(, lazy_loader)?"
    )
    assert re.match(rf"load  [\d.]+ ms .*: {loaded}\nCPU .*\nwall .*\n$", run.stdout)


@pytest.mark.statistical
def test_a_marker_may_state_a_claim_for_each_pair(pytester: pytest.Pytester) -> None:
    result = project(pytester, OWN)

    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(["privacy claim (1, 0) is refuted*", "pair 2 of 2, claim (1, 0): d0 = 0.0, d1 = 1.0"])
    result.stdout.fnmatch_lines(["*InvalidArgumentError: *"])


@pytest.mark.statistical
def test_the_plugin_is_found_by_its_entry_point_and_can_be_switched_off(pytester: pytest.Pytester) -> None:
    pytester.runpytest("--markers").stdout.fnmatch_lines(
        ["@pytest.mark.privacy(epsilon, delta=0.0, replay=False, timeout=None): *"]
    )
    pytester.runpytest("--fixtures").stdout.fnmatch_lines(["privacy_audit*"])
    off = pytester.run(sys.executable, "-m", "pytest", "-p", "no:hockeystick", "--markers")
    off.stdout.no_fnmatch_line("*privacy*")


@pytest.mark.statistical
def test_the_property_is_a_complete_verdict(pytester: pytest.Pytester) -> None:
    project(pytester, REPEATED)
    (verdict,) = verdicts(pytester, "-k", "half")["test_half"]

    assert json.loads(verdict.to_json())["outcome"] == "refuted"
    assert verdict.count_p > verdict.count_q
    assert verdict.trials == 4167
