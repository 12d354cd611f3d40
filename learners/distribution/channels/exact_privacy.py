"""The exact privacy loss of a channel for levels: an oracle with which the event of every channel is compared.

A label ``y`` becomes a row of levels, possibly after a secret exchange of the label, and noise is added. So the
law of a message is a mixture: with probability ``mixture[y, z]`` it is noise around the levels of row ``z``. The
functions here take that mixture as an array and compute the largest privacy loss over all messages and all pairs of
labels. They share no code with the events.

*Laplace noise.* Between two neighbouring levels every density is A e^(o/b) + B e^(-o/b) with A, B >= 0, so the ratio of
two densities is a monotone function of e^(2o/b), and over an interval it is largest at an end. Beyond the outermost
levels it is constant. So the largest loss is attained at a level. With several coordinates the same is true of each, so
the largest loss is attained on the grid of levels. Discrete Laplace noise is the same sum of exponentials.

*One bit.* There are two messages, so two ratios; with fractions as probabilities they are exact.
"""

from __future__ import annotations

import decimal
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np

from hockeystick.accounting import InvalidArgumentError, NumericalError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import array, real

_MOST_CELLS = 4_000_000  # of a table of densities, knots times rows
_SUM_TO_ONE = 1e-9


def laplace_epsilon(levels: object, *, scale: float, mixture: object | None = None) -> float:
    """Returns the largest loss of one number with Laplace noise of ``scale``, over all pairs of labels.

    Args:
        levels: (rows,), the noiseless number of each row.
        scale: b > 0 of the density e^(-|x|/b)/(2b).
        mixture: (labels, rows), probabilities; each label has its own row by default.

    Returns:
        Epsilon, up to rounding in its last few digits; 0 if all labels have the same levels.

    Raises:
        InvalidArgumentError: an argument outside its domain.
        NumericalError: too many rows and labels for a table.
    """
    numbers = array("levels", levels, ndim=1)
    if mixture is None and numbers.size:
        return float(np.ptp(numbers)) / real("scale", scale, low=0.0, low_open=True)
    return vector_laplace_epsilon(numbers[:, None], scale=scale, mixture=mixture)


def vector_laplace_epsilon(levels: object, *, scale: float, mixture: object | None = None) -> float:
    """Returns the largest loss of K numbers with independent Laplace noise of one ``scale``.

    Args:
        levels: (rows, K), the noiseless numbers of each row.
        scale: b > 0.
        mixture: (labels, rows), probabilities: one exchange of the label for all K numbers. Each label has its own row
            by default.

    Raises:
        InvalidArgumentError: an argument outside its domain.
        NumericalError: too many rows, labels or coordinates for a table.
    """
    numbers = array("levels", levels, ndim=2)
    b = real("scale", scale, low=0.0, low_open=True)
    if not numbers.size:
        raise InvalidArgumentError("levels", numbers.shape, "has no rows or no columns", "give at least one of each")
    if mixture is None:  # at the corner beyond all levels the losses of all coordinates add up
        rows = np.unique(numbers, axis=0)
        _check_cells(len(rows) ** 2 * rows.shape[1])
        return float(np.abs(rows[:, None] - rows[None]).sum(axis=2).max() / b)
    weights = _mixture(mixture, len(numbers))
    rows, weights = _merged(numbers, weights)
    knots = [np.unique(column) for column in rows.T]
    cells = math.prod(len(each) for each in knots)
    _check_cells(cells * max(len(rows), len(weights)))
    # One coordinate at a time; the largest row of each cell is 1 after the shift, so nothing overflows.
    exponents = np.zeros((1, len(rows)))
    for each, column in zip(knots, rows.T, strict=True):
        step = -np.abs(each[:, None] - column[None, :]) / b
        exponents = (exponents[:, None, :] + step[None, :, :]).reshape(-1, len(rows))
    exponents -= exponents.max(axis=1, keepdims=True)
    with np.errstate(under="ignore", divide="ignore"):
        densities = np.exp(exponents) @ weights.T
        return _largest_ratio(densities)


def discrete_laplace_epsilon(steps: object, *, scale: float, mixture: object | None = None) -> float:
    """Returns an upper bound on the largest loss of an integer with discrete Laplace noise, P(k) ~ e^(-|k|/scale).

    It is computed with 50 digits and rounded up. Arguments are as for :func:`laplace_epsilon`, with integer levels.

    Raises:
        InvalidArgumentError: an argument outside its domain.
        NumericalError: too many different levels for exact arithmetic.
    """
    numbers = array("steps", steps, ndim=1)
    t = real("scale", scale, low=0.0, low_open=True)
    if not numbers.size or (numbers != np.rint(numbers)).any():
        raise InvalidArgumentError("steps", steps, "are not whole numbers", "give levels in steps of the grid")
    rows = [int(each) for each in numbers]
    with decimal.localcontext(decimal.Context(prec=50, rounding=decimal.ROUND_HALF_EVEN)):
        rate = 1 / Decimal(t)
        if mixture is None:
            return _up(Decimal(max(rows) - min(rows)) * rate)
        weights = _mixture(mixture, len(rows))
        if len(set(rows)) * weights.size > 200_000:
            raise NumericalError(f"{len(set(rows))} levels, {weights.shape} rows: too many for exact arithmetic")
        exact = [[(row, Decimal(float(w))) for row, w in zip(rows, label, strict=True) if w] for label in weights]
        powers = {d: (-rate * d).exp() for d in range(max(rows) - min(rows) + 1)}
        worst = Decimal(0)
        for knot in set(rows):
            masses = [
                sum((w * powers[abs(knot - row)] for row, w in label), Decimal(0)) / sum(w for _, w in label)
                for label in exact
            ]
            worst = max(worst, (max(masses) / min(masses)).ln())
        return _up(worst * (1 + Decimal("1e-40")))


