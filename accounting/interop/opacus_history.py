"""The event of the history that an Opacus accountant records: (noise multiplier, sample rate, steps)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hockeystick.accounting import validate
from hockeystick.accounting.errors import InvalidArgumentError
from hockeystick.accounting.events.basic.composition import compose
from hockeystick.accounting.events.basic.declared import NonPrivate
from hockeystick.accounting.events.basic.event import NO_EVENT, PrivacyEvent
from hockeystick.accounting.events.noise.gaussian_laplace import Gaussian
from hockeystick.accounting.events.sampling.poisson import PoissonSampled
from hockeystick.accounting.interop.loader_sampling import sampling_of


def from_opacus(history: object, *, loader: object = None) -> PrivacyEvent:
    """Returns the event of a training run, under add-or-remove-one.

    Each row is a number of steps with Gaussian noise on a Poisson sample, as in Opacus' ``PrivacyEngine`` with
    ``poisson_sampling=True``. Shuffled batches are not Poisson samples and have another cost.

    Args:
      history: an Opacus accountant, its ``state_dict()``, or its list of (noise multiplier, sample rate, steps).
      loader: the loader that training drew its batches from, if it should be checked that they are Poisson samples;
        see ``sampling_of``. A history does not tell.

    Raises:
      InvalidArgumentError: not a history, a row outside its domain, or a loader of other samples, or of unknown ones.

    Example:
      >>> from hockeystick.accounting import delta, from_opacus
      >>> round(delta(from_opacus([(1.1, 0.03, 100)]), 1.0).upper, 5)
      0.00104
    """
    if loader is not None and (seen := sampling_of(loader)) != "poisson":
        reason = "draws batches that are not Poisson samples, as which the history counts them"
        remedy = f'charge hockeystick.DPSGD(records, batch, epochs, clip=C, sampling="{seen}")'
        raise InvalidArgumentError("loader", seen, reason, remedy)
    rows = history.get("history") if isinstance(history, Mapping) else getattr(history, "history", history)
    if not isinstance(rows, Iterable) or isinstance(rows, (str, bytes)):
        raise InvalidArgumentError("history", history, "is not a history", "give the accountant, or its state_dict()")
    parts = []
    for i, row in enumerate(rows):
        if not isinstance(row, (tuple, list)) or len(row) != 3:
            remedy = "give (noise multiplier, sample rate, steps)"
            raise InvalidArgumentError(f"history[{i}]", row, "is not a row of three numbers", remedy)
        parts.append((_step(i, row[0], row[1]), validate.integer(f"history[{i}] steps", row[2], low=0)))
    return compose(*parts)


def _step(i: int, noise: object, rate: object) -> PrivacyEvent:
    multiplier = validate.real(f"history[{i}] noise multiplier", noise, low=0.0)
    probability = validate.probability(f"history[{i}] sample rate", rate)
    if probability == 0.0:
        return NO_EVENT
    if multiplier == 0.0:
        return NonPrivate()
    return Gaussian(multiplier) if probability == 1.0 else PoissonSampled(probability, Gaussian(multiplier))
