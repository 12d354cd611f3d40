"""pytest plugin: the markers ``privacy`` and ``privacy_replay``, and fixtures that test and certify privacy.

Every pytest run in an environment with hockeystick loads this file, so it imports nothing of the library (nor numpy)
until a test uses a fixture or a setting of the plugin is given. The work is in ``hockeystick/_pytest/``:

    settings          the settings from the command line and the configuration
    record            the record of a test, and its name
    audit_fixtures    privacy_audit, privacy_evidence, privacy_replay
    levels            each audit's share of the suite's false alarms
    budget_fixture    privacy_lock;  lock_file: the lock file
    session           the end of a run: the lock file and the summary;  report: its reports

A test's record travels with its report, so parallel runs are like any other: only the process that collects the reports
writes the lock file and the reports.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, cast

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence
    from pathlib import Path

    from hockeystick._pytest.audit_fixtures import PrivacyAudit, PrivacyEvidence, PrivacyReplay
    from hockeystick._pytest.budget_fixture import PrivacyLock
    from hockeystick._pytest.session import Summary

Fixture = TypeVar("Fixture")

_MARKERS = (
    "privacy(epsilon, delta=0.0, replay=False, timeout=None): the privacy claim of the test's mechanism, which the "
    "fixtures privacy_audit and privacy_evidence try to refute, after a replay if replay=True; timeout: seconds that a "
    "call of the mechanism may take; epsilon=[...]: that of each of several pairs (hockeystick)",
    "privacy_replay(epsilon, delta=0.0, timeout=None): the privacy claim of the test's algorithm, which the fixture "
    "privacy_replay compares with its recorded calls (hockeystick)",
)
_SETTINGS = (
    ("privacy_lock", "privacy lock file, relative to the root folder (default: privacy.lock.json)"),
    ("privacy_false_alarms", "probability of a false alarm among all privacy audits, or off (default: 1e-3)"),
    ("privacy_samples", "default number of samples of a privacy audit (default: 100000)"),
    ("privacy_confidence", "default of the least confidence level of a privacy audit"),
    ("privacy_ledger", "evidence ledger, relative to the root folder: accumulates privacy_evidence over runs"),
    ("privacy_ledger_false_alarms", "probability of a false alarm in the ledger, over all runs (default: 1e-6)"),
)
_FIXTURES = ("privacy_audit", "privacy_evidence", "privacy_lock")
_REPLAY = "privacy_replay"  # a fixture, and its marker
_USED = pytest.StashKey[dict[str, object]]()  # the fixtures of a test, also if requested while it runs


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options and the settings."""
    group = parser.getgroup("privacy", "differential privacy (hockeystick)")
    group.addoption(
        "--privacy-update",
        action="store_true",
        help="update the privacy lock file from this run; a whole run also removes entries that no test recorded",
    )
    group.addoption(
        "--privacy-report",
        action="append",
        default=[],
        metavar="FILE",
        help="write a report to FILE, with the suffix .json, .sarif or .md; may be repeated",
    )
    group.addoption("--privacy-samples", metavar="N", help="default number of samples of a privacy audit")
    group.addoption(
        "--privacy-confidence", metavar="C", help="default of the least confidence level of a privacy audit"
    )
    group.addoption("--privacy-ledger", metavar="FILE", help="evidence ledger: accumulates privacy_evidence over runs")
    for name, text in _SETTINGS:
        parser.addini(name, text, type="string", default=None)
    parser.addini("privacy_strict", "fail a run that needs an update of the lock file", type="bool", default=False)


def pytest_configure(config: pytest.Config) -> None:
    """Registers the markers, for ``--strict-markers``, and the collector of reports."""
    for marker in _MARKERS:
        config.addinivalue_line("markers", marker)
    option = config.option
    if option.privacy_ledger:  # workers of a parallel run may have another working directory
        option.privacy_ledger = str(config.invocation_params.dir / option.privacy_ledger)
    values = [option.privacy_samples, option.privacy_confidence, option.privacy_ledger]
    given = bool(option.privacy_report) or any(value is not None for value in values)
    try:
        given = any([given, *(config.getini(name) for name in (*dict(_SETTINGS), "privacy_strict"))])
    except (TypeError, ValueError):  # a setting of a wrong type, which this version of pytest does not report
        given = True
    if given:
        from hockeystick._pytest.plugin_settings import settings

        settings(config)  # a usage error, if a setting is invalid
    config.pluginmanager.register(Collector(config), "hockeystick-collector")


@pytest.fixture
def privacy_audit(request: pytest.FixtureRequest) -> PrivacyAudit:
    """A call ``privacy_audit(mechanism, neighbours=(d0, d1))`` audits a mechanism against the claim of the marker."""
    from hockeystick._pytest.audit_fixtures import PrivacyAudit

    return _noted(request, PrivacyAudit.for_test)


@pytest.fixture
def privacy_evidence(request: pytest.FixtureRequest) -> PrivacyEvidence:
    """A call ``privacy_evidence(mechanism, neighbours=(d0, d1))`` bets against the claim, over all runs of a ledger."""
    from hockeystick._pytest.audit_fixtures import PrivacyEvidence

    return _noted(request, PrivacyEvidence.for_test)


