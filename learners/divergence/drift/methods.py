"""The two ways to a drift estimate, and the choice between them by public sizes.

"histogram" publishes noisy counts and reads divergences from them (``drift_look``); its error falls as 1/N. "priest"
publishes one noisy number, the average of logarithms of Scott, Biswas, Cormode & Maple 2024 (``TrustedKL``); its noise
does not fall with N, and its error is smaller only where cells hold very few records each.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import numpy.typing as npt
from attrs import frozen

from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import integer, real
from hockeystick.learners.divergence import sensitivity
from hockeystick.learners.divergence.drift.cell_terms import cell_term
from hockeystick.learners.divergence.drift.centres import whole
from hockeystick.learners.divergence.drift.count_noise import LaplaceCounts
from hockeystick.learners.divergence.query_average import QueryAverage
from hockeystick.learners.divergence.trusted import TrustedKL

Method = Literal["auto", "histogram", "priest"]

_DRAWS = 199
_SEED = 0


@frozen(kw_only=True)
class MethodChoice:
    """The method of smaller expected error, by public sizes alone; see ``choose_drift_method``.

    Attributes:
        method: "histogram" or "priest".
        errors: The expected root mean square error of KL(reference || records) by method, where there is no drift.
    """

    method: Literal["histogram", "priest"]
    errors: dict[str, float]

    def __str__(self) -> str:
        return f"{self.method}: expected error of KL " + ", ".join(f"{v:.2g} by {k}" for k, v in self.errors.items())


def choose_drift_method(
    reference: npt.ArrayLike, *, records: int, epsilon: float, delta: float = 0.0, group: int = 1
) -> MethodChoice:
    """Returns which of the two methods estimates KL(reference || records) better, by public sizes alone.

    Args:
        reference: π > 0 (k,).
        records: N.
        epsilon, delta: The target; δ serves the noise of "priest" alone.
        group: The number of records of one client that may be replaced.

    Raises:
        InvalidArgumentError: an argument is outside its domain.

    Example:
        >>> import numpy as np
        >>> from hockeystick.learners import choose_drift_method
        >>> choose_drift_method(np.full(10, 0.1), records=20_000, epsilon=1.0).method
        'histogram'
        >>> choose_drift_method(np.full(256, 1 / 256), records=1000, epsilon=1.0, delta=1e-6).method
        'priest'
    """
    pi, size = sensitivity.reference(reference), integer("records", records, low=1)
    scale = 2.0 * integer("group", group, low=1) / real("epsilon", epsilon, low=0.0, low_open=True)
    every = QueryAverage(
        reference=pi,
        symbols=np.arange(len(pi)),
        shares=pi,
        cohorts=(np.arange(1),),
        client_records=np.array([size]),
    )
    priest = TrustedKL.calibrated(every, epsilon=epsilon, delta=delta, multiplier=0.0, group=group)
    errors = {"histogram": _expected(pi, size, LaplaceCounts(scale)), "priest": priest.noise_deviation}
    return MethodChoice(method="priest" if errors["priest"] < errors["histogram"] else "histogram", errors=errors)


def _expected(reference: FloatArray, records: int, noise: LaplaceCounts) -> float:
    """The error of the better of the two estimates of a look, simulated at the reference."""
    term = cell_term("kl", reference, records, "table")
    centre = whole(records * reference, records)
    noisy = centre + noise.draw(centre, np.random.default_rng(_SEED), _DRAWS)
    kept = np.maximum(noisy, 0.5)
    kept = kept * (records / kept.sum(axis=1, keepdims=True))
    found = np.stack([noise.corrected(term)(noisy), term(kept)]).sum(axis=2) - float(term(centre).sum())
    return math.sqrt(float((found * found).mean(axis=1).min()))
