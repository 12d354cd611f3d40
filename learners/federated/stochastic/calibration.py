"""Noise scales of the federated stochastic learner for a target guarantee.

:func:`calibrated` reads the trees and batches of a setting and returns the setting with scales at which the graph of
``federated.stochastic.privacy_plan`` certifies the target for one threat model. Trees, phases and clients are
alternatives for a record, so each tree is calibrated separately:

* δ = 0, the adversary sees the winners: R leaves/ε for the worst depth of the tree, which is the printed
  scale times min(2, max(1, beta travel/alpha)) for gradients in [-alpha, alpha]; half of that for those in [0, alpha];
* δ = 0, the adversary sees messages: d D leaves/ε, d/2 times as much;
* δ > 0: the least scale by the tightest of all accounting methods, with Laplace or Gaussian noise.

If a secret assignment reads only a share q < 1 of the losses, that amplifies privacy: the noise is then for the
ε' with ln(1 + q (e^ε' - 1)) = ε, at δ/q (Balle, Barthe & Gaboardi 2018, Theorem 10).

For a group of k losses each tree has the noise at which its costliest place costs 1/k of the largest rate that meets
the target; see ``privacy_plan.group_plan``.

The graph certifies the result before it is returned. :func:`theorem_6` has the printed noise for δ > 0 instead, which
the graph certifies at another ε.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from attrs import evolve, frozen

from hockeystick import accounting
from hockeystick.accounting import InvalidArgumentError, parallel
from hockeystick.accounting.events.catalogue import GaussianDP, LogLipschitz
from hockeystick.accounting.validate import boolean, probability, real
from hockeystick.learners.common import arguments
from hockeystick.learners.common.calibration_search import largest_meeting
from hockeystick.learners.federated.stochastic.frank_wolfe_tree import StochSetting, TreePhase
from hockeystick.learners.federated.stochastic.privacy_plan import (
    Place,
    group_event,
    phase_event,
    place_event,
    place_rate,
    places,
    printed_scale,
)
from hockeystick.learners.network.threat_models import ThreatModel, threat_model
from hockeystick.mechanisms.contract.arguments import target_epsilon

_WHOLE = Fraction(1)
_ACCURACY = 1e-3  # relative, of the epsilon at the scale that a search returns
_LARGEST = 100.0  # of the logarithm of a shift over a scale
_GRID = 2.0**-32  # sizes are rounded up to its multiples, so that a search is made once for equal ones
_SHARES = 32  # the share of the losses that is read is rounded up to multiples of 1/32 likewise


def calibrated(
    setting: StochSetting,
    *,
    experts: int,
    threat_model: ThreatModel | str,
    epsilon: float,
    delta: float = 0.0,
    amplified: bool = True,
    group: int = 1,
) -> StochSetting:
    """Returns the setting with nearly the least noise that its graph certifies as (ε, δ)-DP.

    The scales of ``setting`` are ignored; all else is kept. For δ = 0 each tree uses the whole target; for
    δ > 0 all but a thousandth of it. One exception: this function charges a secret assignment's mixture of places
    of unequal cost as the worst of them, and the graph may then find an ε some percent smaller.

    Args:
        setting: The setting to calibrate.
        experts: d >= 2.
        threat_model: The adversary: one of the views of the setting's graph.
        epsilon: Target, at least 1e-90.
        delta: Target, in [0, 1).
        amplified: Whether a secret assignment may reduce the noise; False charges each record as if its place were
            known.
        group: The number of losses that are protected together; more than one is never amplified.

    Raises:
        InvalidArgumentError: an argument outside its domain, or a target that no scale of this noise meets: pure
            privacy of Gaussian noise, or messages that hide nothing.
    """
    target = _Target.of(setting, experts, threat_model, epsilon, delta, amplified)
    people = arguments.group(group)
    if people > 1:
        return _for_group(setting, target, people)
    phases = tuple(phase if phase is None else _calibrated(phase, target) for phase in setting.phases)
    return evolve(setting, phases=phases)


def _for_group(setting: StochSetting, target: _Target, group: int) -> StochSetting:
    each = _largest_rate(setting.noise == "gaussian", target.epsilon, target.delta) / group
    model, experts = target.model, target.experts

    def scaled(phase: TreePhase | None, room: float) -> TreePhase | None:
        if phase is None:
            return None
        unit = evolve(phase, scales=(1.0,) * len(phase.scales))
        scales = [0.0] * len(unit.scales)
        for place in places(setting, unit):  # a rate is in proportion to 1/scale
            rate = place_rate(setting, place, experts=experts, model=model)
            scales[max(0, place.tree - 1)] = max(scales[max(0, place.tree - 1)], rate / each * room)
        return evolve(unit, scales=tuple(scales))

    step = 2.0**-52
    while True:
        found = evolve(setting, phases=tuple(scaled(phase, 1.0 + step) for phase in setting.phases))
        event = group_event(found, experts=experts, model=model).at(group)
        if accounting.epsilon(event, target.delta).upper <= target.epsilon:
            return found
        step *= 2.0


@lru_cache(maxsize=256)
def _largest_rate(gaussian: bool, epsilon: float, delta: float) -> float:
    """The largest rate of ``LogLipschitz``, or mu of ``GaussianDP``, that is (ε, δ)-DP."""
    if not delta:
        return epsilon

    def excess(log_rate: float) -> float:
        rate = math.exp(log_rate)
        found = accounting.epsilon(GaussianDP(rate) if gaussian else LogLipschitz(rate), delta).upper
        return math.log(found / epsilon) if 0.0 < found < math.inf else math.copysign(math.inf, found - epsilon)

    best = largest_meeting(excess, math.log(epsilon), _LARGEST, step=0.1, accuracy=_ACCURACY)
    if best is None:
        raise InvalidArgumentError("epsilon", epsilon, "is not met by any scale of the noise", "use a larger one")
    return math.exp(best)


def one_release(setting: StochSetting) -> StochSetting:
    """Returns the setting with one release per phase, from all its losses; its noise still has to be calibrated.

    For linear losses it needs half the noise of one tree of full batches, 2 (high - low)/(N ε), and half the
    messages: right children would read nothing.
    """
    single = (TreePhase(records=2**k, trees=0, batch=2**k, scales=(1.0,)) for k in range(len(setting.phases)))
    return evolve(setting, phases=tuple(single))


# --- a phase ---------------------------------------------------------------------------------------------------------


@frozen(kw_only=True)
class _Target:
    setting: StochSetting  # its phases are not used
    experts: int
    model: ThreatModel
    epsilon: float
    delta: float
    amplified: bool

    @classmethod
    def of(
        cls, setting: StochSetting, experts: int, model: ThreatModel | str, epsilon: float, delta: float, amplify: bool
    ) -> _Target:
        boolean("amplified", amplify)
        target = cls(
            setting=setting if amplify else evolve(setting, assignment="contiguous"),
            experts=arguments.experts(experts),
            model=threat_model(model),
            epsilon=target_epsilon(epsilon),
            delta=real("delta", delta, low=0.0, high=1.0, high_open=True),
            amplified=amplify and setting.assignment == "secret",
        )
        unit = Place(tree=1, depth=0, share=_WHOLE, leaves=1, shift=1.0, scale=1.0)
        cost = place_event(setting, unit, experts=target.experts, model=target.model)
        if cost.failure_delta() > 0.0 or (delta == 0.0 and math.isinf(cost.pure_epsilon())):
            raise InvalidArgumentError(
                "delta" if cost.failure_delta() == 0.0 else "threat_model",
                target.delta if cost.failure_delta() == 0.0 else target.model.value,
                f"can't be met by {setting.noise} noise at the {setting.where}",
                "use delta > 0, or Laplace noise at the clients",
            )
        return target

    def met_by(self, phase: TreePhase) -> bool:
        event = phase_event(self.setting, phase, experts=self.experts, model=self.model)
        return accounting.epsilon(event, self.delta).upper <= self.epsilon

    def inside(self, share: Fraction) -> tuple[float, float]:
        """(ε', δ') for a phase that reads a share of the losses, as if each record were certainly read."""
        if not self.amplified or share >= 1:
            return self.epsilon, self.delta
        if self.delta:
            share = Fraction(math.ceil(share * _SHARES), _SHARES)
        q = float(share)
        # ln(1 + (e^epsilon - 1)/q), in a form for either size
        epsilon = (
            math.log1p(math.expm1(self.epsilon) / q)
            if self.epsilon < 1.0
            else self.epsilon + math.log((1.0 - (1.0 - q) * math.exp(-self.epsilon)) / q)
        )
        return epsilon, min(self.delta / q, 0.5)


def _calibrated(phase: TreePhase, target: _Target) -> TreePhase:
    phase = evolve(phase, scales=(1.0,) * len(phase.scales))
    found = places(target.setting, phase)
    epsilon, delta = target.inside(sum((place.share for place in found), Fraction(0)))
    scales = []
    for tree in range(1, phase.trees + 1) if phase.trees else (0,):
        scales.append(_tree_scale([place for place in found if place.tree == tree], target, epsilon, delta))
    step = 1e-3 if delta and target.amplified else 2.0**-52  # the error of a grid, or the rounding of quotients
    while not target.met_by(phase := evolve(phase, scales=tuple(scales))):
        scales, step = [scale * (1.0 + step) for scale in scales], 2.0 * step
    return phase


def _tree_scale(found: list[Place], target: _Target, epsilon: float, delta: float) -> float:
    """The scale of one tree's noise, from its places at scale 1."""
    events = [place_event(target.setting, place, experts=target.experts, model=target.model) for place in found]
    pure = max(event.pure_epsilon() for event in events) / epsilon  # pure losses are in proportion to 1/scale
    if not delta:
        return pure
    largest = max(place.shift for place in found)
    shape = tuple((place.leaves, math.ceil(place.shift / largest / _GRID) * _GRID) for place in found)
    kind = evolve(target.setting, phases=(), clients=1)
    scale = _searched(kind, target.experts, target.model, shape, epsilon, delta)
    # Two products and a quotient here, two roundings before shapes are rounded up: 5 of the 8 U.
    return min(pure, scale * largest / found[0].scale * (1.0 + 2.0**-50))


