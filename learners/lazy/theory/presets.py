"""The printed parameters of the theorems on the lazy learner, as learners, with the defects of each.

Asi, Koren, Liu & Talwar 2024 give the parameters of Theorems 3.10 (experts) and 3.12 (convex losses) up to constants
and rounding, and not without contradictions. A preset makes them into a learner that can run. Its typed warnings list
the parameters that had to be filled in and the printed conditions that fail, and it states the ε that the
learner's graph certifies beside the target. For a private learner, calibrate (``LazyExperts.calibrated``,
``LazyConvex.calibrated``).
"""

import math
from typing import Generic, TypeVar

from attrs import frozen

from hockeystick.accounting import Bracket
from hockeystick.accounting.validate import integer, real
from hockeystick.learners.common.calibration_search import LARGEST_FAKE
from hockeystick.learners.common.printed_claims import Condition, PresetWarning, PrintedGuarantee
from hockeystick.learners.lazy.convex.lazy_convex import LazyConvex
from hockeystick.learners.lazy.convex.losses.convex_losses import Domain
from hockeystick.learners.lazy.experts.lazy_experts import LazyExperts
from hockeystick.learners.lazy.theory.printed_guarantee import paper_epsilon, paper_epsilon_convex, paper_rate

_FAILURE_SHARE = 0.05  # share of δ for the bounds behind the convex learner's certificate

L = TypeVar("L", LazyExperts, LazyConvex)


@frozen(eq=False)
class Preset(Generic[L]):
    """A theorem's parameters as a learner. See ``paper_stmt_3_10`` for an example.

    Attributes:
        source: The theorem.
        learner: The learner with these parameters.
        epsilon: The target, which the theorem promises.
        delta: The δ of all epsilons here.
        certified: The ε that the learner's graph certifies, full view.
        printed: The value of the formula of Theorem 3.2 for these parameters, with its conditions.
        warnings: The defects.
    """

    source: str
    learner: L
    epsilon: float
    delta: float
    certified: Bracket
    printed: PrintedGuarantee
    warnings: tuple[PresetWarning, ...]

    @property
    def certified_private(self) -> bool:
        """Whether the graph certifies the target."""
        return self.certified.upper <= self.epsilon


def paper_stmt_3_10(
    *, rounds: int, experts: int, epsilon: float, delta: float, fake_switch_probability: float | None = None
) -> Preset[LazyExperts]:
    """Returns the learner of Theorem 3.10 as stated.

    B = 1/ε, η = min(ε_0, ε)^(2/3) T^(-1/3), ε_0 = T^(-1/4) ln(d)^(3/4). The statement does not give p, and
    lacks the factor 1/ln(T/δ) of its proof's η. For small targets no p makes the learner as private as stated: at
    T = 1e4, d = 2, ε = 0.1, every p leaves an exact ε of more than twice that at δ = 1e-6.

    Args:
        rounds: T >= 1.
        experts: d >= 2.
        epsilon: Target, at least 1e-100.
        delta: In [1e-300, 1).
        fake_switch_probability: p in (0, 1); None for the proof's 10 η/ε.

    Raises:
        InvalidArgumentError: an argument outside its domain.

    Example:
        >>> preset = paper_stmt_3_10(rounds=50, experts=2, epsilon=0.5, delta=1e-3)
        >>> [warning.defect for warning in preset.warnings], preset.certified_private
        (['missing', 'out of range', 'condition', 'condition', 'not private'], False)
    """
    rounds, experts, epsilon, delta = _checked(rounds, experts, epsilon, delta)
    fake = fake_switch_probability
    if fake is not None:
        fake = real("fake_switch_probability", fake, low=0.0, high=1.0, low_open=True, high_open=True)
    rate = _experts_rate(rounds, experts, epsilon)
    filled = "p = 10 eta/eps, from the proof" if fake is None else f"p = {fake:g}, as given"
    missing = PresetWarning("missing", f"the statement gives no fake-switch probability; here {filled}")
    return _experts("Theorem 3.10, as stated", rounds, experts, epsilon, delta, rate, fake, (missing,))


