"""One estimator of each kind, with suitable data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hockeystick.estimators import PrivateClassifier, PrivateDivergence, PrivateLabelDistribution, PrivateQueries

RNG = np.random.default_rng(1)
X1 = RNG.random((800, 1)) * 10
Y1 = (X1[:, 0] >= 4) ^ (RNG.random(800) < 0.1)
X2 = RNG.random((800, 2))
Y2 = ((X2 > 0.2) & (X2 < 0.8)).all(axis=1)
SYMBOLS = RNG.choice(["a", "b"], 2000, p=[0.8, 0.2])
LABELS = RNG.choice(3, 3000, p=[0.1, 0.2, 0.7])
CANDIDATES = [[0.7, 0.2, 0.1], [0.1, 0.2, 0.7]]
SECRET = "secret-of-somebody"

MADE: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "classifier": (
        lambda **more: PrivateClassifier(**{"high": 10.0, "classes": (False, True), **more}), (X1, Y1)),
    "net": (
        lambda **more: PrivateClassifier(**{"method": "net", "high": 10.0, "points": 5, "size": 3,
                                            "classes": (False, True), **more}), (X1, Y1)),
    "queries": (lambda **more: PrivateQueries({"age": (0.0, 10.0)}, **more), (X1,)),
    "divergence": (lambda **more: PrivateDivergence({"a": 0.5, "b": 0.5}, **more), (SYMBOLS,)),
    "labels": (lambda **more: PrivateLabelDistribution(CANDIDATES, **more), (LABELS,)),
}  # fmt: skip
