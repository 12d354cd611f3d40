"""The event of a noisy iteration whose last iterate alone is published: fixed and cyclic batches, and Poisson samples.

The theorem and its proof are in ``taut_string``; that for Poisson samples is in ``sampled_window``.

Altschuler & Talwar 2022 (shifted Rényi divergences) and Ye & Shokri 2022 have weaker bounds, and Feldman, Mironov,
Talwar & Thakurta 2018 that of a record that is read once, which is a special case.
"""

from __future__ import annotations

import math

import numpy as np

from hockeystick.accounting import validate
from hockeystick.accounting.errors import InvalidArgumentError, UnsupportedEventError
from hockeystick.accounting.events.basic.checked_event import check_event
from hockeystick.accounting.events.basic.event import PrivacyEvent
from hockeystick.accounting.events.basic.given_curves import GaussianDP
from hockeystick.accounting.events.iterates.contraction import Contraction
from hockeystick.accounting.events.iterates.sampled_window import power_sum, sampled_last_iterate, worst_distance
from hockeystick.accounting.events.iterates.taut_string import least_mu
from hockeystick.accounting.events.noise.gaussian_laplace import Gaussian
from hockeystick.accounting.events.sampling.poisson import PoissonSampled
from hockeystick.accounting.numerics.directed_rounding import quotient_down

_MOST_USES = 2**16  # that are listed; earlier ones are charged together, by how far apart they may have led


def last_iterate(
    step: PrivacyEvent,
    steps: int,
    *,
    contraction: Contraction | float,
    batches: int = 1,
    unread: int = 0,
    diameter: float = math.inf,
) -> PrivacyEvent:
    """Returns the event of a noisy iteration to somebody who sees its last iterate alone.

    A step maps the iterate by a map that depends on a batch, adds Gaussian noise, and may project onto a public convex
    set. Nothing else may be published: no earlier iterate, no average, no best or early one, and nothing that was
    computed from them. The start, the number of steps, and all maps but for the batch must not depend on the data, and
    the noise must be fresh: with momentum or adaptive rates a step is not such a map. All iterates together cost
    ``compose((step, count))``, and the result is never above it.

    * Fixed steps, ``step`` a ``Gaussian``: every step reads the record (``batches=1``), or every l-th one
      (``batches=l``). Under add-or-remove-one a record's batch must then depend on that record alone (on a public key,
      or on its own coin): if a position decides it, the removal of one record moves others to other batches.
    * Poisson samples, ``step`` a ``PoissonSampled`` of a ``Gaussian``: every step draws its own sample. It is meant
      under add-or-remove-one and replace-with-null, for one record.

    Args:
      step: the cost of one noisy step, all of whose noise is seen, for a record that is in its batch (or, sampled, may
        be): ``Gaussian(σ/s)`` where the record moves the step by at most s.
      steps: the number of all steps.
      contraction: a Lipschitz constant of the step without its noise, for all data sets and batches.
      batches: l, the number of batches that take turns.
      unread: the number of steps since the record was last read, 0 … ``batches`` − 1. With 0, the worst one, the bound
        holds for all records: that of the last batch is what others pay, less what later noise hides.
      diameter: D/s, of a public set that all iterates are projected onto, in units of the most that one record moves a
        step.

    Returns:
      A Gaussian event; ``GaussianDP`` with a ``diameter``; for samples a composition of ``MixtureOfGaussians``.

    Raises:
      UnsupportedEventError: the step is not a ``Gaussian``, or a ``PoissonSampled`` of one.
      InvalidArgumentError: an argument outside its domain.

    Example: 40 batches and 200 epochs; all iterates together cost ε = 168.

      >>> from hockeystick.accounting import Gaussian, PoissonSampled, epsilon, last_iterate
      >>> event = last_iterate(Gaussian(1.5), 8000, contraction=0.9998, batches=40)
      >>> round(epsilon(event, 1e-5).upper, 3)
      7.086
      >>> sampled = PoissonSampled(0.01, Gaussian(2.0))
      >>> round(epsilon(last_iterate(sampled, 100_000, contraction=1.0, diameter=10.0), 1e-5).upper, 2)
      1.24
    """
    check_event(step)
    t = validate.integer("steps", steps, low=1, high=validate.MOST)
    c = (contraction if isinstance(contraction, Contraction) else Contraction.proved(contraction)).factor
    n = validate.integer("batches", batches, low=1, high=t)
    rest = validate.integer("unread", unread, low=0, high=n - 1)
    apart = validate.real("diameter", diameter, low=0.0, low_open=True, allow_inf=True)
    if isinstance(step, PoissonSampled) and isinstance(step.event, Gaussian) and step.direction == "both":
        if n > 1:
            raise InvalidArgumentError(
                "batches", batches, "can't be combined with Poisson samples, which are drawn anew in each step", "use 1"
            )
        if step.probability < 1.0:
            return sampled_last_iterate(step.probability, step.event.noise_multiplier, t, c, apart)
        step = step.event
    if not isinstance(step, Gaussian):
        raise UnsupportedEventError(
            f"{step} has no bound for the last iterate alone: give a Gaussian, or a PoissonSampled of one, or charge "
            "all iterates"
        )
    mu = _mu(step.noise_multiplier, t, c, n, rest, apart)
    return Gaussian(quotient_down(1.0, mu)) if apart == math.inf else GaussianDP(mu)


