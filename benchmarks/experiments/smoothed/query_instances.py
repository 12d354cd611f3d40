"""Data of the experiments of smoothed learning, and errors over a whole infinite class."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hockeystick.accounting.arrays import FloatArray
from hockeystick.learners.smoothed.classes.boxes.intervals import Intervals, Thresholds
from hockeystick.learners.smoothed.measures.base_measure import BaseMeasure
from hockeystick.learners.smoothed.measures.smooth_data import WindowLaw
from hockeystick.learners.smoothed.queries.box_cells import BoxCells

SEED = 20
START = 0.3  # quantile at which a window of data begins


def window(measure: BaseMeasure, sigma: float, records: int, seed: int = SEED) -> FloatArray:
    """Independent records, uniform on a window of mass sigma: as concentrated as sigma-smooth data can be."""
    return WindowLaw(measure, min(START, 1.0 - sigma), sigma).sample(np.random.default_rng(seed), records)


def law_errors(cells: BoxCells, weights: npt.ArrayLike, records: FloatArray) -> FloatArray:
    """max |q(D) - q(D_B)| over *all* thresholds, or all intervals, of the line, for laws (R, C): shape (R,).

    Distribution functions are compared on both sides of each record; between records that of the data is constant, and
    the other one is monotone. For measures without atoms.
    """
    laws = np.atleast_2d(np.asarray(weights, dtype=float))
    values, counts = np.unique(records[:, 0], return_counts=True)
    upto = np.cumsum(counts) / len(records)
    edges, mass = cells.axes[0].edges, cells.cover.measure.cdf(0, values)
    found = np.empty(len(laws))
    for i, law in enumerate(laws):
        here = np.interp(mass, edges, np.concatenate([[0.0], np.cumsum(law)]))
        gaps = np.concatenate([[0.0], here - upto, here - upto + counts / len(records)])
        found[i] = np.ptp(gaps) if isinstance(cells.cover.concepts, Intervals) else np.abs(gaps).max()
    return found


def answer_errors(cells: BoxCells, weights: npt.ArrayLike, records: FloatArray) -> FloatArray:
    """max |q'(D) - q(D_B)| over all thresholds q of the line, q' the nearest of the cover, for laws (R, C): shape (R,).

    Looked at just before and after each record, and at the thresholds of the cover themselves.
    """
    assert isinstance(cells.cover.concepts, Thresholds)
    spots = np.unique(records[:, 0])
    asked = np.concatenate([spots, np.nextafter(spots, np.inf), cells.cover.parameters[:, 0]])
    truth = 1.0 - np.searchsorted(np.sort(records[:, 0]), asked, side="left") / len(records)
    nearest = cells.nearest(asked[:, None])
    return np.array([np.abs(row[nearest] - truth).max() for row in np.atleast_2d(cells.answers(weights))])


def cover_errors(cells: BoxCells, weights: npt.ArrayLike, records: FloatArray) -> FloatArray:
    """max |q(D) - q(D_B)| over the queries of the cover, for laws (R, C): shape (R,)."""
    truth = cells.answers(cells.counts(records)) / len(records)
    return np.asarray(np.abs(np.atleast_2d(cells.answers(weights)) - truth).max(axis=1))


def mean_and_error(values: npt.ArrayLike) -> tuple[float, float]:
    """The mean of independent values, and its standard error."""
    found = np.asarray(values, dtype=float)
    return float(found.mean()), float(found.std(ddof=1) / np.sqrt(len(found))) if len(found) > 1 else 0.0
