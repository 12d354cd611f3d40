"""The growth of regret with T, epsilon, d and the batch: exponents as measured, as derived and as printed.

The derived exponents follow from ln(d)/eta + eta T B/8 and the cost of decisions and draws. Bounds are those of the
dartboard, calibrated and certified by its graph at delta = 1e-6, or at delta = 1e-6 * epsilon where epsilon is below
0.05: with a delta near epsilon little has to be hidden, and regret would grow more slowly for this reason alone. For
the largest T the leading terms of the bound replace it.

The figure is Figure 1 of Asi, Koren, Liu & Talwar 2024 with one line more, the corrected one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from attrs import frozen

from benchmarks.experiments.lazy.lazy_refutations import alternating_regret, coin_regret
from benchmarks.frame import Cells, Report, markdown
from hockeystick import accounting
from hockeystick.accounting.arrays import FloatArray
from hockeystick.learners import LazyExperts
from hockeystick.learners.lazy import log_log_slope
from hockeystick.learners.lazy.theory.rates import figure, small_epsilon_bound

TOLERANCE = 0.05
DELTA = 1e-6
ALPHAS = (0.0, 0.1, 1 / 6, 0.25, 1 / 3, 0.5, 0.75, 1.0)
PANELS = ("a", "b", "c")
CURVES = ("before", "printed", "corrected")

# By hand from the rates of Table 1, and from max(1/2, 2/5 + 3/5 alpha); rounded to three digits.
EXPONENTS = {
    ("a", "before"): (0.5, 0.5, 0.5, 0.583, 0.667, 0.75, 0.875, 1.0),
    ("a", "printed"): (0.5, 0.5, 0.5, 0.5, 0.556, 0.667, 0.833, 1.0),
    ("a", "corrected"): (0.5, 0.5, 0.5, 0.55, 0.6, 0.7, 0.85, 1.0),
    ("b", "before"): (0.542, 0.617, 0.667, 0.708, 0.75, 0.833, 0.958, 1.0),
    ("b", "printed"): (0.5, 0.567, 0.611, 0.667, 0.722, 0.833, 1.0, 1.0),
    ("b", "corrected"): (0.5, 0.567, 0.611, 0.667, 0.722, 0.833, 1.0, 1.0),
    ("c", "before"): (0.5, 0.5, 0.5, 0.583, 0.667, 0.8, 1.0, 1.0),
    ("c", "printed"): (0.5, 0.5, 0.5, 0.5, 0.556, 0.667, 0.833, 1.0),
    ("c", "corrected"): (0.5, 0.5, 0.5, 0.55, 0.6, 0.7, 0.85, 1.0),
}

Points = tuple[tuple[float, ...], tuple[float, ...]]  # x and y of a sweep


@frozen
class Sweep:
    """The growth of one quantity in another.

    Attributes:
        points: Computes its points.
        follows: The exponent that follows.
        printed: The exponent that is printed; empty if none is.
        held: Whether the settings are those that the exponent is meant for.
    """

    points: Callable[[Cells], Points]
    follows: float
    printed: str = ""
    held: bool = True


def certified(rounds: int, experts: int, epsilon: float, delta: float) -> dict[str, float]:
    """The dartboard's regret bound, calibrated, and its epsilon by the Renyi curve of its graph."""
    learner = LazyExperts.calibrated(rounds=rounds, experts=experts, epsilon=epsilon, delta=delta, variant="dartboard")
    event = learner.graph().guarantee().event
    return {
        "bound": learner.regret_bound(),
        "batch": learner.batch,
        "certified": accounting.epsilon(event, delta, method="rdp").upper,
    }


