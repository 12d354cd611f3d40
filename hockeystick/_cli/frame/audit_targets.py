"""The audited system of ``hockeystick audit``: a function, or one of the systems that ``hockeystick.targets`` has."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from attrs import frozen

from hockeystick._cli.frame.option_types import Command, Count, DataText, FileName, Real, TargetName, together
from hockeystick._cli.frame.shared_options import Given, flag, option

_DATA = "Inline JSON, or a file: .json, .npy or .csv; for --command of any type."
SYSTEMS = ("recorded", "command", "url", "sql")
"""The options that name a system in place of MODULE:CALLABLE."""
_URL = ("rate", "headers", "unseeded")
_SQL = ("query", "insert", "delete")
_OPTIONS = ("batch", *_URL, *_SQL)  # of some systems


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
        click.option(
            "--command",
            metavar="'PROG {data}'",
            help="In place of a function: a program that prints an output, or one a line for {runs}; "
            "{seed} makes it repeatable.",
        ),
        option(
            "--url URL", click.STRING, "In place of a function: a web service, posted JSON with data, runs and seed."
        ),
        option("--sql URL", click.STRING, "In place of a function: a query on duckdb:///FILE or sqlite:///FILE."),
        option("--query SQL", click.STRING, "With --sql: the query, with its noise."),
        option(
            "--insert TABLE=ROW",
            click.STRING,
            "With --sql: a row of d1 that the database lacks, as JSON.",
            multiple=True,
        ),
        option("--delete TABLE=ROW", click.STRING, "With --sql: a row that d1 lacks, as JSON.", multiple=True),
        option("--batch N", Count(1), "The most outputs of a program with {runs}, or of an answer, at once. [1000]"),
        option("--rate R", Real(0.0, low_open=True), "The most posts to the URL per second. Default: no limit."),
        option("--headers FILE", FileName(), "A JSON file of further headers for the URL, such as Authorization."),
        flag("--unseeded", "Send no seed to the URL: it has randomness of its own."),
        option("--d0 X", DataText(), f"A data set. {_DATA}"),
        option("--d1 Y", DataText(), f"A neighbour of it. {_DATA}"),
        click.option(
            "--pair",
            nargs=2,
            multiple=True,
            type=DataText(),
            metavar="X Y",
            help="In place of --d0 and --d1, any number of times: two neighbouring data sets. All pairs are audited "
            "together, and the result names the tested one.",
        ),
    )


@frozen
class System:
    """The chosen system.

    Attributes:
      name: Its name, for messages and the report.
      d0, d1: The names of the data sets, for the report.
      pairs: The names of the data sets of each pair, if there are several.
      make: Returns the target, its two data sets (None if it has its own), and a function that returns a text which
        identifies its code.
    """

    name: str
    d0: str
    d1: str
    make: Callable[[], tuple[Any, Any, Callable[[], str]]]
    pairs: tuple[tuple[str, str], ...] = ()

    def names(self, pair: int) -> tuple[str, str]:
        """Returns the names of the data sets of a verdict's pair, which is 0 if there is one pair only."""
        return self.pairs[pair - 1] if pair else (self.d0, self.d1)


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


def _checked(given: Given, system: str, *refused: str, data_sets: bool = True) -> None:
    """Refuses missing data sets, and options that a system does not have."""
    for name in ("d0", "d1") if data_sets else ():
        if given["pair"] and given[name] is not None:
            raise click.UsageError(f"--{name} can't be combined with --pair: give it as one of the pairs")
        if given[name] is None and not given["pair"]:
            raise click.UsageError(f"Missing option '--{name}': a data set")
    if given["pair"] and given["sequential"]:
        raise click.UsageError("--pair can't be combined with --sequential, which tests one pair: give --d0 and --d1")
    for name in (*refused, *(() if data_sets else ("d0", "d1", "pair"))):
        if given[name]:
            raise click.UsageError(f"--{name.replace('_', '-')} can't be combined with {system}")


def _data_sets(given: Given, read: Callable[[str, Any], Any]) -> tuple[Any, tuple[tuple[str, str], ...]]:
    """Returns the pair of data sets, or the list of pairs, and the names of each pair's data sets."""
    names = given["pair"] or ((given["d0"], given["d1"]),)
    options = ("--pair", "--pair") if given["pair"] else ("--d0", "--d1")
    pairs = [(read(options[0], d0), read(options[1], d1)) for d0, d1 in names]
    return pairs if given["pair"] else pairs[0], tuple(names)


def _own(given: Given, *names: str) -> dict[str, Any]:
    """Returns those of the options that were given, which are the target's own affair from here on."""
    found = {name: given[name] for name in names if given[name] is not None}
    given.update(dict.fromkeys(found))
    return found


def _function(given: Given) -> System:
    from hockeystick._files.named_callables import load_data, load_target, source_identity

    _checked(given, "MODULE:CALLABLE", *_OPTIONS)
    target = given["target"]
    data, names = _data_sets(given, load_data)

    def make() -> tuple[Any, Any, Callable[[], str]]:
        loaded = load_target(target)
        return loaded, data, lambda: source_identity(target, loaded)

    return System(target, *names[0], make, names)


