"""ε by step in an experiment tracker: MLflow, Weights & Biases, or anything that takes a metric and a step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hockeystick.accounting import validate
from hockeystick.accounting.errors import InvalidArgumentError


def epsilon_logger(
    accountant: Any, delta: float, *, to: Any, every: int = 1, name: str = "epsilon"
) -> Callable[[], float | None]:
    """Returns a function to be called after each step: it logs the ε so far, and returns it.

    ε depends on noise, rates and the number of steps alone, so that logging it reveals nothing of the records. No
    package is imported.

    Args:
      accountant: has ``get_epsilon(delta)``, such as ``opacus_engine().accountant`` or ``hs.Accountant``.
      delta: in [0, 1].
      to: has ``log_metric(name, value, step=...)`` (``mlflow``), ``log({name: value}, step=...)`` (``wandb``, or a run
        of it), or is a function of name, value and step.
      every: the number of steps from one value to the next, as each takes some 0.1 s; in between None is returned.
      name: of the metric.

    Raises:
      InvalidArgumentError: an argument is none of these.

    Example (``to=mlflow`` or ``to=wandb`` in place of the function):

      >>> from hockeystick.accounting.interop.opacus_training import TrainingAccountant
      >>> accountant = TrainingAccountant(poisson_sampling=True)
      >>> log = epsilon_logger(accountant, 1e-5, to=lambda name, value, step: print(step, name, round(value, 3)))
      >>> for _ in range(2):
      ...     accountant.step(noise_multiplier=1.0, sample_rate=0.01)
      ...     found = log()
      1 epsilon 0.199
      2 epsilon 0.245
    """
    target = validate.probability("delta", delta)
    period = validate.integer("every", every, low=1)
    if not callable(getattr(accountant, "get_epsilon", None)):
        raise InvalidArgumentError("accountant", accountant, "has no get_epsilon", "give opacus_engine().accountant")
    send = _sender(to)
    steps = 0

    def log() -> float | None:
        nonlocal steps
        steps += 1
        if steps % period:
            return None
        found = float(accountant.get_epsilon(target))
        send(name, found, steps)
        return found

    return log


def _sender(to: Any) -> Callable[[str, float, int], object]:
    if callable(metric := getattr(to, "log_metric", None)):
        return lambda name, value, step: metric(name, value, step=step)
    if callable(table := getattr(to, "log", None)):
        return lambda name, value, step: table({name: value}, step=step)
    if callable(to):
        return lambda name, value, step: to(name, value, step)
    raise InvalidArgumentError(
        "to", to, "takes no metrics", "give mlflow, wandb, or a function of name, value and step"
    )
