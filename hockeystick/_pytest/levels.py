"""Control of false alarms in a whole suite: each audit's level, from the name of its test and the lock file only.

A test that is registered in the lock file has a number k, and its c-th audit has the level
3/4 alpha share(k) call_share(c), where

    share(k) = 1 / (2^j (j+1) (j+2))    with j = floor(log2 k),
    call_share(1) = 3/4,  call_share(c) = share(c-1) / 4.

The 2^j numbers k with the same j have the total share 1 / ((j+1) (j+2)) = 1/(j+1) - 1/(j+2), and these telescope to 1;
so the shares of all calls sum to 3/4 + 1/4. The hundredth test has 1/64 of an equal share among a hundred. As the
number of samples grows with the logarithm of the level, it needs about a third more samples.

A test that is not registered has alpha / 4000 call_share(c): together a quarter of alpha, for a thousand such tests.

**Claim.** Fix a version: the code and all packages, the lock file, the settings (including samples and confidence) and
the root folder. Let all auditing tests have different names, and let all but a thousand be registered. Then the
probability that *any* audit of a true claim refutes it, in *any* run, is at most alpha, for every selection and order
of tests, every number of processes and every number of runs.

*Proof.* The seed of an audit, its level and its number of samples depend only on its test's name, on c and on the
version. So every run of the c-th audit of a test draws the same outputs, tests them at the same level and has the same
outcome, and "a false alarm in some run" is one event, of probability at most its level over the draw of the seed.
Registered tests have different numbers, so their levels sum to at most
3/4 alpha (sum of share(k)) (sum of call_share(c)) = 3/4 alpha; those of the others to at most 1000 alpha / 4000. ∎

Registering a test (``--privacy-update``) moves it from one part to the other; both are included in alpha. A number
stays with its test's name and is never reused, so adding or removing tests does not change other levels. A run with
more than a thousand unregistered auditing tests fails.

Another number of samples gives other outputs, even with the same seed: each value of ``--privacy-samples`` that is
tried costs alpha again. So does a new version of the code in which the mechanism changed; an evidence ledger
(``privacy_evidence``) has one level for all versions together.
"""

from __future__ import annotations

import math

import pytest

from hockeystick._pytest.budget_fixture import locked
from hockeystick._pytest.lock_file import PrivacyLockError
from hockeystick._pytest.plugin_settings import settings
from hockeystick._pytest.records import key

UNREGISTERED = 1000  # the largest number of unregistered auditing tests
_REGISTERED_PART = 0.75  # of the suite's false alarms; the rest is for unregistered tests


def share(number: int) -> float:
    """Returns the share of the ``number``-th test, from 1; all shares sum to 1."""
    j = number.bit_length() - 1
    return 1.0 / ((1 << j) * (j + 1) * (j + 2))


def call_share(call: int) -> float:
    """Returns the share of the ``call``-th audit within its test, from 1; all shares sum to 1."""
    return 0.75 if call == 1 else share(call - 1) / 4


def part(number: int | None) -> float:
    """Returns a test's part of the suite's false alarms, by its number, or None for an unregistered test."""
    return (1 - _REGISTERED_PART) / UNREGISTERED if number is None else _REGISTERED_PART * share(number)


def level(item: pytest.Item, call: int) -> float | None:
    """Returns the level of a test's ``call``-th audit (from 0), or None if ``privacy_false_alarms`` is off.

    If the lock file can't be read, the test fails.
    """
    total = settings(item.config).false_alarms
    if total is None:
        return None
    try:
        number = locked(item.config).audits.get(key(item))
    except PrivacyLockError as error:
        pytest.fail(str(error), pytrace=False)
    return total * part(number) * call_share(call + 1)


def confidence(level: float) -> float:
    """Returns the largest float c with 1 - c at most ``level``, as an audit computes it."""
    found = 1 - level
    while 1 - found > level:
        found = math.nextafter(found, 1.0)
    if found >= 1.0:
        pytest.fail(f"a level of {level:.3g} is too small for an audit: raise privacy_false_alarms", False)
    return found
