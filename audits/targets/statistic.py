"""Audits through one statistic of the output that is known to distinguish the two data sets.

The statistic is an event, a score, or the likelihood ratio of the two output laws. Hardly any samples are then needed
for the search, and the audit comes near the limit of Neyman and Pearson. A statistic is post-processing, so any
statistic preserves the false-alarm rate; a bad one only detects nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from attrs import frozen

from hockeystick.accounting import InvalidArgumentError
from hockeystick.audits.targets.calling import Raised, Target, TargetError

Statistic = Callable[[Any], Any]
LIKELIHOOD_RATIO: Literal["likelihood ratio"] = "likelihood ratio"


@frozen
class Look:
    """The statistic through which an audit sees each output.

    Attributes:
      function: a function of an output, or of a batch of outputs if the target is vectorised.
      best: whether it is the likelihood ratio, for which nearly any threshold will do.
    """

    function: Statistic
    best: bool

    @classmethod
    def of(cls, statistic: object, target: object, data: tuple[Any, Any]) -> Look:
        """Returns the statistic of outputs of ``target`` on the data sets ``data``.

        Raises:
          InvalidArgumentError: ``statistic`` is neither callable nor "likelihood ratio", or the target has no ratio.
        """
        if callable(statistic):
            return cls(statistic, best=False)
        ratio = getattr(target, "log_likelihood_ratio", None)
        if statistic != LIKELIHOOD_RATIO:
            raise InvalidArgumentError(
                "statistic", statistic, "is unknown", f"give a function of outputs, or {LIKELIHOOD_RATIO!r}"
            )
        if not callable(ratio):
            raise InvalidArgumentError(
                "statistic", statistic, "needs a target with log_likelihood_ratio(outputs, d0, d1)", "give a function"
            )
        d0, d1 = data
        return cls(lambda outputs: ratio(outputs, d0, d1), best=True)

    def samples(self, total: int, *, binary: bool) -> int:
        """Returns how many of ``total`` outputs from each data set choose the event."""
        return max(1, min(10, total // 2), total // 50 if binary else total // (20 if self.best else 8))

    def through(self, target: Target) -> Target:
        """Returns a target whose outputs are the statistics of the outputs of ``target``."""
        return Target(_Through(target, self.function), target.vectorised, target.catch, target.most)


@frozen
class _Through:
    target: Target
    function: Statistic

    def __call__(self, *arguments: Any) -> Any:
        outputs = self.target.call(*arguments)
        if isinstance(outputs, Raised):
            return outputs
        found = np.asarray(self.function(outputs))
        wanted = (arguments[-1],) if self.target.vectorised else ()
        if found.shape != wanted or found.dtype.kind not in "biuf":
            raise TargetError(
                f"statistic returned {found.dtype} of shape {found.shape}: it must be one number or bool "
                + ("per run" if wanted else "per output")
            )
        return {"statistic": found}
