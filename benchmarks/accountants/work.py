"""The work items of the accounting benchmark, as plain numbers that suit every library.

An event is (kind, parameters..., count):

    ("gauss", σ, n)          Gaussian noise of multiplier σ
    ("laplace", b, n)        Laplace noise of scale b
    ("sampled", q, σ, n)     Gaussian noise on a Poisson sample of rate q, add/remove
    ("pure", ε, n)           any ε-DP mechanism: binary randomised response

The result of an item is ε at δ, except for these kinds:

    "second"      the time of asking once more, for an equal event built anew
    "rdp"         ε by Rényi divergences alone, the best order searched
    "divergence"  the Rényi divergence at order 8.5, in the worse direction
    "group"       ε when two records change
    "wor"         ε of Gaussian noise (σ = 1 per replacement) on samples of 100 out of 10,000, 1000 times, replace-one
    "allocation"  ε of Gaussian noise (σ = 1) on one step of 1000, chosen at random by each record
    "calibrate"   σ at which 1000 steps of sampled Gaussian noise, q = 0.01, are (1, δ)-DP
"""

from __future__ import annotations

import random
from dataclasses import dataclass

Event = tuple[str | float, ...]


@dataclass(frozen=True)
class Item:
    """One row of the table."""

    name: str
    events: tuple[Event, ...]
    delta: float = 1e-6
    kind: str = "epsilon"
    section: str = "bench"


MIX20 = (
    *(("gauss", 10.0 + i, 1) for i in range(8)),
    *(("laplace", 20.0 + 2 * i, 1) for i in range(6)),
    *(("sampled", 0.01, 0.8 + 0.1 * i, 50) for i in range(6)),
)
_SWEPT: dict[str, tuple[Event, ...]] = {
    "gauss σ=1": (("gauss", 1.0, 1),),
    "gauss σ=100 ×1e4": (("gauss", 100.0, 10_000),),
    "DP-SGD q=.01 σ=.8 ×1000": (("sampled", 0.01, 0.8, 1000),),
    "DP-SGD q=1 σ=100 ×1e4": (("sampled", 1.0, 100.0, 10_000),),
    "laplace b=10 ×1000": (("laplace", 10.0, 1000),),
    "laplace b=76.19 ×109": (("laplace", 76.19, 109),),
    "pure ε=.1 ×100": (("pure", 0.1, 100),),
    "mix of 20": MIX20,
}
SWEEP = (1e-4, 1e-6, 1e-8, 1e-10, 1e-12, 1e-15)


def _trees(count: int) -> list[Item]:
    found = []
    for seed in range(count):
        rng = random.Random(seed)
        events: list[Event] = []
        for _ in range(rng.randint(1, 5)):
            n = rng.choice([1, 1, 3, 10, 100, 1000])
            noise = 10 ** rng.uniform(-0.2, 1.3) * n**0.5
            kind = rng.choice(["gauss", "laplace", "sampled", "pure"])
            if kind == "sampled":
                events.append((kind, 10 ** rng.uniform(-3, -0.5), max(0.6, noise / 3), n))
            else:
                events.append((kind, 1 / noise if kind == "pure" else noise, n))
        found.append(Item(f"tree {seed}", tuple(events), 10 ** rng.uniform(-14, -4), section="trees"))
    return found


ITEMS = [
    *(Item(f"gauss σ=1 ×{n:g}", (("gauss", 1.0, n),)) for n in (1, 10, 100, 1000, 100_000)),
    Item("gauss σ=100 ×1e4", (("gauss", 100.0, 10_000),)),
    Item("gauss σ=1e4 ×10", (("gauss", 1e4, 10),)),
    Item("DP-SGD q=.01 σ=.8 ×1000", (("sampled", 0.01, 0.8, 1000),)),
    Item("DP-SGD q=.01 σ=.8 ×1000, δ=1e-12", (("sampled", 0.01, 0.8, 1000),), 1e-12),
    Item("DP-SGD q=.01 σ=.8 ×1e4", (("sampled", 0.01, 0.8, 10_000),)),
    Item("DP-SGD q=.001 σ=1.1 ×1e5", (("sampled", 0.001, 1.1, 100_000),)),
    Item("DP-SGD q=1 σ=100 ×1e4, δ=1e-10", (("sampled", 1.0, 100.0, 10_000),), 1e-10),
    Item("DP-SGD q=1 σ=100 ×1e4, δ=1e-12", (("sampled", 1.0, 100.0, 10_000),), 1e-12),
    Item("laplace b=10 ×1000", (("laplace", 10.0, 1000),)),
    Item("pure ε=.1 ×100", (("pure", 0.1, 100),)),
    Item("mix of 20", MIX20),
    Item("group of 2, DP-SGD q=.01 σ=1 ×1000", (("sampled", 0.01, 1.0, 1000),), kind="group"),
    Item("one sampled Gaussian by RDP", (("sampled", 0.01, 0.8, 1),), kind="rdp"),
    Item("Rényi divergence of a sampled Gaussian", (("sampled", 0.01, 0.8, 1),), kind="divergence"),
    Item("a second, equal DP-SGD ×1000", (("sampled", 0.01, 0.8, 1000),), kind="second"),
    Item("WOR n=1e4 m=100 σ=1 ×1000", (), kind="wor"),
    Item("σ of DP-SGD q=.01 ×1000 at ε=1", (), kind="calibrate"),
    *(Item(f"{name} at δ={d:g}", events, d, section="sweep") for name, events in _SWEPT.items() for d in SWEEP),
    *_trees(20),
]
QUICK = (
    "gauss σ=1 ×10",
    "DP-SGD q=.01 σ=.8 ×1000",
    "mix of 20",
    "pure ε=.1 ×100",
    "tree 0",
    "DP-SGD q=.01 σ=.8 ×1000, δ=1e-12",
)
