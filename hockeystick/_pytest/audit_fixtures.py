"""The values of ``privacy_audit``, ``privacy_evidence`` and ``privacy_replay``: a call tests a claim, and may fail.

A *refuted* claim fails the test and names the event that refutes it. An *inconclusive* audit passes with a
:class:`PrivacyAuditWarning`, a *consistent* one without. Warnings of the audit become test warnings; a leak of
floating-point noise is a :class:`FloatLeakWarning`. Every verdict is attached to the test's report as ``privacy`` or
``privacy_evidence``, in JSON, so that JUnit files and the controller of a parallel run get it unchanged. An audit
whose outputs are all one value fails the test, too: nothing was audited.

Runs are reproducible: the number of samples does not depend on the machine, and the seed is derived from the test's
name and the index of the call within the test. So a false alarm happens per *version of the code*, not per run: a
correct mechanism whose test passed keeps passing until the code or the test's name changes. (This needs targets that
draw from the given ``rng``; a target with its own randomness is audited afresh in every run.) The setting
``privacy_false_alarms`` bounds the probability of a false alarm among all tests; see
:mod:`hockeystick._pytest.levels` for the proof.

A replay (``privacy_replay``, or ``replay=True`` for ``privacy_audit``) compares two runs call by call instead. Its
violations are proofs, so it takes no share of the suite's false alarms; its verdict is a property of its own.

With an evidence ledger ``privacy_evidence`` draws fresh outputs in every run, and false alarms are bounded over all
runs together (:mod:`hockeystick.audits.sequential.evidence_ledger`).
"""

from __future__ import annotations

import hashlib
import warnings
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

import pytest

from hockeystick._pytest import levels
from hockeystick._pytest.plugin_settings import settings
from hockeystick._pytest.progress import shown
from hockeystick._pytest.records import AUDIT, EVIDENCE, fail_twin, key, leave, record
from hockeystick.accounting.numerics import rounded_text

if TYPE_CHECKING:
    from hockeystick.audits import Claim, ReplayVerdict, SequentialVerdict, Verdict

AnyVerdict = TypeVar("AnyVerdict")

DEFAULT_SAMPLES = 100_000  # below a second for most mechanisms; verdict.detectable_epsilon shows the power
DEFAULT_EVIDENCE = 10_000  # most violations need far fewer
DEFAULT_CONFIDENCE = 0.999  # of each audit, if privacy_false_alarms is off

REPLAY = "privacy_replay"  # a user property
_EXAMPLE = "@pytest.mark.privacy(epsilon=1.0, delta=1e-6)"
_LEAK_SAID = pytest.StashKey[bool]()  # whether this run has had its warning of leaking floating-point noise


class PrivacyAuditWarning(UserWarning):
    """A privacy test passed, but its audit was inconclusive, has a warning, or never ran."""


class FloatLeakWarning(PrivacyAuditWarning):
    """The test passed, but the low bits of the outputs tell the data sets apart.

    This holds for nearly all noise computed in floating point, and matters only if such outputs are published. A run
    has one such warning, or an error in each such test where warnings are errors; ``verdict.float_leak`` says it of
    each audit. A mechanism with a ``release`` of its own gives none: its ``simulate`` was audited. To filter it:
    ``filterwarnings = ["ignore::hockeystick._pytest.audit_fixtures.FloatLeakWarning"]``.
    """


class _OfTest(Generic[AnyVerdict]):
    """The value of a fixture, with its test and the claim of the test's marker."""

    def __init__(self, item: pytest.Item, claim: Claim | list[Claim] | None) -> None:
        self._item = item
        self.claim = claim
        self.verdicts: list[AnyVerdict] = []

    @classmethod
    def for_test(cls, item: pytest.Item) -> Self:
        """Returns the fixture's value for a test; a marker that can't be read is an error at the test's set-up."""
        fail_twin(item)
        return cls(item, cls._claim_of(item))

    @classmethod
    def _claim_of(cls, item: pytest.Item) -> Claim | list[Claim] | None:
        """Returns the claim of the marker of this fixture."""
        return _marked(item)


