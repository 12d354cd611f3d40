"""AIM and MWEM of smartnoise-synth on the made-up table of ``benchmarks.learners.marginals``.

    python -m venv PEERS && PEERS/bin/pip install smartnoise-synth
    PEERS/bin/python benchmarks/learners/marginals_peers.py TABLE.csv RESULTS.json

It needs nothing of this package: TABLE.csv, which ``python -m benchmarks.learners.marginals --table TABLE.csv`` writes,
has the codes of the records. RESULTS.json gets the 2-way marginals of the synthetic records of each run. AIM is that of
private-pgm, with its default workload of all 2-way marginals; MWEM has 4 parts of the columns at most, and as many
iterations as smartnoise chooses.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from importlib import metadata

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
from snsynth import Synthesizer  # type: ignore[import-not-found]

EPSILONS, RUNS, DELTA = (1.0,), 2, 1e-6


def marginals(frame: pd.DataFrame, sizes: list[int]) -> list[list[list[float]]]:
    """Returns the counts of all pairs of columns."""
    found = []
    for i, j in itertools.combinations(range(len(sizes)), 2):
        counts = np.zeros((sizes[i], sizes[j]))
        np.add.at(counts, (frame.iloc[:, i].astype(int).to_numpy(), frame.iloc[:, j].astype(int).to_numpy()), 1.0)
        found.append(counts.tolist())
    return found


def main() -> None:
    """Runs both methods, and writes what is known after each run."""
    frame = pd.read_csv(sys.argv[1])
    sizes = [int(one) + 1 for one in frame.max()]
    found = []
    version = metadata.version("smartnoise-synth")
    for epsilon, name in itertools.product(EPSILONS, ("aim", "mwem")):
        options = {"delta": DELTA} if name == "aim" else {}
        runs, start = [], time.process_time()
        for _ in range(RUNS):
            method = Synthesizer.create(name, epsilon=epsilon, **options)
            method.fit(frame.copy(), categorical_columns=list(frame.columns), preprocessor_eps=0.0)
            runs.append(marginals(method.sample(len(frame)), sizes))
        seconds = (time.process_time() - start) / RUNS
        label = f"smartnoise-synth {version}, {name.upper()}"
        found.append({"epsilon": epsilon, "name": label, "runs": runs, "seconds": seconds})
        notes = f"AIM and MWEM are means of {RUNS} runs; they protect one record that is added or removed."
        with open(sys.argv[2], "w", encoding="utf-8") as file:
            json.dump({"notes": notes, "results": found}, file)
        print(label, epsilon, f"{seconds:.1f} s", flush=True)


if __name__ == "__main__":
    main()