def paper_proof_3_10(*, rounds: int, experts: int, epsilon: float, delta: float) -> Preset[LazyExperts]:
    """Returns the learner of Theorem 3.10 as in its proof.

    B = 1/ε, p = 10 η/ε, and η is the statement's divided by ln(T/δ). That η is the largest that the proof
    allows. The arguments are those of :func:`paper_stmt_3_10`.

    Raises:
        InvalidArgumentError: an argument outside its domain.

    Example:
        >>> preset = paper_proof_3_10(rounds=50, experts=2, epsilon=0.5, delta=1e-3)
        >>> [warning.defect for warning in preset.warnings], preset.certified_private
        (['condition'], True)
    """
    rounds, experts, epsilon, delta = _checked(rounds, experts, epsilon, delta)
    rate = _experts_rate(rounds, experts, epsilon) / math.log(rounds / delta)
    return _experts("Theorem 3.10, as in its proof", rounds, experts, epsilon, delta, rate, None, ())


def paper_3_12(*, rounds: int, domain: Domain, lipschitz: float, epsilon: float, delta: float) -> Preset[LazyConvex]:
    """Returns the learner of Theorem 3.12.

    B = 1/(2 ε ln(1/δ)), p = η/ε, η = ε^(2/3) / (T^(1/3) ln(T/δ)), λ = (L/D) max(sqrt(T),
    sqrt(d ln T)/η), β = η^2 λ / (20 L^2). That β is too large for η at every useful δ_0:
    ln(2/δ_0) could be at most 2.5. The certificate does not depend on η; only the normaliser 2 B η does, which
    at worst clips more coins.

    Args:
        rounds: T >= 2.
        domain: The set of points; D is its diameter.
        lipschitz: L > 0.
        epsilon: Target, at least 1e-100.
        delta: In [1e-300, 1).

    Raises:
        InvalidArgumentError: an argument outside its domain.

    Example:
        >>> from hockeystick.learners.lazy import Ball
        >>> preset = paper_3_12(rounds=50, domain=Ball(1, 0.1), lipschitz=1.0, epsilon=0.5, delta=1e-3)
        >>> [warning.defect for warning in preset.warnings]
        ['rounded', 'condition', 'condition', 'condition']
    """
    rounds, _, epsilon, delta = _checked(integer("rounds", rounds, low=2), 2, epsilon, delta)
    lipschitz = real("lipschitz", lipschitz, low=0.0, low_open=True)
    rate = epsilon ** (2.0 / 3.0) / (rounds ** (1.0 / 3.0) * math.log(rounds / delta))
    batch, notes = _batch(rounds, 1.0 / (2.0 * epsilon * -math.log(delta)), "1/(2 eps ln(1/delta))")
    fake, more = _fake(rate / epsilon, "eta/eps")
    steep = max(math.sqrt(rounds), math.sqrt(domain.dimension * math.log(rounds)) / rate)
    regularisation = lipschitz / domain.diameter * steep
    weights = {
        "inverse_temperature": rate**2 * regularisation / (20.0 * lipschitz**2),
        "regularisation": regularisation,
        "lipschitz": lipschitz,
    }
    learner = LazyConvex(
        rounds=rounds,
        domain=domain,
        batch=batch,
        fake_switch_probability=fake,
        normaliser=2.0 * batch * rate,
        failure=_FAILURE_SHARE * delta,
        **weights,
    )
    printed = paper_epsilon_convex(rounds=rounds, batch=batch, fake_switch_probability=fake, delta=delta, **weights)
    needed = paper_rate(dict(printed.constants)["delta_0"], **weights)
    own = (
        Condition("eta >= mu^2 + 2 mu sqrt(ln(2/delta_0)), by Lemma 3.11", rate, needed, rate >= needed),
        Condition("eta / p <= epsilon / 2, by its proof", rate / fake, epsilon / 2.0, rate / fake <= epsilon / 2.0),
    )
    return _preset("Theorem 3.12", learner, epsilon, delta, printed, (*notes, *more), own)


