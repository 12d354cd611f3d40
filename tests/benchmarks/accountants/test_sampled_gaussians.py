"""Tests of the grid of sampled Gaussians: its command runs cells in separate processes, with a reference."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from benchmark_scripts import benchmark

ROOT = Path(__file__).parents[3]


@pytest.mark.deep
def test_the_command_runs_cells_in_two_processes_and_goes_on_from_there(tmp_path):
    command = [sys.executable, "-m", "benchmarks.accountants.sampled_gaussians", "--work", str(tmp_path)]
    command += ["--workers", "2", "--only", "q=1e-01 σ=10 ×1e+00*"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    for _ in range(2):
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
        assert done.returncode in (0, 1), done.stderr
        (file,) = tmp_path.iterdir()
        results = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line]
        assert len(results) == 5  # the second run adds none
    bench = benchmark("accountants.sampled_gaussians")
    assert "5 of 745 cells" in done.stdout and "| 1e-01 ×1e+00 | 5 |" in done.stdout
    assert len(bench.cells()) == 745
