"""Tests of the command that runs the tier *deep*: it resumes, and fails with a test."""

import ast
import re
import subprocess
import sys

import pytest
from benchmark_scripts import ROOT, benchmark

deep_tests = benchmark("deep_tests")


@pytest.fixture
def ran(monkeypatch):
    """The files that were run; those of which a name has "divergence" fail."""
    files = []

    def run(command, **_):
        files.append(command[-1])
        return subprocess.CompletedProcess(command, int("divergence" in command[-1]))

    monkeypatch.setattr(deep_tests.subprocess, "run", run)
    return files


def test_what_has_passed_is_not_run_again_and_what_has_failed_is(ran, monkeypatch, tmp_path, capsys):
    names = ["tests/helpers/divergences.py", "tests/helpers/samples.py"]
    monkeypatch.setattr(deep_tests, "files", lambda only: names)
    assert deep_tests.main(["--work", str(tmp_path)]) == 1 and ran == names
    assert deep_tests.main(["--work", str(tmp_path)]) == 1 and ran == [*names, names[0]]
    assert "samples.py: passed before" in capsys.readouterr().out


def test_every_file_with_the_mark_is_found_and_a_pattern_of_none_is_refused():
    assert deep_tests.files() and all((ROOT / file).is_file() for file in deep_tests.files())
    with pytest.raises(SystemExit):
        deep_tests.main(["--only", "no such file"])


def test_every_helper_that_marks_deep_tests_is_known():
    marking = set()
    for path in (ROOT / "tests" / "helpers").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and "mark.deep" in ast.unparse(node):
                marking.add(node.name)
    assert set(deep_tests.WORDS[2:]) <= marking <= {*deep_tests.WORDS, "decorate", "test"}


def test_every_test_is_in_one_tier(pytester):
    pytester.makeconftest((ROOT / "tests" / "conftest.py").read_text(encoding="utf-8"))
    pytester.makepyfile(
        """
        import pytest

        def test_fast():
            pass

        @pytest.mark.statistical
        @pytest.mark.parametrize("size", [1, pytest.param(2, marks=pytest.mark.deep)])
        def test_slow(size):
            pass

        @pytest.mark.every(3, 1)
        @pytest.mark.parametrize("size", range(5))
        def test_case(size):
            pass
        """
    )
    marks = ("fast", "statistical", "deep", "project", "every")
    pytester.makeini("[pytest]\nmarkers =\n" + "".join(f"    {mark}:\n" for mark in marks))
    expected = {
        "fast": {"test_fast", "test_case[1]", "test_case[4]"},
        "statistical": {"test_slow[1]"},
        "deep": {"test_slow[2]", "test_case[0]", "test_case[2]", "test_case[3]"},
    }
    for tier, tests in expected.items():
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-m", tier, "-v", "-p", "no:cacheprovider"],
            cwd=pytester.path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert set(re.findall(r"::(\S+) PASSED", done.stdout)) == tests, done.stdout
