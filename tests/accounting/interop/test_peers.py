"""Tests against values of other libraries: results are at most theirs, unless theirs are below the truth, and never
below it.

B12 to B16 are defects of other accountants and traps of the theory, listed in docs/accounting.md.
"""

import json
import math
from pathlib import Path
from typing import Any

import dp_accounting
import numpy as np
import pytest
from divergences import gaussian_delta, renyi
from dp_accounting import NeighboringRelation as Relation
from dp_accounting import dp_event
from scipy import integrate, special

from hockeystick.accounting import (
    ZCDP,
    AboveThreshold,
    ApproximateDP,
    EpsilonDelta,
    Gaussian,
    GaussianDP,
    HockeystickError,
    Laplace,
    PoissonSampled,
    PrivacyEvent,
    PureDP,
    UnsupportedEventError,
    calibrate,
    compose,
    delta,
    epsilon,
    from_dp_event,
)
from hockeystick.accounting.budgets import filters as budget_filters
from hockeystick.accounting.engines import contour_integral, loss_distribution
from hockeystick.accounting.engines.tradeoff_curve import trade_off
from hockeystick.accounting.losses.dominating_pairs import Atoms

# Closed forms ----------------------------------------


def sampled_gaussian_delta(q: float, mu: float, eps: float) -> float:
    """The worse direction: each is a Gaussian profile at another ε, as P − e^ε·Q is a multiple of P' − e^ε'·Q'."""
    x = math.exp(eps)
    removal = q * gaussian_delta(mu, math.log((x - 1 + q) / q)) if x - 1 + q > 0 else 1 - x
    rest = 1 - x * (1 - q)
    addition = rest * gaussian_delta(mu, math.log(x * q / rest)) if rest > 0 else 0.0
    return max(removal, addition)


def test_the_closed_form_of_a_sampled_gaussian_is_the_integral():
    q, mu, eps = 0.3, 1.7, 0.2

    def density(x: float, centre: float) -> float:
        return math.exp(-((x - centre) ** 2) / 2) / math.sqrt(2 * math.pi)

    def excess(x: float, removal: bool) -> float:
        with_record = (1 - q) * density(x, 0) + q * density(x, mu)
        p, q_ = (with_record, density(x, 0)) if removal else (density(x, 0), with_record)
        return max(0.0, p - math.exp(eps) * q_)

    found = [integrate.quad(excess, -9, 11, args=(way,), limit=400, epsabs=1e-13)[0] for way in (True, False)]
    assert sampled_gaussian_delta(q, mu, eps) == pytest.approx(max(found), abs=1e-8)


@pytest.mark.parametrize("q, sigma, at", [(0.01, 1.0, 1e-5), (0.01, 1.0, 1e-12), (1e-3, 0.8, 1e-6), (0.2, 0.5, 1e-3)])
def test_one_sampled_gaussian_against_the_closed_form(q, sigma, at):
    found = epsilon(PoissonSampled(q, Gaussian(sigma)), at).upper
    assert at * (1 - 1e-3) <= sampled_gaussian_delta(q, 1 / sigma, found) <= at * (1 + 1e-9)


# dp-accounting's own tests ----------------------------------------

TABLE = json.loads((Path(__file__).parents[2] / "data" / "dp_accounting_values.json").read_text())["rows"]
REFUSED = {
    "xi > 0": lambda text: '"xi": 3.14159' in text,
    "randomised response under replace-special": lambda text: "RandomizedResponse" in text and "SPECIAL" in text,
    "an empty sample": lambda text: '"sample_size": 0' in text,
    "no noise": lambda text: '"noise_parameter": 0, "sensitivity"' in text,
}


def decoded(value: Any) -> Any:
    if isinstance(value, dict):
        fields = {key: decoded(item) for key, item in value.items() if key != "type"}
        return getattr(dp_event, value["type"])(**fields)
    if isinstance(value, list):
        return [decoded(item) for item in value]
    return math.inf if value == "inf" else value


