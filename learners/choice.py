"""The private learner of experts with the least proved bound on its regret, for given rounds, experts, ε and δ."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.validate import boolean, one_of
from hockeystick.learners.anytime.restarts import Anytime
from hockeystick.learners.common import arguments
from hockeystick.learners.common.calibration_search import Target
from hockeystick.learners.common.choices import Choice, compared
from hockeystick.learners.common.online_learner import OnlineLearner
from hockeystick.learners.common.prefix_sums import Sums
from hockeystick.learners.common.regret_bound import Adversary, RegretBound, checked_adversary
from hockeystick.learners.federated.limited_updates import LimitedUpdates
from hockeystick.learners.lazy.comparators.anytime_tree_experts import AnytimeTreeExperts
from hockeystick.learners.lazy.comparators.anytime_tree_experts import Policy as AnytimePolicy
from hockeystick.learners.lazy.comparators.shrinking_dartboard import ShrinkingDartboard
from hockeystick.learners.lazy.comparators.tree_experts import Policy, TreeExperts
from hockeystick.learners.lazy.experts.lazy_experts import LazyExperts

Horizon = Literal["known", "unknown"]
Learner = Anytime | AnytimeTreeExperts | LazyExperts | LimitedUpdates | ShrinkingDartboard | TreeExperts
Makers = dict[str, tuple[type[OnlineLearner], Callable[[], Learner]]]

_FIRST, _RATIO = 64, 4  # the length of the first epoch of restarts, and how much longer each next one is
_LONGEST_ROOT = 1 << 14  # rounds; the running state of longer square roots is too large, and buffers take its place


def choose(
    *,
    rounds: int,
    experts: int,
    epsilon: float,
    delta: float,
    adversary: Adversary = "oblivious",
    group: int = 1,
    clip: bool = False,
    horizon: Horizon = "known",
    mixtures: bool = False,
) -> Choice:
    """Returns the private learner of experts with the least proved bound on its expected regret.

    Each round's losses are one person's, in [0, 1] (replace-one; rounds keep their places), and every candidate is
    (ε, δ)-DP for ``group`` people together. The candidates are the lazy dartboard, which turns into Hedge with fresh
    draws where ε * T is small; the dartboard with a budget of draws; the leader of noisy prefix sums or Hedge on them,
    by a binary tree, and by the square-root factorisation or, above 2^14 rounds, four buffers in its place; and one
    uniform draw, which reads no data.
    L2P is none: its bound is never below the dartboard's. For stochastic losses, limited updates are one, too.

    Args:
        rounds: T >= 2.
        experts: d >= 2.
        epsilon: Target, > 0.
        delta: The δ of the target, in (0, 1).
        adversary: "oblivious" for losses that are fixed in advance, "stochastic" for independent ones of one law;
            "adaptive" for losses that may depend on earlier plays, against which no lazy learner has a bound.
        group: Number of people that the target protects together.
        clip: Clip losses to [0, 1] instead of refusing others.
        horizon: "unknown" for learners that need not know the number of rounds and may go on after ``rounds``, at which
            their bounds are compared: the leader of noisy sums and Hedge on them, by a tree that grows, and restarts of
            the dartboard, which end after four times ``rounds`` at the earliest.
        mixtures: Compare learners alone that publish the distribution of each round's expert.

    Raises:
        InvalidArgumentError: an argument outside its domain.

    Example:
        >>> from hockeystick.mechanisms import SimulationNoise
        >>> choice = choose(rounds=1000, experts=2, epsilon=1.0, delta=1e-6)
        >>> print(choice)
        leader of noisy sums (square root): expected regret at most 18.25, for oblivious losses
          Hedge on noisy sums (square root): 27.56
          leader of noisy sums (tree): 27.79
          dartboard: 35
          Hedge on noisy sums (tree): 37.1
          dartboard with a budget: 37.9
          one uniform draw: 500
        >>> choice.learner.release([[0.0, 1.0]] * 1000, noise=SimulationNoise(1)).shape
        (1000,)
    """
    rounds, experts = arguments.two_rounds(rounds), arguments.experts(experts)
    target = Target(epsilon=epsilon, delta=delta, group=group)
    kind = checked_adversary(adversary)
    goal: dict[str, Any] = {"rounds": rounds, "experts": experts, "epsilon": target.epsilon, "delta": target.delta}
    goal |= {"group": target.group, "clip": arguments.clip(clip)}
    if one_of("horizon", horizon, "known", "unknown") == "unknown":
        del goal["rounds"]
        own: tuple[AnytimePolicy, ...] = ("adaptive hedge",) if kind == "adaptive" else ("hedge", "leader")
        growing: Makers = {
            f"{'leader of' if policy == 'leader' else 'Hedge on'} noisy sums (growing tree)": (
                AnytimeTreeExperts,
                partial(AnytimeTreeExperts.calibrated, **goal, policy=policy),
            )
            for policy in own
        }
        if kind != "adaptive":
            growing["dartboard, restarted"] = Anytime, partial(_restarted, rounds, target, experts, goal["clip"])
        return _best(growing, lambda learner: learner.regret_bound(rounds, adversary=kind), target, mixtures)
    lazy = "Hedge with fresh draws" if kind == "adaptive" else "dartboard"
    makers: Makers = {lazy: (LazyExperts, partial(LazyExperts.calibrated, **goal, adversary=kind))}
    policies: tuple[Policy, ...] = ("adaptive hedge",) if kind == "adaptive" else ("hedge", "leader")
    better: Sums = "square root" if rounds <= _LONGEST_ROOT else "buffered"
    for sums, policy in itertools.product(("tree", better), policies):
        name = f"{'leader of' if policy == 'leader' else 'Hedge on'} noisy sums ({sums})"
        makers[name] = TreeExperts, partial(TreeExperts.calibrated, **goal, sums=sums, policy=policy)
    if kind != "adaptive":
        makers["dartboard with a budget"] = ShrinkingDartboard, partial(ShrinkingDartboard.calibrated, **goal)
        makers["one uniform draw"] = LazyExperts, partial(_uniform, rounds, experts, clip)
    if kind == "stochastic":
        makers["limited updates"] = LimitedUpdates, partial(LimitedUpdates.calibrated, **goal)
    return _best(makers, lambda learner: learner.regret_bound(adversary=kind), target, mixtures)


def _best(makers: Makers, bound: Callable[[Any], RegretBound], target: Target, mixtures: bool) -> Choice:
    choice = compared(makers, bound, mixtures=boolean("mixtures", mixtures))
    if not choice.candidates:
        raise target.unmet()
    return choice


def _restarted(rounds: int, target: Target, experts: int, clip: bool) -> Anytime:
    """Returns the dartboard in growing epochs, of four times ``rounds`` at least.

    Raises:
        InvalidArgumentError: the target can't be met, also for a group that is split over epochs.
    """

    def dartboard(length: int) -> LazyExperts:
        return LazyExperts.calibrated(
            rounds=length,
            experts=experts,
            epsilon=target.epsilon,
            delta=target.delta,
            group=min(target.group, length),
            clip=clip,
        )

    found = Anytime(dartboard, epochs=math.ceil(math.log(12 * rounds / _FIRST + 1, _RATIO)), first=_FIRST, ratio=_RATIO)
    if found.guarantee(group=target.group).epsilon(target.delta).upper > target.epsilon:
        raise InvalidArgumentError(
            "group", target.group, "costs more than the target if it is split over epochs", "use a growing tree"
        )
    return found


def _uniform(rounds: int, experts: int, clip: bool) -> LazyExperts:
    """Returns the learner that draws one expert uniformly and keeps it; it reads no data, so ε = 0."""
    return LazyExperts(
        rounds=rounds,
        experts=experts,
        learning_rate=1.0,
        fake_switch_probability=0.0,
        variant="dartboard",
        draw_budget=0,
        clip=clip,
    )
