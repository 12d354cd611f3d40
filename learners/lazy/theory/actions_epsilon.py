"""What the lazy learner of experts costs an adversary who sees the played experts and nothing else.

The plan's guarantee is for the full view, and holds for the actions as well: they are post-processing. But a shadow
that nobody sees costs only what the coins say about it, and most coins are thrown without looking at it. Let the last
batch's losses be L, the expert x, and let

    k_low <= k(x, y) <= k_high     for every shadow y

be the keep probability's range. A uniform u below k_low keeps x and one from k_high on redraws it, whatever y is. So
the shadow may be drawn when it is first looked at, from the measure at which it was last refreshed: nothing published
before depends on it. An adversary who is shown the shadow whenever it is looked at, and every decision and draw of x,
knows the actions too. For a person whose batch is s0, that adversary sees:

* the boundary after s0: one decision (x and y are from before s0, equally in both worlds), and a draw of x in full;
* each of the n - s0 - 1 boundaries after it: nothing with probability k_low; a draw of x with probability 1 - k_high;
  else a shadow, and perhaps a draw of x. These probabilities depend on what is public and on an unchanged batch, so
  they are equal in both worlds. Any draw has a chance of at most r, and two draws of at most w, where

      r = 1 - (1 - p) exp(-c - eta B),    w = max (k_high - k_low) = (1 - p) (exp(eta B) - 1) exp(-max(c, eta B)).

The full view pays the shadow at rate p_y instead. That is less where p_y < w: the smaller bound is the one to take.
The argument is for one changed round. With two, the second one's boundary would show the shadow by chances that differ
between the worlds, so groups are paid as in the full view.
"""

import math

from hockeystick import accounting
from hockeystick.accounting import Bracket, Charge, Move, PrivacyEvent, VisibleMixture
from hockeystick.accounting.events.catalogue import compose
from hockeystick.accounting.validate import integer
from hockeystick.learners.lazy.experts.lazy_experts import LazyExperts

_ROUNDING = 1e-12  # more than the rounding error of a probability from exponentials


def actions_epsilon(learner: LazyExperts, delta: float, *, round_: int = 0, bracket: bool = False) -> Bracket:
    """Certified epsilon at ``delta``, against adversaries who see the played experts alone, for one person.

    Never above the full view's. Below it for L2P with a shadow that is refreshed more often than looked at; equal to it
    for the dartboard, a frozen shadow and with a draw budget (the count of draws is seen), where nothing better is
    known. Losses may depend on earlier actions.

    Args:
        learner: The learner.
        delta: In [0, 1].
        round_: The person's round, 0-based; the first one pays most.
        bracket: Also compute the lower end of the computation's bracket.

    Raises:
        InvalidArgumentError: an argument outside its domain.
    """
    round_ = integer("round_", round_, low=0, high=learner.rounds - 1)
    member = round_ // learner.batch + 1
    full = learner.graph().guarantee_for("batches", member=member).epsilon(delta, bracket=bracket)
    if member == learner.batches or learner.refresh_probability == 0.0 or learner.draw_budget is not None:
        return full
    found = accounting.epsilon(_event(learner, member), delta, bracket=bracket)
    return found if found.upper < full.upper else full


def look_probability(learner: LazyExperts) -> float:
    """Largest probability w, over all experts and losses, that a boundary's coin depends on the shadow (rounded up)."""
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
