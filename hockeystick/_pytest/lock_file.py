"""The privacy lock file: each algorithm's certified budget when it was last approved.

The file should be committed. A pull request that changes a budget has to change this file, or its tests fail; so the
change appears in the diff, and a reviewer sees it. The file is sorted JSON with one value per line:

    budgets   name -> certified ε at each δ, its terms (adjacency, unit, group, threat model, assumptions), the best
              method, the digest of the event graph, and the version that certified it
    audits    test -> its number, which determines its share of the suite's false alarms
              (:mod:`hockeystick._pytest.levels`)

**Tolerance.** ε is written with 12 significant digits, rounded up. With the same event graph, a certified ε exceeds the
locked one if it is larger by more than one part in 10⁹ (``TOLERANCE``): other processors and versions of numpy change
it less. With another graph there is no tolerance. The locked value stays until it is updated, so tolerated differences
can't accumulate.

The digest is the SHA-256 of the canonical JSON of the graph (sorted keys, shortest floats), preceded by its kind and
the version of the form. It does not depend on the process, the machine or the version of Python.
"""

from __future__ import annotations

import hashlib
import json
import math
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from attrs import field, frozen

from hockeystick.accounting.errors import HockeystickError
from hockeystick.accounting.files.reading import LARGEST_JSON, UnreadableFileError, json_value, read_bytes, read_text
from hockeystick.accounting.files.result_files import write_atomically
from hockeystick.accounting.numerics.rounded_text import upper

SCHEMA_VERSION = 1
TOLERANCE = 1e-9
UPDATE = "run pytest --privacy-update, and review the difference"
INFINITE = "an infinite ε can't be locked: give a larger δ"

_FORMAT = "hockeystick privacy lock"
_DIGEST_VERSION = 1
_MOST = 10**9  # the largest number of an audit
_TERMS = ("adjacency", "unit", "group", "threat_model", "assumptions")

Kind = Literal["new", "terms", "rise", "fall", "graph", "same"]


class PrivacyLockError(HockeystickError):
    """The lock file can't be read or written; it is unchanged."""


def round_up(epsilon: float, digits: int = 12) -> float:
    """Returns an upper bound rounded up to at most 15 significant digits.

    A float is represented by its shortest decimal, so 0.2 stays 0.2.
    """
    return float(upper(epsilon, digits))


def digest(kind: str, plain: object) -> str:
    """Returns the digest of a value that JSON can hold, such as ``"graph/1 sha256:..."``."""
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return f"{kind}/{_DIGEST_VERSION} sha256:{hashlib.sha256(text.encode()).hexdigest()}"


@frozen
class Budget:
    """The certified budget of an algorithm.

    Attributes:
      epsilons: (δ, ε, best method), by increasing δ. A test may record an infinite ε, but it can't be locked.
      adjacency: The value of the neighbouring relation.
      unit: The unit of privacy in words.
      group: The number of records that may differ.
      threat_model, assumptions: Those of the guarantee.
      digest: The digest of the event graph; None for events of user-defined classes, which have no canonical form.
      version: The version of hockeystick; for information only.
    """

    epsilons: tuple[tuple[float, float, str], ...]
    adjacency: str
    unit: str
    group: int
    threat_model: str
    assumptions: tuple[str, ...]
    digest: str | None
    version: str = field(eq=False)

    def to_dict(self) -> dict[str, Any]:
        """Returns plain values that JSON can hold; None stands for an infinite ε."""
        return {
            "epsilon": {repr(delta): None if epsilon == math.inf else epsilon for delta, epsilon, _ in self.epsilons},
            "adjacency": self.adjacency,
            "unit": self.unit,
            "group": self.group,
            "threat_model": self.threat_model,
            "assumptions": list(self.assumptions),
            "method": {repr(delta): method for delta, _, method in self.epsilons},
            "digest": self.digest,
            "certified_by": self.version,
        }

    @classmethod
    def from_dict(cls, plain: Any) -> Budget:
        """Returns the budget of :meth:`to_dict`.

        Raises:
          ValueError: A field is missing, unknown, or of the wrong kind.
        """
        keys = ("epsilon", *_TERMS, "method", "digest", "certified_by")
        if not isinstance(plain, dict) or set(plain) != set(keys):
            raise ValueError(f"expected the fields {', '.join(keys)}")
        epsilon, method = plain["epsilon"], plain["method"]
        if not isinstance(epsilon, dict) or not isinstance(method, dict) or set(epsilon) != set(method) or not epsilon:
            raise ValueError("epsilon and method are not tables with the same deltas")
        rows = sorted((_delta(text), _epsilon(value), method[text]) for text, value in epsilon.items())
        if isinstance(plain["group"], bool) or not isinstance(plain["group"], int) or plain["group"] < 1:
            raise ValueError("group is not a positive whole number")
        texts = [plain["adjacency"], plain["unit"], plain["threat_model"], plain["certified_by"]]
        texts += [*method.values(), plain["digest"] or "", *_listing(plain["assumptions"])]
        if not all(isinstance(text, str) for text in texts):
            raise ValueError("a text is missing")
        terms = (plain["adjacency"], plain["unit"], plain["group"], plain["threat_model"])
        return cls(tuple(rows), *terms, tuple(plain["assumptions"]), plain["digest"], plain["certified_by"])

    def __str__(self) -> str:
        return ", ".join(f"ε = {_number(epsilon, 6)} at δ = {delta:g}" for delta, epsilon, _ in self.epsilons)

    @property
    def finite(self) -> bool:
        """Whether every ε is finite, so that the budget can be locked."""
        return all(math.isfinite(epsilon) for _, epsilon, _ in self.epsilons)


