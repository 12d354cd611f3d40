"""The plugin's settings, from the command line and the configuration file, read once and checked.

Paths on the command line are relative to the working directory, paths in the configuration file to pytest's root
folder. An invalid setting is a usage error: one line, before any test runs.
"""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from attrs import frozen

FALSE_ALARMS = 1e-3  # of all audits of a suite together
LEDGER_FALSE_ALARMS = 1e-6  # of all evidence in a ledger, over all runs
SUFFIXES = (".json", ".sarif", ".md")

_OFF = "off"


@frozen
class Settings:
    """The plugin's settings in one run.

    Attributes:
      lock: The lock file.
      update: Whether to update the lock file.
      strict: Whether a budget that fell, another event graph, a stale entry, an unregistered audit, or a refused budget
        that failed no test fails the run.
      false_alarms: The bound on the probability of a false alarm among all audits; None: each audit has its own.
      samples, confidence: The defaults of audits; None for those of the plugin.
      ledger: The evidence ledger, or None; ``ledger_false_alarms`` is its level.
      reports: Files to write at the end.
    """

    lock: Path
    update: bool
    strict: bool
    false_alarms: float | None
    samples: int | None
    confidence: float | None
    ledger: Path | None
    ledger_false_alarms: float
    reports: tuple[Path, ...]


_SETTINGS = pytest.StashKey[Settings]()


def settings(config: pytest.Config) -> Settings:
    """Returns the settings of this run.

    Raises:
      pytest.UsageError: A setting is invalid.
    """
    if _SETTINGS not in config.stash:
        config.stash[_SETTINGS] = _read(config)
    return config.stash[_SETTINGS]


def _read(config: pytest.Config) -> Settings:
    lock = config.rootpath / (_configured(config, "privacy_lock") or "privacy.lock.json")
    ledger = _given(config, "privacy_ledger") or _configured(config, "privacy_ledger")
    samples = _given(config, "privacy_samples") or _configured(config, "privacy_samples")
    confidence = _given(config, "privacy_confidence") or _configured(config, "privacy_confidence")
    false_alarms = _configured(config, "privacy_false_alarms")
    ledger_level = _configured(config, "privacy_ledger_false_alarms")
    workers = hasattr(config, "workerinput")
    found = Settings(
        lock=lock,
        update=bool(config.getoption("privacy_update")),
        strict=_strict(config),
        false_alarms=_level("privacy_false_alarms", false_alarms, FALSE_ALARMS, may_be_off=True),
        samples=_samples(samples) if samples else None,
        confidence=_confidence(confidence) if confidence else None,
        ledger=config.rootpath / ledger if ledger else None,
        ledger_false_alarms=_level("privacy_ledger_false_alarms", ledger_level, LEDGER_FALSE_ALARMS)
        or LEDGER_FALSE_ALARMS,
        reports=() if workers else tuple(_report(config, name) for name in config.getoption("privacy_report")),
    )
    _check_apart(found)
    return found


def _given(config: pytest.Config, name: str) -> str | None:
    """Returns an option of the command line, or None."""
    text: str | None = config.getoption(name)
    if text is not None and not text.strip():
        raise pytest.UsageError(f"--{name.replace('_', '-')}: {text!r} is empty; give a value, or leave it out")
    return text


def _configured(config: pytest.Config, name: str) -> str | None:
    """Returns a setting of the configuration file, or None if it is missing or empty."""
    try:
        value = config.getini(name)
    except (TypeError, ValueError) as error:  # some versions of pytest don't raise a usage error
        raise pytest.UsageError(f"{name}: {error}; give one text") from None
    if value is not None and not isinstance(value, str):
        raise pytest.UsageError(f"{name}: {value!r} is not text; give one value, in quotes")
    return value or None


def _strict(config: pytest.Config) -> bool:
    try:
        return bool(config.getini("privacy_strict"))
    except (TypeError, ValueError) as error:
        raise pytest.UsageError(f"privacy_strict: {error}; give true or false") from None


def _number(name: str, text: str, wanted: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise pytest.UsageError(f"{name}: {text!r} is not a number; give {wanted}")
    return value


def _samples(text: str) -> int:
    wanted = "a whole number of at least 20"
    value = _number("privacy-samples", text, wanted)
    if value != int(value) or value < 20:
        raise pytest.UsageError(f"privacy-samples: {text} is out of range; give {wanted}")
    return int(value)


def _confidence(text: str) -> float:
    wanted = "a number between 0.5 and 1"
    value = _number("privacy-confidence", text, wanted)
    if not 0.5 < value < 1:
        raise pytest.UsageError(f"privacy-confidence: {text} is out of range; give {wanted}")
    return value


def _level(name: str, text: str | None, default: float, *, may_be_off: bool = False) -> float | None:
    if not text:
        return default
    if may_be_off and text.strip().lower() == _OFF:
        return None
    wanted = "a probability between 0 and 0.5" + (", or off" if may_be_off else "")
    value = _number(name, text, wanted)
    if not 0 < value < 0.5:
        raise pytest.UsageError(f"{name}: {text} is out of range; give {wanted}")
    return value


def _report(config: pytest.Config, name: str) -> Path:
    from hockeystick.accounting.errors import InvalidArgumentError
    from hockeystick.accounting.files.result_files import check_writable

    path = config.invocation_params.dir / name
    if path.suffix not in SUFFIXES:
        raise pytest.UsageError(f"--privacy-report: {name!r} has an unknown suffix; use one of {', '.join(SUFFIXES)}")
    try:
        return check_writable("--privacy-report", path)
    except InvalidArgumentError as error:
        raise pytest.UsageError(str(error)) from None


def _check_apart(found: Settings) -> None:
    """Refuses the same file for two outputs, of which one would replace the other."""
    from hockeystick.accounting.files.result_files import same_file

    files = [("the lock file", found.lock)]
    files += [] if found.ledger is None else [("the evidence ledger", found.ledger)]
    files += [(f"--privacy-report {path.name}", path) for path in found.reports]
    for i, (name, path) in enumerate(files):
        for other, second in files[:i]:
            if same_file(path, second):
                raise pytest.UsageError(f"{name}: {path} is also {other}; give another file")
