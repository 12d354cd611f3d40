"""Audits of many cases at one joint confidence level, in this process or on workers, one case per task."""

from __future__ import annotations

import math
import pickle
import time
import zlib
from collections.abc import Callable, Generator, Iterable
from typing import Any

import attrs
import numpy as np
from attrs import frozen

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.validate import integer, real
from hockeystick.audits.catalogue.parts.cases import Case
from hockeystick.audits.drawing.draws import MINIMUM_SAMPLES
from hockeystick.audits.drawing.workers import Lost, WorkerError, Workers, packed
from hockeystick.audits.targets.calling import TargetError, ends_refused
from hockeystick.audits.verdicts.verdict import Verdict

_PILOTS = (500, 4_000)  # numbers of samples whose durations give the time per sample

Progress = Callable[[str, float], object]


@frozen(kw_only=True)
class CaseResult:
    """The verdict on one case, with the expected one.

    Attributes:
      name: The case's name.
      broken: Whether its claim is known to be false.
      stated_samples: The number of samples that refutes a broken case with probability 0.9; see ``parts.cases.Case``.
      truth: The exact epsilon at the claim's delta on the case's data sets; None if it is not known.
      verdict: The audit's verdict.
      seconds: Wall time of the audit, including the construction of the subject.
    """

    name: str
    broken: bool
    stated_samples: int
    truth: float | None
    verdict: Verdict
    seconds: float

    @property
    def as_expected(self) -> bool | None:
        """Whether a correct case was not refuted, or a broken one was.

        None for a broken case that was not refuted with fewer samples than stated.
        """
        if self.verdict.refuted == self.broken:
            return True
        return None if self.broken and self.verdict.samples < self.stated_samples else False

    def to_dict(self) -> dict[str, Any]:
        """Returns plain values that JSON can hold; an infinite truth is the string "inf"."""
        plain = attrs.asdict(self, filter=lambda attribute, _: attribute.name != "verdict")
        plain["truth"] = "inf" if self.truth == math.inf else self.truth
        return {**plain, "as_expected": self.as_expected, "verdict": self.verdict.to_dict()}

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> CaseResult:
        """Returns the result of :meth:`to_dict`.

        Raises:
          InvalidArgumentError: Fields that are missing or unknown, or a verdict that can't be read.
        """
        try:
            values = {name: value for name, value in plain.items() if name != "as_expected"}
            values["verdict"] = Verdict.from_dict(values["verdict"])
            values["truth"] = math.inf if values["truth"] == "inf" else values["truth"]
            return cls(**values)
        except (AttributeError, KeyError, TypeError) as error:
            raise InvalidArgumentError("result", plain, f"can't be read ({error})") from None


def run_catalogue(
    cases: Iterable[Case],
    *,
    samples: int | None = None,
    seconds: float | None = None,
    confidence: float = 0.999,
    rng: int | None = None,
    skip: Iterable[str] = (),
    workers: int = 1,
    backend: str | None = None,
    address: str | None = None,
    progress: Progress | None = None,
) -> Generator[CaseResult, None, None]:
    """Audits cases, one after another or on several workers, and yields each result when it is ready.

    Each of k cases is audited at the confidence level 1 - (1 - confidence)/k. By the union bound (Bonferroni) the
    probability that any correct case is refuted is at most 1 - confidence, for any dependence of the audits.

    Args:
      cases: The cases, with different names.
      samples: Outputs from each data set for every case; by default the number that each case states.
      seconds: The approximate time for each case; the number of samples is reduced if a pilot run suggests that they
        would take longer. Pilot runs have their own seeds, so their outputs are not part of the audit.
      confidence: The joint confidence level of all cases, in (0.5, 1).
      rng: A seed; by default a fresh one. A case's own seed depends only on it and on the case's name, so the same
        case gives the same outputs whatever the selection.
      skip: Names of cases that were audited before; they count in k, and are not audited.
      workers: Number of processes, each of which audits one case at a time; -1 for all cores. It changes the order of
        the results but not the results, except with ``seconds``.
      backend: A joblib backend, such as "dask"; by default processes on this machine, if there are several workers.
      address: The address of a Dask scheduler.
      progress: Called as ``progress(name, share)`` while a case is audited; with workers, when it is done.

    Raises:
      InvalidArgumentError: An argument is outside its domain, there are no cases, or two share a name. Nothing was
        drawn.
      TargetError: Targets raised an error, or would have ended the program, which is a defect of their cases. These
        have no result; all other results were yielded before.
      MissingExtraError: Several workers without joblib, or "dask" without Dask.
      WorkerError: Workers died repeatedly on some cases, which have no result; all other results were yielded before.

    Example:
        >>> from hockeystick.audits.catalogue.every_case import select
        >>> for result in run_catalogue(select("mechanism/laplace", "mechanism/laplace[[]half*"), samples=2_000, rng=1):
        ...     print(result.name, result.verdict.outcome)
        mechanism/laplace consistent
        mechanism/laplace[half the scale] refuted
    """
    chosen = tuple(cases)
    names = [case.name for case in chosen]
    if not chosen or len(set(names)) < len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        reason = "occur more than once" if twice else "hold no case"
        raise InvalidArgumentError("cases", twice or names, reason, "give cases with different names")
    confidence = real("confidence", confidence, low=0.5, high=1.0, low_open=True, high_open=True)
    wanted = None if samples is None else integer("samples", samples, low=MINIMUM_SAMPLES)
    limit = None if seconds is None else real("seconds", seconds, low=0.0, low_open=True)
    seed = int(np.random.SeedSequence().generate_state(1)[0]) if rng is None else integer("rng", rng, low=0)
    auditor = _Auditor(samples=wanted, seconds=limit, confidence=1 - (1 - confidence) / len(chosen), seed=seed)
    done = frozenset(skip)
    left = tuple(case for case in chosen if case.name not in done)
    pool = Workers(workers, backend, address)
    return _here(left, auditor, progress) if pool.here else _spread(left, auditor, pool, progress)


