"""``hockeystick search``: the two data sets are searched for in a domain, and audited with other samples."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from hockeystick._cli.frame.auditing import (
    auditing,
    check_checkpoint,
    for_the_library,
    known,
    status_of,
    target_argument,
    verdict_options,
    verdict_result,
)
from hockeystick._cli.frame.option_types import Count, DataText
from hockeystick._cli.frame.result_files import deliver, result_files
from hockeystick._cli.frame.shared_options import picked
from hockeystick._cli.frame.streams import Progress, print_report

if TYPE_CHECKING:
    from rich.console import RenderableType

    from hockeystick.audits import Domain, SearchedAudit, SearchResult

_RELATIONS = ("add-or-remove-one", "replace-one", "replace-with-null", "local")
_SHOWN = 10  # pairs in the JSON, and half of them in the terminal
_WIDTH = 60  # of a data set in the terminal


@click.command()
@target_argument()
@click.option(
    "--domain",
    required=True,
    metavar="DOMAIN",
    type=DataText(),
    help="The data sets to search for the worst neighbours; see above.",
)
@click.option("--adjacency", required=True, type=click.Choice(_RELATIONS), help="Which data sets the claim relates.")
@click.option("--group", metavar="K", type=Count(1), help="Records that may differ; 1 without it.")
@click.option(
    "--search-samples",
    metavar="N",
    type=Count(1),
    help="Outputs for the search from each data set, over all pairs; 100,000 without it.",
)
@click.option("--finalists", metavar="F", type=Count(1), help="Pairs to audit; the best alone without it.")
@verdict_options("Outputs drawn for the verdict, from each data set of a pair that is audited.")
def search(target: str, domain: str, **given: Any) -> int:
    """Find the data sets on which a function's claim fails worst, and audit it there.

    The search rates pairs of neighbours on few outputs, and most on the worst ones. The verdict is on the best pair (or
    on F, at one joint confidence) and rests on outputs that the search never saw. What the function may be, and what
    the verdict says, is as of hockeystick audit, which takes two data sets that are known.

    \b
    Examples:
      hockeystick search mymech:count --domain counts --epsilon 1 \\
          --adjacency add-or-remove-one
      hockeystick search mymech:total --domain '{"values": [0, 1], "most": 50}' \\
          --adjacency replace-one --epsilon 1 --checkpoint search.jsonl

    \b
    Data sets to be searched (DOMAIN):
      counts, histogram, sums              one exact answer, from 0 to 10
      '{"answers": "counts", "size": 3}'   three; also "low", "high", "sensitivity"
      '[0, 1, "x"]'                        lists of up to 20 of these values
      '{"values": [0, 1], "most": 50}'     up to 50; also "least", "null", "ordered"
      '{"low": -1, "high": 1}'             arrays of numbers in this range; also
                                           "dimension", "integral", and as above
      .json                                a file that holds one of these
      module:name                          a domain, a function that returns one,
                                           or f(rng) that returns two neighbours

    \b
    Exit status and outcomes:
      0  consistent: no violation found; the report says what would have been
      0  inconclusive (with a warning): too few samples to say anything useful
      1  refuted: the claim is false, with the stated confidence
      2  could not run: unusable input, or the function raised an error
    """
    from hockeystick._cli.commands.search_domains import is_module, load_domain
    from hockeystick._files.named_callables import load_object, load_target, source_identity

    files = result_files(given)
    check_checkpoint(given)
    with auditing(target, given) as progress:
        loaded, searched = load_target(target), load_domain(domain)

        def identity() -> str:
            """All code that is named: the target's, and the domain's."""
            found = source_identity(target, loaded)
            return found + "\n" + source_identity(domain, load_object(domain)) if is_module(domain) else found

        options = for_the_library(given, identity)
        options |= known(picked(given, "adjacency", "group", "search_samples", "finalists"))
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


def _content(found: SearchedAudit, domain: str) -> dict[str, Any]:
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


def _show(found: SearchedAudit, *, err: bool) -> None:
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
    return {"d0": _as_text(pair.d0), "d1": _as_text(pair.d1)}


def _as_text(data: Any) -> str:
    """Returns a data set as JSON, which ``--d0`` takes; in Python's words if JSON has none for it."""
    plain = data.tolist() if hasattr(data, "tolist") else data
    try:
        return json.dumps(plain, ensure_ascii=False)
    except (TypeError, ValueError):
        return repr(data)
