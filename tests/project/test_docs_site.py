"""Tests of the sources of the documentation site: names on API pages, figures from scripts, and the check of the built
site.

The site itself is built by .ci/run, where warnings are errors; nothing here needs the extra ``docs``.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import re
import sys
from collections import Counter
from functools import cached_property
from pathlib import Path
from types import FunctionType, ModuleType

import pytest

ROOT = Path(__file__).parents[2]
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


@pytest.mark.parametrize("package", [names.FACE, *names.PACKAGES, *names.MODULES])
def test_every_public_name_is_on_one_api_page(package: str) -> None:
    count = described_modules(package)

    assert {module: count[module] for module in names.homes(package) if count[module] != 1} == {}


def described(full: str) -> bool:
    """Whether a module, or a name in one, is on an API page: by itself, with its module, or as its package's."""
    where, _, name = full.rpartition(".")
    by_themselves = (*names.MODULES, "hockeystick.events")  # events are under accounting
    if full in (names.FACE, *names.PACKAGES, *by_themselves) or where in by_themselves:
        return True
    if where in (names.FACE, *names.PACKAGES):
        return name in importlib.import_module(where).__all__ or name in names.homes(where)
    package = max((one for one in names.PACKAGES if where.startswith(f"{one}.")), key=len, default="")
    if not package:
        return False
    home = where.removeprefix(f"{package}.")
    return home in names.homes(package) or (
        names.public().get(f"{package}.{name}") is getattr(importlib.import_module(where), name)
    )


def imported_names(text: str) -> set[str]:
    """The full names that the Python blocks of a page, or a script, import from this package."""
    found = set(re.findall(r"^import (hockeystick\b[\w.]*)", text, re.MULTILINE))
    for where, listed in re.findall(r"^from (hockeystick\b[\w.]*) import (\([^)]*\)|.*)$", text, re.MULTILINE):
        found |= {f"{where}.{name}" for name in re.findall(r"\w+", re.sub(r"#.*| as \w+", "", listed))}
    return found


@pytest.mark.parametrize("page", [*PAGES, ROOT / "README.md"], ids=lambda page: page.name)
def test_names_imported_by_a_page_are_on_an_api_page(page: Path) -> None:
    assert {full for full in imported_names(page.read_text(encoding="utf-8")) if not described(full)} == set()


def test_public_modules_are_on_an_api_page() -> None:
    """``hockeystick.events`` gathers what is described under accounting."""
    says_so = re.compile(r"^(__getattr__, __dir__, )?__all__", re.MULTILINE)
    paths = [*(ROOT / "hockeystick").glob("[a-z]*.py"), ROOT / "hockeystick" / "estimators" / "__init__.py"]
    says = {path for path in paths if says_so.search(path.read_text("utf-8"))}
    files = {path.parent.name if path.stem == "__init__" else path.stem for path in says}

    assert {f"hockeystick.{name}" for name in files} == set(names.MODULES) & {f"hockeystick.{name}" for name in files}
    assert "estimators" in files


def test_names_on_no_page_are_found() -> None:
    text = "import hockeystick._runs.demo\nfrom hockeystick.accounting.engines import contour_integral\n"
    text += "from hockeystick.accounting import Gaussian as Noise\n"
    text += (
        "from hockeystick import audits\nfrom hockeystick.learners.distribution.channels.all_channels import OneBit\n"
    )
    text += "from hockeystick.accounting.graph.drawing.mermaid import (\n    to_mermaid,  # a drawing\n)\n"

    imported = imported_names(text)
    assert {"hockeystick.accounting.Gaussian", "hockeystick.accounting.graph.drawing.mermaid.to_mermaid"} < imported
    assert not {"hockeystick.accounting.Noise", "hockeystick.accounting.graph.drawing.mermaid.drawing"} & imported
    assert {full for full in imported if not described(full)} == {
        "hockeystick._runs.demo",
        "hockeystick.accounting.engines.contour_integral",
    }


def test_names_of_a_module_are_listed() -> None:
    assert names.public_in("hockeystick.estimators")[0] == "PrivateClassifier"
    assert {"costs", "to_mermaid"} < set(names.public_in("hockeystick.accounting.graph.drawing.mermaid"))
    assert "AccountantGraph" not in names.public_in(
        "hockeystick.accounting.graph.drawing.mermaid"
    )  # it is imported there
    assert names.meant("PrivateQueries") == "hockeystick.estimators.PrivateQueries"
    assert names.meant("to_mermaid") is None  # without __all__ only full names are links
    assert (
        names.meant("hockeystick.accounting.graph.drawing.mermaid.to_mermaid")
        == "hockeystick.accounting.graph.drawing.mermaid.to_mermaid"
    )


