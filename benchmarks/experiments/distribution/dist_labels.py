"""Many labels and unbounded labels: the risk of one bit does not depend on them, that of randomised labels does.

Easy candidates whose K kinds of labels are blocks of M/K labels each; then Poisson and Gaussian candidates, of which no
table exists. Risk against a Poisson truth is summed over counts, against a Gaussian one by the trapezoidal rule.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from benchmarks.experiments.distribution.label_families import (
    REFERENCES,
    distance,
    easy_risk,
    in_tens,
    measured,
    spread,
    unlearned,
)
from benchmarks.frame import Cells, Report, markdown
from hockeystick.learners.distribution.channels.candidates import LabelDensities
from hockeystick.learners.distribution.online_distribution import OnlineDistribution
from hockeystick.learners.distribution.risk_bounds import choose_channel
from hockeystick.learners.lazy import log_log_slope

EXPERTS, COPIES, ROUNDS = 4, (1, 4, 16, 64, 256, 1024, 16384), 10**6
QUOTED = {4: 8.0, 16: 123.0, 64: 1174.0, 256: 7786.0, 1024: 171_612.0, 4096: 316_456.0}
UNBOUNDED_EXPERTS, UNBOUNDED_ROUNDS = 8, (10**4, 10**5, 10**6)
FAMILIES = ("Poisson", "Gaussian")


def finite(channel: str, copies: int, rounds: int, runs: int) -> dict[str, float]:
    """One risk against the number of labels; weights of randomised labels move fast where labels are few."""
    return easy_risk(EXPERTS, rounds, runs, channel=channel, copies=copies, block=1 if channel == "labels" else 10)


def unbounded(family: str, rounds: int, runs: int) -> dict[str, float]:
    """One risk of candidates without a table; the truth is in their middle."""
    hypotheses, points, nodes, truth = candidates(family)
    learner = OnlineDistribution.build(hypotheses, rounds=rounds, reference=REFERENCES["calibrated"], epsilon=1.0)
    risks = learner.risk_at(truth, points, nodes=nodes)
    idle = float(risks.of(np.ones((learner.experts, 1)))[0]) * rounds
    found = measured(learner, truth, runs, risks=risks, block=max(10, rounds // 10**4))
    return found | {"no learning": idle, "mass": float(risks.truth.sum())}


def candidates(family: str) -> tuple[LabelDensities, Any, Any, int]:
    """Candidates, labels and weights to integrate over, and which candidate is true."""
    truth = UNBOUNDED_EXPERTS // 2
    if family == "Poisson":
        means = np.geomspace(1.0, 50.0, UNBOUNDED_EXPERTS)
        return LabelDensities.poisson(means), np.arange(200.0), None, truth
    means = np.arange(float(UNBOUNDED_EXPERTS))
    points = np.linspace(-9.0, 9.0, 601) + means[truth]
    return LabelDensities.gaussian(means), points, np.full(len(points), points[1] - points[0]), truth


def experiment(
    cells: Cells,
    copies: tuple[int, ...] = COPIES,
    rounds: int = ROUNDS,
    runs: tuple[int, int] = (24, 16),
    unbounded_rounds: tuple[int, ...] = UNBOUNDED_ROUNDS,
) -> Report:
    """Risk against the number of labels, and of labels without end."""
    asked = [(c, m, rounds, runs[1] if m > 64 else runs[0]) for c in ("labels", "one bit") for m in copies]
    found = list(cells.each(finite, asked, "labels").values())
    told, bits = found[: len(copies)], found[len(copies) :]
    open_ended = cells.each(
        unbounded, [(f, n) for f in FAMILIES for n in unbounded_rounds], "labels without end", runs=runs[0]
    )
    parts = {f: [open_ended[f, n] for n in unbounded_rounds] for f in FAMILIES}
    idle = unlearned(EXPERTS, rounds)
    sizes = [EXPERTS * m for m in copies]
    more = []
    slopes = []
    for family, part in parts.items():
        slopes.append(log_log_slope(unbounded_rounds, [one["risk"] / one["span"] for one in part]).slope)
        more.append([family, *map(spread, part), slopes[-1]])
        more.append(["bound", *(one["bound"] for one in part), ""])
        more.append(["no learning", *(one["no learning"] for one in part), ""])
    ratio = max(bit["risk"] for bit in bits) / min(bit["risk"] for bit in bits)
    apart = {size: distance(one, QUOTED[size]) for size, one in zip(sizes, told, strict=True) if size in QUOTED}
    far = max(apart.values(), key=abs, default=0.0)
    rows = [
        [size, f"{one['risk']:.3g} ± {one['error']:.1g}"]
        + [f"{QUOTED[size]:.0f} ({apart[size]:+.1f} s.e.)" if size in apart else "", one["bound"]]
        + [spread(bit), bit["bound"], choose_channel(experts=EXPERTS, labels=size, epsilon=1.0)]
        for size, one, bit in zip(sizes, told, bits, strict=True)
    ]
    crossing = _crossing(sizes, [one["risk"] for one in told], [one["risk"] for one in bits])
    tables = [
        f"K = {EXPERTS}, T = {in_tens(rounds)}, ε = 1; the risk without learning is {idle:.0f}:",
        markdown(
            ["M", "randomised labels", "quoted", "bound", "one bit", "bound", "choose_channel"],
            rows,
        ),
        f"One bit, K = {UNBOUNDED_EXPERTS}, ε = 1:",
        markdown(
            ["candidates", *(f"T = {in_tens(n)}" for n in unbounded_rounds), "slope"],
            more,
        ),
        f"The two channels are even near M = {crossing:.0f} on these candidates; quoted: 300. "
        "Risks of one bit are quoted as 7.8e3 to 9.8e3.",
    ]

    def draw(figure: Any) -> None:
        left, right = figure.subplots(1, 2)
        left.loglog(sizes, [one["risk"] for one in told], "o-", label="randomised labels")
        left.loglog(sizes, [bit["risk"] for bit in bits], "s-", label="one bit")
        left.axhline(idle, color="k", linestyle="--", label="no learning")
        left.set(xlabel="labels M", ylabel="risk, nats")
        for i, (family, part) in enumerate(parts.items()):
            right.loglog(unbounded_rounds, [one["risk"] for one in part], f"C{i}o-", label=family)
            right.loglog(unbounded_rounds, [one["bound"] for one in part], f"C{i}:")
        right.set(xlabel="rounds T (dotted: bounds)", title="labels without end")
        for axes in (left, right):
            axes.legend(fontsize=7)

    many = [one["risk"] for one, size in zip(told, sizes, strict=True) if size >= 4096]
    return Report(
        tables,
        {
            f"the risk of one bit does not depend on M (largest over smallest: {ratio:.2f})": ratio <= 1.4,
            "the risk of randomised labels grows with M, and with 4096 labels or more it is close to that without "
            "learning": all(a["risk"] < b["risk"] * 1.1 for a, b in zip(told, told[1:], strict=False))
            and all(value >= 0.7 * idle for value in many),
            "risks of randomised labels agree with the quoted ones within 3 standard errors (the farthest: "
            f"{far:+.1f})": abs(far) <= 3.0,
            "unbounded labels: slope 1/2 in T of risk/range, up to 0.1": all(
                abs(value - 0.5) <= 0.1 for value in slopes
            ),
            "every risk is below its bound": all(one["risk"] < one["bound"] for one in (*found, *open_ended.values())),
            "the part of the true law that the sums and integrals leave out is below 1e-12": all(
                abs(one["mass"] - 1.0) <= 1e-12 for one in open_ended.values()
            ),
        },
        draw,
        "Risk against the number of labels: flat for one bit, rising for randomised labels; and of unbounded labels.",
    )


def _crossing(sizes: list[int], told: list[float], bits: list[float]) -> float:
    """Where two lines on logarithmic axes cross; nan where they don't."""
    gaps = [math.log(a / b) for a, b in zip(told, bits, strict=True)]
    for i, (here, there) in enumerate(zip(gaps, gaps[1:], strict=False)):
        if here <= 0.0 < there:
            return float(sizes[i] * (sizes[i + 1] / sizes[i]) ** (-here / (there - here)))
    return math.nan
