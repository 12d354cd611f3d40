"""Explicit bounds on the risk of online distribution learning under local privacy, with proofs.

The risk is the expected sum over T rounds of KL(f(x) || prediction). The bounds hold for every class of K candidates,
every truth among them, every number of labels, and contexts that may depend on earlier messages. They depend on the
``span`` Delta of the levels of a run (``hockeystick.learners.distribution.channels.levels``).

========================  =============================================================================================
:func:`sampled_risk`      one Laplace level of a random candidate, as published (Theorem 5, corrected)
:func:`vector_risk`       Laplace levels of all candidates, as published (Theorem 4, corrected)
:func:`laplace_risk`      X1: as the first, with centred messages instead of messages scaled into [0, 1]
:func:`one_bit_risk`      X2: one bit of randomised response about the level of a random candidate
:func:`full_vector_risk`  X3: as the second, with centred messages and any noise
:func:`labels_risk`       randomised response on the label itself; grows with the number of labels
========================  =============================================================================================

The published bounds are vacuous below about 10^7 rounds: they exceed T ln K, a bound on the risk of predicting the mean
of the candidates. Lower bounds are in ``hockeystick.learners.distribution.hadamard_candidates``.

Sources: Sima, Wu, Milenkovic & Szpankowski 2024, with the corrections that each docstring names; the proofs of X1 to X3
are in the docstring of :func:`one_bit_risk`; Verdu 2014 for randomised labels.
"""

import math
from collections.abc import Callable
from typing import Literal

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.validate import integer, one_of, probability, real
from hockeystick.learners.common import arguments

_MOST_ROUNDS = 2**53


def _rounds(value: object) -> int:
    return integer("rounds", value, low=2, high=_MOST_ROUNDS)


def _positive(name: str, value: object) -> float:
    return real(name, value, low=0.0, low_open=True)


# --- ranges ----------------------------------------------------------------------------------------------------------


def mixture_span(*, rounds: int, experts: int) -> float:
    """Returns ln((T-1) K + 1) <= ln(K T), a bound on the span of levels under UniformMixture or Envelope."""
    return math.log1p((_rounds(rounds) - 1) * arguments.experts(experts))


# --- regret ----------------------------------------------------------------------------------------------------------


def hedge_rate(*, rounds: int, experts: int) -> float:
    """Returns sqrt(2 ln(K) / T): the rate of the vector algorithm. The printed rate has a wrong factor sqrt(K)."""
    return math.sqrt(2.0 * math.log(arguments.experts(experts)) / _rounds(rounds))


def sampled_rate(*, rounds: int, experts: int) -> float:
    """Returns sqrt(2 K ln(K) / T): the rate for messages about one random candidate in each round."""
    return hedge_rate(rounds=rounds, experts=experts) * math.sqrt(experts)


def hedge_regret(*, rounds: int, experts: int, rate: float | None = None) -> float:
    """Returns ln(K)/eta + eta T/2: a bound on the regret of exponential weights on losses in [0, 1] (Lemmas 1 and 4).

    At the default rate, ``hedge_rate``, it is sqrt(2 T ln K). At the printed rate, ``sampled_rate``, it is larger by a
    factor (sqrt(K) + 1/sqrt(K)) / 2.
    """
    eta = _rate(rate, hedge_rate(rounds=rounds, experts=experts))
    return math.log(arguments.experts(experts)) / eta + eta * _rounds(rounds) / 2.0


def sampled_regret(*, rounds: int, experts: int, rate: float | None = None) -> float:
    """Returns K ln(K)/eta + eta T/2: a bound on the regret if a uniformly drawn coordinate of a loss is used (Lemma 7).

    Losses lie in [0, 1], are chosen without knowledge of the coordinate of the round, and have no importance weights.
    At the default rate, ``sampled_rate``, it is sqrt(2 T K ln K).
    """
    eta = _rate(rate, sampled_rate(rounds=rounds, experts=experts))
    return experts * math.log(experts) / eta + eta * rounds / 2.0


def _rate(value: object, default: float) -> float:
    return default if value is None else _positive("rate", value)


# --- the published algorithms ----------------------------------------------------------------------------------------


def composed_vector_scale(*, span: float, experts: int, epsilon: float, delta: float) -> float:
    """Returns the least b whose K-fold composition is (ε, δ)-DP by Lemma 2.

    It is Delta / (sqrt(2/K) (sqrt(L + ε) - sqrt L)) with L = ln(1/δ). Numerical composition needs a third less.
    """
    k, log_delta = arguments.experts(experts), -math.log(probability("delta", delta, open=True))
    eps = _positive("epsilon", epsilon)
    # sqrt(L + eps) - sqrt(L) without cancellation.
    each = math.sqrt(2.0 / k) * eps / (math.sqrt(log_delta + eps) + math.sqrt(log_delta))
    return _positive("span", span) / each


