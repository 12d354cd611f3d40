"""Evidence over many CI runs: sequential audits of a test suite whose wealth is stored in a file between runs.

A test that runs a thousand times at level 0.001 will give false alarms. Here the wealth of a key (target, claim, test
design) continues from run to run, so all runs together are one sequential audit, as long as each tested version
satisfies the claim. There are two separate statements.

*False alarms.* The k-th registered key has the level alpha 6 / (pi^2 k^2); these levels add up to at most alpha. Under
the claim a key's wealth is a non-negative supermartingale over all runs, and ever reaches 1/alpha_k with probability at
most alpha_k (Ville 1939). So the probability that *any* key *ever* alarms although its claim is true in all its runs is
at most alpha, over infinitely many runs and for any dependence between keys. A key that alarmed remains so until it is
registered again (:meth:`EvidenceLedger.restart`), at a smaller level.

*Change points.* Wealth that was lost while the claim held has to be regained before a later violation shows. So the
ledger also has the detector D_n = (D_(n-1) + 1) e_n, where e_n is the factor of the wealth in the n-th run: an
e-detector of Shiryaev-Roberts type (Shin, Ramdas, Rinaldo 2024, Definition 2.2). D_n - n is a supermartingale under the
claim, so the mean number of runs to the first detection is at least the threshold. This controls *the average run
length*: over infinitely many runs, a false detection is certain. A detection calls for an investigation; it is never a
refutation.

Both statements require that the seeds of runs are fresh, so that the outputs of different runs are independent; a seed
that was counted already is refused. And every run that was started must be finished, or it is listed as ``pending``: to
drop runs because of their results would bias the rest. A run may be started again with the seed of a pending run, since
it draws the same outputs.

The file is a SQLite database (:mod:`hockeystick.accounting.files.sqlite_file`), in which every registration and every
result is one transaction that is on disk when it returns. Runs of one key may overlap: their factors are multiplied,
each being fair given the file at the start of the run.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from attrs import evolve, field, frozen
from scipy import special

from hockeystick.accounting import HockeystickError, InvalidArgumentError
from hockeystick.accounting.budgets.stores.rows import LedgerError, LedgerTimeoutError
from hockeystick.accounting.budgets.stores.text_file import IMPORT, moved_once
from hockeystick.accounting.files.reading import LARGEST_JSON, UnreadableFileError, json_value, read_text
from hockeystick.accounting.files.records import TABLES, RecordFile, Records
from hockeystick.accounting.files.sqlite_file import Kind
from hockeystick.accounting.validate import integer, real
from hockeystick.audits.drawing.draws import Progress
from hockeystick.audits.sequential.audit import Carried, Run
from hockeystick.audits.sequential.betting import STAKES
from hockeystick.audits.sequential.events import FixedEvents
from hockeystick.audits.sequential.verdict import SequentialVerdict
from hockeystick.audits.verdicts import fields

SCHEMA_VERSION = 2  # 1 was a JSON document
_EARLIER = "hockeystick evidence"  # kind of that document
_HEAD = "head"  # the record with alpha; the others are keys, by number
_DESIGN = "bets 1"  # changes whenever the accounts of one version have another meaning in the next


KIND = Kind(
    noun="evidence ledger",
    application=0x686B7365,  # "hkse"
    schema=SCHEMA_VERSION,
    tables=TABLES,
    error=LedgerError,
    timeout=LedgerTimeoutError,
    done="stored",
    then="it was left unchanged",
    earlier=(b'{"kind": "hockeystick evidence"',),
    remedy=IMPORT,
)


class RepeatedSeedError(HockeystickError):
    """The seed of a run was counted already, so that its outputs would not be new evidence.

    See :class:`EvidenceLedger`.
    """


@frozen
class Evidence:
    """The evidence about one key. See :class:`EvidenceLedger` for an example.

    Attributes:
      name, claim, design: the key. The claim is a tuple of points, the stated one first.
      number: k, the key's number in order of registration.
      alpha: the key's level.
      log_wealth, log_wealth_best: log-wealth after the last run, and the largest so far.
      alarmed_in: number of the run in which the wealth reached 1/alpha, from 1; None if it never did.
      log_detector: log of D.
      detections: the runs in which D reached the average run length, and started again.
      runs, samples: numbers of runs, and of outputs of each data set, so far.
      seeds: seeds of the counted runs.
      pending: seeds of runs that were started and not finished.
      closed: whether the key was registered again.
      money, counts, trials: as in :class:`hockeystick.audits.sequential.audit.Carried`, flattened.
    """

    name: str
    claim: tuple[tuple[float, float], ...]
    design: str
    number: int
    alpha: float
    log_wealth: float = 0.0
    log_wealth_best: float = 0.0
    alarmed_in: int | None = None
    log_detector: float | None = None
    detections: tuple[int, ...] = ()
    runs: int = 0
    samples: int = 0
    seeds: tuple[int, ...] = field(default=(), repr=False)
    pending: tuple[int, ...] = field(default=(), repr=False)
    closed: bool = False
    money: tuple[float | None, ...] = field(default=(), repr=False)
    counts: tuple[tuple[int, int], ...] = field(default=(), repr=False)
    trials: int = 0

    @property
    def key(self) -> tuple[object, ...]:
        """The name, the claim's points and the design, to which the wealth belongs."""
        return self.name, self.claim, self.design

    @property
    def alarmed(self) -> bool:
        """Whether the claim is refuted at level ``alpha``."""
        return self.alarmed_in is not None


