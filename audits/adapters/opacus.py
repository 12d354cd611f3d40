"""DP-SGD by Opacus as a target: the audit adds a canary gradient in each step, and reads it from the noisy gradient.

The attack is white-box: the adversary sees each step's noisy gradient, as in the guarantee of DP-SGD, and adds one
record whose gradient is a single coordinate (the Dirac canary of Nasr et al. 2021 and 2023). If the training data does
not affect that coordinate, a step's reading is exactly that of the Poisson-sampled Gaussian mechanism, N(1, sigma^2)
with probability q, else N(0, sigma^2). The score is the log-likelihood ratio of all steps, a sufficient statistic. So a
few short trainings give a bound near the accountant's epsilon, and reveal too little noise, missing clipping, or steps
that were not counted.

A training loop changes in one line, ``canary.step(optimizer)`` instead of ``optimizer.step()``::

    def train(canary):
        model, engine = torch.nn.Linear(8, 2), PrivacyEngine()
        model, optimizer, loader = engine.make_private(
            module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), data_loader=loader_of(data),
            noise_multiplier=1.0, max_grad_norm=1.0,
        )
        for features, labels in loader:
            optimizer.zero_grad()
            loss(model(features), labels).backward()
            canary.step(optimizer)
        return engine.accountant

    target = dp_sgd(train, sample_rate=0.1)
    verdict = hs.audit(target, claim=target.claim(), samples=1000)

The audit does not test whether the loader samples as the accountant assumes, because the canary tosses its own coin.
Nor does it test leaks of the model beyond the gradients.

One canary needs many trainings. :class:`GradientCanaries` puts many into one training, for a one-run audit.
"""

from __future__ import annotations

import importlib.metadata
import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
from attrs import define, field

from hockeystick.accounting import InvalidArgumentError, from_opacus
from hockeystick.accounting.arrays import BoolArray, FloatArray
from hockeystick.accounting.optional_packages import require
from hockeystick.accounting.validate import integer, probability, real
from hockeystick.audits.adapters.adapted import Adapted
from hockeystick.audits.claims.claim import Claim
from hockeystick.audits.targets.calling import TargetError


def _mask(value: object) -> BoolArray:
    found = np.asarray(value)
    if found.dtype != bool or found.ndim != 1 or not len(found):
        raise InvalidArgumentError("included", value, "is not a vector of bools", "give design.included[run]")
    return found


def _rate(instance: object, attribute: object, value: float) -> None:
    if probability("sample_rate", value) == 0.0:
        raise InvalidArgumentError("sample_rate", value, "samples nothing", "give the loader's rate, above 0")


@define
class GradientCanary:
    """The gradient of one record during one training, along one coordinate.

    Attributes:
      present: whether the record is in the data set.
      sample_rate: probability that a step samples the record, independently of other steps.
      rng: randomness of the sampling.
      parameter, index: number of the optimizer's parameter, and index of the coordinate in it, flattened.
      norm: norm of the gradient before clipping, in clipping norms; if it is above 1, the clipping is tested too.
      score: log-likelihood ratio of the readings so far, for the record's presence against its absence.
      steps: number of readings so far.
    """

    present: bool
    sample_rate: float
    rng: np.random.Generator = field(repr=False)
    parameter: int
    index: int
    norm: float
    score: float = field(default=0.0, init=False)
    steps: int = field(default=0, init=False)

    def step(self, optimizer: Any) -> None:
        """Adds the canary to the per-sample gradients if it is sampled, makes the step, and reads the noisy gradient.

        Call it after ``backward()``, on Opacus's optimizer with one clipping norm for the whole gradient.

        Raises:
          InvalidArgumentError: the optimizer is not Opacus's, or does not have the coordinate.
          TargetError: the step was split into several physical batches.
        """
        clip = _clipping_norm(optimizer)
        sampled = self.rng.random() < self.sample_rate  # tossed if absent too: one coin a step on both data sets
        if self.present and sampled:
            self._insert(optimizer, clip)
        scale = _stepped(optimizer) / clip
        reading = float(self._parameter(optimizer).grad.reshape(-1)[self.index]) * scale
        self.score += float(_log_ratio(reading, self.sample_rate, float(optimizer.noise_multiplier)))
        self.steps += 1

    def _parameter(self, optimizer: Any) -> Any:
        parameters = optimizer.params
        if self.parameter >= len(parameters) or self.index >= parameters[self.parameter].numel():
            shapes = [tuple(p.shape) for p in parameters]
            wanted = (self.parameter, self.index)
            raise InvalidArgumentError(
                "(parameter, index)", wanted, f"is not in the shapes {shapes}", "give the coordinate of a parameter"
            )
        return parameters[self.parameter]

    def _insert(self, optimizer: Any, clip: float) -> None:
        self._parameter(optimizer)
        first = sum(parameter.numel() for parameter in optimizer.params[: self.parameter])
        _insert_rows(optimizer, np.array([first + self.index]), self.norm * clip)


