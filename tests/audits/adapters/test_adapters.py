"""Tests of other libraries as targets: their claims, the inputs at which they are tested, and that a wrong claim is
refuted.

OpenDP is always here. Of the other libraries stand-ins with the same attributes are tested always, and the real ones
where they are installed. Fair mechanisms are audited at confidence 1 - 1e-6, with bit patterns. Outputs of these
libraries can't be seeded, so a test fails by chance with that probability in each run; a claim that must be refuted is
8 standard deviations beyond the critical value.
"""

from __future__ import annotations

import importlib.metadata
import math
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import opendp.prelude as dp
import pytest
from scipy.stats import norm

from hockeystick import accounting
from hockeystick.accounting import HockeystickError, InvalidArgumentError
from hockeystick.accounting.optional_packages import MissingExtraError
from hockeystick.audits import TargetError, Verdict, audit
from hockeystick.audits.adapters import opendp
from hockeystick.audits.adapters.adapted import Adapted, AdaptedBatch
from hockeystick.audits.adapters.any_library import adapt
from hockeystick.audits.adapters.opacus import GradientCanaries, GradientCanary, _log_ratio, dp_sgd

SURE = 1 - 1e-6
RNG = np.random.default_rng(0)

dp.enable_features("contrib")


def verdict(target: Any, samples: int, *, bits: bool = True) -> Verdict:
    return audit(target, claim=target.claim(), samples=samples, rng=1, confidence=SURE, bits=bits)


def number(kind: type = float) -> tuple[Any, Any]:
    domain = dp.atom_domain(T=float, nan=False) if kind is float else dp.atom_domain(T=kind)
    return domain, dp.absolute_distance(T=kind)


def vector(size: int | None = None) -> tuple[Any, Any]:
    return dp.vector_domain(dp.atom_domain(T=float, nan=False), size=size), dp.l1_distance(T=float)


# ------------------------------------------------------------------------------------------------------------- OpenDP


@pytest.mark.statistical
def test_opendp_laplace_is_not_refuted_and_is_where_it_is_declared_wrongly() -> None:
    laplace = dp.m.make_laplace(*number(), scale=1.0)

    fair = verdict(adapt(laplace), 1600)
    wrong = verdict(adapt(laplace, neighbours=(0.0, 2.0)), 1600)  # the map is asked at distance 1

    assert not fair.refuted and fair.epsilon_claimed == 1.0
    assert wrong.refuted


@pytest.mark.statistical
def test_opendp_coordinates_are_runs_where_the_caller_says_so() -> None:
    laplace = dp.m.make_laplace(*vector(), scale=1.0)

    fair = adapt(laplace, coordinatewise=True)
    wrong = adapt(laplace, coordinatewise=True, neighbours=(0.0, 2.0))

    assert isinstance(fair, AdaptedBatch) and not fair.repeatable
    assert fair.simulate(0.0, RNG, 5).shape == (5,)
    assert not verdict(fair, 2000).refuted
    assert verdict(wrong, 2000).refuted


@pytest.mark.parametrize(
    ("measurement", "distance", "epsilon", "delta"),
    [
        (lambda: dp.m.make_laplace(*number(), scale=2.0), 1.0, 0.5, 0.0),
        (lambda: dp.m.make_laplace(*number(), scale=2.0), 3, 1.5, 0.0),
        (lambda: dp.m.make_laplace(*number(int), scale=1.0), 2, 2.0, 0.0),
        (lambda: dp.m.make_randomized_response_bool(0.75), 1, math.log(3), 0.0),
        (lambda: dp.m.make_gaussian(*number(), scale=1.0), 1.0, accounting.ZCDP(0.5), 1e-6),
        (lambda: dp.m.make_gaussian(*number(), scale=1.0), 2.0, accounting.ZCDP(2.0), 1e-6),
        (lambda: dp.c.make_approximate(dp.m.make_gaussian(*number(), scale=1.0)), 1.0, accounting.ZCDP(0.5), 1e-6),
        (lambda: dp.c.make_fix_delta(profile(), 1e-5), 1.0, lambda: profile().map(1.0).epsilon(1e-5), 1e-5),
        (lambda: profile(), 1.0, lambda: profile().map(1.0).epsilon(1e-6), 1e-6),
    ],
    ids=["pure", "distance", "integer", "bool", "zcdp", "zcdp at 2", "approximate zcdp", "fixed delta", "profile"],
)
def test_opendp_claims_are_the_maps(measurement, distance, epsilon, delta) -> None:
    if isinstance(epsilon, accounting.PrivacyEvent):
        epsilon = accounting.epsilon(epsilon, delta).upper
    epsilon = epsilon() if callable(epsilon) else epsilon

    claim = adapt(measurement(), distance=distance).claim()

    assert claim.delta == delta
    assert claim.epsilon == pytest.approx(epsilon, rel=1e-9)
    assert len(claim.also) > 10  # the whole curve


