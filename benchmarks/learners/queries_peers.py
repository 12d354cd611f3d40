"""Private synthetic data by SmartNoise, for ``benchmarks.learners.queries``: its MWEM and its AIM, on the same records.

    PEER_PYTHON=/path/to/python python -m benchmarks.learners.queries

PEER_PYTHON names a Python with smartnoise-synth (which brings mbi, the engine of AIM); it is asked in a process of its
own. Their epsilon is for adding or removing a record. Under replace-one a pure epsilon is twice as large; AIM's zCDP,
nine tenths of it Gaussian on counts and a tenth choices, is 0.9 * 2 + 0.1 * 4 = 2.2 times as large. So each runs twice,
as it is told, and with the budget that is epsilon under replace-one.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator

import numpy as np
from attrs import frozen

from hockeystick.accounting.arrays import FloatArray

PEER = "PEER_PYTHON"
DELTA = 1e-6  # of AIM, which has no other kind

_SCRIPT = """
import contextlib, io, json, sys, warnings
warnings.filterwarnings("ignore")
import numpy as np, pandas as pd
from snsynth.aim import AIMSynthesizer
from snsynth.mwem import MWEMSynthesizer
from snsynth.transform.table import TableTransformer
given = json.load(sys.stdin)
values, points, names = np.array(given["values"]), given["points"], ["x", "y"][: given["columns"]]
values = values.reshape(len(values), len(names))
table = pd.DataFrame(values, columns=names)
np.random.seed(0)

def aim(epsilon):
    public = pd.DataFrame({name: np.arange(points) for name in names})
    domain = TableTransformer.create(public, style="cube", ordinal_columns=names)
    domain.fit(public)
    found = AIMSynthesizer(epsilon=epsilon, delta=given["delta"], degree=len(names))
    found.fit(table, transformer=domain)
    law = found.synthesizer.project(tuple(f"col{i}" for i in range(len(names)))).datavector(flatten=False)
    back = np.array(domain.inverse_transform([(i,) * len(names) for i in range(points)]), dtype=float).astype(int)
    whole = np.zeros((points,) * len(names))
    whole[np.ix_(*back.T)] = np.asarray(law)
    return whole

def mwem(epsilon):
    found = MWEMSynthesizer(epsilon=epsilon, q_count=given["queries"], iterations=given["rounds"],
                            splits=[list(range(len(names)))], add_ranges=True, marginal_width=0,
                            mult_weights_iterations=20)
    found.fit(table, ordinal_columns=names, preprocessor_eps=0.0)
    law, at = found.synthetic_histograms[0][0], []
    law = np.asarray(law, dtype=float).reshape([s for s in np.shape(law) if s > 1] or [1])
    for i, name in enumerate(names):
        low, step = found.mins_maxes[str(i)][0], found.scale[str(i)]
        rows = [tuple(int(j * step + low) if k == i else int(found.mins_maxes[str(k)][0]) for k in range(len(names)))
                for j in range(law.shape[i])]
        back = np.array(found._transformer.inverse_transform(rows), dtype=float)
        at.append(back.reshape(len(rows), -1)[:, i].astype(int))
    whole = np.zeros((points,) * len(names))
    np.add.at(whole, np.ix_(*at), law)
    return whole

def own(epsilon):
    if given["method"] == "mwem":
        return epsilon / 2.0
    from snsynth.aim.aim import cdp_rho
    target, low, high = cdp_rho(epsilon, given["delta"]) / 2.2, 0.0, epsilon
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (middle, high) if cdp_rho(middle, given["delta"]) <= target else (low, middle)
    return low

epsilon = own(given["epsilon"]) if given["replace"] else given["epsilon"]
laws = []
with contextlib.redirect_stdout(io.StringIO()):
    for _ in range(given["runs"]):
        law = (aim if given["method"] == "aim" else mwem)(epsilon)
        laws.append((law / law.sum()).tolist())
print(json.dumps([epsilon, laws]))
"""


@frozen
class PeerLaws:
    """Laws of a peer.

    Attributes:
        method: Its name.
        laws: Masses of the grid's points, (runs, N) or (runs, N, N); None where it did not run.
        note: Its budget, or why it did not run.
    """

    method: str
    laws: FloatArray | None
    note: str


def peers(values: FloatArray, points: int, *, epsilon: float, runs: int) -> Iterator[PeerLaws]:
    """Both peers, twice each, on records (n,) or (n, 2) that are points of a grid 0 .. N - 1 on each axis."""
    python = os.environ.get(PEER)
    columns = 1 if values.ndim == 1 else values.shape[1]
    for method, title in (("mwem", "SmartNoise MWEM, 256 random ranges"), ("aim", "SmartNoise AIM, δ = 1e-6")):
        for replace in (False, True):
            name = f"{title}, {'replace-one' if replace else 'as it is'}"
            if python is None:
                yield PeerLaws(name, None, f"{PEER} names no Python with smartnoise-synth")
                continue
            given = {
                "method": method, "replace": replace, "epsilon": epsilon, "delta": DELTA, "queries": 256, "rounds": 30,
                "values": values.astype(int).tolist(), "points": points, "columns": columns, "runs": runs,
            }  # fmt: skip
            try:
                done = subprocess.run(
                    [python, "-c", _SCRIPT], input=json.dumps(given), capture_output=True, text=True, check=True,
                    timeout=600,
                )  # fmt: skip
            except (OSError, subprocess.SubprocessError) as failed:
                yield PeerLaws(name, None, f"it does not run: {type(failed).__name__}")
                continue
            spent, laws = json.loads(done.stdout.splitlines()[-1])
            domain = "; domain read from the data" if method == "mwem" else ""
            budget = f"its ε = {spent:.3g}" + (", replace-one 1" if replace else " for add/remove")
            yield PeerLaws(name, np.array(laws), f"{runs} runs, {budget}{domain}")
