"""False alarms of a whole suite: each test's share, fixed without knowing how many tests there are.

A test that audits has a number k, and its c-th audit the level alpha share(k) call_share(c), where

    share(k) = 1 / (2^j (j+1) (j+2))    with j = floor(log2 k),
    call_share(1) = 3/4,  call_share(c) = share(c-1) / 4.

The 2^j numbers k with the same j have 1 / ((j+1) (j+2)) = 1/(j+1) - 1/(j+2) together, and these telescope to 1; so the
shares of all calls sum to 3/4 + 1/4. The hundredth test has 1/48 of an equal share among a hundred; as the number of
samples goes with the logarithm of the level, it needs about a third more of them.

**Claim.** Let all numbers be different. For one version of the code, the probability that *any* audit of a true claim
refutes it, in *any* run, is at most alpha: whichever tests a run selects, in whatever order, in however many processes,
and however often.

*Proof.* The seed of an audit is derived from its test's name, so every run that makes the audit (k, c) of this
version draws the same outputs, tests them at the same level and ends alike. So "(k, c) alarms falsely in some run" is
one event, of probability at most alpha share(k) call_share(c) over the draw of its seed. There is at most one such
event for each pair, and their probabilities sum to at most alpha (sum of share(k)) (sum of call_share(c)) = alpha. ∎

Where do numbers come from? The lock file holds those of tests that were registered (``--privacy-update``); a number
stays with its test's name and is never given again, so tests that are added or removed leave all other levels alone. A
test that is not registered takes the next free number, by the order of names among all tests that were collected (not
among those that ``-k`` left over). All numbers of one run are different, so the claim holds for all runs that collect
the same tests, and without restriction once they are registered.

A new version of the code draws anew where the mechanism changed, and pays alpha again: bound that by an evidence ledger
(``privacy_evidence``), whose level is for all versions together.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import pytest
from attrs import define, field

from hockeystick.pytest_budget import locked
from hockeystick.pytest_lock import LockFile, PrivacyLockError
from hockeystick.pytest_settings import settings

FIXTURES = ("privacy_audit", "privacy_evidence")


def share(number: int) -> float:
    """Returns the share of the ``number``-th test, from 1; all shares sum to 1."""
    j = number.bit_length() - 1
    return 1.0 / ((1 << j) * (j + 1) * (j + 2))


def call_share(call: int) -> float:
    """Returns the share of the ``call``-th audit within its test, from 1; all shares sum to 1."""
    return 0.75 if call == 1 else share(call - 1) / 4


@define
class Place:
    """A test's place among those that audit.

    Attributes:
      number: k; None if it is not known: the test asks for its fixture while it runs.
      registered: whether it is from the lock file.
      calls: audits so far.
    """

    number: int | None = None
    registered: bool = False
    calls: int = field(default=0)

    def next_call(self) -> int:
        """Returns the index of the next audit, from 0."""
        self.calls += 1
        return self.calls - 1


_PLACE = pytest.StashKey[Place]()


def place(item: pytest.Item) -> Place:
    """Returns the place of a test."""
    return item.stash.setdefault(_PLACE, Place())


def key(item: pytest.Item) -> str:
    """Returns the name of a test: its file below the root folder, name and parameters, and nothing else.

    Not the line number, nor what a parallel run appends to the node id.
    """
    file, _, name = item.location
    return f"{file}::{name}".replace("\\", "/")


def number_tests(config: pytest.Config, items: Sequence[pytest.Item]) -> None:
    """Gives every collected test that audits its number. A lock file that can't be read shows when a test needs it."""
    auditing = {key(item): item for item in items if any(name in FIXTURES for name in fixtures(item))}
    if not auditing:
        return
    try:
        found = locked(config)
    except PrivacyLockError:
        return
    for name, number in numbers(found, auditing).items():
        auditing[name].stash[_PLACE] = Place(number, name in found.audits)


def fixtures(item: pytest.Item) -> Iterable[str]:
    """Returns the names of the fixtures that a test is known to use before it runs."""
    names: Iterable[str] = getattr(item, "fixturenames", ())
    return names


def numbers(lock: LockFile, names: Iterable[str]) -> dict[str, int]:
    """Returns the number of each test; those that are not registered follow in the order of their names."""
    found = {name: lock.audits[name] for name in names if name in lock.audits}
    following = lock.registered
    for name in sorted(set(names) - found.keys()):
        following += 1
        found[name] = following
    return found


def level(item: pytest.Item, call: int) -> float | None:
    """Returns the level of a test's ``call``-th audit (from 0), or None where each audit stands for itself.

    A test without a number fails.
    """
    total = settings(item.config).false_alarms
    if total is None:
        return None
    number = place(item).number
    if number is None:
        try:
            number = locked(item.config).audits.get(key(item))
        except PrivacyLockError as error:
            pytest.fail(str(error), pytrace=False)
    if number is None:
        pytest.fail(
            "this audit has no share in the suite's false alarms, because its test was not seen to use the fixture "
            "when it was collected: name privacy_audit or privacy_evidence as a parameter, not in getfixturevalue()",
            pytrace=False,
        )
    return total * share(number) * call_share(call + 1)


def confidence(level: float) -> float:
    """Returns the largest float c with 1 - c at most ``level``, as an audit computes it."""
    found = 1 - level
    while 1 - found > level:
        found = math.nextafter(found, 1.0)
    if found >= 1.0:
        pytest.fail(f"a level of {level:.3g} is below what an audit can tell from 0: raise privacy_false_alarms", False)
    return found
