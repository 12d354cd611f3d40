"""Noisy prefix sums of losses or gradients: the only data that the followers of noisy leaders read."""

import math
from functools import lru_cache
from typing import Literal

import numpy as np
import numpy.typing as npt
from attrs import frozen

from hockeystick import accounting
from hockeystick.accounting import AccountantGraph, Adjacency
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import one_of, real
from hockeystick.mechanisms import MatrixMechanism, TreeAggregation
from hockeystick.mechanisms.contract.arguments import quotient_up
from hockeystick.mechanisms.streams import tree_blocks
from hockeystick.mechanisms.streams.factorisations import square_root

Sums = Literal["tree", "square root"]
PrefixSums = TreeAggregation | MatrixMechanism


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
    return one_of("sums", value, "tree", "square root")


def mechanism_of(sums: Sums, rounds: int, scale: float, sensitivity: float) -> PrefixSums:
    """Returns the mechanism of all prefix sums but the last one, which nobody reads."""
    if sums == "tree":
        return TreeAggregation(rounds - 1, scale, sensitivity=sensitivity)
    return MatrixMechanism(square_root(rounds - 1), scale, sensitivity=sensitivity)


def calibrated_scale(sums: Sums, rounds: int, sensitivity: float, epsilon: float, delta: float) -> float:
    """Returns the least scale that meets the target."""
    if checked_sums(sums) == "tree":
        scale = TreeAggregation.calibrated(rounds - 1, epsilon=epsilon, delta=delta, sensitivity=sensitivity).scale
    else:
        root = square_root(rounds - 1)
        scale = MatrixMechanism.calibrated(root, epsilon=epsilon, delta=delta, sensitivity=sensitivity).scale
    # A mechanism rebuilt from its scale may cost an ulp more than the calibrated one.
    step = 2.0**-52
    while accounting.epsilon(mechanism_of(sums, rounds, scale, sensitivity).event(), delta).upper > epsilon:
        scale, step = scale * (1.0 + step), 2.0 * step
    return scale


def scale_of_zcdp(sums: Sums, rounds: int, sensitivity: float, rho: float) -> float:
    """Returns the scale at which a person costs ``rho``, rounded up."""
    unit = mechanism_of(checked_sums(sums), rounds, sensitivity, sensitivity).event().zcdp_rho()
    # The root and two products are off by at most 3 * 2^-53, less than the factor's 8 * 2^-53.
    return sensitivity * math.sqrt(quotient_up(unit, real("rho", rho, low=0.0, low_open=True))) * (1.0 + 2.0**-50)


def plan(mechanism: PrefixSums, rounds: int, assumption: str) -> AccountantGraph:
    """Returns the plan: the prefix sums as one release, the actions as post-processing."""
    return (
        AccountantGraph(
            adjacency=Adjacency.REPLACE_ONE, pinned=True, assumptions=(assumption, "each person is one round")
        )
        .source("rounds", size=rounds)
        .release("prefix sums", mechanism.event(), reads=("rounds",))
        .post("actions", reads=("prefix sums",))
    )


@lru_cache(maxsize=16)
def _largest_of_root(steps: int) -> float:
    return float(square_root(steps).variances().max())


def largest_variance(mechanism: PrefixSums) -> float:
    """Returns the largest of the variances of the prefix sums; of a tree without computing them all."""
    if isinstance(mechanism, MatrixMechanism):
        return mechanism.scale**2 * _largest_of_root(mechanism.factorisation.steps)
    steps = mechanism.steps
    own = [1.0 if mechanism.estimate == "plain" else tree_blocks.weight(h) for h in range(steps.bit_length())]
    # A t up to `steps` with the most noise is `steps`, or it has a binary one less and all ones below that.
    ones = [h for h in range(steps.bit_length()) if steps >> h & 1]
    found = [sum(own[h] for h in ones)]
    found += [sum(own[h] for h in ones if h > place) + sum(own[:place]) for place in ones]
    return mechanism.scale**2 * max(found)
