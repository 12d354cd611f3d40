"""Bounded contributions as cases of the catalogue: clipping, records per person, samples, batches; with mutants.

A bound states the sensitivity of a statistic. Each case is the statistic under noise for this sensitivity, on two data
sets on which it is attained. A mutant computes another statistic, or states another sensitivity. The truth is that of
the noise at the actual distance between the statistics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from attrs import frozen

from hockeystick import accounting
from hockeystick.accounting import Adjacency, PrivacyEvent
from hockeystick.accounting.arrays import FloatArray
from hockeystick.audits.catalogue.parts.cases import Case, Subject
from hockeystick.audits.claims.claim import Claim
from hockeystick.mechanisms import (
    BoundedContribution,
    BoundedHistogram,
    BoundedOwners,
    ClipNorm,
    ClipNumbers,
    ClippedMean,
    ClippedSum,
    ClippedVectorSum,
    FixedBatches,
    Gaussian,
    KeptRows,
    Laplace,
    PoissonSample,
    RowMoments,
    SampleWithoutReplacement,
    Subsampled,
    TruncatedPoissonSample,
    UserClippedSum,
    UserSample,
)

STATED_AT = 1e-6
"""The delta of the claims."""

ADD, REPLACE = Adjacency.ADD_OR_REMOVE_ONE, Adjacency.REPLACE_ONE
Pair = tuple[Any, Any]
Statistic = Callable[[Any], Any]


@frozen
class Noisy:
    """A statistic under noise, with the claim of the noise at its stated sensitivity.

    Attributes:
      statistic: A function of a data set that returns a number or an array.
      noise: ``Laplace`` or ``Gaussian``, with the stated sensitivity.
    """

    statistic: Statistic
    noise: Laplace | Gaussian

    def event(self) -> PrivacyEvent:
        """Returns the noise's event."""
        return self.noise.event()

    def simulate(self, data: Any, rng: np.random.Generator, runs: int) -> FloatArray:
        """Returns noisy statistics, runs on the leading axis."""
        return np.asarray(self.noise.simulate(self.statistic(data), rng, runs))

    def moved(self, pair: Pair) -> FloatArray:
        """Returns the difference of the statistic between two data sets."""
        first, second = (np.atleast_1d(np.asarray(self.statistic(data), dtype=np.float64)) for data in pair)
        return np.asarray(second - first)

    def known(self, pair: Pair) -> bool:
        """Returns whether the exact epsilon is known: it is not if several numbers move under Laplace noise."""
        return isinstance(self.noise, Gaussian) or int(np.count_nonzero(self.moved(pair))) <= 1

    def truth(self, pair: Pair, delta: float) -> float | None:
        """Returns the exact epsilon on two data sets; None if it is not known."""
        if not self.known(pair):
            return None
        moved, kind = self.moved(pair), type(self.noise)
        scale = self.noise.scale if isinstance(self.noise, Laplace) else self.noise.sigma
        return float(accounting.epsilon(kind(scale, sensitivity=float(np.linalg.norm(moved))).event(), delta))


# --- statistics ------------------------------------------------------------------------------------------------------


def rows_then_sum(rows: Any, clip: ClipNorm) -> FloatArray:
    """Returns the sum of clipped rows."""
    return np.asarray(clip(rows).sum(axis=0))


def sum_of_numbers(values: Any, clip: ClipNumbers | None = None) -> float:
    """Returns the sum of numbers, clipped or as they are."""
    return float(np.sum(values if clip is None else clip(values)))


def mean_of(values: Any, clipped: ClippedMean) -> float:
    """Returns the mean of clipped numbers."""
    return clipped(values)


def sum_of_rows(rows: Any) -> FloatArray:
    """Returns the sum of rows as they are."""
    return np.asarray(np.sum(rows, axis=0))


def kept_records(persons: Any, bound: BoundedContribution | None) -> float:
    """Returns the number of records within the bound."""
    return float(len(persons) if bound is None else bound(persons).sum())


def partition_counts(records: Any, bound: BoundedHistogram) -> FloatArray:
    """Returns counts of records that are rows (person, partition)."""
    return np.asarray(bound(records[:, 0], records[:, 1]), dtype=np.float64)