@frozen
class Change:
    """The difference between a budget and the locked one.

    Attributes:
      kind: "new": not in the file; "terms": other terms; "rise" or "fall" of ε at some δ; "graph": the same ε from
        another event graph; "same".
      lines: The changes, one line each.
      way_out: The remedy.
    """

    kind: Kind
    lines: tuple[str, ...] = ()
    way_out: str = UPDATE

    @property
    def refused(self) -> bool:
        """Whether the change fails a test, as it was not approved."""
        return self.kind in ("new", "terms", "rise")


def compare(locked: Budget | None, now: Budget) -> Change:
    """Returns the difference of ``now`` from the locked budget; see the module's docstring for the tolerance."""
    way_out = UPDATE if now.finite else INFINITE
    if locked is None:
        return Change("new", (str(now),), way_out)
    old, new = ({delta: epsilon for delta, epsilon, _ in one.epsilons} for one in (locked, now))
    terms = [
        f"{name.replace('_', ' ')}: {_shown(getattr(locked, name))} -> {_shown(getattr(now, name))}"
        for name in _TERMS
        if getattr(locked, name) != getattr(now, name)
    ]
    terms += [f"at δ = {d:g}: ε = {_number(new[d])}, not locked" for d in new if d not in old]
    terms += [f"at δ = {d:g}: ε = {_number(old[d])} is locked, but not recorded" for d in old if d not in new]
    noise = TOLERANCE if locked.digest == now.digest else 0.0
    rises = [d for d in old if d in new and new[d] > old[d] * (1 + noise)]
    falls = [d for d in old if d in new and new[d] < old[d] * (1 - TOLERANCE)]
    lines = [f"at δ = {d:g}: ε = {_number(old[d])} -> {_number(new[d])}" for d in old if d in rises or d in falls]
    if locked.digest != now.digest:
        lines.append(f"event graph: {_short(locked.digest)} -> {_short(now.digest)}")
    elif locked.version != now.version:
        lines.append(f"the event graph is the same; {locked.version} -> {now.version}")
    if terms:
        return Change("terms", (*terms, *lines), way_out)
    if rises or falls:
        return Change("rise" if rises else "fall", tuple(lines), way_out)
    return Change("graph", tuple(lines)) if locked.digest != now.digest else Change("same")


