"""Measures the cost of the pytest plugin for a run that does not use it.

Runs pytest on one empty test and prints

* the time that pytest spends on loading the plugin, measured inside the run, and the modules that this loads;
* the least CPU and wall time of whole runs with the plugin and without it (``-p no:hockeystick``), alternately, and
  their difference. On a machine with other work that difference is mostly noise.

Measure an environment with a plain install: an editable one adds import hooks of setuptools to every start of Python.

    python benchmarks/pytest_plugin_overhead.py [repetitions]
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LOAD = """
import importlib.metadata, sys, time
import pytest

load = importlib.metadata.EntryPoint.load

def timed(entry_point):
    before, start = set(sys.modules), time.perf_counter()
    plugin = load(entry_point)
    if entry_point.value == "hockeystick._pytest_plugin":
        end = time.perf_counter()
        print("LOADED", end - start, *sorted(set(sys.modules) - before))
    return plugin

importlib.metadata.EntryPoint.load = timed
sys.exit(pytest.main(["-q", "-s", "-p", "no:cacheprovider"]))
"""


def cost(command: list[str], folder: Path) -> tuple[float, float]:
    """Returns (CPU seconds, wall seconds) of one command."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    after, end = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu, end - start


def load(folder: Path) -> tuple[float, list[str]]:
    """Returns the seconds that pytest takes to load the plugin, and the modules that this loads."""
    command = [sys.executable, "-c", LOAD]
    output = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout
    (line,) = (line for line in output.splitlines() if line.startswith("LOADED"))
    _, seconds, *modules = line.split()
    return float(seconds), modules


def main() -> None:
    """Prints the measurements."""
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "test_empty.py").write_text("def test_empty():\n    pass\n", encoding="utf-8")
        loads = [load(folder) for _ in range(repetitions)]
        times = [seconds * 1e3 for seconds, _ in loads]
        print(f"load  {min(times):.1f} ms (largest of {repetitions}: {max(times):.1f} ms): {', '.join(loads[0][1])}")

        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        pairs = [(cost(command, folder), cost([*command, "-p", "no:hockeystick"], folder)) for _ in range(repetitions)]
        for kind, label in ((0, "CPU"), (1, "wall")):
            loaded, blocked = (min(pair[side][kind] for pair in pairs) * 1e3 for side in (0, 1))
            print(f"{label:<5} with {loaded:.1f} ms, without {blocked:.1f} ms, difference {loaded - blocked:+.1f} ms")


if __name__ == "__main__":
    main()
