"""What stands behind the fixture ``privacy_audit``: one call audits a mechanism and settles the test's fate.

A *refuted* claim fails the test with the event that refutes it; an *inconclusive* audit passes with a
:class:`PrivacyAuditWarning`; a *consistent* one passes. What the audit noted besides is a warning, too, of its own kind
for floating-point noise that leaks: :class:`FloatLeakWarning`. Every verdict is attached to the test's report under the
key ``privacy`` (as JSON, so that it reaches JUnit files and the controller of a parallel run unchanged).

Reruns agree: the number of samples does not depend on the machine, and the seed is derived from the test's name and the
number of the call within the test. So the false-alarm probability 1 - confidence is one per *version of the code*, not
one per run: a correct mechanism whose test passed keeps passing until the code, or the test's name, changes. (For
targets that draw from the ``rng`` they are given; one with randomness of its own is audited afresh in every run.)
"""

from __future__ import annotations

import hashlib
import json
import warnings
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from hockeystick.audits import Claim, Verdict

DEFAULT_SAMPLES = 100_000  # below a second for most mechanisms; see what it could catch in verdict.detectable_epsilon

_EXAMPLE = "@pytest.mark.privacy(epsilon=1.0, delta=1e-6)"


class PrivacyAuditWarning(UserWarning):
    """A privacy test passed and says little: its audit was inconclusive or noted something odd, or never ran."""


class FloatLeakWarning(PrivacyAuditWarning):
    """The low bits of the outputs refute a claim that holds for the outputs as real numbers.

    It is so for nearly all noise computed in floating point. Ignore it for what is simulated and never released.
    """


class PrivacyAudit:
    """The value of the fixture ``privacy_audit``: call it with a mechanism and two neighbouring data sets.

    Attributes:
      claim: what the test's marker claims; None without a marker.
      verdicts: of the calls so far, in order.
    """

    def __init__(self, item: pytest.Item, claim: Claim | None) -> None:
        self._item = item
        self.claim = claim
        self.verdicts: list[Verdict] = []

    @classmethod
    def for_test(cls, item: pytest.Item) -> PrivacyAudit:
        """Returns the fixture's value for a test; a marker that can't be read is an error at the test's set-up."""
        marker = item.get_closest_marker("privacy")
        return cls(item, None if marker is None else _claim(marker))

    def __call__(
        self,
        target: object,
        *,
        neighbours: tuple[Any, Any] | None = None,
        claim: Claim | None = None,
        samples: int = DEFAULT_SAMPLES,
        confidence: float = 0.999,
        seed: int | None = None,
        **options: Any,
    ) -> Verdict:
        """Audits ``target`` on two neighbouring data sets and fails the test if the claim is refuted.

        Args:
          target: a mechanism, or a callable ``f(data, rng)`` or ``f(data, rng, runs)``; see :func:`hockeystick.audit`.
          neighbours: the two data sets. That they are neighbours is the caller's word. A mechanism that names its worst
            case needs none.
          claim: replaces the marker's claim in this call.
          samples: outputs drawn from each data set.
          confidence: probability, at least, with which a true claim is not refuted.
          seed: of all random numbers; by default derived from the test's name.
          options: further arguments of :func:`hockeystick.audit`.

        Returns:
          The verdict, for further assertions.

        Raises:
          InvalidArgumentError: an argument is outside its domain.
          TargetError: the target raised, or its outputs can't be read.
        """
        __tracebackhide__ = True
        from hockeystick.audits import audit

        claim = self.claim if claim is None else claim
        if claim is None:
            pytest.fail(f"privacy_audit has no claim: mark the test with {_EXAMPLE} or give claim=", pytrace=False)
        verdict = audit(
            target,
            claim=claim,
            neighbours=neighbours,
            samples=samples,
            confidence=confidence,
            rng=stable_seed(self._item, len(self.verdicts)) if seed is None else seed,
            **options,
        )
        self.verdicts.append(verdict)
        self._item.user_properties.append(("privacy", json.dumps(verdict.to_dict(), allow_nan=False)))
        if verdict.refuted:
            pytest.fail(failure_message(verdict), pytrace=False)
        if verdict.outcome == "inconclusive":
            warnings.warn(PrivacyAuditWarning(f"{verdict.summary()}\ngive more samples="), stacklevel=2)
        for text in verdict.warnings:
            leak = verdict.float_leak and "floating-point" in text
            warnings.warn((FloatLeakWarning if leak else PrivacyAuditWarning)(text), stacklevel=2)
        return verdict


def failure_message(verdict: Verdict) -> str:
    """Returns what the reader of a failed run has to know: claim, event, both counts, bound, confidence, and chance."""
    return (
        f"privacy {verdict.summary()}\n"
        f"a true claim is refuted with probability at most {1 - verdict.confidence:.2g} for one version of the code; "
        "rerunning repeats the same samples, seed= draws others"
    )


def stable_seed(item: pytest.Item, call: int) -> int:
    """Returns a seed that depends on the test's file (below the root folder), name and parameters, and on nothing else.

    Not on the line number, nor on what a parallel run appends to the node id.
    """
    file, _, name = item.location
    key = f"{file}::{name}#{call}".replace("\\", "/")
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:6], "big")


def warn_unless_audited(nodeid: str, audit: PrivacyAudit | None) -> None:
    """Warns where a test claims privacy or asks for the fixture, and ends without an audit."""
    if audit is None:
        what = "states a privacy claim but does not use the fixture privacy_audit"
    elif not audit.verdicts:
        what = "uses the fixture privacy_audit but never calls it"
    else:
        return
    warnings.warn(PrivacyAuditWarning(f"{nodeid} {what}: nothing was audited"), stacklevel=2)


def _claim(marker: pytest.Mark) -> Claim:
    """Returns what a marker claims; anything but ``privacy(epsilon=..., delta=...)`` fails the test at its set-up."""
    from hockeystick.accounting import InvalidArgumentError
    from hockeystick.audits import Claim

    unknown = [repr(arg) for arg in marker.args] + sorted(marker.kwargs.keys() - {"epsilon", "delta"})
    if unknown:
        pytest.fail(f"marker privacy: unexpected {', '.join(unknown)}; write {_EXAMPLE}", pytrace=False)
    if "epsilon" not in marker.kwargs:
        pytest.fail(f"marker privacy: epsilon is missing; write {_EXAMPLE}", pytrace=False)
    try:
        return Claim(**marker.kwargs)
    except InvalidArgumentError as error:
        pytest.fail(f"marker privacy: {error}; write {_EXAMPLE}", pytrace=False)
