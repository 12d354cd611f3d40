"""The printed guarantee of the lazy learner, as a baseline: never a certificate.

Asi, Koren, Liu & Talwar 2024, Theorem 3.2: if consecutive measures are (η, δ_0)-indistinguishable, then for every
δ_1,

    ε = 2 η/p + η + (3 T η^2 p / (2B)) ln(1/δ_1) + sqrt(6 T η^2 p / B) ln(1/δ_1),
    δ   = 2 T (2/η + ln(1/δ_1)/p) e B δ_0 + 2 T δ_1,

stated for T p / B >= 1, η B ln(1/δ_1)/p <= 1 and η <= 1/10. Multiplicative weights have δ_0 = 0; for the
regularised weights of convex losses, Lemma 3.11 trades η for δ_0. The formula stands beside the certified ε
to show the gain of exact accounting; only the graph of the learner is a guarantee.
"""

import math

from hockeystick.accounting import NumericalError
from hockeystick.accounting.validate import integer, real
from hockeystick.learners.common.printed_claims import Condition, PrintedGuarantee

_SMALLEST_LOG = -700.0  # the exponential of smaller numbers does not fit in a float


def paper_epsilon(
    *, rounds: int, batch: int, learning_rate: float, fake_switch_probability: float, delta: float
) -> PrintedGuarantee:
    """Returns the printed ε of Theorem 3.2 for L2P over multiplicative weights, with its conditions.

    Args:
        rounds: T >= 1.
        batch: B in 1 .. T.
        learning_rate: η > 0.
        fake_switch_probability: p in (0, 1); the formula divides by it.
        delta: The δ of the guarantee, in [1e-300, 1); δ_1 = δ / (2T).

    Raises:
        InvalidArgumentError: an argument outside its domain.

    Example:
        >>> printed = paper_epsilon(rounds=200, batch=1, learning_rate=0.02, fake_switch_probability=0.1, delta=1e-6)
        >>> round(printed.epsilon, 2), [condition.statement for condition in printed.failing]
        (5.0, ['eta B ln(1/delta_1) / p <= 1'])
    """
    rounds, batch, p, delta = _shared(rounds, batch, fake_switch_probability, delta)
    eta = real("learning_rate", learning_rate, low=0.0, low_open=True)
    return _theorem_3_2(rounds, batch, eta, p, delta, delta_1=delta / (2.0 * rounds), delta_0=0.0)


def paper_epsilon_convex(
    *,
    rounds: int,
    batch: int,
    inverse_temperature: float,
    regularisation: float,
    lipschitz: float,
    fake_switch_probability: float,
    delta: float,
) -> PrintedGuarantee:
    """Returns the printed ε of Theorem 3.2 for L2P over the regularised weights of convex losses.

    Half of δ goes to the switches, δ_1 = δ / (4T), and half to the measures: δ_0 is the number at which
    the theorem's first term is δ / 2, with η = :func:`paper_rate` of that δ_0.

    Args:
        rounds: T >= 1.
        batch: B in 1 .. T.
        inverse_temperature: β > 0, per unit of loss.
        regularisation: λ > 0, in units of loss per squared length.
        lipschitz: L > 0.
        fake_switch_probability: p in (0, 1); the formula divides by it.
        delta: The δ of the guarantee, in [1e-300, 1).

    Raises:
        InvalidArgumentError: an argument outside its domain.
        NumericalError: the necessary δ_0 does not fit in a float.

    Example:
        >>> printed = paper_epsilon_convex(
        ...     rounds=1000, batch=1, inverse_temperature=5e-5, regularisation=1e4, lipschitz=1.0,
        ...     fake_switch_probability=0.05, delta=1e-6)
        >>> round(printed.epsilon, 4), printed.applies
        (0.478, True)
    """
    rounds, batch, p, delta = _shared(rounds, batch, fake_switch_probability, delta)
    mu = _mu(inverse_temperature, regularisation, lipschitz)
    delta_1 = delta / (4.0 * rounds)
    log = -math.log(delta_1)

    def spent(log_delta_0: float) -> float:
        """ln of 2 T (2/η + ln(1/δ_1)/p) e B δ_0, which grows with δ_0."""
        return math.log(2.0 * rounds * math.e * batch * (2.0 / _rate(mu, log_delta_0) + log / p)) + log_delta_0

    low, high = _SMALLEST_LOG, 0.0
    if not spent(low) <= math.log(delta / 2.0):
        raise NumericalError(f"delta={delta:g}: the delta_0 that the printed formula needs does not fit in a float")
    for _ in range(100):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if spent(middle) <= math.log(delta / 2.0) else (low, middle)
    return _theorem_3_2(rounds, batch, _rate(mu, low), p, delta, delta_1=delta_1, delta_0=math.exp(low))