def shares_by_group(records: Any, rule: KeptRows | None, moments: RowMoments) -> FloatArray:
    """Returns the shares of kept records that are rows (person, group, value), added up by group."""
    kept = records if rule is None else records[rule(records[:, 0], records[:, 1])]
    return moments(kept[:, 2], kept[:, 1], groups=2).ravel()


# --- the cases -------------------------------------------------------------------------------------------------------


def bounded_cases() -> Iterator[Case]:
    """Yields the cases of clipping, of bounded contributions, and of samples and batches."""
    yield from _clipped_numbers()
    yield from _clipped_rows()
    yield from _contributions()
    yield from _kept_rows()
    yield from _users()
    yield from _samples()
    yield from _batches()


def _clipped_numbers() -> Iterator[Case]:
    """Yields cases with one number per record; the record that differs is far out of range."""
    without, far = np.array([0.5]), np.array([0.5, 5.0])
    total, mean = ClippedSum(0.0, 1.0), ClippedMean(0.0, 1.0, records=4)
    noise = Laplace(2.0, sensitivity=total.sensitivity(ADD))
    yield _case("clipped-sum", Noisy(total, noise), (without, far))
    yield _case("clipped-sum[not clipped]", Noisy(sum_of_numbers, noise), (without, far), 1_000)
    wide = ClippedSum(-1.0, 1.0)
    ends = np.array([-5.0]), np.array([5.0])
    yield _case("clipped-sum-replaced", Noisy(wide, Laplace(4.0, sensitivity=wide.sensitivity(REPLACE))), ends)
    charged = Laplace(4.0, sensitivity=wide.sensitivity(ADD))
    yield _case("clipped-sum-replaced[charged as added]", Noisy(wide, charged), ends, 16_000)
    clip, wider = ClipNumbers(0.0, 1.0), ClipNumbers(0.0, 2.0)
    yield _case("clip-numbers", Noisy(partial(sum_of_numbers, clip=clip), noise), (without, far))
    yield _case(
        "clip-numbers[wider than charged]", Noisy(partial(sum_of_numbers, clip=wider), noise), (without, far), 2_000
    )
    four, other = np.full(4, -5.0), np.array([-5.0, -5.0, -5.0, 5.0])
    step = mean.sensitivity(REPLACE)
    yield _case("clipped-mean", Noisy(partial(mean_of, clipped=mean), Laplace(0.5, sensitivity=step)), (four, other))
    eighth = ClippedMean(0.0, 1.0, records=8).sensitivity(REPLACE)
    noisy = Noisy(partial(mean_of, clipped=mean), Laplace(0.25, sensitivity=eighth))
    yield _case("clipped-mean[divided by twice the records]", noisy, (four, other), 8_000)


def _clipped_rows() -> Iterator[Case]:
    """Yields cases with four numbers per record; the norm of the record that differs is far above the bound."""
    without, far = np.zeros((1, 4)), np.vstack([np.zeros(4), np.full(4, 10.0)])
    gaussian = Gaussian(2.0, sensitivity=1.0)
    norm = partial(rows_then_sum, clip=ClipNorm(1.0))
    yield _case("clip-norm", Noisy(norm, gaussian), (without, far))
    entries = partial(rows_then_sum, clip=ClipNorm(1.0, norm="linf"))
    yield _case("clip-norm[entries in place of the norm]", Noisy(entries, gaussian), (without, far), 4_000)
    yield _case("clip-norm[not clipped]", Noisy(sum_of_rows, gaussian), (without, far), 1_000)
    in_l1 = partial(rows_then_sum, clip=ClipNorm(1.0, norm="l1"))
    noise = Laplace(2.0, sensitivity=1.0)
    yield _case("clip-norm-l1", Noisy(in_l1, noise), (without, far))
    yield _case("clip-norm-l1[clipped in l2]", Noisy(norm, noise), (without, far), 64_000)
    total = ClippedVectorSum(1.0)
    added = Gaussian(2.0, sensitivity=total.stability(ADD)["records", "l2"])
    yield _case("clipped-vector-sum", Noisy(total, added), (without, far))
    yield _case("clipped-vector-sum[not clipped]", Noisy(sum_of_rows, added), (without, far), 1_000)
    there, back = np.full((1, 4), 10.0), np.full((1, 4), -10.0)
    replaced = Gaussian(4.0, sensitivity=total.stability(REPLACE)["records", "l2"])
    yield _case("clipped-vector-sum-replaced", Noisy(total, replaced), (there, back))
    yield _case("clipped-vector-sum-replaced[charged as added]", Noisy(total, added), (there, back), 4_000)


