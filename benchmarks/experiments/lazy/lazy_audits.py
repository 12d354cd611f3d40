"""Audits of the lazy learner's certificate, correct and broken, and how many runs it takes to catch what is broken.

First table: the claim is the certified curve at a few epsilons. The statistic is a view of a run on the worst pair of
streams: the likelihood ratio of the whole transcript ("run"), of the first decision that may differ, or
of the played experts alone ("actions"); in how many batches an expert of the second half was played ("count"); whether
the expert changed at the first decision ("switch"). The exact privacy loss gives the result of
an audit with unlimited runs, and the number of runs that an audit needs to find it with probability 0.9. The audit
uses three times as many for a broken learner.

Second table: defects that no audit of the claim need show, and defects of the accountant. Each has a number that is
within a limit for the correct learner and not for the mutant. All numbers are exact except draws beyond a budget, which
are counted.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from attrs import evolve, frozen
from scipy import stats

from benchmarks.frame import Cells, Report, markdown
from hockeystick import accounting
from hockeystick.accounting import BoundedRange, LazySwitchDecision, VisibleMixture
from hockeystick.accounting.events.catalogue import GaussianDP, PoissonSampled
from hockeystick.audits import Claim, audit
from hockeystick.audits.catalogue.lazy.experts import lazy_target
from hockeystick.audits.catalogue.lazy.mutants import Mutation
from hockeystick.audits.catalogue.lazy.sample_sizes import samples_needed
from hockeystick.audits.catalogue.lazy.views import View
from hockeystick.learners import LazyConvex, LazyExperts
from hockeystick.learners.lazy import Box, LazyChain, exact_loss, exact_marginals
from hockeystick.learners.lazy.theory.actions_view import actions_epsilon

DELTA = 1e-5
CONFIDENCE = 1.0 - 1e-6
SAMPLES = 100_000  # for correct learners
LEARNERS = {
    "L2P": LazyExperts(rounds=400, experts=6, batch=8, learning_rate=0.033, fake_switch_probability=0.21),
    "L2P, p = 0.05": LazyExperts(rounds=150, experts=6, learning_rate=0.08, fake_switch_probability=0.05),
    "L2P, two rounds": LazyExperts(
        rounds=2, experts=6, learning_rate=0.05, fake_switch_probability=0.05, normaliser="paper"
    ),
    "dartboard": LazyExperts(
        rounds=400, experts=6, batch=4, learning_rate=0.04, fake_switch_probability=0.14, variant="dartboard"
    ),
}
CASES: dict[str, tuple[tuple[Mutation | None, View], ...]] = {
    "L2P": (
        *((None, view) for view in ("run", "actions", "decision", "count", "switch")),
        *(("no fake switches", view) for view in ("run", "decision")),
        ("unclipped losses", "run"),
        *(("decisions every round", view) for view in ("run", "decision")),
    ),
    "L2P, p = 0.05": (
        *((None, view) for view in ("run", "actions")),
        *(("inverted fake coin", view) for view in ("run", "actions", "count")),
    ),
    "L2P, two rounds": (
        *((None, view) for view in ("run", "actions")),
        ("one coin for both switches", "run"),
        ("no fake switches", "actions"),
    ),
    "dartboard": (
        *((None, view) for view in ("run", "actions", "decision")),
        *(("no fake switches", view) for view in ("run", "decision", "actions", "switch")),
        *(("unclipped losses", view) for view in ("run", "actions")),
        ("inverted fake coin", "run"),
        ("decisions every round", "run"),
    ),
}


def measured(name: str, mutation: Mutation | None, view: View, samples: int) -> dict[str, Any]:
    """Claimed and exact epsilon, runs needed, and the audit's verdict."""
    learner = LEARNERS[name]
    guarantee = learner.graph().guarantee()
    points = [(epsilon, guarantee.delta(epsilon).upper) for epsilon in (0.0, 0.1, 0.3, 0.6)]
    claim = Claim(guarantee.epsilon(DELTA).upper, DELTA, also=points)
    target = lazy_target(learner, mutation, view=view)
    exact = target.exact()
    needed = samples_needed(exact, claim, confidence=CONFIDENCE)
    used = samples if math.isinf(needed) else 3 * math.ceil(needed)
    verdict = audit(
        target,
        claim=claim,
        neighbours=target.neighbours,
        samples=used,
        rng=20240611,
        confidence=CONFIDENCE,
        first_look=False,
    )
    return {
        "claimed": claim.epsilon,
        "exact": exact.epsilon(DELTA)[0],
        "needed": needed,
        "samples": used,
        "outcome": verdict.outcome,
    }


