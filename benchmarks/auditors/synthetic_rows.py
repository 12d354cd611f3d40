"""Audits of the rows that DataSynthesizer makes in its correlated mode, with the package in an environment of its own.

    python -m benchmarks.auditors.synthetic_rows [--work FOLDER] [--samples N]

The table has 240 records of two columns, of which one changes from ("a", "u") to ("c", "v"). Its rows are audited at
ε = 1: those of generators that are fitted with ε = 1 and with ε = 8. What docs/audit-synthetic-data.md says of the rows
is printed; nothing is written. The first run installs DataSynthesizer 0.1.13, which takes minutes.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import venv
from pathlib import Path

from benchmarks.frame import ROOT, WORK

_PACKAGE = "DataSynthesizer==0.1.13"
_AUDIT = '''
import contextlib, io, json, multiprocessing.dummy, pathlib, sys, tempfile
import pandas
from DataSynthesizer.DataDescriber import DataDescriber
from DataSynthesizer.DataGenerator import DataGenerator
from DataSynthesizer.lib import PrivBayes
import hockeystick as hs

PrivBayes.Pool = multiprocessing.dummy.Pool  # threads start faster than processes
folder = pathlib.Path(tempfile.mkdtemp())
data, description, domain = (str(folder / name) for name in ("data.csv", "description.json", "domain.json"))
pathlib.Path(domain).write_text(json.dumps({"x": ["a", "b", "c"], "y": ["u", "v"]}))
kinds = ("x", "y")
people = [(x, y) for x in "abc" for y in "uv" for _ in range(40)]


class Correlated:
    def __init__(self, epsilon, seed):
        self.epsilon, self.seed = epsilon, seed

    def fit(self, table):
        pandas.DataFrame(table, columns=kinds).to_csv(data, index=False)
        made = DataDescriber()
        with contextlib.redirect_stdout(io.StringIO()):
            made.describe_dataset_in_correlated_attribute_mode(
                data, k=1, epsilon=self.epsilon, seed=self.seed,
                attribute_to_datatype=dict.fromkeys(kinds, "String"),
                attribute_to_is_categorical=dict.fromkeys(kinds, True),
                attribute_to_is_candidate_key=dict.fromkeys(kinds, False),
                categorical_attribute_domain_file=domain,
            )
        made.save_dataset_description_to_file(description)

    def sample(self, n):
        made = DataGenerator()
        made.generate_dataset_in_correlated_attribute_mode(n, description, seed=self.seed)
        return made.synthetic_dataset


def changed(rows):
    """How many more rows are like the new record than like the old one."""
    pairs = list(zip(rows["x"], rows["y"]))
    return float(pairs.count(("c", "v")) - pairs.count(("a", "u")))


for epsilon in (1.0, 8.0):
    found = hs.audit(
        hs.targets.Synthesizer(lambda seed: Correlated(epsilon, seed), rows=600),
        claim=hs.Claim(1.0), neighbours=(people, [*people[1:], ("c", "v")]),
        samples=int(sys.argv[1]), statistic=changed, rng=1,
    )
    print(f"rows fitted with epsilon {epsilon:g}, claimed 1: {found.outcome}, epsilon >= {found.epsilon_lower:.2f}")
'''


def environment(folder: Path) -> Path:
    """Returns the Python of an environment with this checkout and the package; made if it is missing."""
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    installed = subprocess.run([python, "-c", "import DataSynthesizer"], capture_output=True, check=False)
    if installed.returncode:
        subprocess.run([python, "-m", "pip", "install", "--quiet", _PACKAGE, str(ROOT)], check=True)
    return python


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.auditors.synthetic_rows", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--work", type=Path, default=WORK / "synthetic-rows", help="folder of the environment")
    parser.add_argument("--samples", type=int, default=150, help="fits to each of the two tables")
    asked = parser.parse_args()
    python = environment(asked.work)
    return subprocess.run([python, "-c", _AUDIT, str(asked.samples)], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
