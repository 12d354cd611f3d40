"""Report noisy max in the four forms that Ding, Wang, Wang, Zhang and Kifer 2018 test, with their exact losses.

Forms 1 and 2 publish the index of the largest noisy query, under Laplace or exponential noise of scale 2/eps, and are
correct. Forms 3 and 4 publish its value, which costs more: with m queries that all move by 1, form 3 loses m*eps/2, and
form 4 is not private at all, since no output is below the exact value of the largest query.
"""

from __future__ import annotations

import itertools
import math
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from attrs import frozen

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_REACH = 80.0  # scales


@frozen(kw_only=True)
class NoisyMaxForm:
    """The largest of noisy queries of sensitivity 1: its index, or its value.

    Attributes:
      noise: "laplace" or "exponential".
      scale: The scale of the noise.
      value: Whether the value is published instead of the index.
    """

    noise: Literal["laplace", "exponential"]
    scale: float
    value: bool

    def __call__(self, queries: npt.ArrayLike, rng: np.random.Generator, runs: int) -> npt.NDArray[Any]:
        """Returns one index or value per run."""
        exact = np.asarray(queries, dtype=np.float64)
        draw = rng.laplace if self.noise == "laplace" else rng.exponential
        noisy = exact + draw(scale=self.scale, size=(runs, len(exact)))
        return np.asarray(noisy.max(axis=1) if self.value else noisy.argmax(axis=1))

    def law(self, queries: npt.ArrayLike) -> FloatArray:
        """Returns the probability of each index, by Gauss-Legendre quadrature over the value, between the kinks."""
        exact = np.asarray(queries, dtype=np.float64)
        kinks, reach = np.unique(exact), _REACH * self.scale
        low = kinks[0] - reach if self.noise == "laplace" else kinks[0]
        ends = [low, *kinks[kinks > low], kinks[-1] + reach]
        pieces = [np.linspace(a, b, 2 + int(2 * (b - a) / self.scale))[:-1] for a, b in itertools.pairwise(ends)]
        cuts = np.concatenate([*pieces, ends[-1:]])
        half = np.diff(cuts)[:, None] / 2
        at = (cuts[:-1, None] + half * (1 + _NODES)).ravel()
        x = (at[:, None] - exact) / self.scale
        tail = np.exp(-np.abs(x))
        if self.noise == "laplace":
            density, below = tail / 2, np.where(x < 0, tail / 2, 1 - tail / 2)
        else:
            density, below = np.where(x > 0, tail, 0.0), np.where(x > 0, 1 - tail, 0.0)
        others = np.stack([np.delete(below, i, axis=1).prod(axis=1) for i in range(len(exact))], axis=1)
        return np.asarray(((half * _WEIGHTS).ravel() / self.scale) @ (density * others))

    def epsilon(self, first: npt.ArrayLike, second: npt.ArrayLike) -> float:
        """Returns the exact pure epsilon between two inputs.

        Indices: from their law. Values under exponential noise: infinite if the largest queries differ, as no value is
        below the largest query. Values under Laplace noise, with all queries moving by s: m*s/scale, which is the loss
        of all noisy queries together, and is attained by every value below all queries, in the tails of all noise.

        Raises:
          InvalidArgumentError: Values under Laplace noise of queries that do not all move alike; or values under
            exponential noise with equal largest queries.
        """
        d0, d1 = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
        if not self.value:
            return float(np.abs(np.log(self.law(d0) / self.law(d1))).max())
        moves = np.unique(d1 - d0)
        if self.noise == "exponential" and d0.max() != d1.max():
            return math.inf
        if self.noise == "laplace" and len(moves) == 1:
            return abs(float(moves[0])) * len(d0) / self.scale
        raise InvalidArgumentError("second", second, "has no exact loss here", "move all queries alike")


def ding_form(number: int, epsilon: float) -> NoisyMaxForm:
    """Returns form 1 to 4 (Algorithms 5 to 8 of Ding et al. 2018), claimed to be ``epsilon``-DP.

    Raises:
      InvalidArgumentError: There is no such form.
    """
    if number not in (1, 2, 3, 4):
        raise InvalidArgumentError("number", number, "is not a form of noisy max", "give a number from 1 to 4")
    return NoisyMaxForm(noise="laplace" if number % 2 else "exponential", scale=2 / epsilon, value=number > 2)
