"""Options that several commands have, which of them go together, and what is read from them.

Options are functions of the words in which commands differ. A command adds them by ``together`` in the order in which
``--help`` shows them, takes them as ``**given``, and checks by ``refuse`` and ``need`` what click does not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from hockeystick._cli.frame.option_types import Command, Count, FileName, Real, together

Given = dict[str, Any]
"""The options of one call by their names, None where they were left out."""

POSITIVE = Real(0.0, low_open=True)
SHARE = Real(0.0, 1.0, low_open=True, high_open=True)

_NOTHING_PLAYED = "can't be combined with --plan, which plays nothing"


# --- options ---------------------------------------------------------------------------------------------------------


def target_options(epsilon: str = "The ε to calibrate to.") -> Callable[[Command], Command]:
    """``--epsilon`` and ``--delta``, 0 without it; ``epsilon`` says what ε is meant."""
    return together(
        click.option("--epsilon", required=True, metavar="E", type=POSITIVE, help=epsilon),
        click.option(
            "--delta",
            default=0.0,
            show_default=True,
            metavar="D",
            type=Real(0.0, 1.0, high_open=True),
            help="The δ at which ε is meant.",
        ),
    )


def mode_options(*, seed: str = "the simulation") -> Callable[[Command], Command]:
    """``--plan``, ``--seed`` and the result's files of a command that plans or simulates; ``seed``: of what."""
    return together(plan_option(), seed_option(seed), output_options())


def plan_option(words: str = "Only account for it; play nothing.") -> Callable[[Command], Command]:
    """``--plan``."""
    return click.option("--plan", is_flag=True, help=words)


def seed_option(of: str = "the simulation") -> Callable[[Command], Command]:
    """``--seed``: None without it, so that it can be told from 0; see :func:`seed_of`."""
    return click.option("--seed", metavar="S", type=Count(0, None), help=f"Of {of}; 0 without it.")


def release_option(words: str) -> Callable[[Command], Command]:
    """``--release``."""
    return click.option("--release", is_flag=True, help=words)


def output_options() -> Callable[[Command], Command]:
    """``--json``, ``--html`` and ``--markdown``, named ``json_file`` and so on, of every command with a result."""
    return together(
        file_option("json", "Write the result as JSON ('-': to standard output)."),
        file_option("html", "Write a report as one HTML page (needs hockeystick[report])."),
        file_option("markdown", "Write a report as Markdown, for a comment on a pull request."),
    )


def file_option(name: str, words: str) -> Callable[[Command], Command]:
    """``--NAME FILE`` to write something to, as ``NAME_file``."""
    return click.option(f"--{name}", f"{name}_file", metavar="FILE", type=FileName("output"), help=words)


# --- what was given --------------------------------------------------------------------------------------------------


def picked(given: Given, *names: str) -> Given:
    """The options of these names."""
    return {name: given[name] for name in names}


def seed_of(given: Given) -> int | None:
    """The seed of a simulation, 0 by default; None for a release."""
    return None if given.get("release") else given["seed"] or 0


def absent(given: Given, *names: str) -> list[str]:
    """The flags of those options that were left out."""
    return [_flag(name) for name in names if given[name] is None]


def refuse(given: Given, why: str, *names: str) -> None:
    """Raises a usage error ``--NAME why`` for the first of these options that was given."""
    for name in names:
        if given[name] is not None and given[name] is not False:
            raise click.UsageError(f"{_flag(name)} {why}")


def refuse_with_plan(given: Given, *names: str) -> None:
    """Raises a usage error for the first of these options that was given, as a plan plays nothing."""
    refuse(given, _NOTHING_PLAYED, *names)


def refuse_seeded_release(given: Given) -> None:
    """Raises a usage error where a release was given a seed."""
    if given["release"] and given["seed"] is not None:
        raise click.UsageError("--release refuses --seed: noise that can be repeated can be taken off again")


def need(given: Given, what: str, *names: str) -> None:
    """Raises a usage error ``what needs --NAME, ...`` that names all that were left out."""
    missing = absent(given, *names)
    if missing:
        raise click.UsageError(f"{what} needs {', '.join(missing)}")


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")
