"""Wrong arguments: a keyword that a function does not take is refused with the one that was probably meant."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FunctionType
from typing import Any, ParamSpec, TypeVar

from hockeystick._guess.names import close_to

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C")

# What people write for an argument, and ours: the first that the function takes.
_ARGUMENTS = {
    "neighbors": "neighbours",
    "datasets": "neighbours",
    "pair": "neighbours",
    "d0": "neighbours",
    "d1": "neighbours",
    "eps": "epsilon claim",
    "epsilon": "claim target",
    "delta": "claim target",
    "alpha": "confidence",
    "n": "samples records count",
    "num_samples": "samples",
    "n_samples": "samples",
    "trials": "samples",
    "seed": "rng",
    "random_state": "rng",
    "n_jobs": "workers",
    "timeout": "seconds",
    "sigma": "noise_multiplier scale noise",
    "std": "noise_multiplier scale noise",
    "stddev": "noise_multiplier scale",
    "noise": "noise_multiplier scale",
    "b": "scale",
    "q": "probability sampling rate",
    "rate": "probability",
    "sample_rate": "probability",
    "sampling_probability": "probability",
    "batch_size": "batch",
    "num_epochs": "epochs",
    "dataset_size": "records",
    "num_examples": "records",
    "max_grad_norm": "clip",
    "l2_norm_clip": "clip",
    "steps": "count",
    "adjacency": "relation",
    "relation": "adjacency",
    "neighboring_relation": "adjacency",
}


def guessing(function: Callable[P, R]) -> Callable[P, R]:
    """Returns the function with an error that says which argument may have been meant by an unknown one.

    Example:
      >>> from hockeystick._guess.arguments import guessing
      >>> @guessing
      ... def noise(*, scale):
      ...     return scale
      >>> noise(scal=1.0)
      Traceback (most recent call last):
      TypeError: noise() got an unexpected keyword argument 'scal'; did you mean 'scale'?
    """

    @functools.wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            assert error.__traceback__ is not None
            if error.__traceback__.tb_next is None:  # of the call itself, not from inside
                text = str(error)
                hint = _meant(function, kwargs)
                if hint and "did you mean" not in text.lower():  # Python 3.13 finds some of them
                    raise TypeError(f"{text}; {hint}") from None
            raise

    return called


def guessing_arguments(cls: type[C]) -> type[C]:
    """Gives the constructor of a class the errors of ``guessing``, if the class has one of its own, and returns it."""
    init = vars(cls).get("__init__")
    if isinstance(init, FunctionType) and not hasattr(init, "__wrapped__"):
        cls.__init__ = guessing(init)  # type: ignore[method-assign]
    return cls


def _meant(function: Callable[..., Any], given: dict[str, Any]) -> str:
    import inspect  # used when something is wrong only

    taken = [name for name in inspect.signature(function).parameters if name != "self" and not name.startswith("_")]
    wrong = next((name for name in given if name not in taken), None)
    if wrong is None:
        return ""
    synonyms = [name for name in _ARGUMENTS.get(wrong.lower(), "").split() if name in taken]
    if close := synonyms[:1] or close_to(wrong.lower(), taken):
        return f"did you mean {close[0]!r}?"
    return f"it takes {', '.join(taken)}" if taken else ""
