"""``hockeystick ledger``: a budget that is really spent, in a file or a PostgreSQL database."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from hockeystick._cli.frame.destinations import output_file, write
from hockeystick._cli.frame.option_types import Count, FileName, LedgerPlace, Real, together
from hockeystick._cli.frame.shared_options import file_option, option
from hockeystick._cli.frame.streams import note, one_line, print_bytes, print_report

if TYPE_CHECKING:
    from hockeystick.accounting import DurableLedger, PrivacyEvent, PrivacyFilter, Receipt

_RELATIONS = ("add-or-remove-one", "replace-one", "replace-with-null", "local")
_SHOWN = 20


class EventText(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.4 on; older ones are supported
    """A privacy event, as Python writes it: ``Gaussian(40)`` or ``PoissonSampled(0.01, Gaussian(2))``."""

    name = "event"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> PrivacyEvent:
        """Returns the event; fails if the text is not a call of an event with numbers."""
        from hockeystick.accounting import HockeystickError

        try:
            found: PrivacyEvent = _event(ast.parse(value, mode="eval").body)
            return found
        except HockeystickError as error:
            self.fail(str(error), param, ctx)
        except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError) as error:
            self.fail(f"{value!r} is not an event ({error}); give one as Gaussian(40)", param, ctx)


def _event(node: ast.expr) -> Any:
    from hockeystick.accounting.events import catalogue as events

    if not isinstance(node, ast.Call):
        return ast.literal_eval(node)
    if not isinstance(node.func, ast.Name) or node.func.id not in events.__all__:
        raise ValueError("no such event")
    named = {str(keyword.arg): _event(keyword.value) for keyword in node.keywords}
    return getattr(events, node.func.id)(*map(_event, node.args), **named)


_place = click.argument("place", metavar="FILE|URL", type=LedgerPlace())
_timeout = option("--timeout T", Real(0.0), "Seconds to wait for other processes. Default: 30.")
_who = option("--who NAME", click.STRING, "A name for the charges made here. Default: user and machine.")


@click.group("ledger", invoke_without_command=True)
@click.pass_context
def ledger_command(ctx: click.Context) -> int:
    """Keep a privacy budget that several programs spend.

    A ledger is a SQLite file, or a PostgreSQL database: postgresql://user@host/database?ledger=NAME. A charge is on
    disk before the noise is drawn, so a crash may waste budget but reveals nothing.

    \b
    Examples:
      hockeystick ledger create budget.db --epsilon 3 --delta 1e-6
      hockeystick ledger charge budget.db 'Gaussian(40)' --note 'weekly mean'
      hockeystick ledger show budget.db
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
    return 0


@ledger_command.command("create")
@_place
@option("--epsilon E", Real(0.0, low_open=True), "The budget: all charges together are (E, D)-DP.", required=True)
@option("--delta D", Real(0.0, 1.0, high_open=True), "The δ of the budget. Default: 0.")
@option(
    "--filter",
    click.Choice(("pure", "renyi", "zcdp", "gaussian")),
    "How charges add up: pure ε, Rényi divergences, zCDP, or Gaussian DP. Default: renyi with a δ, otherwise pure.",
)
@option("--adjacency", click.Choice(_RELATIONS), "The neighbouring relation. Default: add-or-remove-one.")
@together(_timeout)
def create(place: str, **given: Any) -> int:
    """Make a ledger of which nothing is spent.

    Renyi takes every event with a Rényi curve. Gaussian allows the most where all releases are Gaussian. --adjacency
    is that of the releases: hockeystick release needs replace-one.

    \b
    Examples:
      hockeystick ledger create budget.db --epsilon 3 --delta 1e-6
      hockeystick ledger create budget.db --epsilon 3 --adjacency replace-one
      hockeystick ledger create 'postgresql://me@host/db?ledger=people' --epsilon 3 --delta 1e-6

    Exit status: 0, or 2 if there is a ledger already.
    """
    from hockeystick.accounting import DurableLedger

    ledger = DurableLedger.create(place, _filter(given), **_waiting(given))
    print_report(*_budget_lines(ledger.budget(), given["delta"] or 0.0))
    return 0


