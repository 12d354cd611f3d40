"""Regret at a certified epsilon: lazy and other learners against five adversaries, up to 10^6 rounds.

Every private learner is calibrated to (epsilon, 1e-6) and certified by its graph. Regret is exact in expectation over
the learner's randomness, on one seeded stream of each of five adversaries:

* *gap*: independent coins, the first expert's with mean 0.4, the others' with 0.5;
* *alternating*: half of the experts loses in one batch, the other half in the next, in batches of the L2P learner;
* *batch coins*: a fair coin per batch of that learner and expert;
* *walk*: each expert's loss is a reflected random walk in [0, 1];
* *epochs*: the adversary of the printed lower bound, at its shortest epochs where epsilon is too large for it.

Of more than ten experts nine have losses of their own, as above, and the others share those of the tenth.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from attrs import evolve

from benchmarks.experiments.lazy.merged_losses import MergedLosses, dartboard_regret, leader_regret, weights_regret
from benchmarks.frame import Cells, Report, markdown
from hockeystick.learners import LazyExperts, MultiplicativeWeights, ShrinkingDartboard, TreeExperts
from hockeystick.learners.experts.multiplicative_weights import best_learning_rate
from hockeystick.learners.lazy import EpochAdversary
from hockeystick.learners.lazy.experts.setting import Variant

DELTA = 1e-6
LENGTHS = (10**4, 10**5, 10**6)
SIZES = (2, 10, 1000)
EPSILONS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
OWN = 10  # experts with losses of their own, at most
SPENT = 10.0  # rounds of loss that the dartboard's budget of draws may cost by being spent, on average
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
    ).within(SPENT / lazy.rounds)


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


def stream(name: str, rounds: int, experts: int, *, batch: int, epsilon: float) -> MergedLosses:
    """One stream of an adversary; ``batch`` and ``epsilon`` are those of its victim."""
    own = min(experts, OWN)
    rng = np.random.default_rng([20240607, ADVERSARIES.index(name), own])
    copies = np.array([1] * (own - 1) + [experts - own + 1])
    number = np.arange(rounds) // batch
    if name == "gap":
        means = np.full(own, 0.5)
        means[0] = 0.4
        return MergedLosses((rng.random((rounds, own)) < means).astype(float), copies)
    if name == "alternating":
        first = (number % 2 == 0).astype(float)
        return MergedLosses(np.stack([first, 1.0 - first], axis=1), np.array([experts // 2, experts - experts // 2]))
    if name == "batch coins":
        return MergedLosses(rng.integers(0, 2, (number[-1] + 1, own)).astype(float)[number], copies)
    if name == "walk":
        steps = np.cumsum(rng.normal(scale=1.0 / math.sqrt(rounds), size=(rounds, own)), axis=0)
        folded = np.abs((0.5 + steps) % 2.0)
        return MergedLosses(np.minimum(folded, 2.0 - folded), copies)
    at = min(epsilon, rounds**-0.25)
    return MergedLosses(EpochAdversary(rounds=rounds, experts=own, epsilon=at).losses(rng), copies)


def regret_on(losses: MergedLosses, learner: Private | MultiplicativeWeights) -> float:
    """Exact expected regret."""
    if isinstance(learner, TreeExperts):
        return leader_regret(losses, learner)
    if isinstance(learner, ShrinkingDartboard):
        return dartboard_regret(losses, learner)
    batch = learner.batch if isinstance(learner, LazyExperts) else 1
    return weights_regret(losses, batch=batch, learning_rate=learner.learning_rate)


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
            regret[name][adversary] = regret_on(losses, learner)
    return {
        "regret": regret,
        "certified": {name: _certified(learner) for name, learner in learners.items()},
        "bound": {name: w.regret_bound() for name, w in everyone.items() if not isinstance(w, TreeExperts)},
        "batch": victim.batch,
    }


def experiment(
    cells: Cells,
    lengths: tuple[int, ...] = LENGTHS,
    sizes: tuple[int, ...] = SIZES,
    epsilons: tuple[float, ...] = EPSILONS,
) -> Report:
    """Regret of calibrated learners."""
    settings = list(itertools.product(lengths, sizes, epsilons))
    found = cells.each(measured, reversed(settings), "learners")  # longest first
    worst = {
        (t, d, name): [max(found[t, d, eps]["regret"][name].values()) for eps in epsilons]
        for t, d, name in itertools.product(lengths, sizes, LEARNERS)
    }
    longest, middle, largest = lengths[-1], epsilons[len(epsilons) // 2 - 1], sizes[-1]
    chosen = found[longest, largest, middle]["regret"]
    tables = []
    for t in lengths:
        tables += [
            f"Largest regret over the five adversaries, T = {t}:",
            markdown(
                ["d", "learner", *(f"ε = {eps:g}" for eps in epsilons)],
                [[d, name, *worst[t, d, name]] for d, name in itertools.product(sizes, LEARNERS)],
            ),
        ]
    tables += [
        f"By adversary, T = {longest}, d = {largest}, ε = {middle:g}, "
        f"batches of {found[longest, largest, middle]['batch']}:",
        markdown(["learner", *ADVERSARIES], [[name, *(chosen[name][a] for a in ADVERSARIES)] for name in LEARNERS]),
    ]

    def draw(figure: Any) -> None:
        for axes, d in zip(figure.subplots(1, len(sizes), squeeze=False)[0], sizes, strict=True):
            for name, style in zip(LEARNERS, ("o-", "^-", "s-", "v-", "d-", "k--"), strict=True):
                axes.loglog(epsilons, np.maximum(worst[longest, d, name], 1.0), style, label=name, markersize=4)
            axes.set(xlabel=f"ε at δ = 1e-6 (T = {longest}, d = {d})")
        figure.axes[0].set(ylabel="largest regret")
        figure.axes[0].legend(fontsize=7)

    return Report(
        tables,
        {
            "every private learner is certified at its ε (up to rounding, 1e-12 of it)": all(
                c <= eps * (1.0 + 1e-12) for (_, _, eps), row in found.items() for c in row["certified"].values()
            ),
            "every regret is within its learner's bound (the tree has none)": all(
                max(row["regret"][name].values()) <= limit
                for row in found.values()
                for name, limit in row["bound"].items()
            ),
            f"each bound falls as ε grows (with a budget up to the {SPENT:g} rounds that spending it may cost)": all(
                found[t, d, less]["bound"][name] + SPENT * ("budget" in name) >= found[t, d, more]["bound"][name]
                for t, d in itertools.product(lengths, sizes)
                for less, more in itertools.pairwise(epsilons)
                for name in found[t, d, less]["bound"]
            ),
        },
        draw,
        f"Largest regret against ε for {' and '.join(map(str, sizes))} experts, by learner, on logarithmic axes.",
    )
