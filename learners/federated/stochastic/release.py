"""Releases of the federated stochastic learner: secret orders, messages on a grid, and exact choices.

A client's gradients are rounded to a grid and whole-number noise is added (Laplace, Gaussian); a trusted server
compares exact numbers (``mechanisms.NoisyMax``). The noise is slightly larger than that of a simulation, by enough that
the learner's graph covers it in all of its views:

* Averages are computed in floats. Whatever the order of summation, n numbers of size M have an average that is off by
  at most n*M*2^-53 (Higham 2002, section 4.2). A record's change D then becomes D + 2e.
* Rounding to a grid of step g turns that into at most D/g + 1 + 2e/g steps of each coordinate. For messages,
  ``mechanisms/randomness/noise_on_a_grid.py`` says which discrete noise is then covered by real noise.
* Winners are computed from the messages and cost less: only the range R = 2D of the changes is charged. The range in
  steps is K <= R/g + 2 + 4e/g. A path of K changes, each raising some coordinates by one step, leads from one data set
  to the other, and each is (1/t)-DP for discrete Laplace noise of scale t: fix all noise but the winner's. Mixtures of
  neighbours on the path make it one of laws whose logarithms change at a rate of at most e^(1/t) - 1 <= 1/t + 1/t^2 per
  step, which is what a noisy maximum is charged for (``accounting/events/answers/drifting_law.py``). Messages' t, plus
  1, meets it. All clients use one grid, so that the server's sums are exact.

The overheads shrink with D, so those of the vertex that moves a leaf least are valid for all.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.learners.federated.stochastic.frank_wolfe_tree import StochSetting, TreePhase
from hockeystick.learners.federated.stochastic.loss_pool import Labels, ordered_labels
from hockeystick.learners.federated.stochastic.privacy_plan import places
from hockeystick.mechanisms import Gaussian, Noise, NoisyMax
from hockeystick.mechanisms.randomness import noise_on_a_grid

_MOST_ROUNDING = 2.0**-10  # as a share of the shift by one record
_MOST_STEPS = 2.0**53  # of a grid, up to which sums of floats are exact
_KEYS = 2**62


def secret_labels(phase: TreePhase, setting: StochSetting, noise: Noise) -> Labels:
    """Returns one client's uniform assignment for a phase, shape (records,): sorted by distinct random keys."""
    labels = ordered_labels(phase)
    if setting.assignment == "contiguous":
        return labels
    keys = noise.uniform(_KEYS, len(labels))
    while len(np.unique(keys)) < len(keys):
        keys = noise.uniform(_KEYS, len(labels))
    return labels[np.argsort(keys)]


def check_release(setting: StochSetting, *, experts: int) -> None:
    """Refuses a setting of which a release would fail at a leaf, before anything is charged.

    Raises:
        InvalidArgumentError: as :func:`released_scores` or :func:`released_winner`, for any leaf.
    """
    for phase in setting.phases:
        if phase is not None:
            for tree in range(1, phase.trees + 1) if phase.trees else (0,):
                if setting.where == "client":
                    _message_noise(setting, phase, tree, experts)
                else:
                    _server_noise(setting, phase, tree)


def released_scores(setting: StochSetting, phase: TreePhase, tree: int, scores: FloatArray, noise: Noise) -> FloatArray:
    """Returns a client's gradient of shape (d,), on a grid, with noise.

    Raises:
        InvalidArgumentError: noise that hides no message, or averages whose rounding exceeds the shift by a record.
    """
    step, scale = _message_noise(setting, phase, tree, len(scores))
    draw = noise.laplace if setting.noise == "laplace" else noise.gaussian
    return noise_on_a_grid.values(noise_on_a_grid.steps(scores, step) + draw(scale, len(scores)), step)


@lru_cache(maxsize=256)
def _message_noise(setting: StochSetting, phase: TreePhase, tree: int, entries: int) -> tuple[float, float]:
    """The step of the grid of a client's gradient of shape (entries,), and the scale of its noise in steps."""
    shift, error = _least_shift(setting, phase, tree), _rounding(setting, phase)
    scale = phase.scale(tree)
    _check_rounding(error, shift)
    l1, l2 = entries * shift, math.sqrt(entries) * shift
    if setting.noise == "laplace":
        step = noise_on_a_grid.laplace_grid(scale, l1, entries)
    elif setting.noise == "gaussian":
        step = noise_on_a_grid.gaussian_grid(scale, l2, entries)
    else:
        raise InvalidArgumentError(
            "noise", setting.noise, "hides no message", "use laplace or gaussian noise where clients add it"
        )
    if not setting.clients * (_largest(setting, phase) + 64 * scale) <= _MOST_STEPS * step:
        raise InvalidArgumentError("scales", scale, "is too large for the shift by one loss", "use less noise")
    more = 1 + math.ceil(2 * error / step)  # the steps by which rounding moves a coordinate
    if setting.noise == "laplace":
        return step, noise_on_a_grid.laplace_scale(scale, l1, step, entries * more) + 1
    return step, noise_on_a_grid.gaussian_scale(scale, l2, step, entries * more**2)


def released_winner(setting: StochSetting, phase: TreePhase, tree: int, total: FloatArray, noise: Noise) -> int:
    """Returns the winner by sums over the clients, shape (d,), with a trusted server's noise.

    Raises:
        InvalidArgumentError: sums whose rounding exceeds the shift by a record.
    """
    shift, scale = _server_noise(setting, phase, tree)
    if setting.noise == "gaussian":
        sensitivity = math.sqrt(len(total)) * shift
        return int(np.argmin(Gaussian(scale, sensitivity=sensitivity).release(total, noise=noise)))
    return int(NoisyMax(scale, setting.noise, sensitivity=shift, minimum=True).release(total, noise=noise))


@lru_cache(maxsize=256)
def _server_noise(setting: StochSetting, phase: TreePhase, tree: int) -> tuple[float, float]:
    """The shift of a sum over clients by one loss, and the scale of the noise on the sum."""
    m = setting.clients
    shift = _least_shift(setting, phase, tree)
    # A sum over m clients is off by U for each, of m times the largest; 2 U are taken.
    error = m * (_rounding(setting, phase) + m * _largest(setting, phase) * 2.0**-52)
    _check_rounding(error, shift)
    # 2^13 U, of which products, the quotient and the sum need 5.
    return shift, m * phase.scale(tree) * (1 + 2 * error / shift) * (1 + 2.0**-40)


def _least_shift(setting: StochSetting, phase: TreePhase, tree: int) -> float:
    """The least shift of a leaf of the tree, over the places where a record can be read."""
    return min(place.shift for place in places(setting, phase) if place.tree == tree)


def _largest(setting: StochSetting, phase: TreePhase) -> float:
    """The largest coordinate of a gradient with all corrections."""
    return max(abs(setting.low), abs(setting.high)) + setting.span * phase.trees


def _rounding(setting: StochSetting, phase: TreePhase) -> float:
    """The largest rounding error of a client's gradient at a leaf: of an average, and a correction at each step."""
    largest = max(abs(setting.low), abs(setting.high), setting.span)
    return (phase.trees + 1) * (phase.batch + 8) * largest * 2.0**-52


def _check_rounding(error: float, shift: float) -> None:
    if not 2 * error <= _MOST_ROUNDING * shift:
        raise InvalidArgumentError(
            "batch", shift, f"is too small a shift by one loss for a rounding error of {error:g}", "use fewer losses"
        )
