"""The hard class: a floor for every learner, and the risk of one bit.

Pairs of laws that differ by a row of a Hadamard matrix, the class rebuilt for each T. A floor holds for the worst truth
of the class; measured is the worse of the first pair's two. Then the information of each channel about the pairs,
against the bound that the floor rests on. A Laplace level is cut into cells, which only loses information.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats

from benchmarks.experiments.distribution.label_families import REFERENCES, in_tens, measured, spread
from benchmarks.frame import Cells, Report, markdown
from hockeystick.learners.distribution.channels.all_channels import OneBit, RandomizedLabels, SampledLaplace
from hockeystick.learners.distribution.channels.levels import Levels, TableLevels
from hockeystick.learners.distribution.hadamard_candidates import HadamardClass, printed_risk_floor, risk_floor
from hockeystick.learners.distribution.online_distribution import OnlineDistribution
from hockeystick.learners.lazy import log_log_slope

PAIRS, EPSILON, ROUNDS = 7, 1.0, (10**5, 10**6, 10**7)
QUOTED = {10**5: (3.3e3, 28.5), 10**6: (9.7e3, 90.0), 10**7: (2.7e4, 285.0)}
EPSILONS = (0.1, 0.25, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0)
LEAN, HORIZON = 0.1, 1000  # of the second table
CHANNELS = ("one bit", "Laplace level", "randomised labels", "subset of half")
CELLS = 400


def hard(rounds: int, truth: int, runs: int, reference: str) -> dict[str, float]:
    """One bit's risk on the class for so many rounds."""
    hypotheses = HadamardClass.hardest(PAIRS, rounds=rounds, epsilon=EPSILON).hypotheses()
    learner = OnlineDistribution.build(hypotheses, rounds=rounds, reference=REFERENCES[reference], epsilon=EPSILON)
    return measured(learner, truth, runs, block=max(10, rounds // 10**5))


def told(channel: str, epsilon: float) -> dict[str, float]:
    """Returns the information of a channel about the pairs, and its upper bound."""
    hard_class = HadamardClass(PAIRS, lean=LEAN)
    levels = REFERENCES["calibrated"].levels(hard_class.hypotheses(), HORIZON)
    if not isinstance(levels, TableLevels):
        raise TypeError("the hard class has a table")
    law: dict[str, Any] = {
        "one bit": _bits,
        "Laplace level": _laplace,
        "randomised labels": _labels,
        "subset of half": _subsets,
    }
    return {
        "told": hard_class.information(law[channel](levels, epsilon)),
        "bound": hard_class.information_bound(epsilon),
        "printed": hard_class.printed_information_bound(epsilon),
    }


def _bits(levels: TableLevels, epsilon: float) -> npt.NDArray[np.float64]:
    channel = OneBit(levels, epsilon=epsilon)
    ones = np.array([[float(p) for p in column] for column in channel.probabilities()])  # (K, columns and none)
    chance = ones[:, levels.column[:-1]].T / levels.count
    return np.concatenate([chance, 1.0 / levels.count - chance], axis=1)


def _laplace(levels: Levels, epsilon: float) -> npt.NDArray[np.float64]:
    channel = SampledLaplace(levels, epsilon=epsilon)
    reach = channel.span + 20.0 * channel.scale
    edges = np.concatenate([[-np.inf], np.linspace(-reach, reach, CELLS - 1), [np.inf]])
    losses = levels.middle - levels.of(np.arange(levels.labels or 0))
    below = stats.laplace.cdf(edges, loc=losses[:, :, None], scale=channel.scale)
    cells = np.diff(below, axis=2).reshape(len(losses), -1) / levels.count
    cells = cells[:, cells.max(axis=0) > 1e-15]
    return np.asarray(cells / cells.sum(axis=1, keepdims=True))


def _labels(levels: Levels, epsilon: float) -> npt.NDArray[np.float64]:
    channel = RandomizedLabels(levels, epsilon=epsilon)
    count, keep = channel.labels, channel.contrast
    return keep * np.eye(count) + (1.0 - keep) / count


def _subsets(levels: Levels, epsilon: float) -> npt.NDArray[np.float64]:
    """A channel that the library lacks: its message is a subset of half of all labels, likelier one with the label."""
    count = levels.labels or 0
    chosen = np.array([[bits >> y & 1 for y in range(count)] for bits in range(1 << count)], dtype=float)
    chosen = chosen[chosen.sum(axis=1) == count // 2]
    weights = np.where(chosen.T > 0, np.exp(epsilon), 1.0)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def experiment(
    cells: Cells,
    rounds: tuple[int, ...] = ROUNDS,
    runs: tuple[int, int] = (32, 12),
    epsilons: tuple[float, ...] = EPSILONS,
) -> Report:
    """Risk of one bit on the hard class against floors and bounds, and what channels tell about its pairs."""
    wanted = [(n, truth, r) for r in ("formula", "calibrated") for n in rounds for truth in (0, 1)]
    found = cells.each(
        hard, [(n, truth, runs[1] if n >= 10**7 else runs[0], r) for n, truth, r in wanted], "hard class"
    )

    def worst(n: int, reference: str) -> dict[str, float]:
        return max(
            (one for key, one in found.items() if (key[0], key[3]) == (n, reference)), key=lambda one: one["risk"]
        )

    information = cells.each(told, [(c, e) for c in CHANNELS for e in epsilons], "channels")
    size = {"experts": 2 * PAIRS, "epsilon": EPSILON}
    floors = [risk_floor(rounds=n, **size) for n in rounds]  # type: ignore[arg-type]
    printed = [printed_risk_floor(rounds=n, **size) for n in rounds]  # type: ignore[arg-type]
    values = [worst(n, "formula") for n in rounds]
    slope = log_log_slope(rounds, [one["risk"] for one in values]).slope
    normalised = log_log_slope(rounds, [one["risk"] / one["span"] for one in values]).slope
    own = [worst(n, "calibrated") for n in rounds]
    tables = [
        f"One bit, K = {2 * PAIRS}, N = 8, ε = {EPSILON:g}:",
        markdown(
            ["", *(f"T = {in_tens(n)}" for n in rounds)],
            [
                ["worst risk, range of the formula", *map(spread, values)],
                ["quoted", *(QUOTED[n][0] if n in QUOTED else "" for n in rounds)],
                ["its bound", *(one["bound"] for one in values)],
                ["worst risk, range of the levels", *map(spread, own)],
                ["its bound", *(one["bound"] for one in own)],
                ["floor", *(floor.value for floor in floors)],
                ["quoted", *(QUOTED[n][1] if n in QUOTED else "" for n in rounds)],
                ["floor as printed", *(floor.value for floor in printed)],
            ],
        ),
        f"Information of messages about the pairs, a = {LEAN:g}, as a fraction of a²(e^(ε/2) - 1)²:",
        markdown(
            ["channel", *(f"ε = {e:g}" for e in epsilons)],
            [
                *([c, *(information[c, e]["told"] / information[c, e]["bound"] for e in epsilons)] for c in CHANNELS),
                [
                    "bound as printed",
                    *(information[CHANNELS[0], e]["printed"] / information[CHANNELS[0], e]["bound"] for e in epsilons),
                ],
            ],
        ),
    ]
    near = [abs(one["risk"] / QUOTED[n][0] - 1.0) for n, one in zip(rounds, values, strict=True) if n in QUOTED]

    def draw(figure: Any) -> None:
        left, right = figure.subplots(1, 2)
        left.loglog(rounds, [one["bound"] for one in values], "k:", label="bound")
        left.loglog(rounds, [one["risk"] for one in values], "o-", label="one bit, worst truth")
        left.loglog(rounds, [floor.value for floor in floors], "--", label="floor")
        left.loglog(rounds, [floor.value for floor in printed], "--", label="floor as printed")
        left.set(xlabel="rounds T", ylabel="risk, nats")
        for c in CHANNELS:
            right.loglog(epsilons, [information[c, e]["told"] for e in epsilons], "o-", markersize=3, label=c)
        right.loglog(epsilons, [information[CHANNELS[0], e]["bound"] for e in epsilons], "k:", label="bound")
        right.set(xlabel="ε", ylabel="Σ KL of messages over pairs")
        for axes in (left, right):
            axes.legend(fontsize=6)

    return Report(
        tables,
        {
            "risk lies above the corrected floor and below the explicit bound, at every T": all(
                floor.applies and floor.value < one["risk"] < one["bound"]
                for some in (values, own)
                for floor, one in zip(floors, some, strict=True)
            ),
            f"risks agree with the quoted ones within 15 % (the farthest: {100 * max(near, default=0.0):.0f} %)": max(
                near, default=0.0
            )
            <= 0.15,
            f"slope 1/2 in T, up to 0.05: {slope:.3f} (of risk/range {normalised:.3f})": abs(slope - 0.5) <= 0.05,
            "the information of every channel is below the bound": all(
                o["told"] <= o["bound"] for o in information.values()
            ),
        },
        draw,
        "Risk on the hard class between floor and bound; information of four channels below the bound, against ε.",
    )
