"""Imports point downwards: face -> learners, audits -> mechanisms -> accounting; and accounting draws no numbers."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ALLOWED = {
    "accounting": {"accounting"},
    "mechanisms": {"accounting", "mechanisms"},
    "learners": {"accounting", "mechanisms", "learners"},
    "audits": {"accounting", "mechanisms", "audits"},
}
CATALOGUE = "targets*.py"  # the only files of audits that know learners
RANDOM = ("random", "secrets", "numpy.random")


def imported(path: Path, package: str) -> Iterator[str]:
    """Full dotted names of all that the file imports; also of ``np.random`` and ``import_module("...")``."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield from (f"{base}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in ("np", "numpy"):
            yield f"numpy.{node.attr}"
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "__import__")):
            yield from (arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str))


def violations(root: Path) -> list[str]:
    """Imports under ``root`` that point sideways or upwards, as "file imports module"."""
    found = []
    for part, allowed in ALLOWED.items():
        for path in sorted((root / part).rglob("*.py")):
            package = ".".join(("hockeystick", *path.parent.relative_to(root).parts))
            for name in imported(path, package):
                top, _, rest = name.partition(".")
                home = rest.partition(".")[0]
                catalogue = part == "audits" and home == "learners" and fnmatch(path.name, CATALOGUE)
                upwards = top == "hockeystick" and home not in allowed and not catalogue
                bare = top in ALLOWED  # the folder, found by way of the working directory: a second identity
                random = part == "accounting" and any(name == r or name.startswith(r + ".") for r in RANDOM)
                if upwards or bare or random:
                    found.append(f"{path.relative_to(root)} imports {name}")
    return found


def test_imports_point_downwards() -> None:
    assert all(any((ROOT / part).glob("*.py")) for part in ALLOWED)
    assert violations(ROOT) == []


@pytest.mark.parametrize(
    "file, line",
    [
        ("accounting/events.py", "import hockeystick.mechanisms"),
        ("accounting/events.py", "from hockeystick.audits.claims.claim import Claim"),
        ("accounting/events.py", "from hockeystick import audits"),
        ("accounting/events.py", "from hockeystick import compose"),  # the facade is the top floor
        ("accounting/events.py", "import hockeystick"),
        ("accounting/events.py", "from ..mechanisms import Laplace"),
        ("accounting/events.py", "from .. import mechanisms"),
        ("accounting/events.py", "import random"),
        ("accounting/events.py", "from numpy.random import default_rng"),
        ("accounting/events.py", "from numpy import random"),
        ("accounting/events.py", "import numpy as np\nrng = np.random.default_rng()"),
        ("accounting/events.py", "import importlib\nimportlib.import_module('hockeystick.learners')"),
        ("mechanisms/numbers/laplace.py", "from hockeystick.learners.lazy import LazyExperts"),
        ("mechanisms/numbers/laplace.py", "from accounting import events"),
        ("learners/lazy.py", "def f():\n    from hockeystick.audits import audit"),
        ("learners/lazy.py", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import hockeystick.audits"),
        ("audits/fixed_sample.py", "from hockeystick.learners import LazyExperts"),
        ("audits/fixed_sample.py", "from hockeystick.report import html"),
    ],
)
def test_a_violation_is_found(tmp_path: Path, file: str, line: str) -> None:
    path = tmp_path / file
    path.parent.mkdir()
    path.write_text(line)

    assert len(violations(tmp_path)) == 1


@pytest.mark.parametrize(
    "file, line",
    [
        ("accounting/engines/renyi.py", "import math\nimport numpy as np\nfrom dp_accounting import rdp\nnp.exp(1)"),
        ("accounting/engines/renyi.py", "from . import errors\nfrom .errors import GraphError"),
        (
            "mechanisms/numbers/laplace.py",
            "import hockeystick.accounting\nfrom hockeystick.mechanisms.contract.protocol import Mechanism",
        ),
        (
            "mechanisms/numbers/laplace.py",
            "from hockeystick import accounting\nimport numpy as np\nnp.random.default_rng(0)",
        ),
        ("learners/lazy.py", "from hockeystick.mechanisms import Exponential\nfrom .weights import multiplicative"),
        ("audits/catalogue/lazy/experts.py", "from hockeystick.learners import LazyExperts"),
        ("audits/targets.py", "import hockeystick.learners.lazy"),
    ],
)
def test_what_is_allowed_passes(tmp_path: Path, file: str, line: str) -> None:
    path = tmp_path / file
    path.parent.mkdir()
    path.write_text(line)

    assert violations(tmp_path) == []
