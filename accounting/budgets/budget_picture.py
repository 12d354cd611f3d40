"""A picture of a budget over time: the share that was spent after each charge."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hockeystick.accounting.budgets.filters import PrivacyFilter
from hockeystick.accounting.pictures import GREY, axes_of, colour, line, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NAMED = 12  # the most charges that are named in the picture


def spent_share(budget: PrivacyFilter) -> float:
    """Returns the share of a filter's budget that is spent.

    Of several budgets of which one must hold, the one with most left counts, and beside it that of the failures.
    """
    left, total = budget.remaining(), budget.total()
    shares = {name: 1.0 - left[name] / total[name] for name in total if total[name] > 0.0}
    failures = shares.pop("failure_delta", 0.0)
    return max(min(shares.values(), default=0.0), failures)


def budget_axes(times: Sequence[datetime.datetime], shares: Sequence[float], notes: Sequence[str], ax: Any) -> Axes:
    """Returns the axes with the share that was spent.

    Args:
      times: of the charges, in order.
      shares: before the first charge, and after each.
      notes: what each was for.
      ax: axes, or None.
    """
    axes = axes_of(ax)
    if times:
        from matplotlib import dates

        at = [float(dates.date2num(time)) for time in times]  # type: ignore[no-untyped-call]
        span = (at[-1] - at[0]) or 1.0
        ends = at[0] - 0.05 * span, at[-1] + 0.2 * span
        line(axes, 0, [ends[0], *at, ends[1]], [*shares, shares[-1]], "spent", worse="left")
        axes.plot(at, list(shares[1:]), "o", ms=5, color=colour(0))
        for x, y, note in zip(at, shares[1:], notes, strict=True):
            if note and len(times) <= _NAMED:
                axes.annotate(note, (x, y), (5, 4), textcoords="offset points", fontsize="small")
        axes.xaxis_date()
        locator = dates.AutoDateLocator(maxticks=6)  # type: ignore[no-untyped-call]
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
    axes.axhline(1.0, color=GREY, ls=":", lw=1.5, label="all of it")
    axes.set_ylim(0.0, 1.1)
    axes.yaxis.set_major_formatter(lambda share, _: f"{100 * share:.0f} %")
    return tidy(axes, "time (UTC)" if times else "no charge yet", "share of the budget")