@define
class GradientCanaries:
    """Many gradient canaries in one training, for a one-run audit: each has a coordinate of its own.

    Canary i is a record whose gradient is a single coordinate. The coordinates are spread evenly over all trainable
    parameters, so there must be as many parameters as canaries. Their readings do not disturb each other. The scores go
    to :func:`hockeystick.audits.one_run_verdict` with the coins of a :class:`hockeystick.audits.OneRunDesign`, under
    add-or-remove-one. `docs/audit-fine-tuning.md` has an example.

    Attributes:
      included: whether each canary is in the data set, shape (canaries,).
      sample_rate: probability that a step samples a canary, independently of other steps and canaries.
      rng: randomness of the sampling.
      norm: norm of a canary before clipping, in clipping norms; if it is above 1, the clipping is tested too.
      scores: log-likelihood ratios of the readings so far, for presence against absence, shape (canaries,).
      steps: number of readings so far.

    Raises:
      InvalidArgumentError: an argument is outside its domain.
    """

    included: BoolArray = field(converter=_mask, repr=False)
    sample_rate: float = field(validator=_rate)
    rng: np.random.Generator = field(repr=False)
    norm: float = field(default=2.0, kw_only=True)
    scores: FloatArray = field(init=False, repr=False)
    steps: int = field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        real("norm", self.norm, low=0.0, low_open=True)
        self.scores = np.zeros(len(self.included))

    def step(self, optimizer: Any) -> None:
        """Adds the sampled canaries to the per-sample gradients, makes the step, and reads the noisy gradient.

        Call it after ``backward()``, on Opacus's optimizer with one clipping norm for the whole gradient.

        Raises:
          InvalidArgumentError: the optimizer is not Opacus's, or has fewer coordinates than there are canaries.
          TargetError: the step was split into several physical batches.
        """
        torch = require("torch", "an audit of DP-SGD", extra="opacus")
        clip, size = _clipping_norm(optimizer), sum(parameter.numel() for parameter in optimizer.params)
        canaries = len(self.included)
        if canaries > size:
            reason = f"has {canaries:,} canaries for {size:,} trainable parameters"
            raise InvalidArgumentError("included", canaries, reason, "give at most one a parameter, and more runs")
        places = np.arange(canaries) * size // canaries
        sampled = self.rng.random(canaries) < self.sample_rate
        _insert_rows(optimizer, places[sampled & self.included], self.norm * clip)
        scale = _stepped(optimizer) / clip
        noisy = torch.cat([parameter.grad.reshape(-1) for parameter in optimizer.params]).detach().cpu().numpy()
        readings = noisy[places].astype(float) * scale
        self.scores += _log_ratio(readings, self.sample_rate, float(optimizer.noise_multiplier))
        self.steps += 1


def _clipping_norm(optimizer: Any) -> float:
    if not hasattr(optimizer, "grad_samples") or not hasattr(optimizer, "noise_multiplier"):
        raise InvalidArgumentError("optimizer", optimizer, "is not Opacus's", "give the one from make_private")
    return real("max_grad_norm", optimizer.max_grad_norm, low=0.0, low_open=True)


def _stepped(optimizer: Any) -> float:
    """Makes the step, and returns the factor from the gradient that Opacus leaves to the noisy sum."""
    optimizer.step()
    if getattr(optimizer, "_is_last_step_skipped", False):
        raise TargetError("a step was split into physical batches, and each would get a canary; use whole batches")
    return float(optimizer.expected_batch_size) if optimizer.loss_reduction == "mean" else 1.0


