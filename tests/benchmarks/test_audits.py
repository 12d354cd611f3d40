"""Tests of the calibration of bounds and of stopping times: saved pieces add up, and a wrong bound is detected."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
from benchmark_scripts import benchmark

from hockeystick.audits import Claim, sequential_audit
from hockeystick.audits.bounds.two_counts import clopper_pearson

ROOT = Path(__file__).parents[2]


calibration, stopping = benchmark("auditors.calibration"), benchmark("auditors.sequential")
Estimator, targets = benchmark("auditors.estimators").Estimator, benchmark("auditors.targets")
walks = benchmark("auditors.walks")
laplace, randomised_response, tight_targets = targets.laplace, targets.randomised_response, targets.tight_targets
FILES = ("audits/bounds/two_counts.py",)


def bound(estimate: Any, targets: tuple[Any, ...], **more: Any) -> Any:
    return calibration.Bound(
        "mine", lambda _: Estimator("mine", estimate), 40, files=FILES, targets=lambda: targets, **more
    )


def no_correction(s0: Any, s1: Any, claim: Claim, alpha: float, rng: np.random.Generator) -> tuple[bool, float]:
    """A planted mistake: Clopper and Pearson's bound on P alone, with Q as it was seen."""
    low, _ = clopper_pearson(int((s0 <= 0).sum()), len(s0), confidence=1 - alpha, side="lower")
    found = float(np.log(low / max(np.mean(s1 <= 0), 1e-9)))
    return found > claim.epsilon, found


def never(s0: Any, s1: Any, claim: Claim, alpha: float, rng: np.random.Generator) -> tuple[bool, float]:
    return False, 0.0


def test_pieces_are_kept_and_add_up(tmp_path: Path) -> None:
    """A second run makes only what the first one did not; ``kept`` makes nothing; another's pieces are not taken."""
    calls = []

    def counted(*arguments: Any) -> tuple[bool, float]:
        calls.append(1)
        return never(*arguments)

    mine, work = bound(counted, (laplace(1.0), randomised_response(1.0))), tmp_path / "kept.jsonl"
    size = calibration.PIECE
    assert calibration.calibrated(mine, 1, work, kept=True) == {}
    first = calibration.calibrated(mine, 2 * size, work)
    assert {name: one.audits for name, one in first.items()} == {"laplace 1": size, "randomised response 1": size}
    assert len(calls) == 2 * size
    second = calibration.calibrated(mine, 4 * size, work)
    assert [one.audits for one in second.values()] == [2 * size] * 2 and len(calls) == 4 * size
    assert calibration.calibrated(mine, 40 * size, work, kept=True) == second and len(calls) == 4 * size
    other = attrs.evolve(mine, files=(*FILES, "audits/claims/claim.py"))
    assert calibration.calibrated(other, 40 * size, work, kept=True) == {}


def test_a_bound_with_half_of_its_error_is_detected() -> None:
    """At 500 audits a rate near a quarter is far above any chance of 0.05: the line says NO."""
    mine = bound(no_correction, (laplace(1.0), randomised_response(1.0)))
    found = calibration.calibrated(mine, 500, None)
    holds, line = calibration.row(mine, found, family=100)
    assert not holds and line.endswith("| NO |")
    holds, line = calibration.row(mine, {"one": calibration.Rate(0, 500)}, family=100)
    assert holds and line.endswith("| yes |")
    holds, line = calibration.row(mine, {"one": calibration.Rate(27, 500)}, family=100)  # 0.054
    assert holds and line.endswith("| as far as can be told |")


def test_the_page_keeps_the_lines_of_bounds_that_were_not_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """``--only NAME --write`` replaces one line; without ``--only`` a line that was not run is not kept."""
    a, b = (attrs.evolve(bound(never, (laplace(1.0),)), name=name) for name in ("a", "b"))
    monkeypatch.setattr(calibration, "bounds", lambda: (a, b))
    monkeypatch.setattr(calibration, "PAGE", tmp_path / "page.md")

    def lines(*arguments: str) -> list[str]:
        monkeypatch.setattr("sys.argv", ["x", "--work", str(tmp_path), "--write", *arguments])
        assert calibration.main() == 0
        return [line for line in calibration.PAGE.read_text().splitlines() if line.startswith(("| a |", "| b |"))]

    assert [line.endswith("| not run |") for line in lines("--kept", "--audits", "500")] == [True, True]
    first = lines("--only", "b", "--audits", "500")
    assert first[0].endswith("| not run |") and "| 1 | 500 | 0 |" in first[1] and first[1].endswith("| yes |")
    second = lines("--only", "a", "--audits", "250")
    assert "| 1 | 250 | 0 |" in second[0] and second[1] == first[1]
    assert lines("--kept", "--audits", "250")[1] != first[1]
    with pytest.raises(SystemExit):
        lines("--only", "c")
    assert "there are a, b" in capsys.readouterr().err


