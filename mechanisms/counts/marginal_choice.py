"""The noise of least error bound for marginals of a table, by public numbers alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from attrs import frozen

from hockeystick.accounting import InvalidArgumentError, NumericalError
from hockeystick.accounting.validate import probability
from hockeystick.mechanisms.contract import arguments
from hockeystick.mechanisms.counts.marginal_sums import Strategy
from hockeystick.mechanisms.counts.marginals import Law, Marginals, checked_marginals, checked_sizes, largest_errors
from hockeystick.mechanisms.counts.simulated_bounds import (
    COMPARED,
    CountsBound,
    checked_confidence,
    compared_draws,
    compared_error,
)

_FAR = 4.0  # times the least deviation of a cell: a candidate with more is not simulated
_PLACES: dict[Strategy, str] = {"separate": "each marginal", "full": "the whole table", "residual": "residuals"}


@frozen(kw_only=True)
class MarginalsCandidate:
    """A mechanism that was considered. See ``choose_marginals`` for an example.

    Attributes:
        name: A short name.
        mechanism: The mechanism, calibrated to the target.
        error: The nine-tenths quantile of its simulated largest error, in records, by which it was compared.
    """

    name: str
    mechanism: Marginals
    error: float


@frozen(kw_only=True)
class MarginalsChoice:
    """The mechanism of least simulated error, and those that it was compared with; see ``choose_marginals``.

    Attributes:
        candidates: All candidates, the best first.
        confidence: The probability with which the bound holds.
    """

    candidates: tuple[MarginalsCandidate, ...]
    confidence: float

    @property
    def mechanism(self) -> Marginals:
        """The chosen mechanism."""
        return self.candidates[0].mechanism

    @property
    def bound(self) -> CountsBound:
        """The bound on its error, by draws of its own: the least of several simulated errors is biased."""
        return self.mechanism.error_bound(confidence=self.confidence)

    def __str__(self) -> str:
        best, *others = self.candidates
        ahead = f"{best.name}: all cells within {self.bound.count:.4g} records"
        lines = [f"{ahead}, with probability {self.bound.confidence:g}"]
        lines += [f"  {other.name}: {other.error / best.error:.2f} times the error" for other in others]
        return "\n".join(lines)


def choose_marginals(
    *,
    sizes: Sequence[int],
    marginals: int | Iterable[Iterable[int]] = 2,
    epsilon: float,
    delta: float = 0.0,
    records: int | None = None,
    confidence: float = 0.95,
) -> MarginalsChoice:
    """Returns the mechanism that answers marginals of a table with the least error.

    Candidates are Laplace noise on each marginal and, up to 2^20 combinations of all columns, on the whole table; for δ
    > 0 also Gaussian noise on both, and on residuals. Those with at most four times the least deviation of a cell are
    compared by their simulated largest error, which depends on no data. So the choice costs no privacy, and the stated
    bound holds for the mechanism that is taken.

    Args:
        sizes: The number of values of each column; public.
        marginals: The number of columns of each marginal, or sets of columns, from 0.
        epsilon, delta: The target, ε > 0.
        records: N, if it is public: then neighbours differ in one record (replace-one). Otherwise one record more or
            less is between them (add-or-remove-one).
        confidence: The probability with which the bound holds.

    Raises:
        InvalidArgumentError: An argument is outside its domain, or no candidate has few enough sums.
        NumericalError: No noise can be shown to meet the target.

    Example:
        >>> from hockeystick.mechanisms import choose_marginals
        >>> choice = choose_marginals(sizes=(2,) * 9, marginals=2, epsilon=1.0, delta=1e-6)
        >>> [one.name for one in choice.candidates][:2], round(choice.bound.count)
        (['Gaussian noise on residuals', 'Gaussian noise on each marginal'], 44)
    """
    target, chance = arguments.target_epsilon(epsilon), probability("delta", delta)
    level = checked_confidence(confidence)
    asked = checked_marginals(checked_sizes(sizes), marginals)
    made: dict[str, Marginals] = {}
    problems: list[InvalidArgumentError | NumericalError] = []
    for law, strategy in _shapes(chance):
        try:
            mechanism = Marginals.calibrated(
                sizes=sizes,
                marginals=asked,
                epsilon=target,
                delta=chance,
                law=law,
                strategy=strategy,
                records=records,
            )
        except (InvalidArgumentError, NumericalError) as error:  # too many sums, for example
            problems.append(error)
            continue
        made[f"{law.capitalize()} noise on {_PLACES[strategy]}"] = mechanism
    if not made:
        raise problems[0]
    least = min(one.largest_deviation for one in made.values())
    found = [
        MarginalsCandidate(name=name, mechanism=one, error=_error(one))
        for name, one in made.items()
        if one.largest_deviation <= _FAR * least
    ]
    found.sort(key=lambda one: one.error)
    return MarginalsChoice(candidates=tuple(found), confidence=level)


def _error(mechanism: Marginals) -> float:
    return compared_error(largest_errors(mechanism, compared_draws(mechanism.work), COMPARED))


def _shapes(delta: float) -> Iterator[tuple[Law, Strategy]]:
    yield "laplace", "separate"
    yield "laplace", "full"
    if delta > 0.0:
        yield "gaussian", "residual"
        yield "gaussian", "separate"
        yield "gaussian", "full"