@lru_cache(maxsize=1024)
def _searched(
    kind: StochSetting,
    experts: int,
    model: ThreatModel,
    shape: tuple[tuple[int, float], ...],
    epsilon: float,
    delta: float,
) -> float:
    """The least scale for places of (leaves, shift); a record is read at one of them."""

    def excess(log_fineness: float) -> float:
        scale = math.exp(-log_fineness)
        rows = (
            Place(tree=1, depth=0, share=_WHOLE, leaves=leaves, shift=shift, scale=scale) for leaves, shift in shape
        )
        event = parallel(*(place_event(kind, place, experts=experts, model=model) for place in rows))
        found = accounting.epsilon(event, delta).upper
        return math.log(found / epsilon) if 0.0 < found < math.inf else math.copysign(math.inf, found - epsilon)

    # The start is nearly right for one Gaussian; from there the search interpolates.
    leaves, coordinates = shape[0][0], 1 if model is not ThreatModel.SERVER and kind.noise != "gaussian" else experts
    start = math.log(epsilon / (2.0 * math.sqrt(leaves * coordinates * max(1.0, -math.log(delta)))))
    best = largest_meeting(excess, start, _LARGEST, step=0.1, accuracy=_ACCURACY)
    if best is None:
        raise InvalidArgumentError("epsilon", epsilon, "is not met by any scale of the noise", "use a larger one")
    return math.exp(-best)


