"""The privacy cost of a lazy learner as an accountant graph: one plan for all of them, whatever they draw.

A lazy learner publishes one action per batch. The full view consists of its switching decisions, its draws and its
shadow's draws; the actions are post-processing. One person's losses are in one batch, and:

* until that batch is over, nothing depends on them;
* the decision right after it reads them, and no later decision does, given the public past: decisions compose in
  parallel over batches;
* if that decision says "redraw", a draw surely follows: it is charged in full, since its coin is already charged;
* every later draw happens with a probability that is the same in both worlds: a visible mixture.

Source: Asi, Koren, Liu & Talwar 2024 (Algorithm 1, Theorem 3.2); their proof is not used.
"""

import math

from attrs import field, frozen

from hockeystick.accounting import NO_EVENT, AccountantGraph, Adjacency, PrivacyEvent, Reach, VisibleMixture
from hockeystick.accounting.events.catalogue import ApproximateDP

_ROUNDING = 1e-12  # more than the rounding error of a probability from logarithms


def largest_redraw(fake_switch_probability: float, smallest_log_keep: float) -> float:
    """Returns the largest probability of a redraw at a boundary, 1 - (1 - p) * exp(``smallest_log_keep``), rounded up.

    Rounding up is sound: a visible mixture costs more, the likelier its event is.
    """
    if fake_switch_probability == 1.0:
        return 1.0
    found = -math.expm1(math.log1p(-fake_switch_probability) + smallest_log_keep)
    return min(1.0, found * (1.0 + _ROUNDING))


@frozen(kw_only=True)
class LazyPlan:
    """The costs of a lazy walk through ``batches`` batches for the people in them, under replace-one.

    Attributes:
        batches: n >= 1.
        switch: One decision, for one person of the batch before it.
        draw: One draw, of an action or of a shadow, for one person of any batch before it.
        redraw: The largest probability that a decision says "redraw", over all states and losses.
        refresh: The probability of a shadow's draw at a boundary, whatever the data; 0 if there is no shadow.
        draws: The largest number of draws of a run at boundaries, including shadows; None for no limit.
        boundary_failure: Probability, per boundary, that ``switch`` or ``redraw`` is exceeded.
        failure: Probability, once per run, that any of them is.
        assumptions: The assumptions of the guarantee, in addition to one person per round.
    """

    batches: int
    switch: PrivacyEvent
    draw: PrivacyEvent
    redraw: float
    refresh: float = 0.0
    draws: int | None = None
    boundary_failure: float = 0.0
    failure: float = 0.0
    assumptions: tuple[str, ...] = field(default=())

    def graph(self) -> AccountantGraph:
        """Returns the plan: a few release families, whatever the number of rounds.

        The source is the family of n batches under replace-one, rounds pinned to their places. Release family j is
        the boundary after which batch j is played:

        * ``switch``: the decision, which reads only batch j-1;
        * ``redraw``: the draw on that decision's redraw branch, in full;
        * ``later redraws``: from two boundaries on;
        * ``shadow``: the shadow's draws;
        * ``tails``, ``failure``: the failure of the bounds behind the other events, per boundary and once.

        A limit of K draws replaces the three families of draws by ``draws``, K of them. The random times of the draws
        change nothing: the past view determines the law of the coins, equally in both worlds.
        """
        graph = AccountantGraph(
            adjacency=Adjacency.REPLACE_ONE,
            pinned=True,
            assumptions=(*self.assumptions, "each person is one round"),
        ).source("batches", size=self.batches)
        most = None if self.draws is None else min(self.draws, (self.batches - 1) * (2 if self.refresh else 1))
        if self.batches == 1 or most == 0:
            return graph  # every action is drawn before any data is seen
        reads, once, after = ("batches",), Reach(1, 1), Reach(1, None)
        if self.switch != NO_EVENT:  # a walk that always redraws decides nothing
            graph = graph.release("switch", self.switch, reads=reads, reach=once, leading=True)
        if most is not None:
            graph = graph.release("draws", self.draw, reads=reads, count=most, reach=once, cumulative=True)
        else:
            graph = graph.release("redraw", self.draw, reads=reads, reach=once, cumulative=True)
            mixture = self.draw if self.redraw == 1.0 else VisibleMixture(self.redraw, self.draw)
            graph = graph.release("later redraws", mixture, reads=reads, reach=Reach(2, None), cumulative=True)
            if self.refresh:
                shadow = VisibleMixture(self.refresh, self.draw)
                graph = graph.release("shadow", shadow, reads=reads, reach=after, cumulative=True)
        # The bounds for a group are those for one person times its size, with the same failure probability: one δ
        # per person more than covers them.
        every = once if most is not None else after
        for name, chance, reach in (("tails", self.boundary_failure, every), ("failure", self.failure, once)):
            if chance > 0.0:
                event = ApproximateDP(0.0, min(1.0, chance))
                graph = graph.release(name, event, reads=reads, reach=reach, cumulative=True)
        return graph
