"""Hadamard response: frequencies of many categories from reports of few bits (Acharya, Sun & Zhang 2019).

The K outputs fall into B blocks of b, b and B powers of two. A category owns a block and, in it, the b/2 outputs where
a row of the b×b Hadamard matrix is +1; rows differ in exactly half of their entries. Its own outputs are e^ε times as
likely as any other. So the outputs split into 2B sets of b/2: the category's own one is told with the probability of
the truth in randomised response over 2B categories, each other one with that of any other category, and the output
is uniform in its set. Therefore the privacy loss between two categories

* of different blocks, whose own sets are disjoint, is that of randomised response over 2B categories;
* of one block, whose own sets share half of their outputs, is the same on one half and nothing on the other. With one
  block only, that is the law of the loss of optimised unary encoding at ε: +ε with probability e^ε/(2(1+e^ε)), −ε with
  1/(2(1+e^ε)), else 0.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from attrs import Factory, field, frozen
from numpy.typing import ArrayLike, NDArray

from hockeystick import accounting
from hockeystick.accounting import InvalidArgumentError, InvalidDataError, field_checks, validate
from hockeystick.accounting.arrays import IntArray
from hockeystick.mechanisms.contract import arguments
from hockeystick.mechanisms.local.randomized_response import categories, lie_probability, lies, truths
from hockeystick.mechanisms.local.unary_encoding import UnaryEncoding
from hockeystick.mechanisms.randomness.noise import Noise
from hockeystick.mechanisms.release import Releasable


def _blocks(value: int) -> int:
    count = validate.integer("blocks", value, low=1, high=2**30)
    if count & (count - 1):
        raise InvalidArgumentError("blocks", value, "is no power of two", f"try {1 << (count.bit_length() - 1)}")
    return count


def _default_blocks(mechanism: HadamardResponse) -> int:
    """About e^ε/2, but not more than there are categories: what the paper takes."""
    doubled = min(math.exp(min(mechanism.epsilon, 40.0)), 2.0 * mechanism.categories, 2.0**30)
    return 1 << max(0, math.ceil(math.log2(doubled)) - 1)


@frozen
class HadamardResponse(Releasable):
    """Reports one of K outputs, K at most 4·categories + 4·blocks: ``report_bits`` bits whatever epsilon is.

    Its frequency estimates are as good as the best, up to a constant, at every epsilon, and take the server
    K·log K operations in all (a fast Walsh–Hadamard transform).

    One person's answer is randomised, and the cost is that person's: the answer may change to any other, under local
    adjacency and replace-one alike, and the number of respondents is public. A release tosses its coins with a rational
    probability, so rounded that no odds exceed e^epsilon.

    Args:
      epsilon: the logarithm of the odds of an own output against another one; at 0 the report is pure noise.
      categories: how many there are, numbered from 0.
      blocks: B, a power of two; by default the one for epsilon. One block has lower curves and a larger variance.

    Raises:
      InvalidArgumentError: ``epsilon`` is not finite and ≥ 0, ``categories`` no integer ≥ 2, or ``blocks`` no power of
        two.
    """

    epsilon: float = field(converter=field_checks.epsilon)
    categories: int = field(converter=categories, kw_only=True)
    blocks: int = field(default=Factory(_default_blocks, takes_self=True), converter=_blocks, kw_only=True)

    def __attrs_post_init__(self) -> None:
        if self.report_bits > 60:
            raise InvalidArgumentError("categories", self.categories, "is too large for blocks", "give less of either")

    @property
    def block_size(self) -> int:
        """The outputs of a block, b: a power of two above the number of its categories."""
        return 1 << (-(-self.categories // self.blocks)).bit_length()

    @property
    def report_bits(self) -> int:
        """The length of a report in bits, log2 K."""
        return (self.blocks * self.block_size).bit_length() - 1

    def event(self) -> accounting.PrivacyEvent:
        """Returns the cost of one person's report.

        ``RandomizedResponse(epsilon, 2·blocks)``, and with one block ``UnaryEncoding(½, q)``, q = 1/(1 + e^epsilon)
        rounded up. Both are exact: they have the law of this mechanism's privacy loss.
        """
        if self.blocks > 1:
            return accounting.RandomizedResponse(self.epsilon, 2 * self.blocks)
        return self._one_block().event()

    def simulate(self, value: ArrayLike, rng: np.random.Generator, runs: int) -> IntArray:
        """Returns reports, integers of shape (runs, *value.shape) from 0 to K − 1; each entry of ``value`` is a person.

        Raises:
          InvalidArgumentError: an entry is no integer from 0 to categories − 1, ``runs`` is no integer ≥ 1, or ``rng``
            no generator.
        """
        truth = truths("value", value, self.categories)
        source, count = arguments.generator(rng), arguments.run_count(runs, truth.size)
        told = np.empty((count, truth.size), dtype=np.int64)
        probability = float(self._lie())
        for rows in arguments.blocks(count, 4 * truth.size):
            shape = told[rows].shape
            shift = source.integers(1, 2 * self.blocks, size=shape)
            shift *= source.random(shape) < probability
            told[rows] = self._outputs(truth.ravel(), shift, source.integers(0, self.block_size // 2, size=shape))
        return told.reshape(count, *truth.shape)

    def worst_case_neighbours(self) -> tuple[int, int]:
        """Returns two answers of one person, in different blocks if there is more than one."""
        return 0, 1

    def group_neighbours(self, size: int) -> tuple[IntArray, IntArray]:
        """Returns the answers of ``size`` persons who all change theirs."""
        count = arguments.group_size(size)
        return np.zeros(count, dtype=np.int64), np.ones(count, dtype=np.int64)

    def log_likelihood_ratio(self, output: ArrayLike, value0: ArrayLike, value1: ArrayLike) -> NDArray[np.float64]:
        """Returns ln(P(output | value0) / P(output | value1)) for reports of shape (runs, *value.shape)."""
        v0, v1 = (truths(name, v, self.categories) for name, v in (("value0", value0), ("value1", value1)))
        told = truths("output", output, self.blocks * self.block_size)
        if v0.shape != v1.shape or told.ndim != v0.ndim + 1 or told.shape[1:] != v0.shape:
            raise InvalidDataError(
                "output", output, f"has shape {told.shape}", f"expected (runs, *{v0.shape}), and values of one shape"
            )
        for_first = self._owns(v0, told).astype(np.int64) - self._owns(v1, told)
        loss = math.log1p(self._contrast_or_none() / self._rare())
        return np.asarray(loss * for_first.reshape(len(told), -1).sum(axis=1))

    def frequencies(self, reports: ArrayLike) -> NDArray[np.float64]:
        """Returns unbiased estimates of the categories' true frequencies from reports of shape (respondents,).

        They may be negative, and add up to 1 only in expectation.

        Raises:
          InvalidArgumentError: there is no report, one is no output, or ``epsilon`` is 0, where reports say nothing.
        """
        told = truths("reports", reports, self.blocks * self.block_size)
        if told.ndim != 1 or not len(told):
            raise InvalidDataError("reports", reports, f"has shape {told.shape}", "give one report a respondent")
        contrast = self._contrast()
        arguments.array_length("categories", self.categories, self.blocks * self.block_size)
        counts = np.bincount(told, minlength=self.blocks * self.block_size).reshape(self.blocks, self.block_size)
        sums = walsh_hadamard(counts)
        block, row = self._place(np.arange(self.categories))
        return np.asarray(sums[block, row] / len(told) / contrast)

    def variance(self, *, respondents: int, frequency: float = 0.0, block_frequency: float | None = None) -> float:
        """Returns the variance of a category's estimated frequency, given the true one.

        Args:
          respondents: how many report.
          frequency: the share of those who hold the category.
          block_frequency: the share of those who hold any category of its block (those with the same remainder modulo
            ``blocks``); by default 1, the worst.

        Raises:
          InvalidArgumentError: ``respondents`` is no integer ≥ 1, a share is out of range, or ``epsilon`` is 0.
        """
        count = validate.integer("respondents", respondents, low=1)
        share = validate.probability("frequency", frequency)
        block = 1.0 if block_frequency is None else validate.real("block_frequency", block_frequency, low=share, high=1)
        contrast = self._contrast()
        # A report in the block is worth ±1, one elsewhere 0; the mean of the category's own holders is the contrast.
        in_block = self._rare() * 2.0 + block * contrast
        return (in_block - share * contrast**2) / count / contrast**2

    def accuracy(self, beta: float, *, respondents: int) -> float:
        """Returns t such that with probability at least 1 − ``beta`` no estimated frequency is off by more than t (L∞).

        By Hoeffding's inequality over the respondents and a union bound over the categories.

        Raises:
          InvalidArgumentError: ``beta`` is not in (0, 1), ``respondents`` no integer ≥ 1, or ``epsilon`` is 0.
        """
        failure = validate.probability("beta", beta, open=True)
        count = validate.integer("respondents", respondents, low=1)
        return math.sqrt(2 * math.log(2 * self.categories / failure) / count) / self._contrast()

    def _one_block(self) -> UnaryEncoding:
        """An encoding of the same odds and the same law of the loss, whose cost is shown to be at most epsilon."""
        return UnaryEncoding.optimised(self.epsilon, categories=2)

    def _lie(self) -> Fraction:
        """The probability of an output that is not the category's own."""
        return lie_probability(self.epsilon, 2 * self.blocks) if self.blocks > 1 else Fraction(self._one_block().q)

    def _rare(self) -> float:
        """The probability of a set that is not the category's own."""
        return float(self._lie() / (2 * self.blocks - 1))

    def _contrast_or_none(self) -> float:
        """How much more likely the own set is than another one."""
        return float(1 - self._lie() * Fraction(2 * self.blocks, 2 * self.blocks - 1))

    def _contrast(self) -> float:
        contrast = self._contrast_or_none()
        if contrast == 0.0:
            raise InvalidArgumentError("epsilon", self.epsilon, "makes the reports pure noise", "use a larger one")
        return contrast

    def _place(self, category: IntArray) -> tuple[IntArray, IntArray]:
        """The block and the row; row 0 of the Hadamard matrix is +1 throughout and goes unused."""
        return category % self.blocks, 1 + category // self.blocks

    def _owns(self, category: IntArray, output: IntArray) -> NDArray[np.bool_]:
        block, row = self._place(category)
        return np.asarray((output // self.block_size == block) & ~_odd(row & (output % self.block_size)))

    def _outputs(self, category: IntArray, shift: IntArray, element: IntArray) -> IntArray:
        """The ``element``-th output, from 0 to b/2 − 1, of the set that is ``shift`` sets after the category's own."""
        block, row = self._place(category)
        low = row & -row
        # All bits but the row's lowest one are free; that one makes the sign right.
        free = ((element & ~(low - 1)) << 1) | (element & (low - 1))
        found = free + low * (_odd(row & free) ^ (shift & 1).astype(np.bool_))
        return np.asarray((block + (shift >> 1)) % self.blocks * self.block_size + found)

    def _checked(self, value: ArrayLike) -> IntArray:
        return truths("value", value, self.categories)

    def _draw(self, checked: IntArray, noise: Noise) -> Any:
        sets, persons = 2 * self.blocks, checked.size
        shift = lies(noise, self._lie(), sets, persons)
        told = self._outputs(checked.ravel(), shift, noise.uniform(self.block_size // 2, persons))
        return told.reshape(checked.shape) if checked.ndim else int(told[0])


def walsh_hadamard(rows: ArrayLike) -> NDArray[Any]:
    """Returns each row of (..., n) times the Hadamard matrix H[i, j] = (−1)^(number of bits that i and j share).

    Whole numbers stay whole and are exact while sums fit 64 bits. It takes n·log2 n additions a row.

    Raises:
      InvalidArgumentError: n is no power of two, or the rows are no real finite numbers.
    """
    given = validate.array("rows", rows, data=True)
    n = given.shape[-1] if given.ndim else 0
    if n < 1 or n & (n - 1):
        raise InvalidDataError("rows", rows, f"has rows of length {n}", "pad them to a power of two")
    out = np.array(rows, dtype=np.int64 if np.asarray(rows).dtype.kind in "iu" else float)
    half = 1
    while half < n:
        pairs = out.reshape(-1, n // (2 * half), 2, half)  # a view: out is contiguous
        first, second = pairs[:, :, 0], pairs[:, :, 1]
        first += second  # a + b, and then b := (a + b) − 2b
        second *= -2
        second += first
        half *= 2
    return out


def _odd(bits: IntArray) -> NDArray[np.bool_]:
    """Whether an odd number of bits is set."""
    for shift in (32, 16, 8, 4, 2, 1):
        bits = bits ^ (bits >> shift)
    return np.asarray(bits & 1, dtype=np.bool_)
