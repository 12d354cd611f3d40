"""Tests of the experiments of smoothed learning and private query release at small sizes: their numbers and checks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from benchmark_scripts import benchmark
from benchmark_scripts import experiment_script as script

from hockeystick.learners.smoothed.classes.boxes.intervals import Intervals, Thresholds
from hockeystick.learners.smoothed.measures.base_measure import UniformCube
from hockeystick.learners.smoothed.queries.box_cells import BoxCells

frame, instances = benchmark("frame"), script("smoothed.query_instances")


def failed(report: Any) -> list[str]:
    """The statements that do not hold."""
    return [statement for statement, holds in report.checks.items() if not holds]


def drawn(report: Any) -> str:
    return str(frame.svg(report.draw))


# --- errors over a whole class ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("concepts", [Thresholds(), Intervals()], ids=["thresholds", "intervals"])
def test_the_error_of_a_law_over_a_class_is_that_of_a_fine_search(concepts: Any) -> None:
    cells = BoxCells.of(concepts.cover(0.1, UniformCube(1)))
    rng = np.random.default_rng(3)
    records = rng.uniform(0.2, 0.5, (40, 1))
    law = rng.dirichlet(np.ones(len(cells.masses)))
    ends = np.unique(np.concatenate([records[:, 0], np.nextafter(records[:, 0], 1.0), np.linspace(0.0, 1.0, 201)]))
    both = np.stack(np.meshgrid(ends, ends), axis=-1).reshape(-1, 2)
    rows = ends[:, None] if concepts.parameter_count == 1 else both
    searched = np.abs(cells.answer(rows, law) - cells.empirical(rows, records)).max()
    assert instances.law_errors(cells, law, records)[0] == pytest.approx(searched, abs=1e-9)


def test_the_error_of_answers_is_that_of_a_fine_search() -> None:
    cells = BoxCells.of(Thresholds().cover(0.1, UniformCube(1)))
    records = np.random.default_rng(4).uniform(0.2, 0.5, (30, 1))
    asked = np.unique(np.concatenate([records[:, 0], np.nextafter(records[:, 0], 1.0), np.linspace(0.0, 1.0, 101)]))
    truth = cells.empirical(asked[:, None], records)
    searched = np.abs(cells.answers(cells.masses)[cells.nearest(asked[:, None])] - truth).max()
    found = instances.answer_errors(cells, cells.masses, records)[0]
    assert found == pytest.approx(searched, abs=0.04)  # next to an edge between two of the cover: one record more
    assert found >= searched - 1.0 / 30 - 1e-9


# --- experiments -----------------------------------------------------------------------------------------------------


def test_the_hits_experiment_holds() -> None:
    found = script("smoothed.smooth_hits").experiment(
        frame.Cells(), sizes=((100, 0.1), (400, 0.1)), runs=20, lengths=(10, 50), processes=200
    )
    assert not failed(found) and "29 | 36.23 | 36.2" in found.table and "Bernstein" in found.caption
    assert "printed" in drawn(found)


def test_the_brackets_experiment_holds() -> None:
    module = script("smoothed.smooth_brackets")
    names = ("thresholds", "intervals", "halfspaces in the plane", "polynomials of degree 3")
    found = module.experiment(frame.Cells(), names=names, scales=(0.1, 0.05), predicates=20, points=1000)
    assert not failed(found) and "| 1.00 | 1 |" in found.table


def test_brackets_catch_a_predicate_that_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: brackets of shifted thresholds do not contain the thresholds themselves."""
    module = script("smoothed.smooth_brackets")
    build, of, measure, draw, parameters, formula = module.family("thresholds")

    def shifted(rng: np.random.Generator, count: int) -> Any:
        return draw(rng, count) + 0.0

    class Wrong(Thresholds):
        def predict(self, rows: Any, points: Any) -> Any:
            return super().predict(np.asarray(rows) + 0.2, points)

    monkeypatch.setattr(module, "family", lambda name: (build, Wrong(), measure, shifted, parameters, formula))
    assert module.measured("thresholds", 0.05, 20, 1000)["outside"] > 10


def test_the_accounting_experiment_holds() -> None:
    found = script("smoothed.smooth_accounting").experiment(frame.Cells(), rounds=(10,), curve=(1,))
    assert not failed(found) and "13.62" in found.table and found.draw is None