class PrivacyAudit(_OfTest["Verdict"]):
    """The value of the fixture ``privacy_audit``: call it with a mechanism and two neighbouring data sets.

    Attributes:
      claim: The claim of the test's marker; None without a marker.
      verdicts: The verdicts of the calls so far, in order.
    """

    def __call__(
        self,
        target: object,
        *,
        neighbours: tuple[Any, Any] | None = None,
        claim: object = None,
        samples: int | None = None,
        confidence: float | None = None,
        seed: int | None = None,
        replay: bool | None = None,
        **options: Any,
    ) -> Verdict:
        """Audits ``target`` on two neighbouring data sets and fails the test if the claim is refuted.

        Args:
          target: A mechanism, or a callable ``f(data, rng)`` or ``f(data, rng, runs)``; see
            :func:`hockeystick.audits.audit`.
          neighbours: The two data sets, which the caller asserts to be neighbours, or a list of such pairs: best one at
            the edge and one ordinary. By default those of the mechanism's ``worst_case_neighbours``.
          claim: The claim of this call instead of the marker's, as :func:`hockeystick.audits.audit` takes it; it may be
            the value that ``privacy_lock`` returns, or a list of claims, one for each of several pairs.
          samples: Outputs drawn from each data set; by default ``--privacy-samples``, or 100,000.
          confidence: The least confidence level; by default ``--privacy-confidence``, if given. The audit's share of
            the suite's false alarms may require a higher one.
          seed: The seed of all random numbers; by default derived from the test's name.
          replay: Whether the target is first recorded and replayed on the pair, see ``privacy_replay``; by default
            what the marker says, or False. A violation fails the test; a replay without a verdict is a warning.
          options: Further arguments of :func:`hockeystick.audits.audit`; ``timeout`` by default as the marker says.

        Returns:
          The verdict, for further assertions.

        Raises:
          InvalidArgumentError: An argument is outside its domain.
          TargetError: The target raised an error, took too long, or its outputs can't be read.
        """
        __tracebackhide__ = True
        from hockeystick.audits import audit
        from hockeystick.audits.verdicts.verdict import CONSTANT

        claim = self.claim if claim is None else claim
        _has(claim, "privacy_audit")
        given = settings(self._item.config)
        call = record(self._item).next_call()
        if _replays(self._item) if replay is None else replay:
            _replay(self._item, target, neighbours, claim, call, certify=False)
        level = levels.level(self._item, call)
        with shown(self._item, target) as progress:
            verdict = audit(
                target,
                claim=claim,
                neighbours=neighbours,
                samples=samples if samples is not None else given.samples or DEFAULT_SAMPLES,
                confidence=_at_least(confidence if confidence is not None else given.confidence, level),
                rng=stable_seed(self._item, call) if seed is None else seed,
                **{"progress": progress} | _timeout(self._item) | options,
            )
        self.verdicts.append(verdict)
        leave(self._item, AUDIT, verdict.to_dict())
        if verdict.refuted:
            pytest.fail(failure_message(verdict, given.false_alarms), pytrace=False)
        if verdict.constant:
            pytest.fail(f"nothing was audited: {CONSTANT}", pytrace=False)
        if verdict.outcome == "inconclusive":
            warnings.warn(PrivacyAuditWarning(f"{verdict.summary()}\ngive more samples="), stacklevel=2)
        stash = self._item.config.stash
        for text in verdict.warnings:
            if not (verdict.float_leak and "floating-point" in text):
                warnings.warn(PrivacyAuditWarning(text), stacklevel=2)
            elif not stash.get(_LEAK_SAID, callable(getattr(target, "release", None))):
                leak = FloatLeakWarning(f"{text} (pytest says so once a run)")
                with warnings.catch_warnings(record=True) as heard:  # nothing, if this test ignores it
                    warnings.warn(leak, stacklevel=2)
                if heard:
                    warnings.warn(leak, stacklevel=2)
                    stash[_LEAK_SAID] = True  # unless the warning is an error, which each such test then has
        return verdict


