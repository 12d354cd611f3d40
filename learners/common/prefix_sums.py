"""Noisy prefix sums of losses, gradients or other vectors: the only data that their followers read."""

import math
from functools import lru_cache
from typing import Literal

import numpy as np
import numpy.typing as npt
from attrs import frozen

from hockeystick.accounting import AccountantGraph, Adjacency, InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import integer, one_of, real
from hockeystick.mechanisms import MatrixMechanism, TreeAggregation
from hockeystick.mechanisms.contract.arguments import quotient_up
from hockeystick.mechanisms.streams import tree_blocks
from hockeystick.mechanisms.streams.factor_encoders import Factorisation
from hockeystick.mechanisms.streams.factorisations import blt, square_root
from hockeystick.mechanisms.streams.step_mechanism import StepMechanism

Sums = Literal["tree", "square root", "buffered"]
PrefixSums = TreeAggregation | MatrixMechanism

_BUFFERS = 4  # their error is 1 % above the square root's at 10^6 rounds

PADDING = 2.0**-10
"""Standard deviation, in scales, of the continuous noise on top of a sum: over 2^10 steps of a release's grid."""

ROUNDING = 1.0 + 2.0**-40
"""The factor by which a standard deviation from a sum of variances is rounded up."""


RELEASED = 1.0 + 2.0**-15
"""A factor above that by which a release's noise is larger than its scale: one part in 2^16, for the grid."""


def losses_sensitivity(experts: int) -> float:
    """Returns sqrt(d), rounded up: the L2 sensitivity to the replacement of one round's losses in [0, 1]^d."""
    return math.nextafter(math.sqrt(experts), math.inf)


@frozen(eq=False)
class PublishedRuns:
    """The published part of R runs: the noisy sums, of which the actions are post-processing.

    Attributes:
        sums: Shape ``(R, rounds - 1, d)``: noisy sums of the first 1, 2, ... rounds' losses or gradients.
        actions: The expert of each round, shape ``(R, rounds)``; or its point, shape ``(R, rounds, d)``.
    """

    sums: FloatArray
    actions: npt.NDArray[np.int64] | FloatArray


def checked_sums(value: object) -> Sums:
    """Returns the name of the prefix sums."""
    return one_of("sums", value, "tree", "square root", "buffered")


@lru_cache(maxsize=16)
def mechanism_of(sums: Sums, rounds: int, scale: float, sensitivity: float, discount: float = 1.0) -> PrefixSums:
    """Returns the mechanism of all prefix sums but the last one, which nobody reads.

    Raises:
        InvalidArgumentError: a tree of discounted sums.
    """
    if sums != "tree":
        return MatrixMechanism(_factorisation(sums, rounds - 1, discount), scale, sensitivity=sensitivity)
    if discount != 1.0:
        raise InvalidArgumentError(
            "discount",
            discount,
            "would have more than twice the noise in a tree",
            'use sums="square root" or sums="buffered"',
        )
    return TreeAggregation(rounds - 1, scale, sensitivity=sensitivity)


@lru_cache(maxsize=16)
def _factorisation(sums: Sums, steps: int, discount: float) -> Factorisation:
    if sums == "square root":
        return square_root(steps, discount=discount)
    return blt(steps, _BUFFERS, discount=discount)


def calibrated_scale(
    sums: Sums,
    rounds: int,
    sensitivity: float,
    epsilon: float,
    delta: float,
    group: int = 1,
    discount: float = 1.0,
) -> float:
    """Returns the least scale that meets the target for ``group`` people together, who move sums as far as k times."""
    people = integer("group", group, low=1, high=rounds)
    mechanism_of(checked_sums(sums), rounds, 1.0, 1.0, discount)  # refuses what there is not
    if sums == "tree":
        scale = TreeAggregation.calibrated(
            rounds - 1, epsilon=epsilon, delta=delta, sensitivity=sensitivity * people
        ).scale
    else:
        scale = MatrixMechanism.calibrated(
            _factorisation(sums, rounds - 1, discount),
            epsilon=epsilon,
            delta=delta,
            sensitivity=sensitivity * people,
        ).scale
    # A mechanism rebuilt from its scale may cost an ulp more than the calibrated one.
    step = 2.0**-52
    while _epsilon(mechanism_of(sums, rounds, scale, sensitivity, discount), rounds, people, delta) > epsilon:
        scale, step = scale * (1.0 + step), 2.0 * step
    return scale


