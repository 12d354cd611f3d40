"""Mutation tests of accounting/: what a mutant is, what becomes of it, and that survivors are explained."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from benchmark_scripts import benchmark

ROOT = Path(__file__).resolve().parents[1]

mutation_page = benchmark("mutation_page")
Finding, Sample = mutation_page.Finding, mutation_page.Sample


def finding(status: str, number: int = 1) -> Any:
    return Finding("a.py", number, "number", "return 1", f"return {number + 1}", status)


def test_every_explanation_is_of_a_line_that_is_there() -> None:
    known = mutation_page.explanations()
    sources = {
        path.name: " ".join(path.read_text(encoding="utf-8").split()) for path in (ROOT / "accounting").glob("*.py")
    }
    stale = [change for change in known if change[1] not in sources.get(change[0], "") or change[1] == change[2]]
    assert known
    assert stale == []


@pytest.mark.skipif(
    not mutation_page.PAGE.exists(), reason="no whole run of `python -m benchmarks.mutation --write` yet"
)
def test_the_page_has_no_survivor_that_is_not_explained() -> None:
    text = mutation_page.PAGE.read_text(encoding="utf-8")
    assert "## Survivors" in text
    assert "not explained" not in text


def test_an_explanation_says_something_once(tmp_path: Path) -> None:
    row = '[[survivor]]\nfile = "a.py"\nline = "return 1"\nmutated = ["return 2"]\nkind = "{}"\nwhy = "{}"\n'
    path = tmp_path / "survivors.toml"
    for kind, why in [("nothing", "a sentence that is long enough"), ("same", "short")]:
        path.write_text(row.format(kind, why), encoding="utf-8")
        with pytest.raises(ValueError):
            mutation_page.explanations(path)
    path.write_text(2 * row.format("same", "a sentence that is long enough"), encoding="utf-8")
    with pytest.raises(ValueError, match="explained twice"):
        mutation_page.explanations(path)


def test_the_score_of_a_sample_has_an_exact_interval() -> None:
    whole = Sample((finding("killed"), finding("timed out"), finding("survived"), finding("not reached")), 4, 1)
    assert whole.score() == (0.5, 0.5, 0.5)
    share, low, high = Sample((finding("killed"),) * 10, 100, 1).score()
    assert (share, high) == (1.0, 1.0)
    assert low == pytest.approx(0.025**0.1)  # Clopper & Pearson: the share at which all ten have probability 0.025


def test_survivors_are_told_unless_they_are_explained() -> None:
    sample = Sample((finding("survived", 2), finding("killed", 3), finding("not reached", 1)), 3, 1)
    known = {
        ("a.py", "return 1", "return 2"): mutation_page.Explanation(
            "a.py", "return 1", ["return 2"], "same", "w" * 9 + "."
        )
    }
    assert [one.number for one in sample.unexplained({})] == [1, 2]
    assert [one.number for one in sample.unexplained(known)] == [2]
    assert "2 survivors, 1 of them not explained" in mutation_page.summary(sample, known)
    text = mutation_page.page(sample, known)
    assert "| `accounting/a.py` | 3 | 1 | 0 | 0 | 1 | 1 |" in text
    assert "  - `return 2`; no test runs it. *same*: wwwwwwwww." in text
    assert "1 *same*, 1 **not explained**" in text


SOURCE = '''"""One."""
from math import inf

LIMIT: "int | None" = 3


class Clip:
    """Has 1 field."""

    def __repr__(self) -> str:
        return "a" + "b"

    def apply(self, x: float, kind: str = "low") -> float:
        """Adds 1 to nothing."""
        if not x:
            raise ValueError(f"{x + 1} is bad: {1 + 1}")
        check(x, top=2)
        if kind == "low":
            return max(x, -inf)
        return (x
                if x < LIMIT else inf)
'''


def test_mutants_are_changes_that_tell_something() -> None:
    pytest.importorskip("mutmut", reason="makes the mutants")
    operators = benchmark("mutation_operators")

    made = operators.mutants("clip.py", SOURCE)

    changes = {mutant.lines(SOURCE) for mutant in made}
    for line in ('"""One."""', "from math import inf", '"""Has 1 field."""', 'return "a" + "b"'):
        assert line not in {old for old, _ in changes}
    assert {new for old, new in changes if old.startswith("raise")} == {"pass"}
    assert {new for old, new in changes if old.startswith("LIMIT")} == {'LIMIT: "int | None" = 4'}
    assert {new for old, new in changes if old.startswith("check")} == {"pass", "check(x, top=3)", "check(x, )"}
    assert {new for old, new in changes if old.startswith("if kind")} == {
        *('if kind != "low":', 'if kind == "XXlowXX":', 'if not (kind == "low"):')
    }
    assert {new for old, new in changes if old.startswith("return max")} == {
        "return min(x, -inf)",
        "return max(x, +inf)",
    }
    assert {new for old, new in changes if old.startswith("if x <")} == {
        *("if x <= LIMIT else inf)", "if (x < LIMIT) and False else inf)", "if (x < LIMIT) or True else inf)")
    }
    assert {new for old, new in changes if old.startswith("if not x")} == {"if x:"}
    assert [mutant.at_import for mutant in made] == [mutant.first < 10 for mutant in made]
    assert {(mutant.first, mutant.last) for mutant in made if mutant.first > 18} == {(19, 19), (20, 21)}
    assert len({mutant.name for mutant in made}) == len({mutant.applied(SOURCE) for mutant in made}) == len(made)
    for mutant in made:
        compile(mutant.applied(SOURCE), "clip.py", "exec")


PLANTED = """
import json, sys
from pathlib import Path
from attrs import asdict
from benchmarks.mutation import ACCOUNTING, Project, drawn, run
from benchmarks.mutation_forks import forked

