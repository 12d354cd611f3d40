"""What is packaged is what the repository holds, and the README's commands are the ones that CI runs."""

from __future__ import annotations

import os
import re
import tomllib
from importlib import metadata
from pathlib import Path

import hockeystick

ROOT = Path(__file__).parents[2]
PARTS = ("accounting", "mechanisms", "learners", "audits")
CONFIG = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_every_folder_of_the_four_parts_is_packaged() -> None:
    setuptools = CONFIG["tool"]["setuptools"]
    folders = {path.parent.relative_to(ROOT) for part in PARTS for path in (ROOT / part).rglob("__init__.py")}

    assert {"hockeystick", *("hockeystick." + ".".join(folder.parts) for folder in folders)} == set(
        setuptools["packages"]
    )
    assert setuptools["package-dir"] == {f"hockeystick.{part}": part for part in PARTS}


def test_every_folder_with_code_is_a_package() -> None:
    for part in PARTS:
        for path in (ROOT / part).rglob("*.py"):
            assert (path.parent / "__init__.py").exists(), path


def test_the_facade_links_to_the_four_parts() -> None:
    for part in PARTS:
        link = ROOT / "hockeystick" / part
        assert os.readlink(link) == os.path.join("..", part) if link.is_symlink() else link.read_text() == f"../{part}"


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

    assert "hockeystick[dask,demo,secure,tables]" in extras["test"]
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
    assert tests.endswith("&& .venv/bin/pytest -n auto -m 'not slow' && .venv/bin/pytest -n auto -m slow")


def test_ci_runs_the_test_line_of_the_readme_and_before_it_only_what_needs_other_packages() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    pattern = re.search(r"test_line=\$\(grep -m 1 '(.*?)' README.md\)", script)
    assert pattern is not None
    found = [
        line for line in (ROOT / "README.md").read_text(encoding="utf-8").splitlines() if re.match(pattern[1], line)
    ]

    assert found == [readme_commands()[1]]
    assert script.rstrip().endswith('bash -c "$test_line"')
    assert "bin/pytest" not in script and re.findall(r"-m pytest .*", script) == [
        "-m pytest -q -p no:cacheprovider tests/federated",
        '-m pytest -q -p no:cacheprovider -rs "${files[@]}" -k "$named"',
        "-m pytest -q -p no:cacheprovider -rs tests/project/test_docs.py -k 'blocks_run and ecosystem'",
    ]
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
