"""Regret at a certified epsilon: lazy learners, what they are compared with, and how regret grows.

Every private learner is calibrated to (epsilon, 1e-6) and certified by its graph. Regret is exact in expectation over
the learner's randomness, on one seeded stream of each of five adversaries:

* *gap*: independent coins, the first expert's with mean 0.4, the others' with 0.5;
* *alternating*: half of the experts loses in one batch, the other half in the next, in batches of the L2P learner;
* *batch coins*: a fair coin per batch of that learner and expert;
* *walk*: each expert's loss is a reflected random walk in [0, 1];
* *epochs*: the adversary of the printed lower bound, at its shortest epochs where epsilon is too large for it.

How bounds at a certified epsilon grow with T, epsilon and d is compared with the exponents that follow from
ln(d)/eta + eta T B/8 and the cost of decisions and draws, and with those printed.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from attrs import evolve, frozen

from benchmarks.experiments.common import Cells, Check, Report, main, markdown
from hockeystick.learners import (
    EpochAdversary,
    LazyExperts,
    MultiplicativeWeights,
    ShrinkingDartboard,
    TreeExperts,
    log_log_slope,
)
from hockeystick.learners.lazy_experts import Variant
from hockeystick.learners.multiplicative_weights import best_learning_rate

DELTA = 1e-6
TOLERANCE = 0.05  # of slopes
EPSILONS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
BEYOND = 1e-3  # the chance with which the dartboard's budget of draws is spent
LEARNERS = ("L2P", "L2P, frozen shadow", "dartboard", "dartboard, budget", "tree of noisy sums", "not private")
ADVERSARIES = ("gap", "alternating", "batch coins", "walk", "epochs")

Private = LazyExperts | ShrinkingDartboard | TreeExperts


def calibrated(name: str, rounds: int, experts: int, epsilon: float) -> Private:
    """A private learner of least regret bound, of those that its calibration searches."""
    if name == "tree of noisy sums":
        # The perturbation is what a learner without privacy would use; it costs nothing.
        return TreeExperts.calibrated(
            rounds=rounds,
            experts=experts,
            epsilon=epsilon,
            delta=DELTA,
            perturbation=math.sqrt(rounds / math.log(experts)),
        )
    variant: Variant = "dartboard" if name.startswith("dartboard") else "l2p"
    lazy = LazyExperts.calibrated(rounds=rounds, experts=experts, epsilon=epsilon, delta=DELTA, variant=variant)
    if name == "L2P, frozen shadow":
        return _scaled(lazy, lambda who: evolve(who, shadow_probability=0.0), epsilon)
    if name == "dartboard, budget":
        return _scaled(lazy, _budgeted, epsilon)
    return lazy


def _budgeted(lazy: LazyExperts) -> ShrinkingDartboard:
    return ShrinkingDartboard(
        rounds=lazy.rounds,
        experts=lazy.experts,
        batch=lazy.batch,
        learning_rate=lazy.learning_rate,
        fake_switch_probability=lazy.fake_switch_probability,
    ).within(BEYOND)


def _scaled(lazy: LazyExperts, build: Callable[[LazyExperts], Private], epsilon: float) -> Private:
    """The largest learning rate, at fixed batch and ratio of p to it, whose learner is certified at epsilon."""
    most = best_learning_rate(rounds=lazy.rounds, experts=lazy.experts, batch=lazy.batch) / lazy.learning_rate

    def at(factor: float) -> Private:
        rate, fake = factor * lazy.learning_rate, min(0.999, factor * lazy.fake_switch_probability)
        return build(evolve(lazy, learning_rate=rate, fake_switch_probability=fake))

    low, high = 0.1, most
    if _certified(at(high)) <= epsilon:
        return at(high)
    while high / low > 1.002:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if _certified(at(middle)) <= epsilon else (low, middle)
    return at(low)


def _certified(learner: Private) -> float:
    return float(learner.graph().guarantee().epsilon(DELTA).upper)


def stream(name: str, rounds: int, experts: int, *, batch: int, epsilon: float) -> npt.NDArray[np.float64]:
    """One stream of an adversary, shape (rounds, experts); ``batch`` and ``epsilon`` are those of its victim."""
    rng = np.random.default_rng([20240607, ADVERSARIES.index(name), experts])
    number = np.arange(rounds) // batch
    if name == "gap":
        means = np.full(experts, 0.5)
        means[0] = 0.4
        return (rng.random((rounds, experts)) < means).astype(float)
    if name == "alternating":
        half = np.arange(experts) < experts // 2
        return np.asarray((half[None, :] == (number % 2 == 0)[:, None]).astype(float))
    if name == "batch coins":
        return np.asarray(rng.integers(0, 2, (number[-1] + 1, experts)).astype(float)[number])
    if name == "walk":
        steps = np.cumsum(rng.normal(scale=1.0 / math.sqrt(rounds), size=(rounds, experts)), axis=0)
        folded = np.abs((0.5 + steps) % 2.0)
        return np.asarray(np.minimum(folded, 2.0 - folded))
    at = min(epsilon, rounds**-0.25)
    return EpochAdversary(rounds=rounds, experts=experts, epsilon=at).losses(rng)


def measured(rounds: int, experts: int, epsilon: float) -> dict[str, Any]:
    """Regret of every learner on every adversary; certified epsilon and regret bound where there is one."""
    learners = {name: calibrated(name, rounds, experts, epsilon) for name in LEARNERS[:-1]}
    victim = learners["L2P"]
    assert isinstance(victim, LazyExperts)
    free = MultiplicativeWeights(rounds=rounds, experts=experts)
    everyone = {**learners, LEARNERS[-1]: free}
    regret: dict[str, dict[str, float]] = {name: {} for name in everyone}
    for adversary in ADVERSARIES:
        losses = stream(adversary, rounds, experts, batch=victim.batch, epsilon=epsilon)
        for name, learner in everyone.items():
            regret[name][adversary] = learner.expected_regret(losses)
    return {
        "regret": regret,
        "certified": {name: _certified(learner) for name, learner in learners.items()},
        "bound": {name: w.regret_bound() for name, w in everyone.items() if not isinstance(w, TreeExperts)},
        "batch": victim.batch,
    }


def bound(rounds: int, experts: int, epsilon: float) -> dict[str, Any]:
    """The dartboard's regret bound at a certified epsilon."""
    learner = LazyExperts.calibrated(rounds=rounds, experts=experts, epsilon=epsilon, delta=DELTA, variant="dartboard")
    return {"bound": learner.regret_bound(), "batch": learner.batch, "certified": _certified(learner)}