def noise_ceiling(*, scale: float, draws: int, gamma: float) -> float:
    """Returns c' = b (gamma + ln n): n Laplace draws of scale b are within c' with probability >= 1 - e^-gamma.

    Lemmas 5 and 8. The vector algorithm draws n = K T numbers; the sampled one draws T, not K T as printed. An
    algorithm must not clip at c': an output at the limit would rule out some levels with certainty.
    """
    draws = integer("draws", draws, low=1)
    return _positive("scale", scale) * (real("gamma", gamma, low=0.0) + math.log(draws))


def resampling_slack(*, span: float, rounds: int) -> float:
    """Returns 2 Delta/T - ln(1 - 1/T), a bound on the risk that resampling and smoothing add to one round.

    It replaces inequality (31), ln(K T)/T - ln(1 - 1/T) + ln(K T)/(K T M) in print, which is false: a sum over K M
    symbols was dropped.
    """
    return 2.0 * _positive("span", span) / _rounds(rounds) - math.log1p(-1.0 / rounds)


def sampled_risk(
    *, rounds: int, experts: int, epsilon: float, span: float, gamma: float | None = None, resample: bool = True
) -> float:
    """Returns a bound on the risk of Algorithm 2 as published, with noise of scale Delta/ε.

    Its main term is (Delta + 2 c') sqrt(2 T K ln K). This is Theorem 5 with its constants and the corrected term per
    round; the algorithm is ε-LDP if ``span`` is the span of its levels.

    Args:
        rounds: T >= 2.
        experts: K >= 2.
        epsilon: > 0.
        span: Delta > 0.
        gamma: The noise exceeds c' with probability at most e^-gamma; ln T by default.
        resample: Whether labels are resampled with probability 1/T, as published.
    """
    regret = sampled_regret(rounds=rounds, experts=experts)
    scale = _positive("span", span) / _positive("epsilon", epsilon)
    return _published(regret, rounds, experts, span, scale, gamma, resample)


def vector_risk(
    *, rounds: int, experts: int, scale: float, span: float, gamma: float | None = None, resample: bool = True
) -> float:
    """Returns a bound on the risk of Algorithm 1, with noise of scale b and the corrected rate.

    Its main term is (Delta + 2 c') sqrt(2 T ln K). This is Theorem 4 with its constants; the published b is the span
    times ``printed_multiplier``. Other arguments as for ``sampled_risk``.
    """
    regret = hedge_regret(rounds=rounds, experts=experts)
    return _published(regret, rounds, experts, _positive("span", span), _positive("scale", scale), gamma, resample)


def _published(
    regret: float, rounds: int, experts: int, span: float, scale: float, gamma: float | None, resample: bool
) -> float:
    tail = math.log(rounds) if gamma is None else real("gamma", gamma, low=0.0)
    ceiling = noise_ceiling(scale=scale, draws=rounds * experts, gamma=tail)
    each = resampling_slack(span=span, rounds=rounds) if resample else -math.log1p(-1.0 / rounds)
    return (span + 2.0 * ceiling) * regret + rounds * each + math.exp(-tail) * rounds * (span + each)


# --- centred losses --------------------------------------------------------------------------------------------------


def one_bit_reach(*, span: float, epsilon: float) -> float:
    """Returns B = (Delta/2) coth(ε/2): a bit stands for +B or -B in the unbiased estimate of a centred level."""
    return _positive("span", span) / 2.0 / math.tanh(_positive("epsilon", epsilon) / 2.0)


def one_bit_rate(*, rounds: int, experts: int, epsilon: float, span: float) -> float:
    """Returns sqrt(2 K ln(K) / T) / B: the rate that (nearly) minimises ``one_bit_risk``."""
    return sampled_rate(rounds=rounds, experts=experts) / one_bit_reach(span=span, epsilon=epsilon)


