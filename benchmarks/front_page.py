"""The picture of a verdict on the front page: an audit of the mean that nobody clipped.

    python -m benchmarks.front_page --write

prints the verdict, and writes ``docs/figures/verdict.svg``: how often each output appears on the two data sets, and the
attack of the verdict beside the attacks that the claim allows.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

import hockeystick as hs
from benchmarks.frame import svg

PICTURE = Path(__file__).parents[1] / "docs" / "figures" / "verdict.svg"
CLAIMED = 1.0
BLUE, ORANGE, GREY = "#3a86c8", "#d9622b", "#7a8791"  # told apart by readers who see no red or no green


def mean_age(ages: Any, rng: np.random.Generator, runs: int) -> Any:
    """The mean of README.md, many at once."""
    return ages.mean() + rng.laplace(scale=2.0, size=runs)


def draw(figure: Any) -> hs.Verdict:
    """Audits the mean, and draws the outputs and the attack."""
    ages = np.full(50, 40.0)
    pair = (ages, np.append(ages, 250.0))
    verdict = hs.audit(mean_age, claim=hs.Claim(CLAIMED), neighbours=pair, rng=1, confidence=1 - 1e-6)
    outputs = [mean_age(data, np.random.default_rng(seed), 100_000) for seed, data in enumerate(pair)]
    left, right = figure.subplots(1, 2, gridspec_kw={"width_ratios": (3, 2)})
    bins = np.linspace(30.0, 54.0, 97)
    labels = ("50 people of 40", "and one entry of 250")
    for values, label, colour in zip(outputs, labels, (BLUE, ORANGE), strict=True):
        left.hist(values, bins, density=True, histtype="step", lw=1.6, color=colour, label=label)
    name, sign, threshold = verdict.event_exact.split(" ")  # it is about one number
    begins = bins[0] if sign == "<" else float(threshold)
    left.axvspan(begins, float(threshold) if sign == "<" else bins[-1], color=GREY, alpha=0.2, lw=0)
    left.annotate(f"event: {verdict.event}", (begins + 0.4, 0.235), color="#444444")
    left.set(xlim=(bins[0], bins[-1]), yticks=(), xlabel=name)
    left.legend(frameon=False, loc="upper left")
    fpr, fnr = verdict.count_q / verdict.trials, 1 - verdict.count_p / verdict.trials
    x = np.linspace(0.0, 1.0, 201)
    allowed = np.maximum(0.0, np.maximum(1 - np.exp(CLAIMED) * x, np.exp(-CLAIMED) * (1 - x)))
    right.plot(x, allowed, color=BLUE, label=f"claimed: ε = {CLAIMED:g}")
    right.fill_between(x, 0.0, allowed, color=BLUE, alpha=0.12, lw=0)
    right.plot([fpr], [fnr], "o", color=ORANGE, label="the event that was found")
    right.annotate("no attack may\nbe in here", (0.08, 0.12), color="#444444")
    right.set(xlim=(0, 1), ylim=(0, 1), xlabel="false alarms", ylabel="misses")
    right.legend(frameon=False, loc="upper right")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    return verdict


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the picture")
    given = parser.parse_args()
    found: list[hs.Verdict] = []
    picture = svg(lambda figure: found.append(draw(figure)))
    print(found[0])
    if given.write:
        PICTURE.write_text(picture, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
