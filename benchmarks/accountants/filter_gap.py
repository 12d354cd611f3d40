"""The gap between composition that is fixed in advance and filters, whose events are chosen as they go.

    python -m benchmarks.accountants.filter_gap [--write]

It writes a table of docs/budgets.md: the least ε at δ = 1e-6 for which a filter admits a plan. Later runs resume from
the results of earlier ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from benchmarks.frame import DOCS, Cells, Result, arguments, digest, markdown, replaced
from hockeystick.accounting import (
    Gaussian,
    GDPFilter,
    HockeystickError,
    PrivacyEvent,
    PrivacyFilter,
    PureDP,
    RDPFilter,
    ResidueFilter,
    ZCDPFilter,
    compose,
    epsilon,
)
from hockeystick.accounting.numerics.rounded_text import formatted_up

PAGE = DOCS / "budgets.md"
DELTA = 1e-6
PLANS: dict[str, tuple[PrivacyEvent, int]] = {
    "100 × PureDP(0.5)": (PureDP(0.5), 100),
    "20 × PureDP(1)": (PureDP(1.0), 20),
    "100 × Gaussian(10)": (Gaussian(10.0), 100),
}
KINDS: dict[str, type[ZCDPFilter] | type[RDPFilter] | type[GDPFilter] | type[ResidueFilter]] = {
    "zCDP filter": ZCDPFilter,
    "RDP filter": RDPFilter,
    "GDP filter": GDPFilter,
    "residue filter": ResidueFilter,
}
_CLOSE = 5e-4


def least(make: Callable[[float], PrivacyFilter], event: PrivacyEvent, count: int, low: float) -> float:
    """Returns an ε from ``low`` on for which the filter admits the plan, the least within 0.05 %; inf if none does."""

    def admits(target: float) -> bool:
        try:
            return not make(target).would_exceed(event, count=count)
        except HockeystickError:
            return False

    step = 1.01
    high = low * step
    while not admits(high):
        if high > 10 * low:
            return math.inf
        low, step = high, step**1.5
        high = low * step
    while high > low * (1 + _CLOSE):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if admits(middle) else (middle, high)
    return high


def cell(plan: str, kind: str) -> Result:
    """Returns the least ε of one plan with one filter, or fixed in advance."""
    event, count = PLANS[plan]
    fixed = epsilon(compose((event, count)), DELTA).upper
    if kind == "fixed in advance":
        return {"epsilon": fixed}

    def make(target: float) -> PrivacyFilter:
        if kind == "residue filter":
            return ResidueFilter.for_target(target, DELTA, uses=count)
        return KINDS[kind].for_target(target, DELTA)

    found = least(make, event, count, 0.999 * fixed)
    return {"epsilon": found if math.isfinite(found) else None}


def table(cells: Cells) -> str:
    """Returns the table of gaps."""
    kinds = ["fixed in advance", *KINDS]
    found = cells.each(cell, [(plan, kind) for plan in PLANS for kind in kinds], "gaps")
    rows = []
    for plan in PLANS:
        costs = [found[plan, kind]["epsilon"] for kind in kinds]
        rows.append((f"`{plan}`", *("none" if cost is None else formatted_up(cost, ".4f") for cost in costs)))
    return markdown(["plan", *kinds], rows)


def main() -> int:
    """Prints the table, and writes it to the page if asked for."""
    options = arguments(__doc__.splitlines()[0], page=PAGE.name).parse_args()
    sources = digest("accounting/budgets", "accounting/losses", "benchmarks/accountants/filter_gap.py")
    text = table(Cells(options.work / "filter_gap.jsonl", sources, quiet=False, workers=options.workers))
    print(text)
    if options.write:
        PAGE.write_text(replaced(PAGE.read_text(encoding="utf-8"), "gaps", text), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
