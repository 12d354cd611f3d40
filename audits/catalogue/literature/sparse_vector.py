"""The sparse vector technique, in the six forms that Lyu, Su and Li 2017 compare, with the exact laws of their outputs.

All of them compare noisy queries with a noisy threshold and answer "above" (1) or "below" (0); most halt after c
answers "above", and output -1 from then on. Four of the six are less private than their authors claimed:

| form | noise on threshold, queries | the mistake | epsilon over all inputs |
| --- | --- | --- | --- |
| 1 | 2/eps, 4c/eps | none | eps |
| 2 | 2c/eps, anew after each "above"; 4c/eps | none (Dwork and Roth 2014) | eps |
| 3 | 2/eps, 2c/eps | publishes the noisy query of the comparison (Roth 2011) | infinite |
| 4 | 4/eps, 4/(3 eps) | the noise does not grow with c (Lee and Clifton 2014) | (1 + 6c)/4 eps |
| 5 | 2/eps, none | queries without noise, never halts (Stoddard et al. 2014) | infinite |
| 6 | 2/eps, 2/eps | never halts (Chen et al. 2015) | infinite |

"Over all inputs" means any number of queries. On one pair of inputs the loss can be finite all the same, and an audit
of the pair can find no more; :meth:`SparseVectorForm.largest_losses` computes it exactly.

The numeric form (Wang, Ding, Wang, Kifer and Zhang 2019, NumSVT) publishes queries under fresh noise, and is correct.
"""

from __future__ import annotations

import itertools
from functools import lru_cache
from typing import Literal

import numpy as np
import numpy.typing as npt
from attrs import frozen

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.numerics.table_rows import distinct_rows

Answers = npt.NDArray[np.int8]

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_REACH = 80.0  # scales of the threshold's noise beyond the outermost kink: the rest is below e^-80


