"""pytest plugin: the marker ``privacy`` and the fixture ``privacy_audit``.

Every pytest run of everybody who has hockeystick installed loads this file, so it imports nothing of the library (nor
numpy) until a test asks for the fixture; the work is in :mod:`hockeystick.pytest_support`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator

    from hockeystick.pytest_support import PrivacyAudit

_MARKER = (
    "privacy(epsilon, delta=0.0): the privacy that the test's mechanism claims; "
    "the fixture privacy_audit tries to refute it (hockeystick)"
)


def pytest_configure(config: pytest.Config) -> None:
    """Registers the marker, so that ``--strict-markers`` knows it."""
    config.addinivalue_line("markers", _MARKER)


@pytest.fixture
def privacy_audit(request: pytest.FixtureRequest) -> PrivacyAudit:
    """A call ``privacy_audit(mechanism, neighbours=(d0, d1))`` audits a mechanism against the claim of the marker."""
    from hockeystick.pytest_support import PrivacyAudit

    return PrivacyAudit.for_test(request.node)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Warns of a test that states a claim and never audits it: it would pass whatever the mechanism does."""
    result = yield
    marker = pyfuncitem.get_closest_marker("privacy")
    audit = cast("PrivacyAudit | None", pyfuncitem.funcargs.get("privacy_audit"))
    # A marker of this name without epsilon= may be somebody's own category: leave those tests alone.
    if audit is not None or (marker is not None and "epsilon" in marker.kwargs):
        from hockeystick.pytest_support import warn_unless_audited

        warn_unless_audited(pyfuncitem.nodeid, audit)
    return result
