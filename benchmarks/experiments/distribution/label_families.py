"""Candidates of the experiments of online distribution learning, and the risk of a learner on them.

*Easy* candidates: K kinds of labels, candidate j half uniform and half on kind j; the truth is candidate 0. Each kind
may be a block of so many labels. *Leaning* ones: 256 labels, candidate j likelier where row j of a Hadamard matrix is
positive, so that all lie as far apart. *W*: disjoint supports of masses just above 1/M, which ceilings nearly double.

Quoted numbers are means of a few runs of an independent prototype. A comparison allows 3 standard errors of the
difference, with the standard deviation that is measured here.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.linalg import hadamard

from hockeystick._runs.distribution_models import half_uniform
from hockeystick.learners.distribution.channels.all_channels import (
    OneBit,
    RandomizedLabels,
    SampledLaplace,
    VectorGaussian,
    VectorLaplace,
)
from hockeystick.learners.distribution.channels.candidates import LabelTable
from hockeystick.learners.distribution.channels.levels import CeiledBlocks, UniformMixture
from hockeystick.learners.distribution.online_distribution import OnlineDistribution
from hockeystick.learners.distribution.server_rules import Rule

SEED = 20240201
QUOTED_RUNS = 8  # 3 from 10^7 rounds

REFERENCES = {
    "blocks": CeiledBlocks(calibrated=False),
    "formula": UniformMixture(calibrated=False),
    "calibrated": UniformMixture(),
}
CHANNELS: dict[str, Any] = {
    "one bit": OneBit,
    "Laplace": SampledLaplace,
    "labels": RandomizedLabels,
    "vector, printed": VectorLaplace.printed,
    "vector": VectorLaplace.calibrated,
    "vector, Gaussian": VectorGaussian.calibrated,
}


def easy(experts: int, copies: int = 1) -> LabelTable:
    """K candidates over K kinds of labels with ``copies`` labels each."""
    return half_uniform(experts, experts * copies)


def leaning_learner(experts: int, rounds: int, lean: float = 0.95) -> OnlineDistribution:
    """The learner, by one bit at epsilon = 1, of at most 255 candidates on rows of a Hadamard matrix."""
    signs = hadamard(256)[1 : experts + 1]
    return OnlineDistribution.build(
        LabelTable((1.0 + lean * signs) / 256),
        rounds=rounds,
        channel=OneBit,
        reference=REFERENCES["formula"],
        epsilon=1.0,
    )


def family_w(experts: int, labels: int) -> LabelTable:
    """Each candidate has M/K labels: one of large mass, and the others just above 1/M."""
    width = labels // experts
    small = (1.0 + 1e-6) / labels
    table = np.kron(np.eye(experts), np.full(width, small))
    table[np.arange(experts), np.arange(experts) * width] = 1.0 - (width - 1) * small
    return LabelTable(table)


def easy_learner(
    experts: int,
    rounds: int,
    *,
    channel: str = "one bit",
    reference: str = "formula",
    rule: Rule = "tuned",
    copies: int = 1,
    **parameters: Any,
) -> OnlineDistribution:
    """The learner of the easy candidates; epsilon is 1 if not given."""
    return OnlineDistribution.build(
        easy(experts, copies),
        rounds=rounds,
        channel=CHANNELS[channel],
        reference=REFERENCES[reference],
        rule=rule,
        **({"epsilon": 1.0} | parameters),
    )


def easy_risk(
    experts: int, rounds: int, runs: int, *, block: int = 10, batch: int = 8, **parameters: Any
) -> dict[str, float]:
    """Mean risk on the easy candidates, its standard error and deviation, its bound, and the span of levels."""
    learner = easy_learner(experts, rounds, **parameters)
    return measured(learner, 0, runs, block=block, batch=batch)


def measured(
    learner: OnlineDistribution, truth: int, runs: int, *, block: int = 10, batch: int = 8, **simulated: Any
) -> dict[str, float]:
    """The same for any learner."""
    risks = np.concatenate(
        [
            learner.simulate(
                truth,
                np.random.default_rng([SEED, learner.experts, learner.horizon, first]),
                min(batch, runs - first),
                block=block,
                **simulated,
            ).risk
            for first in range(0, runs, batch)
        ]
    )
    return summary(risks) | {"bound": learner.risk_bound(), "span": getattr(learner.channels[0], "span", math.nan)}


def summary(risks: Any) -> dict[str, float]:
    """Mean, standard deviation and error of runs' risks, and how many there are."""
    deviation = float(np.std(risks, ddof=1))
    count = len(risks)
    return {
        "risk": float(np.mean(risks)),
        "deviation": deviation,
        "error": deviation / math.sqrt(count),
        "runs": float(count),
    }


def in_tens(rounds: float) -> str:
    """A number of rounds, such as 1e5."""
    return f"{rounds:.0e}".replace("e+0", "e")


def spread(found: dict[str, float]) -> str:
    """A risk in whole nats, with its standard error."""
    return f"{found['risk']:.0f} ± {found['error']:.0f}"


def distance(found: dict[str, float], quoted: float, quoted_runs: int = QUOTED_RUNS) -> float:
    """How many standard errors of the difference lie between a mean and a quoted one."""
    return (found["risk"] - quoted) / (found["deviation"] * math.sqrt(1.0 / found["runs"] + 1.0 / quoted_runs))


def unlearned(experts: int, rounds: int) -> float:
    """The risk of always predicting the mean of the easy candidates."""
    learner = easy_learner(experts, rounds)
    return float(learner.risk(0).of(np.ones((experts, 1)))[0]) * rounds
