"""The mechanism that selects partitions, and the choice of its rule by public sizes.

Sources: Desfontaines, Voss, Gipson & Mandayam 2022 (the optimal rule); Korolova, Kenthapadi, Mishra & Ntoulas 2009 and
Google's library of differential privacy (thresholds); for δ of thresholds in a composition see
``accounting.ThresholdedCounts``.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from attrs import field, frozen
from numpy.typing import ArrayLike

from hockeystick.accounting import (
    Adjacency,
    InvalidArgumentError,
    InvalidDataError,
    NumericalError,
    PrivacyEvent,
    UnsupportedAdjacencyError,
)
from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.accounting.validate import boolean, integer, one_of, probability
from hockeystick.mechanisms.contract import arguments
from hockeystick.mechanisms.numbers.added_integers import whole_numbers
from hockeystick.mechanisms.partitions.calibration import rules
from hockeystick.mechanisms.partitions.rules import OptimalRule, ThresholdRule
from hockeystick.mechanisms.randomness.noise import Noise, SimulationNoise
from hockeystick.mechanisms.release import Releasable

Rule = Literal["auto", "optimal", "laplace", "gaussian"]
MOST_PARTITIONS = 1024
_STEEP = 0.1  # the probability at which the optimal rule is watched


def _partitions(value: int) -> int:
    return integer("partitions", value, low=1, high=MOST_PARTITIONS)


def _relation(value: Adjacency) -> Adjacency:
    if value not in (Adjacency.ADD_OR_REMOVE_ONE, Adjacency.REPLACE_ONE):
        raise UnsupportedAdjacencyError(f"partitions are selected under add-or-remove-one or replace-one, not {value}")
    return value


@frozen(kw_only=True)
class PartitionSelection(Releasable):
    """The private selection of partitions: of the keys that occur in a table, those that many persons have.

    A list of the keys of a table is not private: a key that one person alone has tells that she is there. This
    mechanism takes the number of persons of each key, and shows a key with a probability that grows with it. A person
    counts once in a key, and in at most ``partitions`` of them, which are chosen by her own rows alone (see
    ``BoundedHistogram``). Neighbours differ by one person.

    An output has one whole number for each key: 0 for a key that is not to be shown, nor mentioned; for others 1, or
    the noisy number of persons under a ``ThresholdRule``. Such a number is at least the threshold, so it is too large
    on average, the more so the fewer the persons.

    Args:
        rule: An ``OptimalRule`` or a ``ThresholdRule``. ``calibrated`` finds the best one.
        partitions: m, the largest number of keys of a person, at most 1024.
        adjacency: Add-or-remove-one or replace-one, of persons.

    Raises:
        InvalidArgumentError: an argument is outside its domain.
        UnsupportedAdjacencyError: another relation.

    Example:
        >>> from hockeystick.mechanisms import PartitionSelection, SimulationNoise
        >>> one = PartitionSelection.calibrated(epsilon=1.0, delta=1e-6)
        >>> one.rule, one.half()  # keys of 14 persons are shown with probability 1/2 or more
        (OptimalRule(epsilon=1.0, delta=1e-06), 14)
        >>> ten = PartitionSelection.calibrated(epsilon=1.0, delta=1e-6, partitions=10)
        >>> ten.rule.law, ten.half()
        ('gaussian', 71)
        >>> ten.release([900, 120, 3, 1], noise=SimulationNoise(1)).tolist()
        [900, 142, 0, 0]
    """

    rule: OptimalRule | ThresholdRule = field()
    partitions: int = field(default=1, converter=_partitions)
    adjacency: Adjacency = field(default=Adjacency.ADD_OR_REMOVE_ONE, converter=_relation)

    @rule.validator
    def _known(self, _: Any, rule: object) -> None:
        if not isinstance(rule, (OptimalRule, ThresholdRule)):
            raise InvalidArgumentError("rule", rule, "is not a rule", "give an OptimalRule or a ThresholdRule")

    @classmethod
    def calibrated(
        cls,
        *,
        epsilon: float,
        delta: float,
        partitions: int = 1,
        adjacency: Adjacency = Adjacency.ADD_OR_REMOVE_ONE,
        rule: Rule = "auto",
        counts: bool = False,
    ) -> PartitionSelection:
        """Returns the mechanism that shows keys of the fewest persons and is (ε, δ)-DP; see ``choose_partitions``."""
        return choose_partitions(
            epsilon=epsilon, delta=delta, partitions=partitions, adjacency=adjacency, rule=rule, counts=counts
        ).mechanism

    def half(self) -> int:
        """Returns the least number of persons with which a key is shown with probability 1/2 or more."""
        return self.rule.half()

    def keep_probability(self, persons: ArrayLike) -> FloatArray:
        """Returns the probability that a key is shown, for each number of persons of a list.

        Raises:
            InvalidDataError: the numbers are not whole numbers ≥ 0.
        """
        return self.rule.probabilities(self._checked(persons))

    def event(self) -> PrivacyEvent:
        """Returns the cost for one person."""
        return self.rule.event(self.partitions, replacement=self.adjacency is Adjacency.REPLACE_ONE)

    def _relation(self) -> Adjacency:
        return self.adjacency

    def simulate(self, value: ArrayLike, rng: np.random.Generator, runs: int) -> IntArray:
        """Returns outputs (runs, k) for the numbers of persons of k keys.

        Raises:
            InvalidDataError: the numbers are not whole numbers ≥ 0.
            InvalidArgumentError: ``runs`` is not an integer ≥ 1, or ``rng`` is not a generator.
        """
        persons, noise = self._checked(value), SimulationNoise(arguments.generator(rng))
        found = np.empty((arguments.run_count(runs, persons.size), persons.size), dtype=np.int64)
        for block in arguments.blocks(len(found), persons.size):
            found[block] = self.rule.draw(np.broadcast_to(persons, found[block].shape), noise)
        return found

    def worst_case_neighbours(self) -> tuple[Any, Any]:
        """Returns the numbers of persons without and with a person, in ``partitions`` keys that others are in, too.

        Under a threshold they are so many that each key is shown. Keys that the person alone has are told apart as
        often as δ says, which outputs rarely show.
        """
        if isinstance(self.rule, ThresholdRule):
            many = self.rule.threshold + int(12 * self.rule.scale) + 1
        else:
            many = int(np.searchsorted(self.rule.probabilities(np.arange(self.half() + 1)), _STEEP))
        count = self.partitions
        if self.adjacency is Adjacency.REPLACE_ONE:
            fewer, more = np.full(count, many), np.full(count, many + 1)
            return np.concatenate([fewer, more]), np.concatenate([more, fewer])
        return np.full(count, many), np.full(count, many + 1)

    def log_likelihood_ratio(self, output: ArrayLike, value0: ArrayLike, value1: ArrayLike) -> FloatArray:
        """Returns ln(P(output | value0) / P(output | value1)) for outputs (runs, k).

        Raises:
            InvalidDataError: the outputs or the numbers of persons do not have this form.
        """
        before, after = self._checked(value0), self._checked(value1)
        drawn = whole_numbers("output", output)
        if before.shape != after.shape or drawn.ndim != 2 or drawn.shape[1:] != before.shape:
            raise InvalidDataError("output", drawn.shape, "is not (runs, keys)", "give outputs of simulate")
        return np.asarray((self.rule.log_masses(drawn, before) - self.rule.log_masses(drawn, after)).sum(axis=1))

    def _checked(self, value: ArrayLike) -> IntArray:
        persons = whole_numbers("value", value)
        if persons.ndim != 1:
            raise InvalidDataError("value", persons.shape, "is not a list", "give a number of persons for each key")
        if (persons < 0).any():
            raise InvalidDataError("value", value, "holds a number below 0", "count the persons of each key")
        return persons

    def _draw(self, checked: IntArray, noise: Noise) -> IntArray:
        return self.rule.draw(checked, noise)


@frozen(kw_only=True)
class PartitionChoice:
    """The rule that shows keys of the fewest persons, and those that it was compared with; see ``choose_partitions``.

    Attributes:
        candidates: One mechanism for each rule that can meet the target, the best first.
    """

    candidates: tuple[PartitionSelection, ...]

    @property
    def mechanism(self) -> PartitionSelection:
        """The chosen mechanism."""
        return self.candidates[0]

    def __str__(self) -> str:
        lines = [f"{_name(one)}: keys of {one.half()} persons are shown half of the time" for one in self.candidates]
        return "\n  ".join(lines)


def _name(mechanism: PartitionSelection) -> str:
    if isinstance(mechanism.rule, OptimalRule):
        return "optimal rule"
    return f"threshold {mechanism.rule.threshold} on counts with {mechanism.rule.law.capitalize()} noise"


def choose_partitions(
    *,
    epsilon: float,
    delta: float,
    partitions: int = 1,
    adjacency: Adjacency = Adjacency.ADD_OR_REMOVE_ONE,
    rule: Rule = "auto",
    counts: bool = False,
) -> PartitionChoice:
    """Returns the rule that shows keys of the fewest persons with probability 1/2, of all that are (ε, δ)-DP.

    Candidates are the optimal rule, with the best split of ε and δ among a person's keys, and thresholds on counts
    with discrete Laplace or discrete Gaussian noise, with the least threshold for the best scale. The comparison takes
    public numbers alone. The optimal rule is best for one or two keys a person, Gaussian noise for more.

    Args:
        epsilon, delta: The target, ε in (0, 100] and δ in [1e-30, 1).
        partitions: m, the largest number of keys of a person.
        adjacency: Add-or-remove-one or replace-one.
        rule: The rule, "optimal", "laplace" or "gaussian", or "auto".
        counts: Whether kept keys need noisy counts, which the optimal rule does not have.

    Raises:
        InvalidArgumentError: an argument is outside its domain.
        NumericalError: no rule can be shown to meet the target.

    Example:
        >>> from hockeystick.mechanisms import choose_partitions
        >>> print(choose_partitions(epsilon=1.0, delta=1e-6, partitions=3))
        threshold 38 on counts with Gaussian noise: keys of 38 persons are shown half of the time
          optimal rule: keys of 40 persons are shown half of the time
          threshold 45 on counts with Laplace noise: keys of 45 persons are shown half of the time
    """
    target, failure = arguments.target_epsilon(epsilon), probability("delta", delta, open=True)
    if target > 100.0:
        raise InvalidArgumentError("epsilon", epsilon, "is above 100", "choose a smaller one")
    if failure < 1e-30:
        raise InvalidArgumentError("delta", delta, "is below 1e-30", "choose a larger one")
    count, relation = _partitions(partitions), _relation(adjacency)
    one_of("rule", rule, "auto", "optimal", "laplace", "gaussian")
    if boolean("counts", counts) and rule == "optimal":
        raise InvalidArgumentError("rule", rule, "publishes no counts", "choose 'laplace', 'gaussian' or 'auto'")
    wanted = (rule,) if rule != "auto" else (("laplace", "gaussian") if counts else ("optimal", "gaussian", "laplace"))
    found, problem = [], None
    for name in wanted:
        try:
            best = rules[name](target, failure, count, relation is Adjacency.REPLACE_ONE)
        except (NumericalError, InvalidArgumentError) as error:
            problem = error
            continue
        found.append(PartitionSelection(rule=best, partitions=count, adjacency=relation))
    if not found:
        raise problem or NumericalError("no rule meets the target")
    found.sort(key=PartitionSelection.half)
    return PartitionChoice(candidates=tuple(found))
