"""Algorithms that are recorded and replayed: correct ones are never convicted, and each fault is found at its line.

A pair is two data sets that differ in one record. Claims are tight where the algorithm is simple. Nothing here is a
statistical test: a violation is a proof, so no seed may lead to one for a correct algorithm.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from attrs import frozen

from hockeystick.audits.replay.run import replay
from hockeystick.audits.replay.verdict import ReplayVerdict

FIVE = [0.2, 0.9, 0.4, 1.0, 0.7]
FOUR = FIVE[:-1]
REPLACED = [0.2, 0.9, 0.4, 0.0, 0.7]
LARGE = [0.2, 0.9, 0.4, 50.0, 0.7]
KEYS = ["a"] * 9 + ["b"] * 7


@frozen
class Case:
    """An algorithm with a pair and a claim; ``outcomes`` are those that its replay may have, the usual one first."""

    algorithm: Callable[[Any, Any], Any]
    d0: Any
    d1: Any
    epsilon: float
    delta: float = 0.0
    outcomes: tuple[str, ...] = ("agrees",)

    @property
    def name(self) -> str:
        return self.algorithm.__name__


def clipped(x: Any, high: float = 1.0) -> Any:
    return np.clip(x, 0, high).sum()


def above(x: Any, level: float) -> Any:
    return np.sum(np.asarray(x) > level)


# --- correct ---------------------------------------------------------------------------------------------------------


def count(x: Any, rng: Any) -> Any:
    return len(x) + rng.laplace(scale=1.0)


def clipped_sum(x: Any, rng: Any) -> Any:
    return clipped(x) + rng.laplace(scale=1.0)


def histogram(x: Any, rng: Any) -> Any:
    return np.histogram(x, bins=4, range=(0, 1))[0] + rng.laplace(scale=1.0, size=4)


def gaussian_mean(x: Any, rng: Any) -> Any:
    return float(clipped(x) + rng.normal(scale=4.0)) / max(1.0, float(len(x) + rng.normal(scale=4.0)))


def composition(x: Any, rng: Any) -> Any:
    return len(x) + rng.laplace(scale=2.0), clipped(x) + rng.laplace(scale=2.0)


def adaptive(x: Any, rng: Any) -> Any:
    if len(x) + rng.laplace(scale=2.0) > 3:
        return clipped(x) + rng.laplace(scale=2.0)
    return above(x, 0.5) + 2.0 * rng.laplace()


def until_small(x: Any, rng: Any) -> Any:
    for step in range(4):
        noisy = above(x, step / 4) + rng.laplace(scale=4.0)
        if noisy < 1:
            return step, float(noisy)
    return 4, None


def exponential_by_gumbel(x: Any, rng: Any) -> Any:
    return int(np.argmax(np.histogram(x, bins=5, range=(0, 1))[0] + rng.gumbel(scale=1.0, size=5)))


def noisy_max(x: Any, rng: Any) -> Any:
    return int(np.argmax(np.histogram(x, bins=5, range=(0, 1))[0] + rng.laplace(scale=1.0, size=5)))


def above_threshold(x: Any, rng: Any) -> Any:
    threshold, found = 3.0 + rng.laplace(scale=2.0), []
    for step in range(12):
        found.append(bool(above(x, step / 12) + rng.laplace(scale=4.0) >= threshold))
        if found[-1]:
            break
    return found


def descent(x: Any, rng: Any) -> Any:
    weight = 0.0
    for _ in range(5):
        gradient = sum(max(-1.0, min(1.0, weight - value)) for value in x)
        weight -= 0.1 * (float(gradient + rng.normal(scale=8.0)) / 5)
    return weight


def tree(x: Any, rng: Any) -> Any:
    leaves = np.array([sum(x[i : i + 2]) for i in range(0, 4, 2)]) + rng.laplace(scale=2.0, size=2)
    root = np.array(sum(x[:4])) + rng.laplace(scale=2.0)
    return [float(leaves[0]), float(np.asarray(leaves).sum()), float(root)]


def subsampled(x: Any, rng: Any) -> Any:
    keep = rng.random(5) < 0.5
    return float(np.sum(np.array(x)[keep[: len(x)]]) + rng.laplace(scale=1.0))


def shuffled(x: Any, rng: Any) -> Any:
    order = list(x)
    rng.shuffle(order)
    return clipped(order[:2]) + rng.laplace(scale=1.0)


def in_place_noise(x: Any, rng: Any) -> Any:
    counts = np.histogram(x, bins=4, range=(0, 1))[0].astype(float)
    counts += rng.laplace(scale=1.0, size=4)
    return {"counts": counts, "total": counts.sum(), "text": f"{counts[0]:.3f}"}


def twice_looked_at(x: Any, rng: Any) -> Any:
    noisy = clipped(x) + rng.laplace(scale=1.0)
    return [noisy, noisy + 1.0, 3 * noisy, max(0.0, noisy), noisy > 2, round(noisy, 2)]


def sum_of_normals(x: Any, rng: Any) -> Any:
    shares = rng.normal(scale=2.0, size=4)
    return clipped(x) + shares[0] + shares[1] + shares[2] + shares[3]


# The six of which naive comparisons say that they are faulty.


def coin_response(x: Any, rng: Any) -> Any:
    return x if rng.random() < math.e / (1 + math.e) else not x


def exponential_by_choice(x: Any, rng: Any) -> Any:
    weights = np.exp(np.histogram(x, bins=5, range=(0, 1))[0] / 2)
    return int(rng.choice(5, p=weights / weights.sum()))


def laplace_by_inverse(x: Any, rng: Any) -> Any:
    u = rng.random() - 0.5
    return len(x) - math.copysign(1.0, u) * math.log1p(-2 * abs(u))


def two_sided_geometric(x: Any, rng: Any) -> Any:
    p = 1 - math.exp(-1.0)
    return len(x) + int(rng.geometric(p)) - int(rng.geometric(p))


def thresholded_keys(x: Any, rng: Any) -> Any:
    threshold, found = 1 + math.log(1 / (2 * 1e-5)), {}
    for key in sorted(set(x)):
        noisy = float(x.count(key) + rng.laplace(scale=1.0))
        if noisy > threshold:
            found[key] = noisy
    return found


def smooth_sensitivity(x: Any, rng: Any) -> Any:
    rate = 1.0 / (2 * math.log(2 / 1e-5))
    sizes = [math.exp(-rate * k) * min(1.0, abs(len(x) - 5 - k) * 0.1 + 0.2 + k * 0.1) for k in range(60)]
    return len(x) * 0.2 + rng.laplace(scale=2 * max(sizes))


def bare_noise(x: Any, rng: Any) -> Any:
    return len(x) + float(rng.laplace(scale=1.0))


def sorted_by_truth(x: Any, rng: Any) -> Any:
    """Which of two counts is the larger one decides where they stand: a sorted pair moves no more than the pair."""
    small, large = above(x, 0.5), len(x) - above(x, 0.5)
    noisy = [small + float(rng.laplace(scale=1.0)), large + float(rng.laplace(scale=1.0))]
    return noisy if small > large else noisy[::-1]


def sorted_counts(x: Any, rng: Any) -> Any:
    """The counts swap, so the law of the sorted answers is the same on both data sets: it is 0-DP on the pair."""
    noisy = np.array([above(x, 0.5), len(x) - above(x, 0.5)]) + rng.laplace(scale=1.0, size=2)
    return sorted(float(value) for value in noisy)


def threshold_drawn_last(x: Any, rng: Any) -> Any:
    noisy = np.array([above(x, 0.5), above(x, 0.8)]) + rng.laplace(scale=4.0, size=2)
    return [bool(value) for value in noisy > 1.0 + rng.laplace(scale=2.0)]


CORRECT = (
    Case(count, FIVE, FOUR, 1.0),
    Case(clipped_sum, FIVE, FOUR, 1.0),
    Case(clipped_sum, LARGE, FIVE, 1.0),
    Case(histogram, FIVE, FOUR, 1.0),
    Case(gaussian_mean, FIVE, FOUR, 1.2, 1e-5),
    Case(composition, FIVE, FOUR, 1.0),
    Case(adaptive, FIVE, FOUR, 1.0),
    Case(until_small, FIVE, FOUR, 1.0),
    Case(exponential_by_gumbel, FIVE, FOUR, 1.0),
    Case(noisy_max, FIVE, FOUR, 1.0),
    Case(above_threshold, FIVE, FOUR, 1.0),
    Case(descent, FIVE, FOUR, 2.0, 1e-5),
    Case(tree, FIVE[:4], [0.2, 0.9, 0.4, 0.0], 1.0),
    Case(subsampled, FIVE, REPLACED, 1.0),
    Case(shuffled, FIVE, REPLACED, 1.0),
    Case(in_place_noise, FIVE, FOUR, 1.0),
    Case(twice_looked_at, FIVE, FOUR, 1.0),
    Case(sum_of_normals, FIVE, FOUR, 1.2, 1e-5),
    Case(threshold_drawn_last, FIVE, FOUR, 1.0),
)
"""Correct algorithms that a replay follows."""

UNFOLLOWED = (
    Case(coin_response, False, True, 1.0, 0.0, ("not covered",)),
    Case(exponential_by_choice, FIVE, FOUR, 1.0, 0.0, ("not covered",)),
    Case(laplace_by_inverse, FIVE, FOUR, 1.0, 0.0, ("not covered",)),
    Case(two_sided_geometric, FIVE, FOUR, 1.0, 0.0, ("not covered",)),
    Case(thresholded_keys, [*KEYS, "new"], KEYS, 1.0, 1e-5, ("not certified",)),
    Case(smooth_sensitivity, list(range(9)), list(range(10)), 1.0, 1e-5, ("not certified",)),
    Case(bare_noise, FIVE, FOUR, 1.0, 0.0, ("not covered",)),
    Case(sorted_counts, [0.9, 0.9, 0.1], [0.9, 0.1, 0.1], 0.5, 0.0, ("not certified",)),
    Case(sorted_by_truth, [0.9, 0.9, 0.1], [0.9, 0.1], 1.0, 0.0, ("not covered",)),
)
"""Correct algorithms that a replay can't certify, and must not convict."""