def _epsilon(mechanism: PrefixSums, rounds: int, group: int, delta: float) -> float:
    return plan(mechanism, rounds, "").guarantee(group=group).epsilon(delta).upper


def scale_of_zcdp(sums: Sums, rounds: int, sensitivity: float, rho: float, discount: float = 1.0) -> float:
    """Returns the scale at which a person costs ``rho``, rounded up."""
    unit = mechanism_of(checked_sums(sums), rounds, sensitivity, sensitivity, discount).event().zcdp_rho()
    # The root and two products are off by at most 3 * 2^-53, less than the factor's 8 * 2^-53.
    return sensitivity * math.sqrt(quotient_up(unit, real("rho", rho, low=0.0, low_open=True))) * (1.0 + 2.0**-50)


def plan(mechanism: StepMechanism, rounds: int, assumption: str) -> AccountantGraph:
    """Returns the plan: the prefix sums as one release, the actions as post-processing."""
    return (
        AccountantGraph(
            adjacency=Adjacency.REPLACE_ONE, pinned=True, assumptions=(assumption, "each person is one round")
        )
        .source("rounds", size=rounds)
        .release("prefix sums", mechanism.event(), reads=("rounds",))
        .post("actions", reads=("prefix sums",))
    )


@lru_cache(maxsize=8)
def _unit_variances(factorisation: Factorisation) -> FloatArray:
    return factorisation.variances()


def largest_variance(mechanism: PrefixSums) -> float:
    """Returns the largest of the variances of the prefix sums, for a scale of 1."""
    if isinstance(mechanism, MatrixMechanism):
        return float(_unit_variances(mechanism.factorisation).max())
    steps = mechanism.steps
    own = [1.0 if mechanism.estimate == "plain" else tree_blocks.weight(h) for h in range(steps.bit_length())]
    # A t up to `steps` with the most noise is `steps`, or it has a binary one less and all ones below that.
    ones = [h for h in range(steps.bit_length()) if steps >> h & 1]
    found = [sum(own[h] for h in ones)]
    found += [sum(own[h] for h in ones if h > place) + sum(own[:place]) for place in ones]
    return max(found)


def least_spread(mechanism: PrefixSums, entries: int) -> float:
    """Returns a standard deviation that no sum of a release exceeds, with continuous noise of ``PADDING`` scales.

    A release's noise is on a grid. With this much normal noise on top, the density of a sum is that of a normal number
    up to a factor of 1 within 1e-38, so bounds for normal noise hold. It is rounded up.
    """
    return _released_scale(mechanism, entries) * math.sqrt(largest_variance(mechanism) + PADDING**2) * ROUNDING


@lru_cache(maxsize=16)
def _released_scale(mechanism: PrefixSums, entries: int) -> float:
    return mechanism.released_scale(entries)


def variances_between(mechanism: PrefixSums, first: int, stop: int, *, entries: int | None = None) -> FloatArray:
    """Returns the variances of the sums of the first ``first`` … ``stop`` - 1 contributions; that of none is 0.

    Args:
        mechanism: The sums.
        first, stop: Numbers of contributions.
        entries: The number of entries of a contribution, for the noise of a release, which is a few millionths larger,
            as it pays for its grid; None for that of ``simulate``.
    """
    scale = mechanism.scale if entries is None else _released_scale(mechanism, entries)
    if isinstance(mechanism, MatrixMechanism):
        units = _unit_variances(mechanism.factorisation)[max(0, first - 1) : stop - 1]
        return scale**2 * (units if first else np.append(0.0, units))
    return scale**2 * tree_blocks.prefix_weights(np.arange(first, stop), mechanism.estimate)
