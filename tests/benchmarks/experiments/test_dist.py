"""Tests of the experiments of online distribution learning at small sizes: their numbers and checks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from benchmark_scripts import benchmark
from benchmark_scripts import experiment_script as script

from hockeystick.learners.distribution.channels.candidates import LabelTable
from hockeystick.learners.distribution.channels.levels import CeiledBlocks

frame, families = benchmark("frame"), script("distribution.label_families")


def holds(report: Any, start: str) -> bool:
    """The check whose statement starts like this."""
    found = [value for statement, value in report.checks.items() if statement.startswith(start)]
    assert len(found) == 1, start
    return bool(found[0])


def drawn(report: Any) -> str:
    return str(frame.svg(report.draw))


# --- families --------------------------------------------------------------------------------------------------------


def test_easy_candidates_are_half_uniform() -> None:
    table = families.easy(4, copies=3).table()
    assert table.shape == (4, 12) and table[2, 6:9] == pytest.approx([0.625 / 3] * 3)
    assert families.unlearned(4, 10**6) == pytest.approx(0.3128e6, rel=2e-3)  # quoted
    assert families.unlearned(16, 10**6) == pytest.approx(0.812e6, rel=2e-3)


def test_ceilings_nearly_double_the_symbols_of_w() -> None:
    levels = CeiledBlocks().levels(families.family_w(2, 100), 100)
    assert isinstance(levels.hypotheses, LabelTable)
    assert levels.total > 2.9 and levels.span > math.log(200)


def test_distances_are_in_standard_errors() -> None:
    found = families.summary(np.array([1.0, 3.0]))
    assert found == {"risk": 2.0, "deviation": math.sqrt(2.0), "error": 1.0, "runs": 2.0}
    assert families.distance(found, 0.0, 2) == pytest.approx(math.sqrt(2.0))


def test_risks_repeat_with_the_seed() -> None:
    one, two = (families.easy_risk(4, 1000, 3, batch=2) for _ in range(2))
    assert one == two and one["risk"] < one["bound"]


# --- experiments -----------------------------------------------------------------------------------------------------


def test_printed_claims_are_refuted() -> None:
    report = script("distribution.dist_refutations").experiment(
        frame.Cells(), instances=((2, 100, 100),), horizons=(50, 70), labels=100
    )
    assert report.holds and "1.0619" in report.table
    assert "claimed" in drawn(report)


def test_a_failed_refutation_is_reported() -> None:
    """Twin: with the mixture's range the claim is true, and the experiment reports that."""
    module = script("distribution.dist_refutations")
    found = module.refuted(2, 100, 100)
    assert found["exact"]["mixture"] <= 1.0 + 1e-12 < found["printed"]
    assert module.excess(70, 0.01, 100)["factor"] == pytest.approx(1.064, abs=1e-3)


def test_the_accounting_experiment_holds() -> None:
    report = script("distribution.dist_accounting").experiment(
        frame.Cells(), cases=((4, 1.0, 1e-3),), shown=(4, 1.0, 1e-3)
    )
    assert report.holds and "4.284" in report.table
    assert "closed form" in drawn(report)


def test_the_slopes_experiment_holds() -> None:
    report = script("distribution.dist_slopes").experiment(
        frame.Cells(), rounds=(500, 1000, 2000), experts=(4, 8), runs=(4, 4), sweep=10**4, many=(4, 16)
    )
    assert holds(report, "every risk is below") and "no learning" in report.table


def test_the_experiment_of_published_learners_holds() -> None:
    module = script("distribution.dist_printed")
    report = module.experiment(frame.Cells(), rounds=(10**4,), runs=(4, 4, 2), vector_rounds=10**4)
    assert holds(report, "Algorithm 1 as published") and holds(report, "every risk")
    assert "no learning" in report.table and "random walk" in report.table


def test_the_random_walk_is_not_insensitive() -> None:
    """Another derivation of Algorithm 2's risk: at first that of no learning, then less and less of it."""
    module = script("distribution.dist_printed")
    shares = [
        module.diffusion(n, steps=300, runs=100)["risk"] / families.unlearned(4, n) for n in (10**5, 10**7, 10**9)
    ]
    assert 1.2 > shares[0] > shares[1] > shares[2] > 0.0
    assert shares[2] < 0.2


def test_the_labels_experiment_holds() -> None:
    report = script("distribution.dist_labels").experiment(
        frame.Cells(), copies=(1, 64), rounds=10**4, runs=(4, 4), unbounded_rounds=(100, 1000, 10**4)
    )
    assert holds(report, "every risk") and holds(report, "the part of the true law")
    assert "randomized-labels" in report.table and "one-bit" in report.table


def test_the_contexts_experiment_holds() -> None:
    report = script("distribution.dist_contexts").experiment(frame.Cells(), rounds=500, runs=(4, 4), variant_rounds=500)
    assert holds(report, "under every order") and holds(report, "the risk of every variant")


def test_no_candidate_agrees_with_the_truth_in_every_context() -> None:
    tables = np.asarray(script("distribution.dist_contexts").permuting().tables)
    agrees = np.isclose(tables, tables[:, :1]).all(axis=2)
    assert agrees[:, 0].all() and not agrees[:, 1:].all(axis=0).any() and agrees[:, 1:].any()


def test_the_lower_bound_experiment_holds() -> None:
    report = script("distribution.dist_lower_bound").experiment(
        frame.Cells(), rounds=(1000, 3000, 10**4), runs=(4, 4), epsilons=(0.5, 3.0)
    )
    assert holds(report, "risk lies above") and holds(report, "the information of every channel")


def test_a_channel_with_too_much_information_is_detected() -> None:
    """Twin: the labels themselves have more information than any private channel may have."""
    module = script("distribution.dist_lower_bound")
    hard = module.HadamardClass(module.PAIRS, lean=module.LEAN)
    assert hard.information(np.eye(8)) > hard.information_bound(0.1) > module.told("one bit", 0.1)["told"]


def test_the_selection_experiment_holds() -> None:
    report = script("distribution.dist_selection").experiment(
        frame.Cells(), experts=(4,), rounds=(1000, 4000), trials=(60, 4, 2), alpha=0.6
    )
    assert holds(report, "mean distances") and holds(report, "the median")
    assert "Scheffé" in report.table


def test_baselines_of_selection_find_the_truth() -> None:
    found = script("distribution.dist_selection").baselines(4, 10**5, 50)
    assert found == {"labels": 1.0, "tournament": 1.0}
    assert script("distribution.dist_selection").baselines(16, 10, 50)["tournament"] < 0.9


@pytest.mark.deep
def test_the_stream_experiment_holds() -> None:
    pytest.importorskip("sklearn")
    report = script("distribution.dist_stream").experiment(frame.Cells(), rounds=(300,), runs=2)
    assert holds(report, "realisable: risk") and "misspecified" in report.table
