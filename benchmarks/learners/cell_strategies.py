"""The weights of ``OptimisedSums``: sums of k ordered cells with a small mean square error under Laplace noise.

    python -m benchmarks.learners.cell_strategies [--write | --haar]

For k = 16, 32, … 512, thresholds and intervals, add-or-remove-one and replace-one. It takes two minutes, and ends at
other weights of about the same error on another machine: the search has many local optima. ``--write`` puts them beside
mechanisms/counts/cell_sums.py, whose ``DIGEST`` has to be changed to what is printed. The sensitivity does not come
from here: it is computed from the stored whole numbers.

``--haar`` prints the errors of another strategy that is not in the product: Haar wavelets.

The search minimises tr(G·(AᵀA)⁻¹), G = WᵀW for the queries W, over A = [I; Θ]·D with Θ >= 0, where D makes the columns
add up to 1. With a known total M·11ᵀ is added to AᵀA, for a large M: a measurement of the total with next to no noise.
"""

from __future__ import annotations

import itertools
import sys
from typing import Any

import numpy as np
from scipy import optimize

from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.mechanisms.counts.cell_sums import _FILE, Queries, digest_of, name_of
from hockeystick.mechanisms.streams.factor_encoders import UNIT

SIZES = tuple(2**power for power in range(4, 10))
SUMS, STEPS, KNOWN = 16, 300, 1000.0


def gram(cells: int, queries: Queries) -> FloatArray:
    """Returns WᵀW for all prefixes, or for all intervals."""
    i = np.arange(cells)
    last = np.maximum.outer(i, i)
    return np.asarray((cells - last) * ((np.minimum.outer(i, i) + 1.0) if queries == "intervals" else 1.0))


def search(cells: int, known: bool, queries: Queries) -> IntArray:
    """Returns weights in units of 2^-16: those of the cells, then those of k/16 sums."""
    g, count = gram(cells, queries), cells // SUMS
    scale = float(np.trace(g))

    def loss(flat: FloatArray) -> tuple[float, FloatArray]:
        theta = flat.reshape(count, cells)
        d = 1.0 / (1.0 + theta.sum(axis=0))
        rows = theta * d
        product = rows.T @ rows + (KNOWN if known else 0.0)
        product[np.diag_indices(cells)] += d * d
        inverse = np.linalg.inv(product)
        middle = inverse @ g @ inverse
        by_rows = -2.0 * rows @ middle
        by_d = -2.0 * d * np.diag(middle) + (by_rows * theta).sum(axis=0)
        return float((inverse * g).sum()) / scale, ((by_rows * d) - by_d * d * d).ravel() / scale

    start: Any = np.random.default_rng(1).random(count * cells)
    options = {"maxiter": STEPS, "maxfun": 2 * STEPS, "maxcor": 20}
    found = optimize.minimize(
        loss, start, jac=True, method="L-BFGS-B", bounds=[(0.0, None)] * len(start), options=options
    )
    theta = found.x.reshape(count, cells)
    sums = np.rint(theta / (1.0 + theta.sum(axis=0)) / UNIT).astype(np.int64)
    return np.concatenate([(round(1.0 / UNIT) - sums.sum(axis=0))[None], sums])


def haar_error(cells: int, *, runs: int = 2000) -> float:
    """Returns the 95 % quantile of the largest error of a threshold times ε, with Haar wavelets (Xiao et al. 2011).

    The coefficient of a node over m cells is half the difference of the means of its two halves, and that of the root
    the mean of all. Each times m, or k, they are moved by 1 + log2(k) in L1 by one more record.
    """
    rng, levels = np.random.default_rng(1), cells.bit_length()
    errors = rng.laplace(scale=levels / cells, size=(runs, 1)).repeat(cells, axis=1)
    signs = np.repeat([1.0, -1.0], cells // 2)
    for level in range(levels - 1):
        width = cells >> level
        noise = rng.laplace(scale=levels / width, size=(runs, 1 << level)).repeat(width, axis=1)
        errors += noise * np.tile(signs[cells // 2 - width // 2 : cells // 2 + width // 2], 1 << level)
    return float(np.quantile(np.abs(np.cumsum(errors, axis=1)).max(axis=1), 0.95))


def main() -> None:
    """Searches, and prints the digest of the weights; or prints the errors of Haar wavelets."""
    if "--haar" in sys.argv:
        for cells in SIZES:
            print(f"{cells} cells: {haar_error(cells):.1f} / ε")
        return
    kinds: tuple[Queries, ...] = ("thresholds", "intervals")
    found: dict[str, Any] = {}
    for cells, known, queries in itertools.product(SIZES, (False, True), kinds):
        found[name_of(cells, known, queries)] = search(cells, known, queries).astype(np.uint32)
        print(name_of(cells, known, queries), flush=True)
    print("DIGEST", digest_of(found))
    if "--write" in sys.argv:
        np.savez_compressed(_FILE, **found)


if __name__ == "__main__":
    main()
