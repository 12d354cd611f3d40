"""Auditing through one statistic of the output that is known to tell the two data sets apart.

Whoever knows where a violation would show says so: an event, a score, or the likelihood ratio of the two output laws.
Then hardly any samples are spent on the search, and an audit comes near the limit that Neyman and Pearson set. A
statistic is post-processing, so whatever it is, right or wrong, an audit through it raises no false alarm; a bad one
only finds nothing.
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
    """What is looked at in each output.

    Attributes:
      function: of an output, or of a batch of outputs if the target is vectorised.
      best: whether it is the likelihood ratio: any threshold will nearly do.
    """

    function: Statistic
    best: bool

    @classmethod
    def of(cls, statistic: object, target: object, data: tuple[Any, Any]) -> Look:
        """Returns how to look at outputs of ``target`` on the data sets ``data``.

        Raises:
          InvalidArgumentError: neither callable nor "likelihood ratio", or the target has no likelihood ratio.
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
        """Returns how many outputs to spend on the choice of an event, of ``total`` from each data set."""
        return max(1, min(10, total // 2), total // 50 if binary else total // (20 if self.best else 8))

    def through(self, target: Target) -> Target:
        """Returns the target whose outputs are the statistic of those of ``target``."""
        return Target(_Through(target, self.function), target.vectorised, target.catch)


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
