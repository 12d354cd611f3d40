"""The growth of risk in the number of rounds, of candidates and in epsilon, for one bit and one Laplace level.

The easy candidates, levels in the range of its formula ln(1 + (T-1) K), without an exchange of labels. Slopes are of
risk divided by that range, which the noise is scaled to. Easy candidates lie farther apart the more there are; leaning
ones, rows of a Hadamard matrix, hardly: so the slope in K is theirs to show.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from benchmarks.experiments.distribution.label_families import (
    distance,
    easy_risk,
    in_tens,
    leaning_learner,
    measured,
    spread,
    unlearned,
)
from benchmarks.frame import Cells, Report, markdown
from hockeystick.learners.distribution.risk_bounds import mixture_span
from hockeystick.learners.lazy import log_log_slope

EXPERTS, ROUNDS = (4, 16, 64), (10**5, 10**6, 10**7)
LEANING = (8, 32, 128)
EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0)
NAMES = {"one bit": "one bit", "Laplace": "one Laplace level"}
QUOTED = {
    ("one bit", 4): (2199.0, 8116.0, 34130.0),
    ("one bit", 16): (11683.0, 34330.0, 101121.0),
    ("one bit", 64): (42929.0, 98410.0, 289778.0),
    ("Laplace", 4): (3912.0, 12013.0, 48881.0),
    ("Laplace", 16): (13811.0, 50684.0, 168389.0),
    ("Laplace", 64): (66892.0, 165596.0, 409048.0),
}
QUOTED_EPSILONS = (199550.0, 64846.0, 36278.0, 18267.0, 14847.0)
QUOTED_ROUNDS = (10**5, 10**6, 10**7)


def block(rounds: int) -> int:
    """Rounds between which weights stand still."""
    return max(10, rounds // 10**5)


def cell(channel: str, experts: int, rounds: int, runs: int, reference: str = "formula") -> dict[str, float]:
    """One risk against rounds and candidates."""
    return easy_risk(experts, rounds, runs, channel=channel, reference=reference, block=block(rounds))


def leaning(experts: int, rounds: int, runs: int) -> dict[str, float]:
    """One risk of one bit on candidates that all lie as far apart, whatever their number."""
    learner = leaning_learner(experts, rounds)
    return measured(learner, 0, runs, block=block(rounds))


def private(epsilon: float, experts: int, rounds: int, runs: int) -> dict[str, float]:
    """One risk against epsilon."""
    return easy_risk(experts, rounds, runs, epsilon=epsilon, block=max(20, rounds // 50_000))


def experiment(
    cells: Cells,
    rounds: tuple[int, ...] = ROUNDS,
    experts: tuple[int, ...] = EXPERTS,
    runs: tuple[int, int] = (48, 16),
    sweep: int = 10**6,
    many: tuple[int, ...] = LEANING,
) -> Report:
    """Risk of one bit and of one Laplace level against rounds, candidates and epsilon."""
    lines = [(channel, k) for channel in NAMES for k in experts]
    times = [(n, runs[0] if n < 10**7 else runs[1]) for n in rounds]
    found = cells.each(cell, [(*line, *one) for line in lines for one in times], "rounds and candidates")
    risks = {line: [found[*line, *one] for one in times] for line in lines}
    middle = experts[min(1, len(experts) - 1)]
    by_epsilon, longer = (
        list(cells.each(private, EPSILONS, "epsilon", experts=middle, rounds=n, runs=times_).values())
        for n, times_ in ((sweep, runs[0]), (rounds[-1], runs[1]))
    )
    key = {"channel": "one bit", "experts": middle, "rounds": sweep, "runs": runs[0], "reference": "calibrated"}
    narrow = cells.one(cell, **key)

    def scaled(line: tuple[str, int]) -> list[float]:
        spans = (mixture_span(rounds=n, experts=line[1]) for n in rounds)
        return [one["risk"] / span for one, span in zip(risks[line], spans, strict=True)]

    def decade(line: tuple[str, int]) -> float:
        before, last = scaled(line)[-2:]
        return math.log(last / before) / math.log(rounds[-1] / rounds[-2])

    def rises(counts: tuple[int, ...], values: list[list[float]]) -> list[float]:
        """Slopes in K of risk/(range sqrt(ln K)), one for each number of rounds."""
        per_root = [np.array(own) / math.sqrt(math.log(k)) for k, own in zip(counts, values, strict=True)]
        return [float(slope) for slope in np.polyfit(np.log(counts), np.log(per_root), 1)[0]]

    even = cells.each(leaning, [(k, *one) for k in many for one in times], "leaning candidates")
    leans = [[even[k, *one] for one in times] for k in many]
    even_rises = rises(many, [[one["risk"] / one["span"] for one in own] for own in leans])
    easy_rises = {c: rises(experts, [scaled((c, k)) for k in experts]) for c in NAMES}

    slopes = {line: log_log_slope(rounds, scaled(line)).slope for line in lines}
    rows = []
    distances: list[float] = []
    for c, k in lines:
        values = risks[c, k]
        rows.append([NAMES[c], k, *map(spread, values), slopes[c, k], decade((c, k))])
        quoted = dict(zip(QUOTED_ROUNDS, QUOTED.get((c, k), ()), strict=False))
        near = {
            n: distance(one, quoted[n], 3 if n == 10**7 else 8)
            for n, one in zip(rounds, values, strict=True)
            if n in quoted
        }
        distances += near.values()
        cited = (f"{quoted[n]:.0f} ({near[n]:+.1f} s.e.)" if n in near else "" for n in rounds)
        rows.append(["quoted", k, *cited, "", ""])
        rows.append(["bound", k, *(one["bound"] for one in values), "", ""])
    rows += [["no learning", k, *(unlearned(k, n) for n in rounds), "", ""] for k in experts]
    apart = [distance(one, quoted) for one, quoted in zip(by_epsilon, QUOTED_EPSILONS, strict=True)]
    per_coth, long_coth = (
        [one["risk"] * math.tanh(e / 2) for e, one in zip(EPSILONS, own, strict=True)] for own in (by_epsilon, longer)
    )
    constant = max(abs(value / float(np.mean(long_coth)) - 1.0) for value in long_coth)
    mean = float(np.mean(per_coth))
    tables = [
        markdown(["message", "K", *(f"T = {in_tens(n)}" for n in rounds), "slope", "last decade"], rows),
        f"One bit, K = {middle}, T = {in_tens(sweep)}:",
        markdown(
            ["", *(f"ε = {e:g}" for e in EPSILONS)],
            [
                ["risk", *map(spread, by_epsilon)],
                ["quoted", *(f"{q:.0f} ({d:+.1f} s.e.)" for q, d in zip(QUOTED_EPSILONS, apart, strict=True))],
                ["bound", *(one["bound"] for one in by_epsilon)],
                ["risk/coth(ε/2)", *per_coth],
                [f"risk, T = {in_tens(rounds[-1])}", *map(spread, longer)],
                ["risk/coth(ε/2)", *long_coth],
            ],
        ),
        f"At ε = 1 with the range of these candidates' own levels, {narrow['span']:.4g}, which is the default: "
        f"{spread(narrow)}.",
        "Candidates that lean on rows of a Hadamard matrix, one bit:",
        markdown(
            ["K", *(f"T = {in_tens(n)}" for n in rounds)],
            [[k, *map(spread, own)] for k, own in zip(many, leans, strict=True)],
        ),
        "Slopes in K of risk/(range √ln K):",
        markdown(
            ["candidates", *(f"T = {in_tens(n)}" for n in rounds)],
            [["leaning, one bit", *even_rises], *(["easy, " + NAMES[c], *easy_rises[c]] for c in NAMES)],
        ),
        _expected([easy_rises[c][-1] for c in NAMES], [value / mean - 1.0 for value in per_coth]),
    ]
    everything = [*found.values(), *by_epsilon, *longer, narrow]
    far = max(map(abs, (*distances, *apart)))

    def draw(figure: Any) -> None:
        left, right = figure.subplots(1, 2)
        for (c, k), values in risks.items():
            style = "o-" if c == "one bit" else "s--"
            left.loglog(rounds, [one["risk"] for one in values], style, label=f"{NAMES[c]}, K = {k}", markersize=3)
        for k in experts:
            left.loglog(rounds, [one["bound"] for one in risks["one bit", k]], "k:", linewidth=0.8)
        left.set(xlabel="rounds T", ylabel="risk, nats (dotted: bounds of one bit)")
        right.loglog(EPSILONS, [one["risk"] for one in by_epsilon], "o-", label="risk")
        right.loglog(EPSILONS, [one["bound"] for one in by_epsilon], "k:", label="bound")
        right.loglog(EPSILONS, [mean / math.tanh(e / 2) for e in EPSILONS], "--", label="∝ coth(ε/2)")
        right.set(xlabel="ε", title=f"one bit, K = {middle}, T = {in_tens(sweep)}")
        for axes in (left, right):
            axes.legend(fontsize=6)

    return Report(
        tables,
        {
            f"leaning candidates: slope 1/2 in K at the most rounds, up to 0.08: {even_rises[-1]:.2f}": abs(
                even_rises[-1] - 0.5
            )
            <= 0.08,
            f"every mean agrees with the quoted one within 3 standard errors (the farthest of "
            f"{len(distances) + len(apart)}: {far:.1f})": far <= 3.0,
            "risk/coth(ε/2) is constant at the most rounds, up to 25 %: off its mean by "
            f"{100 * constant:.0f} %": constant <= 0.25,
            "every risk is below its explicit bound": all(one["risk"] < one["bound"] for one in everything),
            f"K = {experts[0]}: slope 1/2 in T, up to 0.08": all(
                abs(slopes[c, experts[0]] - 0.5) <= 0.08 for c in NAMES
            ),
            "larger K: slope 1/2 in the last decade, up to 0.08; earlier decades include the start, before "
            "anything is learned": all(abs(decade(line) - 0.5) <= 0.08 for line in lines if line[1] > experts[0]),
            "every risk is between a tenth and a half of its bound": all(
                0.1 <= one["risk"] / one["bound"] <= 0.5 for one in everything
            ),
        },
        draw,
        "Risk against rounds, on logarithmic axes, below its bounds; and against epsilon, in proportion to coth(ε/2).",
    )


def _expected(rises: list[float], deviations: list[float]) -> str:
    """Returns a comparison with rates that easy candidates need not meet.

    They are the rates of the bounds, and of candidates whose distance does not depend on their number.
    """
    met = {True: "met", False: "not met"}
    far = max(map(abs, deviations))
    return (
        f"The bounds' rates: slope 1/2 ± 0.08 in K of risk/(range √ln K) at the largest T: measured "
        f"{' and '.join(f'{value:.2f}' for value in rises)}, {met[all(abs(v - 0.5) <= 0.08 for v in rises)]} on the "
        f"easy candidates. At T = 1e6 risk/coth(ε/2) constant up to 25 %: off its mean by {100 * far:.0f} %, "
        f"{met[far <= 0.25]}."
    )
