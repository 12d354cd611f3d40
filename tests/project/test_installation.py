"""Tests of the page on the installation and of the files for those who cite or report."""

from __future__ import annotations

import re
import tomllib

import yaml

import hockeystick
from benchmarks import install_sizes
from benchmarks.frame import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_the_page_has_every_extra_and_no_other() -> None:
    page = install_sizes.PAGE.read_text(encoding="utf-8")
    listed = set(re.findall(r"^\| (\w[\w-]*) \| ", page, re.MULTILINE)) - {"extra"}

    assert listed == install_sizes.known_extras()
    assert install_sizes.known_extras() | {install_sizes.NOTHING} == set(install_sizes.PURPOSE)


def test_the_page_and_the_citation_name_the_versions_of_the_package() -> None:
    page = install_sizes.PAGE.read_text(encoding="utf-8")
    pythons = [one.rpartition(" ")[2] for one in PROJECT["classifiers"] if re.search(r"Python :: 3\.\d+$", one)]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))

    assert f"Python {', '.join(pythons[:-1])} or {pythons[-1]}" in page
    assert citation["version"] == hockeystick.__version__
    assert citation["license"] == PROJECT["license"]
    assert {"cff-version", "message", "title", "authors"} <= set(citation)


def test_the_conda_recipe_agrees_with_the_package() -> None:
    text = (ROOT / "recipe" / "recipe.yaml").read_text(encoding="utf-8")
    recipe = yaml.safe_load(text)
    entry = [f"{name} = {target}" for name, target in PROJECT["scripts"].items()]
    needed = [re.sub(r"^([\w-]+)", r"\1 ", one) for one in PROJECT["dependencies"]]

    assert recipe["context"] == {"version": hockeystick.__version__, "python_min": PROJECT["requires-python"][2:]}
    assert recipe["requirements"]["run"] == ["python >=${{ python_min }}", *needed]
    assert recipe["build"]["python"]["entry_points"] == entry
    assert recipe["about"]["license"] == PROJECT["license"] and recipe["about"]["summary"] == PROJECT["description"]
    assert (
        "hatchling >=1.27" in recipe["requirements"]["host"]
    )  # the version of the build system that pyproject.toml has
