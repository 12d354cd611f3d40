"""Reads results from the JSON files of commands and of verdicts, and checks that reports can be made of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hockeystick._report.results import (
    SCHEMA_VERSION,
    TOGETHER,
    audit_result,
    replay_result,
    sequential_result,
    to_json,
    to_report,
)
from hockeystick.accounting import HockeystickError, InvalidArgumentError
from hockeystick.accounting.files.reading import UnreadableFileError, json_value

_REMEDY = "give a file that --json of a command wrote, or the text of a verdict's to_json()"
_UNSAID = "not recorded (a verdict's to_json)"


def read_results(name: str, text: str) -> tuple[dict[str, Any], ...]:
    """Returns the results in a JSON text: one, a verdict, or several that ``hockeystick report --json`` joined.

    Args:
      name: The file's name, for messages.
      text: The JSON text.

    Raises:
      InvalidArgumentError: The text is not JSON, or not a result of which this version can make a report.
    """
    try:
        plain = json_value(text)
    except UnreadableFileError as error:
        raise InvalidArgumentError("FILE", name, f"is not JSON ({error})", _REMEDY) from None
    return tuple(_checked(name, one) for one in _several(name, plain))


def _several(name: str, plain: Any) -> Iterator[Any]:
    if isinstance(plain, Mapping) and plain.get("command") == TOGETHER:
        if not isinstance(plain.get("results"), list) or not plain["results"]:
            raise InvalidArgumentError("FILE", name, "does not hold a list of results", _REMEDY)
        yield from plain["results"]
    elif isinstance(plain, dict) and "schema" in plain and "command" not in plain:
        yield _of_verdict(name, plain)
    else:
        yield plain


def _of_verdict(name: str, plain: dict[str, Any]) -> Any:
    """Returns the result that a verdict's ``to_json`` holds, as ``--json`` of the command would have written it."""
    from hockeystick.audits import ReplayVerdict, SequentialVerdict, Verdict

    try:
        if plain.get("type") == "replay":
            replayed = ReplayVerdict.from_dict(plain)
            return _plainly(replay_result(replayed, target=_UNSAID, d0=_UNSAID, d1=_UNSAID))
        kind = Verdict if "tradeoff" in plain else SequentialVerdict
        verdict = kind.from_dict(plain)
    except HockeystickError as error:
        raise InvalidArgumentError(
            "FILE", name, f"is not the result of a command or a verdict ({error})", _REMEDY
        ) from None
    d0, d1 = verdict.data if len(verdict.data) == 2 else (_UNSAID, _UNSAID)
    context = {"target": _UNSAID, "d0": d0, "d1": d1}
    if isinstance(verdict, Verdict):
        return _plainly(audit_result(verdict, **context))
    return _plainly(sequential_result(verdict, **context))


def _plainly(result: dict[str, Any]) -> Any:
    return json_value(to_json(result))


def _checked(name: str, plain: Any) -> dict[str, Any]:
    """Returns the result, after making its report as a check."""
    if not isinstance(plain, dict) or not isinstance(plain.get("command"), str):
        raise InvalidArgumentError("FILE", name, "is not the result of a command", _REMEDY)
    if plain.get("schema_version") != SCHEMA_VERSION:
        reason = f"has schema_version {plain.get('schema_version')!r}, but this version reads {SCHEMA_VERSION}"
        raise InvalidArgumentError("FILE", name, reason, "run the command again with this version")
    try:
        to_report(plain)
    except HockeystickError as error:
        raise InvalidArgumentError("FILE", name, f"can't be shown ({error})", _REMEDY) from None
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
        reason = f"can't be shown as a result of {plain['command']!r} ({type(error).__name__}: {error})"
        raise InvalidArgumentError("FILE", name, reason, _REMEDY) from None
    return plain
