"""Tests that the package has the files of the repository, and that CI runs the README's commands."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import hockeystick

ROOT = Path(__file__).parents[2]
PARTS = ("accounting", "mechanisms", "learners", "audits")
CONFIG = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_the_four_parts_are_built_into_the_package() -> None:
    """Packages are found; the links beside them would be a second copy."""
    build = CONFIG["tool"]["hatch"]["build"]

    assert build["targets"]["wheel"]["sources"] == {part: f"hockeystick/{part}" for part in PARTS}
    assert build["targets"]["wheel"]["only-include"] == ["hockeystick", "hockeystick_verify", *PARTS]
    assert build["exclude"] == [f"/hockeystick/{part}" for part in PARTS]
    assert {path.name for path in (ROOT / "hockeystick").iterdir() if path.is_symlink()} <= set(PARTS)


def test_every_folder_with_code_is_a_package() -> None:
    for part in (*PARTS, "hockeystick", "hockeystick_verify"):
        for path in (ROOT / part).rglob("*.py"):
            assert (path.parent / "__init__.py").exists(), path


def test_the_facade_links_to_the_four_parts() -> None:
    for part in PARTS:
        link = ROOT / "hockeystick" / part
        assert os.readlink(link) == os.path.join("..", part) if link.is_symlink() else link.read_text() == f"../{part}"


def test_a_part_is_imported_by_its_full_name_alone() -> None:
    """From the root a part could be imported as a package of its own, with a second set of classes."""
    code = f"""
import importlib, sys
sys.path.insert(0, {str(ROOT)!r})
for part in {PARTS}:
    try:
        importlib.import_module(part)
    except ImportError as error:
        print(error)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert run.stdout.splitlines() == [f"import hockeystick.{part}" for part in PARTS]


def test_a_clone_without_links_finds_its_parts(tmp_path: Path) -> None:
    """Where the system has no links, git writes their targets as text."""
    shutil.copytree(
        ROOT / "hockeystick", tmp_path / "hockeystick", ignore=shutil.ignore_patterns(*PARTS, "__pycache__")
    )
    for part in PARTS:
        (tmp_path / "hockeystick" / part).write_text(f"../{part}")
        shutil.copytree(ROOT / part, tmp_path / part, ignore=shutil.ignore_patterns("__pycache__"))
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "import hockeystick as hs\n"
        "print(hs.accounting.__file__, hs.events.Gaussian(1.0), hs.mechanisms.Laplace.__module__)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)

    assert run.stdout.startswith(str(tmp_path / "accounting")) and "Gaussian(noise_multiplier=1.0" in run.stdout


def test_no_two_test_files_or_modules_differ_in_case_only() -> None:
    names = [str(path.relative_to(ROOT)) for folder in (*PARTS, "tests") for path in (ROOT / folder).rglob("*.py")]

    assert len({name.lower() for name in names}) == len(names)


def test_the_version_is_stated_once() -> None:
    assert "version" in CONFIG["project"]["dynamic"]
    assert metadata.version("hockeystick") == hockeystick.__version__
    assert f"## [{hockeystick.__version__}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_licence_is_apache_2() -> None:
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")

    assert CONFIG["project"]["license"] == "Apache-2.0"
    assert "Apache License\n                           Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text


def test_the_test_extra_is_enough_for_the_demo_and_the_suite() -> None:
    extras = CONFIG["project"]["optional-dependencies"]

    assert "hockeystick[dask,demo,opendp,postgres,secure-sum,tables,verify]" in extras["test"]
    assert "hockeystick[report]" in extras["demo"]


def readme_commands() -> list[str]:
    """The lines of the first console block of the README: one command each."""
    block = re.search(r"```bash\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None
    return block.group(1).splitlines()


def test_the_readme_starts_with_two_commands_that_set_themselves_up() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    demo, tests = readme_commands()

    assert readme[: readme.index(tests)].count("\n") < 30  # the first screen
    for command in (demo, tests):
        assert command.startswith("python3 -m venv .venv && .venv/bin/pip install ")
    assert demo.endswith("&& .venv/bin/hockeystick demo")
    assert tests.endswith("&& .venv/bin/pytest -n auto -m fast && .venv/bin/pytest -n auto -m statistical")


def test_ci_runs_the_test_line_of_the_readme_and_before_it_only_what_needs_other_packages() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    pattern = re.search(r"test_line=\$\(grep -m 1 '(.*?)' README.md\)", script)
    assert pattern is not None
    found = [
        line for line in (ROOT / "README.md").read_text(encoding="utf-8").splitlines() if re.match(pattern[1], line)
    ]

    assert found == [readme_commands()[1]]
    assert script.count('"$test_line"') == 2 and 'newcomer() {\n    bash -c "$test_line"\n}\n' in script
    assert script.splitlines()[-1].startswith("follow newcomer #")  # its closing lines are the last
    assert "bin/pytest" not in script and re.findall(r"-m pytest .*", script) == [
        "-m pytest -q -p no:cacheprovider tests/learners/network",
        '-m pytest -q -p no:cacheprovider -rs "${files[@]}" -k "$named"',
        "-m pytest -q -p no:cacheprovider -rs tests/project/test_docs.py \\",
        "-m pytest -q -p no:cacheprovider -rs tests/project/test_gallery.py -k audit-libraries",
        "-m pytest -q -n auto -p no:cacheprovider -m project tests",
    ]
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
