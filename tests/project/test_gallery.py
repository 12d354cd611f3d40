"""The notebooks of the gallery run, hold no outputs, and begin with their result.

All of them take about 35 s of CPU time. Cells for packages that are not installed say so; ``.ci/run`` runs those of
OpenDP and diffprivlib in the environment that has both, and Opacus's run on demand, where it is installed.
"""

from __future__ import annotations

import io
import json
import re
from contextlib import redirect_stdout
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

GALLERY = Path(__file__).parents[2] / "docs" / "gallery"
NOTEBOOKS = sorted(GALLERY.glob("*.ipynb"))
SCREEN = 40  # lines of code in one cell


def cells(notebook: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return found


def source(cell: dict[str, Any]) -> str:
    return "".join(cell["source"])


def name(notebook: Path) -> str:
    return notebook.stem


def test_the_gallery_has_ten_notebooks_and_its_page_names_each() -> None:
    page = (GALLERY / "index.md").read_text(encoding="utf-8")

    assert len(NOTEBOOKS) == 10
    assert sorted(re.findall(r"\]\(([\w-]+\.ipynb)\)", page)) == [notebook.name for notebook in NOTEBOOKS]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=name)
def test_a_notebook_runs(notebook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    if notebook.stem == "drift" and find_spec("sklearn") is None:
        pytest.skip("scikit-learn is not installed")
    monkeypatch.chdir(tmp_path)
    pyplot.switch_backend("Agg")
    namespace: dict[str, Any] = {"__name__": "notebook"}
    with redirect_stdout(io.StringIO()) as output:
        for cell in cells(notebook):
            if cell["cell_type"] == "code":
                exec(compile(source(cell), notebook.name, "exec"), namespace)
    pyplot.close("all")
    assert output.getvalue().strip()


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=name)
def test_a_notebook_begins_with_its_result_and_checks_it(notebook: Path) -> None:
    first, *rest = cells(notebook)
    title, _, result = source(first).partition("\n\n")
    code = [source(cell) for cell in rest if cell["cell_type"] == "code"]

    assert title.startswith("# ") and re.search(r"\d|refuted|ε", result)
    assert "assert" in "".join(code)
    assert max(len(cell.splitlines()) for cell in code) <= SCREEN
    assert rest[0]["cell_type"] == "code" and any("axes" in cell or cell.endswith(".graph()") for cell in code)


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=name)
def test_a_notebook_holds_no_outputs(notebook: Path) -> None:
    assert all(not cell.get("outputs") and not cell.get("execution_count") for cell in cells(notebook))
    assert notebook.stat().st_size < 20_000
