"""The demonstration: private prediction from expert advice on real data, from calibration to verdict.

    compose -> certify -> audit the correct learners -> audit broken variants

The lazy learner and its dartboard variant are calibrated to (epsilon, delta) through the accountant, compared with the
learner without privacy, certified by their graphs, and audited in the full view that the certificates cover. The same
audits must then refute two broken variants, which the exact oracle shows to violate the claim.

Nothing is printed or written. The result is a frozen value that :mod:`hockeystick._report.results` renders.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from attrs import asdict, frozen

from hockeystick._runs.demo_data import ExpertStream, breast_cancer_stream
from hockeystick.accounting import Bracket, Contribution
from hockeystick.accounting.validate import boolean, integer, probability, real
from hockeystick.audits import Claim, Verdict, audit
from hockeystick.audits.catalogue.lazy.experts import LazyTarget, lazy_target
from hockeystick.audits.catalogue.lazy.mutants import Mutation
from hockeystick.audits.catalogue.lazy.sample_sizes import samples_needed
from hockeystick.audits.catalogue.lazy.views import View
from hockeystick.learners import LazyExperts, MultiplicativeWeights, PrintedGuarantee
from hockeystick.learners.common.exact_loss import LossLaw
from hockeystick.learners.lazy import paper_epsilon
from hockeystick.learners.lazy.experts.setting import Variant

Progress = Callable[[str, int, int], None]

EXCESS = 3.0  # the factor by which the unclipped mutant's losses exceed their declared range
_QUICK, _SAMPLES, _WORK = 20_000, 300_000, 30_000_000  # samples from each stream; batches simulated for them
_SHARE, _MOST = 4.0, 1_000_000  # a mutant gets this multiple of the samples that the oracle requires, up to a limit
_ALARMS = np.sin(np.linspace(0.0, np.pi / 2.0, 81)) ** 2  # false-alarm rates of a trade-off curve, dense at both ends

NOTES = (
    "Each person is in the stream once. The guarantee protects these people, not the public rows.",
    "On a short stream a private learner is between a random rule and the learner without privacy. The cost of privacy "
    "grows more slowly than the stream, so a longer stream would narrow the gap.",
    "On data this easy, the rule that looks best on a few public rows can be excellent or poor by chance. It costs no "
    "privacy and is shown for comparison.",
    "Certificates and audits are for the full view: every switching decision and every draw, including the rules that "
    "are played.",
    "The printed formula is shown at the learner's parameters even if its conditions do not hold there. It is stated "
    "for the normaliser 2 B eta; the learner uses the tight one, B eta.",
    "A claimed curve is audited at all of its points, so a refutation may be at another point than the stated one.",
)


@frozen
class Regret:
    """The loss and regret of a learner on the stream.

    Attributes:
        name: The learner.
        epsilon: Its certified epsilon; 0 if it uses public rows only, inf without privacy.
        expected_loss: Expected number of errors on the stream, exact.
        expected_regret: The expected loss minus the errors of the best single expert in hindsight.
        bound: Worst-case expected regret over all streams; inf without a bound.
    """

    name: str
    epsilon: float
    expected_loss: float
    expected_regret: float
    bound: float


@frozen(eq=False)
class Learned:
    """A calibrated private learner with its privacy: certified, printed and exact.

    Attributes:
        name: "L2P" or "dartboard".
        learner: Its parameters.
        certified: Epsilon at the demonstration's delta, upper and lower end of its computation, and the method.
        printed: The paper's formula at the same parameters; None for the dartboard, which has none.
        exact: Epsilon of the worst-case neighbours by the exact oracle, (lower, upper): a lower bound on the truth.
        contributions: The contribution of each node of the graph.
        run_regret: Regret of the simulated run that is shown.
        run_draws: Number of draws of an expert in that run.
        claimed_curve: (false alarms, misses) on the boundary of the certificate, shape (points, 2).
        graph: The accountant graph, in its JSON form.
    """

    name: str
    learner: LazyExperts
    certified: Bracket
    printed: PrintedGuarantee | None
    exact: tuple[float, float]
    contributions: tuple[Contribution, ...]
    run_regret: float
    run_draws: int
    claimed_curve: tuple[tuple[float, float], ...]
    graph: dict[str, Any]


@frozen(eq=False)
class Audited:
    """One audit of the demonstration.

    Attributes:
        learner: "L2P" or "dartboard".
        mutation: The mistake; None for the correct learner.
        neighbours: "worst case" or "real data".
        view: "run" for the whole transcript, "decision" for the first decision.
        exact: Exact epsilon at delta of this target on these neighbours, (lower, upper); None if not computed.
        exact_curve: (false alarms, misses) of the most powerful tests there, shape (points, 2); empty if not computed.
        samples_needed: Samples from each stream that refute the claim in 9 of 10 audits, from the exact law; inf if the
            claim is true, None if not computed.
        verdict: The audit's outcome.
    """

    learner: str
    mutation: Mutation | None
    neighbours: str
    view: View
    exact: tuple[float, float] | None
    exact_curve: tuple[tuple[float, float], ...]
    samples_needed: float | None
    verdict: Verdict

    @property
    def expected(self) -> bool | None:
        """Whether the claim should be refuted; None if these samples do not suffice according to the oracle."""
        if self.mutation is None:
            return False
        enough = self.samples_needed is not None and self.samples_needed <= self.verdict.samples
        return True if enough else None

    @property
    def as_expected(self) -> bool:
        """Whether a correct learner was not refuted, or a broken one was if the samples suffice."""
        return self.expected is None or self.verdict.refuted == self.expected


@frozen(eq=False)
class DemoResult:
    """The result of the demonstration, as numbers.

    Attributes:
        epsilon, delta: The privacy target.
        confidence: The confidence level of each audit.
        seed: The seed of split, order, runs and audits.
        data: Name of the data set.
        rounds, public_rows: Numbers of protected rows in the stream, and of public rows.
        experts: The experts' rules.
        best_expert: Index of the best expert in hindsight; its loss is ``best_loss``.
        regrets: The learners' losses and regrets on the stream.
        learned: The two private learners.
        audits: The audits, first of correct learners, then of mutants.
        notes: Notes for the reader, one or two sentences each.
        seconds: Wall time.
    """

    epsilon: float
    delta: float
    confidence: float
    seed: int
    data: str
    rounds: int
    public_rows: int
    experts: tuple[str, ...]
    best_expert: int
    best_loss: float
    regrets: tuple[Regret, ...]
    learned: tuple[Learned, ...]
    audits: tuple[Audited, ...]
    notes: tuple[str, ...]
    seconds: float

    @property
    def as_expected(self) -> bool:
        """Whether no correct learner was refuted, and every mutant was whose samples suffice."""
        return all(row.as_expected for row in self.audits)

    def measured(self, name: str) -> float:
        """Returns the largest lower bound on epsilon from the audits of the correct learner ``name``."""
        rows = [row for row in self.audits if row.learner == name and row.mutation is None]
        return max((row.verdict.epsilon_lower for row in rows), default=0.0)

    def to_dict(self) -> dict[str, Any]:
        """Returns the result in plain types; numbers may be infinite."""
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "confidence": self.confidence,
            "seed": self.seed,
            "as_expected": self.as_expected,
            "data": {
                "name": self.data,
                "rounds": self.rounds,
                "public_rows": self.public_rows,
                "experts": list(self.experts),
                "best_expert": self.best_expert,
                "best_loss": self.best_loss,
            },
            "regrets": [asdict(row) for row in self.regrets],
            "learners": [_learned_dict(row, self.measured(row.name)) for row in self.learned],
            "audits": [_audited_dict(row) for row in self.audits],
            "notes": list(self.notes),
            "seconds": self.seconds,
        }


def run_demo(
    *,
    epsilon: float = 1.0,
    delta: float = 1e-5,
    confidence: float = 0.999,
    seed: int = 0,
    quick: bool = False,
    progress: Progress | None = None,
) -> DemoResult:
    """Runs the demonstration.

    Args:
        epsilon: The target, > 0.
        delta: In (0, 1); it should be well below one over the number of people in the stream (550).
        confidence: The confidence level of each audit, in (0.5, 1).
        seed: The seed of all random numbers.
        quick: Whether to draw fewer samples; the mutants' audits still get the samples that they need.
        progress: Called as ``progress(stage, done, total)`` before each step and once at the end.

    Raises:
        InvalidArgumentError: An argument is outside its domain, or no parameters meet the target.
        MissingExtraError: scikit-learn is not installed.
    """
    started = time.perf_counter()
    epsilon = real("epsilon", epsilon, low=0.0, low_open=True)
    delta = probability("delta", delta, open=True)
    confidence = real("confidence", confidence, low=0.5, high=1.0, low_open=True, high_open=True)
    seed = integer("seed", seed, low=0)
    boolean("quick", quick)
    plan = _audit_plan()
    step = _Steps(progress, 2 + len(_VARIANTS) + len(plan))

    step("loading the data")
    stream = breast_cancer_stream(seed)
    learned: dict[Variant, Learned] = {}
    claims: dict[Variant, Claim] = {}
    for variant, name in _VARIANTS.items():
        step(f"calibrating and certifying {name}")
        learned[variant], claims[variant] = _learn(variant, name, stream, epsilon, delta, seed)
    step("comparing regrets")
    regrets = _regrets(stream, tuple(learned.values()))

    audits = []
    for number, (variant, mutation, neighbours, view) in enumerate(plan):
        step(f"auditing {_VARIANTS[variant]}" + (f", {mutation}" if mutation else f" on {neighbours} neighbours"))
        learner = learned[variant].learner
        if neighbours == "real data":
            pair = (stream.losses, stream.neighbour())
            target = LazyTarget(learner=learner, neighbours=pair, mutation=mutation, view=view)
        else:
            target = lazy_target(learner, mutation, view=view, excess=EXCESS)
        audits.append(
            _audited(
                target,
                _VARIANTS[variant],
                neighbours,
                claims[variant],
                delta=delta,
                confidence=confidence,
                samples=_QUICK if quick else min(_SAMPLES, max(_QUICK, _WORK // learner.batches)),
                rng=np.random.default_rng((seed, number)),
            )
        )
    step("done")
    best = int(np.argmin(stream.losses.sum(axis=0)))
    return DemoResult(
        epsilon=epsilon,
        delta=delta,
        confidence=confidence,
        seed=seed,
        data=stream.name,
        rounds=stream.rounds,
        public_rows=len(stream.public_rows),
        experts=stream.experts,
        best_expert=best,
        best_loss=float(stream.losses[:, best].sum()),
        regrets=regrets,
        learned=tuple(learned.values()),
        audits=tuple(audits),
        notes=NOTES,
        seconds=time.perf_counter() - started,
    )


_VARIANTS: dict[Variant, str] = {"l2p": "L2P", "dartboard": "dartboard"}


def _audit_plan() -> list[tuple[Variant, Mutation | None, str, View]]:
    """Returns the audits to make: (variant, mutation, neighbours, view), those of correct learners first."""
    plan: list[tuple[Variant, Mutation | None, str, View]] = []
    for variant in _VARIANTS:
        plan.append((variant, None, "worst case", "run"))
        plan.append((variant, None, "worst case", "decision"))
        plan.append((variant, None, "real data", "run"))
    for variant in _VARIANTS:
        plan.append((variant, "no fake switches", "worst case", "run"))
        plan.append((variant, "no fake switches", "worst case", "decision"))
        plan.append((variant, "unclipped losses", "worst case", "run"))
    return plan


def _learn(
    variant: Variant, name: str, stream: ExpertStream, epsilon: float, delta: float, seed: int
) -> tuple[Learned, Claim]:
    learner = LazyExperts.calibrated(
        rounds=stream.rounds, experts=len(stream.experts), epsilon=epsilon, delta=delta, variant=variant
    )
    graph = learner.graph()
    guarantee = graph.guarantee()
    claim = Claim.curve(guarantee, delta)
    run = learner.run(stream.losses, np.random.default_rng((seed, 1 << 20)))
    printed = None
    if variant == "l2p":
        printed = paper_epsilon(
            rounds=learner.rounds,
            batch=learner.batch,
            learning_rate=learner.learning_rate,
            fake_switch_probability=learner.fake_switch_probability,
            delta=delta,
        )
    found = Learned(
        name=name,
        learner=learner,
        certified=guarantee.epsilon(delta, bracket=True),
        printed=printed,
        exact=lazy_target(learner).exact().epsilon(delta),
        contributions=guarantee.contributions(delta),
        run_regret=run.regret,
        run_draws=int(run.transcript.switched.sum()),
        claimed_curve=_claimed_curve(claim),
        graph=json.loads(graph.to_json()),
    )
    return found, claim


def _regrets(stream: ExpertStream, learned: tuple[Learned, ...]) -> tuple[Regret, ...]:
    rounds, experts = stream.losses.shape
    totals = stream.losses.sum(axis=0)
    best = float(totals.min())

    def row(name: str, epsilon: float, regret: float, bound: float) -> Regret:
        return Regret(name, epsilon, best + regret, regret, bound)

    open_learner = MultiplicativeWeights(rounds=rounds, experts=experts)
    return (
        row("multiplicative weights, no privacy", math.inf, open_learner.expected_regret(stream.losses),
            open_learner.regret_bound()),
        *(
            row(found.name, found.certified.upper, found.learner.expected_regret(stream.losses),
                found.learner.regret_bound())
            for found in learned
        ),
        row("best rule on the public rows", 0.0, float(totals[stream.public_choice()]) - best, math.inf),
        row("a random rule each time", 0.0, float(totals.mean()) - best, math.inf),
    )  # fmt: skip


def _audited(
    target: LazyTarget,
    name: str,
    neighbours: str,
    claim: Claim,
    *,
    delta: float,
    confidence: float,
    samples: int,
    rng: np.random.Generator,
) -> Audited:
    exact: tuple[float, float] | None = None
    needed: float | None = None
    curve: tuple[tuple[float, float], ...] = ()
    oracle = target.exact() if neighbours == "worst case" else None
    if oracle is not None:
        exact = oracle.epsilon(delta)
        needed = samples_needed(oracle, claim, confidence=confidence)
        if needed <= _MOST:
            samples = int(min(_MOST, max(samples, _SHARE * needed)))
    verdict = audit(target, claim=claim, neighbours=target.neighbours, samples=samples, rng=rng, confidence=confidence)
    if oracle is not None:  # the curve of the direction that the audit has measured
        curve = _exact_curve((oracle.forward if verdict.direction == "d0->d1" else oracle.backward)[1])
    return Audited(name, target.mutation, neighbours, target.view, exact, curve, needed, verdict)


# --- trade-off curves: (false alarms, misses) of tests that tell the two streams apart -------------------------------


def _claimed_curve(claim: Claim) -> tuple[tuple[float, float], ...]:
    """Returns the trade-off curve of all claimed (epsilon, delta): no test lies below it (Dong, Roth & Su 2022)."""
    misses = np.zeros_like(_ALARMS)
    for epsilon, delta in claim.points:
        rest = 1.0 - delta
        misses = np.maximum(misses, np.maximum(rest - np.exp(epsilon) * _ALARMS, np.exp(-epsilon) * (rest - _ALARMS)))
    return tuple(zip(_ALARMS.tolist(), misses.tolist(), strict=True))


def _exact_curve(law: LossLaw) -> tuple[tuple[float, float], ...]:
    """Returns the most powerful tests between the streams, at the false-alarm rates of the grid; never above the truth.

    It uses losses rounded up: with losses rounded down the other stream's probabilities add up to more than 1.
    """
    power, level = (np.minimum(tail[::-1], 1.0) for tail in law.tails())  # from the rarest event to the surest
    caught = np.interp(_ALARMS, np.append(level, 1.0), np.append(power, 1.0))
    return tuple(zip(_ALARMS.tolist(), (1.0 - caught).tolist(), strict=True))


# --- plain dictionaries ----------------------------------------------------------------------------------------------


def _learned_dict(row: Learned, measured: float) -> dict[str, Any]:
    learner = row.learner
    return {
        "name": row.name,
        "parameters": {
            **asdict(learner),
            "shadow_probability": None if learner.variant == "dartboard" else learner.refresh_probability,
            "log_normaliser": learner.log_normaliser,
            "batches": learner.batches,
        },
        "epsilon_certified": row.certified.upper,
        "epsilon_certified_lower": row.certified.lower,
        "method": row.certified.method,
        "epsilon_printed": None if row.printed is None else row.printed.epsilon,
        "printed": None if row.printed is None else {**asdict(row.printed), "applies": row.printed.applies},
        "epsilon_exact": list(row.exact),
        "epsilon_measured": measured,
        "contributions": [
            {
                "node": share.node,
                "event": str(share.event),
                "count": share.count,
                "epsilon_alone": share.epsilon_alone,
                "epsilon_without": share.epsilon_without,
            }
            for share in row.contributions
        ],
        "run_regret": row.run_regret,
        "run_draws": row.run_draws,
        "claimed_curve": [list(point) for point in row.claimed_curve],
        "graph": row.graph,
    }


def _audited_dict(row: Audited) -> dict[str, Any]:
    return {
        "learner": row.learner,
        "mutation": row.mutation,
        "neighbours": row.neighbours,
        "view": row.view,
        "expected": row.expected,
        "as_expected": row.as_expected,
        "epsilon_exact": None if row.exact is None else list(row.exact),
        "samples_needed": row.samples_needed,
        "exact_curve": [list(point) for point in row.exact_curve],
        "verdict": row.verdict.to_dict(),
    }


class _Steps:
    """Counts the steps of the demonstration and reports them to ``progress``."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self._progress, self._total, self._done = progress, total, -1

    def __call__(self, stage: str) -> None:
        self._done += 1
        if self._progress is not None:
            self._progress(stage, min(self._done, self._total), self._total)