def _contributions() -> Iterator[Case]:
    """Yields cases with an additional person, who has more records than allowed."""
    without, person = np.array([0]), np.array([0, 1, 1, 1, 1, 1])
    bound = BoundedContribution(2)
    key = ("records", "records")
    noise = Laplace(4.0, sensitivity=bound.stability(ADD)[key])
    kept = partial(kept_records, bound=bound)
    yield _case("bounded-contribution", Noisy(kept, noise), (without, person))
    everything = partial(kept_records, bound=None)
    yield _case("bounded-contribution[nothing left out]", Noisy(everything, noise), (without, person), 2_000)
    one = Laplace(4.0, sensitivity=1.0)
    yield _case("bounded-contribution[charged for a record]", Noisy(kept, one), (without, person), 16_000)

    nobody = np.zeros((0, 2), dtype=np.int64)
    somebody = np.array([[1, place] for place in (0, 1, 2, 0, 1, 2)])
    histogram = BoundedHistogram(3, most_partitions=2)
    l1, l2 = (histogram.stability(ADD)["records", norm] for norm in ("l1", "l2"))
    counts = partial(partition_counts, bound=histogram)
    yield _case("bounded-histogram", Noisy(counts, Laplace(4.0, sensitivity=l1)), (nobody, somebody))
    yield _case("bounded-histogram-gaussian", Noisy(counts, Gaussian(2.0, sensitivity=l2)), (nobody, somebody))
    everywhere = partial(partition_counts, bound=BoundedHistogram(3, most_partitions=3, most_each=2))
    bad = Noisy(everywhere, Laplace(4.0, sensitivity=l1))
    yield _case("bounded-histogram[partitions not bounded]", bad, (nobody, somebody), 4_000)
    often = partial(partition_counts, bound=BoundedHistogram(3, most_partitions=2, most_each=2))
    yield _case(
        "bounded-histogram-gaussian[records not bounded]",
        Noisy(often, Gaussian(2.0, sensitivity=l2)),
        (nobody, somebody),
        4_000,
    )
    single = Noisy(counts, Gaussian(2.0, sensitivity=1.0))
    yield _case("bounded-histogram-gaussian[one partition charged]", single, (nobody, somebody), 64_000)


def _kept_rows() -> Iterator[Case]:
    """Yields cases of sums of shares by group, of the rows that are kept of one person and her replacement."""
    rule, mean = KeptRows(2), RowMoments("mean", 0.0, 100.0)
    first, other = (np.array([[1, place, value]] * 4) for place, value in ((0, 100), (1, 0)))
    l2 = float(rule.stability(Adjacency.REPLACE_ONE)["records", "l2"])
    sums, everything = (partial(shares_by_group, rule=one, moments=mean) for one in (rule, None))
    noise = Gaussian(3.0, sensitivity=l2)
    yield _case("kept-rows-gaussian", Noisy(sums, noise), (first, other))
    yield _case("kept-rows-gaussian[no rule]", Noisy(everything, noise), (first, other), 4_000)
    root = Gaussian(3.0, sensitivity=2.0)
    yield _case("kept-rows-gaussian[the root of the rows charged]", Noisy(sums, root), (first, other), 32_000)


OWNERS = (("Ann", "Bob"), ("Ann",), ("Ann",), ("Bob",), ("Ann", "Cyd"))
"""Public owners of five records; Ann owns four of them."""


def sum_by_user(rows: Any, total: UserClippedSum) -> FloatArray:
    """Returns the sum of rows whose first entry is the user, each user's sum clipped."""
    return np.asarray(total(rows[:, 1:], rows[:, 0].astype(np.int64)))