def test_projection_caps_laws_that_exceed_the_cap() -> None:
    cases = (("window", 1000, 0.5, 40, 1.0, "hoeffding"), ("cells", 1000, 0.5, 40, 0.2, "hoeffding"))
    found = script("smoothed.smooth_projection").experiment(
        frame.Cells(), cases=cases, runs=4, shared=((102_400, 256),)
    )
    assert not failed(found) and "in 2 of 2 cases" in found.table


def test_the_domain_experiment_holds() -> None:
    found = script("smoothed.smooth_domain").experiment(frame.Cells(), bits=(10, 16, 20), runs=3, records=2000)
    assert failed(found) in ([], ["the bound is the same from 2^18 points on, up to 1 %"])
    assert "continuum" in found.table and "Smooth MWEM" in drawn(found)


@pytest.mark.deep
def test_the_regret_experiment_holds() -> None:
    module = script("smoothed.smooth_regret")
    found = module.experiment(
        frame.Cells(), rounds=(64, 128, 256), sigmas=(0.25, 2.0**-4, 2.0**-6), runs=20, sweep=128, more=20,
        small=(32, 3), long=(64, 256),
    )  # fmt: skip
    assert [text for text in failed(found) if "slope" not in text and "quoted" not in text] == []
    assert "44.2 errors in 48 rounds" in found.table and "lower bound" in drawn(found)


def test_the_queries_experiment_holds() -> None:
    module = script("smoothed.smooth_queries")
    found = module.experiment(
        frame.Cells(),
        records=(2**10, 2**12, 2**14),
        runs=3,
        covers=(8000,),
        sweep=(1000, 2000),
        mechanisms=("ours", "projected"),
    )
    assert [text for text in failed(found) if "quoted" not in text] == []
    assert module.paper_rounds(2**10)[0] == 5 and module.paper_rounds(2**18)[0] == 170
    assert module.paper_rounds(2**14)[1] == pytest.approx(0.917, abs=1e-3)  # quoted
    assert "projected" in drawn(found)


def test_mechanisms_that_cannot_be_planned_are_refused() -> None:
    module = script("smoothed.smooth_queries")
    assert module.planned("subsampled net", 60, runs=2)["mean"] is None
    assert module.planned("Laplace for each", 500, runs=2)["bound"] is None


def test_the_chi_experiment_holds() -> None:
    found = script("smoothed.smooth_chi").experiment(
        frame.Cells(), parts=(0.0, 0.1, 1.0), records=2000, runs=3, samples=5000
    )
    assert [text for text in failed(found) if not text.startswith("χ grows")] == []  # noise hides it at this size
    assert "consistent" in found.table and "refuted" not in found.table


def test_the_agnostic_experiment_holds() -> None:
    found = script("smoothed.smooth_agnostic").experiment(frame.Cells(), records=(500, 8000), runs=3, nets=(500,))
    assert not failed(found) and "net of 4 pairs" in found.table


def test_projection_is_needed_where_queries_share_a_set() -> None:
    """The second table alone, at fewer runs; and the twin: on intervals there is no such gap."""
    module = script("smoothed.smooth_projection")
    a, b = (module.on_a_shared_set(102_400, 256, project, 3) for project in (False, True))
    assert a["density"] > 4.0 and a["off"] > a["cover"] + a["allowed"] and b["off"] <= b["cover"] + b["allowed"]
    assert b["density"] <= 1.0 + 1e-9 and 1.5 * b["off"] <= a["off"]
    wide = module.published("window", 1000, 0.5, 40, 1.0, "hoeffding", False, 3)
    assert wide["density"] > 1.0 and wide["whole"] <= wide["cover"] + 2.0 * wide["cell"] / 0.5 + 0.2


def test_the_columns_experiment_holds() -> None:
    pytest.importorskip("sklearn")
    found = script("smoothed.smooth_columns").experiment(frame.Cells(), names=("ink",), runs=3, games=2)
    assert not failed(found) and "The records refute the statement for: ink" in found.table
    assert "public third" in drawn(found)


def test_missing_or_failing_peers_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    module = benchmark("learners.queries_peers")
    values = np.arange(8.0)
    monkeypatch.delenv(module.PEER, raising=False)
    skipped = list(module.peers(values, 8, epsilon=1.0, runs=1))
    assert len(skipped) == 4 and all(one.laws is None and module.PEER in one.note for one in skipped)
    monkeypatch.setenv(module.PEER, "/nowhere/python")
    assert all("does not run" in one.note for one in module.peers(values, 8, epsilon=1.0, runs=1))
