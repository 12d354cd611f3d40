"""What the scikit-learn estimators share: how they take tables and randomness, and what they say of their guarantee.

Two conventions differ from scikit-learn's, for privacy's sake:

* ``random_state=None`` is a *release*: secure noise (extra ``secure``), not repeatable. A seed or a generator makes a
  simulation, which is none; ``simulated_`` says which it was.
* What scikit-learn would learn from the data is public and a parameter: bounds, classes, candidates. The number of
  records is public, too. A refusal of bad records depends on them, and must not be published; it never shows them.
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

base: Any = require("sklearn.base", "an estimator", extra="sklearn")
validation: Any = require("sklearn.utils.validation", "an estimator", extra="sklearn")


class PrivateEstimator(base.BaseEstimator):  # type: ignore[misc]  # scikit-learn is not typed
    """An estimator whose ``fit`` is one private access to the data, and all else post-processing of it.

    Attributes:
        guarantee_: What the accountant graph certifies for the fit, a ``hockeystick.Guarantee``.
        simulated_: Whether the noise was simulated, so that what was fitted is no release.
    """

    guarantee_: Guarantee
    simulated_: bool

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "guarantee_")

    def _check_fitted(self) -> None:
        validation.check_is_fitted(self)

    def _randomness(self) -> tuple[Noise, np.random.Generator]:
        """Noise, and a generator for public coins."""
        state: Any = self.random_state
        if state is None:
            return ReleaseNoise(), np.random.default_rng()
        if isinstance(state, (bool, np.bool_)) or not isinstance(state, (int, np.integer, np.random.Generator)):
            reason = "is neither None, a seed nor a numpy.random.Generator"
            raise InvalidArgumentError("random_state", state, reason, "None makes a release, a seed simulates")
        noise, coins = np.random.default_rng(state).spawn(2)
        return SimulationNoise(noise), coins

    def _rows(self, X: Any, *, reset: bool) -> FloatArray:
        """Returns a table of numbers, shape (n, d); columns of a data frame are taken by the names that were fitted.

        Raises:
            InvalidArgumentError: No such table, or one without records or with what is no number in it.
        """
        if is_frame(X):
            frame = as_frame("X", X)
            if not frame.columns:
                raise InvalidDataError("X", X, "has no columns", "give one for each feature")
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
                raise InvalidDataError("X", X, "is no table of numbers with a record in each row")
            if reset:
                self.n_features_in_ = rows.shape[1]
        if rows.shape[1] != self.n_features_in_:
            raise InvalidDataError("X", X, f"has {rows.shape[1]} columns", f"give {self.n_features_in_}, as was fitted")
        return rows


def column(name: str, values: Any) -> npt.NDArray[Any]:
    """Returns one value for each record, shape (n,): a list, an array, a series, or a table of one column.

    Raises:
        InvalidArgumentError: More than one column, or no records.
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
    """As numpy makes it, but for texts among which is something else: that must not become a text, as in "nan"."""
    row = np.asarray(values)
    if row.dtype.kind in "SU" and not isinstance(values, np.ndarray):
        each = np.asarray(values, dtype=object)
        if any(not isinstance(value, (str, bytes)) for value in each.ravel()):
            return each
    return row


def first_absent(values: npt.NDArray[Any]) -> int | None:
    """Returns the first place in which there is nothing: None, a NaN, or what pandas has for them."""
    if values.dtype.kind not in "OT":  # numpy's texts may have a NaN for nothing
        return None
    return next((i for i, value in enumerate(values.tolist()) if is_absent(value)), None)


def is_absent(value: object) -> bool:
    """Returns whether a value stands for none."""
    try:
        return value is None or bool(value != value)
    except TypeError:  # of pandas' NA, which is neither
        return True
    except ValueError:  # of an array
        return False


def _numbers(X: Any) -> FloatArray:
    found = as_array("X", X, data=True)
    if found.dtype.kind not in "biuf":
        raise InvalidDataError("X", X, "is no table of numbers")
    return found.astype(np.float64)
