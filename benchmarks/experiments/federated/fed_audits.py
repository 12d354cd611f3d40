"""Audits of the federated learners, correct and broken, and the most that their worst pairs of losses can show.

First table: the exact privacy loss of worst pairs, and what 10^6 runs from each of both find of it: the best event is
fixed beforehand, its counts are what is expected, and each probability has the 97.5 % Clopper-Pearson bound. Of
messages the event is a likelihood ratio above the level that shows most in runs of its own; counts are those of 10^6
others.

Second table: the catalogue's cases, at their stated samples, at confidence 1 - 1e-6.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy import special, stats

from benchmarks.frame import Cells, Report, Result, markdown
from hockeystick.audits.catalogue.federated.cases import federated_cases, svt_learner
from hockeystick.audits.catalogue.federated.one_good_expert import BrokenThresholds, one_loss
from hockeystick.audits.catalogue.federated.stochastic import (
    KinkedLosses,
    StochTarget,
    kinked_target,
    one_phase,
    root_target,
)
from hockeystick.learners import ExactLoss
from hockeystick.learners.federated.limited_updates import LimitedUpdates
from hockeystick.learners.federated.stochastic.exact_winners import losses
from hockeystick.learners.network.threat_models import ThreatModel

RUNS = 10**6
SWITCHES = 23  # that suffice for 100 experts with probability 0.9

CASES = {case.name.removeprefix("learner/"): case for case in federated_cases()}


# --- worst pairs -----------------------------------------------------------------------------------------------------


def found_at_most(p: float, q: float, runs: int = RUNS) -> float:
    """ln of the lower bound of p over the upper bound of q, from the counts that are expected in ``runs`` each."""
    hits, others = round(runs * p), round(runs * q)
    low = float(stats.beta.ppf(0.025, hits, runs - hits + 1)) if hits else 0.0
    high = float(stats.beta.ppf(0.975, others + 1, runs - others)) if others < runs else 1.0
    return math.log(low / high) if low > 0.0 else 0.0


def best_event(exact: ExactLoss) -> tuple[float, float]:
    """Returns the largest bound that 10^6 runs find of the exact loss, and the probability of its event."""
    found = [
        (found_at_most(float(p), float(q)), float(p))
        for law in (exact.forward[0], exact.backward[0])
        for p, q in zip(*law.tails(), strict=True)
    ]
    return max(found)


def _exact(claimed: float, exact: ExactLoss) -> Result:
    found, probability = best_event(exact)
    return {"claim": claimed, "exact": exact.epsilon(0.0)[0], "probability": probability, "found": found}


def _winners(target: StochTarget, claimed: float = 1.0) -> Result:
    return _exact(claimed, target.exact())


def _messages(experts: int) -> Result:
    target = root_target(one_phase(scale=4.0, experts=experts), view=ThreatModel.SERVER)
    rng, step = np.random.default_rng(8), 10**5

    def ratios(stream: Any, runs: int) -> Any:
        # The largest ratio has an atom. Levels inside its rounding errors would tell floats' low bits, not messages.
        return np.concatenate([target(stream, rng, step) for _ in range(runs // step)]).round(9)

    first, second = (np.sort(ratios(stream, 2 * step)) for stream in target.neighbours)
    levels = np.quantile(first, np.linspace(0.01, 0.999, 200))
    rates = [(float((first >= c).mean()), float((second >= c).mean())) for c in levels]
    level = levels[int(np.argmax([found_at_most(p, q, 2 * step) for p, q in rates]))]
    p, q = (float((ratios(stream, RUNS) >= level).mean()) for stream in target.neighbours)
    return {"claim": 1.0, "exact": target.largest_loss(), "probability": p, "found": found_at_most(p, q)}


def _answers() -> Result:
    made = svt_learner(threshold=0.0, threshold_scale=4.0, query_scale=8.0)
    return _exact(0.25, BrokenThresholds(learner=made).exact(*one_loss(made, at=1)))


def _draws() -> Result:
    """Two experts with equal scores but for one loss, which each of the draws reads; printed rate at epsilon = 1."""
    eta = 1.0 / (2 * SWITCHES)
    hits = np.arange(SWITCHES + 1)
    likelier, other = special.expit(eta / 2), special.expit(-eta / 2)
    law = stats.binom.logpmf(hits, SWITCHES, likelier), stats.binom.logpmf(hits, SWITCHES, other)
    return _exact(SWITCHES * eta, losses(*law))


def _updates(experts: int) -> Result:
    made = LimitedUpdates(rounds=2, experts=experts, learning_rate=1.0)
    return _exact(1.0, losses(*(np.log(made.marginals(each)[1]) for each in made.worst_case_neighbours())))


def _secret() -> StochTarget:
    return root_target(one_phase(scale=8.0 / 682, doublings=10, batch=682, assignment="secret"))


def _right_child(scale: float) -> StochTarget:
    return kinked_target(one_phase(scale=scale, family=KinkedLosses(kink=0.8), smoothness=None))


def _four(view: ThreatModel, **changes: Any) -> StochTarget:
    return root_target(one_phase(**{"scale": 4.0, "clients": 4} | changes), view=view)


ROWS: dict[str, tuple[str, Callable[[], Result]]] = {
    "winners; root, d = 2": ("0.498", lambda: _winners(root_target(one_phase(scale=4.0, experts=2)))),
    "winners; root, d = 8": ("0.989, 0.957", lambda: _winners(root_target(one_phase(scale=4.0)))),
    "winners; root, d = 32": ("-, 0.87", lambda: _winners(root_target(one_phase(scale=4.0, experts=32)))),
    "winners; secret order, two thirds read": ("0.656", lambda: _winners(_secret(), math.log1p(2 / 3 * math.expm1(1)))),
    "winners; right child, printed scale": ("1.6-1.9", lambda: _winners(_right_child(4.0))),
    "winners; right child, twice that": ("≤ 1", lambda: _winners(_right_child(8.0))),
    "winners; four clients": ("-", lambda: _winners(_four(ThreatModel.OUTPUT))),
    "winners; three of four collude": ("as d = 8", lambda: _winners(_four(ThreatModel.CLIENT))),
    "winners; four clients, trusted server": (
        "as d = 8",
        lambda: _winners(_four(ThreatModel.OUTPUT, scale=1.0, where="server")),
    ),
    "messages; root, d = 2": ("d/2", partial(_messages, 2)),
    "messages; root, d = 10": ("> 1", partial(_messages, 10)),
    "Fed-SVT: answers, eight blocks": ("0.247, 0.227", _answers),
    "Fed-SVT: 23 draws": ("about 0.15", _draws),
    "limited updates, d = 2": ("0.5", partial(_updates, 2)),
    "limited updates, d = 64": ("0.98, 0.9", partial(_updates, 64)),
}
BROKEN_ROWS = ("winners; right child, printed scale", "messages; root, d = 10")


# --- audits ----------------------------------------------------------------------------------------------------------


def worst_pair(name: str) -> Result:
    """One row of the first table."""
    return ROWS[name][1]()


def audited(name: str, samples: int | None = None) -> Result:
    """The verdict on a case of the catalogue, at its stated samples by default."""
    case = CASES[name]
    used = case.samples if samples is None else samples
    verdict = case.audit(samples=used, rng=20240926)
    return {
        "broken": case.broken,
        "claim": case.claim.epsilon,
        "exact": case.truth,
        "samples": used,
        "found": verdict.epsilon_lower,
        "outcome": verdict.outcome,
    }


def experiment(
    cells: Cells, rows: tuple[str, ...] = tuple(ROWS), names: tuple[str, ...] = tuple(CASES), samples: int | None = None
) -> Report:
    """Audits of the federated learners, and what worst pairs of losses show."""
    exact = cells.each(worst_pair, rows, "worst pairs")
    found = cells.each(audited, names, "audits", samples=samples)
    pairs = markdown(
        [
            "view and pair",
            "claimed ε",
            "exact ε",
            "event's probability",
            "lower bound from 10^6 runs",
            "expected: exact, lower bound",
        ],
        [
            [name, *(row[key] for key in ("claim", "exact", "probability", "found")), ROWS[name][0]]
            for name, row in exact.items()
        ],
    )
    audits = markdown(
        ["case", "claimed ε", "exact ε", "runs per data set", "ε at least", "verdict"],
        [
            [name, row["claim"], "" if row["exact"] is None else row["exact"]]
            + [row[key] for key in ("samples", "found", "outcome")]
            for name, row in found.items()
        ],
    )
    return Report(
        (pairs, audits),
        {
            "no worst pair has an exact ε above the certified one; at the printed noise, right children and "
            "messages exceed the claim": all(
                (row["exact"] <= row["claim"] * (1 + 1e-9)) == (name not in BROKEN_ROWS) for name, row in exact.items()
            ),
            "no lower bound exceeds the exact ε": all(row["found"] <= row["exact"] for row in exact.values()),
            "no correct learner is refuted": all(
                row["outcome"] != "refuted" for row in found.values() if not row["broken"]
            ),
            "every broken learner is refuted": all(
                row["outcome"] == "refuted" for row in found.values() if row["broken"]
            ),
        },
    )