class PrivacyReplay(_OfTest["ReplayVerdict"]):
    """The value of the fixture ``privacy_replay``: a call records an algorithm on one data set and replays it.

    Attributes:
      claim: The claim of the test's marker, ``privacy_replay`` or ``privacy``; None without a marker.
      verdicts: The verdicts of the calls so far, in order.
    """

    @classmethod
    def _claim_of(cls, item: pytest.Item) -> Claim | list[Claim] | None:
        marker = item.get_closest_marker("privacy_replay")
        return _marked(item) if marker is None else _claim(marker, "timeout")

    def __call__(
        self,
        target: object,
        *,
        neighbours: tuple[Any, Any] | None = None,
        claim: object = None,
        certify: bool = True,
        seed: int | None = None,
        **options: Any,
    ) -> ReplayVerdict:
        """Replays ``target`` on two neighbouring data sets and fails the test if a violation is proved.

        Args:
          target: ``f(data, rng)``, ``f(data, rng, runs)`` or a mechanism; see :func:`hockeystick.replay`.
          neighbours: The two data sets; by default those of the mechanism's ``worst_case_neighbours``.
          claim: The claim of this call instead of the marker's; of a curve, the point at which it is stated counts.
          certify: Whether the test fails, too, if the recorded calls do not show the claim to hold ("not certified").
            A replay that can't follow the target ("not covered") is a warning.
          seed: The seed of the paths; by default derived from the test's name.
          options: Further arguments of :func:`hockeystick.replay`; ``timeout`` by default as the marker says.

        Returns:
          The verdict, for further assertions.

        Raises:
          InvalidArgumentError: An argument is outside its domain.
          TargetError: The target raised an error.
        """
        __tracebackhide__ = True
        claim = self.claim if claim is None else claim
        _has(claim, "privacy_replay")
        verdict = _replay(
            self._item, target, neighbours, claim, len(self.verdicts), certify=certify, seed=seed, **options
        )
        self.verdicts.append(verdict)
        return verdict


class PrivacyEvidence(_OfTest["SequentialVerdict"]):
    """The value of the fixture ``privacy_evidence``: a call tests a claim by betting, with evidence over many runs.

    Attributes:
      claim: The claim of the test's marker; None without a marker.
      verdicts: The verdicts of the calls so far, in order.
    """

    def __call__(
        self,
        target: object,
        *,
        neighbours: tuple[Any, Any] | None = None,
        claim: object = None,
        samples: int | None = None,
        events: object = None,
        seed: int | None = None,
        **options: Any,
    ) -> SequentialVerdict:
        """Bets against the claim on outputs of ``target``, and fails the test if the wealth refutes it.

        With a ledger (``--privacy-ledger`` or the setting ``privacy_ledger``) the wealth continues from the previous
        run, each run has a fresh seed, and false alarms are bounded over all tests and runs together. By default it is
        a single sequential audit, with the test's seed and its share of the suite's false alarms.

        Args:
          target, neighbours, claim: See ``privacy_audit``. The key in the ledger consists of the test's name, the
            index of the call, the claim, and the names of the events.
          samples: The largest number of outputs from each data set in this run; by default 10,000.
          events: The events to bet on; see :func:`hockeystick.audits.sequential_audit`. Give them to gather evidence
            over several runs: learned events differ between runs.
          seed: The seed; with a ledger, one that was not used there.
          options: Further arguments of :func:`hockeystick.audits.sequential_audit`.

        Raises:
          InvalidArgumentError: An argument is outside its domain.
          TargetError: The target raised an error, or its outputs can't be read.
          RepeatedSeedError: The ledger already has evidence from this seed.
        """
        __tracebackhide__ = True
        from hockeystick.accounting import LedgerError
        from hockeystick.accounting.validate import integer
        from hockeystick.audits import EvidenceLedger, sequential_audit
        from hockeystick.audits.verdicts.verdict import CONSTANT

        claim = self.claim if claim is None else claim
        _has(claim, "privacy_evidence")
        given = settings(self._item.config)
        call = record(self._item).next_call()
        most = DEFAULT_EVIDENCE if samples is None else integer("samples", samples, low=20)
        shared: dict[str, Any] = {"claim": claim, "neighbours": neighbours, "events": events}
        shared |= _timeout(self._item) | options
        name = key(self._item) + (f"#{call}" if call else "")
        with shown(self._item, target) as progress:
            shared = {"progress": progress} | shared
            if given.ledger is None:
                alpha = levels.level(self._item, call)
                alpha = given.ledger_false_alarms if alpha is None else alpha
                fixed = stable_seed(self._item, call) if seed is None else seed
                verdict = sequential_audit(target, alpha=alpha, most_samples=most, rng=fixed, **shared)
            else:
                try:
                    ledger = EvidenceLedger(given.ledger, alpha=given.ledger_false_alarms)
                    verdict = ledger.audit(name, target, samples=most, rng=seed, **shared)
                except LedgerError as error:
                    pytest.fail(f"evidence ledger: {error}", pytrace=False)
        self.verdicts.append(verdict)
        leave(self._item, EVIDENCE, verdict.to_dict())
        if verdict.refuted:
            again = f"EvidenceLedger({str(given.ledger)!r}, alpha={given.ledger_false_alarms:g}).restart({name!r})"
            hint = f"\nthe test fails in every run until the key is restarted: {again}" if given.ledger else ""
            pytest.fail(f"privacy {verdict.summary()}{hint}", pytrace=False)
        if verdict.constant:
            pytest.fail(f"nothing was audited: {CONSTANT}", pytrace=False)
        if verdict.outcome == "inconclusive" and given.ledger is None:  # with a ledger the first runs may be
            warnings.warn(PrivacyAuditWarning(f"{verdict.summary()}\ngive more samples="), stacklevel=2)
        for text in verdict.warnings:
            warnings.warn(PrivacyAuditWarning(text), stacklevel=2)
        return verdict


