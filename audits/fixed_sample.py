"""The public :func:`audit`: draw outputs from a target on two neighbouring data sets and try to refute its claim."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterable
from typing import Any, Literal

import numpy as np
from attrs import frozen

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import IntArray
from hockeystick.accounting.validate import integer, real
from hockeystick.audits.attacks.choose_event import (
    Event,
    choose_counted,
    choose_event,
    choose_leak,
    rival_partitions,
    steepest_ratio,
)
from hockeystick.audits.attacks.classifiers import Attack, check_attack
from hockeystick.audits.attacks.partitions import Evidence
from hockeystick.audits.bounds.both_orders import Tossed, both_frontier, detectable_epsilon, toss
from hockeystick.audits.bounds.two_counts import Region, clopper_pearson, detectable_probability, frontier
from hockeystick.audits.claims.claim import Claim
from hockeystick.audits.drawing.checkpoint import Checkpoint, digest
from hockeystick.audits.drawing.draws import DEFAULT_SAMPLES, MINIMUM_SAMPLES, Draws, Progress
from hockeystick.audits.drawing.workers import Workers
from hockeystick.audits.outputs.reading import Table
from hockeystick.audits.targets.calling import Target, equal_data, known_seed, neighbour_pair
from hockeystick.audits.targets.statistic import Look, Statistic
from hockeystick.audits.targets.target_features import with_statistics
from hockeystick.audits.verdicts.verdict import TradeoffPoint, Verdict

_COINS = (2, 0)  # key of their random stream; those of outputs begin with 0 or 1


def audit(
    target: object,
    *,
    claim: object = None,
    neighbours: Iterable[Any] | None = None,
    samples: int | None = None,
    rng: int | np.random.Generator | None = None,
    confidence: float = 0.999,
    bits: bool = False,
    exceptions_as_output: bool = False,
    grid: float | None = None,
    statistic: Statistic | Literal["likelihood ratio"] | None = None,
    attack: Attack = "auto",
    workers: int = 1,
    backend: str | None = None,
    address: str | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    identity: str | None = None,
    progress: Progress | None = None,
) -> Verdict:
    """Tries to refute a claim of differential privacy from samples alone.

    Some of the samples (half; of numbers a sixth, or a quarter if they have at most 16 values; at most 2^20) choose two
    events, one for each order of the data sets, and, of a curve, one point of the claim; the rest bound the events'
    mean probabilities jointly and exactly (:func:`hockeystick.audits.bounds.both_orders.both_frontier`). Where one
    event promises more, that is bounded alone (:func:`hockeystick.audits.bounds.two_counts.frontier`). Since all
    choices are made before the bounding samples are seen, one test is made and the stated confidence covers everything
    looked at.

    Outputs may be numbers, strings, None, arrays, and tuples, lists, dictionaries and (data) classes of them; see
    :mod:`hockeystick.audits.outputs.reading`. Floats are read as real numbers: they are rounded to a public grid, see
    :mod:`hockeystick.audits.outputs.cells`.

    Args:
      target: an object with ``simulate(value, rng, runs)``; or a callable ``f(data, rng)`` that gives one output; or
        ``f(data, rng, runs)`` (a parameter named ``runs``, or three positional parameters without default) that gives
        outputs with the runs on the leading axis. It must take its randomness from ``rng`` for a run to be repeatable.
      claim: what to refute: a :class:`Claim`, a pair (epsilon, delta), or a guarantee or an event, which claim their
        whole curves (:meth:`Claim.of`). By default what the target says of itself: ``target.claim()``, or the curve of
        ``target.event()``, stated at δ = 1e-6.
      neighbours: two data sets that differ as the claim's neighbouring relation allows; that they do is the caller's
        word. By default ``target.worst_case_neighbours()``.
      samples: outputs drawn from *each* data set, for all purposes; at least 20. By default 1,000,000, or as many as a
        measured first piece says can be drawn in about half a minute; ``Verdict.samples`` says how many it were.
      rng: a seed or a generator that gives one; by default a fresh seed. The verdict records it. Outputs on the two
        data sets, and for choosing and bounding, are independent.
      confidence: in (0.5, 1).
      bits: let the bit patterns of floats count too. Otherwise a claim that they refute is a warning in the verdict.
      exceptions_as_output: count the type of an exception as an output, for targets called once per output.
      grid: spacing of the public grid; by default 32 significant bits.
      statistic: where a violation would show, if that is known: a function of an output (of a batch of them, if the
        target is vectorised) that gives a number, or a bool for an event; or "likelihood ratio" for the target's own
        ``log_likelihood_ratio(outputs, d0, d1)``. Nothing else is looked at then, and few samples are for choosing.
      attack: classifiers to score outputs of several numbers by, see :mod:`hockeystick.audits.attacks.classifiers`;
        "auto" compares them on a small part of the outputs and fits what seems worth it.
      workers: processes that draw; -1 for all cores. Results do not depend on it.
      backend: a joblib backend, such as "dask"; by default processes on this machine, if there are several workers.
      address: of a Dask scheduler.
      checkpoint: a file in which a long audit is kept while it runs. If it is there, the audit goes on from it; it is
        removed at the end. The target must be the same: see ``identity``.
      identity: a name of the target and of its version, for ``checkpoint``: what was kept under another name is refused
        instead of mixing two targets in one verdict. Without it that the target is the same is the caller's word.
      progress: called as ``progress(done, total)`` with numbers of outputs drawn, of both data sets together.

    Raises:
      InvalidArgumentError: an argument is outside its domain; nothing was drawn.
      TargetError: the target raised in some runs, or its outputs can't be read.
      MissingExtraError: several workers without joblib, or "dask" without Dask.
      WorkerError: workers died again and again.
    """
    started = time.perf_counter()
    plan = _Plan.checked(
        target,
        claim=claim,
        neighbours=neighbours,
        samples=samples,
        confidence=confidence,
        bits=bits,
        exceptions_as_output=exceptions_as_output,
        grid=grid,
        statistic=statistic,
        attack=attack,
        hands=(workers, backend, address),
    )
    kept = None if checkpoint is None else plan.checkpoint(checkpoint, identity, rng)
    seed = known_seed(rng) if kept is None else kept.seed
    with plan.hands.hired() as crew:
        draws = Draws(plan.called, plan.data, seed, plan.wanted, crew, progress, plan.look, kept)
        choice = _choose(plan, draws, draws.choosing())
        counts = _count(plan, draws, choice)
    if kept is not None:
        kept.remove()
    bound = _bound(plan, choice, counts, seed)
    return _verdict(plan, draws, choice, counts, bound, seconds=time.perf_counter() - started)


# --- the arguments ---------------------------------------------------------------------------------------------------


@frozen(eq=False, kw_only=True)
class _Plan:
    """An audit whose arguments are checked.

    Attributes:
      target: as given.
      called: what is called for outputs: the target, or what looks at its outputs through statistics.
      wanted: number of samples; None for what fits the time.
      look: the given statistic, if any.
      catch: whether exceptions are outputs.
      hands: the workers that draw.
    """

    target: object
    called: Target
    data: tuple[Any, Any]
    claim: Claim
    confidence: float
    wanted: int | None
    grid: float | None
    bits: bool
    look: Look | None
    attack: Attack
    catch: bool
    hands: Workers

    @classmethod
    def checked(
        cls,
        target: object,
        *,
        claim: object,
        neighbours: Iterable[Any] | None,
        samples: int | None,
        confidence: float,
        bits: bool,
        exceptions_as_output: bool,
        grid: float | None,
        statistic: object,
        attack: Attack,
        hands: tuple[int, str | None, str | None],
    ) -> _Plan:
        """Checks the arguments of :func:`audit`; nothing is drawn."""
        known_claim = _own_claim(target) if claim is None else Claim.of(claim)
        confidence = real("confidence", confidence, low=0.5, high=1.0, low_open=True, high_open=True)
        wanted = None if samples is None else integer("samples", samples, low=MINIMUM_SAMPLES)
        spacing = None if grid is None else real("grid", grid, low=0.0, low_open=True)
        check_attack(attack)
        workers = Workers(*hands)
        called = Target.of(target, catch=exceptions_as_output)
        data = neighbour_pair(target, neighbours)
        look = None if statistic is None else Look.of(statistic, target, data)
        if look is not None and bits:
            raise InvalidArgumentError("bits", bits, "has no meaning for a statistic", "leave one of them out")
        if look is not None:
            called = look.through(called)
        elif not exceptions_as_output:
            called = Target.of(with_statistics(target, data))
        return cls(
            target=target,
            called=called,
            data=data,
            claim=known_claim,
            confidence=confidence,
            wanted=wanted,
            grid=spacing,
            bits=bits,
            look=look,
            attack=attack,
            catch=exceptions_as_output,
            hands=workers,
        )

    @property
    def alpha(self) -> float:
        return 1 - self.confidence

    def checkpoint(
        self, path: str | os.PathLike[str], identity: str | None, rng: int | np.random.Generator | None
    ) -> Checkpoint:
        """Returns what ``path`` holds of this audit; an empty checkpoint if there is none."""
        if identity is not None and not isinstance(identity, str):
            raise InvalidArgumentError("identity", identity, "is not a string", "name the target and its version")
        asked = digest(
            self.data,
            self.claim,
            self.confidence,
            self.wanted,
            self.grid,
            self.bits,
            self.catch,
            self.look is not None,
            self.attack,
            identity,
        )
        return Checkpoint.at(path, asked, None if rng is None else known_seed(rng))


def _own_claim(target: object) -> Claim:
    for name in ("claim", "event"):
        own = getattr(target, name, None)
        if callable(own):
            return Claim.of(own())
    return Claim.of(None)  # which says what to give


# --- the choice of events, and their counts --------------------------------------------------------------------------


@frozen(eq=False)
class _Choice:
    """The events, fixed before any of the samples that bound them is drawn.

    Attributes:
      event: what the claim is tested by.
      plain: the same where bit patterns do not count.
      leak: where bit patterns may say more than real numbers; None if a statistic is looked at.
      trials: samples from each data set that are left to bound them.
    """

    event: Event
    plain: Event
    leak: Event | None
    trials: int


@frozen(eq=False)
class _Counts:
    """Of the bounding samples in the cells of each event, shape (sides, cells)."""

    event: IntArray
    plain: IntArray
    leak: IntArray | None


def _choose(plan: _Plan, draws: Draws, tables: tuple[Table, Table]) -> _Choice:
    """Chooses on the samples set aside for it, and on some more where those were not all that there was to spend."""
    evidence = Evidence.of(tables, tuple(draws.book.layouts), plan.grid, attack=plan.attack, seed=draws.seed)
    spare = 0 if plan.bits else draws.spare
    trials = draws.total - evidence.tables[0].runs - spare
    claim, alpha = plan.claim, plan.alpha
    if spare:
        rivals = rival_partitions(evidence, claim, alpha=alpha, trials=spare)
        event = choose_counted(rivals, draws.tuning(spare, plan.grid, rivals), claim, alpha=alpha, trials=trials)
    else:
        # What an event that is given leaves is seldom one for the other order, and few outputs are there to tell.
        pairs = not draws.event_given
        event = choose_event(evidence, claim, alpha=alpha, trials=trials, on_bits=plan.bits, both=pairs)
    plain = choose_event(evidence, claim, alpha=alpha, trials=trials) if event.on_bits else event
    leak = None if plan.look is not None else choose_leak(evidence, claim, alpha=alpha, trials=trials)
    return _Choice(event, plain, leak, trials)


def _count(plan: _Plan, draws: Draws, choice: _Choice) -> _Counts:
    """Draws the samples that bound; what was counted is kept, if there is a checkpoint, however the drawing ends."""
    events = {id(one): one for one in (choice.event, choice.plain, choice.leak) if one is not None}  # each counted once
    try:
        counted = draws.bounding(choice.trials, plan.grid, [one.partition for one in events.values()])
    except BaseException:
        if draws.kept is not None:
            draws.kept.write()
        raise
    counts = dict(zip(events, counted, strict=True))
    return _Counts(counts[id(choice.event)], counts[id(choice.plain)], counts.get(id(choice.leak)))


# --- the bound -------------------------------------------------------------------------------------------------------


@frozen(eq=False)
class _Bound:
    """What the counts say of the claim.

    Attributes:
      inside: how often the events happened, shape (likelier and other data set, 2); see ``Event.counts_of_both``.
      region: where their probabilities are.
      refuted: whether some claimed point is outside of it.
      tested: that point, else the one that the event was chosen for.
      least, other: probabilities of an event that would be refuted at ``tested``; see :func:`_refutable`.
      leaked: whether bit patterns refute the claim.
    """

    inside: IntArray
    region: Region
    refuted: bool
    tested: tuple[float, float]
    least: float
    other: float
    leaked: bool

    def blind(self, claim: Claim) -> bool:
        """Whether only a violation far beyond the claim could have been seen."""
        return _epsilon(self.least, self.other, claim.delta) > max(2 * claim.epsilon, claim.epsilon + 0.1)


def _bound(plan: _Plan, choice: _Choice, counts: _Counts, seed: int) -> _Bound:
    event, trials, alpha = choice.event, choice.trials, plan.alpha
    inside = event.counts_of_both(counts.event)
    tossed = _tossed(event, inside, trials, seed)
    region = _region(event, inside, tossed, trials, alpha)
    refuted = [point for point in (event.point, *plan.claim.points) if region.refutes(*point)]
    tested = refuted[0] if refuted else event.point
    least, other = _refutable(event, tossed, trials, alpha, tested)
    return _Bound(inside, region, bool(refuted), tested, least, other, _leaks(plan, choice, counts))


def _tossed(event: Event, inside: IntArray, trials: int, seed: int) -> Tossed | None:
    """Returns what random sides show of two events; None if there is one."""
    if not len(event.back):
        return None
    return toss(inside, trials, np.random.default_rng(np.random.SeedSequence(seed, spawn_key=_COINS)))


def _region(event: Event, inside: IntArray, tossed: Tossed | None, trials: int, alpha: float) -> Region:
    if tossed is not None:
        return both_frontier(tossed, slope=event.slope, alpha=alpha)
    return frontier(int(inside[0, 0]), trials, int(inside[1, 0]), trials, slope=event.slope, alpha=alpha)


def _refutable(
    event: Event, tossed: Tossed | None, trials: int, alpha: float, point: tuple[float, float]
) -> tuple[float, float]:
    """Returns the least probability of the event that is refuted at ``point`` in nine of ten audits, and the other's.

    The second is that on the less likely data set. The first is infinite if none is refuted so often.
    """
    epsilon, delta = point
    if tossed is None:
        return detectable_probability(trials, trials, event.q, alpha=alpha, epsilon=epsilon, delta=delta), event.q
    found = detectable_epsilon(tossed.trials, event.share, alpha=alpha, epsilon=epsilon, delta=delta)
    q = (event.share - delta) / (1 + math.exp(found)) if found < 700 else 0.0
    return event.share - q, q


def _epsilon(p: float, q: float, delta: float) -> float:
    """Returns the least epsilon >= 0 with p <= e^epsilon q + delta."""
    if p == math.inf or q == 0.0:
        return math.inf
    return max(0.0, math.log((p - delta) / q)) if p > delta else 0.0


def _leaks(plan: _Plan, choice: _Choice, counts: _Counts) -> bool:
    """Whether bit patterns refute the claim, and more than real numbers show in any cell or by the plain event."""
    leak, claim, trials = choice.leak, plan.claim, choice.trials
    if leak is None or counts.leak is None:
        return False
    x, y = choice.plain.counts(counts.plain)
    beyond = max(claim.epsilon, steepest_ratio(choice.plain), math.log((x + 0.5) / (y + 0.5)))
    x, y = leak.counts(counts.leak)
    if x <= math.exp(beyond) * y + claim.delta * trials:  # the estimate itself does not
        return False
    return frontier(x, trials, y, trials, slope=leak.slope, alpha=plan.alpha).refutes(beyond, claim.delta)


# --- the verdict -----------------------------------------------------------------------------------------------------


def _verdict(plan: _Plan, draws: Draws, choice: _Choice, counts: _Counts, bound: _Bound, *, seconds: float) -> Verdict:
    claim, event, trials = plan.claim, choice.event, choice.trials
    epsilon_tested, delta_tested = bound.tested
    return Verdict(
        outcome="refuted" if bound.refuted else "inconclusive" if bound.blind(claim) else "consistent",
        epsilon_claimed=claim.epsilon,
        delta=claim.delta,
        epsilon_lower=bound.region.epsilon(claim.delta),
        confidence=plan.confidence,
        samples=draws.total,
        timed=plan.wanted is None and draws.total < DEFAULT_SAMPLES,
        direction="d0->d1" if event.direction == 0 else "d1->d0",
        event=str(event),
        count_p=int(bound.inside[0, 0]),
        count_q=int(bound.inside[1, 0]),
        trials=trials,
        epsilon_tested=epsilon_tested,
        delta_tested=delta_tested,
        detectable_epsilon=_epsilon(bound.least, bound.other, delta_tested),
        float_leak=bound.leaked,
        bits=bool(plan.bits),
        seed=draws.seed,
        seconds=seconds,
        warnings=tuple(_warnings(plan.target, plan.data, bound.leaked and not plan.bits)),
        event_probability=event.alone,
        event_back=event.words_back(),
        count_back_p=int(bound.inside[1, 1]),
        count_back_q=int(bound.inside[0, 1]),
        tradeoff=_tradeoff(event, counts.event, trials, plan.confidence),
    )


def _tradeoff(event: Event, counts: IntArray, trials: int, confidence: float) -> tuple[TradeoffPoint, ...]:
    sizes = np.union1d(event.cuts, [event.size])
    likely, other = (np.cumsum(counts[side, event.order])[sizes - 1] for side in (event.direction, 1 - event.direction))
    fpr = clopper_pearson(other, trials, confidence=confidence)
    fnr = clopper_pearson(trials - likely, trials, confidence=confidence)
    columns = (other / trials, 1 - likely / trials, *fpr, *fnr)
    return tuple(TradeoffPoint(*map(float, row)) for row in zip(*columns, strict=True))


def _warnings(target: object, data: tuple[Any, Any], leaked: bool) -> list[str]:
    found = []
    if not getattr(target, "repeatable", True):
        found.append("the outputs come from the target's own source of random numbers: the seed does not repeat them")
    if equal_data(*data):
        found.append("d0 and d1 are equal: no event can tell them apart, and the audit says nothing about privacy")
    if leaked:
        found.append(
            "the bit patterns of the outputs refute the claim: floating-point noise leaks; audit with bits=True to let "
            "them count, and release from a sampler that is safe in floating point"
        )
    return found
