"""Tests of training runs of jax-privacy: the trees of its builders, written out, and the builders if it is
installed."""

from __future__ import annotations

import math
import sys
from types import ModuleType
from typing import Any

import dp_accounting
import pytest
from dp_accounting import NeighboringRelation as Relation

from hockeystick.accounting import (
    Accountant,
    Gaussian,
    InvalidArgumentError,
    PoissonSampled,
    SampledWithoutReplacement,
    TruncatedPoissonSampled,
    UnsupportedEventError,
    compose,
    epsilon,
    from_dp_event,
)
from hockeystick.accounting.interop.jax_privacy import _config_class, jax_privacy_config, jax_privacy_events
from hockeystick.accounting.optional_packages import MissingExtraError

G, Self, P = dp_accounting.GaussianDpEvent, dp_accounting.SelfComposedDpEvent, dp_accounting.PoissonSampledDpEvent
Wor = dp_accounting.SampledWithoutReplacementDpEvent
Truncated = dp_accounting.TruncatedSubsampledGaussianDpEvent

BUILT: dict[str, tuple[dict[str, Any], Any]] = {
    "dpsgd_event": ({"sampling_prob": 0.1}, Self(P(0.1, G(2.0)), 30)),
    "truncated_dpsgd_event": (
        {"sampling_prob": 0.1, "num_examples": 50, "truncated_batch_size": 6},
        Self(Truncated(50, 0.1, 6, 2.0), 30),
    ),
    "fixed_dpsgd_event": ({"dataset_size": 50, "batch_size": 5}, Self(Wor(50, 5, G(2.0)), 30)),
    "amplified_bandmf_event": ({"num_bands": 4, "sampling_prob": 0.1}, Self(P(0.1, G(2.0)), 8)),
    "truncated_amplified_bandmf_event": (
        {"num_bands": 4, "sampling_prob": 0.1, "largest_group_size": 13, "truncated_batch_size": 6},
        Self(Truncated(13, 0.1, 6, 2.0), 8),
    ),
}


def test_trees_of_jax_privacy_are_accepted_under_their_relation() -> None:
    def event(name: str, relation: Relation = Relation.ADD_OR_REMOVE_ONE) -> Any:
        return from_dp_event(BUILT[name][1], relation)

    assert event("dpsgd_event") == compose((PoissonSampled(0.1, Gaussian(2.0)), 30))
    assert event("amplified_bandmf_event") == compose((PoissonSampled(0.1, Gaussian(2.0)), 8))
    assert event("truncated_dpsgd_event") == compose((TruncatedPoissonSampled(50, 0.1, 6, 2.0), 30))
    fixed = compose((SampledWithoutReplacement(50, 5, Gaussian(1.0)), 30))
    assert event("fixed_dpsgd_event", Relation.REPLACE_ONE) == fixed


@pytest.mark.statistical
def test_fixed_batches_are_refused_under_add_or_remove_and_cost_distance_two_under_replace_one() -> None:
    tree = BUILT["fixed_dpsgd_event"][1]
    with pytest.raises(UnsupportedEventError, match="only under .*REPLACE_ONE"):
        from_dp_event(tree)
    low = dp_accounting.rdp.RdpAccountant(neighboring_relation=Relation.REPLACE_ONE).compose(tree).get_epsilon(1e-5)
    assert epsilon(from_dp_event(tree, Relation.REPLACE_ONE), 1e-5).upper > 1.2 * low  # RDP takes a distance of 1
    with pytest.raises(UnsupportedEventError, match="is not a supported event type"):
        from_dp_event(dp_accounting.dp_event.SampledWithReplacementDpEvent(50, 5, G(2.0)), Relation.REPLACE_ONE)


@pytest.mark.statistical
def test_batches_of_a_fixed_size_cost_no_less_than_poisson_samples_at_twice_the_distance() -> None:
    """Its training accountant composes these for FIXED_BATCH_SIZE, in one fixed order of the data sets. But a replaced
    record may act like an added one in one step and like a removed one in the next, depending on earlier outcomes. So a
    composition here takes the worse order at each step.
    """
    fixed = compose((SampledWithoutReplacement(50, 5, Gaussian(1.0)), 30))
    composed = compose((PoissonSampled(0.1, Gaussian(1.0)), 30))
    for at in (1e-3, 1e-5):
        assert 1.0 <= epsilon(fixed, at).upper / epsilon(composed, at).upper < 1.1