def profile() -> Any:
    return dp.c.make_zCDP_to_approxDP(dp.m.make_gaussian(*number(), scale=1.0))


@pytest.mark.statistical
def test_opendp_profiles_and_renyi_curves_cover_the_same_gaussian() -> None:
    for target in (adapt(profile()), adapt(dp.m.make_gaussian(*number(), scale=1.0))):
        assert not verdict(target, 1000).refuted
    for target in (adapt(m, neighbours=(0.0, 4.0)) for m in (profile(), dp.m.make_gaussian(*number(), scale=1.0))):
        assert verdict(target, 1000).refuted


@pytest.mark.statistical
def test_opendp_renyi_curve_is_read_at_orders() -> None:
    class Curve:
        output_measure, input_domain, input_metric, input_distance_type = "RenyiDivergence", None, None, "f64"

        def map(self, distance):
            return lambda order: order * distance**2 / 2

    Curve.input_domain = number()[0]
    Curve.__module__ = "opendp.mod"

    claim = adapt(Curve(), neighbours=(0.0, 1.0), distance=1.0, delta=1e-6).claim()

    exact = accounting.epsilon(accounting.ZCDP(0.5), 1e-6).upper
    assert exact <= claim.epsilon <= 1.01 * exact  # orders between the evaluated ones cost a little


@pytest.mark.parametrize(
    ("found", "measurement"),
    [
        ((0, 1), lambda: dp.m.make_laplace(*number(), scale=1.0)),
        ((0, 1), lambda: dp.m.make_laplace(*number(int), scale=1.0)),
        ((False, True), lambda: dp.m.make_randomized_response_bool(0.75)),
    ],
)
def test_opendp_simple_domains_have_neighbours(found, measurement) -> None:
    assert adapt(measurement()).worst_case_neighbours() == found


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"neighbours": (0.0, math.nan)}, "neighbours"),
        ({"neighbours": (0.0, 1.0, 2.0)}, "neighbours"),
        ({"neighbours": 1.0}, "neighbours"),
        ({"distance": -1.0}, "distance"),
        ({"delta": 2.0}, "delta"),
        ({"delta": math.nan}, "delta"),
        ({"bits": True}, "bits"),
        ({"coordinatewise": True, "neighbours": (0.0, 1.0)}, "neighbours"),
    ],
)
def test_opendp_bad_arguments_are_refused(options, named) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        adapt(dp.m.make_laplace(*number(), scale=1.0), **options)
    assert caught.value.argument == named and caught.value.reason


def test_opendp_domains_without_a_default_ask_for_neighbours() -> None:
    for measurement in (dp.m.make_laplace(*vector(), scale=1.0), dp.m.make_randomized_response([0, 1, 2], 0.75)):
        with pytest.raises(InvalidArgumentError, match="neighbours=None: has no default"):
            adapt(measurement)
    fixed = dp.m.make_laplace(*vector(size=4), scale=1.0)
    with pytest.raises(InvalidArgumentError, match="coordinatewise needs vectors of any size"):
        adapt(fixed, coordinatewise=True)
    whole = adapt(fixed, neighbours=([0.0] * 4, [1.0] + [0.0] * 3))
    assert isinstance(whole, Adapted) and whole([0.0] * 4, RNG).shape == (4,)


# ---------------------------------------------------------------------------------------- stand-ins and other libraries


def stand_in(library: str, **attributes: Any) -> Any:
    kind = type("Laplace", (), attributes)
    kind.__module__ = f"{library}.mechanisms"
    return kind()


@pytest.fixture
def no_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "0")


def laplace_of(scale: float) -> Callable[[Any, float], float]:
    rng = np.random.default_rng(5)
    return lambda self, value: round(value + rng.laplace(scale=scale), 6)


@pytest.mark.usefixtures("no_versions")
@pytest.mark.parametrize(("library", "method"), [("diffprivlib", "randomise"), ("pydp", "add_noise")])
def test_a_mechanism_is_held_to_its_own_epsilon(library: str, method: str) -> None:
    parameters = {"epsilon": 1.0, "delta": 0.0, "sensitivity": 2.0}
    fair, broken = (adapt(stand_in(library, **parameters, **{method: laplace_of(scale)})) for scale in (2.0, 1.0))

    assert isinstance(fair, Adapted)
    assert fair.worst_case_neighbours() == (0.0, 2.0)
    assert (fair.claim().epsilon, fair.claim().delta) == (1.0, 0.0)
    assert not verdict(fair, 2000, bits=False).refuted
    assert verdict(broken, 2000, bits=False).refuted


