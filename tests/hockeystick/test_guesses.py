"""Tests of wrong names: each is refused with the name that was meant, and nothing is imported for it."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from functools import reduce
from typing import Any

import numpy as np
import pytest

import hockeystick as hs
from hockeystick import audits, learners, mechanisms, targets
from hockeystick._guess import names
from hockeystick._guess.arguments import guessing
from hockeystick._guess.attributes import _METHODS, guessing_attributes
from hockeystick.estimators import PrivateClassifier


def resolved(path: str) -> object:
    return reduce(getattr, path.split("."), hs)


@pytest.mark.parametrize("path", sorted({path for paths in names._index().values() for path in paths}))
def test_every_name_that_may_be_suggested_exists(path: str) -> None:
    if path.startswith("estimators."):
        assert PrivateClassifier.__module__.startswith("hockeystick.estimators")
    else:
        assert resolved(path) is not None


@pytest.mark.parametrize("path", names._SYNONYMS)
def test_every_synonym_leads_to_a_name_and_is_none(path: str) -> None:
    assert resolved(path) is not None
    for word in names._SYNONYMS[path].split():
        assert word == word.lower().replace("_", "")


@pytest.mark.parametrize(
    ("module", "guess", "meant"),
    [
        (hs, "RDP", "hockeystick.events.RenyiCurve"),
        (hs, "dp_sgd_epsilon", "hockeystick.DPSGD"),
        (hs, "get_noise_multiplier", "hockeystick.DPSGD"),
        (hs, "Ledger", "hockeystick.accounting.Ledger"),
        (hs, "Odometer", "hockeystick.accounting.Odometer"),
        (hs, "audit_command", "hockeystick.targets.Command"),
        (hs, "AcountantGraph", "hockeystick.AccountantGraph"),
        (hs, "zcdp", "hockeystick.events.ZCDP"),
        (hs, "sequential_audit", "hockeystick.audits.sequential_audit"),
        (hs, "SparseVector", "hockeystick.mechanisms.SparseVector or hockeystick.events.sparse_vector"),
        (hs, "Gaussian", "hockeystick.events.Gaussian or hockeystick.mechanisms.Gaussian"),
        (hs.events, "PoissonSubsampled", "hockeystick.events.PoissonSampled"),
        (hs.events, "SubsampledGaussian", "hockeystick.events.PoissonSampled"),
        (hs.events, "RDP", "hockeystick.events.RenyiCurve"),
        (hs.events, "Compose", "hockeystick.compose"),
        (hs.events, "DPSGD", "hockeystick.DPSGD"),
        (mechanisms, "Exponential", "hockeystick.mechanisms.ExponentialMechanism"),
        (mechanisms, "Histogram", "hockeystick.mechanisms.BoundedHistogram"),
        (mechanisms, "GaussianMechanism", "hockeystick.mechanisms.Gaussian"),
        (mechanisms, "Laplce", "hockeystick.mechanisms.Laplace"),
        (audits, "mia", "hockeystick.audits.audit_membership"),
        (learners, "Hedge", "hockeystick.learners.NoisyHedge"),
        (targets, "SQL", "hockeystick.targets.SqlQuery"),
    ],
)
def test_a_guess_is_answered_with_what_was_meant(module: Any, guess: str, meant: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(module, guess)
    text = f"module {module.__name__!r} has no attribute {guess!r}; did you mean {meant}?"
    if guess == "Hedge":  # too far from any name for a suggestion
        text = text.partition(";")[0]
    assert str(caught.value) == text


def test_a_name_that_is_like_none_gets_no_suggestion() -> None:
    for name in ("foo_bar_baz", "__wrapped__", "__path_hook__"):
        with pytest.raises(AttributeError) as caught:
            getattr(hs.events, name)
        assert str(caught.value) == f"module 'hockeystick.events' has no attribute {name!r}"


def test_a_suggestion_imports_nothing() -> None:
    code = (
        "import sys, hockeystick as hs; hasattr(hs, 'RDP'); print({'numpy', 'hockeystick.audits'} & set(sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\n"


def target(value: float, rng: np.random.Generator, runs: int) -> Any:
    return value + rng.laplace(size=runs)


@pytest.mark.parametrize(
    ("call", "given", "meant"),
    [
        (lambda **given: hs.audit(target, **given), {"neighbors": (0, 1)}, "did you mean 'neighbours'?"),
        (lambda **given: hs.audit(target, **given), {"epsilon": 1.0}, "did you mean 'claim'?"),
        (lambda **given: hs.audit(target, **given), {"seed": 1}, "did you mean 'rng'?"),
        (lambda **given: audits.sequential_audit(target, **given), {"neighbors": 1}, "did you mean 'neighbours'?"),
        (lambda **given: hs.Claim(**given), {"eps": 1.0}, "did you mean 'epsilon'?"),
        (lambda **given: hs.events.Gaussian(**given), {"sigma": 1.0}, "did you mean 'noise_multiplier'?"),
        (lambda **given: hs.mechanisms.Laplace(**given), {"b": 1.0}, "did you mean 'scale'?"),
        (lambda **given: hs.mechanisms.Laplace(**given), {"xyz": 1.0}, "it takes scale, sensitivity"),
        (lambda **given: hs.AccountantGraph(**given), {"relation": 1}, "did you mean 'adjacency'?"),
        (lambda **given: hs.DPSGD(records=100, epochs=1, **given), {"batch_size": 10}, "did you mean 'batch'?"),
        (lambda **given: hs.epsilon(hs.events.Gaussian(1.0), **given), {"detla": 1e-5}, "did you mean 'delta'?"),
    ],
)
def test_a_guessed_argument_is_answered_with_what_was_meant(call: Any, given: dict[str, Any], meant: str) -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument") as caught:
        call(**given)
    assert meant.replace("did you mean ", "").strip("?'") in str(caught.value)
    assert "did you mean" in str(caught.value).lower() or meant.startswith("it takes")


def test_an_error_from_inside_is_left_alone() -> None:
    @guessing
    def outer(*, scale: float) -> float:
        return inner(scal=scale)  # type: ignore[call-arg]

    def inner(*, scale: float) -> float:
        return scale

    with pytest.raises(TypeError) as caught:
        outer(scale=1.0)
    assert "inner()" in str(caught.value) and "outer" not in str(caught.value)


def test_an_error_from_inside_a_function_with_options_gets_no_hint() -> None:
    @guessing
    def outer(*, scale: float, **options: float) -> float:
        raise TypeError(f"{scale} and {options} don't add up")

    with pytest.raises(TypeError, match="don't add up$"):
        outer(scale=1.0, scal=2.0)


def test_a_missing_argument_is_told_as_python_does() -> None:
    with pytest.raises(TypeError, match=r"missing 1 required positional argument: 'delta'$"):
        hs.epsilon(hs.events.Gaussian(1.0))  # type: ignore[call-arg]


def test_an_event_of_a_user_has_the_same_errors_and_its_own_constructor() -> None:
    import attrs

    @attrs.frozen
    class Mine(hs.PrivacyEvent):
        rate: float

    assert Mine(0.5) == Mine(rate=0.5) and attrs.evolve(Mine(0.5), rate=1.0) == Mine(1.0)
    with pytest.raises(TypeError, match="unexpected keyword argument 'rates'; did you mean 'rate'"):
        Mine(rates=1.0)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("made", "guess", "meant"),
    [
        (hs.DPSGD(records=100, batch=10, epochs=1), "noise_multiplier", "'calibrated'"),
        (hs.DPSGD(records=100, batch=10, epochs=1), "sample_rate", "'sampling_rate'"),
        (hs.DPSGD(records=100, batch=10, epochs=1), "get_epsilon", "'epsilon'"),
        (hs.AccountantGraph(), "add_source", "'source'"),
        (hs.AccountantGraph(), "guarantees", "'guarantee'"),
        (hs.AccountantGraph().source("people").guarantee(), "contribution", "'contributions'"),
    ],
)
def test_an_attribute_that_an_object_lacks_is_refused_with_the_one_that_was_meant(
    made: object, guess: str, meant: str
) -> None:
    with pytest.raises(AttributeError, match=f"has no attribute '{guess}'; did you mean {meant}"):
        getattr(made, guess)
    assert not hasattr(made, "zzz") and pickle.loads(pickle.dumps(made)) == made == copy.deepcopy(made)
    with pytest.raises(AttributeError, match=r"no attribute 'zzz'$"):
        getattr(made, "zzz")  # noqa: B009


@pytest.mark.parametrize("name", sorted({name for names in _METHODS.values() for name in names.split()}))
def test_every_suggested_attribute_exists(name: str) -> None:
    assert any(hasattr(cls, name) for cls in (hs.DPSGD, hs.AccountantGraph, hs.Guarantee, hs.Verdict))


def test_an_error_inside_a_property_stays_itself() -> None:
    @guessing_attributes
    class Broken:
        other = 1

        @property
        def value(self) -> int:
            return self.nothing_like_it  # type: ignore[attr-defined, no-any-return]

    with pytest.raises(AttributeError, match=r"no attribute 'nothing_like_it'$"):
        getattr(Broken(), "value")  # noqa: B009
