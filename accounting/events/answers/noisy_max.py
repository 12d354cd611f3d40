"""Report-noisy-max: add independent noise to the scores of several candidates and publish which one has the largest.

Given the noise of all other candidates, candidate r wins if its own noise exceeds a threshold, which a change of the
scores moves by at most the range R of the changes (the largest minus the least, as a common change of all scores has no
effect). If the tail of the noise falls by at most e^{−x/b} over a distance x, for its scale b, this is R/b-DP for every
R. Reporting the smallest noisy score is the same with signs changed.
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
    """Report-noisy-max: publishes only which candidate has the largest (or smallest) noisy score.

    It is ``score_range``/``scale``-DP for each noise. With Gumbel noise it has the law of the exponential mechanism and
    so is of bounded range (``BoundedRange``). With Laplace noise (Dwork & Roth 2014, Claim 3.9, for counting queries,
    of range 1) and with exponential noise, which is permute-and-flip, it is not of bounded range; both are dominated by
    Laplace noise of scale ``scale``/``score_range`` (``LogLipschitz``).

    The noise is continuous; for noise on a grid, only ``pure_epsilon`` is known to hold.

    Attributes:
      scale: of the noise on each score, in the unit of the scores.
      noise: "laplace", "gumbel", or "exponential".
      score_range: the largest difference between the changes of two scores at distance 1. Use the default, 2, if each
        score moves by up to 1 either way; 1 if all move in one direction or not at all.

    Raises:
      InvalidArgumentError: a number is not positive and finite, or the noise is unknown.

    Example:
      >>> from hockeystick.accounting import ReportNoisyMax
      >>> events = [ReportNoisyMax(20.0, noise) for noise in ("laplace", "gumbel")]
      >>> [(event.pure_epsilon(), round(event.zcdp_rho(), 6)) for event in events]
      [(0.1, 0.004837), (0.1, 0.00125)]
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
    """Returns the event of publishing, in order, the ``k`` candidates with the largest scores under Gumbel noise.

    The noise is drawn once for all k: the outcome has the law of k exponential mechanisms, each over the remaining
    candidates (Durfee & Rogers 2019, Lemma 4.2). No other noise has this property.

    Args:
      k: the number of candidates, ≥ 1.
      scale, score_range: as for ``ReportNoisyMax``.

    Raises:
      InvalidArgumentError: an argument outside its domain.

    Example:
      >>> from hockeystick.accounting import epsilon, gumbel_top
      >>> [round(epsilon(gumbel_top(k, 10.0, score_range=1.0), 1e-6).upper, 3) for k in (1, 20)]
      [0.099, 0.979]
    """
    count = validate.integer("k", k, low=1)
    return compose((ReportNoisyMax(scale, "gumbel", score_range=score_range), count))
