"""Hadamard response: frequencies of many categories from reports of few bits (Acharya, Sun & Zhang 2019).

The K outputs fall into B blocks of b, b and B powers of two. A category has a block and, in it, as its own
outputs the b/2 where a row of the b×b Hadamard matrix is +1; rows differ in exactly half of their entries. The own
outputs are e^ε times as likely as the others. So the outputs split into 2B sets of size b/2: the own set has the
probability of the truth in randomised response over 2B categories, every other set that of another category, and the
output is uniform in its set. Therefore the privacy loss between two categories

* of different blocks, whose own sets are disjoint, is that of randomised response over 2B categories;
* of the same block, whose own sets share half of their outputs, is the same on one half and zero on the other. With
  only one block, that is the law of the loss of optimised unary encoding at ε: +ε with probability e^ε/(2(1+e^ε)), −ε
    with
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
from hockeystick.mechanisms.local.randomized_response import (
    CategoryRandomiser,
    categories,
    lie_probability,
    lies,
    truths,
)
from hockeystick.mechanisms.local.unary_encoding import UnaryEncoding
from hockeystick.mechanisms.randomness.noise import Noise


def _blocks(value: int) -> int:
    count = validate.integer("blocks", value, low=1, high=2**30)
    if count & (count - 1):
        raise InvalidArgumentError("blocks", value, "is not a power of two", f"try {1 << (count.bit_length() - 1)}")
    return count


def _default_blocks(mechanism: HadamardResponse) -> int:
    """About e^ε/2, but at most the number of categories, as in the paper."""
    doubled = min(math.exp(min(mechanism.epsilon, 40.0)), 2.0 * mechanism.categories, 2.0**30)
    return 1 << max(0, math.ceil(math.log2(doubled)) - 1)


@frozen
class HadamardResponse(CategoryRandomiser):
    """Hadamard response (Acharya, Sun & Zhang 2019).

    It reports one of K outputs, with K at most 4·categories + 4·blocks, in ``report_bits`` bits for any epsilon. Its
    frequency estimates are optimal up to a constant factor at every epsilon, and the server needs K·log K operations in
    all (a fast Walsh–Hadamard transform).

    The cost is that of one person's report: the answer may change to any other, under local adjacency and replace-one
    alike; the number of respondents is public. A release uses coins with a rational probability, rounded such that no
    odds exceed e^epsilon.

    Args:
      epsilon: the logarithm of the odds of an own output against another one; at 0 the report is pure noise.
      categories: the number of categories, which are numbered from 0.
      blocks: B, a power of two; by default the best one for epsilon. One block has a lower cost and a larger variance.

    Raises:
      InvalidArgumentError: ``epsilon`` is not finite and ≥ 0, ``categories`` is not an integer ≥ 2, or ``blocks`` is
        not a power of two.

    Example:
      >>> import numpy as np
      >>> from hockeystick.mechanisms import HadamardResponse
      >>> mechanism = HadamardResponse(2.0, categories=1000)
      >>> answers = np.repeat([3, 700], [6_000, 4_000])
      >>> reports = mechanism.simulate(answers, np.random.default_rng(1), runs=1)[0]
      >>> mechanism.report_bits, mechanism.frequencies(reports)[[3, 700, 5]].round(2)
      (10, array([ 0.62,  0.4 , -0.01]))
    """

    epsilon: float = field(converter=field_checks.epsilon)
    categories: int = field(converter=categories, kw_only=True)
    blocks: int = field(default=Factory(_default_blocks, takes_self=True), converter=_blocks, kw_only=True)

    def __attrs_post_init__(self) -> None:
        if self.report_bits > 60:
            raise InvalidArgumentError(
                "categories",
                self.categories,
                "is too large for this number of blocks",
                "use fewer categories or blocks",
            )

    @property
    def block_size(self) -> int:
        """The number of outputs of a block, b: a power of two above the number of its categories."""
        return 1 << (-(-self.categories // self.blocks)).bit_length()

    @property
    def report_bits(self) -> int:
        """The length of a report in bits, log2 K."""
        return (self.blocks * self.block_size).bit_length() - 1

    def event(self) -> accounting.PrivacyEvent:
        """Returns the cost of one person's report.

        ``RandomizedResponse(epsilon, 2·blocks)``, and with one block ``UnaryEncoding(½, q)``, q = 1/(1 + e^epsilon)
        rounded up. Both are exact: their privacy loss has the same law.
        """
        if self.blocks > 1:
            return accounting.RandomizedResponse(self.epsilon, 2 * self.blocks)
        return self._one_block().event()

    def simulate(self, value: ArrayLike, rng: np.random.Generator, runs: int) -> IntArray:
        """Returns reports, integers from 0 to K − 1 of shape (runs, *value.shape); each entry of ``value`` is a person.

        Raises:
          InvalidArgumentError: an entry is not an integer from 0 to categories − 1, ``runs`` is not an integer ≥ 1, or
            ``rng`` is not a generator.
        """
        truth = truths("value", value, self.categories)
        source, count = arguments.generator(rng), arguments.run_count(runs, truth.size)
        reported = np.empty((count, truth.size), dtype=np.int64)
        probability = float(self._lie())
        for rows in arguments.blocks(count, 4 * truth.size):
            shape = reported[rows].shape
            shift = source.integers(1, 2 * self.blocks, size=shape)
            shift *= source.random(shape) < probability
            reported[rows] = self._outputs(truth.ravel(), shift, source.integers(0, self.block_size // 2, size=shape))
        return reported.reshape(count, *truth.shape)

    def log_likelihood_ratio(self, output: ArrayLike, value0: ArrayLike, value1: ArrayLike) -> NDArray[np.float64]:
        """Returns ln(P(output | value0) / P(output | value1)) for reports of shape (runs, *value.shape)."""
        v0, v1 = (truths(name, v, self.categories) for name, v in (("value0", value0), ("value1", value1)))
        reported = truths("output", output, self.blocks * self.block_size)
        if v0.shape != v1.shape or reported.ndim != v0.ndim + 1 or reported.shape[1:] != v0.shape:
            raise InvalidDataError(
                "output",
                output,
                f"has shape {reported.shape}",
                f"expected (runs, *{v0.shape}), and values of one shape",
            )
        for_first = self._owns(v0, reported).astype(np.int64) - self._owns(v1, reported)
        loss = math.log1p(self._difference() / self._rare())
        return np.asarray(loss * for_first.reshape(len(reported), -1).sum(axis=1))

    def frequencies(self, reports: ArrayLike) -> NDArray[np.float64]:
        """Returns unbiased estimates of the categories' true frequencies from reports of shape (respondents,).

        They may be negative, and add up to 1 only in expectation.

        Raises:
          InvalidArgumentError: there is no report, one is not an output, or ``epsilon`` is 0, where reports are
            pure noise.
        """
        reported = truths("reports", reports, self.blocks * self.block_size)
        if reported.ndim != 1 or not len(reported):
            raise InvalidDataError("reports", reports, f"has shape {reported.shape}", "give one report a respondent")
        arguments.array_length("categories", self.categories, self.blocks * self.block_size)
        return self.frequencies_from_counts(np.bincount(reported, minlength=self.blocks * self.block_size))

    def frequencies_from_counts(self, counts: ArrayLike) -> NDArray[np.float64]:
        """Returns the same estimates from the number of reports of each output, shape (K,).

        Raises:
          InvalidArgumentError: the counts are not K whole numbers ≥ 0, all are 0, or ``epsilon`` is 0.
        """
        contrast, outputs = self._contrast(), self.blocks * self.block_size
        numbers = validate.array("counts", counts, ndim=1, low=0.0, high=2.0**52, data=True)
        if numbers.shape != (outputs,) or (numbers != np.floor(numbers)).any() or not numbers.any():
            raise InvalidDataError("counts", counts, "are not numbers of reports", f"give {outputs} whole numbers")
        sums = walsh_hadamard(numbers.astype(np.int64).reshape(self.blocks, self.block_size))
        block, row = self._place(np.arange(self.categories))
        return np.asarray(sums[block, row] / numbers.sum() / contrast)

    def variance(self, *, respondents: int, frequency: float = 0.0, block_frequency: float | None = None) -> float:
        """Returns the variance of a category's estimated frequency, given the true one.

        Args:
          respondents: the number of reports.
          frequency: the true frequency of the category.
          block_frequency: the true frequency of its block, that is of the categories with the same remainder modulo
            ``blocks``; by default 1, the worst case.

        Raises:
          InvalidArgumentError: ``respondents`` is not an integer ≥ 1, a share is out of range, or ``epsilon`` is 0.
        """
        count = validate.integer("respondents", respondents, low=1, high=validate.MOST)
        share = validate.probability("frequency", frequency)
        block = 1.0 if block_frequency is None else validate.real("block_frequency", block_frequency, low=share, high=1)
        contrast = self._contrast()
        # A report in the block counts ±1, one elsewhere 0; its mean over persons with the category is the contrast.
        in_block = self._rare() * 2.0 + block * contrast
        return (in_block - share * contrast**2) / count / contrast**2

    def accuracy(self, beta: float, *, respondents: int) -> float:
        """Returns t such that with probability at least 1 − ``beta`` no estimated frequency is off by more than t (L∞).

        By Hoeffding's inequality over the respondents and a union bound over the categories.

        Raises:
          InvalidArgumentError: ``beta`` is not in (0, 1), ``respondents`` is not an integer ≥ 1, or ``epsilon`` is 0.
        """
        failure = validate.probability("beta", beta, open=True)
        count = validate.integer("respondents", respondents, low=1, high=validate.MOST)
        return math.sqrt(2 * math.log(2 * self.categories / failure) / count) / self._contrast()

    def _one_block(self) -> UnaryEncoding:
        """An encoding with the same odds and the same law of the loss, whose cost is at most epsilon."""
        return UnaryEncoding.optimised(self.epsilon, categories=2)

    def _lie(self) -> Fraction:
        """The probability of an output that is not the category's own."""
        return lie_probability(self.epsilon, 2 * self.blocks) if self.blocks > 1 else Fraction(self._one_block().q)

    def _rare(self) -> float:
        """The probability of one set other than the own one."""
        return float(self._lie() / (2 * self.blocks - 1))

    def _difference(self) -> float:
        """The probability of the own set minus that of another one."""
        return float(1 - self._lie() * Fraction(2 * self.blocks, 2 * self.blocks - 1))

    def _contrast(self) -> float:
        contrast = self._difference()
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
        """The ``element``-th output, from 0 to b/2 − 1, of the set that is ``shift`` places after the own one."""
        block, row = self._place(category)
        low = row & -row
        # All bits but the lowest one of the row are free; that one sets the sign.
        free = ((element & ~(low - 1)) << 1) | (element & (low - 1))
        found = free + low * (_odd(row & free) ^ (shift & 1).astype(np.bool_))
        return np.asarray((block + (shift >> 1)) % self.blocks * self.block_size + found)

    def _draw(self, checked: IntArray, noise: Noise) -> Any:
        sets, persons = 2 * self.blocks, checked.size
        shift = lies(noise, self._lie(), sets, persons)
        reported = self._outputs(checked.ravel(), shift, noise.uniform(self.block_size // 2, persons))
        return reported.reshape(checked.shape) if checked.ndim else int(reported[0])


def walsh_hadamard(rows: ArrayLike) -> NDArray[Any]:
    """Returns each row of (..., n) times the Hadamard matrix H[i, j] = (−1)^(the number of 1 bits that i and j share).

    Whole numbers stay whole and are exact while sums fit 64 bits. It takes n·log2 n additions a row.

    Raises:
      InvalidArgumentError: n is not a power of two, or the rows are not real finite numbers.
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
