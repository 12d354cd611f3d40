"""The table of the accounting benchmark, and its targets: PASS or FAIL."""

from __future__ import annotations

import math

from benchmarks.accountants.work import ITEMS, Item
from benchmarks.frame import Result, markdown, met_in_words

Results = dict[tuple[str, str, str], Result]  # (item, method, group)

COLUMNS = ("ours", "dpa_pld", "dpa_rdp", "prv", "opacus_prv", "opacus_rdp", "opacus_gdp", "autodp_rdp")
TITLES = {
    "ours": "hockeystick",
    "dpa_pld": "dp-accounting PLD",
    "dpa_rdp": "dp-accounting RDP",
    "prv": "prv_accountant",
    "opacus_prv": "Opacus PRV",
    "opacus_rdp": "Opacus RDP",
    "opacus_gdp": "Opacus GDP",
    "autodp_rdp": "autodp RDP",
}
SECTIONS = {
    "bench": "Work items",
    "sweep": "From δ = 1e-4 to 1e-15",
    "trees": "Random compositions",
}
SPEED = "<!-- speed -->"
"""From here to the end of its section the page is written by ``speed.py``."""
SAMPLED = "<!-- sampled_gaussians -->"
"""From here on the page is written by ``sampled_gaussians.py``."""
HOME = "dp_accounting"  # the environment in which the reference is computed
_BELOW = 1e-9  # relative; references are known better than that


def bounds_of(results: Results, item: Item) -> tuple[float, float] | None:
    """Returns the reference's two ends."""
    found = results.get((item.name, "reference", HOME), {})
    return (float(found["lower"]), float(found["value"])) if "value" in found else None


def is_below(value: float, ends: tuple[float, float] | None) -> bool:
    """Returns whether a value is below the lower end of the reference."""
    return ends is not None and value < ends[0] * (1 - _BELOW)


def best(results: Results, item: Item, method: str) -> Result | None:
    """Returns a method's result, from the environment in which it was fastest."""
    found = [r for (name, m, _), r in results.items() if (name, m) == (item.name, method) and "skip" not in r]
    return min(found, key=lambda r: r.get("cpu", math.inf)) if found else None


def table(results: Results, items: list[Item]) -> str:
    """Returns Markdown: relative excess over the reference (or the value where there is none), CPU time, memory."""
    parts = []
    columns = [c for c in COLUMNS if any(m == c and "skip" not in r for (_, m, _), r in results.items())]
    for section, title in SECTIONS.items():
        rows = []
        for item in items:
            if item.section == section:
                ends = bounds_of(results, item)
                name = item.name if section != "trees" else f"{item.name}, δ={item.delta:.1g}"
                known = f"{ends[1]:.9g}" if ends else "–"
                rows.append([name, known, *(_cell(best(results, item, c), ends) for c in columns)])
        if rows:
            parts += [f"## {title}\n", markdown(["item", "reference", *(TITLES[c] for c in columns)], rows), ""]
    return "\n".join(parts)


def _cell(result: Result | None, ends: tuple[float, float] | None) -> str:
    if result is None:
        return "–"
    if "value" not in result:
        return str(result["error"]).split(":")[0]
    value = float(result["value"])
    if ends is None or ends[1] == 0.0:
        text = f"{value:.6g}"
    elif math.isinf(value):
        text = "∞"
    else:
        text = f"{max(value / ends[1] - 1, 0.0) if not is_below(value, ends) else value / ends[0] - 1:+.1e}"
    if is_below(value, ends):
        text = f"**{text} below**"
    return f"{text}, {_time(float(result['cpu']))}, {result['mb']:.0f} MB"


def _time(seconds: float) -> str:
    if seconds < 0.01:
        return f"{seconds * 1e3:.2g} ms"
    return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.0f} s"


