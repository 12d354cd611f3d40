"""Last iterates: published figures, exact laws of quadratics, Poisson samples, and conditions that fail.

    python -m benchmarks.accountants.last_iterates [--write]

It writes the tables of docs/last-iterate.md, and takes a minute of CPU time.
"""

from __future__ import annotations

import math

from benchmarks.frame import DOCS, arguments, markdown, replaced
from hockeystick.accounting import Gaussian, GaussianDP, PoissonSampled, compose, epsilon, last_iterate
from hockeystick.accounting.events.basic.composition import Composed
from hockeystick.accounting.numerics.rounded_text import formatted_up
from hockeystick.audits.catalogue.mechanisms.last_iterates import last_iterate_cases

PAGE = DOCS / "last-iterate.md"
DELTA = 1e-5
CYCLIC = tuple((c, epochs) for c in (0.9999, 0.9998) for epochs in (50, 100, 200))  # 40 batches, s/σ = 2/3
FULL = ((0.95, 10), (0.95, 160), (1.0, 100), (0.5, 1000))  # c, steps; s/σ = 0.1
SAMPLED = (  # steps, rate, s/σ, c, D/s
    (50, 0.1, 0.5, 0.9, math.inf),
    (400, 0.05, 0.5, 0.98, math.inf),
    (2000, 0.01, 0.5, 1.0, 10.0),
    (100_000, 0.01, 0.5, 1.0, 10.0),
    (100_000, 0.01, 0.5, 0.999, math.inf),
)


def closed_form(c: float, epochs: int, batches: int) -> float:
    """Returns μ·σ/s of the last batch by the closed form of Bok, Su & Altschuler 2024 for cyclic batches and c < 1."""
    later = (1 - c ** (batches * (epochs - 1))) / (1 + c ** (batches * (epochs - 1)))
    return math.sqrt(1 + c ** (2 * batches - 2) * (1 - c * c) / (1 - c**batches) ** 2 * later)


def cyclic() -> str:
    """Returns the table of cyclic batches."""
    rows = []
    for c, epochs in CYCLIC:
        event = last_iterate(Gaussian(1.5), 40 * epochs, contraction=c, batches=40)
        theirs = GaussianDP(closed_form(c, epochs, 40) / 1.5)
        found = [epsilon(one, DELTA).upper for one in (compose((Gaussian(1.5), epochs)), theirs, event)]
        rows.append((f"{c:g}", epochs, *(formatted_up(value, ".4f") for value in found)))
    return markdown(["c", "epochs", "all iterates", "last iterate, their closed form", "last iterate"], rows)


def full() -> str:
    """Returns the table of full batches, beside the exact law of a quadratic."""
    rows = []
    for c, steps in FULL:
        event = last_iterate(Gaussian(10.0), steps, contraction=c)
        assert isinstance(event, Gaussian)
        ours = 1.0 / event.noise_multiplier
        weights = [c**k for k in range(steps)]
        exact = 0.1 * math.fsum(weights) / math.sqrt(math.fsum(w * w for w in weights))
        rows.append((f"{c:g}", steps, f"{0.1 * math.sqrt(steps):.6f}", f"{ours:.9f}", f"{exact:.9f}"))
    return markdown(["c", "steps", "μ of all iterates", "μ of the last iterate", "exact μ of a quadratic"], rows)


def sampled() -> str:
    """Returns the table of Poisson samples."""
    rows = []
    for steps, rate, move, c, diameter in SAMPLED:
        step = PoissonSampled(rate, Gaussian(1 / move))
        event = last_iterate(step, steps, contraction=c, diameter=diameter)
        assert isinstance(event, Composed)
        charged = sum(count for _, count in event.parts)
        costs = [epsilon(one, DELTA).upper for one in (compose((step, steps)), event)]
        wide = "none" if math.isinf(diameter) else f"{diameter:g}"
        rows.append((steps, rate, f"{c:g}", wide, *(formatted_up(cost, ".4f") for cost in costs), charged))
    return markdown(["steps", "rate", "c", "diameter", "all iterates", "last iterate", "steps charged"], rows)


def conditions() -> str:
    """Returns the table of conditions that fail, from the cases of the catalogue."""
    rows = []
    for case in last_iterate_cases():
        if not case.broken:
            continue
        exact = "not known" if case.truth is None else f"{case.truth:.2f}"
        what = case.name.split("[")[1].rstrip("]")
        rows.append((what, f"{case.claim.epsilon:.2f}", exact, f"{case.samples:,}"))
    return markdown(["what fails", "claimed ε at δ = 10⁻⁶", "exact ε", "samples that refute"], rows)


def main() -> int:
    """Prints the tables, and writes them to the page if asked for."""
    options = arguments(__doc__.splitlines()[0], page=PAGE.name).parse_args()
    page = PAGE.read_text(encoding="utf-8")
    for name, table in (("cyclic", cyclic), ("full", full), ("sampled", sampled), ("conditions", conditions)):
        text = table()
        print(f"{text}\n")
        page = replaced(page, name, text)
    if options.write:
        PAGE.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