@frozen
class Sweep:
    """How the dartboard's bound grows along some settings (T, d, epsilon).

    Attributes:
        settings: The settings.
        varied: What is varied along them, as a function of the setting.
        follows: The exponent that follows from the cost of decisions and draws, for T*epsilon large enough.
        printed: The exponent that is printed.
        reached: Whether T*epsilon is large enough here. It has to be very large: of the bound's two private terms,
            T^(2/5) eps^(-3/5) exceeds T^(1/3) eps^(-2/3) by (T eps)^(1/15) alone.
    """

    settings: tuple[tuple[int, int, float], ...]
    varied: Callable[[int, int, float], float]
    follows: float
    printed: str
    reached: bool = True


SWEEPS = {
    "T, at ε = 0.05, d = 10": Sweep(
        ((10**6, 10, 0.05), (3 * 10**6, 10, 0.05), (10**7, 10, 0.05)), lambda t, d, eps: t, 0.4, "0.333"
    ),
    "ε, at T = 10^6, d = 10": Sweep(
        ((10**6, 10, 0.05), (10**6, 10, 0.1), (10**6, 10, 0.2)), lambda t, d, eps: eps, -0.6, "-0.667"
    ),
    "ln d, at T = 10^7, ε = 0.05": Sweep(
        ((10**7, 4, 0.05), (10**7, 10, 0.05), (10**7, 100, 0.05)), lambda t, d, eps: math.log(d), 0.8, "1"
    ),
    "T, at ε = 100 T^(-1/2), d = 10": Sweep(
        tuple((t, 10, 100.0 * t**-0.5) for t in (10**7, 3 * 10**7, 10**8)), lambda t, d, eps: t, 0.7, "0.667"
    ),
    "T, at ε = T^(-1/2), d = 10": Sweep(
        tuple((t, 10, t**-0.5) for t in (10**5, 3 * 10**5, 10**6)), lambda t, d, eps: t, 0.7, "0.667", reached=False
    ),
}