# --- defects with a check of their own -------------------------------------------------------------------------------

Row = tuple[float, float, float]  # limit, correct, mutant


def _learner(n: int, batch: int, rate: float, p: float, normaliser: str = "paper") -> LazyExperts:
    return LazyExperts(
        rounds=n * batch,
        experts=2,
        batch=batch,
        learning_rate=rate,
        fake_switch_probability=p,
        normaliser=normaliser,
    )


def _exact(learner: LazyExperts, delta: float) -> float:
    first, second = learner.worst_case_neighbours()
    return exact_loss(learner.chain(first), learner.chain(second)).epsilon(delta)[0]


@frozen(kw_only=True, eq=False, slots=False)
class _Inverted(LazyChain):
    """The ratio with x and y exchanged."""

    def log_keep(self, s: int, x: Any, y: Any) -> Any:
        return super().log_keep(s, y, x)


@frozen(kw_only=True, eq=False, slots=False)
class _Tied(LazyChain):
    """The shadow is the action itself."""

    def log_keep(self, s: int, x: Any, y: Any) -> Any:
        return super().log_keep(s, x, x) + 0.0 * y


@frozen(kw_only=True, eq=False, slots=False)
class _Shifted(LazyChain):
    """Draws follow the measure of ``lag`` batches before; -1 for the one that has seen the batch to come."""

    lag: int

    @cached_property
    def log_weights(self) -> Any:
        at = np.clip(np.arange(self.batches) - self.lag, 0, self.batches)
        return _chain(np.vstack([self.batch_losses, np.zeros((1, self.experts))]), like=self).log_weights[at]


def _chain(losses: Any, like: LazyChain, kind: type[LazyChain] = LazyChain, **more: Any) -> LazyChain:
    return kind(
        batch_losses=losses,
        learning_rate=like.learning_rate,
        fake_switch_probability=like.fake_switch_probability,
        shadow_probability=like.shadow_probability,
        log_normaliser=like.log_normaliser,
        **more,
    )


def _distance(kind: type[LazyChain] = LazyChain, **more: Any) -> Row:
    """Largest distance of the actions' exact law from multiplicative weights: 30 batches of losses (1, 0)."""
    c = more.pop("log_normaliser", 0.5)
    correct = LazyChain(
        batch_losses=np.tile([1.0, 0.0], (30, 1)),
        learning_rate=0.5,
        fake_switch_probability=0.05,
        shadow_probability=0.05,
        log_normaliser=0.5,
    )
    weights = np.exp(correct.log_weights)
    mutant = _chain(correct.batch_losses, evolve(correct, log_normaliser=c), kind, **more)
    far = [float(0.5 * np.abs(exact_marginals(one) - weights).sum(axis=1).max()) for one in (correct, mutant)]
    return 1e-12, far[0], far[1]


def _floor() -> Row:
    """How far the expected regret, averaged over all sequences of batches (4, 0) and (0, 4), is below the floor."""
    n, batch = 8, 4
    rate = math.sqrt(8.0 * math.log(2.0) / (n * batch**2))
    floor = batch / 2 * sum(math.comb(n, k) * abs(n - 2 * k) for k in range(n + 1)) / 2**n
    like = LazyChain(
        batch_losses=np.zeros((n, 2)),
        learning_rate=rate,
        fake_switch_probability=0.2,
        shadow_probability=0.2,
        log_normaliser=batch * rate,
    )
    below = []
    for kind, more in ((LazyChain, {}), (_Shifted, {"lag": -1})):
        regret = 0.0
        for coins in itertools.product((0, 1), repeat=n):
            losses = batch * np.array([[coin, 1 - coin] for coin in coins], dtype=float)
            regret += float(np.sum(exact_marginals(_chain(losses, like, kind, **more)) * losses))
            regret -= float(losses.sum(axis=0).min())
        below.append(floor - regret / 2**n)
    return 1e-9, below[0], below[1]


def _draws() -> Row:
    """Draws of an expert per boundary, where later losses are 0: p = 0.02, taken for the chance of keeping."""
    learner, p = _learner(400, 1, 0.1, 0.02), 0.02
    kept = math.exp(-learner.log_normaliser)
    return learner.largest_redraw_probability, 1 - (1 - p) * kept, 1 - p * kept


