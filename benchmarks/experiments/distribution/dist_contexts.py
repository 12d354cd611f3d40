"""Contexts that work against the learner, and variants of the learner.

Each of C contexts is another assignment of candidates to laws, so that others agree with the true candidate in each.
Contexts come at random, in turn, in long phases, or from an adversary who sees all weights and picks the context in
which the candidates in favour disagree most. No guarantee knows of any of that: the bound is the same.

The variants send the same bits, but for one that asks about candidates by their weight, which needs an answer before
the next question.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.experiments.distribution.label_families import SEED, easy_learner, measured, spread, summary, unlearned
from benchmarks.frame import Cells, Report, markdown
from hockeystick.learners.distribution.adaptive_runs import (
    InteractiveDistribution,
    most_disagreement,
    simulate_adaptively,
)
from hockeystick.learners.distribution.anytime import AnytimeDistribution
from hockeystick.learners.distribution.channels.candidates import LabelTable
from hockeystick.learners.distribution.online_distribution import OnlineDistribution

EXPERTS, LABELS, CONTEXTS, ROUNDS, EPSILON = 8, 4, 12, 10**4, 1.0
ORDERS = ("random", "in turn", "in phases", "adversary")
VARIANTS = ("tuned", "posterior", "anytime", "by weight", "randomised labels")


def permuting() -> LabelTable:
    """Tables (contexts, K, M): in each context a candidate is half uniform, half on a label drawn for it."""
    favourites = np.random.default_rng(SEED).integers(0, LABELS, size=(CONTEXTS, EXPERTS))
    favourites[:, 0] = 0
    for j in range(1, EXPERTS):  # nobody agrees with the truth everywhere
        favourites[j % CONTEXTS, j] = 1
    return LabelTable(0.5 / LABELS + 0.5 * np.eye(LABELS)[favourites])


def order(name: str, rounds: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The contexts of a run that is planned ahead."""
    if name == "random":
        return np.random.default_rng(SEED).integers(0, CONTEXTS, size=rounds)
    return np.arange(rounds) % CONTEXTS if name == "in turn" else np.arange(rounds) * CONTEXTS // rounds


def ordered(name: str, rounds: int, runs: int) -> dict[str, float]:
    """Risk for one order of contexts."""
    learner = OnlineDistribution.build(permuting(), rounds=rounds, epsilon=EPSILON)
    if name != "adversary":
        return measured(learner, 0, runs, block=1, contexts=order(name, rounds))
    rng = np.random.default_rng([SEED, rounds])
    found = simulate_adaptively(learner, 0, rng, runs, adversary=most_disagreement(learner))
    return summary(found.risk) | {"bound": learner.risk_bound()}


def variant(name: str, rounds: int, runs: int) -> dict[str, float]:
    """Risk of one variant on easy candidates."""
    rng = np.random.default_rng([SEED, 7, rounds])
    if name == "anytime":
        anytime = AnytimeDistribution(lambda n: easy_learner(EXPERTS, n, reference="calibrated"))
        found: Any = anytime.simulate(0, rng, runs, rounds=rounds)
        return summary(found.risk) | {"bound": anytime.risk_bound(rounds)}
    channel = "labels" if name == "randomised labels" else "one bit"
    learner = easy_learner(EXPERTS, rounds, reference="calibrated", channel=channel)
    if name == "by weight":
        asking = InteractiveDistribution(learner)
        return summary(asking.simulate(0, rng, runs).risk) | {"bound": asking.risk_bound()}
    if name == "posterior":
        learner = easy_learner(EXPERTS, rounds, reference="calibrated", rule="posterior")
        return summary(learner.simulate(0, rng, runs).risk)
    return summary(learner.simulate(0, rng, runs).risk) | {"bound": learner.risk_bound()}


def experiment(
    cells: Cells, rounds: int = ROUNDS, runs: tuple[int, int] = (32, 16), variant_rounds: int = 2 * ROUNDS
) -> Report:
    """Risk under adversarial contexts, and of variants of the learner."""
    settings = [(n, rounds, runs[1] if n == "adversary" else runs[0]) for n in ORDERS]
    risks = cells.each(ordered, settings[::-1], "contexts")  # the adversary's first, which take longest
    found = {setting[0]: risks[setting] for setting in settings}
    risks = cells.each(variant, [(n, variant_rounds, runs[0]) for n in VARIANTS[::-1]], "variants")
    variants = {n: risks[n, variant_rounds, runs[0]] for n in VARIANTS}
    tables = [
        f"K = {EXPERTS}, M = {LABELS}, {CONTEXTS} contexts, T = {rounds}, ε = {EPSILON:g}:",
        markdown(
            ["contexts", "risk", "bound"],
            [[name, spread(one), one["bound"]] for name, one in found.items()],
        ),
        f"Easy candidates, K = {EXPERTS}, T = {variant_rounds}, ε = {EPSILON:g}; the risk without learning is "
        f"{unlearned(EXPERTS, variant_rounds):.0f}:",
        markdown(
            ["variant", "risk", "bound"],
            [[name, f"{one['risk']:.4g} ± {one['error']:.2g}", one.get("bound", "")] for name, one in variants.items()],
        ),
    ]
    return Report(
        tables,
        {
            "under every order of contexts risk is below the bound": all(
                o["risk"] < o["bound"] for o in found.values()
            ),
            "the risk is at most half of its bound for every order, including the adversary's": all(
                one["risk"] <= 0.5 * one["bound"] for one in found.values()
            ),
            "the risk of every variant with a bound is below it": all(
                one["risk"] < one["bound"] for one in variants.values() if "bound" in one
            ),
            "Bayes' rule on the same bits is better than exponential weights; not knowing T is worse": variants[
                "posterior"
            ]["risk"]
            < variants["tuned"]["risk"]
            < variants["anytime"]["risk"],
        },
    )