def _mu(noise: float, t: int, c: float, batches: int, unread: int, diameter: float) -> float:
    """Returns the Gaussian parameter for a record that every ``batches``-th step reads, with ``unread`` steps after."""
    uses = -(-(t - unread) // batches)
    if diameter == math.inf and c <= 1.0 and batches == 1:
        if c == 1.0:
            return math.sqrt(t) / noise * (1 + 1e-15)  # root and quotient are off by U each
        # [(1 − c^t)/(1 + c^t)]·[(1 + c)/(1 − c)]; log is off by 2 U, tanh by 4 U.
        half = -math.log(c) / 2
        return math.sqrt(math.tanh(t * half) / math.tanh(half)) / noise * (1 + 4e-15)
    if diameter == math.inf and c == 1.0:
        # Two quotients, a sum, a root and a quotient are off by U each.
        return math.sqrt((uses - 1) / batches + 1.0 / (1 + unread)) / noise * (1 + 2e-15)
    apart = 0.0
    if uses > _MOST_USES:
        earlier, uses = uses - _MOST_USES, _MOST_USES
        growth = c ** (batches - 1) if c <= 1.0 or batches * math.log(c) < 600.0 else math.inf
        apart = min(diameter, worst_distance(c**batches, earlier) * growth)
        if apart == math.inf:
            reason = f"reads a record more than {_MOST_USES} times while distances grow"
            raise InvalidArgumentError("steps", t, reason, "give fewer steps, or a diameter")
    # Two steps for each use: the one that reads the record, and all those after it that don't, as one.
    after = np.full(uses, batches - 1)
    after[-1] = unread
    # Powers are off by 2 U, the last quotient below by U.
    factors = np.stack([np.full(uses, c), c**after * (1 + 1e-14)], axis=1)
    hidden = np.full(uses, _merged_noise(c, batches - 1))
    hidden[-1] = _merged_noise(c, unread)
    kept = np.stack([np.ones(uses, bool), after > 0], axis=1)
    moves = np.stack([np.ones(uses), np.zeros(uses)], axis=1)
    noises = np.stack([np.ones(uses), hidden], axis=1)
    mu = least_mu(moves[kept], factors[kept], noises[kept], diameter=diameter, apart=apart)
    return mu / noise * (1 + 1e-15)  # the quotient is off by U


def _merged_noise(c: float, steps: int) -> float:
    """Returns the standard deviation of n steps' noise, of 1 each and contracted by the later ones, rounded down."""
    slack = 1e-14 if c <= 1.0 else 1e-12  # c^n is off by n·ln c rounding errors
    return math.sqrt(power_sum(2.0 * math.log(c), steps)) * (1 - slack)
