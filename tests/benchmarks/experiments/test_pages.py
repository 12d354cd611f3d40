"""Every experiment is on its page of docs/, with a table, and without a check that does not hold."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGES = {
    "lazy": "lazy-online-learning.md",
    "fed": "federated-experts.md",
    "kl": "private-kl-divergence.md",
    "dist": "online-distribution-learning.md",
    "smooth": "smoothed-learning-and-query-release.md",
}
SCRIPTS = [file for kind in PAGES for file in sorted((ROOT / "benchmarks" / "experiments").rglob(f"{kind}_*.py"))]


@pytest.mark.parametrize("file", SCRIPTS, ids=lambda file: file.stem)
def test_every_experiment_is_on_its_page(file: Path) -> None:
    page = (ROOT / "docs" / PAGES[file.stem.partition("_")[0]]).read_text(encoding="utf-8")
    start, stop = page.index(f"<!-- {file.stem} -->"), page.index(f"<!-- /{file.stem} -->")
    assert f"python -m benchmarks.experiments.{file.parent.name}.{file.stem} --write" in page[start:stop]
    assert ": NO." not in page[start:stop]
    assert "| --- |" in page[start:stop]