def one_bit_risk(*, rounds: int, experts: int, epsilon: float, span: float, rate: float | None = None) -> float:
    """Returns a bound on the risk of X2 at any rate eta, about B sqrt(2 T K ln K): labels are not resampled.

    It is K ln(K)/eta + (T/eta) g + T ln(T/(T-1)) with g = cosh(eta B) - 1 + (Delta/2) (sinh(eta B)/B - eta).

    Proof (also of X1 and X3). Let u_j = -(v_j(Y) - middle) and let X be the estimate of u_J from a message, J uniform.
    A step changes (1/eta) ln of the sum of weights by at most w_J (e^(-eta X) - 1)/eta, where w are the weights that
    sum to 1. Averaged over noise and J that is at most (1/K) (g/eta - sum_j w_j u_j), as E e^(-eta X) - 1 + eta u is
    convex in u and g is its value at the worse end. The sum of weights is at least the weight of the true candidate,
    whose expected logarithm falls by eta u/K. Telescoped and multiplied by K: the sum of E[w.u - u_true] is at most
    K ln(K)/eta + T g/eta. And KL(f || prediction) <= -ln(1 - 1/T) + E[v_true - w.v], by Jensen's inequality.
    """
    n, k = _rounds(rounds), arguments.experts(experts)
    eta = _rate(rate, one_bit_rate(rounds=n, experts=k, epsilon=epsilon, span=span))
    reach = one_bit_reach(span=span, epsilon=epsilon)
    a = eta * reach
    if a > 700.0:
        return math.inf
    # cosh(a) - 1 = 2 sinh(a/2)^2, and sinh(a) - a by its series for small a, where the difference would cancel.
    odd = (
        math.sinh(a) - a if a > 0.1 else a**3 / 6.0 * (1.0 + a * a / 20.0 * (1.0 + a * a / 42.0 * (1.0 + a * a / 70.0)))
    )
    g = 2.0 * math.sinh(a / 2.0) ** 2 + span / 2.0 / reach * odd
    return k * math.log(k) / eta + n * g / eta + _smoothing(n)


def laplace_rate(*, rounds: int, experts: int, scale: float, span: float) -> float:
    """Returns sqrt(K ln(K) / (T (Delta^2/8 + b^2))), at most 1/(2 b): the rate that suits ``laplace_risk``."""
    n, k, b = _rounds(rounds), arguments.experts(experts), _positive("scale", scale)
    return min(math.sqrt(k * math.log(k) / (n * (_positive("span", span) ** 2 / 8.0 + b * b))), 0.5 / b)


def laplace_risk(*, rounds: int, experts: int, scale: float, span: float, rate: float | None = None) -> float:
    """Returns a bound on the risk of X1 at any rate eta < 1/b, about 2 sqrt(T K ln(K) (Delta^2/8 + b^2)).

    It is K ln(K)/eta + (T/eta) g + T ln(T/(T-1)) with g = e^(eta Delta/2)/(1 - eta^2 b^2) - 1 - eta Delta/2.
    Noise of scale b = Delta/ε is ε-LDP. Labels are not resampled.

    Raises:
        InvalidArgumentError: an argument outside its domain, or a rate of 1/b or more.
    """
    n, k, b = _rounds(rounds), arguments.experts(experts), _positive("scale", scale)
    eta = _rate(rate, laplace_rate(rounds=n, experts=k, scale=b, span=span))
    noise, half = _below_one(eta * b) ** 2, eta * _positive("span", span) / 2.0
    if half > 700.0:
        return math.inf
    g = (math.expm1(half) - half) + math.exp(half) * noise / (1.0 - noise)
    return k * math.log(k) / eta + n * g / eta + _smoothing(n)


def full_vector_risk(
    *,
    rounds: int,
    experts: int,
    scale: float,
    span: float,
    law: Literal["laplace", "gaussian"],
    rate: float | None = None,
) -> float:
    """Returns a bound on the risk of X3, centred noisy levels of all candidates.

    It is ln(K)/eta + T (eta Delta^2/8 + h/eta) + T ln(T/(T-1)), where e^h is the moment of the noise at eta: h is
    -ln(1 - eta^2 b^2) or eta^2 σ^2/2. That is about 2 sqrt(T ln(K) (Delta^2/8 + b^2)), or with σ^2/2 for b^2.

    Args:
        rounds: T >= 2.
        experts: K >= 2.
        scale: b, or the standard deviation σ of Gaussian noise; > 0.
        span: Delta > 0.
        law: The law of the noise.
        rate: eta > 0, below 1/b for Laplace noise; by default nearly the best one.

    Raises:
        InvalidArgumentError: an argument outside its domain.
    """
    n, k, b = _rounds(rounds), arguments.experts(experts), _positive("scale", scale)
    square = _positive("span", span) ** 2 / 8.0
    if one_of("law", law, "laplace", "gaussian") == "gaussian":
        eta = _rate(rate, math.sqrt(math.log(k) / (n * (square + b * b / 2.0))))
        noise = (eta * b) ** 2 / 2.0
    else:
        eta = _rate(rate, min(math.sqrt(math.log(k) / (n * (square + b * b))), 0.5 / b))
        noise = -math.log1p(-(_below_one(eta * b) ** 2))
    return math.log(k) / eta + n * (eta * square + noise / eta) + _smoothing(n)


