"""The audited system of ``hockeystick audit``: a function, or one of the systems that ``hockeystick.targets`` has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click
from attrs import frozen

from hockeystick._cli.frame.option_types import Command, DataText, FileName, TargetName, together
from hockeystick._cli.frame.shared_options import Given, option

_DATA = "Inline JSON, or a .json, .npy or .csv file."
SYSTEMS = ("recorded",)
"""The options that name a system in place of MODULE:CALLABLE."""


def system_options() -> Callable[[Command], Command]:
    """The argument ``MODULE:CALLABLE``, the options that stand in its place, and the two data sets."""
    return together(
        click.argument("target", metavar="MODULE:CALLABLE", type=TargetName(), required=False),
        click.option(
            "--recorded",
            nargs=2,
            type=FileName(),
            metavar="FILE0 FILE1",
            help="In place of a function: files of outputs recorded on the two data sets "
            "(.csv, .tsv, .jsonl, .npy, .parquet).",
        ),
        option("--d0 X", DataText(), f"A data set. {_DATA}"),
        option("--d1 Y", DataText(), f"A neighbour of it. {_DATA}"),
    )


@frozen
class System:
    """The chosen system.

    Attributes:
      name: Its name, for messages and the report.
      d0, d1: The names of the data sets, for the report.
      make: Returns the target, its two data sets (None if it has its own), and a function that returns a text which
        identifies its code.
    """

    name: str
    d0: str
    d1: str
    make: Callable[[], tuple[Any, tuple[Any, Any] | None, Callable[[], str]]]


def chosen_system(given: Given) -> System:
    """Returns the system that the options name.

    Raises:
      UsageError: None or several are named, or an option is missing or does not apply.
    """
    named = [name for name in ("target", *SYSTEMS) if given[name] is not None]
    if len(named) != 1:
        ways = "MODULE:CALLABLE or one of " + ", ".join(f"--{name}" for name in SYSTEMS)
        raise click.UsageError(f"{'name what to audit' if not named else 'name one system only'}: give {ways}")
    return _MAKERS[named[0]](given)


def _data_sets(given: Given, wanted: bool) -> None:
    """Refuses missing data sets, or ones that are not used."""
    for name in ("d0", "d1"):
        if wanted and given[name] is None:
            raise click.UsageError(f"Missing option '--{name}': a data set")
        if not wanted and given[name] is not None:
            raise click.UsageError(f"--{name} can't be combined with --recorded, whose files stand for the data sets")


def _function(given: Given) -> System:
    from hockeystick._files.named_callables import load_data, load_target, source_identity

    _data_sets(given, True)
    target = given["target"]
    data = load_data("--d0", given["d0"]), load_data("--d1", given["d1"])

    def make() -> tuple[Any, tuple[Any, Any], Callable[[], str]]:
        loaded = load_target(target)
        return loaded, data, lambda: source_identity(target, loaded)

    return System(target, given["d0"], given["d1"], make)


def _recorded(given: Given) -> System:
    from hockeystick.accounting import InvalidArgumentError
    from hockeystick.audits import read_recorded

    _data_sets(given, False)
    for name in ("checkpoint", "workers", "backend", "address"):
        if given[name] is not None:
            raise click.UsageError(f"--{name} can't be combined with --recorded: each output is used once")
    file0, file1 = given["recorded"]
    try:
        target = read_recorded(file0, file1)
    except InvalidArgumentError as error:
        reason = error.reason.replace("file0", file0)
        raise InvalidArgumentError("--recorded", error.value, reason, error.remedy) from None
    return System("recorded outputs", file0, file1, lambda: (target, None, lambda: ""))


_MAKERS: dict[str, Callable[[Given], System]] = {"target": _function, "recorded": _recorded}