def _budget() -> Row:
    """Draws in the mean run under a budget of 20, if a redraw of the same expert is booked as no switch; 4000 runs."""
    learner = LazyExperts(
        rounds=200, experts=2, learning_rate=0.1, fake_switch_probability=0.2, variant="dartboard", draw_budget=20
    )
    losses, runs = learner.worst_case_neighbours()[0], 4000
    correct = learner.simulate(losses, np.random.default_rng(11), runs).switched.sum(axis=1).max()
    free = learner.chain(losses).simulate(np.random.default_rng(12), runs)
    changes = np.zeros((runs, free.actions.shape[1]), dtype=int)
    changes[:, 1:] = free.actions[:, 1:] != free.actions[:, :-1]
    before = np.cumsum(changes, axis=1) - changes
    return 20.0, float(correct), float((free.switched & (before < 20)).sum(axis=1).mean())


def _charged(learner: LazyExperts, mutant: accounting.PrivacyEvent, delta: float, exact: float | None = None) -> Row:
    """Exact epsilon over charged epsilon."""
    truth = _exact(learner, delta) if exact is None else exact
    charged = learner.graph().guarantee().epsilon(delta).upper, accounting.epsilon(mutant, delta).upper
    return 1.0, truth / charged[0], truth / charged[1]


def _composed(
    learner: LazyExperts, *, redraw: float | None = None, width: float = 2.0, shadow: bool = True, share: float = 1.0
) -> accounting.PrivacyEvent:
    """The plan of L2P, with something left out."""
    rate, p = learner.learning_rate, learner.fake_switch_probability
    draw, steps = BoundedRange(width * rate), int(share * learner.batches)
    some = learner.largest_redraw_probability if redraw is None else redraw
    switch = LazySwitchDecision((1 - p) * math.exp(learner.batch * rate - learner.log_normaliser), 2 * rate)
    parts = [(switch, 1), (draw, 1), (VisibleMixture(some, draw), steps - 2)]
    return accounting.compose(*parts, *([(VisibleMixture(p, draw), steps - 1)] if shadow else []))


def _secret() -> Row:
    """Visible mixtures charged as secret sampling; n = 2000."""
    learner, p = _learner(2000, 1, 0.02, 0.05), 0.05
    draw = BoundedRange(0.04)
    mutant = accounting.compose(
        LazySwitchDecision((1 - p) * math.exp(-0.02), 0.04),
        draw,
        (PoissonSampled(learner.largest_redraw_probability, draw), 1998),
        (PoissonSampled(p, draw), 1999),
    )
    return _charged(learner, mutant, 1e-5)


def _first() -> Row:
    """The draw after the first decision charged as a visible mixture; n = 2."""
    learner = LazyExperts(rounds=2, experts=2, learning_rate=0.1, fake_switch_probability=0.05, variant="dartboard")
    redraw = VisibleMixture(learner.largest_redraw_probability, BoundedRange(0.2))
    return _charged(learner, accounting.compose(LazySwitchDecision(0.95, 0.1), redraw), 1e-3)


