"""Report-noisy-max: add independent noise to the scores of several candidates and publish who has the largest.

The noise of one candidate against all others: given theirs, candidate r wins where its own noise exceeds a cut, which a
change of the scores moves by at most the range R of the changes (the largest minus the least, as what all scores gain
alike changes nothing). Noise of scale b whose tail falls by at most e^{−x/b} over a distance x makes that R/b-DP, at
every R. The least of noisy scores is the same with signs changed.
"""

from __future__ import annotations

from attrs import field, frozen

from hockeystick.accounting import field_checks, validate
from hockeystick.accounting.errors import InvalidArgumentError
from hockeystick.accounting.events.answers.drifting_law import BoundedBy, LogLipschitz
from hockeystick.accounting.events.answers.selection import BoundedRange
from hockeystick.accounting.events.basic.composition import compose
from hockeystick.accounting.events.basic.event import PrivacyEvent
from hockeystick.accounting.numerics.directed_rounding import quotient_down, quotient_up

NOISES = ("exponential", "gumbel", "laplace")


def _scale(value: float) -> float:
    return min(validate.real("scale", value, low=field_checks.SMALLEST), field_checks.LARGEST)


def _score_range(value: float) -> float:
    return validate.real("score_range", value, low=field_checks.SMALLEST, high=field_checks.LARGEST)


@frozen
class ReportNoisyMax(BoundedBy):
    """The candidate of the largest (or least) score after ``noise`` of ``scale`` on each; nothing else is published.

    It is ``score_range``/``scale``-DP with each noise. With Gumbel noise it is the exponential mechanism, hence of
    bounded range (``BoundedRange``). With Laplace noise (Dwork & Roth 2014, Claim 3.9, for counting queries, where the
    range is 1) and with exponential noise, which is permute-and-flip, it is not; these two are dominated by Laplace
    noise of scale ``scale``/``score_range`` (``LogLipschitz``).

    The noise is continuous: of noise on a grid only ``pure_epsilon`` is certain.

    Args:
      scale: of the noise, in the unit of the scores.
      noise: "laplace", "gumbel", or "exponential".
      score_range: by how much the change of one score may exceed that of another, at distance 1. The default 2 where
        each score moves by up to 1 either way; 1 where all move in one direction or not at all.

    Raises:
      InvalidArgumentError: a number is not positive and finite, or the noise is unknown.
    """

    scale: float = field(converter=_scale)
    noise: str = field(default="laplace")
    score_range: float = field(default=2.0, converter=_score_range, kw_only=True)

    @noise.validator
    def _noise_is_known(self, _: object, value: object) -> None:
        if value not in NOISES:
            raise InvalidArgumentError("noise", value, "is unknown", f"choose one of {', '.join(NOISES)}")

    def _scaled(self, distance: float) -> PrivacyEvent:
        return ReportNoisyMax(quotient_down(self.scale, distance), self.noise, score_range=self.score_range)

    def bound(self) -> PrivacyEvent:
        epsilon = quotient_up(self.score_range, self.scale)
        return BoundedRange(epsilon) if self.noise == "gumbel" else LogLipschitz(epsilon)


def gumbel_top(k: int, scale: float, *, score_range: float = 2.0) -> PrivacyEvent:
    """Returns the event of publishing the ``k`` candidates of the largest noisy scores, in order, Gumbel noise on each.

    One draw of noise serves all k: the outcome has the law of k exponential mechanisms, each over the candidates left
    (Durfee & Rogers 2019, Lemma 4.2). That is a property of Gumbel noise alone.

    Args:
      k: how many candidates, ≥ 1.
      scale, score_range: as for ``ReportNoisyMax``.

    Raises:
      InvalidArgumentError: an argument outside its domain.
    """
    count = validate.integer("k", k, low=1)
    return compose((ReportNoisyMax(scale, "gumbel", score_range=score_range), count))
