"""Auditing many cases with one false-alarm budget, here or spread over workers, one case a task."""

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
from hockeystick.audits.verdicts.verdict import Verdict

_PILOTS = (500, 4_000)  # samples whose two durations tell what one more costs

Progress = Callable[[str, float], object]


@frozen(kw_only=True)
class CaseResult:
    """What an audit said of one case, beside what it had to say.

    Attributes:
      name: of the case.
      broken: whether its claim is known to be false.
      stated_samples: with which a broken case is refuted with probability 0.9; see ``parts.cases.Case``.
      truth: the exact epsilon at the claim's delta on the case's data sets; None if it is not known.
      verdict: of the audit.
      seconds: wall time of the audit, and of what had to be built for it.
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

        None for a broken case that was not refuted with fewer samples than stated: nothing was to be expected.
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
          InvalidArgumentError: fields that are missing or unknown, or a verdict that can't be read.
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
    """Audits cases, one after another or on several workers, and yields each result as it comes.

    Of k cases each is audited at the confidence 1 - (1 - confidence)/k: by the union bound the probability that any
    correct one is refuted is at most 1 - confidence (Bonferroni). No independence of the audits is needed.

    Args:
      cases: with different names.
      samples: outputs from each data set for every case; by default what each case states.
      seconds: for each case, about: fewer samples are drawn where a measured first piece says that more would not fit.
        The pieces measured are drawn from a seed of their own, so how many samples there are does not depend on them.
      confidence: of all cases together, in (0.5, 1).
      rng: a seed; by default a fresh one. A case's own seed depends on it and on the case's name alone, so the same
        case gives the same outputs whatever else is selected.
      skip: names of cases that were audited before: they count in k, and are left out.
      workers: processes that audit, each one case at a time; -1 for all cores. Results do not depend on them (but for
        ``seconds``, where cases that are audited at the same time take longer), only the order in which they come.
      backend: a joblib backend, such as "dask"; by default processes on this machine, if there are several workers.
      address: of a Dask scheduler.
      progress: called as ``progress(name, share)`` while a case is audited; on workers when it is done.

    Raises:
      InvalidArgumentError: an argument is out of its domain, no cases, or two of one name; nothing was drawn.
      TargetError: a target raised; a defect of the case.
      MissingExtraError: several workers without joblib, or "dask" without Dask.
      WorkerError: workers died again and again on some cases, which have no result; all others had theirs before.
    """
    chosen = tuple(cases)
    names = [case.name for case in chosen]
    if not chosen or len(set(names)) < len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise InvalidArgumentError("cases", twice or names, "share names" if twice else "are none", "give other cases")
    confidence = real("confidence", confidence, low=0.5, high=1.0, low_open=True, high_open=True)
    wanted = None if samples is None else integer("samples", samples, low=MINIMUM_SAMPLES)
    limit = None if seconds is None else real("seconds", seconds, low=0.0, low_open=True)
    seed = int(np.random.SeedSequence().generate_state(1)[0]) if rng is None else integer("rng", rng, low=0)
    auditor = _Auditor(samples=wanted, seconds=limit, confidence=1 - (1 - confidence) / len(chosen), seed=seed)
    done = frozenset(skip)
    left = tuple(case for case in chosen if case.name not in done)
    hands = Workers(workers, backend, address)
    return _here(left, auditor, progress) if hands.here else _spread(left, auditor, hands, progress)


def _here(cases: tuple[Case, ...], auditor: _Auditor, progress: Progress | None) -> Generator[CaseResult, None, None]:
    for case in cases:
        yield auditor.audited(case, progress)


def _spread(
    cases: tuple[Case, ...], auditor: _Auditor, hands: Workers, progress: Progress | None
) -> Generator[CaseResult, None, None]:
    tasks = [packed(attrs.evolve(case)) for case in cases]  # without the subject, if it has been built here
    lost: dict[str, str] = {}
    with hands.hired() as crew:
        for number, found in crew.survivors(auditor, tasks):
            if isinstance(found, Lost):
                lost[cases[number].name] = found.reason
                continue
            if progress is not None:
                progress(found.name, 1.0)
            yield found
    if lost:
        raise WorkerError(
            f"workers died again and again on {', '.join(sorted(lost))} ({next(iter(lost.values()))}): "
            "memory may be short; audit them by themselves"
        )


@frozen(kw_only=True)
class _Auditor:
    """Audits a case, here or on a worker.

    Attributes:
      samples, seconds: as for :func:`run_catalogue`.
      confidence: of each case.
      seed: of all cases.
    """

    samples: int | None
    seconds: float | None
    confidence: float
    seed: int

    def __call__(self, task: bytes) -> CaseResult:
        return self.audited(pickle.loads(task), None)  # our own, from the process that hired this one

    def audited(self, case: Case, progress: Progress | None) -> CaseResult:
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
    """Returns how many samples, at most ``wanted``, an audit draws in about that time, the measuring included."""
    _ = case.subject  # building it is not what is measured
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
    if len(spent) < 2:  # no more is known than that all of it may grow with the samples
        return int(min(wanted, max(MINIMUM_SAMPLES, _PILOTS[0] * left / spent[0])))
    each = max(spent[1] - spent[0], 1e-9) / (_PILOTS[1] - _PILOTS[0])
    return int(min(wanted, max(MINIMUM_SAMPLES, _PILOTS[0] + (left - spent[0]) / each)))
