"""The public names, which modules are their homes, and what is meant by a name in prose or in an annotation."""

from __future__ import annotations

import inspect
import re
import sys
from fnmatch import fnmatch
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

PARTS = ("accounting", "mechanisms", "learners", "audits")
_ROOMS = ("analytics", "bandits", "lazy", "federated", "divergence", "distribution", "smoothed", "experts", "network")
PACKAGES = (*(f"hockeystick.{part}" for part in PARTS), *(f"hockeystick.learners.{room}" for room in _ROOMS))
"""Packages with public names; a name that two of them give belongs to the inner one."""
FACE = "hockeystick"
BLOCK = re.compile(r"^:::\{public-api\} (\S+)\n(.*?)^:::$", re.DOTALL | re.MULTILINE)
"""A block of an API page: a package, and words that name modules of it; or a module by itself, and ``*``."""

_API_PAGES = sorted((Path(__file__).parents[1] / "api").glob("*.md"))
MODULES = tuple(
    sorted(
        {package for page in _API_PAGES for package, _ in BLOCK.findall(page.read_text(encoding="utf-8"))}
        - {FACE, *PACKAGES}
    )
)
"""Modules that are public though their names are not all in the ``__all__`` of their package."""


@cache
def public() -> dict[str, object]:
    """Full name -> what it names; ``hockeystick.accounting.Gaussian`` and so on."""
    return {
        f"{where}.{name}": getattr(import_module(where), name)
        for where in (*MODULES, *PACKAGES)
        for name in public_in(where)
    }


def public_in(where: str) -> list[str]:
    """The public names of a package or module: its ``__all__``; without one, the classes and functions it defines.

    What a package inside gives as well is left out, and so are these packages.
    """
    module = import_module(where)
    if hasattr(module, "__all__"):
        inside = {name for one in PACKAGES if one.startswith(f"{where}.") for name in import_module(one).__all__}
        packages = {one.rpartition(".")[2] for one in PACKAGES} if where in PACKAGES else set()
        return [name for name in module.__all__ if name not in inside | packages]
    own = [name for name, value in vars(module).items() if getattr(value, "__module__", None) == where]
    return [name for name in own if not name.startswith("_") and _is_definition(getattr(module, name))]


def _is_definition(value: object) -> bool:
    return inspect.isclass(value) or inspect.isfunction(value)


@cache
def _by_last_part() -> dict[str, list[str]]:
    """By what a name may be called alone; names of modules without ``__all__`` (``edges``, ``label``) mean too much."""
    found: dict[str, list[str]] = {}
    for full in public():
        where, _, name = full.rpartition(".")
        if hasattr(import_module(where), "__all__"):
            found.setdefault(name, []).append(full)
    return found


@cache
def _by_home() -> dict[str, str]:
    """Where a class or function is defined -> its public name."""
    values = {full: value for full, value in public().items() if inspect.isclass(value) or inspect.isroutine(value)}
    return {f"{value.__module__}.{value.__qualname__}": full for full, value in values.items()}


@cache
def _by_facade() -> dict[str, str]:
    """``hs.Claim``, ``hs.events.Gaussian`` and ``hs.mechanisms.Gaussian`` -> full name."""
    face, events = import_module("hockeystick"), import_module("hockeystick.events")
    found = {f"hs.{full.removeprefix('hockeystick.')}": full for full in public()}
    found |= {f"hs.events.{name}": f"hockeystick.accounting.{name}" for name in events.__all__}
    targets = [name for name in vars(import_module("hockeystick.targets")) if not name.startswith("_")]
    found |= {f"hs.targets.{name}": f"hockeystick.audits.{name}" for name in targets}
    found |= {f"hs.{outer.removeprefix('hockeystick.')}": full for outer, full in _by_outer().items()}
    for name in face.__all__:
        same = [full for full in _by_last_part().get(name, []) if public()[full] is getattr(face, name)]
        found |= {f"hs.{name}": same[0]} if same else {}
    return found


@cache
def _by_outer() -> dict[str, str]:
    """``hockeystick.learners.LazyExperts`` -> the name in the package inside that gives it, too."""
    return {
        f"{outer}.{name}": f"{inner}.{name}"
        for outer in PACKAGES
        for inner in PACKAGES
        if inner.startswith(f"{outer}.")
        for name in set(import_module(outer).__all__) & set(import_module(inner).__all__)
    }


def meant(name: str, package: str | None = None) -> str | None:
    """Returns the full name of what ``name`` means on a page about ``package``, or None: unknown, or two things.

    ``name`` may be full, through ``hs`` or a part (``audits.Claim``), where it is defined, or the last part alone.
    """
    for written in (name, f"{package}.{name}"):
        if written in public() or written in _by_home() or written in _by_outer():
            return _by_home().get(written, _by_outer().get(written, written))
    if "." in name and (full := _by_facade().get(name) or _by_facade().get(f"hs.{name}")):
        return full
    candidates = _by_last_part().get(name, [])
    here = [full for full in candidates if package and full.startswith(f"{package}.")]
    same = {id(public()[full]) for full in candidates}
    return here[0] if here else candidates[0] if len(same) == 1 else None


@cache
def homes(package: str) -> dict[str, list[str]]:
    """Home module, by its name within the package -> its public names, in the order of the source.

    A module by itself has one home, which is called "".
    """
    if not hasattr(import_module(package), "__path__"):
        return {"": sorted(public_in(package), key=lambda name: line(package, name))}
    found: dict[str, list[str]] = {}
    for name in public_in(package):
        if package != FACE or is_of_the_face(name):
            found.setdefault(home(package, name), []).append(name)
    return {module: sorted(names, key=lambda name: line(package, name)) for module, names in sorted(found.items())}


def is_of_the_face(name: str) -> bool:
    """Whether a name is defined in the face itself, not in one of the four parts."""
    where = getattr(getattr(import_module(FACE), name), "__module__", None)
    return where is not None and where.split(".")[1] not in PARTS


def home(package: str, name: str) -> str:
    value = getattr(import_module(package), name)
    if isinstance(value, ModuleType):
        where = value.__name__
    elif inspect.isclass(value) or inspect.isroutine(value):
        where = value.__module__
    else:  # a constant: the module of the package that assigns it
        assignment = re.compile(rf"^{name}\b[^=\n]* = ", re.MULTILINE)
        modules = [module for module in sorted(sys.modules) if module.startswith(f"{package}.")]
        where = next(module for module in modules if assignment.search(source(module)))
    return where.removeprefix(f"{package}.")


def line(package: str, name: str) -> int:
    """How far down its module a class or function is defined, in characters; modules and constants come first."""
    value = getattr(import_module(package), name)
    if not (inspect.isclass(value) or inspect.isfunction(value)):
        return 0
    found = re.search(rf"^(?:class|def) {value.__name__}\b", source(value.__module__), re.MULTILINE)
    return found.start() if found else 0


@cache
def source(module: str) -> str:
    return inspect.getsource(sys.modules[module])


def matching(package: str, pattern: str) -> list[str]:
    """The home modules that a word of an API page means."""
    return [module for module in homes(package) if fnmatch(module, pattern)]
