"""Streams of people from the data sets of scikit-learn, for learners of experts and of convex losses.

A fifth of the rows is declared public. Only these rows train the classifiers that serve as experts, and determine the
scales of the features. The others are the protected people, each once, in a fixed random order.
"""

from __future__ import annotations

import importlib.util
import warnings
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.optional_packages import MissingExtraError

if TYPE_CHECKING:
    from hockeystick.learners.lazy.convex.losses.convex_losses import RegressionLosses


DATA = ("breast_cancer", "wine", "digits")
CLASSIFIERS = (
    "most frequent class",
    "tree of depth 1",
    "tree of depth 3",
    "nearest centroid",
    "nearest neighbour",
    "five nearest neighbours",
    "naive Bayes",
    "logistic regression",
)

_PUBLIC = 0.2


def classifier_errors(name: str) -> FloatArray:
    """Returns the errors of the classifiers on the protected people of a data set, shape (people, 8), each 0 or 1.

    Raises:
        InvalidArgumentError: No such data set.
        MissingExtraError: scikit-learn, which holds the data, is not installed.
    """
    values, labels, known, people = _split(name)
    from sklearn.dummy import DummyClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import GaussianNB
    from sklearn.neighbors import KNeighborsClassifier, NearestCentroid
    from sklearn.tree import DecisionTreeClassifier

    models = (
        DummyClassifier(),
        DecisionTreeClassifier(max_depth=1, random_state=1),
        DecisionTreeClassifier(max_depth=3, random_state=1),
        NearestCentroid(),
        KNeighborsClassifier(1),
        KNeighborsClassifier(5),
        GaussianNB(),
        LogisticRegression(max_iter=1000),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a pixel that is the same in all images of a digit
        wrong = [m.fit(values[known], labels[known]).predict(values[people]) != labels[people] for m in models]
    return np.stack(wrong, axis=1).astype(float)


def logistic_losses(name: str) -> RegressionLosses:
    """Returns 1-Lipschitz logistic losses of a linear model on the protected people, first class against the others.

    Features are divided by the largest norm of a public row; longer protected rows are scaled down to norm 1.

    Raises:
        InvalidArgumentError: No such data set.
        MissingExtraError: scikit-learn, which holds the data, is not installed.
    """
    from hockeystick.learners.lazy.convex.losses.convex_losses import RegressionLosses

    values, labels, known, people = _split(name)
    largest = float(np.linalg.norm(values[known], axis=1).max())
    targets = np.where(labels[people] == 0, 1.0, -1.0)
    return RegressionLosses(values[people] / largest, targets, "logistic").clipped(1.0)


def _split(name: str) -> tuple[FloatArray, npt.NDArray[np.int64], npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Returns features (scaled by public rows only) and labels of all rows, then public and protected indices."""
    if name not in DATA:
        raise InvalidArgumentError("dataset", name, "is unknown", f"use one of {', '.join(DATA)}")
    if importlib.util.find_spec("sklearn") is None:
        raise MissingExtraError(
            "the data sets need scikit-learn, which is not installed; pip install 'hockeystick[demo]'"
        )
    from sklearn import datasets

    values, labels = getattr(datasets, f"load_{name}")(return_X_y=True)
    order = np.random.default_rng(20240609).permutation(len(labels))
    first = round(_PUBLIC * len(labels))
    known, people = order[:first], order[first:]
    spread = np.maximum(values[known].std(axis=0), 1e-9)
    return np.clip((values - values[known].mean(axis=0)) / spread, -10.0, 10.0), labels, known, people