def _here(cases: tuple[Case, ...], auditor: _Auditor, progress: Progress | None) -> Generator[CaseResult, None, None]:
    failed: dict[str, str] = {}
    for case in cases:
        found = auditor.audited(case, progress)
        if isinstance(found, TargetError):
            failed[case.name] = str(found)
        else:
            yield found
    _refuse(failed, {})


def _spread(
    cases: tuple[Case, ...], auditor: _Auditor, pool: Workers, progress: Progress | None
) -> Generator[CaseResult, None, None]:
    tasks = [packed(attrs.evolve(case)) for case in cases]  # a copy does not hold the subject
    failed: dict[str, str] = {}
    lost: dict[str, str] = {}
    with pool.hired() as processes:
        for number, found in processes.survivors(auditor, tasks):
            name = cases[number].name
            if isinstance(found, Lost):
                lost[name] = found.reason
                continue
            if progress is not None:
                progress(name, 1.0)
            if isinstance(found, TargetError):
                failed[name] = str(found)
            else:
                yield found
    _refuse(failed, lost)


def _refuse(failed: dict[str, str], lost: dict[str, str]) -> None:
    """Raises the error for cases without a result, by name: those whose target failed, those that killed workers."""
    told = "; ".join(f"{name}: {failed[name]}" for name in sorted(failed))
    if lost:
        raise WorkerError(
            f"workers died repeatedly on {', '.join(sorted(lost))} ({next(iter(lost.values()))}): "
            f"there may be too little memory; audit these cases without workers{'; ' * bool(told)}{told}"
        )
    if failed:
        raise TargetError(f"no verdict on {len(failed)} of the cases: {told}")


@frozen(kw_only=True)
class _Auditor:
    """Audits a case, in this process or on a worker.

    Attributes:
      samples, seconds: See :func:`run_catalogue`.
      confidence: The confidence level of each case.
      seed: The seed from which all cases' seeds are derived.
    """

    samples: int | None
    seconds: float | None
    confidence: float
    seed: int

    def __call__(self, task: bytes) -> CaseResult | TargetError:
        found = self.audited(pickle.loads(task), None)  # from run_catalogue in the parent process
        return TargetError(str(found)) if isinstance(found, TargetError) else found  # its cause may not be portable

    def audited(self, case: Case, progress: Progress | None) -> CaseResult | TargetError:
        """Returns the result, or the error of a target that failed: the other cases do not depend on it."""
        try:
            with ends_refused():  # also while the subject is built
                return self._audited(case, progress)
        except TargetError as error:
            return error

    def _audited(self, case: Case, progress: Progress | None) -> CaseResult:
        started = time.perf_counter()
        if progress is not None:
            progress(case.name, 0.0)
        own = case_seed(self.seed, case.name)
        size = case.samples if self.samples is None else self.samples
        if self.seconds is not None:
            size = _affordable(case, size, self.seconds, own + 1)
        verdict = _audited(case, size, own, self.confidence, progress)
        return CaseResult(
            name=case.name,
            broken=case.broken,
            stated_samples=case.samples,
            truth=case.truth,
            verdict=verdict,
            seconds=time.perf_counter() - started,
        )


def case_seed(seed: int, name: str) -> int:
    """Returns the seed of one case, below 2^62 and even."""
    sequence = np.random.SeedSequence(seed, spawn_key=(zlib.crc32(name.encode()),))
    return int(sequence.generate_state(1, np.uint64)[0] >> np.uint64(2)) & ~1


def _audited(case: Case, samples: int, seed: int, confidence: float, progress: Progress | None) -> Verdict:
    def report(done: int, total: int) -> None:
        if progress is not None:
            progress(case.name, done / total)

    return case.audit(samples=samples, rng=seed, confidence=confidence, progress=report)


def _affordable(case: Case, wanted: int, seconds: float, seed: int) -> int:
    """Returns the number of samples, at most ``wanted``, that an audit draws in about ``seconds``, pilots included."""
    _ = case.subject  # built before the clock starts
    started = time.perf_counter()
    spent: list[float] = []
    for pilot in _PILOTS:
        if pilot >= wanted or (spent and spent[0] * pilot / _PILOTS[0] > seconds / 2):
            break
        before = time.perf_counter()
        _audited(case, pilot, seed, 0.999, None)
        spent.append(time.perf_counter() - before)
    if not spent:
        return wanted
    left = seconds - (time.perf_counter() - started)
    if len(spent) < 2:  # one pilot: all of its time may grow with the samples
        return int(min(wanted, max(MINIMUM_SAMPLES, _PILOTS[0] * left / spent[0])))
    each = max(spent[1] - spent[0], 1e-9) / (_PILOTS[1] - _PILOTS[0])
    return int(min(wanted, max(MINIMUM_SAMPLES, _PILOTS[0] + (left - spent[0]) / each)))