# --- faulty ----------------------------------------------------------------------------------------------------------


def slipped_clip(x: Any, rng: Any) -> Any:
    return clipped(x, 1.03) + rng.laplace(scale=1.0)


def no_clip(x: Any, rng: Any) -> Any:
    return np.sum(x) + rng.laplace(scale=1.0)


def noise_reuse(x: Any, rng: Any) -> Any:
    noise = rng.laplace(scale=2.0)
    return len(x) + noise, clipped(x) + noise


def noise_reuse_in_vector(x: Any, rng: Any) -> Any:
    return np.histogram(x, bins=4, range=(0, 1))[0] + rng.laplace(scale=4.0)


def queries_by_data(x: Any, rng: Any) -> Any:
    return [float(value > 0.5) + rng.laplace(scale=1.0) for value in x]


def unpaid_maximum(x: Any, rng: Any) -> Any:
    return len(x) + rng.laplace(scale=1.0), round(float(np.max(x)), 1)


def unpaid_count(x: Any, rng: Any) -> Any:
    return {"noisy": len(x) + rng.laplace(scale=1.0), "exact": len(x)}


def no_noise(x: Any, rng: Any) -> Any:
    return len(x)


def scale_by_data(x: Any, rng: Any) -> Any:
    return clipped(x) + rng.laplace(scale=max(x))