def _replay(
    item: pytest.Item,
    target: object,
    neighbours: tuple[Any, Any] | None,
    claim: object,
    call: int,
    *,
    certify: bool,
    seed: int | None = None,
    **options: Any,
) -> ReplayVerdict:
    """Replays a target, leaves the verdict as a user property, and fails the test or warns."""
    __tracebackhide__ = True
    from hockeystick.audits import Claim
    from hockeystick.audits.replay.run import replay
    from hockeystick.audits.targets.calling import neighbour_pair

    stated, pair = Claim.of(claim), neighbour_pair(target, neighbours)
    with shown(item, unit="paths") as progress:
        verdict = replay(
            target,
            *pair,
            epsilon=stated.epsilon,
            delta=stated.delta,
            seed=stable_seed(item, call) if seed is None else seed,
            **{"progress": progress} | _timeout(item, REPLAY) | options,
        )
    item.user_properties.append((REPLAY, verdict.to_json()))
    if verdict.violated or (certify and verdict.outcome == "not certified"):
        pytest.fail(f"privacy {verdict.summary()}", pytrace=False)
    if not verdict.agrees:
        warnings.warn(PrivacyAuditWarning(verdict.summary()), stacklevel=3)
    for text in verdict.warnings:
        warnings.warn(PrivacyAuditWarning(text), stacklevel=3)
    return verdict


def _replays(item: pytest.Item) -> bool:
    """Whether the marker asks for a replay before each audit."""
    marker = item.get_closest_marker("privacy")
    return marker is not None and marker.kwargs.get("replay") is True


def _timeout(item: pytest.Item, *markers: str) -> dict[str, Any]:
    """Returns the time limit of a call, which the first of these markers may state, or else ``privacy``."""
    marker = next((found for name in (*markers, "privacy") if (found := item.get_closest_marker(name))), None)
    return {} if marker is None or "timeout" not in marker.kwargs else {"timeout": marker.kwargs["timeout"]}