def _checked(rounds: int, experts: int, epsilon: float, delta: float) -> tuple[int, int, float, float]:
    """Returns the arguments after checks; the formulas would overflow for smaller ε or δ."""
    real("epsilon", epsilon, low=0.0, low_open=True)
    real("delta", delta, low=0.0, high=1.0, low_open=True, high_open=True)
    return (
        integer("rounds", rounds, low=1),
        integer("experts", experts, low=2),
        real("epsilon", epsilon, low=1e-100),
        real("delta", delta, low=1e-300, high=1.0, high_open=True),
    )


def _experts_rate(rounds: int, experts: int, epsilon: float) -> float:
    free = rounds**-0.25 * math.log(experts) ** 0.75
    return float(min(free, epsilon) ** (2.0 / 3.0) * rounds ** (-1.0 / 3.0))


def _experts(
    source: str,
    rounds: int,
    experts: int,
    epsilon: float,
    delta: float,
    rate: float,
    fake: float | None,
    notes: tuple[PresetWarning, ...],
) -> Preset[LazyExperts]:
    batch, rounded = _batch(rounds, 1.0 / epsilon, "1/eps")
    more: tuple[PresetWarning, ...] = ()
    if fake is None:
        fake, more = _fake(10.0 * rate / epsilon, "10 eta/eps")
    learner = LazyExperts(
        rounds=rounds,
        experts=experts,
        batch=batch,
        learning_rate=rate,
        fake_switch_probability=fake,
        normaliser="paper",
    )
    printed = paper_epsilon(rounds=rounds, batch=batch, learning_rate=rate, fake_switch_probability=fake, delta=delta)
    return _preset(source, learner, epsilon, delta, printed, (*notes, *rounded, *more), ())


def _batch(rounds: int, printed: float, formula: str) -> tuple[int, tuple[PresetWarning, ...]]:
    """Returns a printed batch rounded down to 1 .. T; a number that is whole up to rounding errors is not lowered."""
    # The formula is off by a few U of itself, of 9000 U.
    batch = max(1, min(rounds, math.floor(printed * (1.0 + 1e-12))))
    if abs(printed - batch) <= 1e-9 * batch:
        return batch, ()
    return batch, (PresetWarning("rounded", f"the batch B = {formula} = {printed:.6g} was rounded to {batch}"),)


def _fake(printed: float, formula: str) -> tuple[float, tuple[PresetWarning, ...]]:
    if printed < 1.0:
        return printed, ()
    text = f"the fake-switch probability p = {formula} = {printed:.6g} is not below 1; here {LARGEST_FAKE:g}"
    return LARGEST_FAKE, (PresetWarning("out of range", text),)


def _preset(
    source: str,
    learner: L,
    epsilon: float,
    delta: float,
    printed: PrintedGuarantee,
    notes: tuple[PresetWarning, ...],
    own: tuple[Condition, ...],
) -> Preset[L]:
    """Returns the preset, with warnings for failures: the theorem's own conditions, Theorem 3.2's, and the target."""
    certified = learner.graph().guarantee().epsilon(delta, bracket=True)
    warnings = list(notes)
    for condition in (*own, *printed.conditions):
        if not condition.holds:
            text = f"{condition.statement} fails: {condition.value:.6g} against {condition.limit:.6g}"
            warnings.append(PresetWarning("condition", text))
    if certified.upper > epsilon:
        text = f"certified epsilon {certified.upper:.6g} exceeds {epsilon:.6g}"
        warnings.append(PresetWarning("not private", text))
    where = f"Asi, Koren, Liu & Talwar 2024, {source}"
    return Preset(where, learner, epsilon, delta, certified, printed, tuple(warnings))