def _filter(given: dict[str, Any]) -> PrivacyFilter:
    from hockeystick.accounting import Adjacency, GDPFilter, PureFilter, RDPFilter, ZCDPFilter

    epsilon, delta = given["epsilon"], given["delta"] or 0.0
    kind = given["filter"] or ("renyi" if delta else "pure")
    adjacency = Adjacency(given["adjacency"] or _RELATIONS[0])
    if kind == "pure":
        if delta:
            raise click.UsageError("--filter pure can't be combined with --delta")
        return PureFilter(epsilon, adjacency=adjacency)
    if not delta:
        raise click.UsageError(f"--filter {kind} needs --delta")
    made: dict[str, Callable[..., PrivacyFilter]] = {
        "renyi": RDPFilter.for_target,
        "zcdp": ZCDPFilter.for_target,
        "gaussian": GDPFilter.for_target,
    }
    return made[kind](epsilon, delta, adjacency=adjacency)


@ledger_command.command("show")
@_place
@option(
    "--delta D",
    Real(0.0, 1.0, high_open=True),
    "The δ of the ε that the budget stands for. Default: 1e-6, or 0 for --filter pure.",
)
@option("--last N", Count(0), "Number of charges to show, the last ones. Default: 20.")
@together(_timeout, file_option("json", "Write budget and all charges as JSON ('-': to the standard output)."))
def show(place: str, last: int | None, json_file: str | None, **given: Any) -> int:
    """Show the budget, what is spent and left, and who charged what and when.

    It needs no right to write. Times are those of the machines that charged, in UTC.

    \b
    Examples:
      hockeystick ledger show budget.db
      hockeystick ledger show budget.db --json -

    Exit status: 0, or 2 if the ledger can't be read or is damaged.
    """
    from hockeystick.accounting import PureFilter

    ledger = _opened(place, given)
    budget, charges = ledger.budget(), ledger.charges()
    shown = charges[max(0, len(charges) - (_SHOWN if last is None else last)) :]
    delta = given["delta"]
    if delta is None:
        delta = 0.0 if isinstance(budget, PureFilter) else 1e-6
    if json_file is not None:
        _write(json_file, _content(place, budget, charges))
    parts: list[Any] = _budget_lines(budget, delta)
    number = "1 charge" if len(charges) == 1 else f"{len(charges)} charges"
    parts.append(number + (f", the last {len(shown)}:" if 0 < len(shown) < len(charges) else ""))
    if shown:
        from rich.table import Table
        from rich.text import Text  # others wrote them: no markup

        table = Table("charge", "when", "who", "event", "times", "note")
        for one in shown:
            texts = (one.when[:19], one.who, str(one.event), str(one.count), one.note)
            table.add_row(str(one.number), *(Text(one_line(text)) for text in texts))
        parts.append(table)
    print_report(*parts, err=json_file == "-")
    return 0


@ledger_command.command("charge")
@_place
@click.argument("event", type=EventText())
@option("--count N", Count(1), "Charge it so many times. Default: 1.")
@option("--note TEXT", click.STRING, "What it is for. It must not tell anything of the data.")
@together(_who, _timeout)
def charge(place: str, event: PrivacyEvent, count: int | None, note: str | None, who: str | None, **given: Any) -> int:
    """Charge the cost of a release that another program will make.

    EVENT is written as in Python: 'Gaussian(40)' for a standard deviation of 40 sensitivities, 'PureDP(0.1)'. When the
    command ends with 0, the charge is on disk, and the noise may be drawn.

    \b
    Examples:
      hockeystick ledger charge budget.db 'Gaussian(40)' --count 7 --note 'week 12'

    Exit status: 0, or 2 if there is no room or the charge could not be stored: then nothing may be drawn.
    """
    ledger = _opened(place, given, who=who)
    print_report(_receipt(ledger.reserve(event, count=count or 1, note=note or "")))
    return 0


@ledger_command.command("verify")
@_place
@together(_timeout)
def verify(place: str, **given: Any) -> int:
    """Read all of a ledger again, and check the database, every digest and the sum.

    The last digest covers the whole ledger. Keep a copy elsewhere: it shows whether an older file took its place.

    \b
    Examples:
      hockeystick ledger verify budget.db

    Exit status: 0 if all holds, otherwise 2.
    """
    print_report(f"all holds: {_receipt(_opened(place, given).verify())}")
    return 0