def bounds(
    x: Callable[[int, int, float], float], settings: list[tuple[int, int, float]], share: bool = False
) -> Callable[[Cells], Points]:
    """Certified bounds over settings (T, d, epsilon), at DELTA, or at that ``share`` of epsilon."""

    def points(cells: Cells) -> Points:
        asked = [(t, d, eps, DELTA * eps if share else DELTA) for t, d, eps in settings]
        found = cells.each(certified, asked)
        return tuple(x(*setting) for setting in settings), tuple(found[one]["bound"] for one in asked)

    return points


def coins(cells: Cells) -> Points:
    """Exact regret of every learner with batches of 1/epsilon = T^(1/4), where a coin per batch says who loses."""
    rounds = [2**power for power in (16, 20, 24, 28, 32)]
    return tuple(map(float, rounds)), tuple(coin_regret(t, round(t**0.25)) for t in rounds)


def alternating(cells: Cells) -> Points:
    """Exact regret per round that batches add, where experts lose in turns, a batch each."""
    batches, rate = (2, 3, 5, 10, 20, 30), 1e-3
    added = []
    for b in batches:
        t = 10**6 - 10**6 % (2 * b)
        batched, single = alternating_regret(t, b, rate)
        added.append((batched - single) / t)
    return tuple(b - 1.0 for b in batches), tuple(added)


def leading(cells: Cells) -> Points:
    """Leading terms of the bound at epsilon = T^(-1/2)."""
    rounds = [10.0**power for power in (12, 16, 20, 24, 28, 32, 36, 40)]
    return tuple(rounds), tuple(
        small_epsilon_bound(rounds=t, experts=10, epsilon=t**-0.5, delta=DELTA * t**-0.5) for t in rounds
    )


def draws_per_batch(learner: LazyExperts, losses: FloatArray) -> float:
    """Exact expected share of boundaries at which the L2P learner draws its expert afresh.

    x follows the measure of the weights and is independent of the shadow y, whose law is a mixture of earlier measures:
    the keep probability (1-p) e^(-c) e^(-eta L[x]) e^(eta L[y]) is a product, so that keeping leaves them independent.
    """
    chain = learner.chain(losses)
    weights, total = np.exp(chain.log_weights), 0.0
    shadow = weights[0]
    again = learner.refresh_probability
    for s in range(1, chain.batches):
        gain = learner.learning_rate * chain.batch_losses[s - 1]
        kept = float(weights[s - 1] @ np.exp(-gain)) * float(shadow @ np.exp(gain))
        total += 1.0 - (1.0 - learner.fake_switch_probability) * math.exp(-learner.log_normaliser) * kept
        shadow = (1.0 - again) * shadow + again * weights[s]
    return total / (chain.batches - 1)


def redraws(cells: Cells) -> Points:
    """Expected draws per batch of an L2P learner on coins, against p + c."""
    rng, x, y = np.random.default_rng(20240611), [], []
    losses = rng.integers(0, 2, (10_000, 10)).astype(float)
    for fake in (0.003, 0.01, 0.03, 0.1, 0.3):
        learner = LazyExperts(rounds=10_000, experts=10, batch=10, learning_rate=1e-3, fake_switch_probability=fake)
        x.append(fake + learner.log_normaliser)
        y.append(draws_per_batch(learner, losses))
    return tuple(x), tuple(y)