@pytest.mark.usefixtures("no_versions")
@pytest.mark.parametrize(
    ("attributes", "pair"),
    [
        ({"sensitivity": 2}, (0, 2)),
        ({"sensitivity": 1.0, "lower": 2.0, "upper": 5.0}, (2.0, 3.0)),
        ({"sensitivity": 4.0, "lower": 2.0, "upper": 5.0}, (2.0, 5.0)),
        ({"sensitivity": 4.0, "lower": -math.inf, "upper": 5.0}, (0.0, 4.0)),
        ({"value0": "no", "value1": "yes"}, ("no", "yes")),
    ],
)
def test_diffprivlib_mechanisms_have_neighbours(attributes, pair) -> None:
    target = stand_in("diffprivlib", epsilon=1.0, delta=0.1, randomise=lambda self, value: value, **attributes)

    assert adapt(target).worst_case_neighbours() == pair
    assert adapt(target).claim().delta == 0.1
    assert adapt(target, neighbours=(7, 8)).worst_case_neighbours() == (7, 8)


@pytest.mark.usefixtures("no_versions")
@pytest.mark.parametrize(
    ("target", "reason"),
    [
        (stand_in("diffprivlib", epsilon=1.0), "is not a mechanism"),
        (stand_in("diffprivlib", epsilon=1.0, delta=0.0, randomise=abs), "has no sensitivity"),
        (
            stand_in("diffprivlib", epsilon=1.0, delta=0.0, randomise=abs, utility=[1], sensitivity=1.0),
            "holds its data",
        ),
        (stand_in("diffprivlib", epsilon=math.inf, delta=0.0, randomise=abs, sensitivity=1.0), "epsilon"),
        (stand_in("pydp", epsilon=1.0), "neither quick_result nor add_noise"),
        (stand_in("pydp", epsilon=1.0, quick_result=sum), "does not expose its bounds"),
        (stand_in("opendp", epsilon=1.0), "is not a measurement"),
        (3.0, "is of none of opendp, diffprivlib, pydp"),
        (np.random.default_rng, "is of none of"),
    ],
)
def test_objects_without_an_adapter_are_refused(target, reason) -> None:
    with pytest.raises(HockeystickError, match=reason):
        adapt(target)


@pytest.mark.usefixtures("no_versions")
def test_options_of_another_library_are_refused() -> None:
    target = stand_in("diffprivlib", epsilon=1.0, delta=0.0, randomise=abs, sensitivity=1.0)

    with pytest.raises(InvalidArgumentError, match="coordinatewise=True: is not an option of diffprivlib"):
        adapt(target, coordinatewise=True)


def test_mechanisms_of_diffprivlib_are_audited() -> None:
    reason = "diffprivlib (with scikit-learn < 1.6) is not installed"
    mechanisms = pytest.importorskip("diffprivlib.mechanisms", reason=reason)

    floats, whole = mechanisms.Laplace(epsilon=1.0, sensitivity=1.0), mechanisms.Geometric(epsilon=1.0)

    assert verdict(adapt(floats), 2000).refuted  # by bit patterns
    assert not verdict(adapt(whole), 2000).refuted
    assert verdict(adapt(whole, neighbours=(0, 3)), 2000).refuted


def test_mechanisms_of_pydp_are_audited() -> None:
    laplacian = pytest.importorskip("pydp.algorithms.laplacian", reason="python-dp is not installed")
    mechanisms = pytest.importorskip("pydp.algorithms.numerical_mechanisms")
    bounds = {"lower_bound": 0, "upper_bound": 1, "l0_sensitivity": 1, "linf_sensitivity": 1, "dtype": "float"}
    fair = laplacian.BoundedSum(epsilon=1.0, delta=0, **bounds)

    assert not verdict(adapt(fair, neighbours=([1.0], [1.0, 1.0])), 4000).refuted
    assert verdict(adapt(fair, neighbours=([1.0], [1.0] * 4)), 4000).refuted
    assert not verdict(adapt(laplacian.Count(epsilon=1.0, dtype="int")), 4000).refuted
    assert not verdict(adapt(mechanisms.LaplaceMechanism(1.0, 1.0)), 4000).refuted


# ------------------------------------------------------------------------------------------------------------- Opacus