def sum_by_record(rows: Any, total: ClippedVectorSum) -> FloatArray:
    """Returns the same sum with each record clipped."""
    return np.asarray(total(rows[:, 1:]))


def owned_sum(values: Any, bound: BoundedOwners | None) -> float:
    """Returns the sum of the kept records of ``OWNERS``, each clipped to [0, 1]."""
    kept = np.ones(len(OWNERS), dtype=np.bool_) if bound is None else bound(OWNERS)
    return float(np.clip(values, 0.0, 1.0)[kept].sum())


@frozen
class SampledUsers:
    """A noisy sum over sampled users of values in [-1, 1], charged for a user or wrongly for a record.

    Attributes:
      sample: The sampler of users.
      noise: The noise, at the sensitivity to one record.
      charged: What the claim is for, "user" or "record".
    """

    sample: UserSample
    noise: Gaussian
    charged: str = "user"

    def event(self) -> PrivacyEvent:
        """Returns the claimed event."""
        if self.charged == "user":
            return self.sample.event(self.noise.event())
        return PoissonSample(self.sample.probability).event(self.noise.event())

    def simulate(self, persons: Any, rng: np.random.Generator, runs: int) -> FloatArray:
        """Returns noisy numbers of sampled records, for a data set of the records' users."""
        count = self.sample.simulate(persons, rng, runs).sum(axis=1)
        return np.asarray(count + self.noise.sigma * rng.standard_normal(runs))


@frozen
class SampledMean:
    """A noisy mean of a Poisson sample, divided by its expected size, or wrongly by the size that was drawn.

    Attributes:
      probability: That a record joins.
      noise: The noise on the sum.
      expected: The constant that divides the noisy sum; None for the size of the sample.
    """

    probability: float
    noise: Gaussian
    expected: float | None

    def event(self) -> PrivacyEvent:
        """Returns the event of the sum; a constant changes nothing."""
        return PoissonSample(self.probability).event(self.noise.event())

    def simulate(self, values: Any, rng: np.random.Generator, runs: int) -> FloatArray:
        """Returns noisy means."""
        inside = rng.random((runs, len(values))) < self.probability
        noisy = inside @ np.clip(values, -1.0, 1.0) + self.noise.sigma * rng.standard_normal(runs)
        return np.asarray(noisy / (self.expected or np.maximum(1, inside.sum(axis=1))))


def _users() -> Iterator[Case]:
    """Yields cases with a user who is added, with five records, or whose four records' contents become null."""
    without, user = np.zeros((1, 5)), np.zeros((6, 5))
    user[1:] = [1.0, 10.0, 10.0, 10.0, 10.0]
    total = UserClippedSum(1.0)
    noise = Gaussian(2.0, sensitivity=total.stability(ADD)["records", "l2"])
    yield _case("user-clipped-sum", Noisy(partial(sum_by_user, total=total), noise), (without, user))
    by_record = partial(sum_by_record, total=ClippedVectorSum(1.0))
    yield _case("user-clipped-sum[clipped by record]", Noisy(by_record, noise), (without, user), 4_000)
    null, ann = np.zeros(5), np.array([1.0, 1.0, 1.0, 0.0, 1.0])
    bound = BoundedOwners(2)
    owned = Laplace(4.0, sensitivity=bound.stability(Adjacency.REPLACE_WITH_NULL)["records", "records"])
    yield _case("bounded-owners", Noisy(partial(owned_sum, bound=bound), owned), (null, ann))
    yield _case("bounded-owners[nothing left out]", Noisy(partial(owned_sum, bound=None), owned), (null, ann), 64_000)
    pair = np.array([0]), np.array([0, 1, 1, 1, 1, 1])
    sampled = SampledUsers(UserSample(0.25, most_records=3), Gaussian(2.0))
    yield _claimed("sampled-users", sampled, sampled, pair)
    for_record = SampledUsers(sampled.sample, sampled.noise, "record")
    yield _claimed("sampled-users[charged for a record]", for_record, sampled, pair, 16_000)


