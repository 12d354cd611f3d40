"""Random certificates of the accountant, checked by the independent checker: none may be refuted.

    python -m benchmarks.accountants.certificates [--number 2000] [--first 0] [--seconds 20] [--journal FILE]

Number i is the same graph, group and δ in every run. Its verdict is written to the journal as soon as it is known, and
a later run goes on from there. At the end come the numbers of verdicts, and all certificates that were refuted or not
decided: each is a defect of the accountant or of the checker, or names an event that the checker has no rule for. The
exit status is 1 if any was refuted. Needs the extra ``verify``.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import hockeystick as hs
from hockeystick.accounting import AccountantGraph, Adjacency, HockeystickError, PrivacyEvent, Reach

DELTAS = (1e-20, 1e-12, 1e-9, 1e-7, 1e-6, 1e-5, 1e-3)
ev = hs.events

Draw = Callable[[Random], PrivacyEvent]


def _scale(coins: Random, low: float, high: float) -> float:
    return float(f"{low * (high / low) ** coins.random():.3g}")


PRESENCE: tuple[Draw, ...] = (
    lambda c: ev.Gaussian(_scale(c, 1, 30)),
    lambda c: ev.Laplace(_scale(c, 2, 50)),
    lambda c: ev.PoissonSampled(_scale(c, 0.003, 0.3), ev.Gaussian(_scale(c, 0.7, 4))),
    lambda c: ev.BoundedRange(_scale(c, 0.01, 0.5)),
    lambda c: ev.PureDP(_scale(c, 0.01, 0.5)),
    lambda c: ev.ApproximateDP(_scale(c, 0.01, 0.5), 1e-12),
    lambda c: ev.LogLipschitz(_scale(c, 0.02, 0.5), _scale(c, 0.02, 0.5)),
    lambda c: ev.VisibleMixture(_scale(c, 0.02, 0.5), ev.Laplace(_scale(c, 1, 9))),
    lambda c: ev.DiscreteLaplace(_scale(c, 2, 20)),
    lambda c: ev.DiscreteGaussian(_scale(c, 1, 9)),
    lambda c: ev.LazySwitchDecision(_scale(c, 0.3, 0.99), _scale(c, 0.01, 0.2)),
    lambda c: ev.ZCDP(_scale(c, 1e-4, 0.05)),
    lambda c: ev.PermuteAndFlip(_scale(c, 0.02, 0.3)),
    lambda c: ev.AboveThreshold(_scale(c, 5, 50), _scale(c, 10, 90)),
)
CHANGE: tuple[Draw, ...] = (
    lambda c: ev.Gaussian(_scale(c, 1, 30)),
    lambda c: ev.RandomizedResponse(_scale(c, 0.05, 0.5), c.choice((2, 3, 9))),
    lambda c: ev.UnaryEncoding(_scale(c, 0.4, 0.6), _scale(c, 0.2, 0.39)),
    lambda c: ev.Laplace(_scale(c, 2, 50)),
    lambda c: ev.DiscretePair((0.5, 0.3, 0.2), (0.4, 0.35, 0.25)),
)
COUNTS = (1, 1, 2, 5, 20, 100, 1000)


def drawn(number: int) -> tuple[AccountantGraph, int, float]:
    """Returns a graph, the size of a group, and δ."""
    coins = Random(number)
    local = coins.random() < 0.2
    graph = AccountantGraph(Adjacency.LOCAL if local else Adjacency.ADD_OR_REMOVE_ONE)
    size = coins.choice((1, 1, 1, 4))
    graph = graph.source("d", size)
    for i in range(coins.choice((1, 1, 2, 3))):
        event = coins.choice(CHANGE if local else PRESENCE)(coins)
        reach = coins.choice((Reach(0, 0), Reach(0, 1), Reach(0, None))) if size > 1 and coins.random() < 0.7 else None
        graph = graph.release(f"r{i}", event, reads=["d"], count=coins.choice(COUNTS), reach=reach)
    return graph, coins.choice((1, 1, 1, 2, 3)), coins.choice(DELTAS)


def verdict_of(number: int, seconds: float) -> dict[str, Any]:
    """Writes and checks the certificate of a number."""
    from hockeystick_verify import check

    graph, group, delta = drawn(number)
    start = time.process_time()
    try:
        text = graph.guarantee(group=group).certificate(delta, privacy_unit="a row").to_json()
    except HockeystickError as error:
        return {"number": number, "verdict": "no certificate", "reason": str(error)[:200]}
    written = time.process_time() - start
    verdict = check(text.encode(), quick=True, seconds=seconds)
    (point,) = verdict.points
    told = {name: getattr(point, name) for name in ("epsilon", "delta", "lower", "upper", "route", "reason")}
    content = json.loads(text)
    method = content["curve"][content["headline"]]["method"]
    times = {"written": round(written, 2), "checked": round(verdict.seconds, 2)}
    return {"number": number, "verdict": verdict.verdict, "method": method, **told, **times}


def main(arguments: list[str] | None = None) -> int:
    """Checks all certificates that the journal lacks, and prints the summary."""
    parser = argparse.ArgumentParser("benchmarks.accountants.certificates")
    parser.add_argument("--number", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--journal", type=Path, default=Path("certificates.jsonl"))
    given = parser.parse_args(arguments)
    lines = given.journal.read_text(encoding="utf-8").splitlines() if given.journal.exists() else []
    found = {row["number"]: row for row in map(json.loads, lines)}
    wanted = range(given.first, given.first + given.number)
    with given.journal.open("a", encoding="utf-8") as journal:
        for number in wanted:
            if number not in found:
                found[number] = verdict_of(number, given.seconds)
                journal.write(json.dumps(found[number]) + "\n")
                journal.flush()
    rows = [found[number] for number in wanted]
    for row in rows:
        if row["verdict"] not in ("verified", "no certificate"):
            print(json.dumps(row))
    print(dict(Counter(row["verdict"] for row in rows)))
    return int(any(row["verdict"] == "refuted" for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
