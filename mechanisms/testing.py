"""Help for tests of mechanisms: a check of the protocol, and the released path as a target of audits."""

from __future__ import annotations

from typing import Any

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from hockeystick.accounting import NO_EVENT, PrivacyEvent
from hockeystick.mechanisms.contract.protocol import Mechanism
from hockeystick.mechanisms.randomness.noise import SimulationNoise
from hockeystick.mechanisms.release import Releasable


@frozen
class Released:
    """A mechanism whose outputs are those of ``mechanism.release``, one call per run, with seeded noise.

    An audit of it tests the code of the release, bit by bit; an audit of the mechanism itself tests its simulation.

    Example:
      >>> from hockeystick.audits import audit
      >>> from hockeystick.mechanisms import Laplace
      >>> audit(Released(Laplace(1.0)), samples=2_000, bits=True, rng=1).refuted
      False
    """

    mechanism: Releasable

    def event(self) -> PrivacyEvent:
        """Returns the mechanism's own event."""
        return self.mechanism.event()

    def simulate(self, value: Any, rng: np.random.Generator, runs: int) -> NDArray[Any]:
        """Returns an array of ``runs`` releases of one value."""
        noise = SimulationNoise(rng)
        return np.array([self.mechanism.release(value, noise=noise) for _ in range(runs)])

    def worst_case_neighbours(self) -> tuple[Any, Any]:
        """Returns those of the mechanism."""
        return self.mechanism.worst_case_neighbours()  # type: ignore[attr-defined, no-any-return]


def check_mechanism(mechanism: Mechanism, value: Any, *, runs: int = 100) -> None:
    """Raises unless ``mechanism`` satisfies the protocol ``Mechanism`` on ``value``.

    The event has to be a hashable value, the same at each call, and to cost nothing at distance 0. The outputs have to
    have the runs on their leading axis, to vary between runs, and to repeat with the generator's seed. Whether the
    event is *true* is another question, which an audit answers.

    Args:
      mechanism: the mechanism.
      value: a valid noiseless value.
      runs: the number of outputs to draw; enough that they can't all be equal by chance.

    Raises:
      AssertionError: a requirement is not met; the message says which.

    Example:
      >>> from hockeystick.mechanisms import Laplace, check_mechanism
      >>> check_mechanism(Laplace(1.0), 42.0)  # no error: it satisfies the protocol
    """
    event = mechanism.event()
    _require(isinstance(event, PrivacyEvent), f"event() returned {event!r}, which is not a PrivacyEvent")
    _require(hash(event) == hash(mechanism.event()) and event == mechanism.event(), "event() is not one value")
    _require(event.at(1) == event and event.at(0) == NO_EVENT, "event() is not normalised per unit of distance")

    def draw(seed: int, count: int) -> NDArray[Any]:
        return np.asarray(mechanism.simulate(value, np.random.default_rng(seed), count))

    first, again, other = draw(1, runs), draw(1, runs), draw(2, runs)
    _require(first.shape[:1] == (runs,), f"simulate returned shape {first.shape} for {runs} runs")
    _require(np.array_equal(first, again), "simulate does not repeat with the generator's seed")
    _require(not np.array_equal(first, other), "simulate draws the same under two seeds: it does not use the generator")
    _require(len(np.unique(first, axis=0)) > 1, f"all {runs} runs gave the same output")
    one = draw(1, 1)
    _require(one.shape == (1, *first.shape[1:]), f"simulate returned shape {one.shape} for one run")


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise AssertionError(message)
