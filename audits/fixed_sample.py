"""The public :func:`audit`: draw outputs from a target on two neighbouring data sets and try to refute its claim."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterable
from functools import partial
from typing import Any, Literal

import numpy as np
from attrs import evolve, frozen

from hockeystick._guess.arguments import guessing
from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import IntArray
from hockeystick.accounting.validate import integer, real
from hockeystick.audits.attacks.classifiers import Attack, check_attack
from hockeystick.audits.attacks.event_choice import (
    Event,
    choose_counted,
    choose_event,
    choose_leak,
    rival_partitions,
    steepest_ratio,
)
from hockeystick.audits.attacks.event_test import Bound, error_rates
from hockeystick.audits.attacks.partitions import Evidence
from hockeystick.audits.attacks.smaller_noise import noise_hint
from hockeystick.audits.bounds.two_counts import frontier
from hockeystick.audits.claims.claim import Claim
from hockeystick.audits.drawing.checkpoint import Checkpoint, digest
from hockeystick.audits.drawing.draws import MINIMUM_SAMPLES, Draws, Progress
from hockeystick.audits.drawing.first_outputs import FIRST_LOOK, FIRST_SHARE, FirstOutputs
from hockeystick.audits.drawing.own_process import limited
from hockeystick.audits.drawing.repeated_draw import repeats
from hockeystick.audits.drawing.unchanged_data import Unchanged
from hockeystick.audits.drawing.warnings_once import once
from hockeystick.audits.drawing.workers import Workers
from hockeystick.audits.outputs.cells import as_seen
from hockeystick.audits.outputs.one_value import OneValue
from hockeystick.audits.outputs.reading import Table
from hockeystick.audits.several_pairs import Pairs, Run, audit_pairs, claims_by_pair, given_pairs
from hockeystick.audits.targets.calling import (
    Target,
    equal_data,
    known_seed,
    most_outputs,
    neighbour_pair,
    notes_on,
)
from hockeystick.audits.targets.data_sizes import check_sizes
from hockeystick.audits.targets.statistic import Look, Statistic
from hockeystick.audits.targets.target_features import with_statistics
from hockeystick.audits.verdicts.pairs import in_short
from hockeystick.audits.verdicts.verdict import CONSTANT, TradeoffPoint, Verdict
from hockeystick.audits.walk.audit import two_counts_win, walked

Method = Literal["auto", "two counts", "coin walk"]
METHODS = ("auto", "two counts", "coin walk")

_COINS = (2, 0)  # spawn key of the coins' random stream; the keys of the outputs' streams begin with 0 or 1
_FIRST_COINS = (2, 1)


@once()
@guessing
def audit(
    target: object,
    *,
    claim: object = None,
    neighbours: Iterable[Any] | None = None,
    samples: int | None = None,
    seconds: float | None = None,
    first_look: bool = True,
    rng: int | np.random.Generator | None = None,
    confidence: float = 0.999,
    bits: bool = False,
    exceptions_as_output: bool = False,
    grid: float | None = None,
    statistic: Statistic | Literal["likelihood ratio"] | None = None,
    attack: Attack = "auto",
    method: Method = "two counts",
    timeout: float | None = None,
    workers: int = 1,
    backend: str | None = None,
    address: str | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    identity: str | None = None,
    progress: Progress | None = None,
) -> Verdict:
    """Tries to refute a claim of differential privacy from samples alone.

    Some of the samples choose two events, one for each order of the data sets, and (if the claim is a curve) one point
    of the claim. The remaining samples bound the events' mean probabilities jointly and exactly
    (:func:`hockeystick.audits.bounds.both_orders.both_frontier`). If a single event promises a larger bound, it is
    bounded alone (:func:`hockeystick.audits.bounds.two_counts.frontier`). All choices are made before any bounding
    sample is seen. So there is one test, and its confidence level covers the whole search.

    Choosing takes half of the samples; for outputs that are single numbers it takes a sixth, or a quarter if they have
    at most 16 distinct values; and never more than 2^20.

    If there are at least 2,000 choosing samples, the first 2,000 are a complete audit by themselves, at a twentieth of
    1 - ``confidence``, and the audit ends there if it refutes the claim. Otherwise they are choosing samples like the
    others, and the last test has the other nineteen twentieths. By the union bound a true claim is refuted, or
    ``epsilon_lower`` is above the truth, with probability at most 1 - ``confidence`` in all.

    Outputs may be numbers, strings, None, arrays, and tuples, lists, dictionaries and (data) classes of them; see
    :mod:`hockeystick.audits.outputs.reading`. Floats are read as real numbers, rounded to a public grid; see
    :mod:`hockeystick.audits.outputs.cells`.

    Args:
      target: an object with ``simulate(value, rng, runs)``; or a callable ``f(data, rng)`` that returns one output; or
        ``f(data, rng, runs)`` (a parameter named ``runs``, or three positional parameters without default) that returns
        outputs with the runs on the leading axis. A run is repeatable only if all randomness comes from ``rng``.
      claim: a :class:`Claim`, a pair (epsilon, delta), or a guarantee or event, whose whole curve is then tested
        (:meth:`Claim.of`). Default: ``target.claim()``, or else the curve of ``target.event()``, stated at δ = 1e-6. Or
        a list of claims, one for each of several pairs: of groups of several sizes, or of users with their own ε. The
        null hypothesis is that all of them hold, and the verdict states the claim of the pair that was tested.
      neighbours: two data sets (d0, d1) that are neighbours under the claim's neighbouring relation. Their sizes alone
        are checked, if the claim or the target states a relation, as a guarantee does. Or a list of such pairs, which
        are audited together at one joint confidence level; the verdict names the pair that was tested. See
        :mod:`hockeystick.audits.several_pairs`. Default: ``target.worst_case_neighbours()``.
      samples: number of outputs drawn from *each* data set, for all purposes and over all pairs; at least 20. Default:
        1,000,000, or fewer if the first outputs show that so many would take more than half a minute; of recorded
        outputs, all. ``Verdict.samples`` has the number.
      seconds: an approximate time limit; not together with ``checkpoint``. The time that the choosing samples take
        decides how many outputs there are, at most ``samples``; what they show does not.
      first_look: whether the audit may end after 2,000 outputs. With False, all outputs are drawn, and the bounds of a
        refuted claim are the sharper for it.
      rng: a seed, or a generator that draws one; default: a fresh seed. The verdict records the seed. Outputs on the
        two data sets, and those for choosing and for bounding, are independent.
      confidence: confidence level, in (0.5, 1).
      bits: whether the bit patterns of floats count as well. By default, the verdict has a warning if they refute.
      exceptions_as_output: counts the type of an exception as an output; for targets that return one output a call.
      grid: spacing of the public grid; default: 32 significant bits.
      statistic: a known statistic in which a violation would show: a function of an output (of a batch of outputs if
        the target is vectorised) that returns a number, or a bool for an event; or "likelihood ratio" for the target's
        own ``log_likelihood_ratio(outputs, d0, d1)``. The audit then uses nothing else, and few samples for choosing.
      attack: the classifiers that score outputs of several numbers; see :mod:`hockeystick.audits.attacks.classifiers`.
        "auto" compares them on a small part of the outputs and fits the promising ones.
      method: "two counts" is the test that is described above. "coin walk" draws each output from a data set that a
        fair coin picks, guesses the data set of some outputs by scores that learn from all earlier ones, and tests the
        number of right guesses exactly (:mod:`hockeystick.audits.walk.engine`): no outputs are put aside to choose an
        event, and it ends after the batch that refutes the claim, unless ``first_look`` is False. It needs ``samples``
        (recorded outputs have a number), and has no ``seconds``, ``checkpoint``, ``workers`` or ``bits``; of several
        pairs it tests the last one. "auto" takes the one with the larger predicted power, and the verdict says why
        (``why``). Arguments decide, or what the first 2,000 outputs show; the last test counts others, at the level
        that the first look left. So the choice costs nothing of the level.
      timeout: seconds that one call of the target may take. It then runs in a process of its own, which is ended where
        a call hangs, in a loop of C too, or crashes; the error is a ``TargetError``, and a checkpoint keeps what was
        drawn. The target and the data must be such that they can be pickled. Default: no limit, in this process.
      workers: number of processes that draw; -1 for all cores. Results do not depend on it.
      backend: a joblib backend, such as "dask"; default: local processes if there are several workers.
      address: address of a Dask scheduler.
      checkpoint: a file that stores the progress of a long audit. If the file exists, the audit resumes from it; the
        file is removed at the end. The target must be the same: see ``identity``.
      identity: a name for the target and its version, stored in ``checkpoint``. A checkpoint with another name is
        refused, so that no verdict mixes two targets. By default, a change of the target is not noticed.
      progress: called as ``progress(done, total)`` with numbers of outputs, both data sets together.

    Raises:
      InvalidArgumentError: an argument is outside its domain; nothing was drawn.
      InvalidDataError: the sizes of the data sets contradict the relation; nothing was drawn.
      TargetError: the target raised in some runs, changed its input, returned outputs that can't be read, or stopped
        giving values after a number of calls (:mod:`hockeystick.audits.drawing.late_nones`); or it took longer than
        ``timeout``, or would have ended the program (``sys.exit``, ``os._exit``), also if exceptions are outputs.
      MissingExtraError: several workers without joblib, ``timeout`` without cloudpickle, or "dask" without Dask.
      WorkerError: workers died repeatedly.

    Example:
      >>> import hockeystick as hs
      >>> def noisy_count(data, rng, runs):
      ...     return sum(data) + rng.laplace(0.0, 0.5, runs)  # epsilon = 2
      >>> hs.audit(noisy_count, claim=(1.0, 0.0), neighbours=([1], [1, 1]), samples=20_000, rng=1).outcome
      'refuted'
      >>> hs.audit(noisy_count, claim=(2.0, 0.0), neighbours=([1], [1, 1]), samples=20_000, rng=1).outcome
      'consistent'
    """
    pairs = given_pairs(neighbours)
    claims = claims_by_pair(claim, pairs)
    hindered = _hindered(
        method,
        samples if samples is not None else most_outputs(target),
        seconds=seconds is not None,
        checkpoint=checkpoint is not None,
        workers=workers != 1 or backend is not None or address is not None,
        bits=bits,
    )
    if pairs is not None and len(pairs) > 1:
        for pair, own in zip(pairs, claim if isinstance(claim, list) and claims else [claim] * len(pairs), strict=True):
            check_sizes(pair, own, target)
        options: dict[str, Any] = {"bits": bits, "exceptions_as_output": exceptions_as_output, "grid": grid}
        options |= {"attack": attack, "statistic": statistic, "timeout": timeout}
        options |= {"workers": workers, "backend": backend, "address": address}
        last: dict[str, Any] = {"seconds": seconds, "checkpoint": checkpoint}
        last |= {"identity": identity, "progress": progress, "method": method}
        known: dict[str, Any] = {}
        if not claims:
            known["claim"] = _own_claim(target) if claim is None else Claim.of(claim)
        run = partial(audit, target, **known, **options)
        return _several(run, pairs, claims, samples, confidence, rng, first_look, last)
    claim = claims[0] if claims else claim
    neighbours = neighbours if pairs is None else pairs[0]
    started = time.perf_counter()
    plan = _Plan.checked(
        target,
        claim=claim,
        neighbours=neighbours,
        samples=samples,
        seconds=seconds,
        first_look=first_look,
        confidence=confidence,
        bits=bits,
        exceptions_as_output=exceptions_as_output,
        grid=grid,
        statistic=statistic,
        attack=attack,
        timeout=timeout,
        workers=Workers(workers, backend, address),
    )
    if method == "coin walk" or (method == "auto" and not hindered and statistic is None):
        return _walked(plan, known_seed(rng), method, progress, started)
    why = "" if method == "two counts" else hindered or "a statistic is given, so that few outputs choose an event"
    saved = None if checkpoint is None else plan.checkpoint(checkpoint, identity, rng)
    seed = known_seed(rng) if saved is None else saved.seed
    return evolve(_counted(plan, seed, saved, progress, started), why=why)


def _counted(plan: _Plan, seed: int, saved: Checkpoint | None, progress: Progress | None, started: float) -> Verdict:
    """Returns the verdict of two counts."""
    unchanged = Unchanged(plan.data)
    with plan.workers.hired() as pool:
        draws = Draws(plan.called, plan.data, seed, plan.samples, pool, progress, plan.statistic, saved, plan.seconds)
        result = _first_look(plan, draws) if plan.first_look else None
        if result is None:
            result = _last_look(plan, draws)
    unchanged.check()
    if saved is not None:
        saved.remove()
    return _verdict(plan, draws, result, seconds=time.perf_counter() - started)


_NONE_ASIDE = "it puts no outputs aside to choose an event"
_HINDERED = {
    "seconds": "a time limit sets the number of outputs",
    "checkpoint": "a checkpoint is kept",
    "workers": "several processes draw",
    "bits": "bit patterns count",
}


def _hindered(method: str, samples: int | None, **given: bool) -> str:
    """Returns why there can't be a coin walk, in words, or "" if there can.

    Raises:
      InvalidArgumentError: there is no such method, or one argument hinders the coin walk that another asks for.
    """
    if method not in METHODS:
        raise InvalidArgumentError("method", method, "is not a method", f"give one of {', '.join(METHODS)}")
    hindering = [name for name, there in given.items() if there]
    if method == "coin walk" and hindering:
        reason = "does not go with a coin walk"
        raise InvalidArgumentError(hindering[0], "<given>", reason, 'leave it out, or give method="two counts"')
    if method == "coin walk" and samples is None:
        raise InvalidArgumentError("samples", None, "is missing", "give the number of outputs for the coin walk")
    if samples is None:
        hindering.append("seconds")
    return _HINDERED[hindering[0]] if hindering else ""


def _walked(plan: _Plan, seed: int, method: Method, progress: Progress | None, started: float) -> Verdict:
    """Returns the verdict of a coin walk, or of the two counts to which its first look hands over."""
    unchanged = Unchanged(plan.data)
    assert plan.samples is not None  # see _hindered
    found = walked(
        plan.called,
        plan.data,
        plan.claim,
        confidence=plan.confidence,
        samples=plan.samples,
        most=None if most_outputs(plan.target) is None else plan.samples,
        seed=seed,
        whole=not plan.first_look,
        grid=plan.grid,
        attack=plan.attack,
        progress=progress,
        rival=partial(two_counts_win, samples=plan.samples) if method == "auto" else None,
    )
    unchanged.check()
    why = found.why or _NONE_ASIDE * (method == "auto")
    if found.verdict is None:  # the first look has its part of the level, and its outputs are not counted again
        left, share = plan.samples - found.drawn, 1 - FIRST_SHARE
        plan = evolve(plan, samples=left, first_look=False, alpha=share * plan.alpha)
        verdict = _counted(plan, seed, None, progress, started)
        samples, planned = verdict.samples + found.drawn, verdict.planned + found.drawn
        return evolve(verdict, samples=samples, planned=planned, why=why)
    verdict = found.verdict
    repeated = repeats(plan.target, plan.data[0], seed, catch=plan.catch, timeout=plan.timeout)
    notes = notes_on(plan.target, repeats=repeated)
    warnings = notes + [CONSTANT] * verdict.constant + _warnings(plan.data, leaked=verdict.float_leak)
    sizes = tuple(map(in_short, plan.data))
    return evolve(verdict, warnings=tuple(warnings), data=sizes, why=why, seconds=time.perf_counter() - started)


def _several(
    run: Run,
    pairs: Pairs,
    claims: tuple[Claim, ...],
    samples: int | None,
    confidence: float,
    rng: int | np.random.Generator | None,
    first_look: bool,
    last: dict[str, Any],
) -> Verdict:
    """Checks the arguments that several pairs share, and audits them."""
    started = time.perf_counter()
    if last["checkpoint"] is not None and rng is None:
        reason = "is missing: an audit of several pairs resumes only with the seed that it had"
        raise InvalidArgumentError("rng", None, reason, "give a seed")
    verdict = audit_pairs(
        run,
        pairs,
        samples=None if samples is None else integer("samples", samples, low=MINIMUM_SAMPLES),
        confidence=real("confidence", confidence, low=0.5, high=1.0, low_open=True, high_open=True),
        seed=known_seed(rng),
        first_look=bool(first_look),
        last=last,
        claims=claims,
    )
    return evolve(verdict, seconds=time.perf_counter() - started)


# --- the arguments ---------------------------------------------------------------------------------------------------


@frozen(eq=False, kw_only=True)
class _Plan:
    """The checked arguments of an audit.

    Attributes:
      target: the target that the caller gave.
      called: the target to call for outputs, with statistics applied to them where there are any.
      alpha: level of the test: all of 1 - confidence, or the share of a look.
      samples: number of samples; None for as many as fit the time limit.
      statistic: the caller's statistic, if any.
      catch: whether exceptions are outputs.
    """

    target: object
    called: Target
    data: tuple[Any, Any]
    claim: Claim
    confidence: float
    alpha: float
    samples: int | None
    seconds: float | None
    first_look: bool
    grid: float | None
    bits: bool
    statistic: Look | None
    attack: Attack
    catch: bool
    timeout: float | None
    workers: Workers

    @classmethod
    def checked(
        cls,
        target: object,
        *,
        claim: object,
        neighbours: Iterable[Any] | None,
        samples: int | None,
        seconds: float | None,
        first_look: bool,
        confidence: float,
        bits: bool,
        exceptions_as_output: bool,
        grid: float | None,
        statistic: object,
        attack: Attack,
        timeout: float | None,
        workers: Workers,
    ) -> _Plan:
        """Checks the arguments of :func:`audit`; nothing is drawn."""
        known_claim = _own_claim(target) if claim is None else Claim.of(claim)
        confidence = real("confidence", confidence, low=0.5, high=1.0, low_open=True, high_open=True)
        samples = most_outputs(target) if samples is None else integer("samples", samples, low=MINIMUM_SAMPLES)
        if samples is not None and samples < MINIMUM_SAMPLES:
            raise InvalidArgumentError("recorded", target, f"has {samples} outputs left", f"record {MINIMUM_SAMPLES}")
        seconds = None if seconds is None else real("seconds", seconds, low=0.0, low_open=True)
        grid = None if grid is None else real("grid", grid, low=0.0, low_open=True)
        check_attack(attack)
        called = Target.of(target, catch=exceptions_as_output)
        data = neighbour_pair(target, neighbours)
        check_sizes(data, claim, target)
        look = None if statistic is None else Look.of(statistic, target, data)
        if look is not None and bits:
            raise InvalidArgumentError("bits", bits, "does not apply to a statistic", "leave out bits or statistic")
        if look is not None:
            called = look.through(called)
        elif not exceptions_as_output:
            called = Target.of(with_statistics(target, data))
        return cls(
            target=target,
            called=limited(called, timeout),
            data=data,
            claim=known_claim,
            confidence=confidence,
            alpha=1 - confidence,
            samples=samples,
            seconds=seconds,
            first_look=bool(first_look),
            grid=grid,
            bits=bits,
            statistic=look,
            attack=attack,
            catch=exceptions_as_output,
            timeout=timeout,
            workers=workers,
        )

    def checkpoint(
        self, path: str | os.PathLike[str], identity: str | None, rng: int | np.random.Generator | None
    ) -> Checkpoint:
        """Returns the checkpoint of this audit at ``path``, empty if there is no file."""
        if self.seconds is not None:
            reason = "has no meaning with a checkpoint, whose audit may run several times"
            raise InvalidArgumentError("seconds", self.seconds, reason, "give samples")
        if identity is not None and not isinstance(identity, str):
            raise InvalidArgumentError("identity", identity, "is not a string", "name the target and its version")
        options = (self.grid, self.bits, self.catch, self.statistic is not None, self.attack, self.first_look)
        key = digest(self.data, self.claim, self.confidence, self.samples, *options, identity)
        return Checkpoint.at(path, key, None if rng is None else known_seed(rng))


def _own_claim(target: object) -> Claim:
    for name in ("claim", "event"):
        own = getattr(target, name, None)
        if callable(own):
            return Claim.of(own())
    return Claim.of(None)  # raises the error for a missing claim


# --- the choice of events, and their counts --------------------------------------------------------------------------


@frozen(eq=False)
class _Choice:
    """The events, fixed before any bounding sample is drawn.

    Attributes:
      event: the event that tests the claim.
      plain: the event of real numbers; the same as ``event`` unless that is one of bit patterns.
      leak: the best event of bit patterns; None if the caller gave a statistic.
      trials: number of bounding samples from each data set.
    """

    event: Event
    plain: Event
    leak: Event | None
    trials: int

    @property
    def events(self) -> list[Event]:
        """The events, each once."""
        found = {id(one): one for one in (self.event, self.plain, self.leak) if one is not None}
        return list(found.values())


@frozen(eq=False)
class _Counts:
    """Counts of the bounding samples in the cells of each event, shape (sides, cells)."""

    event: IntArray
    plain: IntArray
    leak: IntArray | None

    @classmethod
    def of(cls, choice: _Choice, found: dict[int, IntArray]) -> _Counts:
        """Returns the counts of a choice's events, given by the events' ids."""
        leak = None if choice.leak is None else found[id(choice.leak)]
        return cls(found[id(choice.event)], found[id(choice.plain)], leak)


@frozen(eq=False)
class _Result:
    """A complete audit: the plan with its level, the choice, the counts and what they say.

    Attributes:
      samples: number of outputs.
      constant: whether all of them are one value.
      hint: the mistake that the choosing samples look like, if the claim is refuted.
    """

    plan: _Plan
    choice: _Choice
    counts: _Counts
    bound: Bound
    samples: int
    constant: bool = False
    hint: str = ""


def _first_look(plan: _Plan, draws: Draws) -> _Result | None:
    """Returns a complete audit of the first outputs if it refutes the claim, else None.

    It uses no output that the last look counts, and the two have their own shares of the level.
    """
    tables = draws.first(FIRST_LOOK)
    if tables is None:
        return None
    plan = evolve(plan, alpha=FIRST_SHARE * plan.alpha)
    parts = FirstOutputs.of(tables, tuple(draws.book.layouts), draws.share(FIRST_LOOK))
    evidence = Evidence.of(parts.choosing, parts.layouts, plan.grid, attack=plan.attack, seed=draws.seed)
    choice = _choose_from(plan, draws, evidence, trials=parts.counted[0].runs)
    found = {}
    for one in choice.events:
        seen = [next(as_seen([one.partition.view], table, parts.every, plan.grid)) for table in parts.counted]
        found[id(one)] = np.stack([one.partition.count(*batch) for batch in seen])
    counts = _Counts.of(choice, found)
    bound = _bound(plan, choice, counts, draws.seed, _FIRST_COINS)
    if not bound.refuted:
        return None
    return _Result(plan, choice, counts, bound, FIRST_LOOK, hint=_hint(plan, draws, tables))


def _last_look(plan: _Plan, draws: Draws) -> _Result:
    """Returns the audit of all outputs; its level is what a first look has left."""
    tables = draws.choosing()
    if plan.first_look and tables[0].runs >= FIRST_LOOK:  # as in :meth:`Draws.first`, also after an interruption
        plan = evolve(plan, alpha=(1 - FIRST_SHARE) * plan.alpha)
    choice = _choose(plan, draws, tables)
    trials = draws.fitting(choice.trials, plan.grid, [one.partition for one in choice.events], tables)
    choice = evolve(choice, trials=trials)
    counts, constant = _count(plan, draws, choice, OneValue.of(tables) if plan.statistic is None else None)
    bound = _bound(plan, choice, counts, draws.seed, _COINS)
    hint = _hint(plan, draws, tables) if bound.refuted else ""
    return _Result(plan, choice, counts, bound, draws.total, constant, hint)


def _hint(plan: _Plan, draws: Draws, tables: tuple[Table, Table]) -> str:
    return "" if plan.statistic is not None else noise_hint(tables, tuple(draws.book.layouts), plan.claim)


def _choose(plan: _Plan, draws: Draws, tables: tuple[Table, Table]) -> _Choice:
    """Chooses the events on the choosing samples, and on spare samples where there are any."""
    evidence = Evidence.of(tables, tuple(draws.book.layouts), plan.grid, attack=plan.attack, seed=draws.seed)
    spare = 0 if plan.bits else draws.spare
    trials = draws.total - evidence.tables[0].runs - spare
    if not spare:
        return _choose_from(plan, draws, evidence, trials=trials)
    rivals = rival_partitions(evidence, plan.claim, alpha=plan.alpha, trials=spare)
    counts = draws.tuning(spare, plan.grid, rivals)
    event = choose_counted(rivals, counts, plan.claim, alpha=plan.alpha, trials=trials)
    return _Choice(event, event, _leak(plan, evidence, trials), trials)


def _choose_from(plan: _Plan, draws: Draws, evidence: Evidence, *, trials: int) -> _Choice:
    """Chooses the events on some choosing samples alone, for ``trials`` bounding samples from each data set."""
    claim, alpha = plan.claim, plan.alpha
    # The complement of a given event is seldom a good event for the other order, and the samples are few.
    both = not draws.event_given
    event = choose_event(evidence, claim, alpha=alpha, trials=trials, on_bits=plan.bits, both=both)
    plain = choose_event(evidence, claim, alpha=alpha, trials=trials) if event.on_bits else event
    return _Choice(event, plain, _leak(plan, evidence, trials), trials)


def _leak(plan: _Plan, evidence: Evidence, trials: int) -> Event | None:
    if plan.statistic is not None:
        return None
    return choose_leak(evidence, plan.claim, alpha=plan.alpha, trials=trials)


def _count(plan: _Plan, draws: Draws, choice: _Choice, value: OneValue | None) -> tuple[_Counts, bool]:
    """Draws and counts the bounding samples; an interruption saves the counts so far in the checkpoint.

    Args:
      plan, draws, choice: of the audit.
      value: the value of all choosing samples; None if there are several.

    Returns:
      The counts, and whether all bounding samples are ``value``.
    """
    partitions = [one.partition for one in choice.events]
    try:
        counted = draws.bounding(choice.trials, plan.grid, partitions if value is None else [*partitions, value])
    except BaseException:
        if draws.checkpoint is not None:
            draws.checkpoint.write()
        raise
    constant = value is not None and not counted.pop()[:, 1].any()
    return _Counts.of(choice, dict(zip(map(id, choice.events), counted, strict=True))), constant


# --- the verdict ------------------------------------------------------------------------------------------------------


def _bound(plan: _Plan, choice: _Choice, counts: _Counts, seed: int, coins: tuple[int, int]) -> Bound:
    toss = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=coins))
    return Bound.of(choice.event, counts.event, choice.trials, plan.claim, alpha=plan.alpha, rng=toss)


def _leaks(plan: _Plan, choice: _Choice, counts: _Counts) -> bool:
    """Returns whether bit patterns refute the claim by more than real numbers show, in any cell or by the event."""
    leak, claim, trials = choice.leak, plan.claim, choice.trials
    if leak is None or counts.leak is None:
        return False
    x, y = choice.plain.counts(counts.plain)
    beyond = max(claim.epsilon, steepest_ratio(choice.plain), math.log((x + 0.5) / (y + 0.5)))
    x, y = leak.counts(counts.leak)
    if x <= math.exp(beyond) * y + claim.delta * trials:  # the estimate itself does not exceed it
        return False
    return frontier(x, trials, y, trials, slope=leak.slope, alpha=plan.alpha).refutes(beyond, claim.delta)


def _verdict(plan: _Plan, draws: Draws, result: _Result, *, seconds: float) -> Verdict:
    claim, choice, bound = plan.claim, result.choice, result.bound
    event, trials, level = choice.event, choice.trials, result.plan.alpha
    leaked = _leaks(result.plan, choice, result.counts)
    repeated = repeats(plan.target, plan.data[0], draws.seed, catch=plan.catch, timeout=plan.timeout)
    notes = notes_on(plan.target, repeats=repeated) + [CONSTANT] * result.constant
    epsilon_tested, delta_tested = bound.tested
    return Verdict(
        outcome="refuted" if bound.refuted else "inconclusive" if bound.blind(claim) else "consistent",
        epsilon_claimed=claim.epsilon,
        delta=claim.delta,
        epsilon_lower=bound.region.epsilon(claim.delta),
        confidence=plan.confidence,
        samples=result.samples,
        timed=result.samples == draws.total and draws.timed,
        direction="d0->d1" if event.direction == 0 else "d1->d0",
        event=str(event),
        count_p=int(bound.inside[0, 0]),
        count_q=int(bound.inside[1, 0]),
        trials=trials,
        epsilon_tested=epsilon_tested,
        delta_tested=delta_tested,
        detectable_epsilon=bound.detectable(delta_tested),
        float_leak=leaked,
        bits=bool(plan.bits),
        seed=draws.seed,
        seconds=seconds,
        warnings=tuple(notes + _warnings(plan.data, leaked and not plan.bits)),
        event_probability=event.alone,
        event_back=event.words_back(),
        count_back_p=int(bound.inside[1, 1]),
        count_back_q=int(bound.inside[0, 1]),
        tradeoff=tuple(TradeoffPoint(*row) for row in error_rates(event, result.counts.event, trials, alpha=level)),
        delta_lower=bound.region.delta(claim.epsilon),
        planned=draws.planned,
        level=level,
        constant=result.constant,
        event_exact=event.words(exact=True),
        event_back_exact=event.words_back(exact=True),
        hint=result.hint,
        data=tuple(map(in_short, plan.data)),
    )


def _warnings(data: tuple[Any, Any], leaked: bool) -> list[str]:
    found = []
    if equal_data(*data):
        found.append("d0 and d1 are equal: no event can distinguish them, and the audit says nothing about privacy")
    if leaked:
        found.append(
            "floating-point noise leaks: the low bits of the outputs tell the data sets apart, though the numbers do "
            "not; publish outputs of a sampler that is safe in floating point, or let the bits count with bits=True"
        )
    return found
