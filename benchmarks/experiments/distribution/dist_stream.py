"""A stream of handwritten digits: the server holds K classifiers, pictures are public, labels stay with their owners.

Contexts are scikit-learn's pictures of digits, half of which the classifiers are fitted on, on disjoint parts with
different strengths of regularisation; the other half comes in random order, each picture many times. *Realisable*:
labels are drawn from one of the classifiers, as the theory asks. *Misspecified*: labels are those of the digits, and no
classifier is true. That is outside the theorem, and the bound is not one on that risk.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from benchmarks.experiments.distribution.label_families import SEED, in_tens, spread, summary
from benchmarks.frame import Cells, Report, markdown
from hockeystick.learners.distribution.channels.candidates import LabelTable
from hockeystick.learners.distribution.online_distribution import OnlineDistribution

STRENGTHS = (1e-4, 1e-3, 1e-2, 1e-1, 1e-4, 1e-3, 1e-2, 1e-1)
ROUNDS, EPSILON, TRUTHS = (10**4, 30_000, 10**5), 1.0, (0, 3)


@lru_cache(maxsize=1)
def classifiers() -> tuple[LabelTable, np.ndarray[Any, np.dtype[np.int64]]]:
    """Laws of the labels, (pictures, K, 10), and the digits of the pictures."""
    from sklearn.datasets import load_digits
    from sklearn.linear_model import LogisticRegression

    pictures, digits = load_digits(return_X_y=True)
    order = np.random.default_rng(SEED).permutation(len(digits))
    fitted, shown = order[: len(order) // 2], order[len(order) // 2 :]
    laws = []
    for part, strength in zip(np.array_split(fitted, len(STRENGTHS)), STRENGTHS, strict=True):
        model = LogisticRegression(C=strength, max_iter=2000).fit(pictures[part] / 16.0, digits[part])
        law = np.full((len(shown), 10), 1e-12)  # a part may lack a digit
        law[:, model.classes_] += model.predict_proba(pictures[shown] / 16.0)
        laws.append(law / law.sum(axis=1, keepdims=True))
    return LabelTable(np.stack(laws, axis=1)), digits[shown].astype(np.int64)


def stream(truth: int | None, rounds: int, runs: int) -> dict[str, Any]:
    """Risk of one run of the stream; without a true classifier, log-loss of the digits' labels."""
    table, digits = classifiers()
    rng = np.random.default_rng([SEED, 13, rounds, 99 if truth is None else truth])
    contexts = rng.integers(0, len(digits), size=rounds)
    learner = OnlineDistribution.build(table, rounds=rounds, epsilon=EPSILON)
    laws: Any = np.eye(10)[digits] if truth is None else truth
    given: dict[str, Any] = {} if truth is not None else {"labels": digits[contexts]}
    found = learner.simulate(laws, rng, runs, contexts=contexts, block=max(1, rounds // 10**5), **given)
    times = np.bincount(contexts, minlength=len(digits))
    risks = [learner.risk(truth if truth is not None else laws[c], c) for c in range(len(digits))]
    even = np.ones((learner.experts, 1))
    alone = np.eye(learner.experts)
    each = sum(risk.of(alone) * n for risk, n in zip(risks, times, strict=True))
    return summary(found.risk) | {
        "bound": learner.risk_bound(),
        "no learning": float(sum(risk.of(even)[0] * n for risk, n in zip(risks, times, strict=True))),
        "candidates": np.asarray(each).tolist(),
        "weights": found.mean_weights.mean(axis=0).tolist(),
    }


def experiment(cells: Cells, rounds: tuple[int, ...] = ROUNDS, runs: int = 8) -> Report:
    """Risk on a stream of digits, with a true classifier and without one."""
    wanted: list[tuple[int | None, int]] = [(truth, n) for truth in (*TRUTHS, None) for n in rounds]
    found = cells.each(stream, wanted, "stream", runs=runs)
    rows: list[list[object]] = []
    for truth in (*TRUTHS, None):
        part = [found[truth, n] for n in rounds]
        name = "**misspecified**: the digits' own labels" if truth is None else f"realisable, classifier {truth}"
        rows.append([name, *map(spread, part)])
        rows.append(["no learning", *(one["no learning"] for one in part)])
        if truth is None:
            rows.append(["best classifier", *(min(one["candidates"]) for one in part)])
            rows.append(["worst classifier", *(max(one["candidates"]) for one in part)])
        else:
            rows.append(["bound", *(one["bound"] for one in part)])
    outside = [found[None, n] for n in rounds]
    best = int(np.argmin(outside[-1]["candidates"]))

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        for i, truth in enumerate((*TRUTHS, None)):
            name = "misspecified" if truth is None else f"classifier {truth}"
            axes.loglog(rounds, [found[truth, n]["risk"] for n in rounds], f"C{i}o-", label=name)
            axes.loglog(rounds, [found[truth, n]["no learning"] for n in rounds], f"C{i}--")
        axes.loglog(rounds, [found[TRUTHS[0], n]["bound"] for n in rounds], "k:", label="bound, if realisable")
        axes.set(xlabel="rounds T (dashed: no learning)", ylabel="risk, or log-loss, nats")
        axes.legend(fontsize=7)

    last = rounds[-1]
    return Report(
        f"K = {len(STRENGTHS)}, ε = {EPSILON:g}, one bit a person; without a true classifier the numbers are "
        "log-loss, for which there is no theorem:\n\n"
        + markdown(["labels", *(f"T = {in_tens(n)}" for n in rounds)], rows),
        {
            "realisable: risk is below the bound": all(
                found[truth, n]["risk"] < found[truth, n]["bound"] for truth in TRUTHS for n in rounds
            ),
            f"realisable: at T = {last} it is below the risk without learning": all(
                found[truth, last]["risk"] < found[truth, last]["no learning"] for truth in TRUTHS
            ),
            f"misspecified: at T = {last} log-loss lies between the best classifier's and that without learning, "
            "without a proof (mean weight of the best: "
            f"{outside[-1]['weights'][best]:.2f})": min(outside[-1]["candidates"])
            < outside[-1]["risk"]
            < outside[-1]["no learning"],
        },
        draw,
        "Risk on a stream of digits against rounds, with the risk without learning; realisable and misspecified.",
    )
