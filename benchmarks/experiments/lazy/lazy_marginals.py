"""The lazy learner plays each batch from the law of multiplicative weights, exactly, until its coin is clipped.

The law of every batch's expert is computed by the forward chain of (expert, shadow), without sampling, and compared
with the weights in total variation. The log-normaliser c is swept in units of eta*B: at 1 and above nothing is clipped.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.frame import Cells, Report, markdown
from hockeystick.learners.lazy import LazyChain, exact_marginals

SPAN = 0.5  # eta * B
PROBABILITIES = (0.0, 0.05, 0.4, 0.999)
CLIPPED = (0.0, 0.25, 0.5, 0.75)
UNCLIPPED = (1.0, 2.0, 4.0)
QUOTED = {0.0: 0.163, 0.5: 0.050}  # distances at p = p_y = 0.05, derived independently of this code


def distance(chain: LazyChain) -> float:
    """The largest total variation distance, over batches, between the expert's law and the weights."""
    gap = exact_marginals(chain) - np.exp(chain.log_weights)
    return float(0.5 * np.abs(gap).sum(axis=1).max())


def streams(experts: int, batches: int) -> dict[str, npt.NDArray[np.float64]]:
    """Batch losses in [0, 1], for B = 1."""
    fixed = np.zeros((batches, experts))
    fixed[:, 0] = 1.0
    alternating = fixed.copy()
    alternating[1::2] = fixed[1::2, ::-1]
    rng = np.random.default_rng(20240603)
    return {"fixed": fixed, "alternating": alternating, "random": rng.random((batches, experts))}


def farthest(experts: int, batches: int, scale: float | None) -> dict[str, float]:
    """The largest distance over streams and probabilities at c = scale * eta * B; None for the dartboard."""
    found = 0.0
    shadows = [None] if scale is None else list(PROBABILITIES)
    for losses in streams(experts, batches).values():
        for p, shadow in itertools.product(PROBABILITIES, shadows):
            chain = LazyChain(
                batch_losses=losses,
                learning_rate=SPAN,
                fake_switch_probability=p,
                shadow_probability=shadow,
                log_normaliser=0.0 if scale is None else scale * SPAN,
            )
            found = max(found, distance(chain))
    return {"distance": found}


def demonstration(batches: int, scale: float, p: float) -> dict[str, float]:
    """The distance for two experts of whom the first always loses."""
    chain = LazyChain(
        batch_losses=streams(2, batches)["fixed"],
        learning_rate=SPAN,
        fake_switch_probability=p,
        shadow_probability=p,
        log_normaliser=scale * SPAN,
    )
    return {"distance": distance(chain)}


def experiment(cells: Cells, batches: int = 30) -> Report:
    """Exact laws of the lazy learner's experts beside the weights."""
    scales: tuple[float | None, ...] = (None, *UNCLIPPED, *CLIPPED)
    keys = list(itertools.product((2, 5), scales))
    laws = cells.each(farthest, [(experts, batches, scale) for experts, scale in keys], "marginals")
    table = {(experts, scale): row["distance"] for (experts, _, scale), row in laws.items()}
    sweep = [float(scale) for scale in np.linspace(0.0, 1.25, 26)]
    shifts = cells.each(demonstration, [(batches, scale, p) for p in (0.05, 0.2, 0.5) for scale in sweep], "figure")
    curves = {p: [shifts[batches, scale, p]["distance"] for scale in sweep] for p in (0.05, 0.2, 0.5)}
    quoted = {scale: demonstration(batches, scale, 0.05)["distance"] for scale in QUOTED}
    rows = []
    for scale in scales:
        title = "dartboard" if scale is None else f"L2P, c = {scale:g} ηB"
        exact = scale is None or scale >= 1.0
        # Without clipping only rounding is left, which differs between machines.
        found = ["< 1e-12" if exact and table[e, scale] < 1e-12 else table[e, scale] for e in (2, 5)]
        rows.append([title, "no" if exact else "yes", *found])
    whole = [table[e, s] for e in (2, 5) for s in (None, *UNCLIPPED)]
    part = [table[e, s] for e in (2, 5) for s in CLIPPED]

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        for p, curve in curves.items():
            axes.plot(sweep, curve, label=f"p = {p:g}")
        axes.axvline(1.0, color="grey", linestyle=":")
        axes.set(xlabel="log-normaliser c, in units of ηB", ylabel="total variation distance", ylim=(0.0, None))
        axes.legend()

    return Report(
        markdown(["", "clipped", "largest distance, d = 2", "d = 5"], rows),
        {
            "without clipping all laws are the weights', up to 1e-12": max(whole) < 1e-12,
            "with clipping no law is the weights': the distance is above 0.001": min(part) > 1e-3,
            "two experts, the first always losing, p = 0.05: distance 0.163 at c = 0 and 0.050 at c = ηB/2": all(
                abs(quoted[scale] - value) < 5e-4 for scale, value in QUOTED.items()
            ),
        },
        draw,
        "Distance of the played law from the weights against the log-normaliser: it falls to 0 at ηB.",
    )
