"""The result of a replay: what was found, the distances that were met, and the price of the dearest path."""

from __future__ import annotations

import json
import math
from typing import Any, Literal

from attrs import evolve, field, frozen

from hockeystick.accounting import AccountantGraph, Guarantee, InvalidArgumentError
from hockeystick.audits.verdicts import fields
from hockeystick.audits.verdicts.common import versions

ReplayOutcome = Literal["violation", "not covered", "not certified", "agrees"]
OUTCOMES: tuple[ReplayOutcome, ...] = ("violation", "not covered", "not certified", "agrees")
SCHEMA_VERSION = 1
_MEANING = {
    "violation": "this is proved for this pair",
    "not covered": "the replay can't follow what the algorithm does, and says nothing",
    "not certified": "the recorded calls do not show the claim to hold, nor that it fails",
    "agrees": "nothing was found on this pair and these paths; that does not certify the claim",
}


@frozen
class ReplayFinding:
    """One difference between the two runs, or one cost above the claim. See :class:`ReplayVerdict`.

    Attributes:
      outcome: what it amounts to: "violation", "not covered" or "not certified".
      kind: its kind, such as "sensitivity", "unpaid release", "control flow" or "price".
      message: in words; it names places and distances, never data.
      where: file and line in the algorithm.
      call: number of the call in its run, from 1; 0 if it is about no single call.
      order: the recorded data set and the one that it was replayed on.
      path: number of the path, from 1.
    """

    outcome: ReplayOutcome
    kind: str
    message: str
    where: str
    call: int
    order: str
    path: int

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        return f"{place}{self.kind}: {self.message}"


@frozen
class MechanismMet:
    """A mechanism that the algorithm calls at one line, with the largest distance of its inputs on all paths.

    See :class:`ReplayVerdict`.

    Attributes:
      name: of the mechanism.
      where: file and line of the call.
      norm: the norm of the distance.
      largest: the largest distance met.
      stated: the sensitivity that the mechanism states; None if it states none.
      calls: the number of calls on all paths.
    """

    name: str
    where: str
    norm: str
    largest: float
    stated: float | None
    calls: int

    @property
    def place(self) -> str:
        """The mechanism's name, and its line if the algorithm has one."""
        return f"{self.name} at {self.where}" if self.where else self.name

    def __str__(self) -> str:
        against = "no sensitivity is stated" if self.stated is None else f"of {self.stated:.6g} stated"
        return f"{self.place}: largest distance {self.largest:.6g} ({self.norm}), {against}"


