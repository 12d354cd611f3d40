"""``public-api``: what a package makes public, module by module, from its docstrings.

    :::{public-api} hockeystick.mechanisms
    laplace gaussian lazy_*
    :::

Each word is a module that is the home of public names, names in the package's ``__all__``, or a pattern of modules. In
place of a package there may be a module, with ``*``: then all its public names are shown, see ``public_in``. The first
paragraph of a module, which says what it is for, is followed by its names. What a class inherits is shown with
it, unless it is shown elsewhere. A module without a public name is a warning.
"""

from __future__ import annotations

import inspect
import re
import sys
from functools import cache
from importlib import import_module
from types import ModuleType

from public_names import BLOCK, homes, matching, public
from sphinx.application import Sphinx
from sphinx.util import logging

NAMES_IN_HEADING = 6
logger = logging.getLogger(__name__)


@cache
def public_classes() -> frozenset[type]:
    return frozenset(value for value in public().values() if inspect.isclass(value))


def shown_elsewhere(value: type) -> list[str]:
    """The base classes whose members are not repeated: public ones of ours, and those of other packages."""
    ours = {base for base in value.__mro__ if base.__module__.startswith("hockeystick.")}
    return [base.__name__ for base in value.__mro__[1:] if base in public_classes() or base not in ours]


def made_by_others(value: type) -> list[str]:
    """Methods that another package has put into classes of ours, as scikit-learn does; its docstrings are its own."""
    ours = [base for base in value.__mro__ if base.__module__.startswith("hockeystick.")]
    members = {
        name: getattr(value, name)
        for base in ours
        for name in vars(base)
        if not name.startswith("_") and hasattr(value, name)
    }
    routines = {name: member for name, member in members.items() if inspect.isroutine(member)}
    return sorted(name for name, one in routines.items() if not (one.__module__ or "").startswith("hockeystick."))


def described(package: str, name: str) -> list[str]:
    """The autodoc directive of one public name."""
    value = getattr(import_module(package), name)
    if isinstance(value, ModuleType):
        return [f".. automodule:: {value.__name__}", "   :members:", ""]
    if inspect.isclass(value):
        inherited = f"   :inherited-members: {', '.join(shown_elsewhere(value))}"
        excluded = [f"   :exclude-members: {', '.join(found)}"] if (found := made_by_others(value)) else []
        return [f".. autoclass:: {package}.{name}", "   :members:", inherited, *excluded, ""]
    if inspect.isroutine(value):
        return [f".. autofunction:: {package}.{name}", ""]
    return [f".. py:data:: {name}", "", f"   ``{value!r}``", ""]


def introduction(module: str) -> list[str]:
    """The first paragraph of a module's docstring."""
    return inspect.cleandoc(sys.modules[module].__doc__ or "").split("\n\n")[0].splitlines()


def section(package: str, module: str) -> str:
    """One module: a heading of its names, what it is for, and the names."""
    names, where = homes(package)[module], f"{package}.{module}" if module else package
    heading = ", ".join(names[:NAMES_IN_HEADING]) + (", …" if len(names) > NAMES_IN_HEADING else "")
    lines = [f".. py:currentmodule:: {package}", ""]
    if not isinstance(getattr(import_module(package), names[0]), ModuleType):  # whose own description begins so
        lines += [*introduction(where), ""]
    for name in names:
        lines += described(package, name)
    return "\n".join([f"### {heading}", "", "```{eval-rst}", *lines, "```", ""])


def expand(app: Sphinx, docname: str, content: list[str]) -> None:
    """Replaces the blocks of a page by Markdown with autodoc directives, before the page is parsed."""

    def expanded(block: re.Match[str]) -> str:
        package, words = block[1], block[2].split()
        sections, seen = [], set()
        for pattern in words:
            modules = matching(package, pattern)
            if not modules and "*" not in pattern:
                logger.warning("%s: %s has no public name in a module %r", docname, package, pattern)
            for module in [module for module in modules if module not in seen]:
                seen.add(module)
                sections.append(section(package, module))
        return "\n".join(sections)

    content[0] = BLOCK.sub(expanded, content[0])


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("source-read", expand)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