def _only_fake() -> Row:
    """Only fake switches charged, where later batches alternate; a lower bound of the exact epsilon."""
    n, batch = 1000, 10
    learner = _learner(n, batch, 0.02, 0.02)
    losses = np.repeat(np.tile([[1.0, 0.0], [0.0, 1.0]], (n // 2, 1)), batch, axis=0)
    other = losses.copy()
    other[0] = (0.0, 1.0)
    truth = exact_loss(learner.chain(losses), learner.chain(other), steps=8).epsilon(1e-2)[0]
    return _charged(learner, _composed(learner, redraw=0.02), 1e-2, truth)


def _published() -> Row:
    """The full view's exact epsilon over what is certified of the actions; correct: the full view's certificate."""
    learner = _learner(100, 1, 0.1, 0.9, "tight")
    truth = _exact(learner, 1e-2)
    certified = learner.graph().guarantee().epsilon(1e-2).upper
    return 1.0, truth / certified, truth / actions_epsilon(learner, 1e-2).upper


def _convex(part: float) -> Row:
    """Exact delta(1) of the later draws alone over charged delta(1), draws charged with a part of mu; n = 100."""
    n, mu, p = 100, 0.1, 0.5
    learner = LazyConvex(
        rounds=n,
        domain=Box((-200.0,), (200.0,)),
        lipschitz=1.0,
        inverse_temperature=mu**2 / 2,
        regularisation=1.0,
        fake_switch_probability=p,
        failure=1e-7,
    )
    moved = 1.0 - (1.0 - p) * math.exp(-learner.log_normaliser)
    law = np.convolve(stats.binom.pmf(np.arange(n - 1), n - 2, moved), stats.binom.pmf(np.arange(n), n - 1, p))
    gauss = mu * np.sqrt(np.arange(1, law.size))
    told = stats.norm.cdf(gauss / 2 - 1 / gauss) - math.e * stats.norm.cdf(-gauss / 2 - 1 / gauss)
    truth = float(law[1:] @ told)
    plans = learner.plan(), evolve(learner.plan(), draw=GaussianDP(part * mu))
    charged = [plan.graph().guarantee().delta(1.0).upper for plan in plans]
    return 1.0, truth / charged[0], truth / charged[1]


_B = _learner(400, 1, 0.1, 0.3)
DEFECTS: dict[str, tuple[str, Callable[[], Row]]] = {
    "ratio inverted": ("actions' law: distance", lambda: _distance(_Inverted)),
    "shadow is the action": ("actions' law: distance", lambda: _distance(_Tied)),
    "no normaliser": ("actions' law: distance", lambda: _distance(log_normaliser=0.0)),
    "draws one batch late": ("actions' law: distance", lambda: _distance(_Shifted, lag=1)),
    "batch seen before it is played": ("regret below the floor", _floor),
    "p taken for the chance of keeping": ("draws per boundary", _draws),
    "redraw of the same expert not counted": ("draws, of a budget of 20", _budget),
    "only fake switches charged": ("exact / charged ε", _only_fake),
    "draws charged half their range": ("exact / charged ε", lambda: _charged(_B, _composed(_B, width=1.0), 1e-2)),
    "shadow's draws not charged": ("exact / charged ε", lambda: _charged(_B, _composed(_B, shadow=False), 1e-2)),
    "a tenth of the steps charged": ("exact / charged ε", lambda: _charged(_B, _composed(_B, share=0.1), 1e-2)),
    "public coins charged as secret sampling": ("exact / charged ε", _secret),
    "first draw charged as a visible mixture": ("exact / charged ε", _first),
    "shadow published, actions claimed": ("exact / charged ε", _published),
    "convex: one loss added, not replaced": ("exact / charged δ", lambda: _convex(0.5)),
    "convex: twice the convexity": ("exact / charged δ", lambda: _convex(math.sqrt(0.5))),
}


def defect(name: str) -> dict[str, float]:
    """The numbers of one defect."""
    return dict(zip(("limit", "correct", "mutant"), DEFECTS[name][1](), strict=True))


def experiment(
    cells: Cells,
    names: tuple[str, ...] = tuple(LEARNERS),
    samples: int = SAMPLES,
    defects: tuple[str, ...] = tuple(DEFECTS),
) -> Report:
    """Audits of the lazy learner, correct and broken, and the checks of defects that no audit need show."""
    settings = [(name, mutation, view) for name in names for mutation, view in CASES[name]]
    found = cells.each(measured, settings, "audits", samples=samples)
    seen = cells.each(defect, defects, "defects")
    correct = [row for (_, mutation, _), row in found.items() if mutation is None]
    broken = [row for (_, mutation, _), row in found.items() if mutation is not None]
    head = ["learner", "", "view", f"claimed ε at {DELTA:g}", "exact ε"]
    audits = markdown(
        [*head, "runs needed per stream", "runs used", "verdict"],
        [[name, mutation or "correct", view, *row.values()] for (name, mutation, view), row in found.items()],
    )
    limits = markdown(
        ["mutant", "what shows it", "limit", "correct", "mutant's"],
        [[name, DEFECTS[name][0], *row.values()] for name, row in seen.items()],
    )
    return Report(
        (audits, limits),
        {
            "the correct learners are within their claim, exactly, and are not refuted": all(
                row["exact"] <= row["claimed"] and row["outcome"] != "refuted" for row in correct
            ),
            "every broken learner exceeds its claim, exactly, and is refuted": all(
                row["exact"] > row["claimed"] and row["outcome"] == "refuted" for row in broken
            ),
            "the correct learner is within each limit of the second table, and the mutant is not": all(
                row["correct"] <= row["limit"] < row["mutant"] for row in seen.values()
            ),
        },
    )