def test_a_public_name_knows_its_home() -> None:
    assert names.home("hockeystick.mechanisms", "Laplace") == "numbers.laplace"
    assert names.home("hockeystick.accounting", "NO_EVENT") == "events.basic.event"
    assert names.home("hockeystick.accounting", "SAME") == "graph.parts.nodes"
    assert names.home("hockeystick.mechanisms", "factorisations") == "streams.factorisations"


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
        ("hockeystick.audits.claims.claim.Claim", None, "hockeystick.audits.Claim"),
        ("neighbours.pairs.record_distance", "hockeystick.audits", "hockeystick.audits.record_distance"),
        ("hs.Acountant", None, None),
        ("numpy.random.Generator", None, None),
    ],
)
def test_names_resolve_to_their_objects(written: str, package: str | None, meant: str | None) -> None:
    assert names.meant(written, package) == meant


def members(value: type) -> dict[str, object]:
    """The methods and properties that a class itself defines, other than private ones."""
    kinds = (FunctionType, property, classmethod, staticmethod, cached_property)
    return {
        name: member for name, member in vars(value).items() if not name.startswith("_") and isinstance(member, kinds)
    }


def undocumented(value: type) -> list[str]:
    """Of these, and of those that a base of ours defines, the ones without a docstring in any of the classes."""
    ours = [base for base in value.__mro__ if base.__module__.startswith(("hockeystick", __name__))]
    named = dict.fromkeys(name for base in ours for name in members(base))
    return [name for name in named if not any(describes(base, name) for base in value.__mro__)]


def describes(base: type, name: str) -> bool:
    """Whether a class has a docstring for a member, or says in its own what a plain attribute is."""
    if name in members(base):
        return bool(members(base)[name].__doc__)
    return name in vars(base) and f" {name}: " in (base.__doc__ or "")


def test_every_public_method_and_property_has_a_docstring() -> None:
    """Those of ``hockeystick.events`` are under accounting."""
    classes = {full: value for full, value in names.public().items() if inspect.isclass(value)}

    assert {full.split(".")[1] for full in classes} >= {*names.PARTS, "estimators"}
    assert sorted(f"{full}.{name}" for full, value in classes.items() for name in undocumented(value)) == []


def test_a_member_without_a_docstring_is_found() -> None:
    class Base:
        """Has attributes.

        Attributes:
          field: a number.
        """

        field = 0
        other = 0

        def inherited(self) -> None:
            """Said once."""

        @property
        def silent(self) -> int:
            return 0

    class Derived(Base):
        field = property(lambda self: 1)
        other = property(lambda self: 1)

        def inherited(self) -> None: ...

        @classmethod
        def made(cls) -> None: ...

        @staticmethod
        def told() -> None:
            """Said here."""

        def _private(self) -> None: ...

    assert undocumented(Base) == ["silent"]
    assert undocumented(Derived) == ["other", "made", "silent"]


def test_every_public_name_is_on_its_page() -> None:
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
    experiments = {path.stem for path in (ROOT / "benchmarks" / "experiments").rglob("*.py")}

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


def test_a_constructor_of_attrs_is_shown_as_in_its_class(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sphinx")
    monkeypatch.syspath_prepend(DOCS / "extensions")
    annotations = extension("annotations")
    arguments = "(orders=attr_dict['orders'].default, *, _spent=attr_dict['_spent'].default, adjacency=3)"
    from hockeystick.accounting import AccountantGraph, Odometer

    shown = annotations.as_written(None, "class", "Odometer", Odometer, None, f"(delta, {arguments[1:]}", "")[0]
    assert shown == "(delta: float, orders: Iterable[float]=..., *, adjacency: object=Adjacency.ADD_OR_REMOVE_ONE)"
    assert isinstance(annotations.default([1]), annotations.ast.List)
    graph = annotations.as_written(None, "class", "A", AccountantGraph, None, "(pinned, _nodes, _views)", "")[0]
    assert graph == "(pinned: bool=False)"
