"""Results in four forms: JSON for programs, a terminal report, one HTML file, Markdown.

A result is first a plain dictionary, the content of the JSON file. The other forms are made from this dictionary only,
so a page can be made later from a JSON file, without computing anything.

The JSON is strict: it has no NaN or Infinity tokens. An infinite number is the string ``"inf"`` or ``"-inf"``, and NaN
is ``null``. ``schema_version`` increases when a field changes its meaning or is removed, but not for new fields.
"""

from __future__ import annotations

import importlib.util
import json
import math
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import numpy as np

from hockeystick._report.commands import distribution, experts, federated, kl, lazy, release, smoothed
from hockeystick._report.commands.account import account_report, graph_report
from hockeystick._report.commands.audit import audit_report
from hockeystick._report.commands.calibrate import calibrate_report
from hockeystick._report.commands.catalogue import catalogue_report
from hockeystick._report.commands.demo import demo_report
from hockeystick._report.commands.dp_sgd import dp_sgd_report
from hockeystick._report.commands.replay import replay_report
from hockeystick._report.commands.sequential import sequential_report
from hockeystick._report.forms.terminal import TerminalReport
from hockeystick._report.parts.content import Report
from hockeystick._report.parts.learner_sections import Draw
from hockeystick._report.tables import statistics, surveys
from hockeystick._runs.guarantee_entries import Step, graph_content, guarantee_content
from hockeystick.accounting import AccountantGraph, Guarantee, InvalidArgumentError
from hockeystick.accounting.optional_packages import MissingExtraError

if TYPE_CHECKING:
    from hockeystick._runs.demo import DemoResult
    from hockeystick.audits import ReplayVerdict, SequentialVerdict, Verdict

SCHEMA_VERSION = 1
SEQUENTIAL = "audit --sequential"
TOGETHER = "report"  # the command in a file of several results
_VERSIONS_OF = ("hockeystick", "numpy", "scipy", "dp-accounting")
_HTML_NEEDS = ("jinja2", "matplotlib")


def require_html() -> None:
    """Checks, without importing them, that the packages for HTML reports are installed.

    Raises:
      MissingExtraError: A package is missing.
    """
    missing = [name for name in _HTML_NEEDS if importlib.util.find_spec(name) is None]
    if missing:
        raise MissingExtraError(
            f"an HTML report needs {' and '.join(missing)}, which are not installed; pip install 'hockeystick[report]'"
        )


def account_result(guarantee: Guarantee, delta: float, *, step: Step = lambda _: None) -> dict[str, Any]:
    """Returns the result on a guarantee at ``delta``, with its curves and its graph; see ``guarantee_content``."""
    return _result("account", guarantee_content(guarantee, delta, step=step))


def calibrate_result(guarantee: Guarantee, delta: float, found: Mapping[str, Any], *, step: Step) -> dict[str, Any]:
    """Returns the result on a calibrated parameter (``found``) and its guarantee; see ``_runs.calibration``."""
    return _result("calibrate", {**guarantee_content(guarantee, delta, step=step), **found})


def dp_sgd_result(
    command: str, guarantee: Guarantee, delta: float, training: Mapping[str, Any], *, step: Step
) -> dict[str, Any]:
    """Returns the result on a ``training`` by DP-SGD and its guarantee; see ``_runs.guarantee_entries``."""
    return _result(f"{command} dp-sgd", {**guarantee_content(guarantee, delta, step=step), **training})


def graph_result(graph: AccountantGraph, delta: float | None, view: str | None) -> dict[str, Any]:
    """Returns the result on a graph, with the ε of each release alone if ``delta`` is given."""
    return _result("graph", {"delta": delta, **graph_content(graph, delta, view)})


def audit_result(verdict: Verdict, **context: object) -> dict[str, Any]:
    """Returns the result on a verdict, with the ``context`` to reproduce it (target, data sets as given, seed)."""
    from hockeystick.audits.verdicts.tradeoff_bound import measured_curve

    curve = measured_curve(verdict)
    points = None if curve is None else np.column_stack(curve)
    return _result("audit", {**_verdict(verdict), "measured_bound": points, **context})


def sequential_result(verdict: SequentialVerdict, **context: object) -> dict[str, Any]:
    """Returns the result on the verdict of a sequential audit, with the ``context`` to reproduce it."""
    return _result(SEQUENTIAL, {**_verdict(verdict), **context})


