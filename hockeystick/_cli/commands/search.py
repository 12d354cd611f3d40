"""``hockeystick search``: searches a domain for the worst neighbours, and audits them with fresh samples."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from hockeystick._cli.frame.audit_options import (
    audit_arguments,
    auditing,
    check_checkpoint,
    point_options,
    status_of,
    target_argument,
    verdict_options,
    verdict_result,
    without_none,
)
from hockeystick._cli.frame.destinations import deliver, result_files
from hockeystick._cli.frame.option_types import Count, DataText
from hockeystick._cli.frame.shared_options import option, picked
from hockeystick._cli.frame.streams import Progress, print_report

if TYPE_CHECKING:
    from rich.console import RenderableType

    from hockeystick.audits import Domain, SearchedAudit, SearchResult

_RELATIONS = ("add-or-remove-one", "replace-one", "replace-with-null", "local")
_SHOWN = 10  # pairs in the JSON, and half of them in the terminal
_WIDTH = 60  # of a data set in the terminal


@click.command("search")
@target_argument()
@option("--domain DOMAIN", DataText(), "The data sets to search; see above.", required=True)
@option("--adjacency", click.Choice(_RELATIONS), "The neighbouring relation of the claim.", required=True)
@option("--group K", Count(1), "Number of records that may differ. Default: 1.")
@option(
    "--search-samples N",
    Count(1),
    "Number of outputs that the search draws, over all pairs, for d0 and again for d1. Default: 100,000.",
)
@option("--finalists F", Count(1), "Number of pairs to audit. Default: 1.")
@point_options()
@verdict_options("Number of outputs drawn for the verdict from each data set of an audited pair.")
def search_command(target: str, domain: str, **given: Any) -> int:
    """Find the neighbouring data sets on which a claim fails worst, and audit it there.

    The search rates pairs of neighbours on few outputs each, and draws more for the pairs that look worst. The verdict
    is about the best pair (or the best F, at a joint confidence level) and rests on fresh outputs. The function and the
    verdict are those of hockeystick audit, which takes two known data sets.

    \b
    Examples:
      hockeystick search mymech:count --domain counts --epsilon 1 \\
          --adjacency add-or-remove-one
      hockeystick search mymech:total --domain '{"values": [0, 1], "most": 50}' \\
          --adjacency replace-one --epsilon 1 --checkpoint search.db

    \b
    Data sets to search (DOMAIN):
      counts, histogram, sums              one exact answer, from 0 to 10
      '{"answers": "counts", "size": 3}'   three; also "low", "high", "sensitivity"
      '[0, 1, "x"]'                        lists of up to 20 of these values
      '{"values": [0, 1], "most": 50}'     up to 50; also "least", "null", "ordered"
      '{"low": -1, "high": 1}'             arrays of numbers in this range; also
                                           "dimension", "integral", and the above
      .json                                a file that holds one of these
      module:name                          a domain, a function that returns one,
                                           or f(rng) that returns two neighbours

    \b
    Exit status and outcomes:
      0  consistent: no violation found; the report states the detectable ε
      0  inconclusive (with a warning): too few samples for a useful statement
      1  refuted: the claim is false, at the stated confidence level
      2  could not run: unusable input, or the function raised an error
    """
    from hockeystick._cli.frame.search_domains import is_module, load_domain
    from hockeystick._files.named_callables import load_object, load_target, source_identity

    files = result_files(given)
    check_checkpoint(given)
    with auditing(target, given) as progress:
        loaded, searched = load_target(target), load_domain(domain)

        def identity() -> str:
            """Returns a text that identifies the target's and the domain's code."""
            found = source_identity(target, loaded)
            return found + "\n" + source_identity(domain, load_object(domain)) if is_module(domain) else found

        options = audit_arguments(given, identity)
        options |= without_none(picked(given, "adjacency", "group", "search_samples", "finalists"))
        found = _audit_worst(loaded, target, searched, (given["epsilon"], given["delta"]), progress, **options)
    pair = found.pair
    result = verdict_result(found.verdict, target, _as_text(pair.d0), _as_text(pair.d1), search=_content(found, domain))
    deliver(files, result)
    _show(found, err=files.stdout is not None)
    return status_of(result)


# --- the search and the audit ----------------------------------------------------------------------------------------


def _audit_worst(
    target: Any,
    name: str,
    domain: Domain,
    claim: tuple[float, float],
    progress: Progress,
    *,
    adjacency: str,
    **options: Any,
) -> SearchedAudit:
    """Searches, then audits, and shows the progress of both."""
    from hockeystick.accounting import Adjacency
    from hockeystick.audits import Claim, audit_with_search

    stage, last = 0, 0

    def show(done: int, total: int) -> None:
        nonlocal stage, last
        stage, last = stage + (done < last), done  # the count starts again with each stage
        words = f"searching neighbours for {name}" if stage == 0 else f"auditing {name} on pair {stage}"
        progress(words, done / total)

    progress(f"searching neighbours for {name}", 0.0)
    return audit_with_search(target, domain, Claim(*claim), adjacency=Adjacency(adjacency), progress=show, **options)


def _content(found: SearchedAudit, domain: str) -> dict[str, Any]:
    """Returns the search's part of the JSON; only the finalists' verdicts in it are bounds."""
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


def _show(found: SearchedAudit, *, err: bool) -> None:
    """Prints a summary of the search, below the verdict."""
    search, best = found.search, found.search.best.pair
    raised = f", and left out {len(search.failures)} on which the target raised an error" if search.failures else ""
    lines = (
        f"The search rated {len(search.pairs)} pairs under {best.adjacency.value}"
        f"{f' in groups of {best.group}' if best.group > 1 else ''} with {search.samples:,} outputs from each side"
        f"{raised}; seed {search.seed}.\n"
        f"The audit drew fresh outputs of {len(found.pairs)}, at a joint confidence level of {found.confidence:.10g}. "
        "Scores only guide the search; they are not bounds."
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
    return {"d0": _as_text(pair.d0), "d1": _as_text(pair.d1)}


def _as_text(data: Any) -> str:
    """Returns a data set as JSON, which ``--d0`` takes; its repr if it has no JSON."""
    plain = data.tolist() if hasattr(data, "tolist") else data
    try:
        return json.dumps(plain, ensure_ascii=False)
    except (TypeError, ValueError):
        return repr(data)
