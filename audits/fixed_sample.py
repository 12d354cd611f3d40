"""The public :func:`audit`: draw outputs from a target on two neighbouring data sets and try to refute its claim."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterable
from typing import Any, Literal

import numpy as np

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
      "auto" compares them on a small
        part of the outputs and fits what seems worth it.
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
    claim = _own_claim(target) if claim is None else Claim.of(claim)
    confidence = real("confidence", confidence, low=0.5, high=1.0, low_open=True, high_open=True)
    wanted = None if samples is None else integer("samples", samples, low=MINIMUM_SAMPLES)
    spacing = None if grid is None else real("grid", grid, low=0.0, low_open=True)
    check_attack(attack)
    hands = Workers(workers, backend, address)
    called = Target.of(target, catch=exceptions_as_output)
    data = neighbour_pair(target, neighbours)
    look = None if statistic is None else Look.of(statistic, target, data)
    if look is None:
        called = called if exceptions_as_output else Target.of(with_statistics(target, data))
    elif bits:
        raise InvalidArgumentError("bits", bits, "has no meaning for a statistic", "leave one of them out")
    else:
        called = look.through(called)

    kept = None
    if checkpoint is not None:
        if identity is not None and not isinstance(identity, str):
            raise InvalidArgumentError("identity", identity, "is not a string", "name the target and its version")
        asked = digest(
            data,
            claim,
            confidence,
            wanted,
            spacing,
            bits,
            exceptions_as_output,
            statistic is not None,
            attack,
            identity,
        )
        kept = Checkpoint.at(checkpoint, asked, None if rng is None else known_seed(rng))
    seed = kept.seed if kept is not None else known_seed(rng)
    alpha = 1 - confidence

    with hands.hired() as crew:
        draws = Draws(called, data, seed, wanted, crew, progress, look, kept)
        evidence = Evidence.of(draws.choosing(), tuple(draws.book.layouts), spacing, attack=attack, seed=seed)
        spare = 0 if bits else draws.spare
        trials = draws.total - evidence.tables[0].runs - spare
        if spare:
            rivals = rival_partitions(evidence, claim, alpha=alpha, trials=spare)
            event = choose_counted(rivals, draws.tuning(spare, spacing, rivals), claim, alpha=alpha, trials=trials)
        else:
            # What an event that is given leaves is seldom one for the other order, and few outputs are there to tell.
            pairs = not draws.event_given
            event = choose_event(evidence, claim, alpha=alpha, trials=trials, on_bits=bits, both=pairs)
        plain = choose_event(evidence, claim, alpha=alpha, trials=trials) if event.on_bits else event
        leak = None if look is not None else choose_leak(evidence, claim, alpha=alpha, trials=trials)
        del evidence
        events = {id(one): one for one in (event, plain, leak) if one is not None}
        try:
            counted = draws.bounding(trials, spacing, [one.partition for one in events.values()])
        except BaseException:
            if kept is not None:
                kept.write()
            raise
    counts = dict(zip(events, counted, strict=True))
    if kept is not None:
        kept.remove()

    inside = event.counts_of_both(counts[id(event)])
    tossed = _tossed(event, inside, trials, seed)
    region = _region(event, inside, tossed, trials, alpha)
    refuted = [point for point in (event.point, *claim.points) if region.refutes(*point)]
    tested = refuted[0] if refuted else event.point
    leaked = leak is not None and _leaks(leak, counts[id(leak)], plain, counts[id(plain)], claim, trials, alpha)
    least, other = _refutable(event, tossed, trials, alpha, tested)
    blind = _epsilon(least, other, claim.delta) > max(2 * claim.epsilon, claim.epsilon + 0.1)
    return Verdict(
        outcome="refuted" if refuted else "inconclusive" if blind else "consistent",
        epsilon_claimed=claim.epsilon,
        delta=claim.delta,
        epsilon_lower=region.epsilon(claim.delta),
        confidence=confidence,
        samples=draws.total,
        timed=wanted is None and draws.total < DEFAULT_SAMPLES,
        direction="d0->d1" if event.direction == 0 else "d1->d0",
        event=str(event),
        count_p=int(inside[0, 0]),
        count_q=int(inside[1, 0]),
        trials=trials,
        epsilon_tested=tested[0],
        delta_tested=tested[1],
        detectable_epsilon=_epsilon(least, other, tested[1]),
        float_leak=leaked,
        bits=bool(bits),
        seed=seed,
        seconds=time.perf_counter() - started,
        warnings=tuple(_warnings(target, data, leaked and not bits)),
        event_probability=event.alone,
        event_back=event.words_back(),
        count_back_p=int(inside[1, 1]),
        count_back_q=int(inside[0, 1]),
        tradeoff=_tradeoff(event, counts[id(event)], trials, confidence),
    )


def _own_claim(target: object) -> Claim:
    for name in ("claim", "event"):
        own = getattr(target, name, None)
        if callable(own):
            return Claim.of(own())
    return Claim.of(None)  # which says what to give


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


def _leaks(
    leak: Event, counts: IntArray, plain: Event, plain_counts: IntArray, claim: Claim, trials: int, alpha: float
) -> bool:
    """Whether bit patterns refute the claim, and more than real numbers show in any cell or by the plain event."""
    x, y = plain.counts(plain_counts)
    beyond = max(claim.epsilon, steepest_ratio(plain), math.log((x + 0.5) / (y + 0.5)))
    x, y = leak.counts(counts)
    if x <= math.exp(beyond) * y + claim.delta * trials:  # the estimate itself does not
        return False
    return frontier(x, trials, y, trials, slope=leak.slope, alpha=alpha).refutes(beyond, claim.delta)


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