def _recorded(given: Given) -> System:
    from hockeystick.accounting import InvalidArgumentError
    from hockeystick.audits import read_recorded

    once = ("checkpoint", "workers", "backend", "address", "timeout", *_OPTIONS)  # each output is used once, here
    _checked(given, "--recorded, whose files stand for the data sets", *once, data_sets=False)
    file0, file1 = given["recorded"]
    try:
        target = read_recorded(file0, file1)
    except InvalidArgumentError as error:
        reason = error.reason.replace("file0", file0)
        raise InvalidArgumentError("--recorded", error.value, reason, error.remedy) from None
    return System("recorded outputs", file0, file1, lambda: (target, None, lambda: ""))


def _command(given: Given) -> System:
    from hockeystick.accounting import InvalidArgumentError
    from hockeystick.audits import Command

    _checked(given, "--command", "backend", "address", *_URL, *_SQL)
    data, names = _data_sets(given, _data)
    processes, failures = given["workers"], given["exceptions_as_output"]
    given["workers"], given["exceptions_as_output"] = None, None  # the target's own affair from here on
    options = _own(given, "timeout", "batch") | ({} if processes is None else {"processes": processes})
    try:
        target = Command(given["command"], failures_as_output=bool(failures), **options)
    except InvalidArgumentError as error:
        other = {"processes": "workers", "failures_as_output": "exceptions-as-output"}
        option_name = f"--{other.get(error.argument, error.argument)}"
        raise InvalidArgumentError(option_name, error.value, error.reason, error.remedy) from None
    return System(given["command"], *names[0], lambda: (target, data, lambda: _version(target.words)), names)


def _url(given: Given) -> System:
    from hockeystick._files.named_callables import load_data
    from hockeystick.accounting import InvalidArgumentError
    from hockeystick.audits import WebService

    _checked(given, "--url", "backend", "address", "exceptions_as_output", *_SQL)
    data, names = _data_sets(given, load_data)
    connections = given["workers"]
    given["workers"] = None  # the target's own affair from here on
    options = _own(given, "timeout", "batch", "rate") | ({} if connections is None else {"connections": connections})
    try:
        headers = {} if given["headers"] is None else _headers(given["headers"])
        target = WebService(given["url"], headers=headers, seeded=not given["unseeded"], **options)
    except InvalidArgumentError as error:
        name = {"connections": "workers"}.get(error.argument, error.argument)
        raise InvalidArgumentError(f"--{name}", error.value, error.reason, error.remedy) from None
    return System(target.url, *names[0], lambda: (target, data, lambda: target.url), names)


def _sql(given: Given) -> System:
    from hockeystick.accounting import InvalidArgumentError
    from hockeystick.audits import SqlQuery

    others = [name for name in _OPTIONS if name not in _SQL]
    _checked(given, "--sql", "exceptions_as_output", "timeout", *others, data_sets=False)
    if given["query"] is None:
        raise click.UsageError("Missing option '--query': a query that releases something")
    changes = {name: _rows(f"--{name}", given[name]) for name in ("insert", "delete")}
    try:
        target = SqlQuery(given["sql"], given["query"], **changes)
    except InvalidArgumentError as error:
        name = {"url": "sql"}.get(error.argument, error.argument)
        raise InvalidArgumentError(f"--{name}", error.value, error.reason, error.remedy) from None
    counts = [(target.inserted, "inserted"), (target.deleted, "deleted")]
    d1 = ", ".join(f"{count} row{'s'[: count > 1]} {word}" for count, word in counts if count)
    return System(given["query"], given["sql"], d1, lambda: (target, None, lambda: target.query))


def _rows(name: str, texts: tuple[str, ...]) -> dict[str, list[dict[str, Any]]]:
    """Returns the rows of options ``TABLE=ROW`` by table; no error shows one."""
    from hockeystick.accounting import InvalidDataError
    from hockeystick.audits.targets.json_values import decode_json

    found: dict[str, list[dict[str, Any]]] = {}
    for text in texts:
        table, equals, row = text.partition("=")
        try:
            read = decode_json(row) if table and equals else None
        except ValueError:
            read = None
        if not isinstance(read, dict):
            raise InvalidDataError(name, text, "is not a table with a row", """write 'people={"age": 97}'""")
        found.setdefault(table, []).append(read)
    return found


def _headers(file: str) -> dict[str, str]:
    """Returns the headers in a JSON file; no error shows one."""
    from hockeystick.accounting import InvalidArgumentError
    from hockeystick.accounting.files.reading import UnreadableFileError, read_text
    from hockeystick.audits.targets.json_values import decode_json

    try:
        found = decode_json(read_text(file))
    except UnreadableFileError:
        found = None
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise InvalidArgumentError(
            "headers", file, "is not a JSON file of texts by name", 'write {"Authorization": "..."}'
        )
    return found


def _data(argument: str, text: str) -> Any:
    """Returns the path that a text names, or the value of inline JSON."""
    from hockeystick._files.named_callables import load_data

    return Path(text) if DataText().files(text) and os.path.isfile(text) else load_data(argument, text)


def _version(words: tuple[str, ...]) -> str:
    """Returns the command with digests of the files that it names, the program's among them."""
    files = [file for word in words if (file := shutil.which(word) or word) and os.path.isfile(file)]
    return "\n".join([*words, *(hashlib.sha256(Path(file).read_bytes()).hexdigest() for file in files)])


_MAKERS: dict[str, Callable[[Given], System]] = {
    "target": _function,
    "recorded": _recorded,
    "command": _command,
    "url": _url,
    "sql": _sql,
}
