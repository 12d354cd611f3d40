"""Short names for the types of arrays, shared by all parts."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
AnyIntArray = npt.NDArray[np.integer]  # whole numbers of any width