def rows(kind: str) -> list[Any]:
    kept = (row for row in TABLE if kind in row and not any(refuses(json.dumps(row)) for refuses in REFUSED.values()))
    return [pytest.param(row, id=json.dumps(row["event"])[:70].replace('"', "")) for row in kept]


def ours(row: Any) -> PrivacyEvent:
    return from_dp_event(decoded(row["event"]), Relation[row["relation"]])


@pytest.mark.parametrize("reason", REFUSED)
def test_bad_input_raises_typed_errors(reason):
    found = [row for row in TABLE if REFUSED[reason](json.dumps(row))]
    assert found
    for row in found:
        with pytest.raises(UnsupportedEventError):
            ours(row)


def assert_not_below_the_truth(event: PrivacyEvent, eps: float, upper: float) -> None:
    """``upper`` is no less than δ(``eps``), by a closed form, or by the inversion where that has an answer."""
    if isinstance(event, PoissonSampled) and isinstance(event.event, Gaussian):
        exact = sampled_gaussian_delta(event.probability, 1 / event.event.noise_multiplier, eps)
    else:
        try:
            exact = contour_integral.delta(event, eps)[0]
        except HockeystickError:
            return
    assert upper >= exact * (1 - 1e-9) - 1e-15


@pytest.mark.statistical
@pytest.mark.parametrize("row", rows("epsilon"))
def test_epsilons_agree_with_the_peers_tests(row):
    event = ours(row)
    for at, theirs in row["epsilon"]:
        found = epsilon(event, at).upper
        assert found <= decoded(theirs) * (1 + 2e-6) + 1e-9
        if at > 0.0 and found < math.inf:
            assert_not_below_the_truth(event, found, at)


@pytest.mark.parametrize("row", rows("delta"))
def test_deltas_agree_with_the_peers_tests(row):
    event = ours(row)
    for at, theirs in row["delta"]:
        found = delta(event, at).upper
        assert found <= decoded(theirs) * (1 + 3e-5) + 1e-14  # 2e-6 in ε
        assert_not_below_the_truth(event, at, found)


def loose(row: Any) -> float:
    """The allowed excess: the best order for repetitions is searched on a finite set. For a Poisson number of runs with
    a small mean the bound here also has the moment of zero runs.
    """
    event = row["event"]
    if event["type"] != "RepeatAndSelectDpEvent":
        return 1e-9
    return math.inf if event["shape"] == "inf" and event["mean"] <= 2 else 1e-3


@pytest.mark.parametrize("row", rows("rdp"))
def test_renyi_curves_agree_with_the_peers_tests(row):
    orders, theirs = np.array([[order, decoded(value)] for order, value in row["rdp"]]).T
    found = ours(row).rdp(orders)
    assert (found <= theirs * (1 + loose(row)) + 1e-12).all()
    if row["event"]["type"] in ("GaussianDpEvent", "RandomizedResponseDpEvent"):
        assert (found >= theirs * (1 - 1e-7)).all()  # these are exact


def test_b12_a_mixture_of_one_gaussian_is_a_gaussian():
    """B12: on SciPy 1.17 dp-accounting's PLD of such a mixture is a TypeError, in four of its own tests too.

    So the table above holds what its two accountants answered, and not the tests of its PLD class.
    """
    for sigma, move in ((1.0, 1.0), (1.0, 2.0)):
        mixture = from_dp_event(dp_event.MixtureOfGaussiansDpEvent(sigma, [move], [1.0]))
        for at in (1e-2, 1e-6, 1e-12):
            found, exact = epsilon(mixture, at).upper, epsilon(Gaussian(sigma / move), at, bracket=True)
            assert exact.lower is not None and exact.lower <= found <= exact.upper * (1 + 2e-6)


# autodp ----------------------------------------


