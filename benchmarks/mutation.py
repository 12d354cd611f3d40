"""Plants small mistakes in accounting/, one at a time, and lists those that no test notices.

    python -m benchmarks.mutation FOLDER [FILE...] [--mutants N] [--seed S] [--then TESTS] [--cpu SECONDS]

FOLDER holds the session: a random sample of the mistakes that cosmic-ray (``pip install cosmic-ray``) can make in the
files (default: all of accounting/). Each is tried on a clone of the last commit. The tests of the mirrored folder run
first (tests/accounting/budgets for accounting/budgets/calibration.py) and, if they pass, TESTS. The same command
resumes an interrupted session; a new commit needs a new FOLDER. Survivors are shown with their difference: each needs a
test, or changes no result. ``cr-report FOLDER/session.sqlite`` shows more. A mistake takes seconds to minutes.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import random
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
_NEVER_EVALUATED = "BitOr"  # in ``int | None``


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; the exit status is 1 if a mistake survived."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mutation")
    parser.add_argument("folder", type=Path, help="folder of the session")
    parser.add_argument("files", nargs="*", help="files below accounting/ (default: all)")
    parser.add_argument("--mutants", type=int, default=50, help="number of mistakes (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the choice (default: %(default)s)")
    parser.add_argument("--then", default="tests/accounting", help="tests for survivors (default: %(default)s)")
    parser.add_argument("--cpu", type=int, default=900, help="limit in seconds (default: %(default)s)")
    options = parser.parse_args(arguments)
    if importlib.util.find_spec("cosmic_ray") is None:
        parser.error("pip install cosmic-ray")
    from cosmic_ray.mutating import mutate_and_test
    from cosmic_ray.work_db import WorkDB

    checkout = cloned(options.folder)
    session = WorkDB(str(options.folder.resolve() / "session.sqlite"), WorkDB.Mode.create)
    os.chdir(checkout)  # where cosmic-ray writes, and runs tests
    if not session.num_work_items:
        items = chosen(options.files, options.mutants, options.seed)
        for tests in dict.fromkeys([*(mirrored(item.mutations[0].module_path) for item in items), options.then]):
            if subprocess.run(shlex.split(command(tests, options.cpu)), check=False).returncode:
                parser.error(f"{tests} fails on the unchanged commit")
        session.add_work_items(items)
    for item in session.pending_work_items:
        for tests in (mirrored(item.mutations[0].module_path), options.then):
            result = mutate_and_test(item.mutations, command(tests, options.cpu), 20.0 * options.cpu)
            if result.is_killed:
                break
        session.set_result(item.job_id, result)
        print(f"{shown(item)}: {'noticed' if result.is_killed else 'survived'}", file=sys.stderr, flush=True)
    outcomes = dict(session.results)
    survived = [item for item in session.work_items if not outcomes[item.job_id].is_killed]
    for item in survived:
        print(shown(item), outcomes[item.job_id].diff, sep="\n")
    print(f"{len(survived)} of {len(outcomes)} mistakes survived")
    return int(bool(survived))


def cloned(folder: Path) -> Path:
    """Returns the session's clone of the last commit, without a mistake that a killed run left.

    Raises:
        SystemExit: The clone is of another commit, or Python does not import the package of the clone.
    """
    checkout = folder.resolve() / "checkout"
    if not checkout.exists():
        _run("git", "clone", "--quiet", "--shared", str(ROOT), str(checkout))
    _run("git", "reset", "--quiet", "--hard", cwd=checkout)
    if len({_run("git", "rev-parse", "HEAD", cwd=place) for place in (ROOT, checkout)}) > 1:
        raise SystemExit(f"{folder} belongs to another commit: give a new folder")
    name = _run(sys.executable, "-c", "import hockeystick.accounting as one; print(one.__file__)", cwd=checkout)
    if checkout not in Path(name).resolve().parents:
        raise SystemExit(f"{sys.executable} imports {name}, not the clone: install the package with pip install -e")
    return checkout


def chosen(files: Sequence[str], mutants: int, seed: int) -> list[Any]:
    """Returns a random sample of the mistakes in the files; equal seeds give equal samples."""
    from cosmic_ray.commands import init
    from cosmic_ray.work_db import WorkDB

    every = WorkDB(":memory:", WorkDB.Mode.create)
    init([Path(file) for file in files] or sorted(Path("accounting").rglob("*.py")), every, {})
    items = [item for item in every.work_items if _NEVER_EVALUATED not in item.mutations[0].operator_name]
    items.sort(key=lambda item: (str((one := item.mutations[0]).module_path), one.operator_name, one.occurrence))
    return random.Random(seed).sample(items, min(mutants, len(items)))


def mirrored(path: Path) -> str:
    """Returns the test folder that mirrors the folder of a file."""
    return next(f"tests/{folder.as_posix()}" for folder in path.parents if Path("tests", folder).is_dir())


def command(tests: str, seconds: int) -> str:
    """Returns the shell command that runs tests.

    A folder without tests (status 5) notices nothing. The limit also ends endless loops if this process is killed.
    """
    pytest = f"{shlex.quote(sys.executable)} -m pytest -q -x -p no:cacheprovider -m fast {tests}"
    return shlex.join(("sh", "-c", f"ulimit -t {seconds}; {pytest} || [ $? -eq 5 ]"))


def shown(item: Any) -> str:
    """Returns the place and the kind of a mistake."""
    (mutation,) = item.mutations
    return f"{mutation.module_path}:{mutation.start_pos[0]} {mutation.operator_name.removeprefix('core/')}"


def _run(*words: str, cwd: Path | None = None) -> str:
    return subprocess.run(words, cwd=cwd, check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