root = Path(sys.argv[1])
project = Project(root, "planted", root / "planted", root / "tests")
if sys.argv[2] != "jobs":
    sample = run(project, root / "work", seed=1, workers=2, slow=sys.argv[2] == "slow")
    print(json.dumps([asdict(finding) for finding in sample.findings]))
else:
    ends = {"loop": lambda: [0 for _ in iter(int, 1)], "exit": lambda: sys.exit(3), "memory": lambda: bytearray(2**33)}
    jobs = forked(lambda name: ends[name](), list(ends), workers=2, limit=lambda name: 1.0)
    print(json.dumps({name: ended.reason for name, ended in jobs}))
"""


def planted(root: Path, what: str) -> Any:
    """Forks in a process without threads; told where the benchmarks are."""
    (root / "script.py").write_text(PLANTED, encoding="utf-8")
    command = [sys.executable, str(root / "script.py"), str(root), what]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1]), done.stdout


def test_which_lines_tests_run_is_kept_as_it_is() -> None:
    pytest.importorskip("mutmut", reason="makes the mutants")
    trials, operators = benchmark("mutation_trials"), benchmark("mutation_operators")
    tests = {f"test_{i}": 0.1 * i for i in range(5)}
    lines = {"a.py": {1: (0, 1, 2, 4), 2: (0, 1, 2, 4), 9: (3,)}, "b.py": {5: ()}}
    reach = trials.Reach("tests/test_a.py", 0.5, tests, lines, ("broken",))

    assert trials.Reach.from_record(json.loads(json.dumps(reach.as_record()))) == reach

    def mutant(first: int, last: int, at_import: bool = False) -> Any:
        return operators.Mutant("name", "a.py", 0, 1, "x", "number", first, last, at_import)

    assert reach.reaching(mutant(2, 3)) == {"test_0", "test_1", "test_2", "test_4"}
    assert reach.reaching(mutant(3, 8)) == set()
    assert reach.reaching(mutant(3, 3, at_import=True)) == set(tests)
    fewer = reach.without({"test_0", "test_3", "test_9"})
    assert fewer.reaching(mutant(2, 3)) == {"test_1", "test_2", "test_4"}
    assert fewer.reaching(mutant(9, 9)) == set() and fewer.tests["test_4"] == tests["test_4"]
    assert reach.sizes == {"test_0": 2, "test_1": 2, "test_2": 2, "test_3": 1, "test_4": 2}
    others = {"a.py": {2: (1,)}, "b.py": {1: (0, 1), 2: (1,)}}
    slower = trials.Reach("tests/test_0.py", 0.1, {"test_x": 7.0, "test_y": 8.0}, others, ())
    given = trials.trial(None, mutant(2, 2), "", [slower, reach], longest=16.0)
    files, names = zip(*given.steps, strict=True)
    assert files == ("tests/test_a.py", "tests/test_0.py", "tests/test_a.py")  # test_y runs three lines
    assert names == (("test_0", "test_1", "test_2", "test_4"), ("test_y",), ("test_3",))  # no time left for test_x
    quick = trials.Reach("tests/test_0.py", 0.1, {"test_x": 0.01, "test_y": 8.0}, others, ())
    given = trials.trial(None, mutant(2, 2), "", [quick, reach], longest=16.0)
    assert dict(given.steps)["tests/test_0.py"] == ("test_y", "test_x")  # it may see what is done at import


@pytest.mark.slow
def test_mutants_of_a_planted_package_are_found_kept_and_tried_again_with_other_tests(tmp_path: Path) -> None:
    pytest.importorskip("mutmut", reason="makes the mutants")
    package, tests = tmp_path / "planted", tmp_path / "tests"
    package.mkdir()
    tests.mkdir()
    (package / "__init__.py").touch()
    clip = "from functools import lru_cache\n\n@lru_cache\ndef clip(x):\n    return 1.0 if x > 1.0 else x\n"
    (package / "clip.py").write_text(clip, encoding="utf-8")
    weak = (
        "from planted.clip import clip\n\ndef test_clip():\n    assert clip(3.0) == 1.0\n    assert clip(0.5) == 0.5\n"
    )
    (tests / "test_clip.py").write_text(weak + "\ndef test_broken():\n    assert clip(0.5) == 2\n", encoding="utf-8")

    found, said = planted(tmp_path, "run")

    statuses = {one["mutated"]: one["status"] for one in found}
    assert statuses == {
        "return 2.0 if x > 1.0 else x": "killed",
        "return 1.0 if x > 2.0 else x": "survived",
        "return 1.0 if x >= 1.0 else x": "survived",
        "return 1.0 if (x > 1.0) and False else x": "killed",
        "return 1.0 if (x > 1.0) or True else x": "killed",
    }
    assert "tests/test_clip.py::test_broken fails without any mutant" in said
    results = tmp_path / "work" / "results.jsonl"
    lines = results.read_text(encoding="utf-8").splitlines()
    again, _ = planted(tmp_path, "run")
    assert again == found and results.read_text(encoding="utf-8").splitlines() == lines  # all kept
    results.write_text("\n".join(lines[:2]) + "\n" + lines[2][:20], encoding="utf-8")  # interrupted
    again, _ = planted(tmp_path, "run")
    assert {one["mutated"]: one["status"] for one in again} == statuses
    assert len(results.read_text(encoding="utf-8").splitlines()) == 6  # with the line that was cut off
    slow = "\nimport pytest\n\n@pytest.mark.slow\ndef test_slow():\n    assert clip(1.5) == 1.0\n"
    (tests / "test_clip.py").write_text(weak + slow, encoding="utf-8")
    again, _ = planted(tmp_path, "slow")
    assert {one["mutated"]: one["status"] for one in again} == {
        **statuses,
        "return 1.0 if x > 2.0 else x": "killed slowly",
    }
    first = "\ndef test_a():\n    clip.known = [clip(x) for x in range(10**5)]\n"
    ordered = first + "\ndef test_b():\n    assert clip(9.5) and clip.known\n"
    (tests / "test_clip.py").write_text(weak + ordered, encoding="utf-8")
    results.unlink()
    again, said = planted(tmp_path, "run")
    assert "in another order, and are left out: ['tests/test_clip.py::test_b']" in said
    assert {one["mutated"]: one["status"] for one in again} == statuses
    assert (package / "clip.py").read_text(encoding="utf-8") == clip


@pytest.mark.slow
def test_a_job_that_does_not_end_or_takes_all_memory_harms_nobody(tmp_path: Path) -> None:
    pytest.importorskip("mutmut", reason="makes the mutants")
    ends, _ = planted(tmp_path, "jobs")
    assert ends == {"loop": "timed out", "exit": "SystemExit: 3", "memory": "MemoryError: "}


def test_a_larger_sample_begins_with_the_smaller_one() -> None:
    pytest.importorskip("mutmut", reason="makes the mutants")
    operators, mutation = benchmark("mutation_operators"), benchmark("mutation")
    made = list(operators.mutants("clip.py", SOURCE))

    few, more = (mutation.drawn(made, size, 1) for size in (3, 8))

    assert few == more[:3] and len(more) == 8
    assert sorted(mutation.drawn(made, None, 1), key=lambda one: one.name) == sorted(made, key=lambda one: one.name)
    assert mutation.drawn(made[::-1], 3, 1) == few
    assert mutation.drawn(made, 3, 2) != few
