"""Draws outputs of one release of one library, in that release's own environment: part of run.py.

It runs under whatever Python and numpy the old release needs, and knows nothing of hockeystick:

    python draw.py SAMPLER '{"runs": 20000, "neighbours": [0.0, 1.0], ...}' OUT.npz

OUT.npz holds ``d0`` and ``d1``, one output a run; of an auditor, ``bounds``, one lower bound on epsilon an audit.
"""

from __future__ import annotations

import json
import sys
import warnings
from importlib import import_module
from typing import Any

import numpy as np


def numpy_laplace(value: float, runs: int, grid: float | None = None) -> Any:
    noisy = value + np.random.default_rng().laplace(size=runs)
    return noisy if grid is None else np.round(noisy / grid) * grid


def numpy_laplace_by_inverse(value: float, runs: int) -> Any:
    uniform = np.random.default_rng().random(runs) - 0.5
    return value - np.sign(uniform) * np.log(1 - 2 * np.abs(uniform))


def _opendp_constructors() -> Any:
    import_module("opendp.mod").enable_features("contrib", "floating-point")
    try:
        return import_module("opendp.measurements")
    except ImportError:  # until 0.5
        return import_module("opendp.meas")


def opendp_noise(value: float, runs: int, kind: str, scale: float = 1.0) -> Any:
    """Noise of any release since 0.2: the constructors were renamed and got more arguments on the way."""
    constructors = _opendp_constructors()
    try:
        measurement = getattr(constructors, "make_base_" + kind)(scale)
    except (AttributeError, TypeError):  # since 0.7 the domain and the metric come first
        domain_of, metric_of = import_module("opendp.domains").atom_domain, import_module("opendp.metrics")
        make = getattr(constructors, "make_base_" + kind, None) or getattr(constructors, "make_" + kind)
        try:
            domain = domain_of(T=float, nan=False)
        except TypeError:
            domain = domain_of(T=float)
        measurement = make(domain, metric_of.absolute_distance(T=float), scale)
    return [measurement(value) for _ in range(runs)]


def opendp_randomized_response(value: int, runs: int, truth: float) -> Any:
    measurement = _opendp_constructors().make_randomized_response_bool(truth)
    return [int(measurement(bool(value))) for _ in range(runs)]


def diffprivlib_mechanism(value: float, runs: int, name: str, **parameters: float) -> Any:
    mechanism = getattr(import_module("diffprivlib.mechanisms"), name)(**parameters)
    return [mechanism.randomise(value) for _ in range(runs)]


def diffprivlib_regression(value: float, runs: int, epsilon: float = 1.0) -> Any:
    """The coefficient of a regression on one person with feature ``value`` and label 0."""
    regression = import_module("diffprivlib.models").LinearRegression
    features, labels = np.array([[value]]), np.array([0.0])
    bounds = {"bounds_X": (0.0, 1.0), "bounds_y": (0.0, 1.0), "fit_intercept": False}
    return [float(regression(epsilon=epsilon, **bounds).fit(features, labels).coef_[0]) for _ in range(runs)]


def pydp_mechanism(value: float, runs: int, name: str, parameters: list[float]) -> Any:
    mechanism = getattr(import_module("pydp.algorithms.numerical_mechanisms"), name)(*parameters)
    return [mechanism.add_noise(value) for _ in range(runs)]


def pydp_bounded_sum(value: int, runs: int, epsilon: float = 1.0) -> Any:
    """The sum of one or two people at the upper bound."""
    people = [1.0] * (1 + value)
    bounds = {"lower_bound": 0, "upper_bound": 1, "l0_sensitivity": 1, "linf_sensitivity": 1, "dtype": "float"}
    algorithm = import_module("pydp.algorithms.laplacian").BoundedSum(epsilon=epsilon, delta=0, **bounds)
    return [algorithm.quick_result(people) for _ in range(runs)]


def jax_privacy_auditor(
    runs: int, estimator: str, canaries: int, delta: float, significance: float, sigma: float
) -> Any:
    """Lower bounds on epsilon that an estimator states for Gaussian noise of scale sigma and sensitivity 1."""
    auditing = import_module("jax_privacy.auditing")
    bounds = []
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        inside, outside = rng.normal(1.0, sigma, canaries), rng.normal(0.0, sigma, canaries)
        bounds.append(getattr(auditing.CanaryScoreAuditor(inside, outside), estimator)(significance, delta))
    return bounds


def main(sampler: str, settings: str, out: str) -> None:
    warnings.simplefilter("ignore")
    arguments = json.loads(settings)
    neighbours = arguments.pop("neighbours", None)
    draw = globals()[sampler]
    if neighbours is None:
        np.savez(out, bounds=np.asarray(draw(**arguments)))
    else:
        d0, d1 = (np.asarray(draw(value, **arguments)) for value in neighbours)
        np.savez(out, d0=d0, d1=d1)


if __name__ == "__main__":
    main(*sys.argv[1:])
