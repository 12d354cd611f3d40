"""A search for two iterates that a step carries further apart than a claimed Lipschitz constant allows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from attrs import frozen

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import array, integer, real

_OFF = 1e-6
_NEAREST = 1e-3  # of two points, in units of the scale: closer ones would show round-off


@frozen(eq=False)
class Expansion:
    """The two iterates that a search found to be carried furthest apart, in proportion. See ``largest_expansion``.

    Attributes:
      factor: the distance of the two results over that of the two iterates.
      first, second: the iterates, shape (dimension,).
      claimed: the Lipschitz constant that was claimed.
    """

    factor: float
    first: FloatArray
    second: FloatArray
    claimed: float

    @property
    def refuted(self) -> bool:
        """Whether the pair is a witness against the claim. If not, nothing is proved."""
        return self.factor > self.claimed * (1 + _OFF)

    def __str__(self) -> str:
        says = "is refuted" if self.refuted else "was not refuted, which proves nothing"
        return f"Lipschitz constant {self.claimed:g} {says}: largest factor found {self.factor:.6g}"


def largest_expansion(
    step: Callable[[FloatArray], object],
    *,
    claimed: float,
    dimension: int,
    rng: np.random.Generator | int,
    scale: float = 1.0,
    searches: int = 20,
    tries: int = 200,
) -> Expansion:
    """Returns the pair of iterates that the step expands most, by random ascent from random pairs.

    A bound on a last iterate assumes that the step without noise is c-Lipschitz. A pair with a larger factor refutes
    that for the step's batch; try an empty one, a full one, and clipped gradients, too.

    Args:
      step: maps an iterate of shape (dimension,) to the next one, on one fixed batch and without its noise.
      claimed: c ≥ 0, such as ``Contraction.factor``.
      dimension: of the iterates.
      rng: a generator, or a seed.
      scale: the standard deviation of the coordinates where searches begin.
      searches: the number of ascents.
      tries: the number of steps of each ascent.

    Raises:
      InvalidArgumentError: an argument outside its domain, or a step that is not deterministic.

    Example: gradients that are clipped to norm 1 one by one, of a quadratic with curvatures 1 and 10.

      >>> import numpy as np
      >>> from hockeystick.audits import largest_expansion
      >>> def clipped(x):
      ...     gradient = np.array([1.0, 10.0]) * x
      ...     return x - gradient / max(1.0, np.linalg.norm(gradient)) / 10
      >>> found = largest_expansion(clipped, claimed=1.0, dimension=2, rng=1)
      >>> found.refuted, found.factor > 1.05
      (True, True)
    """
    c = real("claimed", claimed, low=0.0)
    d = integer("dimension", dimension, low=1)
    width = real("scale", scale, low=0.0, low_open=True)
    many, each = integer("searches", searches, low=1), integer("tries", tries, low=1)
    generator = np.random.default_rng(rng)

    def moved(x: FloatArray) -> FloatArray:
        return array("step", step(x.copy()), shape=(d,), data=True)

    def factor(x: FloatArray, v: FloatArray) -> float:
        return float(np.linalg.norm(moved(x + v) - moved(x)) / np.linalg.norm(v))

    start = width * generator.standard_normal(d)
    if not np.array_equal(moved(start), moved(start)):
        remedy = "leave its noise out, and fix its batch"
        raise InvalidArgumentError("step", "a step", "maps one iterate to two different ones", remedy)
    best = (-1.0, start, start)
    for _ in range(many):
        x, v = width * generator.standard_normal((2, d))
        found, reach = factor(x, v), 1.0
        for _ in range(each):
            dx, dv = reach * generator.standard_normal((2, d))
            longer = v * np.exp(reach * generator.standard_normal()) + dv * np.linalg.norm(v)
            if np.linalg.norm(longer) < _NEAREST * width:
                continue
            risen = factor(x + width * dx, longer)
            if risen > found:
                x, v, found, reach = x + width * dx, longer, risen, min(1.0, reach * 2)
            else:
                reach = max(1e-4, reach * 0.85)
        if found > best[0]:
            best = (found, x, x + v)
    return Expansion(*best, c)
