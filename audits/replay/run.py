"""Record and replay: three runs a path, on d0, on d0 again and on d1, with the answers of the first one."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from attrs import define, evolve, field, frozen

from hockeystick._guess.arguments import guessing
from hockeystick.accounting import InvalidArgumentError, InvalidDataError, validate
from hockeystick.audits.drawing.own_process import OwnProcess, Timed, checked_timeout
from hockeystick.audits.drawing.workers import packed
from hockeystick.audits.replay.comparison import Claimed, Compared, Ran, compare
from hockeystick.audits.replay.generator import RecordingGenerator
from hockeystick.audits.replay.noisy import Noisy
from hockeystick.audits.replay.places import LastLine, place, rank, run_algorithm
from hockeystick.audits.replay.tape import Diverged, NotCoveredError, Tape
from hockeystick.audits.replay.values import Leaf, difference, leaves, private_copy, strip, unchanged
from hockeystick.audits.replay.verdict import (
    MechanismMet,
    ReplayFinding,
    ReplayVerdict,
    collected,
    gravest,
    widened,
)
from hockeystick.audits.replay.watching import libraries, watched
from hockeystick.audits.targets.calling import (
    Target,
    TargetEndedError,
    TargetError,
    ends_refused,
    equal_data,
    known_seed,
)

PATHS = 20
"""The default number of paths in each order."""

_SPREADS = (1.0, 1.0, 4.0, 1.0, 16.0)  # of additive noise for pure claims: the tails have positive densities, too
_AT_LEAST = 6  # paths, of which each may show that answers do not stand in fixed places of the output
_CALLS = 10  # of the algorithm on one path, at most: each run may be repeated once
_OWN = "two runs on one data set with the same answers differ: there is randomness that does not come from rng"


@guessing
def replay(
    algorithm: Any,
    d0: Any,
    d1: Any,
    *,
    epsilon: float,
    delta: float = 0.0,
    paths: int = PATHS,
    rng: Any = None,
    seed: int | None = None,
    timeout: float | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> ReplayVerdict:
    """Records an algorithm on ``d0`` and replays it on ``d1``, with the same answers of all mechanisms; in both orders.

    Each path is three runs. The first, on one data set, records every call of a mechanism (of this library, of OpenDP,
    of diffprivlib, or of ``rng``): the noiseless input, the stated sensitivity, the answer. The second, on the same
    data with other randomness, is given these answers and must repeat the first. The third, on the other data set, is
    given them too. Its calls must be the same, with inputs within the stated sensitivities and equal parameters, and it
    must return the same value. The distances that were met are then priced as a graph, whose ε must be at most that of
    the claim. See :class:`ReplayVerdict` for the outcomes.

    The noise of ``rng.laplace``, ``rng.normal`` and ``rng.gumbel`` is lazy: a value that it is added to becomes known
    when it is looked at. Of a comparison of two noisy values, and of ``argmax``, only the outcome becomes known.

    Args:
      algorithm: ``f(data, rng)``, ``f(data, rng, runs)`` or an object with ``simulate``, as ``audit`` takes it. It
        makes all mechanisms with a state (ledgers, sessions, odometers) itself.
      d0, d1: neighbouring data sets, best at the largest distance that is allowed.
      epsilon, delta: the claim.
      paths: number of paths in each order.
      rng: None, a seed or a numpy generator. ``seed`` is another name for a seed.
      timeout: seconds that one run of the algorithm may take. The replay then runs in a process of its own, which is
        ended where a run hangs or crashes, as in :func:`hockeystick.audits.audit`. Default: no limit, in this process.
      progress: is called with the number of finished paths and of all.

    Raises:
      InvalidArgumentError: an argument is out of its domain.
      InvalidDataError: a data set can't be copied, or was changed in place.
      TargetError: the algorithm raised on the data set on which it was recorded, took longer than ``timeout``, or would
        have ended the program.
      MissingExtraError: ``timeout`` without cloudpickle.

    Example:
      >>> import numpy as np
      >>> import hockeystick as hs
      >>> def total(ages, rng):  # clips at 103, and pays for 100
      ...     return hs.mechanisms.Laplace(200.0, sensitivity=100.0).simulate(np.clip(ages, 0, 103).sum(), rng, 1)[0]
      >>> found = hs.replay(total, [30, 52, 110], [30, 52], epsilon=0.5, seed=1)
      >>> found.outcome, found.findings[0].message
      ('violation', 'Laplace: the inputs are 103 apart (l1), above the 100 stated')
    """
    claim = Claimed(
        validate.real("epsilon", epsilon, low=0.0, high=700.0), validate.real("delta", delta, low=0.0, high=1.0)
    )
    count = validate.integer("paths", paths, low=1, high=10_000)
    if rng is not None and seed is not None:
        raise InvalidArgumentError("seed", seed, "is given beside rng", "give one of them")
    root = known_seed(seed if rng is None else rng)
    limit = None if timeout is None else checked_timeout(timeout)
    session = _Session(_callable(algorithm), (d0, d1), claim, root, limit)
    answer: Callable[[_Request], Any] = session.answer
    if limit is not None:
        code = packed(Target(session.answer, vectorised=False), "timeout")
        answer = _Elsewhere(OwnProcess(code, limit, _CALLS))
    done = 0
    for number in range(1, count + 1):
        violated = False
        for side in (0, 1):
            violated = answer((number, side))
            done += 1
            if progress is not None:
                progress(done, 2 * count)
        if number >= _AT_LEAST and violated:
            break
    found: ReplayVerdict = answer((number, None))
    return found


@frozen(eq=False)
class _Elsewhere:
    """A session in another process."""

    process: OwnProcess

    def __call__(self, request: _Request) -> Any:
        outputs = self.process(request, np.random.default_rng(0), 1)
        if outputs.error is not None:
            raise outputs.error
        return outputs.found[0]


def _callable(algorithm: Any) -> Callable[[Any, Any], Any]:
    target = Target.of(algorithm)
    if not target.vectorised:
        return target.call
    return _OneRun(algorithm if callable(getattr(algorithm, "simulate", None)) else target.call)


@frozen(eq=False)
class _OneRun:
    """One run of an algorithm that draws many at once."""

    algorithm: Any

    def __call__(self, data: Any, rng: Any) -> Any:
        simulate = getattr(self.algorithm, "simulate", None)  # looked up anew, as calls of it are recorded
        return (self.algorithm if simulate is None else simulate)(data, rng, 1)[0]


_Request = tuple[int, int | None]


@define
class _Session:
    """A replay in progress.

    Attributes:
      limit: the seconds that one run may take, in a process of its own; None for no limit.
    """

    call: Callable[[Any, Any], Any]
    data: tuple[Any, Any]
    claim: Claimed
    seed: int
    limit: float | None = None
    findings: list[ReplayFinding] = field(factory=list)
    met: dict[tuple[str, str], MechanismMet] = field(factory=dict)
    shown: dict[int, set[str]] = field(factory=dict)  # for each answer the places that showed it on all paths
    calls: int = 0
    dearest: Compared | None = None
    unpriced: bool = False
    seconds: float = 0.0

    def answer(self, request: _Request, _: object = None) -> Any:
        """Follows the path (number, side), and returns whether any was a violation; for (paths, None), the verdict."""
        number, side = request
        if side is None:
            return self.verdict(number)
        started = time.process_time()
        self.path(number, side)
        self.seconds += time.process_time() - started
        return any(finding.outcome == "violation" for finding in self.findings)

    def path(self, number: int, side: int) -> None:
        """Follows one path, recorded on the data set of ``side``."""
        order = ("d0->d1", "d1->d0")[side]
        found = Compared(order, number)
        sequence = np.random.SeedSequence(self.seed, spawn_key=(number, side))
        streams = [np.random.default_rng(child) for child in sequence.spawn(4)]
        spread = _SPREADS[(number - 1) % len(_SPREADS)] if self.claim.delta == 0.0 else 1.0
        try:
            first = self._run(Tape(streams[0], spread=spread), side)
            self.calls = max(self.calls, len(first.tape.steps))
            again = self._run(Tape(streams[1], before=first.tape), side)
            if again.diverged or len(again.tape.steps) != len(first.tape.steps):
                where = again.tape.steps[-1].where if again.tape.steps else ""
                found.add("not covered", "own randomness", _OWN, where)
            elif difference(first.output, again.output) is not None:
                found.add("not covered", "own randomness", _OWN, self._return_line(streams[1], first.tape, side))
            if not found.findings:
                second = self._run(Tape(streams[2], before=first.tape), 1 - side)
                found = compare(first, second, self.claim, order, number)
                self._place(found, streams[3], first.tape, 1 - side)
                self._foreign(found, first.tape, second.tape)
        except NotCoveredError as error:
            where, message = error.args if len(error.args) == 2 else ("", str(error))
            found.add("not covered", "random draw", message, where)
        self._keep(found)

    def _run(self, tape: Tape, side: int) -> Ran:
        """Runs the algorithm once; again, if it has just imported a library whose calls are watched."""
        known, start = libraries(), tape.rng.bit_generator.state
        ran = self._once(tape, side)
        if libraries() == known:
            return ran
        tape.rng.bit_generator.state = start
        return self._once(
            evolve(tape, steps=[], repeats=[], noise=np.empty(0), state=np.empty(0, dtype=np.int64)), side
        )

    def _once(self, tape: Tape, side: int) -> Ran:
        data = private_copy(f"d{side}", self.data[side])
        before = list(leaves(data))
        diverged, output = False, None
        found: list[Leaf] | None
        run = run_algorithm if self.limit is None else Timed(run_algorithm, self.limit)
        try:
            with watched(tape), ends_refused():
                output = strip(run(self.call, data, RecordingGenerator(tape)), Noisy._see)
            found = None
        except Diverged:
            diverged, found = True, []
        except (NotCoveredError, InvalidDataError) as error:
            if isinstance(error, NotCoveredError):
                raise NotCoveredError(_line(error), str(error)) from None
            found = self._raised(error, tape, side)
        except TargetEndedError:
            raise
        except Exception as error:
            found = self._raised(error, tape, side)
        unchanged(f"d{side}", before, data)
        return Ran(tape, list(leaves(output)) if found is None else found, diverged)

    def _raised(self, error: Exception, tape: Tape, side: int) -> list[Leaf]:
        """An exception is an output of a replay; of the recorded run it is an error."""
        if tape.before is None:
            told = f"the algorithm raised {type(error).__name__} on d{side} at {_line(error) or 'an unknown line'}"
            if any("Noisy" in str(part) for part in error.args):
                remedy = "give np.asarray(number, dtype=float) to a package that reads types of its own"
                told += f", where a noisy number of this replay arrived: {remedy}"
            raise TargetError(told, (1 - side, side), (1, 1)) from error
        return [("the exception", type(error).__name__)]

    def _return_line(self, stream: np.random.Generator, before: Tape, side: int) -> str:
        """Returns the line at which the algorithm returns, by one more run."""
        with LastLine() as last:
            self._run(Tape(stream, before=before), side)
        return last.place

    def _place(self, found: Compared, stream: np.random.Generator, before: Tape, side: int) -> None:
        """Gives the line of the return to a finding about the value returned."""
        if any(not finding.where and finding.kind in ("unpaid release", "noise reuse") for finding in found.findings):
            where = self._return_line(stream, before, side)
            found.findings = [_at(finding, where) for finding in found.findings]

    def _foreign(self, found: Compared, *tapes: Tape) -> None:
        """With a generator of the algorithm's own no difference proves anything: its seed may be fixed."""
        places = [where for tape in tapes for where in tape.foreign]
        if places and found.findings:
            told = "the algorithm makes or seeds a generator of its own, whose noise looks like a constant"
            found.findings = [_not_covered(finding) for finding in found.findings]
            found.add("not covered", "own generator", told, places[0])

    def _keep(self, found: Compared) -> None:
        self.findings.extend(found.findings)
        for answer, places in found.shown.items():
            self.shown[answer] = self.shown.get(answer, set(places)) & set(places)
        for name, where, met in found.met:
            new = MechanismMet(name, where, met.norm, met.distance, met.stated, 1)
            self.met[name, where] = widened(self.met.get((name, where)), new)
        self.unpriced = self.unpriced or found.unpriced
        if found.price is not None:
            dearest = self.dearest.price.epsilon if self.dearest is not None and self.dearest.price else -1.0
            if found.price.epsilon > dearest:
                self.dearest = found

    def verdict(self, paths: int) -> ReplayVerdict:
        """Returns the verdict on all paths."""
        moving = any(not places for places in self.shown.values())
        every = [_unproved(finding) if moving else finding for finding in self.findings]
        findings, met = collected(every), tuple(self.met.values())
        price = self.dearest.price if self.dearest is not None and not self.unpriced else None
        finite = price is not None and math.isfinite(price.epsilon)
        return ReplayVerdict(
            outcome=gravest(findings),
            epsilon_claimed=self.claim.epsilon,
            delta=self.claim.delta,
            epsilon_path=price.epsilon if price is not None else math.inf,
            delta_path=float(price.graph.guarantee().delta(self.claim.epsilon).upper) if price is not None else 1.0,
            findings=findings,
            mechanisms=met,
            paths=paths,
            calls=self.calls,
            seed=self.seed,
            seconds=self.seconds,
            graph=price.graph if price is not None and finite else None,
            warnings=tuple(self._warnings(met)),
        )

    def _warnings(self, met: tuple[MechanismMet, ...]) -> list[str]:
        found = []
        if equal_data(*self.data):
            found.append("d0 and d1 are equal: nothing can differ")
        if not self.calls:
            found.append("the algorithm called no mechanism and drew nothing from rng")
        short = [one for one in met if one.stated is not None and one.largest < one.stated * (1 - 1e-9)]
        if short:
            found.append(
                f"the pair is not at the stated sensitivity: the largest distance met was {short[0].largest:.6g} of "
                f"{short[0].stated:.6g} ({short[0].place})"
            )
        return found


def _line(error: Exception) -> str:
    """Returns the innermost line of the user's algorithm in a traceback."""
    found, best = "", 3
    trace = error.__traceback__
    inside = False
    while trace is not None:
        code = trace.tb_frame.f_code
        inside = inside or code is run_algorithm.__code__
        if inside and code is not run_algorithm.__code__ and rank(code.co_filename) <= min(best, 1):
            best, found = rank(code.co_filename), place(code.co_filename, trace.tb_lineno)
        trace = trace.tb_next
    return found


def _at(finding: ReplayFinding, where: str) -> ReplayFinding:
    return finding if finding.where else evolve(finding, where=where)


def _unproved(finding: ReplayFinding) -> ReplayFinding:
    """Takes back a violation that rests on answers in fixed places of the output."""
    if finding.outcome != "violation" or finding.kind == "sensitivity":
        return finding
    return evolve(finding, outcome="not certified", message=f"{finding.message}, though not in fixed places")


def _not_covered(finding: ReplayFinding) -> ReplayFinding:
    return evolve(finding, outcome="not covered")
