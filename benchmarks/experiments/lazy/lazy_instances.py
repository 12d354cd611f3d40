"""The number of expert problems that can share the same people and a budget of (1, 1e-6), with regret 2 sqrt(T ln d).

Asi, Koren, Liu & Talwar 2024 (section 1.1) promise a number that grows like T^(1/2): a problem is to be free of
privacy down to epsilon = T^(-1/4), and K problems to cost sqrt(K) times as much as one. No learner is known for the
first; the lazy one is free down to T^(-1/6), so that counted by the epsilons of single problems their number grows like
T^(1/3). But problems can be counted by their privacy curves, composed: then it grows like T^(1/2) after all. A person's
decision is then of small divergence and of large worst loss, which a single epsilon charges in full for every problem.
"""

from __future__ import annotations

import math
from typing import Any

from benchmarks.frame import Cells, Report, markdown
from hockeystick import accounting
from hockeystick.accounting.losses import optimal_composition
from hockeystick.learners.lazy import log_log_slope
from hockeystick.learners.lazy.theory.many_problems import Known, free_instances

EPSILON, DELTA, EXPERTS, EXCESS = 1.0, 1e-6, 10, 2.0
TOLERANCE = 0.05
POWERS = tuple(range(4, 15))
COUNTS: dict[Known, tuple[str, float, int]] = {  # what it is called, its exponent, and T = 10^… from which it shows
    "curve": ("curves", 1 / 2, 4),
    "epsilon": ("single epsilons", 1 / 3, 10),
}


def counted(power: int, known: Known) -> dict[str, Any]:
    """The count, its learner, and what all problems together cost by the other route of the accountant."""
    found = free_instances(
        rounds=10**power, experts=EXPERTS, epsilon=EPSILON, delta=DELTA, excess=EXCESS, variant="dartboard", known=known
    )
    learner, event = found.learner, found.learner.graph().guarantee().event

    def total(instances: int) -> float:
        if known == "curve":
            return accounting.epsilon(accounting.compose((event, instances)), DELTA, method="rdp").upper
        share = DELTA / (2.0 * instances)
        one = accounting.epsilon(event, share, method="rdp").upper
        return optimal_composition.epsilon([(one, share, instances)], DELTA)

    return {
        "instances": found.instances,
        "total": total(found.instances),
        "one more": total(found.instances + 1),
        "alone": accounting.epsilon(event, DELTA, method="rdp").upper,
        "worst": learner.learning_rate / learner.fake_switch_probability,
        "batch": learner.batch,
        "regret": learner.regret_bound() / math.sqrt(10**power * math.log(EXPERTS)),
    }


def experiment(cells: Cells, powers: tuple[int, ...] = POWERS) -> Report:
    """Numbers of problems under one budget against T."""
    found = cells.each(counted, [(power, known) for power in powers for known in COUNTS], "counts")
    counts = {known: [found[power, known]["instances"] for power in powers] for known in COUNTS}
    fits = {
        known: log_log_slope(
            *zip(*((10.0**t, n) for t, n in zip(powers, counts[known], strict=True) if t >= least), strict=True)
        )
        for known, (_, _, least) in COUNTS.items()
    }
    rows = [
        [f"10^{power}", *(found[power, known][key] for known in COUNTS for key in ("instances", "alone", "worst"))]
        for power in powers
    ]

    def draw(figure: Any) -> None:
        axes, rounds = figure.subplots(), [10.0**power for power in powers]
        for known, style in zip(COUNTS, ("o-", "s-"), strict=True):
            name, exponent, _ = COUNTS[known]
            axes.loglog(rounds, counts[known], style, label=f"counted by {name}")
            last = counts[known][-1]
            axes.loglog(rounds, [last * (t / rounds[-1]) ** exponent for t in rounds], "k:", linewidth=1)
        axes.set(xlabel="rounds T", ylabel="problems at (1, 1e-6) in total", ylim=(0.7, None))
        axes.legend()

    return Report(
        [
            markdown(["T", *(f"{name}: {what}" for name, _, _ in COUNTS.values() for what in HEADER)], rows),
            markdown(
                ["counted by", "from T", "measured exponent", "follows", "printed"],
                [
                    [name, f"10^{least}", f"{fits[known].slope:.3f} ± {max(fits[known].error, 5e-4):.1g}", e, 0.5]
                    for known, (name, e, least) in COUNTS.items()
                ],
            ),
        ],
        {
            f"all problems together are certified at ({EPSILON:g}, {DELTA:g}), and one more would not be": all(
                row["total"] <= EPSILON < row["one more"] for row in found.values()
            ),
            f"each problem's regret bound is at most {EXCESS:g} √(T ln d)": all(
                row["regret"] <= EXCESS * (1.0 + 1e-9) for row in found.values()
            ),
            **{
                f"counted by {name} the exponent is within {TOLERANCE:g} of {exponent:.3g}": abs(
                    fits[known].slope - exponent
                )
                <= TOLERANCE
                for known, (name, exponent, _) in COUNTS.items()
            },
        },
        draw,
        "Numbers of problems against T: by curves along T^(1/2), by single epsilons in the end along T^(1/3).",
    )


HEADER = ("problems", "ε of one", "η/p")