def test_a_lower_level_is_judged_separately() -> None:
    """A twentieth is too much for a bound whose share of the level is a tenth of that."""
    mine = bound(never, (laplace(1.0),), part=0.1)
    holds, line = calibration.row(mine, {"one": calibration.Rate(25, 500)}, family=1)
    assert not holds and "| 0.0050 | NO |" in line


def test_every_bound_has_a_name_and_files_of_its_own() -> None:
    bounds = calibration.bounds()
    assert len({one.name for one in bounds}) == len(bounds)
    for one in bounds:
        assert all((ROOT / file).exists() for file in one.files)
    assert {"audits/fixed_sample.py", "audits/attacks", "audits/bounds"} <= set(bounds[0].files)


def test_every_bound_runs_on_every_target() -> None:
    """One audit of each: no bound fails on a target that it is calibrated on."""
    for one in calibration.bounds():
        targets = tuple(one.targets())
        for target in (targets[0], targets[-1]):
            s0, s1 = target.draw(np.random.default_rng(1), one.samples)
            estimate = one.rates(target)
            if estimate.reads == "event":
                s0, s1 = s0 <= target.event, s1 <= target.event
            claim = Claim(*target.point) if estimate.reads == "event" else target.claim
            refuted, lower = estimate(s0, s1, claim, 1e-6, np.random.default_rng(2))
            assert not refuted and lower <= target.claim.epsilon, (one.name, target.name)


def test_mirrored_events_are_the_targets_best_in_either_order() -> None:
    """E+ is about e^epsilon E- + delta for both: 3 in 100 of 100,000 outputs."""
    for target in tight_targets():
        low, high = calibration.two_events(target)
        sides = target.draw(np.random.default_rng(3), 100_000)
        counts = [[np.mean(side <= low), np.mean((side >= high) & (side > low))] for side in sides]
        plus, minus = (counts[0][0] + counts[1][1]) / 2, (counts[1][0] + counts[0][1]) / 2
        epsilon, delta = target.point
        assert plus == pytest.approx(np.exp(epsilon) * minus + delta, rel=0.03), target.name


def test_vectors_are_exactly_as_private_as_they_claim() -> None:
    """The largest ratio of frequencies of a corner is e^1, within five standard errors of 200,000 outputs."""
    for target in calibration.vectors():
        s0, s1 = target.draw(np.random.default_rng(4), 200_000)
        assert s0.shape == s1.shape and s0.ndim == 2 and target.claim == Claim(1.0)
        x, y = (int(np.all(side <= 0, axis=1).sum()) for side in (s0, s1))
        assert abs(np.log(x / y) - 1) < 5 * np.sqrt(1 / x + 1 / y), target.name


@pytest.mark.deep
def test_stopping_times_are_those_of_the_audit(tmp_path: Path) -> None:
    """What is run without a lower bound on epsilon stops where the whole audit does; and is kept."""
    case = stopping.Case("half the noise", stopping.laplace(2.0), Claim(1.0), 0.05, limit=34.0, aim=84.0, most=700)
    found = stopping.chunk(case, 5, 3)["stops"]
    for seed, stop in zip(range(5, 8), found, strict=True):
        verdict = sequential_audit(
            case.draw, claim=case.claim, neighbours=(0, 1), alpha=case.alpha, most_samples=case.most, rng=seed
        )
        assert verdict.refuted and verdict.stopped_at == stop
    cells = stopping.Cells(tmp_path / "kept.jsonl", "sources")
    small = attrs.evolve(case, share=1e-3)  # 20 runs
    stops, _ = stopping.measured(small, 1, cells, kept=False)
    again, _ = stopping.measured(small, 1, stopping.Cells(tmp_path / "kept.jsonl", "sources"), kept=True)
    assert len(stops) == 20 and np.array_equal(stops, again)
    assert len(stopping.measured(attrs.evolve(small, alpha=0.01), 1, cells, kept=True)[0]) == 0


@pytest.mark.statistical
def test_the_page_of_coin_walks_has_the_pieces_that_were_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Randomised response of epsilon 9 against 1 is refuted by 120 outputs but once in a million, and 1 seldom."""
    rows = {
        "power": {"gross": walks.Setting(walks.response(9.0, 0.0), Claim(1.0), 60, most=60)},
        "alarms": {"tight": walks.Setting(walks.response(1.0, 0.0), Claim(1.0), 60)},
    }
    monkeypatch.setattr(walks, "settings", rows.__getitem__)
    monkeypatch.setattr(walks, "PIECE", 3)
    kept = tmp_path / "walks.jsonl"
    cells = walks.Cells(kept, "sources")
    for key in walks.keys("power", 0):
        cells.one(walks.piece, **key)
    holds, page = walks.page(walks.Cells(kept, "sources"))
    assert holds and "1.000 (0.292 to 1.000; 3)" in page and "| met |" in page
    assert "| tight | 60 | not run |" in page
    cells.one(walks.piece, **walks.keys("alarms", 0)[0])
    assert walks.counted(walks.Cells(kept, "sources"), "alarms", "tight", "coin walk")[1] == 3