@ledger_command.command("export")
@_place
@together(file_option("json", "Where to write it. Default: the standard output."), _timeout)
def export(place: str, json_file: str | None, **given: Any) -> int:
    """Write the budget and all charges, with their digests, as JSON.

    \b
    Examples:
      hockeystick ledger export budget.db --json charges.json

    Exit status: 0, or 2 if the ledger can't be read or is damaged.
    """
    ledger = _opened(place, given)
    _write(json_file or "-", _content(place, ledger.budget(), ledger.charges()))
    return 0


@ledger_command.command("import")
@click.argument("old", metavar="OLD", type=FileName("state"))
@_place
@together(_who, _timeout)
def import_command(old: str, place: str, who: str | None, **given: Any) -> int:
    """Move a ledger of an earlier version, a text file, to a new place; once.

    The old file becomes OLD.imported, so that nobody goes on spending there. OLD may also be an evidence ledger of
    pytest --privacy-ledger; it is moved to a file.

    \b
    Examples:
      hockeystick ledger import budget.jsonl budget.db
      hockeystick ledger import privacy-evidence.json privacy-evidence.db

    Exit status: 0, or 2 if the old file is damaged or the new one exists: then nothing was moved.
    """
    from hockeystick.accounting import DurableLedger

    if _is_evidence(old):
        if "://" in place:
            raise click.UsageError("an evidence ledger is a file: give the name of one in place of a URL")
        from hockeystick.audits import EvidenceLedger

        moved = EvidenceLedger.import_text(old, place, **_waiting(given))
        note(f"{old} is now {old}.imported")
        print_report(f"moved the evidence on {len(moved.evidence())} keys, at level {moved.alpha:g}")
        return 0
    ledger = DurableLedger.import_text(old, place, who=who, **_waiting(given))
    note(f"{old} is now {old}.imported")
    print_report(f"moved {_receipt(ledger.verify())}")
    return 0


def _is_evidence(old: str) -> bool:
    """Whether a file begins as an evidence ledger of the first version."""
    from hockeystick.accounting.files.reading import UnreadableFileError, opened

    try:
        with opened(old) as file:
            return file.read(64).startswith(b'{"kind": "hockeystick evidence"')
    except UnreadableFileError:
        return False  # the import says why


def _opened(place: str, given: dict[str, Any], who: str | None = None) -> DurableLedger:
    from hockeystick.accounting import DurableLedger

    return DurableLedger.open(place, who=who, **_waiting(given))


def _waiting(given: dict[str, Any]) -> dict[str, Any]:
    return {} if given["timeout"] is None else {"timeout": given["timeout"]}


def _receipt(receipt: Receipt) -> str:
    return f"charge {receipt.number}, digest {receipt.digest}"


def _budget_lines(budget: PrivacyFilter, delta: float) -> list[Any]:
    from rich.table import Table

    total, left = budget.total(), budget.remaining()
    failure = total.pop("failure_delta")
    table, names = Table("budget", "total", "spent", "left"), list(total)
    if len(names) > 1:  # of Rényi orders, one must have room
        names = [max(names, key=lambda name: left[name] / total[name] if total[name] else 0.0)]
    for name in [*names, *["failure_delta"] * (failure > 0.0)]:
        whole = total.get(name, failure)
        table.add_row(name, f"{whole:.6g}", f"{whole - left[name]:.6g}", f"{left[name]:.6g}")
    whole_budget = f"all of it: ε = {budget.epsilon(delta):.6g} at δ = {delta:g}"
    lines: list[Any] = [f"{type(budget).__name__} under {budget.adjacency.value}", whole_budget, table]
    if len(total) > 1:
        lines.append(f"the order with the most room, of {len(total)}")
    return lines


def _content(place: str, budget: PrivacyFilter, charges: Any) -> dict[str, Any]:
    from hockeystick.accounting.events.event_json import event_to_json

    left = budget.remaining()
    return {
        "command": "ledger",
        "ledger": place.split("@")[-1],
        "filter": type(budget).__name__,
        "adjacency": budget.adjacency.value,
        "budgets": {name: {"total": total, "left": left[name]} for name, total in budget.total().items()},
        "charges": [
            {
                "number": one.number,
                "when": one.when,
                "who": one.who,
                "event": event_to_json(one.event),
                "count": one.count,
                "note": one.note,
                "digest": one.digest,
            }
            for one in charges
        ],
    }


def _write(file: str, content: dict[str, Any]) -> None:
    text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    if file == "-":
        print_bytes(text.encode("utf-8", errors="backslashreplace"))
    else:
        write(output_file("--json", file), text)
