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
    listed = set(re.findall(r"^\| (\w+) \| ", page, re.MULTILINE)) - {"extra"}

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
