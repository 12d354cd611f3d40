"""The number of expert problems that can share the same people and one budget, at almost no cost in regret.

Asi, Koren, Liu & Talwar 2024 (section 1.1) promise T^(1/2) of them: privacy is free for each down to ε =
T^(-1/4), and the ε of k problems add up to about sqrt(k) ε. No learner is known that reaches this rate at that ε. The
number does grow at that rate if privacy curves are composed instead of ε: see :func:`free_instances`.
"""

import math
from collections.abc import Callable, Iterator
from typing import Literal

import numpy as np
from attrs import frozen

from hockeystick import accounting
from hockeystick.accounting import InvalidArgumentError, VisibleMixture
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.losses import optimal_composition
from hockeystick.accounting.validate import integer, one_of, probability, real
from hockeystick.learners.lazy.experts.lazy_experts import LazyExperts
from hockeystick.learners.lazy.experts.setting import Variant

Known = Literal["curve", "epsilon"]

_ORDERS = 1.0 + np.geomspace(0.02, 1e5, 96)


@frozen
class FreeInstances:
    """A number of problems that share one budget, and the learner of each; the learners' graphs certify it.

    See ``free_instances`` for an example.

    Attributes:
        instances: The number K.
        learner: The learner of each problem.
        epsilon: The ε of a single problem, or None if the number is certified by curves.
    """

    instances: int
    learner: LazyExperts
    epsilon: float | None = None


def free_instances(
    *,
    rounds: int,
    experts: int,
    epsilon: float,
    delta: float,
    excess: float = 2.0,
    variant: Variant = "dartboard",
    known: Known = "curve",
) -> FreeInstances:
    """Returns the largest number of expert problems that can read the same people's losses at (ε, δ) in total.

    Each has a worst-case regret of at most ``excess`` * sqrt(T ln d); without privacy it is sqrt(T ln d / 2). Batches
    and fake-switch probabilities are searched on a grid, and every learner has the smallest learning rate that its
    regret allows, of order T^(-1/2). The growth depends on the known description of each problem's learner:

    * its "curve": the Rényi curve of the composed graphs certifies the number. A decision costs rate^2/p in Rényi
      terms and all redraws T p rate^2, so that p ~ T^(-1/2) is best and the number grows like T^(1/2). A single
      decision's worst loss, rate/p, is then of order 1;
    * its "epsilon" only, at δ/(2K): the optimal composition of K equal (ε, δ) guarantees certifies the
      number (Kairouz, Oh & Viswanath 2015). Now rate/p has to fall with ε_1 ~ K^(-1/2), and redraws cost
      ε_1^2 ~ T p rate^2 > T rate^3/ε_1: ε_1 ~ T^(-1/6) and the number grows like T^(1/3).

    Problems may run concurrently: both compositions hold for interleaved interactive mechanisms (Lyu 2022).

    Args:
        rounds: T >= 2.
        experts: d >= 2.
        epsilon, delta: The total budget, ε > 0 and δ in (0, 1).
        excess: At least 0.75.
        variant: The variant of the lazy learner.
        known: "curve" or "epsilon".

    Raises:
        InvalidArgumentError: an argument outside its domain, or not even one problem fits.

    Example:
        >>> found = free_instances(rounds=20, experts=2, epsilon=4.0, delta=1e-3)
        >>> found.instances, found.learner.variant
        (31, 'dartboard')
    """
    rounds = integer("rounds", rounds, low=2)
    experts = integer("experts", experts, low=2)
    epsilon, delta = real("epsilon", epsilon, low=0.0, low_open=True), probability("delta", delta, open=True)
    allowed = real("excess", excess, low=0.75) * math.sqrt(rounds * math.log(experts))
    one_of("known", known, "curve", "epsilon")
    candidates = [(learner, _cost(learner, _ORDERS)) for learner in _candidates(rounds, experts, allowed, variant)]
    if known == "curve":
        spare = epsilon - _conversion(delta)
        learner = max(candidates, key=lambda pair: float(np.max(spare / pair[1])))[0]
        return _certified(learner, epsilon, delta)
    found: FreeInstances | None = None
    while True:  # the best learner depends on δ/(2K), but only through its logarithm
        each = _conversion(delta / (2.0 * (1 if found is None else found.instances)))
        learner = min(candidates, key=lambda pair: float(np.min(pair[1] + each)))[0]
        more = _certified_alone(learner, epsilon, delta)
        if found is not None and more.instances <= found.instances:
            return found
        found = more


def _conversion(delta: float) -> FloatArray:
    """Returns the term, per order, from a Rényi curve to ε (Canonne, Kamath & Steinke 2020, Prop. 12)."""
    found: FloatArray = np.log1p(-1.0 / _ORDERS) - (math.log(delta) + np.log(_ORDERS)) / (_ORDERS - 1.0)
    return found


def _candidates(rounds: int, experts: int, allowed: float, variant: Variant) -> Iterator[LazyExperts]:
    """Yields learners whose regret bound is ``allowed``."""
    for batch in range(1, rounds + 1):
        root = allowed**2 - rounds * batch * math.log(experts) / 2.0
        if root < 0.0:
            break
        # The smaller root of ln(d)/rate + rate*T*B/8 = allowed, in its numerically stable form.
        rate = 2.0 * math.log(experts) / (allowed + math.sqrt(root))
        for p in np.unique(np.minimum(0.9, rate * np.geomspace(0.5, 1e4, 40))):
            yield LazyExperts(
                rounds=rounds,
                experts=experts,
                batch=batch,
                learning_rate=rate,
                fake_switch_probability=float(p),
                variant=variant,
            )


def _cost(learner: LazyExperts, orders: FloatArray) -> FloatArray:
    """Returns the Rényi curve of the first person's events, as in the learner's graph; for a search, not certified."""
    draw = learner.draw.event()
    later = VisibleMixture(learner.largest_redraw_probability, draw).rdp(orders)
    shadow = VisibleMixture(learner.refresh_probability, draw).rdp(orders)
    first = learner.switch.event().rdp(orders) + draw.rdp(orders)
    found: FloatArray = first + max(0, learner.batches - 2) * later + max(0, learner.batches - 1) * shadow
    return found


def _certified(learner: LazyExperts, epsilon: float, delta: float) -> FreeInstances:
    """Returns the largest number at which the composed event meets the target."""
    event = learner.graph().guarantee().event

    def meets(instances: int) -> bool:
        together = accounting.compose((event, instances))
        return accounting.epsilon(together, delta, method="rdp").upper <= epsilon

    return FreeInstances(_most(meets, epsilon), learner)


def _certified_alone(learner: LazyExperts, epsilon: float, delta: float) -> FreeInstances:
    """Returns the largest number at which the optimal composition of single guarantees meets the target."""
    event = learner.graph().guarantee().event

    def one(instances: int) -> float:
        return accounting.epsilon(event, delta / (2.0 * instances), method="rdp").upper

    def meets(instances: int) -> bool:
        part = (one(instances), delta / (2.0 * instances), instances)
        return optimal_composition.delta([part], epsilon) <= delta

    most = _most(meets, epsilon)
    return FreeInstances(most, learner, one(most))


def _most(meets: Callable[[int], bool], epsilon: float) -> int:
    """Returns the largest number that meets a condition which all smaller numbers meet as well."""
    if not meets(1):
        raise InvalidArgumentError("epsilon", epsilon, "is too small for one problem", "allow more epsilon or regret")
    low, high = 1, 2
    while meets(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if meets(middle) else (low, middle)
    return low