def _below_one(product: float) -> float:
    if product >= 1.0:
        raise InvalidArgumentError(
            "rate", product, "is the rate times the scale of the noise, and must be below 1", "use a lower rate"
        )
    return product


def _smoothing(rounds: int) -> float:
    return -rounds * math.log1p(-1.0 / rounds)


# --- randomised labels, and the choice -------------------------------------------------------------------------------


def label_contrast(*, labels: int, epsilon: float) -> float:
    """Returns the contrast (e^ε - 1)/(e^ε + M - 1) of M-ary randomised response: the weight of the true law."""
    m, eps = integer("labels", labels, low=2), _positive("epsilon", epsilon)
    return -math.expm1(-eps) / (1.0 + (m - 1) * math.exp(-eps))


def labels_risk(*, rounds: int, experts: int, labels: int, epsilon: float) -> float:
    """Returns a bound on the risk of randomised response on labels with the Bayes mixture.

    It is ln(KT)/(1 - 1/(KT)) (sqrt(T ln(K)/2)/c + 1), where c is the channel's contrast. It follows from the log-loss
    of mixtures on the noisy labels, Pinsker's inequality, and KL(P || Q) <= TV ln(beta)/(1 - 1/beta) for
    dP/dQ <= beta = K T (Verdu 2014).
    """
    n, k = _rounds(rounds), arguments.experts(experts)
    contrast = label_contrast(labels=labels, epsilon=epsilon)
    return math.log(k * n) / (1.0 - 1.0 / (k * n)) * (math.sqrt(n * math.log(k) / 2.0) / contrast + 1.0)


def choose_channel(*, experts: int, labels: int | None, epsilon: float) -> Literal["one-bit", "randomized-labels"]:
    """Returns the channel with the smaller bound on the risk: randomised labels for few labels, otherwise one bit.

    Labels are randomised if (e^ε + M - 1)/(e^ε - 1) < coth(ε/2) sqrt(K), the factors in which the two bounds
    differ; for small ε, if M < 2 sqrt(K). The rule uses public numbers only and is for the worst case: with
    easily distinguished candidates randomised labels may be better up to several hundred labels.

    Args:
        experts: K >= 2.
        labels: M >= 2, or None for infinitely many.
        epsilon: > 0.

    Example:
        >>> from hockeystick.learners.distribution import choose_channel
        >>> [choose_channel(experts=16, labels=m, epsilon=1.0) for m in (4, 100)]
        ['randomized-labels', 'one-bit']
    """
    k, eps = arguments.experts(experts), _positive("epsilon", epsilon)
    if labels is None:
        return "one-bit"
    eps = max(eps, 1e-300)  # hardly smaller, both factors are 1/ε beyond what a float holds
    price = 1.0 / label_contrast(labels=labels, epsilon=eps)
    return "randomized-labels" if price < math.sqrt(k) / math.tanh(eps / 2.0) else "one-bit"


# --- total variation, and the number of rounds -----------------------------------------------------------------------


def total_variation(*, risk: float, rounds: int) -> float:
    """Returns sqrt(R/(2T)): a bound on the mean total variation between truth and predictions of risk R (Theorem 6).

    Total variation is half of the L1 distance. The bound also holds for the mean of the predictions and a fixed truth.
    """
    return min(1.0, math.sqrt(real("risk", risk, low=0.0, allow_inf=True) / (2.0 * integer("rounds", rounds, low=1))))


def rounds_for_total_variation(alpha: float, risk: Callable[[int], float]) -> int:
    """Returns T_alpha: the least T for which the bound ``risk(T)`` implies a total variation of at most alpha.

    Raises:
        InvalidArgumentError: ``alpha`` is not in (0, 1), or no T up to 2^53 is enough.
    """
    wanted = probability("alpha", alpha, open=True)

    def enough(rounds: int) -> bool:
        return total_variation(risk=risk(rounds), rounds=rounds) <= wanted

    high = 2
    while not enough(high):
        high *= 2
        if high > _MOST_ROUNDS:
            raise InvalidArgumentError("alpha", alpha, "needs more than 2^53 rounds", "use a larger one")
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
