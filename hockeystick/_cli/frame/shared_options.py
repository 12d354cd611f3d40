"""Options that several commands share, and checks of which options may be combined.

An option is a function of the words that differ between commands. A command adds options with ``together`` in the
order of ``--help``, receives them as ``**given``, and checks with ``refuse`` and ``need`` what click does not check.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from hockeystick._cli.frame.option_types import Command, Count, FileName, LedgerPlace, Real, together

Given = dict[str, Any]
"""The options of one call by name; None for an option that was not given."""

POSITIVE = Real(0.0, low_open=True)
SHARE = Real(0.0, 1.0, low_open=True, high_open=True)

_NOTHING_RUNS = "can't be combined with --plan, which runs nothing"


# --- options ---------------------------------------------------------------------------------------------------------


def option(
    name: str, kind: Any, words: str, *, dest: str | None = None, default: Any = None, **more: Any
) -> Callable[[Command], Command]:
    """An option ``"--NAME METAVAR"`` with its type and its help; ``--help`` shows a default."""
    flag_name, _, metavar = name.partition(" ")
    if default is not None:
        more |= {"default": default, "show_default": True}
    names = (flag_name,) if dest is None else (flag_name, dest)
    return click.option(*names, metavar=metavar or None, type=kind, help=words, **more)


def flag(name: str, words: str) -> Callable[[Command], Command]:
    """An option without a value, False by default."""
    return click.option(name, is_flag=True, help=words)


def target_options(epsilon: str = "The ε to calibrate to.") -> Callable[[Command], Command]:
    """``--epsilon`` and ``--delta``; ``epsilon`` is the help of the former."""
    return together(
        option("--epsilon E", POSITIVE, epsilon, required=True),
        option("--delta D", Real(0.0, 1.0, high_open=True), "The δ of the guarantee.", default=0.0),
    )


def mode_options(*, seed: str = "the simulation") -> Callable[[Command], Command]:
    """``--plan``, ``--seed`` and the files of a command that plans or simulates; ``seed`` names what is seeded."""
    return together(plan_option(), seed_option(seed), output_options())


def plan_option(words: str = "Compute the privacy guarantee only; run nothing.") -> Callable[[Command], Command]:
    """``--plan``."""
    return flag("--plan", words)


def seed_option(of: str = "the simulation") -> Callable[[Command], Command]:
    """``--seed``: None by default, to distinguish it from a given 0; see :func:`seed_of`."""
    return option("--seed S", Count(0, None), f"The seed of {of}. Default: 0.")


def release_option(words: str) -> Callable[[Command], Command]:
    """``--release``."""
    return flag("--release", words)


def ledger_option(needed: str = "With --release: ") -> Callable[[Command], Command]:
    """``--ledger``."""
    words = "a ledger (see hockeystick ledger) that is charged before any noise is drawn."
    return option("--ledger FILE|URL", LedgerPlace(), needed + words if needed else words.capitalize())


def output_options() -> Callable[[Command], Command]:
    """``--json``, ``--html`` and ``--markdown``, passed on as ``json_file`` and so on."""
    return together(
        file_option("json", "Write the result as JSON ('-': to the standard output)."),
        file_option("html", "Write a report as one HTML page (needs hockeystick[report])."),
        file_option("markdown", "Write a report as Markdown, for example for a pull request."),
    )


def file_option(name: str, words: str) -> Callable[[Command], Command]:
    """``--NAME FILE`` for an output file, passed on as ``NAME_file``."""
    return click.option(f"--{name}", f"{name}_file", metavar="FILE", type=FileName("output"), help=words)


# --- values of the options -------------------------------------------------------------------------------------------


def picked(given: Given, *names: str) -> Given:
    """Returns the options of these names."""
    return {name: given[name] for name in names}


def seed_of(given: Given) -> int | None:
    """Returns the seed of a simulation, 0 by default; None for a release."""
    return None if given.get("release") else given["seed"] or 0


def absent(given: Given, *names: str) -> list[str]:
    """Returns the flags of those of the options that were not given."""
    return [_flag(name) for name in names if given[name] is None]


def refuse(given: Given, why: str, *names: str) -> None:
    """Raises a usage error ``--NAME why`` for the first of these options that was given."""
    for name in names:
        if given[name] is not None and given[name] is not False:
            raise click.UsageError(f"{_flag(name)} {why}")


def refuse_with_plan(given: Given, *names: str) -> None:
    """Raises a usage error for the first of these options that was given, for a plan runs nothing."""
    refuse(given, _NOTHING_RUNS, *names)


def refuse_seeded_release(given: Given) -> None:
    """Raises a usage error if a release was given a seed, or a simulation a ledger."""
    if not given["release"]:
        refuse(given, "needs --release: only a release costs anything", "ledger")
    if given["release"] and given["seed"] is not None:
        raise click.UsageError("--release can't be combined with --seed: reproducible noise can be subtracted again")


def need(given: Given, what: str, *names: str) -> None:
    """Raises a usage error ``what needs --NAME, ...`` that names all of the options that were not given."""
    missing = absent(given, *names)
    if missing:
        raise click.UsageError(f"{what} needs {', '.join(missing)}")


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")