def paper_rate(delta_0: float, *, inverse_temperature: float, regularisation: float, lipschitz: float) -> float:
    """Returns the printed η of consecutive regularised measures at ``delta_0`` in (0, 1) (Lemma 3.11).

    η = μ^2 + 2 μ sqrt(ln(2/δ_0)) with μ = L sqrt(2 β/λ), a draw's Gaussian-DP parameter when a loss is
    *replaced*. Consecutive measures differ by one additional loss, so that μ^2/8 + μ sqrt(ln(1/δ_0)/2) is enough:
    the printed η is at least 2 sqrt(2) times too large, on the safe side.

    Raises:
        InvalidArgumentError: an argument outside its domain.

    Example:
        >>> round(paper_rate(1e-9, inverse_temperature=5e-5, regularisation=1e4, lipschitz=1.0), 6)
        0.000926
    """
    delta_0 = real("delta_0", delta_0, low=0.0, high=1.0, low_open=True, high_open=True)
    return _rate(_mu(inverse_temperature, regularisation, lipschitz), math.log(delta_0))


def _mu(inverse_temperature: float, regularisation: float, lipschitz: float) -> float:
    beta = real("inverse_temperature", inverse_temperature, low=0.0, low_open=True)
    lam = real("regularisation", regularisation, low=0.0, low_open=True)
    return real("lipschitz", lipschitz, low=0.0, low_open=True) * math.sqrt(2.0 * beta / lam)


def _rate(mu: float, log_delta_0: float) -> float:
    return mu**2 + 2.0 * mu * math.sqrt(math.log(2.0) - log_delta_0)


def _shared(rounds: int, batch: int, fake: float, delta: float) -> tuple[int, int, float, float]:
    rounds = integer("rounds", rounds, low=1)
    return (
        rounds,
        integer("batch", batch, low=1, high=rounds),
        real("fake_switch_probability", fake, low=0.0, high=1.0, low_open=True, high_open=True),
        real("delta", delta, low=1e-300, high=1.0, high_open=True),  # divided by counts it stays a float
    )


def _theorem_3_2(
    rounds: int, batch: int, eta: float, p: float, delta: float, *, delta_1: float, delta_0: float
) -> PrintedGuarantee:
    log = -math.log(delta_1)
    variance = rounds * eta**2 * p / batch
    epsilon = 2.0 * eta / p + eta + 1.5 * variance * log + math.sqrt(6.0 * variance) * log
    conditions = (
        _at_least("T p / B >= 1", rounds * p / batch, 1.0),
        _at_most("eta B ln(1/delta_1) / p <= 1", eta * batch * log / p, 1.0),
        _at_most("eta <= 1/10", eta, 0.1),
    )
    constants = (("delta_1", delta_1), ("delta_0", delta_0))
    return PrintedGuarantee(
        epsilon, delta, conditions, constants=constants if delta_0 == 0.0 else (("eta", eta), *constants)
    )


def _at_least(statement: str, value: float, limit: float) -> Condition:
    return Condition(statement, value, limit, value >= limit)


def _at_most(statement: str, value: float, limit: float) -> Condition:
    return Condition(statement, value, limit, value <= limit)
