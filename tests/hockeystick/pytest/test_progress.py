"""A slow privacy test shows its progress on the terminal, and nowhere else."""

from __future__ import annotations

import pytest

from hockeystick._pytest import progress

TESTS = """
    import pytest

    def count(data, rng, runs):
        return data + rng.laplace(size=runs)

    def test_before():
        pass

    @pytest.mark.privacy(epsilon=2.0)
    def test_audit(privacy_audit, capfd):
        print("from the test")
        privacy_audit(count, neighbours=(0.0, 1.0), samples=2_000)
        assert capfd.readouterr() == ("from the test\\n", "")

    @pytest.mark.privacy(epsilon=1.0)
    def test_evidence(privacy_evidence):
        def slow(data, rng):
            return data + rng.laplace(scale=0.2)

        for _ in range(2):
            with pytest.raises(pytest.fail.Exception):
                privacy_evidence(slow, neighbours=(0.0, 1.0), samples=200)
"""
SETTINGS = """
    from hockeystick._pytest import progress
    progress.SECONDS = 0.0

    def pytest_sessionstart(session):
        reporter = session.config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            reporter.isatty = lambda: TERMINAL
"""
AUDITED, GATHERED = "test_audit: * of 4,000 outputs (0 s)", "test_evidence: * of 400 outputs (0 s)"
ADVISED = f"test_evidence: {progress.ADVICE}"
SHOWN = ["test_*.py .", AUDITED, "test_*.py .", GATHERED, ADVISED, "test_*.py ", GATHERED, "test_*.py . *"]
NAMED = ["*::test_audit ", AUDITED, "*::test_audit PASSED*", GATHERED, ADVISED, GATHERED, "*::test_evidence PASSED*"]


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("terminal", "options", "lines"),
    [
        (True, [], SHOWN),
        (False, ["-v"], NAMED),
        pytest.param(False, ["-v", "-s"], NAMED, marks=pytest.mark.deep),
        (False, [], []),
        (True, ["-q"], []),
        (True, ["-v", "-n1"], []),
    ],
)
def test_a_slow_audit_shows_its_progress(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, terminal: bool, options: list[str], lines: list[str]
) -> None:
    monkeypatch.setattr(progress, "SECONDS", progress.SECONDS)  # the inner run changes it
    pytester.makeconftest(SETTINGS.replace("TERMINAL", str(terminal)))
    pytester.makepyfile(TESTS)

    result = pytester.runpytest("-p", "no:cacheprovider", "-W", "ignore", *options)

    result.assert_outcomes(passed=3)
    assert result.stdout.str().count(progress.ADVICE) == bool(lines)  # once a run
    if lines:
        result.stdout.fnmatch_lines(lines)
    else:
        result.stdout.no_fnmatch_line("* outputs (*")