def failure_message(verdict: Verdict, false_alarms: float | None) -> str:
    """Returns the message of a failed test: claim, event, both counts, bound, and the probability of a false alarm."""
    suite = "" if false_alarms is None else f", and any in the whole suite with at most {false_alarms:g}"
    chance = shown_level(1 - verdict.confidence)
    return (
        f"privacy {verdict.summary()}\n"
        f"a true claim is refuted with probability at most {chance}{suite}, per version of the code; "
        "rerunning draws the same samples again, seed= draws others"
    )


def shown_level(level: float) -> str:
    """Returns a level in three digits, rounded up except for the rounding error of 1 - (1 - level)."""
    # The error is one rounding unit of 1, at most 1e-9 of a level of 1e-7 or more; this is only text.
    return rounded_text.upper(level * (1 - 1e-9), 3)


def stable_seed(item: pytest.Item, call: int) -> int:
    """Returns a seed that depends only on the test's name (from the root folder) and the call."""
    return int.from_bytes(hashlib.sha256(f"{key(item)}#{call}".encode()).digest()[:6], "big")


def warn_unless_audited(
    nodeid: str, audits: list[PrivacyAudit | PrivacyEvidence | PrivacyReplay], fixture: str = "privacy_audit"
) -> None:
    """Warns if a test claims privacy or uses a fixture, but ended without an audit; ``fixture`` fits its marker."""
    if not audits:
        what = f"states a privacy claim but does not use the fixture {fixture}"
    elif not any(audit.verdicts for audit in audits):
        names = {PrivacyAudit: "privacy_audit", PrivacyEvidence: "privacy_evidence", PrivacyReplay: "privacy_replay"}
        name = names[type(audits[0])]
        what = f"uses the fixture {name} but never calls it"
    else:
        return
    warnings.warn(PrivacyAuditWarning(f"{nodeid} {what}: nothing was audited"), stacklevel=2)


def _at_least(confidence: float | None, level: float | None) -> float:
    """Returns the larger of the given confidence level and the suite's."""
    if level is None:
        return DEFAULT_CONFIDENCE if confidence is None else confidence
    shared = levels.confidence(level)
    if isinstance(confidence, (int, float)) and not isinstance(confidence, bool) and 0.5 < confidence < 1:
        return max(confidence, shared)
    return shared if confidence is None else confidence  # the audit refuses an invalid one


def _has(claim: object, fixture: str) -> None:
    __tracebackhide__ = True
    if claim is None:
        pytest.fail(f"{fixture} has no claim: mark the test with {_EXAMPLE} or give claim=", pytrace=False)


def _marked(item: pytest.Item) -> Claim | list[Claim] | None:
    marker = item.get_closest_marker("privacy")
    return None if marker is None else _claim(marker, "replay", "timeout")


def _claim(marker: pytest.Mark, *others: str) -> Claim | list[Claim]:
    """Returns a marker's claim, or those of pairs; without ``epsilon=...`` or with unknown arguments set-up fails."""
    from hockeystick.accounting import InvalidArgumentError
    from hockeystick.audits import Claim

    example = _EXAMPLE.replace("privacy(", f"{marker.name}(")
    unknown = [repr(arg) for arg in marker.args] + sorted(marker.kwargs.keys() - {"epsilon", "delta", *others})
    if unknown:
        pytest.fail(f"marker {marker.name}: unexpected {', '.join(unknown)}; write {example}", pytrace=False)
    if "epsilon" not in marker.kwargs:
        pytest.fail(f"marker {marker.name}: epsilon is missing; write {example}", pytrace=False)
    if not isinstance(marker.kwargs.get("replay", False), bool):
        pytest.fail(f"marker {marker.name}: replay is neither True nor False; write {example}", pytrace=False)
    stated = {name: value for name, value in marker.kwargs.items() if name not in others}
    by_pair = stated["epsilon"] if isinstance(stated["epsilon"], list) else None
    try:
        return Claim(**stated) if by_pair is None else [Claim(**stated | {"epsilon": epsilon}) for epsilon in by_pair]
    except InvalidArgumentError as error:
        pytest.fail(f"marker {marker.name}: {error}; write {example}", pytrace=False)