def test_without_opacus_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opacus", None)

    with pytest.raises(MissingExtraError, match=r"an audit of DP-SGD needs opacus: pip install") as caught:
        dp_sgd(lambda canary: None, sample_rate=0.1)
    assert isinstance(caught.value, HockeystickError) and isinstance(caught.value, ImportError)


@pytest.mark.parametrize("rate", [1.0, 0.3, 1e-6])
@pytest.mark.parametrize("sigma", [0.5, 3.0])
def test_the_score_is_the_log_likelihood_ratio_of_a_step(rate: float, sigma: float) -> None:
    for reading in (-3.0, 0.0, 0.4, 5.0):
        present = (1 - rate) * norm.pdf(reading, 0, sigma) + rate * norm.pdf(reading, 1, sigma)
        assert _log_ratio(reading, rate, sigma) == pytest.approx(
            math.log(present / norm.pdf(reading, 0, sigma)), abs=1e-12
        )


def test_the_score_stays_finite_where_densities_do_not() -> None:
    assert math.isfinite(_log_ratio(1e6, 0.1, 0.01)) and _log_ratio(-1e6, 0.1, 0.01) == pytest.approx(math.log(0.9))
    assert _log_ratio(0.7, 0.1, 0.0) == 0.7


def test_a_canary_needs_the_private_optimizer() -> None:
    canary = GradientCanary(True, 0.5, np.random.default_rng(1), 0, 0, 2.0)

    with pytest.raises(InvalidArgumentError, match="is not Opacus's"):
        canary.step(object())


def training(
    sigma: float = 1.0,
    rate: float = 1.0,
    steps: int = 1,
    clip: object = 1.0,
    mutate: Callable[[Any], None] | None = None,
) -> Callable[[GradientCanary], Any]:
    """A short private training of a linear model on 20 people, whose first feature is always zero."""
    torch, loading = import_module("torch"), import_module("torch.utils.data")
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(20, 4, generator=generator)
    features[:, 0] = 0.0
    data = loading.TensorDataset(features, (features[:, 1] > 0).long())

    def train(canary: GradientCanary) -> Any:
        engine, model = import_module("opacus").PrivacyEngine(), torch.nn.Linear(4, 2)
        model, optimizer, loader = engine.make_private(
            module=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
            data_loader=loading.DataLoader(data, batch_size=int(20 * rate)),
            noise_multiplier=sigma,
            max_grad_norm=clip,
        )
        if mutate is not None:
            mutate(optimizer)
        while canary.steps < steps:
            for inputs, labels in loader:
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(model(inputs), labels).backward()
                canary.step(optimizer)
                if canary.steps == steps:
                    break
        return engine.accountant

    return train


def a_quarter_of_the_noise(optimizer: Any) -> None:
    own = optimizer.add_noise

    def add_noise() -> None:
        sigma, optimizer.noise_multiplier = optimizer.noise_multiplier, optimizer.noise_multiplier / 4
        own()
        optimizer.noise_multiplier = sigma

    optimizer.add_noise = add_noise


def no_clipping(optimizer: Any) -> None:
    def add_up() -> None:
        for parameter in optimizer.params:
            parameter.summed_grad = parameter.grad_sample.sum(0)

    optimizer.clip_and_accumulate = add_up


@pytest.fixture
def opacus() -> None:
    pytest.importorskip("opacus", reason="opacus is not installed")


@pytest.mark.statistical
@pytest.mark.usefixtures("opacus")
@pytest.mark.filterwarnings("ignore")  # of torch and opacus
def test_private_training_is_not_refuted_and_mutants_are() -> None:
    fair, quiet, unclipped = (
        dp_sgd(training(mutate=mutate), sample_rate=1.0, norm=4.0)
        for mutate in (None, a_quarter_of_the_noise, no_clipping)
    )

    assert fair.worst_case_neighbours() == (False, True)
    assert not verdict(fair, 200, bits=False).refuted
    assert verdict(quiet, 200, bits=False).refuted
    assert verdict(unclipped, 200, bits=False).refuted


@pytest.mark.statistical
@pytest.mark.usefixtures("opacus")
@pytest.mark.filterwarnings("ignore")
def test_the_claim_of_a_training_run_is_its_accountants_record() -> None:
    target = dp_sgd(training(rate=0.5, steps=2), sample_rate=0.5)

    sampled = accounting.compose((accounting.PoissonSampled(0.5, accounting.Gaussian(1.0)), 2))
    assert target.claim().epsilon == pytest.approx(accounting.epsilon(sampled, 1e-5).upper)
    assert target.claim().delta == 1e-5