def e_bh(evidence: tuple[Evidence, ...], level: float) -> tuple[Evidence, ...]:
    """Returns the keys whose claims are rejected with a false discovery rate of at most ``level``.

    This is the e-BH procedure (Wang, Ramdas 2022, Theorem 5.1) on the wealth after the last runs. It is valid for any
    dependence between keys, at one time, which may depend on the results, but not at all times together.

    Args:
      evidence: all keys of a ledger.
      level: the false discovery rate, in (0, 1).

    Raises:
      InvalidArgumentError: ``level`` is not in (0, 1).

    Example:
      >>> from hockeystick.audits import Evidence, e_bh
      >>> keys = [Evidence(name, ((1.0, 0.0),), "", 1, 1e-6, log_wealth=own) for name, own in (("a", 9.0), ("b", 2.0))]
      >>> [key.name for key in e_bh(tuple(keys), level=0.01)]  # needs a wealth of 200
      ['a']
    """
    level = real("level", level, low=0.0, high=1.0, low_open=True, high_open=True)
    ranked = sorted(evidence, key=lambda own: -own.log_wealth)
    needed = [math.log(len(ranked) / (level * (i + 1))) for i in range(len(ranked))]
    enough = [i + 1 for i, own in enumerate(ranked) if own.log_wealth >= needed[i]]
    return tuple(ranked[: max(enough, default=0)])


