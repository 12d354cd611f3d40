"""``hockeystick audit --search``: the two data sets are searched for in a domain, and audited with other samples."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import attrs
import click

from hockeystick._cli.frame.option_types import Command, Count, DataText, together
from hockeystick._cli.frame.streams import Progress, print_report

if TYPE_CHECKING:
    from rich.console import RenderableType

    from hockeystick.audits import Domain, SearchedAudit, SearchResult

OPTIONS = ("adjacency", "group", "search_samples", "finalists")
"""Parameters that go with ``--search`` alone."""

_RELATIONS = ("add-or-remove-one", "replace-one", "replace-with-null", "local")
_KINDS = ("counts", "histogram", "sums")
_SHOWN = 10  # pairs in the JSON, and half of them in the terminal
_WIDTH = 60  # of a data set in the terminal


def search_options() -> Callable[[Command], Command]:
    """``--search`` and what goes with it."""
    return together(
        click.option(
            "--search",
            metavar="DOMAIN",
            type=DataText(),
            help="Search the data sets of DOMAIN for the worst neighbours; see below.",
        ),
        click.option(
            "--adjacency", type=click.Choice(_RELATIONS), help="With --search: which data sets the claim relates."
        ),
        click.option(
            "--group", metavar="K", type=Count(1), help="With --search: records that may differ; 1 without it."
        ),
        click.option(
            "--search-samples",
            metavar="N",
            type=Count(1),
            help="With --search: outputs for it from each data set, over all pairs; 100,000 without it.",
        ),
        click.option(
            "--finalists", metavar="F", type=Count(1), help="With --search: pairs to audit; the best alone without it."
        ),
    )


# --- domains ---------------------------------------------------------------------------------------------------------


def load_domain(text: str) -> Domain:
    """Returns the domain that ``--search`` names: the kind of answers, JSON, a .json file, or MODULE:NAME.

    Raises:
      InvalidArgumentError: it is none of these.
      TargetImportError: the module's own code raised an error.
    """
    from hockeystick._files.named_callables import load_data
    from hockeystick.audits import Answers

    if text in _KINDS:
        return Answers(kind=text)
    if is_module(text):
        return _from_module(text)
    return _from_json(text, load_data("--search", text))


def is_module(text: str) -> bool:
    """Says whether ``--search`` names a MODULE:NAME."""
    return re.fullmatch(r"[^\[{\"]*:[^\W\d][\w.]*", text) is not None


def _from_json(text: str, plain: Any) -> Domain:
    from hockeystick.accounting import InvalidArgumentError
    from hockeystick.audits import Answers, FiniteRecords, RealRecords

    remedy = (
        """write for example '[0, 1]', '{"low": 0, "high": 1}', '{"answers": "counts", "size": 3}' or module:name"""
    )
    if isinstance(plain, list):
        plain = {"values": plain}
    if not isinstance(plain, dict):
        raise InvalidArgumentError("--search", text, "describes no data sets", remedy)
    given = dict(plain)
    kind: Any
    if "answers" in given:
        given["kind"], kind = given.pop("answers"), Answers
    else:
        kind = FiniteRecords if "values" in given else RealRecords
    fields = {one.name: one.default is attrs.NOTHING for one in attrs.fields(kind) if one.init}
    wrong = [name for name in given if name not in fields]
    missing = [name for name, needed in fields.items() if needed and name not in given]
    if wrong or missing:
        what = f"has an unknown {wrong[0]!r}" if wrong else f"lacks {missing[0]!r}"
        known = ", ".join("answers" if name == "kind" else name for name in fields)
        raise InvalidArgumentError("--search", text, f"{what}; {kind.__name__} has {known}", remedy)
    try:
        found: Domain = kind(**given)
    except InvalidArgumentError as error:
        raise InvalidArgumentError("--search", text, f"{error.argument} {error.reason}", error.remedy) from None
    return found


def _from_module(text: str) -> Domain:
    """A domain, a function without arguments that returns one, or one f(rng) that returns two data sets."""
    from hockeystick._files.named_callables import load_object
    from hockeystick.accounting import InvalidArgumentError
    from hockeystick.audits import PairsFrom

    try:
        named = load_object(text)
        if callable(named) and not _is_domain(named):
            required = [
                one
                for one in inspect.signature(named).parameters.values()
                if one.default is one.empty and one.kind <= one.POSITIONAL_OR_KEYWORD
            ]
            named = PairsFrom(random=named) if len(required) == 1 else named() if not required else named
    except InvalidArgumentError as error:
        if error.argument != "target":
            raise
        raise InvalidArgumentError("--search", text, error.reason, error.remedy) from None
    if not _is_domain(named):
        remedy = "name a domain, a function that returns one, or f(rng) that returns two neighbouring data sets"
        raise InvalidArgumentError("--search", text, f"is of type {type(named).__name__} and no domain", remedy)
    found: Domain = named
    return found


def _is_domain(value: object) -> bool:
    methods = ("canonical", "random_pair", "mutate", "check")
    return not isinstance(value, type) and all(callable(getattr(value, name, None)) for name in methods)


# --- the search and the audit ----------------------------------------------------------------------------------------


def audit_worst(
    target: Any,
    name: str,
    domain: Domain,
    claim: tuple[float, float],
    progress: Progress,
    *,
    adjacency: str,
    **options: Any,
) -> SearchedAudit:
    """Searches, then audits; shows which of them is under way."""
    from hockeystick.accounting import Adjacency
    from hockeystick.audits import Claim, audit_with_search

    stage, last = 0, 0

    def show(done: int, total: int) -> None:
        nonlocal stage, last
        stage, last = stage + (done < last), done  # each begins from few
        words = f"searching neighbours for {name}" if stage == 0 else f"auditing {name} on pair {stage}"
        progress(words, done / total)

    progress(f"searching neighbours for {name}", 0.0)
    return audit_with_search(target, domain, Claim(*claim), adjacency=Adjacency(adjacency), progress=show, **options)


def content(found: SearchedAudit, domain: str) -> dict[str, Any]:
    """Returns what the JSON says of the search; none of it is a bound, but for the finalists' verdicts."""
    best = found.search.best.pair
    return {
        "domain": domain,
        "adjacency": best.adjacency.value,
        "group": best.group,
        "seed": found.search.seed,
        "samples": found.search.samples,
        "pairs_searched": len(found.search.pairs),
        "pairs_that_raised": len(found.search.failures),
        "history": [list(step) for step in found.search.history],
        "confidence": found.confidence,
        "finalists": [
            {**_sides(pair), "why": pair.why, "verdict": verdict.to_dict()}
            for pair, verdict in zip(found.pairs, found.verdicts, strict=True)
        ],
        "pairs": [
            {
                **_sides(rated.pair),
                "score": rated.score,
                "event": rated.event,
                "samples": rated.samples,
                "origin": rated.origin,
            }
            for rated in found.search.pairs[:_SHOWN]
        ],
    }


