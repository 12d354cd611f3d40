"""DP-SGD of which only the last model is published, in the terms of its user."""

from __future__ import annotations

import math
from fractions import Fraction

from attrs import field, frozen
from scipy import special

from hockeystick.accounting import validate
from hockeystick.accounting.adjacency import Adjacency
from hockeystick.accounting.budgets.calibration import Calibrated, EpsilonDelta, calibrate
from hockeystick.accounting.budgets.dp_sgd import DPSGD
from hockeystick.accounting.engines.best_bound import Bracket
from hockeystick.accounting.errors import InvalidArgumentError
from hockeystick.accounting.events.basic.declared import Failure
from hockeystick.accounting.events.iterates.contraction import Contraction
from hockeystick.accounting.graph.accountant_graph import AccountantGraph
from hockeystick.accounting.graph.guarantee import Guarantee
from hockeystick.accounting.losses.piecewise_profiles import float_up

_MODEL, _LARGE = "model", "a larger batch"


@frozen
class LastIterateOfDPSGD:
    """Training by DP-SGD with hidden states: all models but the last one stay secret, and are deleted.

    A step is x − η·(λ·x + (Σ clipped gradients + noise)/B) with the run's batch B, a public constant. Each loss
    must be convex and smooth with its gradient clipped, which holds for linear predictors with a convex loss of one
    number, and not for networks; their training pays for all steps. The guarantee lists all that it assumes.

    Args:
      run: a training with sampling "poisson" or "full", and no strategy.
      learning_rate: η > 0.
      smoothness: M > 0, of one record's loss.
      regulariser: λ ≥ 0, of λ/2·‖x‖², which is not clipped. With 0 steps do not contract, and only a ``diameter``
        stops ε from growing.
      diameter: of a public convex set that each model is projected onto. It needs the run's clip.
      largest_batch: the batch size whose step the learning rate suits; by default all records. For Poisson samples a
        smaller one is charged for the probability, added to δ, that any step draws more. For "full" it is all records.

    Raises:
      InvalidArgumentError: an argument outside its domain, another sampling, or a diameter and no clip.

    Example: logistic regression on rows of norm ≤ 1.

      >>> from hockeystick.accounting import DPSGD, LastIterateOfDPSGD
      >>> run = DPSGD(records=10_000, batch=10_000, epochs=1000, clip=1.0, sampling="full")
      >>> last = LastIterateOfDPSGD(run, learning_rate=1.0, smoothness=0.25, regulariser=0.05)
      >>> print(f"{run.epsilon(20.0, 1e-5):.3f} {last.epsilon(20.0, 1e-5):.3f}")
      7.512 1.183
    """

    run: DPSGD
    learning_rate: float = field(kw_only=True)
    smoothness: float = field(kw_only=True)
    regulariser: float = field(default=0.0, kw_only=True)
    diameter: float | None = field(default=None, kw_only=True)
    largest_batch: int | None = field(default=None, kw_only=True)

    def __attrs_post_init__(self) -> None:
        run = self.run
        if not isinstance(run, DPSGD) or run.sampling not in ("poisson", "full") or run.strategy is not None:
            remedy = 'give a DPSGD run with sampling="poisson" or "full", and no strategy'
            raise InvalidArgumentError("run", run, "has no bound for its last iterate alone", remedy)
        if self.largest_batch is not None and run.sampling == "full":
            raise InvalidArgumentError("largest_batch", self.largest_batch, "is that of all records", "leave it out")
        _ = self.contraction, self._moves  # which check the terms

    @property
    def contraction(self) -> Contraction:
        """The Lipschitz constant of a step, with its assumptions."""
        return Contraction.of_gradient_descent(
            self.learning_rate,
            regulariser=self.regulariser,
            smoothness=self.smoothness,
            largest_batch=self.run.records if self.largest_batch is None else self.largest_batch,
            normaliser=self.run.batch,
        )

    @property
    def _moves(self) -> float:
        """The diameter over the most that one record moves a step: η·C/B, or twice that if it is replaced."""
        if self.diameter is None:
            return math.inf
        if self.run.clip is None:
            raise InvalidArgumentError("clip", None, "is needed for a diameter", "give the run its clip")
        wide = Fraction(validate.real("diameter", self.diameter, low=0.0, low_open=True))
        moved = Fraction(self.learning_rate) * Fraction(self.run.clip) / self.run.batch
        if self.run.relation is Adjacency.REPLACE_ONE:
            moved *= 2
        return float_up(wide / moved)

    @property
    def failure(self) -> float:
        """The probability that any step draws more than ``largest_batch`` records, rounded up."""
        if self.largest_batch is None or self.largest_batch >= self.run.records:
            return 0.0
        tail = float(special.bdtrc(self.largest_batch, self.run.records, self.run.sampling_rate))
        return min(1.0, self.run.steps * tail * (1 + 1e-6) + 1e-300)  # the tail is right to 1e-9

    def graph(self, noise_multiplier: float) -> AccountantGraph:
        """Returns the training as a graph with the release "gradients", its last iterate "model", and a view "last".

        Raises:
          InvalidArgumentError: ``noise_multiplier`` is not a number > 0.
        """
        graph, seen = self.run.graph(noise_multiplier), [_MODEL]
        graph = graph.last_iterate(_MODEL, of="gradients", contraction=self.contraction, diameter=self._moves)
        if failure := self.failure:
            graph, seen = graph.release(_LARGE, Failure(failure), reads=["records"]), [_MODEL, _LARGE]
        return graph.view("last", sees=seen)

    def guarantee(self, noise_multiplier: float) -> Guarantee:
        """Returns the guarantee of the last model at every δ, to a user of the run's ``user_records`` records.

        Raises:
          InvalidArgumentError: ``noise_multiplier`` is not a number > 0.
          UnsupportedEventError: several records of a user in Poisson samples.
        """
        return self.graph(noise_multiplier).guarantee(view="last", group=self.run.user_records)

    def epsilon(self, noise_multiplier: float, delta: float) -> Bracket:
        """Returns the least certified ε at ``delta``."""
        return self.guarantee(noise_multiplier).epsilon(delta)

    def calibrated(self, epsilon: float, delta: float) -> Calibrated:
        """Returns the least noise multiplier with which the last model is (``epsilon``, ``delta``)-DP."""
        return calibrate(self.guarantee, EpsilonDelta(epsilon, delta))
