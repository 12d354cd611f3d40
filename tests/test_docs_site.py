"""What the documentation site is built from: names on API pages, figures from scripts, and the check of what was built.

The site itself is built by .ci/run, where warnings are errors; nothing here needs the extra ``docs``.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))


def extension(name: str) -> ModuleType:
    """A module of docs/extensions, which is on no path."""
    spec = importlib.util.spec_from_file_location(f"docs_{name}", DOCS / "extensions" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = sys.modules.setdefault(spec.name, importlib.util.module_from_spec(spec))
    spec.loader.exec_module(module)
    return module


names = extension("public_names")
site_check = extension("site_check")


def described_modules(package: str) -> Counter[str]:
    """How often each home module of public names stands on the API pages; in one block it counts once."""
    found: Counter[str] = Counter()
    for page in PAGES:
        for where, words in names.BLOCK.findall(page.read_text(encoding="utf-8")):
            if where == package:
                found.update({module for word in words.split() for module in names.matching(package, word)})
    return found


@pytest.mark.parametrize("package", [names.FACE, *names.PACKAGES])
def test_every_public_name_is_on_one_api_page(package: str) -> None:
    count = described_modules(package)

    assert {module: count[module] for module in names.homes(package) if count[module] != 1} == {}


def test_a_public_name_knows_its_home() -> None:
    assert names.home("hockeystick.mechanisms", "Laplace") == "laplace"
    assert names.home("hockeystick.accounting", "NO_EVENT") == "event"
    assert names.home("hockeystick.accounting", "SAME") == "nodes"
    assert names.home("hockeystick.mechanisms", "factorisations") == "factorisations"


@pytest.mark.parametrize(
    "written, package, meant",
    [
        ("hs.events.Gaussian", None, "hockeystick.accounting.Gaussian"),
        ("hs.mechanisms.Gaussian", None, "hockeystick.mechanisms.Gaussian"),
        ("hs.Claim", None, "hockeystick.audits.Claim"),
        ("audits.Claim", None, "hockeystick.audits.Claim"),
        ("AccountantGraph", None, "hockeystick.accounting.AccountantGraph"),
        ("Gaussian", None, None),  # an event and a mechanism
        ("Gaussian", "hockeystick.mechanisms", "hockeystick.mechanisms.Gaussian"),
        ("hockeystick.audits.claim.Claim", None, "hockeystick.audits.Claim"),
        ("neighbours.record_distance", "hockeystick.audits", "hockeystick.audits.record_distance"),
        ("hs.Acountant", None, None),
        ("numpy.random.Generator", None, None),
    ],
)
def test_what_a_name_means(written: str, package: str | None, meant: str | None) -> None:
    assert names.meant(written, package) == meant


def test_every_name_of_the_face_is_on_its_page() -> None:
    import hockeystick

    page = (DOCS / "api" / "hockeystick.md").read_text(encoding="utf-8")
    elsewhere = {name for found in names.homes(names.FACE).values() for name in found}  # described on that page in full

    assert [name for name in hockeystick.__all__ if name not in elsewhere and f"`hs.{name}`" not in page] == []


def test_every_figure_comes_from_a_script_and_is_on_a_page() -> None:
    figures = {path.stem for path in (DOCS / "figures").iterdir()}
    scripts = "".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "benchmarks").rglob("*.py")))
    shown = {
        name for page in PAGES for name in re.findall(r"!\[[^\]]+\]\(figures/(\w+)\.svg\)", page.read_text("utf-8"))
    }
    experiments = {path.stem for path in (ROOT / "benchmarks" / "experiments").glob("*.py")}

    assert all(path.suffix == ".svg" for path in (DOCS / "figures").iterdir())
    assert figures == shown
    assert {name for name in figures if name not in experiments and f"{name}.svg" not in scripts} == set()


GOOD = """<html lang="en"><head><title>t</title><link rel="stylesheet" href="s.css"></head>
<body id="top"><a href="#top">x</a><a href="sub/b.html#there">y</a><a href="https://example.org">z</a>
<img src="i.svg" alt="a picture"></body></html>"""


def site(folder: Path, page: str = GOOD, css: str = "a { color: red }") -> list[str]:
    (folder / "sub").mkdir()
    (folder / "a.html").write_text(page, encoding="utf-8")
    (folder / "sub" / "b.html").write_text('<html lang="en"><title>b</title><p id="there">', encoding="utf-8")
    (folder / "s.css").write_text(css, encoding="utf-8")
    (folder / "i.svg").write_text("<svg/>", encoding="utf-8")
    found = site_check.problems(folder)
    assert isinstance(found, list)
    return found


def test_a_good_site_has_no_problem(tmp_path: Path) -> None:
    assert site(tmp_path) == []


@pytest.mark.parametrize(
    "good, bad, problem",
    [
        ("sub/b.html#there", "sub/b.html#where", "a.html: links to sub/b.html#where, whose anchor is missing"),
        ("sub/b.html#there", "sub/c.html", "a.html: links to sub/c.html, which is missing"),
        ('href="#top"', 'href="#bottom"', "a.html: links to #bottom, whose anchor is missing"),
        ('src="i.svg"', 'src="j.svg"', "a.html: loads j.svg, which is missing"),
        ('href="s.css"', 'href="//cdn.example/s.css"', "a.html: loads //cdn.example/s.css, which is elsewhere"),
        (
            "<title>",
            "<script src='https://cdn.example/x.js'></script><title>",
            "a.html: loads https://cdn.example/x.js",
        ),
        ("<img", "<p id='top'><img", "a.html: the id 'top' stands 2 times"),
        (' alt="a picture"', "", "a.html: no text for the image i.svg"),
        (' lang="en"', "", "a.html: no language"),
        ("<title>t</title>", "", "a.html: no title"),
    ],
)
def test_a_planted_problem_is_found(tmp_path: Path, good: str, bad: str, problem: str) -> None:
    assert good in GOOD
    (found,) = site(tmp_path, GOOD.replace(good, bad, 1))

    assert found.startswith(problem)


def test_a_font_from_elsewhere_is_found_and_so_is_an_empty_site(tmp_path: Path) -> None:
    assert site(tmp_path, css="@import 'https://fonts.example/f.css';") == [
        "s.css: loads https://fonts.example/f.css, which is elsewhere"
    ]
    (tmp_path / "empty").mkdir()
    assert len(site_check.problems(tmp_path / "empty")) == 1