def bit_ratio(probabilities: object, *, mixture: object | None = None) -> Fraction:
    """Returns the largest ratio of a bit's probabilities over both of its values and all pairs of labels, exactly.

    Args:
        probabilities: The probability of True, a fraction in (0, 1), for each row.
        mixture: (labels, rows) of fractions that add up to 1 in each row; each label has its own row by default.

    Raises:
        InvalidArgumentError: a probability is not a fraction in (0, 1), or a mixture does not add up.
    """
    rows = list(probabilities) if isinstance(probabilities, (list, tuple)) else []
    if not rows or not all(isinstance(each, Fraction) and 0 < each < 1 for each in rows):
        raise InvalidArgumentError(
            "probabilities", probabilities, "are not fractions in (0, 1)", "give a list of Fractions"
        )
    if mixture is not None:
        labels = list(mixture) if isinstance(mixture, (list, tuple)) else []
        if not labels or not all(
            len(label) == len(rows)
            and sum(label) == 1
            and all(isinstance(w, (int, Fraction)) and w >= 0 for w in label)
            for label in labels
        ):
            raise InvalidArgumentError(
                "mixture", mixture, "has rows that do not add up to 1", "give lists of Fractions"
            )
        rows = [sum((w * p for w, p in zip(label, rows, strict=True)), Fraction(0)) for label in labels]
    low, high = min(rows), max(rows)
    found: Fraction = max(high / low, (1 - low) / (1 - high))
    return found


def at_most_exp(ratio: Fraction, epsilon: float) -> bool:
    """Returns whether ``ratio`` is at most e^ε; False if 80 digits do not decide it.

    Raises:
        InvalidArgumentError: ε is not a finite number >= 0.
    """
    bound = real("epsilon", epsilon, low=0.0)
    exact = Fraction(decimal.Context(prec=80, Emax=10**9, traps=[]).exp(Decimal(bound)))
    return bool(ratio <= exact * (1 - Fraction(1, 10**70)))


def log_ratio(ratio: Fraction) -> float:
    """Returns ln of a ratio >= 1, rounded up."""
    with decimal.localcontext(decimal.Context(prec=80, Emax=10**9, Emin=-(10**9))):
        return _up((Decimal(ratio.numerator) / Decimal(ratio.denominator)).ln() * (1 + Decimal("1e-60")))


def exchange_mixture(resampling: object, *, probability: float) -> FloatArray:
    """Returns the mixture of labels that are exchanged, with ``probability``, for a draw from a fixed law.

    Args:
        resampling: (labels,), the law q of the draw.
        probability: The probability of an exchange.

    Returns:
        (labels, labels), rows that add up to 1.
    """
    law = array("resampling", resampling, ndim=1, low=0.0, high=1.0)
    _check_law("resampling", law[None])
    p = real("probability", probability, low=0.0, high=1.0)
    return np.asarray((1.0 - p) * np.eye(len(law)) + p * law)


def _mixture(mixture: object, rows: int) -> FloatArray:
    weights = array("mixture", mixture, shape=(None, rows), low=0.0)
    _check_law("mixture", weights)
    return weights


def _check_law(name: str, weights: FloatArray) -> None:
    if not weights.size or (np.abs(weights.sum(axis=1) - 1.0) > _SUM_TO_ONE).any():
        raise InvalidArgumentError(name, weights.shape, "does not add up to 1", "give probabilities")


def _merged(rows: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Distinct rows, with the weights of equal ones added up; labels with equal laws are merged."""
    distinct, where = np.unique(rows, axis=0, return_inverse=True)
    merged = np.zeros((len(weights), len(distinct)))
    np.add.at(merged.T, where.ravel(), weights.T)
    return distinct, np.unique(merged, axis=0)


def _largest_ratio(densities: FloatArray) -> float:
    """The largest log-ratio of densities of shape (messages, labels)."""
    low, high = densities.min(axis=1), densities.max(axis=1)
    return float((np.log(high) - np.log(low)).max())


def _check_cells(cells: int) -> None:
    if cells > _MOST_CELLS:
        raise NumericalError(f"a table of {cells} densities is too large for the exact oracle; use the event's bound")


def _up(value: Decimal) -> float:
    number = float(value)
    return math.nextafter(number, math.inf) if Decimal(number) < value else number
