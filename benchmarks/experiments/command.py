"""The command line of the experiments: python -m benchmarks.experiments NAME [--write] [options]."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from benchmarks.frame import DOCS, experiment

HERE = Path(__file__).resolve().parent
PAGES = {
    "lazy": "lazy-online-learning.md",
    "fed": "federated-experts.md",
    "kl": "private-kl-divergence.md",
    "dist": "online-distribution-learning.md",
    "smooth": "smoothed-learning-and-query-release.md",
    "shuffle": "shuffle-model.md",
    "online": "benchmarks-online-learners.md",
}
"""The page of each experiment, by the first word of its name."""
SOURCES = ("accounting", "mechanisms", "learners", "audits", "benchmarks/experiments")
NAMES = {file.stem: file.parent.name for file in sorted(HERE.glob("*/*_*.py")) if file.stem.split("_")[0] in PAGES}


def main(given: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit status: 1 if a check does not hold, 2 if there is no such name."""
    name, *rest = [*(sys.argv[1:] if given is None else given), ""]
    if name not in NAMES:
        print(f"usage: python -m benchmarks.experiments NAME [--help]\nNAME is one of: {', '.join(NAMES)}")
        return 2
    compute = import_module(f"benchmarks.experiments.{NAMES[name]}.{name}").experiment
    return experiment(name, compute, rest[:-1], page=DOCS / PAGES[name.split("_")[0]], sources=SOURCES)
