"""Splits one budget over several parameters so that a cost, such as the error of the published values, is least.

The parameters are a common scale times a direction. For each direction the scale is calibrated so that the target is
just met; over directions the cost is minimised. The search is led by Rényi bounds, then by the certified ones, and the
result was calibrated by the certified ones, whatever led to it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from attrs import frozen
from scipy import optimize

from hockeystick.accounting import validate
from hockeystick.accounting.budgets.calibration import Search, Target
from hockeystick.accounting.errors import InvalidArgumentError, NumericalError
from hockeystick.accounting.events.basic.event import Array, PrivacyEvent


@frozen
class BudgetSplit:
    """The result of ``split_budget``, which has an example.

    Attributes:
      values: the parameters; the certified bound at these values meets the target.
      cost: the cost of these values.
      event: the event at these values.
      evaluations: the number of sets of values that were tried.
    """

    values: tuple[float, ...]
    cost: float
    event: PrivacyEvent
    evaluations: int


def split_budget(
    build: Callable[[tuple[float, ...]], object],
    target: Target,
    *,
    cost: Callable[[Array], float],
    guess: Sequence[float],
    certified_steps: int = 30,
) -> BudgetSplit:
    """Returns parameters that meet ``target`` at the least ``cost``, a local minimum found by simplex search.

    All parameters must act in the same direction: if all of them grow together, the result of ``build`` becomes more
    private (noise scales), or less private (counts), throughout.

    Args:
      build: values -> an event, an ``AccountantGraph``, a ``Guarantee``, or anything with a method ``event()``.
      cost: array of values -> a number, such as the summed variance of the noise.
      guess: positive values to start from, one for each parameter.
      certified_steps: directions tried with the certified bounds after the Rényi bounds' optimum was found.

    Raises:
      InvalidArgumentError: guess is empty or not positive, or ``cost`` returns no finite number.
      NumericalError: no multiple of the guess meets the target.

    Example: two statistics by Gaussian noise, the second is to be nine times as exact (in variance) as the first.

    >>> import numpy as np
    >>> from hockeystick.accounting import EpsilonDelta, Gaussian, compose, split_budget
    >>> found = split_budget(
    ...     lambda sigmas: compose(*map(Gaussian, sigmas)),
    ...     EpsilonDelta(1.0, 1e-6),
    ...     cost=lambda sigmas: float(np.array([1.0, 9.0]) @ sigmas**2),
    ...     guess=[5.0, 5.0],
    ... )
    >>> round(found.values[0] / found.values[1], 2)
    1.73
    """
    start = validate.array("guess", guess, ndim=1)
    if not len(start) or start.min() <= 0:
        raise InvalidArgumentError("guess", guess, "is empty or not positive", "give one positive value a parameter")
    steps = validate.integer("certified_steps", certified_steps, low=0)
    tried = 0

    def scaled(direction: Array, method: str | None, tolerance: float) -> tuple[Array, PrivacyEvent]:
        nonlocal tried
        ray = start * np.exp(np.append(direction, -direction.sum()))
        search = Search(lambda s: build(tuple(map(float, s * ray))), target, 0.0, math.inf, False, tolerance, method)
        found = search.run(1.0)
        tried += found.evaluations
        return found.value * ray, found.event

    def price(direction: Array, method: str | None) -> float:
        try:
            values, _ = scaled(direction, method, 1e-5)
        except NumericalError:
            return math.inf
        number = cost(values)
        if not math.isfinite(number):
            raise InvalidArgumentError("cost", number, "is not finite", "return a finite number for positive values")
        return math.log(number) if number > 0 else number

    best = np.zeros(len(start) - 1)
    if len(best):
        if math.isfinite(price(best, "rdp")):
            best = _simplex(lambda u: price(u, "rdp"), best, 0.3, 200 * len(best))
        if steps:
            best = _simplex(lambda u: price(u, None), best, 0.03, steps)
    values, event = scaled(best, None, 1e-6)
    return BudgetSplit(tuple(map(float, values)), float(cost(values)), event, tried)


def _simplex(function: Callable[[Array], float], start: Array, size: float, evaluations: int) -> Array:
    corners = np.vstack([start, start + size * np.eye(len(start))])
    options = {"initial_simplex": corners, "maxfev": evaluations, "xatol": 1e-4, "fatol": 1e-10}
    result = optimize.minimize(function, start, method="Nelder-Mead", options=options)
    return np.asarray(result.x)
