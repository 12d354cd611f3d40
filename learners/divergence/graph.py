"""How the graphs of divergence estimators begin: what neighbouring records differ in, and what is public."""

from __future__ import annotations

from hockeystick.accounting import AccountantGraph, Adjacency


def record_graph(group: int, *assumptions: str | None) -> AccountantGraph:
    """A graph with the private source "records" and the public source "coins", to which releases are to be added.

    Args:
        group: Records of one client whose symbols may be replaced.
        assumptions: What else the guarantee rests on; None is nothing.
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