def test_b13_failures_add_up_and_calibration_stays_below_its_target():
    """B13: autodp takes the largest failure of the parts, and calibrates to within 1e-3 on either side."""
    total = compose((ApproximateDP(0.1, 1e-6), 10), (ApproximateDP(0.2, 3e-6), 2))
    assert total.failure_delta() == pytest.approx(1.6e-5, rel=1e-12)
    assert epsilon(total, 1.5e-5, method="rdp").upper == math.inf
    assert epsilon(total, 1.7e-5).upper >= 0.9 * epsilon(compose((PureDP(0.1), 10), (PureDP(0.2), 2)), 1e-6).upper
    for target in (0.3, 1.0, 4.0):
        noise = calibrate(lambda sigma: compose((Gaussian(sigma), 20)), EpsilonDelta(target, 1e-6)).value
        met = epsilon(compose((Gaussian(noise), 20)), 1e-6).upper
        assert target * (1 - 1e-6) <= met <= target


def test_b13_both_noises_of_a_sparse_vector_are_stated_by_themselves():
    """B13: autodp documents one scale b, and means b for the threshold and 2b for each query."""
    assert AboveThreshold(2.0, 4.0).pure_epsilon() == pytest.approx(1 / 2 + 2 / 4)
    assert AboveThreshold(2.0, 2.0).pure_epsilon() == pytest.approx(1 / 2 + 2 / 2)


# prv_accountant ----------------------------------------


@pytest.mark.parametrize("engine", ["pld", "contour"])
@pytest.mark.parametrize(
    "events",
    [[(100.0, 10_000)], [(100.0, 9_999)], [(10.0, 1)] * 100, [(10.0, 50), (5.0, 5), (20.0, 120)]],
    ids=["10000", "9999", "one by one", "unequal"],
)
def test_brackets_overlap_those_of_prv_accountant(engine, events):
    """prv's tests/test_accountant.py: its brackets hold the exact δ(4) within 1e-3. No closed form is used here."""
    event = compose(*((Gaussian(sigma), count) for sigma, count in events))
    mu = math.sqrt(math.fsum(count / sigma**2 for sigma, count in events))
    exact = gaussian_delta(mu, 4.0)
    if engine == "pld":
        lower, upper = (loss_distribution.delta(event, 4.0, upper=way) for way in (False, True))
    else:
        lower, upper = contour_integral.delta(event, 4.0)
    assert exact * (1 - 1e-3) <= lower <= exact * (1 + 1e-11)
    assert exact * (1 - 1e-11) <= upper <= exact * (1 + 1e-3)


# Opacus, OpenDP, riskcal ----------------------------------------


@pytest.mark.parametrize("at", [1e-6, pytest.param(1e-12, marks=pytest.mark.statistical)])
def test_b15_the_central_limit_is_not_a_bound(at):
    """B15: Opacus' GDP accountant takes μ = q·√(T·(e^{1/σ²} − 1)) (Bu, Dong, Long & Su 2020): 24% and 39% too small."""
    q, sigma, steps = 0.01, 0.8, 1000
    limit = epsilon(GaussianDP(q * math.sqrt(steps * math.expm1(1 / sigma**2))), at).upper
    event = compose((PoissonSampled(q, Gaussian(sigma)), steps))
    assert limit < 0.8 * contour_integral.epsilon(event, at, upper=False)
    assert epsilon(event, at).upper >= contour_integral.epsilon(event, at, upper=False)


def test_concentrated_dp_agrees_with_opendp():
    """OpenDP's test_comb.py: Laplace noise of scale 10 is .005-zCDP there, and that (0.42994146883694934, 1e-6)-DP."""
    assert epsilon(ZCDP(0.005), 1e-6).upper <= 0.42994146883694934 * (1 + 1e-12)
    assert PureDP(0.1).zcdp_rho() <= 0.005 and Laplace(10.0).zcdp_rho() <= PureDP(0.1).zcdp_rho()
    total = compose(Laplace(10.0), Gaussian(10.0))
    assert total.zcdp_rho() <= 0.01
    assert epsilon(total, 1e-6).upper <= epsilon(ZCDP(0.01), 1e-6).upper


