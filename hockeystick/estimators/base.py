"""The base of the scikit-learn estimators: tables, randomness and guarantees.

For privacy, two conventions differ from scikit-learn's:

* ``random_state=None`` makes a *release*, with secure noise that is not reproducible. A seed or a
  generator makes a simulation, which must not be published; ``simulated_`` tells them apart.
* Bounds, classes and candidates are public parameters and are not learned from the data. The number of records is
  public too. An error about bad records depends on private data and must not be published; it never shows values.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hockeystick._files.data_frames import as_frame, is_frame
from hockeystick._files.release_table import read_columns
from hockeystick.accounting import Guarantee, InvalidArgumentError, InvalidDataError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.optional_packages import require
from hockeystick.accounting.validate import as_array
from hockeystick.mechanisms.randomness.noise import Noise, ReleaseNoise, SimulationNoise

sklearn_base: Any = require("sklearn.base", "an estimator", extra="sklearn")
validation: Any = require("sklearn.utils.validation", "an estimator", extra="sklearn")


class PrivateEstimator(sklearn_base.BaseEstimator):  # type: ignore[misc]  # scikit-learn is not typed
    """An estimator whose ``fit`` is one private access to the data; everything else is post-processing.

    Attributes:
        guarantee_: The certified privacy of the fit, a ``hockeystick.Guarantee``.
        simulated_: Whether the noise was simulated, so that the fit must not be published.
    """

    guarantee_: Guarantee
    simulated_: bool

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "guarantee_")

    def _check_fitted(self) -> None:
        validation.check_is_fitted(self)

    def _randomness(self) -> tuple[Noise, np.random.Generator]:
        """Returns the noise, and a generator for public coins."""
        state: Any = self.random_state
        if state is None:
            return ReleaseNoise(), np.random.default_rng()
        if isinstance(state, (bool, np.bool_)) or not isinstance(state, (int, np.integer, np.random.Generator)):
            reason = "is neither None, a seed nor a numpy.random.Generator"
            raise InvalidArgumentError("random_state", state, reason, "None makes a release, a seed simulates")
        noise, coins = np.random.default_rng(state).spawn(2)
        return SimulationNoise(noise), coins

    def _rows(self, X: Any, *, reset: bool) -> FloatArray:
        """Returns a table of numbers, shape (n, d); columns of a data frame are selected by the fitted names.

        Raises:
            InvalidArgumentError: The value is not a table, has no records, or has an entry that is not a number.
        """
        if is_frame(X):
            frame = as_frame("X", X)
            if not frame.columns:
                raise InvalidDataError("X", X, "has no columns", "give one column for each feature")
            if reset:
                self.feature_names_in_ = np.array(frame.columns, dtype=object)
                self.n_features_in_ = len(frame.columns)
            names = [str(name) for name in getattr(self, "feature_names_in_", frame.columns)]
            rows = read_columns("X", frame, names)
        else:
            if reset and hasattr(self, "feature_names_in_"):
                del self.feature_names_in_
            rows = _numbers(X)
            rows = rows[:, None] if rows.ndim == 1 else rows
            if rows.ndim != 2 or not rows.size or np.isnan(rows).any():
                raise InvalidDataError("X", X, "is not a table of numbers with one record per row")
            if reset:
                self.n_features_in_ = rows.shape[1]
        if rows.shape[1] != self.n_features_in_:
            raise InvalidDataError("X", X, f"has {rows.shape[1]} columns", f"give {self.n_features_in_}, as in fit")
        return rows


def column(name: str, values: Any) -> npt.NDArray[Any]:
    """Returns one value for each record, shape (n,): a list, an array, a series, or a table of one column.

    Raises:
        InvalidArgumentError: There are several columns, or no records.
    """
    if is_frame(values):
        frame = as_frame(name, values)
        found = [each.to_pylist() for each in frame.table.columns]
        values = found[0] if len(found) == 1 else values
    try:
        row = _array(values)
        row = row[:, 0] if row.ndim == 2 and row.shape[1] == 1 else row
    except ValueError:
        row = np.empty(())
    if row.ndim != 1 or not len(row) or row.dtype.kind == "V":  # a structure of several values
        raise InvalidDataError(name, values, "is not one value for each record")
    return row


def _array(values: Any) -> npt.NDArray[Any]:
    """Returns the array as numpy makes it, but with objects if texts and other values are mixed: None is not "None"."""
    row = np.asarray(values)
    if row.dtype.kind in "SU" and not isinstance(values, np.ndarray):
        each = np.asarray(values, dtype=object)
        if any(not isinstance(value, (str, bytes)) for value in each.ravel()):
            return each
    return row


def first_absent(values: npt.NDArray[Any]) -> int | None:
    """Returns the index of the first missing value (None, NaN or pandas' NA), or None."""
    if values.dtype.kind not in "OT":  # numpy's StringDType may have NaN for missing values
        return None
    return next((i for i, value in enumerate(values.tolist()) if is_absent(value)), None)


def is_absent(value: object) -> bool:
    """Returns whether a value is missing: None, NaN or pandas' NA."""
    try:
        return value is None or bool(value != value)
    except TypeError:  # pandas' NA
        return True
    except ValueError:  # an array
        return False


def _numbers(X: Any) -> FloatArray:
    found = as_array("X", X, data=True)
    if found.dtype.kind not in "biuf":
        raise InvalidDataError("X", X, "is not a table of numbers")
    return found.astype(np.float64)