def test_without_jax_privacy_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jax_privacy", None)
    _config_class.cache_clear()
    with pytest.raises(MissingExtraError, match=r"hockeystick\[jax\]"):
        jax_privacy_config()
    with pytest.raises(InvalidArgumentError, match="relation"):
        jax_privacy_config("add")


def test_both_places_of_the_builders_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    old, new, experimental = ModuleType("old"), ModuleType("new"), ModuleType("experimental")
    old.DpAccountantConfig = object  # type: ignore[attr-defined]
    new.dpsgd_event = experimental.dpsgd_event = BUILT["dpsgd_event"]  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "jax_privacy", ModuleType("jax_privacy"))
    monkeypatch.setitem(sys.modules, "jax_privacy.experimental", ModuleType("jax_privacy.experimental"))
    monkeypatch.setitem(sys.modules, "jax_privacy.experimental.accounting", experimental)
    for version, place in ((old, experimental), (new, new)):
        monkeypatch.setitem(sys.modules, "jax_privacy.accounting", version)
        assert jax_privacy_events() is place
    _config_class.cache_clear()
    with pytest.raises(UnsupportedEventError, match="calibrate_dp_mechanism"):
        jax_privacy_config()


def test_without_training_accountants_trees_are_charged_and_noise_is_calibrated() -> None:
    """The three lines of its documentation, with this accountant in place of dp-accounting's."""
    tree = BUILT["dpsgd_event"][1]
    event = compose((PoissonSampled(0.1, Gaussian(2.0)), 30))
    assert Accountant().compose(tree).get_epsilon(1e-5) == epsilon(event, 1e-5).upper
    start = dp_accounting.LowerEndpointAndGuess(0, 1.0)
    found = dp_accounting.calibrate_dp_mechanism(Accountant, lambda s: Self(P(0.1, G(s)), 30), 1.0, 1e-5, start)
    spent = epsilon(compose((PoissonSampled(0.1, Gaussian(found)), 30)), 1e-5).upper
    assert 0.99 < spent <= 1.0


@pytest.fixture
def jax_privacy() -> Any:
    _config_class.cache_clear()
    return pytest.importorskip("jax_privacy.accounting", reason="jax-privacy is not installed")


@pytest.mark.statistical
@pytest.mark.usefixtures("jax_privacy")
@pytest.mark.filterwarnings("ignore")  # of jax
def test_builders_of_jax_privacy_make_the_trees_above() -> None:
    builders = jax_privacy_events()
    for name, (options, tree) in BUILT.items():
        assert getattr(builders, name)(2.0, 30, **options) == tree, name


@pytest.mark.statistical
@pytest.mark.filterwarnings("ignore")
def test_training_accountants_of_jax_privacy_use_this_accountant(jax_privacy: Any) -> None:
    config = jax_privacy_config()
    assert isinstance(config.create_accountant(), Accountant)
    training = jax_privacy.DpsgdTrainingAccountant(config)
    params = jax_privacy.DpParams(noise_multipliers=2.0, num_samples=50, delta=1e-5, batch_size=5)
    expected = epsilon(compose((PoissonSampled(0.1, Gaussian(2.0)), 30)), 1e-5).upper
    assert training.compute_epsilon(30, params) == expected
    theirs = jax_privacy.DpsgdTrainingAccountant(jax_privacy.PldAccountantConfig()).compute_epsilon(30, params)
    assert expected == pytest.approx(theirs, rel=1e-3) and expected <= theirs * (1 + 1e-6)
    found = jax_privacy.calibrate_noise_multiplier(
        target_epsilon=1.0, accountant=training, batch_sizes=5, num_updates=30, num_samples=50, target_delta=1e-5
    )
    spent = epsilon(compose((PoissonSampled(0.1, Gaussian(found)), 30)), 1e-5).upper
    assert spent == pytest.approx(1.0, abs=0.02) and not math.isinf(spent)
