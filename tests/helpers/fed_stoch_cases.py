"""Federated stochastic learners and losses for the tests of what they compute and of their simulations."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from attrs import evolve

from hockeystick.learners.federated.stochastic.fed_stoch import FedStoch
from hockeystick.learners.federated.stochastic.frank_wolfe_tree import StochSetting
from hockeystick.learners.federated.stochastic.losses import (
    ExpertLosses,
    LossFamily,
    SmoothedCrossEntropy,
    SquaredDistances,
    SquaredProducts,
)
from hockeystick.learners.federated.stochastic.printed_batches import Sizes, certified_phases

ALARM = 1e-6
FAMILIES: dict[str, LossFamily] = {
    "experts": ExpertLosses(),
    "distances": SquaredDistances(),
    "products": SquaredProducts(),
    "entropy": SmoothedCrossEntropy(experts=4, mixing=0.2),
}


def learner(
    family: LossFamily | None = None, *, m: int = 3, rounds: int = 63, d: int = 4, trees: int = 2,
    epsilon: float = 1.0, **changed: Any,
) -> FedStoch:  # fmt: skip
    family = ExpertLosses() if family is None else family
    phases = certified_phases(Sizes(clients=m, experts=d, epsilon=epsilon), rounds, trees=trees)
    setting = StochSetting(
        clients=m, phases=phases, low=family.low, high=family.high, smoothness=family.smoothness
    )  # fmt: skip
    return FedStoch(setting=evolve(setting, **changed), rounds=rounds, experts=d, family=family)


def data(one: FedStoch, seed: int = 0) -> npt.NDArray[np.float64]:
    found = np.random.default_rng(seed).random((one.setting.clients, one.rounds, one.experts))
    return found / found.sum(axis=-1, keepdims=True) if isinstance(one.family, SmoothedCrossEntropy) else found
