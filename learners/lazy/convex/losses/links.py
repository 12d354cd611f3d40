"""Links: the losses of a linear model's prediction p for a target y, their slopes, and their curvatures."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Literal

import numpy as np
from scipy import special

from hockeystick.accounting.arrays import FloatArray

Link = Literal["absolute", "hinge", "logistic", "huber", "smooth hinge", "squared"]
LINKS: tuple[Link, ...] = ("absolute", "hinge", "logistic", "huber", "smooth hinge", "squared")

LABELLED: tuple[Link, ...] = ("hinge", "logistic", "smooth hinge")
"""The links whose targets are -1 and 1."""

CURVATURES: Mapping[Link, float] = {"logistic": 0.25, "huber": 1.0, "smooth hinge": 1.0, "squared": 1.0}
"""The largest second derivative in the prediction, of the links that are smooth."""


def link_values(link: Link, prediction: FloatArray, y: FloatArray) -> FloatArray:
    """Returns the losses; arguments broadcast."""
    if link == "absolute":
        return np.asarray(np.abs(prediction - y))
    if link == "huber":
        return _huber(np.abs(prediction - y))
    if link == "squared":
        return np.asarray(0.5 * (prediction - y) ** 2)
    if link == "logistic":
        return np.asarray(np.logaddexp(0.0, -y * prediction))
    margin = np.maximum(0.0, 1.0 - y * prediction)
    return np.asarray(margin) if link == "hinge" else _huber(margin)


def link_slopes(link: Link, prediction: FloatArray, y: FloatArray) -> FloatArray:
    """Returns a derivative of each loss in the prediction; arguments broadcast."""
    if link == "absolute":
        return np.asarray(np.sign(prediction - y))
    if link == "hinge":
        return np.asarray(-y * (y * prediction < 1.0))
    if link == "huber":
        return np.asarray(np.clip(prediction - y, -1.0, 1.0))
    if link == "smooth hinge":
        return np.asarray(-y * np.clip(1.0 - y * prediction, 0.0, 1.0))
    if link == "squared":
        return np.asarray(prediction - y)
    return np.asarray(-y * special.expit(-y * prediction))


def regression_values(link: Link, prediction: FloatArray, y: FloatArray) -> FloatArray:
    """Returns the losses, each up to a constant.

    If predictions are at most P in size, each value has an error of at most (d + 20)*(1 + P) units of roundoff: d + 2
    for the products and sums of a prediction, less than 10 for the link. Absolute, Huber and squared losses are
    relative to those of a prediction of 0, so that large targets do not matter. For squared losses on a domain that
    contains the origin, P is the Lipschitz constant times the largest norm R: the loss p*(p/2 - y) moves by |p - y|
    times the error of p, the product of |p - y| and the features' norm is at most that constant, and |y| and |p|/2 are
    at most the largest |p - y|.
    """
    if link == "absolute":
        far = np.abs(y) > np.abs(prediction)
        return np.asarray(np.where(far, -np.sign(y) * prediction, np.abs(prediction - y) - np.abs(y)))
    if link == "huber":
        far = np.abs(y) > np.abs(prediction) + 1.0
        near = _huber(np.abs(prediction - y)) - _huber(np.abs(y))
        return np.asarray(np.where(far, -np.sign(y) * prediction, near))
    if link == "squared":
        return np.asarray(prediction * (0.5 * prediction - y))
    return link_values(link, prediction, y)


def value_in_digits(link: Link, prediction: Decimal, y: Decimal) -> Decimal:
    """Returns the value of one loss, up to the same constant, in the current context."""
    if link == "absolute":
        return abs(prediction - y) - abs(y)
    if link == "huber":
        return _huber_in_digits(abs(prediction - y)) - _huber_in_digits(abs(y))
    if link == "squared":
        return prediction * (prediction / 2 - y)
    if link == "logistic":
        exponent = -y * prediction
        return max(Decimal(0), exponent) + ((-abs(exponent)).exp() + 1).ln()
    margin = max(Decimal(0), 1 - y * prediction)
    return margin if link == "hinge" else _huber_in_digits(margin)


def _huber(size: FloatArray) -> FloatArray:
    """Returns size²/2 up to 1, and size - 1/2 beyond."""
    return np.asarray(np.where(size <= 1.0, 0.5 * np.minimum(size, 1.0) ** 2, size - 0.5))


def _huber_in_digits(size: Decimal) -> Decimal:
    return size * size / 2 if size <= 1 else size - Decimal("0.5")