class EvidenceLedger:
    """A file with the wealth against the claims of a test suite, which several runs and processes may share.

    Example:
      >>> import tempfile
      >>> from hockeystick.audits import Claim, EvidenceLedger
      >>> def half_noise(value, rng, runs):
      ...     return value + rng.laplace(scale=0.5, size=runs)
      >>> def large(outputs):
      ...     return outputs > 0.5
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     ledger = EvidenceLedger(f"{folder}/evidence.db", alpha=1e-6)
      ...     for seed in range(3):
      ...         ledger.audit(
      ...             "sum", half_noise, claim=Claim(1.0), neighbours=(0, 1), samples=240, rng=seed, events=large
      ...         ).outcome
      'inconclusive'
      'inconclusive'
      'refuted'
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        alpha: float = 1e-6,
        average_run_length: float = 1e6,
        timeout: float = 30.0,
    ) -> None:
        """Opens the ledger at ``path``; a new file is written at the first registration.

        Args:
          path: path of the file.
          alpha: false-alarm probability for all keys and all times together, in (0, 0.5). An existing file must have
            the same.
          average_run_length: a lower bound, at least 1, on the mean number of runs of a key until a false detection.
          timeout: seconds to wait for other processes, at least 0.

        Raises:
          LedgerError: the file is damaged, not a ledger, of another version, or has another alpha.
          InvalidArgumentError: an argument is outside its domain.
        """
        self._file = RecordFile(_path("path", path), KIND, timeout=real("timeout", timeout, low=0.0))
        self.alpha = real("alpha", alpha, low=0.0, high=0.5, low_open=True, high_open=True)
        self.average_run_length = real("average_run_length", average_run_length, low=1.0)
        self.evidence()

    @classmethod
    def import_text(
        cls, old: str | os.PathLike[str], path: str | os.PathLike[str], *, timeout: float = 30.0
    ) -> EvidenceLedger:
        """Moves a ledger of an earlier version, a JSON document, to a new file, once: the old file gets another name.

        Args:
          old: the old file; it becomes ``OLD.imported``.
          path: the new file.
          timeout: seconds to wait for other processes, at least 0.

        Raises:
          LedgerError: the old file is damaged or still in use, or the new one exists; nothing was moved.
        """
        source, place = _path("old", old), _path("path", path)
        if place.exists():
            raise LedgerError(f"{place} exists: choose another name")
        with moved_once(source, timeout=timeout):
            alpha, entries = _document(source)
            made = cls(place, alpha=alpha, timeout=timeout)
            made._file.ensure(_records(alpha, entries))
        return made

    def evidence(self) -> tuple[Evidence, ...]:
        """Returns all keys in order of registration, including those of other processes. It needs no right to write."""
        path = self._file.path
        if not path.exists() or (path.is_file() and not path.stat().st_size):  # which somebody is about to fill
            return ()
        return self._entries(self._file.read())

    def audit(
        self,
        name: str,
        target: object,
        *,
        claim: object = None,
        neighbours: tuple[Any, Any] | None = None,
        samples: int = 10_000,
        rng: int | np.random.Generator | None = None,
        events: object = None,
        exceptions_as_output: bool = False,
        grid: float | None = None,
        timeout: float | None = None,
        progress: Progress | None = None,
    ) -> SequentialVerdict:
        """Bets the key's wealth on the outputs of one more run, and stores the result.

        Args:
          name: a name for the target and the data sets; together with the claim and the events' names it is the key.
          samples: largest number of outputs from each data set in this run.
          rng: a seed that was not used for this key; default: a fresh one.
          target, claim, neighbours, events, exceptions_as_output, grid, timeout, progress: as in
            :func:`.sequential_audit`. Learned events are learned again in each run, so give events if the evidence
            comes from many runs.

        Returns:
          the verdict: "refuted" if the key alarmed in this run or in an earlier one.

        Raises:
          RepeatedSeedError: the seed was counted already; nothing was drawn.
          LedgerError: the file is damaged or could not be written; it was left unchanged.
          InvalidArgumentError, TargetError: as in ``sequential_audit``. A run that was started remains pending.
        """
        if not isinstance(name, str) or not name:
            raise InvalidArgumentError("name", name, "is not a name", "give a non-empty string")
        run = Run.of(
            target,
            claim=claim,
            neighbours=neighbours,
            alpha=self.alpha,
            most_samples=integer("samples", samples, low=20),
            rng=rng,
            events=events,
            exceptions_as_output=exceptions_as_output,
            grid=grid,
            timeout=timeout,
        )
        described = ", ".join(run.given.names) if run.given else "learned" if events is None else str(events)
        design = f"{_DESIGN}; events: {described}; grid: {grid}"
        found = self._begin((name, run.claim.points, design), run.seed)
        run.alpha = found.alpha
        verdict = run.play(_carried(found), progress)
        self._finish(found, run, verdict)
        return verdict

    def restart(self, name: str) -> None:
        """Closes the open keys of a name; the next audit registers each again, with wealth 1 and a smaller alpha.

        Raises:
          InvalidArgumentError: the name has no open key.
        """

        def work(records: Records) -> Records:
            entries = self._entries(records)
            if not any(own.name == name and not own.closed for own in entries):
                raise InvalidArgumentError("name", name, "has no open key in this ledger")
            return _records(self.alpha, tuple(evolve(own, closed=own.closed or own.name == name) for own in entries))

        self._file.change(work)

    def _begin(self, key: tuple[str, tuple[tuple[float, float], ...], str], seed: int) -> Evidence:
        begun: list[Evidence] = []

        def work(records: Records) -> Records:
            entries = list(self._entries(records))
            if any(seed in own.seeds for own in entries if own.key == key):
                raise RepeatedSeedError(f"seed {seed} was counted already for {key[0]!r}: give a fresh seed, or none")
            at = next((i for i, own in enumerate(entries) if own.key == key and not own.closed), len(entries))
            if at == len(entries):
                number = len(entries) + 1
                entries.append(Evidence(*key, number, self.alpha * 6 / (math.pi * number) ** 2))
            own = entries[at]
            pending = own.pending if seed in own.pending else (*own.pending, seed)
            entries[at] = evolve(own, pending=pending)
            begun[:] = [entries[at]]
            return _records(self.alpha, tuple(entries))

        self._file.ensure(_records(self.alpha, ()))
        self._file.change(work)
        return begun[0]

    def _finish(self, before: Evidence, run: Run, verdict: SequentialVerdict) -> None:
        game, events = run.game, run.events
        assert game.log_money is not None
        played, gain = game.log_money[0].ravel(), verdict.log_wealth_end - before.log_wealth

        def work(records: Records) -> Records:
            entries = list(self._entries(records))
            if len(entries) < before.number or entries[before.number - 1].key != before.key:
                raise LedgerError(f"{self._file.path}: the ledger was replaced by another one during the run")
            own = entries[before.number - 1]
            if any(run.seed in other.seeds for other in entries if other.key == own.key):
                raise RepeatedSeedError(f"seed {run.seed} was counted by another process in the meantime")
            behind = own.log_wealth - before.log_wealth  # gain of other runs in the meantime
            wealth, number = own.log_wealth + gain, own.runs + 1
            best = max(own.log_wealth_best, wealth, verdict.log_wealth + behind)
            alarm = own.alarmed_in or (number if best >= game.needed[0] else None)
            start = -math.inf if own.log_detector is None else own.log_detector
            detector: float | None = float(np.logaddexp(start, 0.0)) + gain
            detected = detector is not None and detector >= math.log(self.average_run_length)
            fixed = isinstance(events, FixedEvents)
            entries[before.number - 1] = evolve(
                own,
                log_wealth=wealth,
                log_wealth_best=best,
                alarmed_in=alarm,
                log_detector=None if detected else detector,
                detections=(*own.detections, number) if detected else own.detections,
                runs=number,
                samples=own.samples + verdict.samples,
                seeds=(*own.seeds, run.seed),
                pending=tuple(seed for seed in own.pending if seed != run.seed),
                money=tuple(None if math.isinf(m) else m for m in (played + behind).tolist()),
                counts=tuple(map(tuple, events.counts.tolist())) if fixed and events is not None else (),
                trials=events.trials if fixed and events is not None else 0,
            )
            return _records(self.alpha, tuple(entries))

        self._file.change(work)

    def _entries(self, records: Records) -> tuple[Evidence, ...]:
        """Returns the keys in records whose digests were checked."""
        where = self._file.path
        try:
            alpha = _parsed(records[_HEAD])["alpha"]
            entries = tuple(_entry(_parsed(records[name])) for name in sorted(records) if name != _HEAD)
            if [own.number for own in entries] != list(range(1, len(entries) + 1)):
                raise ValueError("its keys are not numbered from 1 on")
        except (LookupError, TypeError, ValueError) as error:
            raise LedgerError(f"{where} is damaged ({error}); it was left unchanged") from None
        if alpha != self.alpha:
            raise LedgerError(f"{where} has alpha {alpha!r}, not {self.alpha!r}")
        return entries


def _path(argument: str, path: str | os.PathLike[str]) -> Path:
    try:
        return Path(path).resolve()  # one path, whichever way it is named
    except (OSError, RuntimeError, TypeError, ValueError) as error:
        raise InvalidArgumentError(argument, path, f"is not the name of a file ({error})", "give a path") from None


def _records(alpha: float, entries: tuple[Evidence, ...]) -> Records:
    found = {_HEAD: json.dumps({"alpha": alpha}).encode()}
    return found | {f"key {own.number:09}": json.dumps(attrs.asdict(own)).encode() for own in entries}


def _parsed(content: bytes) -> dict[str, Any]:
    plain = json_value(content.decode(), constants=True)
    if not isinstance(plain, dict):
        raise TypeError("not an object")
    return plain


def _document(source: Path) -> tuple[float, tuple[Evidence, ...]]:
    """Returns alpha and the keys of a ledger of the first version."""
    try:
        plain = json_value(read_text(source, most=LARGEST_JSON), constants=True)
        if plain["kind"] != _EARLIER or plain["schema"] != 1:
            raise LedgerError(f"{source} is not an evidence ledger of an earlier version")
        body = plain["body"]
        text = json.dumps(body, sort_keys=True)
        if plain["digest"] != hashlib.sha256(text.encode()).hexdigest():
            raise ValueError("wrong digest")
        alpha = real("alpha", body["alpha"], low=0.0, high=0.5, low_open=True, high_open=True)
        return alpha, tuple(map(_entry, body["evidence"]))
    except UnreadableFileError as error:
        raise LedgerError(f"{source}: {error}") from None
    except (ValueError, LookupError, TypeError) as error:
        raise LedgerError(f"{source} is damaged ({error}); it was left unchanged") from None


def _optional(check: fields.Check) -> fields.Check:
    return lambda name, value: None if value is None else check(name, value)


def _each(check: fields.Check) -> fields.Check:
    return lambda name, value: tuple(check(name, one) for one in fields.rows(name, value))


def _pair(name: str, value: object) -> tuple[Any, ...]:
    pair = fields.rows(name, value)
    if len(pair) != 2:
        raise InvalidArgumentError(name, len(pair), "is not a pair")
    return tuple(real(name, number, low=0.0, allow_inf=True) for number in pair)


def _counts(name: str, value: object) -> tuple[int, ...]:
    pair = fields.rows(name, value)
    if len(pair) != 2:
        raise InvalidArgumentError(name, len(pair), "is not a pair")
    return tuple(fields.count(name, number) for number in pair)


_CHECKS: dict[str, fields.Check] = {
    "name": fields.words,
    "claim": _each(_pair),
    "design": fields.words,
    "number": fields.count,
    "alpha": fields.level,
    "log_wealth": fields.finite,
    "log_wealth_best": fields.finite,
    "alarmed_in": _optional(fields.count),
    "log_detector": _optional(fields.finite),
    "detections": _each(fields.count),
    "runs": fields.count,
    "samples": fields.count,
    "seeds": _each(fields.seed),
    "pending": _each(fields.seed),
    "closed": fields.truth,
    "money": _each(_optional(fields.finite)),
    "counts": _each(_counts),
    "trials": fields.count,
}


def _entry(plain: Any) -> Evidence:
    """Returns a key from a file.

    Raises:
      InvalidArgumentError: a field is missing, unknown, of another type or out of its domain.
    """
    if not isinstance(plain, dict):
        raise TypeError("a key is not an object")
    found = Evidence(**fields.read_fields("evidence", plain, _CHECKS))
    if len(found.money) % len(STAKES):
        raise InvalidArgumentError("money", len(found.money), f"is not a multiple of {len(STAKES)}")
    return found


def _carried(own: Evidence) -> Carried:
    if not own.runs:
        return Carried()
    money = np.array([-np.inf if m is None else m for m in own.money]).reshape(-1, len(STAKES))
    total = float(special.logsumexp(money))
    money = money + (own.log_wealth - total)  # the allowance for rounding is taken off the money too
    counts = np.array(own.counts, dtype=np.int64).reshape(-1, 2) if own.counts else None
    return Carried(money, own.runs, counts, own.trials)
