"""The sources and assumptions that the graphs of all divergence estimators share."""

from __future__ import annotations

from hockeystick.accounting import AccountantGraph, Adjacency


def record_graph(group: int, *assumptions: str | None) -> AccountantGraph:
    """Returns a graph with the private source "records" and the public source "coins", without releases.

    Args:
        group: The number of records of one client whose symbols may be replaced.
        assumptions: Further assumptions of the guarantee; None is skipped.
    """
    unit = "one record" if group == 1 else f"{group} records of one client"
    return (
        AccountantGraph(
            adjacency=Adjacency.REPLACE_ONE,
            pinned=True,
            assumptions=(
                f"neighbours differ in the symbol of {unit}; how many records a client has is public",
                *(each for each in assumptions if each is not None),
            ),
        )
        .source("records")
        .public("coins")
    )
