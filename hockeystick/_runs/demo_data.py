"""The demonstration's data: a stream of patients with the errors of ten simple rules on each.

The breast-cancer data of scikit-learn has 569 rows, one per patient (Wolberg, Street & Mangasarian 1995). A few rows
are declared public. They determine a rule for each of the ten mean measurements: the threshold, and the side on which a
tumour is called benign. The remaining rows, in random order, are the protected stream: every patient once. A rule's
loss on a patient is 1 if it errs and 0 if not.
"""

from __future__ import annotations

import importlib.util

import numpy as np
import numpy.typing as npt
from attrs import frozen

from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.optional_packages import MissingExtraError

PUBLIC_ROWS = 19
_FEATURES = 10  # the mean measurements; the other twenty are their errors and extremes


@frozen(eq=False)
class ExpertStream:
    """Losses of fixed experts on a stream of people.

    Attributes:
        name: Name of the data set.
        experts: The experts' rules in words.
        losses: Shape (rounds, experts): the protected stream, one row per person.
        public_losses: Shape (public rows, experts): the losses on the public rows.
        rows: Shape (rounds,): the indices of the protected rows in the data set.
        public_rows: Shape (public rows,): the indices of the public rows.
    """

    name: str
    experts: tuple[str, ...]
    losses: FloatArray
    public_losses: FloatArray
    rows: npt.NDArray[np.intp]
    public_rows: npt.NDArray[np.intp]

    @property
    def rounds(self) -> int:
        """Length of the stream."""
        return int(self.losses.shape[0])

    def public_choice(self) -> int:
        """Returns the expert with the fewest errors on the public rows, which uses no protected data."""
        return int(np.argmin(self.public_losses.sum(axis=0)))

    def neighbour(self) -> FloatArray:
        """Returns the stream with its first person replaced by the public row whose losses differ most from theirs."""
        furthest = int(np.argmax(np.abs(self.public_losses - self.losses[0]).sum(axis=1)))
        other = self.losses.copy()
        other[0] = self.public_losses[furthest]
        return other


def breast_cancer_stream(seed: int) -> ExpertStream:
    """Returns the stream, its split and its order drawn with ``seed``.

    Raises:
        MissingExtraError: scikit-learn, which holds the data, is not installed.
    """
    if importlib.util.find_spec("sklearn") is None:
        raise MissingExtraError(
            "the demonstration needs scikit-learn, which is not installed; pip install 'hockeystick[demo]'"
        )
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer()
    values = np.asarray(data.data, dtype=float)[:, :_FEATURES]
    benign = np.asarray(data.target) == 1
    order = np.random.default_rng(seed).permutation(len(values))
    public, stream = order[:PUBLIC_ROWS], order[PUBLIC_ROWS:]
    names, columns = [], []
    for j in range(_FEATURES):
        threshold, below = _rule(values[public, j], benign[public])
        names.append(f"benign if {data.feature_names[j]} {'<' if below else '>='} {threshold:.4g}")
        columns.append(((values[:, j] < threshold) == below) != benign)
    errors = np.stack(columns, axis=1).astype(float)
    return ExpertStream("breast cancer (scikit-learn)", tuple(names), errors[stream], errors[public], stream, public)


def _rule(values: FloatArray, benign: npt.NDArray[np.bool_]) -> tuple[float, bool]:
    """Returns the threshold, halfway between two values, and the benign side (below?) with the fewest errors."""
    levels = np.unique(values)
    thresholds = (levels[1:] + levels[:-1]) / 2.0
    wrong_below = ((values[None, :] < thresholds[:, None]) != benign[None, :]).mean(axis=1)
    if wrong_below.min() <= 1.0 - wrong_below.max():
        return float(thresholds[np.argmin(wrong_below)]), True
    return float(thresholds[np.argmax(wrong_below)]), False
