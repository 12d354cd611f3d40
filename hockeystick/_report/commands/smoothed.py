"""The report of ``hockeystick run smoothed-online``: the regret, its bounds, and the size of the cover."""

from __future__ import annotations

from hockeystick._report.parts.content import Cell, Mark, Report, Result, Section
from hockeystick._report.parts.guarantee_sections import learner_graph_sections
from hockeystick._report.parts.learner_sections import Draw, Facts
from hockeystick._words.figures import exact, number, upper, whole

_BOUNDS = {
    "cover": "any cover of this size (O1), adaptive adversaries",
    "brackets": "one member of each bracket (O2), adaptive adversaries",
    "coupling": "by VC dimension only, adaptive adversaries, at sigma/T",
    "nonadaptive": "Theorem 3.1, distributions fixed in advance, at sigma/T",
}


def smoothed_report(result: Result) -> Report:
    """Returns the report on a plan or on simulated games."""
    played = result["mode"] == "simulation"
    sections: tuple[Section, ...] = (
        Section("Regret bounds", facts=_bounds(result)),
        Section("Learner", facts=_learner(result)),
    )
    if played:
        sections = (Section("Outcome", facts=_outcome(result)), *sections)
    title = f"Smoothed online learning of {result['class']}: {'simulated games' if played else 'plan'}"
    return Report(title, _headline(result), (*sections, *learner_graph_sections(result)))


REPORTS: dict[str, Draw] = {"smoothed-online": smoothed_report}


def _headline(result: Result) -> Mark:
    bound = f"at most {upper(result['regret_bound'])} in expectation"
    if result["mode"] == "plan":
        return Mark(f"regret {bound}, against every {exact(result['sigma'])}-smooth adversary", "plain")
    found = f"regret {number(result['regret'])} of {whole(result['rounds'])} rounds against '{result['adversary']}'"
    if not result["bound_applies"]:
        return Mark(f"{found}, which is less smooth than the bound requires", "doubt")
    return Mark(f"{found}; {bound}", "plain")


def _bounds(result: Result) -> Facts:
    rows: list[tuple[str, Cell]] = [("of this learner", upper(result["regret_bound"]))]
    rows += [(name, f"{upper(value)}: {_BOUNDS[name]}") for name, value in result["bounds"].items()]
    if result["regret_bound"] >= result["rounds"]:
        rows.append(("vacuous", Mark("the bound is above the number of rounds", "doubt")))
    rows.append(("lower bound", f"{number(result['regret_floor'])}, for every learner of thresholds"))
    return tuple(rows)


def _learner(result: Result) -> Facts:
    coarse = result["gamma"] > result["gamma_of_theory"]
    scale = f"{number(result['gamma'])}, the base mass of a bracket"
    gamma: Cell = Mark(f"{scale}; coarser than {number(result['gamma_of_theory'])}", "doubt") if coarse else scale
    return (
        ("class", f"{result['class']}, VC dimension {whole(result['vc_dimension'])}"),
        ("base measure", result["base_measure"]),
        ("sigma", exact(result["sigma"])),
        ("rounds", whole(result["rounds"])),
        ("variant", result["variant"]),
        ("gamma", gamma),
        ("cover", f"{whole(result['cover_size'])} predicates; {whole(result['brackets'])} brackets"),
        ("learning rate", number(result["learning_rate"])),
        ("privacy", f"{_draws(result)} for one round's example, if the draws are published: not meaningful"),
    )


def _draws(result: Result) -> str:
    rho = f"{upper(result['rho'])}-zCDP"
    if "epsilon" not in result:  # a file of an earlier version
        return rho
    return f"ε ≤ {upper(result['epsilon'])} at δ = {exact(result['delta'])} and {rho}"


def _outcome(result: Result) -> Facts:
    spread = "" if result["regret_error"] is None else f" ± {number(result['regret_error'])} (standard error)"
    kind = "adaptive" if result["adaptive"] else "fixed in advance"
    rows: list[tuple[str, Cell]] = [
        ("adversary", f"{result['adversary']}, {exact(result['adversary_sigma'])}-smooth, {kind}"),
        ("regret", f"{number(result['regret'])}{spread}, against the whole class in hindsight"),
        ("expected", f"{number(result['expected_regret'])}, over the learner's coins"),
        ("largest", f"{whole(result['regret_largest'])} of {whole(result['runs'])} runs"),
        ("errors", f"{number(result['errors'])}; the best predicate makes {number(result['least_errors'])}"),
    ]
    if "most_hits" in result:
        rows.append(
            ("most hits", f"{number(result['most_hits'])}, bound {upper(result['most_hits_bound'])} (Lemma 3.2)")
        )
    if "shares_above_half" in result:
        shares = sorted({float(share) for share in result["shares_above_half"]})
        rows.append(("points above 1/2", f"a share of {' or '.join(map(exact, shares))} after the first round"))
    return (*rows, ("seed", str(result["seed"])))
