"""An explicit bound on the regret of the federated stochastic learner.

A phase ends at a mixture of the winners at its leaves, the k-th of K with weight 2k/(K(K + 1)). Each winner is chosen
by noisy gradients. In expectation it exceeds the best one by at most E_k: twice the largest deviation of an average
from its mean plus twice the largest noise. With losses of smoothness beta the Frank-Wolfe recursion
h_(k+1) <= (1 - eta_k) h_k + eta_k E_k + 2 beta eta_k^2 ends at the mixture of E_k with those weights, plus
8 beta/(K(K + 1)) times the sum of k/(k + 1).

* Deviations of m*b independent gradients in a range of width w: E max <= w*sqrt(ln(2d)/(2bm)) (Hoeffding 1963). A right
  child adds an average of m*n differences in [-c, c], independent of what was read before: variance proxies, w^2/(4bm)
  and c^2/(mn), add up along the path. Linear losses have no differences.
* m Laplace variables of scale lambda, averaged: E max <= (lambda/m)*(ln(2d) - m*ln(1 - u^2))/u for every u in (0, 1),
  by their moment generating function (``laplace_minima.maximum_bound``).
* One Laplace variable of scale mu for each expert: E max = mu*(1 + 1/2 + ... + 1/d) <= mu*(1 + ln d).

Against the best expert in hindsight, rather than the one that is best in expectation, w*sqrt(T*ln(d)/(2m)) is added:
the expected total loss of that expert is lower by at most this. For losses that are not linear it is twice that: their
differences between two experts lie in [-w, w].

Sources: Gao, Huang & Yang 2024, Theorems 1 and 7 and Corollary 1, without constants; the explicit form is our own.
"""

from __future__ import annotations

import math

from hockeystick.accounting import InvalidArgumentError
from hockeystick.learners.federated.laplace_minima import maximum_bound
from hockeystick.learners.federated.stochastic.frank_wolfe_tree import Step, StochSetting, TreePhase


def explicit_regret_bound(
    setting: StochSetting, *, rounds: int, experts: int, smoothness: float, pseudo: bool
) -> float:
    """Returns a bound on the expected regret per client of i.i.d. losses with gradients in [low, high].

    All clients are assumed to answer.

    Args:
        setting: The learner's setting.
        rounds: T.
        experts: d.
        smoothness: beta of the losses; 0 for linear ones.
        pseudo: Compare with the expert that is best in expectation.

    Raises:
        InvalidArgumentError: clients add Gumbel or exponential noise, for which no bound is known here; or the clipping
            of corrections is below the smoothness of the losses.
    """
    if setting.smoothness is not None and setting.smoothness < smoothness:
        raise InvalidArgumentError(
            "smoothness", setting.smoothness, f"is below {smoothness:g}, that of the losses", "use at least that"
        )
    width = setting.span
    excess = width  # per round; a point that is held keeps it
    total = width
    for k, phase in enumerate(setting.phases):
        if phase is not None:
            excess = min(width, _excess(setting, phase, experts, smoothness))
        total += excess * (min(2 ** (k + 2) - 1, rounds) - 2 ** (k + 1) + 1)
    spread = width if smoothness == 0.0 else 2 * width
    return total if pseudo else total + spread * math.sqrt(rounds * math.log(experts) / (2 * setting.clients))


def _excess(setting: StochSetting, phase: TreePhase, experts: int, smoothness: float) -> float:
    """The bound for one round of the phase that follows."""
    leaves = phase.schedule()
    share = 1.0 / (len(leaves) * (len(leaves) + 1))
    proxies: dict[int, float] = {}  # of a gradient's deviation, at each depth of the path
    total = 0.0
    for leaf in leaves:
        for step in leaf.steps:
            proxies[step.depth] = _proxy(setting, phase, proxies.get(step.depth - 1, 0.0), step)
        sampling = 2 * math.sqrt(2 * proxies[leaf.steps[-1].depth] * math.log(2 * experts))
        worse = sampling + phase.scale(leaf.tree) * _unit_noise(setting, experts)
        total += share * (2 * leaf.number * worse + 8 * smoothness * leaf.number / (leaf.number + 1))
    return total


def _proxy(setting: StochSetting, phase: TreePhase, above: float, step: Step) -> float:
    """The variance proxy of a coordinate of the clients' average at a vertex, from its parent's."""
    if step.vertex is None:
        return above
    vertex = phase.vertices()[step.vertex]
    records = vertex.records * setting.clients
    if vertex.depth == 0:
        return setting.span**2 / (4 * records)
    most = setting.span
    if setting.smoothness is not None:
        most = min(most, setting.smoothness * float(vertex.travel()))
    return above + most**2 / records


def _unit_noise(setting: StochSetting, experts: int) -> float:
    """The expected excess of a choice caused by noise of scale 1."""
    m, log_sides = setting.clients, math.log(2 * experts)
    if setting.noise == "gaussian":
        return 2 * math.sqrt(2 * log_sides / (m if setting.where == "client" else 1))
    if setting.where == "server":
        return (2 if setting.noise == "laplace" else 1) * (1 + math.log(experts))
    if setting.noise == "laplace":
        return 2 * maximum_bound(m, 2 * experts) / m
    raise InvalidArgumentError("noise", setting.noise, "has no bound at the clients", "use laplace or gaussian noise")
