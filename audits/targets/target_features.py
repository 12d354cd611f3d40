"""Statistics that a target computes from its own outputs, such as the exact log-likelihood ratio.

By Neyman and Pearson (1933) the events "the likelihood ratio is at least t" are the most powerful of all, so a target
that can compute the ratio needs no search. The ratio and the statistics are functions of the output and of two data
sets that are fixed beforehand, whichever of the two the output was drawn on. So they are post-processing, which
preserves every claim of differential privacy. A wrong ratio costs power and nothing else, and the audit also uses the
outputs themselves.
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

VALUE = "value"  # name of the outputs themselves, beside their statistics
_CHECKED = 256  # calls with at most so many runs have their statistics computed twice
_STEP = 2.0**-20  # of the rounded ratio: a value that recurs stays one value in spite of round-off


@frozen(eq=False)
class WithStatistics:
    """A target whose outputs come with its own statistics and log-likelihood ratio.

    Args:
      target: has ``simulate(value, rng, runs)``, and ``log_likelihood_ratio(outputs, d0, d1)`` or
        ``audit_statistics(outputs)``, which returns a mapping from names to arrays with runs on their leading axis.
      d0, d1: the two data sets; the ratio is ln(P(output | d0) / P(output | d1)), infinite where one of them is 0.

    Raises:
      InvalidArgumentError: the target has neither method, or can't be called for many runs at a time.

    Example:
      >>> import numpy as np
      >>> import hockeystick as hs
      >>> target = hs.audits.WithStatistics(hs.mechanisms.Laplace(scale=1.0), 0.0, 1.0)
      >>> sorted(target.simulate(0.0, np.random.default_rng(1), 3))
      ['log_likelihood_ratio', 'value']
    """

    target: Any
    d0: Any = field(repr=False)
    d1: Any = field(repr=False)
    _called: Target = field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        if not offers_statistics(self.target):
            raise InvalidArgumentError(
                "target", self.target, f"has neither {RATIO}(outputs, d0, d1) nor {STATISTICS}(outputs)",
                "audit the target itself",
            )  # fmt: skip
        called = Target.of(self.target)
        if not called.vectorised:
            raise InvalidArgumentError(
                "target", self.target, "is called once per output", "give simulate(value, rng, runs)"
            )
        object.__setattr__(self, "_called", called)

    def simulate(self, value: Any, rng: np.random.Generator, runs: int) -> dict[str, Any]:
        """Returns the statistics of ``runs`` outputs, and the outputs themselves if they are an array.

        Raises:
          TargetError: a statistic is not one number or array per run, a ratio is NaN, or a second computation from the
            same outputs gives something else.
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
        values = {VALUE: outputs} if isinstance(outputs, np.ndarray) and outputs.shape[:1] == (runs,) else {}
        return {**values, **found}

    def _statistics(self, outputs: Any, runs: int) -> dict[str, FloatArray]:
        found: dict[str, FloatArray] = {}
        statistics = getattr(self.target, STATISTICS, None)
        if callable(statistics):
            named = statistics(outputs)
            if not isinstance(named, Mapping):
                raise TargetError(f"{STATISTICS} returned a {type(named).__name__}: return a dict of names and arrays")
            for name, values in named.items():
                if name in (VALUE, RATIO):
                    raise TargetError(f"{STATISTICS} returned a statistic named {name!r}: use another name")
                found[str(name)] = _per_run(str(name), values, runs)
        ratio = getattr(self.target, RATIO, None)
        if callable(ratio):
            try:
                values = _per_run(RATIO, ratio(outputs, self.d0, self.d1), runs)
            except UnsupportedEventError:  # a target made of others may find that one of them has no ratio
                return found
            if values.ndim != 1:
                raise TargetError(f"{RATIO} returned shape {values.shape}: return one number for each of {runs} runs")
            if np.isnan(values).any():
                raise TargetError(f"{RATIO} is NaN in {np.isnan(values).sum()} of {runs} runs: return a real ratio")
            with np.errstate(invalid="ignore"):
                found[RATIO] = np.where(np.abs(values) < 1e9, np.round(values / _STEP) * _STEP + 0.0, values)
        return found


def _per_run(name: str, values: Any, runs: int) -> FloatArray:
    array = np.asarray(values)
    if array.dtype.kind not in "biuf" or array.ndim == 0 or len(array) != runs:
        raise TargetError(
            f"{name} returned an array of {array.dtype} with shape {array.shape}: return numbers, with {runs} runs on "
            "the leading axis"
        )
    return array.astype(np.float64)


def offers_statistics(target: object) -> bool:
    """Returns whether a target has statistics or a log-likelihood ratio of its own."""
    return any(callable(getattr(target, name, None)) for name in (RATIO, STATISTICS))


def with_statistics(target: Any, neighbours: tuple[Any, Any]) -> Any:
    """Returns the target with its own statistics (:class:`WithStatistics`), if it has any and draws many runs a call.

    Any other target is returned unchanged.

    Example:
      >>> import hockeystick as hs
      >>> target = hs.mechanisms.Laplace(scale=1.0)  # has log_likelihood_ratio
      >>> type(hs.audits.with_statistics(target, (0.0, 1.0))).__name__
      'WithStatistics'
    """
    simulate: Callable[..., Any] | None = getattr(target, "simulate", None)
    if isinstance(target, type) or not callable(simulate) or not offers_statistics(target):
        return target
    return WithStatistics(target, *neighbours)
