"""Exact draws of points for lazy learners of convex losses: milliseconds of one draw, against limits.

    python -m benchmarks.learners.points [--quick] [--write]

times whole draws for release, with secure noise, from the sum of the losses to the coordinates on the lattice. For
logistic losses a draw includes the search for the tangent's point, all proposals and their coins. ``--write`` puts the
table into docs/benchmarks-points.md. The CPU time of the least of several groups of draws, in one thread.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from benchmarks.frame import Row, compare, seconds
from hockeystick.learners.lazy import (
    Ball,
    Box,
    ExactSampler,
    LinearLosses,
    RegressionLosses,
    RegularizedWeights,
    SecureTangentSampler,
)
from hockeystick.learners.lazy.convex.losses.loss_sums import LossSum, LossUnits
from hockeystick.mechanisms import ReleaseNoise

UNIT = Fraction(1, 1 << 160)
LAWS = (  # dimension, rounds, whether logistic, β, λ, and the most milliseconds
    (100, 2000, False, 0.05, 500.0, 2.0),
    (100, 20_000, False, 1.0, 800.0, 2.0),  # the mean lies far outside the ball
    (1000, 2000, False, 0.05, 500.0, 20.0),
    (100, 2000, True, 0.02, 769.0, 5.0),  # as LazyConvex.calibrated finds them at ε = 1
    (100, 2000, True, 0.4, 364.0, 5.0),
)


def stream(dimension: int, rounds: int, logistic: bool) -> LinearLosses | RegressionLosses:
    """Returns losses of Lipschitz constant 1, with a few directions that matter."""
    rng = np.random.default_rng(1)
    features = rng.normal(size=(rounds, dimension))
    features[:, :5] = 4.0 * features[:, :5] + 1.0
    features /= np.maximum(1.0, np.linalg.norm(features, axis=1, keepdims=True))
    if not logistic:
        return LinearLosses(features)
    truth = rng.normal(size=dimension) * 3.0 / math.sqrt(dimension)
    return RegressionLosses(features, np.where(rng.random(rounds) < 1.0 / (1.0 + np.exp(-features @ truth)), 1.0, -1.0))


def rows(quick: bool) -> Iterator[Row]:
    """Yields all rows; fewer groups of draws with ``quick``."""
    draws, groups, noise = 10, 3 if quick else 20, ReleaseNoise()
    for dimension, rounds, logistic, beta, penalty, most in LAWS:
        for domain in (Ball(dimension, 1.0), Box.cube(dimension, 1.0 / math.sqrt(dimension))):
            weights = RegularizedWeights(inverse_temperature=beta, regularisation=penalty, lipschitz=1.0)
            losses, total = stream(dimension, rounds, logistic), LossSum(dimension, LossUnits.of(domain, 1.0))
            total.read(losses, 0, rounds)
            sampler = SecureTangentSampler() if logistic else ExactSampler()

            def several(sampler=sampler, weights=weights, domain=domain, total=total) -> None:  # type: ignore[no-untyped-def]
                for _ in range(draws):
                    sampler.released(weights, domain, total, UNIT, noise)

            several()  # tables that are kept
            spent = 1e3 * seconds(groups, several)[0] / draws
            family, shape = "logistic" if logistic else "linear", type(domain).__name__.lower()
            kept = f"{math.exp(-rounds / (16.0 * penalty)):.2f}" if logistic else ""
            cells = f"{rounds:,} {family} losses, β = {beta:g}, λ = {penalty:g}", shape, str(dimension), kept
            yield Row((*cells, f"{spent:.2f}", f"{1e3 * spent / dimension:.0f}", f"{most:g}"), spent <= most)


PAGE = """# Exact points: the time of a draw

{met} A draw of a point in 100 dimensions for release may take 2 ms for linear losses,
and 5 ms for 2000 logistic ones.

Written by `python -m benchmarks.learners.points --write`; edit that instead.

The points are those of `LazyConvex` over a ball of radius 1 or the cube in it. A draw begins with the sum of the losses
and ends with the coordinates on the lattice; it uses secure noise and one thread. Logistic losses need rejection: at
least the stated share of proposals is kept in any number of dimensions, and each proposal reads all losses once. The
times are the least CPU times of twenty groups of ten draws.

{table}
"""

COLUMNS = "| | draw after | domain | d | kept, at least | ms a draw | µs a coordinate | at most, ms |"

if __name__ == "__main__":
    sys.exit(compare("benchmarks-points.md", COLUMNS, rows, PAGE, quick="three groups of draws"))
