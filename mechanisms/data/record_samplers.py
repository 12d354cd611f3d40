"""Samplers of records, each with the accounting event of its sampling law.

* ``PoissonSample``: every record joins independently.
* ``SampleWithoutReplacement``: a uniformly random subset of fixed size.
* ``TruncatedPoissonSample``: a Poisson sample truncated to a largest batch.
* ``FixedBatches``: a partition, in the given or in random order. It has parallel composition and no amplification.

Sampling reduces the cost only if the sample stays secret: the indices, and for Poisson samples their number too, are as
secret as the data. A draw uses coins and uniform integers of exactly the stated law; no floats are compared. ``event``
is the cost of an access to the sample, for the neighbouring relations with a theorem; other relations are refused.

Shuffled reports of local randomisers are cheaper too (Erlingsson et al. 2019), but the accounting has no theorem for
them: ``FixedBatches.event`` refuses the local relation, and the reports are charged as if seen in order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Literal

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray
from scipy import stats

from hockeystick import accounting
from hockeystick.accounting import (
    Adjacency,
    InvalidArgumentError,
    PrivacyEvent,
    UnsupportedAdjacencyError,
    UnsupportedEventError,
    validate,
)
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.events.basic.checked_event import check_event
from hockeystick.mechanisms.contract import arguments
from hockeystick.mechanisms.randomness.noise import Noise, check_noise

_NOT_LOCAL = "sampling amplifies the privacy of a curator's access, not of a local randomiser's report"

Indices = NDArray[np.int64]
Masks = NDArray[np.bool_]


class Sampler(ABC):
    """A law of secret samples in which all sets of the same size are equally probable."""

    __slots__ = ()

    @abstractmethod
    def draw(self, records: int, *, noise: Noise | None = None) -> Indices:
        """Returns the sorted indices of a sample. Keep them, and their number, as secret as the data.

        Args:
          records: the number of records.
          noise: the source of randomness; by default secure.

        Raises:
          InvalidArgumentError: ``records`` does not fit the sampler, or ``noise`` is not a source of noise.
        """

    @abstractmethod
    def simulate(self, records: int, rng: np.random.Generator, runs: int) -> Masks:
        """Returns masks of the samples of ``runs`` independent draws, shape (runs, records)."""

    @abstractmethod
    def event(self, inner: PrivacyEvent, *, adjacency: Adjacency) -> PrivacyEvent:
        """Returns the cost of one access to a sample that costs ``inner`` for a record known to be in the sample.

        Raises:
          UnsupportedAdjacencyError: there is no theorem for this relation, or ``inner`` has no meaning under it.
          UnsupportedEventError: there is no theorem for this access.
          InvalidArgumentError: ``inner`` is not an event.
        """

    def check(self, records: int) -> int:
        """Returns ``records``.

        Raises:
          InvalidArgumentError: the number of records does not fit the sampler.
        """
        return validate.integer("records", records, low=0, high=2**40)

    @abstractmethod
    def log_sizes(self, records: int) -> FloatArray:
        """Returns ln P(the sample has s records), s = 0 … records."""

    def _refuse(self, adjacency: Adjacency, reason: str) -> UnsupportedAdjacencyError:
        named = adjacency.value if isinstance(adjacency, Adjacency) else repr(adjacency)
        return UnsupportedAdjacencyError(f"{type(self).__name__} under {named}: {reason}")


def _accepted(event: PrivacyEvent, adjacency: Adjacency) -> PrivacyEvent:
    if not event.accepts(adjacency):
        raise UnsupportedAdjacencyError(f"{event} has no meaning under {adjacency.value}")
    return event


def _probability(value: float) -> float:
    return validate.probability("probability", value)


def _population(value: int) -> int:
    return validate.integer("population", value, low=1, high=2**40)


def _sample(value: int) -> int:
    return validate.integer("sample", value, low=1)


def _batch(value: int) -> int:
    return validate.integer("batch", value, low=1)


def _batches(value: int) -> int:
    return validate.integer("batches", value, low=1)


def _order(value: Literal["given", "random"]) -> Literal["given", "random"]:
    return accounting.validate.one_of("order", value, "given", "random")


@frozen
class PoissonSample(Sampler):
    """A Poisson sample: each record joins independently with ``probability``, exactly as the float stores it.

    The ``inner`` event is the cost of an access per record *added to or removed from* the sample, under every relation:
    for a sum of vectors of norm at most C with Gaussian noise of deviation s it is ``Gaussian(s / C)``.

    Raises:
      InvalidArgumentError: the probability is not in [0, 1].

    Example:
      >>> import numpy as np
      >>> from hockeystick.accounting import Gaussian, epsilon
      >>> from hockeystick.mechanisms import PoissonSample
      >>> sampler = PoissonSample(0.01)
      >>> sampler.simulate(1_000, np.random.default_rng(1), runs=4).sum(axis=1)  # sizes of four samples
      array([ 9,  9, 10, 11])
      >>> event = Gaussian(1.0)
      >>> [round(float(epsilon(one, 1e-6)), 2) for one in (event, sampler.event(event))]
      [4.89, 0.36]
    """

    probability: float = field(converter=_probability)

    def draw(self, records: int, *, noise: Noise | None = None) -> Indices:
        count = self.check(records)
        return np.flatnonzero(check_noise(noise).coins(self.probability, count)).astype(np.int64)

    def simulate(self, records: int, rng: np.random.Generator, runs: int) -> Masks:
        return np.asarray(_uniform(self.check(records), rng, runs) < self.probability)

    def event(self, inner: PrivacyEvent, *, adjacency: Adjacency = Adjacency.ADD_OR_REMOVE_ONE) -> PrivacyEvent:
        """Returns ``PoissonSampled``, or under replace-one ``PoissonSampledReplace``; see ``Sampler.event``."""
        check_event(inner)
        if adjacency is Adjacency.REPLACE_ONE:
            return _accepted(accounting.PoissonSampledReplace(self.probability, inner), adjacency)
        if adjacency in (Adjacency.ADD_OR_REMOVE_ONE, Adjacency.REPLACE_WITH_NULL):
            return _accepted(accounting.PoissonSampled(self.probability, inner), adjacency)
        raise self._refuse(adjacency, _NOT_LOCAL)

    def log_sizes(self, records: int) -> FloatArray:
        return np.asarray(stats.binom.logpmf(np.arange(_listed(records) + 1), records, self.probability))


@frozen
class SampleWithoutReplacement(Sampler):
    """A uniformly random subset of ``sample`` out of ``population`` records; both numbers are public.

    The ``inner`` event is the cost of an access when a record of the sample is *replaced*: for a sum of vectors of norm
    at most C with Gaussian noise of deviation s it is ``Gaussian(s / (2·C))``.

    Raises:
      InvalidArgumentError: an argument is not an integer ≥ 1, or the sample is larger than the population.

    Example:
      >>> from hockeystick.accounting import Gaussian, epsilon
      >>> from hockeystick.mechanisms import SampleWithoutReplacement, SimulationNoise
      >>> sampler = SampleWithoutReplacement(1_000, 10)
      >>> sampler.draw(1_000, noise=SimulationNoise(1))
      array([ 20, 139, 209, 313, 388, 547, 652, 728, 960, 975])
      >>> round(float(epsilon(sampler.event(Gaussian(1.0)), 1e-6)), 2)
      0.36
    """

    population: int = field(converter=_population)
    sample: int = field(converter=_sample)

    def __attrs_post_init__(self) -> None:
        if self.sample > self.population:
            raise InvalidArgumentError("sample", self.sample, f"is larger than population={self.population}")

    def draw(self, records: int, *, noise: Noise | None = None) -> Indices:
        return np.sort(_permutation(self.check(records), check_noise(noise))[: self.sample])

    def simulate(self, records: int, rng: np.random.Generator, runs: int) -> Masks:
        return _lowest(_uniform(self.check(records), rng, runs), self.sample)

    def event(self, inner: PrivacyEvent, *, adjacency: Adjacency = Adjacency.REPLACE_ONE) -> PrivacyEvent:
        """Returns ``SampledWithoutReplacement``; see ``Sampler.event``."""
        check_event(inner)
        if adjacency is not Adjacency.REPLACE_ONE:
            raise self._refuse(adjacency, "samples of fixed size need data of a fixed, public size; use replace-one")
        return _accepted(accounting.SampledWithoutReplacement(self.population, self.sample, inner), adjacency)

    def log_sizes(self, records: int) -> FloatArray:
        found = np.full(_listed(self.check(records)) + 1, -np.inf)
        found[self.sample] = 0.0
        return found

    def check(self, records: int) -> int:
        if super().check(records) != self.population:
            raise InvalidArgumentError("records", records, f"is not equal to population={self.population}")
        return self.population


_TRUNCATED = {
    Adjacency.ADD_OR_REMOVE_ONE: accounting.TruncatedPoissonSampled,
    Adjacency.REPLACE_WITH_NULL: accounting.TruncatedPoissonSampledNull,
    Adjacency.REPLACE_ONE: accounting.TruncatedPoissonSampledReplace,
}


@frozen
class TruncatedPoissonSample(Sampler):
    """A Poisson sample that is truncated, uniformly at random, to at most ``batch`` records.

    The ``inner`` event is a ``Gaussian``, the cost per record added to or removed from the sample.

    Args:
      population: the number of records of the *larger* of two neighbouring data sets; public.
      probability: the probability that a record joins.
      batch: the largest size of the sample.

    Raises:
      InvalidArgumentError: an argument is outside its domain.

    Example:
      >>> import numpy as np
      >>> from hockeystick.mechanisms import TruncatedPoissonSample
      >>> sampler = TruncatedPoissonSample(1_000, 0.01, 12)
      >>> sampler.simulate(1_000, np.random.default_rng(1), runs=8).sum(axis=1)  # sizes, at most 12
      array([ 9,  9, 10, 11,  9,  9,  5, 12])
    """

    population: int = field(converter=_population)
    probability: float = field(converter=_probability)
    batch: int = field(converter=_batch)

    def draw(self, records: int, *, noise: Noise | None = None) -> Indices:
        count, source = self.check(records), check_noise(noise)
        joined = np.flatnonzero(source.coins(self.probability, count))
        if len(joined) > self.batch:
            joined = np.sort(joined[_permutation(len(joined), source)[: self.batch]])
        return joined.astype(np.int64)

    def simulate(self, records: int, rng: np.random.Generator, runs: int) -> Masks:
        keys = _uniform(self.check(records), rng, runs)
        # Records join if their uniform key is below the probability; those with the lowest keys stay.
        return np.asarray((keys < self.probability) & _lowest(keys, self.batch))

    def event(self, inner: PrivacyEvent, *, adjacency: Adjacency = Adjacency.ADD_OR_REMOVE_ONE) -> PrivacyEvent:
        """Returns ``TruncatedPoissonSampled``, or its form for ``adjacency``; see ``Sampler.event``."""
        check_event(inner)
        if adjacency not in _TRUNCATED:
            raise self._refuse(adjacency, _NOT_LOCAL)
        if not isinstance(inner, accounting.Gaussian):
            raise UnsupportedEventError(f"{inner} on a truncated batch: the cost is known only for one Gaussian access")
        found: accounting.PrivacyEvent = _TRUNCATED[adjacency](
            self.population, self.probability, self.batch, inner.noise_multiplier
        )
        return found

    def log_sizes(self, records: int) -> FloatArray:
        count = _listed(self.check(records))
        found = np.asarray(stats.binom.logpmf(np.arange(count + 1), count, self.probability))
        if self.batch < count:
            found[self.batch] = stats.binom.logsf(self.batch - 1, count, self.probability)
            found[self.batch + 1 :] = -np.inf
        return found

    def check(self, records: int) -> int:
        count = super().check(records)
        if not self.population - 1 <= count <= self.population:
            raise InvalidArgumentError("records", records, f"is neither population={self.population} nor one less")
        return count


@frozen
class FixedBatches:
    """A partition of ``population`` records into ``batches`` whose sizes differ by at most one: one epoch.

    Every record lies in one batch. ``order`` is "given" (consecutive records share batches) or "random" (a uniformly
    random permutation). The cost is that of a single batch, by parallel composition, whether the permutation is public
    or secret: the accounting has no amplification theorem for secret permutations.

    Raises:
      InvalidArgumentError: a number is not an integer ≥ 1, there are more batches than records, or the order is
        unknown.

    Example:
      >>> from hockeystick.accounting import Gaussian
      >>> from hockeystick.mechanisms import FixedBatches, SimulationNoise
      >>> batches = FixedBatches(7, 2)
      >>> [batch.tolist() for batch in batches.draw(noise=SimulationNoise(1))]
      [[0, 2, 4, 6], [1, 3, 5]]
      >>> batches.event(Gaussian(1.0), epochs=3)
      Composed(parts=((Gaussian(noise_multiplier=1.0), 3),))
    """

    population: int = field(converter=_population)
    batches: int = field(converter=_batches)
    order: Literal["given", "random"] = field(default="random", converter=_order)

    def __attrs_post_init__(self) -> None:
        if self.batches > self.population:
            raise InvalidArgumentError("batches", self.batches, f"is more than population={self.population}")

    def draw(self, *, noise: Noise | None = None) -> tuple[Indices, ...]:
        """Returns the sorted indices of every batch."""
        given = np.arange(_listed(self.population, "population"))
        order = given if self.order == "given" else _permutation(self.population, check_noise(noise))
        return tuple(np.sort(part) for part in np.array_split(order, self.batches))

    def simulate(self, rng: np.random.Generator, runs: int) -> Indices:
        """Returns the batch of every record, shape (runs, population)."""
        source, count = arguments.generator(rng), arguments.run_count(runs, self.population)
        sizes = [len(part) for part in np.array_split(np.arange(self.population), self.batches)]
        batch = np.tile(np.repeat(np.arange(self.batches), sizes), (count, 1))
        return batch if self.order == "given" else source.permuted(batch, axis=1)

    def event(
        self, inner: PrivacyEvent, *, epochs: int = 1, adjacency: Adjacency = Adjacency.REPLACE_ONE
    ) -> PrivacyEvent:
        """Returns the cost of one access to every batch in each of ``epochs`` epochs, if one access costs ``inner``.

        Orders may differ from epoch to epoch. ``inner`` is the cost under ``adjacency``.

        Raises:
          UnsupportedAdjacencyError: under add-or-remove-one, where an additional record moves others to other batches;
            and under local, as the accounting has no amplification by shuffling.
          InvalidArgumentError: ``inner`` is not an event, or ``epochs`` is not an integer ≥ 1.
        """
        check_event(inner)
        count = validate.integer("epochs", epochs, low=1)
        if adjacency is Adjacency.LOCAL:
            raise UnsupportedAdjacencyError(
                "FixedBatches under local: the accounting has no amplification by shuffling; charge every report at "
                "the cost of its local randomiser"
            )
        if not arguments.is_among(adjacency, Adjacency.REPLACE_ONE, Adjacency.REPLACE_WITH_NULL):
            raise UnsupportedAdjacencyError(
                "FixedBatches under add-or-remove-one: an additional record moves others to other batches; use "
                "replace-one or replace-with-null, where records keep their places"
            )
        return accounting.compose((_accepted(inner, adjacency), count))


def _listed(count: int, name: str = "records") -> int:
    return arguments.array_length(name, count)


def _permutation(count: int, noise: Noise) -> Indices:
    """A uniformly random permutation: the order of uniform keys, which are redrawn if two are equal."""
    while True:
        keys = noise.uniform(2**62, count)
        order = np.argsort(keys)
        if count < 2 or np.diff(keys[order]).all():
            return order.astype(np.int64)


def _uniform(records: int, rng: np.random.Generator, runs: int) -> FloatArray:
    return arguments.generator(rng).random((arguments.run_count(runs, records), records))


def _lowest(keys: FloatArray, count: int) -> Masks:
    """A mask of the ``count`` lowest keys of each row."""
    if count >= keys.shape[1]:
        return np.ones(keys.shape, dtype=bool)
    return np.asarray(keys <= np.partition(keys, count - 1, axis=1)[:, count - 1 : count])
