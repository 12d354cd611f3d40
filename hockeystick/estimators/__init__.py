"""Estimators in the manner of scikit-learn."""

from hockeystick.estimators.queries_and_divergences import *  # noqa: F403
from hockeystick.estimators.queries_and_divergences import __all__ as __all__