def targets(results: Results, items: list[Item]) -> list[tuple[str, bool | None, str]]:
    """Returns (target, whether it is met, evidence); None in place of a bool where cells are missing."""
    ours = {item.name: r for item in items if (r := best(results, item, "ours")) and "value" in r}
    known = {item.name: ends for item in items if (ends := bounds_of(results, item)) and ends[0] > 0.0}
    found: list[tuple[str, bool | None, str]] = []

    def add(target: str, values: dict[str, float], limit: float, unit: str) -> None:
        if not values:
            found.append((target, None, "no cells"))
            return
        worst = max(values, key=lambda name: values[name])
        found.append((target, values[worst] <= limit, f"{values[worst]:.3g}{unit} at {worst}"))

    named = {item.name: item for item in items}
    below = [name for name in ours if is_below(float(ours[name]["value"]), known.get(name))]
    found.append(
        ("no cell below the reference", not below if known else None, ", ".join(below) or f"{len(known)} cells")
    )
    apart, compared = [], 0
    for item in items:
        other = results.get((item.name, "grid", HOME), {})
        if item.name in known and math.isfinite(float(other.get("value", math.inf))):
            low, high = known[item.name]
            compared += 1
            if float(other["lower"]) > high * (1 + 1e-12) or float(other["value"]) < low * (1 - 1e-12):
                apart.append(item.name)
    met = not apart if compared else None
    found.append(("brackets of contour and grid meet", met, ", ".join(apart) or f"{compared} cells"))
    excess = {name: float(ours[name]["value"]) / known[name][1] - 1 for name in ours if name in known}
    for section in SECTIONS:
        part = {
            name: value
            for name, value in excess.items()
            if named[name].section == section and named[name].kind not in ("calibrate", "rdp", "divergence")
        }
        add(f"relative excess ≤ 1e-6, {SECTIONS[section]}", part, 1e-6, "")
    cpu = {name: float(result["cpu"]) for name, result in ours.items()}
    sgd = "DP-SGD q=.01 σ=.8 ×1000"
    add("DP-SGD ×1000 < 0.2 s", {k: v for k, v in cpu.items() if k == sgd}, 0.2, " s")
    peer = next((r for item in items if item.name == sgd and (r := best(results, item, "dpa_pld"))), {})
    if sgd in cpu and "cpu" in peer:
        ratio = cpu[sgd] / float(peer["cpu"])
        found.append(("DP-SGD ×1000 < 1/5 of dp-accounting PLD", ratio < 0.2, f"{ratio:.2g}"))
    add("mix of 20 < 0.8 s", {k: v for k, v in cpu.items() if k == "mix of 20"}, 0.8, " s")
    add("Gaussian of any count < 5 ms", {k: v for k, v in cpu.items() if k.startswith("gauss")}, 5e-3, " s")
    timed = ("divergence", "second", "calibrate")
    kinds = {kind: {k: v for k, v in cpu.items() if named[k].kind == kind} for kind in timed}
    add("an RDP evaluation of a sampled Gaussian < 5 ms", kinds["divergence"], 5e-3, " s")
    add("a second identical event < 1 ms", kinds["second"], 1e-3, " s")
    add("calibration of σ < 2 s", kinds["calibrate"], 2.0, " s")
    add("peak memory < 300 MB", {k: float(r["mb"]) for k, r in ours.items()}, 300.0, " MB")
    return found


def verdicts(found: list[tuple[str, bool | None, str]]) -> str:
    """Returns a Markdown table of the targets."""
    words = {True: "PASS", False: "FAIL", None: "SKIP"}
    return markdown(" | target | found", [(words[met], target, detail) for target, met, detail in found])


def page(results: Results, header: str) -> str:
    """Returns the page for the documentation."""
    met = [met for _, met, _ in targets(results, ITEMS) if met is not None]
    return f"""# Accounting: side by side

{met_in_words(met, "targets")} The library's ε must not be below the reference, nor more than 10⁻⁶ of it above.
DP-SGD of 1000 steps must take less than a fifth of the time of dp-accounting's PLD accountant.

Written by `python -m benchmarks.accountants.comparison --write`; edit that instead.

This page compares the ε, the time and the memory of several accountants. Each cell ran in a separate process, all in
one run on one machine. It shows the relative excess of ε (or σ) over the reference, the CPU time without imports and
with cold caches, and the peak memory of the process. **Below** marks a value under the reference's lower end, which is
an ε that is too small. The reference is contour inversion (`hockeystick.accounting.engines.contour_integral`), which
agrees with closed forms where they exist. Its bracket is usually a few parts in 1e9 wide. "–" means that the accountant
does not support the event or the quantity.

{header}

## Targets

{verdicts(targets(results, ITEMS))}

{table(results, ITEMS)} ## Settings of the other accountants

* dp-accounting PLD: grid of 1e-4, its default. For `pure` events the distribution itself is used, because the
  accountant drops their count.
* prv_accountant: the upper end, at an error of 0.01 in ε and of δ/1000 in δ.
* Opacus: only the accountants, without torch. GDP is an approximation and not a bound.
* autodp: Rényi accounting; its characteristic-function accountant does not run on current SciPy.
* Sampling without replacement: hockeystick charges the dominating pair, the others a Rényi bound.
"""
