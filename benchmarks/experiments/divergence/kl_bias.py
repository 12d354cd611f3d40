"""The bias of a cohort: three ways to take the logarithm of a count, exactly.

The estimate is unbiased for the P of those who are asked. For a larger population's P the logarithm of a count is not:
of h of law Bin(m, p), -ln(h/m) is too large by about (1 - p)/(2 m p), and infinite at h = 0. Here biases are sums over
the exact law of the counts, of 20 symbols with KL(Pi || P) = 0.228. The plain logarithm is averaged over h > 0.
Drawn without replacement from N records, the plain logarithm's bias is (N - m)/(N - 1) times as large. The harmonic one
estimates the law that the whole population's records were drawn from, not their frequencies: of these it is off by
-sum Pi (1 - P)/(2 N P), the bias of the whole population's plain logarithm, however many are asked.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import stats

from benchmarks.experiments.divergence.digit_pairs import SEED
from benchmarks.frame import Cells, Report, markdown
from hockeystick.accounting.arrays import FloatArray
from hockeystick.learners.divergence.count_logarithms import Harmonic, Smoothed
from hockeystick.learners.divergence.made_up_populations import dirichlet_law, tilted
from hockeystick.learners.lazy import log_log_slope

RECORDS = (200, 400, 800, 1600, 3200, 6400, 12_800)
POPULATION = 20_000
DIVERGENCE, SYMBOLS = 0.228, 20


def laws() -> tuple[FloatArray, FloatArray]:
    """Pi and P; P in whole records of the population."""
    rng = np.random.default_rng([SEED, 5])
    pi = dirichlet_law(SYMBOLS, rng)
    p = np.rint(tilted(pi, DIVERGENCE, rng) * POPULATION)
    p[int(p.argmax())] += POPULATION - p.sum()
    return pi, p / POPULATION


def biases(pi: FloatArray, p: FloatArray, records: int, population: int | None = None) -> dict[str, float]:
    """Of -sum Pi ln P, by the way logarithms are taken; of independent records, or of a sample of a population."""
    laws = [_law(records, float(mass), population) for mass in p]

    def bias(logarithm: Callable[[FloatArray], FloatArray], nonzero: bool = False) -> float:
        total = 0.0
        for weight, mass, (h, law) in zip(pi, p, laws, strict=True):
            used = h >= (1.0 if nonzero else 0.0)
            mean = float(law[used] @ logarithm(h[used])) / float(law[used].sum())
            total -= float(weight) * (mean - math.log(mass))
        return total

    rare = float(((1.0 - p) ** (records + 1) / ((records + 1) * p) * pi).sum())
    scale = 1.0 if population is None else (population - records) / (population - 1)
    return {
        "plain": bias(lambda n: np.log(n / records), nonzero=True),
        "smoothed": bias(lambda n: Smoothed(1.0).logarithms(n, records, len(pi))),
        "harmonic": bias(lambda n: Harmonic().logarithms(n, records, len(pi))),
        "predicted": scale * float((pi * (1.0 - p) / p).sum()) / (2.0 * records),
        "harmonic bound": rare,
    }


def _law(records: int, mass: float, population: int | None) -> tuple[FloatArray, FloatArray]:
    """Returns the values of a count, except for 1e-30 in probability, and their probabilities."""
    reach = 12.0 * math.sqrt(records * mass) + 60.0
    h = np.arange(max(0, math.floor(records * mass - reach)), min(records, math.ceil(records * mass + reach)) + 1)
    if population is None:
        return h.astype(float), stats.binom.pmf(h, records, mass)
    return h.astype(float), stats.hypergeom.pmf(h, population, round(mass * population), records)


def measured(records: int, population: int | None) -> dict[str, float]:
    """The biases of the experiment's laws."""
    return biases(*laws(), records, population)


def experiment(cells: Cells, records: tuple[int, ...] = RECORDS) -> Report:
    """The bias of the plain, the smoothed and the harmonic logarithm against the cohort's records."""
    pi, p = laws()
    settings = [(m, population) for population in (None, POPULATION) for m in records]
    every = cells.each(measured, settings, "biases")
    found, drawn = ([every[m, population] for m in records] for population in (None, POPULATION))
    names = ("plain", "predicted", "smoothed", "harmonic", "harmonic bound")
    rows = [
        [m, *(one[name] for name in names), other["plain"], other["predicted"], other["harmonic"]]
        for m, one, other in zip(records, found, drawn, strict=True)
    ]
    late = [i for i, m in enumerate(records) if m >= 800]
    slope = log_log_slope([records[i] for i in late], [found[i]["plain"] for i in late]).slope
    constant = max(abs(found[i]["plain"] / found[i]["predicted"] - 1.0) for i in late)
    finite = max(abs(drawn[i]["plain"] / drawn[i]["predicted"] - 1.0) for i in late)

    whole = -float((pi * (1.0 - p) / p).sum()) / (2.0 * POPULATION)

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        for name, marker in (("plain", "o-"), ("smoothed", "s-"), ("harmonic", "^-")):
            axes.loglog(records, [max(abs(one[name]), 1e-12) for one in found], marker, label=name)
        axes.loglog(records, [one["predicted"] for one in found], "k--", label="Σ Π (1 - P)/(2 m P)")
        axes.set(xlabel="records of the cohort, m", ylabel="|bias|", ylim=(1e-9, None))
        axes.legend()

    return Report(
        markdown(
            "records m | plain logarithm, h > 0 | predicted | one record more a cell | harmonic | "
            f"its bound | plain, of {POPULATION} without replacement | predicted | harmonic",
            rows,
        ),
        {
            f"the plain logarithm's bias has slope {slope:.3f} in m, -1 within 0.1": abs(slope + 1.0) <= 0.1,
            "from 800 records on, the bias agrees with the predicted one within 10 %": constant <= 0.1,
            "so does the bias without replacement, with the finite-population factor": finite <= 0.1,
            "the harmonic logarithm's bias for independent records is within its bound": all(
                abs(one["harmonic"]) <= one["harmonic bound"] + 1e-12 for one in found
            ),
            "without replacement it agrees with that of the population's plain logarithm within 2 % from 800 "
            "records on": all(abs(drawn[i]["harmonic"] / whole - 1.0) <= 0.02 for i in late),
            "it is always below the biases of the other two": all(
                abs(one["harmonic"]) < min(abs(one["plain"]), abs(one["smoothed"])) for one in found
            ),
        },
        draw,
        "Bias against the records of the cohort: slope -1 for the plain logarithm, almost none for the harmonic one.",
    )