@frozen(kw_only=True)
class SparseVectorForm:
    """A sparse vector algorithm for queries of sensitivity 1, vectorised over runs.

    Attributes:
      threshold: The threshold without noise.
      threshold_scale, query_scale: The scales of Laplace noise; a query scale of 0 means no noise.
      halts_after: The number of answers "above" after which it halts; None: never.
      redraw: Whether the threshold's noise is drawn again after each "above".
      numbers: The number published with "above": none, the noisy query of the comparison, or a fresh noisy query.
      number_scale: The scale of the fresh noise.
    """

    threshold: float
    threshold_scale: float
    query_scale: float
    halts_after: int | None
    redraw: bool = False
    numbers: Literal["none", "compared", "fresh"] = "none"
    number_scale: float = 0.0

    def __call__(self, queries: npt.ArrayLike, rng: np.random.Generator, runs: int) -> Answers | FloatArray:
        """Returns the answers 1, 0 and -1 (halted), shape (runs, queries); or the numbers, with NaN for none."""
        exact = np.asarray(queries, dtype=np.float64)
        shape = (runs, len(exact))
        level = self.threshold + rng.laplace(scale=self.threshold_scale, size=runs)
        noisy = exact + (rng.laplace(scale=self.query_scale, size=shape) if self.query_scale else np.zeros(shape))
        above = noisy >= level[:, None]
        if self.redraw:
            for j in range(len(exact)):
                above[:, j] = noisy[:, j] >= level
                anew = self.threshold + rng.laplace(scale=self.threshold_scale, size=runs)
                level = np.where(above[:, j], anew, level)
        answers = above.astype(np.int8)
        if self.halts_after is not None:
            answers[np.cumsum(above, axis=1) - above >= self.halts_after] = -1
        if self.numbers == "none":
            return answers
        if self.numbers == "fresh":
            noisy = exact + rng.laplace(scale=self.number_scale, size=shape)
        return np.where(answers == 1, noisy, np.nan)

    def law(self, queries: npt.ArrayLike) -> tuple[Answers, FloatArray]:
        """Returns all sequences of answers, shape (sequences, queries), and their probabilities.

        Given the threshold's noise, answers are independent; the probabilities are integrals over this noise, by
        Gauss-Legendre quadrature between the kinks. With ``redraw``, stretches that end in "above" are independent.
        """
        exact = np.asarray(queries, dtype=np.float64)
        answers = sequences(len(exact), self.halts_after)
        at, weights = self.quadrature(self.cuts(exact))
        with np.errstate(divide="ignore"):
            below = _laplace_cdf(self.threshold + at[:, None] - exact, self.query_scale)
        if not self.redraw:
            return answers, self._integrals(answers, below, weights)
        total = np.ones(len(answers))
        for stretch in range(int((answers == 1).sum(axis=1).max()) + 1):
            before = np.cumsum(answers == 1, axis=1) - (answers == 1)
            total *= self._integrals(np.where(before == stretch, answers, np.int8(-1)), below, weights)
        return answers, total

    def largest_losses(self, first: npt.ArrayLike, second: npt.ArrayLike) -> tuple[float, float]:
        """Returns the suprema of ln(P/Q) and of ln(Q/P) over all outputs, P on ``first`` and Q on ``second``.

        Fresh numbers are independent of the answers, so their losses, at most |change|/number_scale each, add.

        Compared numbers bound the noisy threshold by the least of them, v. For one sequence of answers the loss is that
        of all "below" given a threshold of at most v, plus that of each number's noise, which is monotone in the
        number. So the supremum is over v, over the query with the number v, and over v or infinity for each other
        number. It is constant for v below all queries, in the exponential tail of all noise, and has a limit as v
        grows; in between, it is the maximum on a grid of 1/16 of the noise's scale.
        """
        d0, d1 = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
        if self.numbers == "compared":
            return self._compared_losses(d0, d1)
        answers, p = self.law(d0)
        _, q = self.law(d1)
        more = (answers == 1) @ np.abs(d0 - d1) / self.number_scale if self.numbers == "fresh" else np.zeros(len(p))
        possible = (p > 0) | (q > 0)
        with np.errstate(divide="ignore"):
            loss = np.log(p[possible]) - np.log(q[possible])
        return float(np.max(loss + more[possible])), float(np.max(more[possible] - loss))

    def log_likelihood_ratio(self, outputs: npt.ArrayLike, first: npt.ArrayLike, second: npt.ArrayLike) -> FloatArray:
        """Returns ln(P/Q) of each output, shape (runs,): P on ``first``, Q on ``second``.

        Exact for answers and fresh numbers. With compared numbers the part of the threshold's noise is interpolated,
        which is accurate enough for a score.
        """
        d0, d1 = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
        shown = np.asarray(outputs)
        if self.numbers == "none":
            answers = shown.astype(np.int8)
        else:
            above = np.isfinite(shown)
            answers = above.astype(np.int8)
            answers[np.cumsum(above, axis=1) - above >= (self.halts_after or len(d0) + 1)] = -1
        rows = sequences(len(d0), self.halts_after)
        order = np.argsort(_codes(rows))
        index = order[np.searchsorted(_codes(rows)[order], _codes(answers))]
        if self.numbers == "none":
            return _answers_loss(self, tuple(d0), tuple(d1))[index]
        scale = self.number_scale if self.numbers == "fresh" else self.query_scale
        own = (np.abs(shown - d1) - np.abs(shown - d0)) / scale
        total = np.where(answers == 1, own, 0.0).sum(axis=1)
        if self.numbers == "fresh":
            return np.asarray(total + _answers_loss(self, tuple(d0), tuple(d1))[index])
        least, losses = _threshold_losses(self, tuple(d0), tuple(d1))
        lowest = np.where(answers == 1, shown, np.inf).min(axis=1)
        for i in np.unique(index):
            runs = index == i
            total[runs] += np.interp(lowest[runs], least, losses[i])
        return np.asarray(total)

    def _compared_losses(self, d0: FloatArray, d1: FloatArray) -> tuple[float, float]:
        least, losses = _threshold_losses(self, tuple(d0), tuple(d1))
        numbers = (np.abs(least[:, None] - d1) - np.abs(least[:, None] - d0)) / self.query_scale
        infinite = (d0 - d1) / self.query_scale
        best, worst = np.maximum(numbers, infinite), np.minimum(numbers, infinite)
        most, fewest = -np.inf, np.inf
        for answers, base in zip(sequences(len(d0), self.halts_after), losses, strict=True):
            shown = answers == 1
            high = low = base[-1:]
            if shown.any():
                high = base + best[:, shown].sum(axis=1) + (numbers - best)[:, shown].max(axis=1)
                low = base + worst[:, shown].sum(axis=1) + (numbers - worst)[:, shown].min(axis=1)
            most, fewest = max(most, float(high.max())), min(fewest, float(low.min()))
        return most, -fewest

    def _integrals(self, answers: Answers, below: FloatArray, weights: FloatArray) -> FloatArray:
        """Returns the integral of each sequence's conditional probability, as a product of its few distinct halves."""
        middle = answers.shape[1] // 2
        left, first = distinct_rows(answers[:, :middle])
        right, second = distinct_rows(answers[:, middle:])
        table = (_products(left, below[:, :middle]) * weights) @ _products(right, below[:, middle:]).T
        return np.asarray(table[first, second])

    def cuts(self, queries: FloatArray, fine: int = 1) -> FloatArray:
        """Returns the cuts of the range of the threshold's noise: all kinks, and steps of half a scale."""
        kinks = np.union1d(queries - self.threshold, [0.0])
        reach = _REACH * self.threshold_scale
        step = min(self.threshold_scale, self.query_scale or self.threshold_scale) / (2 * fine)
        ends = [kinks[0] - reach, *kinks, kinks[-1] + reach]
        pieces = [np.linspace(a, b, 2 + int((b - a) / step))[:-1] for a, b in itertools.pairwise(ends)]
        return np.concatenate([*pieces, ends[-1:]])

    def quadrature(self, cuts: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Returns nodes of the threshold's noise, and weights that include its density."""
        half = np.diff(cuts)[:, None] / 2
        at = (cuts[:-1, None] + half * (1 + _NODES)).ravel()
        density = np.exp(-np.abs(at) / self.threshold_scale) / (2 * self.threshold_scale)
        return at, (half * _WEIGHTS).ravel() * density


def sequences(queries: int, halts_after: int | None) -> Answers:
    """Returns all sequences of answers 1 and 0, with -1 after ``halts_after`` answers 1; shape (sequences, queries)."""
    if halts_after is None:
        return np.array(list(itertools.product((0, 1), repeat=queries)), dtype=np.int8)
    found = []
    for above in range(min(halts_after, queries) + 1):
        for places in itertools.combinations(range(queries), above):
            row = np.zeros(queries, dtype=np.int8)
            row[list(places)] = 1
            if above == halts_after:
                row[places[-1] + 1 :] = -1
            found.append(row)
    return np.array(found)


@lru_cache(maxsize=64)
def _answers_loss(form: SparseVectorForm, first: tuple[float, ...], second: tuple[float, ...]) -> FloatArray:
    """Returns ln(P/Q) of each sequence of answers."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.log(form.law(first)[1]) - np.log(form.law(second)[1]))


@lru_cache(maxsize=64)
def _threshold_losses(
    form: SparseVectorForm, first: tuple[float, ...], second: tuple[float, ...]
) -> tuple[FloatArray, FloatArray]:
    """Returns numbers v, and for each sequence of answers the loss of all "below" given a threshold of at most v.

    Shapes (points,) and (sequences, points). The last point is beyond all mass, so it means no bound.
    """
    d0, d1 = np.array(first), np.array(second)
    cuts = form.cuts(np.concatenate([d0, d1]), fine=8)
    at, weights = form.quadrature(cuts)
    least = form.threshold + cuts[1:]
    seen = least >= min(d0.min(), d1.min()) - form.query_scale  # the loss is constant further down
    below = [_laplace_cdf(form.threshold + at[:, None] - d, form.query_scale) for d in (d0, d1)]
    losses = []
    for answers in sequences(len(d0), form.halts_after):
        sums = [
            np.cumsum((weights * t[:, answers == 0].prod(axis=1)).reshape(-1, len(_NODES)).sum(axis=1)) for t in below
        ]
        losses.append(np.log(sums[0][seen] / sums[1][seen]))
    return least[seen], np.array(losses)


def _codes(answers: Answers) -> npt.NDArray[np.int64]:
    """Returns one whole number per sequence."""
    return np.asarray((answers.astype(np.int64) + 1) @ 3 ** np.arange(answers.shape[1], dtype=np.int64))


def _products(answers: Answers, below: FloatArray) -> FloatArray:
    """Returns the probability of each sequence given each node, shape (sequences, nodes)."""
    found = np.ones((len(answers), len(below)))
    for now, column in zip(answers.T, below.T, strict=True):
        found *= np.where(now[:, None] == 1, 1.0 - column, np.where(now[:, None] == 0, column, 1.0))
    return found


def _laplace_cdf(x: FloatArray, scale: float) -> FloatArray:
    if scale == 0:
        return (x > 0).astype(np.float64)
    tail = 0.5 * np.exp(-np.abs(x) / scale)
    return np.where(x < 0, tail, 1.0 - tail)


def lyu_form(number: int, epsilon: float, *, halts_after: int = 1, threshold: float = 1.0) -> SparseVectorForm:
    """Returns form 1 to 6 of Lyu, Su and Li 2017 (Figure 1), claimed to be ``epsilon``-DP.

    Raises:
      InvalidArgumentError: There is no such form.
    """
    c = halts_after
    forms = {
        1: SparseVectorForm(
            threshold=threshold, threshold_scale=2 / epsilon, query_scale=4 * c / epsilon, halts_after=c
        ),
        2: SparseVectorForm(
            threshold=threshold,
            threshold_scale=2 * c / epsilon,
            query_scale=4 * c / epsilon,
            halts_after=c,
            redraw=True,
        ),
        3: SparseVectorForm(
            threshold=threshold,
            threshold_scale=2 / epsilon,
            query_scale=2 * c / epsilon,
            halts_after=c,
            numbers="compared",
        ),
        4: SparseVectorForm(
            threshold=threshold, threshold_scale=4 / epsilon, query_scale=4 / (3 * epsilon), halts_after=c
        ),
        5: SparseVectorForm(threshold=threshold, threshold_scale=2 / epsilon, query_scale=0.0, halts_after=None),
        6: SparseVectorForm(
            threshold=threshold, threshold_scale=2 / epsilon, query_scale=2 / epsilon, halts_after=None
        ),
    }
    if number not in forms:
        raise InvalidArgumentError("number", number, "is not a form of sparse vector", "give a number from 1 to 6")
    return forms[number]


def numeric_form(epsilon: float, *, halts_after: int = 2, threshold: float = 1.0) -> SparseVectorForm:
    """Returns NumSVT of Wang, Ding, Wang, Kifer and Zhang 2019, which is ``epsilon``-DP."""
    c = halts_after
    return SparseVectorForm(
        threshold=threshold,
        threshold_scale=3 / epsilon,
        query_scale=6 * c / epsilon,
        halts_after=c,
        numbers="fresh",
        number_scale=3 * c / epsilon,
    )
