"""Errors, coverage and false alarms of drift looks and watches.

    python -m benchmarks.learners.drift [--quick] [--write]

Errors of KL(reference || records) beside the plug-in of a noisy histogram in one line of numpy; the share of intervals
that cover the truth, among them drift in a rare cell, with the median width as a multiple of the truth; and the share
of watches without drift that ever give an alarm. Tables are drawn anew in each run. The seeds are not those that the
centres of the bootstrap were chosen with. ``--write`` puts the tables into docs/watch-drift.md.
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import numpy as np
from attrs import evolve, frozen

from benchmarks.frame import markdown, replaced
from hockeystick.accounting.arrays import FloatArray
from hockeystick.learners import DriftWatch, NoisyHistogram, drift_look
from hockeystick.learners.divergence.drift.cell_terms import DIVERGENCES, Divergence, Target, cell_term
from hockeystick.learners.divergence.drift.count_noise import LaplaceCounts
from hockeystick.mechanisms import SimulationNoise

PAGE = Path(__file__).parents[2] / "docs" / "watch-drift.md"
SEED = 20_261
NAMES = tuple(name for name in DIVERGENCES if name != "wasserstein")
RARE: tuple[Divergence, ...] = ("kl", "kl_reverse", "chi2", "hellinger2")  # for which drift in a rare cell is hard


@frozen(kw_only=True)
class Setting:
    """A reference, a law, N, ε, what is estimated, and how often it is run."""

    name: str
    reference: FloatArray
    law: FloatArray
    records: int
    epsilon: float
    target: Target
    runs: int
    names: tuple[Divergence, ...] = NAMES


def spiked(rare: float, now: float, cells: int = 10, count: int = 1) -> tuple[FloatArray, FloatArray]:
    """Returns a reference with rare cells, and a law in which they hold more."""
    pair = [np.full(cells, (1.0 - count * share) / (cells - count)) for share in (rare, now)]
    for each, share in zip(pair, (rare, now), strict=True):
        each[:count] = share
    return pair[0], pair[1]


def moved(cells: int, shift: float, empty: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Returns a random reference, and a law that departs from it by a log-normal factor and has empty cells."""
    pi = np.maximum(rng.dirichlet(np.full(cells, 3.0)), 1e-4)
    pi /= pi.sum()
    law = pi * np.exp(rng.normal(0.0, shift, cells))
    law[rng.choice(cells, empty, replace=False)] = 0.0
    return pi, law / law.sum()


def settings(quick: bool) -> list[Setting]:
    """Returns the settings of the table of coverage."""
    found: list[Setting] = []
    rare: tuple[tuple[str, float, float, int, int, float, Target], ...] = (
        ("1 % doubles", 0.01, 0.02, 1, 2000, 0.3, "table"),
        ("0.1 % to 1 %", 0.001, 0.01, 1, 2000, 0.3, "table"),
        ("0.1 % to 0.35 %", 0.001, 0.0035, 1, 2000, 1.0, "table"),
        ("0.1 % to 3 %", 0.001, 0.03, 1, 2000, 0.1, "table"),
        ("0.01 % to 0.3 %", 0.0001, 0.003, 1, 2000, 1.0, "table"),
        ("three of 0.1 % to 1 %", 0.001, 0.01, 3, 2000, 0.3, "table"),
        ("0.1 % to 1 %", 0.001, 0.01, 1, 2000, 0.3, "law"),
    )
    for name, low, high, count, size, epsilon, target in rare:
        pi, law = spiked(low, high, count=count)
        runs = 20 if quick else 1000 if len(found) < 3 else 300
        one = Setting(name=name, reference=pi, law=law, records=size, epsilon=epsilon, target=target, runs=runs)
        found.append(evolve(one, names=RARE))
    kinds = (("no drift", 0.0, 0), ("drift", 0.2, 0), ("drift, 2 cells empty", 0.3, 2))
    grid = itertools.product(
        ("table", "law"), ((10, 2000), (10, 20_000), (10, 5_000_000), (256, 20_000)), (0.3, 1.0, 3.0), kinds
    )
    targets: dict[str, Target] = {"table": "table", "law": "law"}
    for place, (aim, (cells, size), epsilon, (name, shift, empty)) in enumerate(grid):
        if (cells > 100 or aim == "law" or size != 2000) and epsilon != 1.0:
            continue
        pi, law = moved(cells, shift, empty, np.random.default_rng([SEED, place]))
        runs = 10 if quick else 30 if cells > 100 else 60
        found.append(
            Setting(
                name=f"k = {cells}, {name}",
                reference=pi,
                law=law,
                records=size,
                epsilon=epsilon,
                target=targets[aim],
                runs=runs,
            )
        )
    return found


