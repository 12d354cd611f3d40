"""The protocol of mechanisms: ``event`` states the privacy cost, ``simulate`` draws outputs.

Any class with these two methods is a mechanism; there is no registry and no base class. A complete example:

>>> import numpy as np
>>> from attrs import frozen
>>> from hockeystick.accounting import PureDP, epsilon
>>> from hockeystick.mechanisms.contract.protocol import Mechanism
>>> from hockeystick.mechanisms.testing import check_mechanism
>>> @frozen
... class Geometric:
...     '''A count plus two-sided geometric noise: P(noise = z) ∝ e^(-rate |z|).'''
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

Further methods are optional. With ``worst_case_neighbours`` and ``log_likelihood_ratio`` an audit needs no other input
(``AuditableMechanism``), and ``accuracy(beta)`` bounds the error of an answer. Every mechanism of this package has the
first two, ``release`` (see ``release.py``), and ``accuracy`` where its output estimates something.

Sensitivity is handled once. A mechanism's ``scale`` and ``sensitivity`` are in the units of its output. Its event is
per unit of distance between data sets: ``event()`` is the cost for one record, ``event().at(k)`` for a group of k
records. Each mechanism states what ``sensitivity`` has to bound under the neighbouring relation in use: the largest
change of the noiseless value when one record is added or removed (add-or-remove-one), or when one record takes any
other value (replace-one). For the same query the second can be up to twice the first.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from hockeystick.accounting import PrivacyEvent


@runtime_checkable
class Mechanism(Protocol):
    """A randomised map from a noiseless value to an output. Any class with these methods is one.

    The module's docstring has an example.
    """

    def event(self) -> PrivacyEvent:
        """Returns the cost of one release, normalised: ``event().at(k)`` is the cost for k changed records."""

    def simulate(self, value: Any, rng: np.random.Generator, runs: int) -> Any:
        """Returns ``runs`` independent outputs for one value, as an array with the runs on its leading axis.

        For audits, experiments and tests only: ``rng`` can be seeded, so these outputs are not releases.
        """


@runtime_checkable
class AuditableMechanism(Mechanism, Protocol):
    """A mechanism with all that a membership-inference test needs.

    Example:
      >>> from hockeystick.mechanisms import AuditableMechanism, Laplace, Mechanism
      >>> isinstance(Laplace(1.0), Mechanism), isinstance(Laplace(1.0), AuditableMechanism)
      (True, True)
      >>> Laplace(1.0).worst_case_neighbours()
      (0.0, 1.0)
    """

    def worst_case_neighbours(self) -> tuple[Any, Any]:
        """Returns two neighbouring values at the largest distance, where the privacy loss is (nearly) largest."""

    def log_likelihood_ratio(self, output: Any, value0: Any, value1: Any) -> NDArray[np.float64]:
        """Returns ln(P(output | value0) / P(output | value1)), one number per run: the optimal score of a test.

        ``output`` has the runs on its leading axis, as ``simulate`` returns it.
        """