def branch_by_data(x: Any, rng: Any) -> Any:
    return clipped(x) + (rng.laplace(scale=1.0) if len(x) > 4 else rng.normal(scale=1.0))


def compared_value_released(x: Any, rng: Any) -> Any:
    threshold = 3.0 + rng.laplace(scale=2.0)
    for step in range(12):
        noisy = above(x, step / 12) + rng.laplace(scale=4.0)
        if noisy >= threshold:
            return float(noisy)
    return None


def no_query_noise(x: Any, rng: Any) -> Any:
    threshold = 3.0 + rng.laplace(scale=1.0)
    return [bool(threshold < above(x, step / 12)) for step in range(12)]


def answers_paid_once(x: Any, rng: Any) -> Any:
    threshold = 2.0 + rng.laplace(scale=2.0)
    return [bool(above(x, step / 12) + rng.laplace(scale=4.0) >= threshold) for step in range(12)]


def own_generator(x: Any, rng: Any) -> Any:
    return len(x) + np.random.default_rng().laplace()


def fixed_seed(x: Any, rng: Any) -> Any:
    return len(x) + np.random.default_rng(7).laplace()


def late_slip(x: Any, rng: Any) -> Any:
    """The last of eight calls is at fault."""
    return [clipped(x, 1.0 if step < 7 else 20.0) + rng.laplace(scale=8.0) for step in range(8)]


