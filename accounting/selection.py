"""Events of selecting from candidates or from a stream: bounded range, AboveThreshold."""

from __future__ import annotations

import math

import numpy as np
from attrs import field, frozen

from . import parameters
from .declared import two_point_pair, two_point_rdp
from .errors import InvalidArgumentError
from .event import Array, PrivacyEvent
from .pairs import DominatingPair, ExponentialLossPair


@frozen
class BoundedRange(PrivacyEvent):
    """A draw whose privacy loss lies, for any two inputs at distance 1, in an interval of length ``width`` around 0.

    The exponential mechanism and Gumbel report-noisy-max at ε are of width ε (Durfee & Rogers 2019). Laplace
    report-noisy-max and permute-and-flip are *not* of this kind.
    """

    width: float = field(converter=parameters.width)

    def _scaled(self, distance: float) -> PrivacyEvent:
        return BoundedRange(self.width * distance)

    def pure_epsilon(self) -> float:
        return self.width

    def zcdp_rho(self) -> float:
        return self.width**2 / 8  # Cesar & Rogers 2021, Lemma 3.4

    def rdp(self, orders: Array) -> Array:
        # Dong, Durfee & Rogers 2020: the worst pair has losses t and t − w. With
        # C = (1−e^{−αw})/(1−e^{−w}) and A = (e^{−w}−e^{−αw})/(1−e^{−w}) its moment is C·e^{(α−1)t} − A·e^{αt},
        # which is largest at e^t = (α−1)C/(αA) and there equals (C/α)·e^{(α−1)t}.
        a, w = np.asarray(orders, dtype=float), self.width
        with np.errstate(over="ignore", divide="ignore"):
            log_c = np.log(-np.expm1(-a * w)) - math.log(-math.expm1(-w))
            log_a = -w + np.log(-np.expm1(-(a - 1) * w)) - math.log(-math.expm1(-w))
            t = np.log1p(-1 / a) + log_c - log_a
            moment = log_c - np.log(a) + (a - 1) * t
        bound = np.minimum(self.zcdp_rho() * a, w)
        # Rounding of the logarithms, divided by α − 1, is added; where it would matter the general bound is used.
        slack = 8 * np.finfo(float).eps * (np.abs(log_c) + np.abs((a - 1) * t) + np.log(a) + 1) / (a - 1)
        exact = moment / (a - 1) + slack
        return np.where(np.isfinite(exact), np.minimum(np.maximum(exact, 0.0), bound), bound)

    def pair(self) -> DominatingPair:
        return ExponentialLossPair(self.width, density=-0.5 / math.expm1(-self.width))


@frozen
class AboveThreshold(PrivacyEvent):
    """Sparse vector with Laplace noise: report which queries exceed a noisy threshold, stop after ``answers`` of them.

    The threshold's noise is drawn once, with scale ``threshold_scale``; each query's afresh, with scale
    ``query_scale``; both are per unit of change of the queries. ε = 1/threshold_scale + 2·answers/query_scale, or
    1/threshold_scale + answers/query_scale where all queries move in one direction (``monotone``); Lyu, Su & Li 2017,
    Thms 2 and 3. Nothing but the bits is published.
    """

    threshold_scale: float = field(converter=parameters.threshold_scale)
    query_scale: float = field(converter=parameters.query_scale)
    answers: int = field(default=1, converter=parameters.answers)
    monotone: bool = field(default=False)

    @monotone.validator
    def _monotone_is_bool(self, _: object, value: object) -> None:
        if not isinstance(value, bool):
            raise InvalidArgumentError("monotone", value, "is not a bool")

    def _scaled(self, distance: float) -> PrivacyEvent:
        return AboveThreshold(self.threshold_scale / distance, self.query_scale / distance, self.answers, self.monotone)

    def pure_epsilon(self) -> float:
        return 1.0 / self.threshold_scale + self.answers * (1.0 if self.monotone else 2.0) / self.query_scale

    def rdp(self, orders: Array) -> Array:
        return two_point_rdp(self.pure_epsilon(), orders)

    def pair(self) -> DominatingPair:
        return two_point_pair(self.pure_epsilon())
