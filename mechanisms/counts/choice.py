"""The noise and the tree of least error bound for counts of ordered cells, by public numbers alone."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import frozen

from hockeystick.accounting import NumericalError
from hockeystick.accounting.validate import one_of, probability
from hockeystick.mechanisms.contract import arguments
from hockeystick.mechanisms.counts.cell_counts import (
    CellCounts,
    Law,
    Strategy,
    largest_errors,
)
from hockeystick.mechanisms.counts.cell_sums import MOST_OPTIMISED, MOST_RECORDS, MOST_ROOT, Queries
from hockeystick.mechanisms.counts.simulated_bounds import (
    COMPARED,
    CountsBound,
    checked_confidence,
    compared_draws,
    compared_error,
)

_BRANCHES: dict[Law, tuple[int, ...]] = {"laplace": (4, 8, 16, 32, 64), "gaussian": (2, 3, 4, 8)}
_FLAT: dict[Law, int] = {"laplace": 1 << 14, "gaussian": 64}  # cells up to which noise on them alone is compared


@frozen(kw_only=True)
class CountsCandidate:
    """A mechanism that was considered. See ``choose_counts`` for an example.

    Attributes:
        name: A short name.
        mechanism: The mechanism, calibrated to the target.
        error: The nine-tenths quantile of its simulated largest error, in records, by which it was compared.
    """

    name: str
    mechanism: CellCounts
    error: float


@frozen(kw_only=True)
class CountsChoice:
    """The mechanism of least simulated error, and those that it was compared with; see ``choose_counts``.

    Attributes:
        candidates: All candidates, the best first.
        queries: The kind of queries whose error counts.
        confidence: The probability with which the bound holds.
    """

    candidates: tuple[CountsCandidate, ...]
    queries: Queries
    confidence: float

    @property
    def mechanism(self) -> CellCounts:
        """The chosen mechanism."""
        return self.candidates[0].mechanism

    @property
    def bound(self) -> CountsBound:
        """The bound on its error, by draws of its own: the least of several simulated errors is biased."""
        return self.mechanism.error_bound(confidence=self.confidence, queries=self.queries)

    def __str__(self) -> str:
        best, *others = self.candidates
        share = "" if self.bound.share is None else f" ({100.0 * self.bound.share:.3g} % of all)"
        ahead = f"{best.name}: all {self.queries} within {self.bound.count:.4g} records{share}"
        lines = [f"{ahead}, with probability {self.bound.confidence:g}"]
        lines += [f"  {other.name}: {other.error / best.error:.2f} times the error" for other in others]
        return "\n".join(lines)


def choose_counts(
    *,
    cells: int,
    epsilon: float,
    delta: float = 0.0,
    records: int | None = None,
    queries: Queries = "thresholds",
    confidence: float = 0.95,
) -> CountsChoice:
    """Returns the mechanism that answers all thresholds or intervals of k ordered cells with the least error.

    Candidates are Laplace noise on the cells alone, on trees of several branchings and, for up to 512 cells, on
    optimised sums. For δ > 0 they are also Gaussian noise on up to 64 cells alone, and on the square root of the prefix
    sums of up to 2^14 cells or on trees of more. They are compared by their simulated largest error, which depends on
    no data. So the choice costs no privacy, and the stated bound holds for the mechanism that is taken.

    Args:
        cells: k, from 2 to 2^20.
        epsilon, delta: The target, ε > 0.
        records: N, if it is public: then neighbours differ in the cell of one record (replace-one). Otherwise they
            differ by one record (add-or-remove-one).
        queries: "thresholds", the counts of all prefixes, or "intervals".
        confidence: The probability with which the bound holds.

    Raises:
        InvalidArgumentError: an argument is outside its domain.
        NumericalError: no noise can be shown to meet the target.

    Example:
        >>> from hockeystick.mechanisms import choose_counts
        >>> choice = choose_counts(cells=1024, records=100_000, epsilon=1.0)
        >>> choice.candidates[0].name, choice.mechanism.branching, round(choice.bound.share, 4)
        ('Laplace noise on a tree of 32 branches', 32, 0.0008)
    """
    first = CellCounts(cells=cells, scale=1.0, records=records)  # refuses bad numbers
    target = arguments.target_epsilon(epsilon)
    chance, level = probability("delta", delta), checked_confidence(confidence)
    one_of("queries", queries, "thresholds", "intervals")
    found, problem = [], None
    for law, strategy, branching in _shapes(first, queries, chance):
        try:
            mechanism = CellCounts.calibrated(
                cells=first.cells,
                epsilon=target,
                delta=chance,
                law=law,
                strategy=strategy,
                branching=branching,
                records=first.records,
            )
        except NumericalError as error:
            problem = error
            continue
        found.append(CountsCandidate(name=_name(mechanism), mechanism=mechanism, error=_error(mechanism, queries)))
    if not found:
        raise problem or NumericalError("no noise meets the target")
    found.sort(key=lambda one: one.error)
    return CountsChoice(candidates=tuple(found), queries=queries, confidence=level)


def _shapes(of: CellCounts, queries: Queries, delta: float) -> Iterator[tuple[Law, Strategy, int | None]]:
    """Yields law, strategy and branching of each candidate."""
    weighted = (of.records or 0) <= MOST_RECORDS
    root = weighted and of.cells <= MOST_ROOT
    branches: dict[Law, set[int]] = {"laplace": {of.cells, *_BRANCHES["laplace"]}}
    if delta > 0.0:  # the square root is better than every tree
        branches["gaussian"] = {of.cells} if root else {of.cells, *_BRANCHES["gaussian"]}
    for law, some in branches.items():
        for branching in sorted(b for b in some if b < of.cells or (b == of.cells <= _FLAT[law])):
            yield law, "tree", None if branching == of.cells else branching
    if weighted and of.cells <= MOST_OPTIMISED:
        yield "laplace", ("optimised-thresholds" if queries == "thresholds" else "optimised-intervals"), None
    if delta > 0.0 and root:
        yield "gaussian", "square-root", None


def _name(mechanism: CellCounts) -> str:
    law = mechanism.law.capitalize()
    if mechanism.strategy == "square-root":
        return f"{law} noise on the square root of the prefix sums"
    if mechanism.strategy != "tree":
        return f"{law} noise on optimised sums"
    if mechanism.branching is None:
        return f"{law} noise on the cells"
    return f"{law} noise on a tree of {mechanism.branching} branches"


def _error(mechanism: CellCounts, queries: Queries) -> float:
    return compared_error(largest_errors(mechanism, queries, compared_draws(mechanism.sums.measurements), COMPARED))