def _insert_rows(optimizer: Any, places: npt.NDArray[np.int_], size: float) -> None:
    """Adds one record for each place: its gradient is ``size`` at that coordinate of all parameters, flattened."""
    torch = require("torch", "an audit of DP-SGD", extra="opacus")
    first = 0
    for parameter in optimizer.params:
        samples = parameter.grad_sample
        samples = torch.cat(samples) if isinstance(samples, list) else samples
        rows = torch.zeros((len(places), parameter.numel()), dtype=samples.dtype, device=samples.device)
        here = np.flatnonzero((first <= places) & (places < first + parameter.numel()))
        rows[here.tolist(), (places[here] - first).tolist()] = size
        parameter.grad_sample = torch.cat([samples, rows.reshape(len(places), *parameter.shape)])
        first += parameter.numel()


def _log_ratio(reading: Any, rate: float, sigma: float) -> Any:
    """Returns log((1-q) + q N(reading; 1, sigma^2) / N(reading; 0, sigma^2)), or the reading itself at sigma = 0."""
    if sigma == 0.0:
        return reading
    exponent = (2 * reading - 1) / (2 * sigma * sigma)
    absent = math.log1p(-rate) if rate < 1.0 else -math.inf
    return np.logaddexp(absent, math.log(rate) + exponent)


def dp_sgd(
    train: Callable[[GradientCanary], Any],
    *,
    sample_rate: float,
    delta: float = 1e-5,
    parameter: int = 0,
    index: int = 0,
    norm: float = 2.0,
) -> Adapted:
    """Returns a training with Opacus as a target, whose output is the canary's score in one training.

    The claim is the history that Opacus's accountant recorded in a first training without the canary, converted by
    :func:`hockeystick.accounting.from_opacus`, under add-or-remove-one. Torch's global generator is seeded from the
    audit's generator before each training, and restored after it. So an audit is repeatable unless ``train`` seeds
    torch's generator, uses Opacus's secure mode, or has another source of randomness.

    Args:
      train: makes one whole training, calls ``canary.step(optimizer)`` instead of ``optimizer.step()``, and returns
        the privacy engine's accountant or its history.
      sample_rate: rate of the Poisson sampling, in (0, 1]; the accountant must have recorded the same rate.
      delta: the delta at which the verdict states epsilon.
      parameter, index: the canary's coordinate. A coordinate that the data does not affect gives the tightest bound,
        such as the weight of a feature that is always zero.
      norm: norm of the canary before clipping, in clipping norms.

    Raises:
      MissingExtraError: Opacus is not installed.
      InvalidArgumentError: a number is out of range, or there is no history, or one with another sample rate.
      TargetError: ``train`` made no step with the canary.
    """
    require("opacus", "an audit of DP-SGD", extra="opacus")
    _rate(None, None, sample_rate)
    rate = float(sample_rate)
    place = integer("parameter", parameter, low=0), integer("index", index, low=0)
    size = real("norm", norm, low=0.0, low_open=True)

    def run(present: Any, rng: np.random.Generator) -> tuple[float, Any]:
        torch = require("torch", "an audit of DP-SGD", extra="opacus")
        canary = GradientCanary(bool(present), rate, rng, *place, size)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(rng.integers(1 << 63)))
            accountant = train(canary)
        if not canary.steps:
            raise TargetError("train made no step with the canary: call canary.step(optimizer), not optimizer.step()")
        return canary.score, accountant

    _, accountant = run(False, np.random.default_rng(0))
    claim = Claim.curve(from_opacus(accountant), delta)
    _check_rates(accountant, rate)
    name = f"opacus {importlib.metadata.version('opacus')} training, gradient canary"
    return Adapted(name, lambda data, rng: run(data, rng)[0], claim, (False, True), repeatable=True)


def _check_rates(accountant: Any, rate: float) -> None:
    rows: Iterable[Any] = getattr(accountant, "history", accountant)
    recorded = {float(row[1]) for row in rows}
    if any(not math.isclose(own, rate, rel_tol=1e-9) for own in recorded):
        remedy = "give the rate of the loader, 1 / len(loader)"
        raise InvalidArgumentError("sample_rate", rate, f"is not what the accountant recorded, {recorded}", remedy)
