"""The privacy cost of the lazy learner of experts against an adversary who sees only the played experts.

The plan's guarantee is for the full view, and holds for the actions as well, which are post-processing. But a hidden
shadow costs only the information that the coins give about it, and most coins do not depend on it. Let the last batch's
losses be L, the expert x, and let

    k_low <= k(x, y) <= k_high     for every shadow y

be the keep probability's range. A uniform u below k_low keeps x, and u >= k_high redraws it, whatever y is. So the
shadow may be drawn when a coin first depends on it, from the measure at which it was last refreshed: nothing published
before depends on it. Consider a stronger adversary, who sees the shadow whenever a coin depends on it, and every
decision and draw of x. For a person whose batch is s0, that adversary sees:

* the boundary after s0: one decision (x and y are from before s0, equally in both worlds), and a draw of x in full;
* each of the n - s0 - 1 boundaries after it: nothing with probability k_low; a draw of x with probability 1 - k_high;
  else a shadow, and perhaps a draw of x. These probabilities depend on what is public and on an unchanged batch, so
  they are equal in both worlds. Any draw has a chance of at most r, and two draws of at most w, where

      r = 1 - (1 - p) exp(-c - η B),    w = max (k_high - k_low) = (1 - p) (exp(η B) - 1) exp(-max(c, η B)).

The full view charges the shadow at rate p_y instead, which is less if p_y < w: the smaller bound applies. The argument
is for one changed round. With two, the second one's boundary would show the shadow with probabilities that differ
between the worlds, so groups are charged as in the full view.
"""

import math

from hockeystick import accounting
from hockeystick.accounting import Bracket, Charge, Move, PrivacyEvent, VisibleMixture
from hockeystick.accounting.events.catalogue import compose
from hockeystick.accounting.validate import integer
from hockeystick.learners.lazy.experts.lazy_experts import LazyExperts

_ROUNDING = 1e-12  # more than the rounding error of a probability from exponentials


def actions_epsilon(learner: LazyExperts, delta: float, *, round_: int = 0, bracket: bool = False) -> Bracket:
    """Returns the certified ε at ``delta`` against adversaries who see only the played experts, for one person.

    It never exceeds that of the full view. It is smaller for L2P if the shadow is refreshed more often than coins
    depend on it. It is equal for the dartboard, a frozen shadow, and a draw budget (the adversary sees the number of
    draws), where no better bound is known. Losses may depend on earlier actions.

    Args:
        learner: The learner.
        delta: In [0, 1].
        round_: The person's round, 0-based; the first one pays most.
        bracket: Also compute the lower end of the computation's bracket.

    Raises:
        InvalidArgumentError: an argument outside its domain.

    Example:
        >>> learner = LazyExperts(rounds=9, experts=2, learning_rate=0.1, fake_switch_probability=0.3)
        >>> round(actions_epsilon(learner, 1e-3).upper, 3), round(learner.epsilon_for(0, 1e-3), 3)
        (0.862, 0.982)
    """
    round_ = integer("round_", round_, low=0, high=learner.rounds - 1)
    member = round_ // learner.batch + 1
    full = learner.graph().guarantee_for("batches", member=member).epsilon(delta, bracket=bracket)
    if member == learner.batches or learner.refresh_probability == 0.0 or learner.draw_budget is not None:
        return full
    found = accounting.epsilon(_event(learner, member), delta, bracket=bracket)
    return found if found.upper < full.upper else full


def look_probability(learner: LazyExperts) -> float:
    """Returns w, the largest probability that a boundary's coin depends on the shadow, over all experts and losses."""
    span = learner.batch * learner.learning_rate
    likely = (1.0 - learner.fake_switch_probability) * -math.expm1(-span)
    return min(1.0, likely * math.exp(min(0.0, span - learner.log_normaliser)) * (1.0 + _ROUNDING))


def _event(learner: LazyExperts, member: int) -> PrivacyEvent:
    draw, some, two = learner.draw.event(), learner.largest_redraw_probability, look_probability(learner)
    later = VisibleMixture(some, compose(draw, VisibleMixture(min(1.0, two / some * (1.0 + _ROUNDING)), draw)))
    boundaries = learner.batches - member - 1
    charges: tuple[Charge, ...] = (Charge("switch", learner.switch.event(), 1, leading=True), Charge("redraw", draw, 1))
    if boundaries:
        charges += (Charge("later redraws", later, boundaries),)
    return Move("a changed round", charges).event()
