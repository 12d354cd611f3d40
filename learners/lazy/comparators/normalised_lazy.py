"""Lazy experts whose coin compares normalised measures: a comparator that shows the purpose of the shadow.

Before each batch the expert x is kept with probability

    (1 - p) * min(1, e^-c * ν_s(x) / ν_{s-1}(x)),    ν_s the *normalised* weights before batch s,

and otherwise drawn afresh from ν_s (in the style of Agarwal, Kale, Singh & Thakurta 2023, on the weights of
multiplicative weights). At c >= B*η nothing is clipped, and x follows ν_s exactly: the kept part has the density
(1-p) e^-c ν_s(x), which is also in proportion to ν_s. No shadow is needed.

The drawback: ν_s(x)/ν_{s-1}(x) = exp(-η L(x)) / E_{ν_{s-1}}[exp(-η L)], with L the last batch's losses. Through
the expectation, the coin of *every* later batch depends on a person of an earlier one. If their losses are replaced:

* right after their own batch, ln k moves as ln ν_s(x): by up to 2*η;
* later the terms in x cancel, and ln k moves by ln(E_ν'[g]/E_ν[g]), g = exp(-η L) in [G, 1], G = e^(-B η). With
  ν'/ν proportional to h, of range e^(2 η) in ratio, this is a quotient of linear functions of g, and of h, so that
  its extremes are at two-valued g = G on a set A and h = e^(2 η) there. In o, the odds of A, it is
  ln[(1 + oG)(1 + o e^(2 η))] - ln[(1 + o)(1 + o G e^(2 η))], largest at o^2 = e^(-2 η)/G, where it is

      κ = 4 artanh(tanh(η/2) tanh(B η/4)),    at most min(2 η, B η), about B η^2/2 for small rates.

A draw on a coin's own redraw branch is not as likely in both worlds, so no visible mixture of draws covers it. The pair
"coin, then draw if it says so" has a profile that is convex in the two keep probabilities (k, k'), so that the corners
of {k, k' in [lowest, highest], |ln k/k'| <= κ} are the worst. At a corner, a public coin "look" of probability
a > 1 - min(k, k') is split off: x is kept if it fails, and otherwise there is a decision with keep probabilities
1 - (1-k)/a and 1 - (1-k')/a, and a draw. Revealing that coin, and charging the draw after it in full, loses little.
"""

import math

import numpy as np
import numpy.typing as npt
from attrs import field, frozen

from hockeystick.accounting import AccountantGraph, Adjacency, InvalidArgumentError, PrivacyEvent, Reach, VisibleMixture
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.events.catalogue import LazySwitchDecision, compose, parallel
from hockeystick.accounting.validate import integer
from hockeystick.learners.common import arguments
from hockeystick.learners.common.regret_bound import Adversary, RegretBound, refuse_adaptive
from hockeystick.learners.experts import multiplicative_weights
from hockeystick.learners.experts.expert_losses import batch_sums, regret_floor
from hockeystick.learners.lazy.experts.lazy_chain import Transcripts, substreams
from hockeystick.learners.lazy.experts.lazy_run import LazyRun
from hockeystick.learners.lazy.experts.setting import BatchedExperts
from hockeystick.learners.lazy.walk.simulation import decision_loss
from hockeystick.mechanisms import LazySwitch
from hockeystick.mechanisms.contract.arguments import generator, zeros

_UP = 1.0 + 1e-12  # more than the rounding of the few operations below
_ORDER = np.array([8.0])  # Rényi order at which the probability of "look" is chosen
_EXCESSES = np.geomspace(0.05, 1e3, 60).tolist()  # candidates: relative excess over the least possible probability