# --- Theorem 6 -------------------------------------------------------------------------------------------------------


def theorem_6(setting: StochSetting, *, experts: int, epsilon: float, delta: float) -> StochSetting:
    """Returns the setting with the printed noise of Theorem 6, or that of pure privacy of the winners if it is less.

    The printed guarantee is (O(ε), O(δ)) without constants, so nothing is claimed for the result; its graph computes
    the guarantee. Source: Gao, Huang & Yang 2024, Theorem 6.

    Args:
        setting: The setting, with Laplace noise at the clients.
        experts: d >= 2.
        epsilon: > 0.
        delta: In (0, 1).

    Raises:
        InvalidArgumentError: an argument outside its domain, or another noise.

    Example:
        >>> from hockeystick.learners.federated import Sizes, StochSetting, certified_phases, printed_claims, theorem_6
        >>> deep = certified_phases(Sizes(clients=10, experts=8, epsilon=1.0), 2**16 - 1, trees=8)[-1]
        >>> setting = StochSetting(
        ...     clients=10, phases=(*[None] * 14, deep), low=-1.0, smoothness=None, assignment="contiguous"
        ... )
        >>> found = theorem_6(setting, experts=8, epsilon=1.0, delta=1e-6)
        >>> claim = printed_claims(found, experts=8, epsilon=1.0, delta=1e-6)[0]
        >>> claim.printed.applies, round(claim.certified, 1)  # the claimed ε is 1
        (False, 5.3)
    """
    epsilon, delta = real("epsilon", epsilon, low=0.0, low_open=True), probability("delta", delta, open=True)
    if setting.noise != "laplace" or setting.where != "client":
        raise InvalidArgumentError(
            "setting", setting, "is not covered by Theorem 6", "use Laplace noise at the clients"
        )
    pure = calibrated(setting, experts=experts, threat_model="output", epsilon=epsilon)
    phases = [
        phase
        if phase is None or phase.trees == 0
        else evolve(
            phase,
            scales=tuple(
                min(scale, printed_scale(setting, number, phase, tree, epsilon=epsilon, delta=delta))
                for tree, scale in enumerate(phase.scales, start=1)
            ),
        )
        for number, phase in enumerate(pure.phases, start=2)
    ]
    return evolve(setting, phases=tuple(phases))