@frozen
class LockFile:
    """The content of a lock file.

    Attributes:
      budgets: The budgets by name.
      audits: The number of each registered test, from 1; no two are equal.
      registered: The largest number that was ever assigned. Numbers are never reused.
    """

    budgets: dict[str, Budget] = field(factory=dict)
    audits: dict[str, int] = field(factory=dict)
    registered: int = 0

    def text(self) -> str:
        """Returns the file's text."""
        plain = {
            "format": _FORMAT,
            "schema": SCHEMA_VERSION,
            "about": "Written by pytest --privacy-update. Each changed line is a changed privacy budget: review it.",
            "budgets": {name: self.budgets[name].to_dict() for name in sorted(self.budgets)},
            "audits": {name: self.audits[name] for name in sorted(self.audits)},
            "audits_registered": self.registered,
        }
        return json.dumps(plain, indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    def write(self, path: Path) -> bool:
        """Replaces the file atomically, and returns whether it changed.

        Raises:
          PrivacyLockError: The file could not be written; it is unchanged.
        """
        text = self.text()
        with suppress(UnreadableFileError):
            if read_bytes(path) == text.encode():
                return False
        try:
            write_atomically(path, text)
        except OSError as error:
            raise PrivacyLockError(f"{path} could not be written ({error}); it is unchanged") from None
        return True

    @classmethod
    def read(cls, path: Path) -> LockFile:
        """Returns the content of a file; a file that does not exist is empty.

        If two audits have the same number (after a merge of branches), the first by name keeps it, and the others count
        as unregistered.

        Raises:
          PrivacyLockError: The file can't be read, is damaged, or is of a newer version.
        """
        way_out = "restore it, or delete it and run pytest --privacy-update"
        try:
            text = read_text(path, most=LARGEST_JSON)
        except UnreadableFileError as error:
            if error.missing:
                return cls()
            raise PrivacyLockError(f"{path} {error}") from None
        try:
            plain = json_value(text)
        except UnreadableFileError as error:
            raise PrivacyLockError(f"{path} is not JSON ({error}), perhaps after a merge; {way_out}") from None
        if not isinstance(plain, dict) or plain.get("format") != _FORMAT:
            raise PrivacyLockError(f"{path} is not a privacy lock file; name another one by the setting privacy_lock")
        if plain.get("schema") != SCHEMA_VERSION:
            schema = plain.get("schema")
            raise PrivacyLockError(f"{path} has schema {schema!r}, but this version reads {SCHEMA_VERSION}; upgrade")
        where = "the file"
        try:
            budgets = {}
            for name, entry in plain["budgets"].items():
                where = f"budget {name!r}"
                budgets[name] = Budget.from_dict(entry)
                if not budgets[name].finite:
                    raise ValueError("an ε is infinite")
            where = "audits"
            audits, taken = {}, set[int]()
            for name, number in sorted(plain["audits"].items()):
                if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= _MOST:
                    raise ValueError(f"the number of {name!r} is not between 1 and {_MOST}")
                if number not in taken:
                    audits[name] = number
                    taken.add(number)
            registered = plain["audits_registered"]
            if isinstance(registered, bool) or not isinstance(registered, int) or not 0 <= registered <= _MOST:
                raise ValueError(f"audits_registered is not a whole number between 0 and {_MOST}")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise PrivacyLockError(f"{path}: {where} can't be read ({error}); {way_out}") from None
        return cls(budgets, audits, max([registered, *taken]))


def _delta(text: str) -> float:
    delta = float(text)
    if not 0 <= delta < 1:
        raise ValueError("a delta is not in [0, 1)")
    written = repr(delta + 0.0)  # -0.0 is 0.0
    if text != written:  # otherwise two entries could be for the same delta
        raise ValueError(f"delta {text!r} has to be written as {written!r}")
    return delta


def _epsilon(value: object) -> float:
    if value is None:
        return math.inf
    with suppress(OverflowError):  # a whole number above the largest float
        if not isinstance(value, bool) and isinstance(value, (int, float)) and 0 <= float(value) < math.inf:
            return float(value)
    raise ValueError(f"epsilon {_cut(str(value))} is not a finite number of at least 0")


def _number(epsilon: float, digits: int = 12) -> str:
    return upper(epsilon, digits) if math.isfinite(epsilon) else "infinite"


def _cut(text: str) -> str:
    return text if len(text) <= 40 else text[:37] + "..."


def _listing(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError("assumptions is not a list")
    return value


def _shown(value: object) -> str:
    return "; ".join(map(str, value)) or "none" if isinstance(value, tuple) else str(value)


def _short(text: str | None) -> str:
    kind, _, value = (text or "without a digest").partition(" sha256:")
    return f"{kind} {value[:12]}".strip()