def show_search(found: SearchedAudit, *, err: bool) -> None:
    """Prints what was searched, below the verdict."""
    search, best = found.search, found.search.best.pair
    raised = f", {len(search.failures)} set aside on which the target raised" if search.failures else ""
    lines = (
        f"searched {len(search.pairs)} pairs under {best.adjacency.value}"
        f"{f' in groups of {best.group}' if best.group > 1 else ''} with {search.samples:,} outputs from each data set"
        f"{raised}; seed {search.seed}.\n"
        f"audited {len(found.pairs)} with other outputs, at a joint confidence of {found.confidence:.10g}. Scores only "
        "guide the search; the verdict alone bounds."
    )
    print_report("", lines, _table(search), err=err)


def _table(search: SearchResult) -> RenderableType:
    from rich import box
    from rich.table import Table

    drawn = Table(box=box.SIMPLE_HEAD)
    for name in ("score", "outputs"):
        drawn.add_column(name, justify="right")
    for name in ("found as", "d0", "d1"):
        drawn.add_column(name, overflow="fold")
    for rated in search.pairs[: _SHOWN // 2]:
        sides = [text if len(text) <= _WIDTH else text[: _WIDTH - 3] + "..." for text in _sides(rated.pair).values()]
        drawn.add_row(f"{rated.score:.3g}", f"{rated.samples:,}", rated.origin, *sides)
    return drawn


def _sides(pair: Any) -> Mapping[str, str]:
    return {"d0": as_text(pair.d0), "d1": as_text(pair.d1)}


def as_text(data: Any) -> str:
    """Returns a data set as JSON, which ``--d0`` takes; in Python's words if JSON has none for it."""
    plain = data.tolist() if hasattr(data, "tolist") else data
    try:
        return json.dumps(plain, ensure_ascii=False)
    except (TypeError, ValueError):
        return repr(data)
