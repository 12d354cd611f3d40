"""The central ε of shuffled reports: the exact law, the bounds here, the strong clone and the published closed form.

The closed form is that of Feldman, McMillan & Talwar 2021, Theorem 3.1, where it applies. The law of the multiset of a
few reports is computed by enumeration of all data, without code of the library.
"""

from __future__ import annotations

import itertools
import math
import time
from typing import Any

import numpy as np

from benchmarks.frame import Cells, Report, markdown
from hockeystick import accounting
from hockeystick.accounting import LocalRandomizer

DELTA = 1e-6
SIZES = (10**2, 10**3, 10**4, 10**5, 10**6, 10**7, 10**8, 10**9)
LOCAL = (0.5, 1.0, 2.0, 4.0)
KINDS = ("2 reports", "4 reports", "16 reports", "Laplace", "any")
SHUFFLES = (1, 10, 100)
FEW = ((2, 1.0, 8), (2, 3.0, 8), (3, 1.0, 6), (3, 2.0, 6), (4, 2.0, 5))
_AT = 0.4


def _event(kind: str, local: float) -> accounting.PrivacyEvent:
    if kind == "Laplace":
        return accounting.Laplace(1.0 / local)
    if kind == "any":
        return accounting.PureDP(local)
    return LocalRandomizer.randomized_response(local, int(kind.split()[0]))


def central(kind: str, local: float, n: int, shuffles: int = 1) -> dict[str, Any]:
    """Returns ε at DELTA, the method and the CPU seconds."""
    started = time.process_time()
    found = accounting.epsilon(accounting.compose((accounting.Shuffled(_event(kind, local), n), shuffles)), DELTA)
    return {"epsilon": found.upper, "method": found.method, "seconds": time.process_time() - started}


def closed_form(local: float, n: int) -> float | None:
    """Returns the published closed form; None where it does not apply."""
    if local > math.log(n / (16 * math.log(2 / DELTA))):
        return None
    p = math.exp(local)
    inner = 8 * math.sqrt(p * math.log(4 / DELTA) / n) + 8 * p / n
    return math.log1p((p - 1) / (p + 1) * inner)


def exact(k: int, local: float, n: int) -> dict[str, float]:
    """Returns δ of n reports by k-ary randomised response at ε = 0.4: by enumeration, and the bound."""
    rows = LocalRandomizer.randomized_response(local, k).table()
    true = 0.0
    for others in itertools.combinations_with_replacement(range(k), n - 1):
        laws = []
        for x in (0, 1):
            law = {(0,) * k: 1.0}
            for who in (x, *others):
                longer: dict[tuple[int, ...], float] = {}
                for counts, mass in law.items():
                    for y in range(k):
                        more = (*counts[:y], counts[y] + 1, *counts[y + 1 :])
                        longer[more] = longer.get(more, 0.0) + mass * float(rows[who, y])
                law = longer
            laws.append(law)
        true = max(true, sum(max(mass - math.exp(_AT) * laws[1][y], 0.0) for y, mass in laws[0].items()))
    event = accounting.Shuffled(LocalRandomizer.randomized_response(local, k), n)
    return {"exact": true, "bound": accounting.delta(event, _AT).upper}


def experiment(
    cells: Cells,
    sizes: tuple[int, ...] = SIZES,
    local: tuple[float, ...] = LOCAL,
    few: tuple[tuple[int, float, int], ...] = FEW,
    shuffles: tuple[int, ...] = SHUFFLES,
) -> Report:
    """The central ε of shuffled reports by local ε, number of reports and kind of randomiser."""
    found = cells.each(central, [(kind, one, n) for kind in KINDS for one in local for n in sizes], "central")
    small = cells.each(exact, few, "enumerated")
    several = cells.each(central, [("2 reports", 1.0, 1000, each) for each in shuffles], "shuffles")
    rows = [
        [one, n, closed_form(one, n) or "–"] + [found[kind, one, n]["epsilon"] for kind in reversed(KINDS)]
        for one in local
        for n in sizes
    ]
    known = [(closed_form(one, n), found["any", one, n]["epsilon"]) for one in local for n in sizes]
    seconds = max(one["seconds"] for one in found.values())

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        for kind in KINDS:
            axes.loglog(sizes, [found[kind, 1.0, n]["epsilon"] for n in sizes], "o-", markersize=3, label=kind)
        published = [(n, value) for n in sizes if (value := closed_form(1.0, n)) is not None]
        axes.loglog(*zip(*published, strict=True), "k:", label="closed form, 2021")
        axes.set(xlabel="reports n", ylabel=f"central ε at δ = {DELTA:g}, local ε = 1")
        axes.legend()

    header = ["local ε", "n", "closed form", "any (strong clone)", "Laplace on [0, 1]"]
    header += ["16 reports", "4 reports", "2 reports"]
    enumerated = [[k, one, n, each["exact"], each["bound"]] for (k, one, n), each in small.items()]
    composed = [[key[3], one["epsilon"], one["method"]] for key, one in several.items()]
    return Report(
        [
            f"Central ε at δ = {DELTA:g}. The slowest cell took {seconds:.1f} CPU seconds.",
            markdown(header, rows),
            f"Every data set of a few persons enumerated: δ at ε = {_AT}.",
            markdown(["reports k", "local ε", "n", "exact δ", "bound"], enumerated),
            "Several shuffles of 1000 fresh reports of two kinds, at local ε = 1.",
            markdown(["shuffles", "central ε", "method"], composed),
        ],
        {
            "no bound is below the exact δ, and it is equal for two reports": all(
                one["exact"] <= one["bound"] * (1 + 1e-12) and (key[0] > 2 or one["bound"] <= one["exact"] + 1e-10)
                for key, one in small.items()
            ),
            "every bound is below the published closed form": all(
                value is None or ours <= value for value, ours in known
            ),
            "ε falls with the number of reports, and with what is known of the randomiser": all(
                np.all(np.diff([found[kind, one, n]["epsilon"] for n in sizes]) <= 0.0)
                and all(found[kind, one, n]["epsilon"] <= found["any", one, n]["epsilon"] * 1.002 for n in sizes)
                for kind in KINDS
                for one in local
            ),
        },
        draw,
        "Central epsilon against the number of reports, for five kinds of local randomisers.",
    )