def test_trade_off_functions_agree_with_riskcal():
    """riskcal's get_beta_from_zcdp(.5, .05) and get_beta_from_pld of Gaussian noise 1, which is .5-zCDP."""
    assert trade_off(ZCDP(0.5), [0.05])[0] >= 0.664415
    exact = float(special.ndtr(special.ndtri(0.95) - 1.0))
    assert exact == pytest.approx(0.7404890, abs=1e-7)
    assert 0.7404890 - 1e-7 <= trade_off(Gaussian(1.0), [0.05])[0] <= exact


# Traps ----------------------------------------


def test_b16_concentrated_dp_is_not_sampled_like_a_gaussian():
    """B16: at fractional orders a sampled ρ-zCDP pair may exceed the sampled Gaussian of that ρ."""
    p, q, share, order = np.array([2 / 3, 1 / 3]), np.array([0.9994, 0.0006]), 0.01, 1.05
    orders = 1 + np.geomspace(1e-6, 1e4, 2000)
    rho = max(max(renyi(p, q, a), renyi(q, p, a)) / a for a in orders[orders < 80])
    rho = max(rho, float(np.abs(np.log(p / q)).max()) / 80)
    exact = renyi((1 - share) * q + share * p, q, order)
    at = np.array([order])
    assert exact > 1.2 * float(PoissonSampled(share, Gaussian(1 / math.sqrt(2 * rho))).rdp(at)[0])
    assert exact <= float(PoissonSampled(share, ZCDP(rho)).rdp(at)[0])


@pytest.mark.statistical
@pytest.mark.parametrize("at", [1e-3, 1e-6])
def test_b16_a_replaced_record_moves_a_sum_by_two(at):
    """B16, B3: the others all at −1, a record at −1 becomes 1; dp-accounting's RDP accountant is half way there.

    A sample that lacks the record holds another one in its place: the two laws are N(−1, 1), and that or N(1, 1).
    """
    native = dp_accounting.SampledWithoutReplacementDpEvent(10, 9, dp_accounting.GaussianDpEvent(1.0))
    peer = dp_accounting.rdp.RdpAccountant(neighboring_relation=Relation.REPLACE_ONE).compose(native)
    theirs, mine = peer.get_epsilon(at), epsilon(from_dp_event(native, Relation.REPLACE_ONE), at).upper
    assert sampled_gaussian_delta(0.9, 2.0, theirs) > 20 * at
    assert at * (1 - 1e-3) <= sampled_gaussian_delta(0.9, 2.0, mine) <= at * (1 + 1e-9)
    added = epsilon(PoissonSampled(0.9, Gaussian(1.0)), at).upper
    assert added < theirs < mine  # and Poisson sampling under add-or-remove is another thing again


def test_b16_a_filter_on_the_composed_profile_would_be_too_generous():
    """B16: every continuation satisfies (ε, δ), but choosing adaptively among them does not. So no filter uses a
    profile."""
    eps, menu = 1.0, [ApproximateDP(0.0, 2e-3), PureDP(0.3)]
    first = PureDP(0.8).pair()
    assert isinstance(first, Atoms)
    spent = [delta(compose(PureDP(0.8), after), eps).upper for after in menu]
    chosen = sum(
        p * max(delta_at(after, eps - loss) for after in menu) for loss, p in zip(first.losses, first.p, strict=True)
    )
    assert chosen > 1.01 * max(spent)
    known = {kind.__name__ for kind in vars(budget_filters).values() if isinstance(kind, type)}
    assert {name for name in known if name.endswith("Filter")} == {
        "PrivacyFilter",
        "PureFilter",
        "ZCDPFilter",
        "GDPFilter",
    }


def delta_at(event: PrivacyEvent, eps: float) -> float:
    """δ at any real ε: the pair is symmetric, so δ(−ε) = 1 − e^{−ε}·(1 − δ(ε))."""
    if eps >= 0.0:
        return delta(event, eps).upper
    return 1.0 - math.exp(eps) * (1.0 - delta(event, -eps).upper)