def off_edge(x: Any, rng: Any) -> Any:
    return clipped(x) + 0.97 * rng.laplace(scale=1.0)


FAULTY = (
    Case(slipped_clip, [*FIVE, 1.2], FIVE, 1.0, 0.0, ("violation",)),
    Case(no_clip, LARGE, FIVE, 1.0, 0.0, ("violation",)),
    Case(noise_reuse, FIVE, FOUR, 1.0, 0.0, ("violation",)),
    Case(noise_reuse_in_vector, FIVE, FOUR, 1.0, 0.0, ("violation",)),
    Case(queries_by_data, FIVE, FOUR, 5.0, 0.0, ("violation",)),
    Case(unpaid_maximum, FIVE, REPLACED, 1.0, 0.0, ("violation",)),
    Case(unpaid_count, FIVE, FOUR, 1.0, 0.0, ("violation",)),
    Case(no_noise, FIVE, FOUR, 1.0, 0.0, ("violation",)),
    Case(scale_by_data, FIVE, REPLACED, 1.0, 0.0, ("violation", "not certified")),
    Case(branch_by_data, FIVE, FOUR, 1.0, 1e-5, ("not certified",)),
    Case(compared_value_released, FIVE, FOUR, 1.0, 0.0, ("not certified",)),
    Case(no_query_noise, FIVE, FOUR, 1.0, 0.0, ("not certified",)),
    Case(answers_paid_once, [0.9] * 5, [0.9] * 4, 1.0, 0.0, ("not certified",)),
    Case(own_generator, FIVE, FOUR, 1.0, 0.0, ("not covered",)),
    Case(fixed_seed, FIVE, FOUR, 1.0, 0.0, ("not covered",)),
    Case(late_slip, LARGE, FIVE, 1.0, 0.0, ("violation",)),
)
"""Faults that a replay must find on the pair."""

UNSEEN = Case(off_edge, FIVE, FOUR, 1.0)
"""Too little noise, on a pair whose distance is 0.7: right for this pair."""

# --- tests ------------------------------------------------------------------------------------------------------------


def of(case: Case, **options: Any) -> ReplayVerdict:
    return replay(case.algorithm, case.d0, case.d1, epsilon=case.epsilon, delta=case.delta, **{"seed": 1, **options})


def case_name(case: Case) -> str:
    return str(case.name)


@pytest.mark.parametrize("case", CORRECT, ids=case_name)
@pytest.mark.every(3)
def test_correct_algorithms_agree_on_twenty_paths_in_both_orders(case: Case) -> None:
    found = of(case)

    assert found.outcome == "agrees", str(found)
    assert found.findings == () and found.paths == 20
    assert found.epsilon_path <= case.epsilon * (1 + 1e-9) and found.graph is not None
    assert found.guarantee().epsilon(case.delta).upper == found.epsilon_path


@pytest.mark.parametrize("case", UNFOLLOWED, ids=case_name)
def test_correct_algorithms_that_are_not_followed_are_not_convicted(case: Case) -> None:
    found = of(case)

    assert found.outcome == case.outcomes[0], str(found)
    assert all(finding.where for finding in found.findings)


@pytest.mark.parametrize("case", FAULTY, ids=case_name)
def test_each_fault_is_found_and_its_line_named(case: Case) -> None:
    found = of(case)

    assert found.outcome == case.outcomes[0], str(found)
    code = case.algorithm.__code__
    for finding in found.findings:
        file, _, line = finding.where.rpartition(":")
        assert file.endswith("test_cases.py")
        assert code.co_firstlineno <= int(line) <= code.co_firstlineno + 9, finding


@pytest.mark.deep
@pytest.mark.parametrize("seed", [2, 3, 4])
def test_other_seeds_decide_alike(seed: int) -> None:
    for case in (*CORRECT, *UNFOLLOWED):
        assert of(case, seed=seed).outcome != "violation", case.name
    for case in FAULTY:
        assert of(case, seed=seed).outcome in case.outcomes, case.name


def test_a_pair_off_the_edge_agrees_and_says_how_far_it_went() -> None:
    found = of(UNSEEN)

    assert found.outcome == "agrees"
    assert found.mechanisms[0].largest == pytest.approx(0.7)
    assert "largest distance 0.7 (l1)" in str(found)
    assert found.epsilon_path == pytest.approx(0.7 / 0.97)
