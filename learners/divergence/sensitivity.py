"""The exact sensitivities of estimates of KL(Pi || P), for every form in which they are released.

The data are N records of k symbols, h(x) of symbol x. Neighbours differ in the symbol of one record, which stays with
its client, so N and the N of every cohort are the same (replace-one). The query at symbol x contributes

    f(x) = λ·(r(x) - 1) - ln r(x),   r(x) = P(x)/Pi(x),

to an average with public weights w(x), those of the drawn symbols. A record that joins x moves f(x) by
s(x) = λ/(M*Pi(x)) - (the rise of ln P(x)), with M the denominator of frequencies, and one that leaves x moves f(x)
back; see :mod:`~hockeystick.learners.divergence.count_logarithms` for the rises. All results are rounded up.

The source is Scott, Biswas, Cormode & Maple 2024 (arXiv 2411.16478), section 4; of their sensitivities Theorem 4.9 is
loose, and Theorem 4.10 false (:func:`printed_query_sensitivity`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from attrs import frozen

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import array, integer, real
from hockeystick.learners.common import arguments
from hockeystick.learners.divergence.count_logarithms import CountLogarithm, count_logarithm

# 32 U: sums, products and quotients of about ten numbers, off by U each, functions by 2 U.
_UP = 1.0 + 2.0**-48
_TOLERANCE = 1e-12


def reference(value: npt.ArrayLike) -> FloatArray:
    """Returns a public reference distribution Pi with full support, shape (k,), k >= 2.

    Raises:
        InvalidArgumentError: entries are not positive, or their sum is not 1 within 1e-12.
    """
    found = array("reference", value, ndim=1, low=0.0)
    if len(found) < 2:
        raise InvalidArgumentError("reference", value, "has fewer than two symbols")
    if not (found > 0.0).all():
        reason = f"has no mass at {int((found <= 0.0).sum())} of {len(found)} symbols: the divergence may be infinite"
        raise InvalidArgumentError("reference", "...", reason, "smooth it, or leave those symbols out")
    if abs(math.fsum(found) - 1.0) > _TOLERANCE:
        raise InvalidArgumentError("reference", math.fsum(found), "is not a sum of 1", "divide by the sum")
    return found


def weights(value: npt.ArrayLike, symbols: int) -> FloatArray:
    """Returns public query weights w, shape (k,): non-negative, with sum 1.

    Raises:
        InvalidArgumentError: ``value`` is not such an array.
    """
    found = array("weights", value, shape=(symbols,), low=0.0)
    if abs(math.fsum(found) - 1.0) > _TOLERANCE:
        raise InvalidArgumentError("weights", math.fsum(found), "is not a sum of 1", "divide counts by their sum")
    return found


@frozen(kw_only=True)
class Sizes:
    """Public sizes: records N of the cohort, or of the smallest and the largest cohort, and the symbols k."""

    least: int
    most: int
    symbols: int

    @classmethod
    def of(cls, records: int | Sequence[int], symbols: int) -> Sizes:
        """Returns the sizes of one fixed cohort, or of several.

        Raises:
            InvalidArgumentError: a size is not an integer >= 1, there is none, or there are fewer than two symbols.
        """
        given: list[object] = list(records) if isinstance(records, Sequence | np.ndarray) else [records]
        if not given:
            raise InvalidArgumentError("records", records, "is empty", "give the records of at least one cohort")
        found = [integer("records", one, low=1) for one in given]
        return cls(least=min(found), most=max(found), symbols=integer("symbols", symbols, low=2))


def exact_kl(pi: npt.ArrayLike, logarithm: CountLogarithm) -> float:
    """Returns the sensitivity of KL(Pi || P) itself: max Pi times the largest rise of a logarithm.

    One cell's term falls while another's rises, so the larger of the two bounds the change. With counts of at least 2
    in both data sets it is at most ln(3/2), where the paper has 0.7 (Theorem 4.9).
    """
    return float(reference(pi).max()) * count_logarithm(logarithm).largest_rise() * _UP


def worst_draw(
    pi: npt.ArrayLike,
    *,
    multiplier: float,
    records: int | Sequence[int],
    logarithm: CountLogarithm,
    group: int = 1,
) -> float:
    """Returns the sensitivity of the average over any draw of symbols, attained if all draws hit one symbol.

    It is the larger of λ/(M min Pi) - (least rise) and (largest rise) - λ/(M max Pi), hence at most the
    larger of λ/(M min Pi) and the largest rise: a multiplier up to M min Pi times the largest rise costs nothing.

    Args:
        pi: The reference.
        multiplier: λ ≥ 0, public.
        records: N of the cohort, or of all cohorts.
        logarithm: The rule for logarithms.
        group: The number of records of one client that are replaced.

    Raises:
        InvalidArgumentError: an argument is outside its domain.
    """
    found, lam, rule = reference(pi), arguments.multiplier(multiplier), count_logarithm(logarithm)
    sizes, many = Sizes.of(records, len(found)), integer("group", group, low=1)
    rises = many * lam / (rule.mass(sizes.least, sizes.symbols) * float(found.min())) - rule.least_rise(sizes.most)
    falls = rule.largest_rise(many) - lam / (rule.mass(sizes.most, sizes.symbols) * float(found.max()))
    return max(rises, falls) * _UP


@frozen(kw_only=True)
class Swap:
    """The move of a record, from one symbol to another, that changes an average most.

    Attributes:
        sensitivity: The change of the average, rounded up.
        gains: The symbol whose query grows as the record joins it.
        loses: The symbol whose query grows as the record leaves it.
    """

    sensitivity: float
    gains: int
    loses: int


def realised_draw(
    pi: npt.ArrayLike,
    w: npt.ArrayLike,
    *,
    multiplier: float,
    records: int | Sequence[int],
    logarithm: CountLogarithm,
    group: int = 1,
    step: int | None = None,
) -> Swap:
    """Returns the sensitivity of the average over the symbols that *were* drawn.

    It is often several times less than that of the worst draw. A swap moves a record from y to x. The change of
    w(x) f(x) is at most w(x)*(λ/(M Pi(x)) - least rise), that of
    -w(y) f(y) at most w(y)*(largest rise - λ/(M Pi(y))); the opposite swap moves the other way. If a record may
    move only one of the cells, or be asked for in some rounds only, each term is at least 0; if cohorts differ, the
    first term is taken at the smallest M and the second at the largest. A group moves the average at most as far as its
    records one after the other, and at most as far as for the worst draw.

    Args:
        pi: The reference, shape (k,).
        w: Weights of the symbols in the average, shape (k,), public.
        multiplier, records, logarithm: As for :func:`worst_draw`.
        group: The number of records that are replaced, each between its own two symbols.
        step: None if a record moves each count by exactly one; otherwise it moves each by 0, ..., step, independently
            of the other, as with shares that are rounded down.

    Raises:
        InvalidArgumentError: an argument is outside its domain.
    """
    found, lam, rule = reference(pi), arguments.multiplier(multiplier), count_logarithm(logarithm)
    share, sizes = weights(w, len(found)), Sizes.of(records, len(found))
    many, reach = integer("group", group, low=1), 1 if step is None else integer("step", step, low=1)
    small, large = (rule.mass(size, sizes.symbols) for size in (sizes.least, sizes.most))
    rises = share * (reach * lam / (small * found) - rule.least_rise(sizes.most))
    falls = share * (rule.largest_rise(reach) - lam / (large * found))
    if step is not None or not isinstance(records, int):
        rises, falls = np.maximum(rises, 0.0), np.maximum(falls, 0.0)
    tops = [np.argsort(-each, kind="stable")[:2] for each in (rises, falls)]
    change, x, y = max((float(rises[x] + falls[y]), int(x), int(y)) for x in tops[0] for y in tops[1] if x != y)
    worst = worst_draw(found, multiplier=lam, records=records, logarithm=rule, group=many * reach)
    return Swap(sensitivity=min(worst, many * max(0.0, change) * _UP), gains=x, loses=y)


def of_pair(
    pi: npt.ArrayLike,
    x: int,
    y: int,
    w: npt.ArrayLike,
    *,
    multiplier: float,
    records: int,
    logarithm: CountLogarithm,
) -> FloatArray:
    """Returns the sensitivity to a record that moves between two symbols, either way, for each of many draws.

    Args:
        pi: The reference.
        x, y: Two symbols.
        w: Weights of the two in each draw, shape (..., 2).
        multiplier, records, logarithm: As for :func:`worst_draw`, with one cohort.

    Returns:
        Shape (...,).

    Raises:
        InvalidArgumentError: an argument is outside its domain.
    """
    found, lam, rule = reference(pi), arguments.multiplier(multiplier), count_logarithm(logarithm)
    sizes, shares = Sizes.of(records, len(found)), array("weights", w, low=0.0, high=1.0)
    where = np.array([integer("symbol", i, low=0, high=len(found) - 1) for i in (x, y)])
    if where[0] == where[1] or shares.shape[-1:] != (2,):
        raise InvalidArgumentError("weights", shares.shape, "is not a shape (..., 2) for two different symbols")
    linear = lam / (rule.mass(sizes.least, sizes.symbols) * found[where])
    rises = shares * (linear - rule.least_rise(sizes.most))
    falls = shares * (rule.largest_rise() - linear)
    change = np.maximum(rises[..., 0] + falls[..., 1], rises[..., 1] + falls[..., 0])
    return np.asarray(np.maximum(change, 0.0) * _UP)


def sums(
    pi: npt.ArrayLike,
    *,
    records: int | Sequence[int],
    logarithm: CountLogarithm,
    w: npt.ArrayLike | None = None,
    group: int = 1,
) -> tuple[float, float]:
    """Returns the sensitivities of the averages of ln r and of r - 1, released side by side.

    One swap may attain both, so the joint sensitivity is sqrt(a^2 + b^2) in L2 and a + b in L1.

    Args:
        pi: The reference.
        records, logarithm: As for :func:`worst_draw`.
        w: Weights of the symbols; None for the worst draw.
        group: The number of records that move together from one symbol to another.

    Raises:
        InvalidArgumentError: an argument is outside its domain.
    """
    found, rule = reference(pi), count_logarithm(logarithm)
    sizes = Sizes.of(records, len(found))
    share = None if w is None else weights(w, len(found))
    heaviest = 1.0 if share is None else float(share.max())
    most = float((1.0 / found).max() if share is None else (share / found).max())
    many = integer("group", group, low=1)
    return heaviest * rule.largest_rise(many) * _UP, many * most / rule.mass(sizes.least, sizes.symbols) * _UP


def counts(multiplicities: npt.ArrayLike = (1, 1), *, group: int = 1) -> float:
    """Returns the L2 sensitivity of noisy counts, some published more than once, each time with fresh noise.

    A swap moves two counts by one each, so the sensitivity is sqrt(c1 + c2) for the two symbols that are published most
    often: sqrt(2) if each is published once. ``group`` records of one client multiply it.

    Args:
        multiplicities: The number of times that each symbol's count is published, shape (u,).
        group: The number of records that are replaced.

    Raises:
        InvalidArgumentError: entries are not whole numbers >= 0, or none is positive.
    """
    found = array("multiplicities", multiplicities, ndim=1, low=0.0)
    if (found != np.floor(found)).any() or not found.sum():
        raise InvalidArgumentError("multiplicities", multiplicities, "are not counts, one of them positive")
    return integer("group", group, low=1) * math.sqrt(float(np.sort(found)[-2:].sum())) * _UP


def participation(symbols: npt.ArrayLike, cohorts: npt.ArrayLike, records: npt.ArrayLike) -> float:
    """Returns the L2 sensitivity of noisy *frequencies*, one symbol per round, with a cohort for each round.

    A record of client c takes part in the rounds whose cohort has c. It moves round t's frequency by 1/N_t if the
    symbol asked for is one of its two.

    Args:
        symbols: The symbol of each round, shape (T,), whole numbers.
        cohorts: Whether a client is in the cohort of a round, shape (T, n).
        records: N_t of each round, shape (T,).

    Raises:
        InvalidArgumentError: the shapes do not fit, or a cohort has no records.
    """
    drawn = array("symbols", symbols, ndim=1)
    present = np.asarray(cohorts)
    if present.dtype != np.bool_ or present.ndim != 2 or len(present) != len(drawn):
        raise InvalidArgumentError(
            "cohorts", present.shape, f"is not an array of bools of shape ({len(drawn)}, clients)"
        )
    size = array("records", records, shape=(len(drawn),), low=1.0)
    _, where = np.unique(drawn, return_inverse=True)
    of_symbol = np.zeros((int(where.max()) + 1, present.shape[1]))
    np.add.at(of_symbol, where, present / size[:, np.newaxis] ** 2)
    return math.sqrt(float(np.sort(of_symbol, axis=0)[-2:].sum(axis=0).max())) * _UP


def printed_query_sensitivity(
    alpha: float, first: float, second: float, *, records: int, least_probability: float, proof: bool = False
) -> float:
    """Returns the printed bound (alpha - 1)|l1 - l2| + l2/(N m) + ln 2 of Theorem 4.10.

    It is for a multiplier that depends on the data, and false, also for the multiplier that the paper proposes; its
    proof ends with alpha + 1 (``proof``). A true bound is :func:`query_sensitivity`.

    Args:
        alpha: max P/Pi, >= 1.
        first, second: The multipliers at the two data sets.
        records: N.
        least_probability: m = min Pi.
        proof: Whether to return the bound that the printed proof arrives at.
    """
    a = real("alpha", alpha, low=1.0)
    l1, l2 = arguments.multiplier(first), arguments.multiplier(second)
    factor = a + 1.0 if proof else a - 1.0
    return factor * abs(l1 - l2) + l2 / (records * least_probability) + math.log(2.0)


def query_sensitivity(
    alpha: float, beta: float, first: float, second: float, *, records: int, least_probability: float
) -> float:
    """Returns a true bound in place of :func:`printed_query_sensitivity`, for counts of at least 2.

    max(alpha - 1, 1 - 1/beta)*|l1 - l2| + l2/(N m) + ln(3/2), with beta = max Pi/P. It depends on the data through
    alpha, beta and the multipliers, so noise calibrated to it is not private.
    """
    a, b = real("alpha", alpha, low=1.0), real("beta", beta, low=1.0)
    l1, l2 = arguments.multiplier(first), arguments.multiplier(second)
    return max(a - 1.0, 1.0 - 1.0 / b) * abs(l1 - l2) + l2 / (records * least_probability) + math.log(1.5)