def replay_result(verdict: ReplayVerdict, **context: object) -> dict[str, Any]:
    """Returns the result on a replay, with the ``context`` to reproduce it (target, data sets as given)."""
    plain = {**verdict.to_dict(), "epsilon_path": verdict.epsilon_path}
    del plain["type"], plain["schema"]
    return _result("replay", {**plain, **context})


def demo_result(result: DemoResult) -> dict[str, Any]:
    """Returns the demonstration's result."""
    plain = result.to_dict()
    audits = [
        {**row, "verdict": _verdict(audited.verdict)}
        for row, audited in zip(plain["audits"], result.audits, strict=True)
    ]
    return _result("demo", {**plain, "audits": audits})


def run_result(content: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the result of a plan, a simulated run or a release from its ``content`` (see ``_runs``)."""
    return _result("run", content)


def _verdict(verdict: Verdict | SequentialVerdict) -> dict[str, Any]:
    """Returns a verdict's fields; its own JSON writes an infinite ε as null, results as "inf"."""
    plain = {**verdict.to_dict(), "detectable_epsilon": verdict.detectable_epsilon}
    del plain["schema"]
    return plain


def to_html(*results: Mapping[str, Any]) -> str:
    """Returns a self-contained page of one result, or of several with a table of contents.

    Raises:
      MissingExtraError: The extra ``report`` is not installed.
    """
    require_html()
    from hockeystick._report.forms.html import page

    return page([(to_report(result), to_json(result)) for result in results])


def to_markdown(*results: Mapping[str, Any]) -> str:
    """Returns the report of a result, or of several one below the other, as Markdown."""
    from hockeystick._report.forms.markdown import to_markdown as written

    return "\n".join(written(to_report(result)) for result in results)


def to_terminal(result: Mapping[str, Any]) -> TerminalReport:
    """Returns the report of a result as a renderable for ``rich.print``."""
    return TerminalReport(to_report(result))


def to_report(result: Mapping[str, Any]) -> Report:
    """Returns the content of the report on a result.

    Raises:
      InvalidArgumentError: Its command or learner is unknown.
    """
    name = result.get("learner", result["command"])
    if name not in _REPORTS:
        raise InvalidArgumentError("result", name, "is not a command or learner with a report", "use another version")
    return _REPORTS[name](result)


_COMMANDS: dict[str, Draw] = {
    "account": account_report,
    "account dp-sgd": dp_sgd_report,
    "audit": audit_report,
    SEQUENTIAL: sequential_report,
    "audit --catalogue": catalogue_report,
    "calibrate": calibrate_report,
    "calibrate dp-sgd": dp_sgd_report,
    "demo": demo_report,
    "graph": graph_report,
    "replay": replay_report,
}
_LEARNERS = (
    experts.REPORTS,
    lazy.REPORTS,
    federated.REPORTS,
    distribution.REPORTS,
    kl.REPORTS,
    release.REPORTS,
    smoothed.REPORTS,
    statistics.REPORTS,
    surveys.REPORTS,
)
# The learner's name selects the report of a learner's result, the command any other.
_REPORTS = _COMMANDS | {learner: draw for reports in _LEARNERS for learner, draw in reports.items()}


def together(results: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Returns a single result as it is, and several as one that holds them."""
    return results[0] if len(results) == 1 else _result(TOGETHER, {"results": list(results)})


def to_json(result: Mapping[str, Any]) -> str:
    """Returns a result as strict JSON text."""
    text = json.dumps(strict(result), indent=1, allow_nan=False, ensure_ascii=False)
    return "".join(c if c == "\n" or c.isprintable() else json.dumps(c)[1:-1] for c in text) + "\n"


def _result(command: str, content: Mapping[str, Any]) -> dict[str, Any]:
    made_by = {"schema_version": SCHEMA_VERSION, "command": command}
    plain: dict[str, Any] = strict({**made_by, **content, "versions": _versions()})
    return plain


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in _VERSIONS_OF:
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # run from a folder that was never installed
            continue
    return found


def strict(value: Any) -> Any:
    """Returns ``value`` in types of strict JSON; a value of an unknown type becomes its text."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        return None if math.isnan(value) else "inf" if value > 0 else "-inf"
    if isinstance(value, Mapping):
        return {str(key): strict(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [strict(item) for item in value]
    return str(value)