@frozen
class ReplayVerdict:
    """The verdict of a replay, on one pair of data sets and some paths of recorded answers.

    A *violation* is a proof for this pair: of what the finding says. "distance above stated sensitivity" convicts that
    statement; the other kinds convict the claim. *Agrees* does not certify the claim: other pairs, other paths, the law
    of the noise itself and side channels were not looked at.

    Attributes:
      outcome: "violation"; or "not covered", where the algorithm draws randomness whose use can't be followed; or "not
        certified", where the calls cost more than is claimed or differ between the runs, without a proof; or "agrees".
      epsilon_claimed, delta: the claim.
      epsilon_path: ε at δ of the dearest path, certified for the distances that were met; inf without a finite price.
      delta_path: δ at the claimed ε of that path.
      findings: what was found, the gravest first; of equal ones, the first.
      mechanisms: the mechanisms that were called.
      paths: number of paths in each order.
      calls: the largest number of calls on a path.
      seed: of the paths.
      seconds: processor time.
      graph: the calls of the dearest path as a graph whose guarantee has ``epsilon_path``; None without a price.
      warnings: what limits the statement.
      versions: of the packages.

    Example:
      >>> import hockeystick as hs
      >>> def count(records, rng):
      ...     return len(records) + rng.laplace(scale=1.0)
      >>> found = hs.replay(count, [1, 2, 3], [1, 2], epsilon=1.0, seed=1)
      >>> found.outcome, found.epsilon_path, found.mechanisms[0].largest
      ('agrees', 1.0, 1.0)
    """

    outcome: ReplayOutcome
    epsilon_claimed: float
    delta: float
    epsilon_path: float
    delta_path: float
    findings: tuple[ReplayFinding, ...]
    mechanisms: tuple[MechanismMet, ...]
    paths: int
    calls: int
    seed: int
    seconds: float
    graph: AccountantGraph | None = None
    warnings: tuple[str, ...] = ()
    versions: dict[str, str] = field(factory=versions)

    @property
    def violated(self) -> bool:
        """Whether a violation was proved."""
        return self.outcome == "violation"

    @property
    def agrees(self) -> bool:
        """Whether nothing was found."""
        return self.outcome == "agrees"

    def guarantee(self) -> Guarantee:
        """Returns the guarantee of ``graph``.

        Raises:
          InvalidArgumentError: the dearest path has no finite price.
        """
        if self.graph is None:
            raise InvalidArgumentError("graph", None, "is missing: a path has no finite price", "see the findings")
        return self.graph.guarantee()

    def summary(self) -> str:
        """Returns a few lines for a terminal or a failure message."""
        lines = [f"replay: {self.outcome}: {_MEANING[self.outcome]}"]
        lines += [f"  {finding}" for finding in self.findings]
        lines += [f"  {met}" for met in self.mechanisms]
        if math.isfinite(self.epsilon_path):
            lines.append(
                f"  price of the dearest path: epsilon {self.epsilon_path:.6g} at delta={self.delta:g}, "
                f"claimed {self.epsilon_claimed:g}"
            )
        elif self.outcome != "not covered":
            lines.append(f"  the dearest path has no finite price; claimed epsilon {self.epsilon_claimed:g}")
        lines.append(f"  one pair, both orders, {self.paths} paths each, at most {self.calls} calls; seed {self.seed}")
        return "\n".join([*lines, *(f"  warning: {text}" for text in self.warnings)])

    def __str__(self) -> str:
        return self.summary()

    def to_dict(self) -> dict[str, Any]:
        """Returns JSON-compatible values; what is infinite is None."""
        return {
            "type": "replay",
            "schema": SCHEMA_VERSION,
            "outcome": self.outcome,
            "epsilon_claimed": self.epsilon_claimed,
            "delta": self.delta,
            "epsilon_path": _or_none(self.epsilon_path),
            "delta_path": self.delta_path,
            "findings": [{name: getattr(one, name) for name in _FINDING} for one in self.findings],
            "mechanisms": [{name: getattr(one, name) for name in _MET} for one in self.mechanisms],
            "paths": self.paths,
            "calls": self.calls,
            "seed": self.seed,
            "seconds": self.seconds,
            "graph": None if self.graph is None else json.loads(self.graph.to_json()),
            "warnings": list(self.warnings),
            "versions": dict(self.versions),
        }

    def to_json(self) -> str:
        """Returns :meth:`to_dict` as JSON text."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False)

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> ReplayVerdict:
        """Returns the verdict from the values of :meth:`to_dict`.

        Raises:
          InvalidArgumentError: a field is missing, unknown, of another type or out of its domain, or the outcome is not
            that of the gravest finding.
        """
        values = fields.read_fields("replay", plain, _CHECKS)
        if values.pop("schema") != SCHEMA_VERSION:
            raise InvalidArgumentError("schema", plain["schema"], f"is not {SCHEMA_VERSION}", "use that version")
        del values["type"]
        found = cls(**values)
        if found.outcome != gravest(found.findings):
            raise InvalidArgumentError("outcome", found.outcome, "is not that of the gravest finding")
        return found

    @classmethod
    def from_json(cls, text: str) -> ReplayVerdict:
        """Returns the verdict from the text of :meth:`to_json`.

        Raises:
          InvalidArgumentError: ``text`` is not JSON, or not such a verdict.
        """
        return cls.from_dict(fields.read_object(text))


def gravest(findings: tuple[ReplayFinding, ...]) -> ReplayOutcome:
    """Returns the outcome that these findings amount to."""
    return min((finding.outcome for finding in findings), key=OUTCOMES.index, default="agrees")


def collected(findings: list[ReplayFinding]) -> tuple[ReplayFinding, ...]:
    """Returns findings with the gravest first, one for each outcome, kind and line."""
    found: dict[tuple[str, str, str], ReplayFinding] = {}
    for finding in findings:
        found.setdefault((finding.outcome, finding.kind, finding.where), finding)
    return tuple(sorted(found.values(), key=lambda one: (OUTCOMES.index(one.outcome), one.kind != "sensitivity")))


def widened(old: MechanismMet | None, new: MechanismMet) -> MechanismMet:
    """Returns what two calls of one mechanism met together."""
    if old is None:
        return new
    stated = new.stated if old.stated is None or (new.stated is not None and new.stated < old.stated) else old.stated
    return evolve(new, largest=max(old.largest, new.largest), stated=stated, calls=old.calls + new.calls)


# --- JSON ------------------------------------------------------------------------------------------------------------


def _or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _type(name: str, value: object) -> str:
    return str(fields.one_of("replay")(name, value))


def _number_or_none(name: str, value: object) -> float | None:
    return None if value is None else fields.epsilon(name, value)


def _distance(name: str, value: object) -> float:
    return fields.epsilon(name, value)


def _graph(name: str, value: object) -> AccountantGraph | None:
    return None if value is None else AccountantGraph.from_json(json.dumps(value))


_OUTCOME = fields.one_of(*OUTCOMES)
_FINDING: dict[str, fields.Check] = {
    "outcome": fields.one_of(*OUTCOMES[:3]),
    "kind": fields.words,
    "message": fields.words,
    "where": fields.words,
    "call": fields.count,
    "order": fields.one_of("d0->d1", "d1->d0"),
    "path": fields.count,
}
_MET: dict[str, fields.Check] = {
    "name": fields.words,
    "where": fields.words,
    "norm": fields.words,
    "largest": _distance,
    "stated": _number_or_none,
    "calls": fields.count,
}


def _findings(name: str, value: object) -> tuple[ReplayFinding, ...]:
    return tuple(ReplayFinding(**fields.read_fields(name, row, _FINDING)) for row in _objects(name, value))


def _mechanisms(name: str, value: object) -> tuple[MechanismMet, ...]:
    return tuple(MechanismMet(**fields.read_fields(name, row, _MET)) for row in _objects(name, value))


def _objects(name: str, value: object) -> list[dict[str, Any]]:
    found = fields.rows(name, value)
    if not all(isinstance(row, dict) for row in found):
        raise InvalidArgumentError(name, type(value).__name__, "is not a list of objects")
    return found


_CHECKS: dict[str, fields.Check] = {
    "type": _type,
    "schema": fields.count,
    "outcome": _OUTCOME,
    "epsilon_claimed": fields.epsilon,
    "delta": fields.share,
    "epsilon_path": fields.epsilon_or_none,
    "delta_path": fields.share,
    "findings": _findings,
    "mechanisms": _mechanisms,
    "paths": fields.count,
    "calls": fields.count,
    "seed": fields.seed,
    "seconds": fields.duration,
    "graph": _graph,
    "warnings": fields.sentences,
    "versions": fields.versions,
}
