"""Sums of products of long vectors on one core.

BLAS, which ``@`` and ``numpy.linalg.norm`` call, gives vectors of ten thousand entries to several threads. The sum is
over before they have started, and on a busy machine they wait for each other several times as long as the work takes.
"""

import math

import numpy as np

from hockeystick.accounting.arrays import FloatArray


def dot(a: FloatArray, b: FloatArray) -> float:
    """Returns the sum of the products of two vectors; for n entries it is off by n U of the sum of their sizes.

    Example:
      >>> dot(np.array([1.0, 2.0]), np.array([3.0, 4.0]))
      11.0
    """
    return float(np.einsum("i,i->", a, b))


def norm(a: FloatArray) -> float:
    """Returns the 2-norm of a vector whose squares do not overflow.

    Example:
      >>> norm(np.array([3.0, 4.0]))
      5.0
    """
    return math.sqrt(dot(a, a))