@frozen(kw_only=True)
class NormalisedLazyExperts(BatchedExperts):
    """The lazy learner of experts with normalised ratios and without a shadow.

    Neighbouring streams differ in one round's losses, replaced by any others in [0, 1] (replace-one; rounds keep their
    places). The guarantee holds for adversaries that choose losses adaptively, for one person: groups are refused.

    Source: the comparison is in the style of Agarwal, Kale, Singh & Thakurta 2023; the guarantee is derived above.

    Args:
        rounds: T >= 1, one person each.
        experts: d >= 2.
        batch: B in 1 .. T; rounds per action.
        learning_rate: η > 0, per unit of loss.
        fake_switch_probability: p in [0, 1): the probability, per batch, of a redraw whatever the data.
        normaliser: c = ln C >= 0; None for B*η, the smallest at which no coin is ever clipped.
        clip: Clip losses to [0, 1], infinite ones too, instead of refusing those outside; NaN is always refused.

    Raises:
        InvalidArgumentError: an argument outside its domain.

    Example:
        >>> learner = NormalisedLazyExperts(rounds=50, experts=2, learning_rate=0.1, fake_switch_probability=0.1)
        >>> round(learner.later_change, 5), round(learner.regret_bound(), 2)
        (0.00499, 7.56)
    """

    refuses = {
        "calibrated": "it is a comparison; use LazyExperts.calibrated",
        **dict.fromkeys(("start", "resume", "release"), "its normalisers are sums of exponentials in floating point"),
    }

    normaliser: float | None = field(default=None, converter=arguments.normaliser)
    clip: bool = field(default=False, converter=arguments.clip)

    # --- derived numbers ---------------------------------------------------------------------------------------------

    @property
    def log_normaliser(self) -> float:
        """The log-normaliser c."""
        return self.batch * self.learning_rate if self.normaliser is None else self.normaliser

    @property
    def switch(self) -> LazySwitch:
        """The decision right after a person's batch."""
        span = self.batch * self.learning_rate
        return LazySwitch(
            self.fake_switch_probability,
            normaliser=self.log_normaliser,
            sensitivity=2.0 * self.learning_rate,
            lowest=-span,
            highest=span,
        )

    @property
    def later_change(self) -> float:
        """κ: the largest change of a later log-probability of keeping when one person's losses are replaced."""
        eta = self.learning_rate
        product = math.tanh(0.5 * eta) * math.tanh(0.25 * self.batch * eta) * _UP
        return 2.0 * eta if product >= 1.0 else min(2.0 * eta, 4.0 * math.atanh(product) * _UP)

    # --- privacy -----------------------------------------------------------------------------------------------------

    def later_boundary(self) -> PrivacyEvent:
        """Returns the cost of any later boundary, not the first after a person's batch: decision and possible draw."""
        kappa, span = self.later_change, self.batch * self.learning_rate
        fake = math.log1p(-self.fake_switch_probability)
        highest = fake + min(0.0, span - self.log_normaliser)
        lowest = fake - span - self.log_normaliser
        draw = self.draw.event()
        corners = ((highest, max(lowest, highest - kappa)), (min(highest, lowest + kappa), lowest))
        return parallel(*(_decide_and_draw(*corner, draw) for corner in corners))

    def graph(self) -> AccountantGraph:
        """Returns the data-independent plan, for the full view of decisions and draws.

        The source is the family of n batches under replace-one, rounds pinned to their places. Release family j is the
        boundary after which batch j is played: ``switch`` and ``redraw`` right after the person's batch, the draw in
        full, and ``later boundaries`` from two boundaries on.
        """
        graph = AccountantGraph(
            adjacency=Adjacency.REPLACE_ONE,
            pinned=True,
            assumptions=("every loss lies in [0, 1]", "each person is one round"),
        ).source("batches", size=self.batches)
        if self.batches == 1:
            return graph  # its only action is drawn before any data is seen
        reads, once = ("batches",), Reach(1, 1)
        graph = graph.release("switch", self.switch.event(), reads=reads, reach=once, leading=True)
        graph = graph.release("redraw", self.draw.event(), reads=reads, reach=once, cumulative=True)
        later = self.later_boundary()  # refuses groups: the corners depend on the size of the group
        return graph.release("later boundaries", later, reads=reads, reach=Reach(2, None), cumulative=True)

    def worst_case_neighbours(self) -> tuple[FloatArray, FloatArray]:
        """Returns two neighbouring streams, each of shape (rounds, experts), with a large privacy loss.

        The first person's losses are 1 on one half of the experts or on the other. Later batches favour the halves in
        turns: the weights stay balanced, and every decision distinguishes the streams.
        """
        half = self.experts // 2
        first = zeros((self.rounds, self.experts))
        turns = np.arange(self.rounds) // self.batch % 2
        first[turns == 0, :half] = 1.0
        first[turns == 1, half:] = 1.0
        second = first.copy()
        second[0] = 1.0 - first[0]
        return first, second

    # --- runs --------------------------------------------------------------------------------------------------------

    def log_weights(self, losses: npt.ArrayLike) -> FloatArray:
        """Returns the normalised log-weights before each batch of ``losses``, which are checked here; shape (n, d)."""
        return multiplicative_weights.log_weights(batch_sums(self._stream(losses), self.batch), self.learning_rate)

    def log_keep(self, log_weights: FloatArray, batch: int) -> FloatArray:
        """Returns ln P(keep) of each expert, shape (d,), at the boundary into ``batch`` >= 1 (0-based)."""
        real = self._log_real_keep(log_weights, batch)
        return np.asarray(math.log1p(-self.fake_switch_probability) + real)

    def _log_real_keep(self, log_weights: FloatArray, batch: int) -> FloatArray:
        return np.asarray(np.minimum(0.0, log_weights[batch] - log_weights[batch - 1] - self.log_normaliser))

    def simulate(self, losses: npt.ArrayLike, rng: np.random.Generator, runs: int) -> Transcripts:
        """Returns ``runs`` transcripts (no shadows), runs on the leading axis; O(experts + runs) per batch."""
        log_weights, runs = self.log_weights(losses), integer("runs", runs, low=1)
        real_coin, fake_coin, x_draw = substreams(generator(rng), 3)
        sums = np.cumsum(np.exp(log_weights), axis=1)

        def draw(s: int, size: int) -> npt.NDArray[np.integer]:
            return np.asarray(np.searchsorted(sums[s, :-1], x_draw.random(size) * sums[s, -1], side="right"))

        actions = np.empty((self.batches, runs), dtype=np.min_scalar_type(self.experts - 1))
        switched = np.zeros((self.batches, runs), dtype=np.bool_)
        x = draw(0, runs)
        actions[0] = x
        for s in range(1, self.batches):
            keep = real_coin.random(runs) < np.exp(self._log_real_keep(log_weights, s))[x]
            keep &= fake_coin.random(runs) >= self.fake_switch_probability
            moved = np.flatnonzero(~keep)
            x[moved] = draw(s, moved.size)
            actions[s] = x
            switched[s, moved] = True
        return Transcripts(actions.T, switched.T)

    def run(self, losses: npt.ArrayLike, rng: np.random.Generator) -> LazyRun:
        """Returns one simulated run over ``losses`` of shape (rounds, experts)."""
        stream = self._stream(losses)
        transcript = self.simulate(stream, rng, 1)
        actions = np.repeat(transcript.actions[0], self.batch)[: self.rounds]
        loss = float(stream[np.arange(self.rounds), actions].sum())
        best, floor = regret_floor(stream)
        return LazyRun(actions, transcript, loss, best, loss - floor)

    def log_likelihood_ratio(
        self, transcripts: Transcripts, losses0: npt.ArrayLike, losses1: npt.ArrayLike
    ) -> FloatArray:
        """Returns ln P(transcript | losses0) / P(transcript | losses1) of decisions and draws, one number per run."""
        weights = self.log_weights(losses0), self.log_weights(losses1)
        if transcripts.actions.shape[1] != self.batches or transcripts.shadows is not None:
            raise InvalidArgumentError("transcripts", transcripts.actions.shape, "are not this learner's")
        total = np.zeros(transcripts.runs)
        for s in range(1, self.batches):
            x, switched = transcripts.actions[:, s - 1], transcripts.switched[:, s]
            keep0, keep1 = (self.log_keep(one, s)[x] for one in weights)
            drawn = (weights[0][s] - weights[1][s])[transcripts.actions[:, s]]
            total += decision_loss(switched, keep0, keep1) + np.where(switched, drawn, 0.0)
        return total

    # --- utility -----------------------------------------------------------------------------------------------------

    def marginals(self, losses: npt.ArrayLike) -> FloatArray:
        """Returns the exact law of each batch's action, shape (batches, experts): the weights ν_s at c >= B*η."""
        log_weights = self.log_weights(losses)
        found = np.exp(log_weights)
        for s in range(1, self.batches):
            stayed = found[s - 1] * np.exp(self.log_keep(log_weights, s))
            found[s] = stayed + found[s] * (1.0 - stayed.sum())
        return found

    def expected_regret(self, losses: npt.ArrayLike) -> float:
        """Returns the exact expected regret against the best single expert, without simulation."""
        stream = self._stream(losses)
        return float(np.sum(self.marginals(stream) * batch_sums(stream, self.batch))) - regret_floor(stream)[1]

    def regret_bound(self, *, adversary: Adversary = "oblivious") -> RegretBound:
        """Returns a bound on the expected regret: ln(d)/η + η*T*B/8, for every p.

        Raises:
            InvalidArgumentError: a normaliser below B*η, at which actions do not follow the weights, or adaptive
                losses.
        """
        checked = refuse_adaptive(adversary, "may hit the expert that the learner keeps in every round")
        if self.log_normaliser < self.batch * self.learning_rate:
            raise InvalidArgumentError(
                "normaliser", self.normaliser, f"is below B*eta={self.batch * self.learning_rate:g}: no bound is known"
            )
        bound = multiplicative_weights.regret_bound(
            rounds=self.rounds, experts=self.experts, batch=self.batch, learning_rate=self.learning_rate
        )
        return RegretBound(bound, most=self.rounds, adversary=checked)


def _decide_and_draw(log_keep: float, other: float, draw: PrivacyEvent) -> PrivacyEvent:
    """Returns the cost of a coin with two log-probabilities of keeping, ``other`` the smaller, and a draw after it.

    The probability a of the public coin "look" is free as long as it exceeds the larger probability of a redraw: the
    event is valid for every such a. The one of least Rényi divergence at one order is used.
    """
    redraw, redraw_more = -math.expm1(log_keep), -math.expm1(other)
    gap = -math.exp(log_keep) * math.expm1(other - log_keep)
    # Without the public coin (a = 1).
    best: PrivacyEvent = compose(
        LazySwitchDecision(min(1.0, math.nextafter(math.exp(log_keep), 2.0)), (log_keep - other) * _UP), draw
    )
    for excess in _EXCESSES:
        look = redraw_more * (1.0 + excess)
        if 0.0 < look < 1.0:
            keep = min(1.0, math.nextafter(1.0 - redraw / look, 2.0))
            ratio = math.log1p(gap / (look - redraw_more)) * _UP
            event = VisibleMixture(min(1.0, look * _UP), compose(LazySwitchDecision(keep, ratio), draw))
            best = min(best, event, key=lambda one: float(one.rdp(_ORDER)[0]))
    return best
