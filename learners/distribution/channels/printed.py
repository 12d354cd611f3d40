"""Printed claims about the privacy of messages, compared with the exact or bounded ε of their noise.

Sima, Wu, Milenkovic & Szpankowski 2024 (arXiv 2402.00315) scale noise to a sensitivity ln(K T). It is too small: the
blocks of their clipping are rounded up, and the levels of candidates lie up to ln((T-1)(K+1) + 1) apart.

* Lemma 6 (Algorithm 2, pure ε) is false: an exact oracle gives up to 1.064 times the claimed ε.
* Lemma 3 (Algorithm 1, approximate) is true: its closed form loses a factor of two, more than the missing sensitivity.
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
    """A printed claim about one message, and the ε of its noise at the same δ.

    See :func:`printed_sampled` for an example.

    Attributes:
        printed: The claim, and its condition: a span of at most ln(K T).
        scale: The scale b of the Laplace noise.
        delivered: The ε of the noise: exact if ``exact``, else an upper bound.
        exact: Whether ``delivered`` is exact.
    """

    printed: PrintedGuarantee
    scale: float
    delivered: float
    exact: bool

    @property
    def verdict(self) -> Literal["holds", "fails", "open"]:
        """Whether the claim is true for these levels; "open" if an upper bound does not decide it."""
        if self.delivered <= self.printed.epsilon * (1.0 + _ROUNDING):
            return "holds"
        return "fails" if self.exact else "open"


def printed_sensitivity(levels: Levels) -> float:
    """Returns ln(K T), the printed bound on the span."""
    return math.log(levels.count) + math.log(levels.horizon)


def printed_sampled(levels: Levels, *, epsilon: float) -> PrintedMessage:
    """Returns Lemma 6 for these levels: scale ln(K T)/ε, with the published exchange of labels.

    Raises:
        InvalidArgumentError: an ε outside its domain, or levels without a table.
        NumericalError: the table is too large for the oracle.

    Example:
        >>> import numpy as np
        >>> from hockeystick.learners.distribution import CeiledBlocks, LabelTable, printed_sampled
        >>> masses = np.repeat([[0.0102, 0.0], [0.0, 0.0102]], 49, axis=1)  # just above 1/100, for 98 of 100 labels
        >>> table = LabelTable(np.hstack([masses, [[0.0, 0.5002], [0.0, 0.5002]]]))
        >>> claim = printed_sampled(CeiledBlocks().levels(table, 1000), epsilon=1.0)
        >>> claim.verdict, round(claim.delivered, 3)
        ('fails', 1.024)
    """
    target = real("epsilon", epsilon, low=0.0, low_open=True)
    claimed = printed_sensitivity(levels)
    channel = SampledLaplace(levels, epsilon=levels.span * target / claimed, resample=True)
    printed = PrintedGuarantee(target, 0.0, (_condition(levels),), _SOURCE + "Lemma 6")
    return PrintedMessage(printed, channel.scale, channel.exact_epsilon(), exact=True)


def printed_vector(levels: Levels, *, epsilon: float, delta: float) -> PrintedMessage:
    """Returns Lemma 3 for these levels: scale ln(K T) times :func:`printed_multiplier`, with the published exchange.

    Raises:
        InvalidArgumentError: an ε or δ outside its domain.

    See :func:`printed_sampled` for an example.
    """
    target, failure = real("epsilon", epsilon, low=0.0, low_open=True), probability("delta", delta, open=True)
    scale = printed_sensitivity(levels) * printed_multiplier(levels.count, epsilon=target, delta=failure)
    delivered = accounting.epsilon(VectorLaplace(levels, scale=scale, resample=True).event(), failure).upper
    printed = PrintedGuarantee(target, failure, (_condition(levels),), _SOURCE + "Lemma 3")
    return PrintedMessage(printed, scale, delivered, exact=False)


def lemma_2(count: int, *, epsilon: float, delta: float) -> float:
    """Returns K ε^2/2 + sqrt(2 ln(1/δ) K) ε: the cost of K ε-DP algorithms at ``delta``.

    It is the conversion of K ε^2/2 zCDP (Bun & Steinke 2016): a valid bound, above that of Renyi curves.

    Raises:
        InvalidArgumentError: K is not an integer >= 1, ε is negative, or δ is not in (0, 1).
    """
    number, each = integer("count", count, low=1), real("epsilon", epsilon, low=0.0)
    log = -math.log(probability("delta", delta, open=True))
    return number * each * each / 2.0 + math.sqrt(2.0 * log * number) * each


def _condition(levels: Levels) -> Condition:
    claimed = printed_sensitivity(levels)
    return Condition("span <= ln(K T)", levels.span, claimed, levels.span <= claimed)
