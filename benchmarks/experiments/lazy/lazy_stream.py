"""The lazy learner on scikit-learn's bundled data: which of eight simple classifiers to trust, with privacy.

A fifth of the rows is declared public and trains the classifiers. The others are the protected people, in random order;
a classifier's loss on a person is 1 if it errs. A stream of k epochs goes through the same people k times, in k orders.
Each person then changes k rounds, so that epsilon is that of groups of k rather than of single rounds. Beside it stands
the claim of a learner that counts every round as a new person.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from attrs import evolve

from benchmarks.frame import Cells, Report, markdown
from hockeystick._runs.bundled_data import CLASSIFIERS, DATA
from hockeystick._runs.bundled_data import classifier_errors as errors
from hockeystick.learners import LazyExperts, MultiplicativeWeights

DELTA = 1e-5
EPSILON = 2.0
EPOCHS = (1, 2, 4)


def learner_for_groups(rounds: int, experts: int, group: int, epsilon: float) -> LazyExperts:
    """A dartboard whose graph certifies epsilon for groups: of the learner for one record, at a smaller rate."""
    single = LazyExperts.calibrated(
        rounds=rounds, experts=experts, epsilon=epsilon / group, delta=DELTA, variant="dartboard"
    )

    def at(factor: float) -> LazyExperts:
        return evolve(
            single,
            learning_rate=factor * single.learning_rate,
            fake_switch_probability=min(0.999, factor * single.fake_switch_probability),
        )

    low, high = 0.05, 1.0
    if certified(at(high), group) <= epsilon:
        return at(high)
    while high / low > 1.01:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if certified(at(middle), group) <= epsilon else (low, middle)
    return at(low)


def certified(learner: LazyExperts, group: int) -> float:
    """Returns the epsilon that the graph certifies at delta for groups."""
    return float(learner.graph().guarantee(group=group).epsilon(DELTA).upper)


def measured(name: str, epochs: int, epsilon: float) -> dict[str, Any]:
    """Mean losses on a stream of some epochs; exact in expectation over learners' randomness."""
    once = errors(name)
    rng = np.random.default_rng(20240610)
    losses = np.concatenate([once[rng.permutation(len(once))] for _ in range(epochs)])
    rounds, experts = losses.shape
    learner = learner_for_groups(rounds, experts, epochs, epsilon)
    best = losses.sum(axis=0).min()
    free = MultiplicativeWeights(rounds=rounds, experts=experts)
    return {
        "people": len(once),
        "rounds": rounds,
        "batch": learner.batch,
        "certified": certified(learner, epochs),
        "claimed": certified(learner, 1),
        "best": float(best / rounds),
        "which": CLASSIFIERS[int(np.argmin(losses.sum(axis=0)))],
        "private": float((learner.expected_regret(losses) + best) / rounds),
        "free": float((free.expected_regret(losses) + best) / rounds),
        "guess": float(losses.mean()),
        "bound": float((learner.regret_bound() + best) / rounds),
    }


def experiment(
    cells: Cells, data: tuple[str, ...] = DATA, epochs: tuple[int, ...] = EPOCHS, epsilon: float = EPSILON
) -> Report:
    """The lazy learner among simple classifiers, one or several epochs."""
    settings = [(name, k) for name in data for k in epochs]
    found = cells.each(measured, settings, "streams", epsilon=epsilon)
    columns = ("rounds", "batch", "certified", "claimed", "guess", "private", "free", "best", "which")
    titles = ["rounds", "batch", "ε, per person", "ε, were each round somebody new"]
    titles += ["a classifier at random", "lazy learner", "without privacy", "best classifier", "which is"]

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        place = np.arange(len(settings))
        for key, title in (
            ("guess", "a classifier at random"),
            ("private", "lazy learner"),
            ("free", "without privacy"),
            ("best", "best classifier"),
        ):
            axes.plot(place, [found[setting][key] for setting in settings], "o", label=title)
        axes.set_xticks(place, [f"{name}\n× {k}" for name, k in settings], fontsize=7)
        axes.set(ylabel="mean loss", ylim=(0.0, None))
        axes.legend(fontsize=7)

    return Report(
        markdown(
            ["data", "epochs", *titles],
            [[name, k, *(found[name, k][column] for column in columns)] for name, k in settings],
        ),
        {
            f"each learner is ({epsilon:g}, {DELTA:g})-DP per person, all epochs together": all(
                row["certified"] <= epsilon for row in found.values()
            ),
            "counting repeated people as new ones would claim an ε below the truth": all(
                row["claimed"] < row["certified"] for (_, k), row in found.items() if k > 1
            ),
            "the lazy learner is better than a random classifier, and not better than without privacy": all(
                row["free"] <= row["private"] < row["guess"] for row in found.values()
            ),
            "its loss is within its bound": all(row["private"] <= row["bound"] for row in found.values()),
        },
        draw,
        "Mean loss by data set and number of epochs: the lazy learner between chance and the learner without privacy.",
    )
