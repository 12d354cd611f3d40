"""What a mechanism is: it says what it costs (``event``) and shows what it would publish (``simulate``).

A class with these two methods is a mechanism; nothing is registered and nothing inherited. This is a whole one:

>>> import numpy as np
>>> from attrs import frozen
>>> from hockeystick.accounting import PureDP, epsilon
>>> from hockeystick.mechanisms.contract.protocol import Mechanism
>>> from hockeystick.mechanisms.testing import check_mechanism
>>> @frozen
... class Geometric:
...     '''A count plus two-sided geometric noise: P(noise = z) in proportion to e^(-rate |z|).'''
...
...     rate: float  # the count moves by at most 1 when one record is added, removed or replaced
...
...     def event(self):
...         return PureDP(self.rate)
...
...     def simulate(self, value, rng, runs):
...         p = -np.expm1(-self.rate)
...         return value + rng.geometric(p, runs) - rng.geometric(p, runs)
>>> noisy_count = Geometric(0.5)
>>> isinstance(noisy_count, Mechanism)
True
>>> check_mechanism(noisy_count, 42)
>>> float(epsilon(noisy_count.event(), 0.0))
0.5

More is optional and makes more possible: with ``worst_case_neighbours`` and ``log_likelihood_ratio`` an audit needs no
other input (``AuditableMechanism``), and ``accuracy(beta)`` tells how far off an answer may be. Every mechanism of this
package has the first two, ``accuracy`` where its output estimates something, and ``release``, see ``release.py``.

Sensitivity is handled once. A mechanism's ``scale`` and ``sensitivity`` are in the units of its output; its event is
per unit of distance between data sets, so ``event()`` is one record and ``event().at(k)`` is a group of k records. What
``sensitivity`` has to bound is stated by each mechanism for the neighbouring relation in use: under add-or-remove-one
the largest change of the noiseless value when one record is added or removed, under replace-one when one record takes
any other value. For the same query the second can be up to twice the first.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from hockeystick.accounting import PrivacyEvent


@runtime_checkable
class Mechanism(Protocol):
    """A randomised map from a noiseless value to an output. Structural: any class with these methods is one."""

    def event(self) -> PrivacyEvent:
        """Returns what one release costs, normalised: ``event().at(k)`` is the cost for k changed records."""

    def simulate(self, value: Any, rng: np.random.Generator, runs: int) -> Any:
        """Returns ``runs`` independent outputs for one value, as an array with the runs on its leading axis.

        For audits, experiments and tests only: ``rng`` can be seeded, so these outputs are no releases.
        """


@runtime_checkable
class AuditableMechanism(Mechanism, Protocol):
    """A mechanism that brings along all that a membership-inference test needs."""

    def worst_case_neighbours(self) -> tuple[Any, Any]:
        """Returns two values at the largest distance that one record can make, where the loss is (nearly) largest."""

    def log_likelihood_ratio(self, output: Any, value0: Any, value1: Any) -> NDArray[np.float64]:
        """Returns ln(P(output | value0) / P(output | value1)), one number a run: the best score of any test.

        ``output`` has runs on its leading axis, as ``simulate`` returns it.
        """