def experiment(
    cells: Cells,
    rounds: int = 10_000,
    sizes: tuple[int, ...] = (2, 10),
    epsilons: tuple[float, ...] = EPSILONS,
    sweeps: tuple[str, ...] = tuple(SWEEPS),
) -> Report:
    """Regret of calibrated learners, and slopes of their bounds."""
    found = {
        (d, eps): cells(
            {"rounds": rounds, "experts": d, "epsilon": eps},
            lambda d=d, eps=eps: measured(rounds, d, eps),  # type: ignore[misc]
        )
        for d, eps in cells.progress(list(itertools.product(sizes, epsilons)), "learners")
    }
    slopes = {}
    for name in cells.progress(sweeps, "slopes"):
        sweep = SWEEPS[name]
        bounds = [
            cells({"bound": [t, d, eps]}, lambda t=t, d=d, eps=eps: bound(t, d, eps))["bound"]  # type: ignore[misc]
            for t, d, eps in sweep.settings
        ]
        slopes[name] = log_log_slope([sweep.varied(*setting) for setting in sweep.settings], bounds).slope
    worst = {
        (d, name): [max(found[d, eps]["regret"][name].values()) for eps in epsilons]
        for d, name in itertools.product(sizes, LEARNERS)
    }
    middle, largest = epsilons[len(epsilons) // 2 - 1], sizes[-1]
    chosen = found[largest, middle]["regret"]
    tables = [
        f"Largest regret over the five adversaries, T = {rounds}:",
        markdown(
            ["d", "learner", *(f"ε = {eps:g}" for eps in epsilons)],
            [[d, name, *worst[d, name]] for d, name in itertools.product(sizes, LEARNERS)],
        ),
        f"By adversary, d = {largest}, ε = {middle:g}, batches of {found[largest, middle]['batch']}:",
        markdown(["learner", *ADVERSARIES], [[name, *(chosen[name][a] for a in ADVERSARIES)] for name in LEARNERS]),
        "Exponents of the dartboard's regret bound at a certified ε:",
        markdown(
            ["in", "measured", "follows", "printed", "Tε is large enough"],
            [[name, slopes[name], SWEEPS[name].follows, SWEEPS[name].printed, SWEEPS[name].reached] for name in sweeps],
        ),
    ]

    def draw(figure: Any) -> None:
        for axes, d in zip(figure.subplots(1, len(sizes), squeeze=False)[0], sizes, strict=True):
            for name, style in zip(LEARNERS, ("o-", "^-", "s-", "v-", "d-", "k--"), strict=True):
                axes.loglog(epsilons, np.maximum(worst[d, name], 1.0), style, label=name, markersize=4)
            axes.set(xlabel=f"ε at δ = 1e-6 (T = {rounds}, d = {d})", ylabel="largest regret")
        axes.legend(fontsize=7)

    return Report(
        "\n\n".join(tables),
        (
            Check(
                "every private learner is certified at its ε (up to rounding, 1e-12 of it)",
                all(c <= eps * (1.0 + 1e-12) for (_, eps), row in found.items() for c in row["certified"].values()),
            ),
            Check(
                "every regret is within its learner's bound (the tree has none)",
                all(
                    max(row["regret"][name].values()) <= limit
                    for row in found.values()
                    for name, limit in row["bound"].items()
                ),
            ),
            Check(
                "each bound falls as ε grows",
                all(
                    found[d, less]["bound"][name] >= found[d, more]["bound"][name]
                    for d in sizes
                    for less, more in itertools.pairwise(epsilons)
                    for name in found[d, less]["bound"]
                ),
            ),
            Check(
                f"exponents are within {TOLERANCE:g} of those that follow, where Tε is large enough",
                all(abs(slopes[name] - SWEEPS[name].follows) <= TOLERANCE for name in sweeps if SWEEPS[name].reached),
            ),
        ),
        draw,
        "Largest regret against ε for two and for ten experts, by learner, on logarithmic axes.",
    )


if __name__ == "__main__":
    sys.exit(main("lazy_regret", experiment))
