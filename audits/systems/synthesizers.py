"""Generators of synthetic data as targets: fitted to a data set, they give rows, and the rows are the output."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from attrs import field, frozen

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.validate import integer
from hockeystick.audits.targets.calling import TargetError


@frozen
class Synthesizer:
    """A generator of synthetic data as a target: one output is the table of rows that one fit gives.

    Each run makes a new generator, fits it to a copy of the data set and takes one sample. A generator that is private
    may be sampled any number of times after one fit, so a claim does not depend on ``rows``; more rows show more of the
    fit.

    If a claim is about the fitted model, return that instead: audit ``f(data, rng)``.

    Attributes:
      make: makes a generator, an object with ``fit(table)`` and ``sample(n)``. With a parameter ``seed`` it is called
        as ``make(seed=s)``, and then the outputs repeat; otherwise the generator has randomness of its own, and the
        verdict says so.
      rows: the number of rows of a sample.
      fit: ``fit(generator, table)`` for generators whose ``fit`` takes more arguments; default:
        ``generator.fit(table)``.

    Raises:
      InvalidArgumentError: ``make`` can't be called, or ``rows`` is not positive.

    Example:
      >>> import numpy as np
      >>> import hockeystick as hs
      >>> class Histogram:
      ...     def __init__(self, seed):
      ...         self.rng = np.random.default_rng(seed)
      ...     def fit(self, table):  # noise for half of the claimed epsilon's sensitivity
      ...         counts = np.bincount(table, minlength=3) + self.rng.laplace(scale=0.5, size=3)
      ...         self.shares = np.maximum(counts, 1e-9) / np.maximum(counts, 1e-9).sum()
      ...     def sample(self, n):
      ...         return self.rng.choice(3, size=n, p=self.shares)
      >>> target = hs.targets.Synthesizer(Histogram, rows=50)
      >>> hs.audit(target, claim=(0.5, 0.0), neighbours=([0, 0, 1], [0, 0, 1, 2]), samples=2000, rng=1).outcome
      'refuted'
    """

    make: Callable[..., Any]
    rows: int = field(default=100, kw_only=True)
    fit: Callable[[Any, Any], object] | None = field(default=None, kw_only=True)
    repeatable: bool = field(init=False)

    def __attrs_post_init__(self) -> None:
        if not callable(self.make):
            raise InvalidArgumentError("make", self.make, "can't be called", "give a class or function of a generator")
        integer("rows", self.rows, low=1)
        object.__setattr__(self, "repeatable", _takes_seed(self.make))

    def __call__(self, data: Any, rng: np.random.Generator) -> Any:
        """Returns the rows of one fit to ``data``.

        Raises:
          TargetError: the generator has no ``fit`` or ``sample``, or returned another number of rows.
        """
        seed = int(rng.integers(1 << 31))
        generator: Any = self.make(seed=seed) if self.repeatable else self.make()
        for name in ("fit", "sample"):
            if not callable(getattr(generator, name, None)):
                raise TargetError(f"make returned a {type(generator).__name__}, which has no method {name}")
        table = copy.deepcopy(data)
        if self.fit is None:
            generator.fit(table)
        else:
            self.fit(generator, table)
        found = generator.sample(self.rows)
        if hasattr(found, "__len__") and len(found) != self.rows:
            raise TargetError(f"the generator returned {len(found)} rows for {self.rows}")
        return found


def _takes_seed(make: Callable[..., Any]) -> bool:
    try:
        return "seed" in inspect.signature(make).parameters
    except (TypeError, ValueError):  # some builtins have no signature
        return False