@pytest.mark.statistical
@pytest.mark.usefixtures("opacus")
@pytest.mark.filterwarnings("ignore")
def test_the_trace_of_the_canary_is_the_gaussian_mechanism() -> None:
    target = dp_sgd(training(sigma=2.0, steps=4), sample_rate=1.0)  # mu = sqrt(4) / 2 = 1
    rng = np.random.default_rng(3)

    absent, present = (np.array([target(side, rng) for _ in range(200)]) for side in (False, True))

    for scores, mean in ((absent, -0.5), (present, 0.5)):  # the log-likelihood ratio of mu-GDP: N(+-mu^2/2, mu^2)
        assert abs(scores.mean() - mean) < 5 / math.sqrt(200)  # 6e-7
        assert 0.75 < scores.std() < 1.26  # chi-squared, beyond 1e-6


@pytest.mark.statistical
@pytest.mark.usefixtures("opacus")
@pytest.mark.filterwarnings("ignore")
def test_a_training_is_repeatable_and_leaves_torchs_generator_alone() -> None:
    torch = import_module("torch")
    target = dp_sgd(training(), sample_rate=1.0)
    assert isinstance(target, Adapted) and target.repeatable
    before = torch.random.get_rng_state()

    first, second = (target(True, np.random.default_rng(9)) for _ in range(2))

    assert first == second
    assert torch.equal(before, torch.random.get_rng_state())


@pytest.mark.statistical
@pytest.mark.usefixtures("opacus")
@pytest.mark.filterwarnings("ignore")
def test_training_that_cannot_be_audited_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="is not what the accountant recorded"):
        dp_sgd(training(rate=0.5), sample_rate=0.25)
    with pytest.raises(InvalidArgumentError, match="samples nothing"):
        dp_sgd(training(), sample_rate=0.0)
    with pytest.raises(InvalidArgumentError, match="is not in the shapes"):
        dp_sgd(training(), sample_rate=1.0, parameter=7)
    with pytest.raises(TargetError, match="made no step"):
        dp_sgd(lambda canary: [(1.0, 0.5, 1)], sample_rate=0.5)

    def split(optimizer: Any) -> None:
        optimizer.signal_skip_step(True)

    with pytest.raises(TargetError, match="physical batches"):
        dp_sgd(training(mutate=split), sample_rate=1.0)


@pytest.mark.parametrize(
    ("change", "named"),
    [({"included": [1, 0]}, "included"), ({"sample_rate": 0.0}, "sample_rate"), ({"norm": 0.0}, "norm")],
)
def test_bad_canaries_are_refused(change, named) -> None:
    options = {"included": np.array([True, False]), "sample_rate": 1.0, "rng": RNG, "norm": 2.0, **change}
    with pytest.raises(InvalidArgumentError) as caught:
        GradientCanaries(**options)
    assert caught.value.argument == named


@pytest.mark.statistical
@pytest.mark.usefixtures("opacus")
@pytest.mark.filterwarnings("ignore")
def test_many_canaries_in_one_training_read_one_coordinate_each() -> None:
    """Without noise, canaries add their clipped norm, 1, to their own readings; with noise 2 a score's mu is 1/2."""
    included = np.arange(10) % 3 == 0

    def scores(sigma: float, seed: int, present: Any = included) -> Any:
        canaries = GradientCanaries(present, 1.0, np.random.default_rng(seed), norm=4.0)
        import_module("torch").manual_seed(seed)
        training(sigma=sigma)(canaries)  # type: ignore[arg-type]
        assert canaries.steps == 1
        return canaries.scores

    assert scores(0.0, 1) - scores(0.0, 1, ~(included | True)) == pytest.approx(included.astype(float), abs=1e-3)

    found = np.array([scores(2.0, seed) for seed in range(50)])[:, 0]  # its coordinate is of the feature that is zero
    assert abs(found.mean() - 0.125) < 5 * 0.5 / math.sqrt(50) and 0.25 < found.std() < 0.9  # 6e-7, and far beyond
    few = GradientCanaries(np.ones(11, dtype=bool), 1.0, RNG)
    with pytest.raises(InvalidArgumentError, match="11 canaries for 10 trainable parameters"):
        training()(few)  # type: ignore[arg-type]


def test_outputs_of_a_measurement_are_checked() -> None:
    with pytest.raises(TargetError, match="target returned shape .* for 5 coordinates"):
        opendp._coordinates(lambda values: np.zeros((len(values), 2)), 1.0, 5)
    assert opendp.plain([1, 2]).tolist() == [1, 2]
    for mixed in ([1, 2.0], [True, False], [], "text", 3.0):
        assert opendp.plain(mixed) is mixed
