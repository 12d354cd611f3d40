"""The models of ``hockeystick run online-distribution``: built-in ones, or tables of probabilities in files."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from attrs import frozen

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.errors import Hidden, unchained
from hockeystick.accounting.files.reading import UnreadableFileError
from hockeystick.accounting.optional_packages import require
from hockeystick.accounting.validate import array
from hockeystick.audits.targets.array_files import is_archive, read_array
from hockeystick.learners.distribution.channels.candidates import Hypotheses, LabelDensities, LabelTable
from hockeystick.learners.distribution.hadamard_candidates import HadamardClass

MODELS = ("half-uniform", "hadamard", "poisson", "digits")
"""Names of built-in models; see :func:`named_models`."""

_POISSON_MEANS = (1.0, 50.0)
_DIGIT_CONTEXTS, _DIGIT_MODELS = 128, 32
_MOST_NUMBERS = 1 << 32  # of a table of masses: 32 GB


@frozen(eq=False)
class Models:
    """Models, with the name by which they were selected."""

    name: str
    hypotheses: Hypotheses

    @property
    def contexts(self) -> int | None:
        """The number of contexts; None for models without contexts."""
        return self.hypotheses.contexts if isinstance(self.hypotheses, LabelTable) else None


def models_of(name: str, *, rounds: int, experts: int | None, alphabet: int | None, epsilon: float) -> Models:
    """Returns built-in models, or those of an .npy file of shape (models, labels) or (contexts, models, labels).

    Raises:
        InvalidArgumentError: The name is neither a built-in model nor such a file, or the sizes don't fit.
    """
    if alphabet is not None and name != "half-uniform":
        raise InvalidArgumentError("--alphabet", alphabet, "is for half-uniform models only", "leave it out")
    if name in MODELS:
        if experts is None:
            raise InvalidArgumentError("--experts", None, "is missing", "give the number of models")
        return Models(name, named_models(name, rounds=rounds, experts=experts, alphabet=alphabet, epsilon=epsilon))
    found = _loaded("--models", name, f"give a file of probabilities, or one of {', '.join(MODELS)}")
    table = LabelTable(array("--models", found, low=0.0, high=1.0))
    if experts is not None and experts != table.count:
        raise InvalidArgumentError("--experts", experts, f"differs from the file's {table.count}", "leave it out")
    return Models(name, table)


def named_models(name: str, *, rounds: int, experts: int, alphabet: int | None, epsilon: float) -> Hypotheses:
    """Returns built-in models.

    * "half-uniform": mixtures, with weights 1/2, of the uniform law on all M labels and on M/K labels of each model.
    * "hadamard": the models that are hardest to distinguish in this number of rounds; an even number of them.
    * "poisson": Poisson counts, with means from 1 to 50 that are evenly spaced on a logarithmic scale.
    * "digits": softmax classifiers of scikit-learn's digits, each fitted to a part of the images with its own
      regularisation; the contexts are 128 images that were not used for fitting.

    Raises:
        InvalidArgumentError: The models can't have these sizes.
        MissingExtraError: scikit-learn is not installed.
    """
    if name == "half-uniform":
        labels = experts if alphabet is None else alphabet
        if experts * labels > _MOST_NUMBERS:
            raise InvalidArgumentError(
                "--experts", experts, f"have {labels} labels each: too large a table", "use fewer"
            )
        if labels % experts:
            raise InvalidArgumentError(
                "--alphabet", labels, f"is not a multiple of {experts}, the number of models", "give one"
            )
        return half_uniform(experts, labels)
    if name == "hadamard":
        if experts % 2:
            raise InvalidArgumentError("--experts", experts, "is odd", "hadamard models come in pairs")
        return HadamardClass.hardest(experts // 2, rounds=rounds, epsilon=epsilon).hypotheses()
    if name == "poisson":
        return LabelDensities.poisson(np.geomspace(*_POISSON_MEANS, experts))
    return LabelTable(_digits(experts))


def half_uniform(experts: int, labels: int) -> LabelTable:
    """Returns mixtures, with weights 1/2, of the uniform law on all labels and on one K-th of them for each model.

    Args:
        experts: K.
        labels: M, a multiple of K.
    """
    own = np.repeat(np.eye(experts), labels // experts, axis=1)
    return LabelTable(0.5 / labels + own * (0.5 * experts / labels))


def _digits(experts: int) -> FloatArray:
    """Returns predicted probabilities of ten digits, shape (contexts, K, 10)."""
    if experts > _DIGIT_MODELS:
        raise InvalidArgumentError("--experts", experts, "leaves too few images for each", f"use {_DIGIT_MODELS}")
    datasets = require("sklearn.datasets", "the digits", extra="demo")
    linear = require("sklearn.linear_model", "the digits", extra="demo")
    pixels, digits = datasets.load_digits(return_X_y=True)
    order = np.random.default_rng(20240202).permutation(len(digits))
    seen, shown = order[_DIGIT_CONTEXTS:], order[:_DIGIT_CONTEXTS]
    table = np.zeros((_DIGIT_CONTEXTS, experts, 10))
    for j, strength in enumerate(np.geomspace(1e-3, 1.0, experts)):
        own = seen[j::experts]
        model = linear.LogisticRegression(C=strength, max_iter=2000).fit(pixels[own] / 16.0, digits[own])
        table[:, j, model.classes_] = model.predict_proba(pixels[shown] / 16.0)
    return np.asarray(table / table.sum(axis=2, keepdims=True))


def numbers_file(option: str, path: str) -> npt.NDArray[Any]:
    """Returns a row of numbers in an .npy file: labels, or contexts.

    Raises:
        InvalidArgumentError: The file does not exist, or does not hold a row of at least two finite numbers.
    """
    remedy = "write a row of numbers with numpy.save"
    found = _loaded(option, path, remedy)
    if found.ndim != 1 or found.dtype.kind not in "fiu" or len(found) < 2 or not np.isfinite(found).all():
        reason = f"holds {Hidden.of(found.dtype).kind} of shape {found.shape}, not a row of at least two finite numbers"
        raise InvalidArgumentError(option, path, reason, remedy)
    return found


@unchained()
def _loaded(option: str, path: str, remedy: str) -> npt.NDArray[Any]:
    try:
        if is_archive(path):
            raise InvalidArgumentError(option, path, "is an archive of arrays", remedy)
        return read_array(path)
    except UnreadableFileError as error:
        raise error.about(option, path, remedy) from None
