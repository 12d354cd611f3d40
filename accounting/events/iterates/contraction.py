"""Lipschitz constants of the steps of an iteration, with the assumptions that they rest on."""

from __future__ import annotations

from fractions import Fraction

from attrs import field, frozen

from hockeystick.accounting import field_checks, validate
from hockeystick.accounting.errors import InvalidArgumentError
from hockeystick.accounting.losses.piecewise_profiles import float_up

_MOST = 1e6


def _factor(value: float) -> float:
    return max(validate.real("factor", value, low=0.0, high=_MOST), field_checks.SMALLEST)


def _sentences(value: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(validate.text("assumptions", one) for one in validate.items("assumptions", value))


@frozen
class Contraction:
    """A Lipschitz constant of the step of an iteration without its noise, in L2, with the assumptions behind it.

    The constant must hold for *every* data set that may be given and *every* batch that may be drawn from it, empty and
    largest ones included: a batch that is smaller than what divides its sum has little curvature of its own, and a
    larger one has more. So the curvature of the data never counts as strong convexity here; a public regulariser does.

    Attributes:
      factor: c > 0: without noise, two iterates x and x' are mapped to points at most c·‖x − x'‖ apart. Above 1 the
        step may expand.
      assumptions: sentences; a guarantee repeats them.

    Example:
      >>> from hockeystick.accounting import Contraction
      >>> step = Contraction.of_gradient_descent(
      ...     0.1, regulariser=1.0, smoothness=4.0, largest_batch=200, normaliser=100
      ... )
      >>> round(step.factor, 9)
      0.9
    """

    factor: float = field(converter=_factor)
    assumptions: tuple[str, ...] = field(default=(), converter=_sentences)

    @classmethod
    def proved(cls, factor: float) -> Contraction:
        """Returns a constant that the caller has proved for all data sets and all batches.

        Raises:
          InvalidArgumentError: the factor is not a number in [0, 1e6].
        """
        factor = _factor(factor)
        words = f"without noise, each step is {factor:.17g}-Lipschitz in L2, for every data set and every batch"
        return cls(factor, (words,))

    @classmethod
    def of_gradient_descent(
        cls,
        learning_rate: float,
        *,
        regulariser: float = 0.0,
        smoothness: float,
        largest_batch: int | None = None,
        normaliser: float,
    ) -> Contraction:
        """Returns the constant of x − η·(λ·x + Σ ∇f_i(x)/B), the sum over a batch, for convex losses f_i.

        It is max(|1 − η·λ|, |1 − η·(λ + M·b/B)|) for losses of smoothness M and batches of at most b records: the
        gradient of a convex, L-smooth function minus m/2·‖x‖² moves distances by factors in [1 − η·L, 1 − η·m]
        (Nesterov 2004, Thm 2.1.12). With λ = 0 and η ≤ 2·B/(M·b) it is 1.

        Args:
          learning_rate: η > 0.
          regulariser: λ ≥ 0, of λ/2·‖x‖², which is public and not clipped.
          smoothness: M ≥ 0, of one record's loss: its gradient is M-Lipschitz.
          largest_batch: b, a public bound on the records of a batch; for Poisson samples the largest number of records
            of a data set, unless larger batches are charged as a failure.
          normaliser: B > 0, the public constant that divides the sum of a batch.

        Raises:
          InvalidArgumentError: a number outside its domain, or no bound on the batch.
        """
        if largest_batch is None:
            raise InvalidArgumentError(
                "largest_batch",
                None,
                "is missing: a batch of more records has more curvature, and its step may expand",
                "give the most records that a batch can have, whatever the data",
            )
        rate = Fraction(validate.real("learning_rate", learning_rate, low=0.0, low_open=True, high=1e100))
        weak = Fraction(validate.real("regulariser", regulariser, low=0.0, high=1e100))
        smooth = Fraction(validate.real("smoothness", smoothness, low=0.0, high=1e100))
        most = validate.integer("largest_batch", largest_batch, low=1, high=validate.MOST)
        divisor = Fraction(validate.real("normaliser", normaliser, low=1e-100, high=1e100))
        strong = weak + smooth * most / divisor
        exact = max(abs(1 - rate * weak), abs(1 - rate * strong))
        if exact > _MOST:
            reason = "makes the step expand distances more than a million times"
            raise InvalidArgumentError("learning_rate", learning_rate, reason, "give a smaller one")
        words = (
            f"each record's loss is convex and {float(smooth):g}-smooth; a clipped gradient is that of such a loss, as "
            "for linear predictors with a convex loss of one number, and not in general",
            f"the regulariser {float(weak):g}/2·‖x‖² is public and outside the clipping",
            f"no batch has more than {most} records, whatever the data, unless larger ones are charged as a failure; "
            "a public constant divides their sum",
        )
        return cls(float_up(exact), words)
