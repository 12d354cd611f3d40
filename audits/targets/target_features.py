"""What a target knows of its own outputs: statistics, and the exact log-likelihood ratio.

By Neyman and Pearson (1933) the events "the likelihood ratio is at least t" are the most powerful of all, so a target
that can compute the ratio needs no search. The ratio and the statistics are functions of the output and of two data
sets that are fixed beforehand, the same on whichever of the two the output was drawn: post-processing, under which
every claim of differential privacy holds on. A wrong ratio costs power and nothing else, and the outputs themselves are
still looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from attrs import field, frozen

from hockeystick.accounting import InvalidArgumentError, UnsupportedEventError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.audits.targets.calling import Target, TargetError

RATIO = "log_likelihood_ratio"
STATISTICS = "audit_statistics"

_VALUE = "value"  # what outputs that are kept are called beside their statistics
_CHECKED = 256  # runs of a call whose statistics are computed twice
_STEP = 2.0**-20  # the ratio is rounded to: what it takes with high probability is one value, not a cloud


@frozen(eq=False)
class WithStatistics:
    """A target whose outputs come with its own statistics and log-likelihood ratio.

    Args:
      target: has ``simulate(value, rng, runs)``, and ``log_likelihood_ratio(outputs, d0, d1)`` or
        ``audit_statistics(outputs)``, which gives a mapping from names to arrays with runs on their leading axis.
      d0, d1: the two data sets; the ratio is ln(P(output | d0) / P(output | d1)), infinite where one of them is 0.

    Raises:
      InvalidArgumentError: the target offers neither, or can't be called for many runs at a time.
    """

    target: Any
    d0: Any = field(repr=False)
    d1: Any = field(repr=False)
    _called: Target = field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        if not offers_statistics(self.target):
            raise InvalidArgumentError(
                "target", self.target, f"has neither {RATIO}(outputs, d0, d1) nor {STATISTICS}(outputs)",
                "audit it as it is",
            )  # fmt: skip
        called = Target.of(self.target)
        if not called.vectorised:
            raise InvalidArgumentError(
                "target", self.target, "is called once per output", "give simulate(value, rng, runs)"
            )
        object.__setattr__(self, "_called", called)

    def simulate(self, value: Any, rng: np.random.Generator, runs: int) -> dict[str, Any]:
        """Returns the outputs, where they are arrays, and what the target says of them.

        Of other outputs, transcripts say, only what the target says is kept.

        Raises:
          TargetError: a statistic is not one number or array per run, a ratio is NaN, or another on a second look.
        """
        outputs = self._called.call(value, rng, runs)
        found = self._statistics(outputs, runs)
        if runs <= _CHECKED:
            again = self._statistics(outputs, runs)
            changed = [n for n in found if n not in again or not np.array_equal(found[n], again[n], equal_nan=True)]
            if changed or len(again) != len(found):
                raise TargetError(
                    f"{', '.join(changed) or STATISTICS} changed when computed again from the same outputs: a "
                    "statistic must be a function of the output alone"
                )
        kept = {_VALUE: outputs} if isinstance(outputs, np.ndarray) and outputs.shape[:1] == (runs,) else {}
        return {**kept, **found}

    def _statistics(self, outputs: Any, runs: int) -> dict[str, FloatArray]:
        found: dict[str, FloatArray] = {}
        statistics = getattr(self.target, STATISTICS, None)
        if callable(statistics):
            told = statistics(outputs)
            if not isinstance(told, Mapping):
                raise TargetError(f"{STATISTICS} gave a {type(told).__name__}: give a mapping from names to arrays")
            for name, values in told.items():
                if name in (_VALUE, RATIO):
                    raise TargetError(f"{STATISTICS} gave a statistic named {name!r}: take another name")
                found[str(name)] = _per_run(str(name), values, runs)
        ratio = getattr(self.target, RATIO, None)
        if callable(ratio):
            try:
                values = _per_run(RATIO, ratio(outputs, self.d0, self.d1), runs)
            except UnsupportedEventError:  # one that is made of others may find that they have none
                return found
            if values.ndim != 1:
                raise TargetError(f"{RATIO} gave an array of shape {values.shape}, not one number for each of {runs}")
            if np.isnan(values).any():
                raise TargetError(
                    f"{RATIO} is NaN in {np.isnan(values).sum()} of {runs} runs: no ratio of densities is"
                )
            with np.errstate(invalid="ignore"):
                found[RATIO] = np.where(np.abs(values) < 1e9, np.round(values / _STEP) * _STEP + 0.0, values)
        return found


def _per_run(name: str, values: Any, runs: int) -> FloatArray:
    array = np.asarray(values)
    if array.dtype.kind not in "biuf" or array.ndim == 0 or len(array) != runs:
        raise TargetError(
            f"{name} gave an array of {array.dtype} with shape {array.shape}: give numbers, with {runs} runs on the "
            "leading axis"
        )
    return array.astype(np.float64)


def offers_statistics(target: object) -> bool:
    """Whether a target brings along statistics or its log-likelihood ratio."""
    return any(callable(getattr(target, name, None)) for name in (RATIO, STATISTICS))


def with_statistics(target: Any, neighbours: tuple[Any, Any]) -> Any:
    """Returns the target with what it knows of its outputs; itself if it knows nothing, or draws one at a time."""
    simulate: Callable[..., Any] | None = getattr(target, "simulate", None)
    if isinstance(target, type) or not callable(simulate) or not offers_statistics(target):
        return target
    return WithStatistics(target, *neighbours)