def covered(setting: Setting, seed: int) -> tuple[str, ...]:
    """Returns the row of a setting."""
    rng, noise = np.random.default_rng([SEED, seed]), LaplaceCounts(2.0 / setting.epsilon)
    pi, n = setting.reference, setting.records
    hits, proved, widths = (np.zeros((setting.runs, len(setting.names))) for _ in range(3))
    for run in range(setting.runs):
        h = rng.multinomial(n, setting.law).astype(float)
        noisy = NoisyHistogram(counts=h + noise.draw(h, rng, 1)[0], records=n, noise=noise)
        look = drift_look(noisy, pi, divergences=setting.names, target=setting.target, seed=int(rng.integers(2**31)))
        q = h / n if setting.target == "table" else setting.law
        for column, name in enumerate(setting.names):
            one, truth = look[name], float(cell_term(name, pi, n, "table")(n * q).sum())
            slack = 1e-12 * (1.0 + truth)
            hits[run, column] = one.low - slack <= truth <= one.high + slack
            proved[run, column] = one.proved_low - slack <= truth <= one.proved_high + slack
            widths[run, column] = (one.high - one.low) / max(truth, 1e-12)
    shares = dict(zip(setting.names, hits.mean(axis=0), strict=True))
    width = dict(zip(setting.names, np.median(widths, axis=0), strict=True))
    return (
        setting.name,
        setting.target,
        f"{n}",
        f"{setting.epsilon:g}",
        str(setting.runs),
        *(f"{shares[name]:.3f}" if name in shares else "–" for name in NAMES),
        f"{proved.mean(axis=0).min():.3f}",
        *("–" if width[name] > 1e3 else f"{width[name]:.2g}" for name in ("kl", "chi2")),
    )


COVERAGE = ("setting", "of the", "N", "ε", "runs", *NAMES, "least proved", "width of kl", "width of chi2")


def errors(quick: bool) -> list[tuple[str, ...]]:
    """Returns rows of root mean square errors of KL, each with that of the plug-in in numpy."""
    found: list[tuple[str, ...]] = []
    for cells, size in ((10, 2000), (10, 20_000), (10, 5_000_000), (256, 2000), (256, 20_000), (256, 5_000_000)):
        rng = np.random.default_rng([SEED, cells, size])
        pi, law = moved(cells, 0.2 if cells == 10 else 0.3, 0, rng)
        noise, h = LaplaceCounts(2.0), rng.multinomial(size, law).astype(float)
        truth = float((pi * np.log(pi / (np.maximum(h, 0.5) / size))).sum())
        runs = 20 if quick else 100 if cells == 10 else 60
        mine, plain = [], []
        for run in range(runs):
            counts = h + noise.draw(h, rng, 1)[0]
            table = NoisyHistogram(counts=counts, records=size, noise=noise)
            mine.append(drift_look(table, pi, divergences="kl", seed=run)["kl"].estimate - truth)
            q = np.maximum(counts, 0.5)
            plain.append(float((pi * np.log(pi * q.sum() / q)).sum()) - truth)
        own, line = (float(np.sqrt(np.mean(np.square(each)))) for each in (mine, plain))
        row = (str(cells), str(size), f"{truth:.4g}", f"{own:.2g}", f"{line:.2g}", f"{own / line:.2f}")
        found.append(row)
        print(*row, sep=" | ", flush=True)
    return found


ERRORS = ("cells", "N", "KL", "error of a look", "error of the plug-in", "ratio")


def alarms(quick: bool) -> list[tuple[str, ...]]:
    """Returns rows of watches: how often, and after how many windows, there was an alarm."""
    pi, found = np.full(10, 0.1), list[tuple[str, ...]]()
    tilt = np.where(np.arange(10) % 2, 1.0, -1.0)
    base = DriftWatch(reference=pi, epsilon=1.0, windows=200, false_alarms=0.05, independent=True, simulations=199)
    within = evolve(base, within=0.005, divergence="kl_reverse")
    rows = (
        ("no drift", base, 0.0, 60, 100),
        ("KL = 0.0045", base, 0.095, 40, 30),
        ("KL = 0.02", base, 0.2, 40, 30),
        ("τ = 0.005: KL = 0.005", within, 0.1, 60, 100),
        ("τ = 0.005: KL = 0.02", within, 0.2, 40, 30),
    )
    for place, (name, watch, size, windows, runs) in enumerate(rows):
        law = pi * (1.0 + size * tilt)
        if watch is within and size == 0.1:
            law = pi * (1.0 + 0.0999 * tilt)  # KL(records || reference) = 0.005 from below
        rng, found_at = np.random.default_rng([SEED, 7, place]), []
        count = 5 if quick else runs
        for _ in range(count):
            session = watch.start(noise=SimulationNoise(rng), seed=int(rng.integers(2**31)))
            at = next((t for t in range(1, windows + 1) if session.look(rng.multinomial(2000, law)).alarm), None)
            found_at += [] if at is None else [at]
        after = f"{np.median(found_at):g}" if found_at else "–"
        found.append((name, str(count), str(windows), f"{len(found_at) / count:.3f}", after))
        print(*found[-1], sep=" | ", flush=True)
    return found


ALARMS = ("watch", "runs", "windows", "share with an alarm", "median windows to it")


def main() -> None:
    quick = "--quick" in sys.argv
    tables = [markdown(ERRORS, errors(quick))]
    tables.append(markdown(ALARMS, alarms(quick)))
    rows = []
    for place, setting in enumerate(settings(quick)):
        rows.append(covered(setting, place))
        print(*rows[-1], sep=" | ", flush=True)
    tables.append(markdown(COVERAGE, rows))
    if "--write" in sys.argv:
        text = PAGE.read_text(encoding="utf-8")
        for name, table in zip(("drift_errors", "drift_alarms", "drift_coverage"), tables, strict=True):
            written = "Written by `python -m benchmarks.learners.drift --write`."
            text = replaced(text, name, f"{table}\n\n{written}")
        PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
