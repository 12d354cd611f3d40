"""The pictures of docs/pictures.md: what guarantees, ledgers and audits show of themselves.

    python -m benchmarks.pictures --write

writes ``docs/figures/plot_*.svg``; ``--png FOLDER`` writes them as PNG, to look at.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from matplotlib.figure import Figure

import hockeystick as hs
from benchmarks.frame import DOCS, svg
from hockeystick.accounting import DurableLedger, GDPFilter
from hockeystick.accounting.budgets import durable_ledger

TRAINING = hs.DPSGD(records=60_000, batch=256, epochs=10)
CHARGES = (("count by region", 12.0, 1), ("mean income", 10.0, 1), ("histogram of ages", 6.0, 1), ("model", 20.0, 3))


def training(figure: Figure) -> None:
    """ε of a training over its noise, and over its steps."""
    guarantee = TRAINING.guarantee(1.0)
    left, right = figure.subplots(1, 2, sharey=False)
    guarantee.plot("utility", delta=1e-5, points=14, ax=left)
    guarantee.plot("steps", delta=1e-5, points=14, ax=right)


def trade_offs(figure: Figure) -> None:
    """The attacks that three guarantees allow, and a claim."""
    left, right = figure.subplots(1, 2)
    curves: dict[str, Any] = {
        "training": TRAINING.guarantee(1.0),
        "ten counts": hs.compose((hs.events.Laplace(10.0), 10)),
        "claim: (1, 1e-5)": hs.Claim(1.0, 1e-5),
    }
    hs.plots.trade_off(curves, ax=left)
    TRAINING.guarantee(1.0).plot("profile", ax=right)


def budget(figure: Figure) -> None:
    """A budget over four weeks."""
    begin = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
    with tempfile.TemporaryDirectory() as folder:
        ledger = DurableLedger.create(Path(folder) / "budget.db", GDPFilter.for_target(1.0, 1e-6), who="statistics")
        for week, (note, noise, count) in enumerate(CHARGES):
            when = (begin + timedelta(days=7 * week)).isoformat()
            with mock.patch.object(durable_ledger, "_now", lambda when=when: when):
                ledger.reserve(hs.events.Gaussian(noise), count=count, note=note)
        ledger.plot(ax=figure.subplots())


def audits(figure: Figure) -> None:
    """The event of a verdict, and the power of its test."""

    def noisy_count(data: Any, rng: np.random.Generator, runs: int) -> Any:
        return len(data) + rng.laplace(scale=1.0, size=runs)

    verdict = hs.audit(noisy_count, claim=hs.Claim(1.0), neighbours=([1, 2], [1]), samples=40_000, rng=1)
    left, right = figure.subplots(1, 2)
    verdict.plot(ax=left)
    verdict.plot("power", ax=right)


PICTURES: dict[str, Callable[[Figure], None]] = {
    "plot_training.svg": training,
    "plot_trade_offs.svg": trade_offs,
    "plot_budget.svg": budget,
    "plot_audit.svg": audits,
}


def main() -> int:
    """Draws the pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the pictures of docs/")
    parser.add_argument("--png", type=Path, help="a folder for PNG files")
    parser.add_argument("--only", choices=sorted(PICTURES), help="one of the pictures")
    given = parser.parse_args()
    for name, draw in PICTURES.items():
        if given.only not in (None, name):
            continue
        if given.png:
            figure = Figure(figsize=(8.0, 3.4), layout="constrained")
            draw(figure)
            figure.savefig((given.png / name).with_suffix(".png"), dpi=110)
        if given.write:
            (DOCS / "figures" / name).write_text(svg(draw), encoding="utf-8")
        print(name)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