def _samples() -> Iterator[Case]:
    """Yields cases of secret samples; plain Poisson samples are among the other mechanisms."""
    noise = Gaussian(1.0)
    fixed = Subsampled(SampleWithoutReplacement(4, 1), noise)
    pair = fixed.worst_case_neighbours()
    yield _claimed("subsampled-fixed-size", fixed, fixed, pair)
    whole = Subsampled(SampleWithoutReplacement(4, 4), noise)
    yield _claimed("subsampled-fixed-size[everybody in the sample]", fixed, whole, pair, 2_000)
    cut = Subsampled(TruncatedPoissonSample(3, 0.25, 2), noise)
    pair = cut.worst_case_neighbours()
    yield _claimed("subsampled-truncated", cut, cut, pair)
    # The sample's probability has to be below 1.
    all_join = Subsampled(TruncatedPoissonSample(3, 1.0 - 1e-9, 3), noise)
    yield _claimed("subsampled-truncated[everybody in the sample]", cut, all_join, pair, 4_000)
    poisson = Subsampled(PoissonSample(0.25), noise)
    twice = Subsampled(PoissonSample(0.5), noise)
    yield _claimed("subsampled-gaussian-quarter[half in the sample]", poisson, twice, (np.zeros(0), np.ones(1)), 16_000)
    mean = SampledMean(0.9, Gaussian(16.0), 8.0)
    drawn = SampledMean(0.9, mean.noise, None)
    zeros = np.zeros(1), np.zeros(2)  # the record only makes the sample larger
    yield _claimed("sampled-mean", mean, mean, (np.zeros(1), np.array([0.0, 1.0])))
    yield _claimed("sampled-mean[divided by the sample's size]", mean, drawn, zeros, 16_000)
    yield _claimed("subsampled-gaussian-quarter", poisson, poisson, poisson.worst_case_neighbours())


@frozen
class BatchSums:
    """Noisy sums of all batches of one epoch, each record clipped to [-1, 1].

    Attributes:
      batches: The assignment of records to batches.
      noise: The noise on each sum, for a replaced record.
      shared: Whether every record is in all batches.
    """

    batches: FixedBatches
    noise: Gaussian
    shared: bool = False

    def event(self) -> PrivacyEvent:
        """Returns the event of one epoch, in which a record is in one batch."""
        return self.batches.event(self.noise.event())

    def simulate(self, values: Any, rng: np.random.Generator, runs: int) -> FloatArray:
        """Returns sums of shape (runs, batches)."""
        numbers, count = np.clip(values, -1.0, 1.0), self.batches.batches
        inside = self.batches.simulate(rng, runs)[:, :, None] == np.arange(count)
        sums = np.einsum("rpb,p->rb", inside | self.shared, numbers)
        return np.asarray(sums + self.noise.sigma * rng.standard_normal((runs, count)))


def _batches() -> Iterator[Case]:
    low, high = np.zeros(4), np.zeros(4)
    low[0], high[0] = -1.0, 1.0
    batches = BatchSums(FixedBatches(4, 4, order="given"), Gaussian(4.0, sensitivity=2.0))
    yield _claimed("fixed-batches", batches, batches, (low, high))
    shuffled = BatchSums(FixedBatches(4, 4), batches.noise)
    yield _claimed("fixed-batches-shuffled", shuffled, shuffled, (low, high))
    overlapping = BatchSums(batches.batches, batches.noise, shared=True)
    yield _claimed("fixed-batches[a record in all batches]", batches, overlapping, (low, high), 8_000)


def _case(name: str, noisy: Noisy, pair: Pair, samples: int | None = None) -> Case:
    return _claimed(name, noisy, noisy, pair, samples)


def _claimed(name: str, claimed: Any, sampled: Any, pair: Pair, samples: int | None = None) -> Case:
    known = isinstance(sampled, Noisy) and sampled.known(pair)
    oracle = "the noise at the distance between the statistics" if known else ""
    build = partial(_subject, claimed, sampled, pair)
    return Case.of(f"mechanism/{name}", build, samples, correct=100_000, oracle=oracle)


def _subject(claimed: Any, sampled: Any, pair: Pair) -> Subject:
    claim = Claim.curve(claimed.event(), STATED_AT)
    truth = sampled.truth(pair, claim.delta) if isinstance(sampled, Noisy) else None
    return Subject(target=sampled, neighbours=pair, claim=claim, truth=truth)