LONG = [round(10**power) for power in (6, 6.5, 7)]
SWEEPS = {
    "T: batches of 1/ε = T^(1/4), a coin per batch": Sweep(coins, 0.625, "0.5"),
    "B - 1: what batches add, alternating losses": Sweep(alternating, 1.0, "2, in B"),
    "T, at ε = 0.05": Sweep(bounds(lambda t, d, eps: t, [(t, 10, 0.05) for t in LONG]), 0.4, "0.333"),
    "ε, at T = 10^6": Sweep(
        bounds(lambda t, d, eps: eps, [(10**6, 10, eps) for eps in (0.05, 0.1, 0.2)]), -0.6, "-0.667"
    ),
    "T, at ε = T^(-1/2), T = 10^6 … 10^12": Sweep(
        bounds(lambda t, d, eps: t, [(10**k, 10, 10 ** (-k / 2)) for k in range(6, 13)], share=True), 0.7, "0.667"
    ),
    "T, at ε = T^(-1/2), T = 10^12 … 10^40, leading terms": Sweep(leading, 0.7, "0.667"),
    "T, at ε = T^(-1/2), T = 10^6 … 10^9, δ = 1e-6 throughout": Sweep(
        bounds(lambda t, d, eps: t, [(10**k, 10, 10 ** (-k / 2)) for k in range(6, 10)]), 0.7, "0.667", held=False
    ),
    "p + c: draws per batch": Sweep(redraws, 1.0),
    "ln d, at T = 10^10, ε = 0.001, d = 4 … 10^4": Sweep(
        bounds(lambda t, d, eps: math.log(d), [(10**10, d, 1e-3) for d in (4, 10, 100, 10**4)], share=True), 0.8, "1"
    ),
}


def exponents() -> dict[tuple[str, str], list[float]]:
    """The exponents of the figure at some alphas."""
    return {
        (panel, curve): [float(beta) for beta in figure(panel).table(ALPHAS)[curve]]  # type: ignore[arg-type]
        for panel, curve in EXPONENTS
    }


def experiment(cells: Cells, sweeps: tuple[str, ...] = tuple(SWEEPS)) -> Report:
    """Measured exponents, and the figure of exponents."""
    fits = {name: log_log_slope(*SWEEPS[name].points(cells)) for name in sweeps}
    within = {name: abs(fits[name].slope - SWEEPS[name].follows) <= TOLERANCE for name in sweeps}
    betas = exponents()
    rows = [
        [
            name,
            f"{fits[name].slope:.3f} ± {max(fits[name].error, 5e-4):.1g}",
            SWEEPS[name].follows,
            SWEEPS[name].printed,
            within[name],
        ]
        for name in sweeps
    ]

    def draw(drawing: Any) -> None:
        alphas = np.linspace(0.0, 1.0, 241)
        for axes, panel in zip(drawing.subplots(1, 3, sharey=True), PANELS, strict=True):
            curves = figure(panel)  # type: ignore[arg-type]
            for name, style, order in zip(CURVES, ("C7:", "k--", "C3-"), (1, 3, 2), strict=True):
                axes.plot(alphas, curves.table(alphas)[name], style, label=name, zorder=order)
            axes.set(title=f"({panel}) {curves.title}", xlabel="α, for ε = T^(-α)")
        drawing.axes[0].set(ylabel="β, for regret T^β", ylim=(0.45, 1.05))
        drawing.axes[0].legend()

    return Report(
        [
            "Exponents in one quantity, with the other quantities as stated; d = 10 unless stated:",
            markdown(["in", "measured", "follows", "printed", f"within {TOLERANCE:g}"], rows),
            "Exponents β of the figure's curves:",
            markdown(
                ["panel", "rate", *(f"α = {alpha:.3g}" for alpha in ALPHAS)],
                [[panel, curve, *(f"{beta:.3f}" for beta in betas[panel, curve])] for panel, curve in betas],
            ),
        ],
        {
            f"measured exponents are within {TOLERANCE:g} of the derived ones, except where δ is near ε": all(
                within[name] for name in sweeps if SWEEPS[name].held
            ),
            "the figure's exponents agree with those computed by hand to three digits": all(
                abs(beta - expected) <= 5.001e-4
                for key, row in EXPONENTS.items()
                for beta, expected in zip(betas[key], row, strict=True)
            ),
            "the corrected rate exceeds the printed one in panels (a) and (c), but not in (b)": all(
                (max(c - p for c, p in zip(betas[panel, "corrected"], betas[panel, "printed"], strict=True)) > 0.0)
                is (panel != "b")
                for panel in PANELS
            ),
        },
        draw,
        "Exponents of regret against those of ε: known before, printed, and corrected, in three panels.",
    )
