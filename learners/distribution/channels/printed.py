"""What is printed about the privacy of messages about labels, beside what their noise delivers. No certificates.

Sima, Wu, Milenkovic & Szpankowski 2024 (arXiv 2402.00315) scale noise to a sensitivity ln(K T). It is too small: the
blocks of their clipping are rounded up, and levels of their own candidates lie up to ln((T-1)(K+1) + 1) apart.

* Lemma 6 (Algorithm 2, pure epsilon) fails: an exact oracle gives up to 1.064 times the claimed epsilon.
* Lemma 3 (Algorithm 1, approximate) survives: its closed form wastes a factor of two, more than is missing.
"""

from __future__ import annotations

import math
from typing import Literal

from attrs import frozen

from hockeystick import accounting
from hockeystick.accounting.validate import integer, probability, real
from hockeystick.learners.common.printed_claims import Condition, PrintedGuarantee
from hockeystick.learners.distribution.channels.all_channels import SampledLaplace, VectorLaplace, printed_multiplier
from hockeystick.learners.distribution.channels.levels import Levels

_SOURCE = "Sima, Wu, Milenkovic & Szpankowski 2024, "
_ROUNDING = 1e-9


@frozen
class PrintedMessage:
    """A printed claim about one message with what its noise delivers, at the same delta.

    Attributes:
        printed: The claim, and the condition that it rests on: a span of at most ln(K T).
        scale: b of its Laplace noise.
        delivered: Epsilon: exact where ``exact``, else an upper bound.
        exact: Whether ``delivered`` is exact.
    """

    printed: PrintedGuarantee
    scale: float
    delivered: float
    exact: bool

    @property
    def verdict(self) -> Literal["holds", "fails", "open"]:
        """Whether the claim is true of these levels; open where an upper bound does not show it."""
        if self.delivered <= self.printed.epsilon * (1.0 + _ROUNDING):
            return "holds"
        return "fails" if self.exact else "open"


def printed_sensitivity(levels: Levels) -> float:
    """ln(K T), which is said to bound the span."""
    return math.log(levels.count) + math.log(levels.horizon)


def printed_sampled(levels: Levels, *, epsilon: float) -> PrintedMessage:
    """Lemma 6 for these levels: scale ln(K T)/epsilon, with the published exchange of labels.

    Raises:
        InvalidArgumentError: a bad epsilon, or levels without a table.
        NumericalError: the table is too large for the oracle.
    """
    target = real("epsilon", epsilon, low=0.0, low_open=True)
    claimed = printed_sensitivity(levels)
    channel = SampledLaplace(levels, epsilon=levels.span * target / claimed, resample=True)
    printed = PrintedGuarantee(target, 0.0, (_condition(levels),), _SOURCE + "Lemma 6")
    return PrintedMessage(printed, channel.scale, channel.exact_epsilon(), exact=True)


def printed_vector(levels: Levels, *, epsilon: float, delta: float) -> PrintedMessage:
    """Lemma 3 for these levels: scale ln(K T) times :func:`printed_multiplier`, with the published exchange.

    Raises:
        InvalidArgumentError: a bad epsilon or delta.
    """
    target, failure = real("epsilon", epsilon, low=0.0, low_open=True), probability("delta", delta, open=True)
    scale = printed_sensitivity(levels) * printed_multiplier(levels.count, epsilon=target, delta=failure)
    delivered = accounting.epsilon(VectorLaplace(levels, scale=scale, resample=True).event(), failure).upper
    printed = PrintedGuarantee(target, failure, (_condition(levels),), _SOURCE + "Lemma 3")
    return PrintedMessage(printed, scale, delivered, exact=False)


def lemma_2(count: int, *, epsilon: float, delta: float) -> float:
    """K epsilon^2/2 + sqrt(2 ln(1/delta) K) epsilon: K independent epsilon-DP algorithms at ``delta``.

    The conversion of K epsilon^2/2 zCDP (Bun & Steinke 2016), and so a true bound, above that of Renyi curves.

    Raises:
        InvalidArgumentError: K no integer >= 1, epsilon negative, or delta not in (0, 1).
    """
    number, each = integer("count", count, low=1), real("epsilon", epsilon, low=0.0)
    log = -math.log(probability("delta", delta, open=True))
    return number * each * each / 2.0 + math.sqrt(2.0 * log * number) * each


def _condition(levels: Levels) -> Condition:
    claimed = printed_sensitivity(levels)
    return Condition("span <= ln(K T)", levels.span, claimed, levels.span <= claimed)