@pytest.fixture
def privacy_replay(request: pytest.FixtureRequest) -> PrivacyReplay:
    """A call ``privacy_replay(algorithm, neighbours=(d0, d1))`` records an algorithm and replays it."""
    from hockeystick._pytest.audit_fixtures import PrivacyReplay

    return _noted(request, PrivacyReplay.for_test)


@pytest.fixture
def privacy_lock(request: pytest.FixtureRequest) -> PrivacyLock:
    """A call ``privacy_lock(name, graph, delta=1e-6)`` certifies a budget and compares it with the lock file."""
    from hockeystick._pytest.budget_fixture import PrivacyLock

    return _noted(request, PrivacyLock.for_test)


def _noted(request: pytest.FixtureRequest, make: Callable[[pytest.Item], Fixture]) -> Fixture:
    """Returns a fixture's value, and records its use in the test, even if it can't be made."""
    used = request.node.stash.setdefault(_USED, {})
    name = str(request.fixturename)
    used[name] = None
    used[name] = value = make(request.node)
    return value


@pytest.hookimpl(tryfirst=True)  # before tests are deselected, so that the check does not depend on the selection
def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """Refuses two auditing tests with the same name."""
    if any(name in _FIXTURES[:2] for item in items for name in getattr(item, "fixturenames", ())):
        from hockeystick._pytest.records import check_keys

        check_keys(items)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Warns of a test that states a claim but never audits it, and so would pass for every mechanism."""
    result = yield
    used = pyfuncitem.stash.get(_USED, {})
    found = [used.get(name) for name in (*_FIXTURES[:2], _REPLAY)]
    audits = [cast("PrivacyAudit | PrivacyEvidence | PrivacyReplay", audit) for audit in found if audit is not None]
    # A marker of this name without epsilon= may belong to another project.
    marked = {
        fixture: marker
        for name, fixture in (("privacy", "privacy_audit"), (_REPLAY, _REPLAY))
        if (marker := pyfuncitem.get_closest_marker(name)) is not None and "epsilon" in marker.kwargs
    }
    if audits or marked:
        from hockeystick._pytest.audit_fixtures import warn_unless_audited

        warn_unless_audited(pyfuncitem.nodeid, audits, next(iter(marked), "privacy_audit"))
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Attaches to a test's report the fixtures of this plugin that it uses, and its record."""
    report = yield
    known = {*getattr(item, "fixturenames", ()), *item.stash.get(_USED, {})}
    if uses := [name for name in _FIXTURES if name in known]:
        from hockeystick._pytest.records import attachment

        report.hockeystick = attachment(item, uses, last=report.when == "teardown")  # type: ignore[attr-defined]
    return report


class Collector:
    """Collects observations for the end of the run; see ``_pytest.session.Seen``."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self.reports: list[pytest.TestReport] = []
        self.problems: list[str] = []
        self.deselected = 0
        self.collected = 0
        self.finished: set[str] = set()
        self.ignored: set[str] = set()
        self.interrupted = False
        self._ran = False
        self._summary: Summary | None = None

    @pytest.hookimpl(wrapper=True)
    def pytest_ignore_collect(self, collection_path: Path) -> Generator[None, bool | None, bool | None]:
        """Records the paths that are ignored."""
        ignored = yield
        if ignored:
            self.ignored.add(str(collection_path))
        return ignored

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        """Counts the tests that were collected but deselected."""
        self.deselected += len(items)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Records failures of the collection."""
        if not report.passed:
            self.problems.append(f"{report.nodeid or 'something'} was not collected")

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Counts the tests that will run."""
        self.collected = len({item.nodeid for item in session.items})

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self) -> None:
        """Records that this is a run of tests, not one that only lists fixtures."""
        self._ran = True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keeps a report with a record of this plugin."""
        if hasattr(report, "hockeystick"):
            self.reports.append(report)
        if (report.when == "call" and not hasattr(report, "context")) or (report.when == "setup" and not report.passed):
            self.finished.add(report.nodeid)  # a report with a context is of a subtest

    def pytest_keyboard_interrupt(self) -> None:
        """Records that the run was interrupted."""
        self.interrupted = True

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object) -> None:
        """Adds the observations of a worker of a parallel run, when it ends."""
        output = getattr(node, "workeroutput", None)
        if not isinstance(output, dict) or "hockeystick" not in output:
            self.problems.append("a process of the parallel run died")
        else:
            found = output["hockeystick"]
            self.deselected = max(self.deselected, found["deselected"])
            self.collected = max(self.collected, found["collected"])
            self.ignored.update(found["ignored"])

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Writes the lock file and the reports, and sets the exit status if the run as a whole fails."""
        output = getattr(self._config, "workeroutput", None)
        if output is not None:
            seen = {"deselected": self.deselected, "collected": self.collected, "ignored": sorted(self.ignored)}
            output["hockeystick"] = seen
            return
        option = self._config.option
        needed = self.reports or option.privacy_update or option.privacy_report or option.privacy_ledger
        lock = self._config.rootpath / (self._config.getini("privacy_lock") or "privacy.lock.json")
        if option.collectonly or not (needed or (self._ran and lock.exists())):
            return
        from hockeystick._pytest.session import finish

        self._summary = finish(session, self)
        if self._summary.settings.reports:
            from hockeystick._pytest.report import write_reports

            write_reports(self._summary)
        if self._summary.failed and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Prints a line for each claim, and the required actions."""
        if self._summary is not None:
            from hockeystick._pytest.report import print_summary

            print_summary(self._summary, terminalreporter)
