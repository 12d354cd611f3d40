"""Private answers to all queries of an infinite class, and a private law, by multiplicative weights on a public cover.

Each round privately chooses the query of the cover on which the current law has the largest error, measures it with
noise, and reweights the law towards the measurement (MWEM: Hardt, Ligett & McSherry 2012). If the data's density
against a public base measure μ is at most 1/σ, answers for a σ/(2wn)-cover under μ are accurate for the whole class
(Smooth MWEM: Haghtalab, Roughgarden & Shetty 2020, Algorithm 2). If every law is projected onto the σ-smooth ones, the
law itself is accurate for the whole class (Projected Smooth MWEM, Algorithm 3). Privacy rests on none of this: μ, σ,
the cover, n and the number of rounds are public and fixed before any data is seen.

The algorithm is corrected; ``printed=True`` selects the printed one. Scores and noise are for queries of range w, not
1, and the average is over the laws *before* each update, so that no round is charged without being used.

Only the choices and measurements read the data. The laws are post-processing, functions of a :class:`Transcripts`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal

import numpy as np
import numpy.typing as npt
from attrs import Attribute, evolve, field, frozen
from scipy.special import log_softmax

from hockeystick.accounting import AccountantGraph, Adjacency, InvalidArgumentError, PrivacyEvent
from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.accounting.validate import array, boolean, function, integer, one_of, probability, real
from hockeystick.learners.common import arguments
from hockeystick.learners.smoothed.queries.answers import PrivateAnswers, Transcripts, checked_counts
from hockeystick.learners.smoothed.queries.cells import QueryCells
from hockeystick.learners.smoothed.queries.error_bounds import ErrorBound, Step, error_bound
from hockeystick.learners.smoothed.queries.measured_error import MeasuredBounds, free_error
from hockeystick.learners.smoothed.queries.weight_laws import LawWalk
from hockeystick.mechanisms import DiscreteLaplace, ExponentialMechanism, Laplace
from hockeystick.mechanisms.contract.arguments import blocks, generator, run_count
from hockeystick.mechanisms.randomness.noise import Noise, SimulationNoise, check_noise
from hockeystick.mechanisms.release import AnyLedger, charged

Law = Literal["laplace", "discrete laplace"]
Output = Literal["average", "last"]
Progress = Callable[[int, int], object]

_GRID = 2**20  # the queries' values are multiples of 1/_GRID, see MatrixCells
_EXACT = 2**52
_MOST_ROUNDS = 2**14  # a run of this many takes seconds
_MOST_UPDATES = 2**16  # of a law, by measurements that are applied again


def _flag(_: object, attribute: Attribute[bool], value: object) -> None:
    boolean(attribute.name, value)


def _one_of(*known: str) -> Callable[[object, Attribute[str], object], None]:
    def check(_: object, attribute: Attribute[str], value: object) -> None:
        one_of(attribute.name, value, *known)

    return check


def _cells(value: object) -> QueryCells:
    if not isinstance(value, QueryCells):
        raise InvalidArgumentError("cells", type(value).__name__, "is not a QueryCells", "use BoxCells.of(cover)")
    return value


def _records(value: object) -> int:
    return integer("records", value, low=1, high=_EXACT)


def _epsilon_em(value: object) -> float:
    return real("epsilon_em", value, low=1e-90, high=1e6)


def _epsilon_lap(value: object) -> float:
    return real("epsilon_lap", value, low=1e-90, high=1e6)


def _rounds(value: object) -> int:
    return integer("rounds", value, low=1, high=_MOST_ROUNDS)


def _replay(value: object) -> int:
    return integer("replay", value, low=0)


@frozen(kw_only=True, eq=False)
class SmoothMWEM:
    """Smooth MWEM and Projected Smooth MWEM with given budgets; ``plan.calibrated`` chooses them for a target (ε, δ).

    Neighbours differ in the value of one of n records (replace-one; n is public).

    Sources: Haghtalab, Roughgarden & Shetty 2020, Algorithms 2 and 3, corrected; Hardt, Ligett & McSherry 2012 (MWEM).

    Args:
        cells: The public cover, as cells of its queries.
        records: n >= 1.
        sigma: σ in (0, 1], the assumed smoothness of the data. Privacy does not depend on it.
        rounds: R from 1 to 2^14, the number of choices and of measurements.
        epsilon_em: ε of one choice, of bounded range.
        epsilon_lap: ε of one measurement.
        step: "hoeffding" changes the log-density by 4/w^2 times the error on the chosen query, "paper" by 1/2 of it.
        project: Project every law onto the σ-smooth ones.
        noise: "laplace"; or "discrete laplace" on integer sums, for queries with integer values, with a larger event.
        clip: Clip measurements to the queries' range before use. Post-processing.
        replay: The number of times that all measurements so far are applied again after each round, with at most 2^16
            updates in all. Post-processing.
            There is no error bound a priori, but :meth:`measured_bounds` a posteriori; the same holds for "last".
        output: "average" of the laws before each update and after the last, or the "last" law.
        printed: The paper's algorithm: scores and noise for w = 1, and the average of the laws after each update. For
            w = 2 its ε are twice ``epsilon_em`` and ``epsilon_lap``, as its graph states.

    Raises:
        InvalidArgumentError: an argument outside its domain, or discrete noise for queries without integer values.

    Example:
        >>> import numpy as np
        >>> from hockeystick.learners import SmoothMWEM
        >>> from hockeystick.learners.smoothed import BoxCells, Thresholds, UniformGrid
        >>> cells = BoxCells.of(Thresholds().cover(0.02, UniformGrid(2**24)))
        >>> learner = SmoothMWEM(cells=cells, records=5000, sigma=0.5, rounds=5, epsilon_em=0.2, epsilon_lap=0.1)
        >>> round(learner.graph().guarantee().epsilon(0.0).upper, 6)
        1.5
        >>> data = np.random.default_rng(0).random((5000, 1)) / 2
        >>> answers = learner.run(data, np.random.default_rng(1))  # seeded, so not a release
        >>> bool(abs(answers.answer([[0.25]])[0] - 0.5) < 0.1)
        True
    """

    cells: QueryCells = field(converter=_cells)
    records: int = field(converter=_records)
    sigma: float = field(converter=arguments.sigma)
    rounds: int = field(converter=_rounds)
    epsilon_em: float = field(converter=_epsilon_em)
    epsilon_lap: float = field(converter=_epsilon_lap)
    step: Step = field(default="hoeffding", validator=_one_of("paper", "hoeffding"))
    project: bool = field(default=False, validator=_flag)
    noise: Law = field(default="laplace", validator=_one_of("laplace", "discrete laplace"))
    clip: bool = field(default=True, validator=_flag)
    replay: int = field(default=0, converter=_replay)
    output: Output = field(default="average", validator=_one_of("average", "last"))
    printed: bool = field(default=False, validator=_flag)

    def __attrs_post_init__(self) -> None:
        if self.noise == "discrete laplace" and not self.cells.whole:
            raise InvalidArgumentError("noise", self.noise, "needs queries with integer values", 'use noise="laplace"')
        if self.replay * self.rounds * (self.rounds + 1) // 2 > _MOST_UPDATES:
            reason = f"makes more than {_MOST_UPDATES} updates in {self.rounds} rounds"
            raise InvalidArgumentError("replay", self.replay, reason, "replay less often")
        self.event()  # raises if no event can have these budgets

    # --- privacy -----------------------------------------------------------------------------------------------------

    @property
    def selection(self) -> ExponentialMechanism:
        """The mechanism of one choice, with scores n*|q(D) - q(D_B)|."""
        assumed = 1.0 if self.printed else self.cells.width
        found = ExponentialMechanism.calibrated(epsilon=self.epsilon_em, sensitivity=assumed)
        return evolve(found, sensitivity=self.cells.width)

    @property
    def measurement(self) -> Laplace | DiscreteLaplace:
        """The mechanism of one measurement, of n*q(D_B)."""
        assumed = 1.0 if self.printed else self.cells.width
        if self.noise == "laplace":
            return evolve(
                Laplace.calibrated(epsilon=self.epsilon_lap, sensitivity=assumed), sensitivity=self.cells.width
            )
        whole = DiscreteLaplace.calibrated(epsilon=self.epsilon_lap, sensitivity=int(assumed))
        return evolve(whole, sensitivity=int(self.cells.width))

    def graph(self) -> AccountantGraph:
        """Returns the plan: an adaptive sequence of choices and measurements, and the post-processing of these."""
        found = AccountantGraph(
            adjacency=Adjacency.REPLACE_ONE,
            pinned=True,
            assumptions=(
                f"neighbours differ in the value of one of {self.records} records; their number is public",
                "the base measure, sigma, the cover and all parameters were fixed without looking at the records",
            ),
        )
        found = found.source("records").public("cover")
        found = found.release("choices", self.selection.event(), reads=("records", "cover"), count=self.rounds)
        found = found.release("measurements", self.measurement.event(), reads=("records", "choices"), count=self.rounds)
        return found.post("laws", reads=("cover", "choices", "measurements")).post("answers", reads=("laws",))

    def event(self) -> PrivacyEvent:
        """Returns the privacy event of a run, for one record, to be used in a larger graph or a ledger."""
        return self.graph().guarantee().event

    def worst_case_neighbours(self) -> tuple[npt.NDArray[np.generic], npt.NDArray[np.generic]]:
        """Returns two data sets that differ in one record, moved from the cell of least to that of largest total value.

        They suit any cover. ``smoothed.queries.canary`` has a pair, with its own cover, whose privacy loss is nearly
        the largest possible.
        """
        totals = np.where(self.cells.masses > 0.0, self.cells.inside(np.arange(self.cells.queries)).sum(axis=0), np.nan)
        ends = np.eye(len(totals))[[np.nanargmin(totals), np.nanargmax(totals)]]
        low, high = (self.cells.sample(end, np.random.default_rng(0), 1) for end in ends)  # public: not data
        first = np.concatenate(
            [np.repeat(low, self.records - self.records // 2, axis=0), *[high] * (self.records // 2)]
        )
        second = first.copy()
        second[:1] = high
        return first, second

    # --- runs --------------------------------------------------------------------------------------------------------

    def simulate(self, records: npt.ArrayLike, rng: np.random.Generator, runs: int) -> Transcripts:
        """Returns the transcripts of ``runs`` independent runs with simulated noise; ``weights`` computes their laws.

        Raises:
            InvalidDataError: there are not n records, or one is outside the domain.
        """
        counts, source, total = self.counts(records), generator(rng), run_count(runs)
        found = Transcripts(np.empty((total, self.rounds), dtype=np.int64), np.empty((total, self.rounds)))
        for rows in blocks(total, max(self.cells.queries, len(self.cells.masses))):
            self._played(self.cells.answers(counts), source, found[rows])
        return found

    def run(
        self, records: npt.ArrayLike, rng: np.random.Generator, *, progress: Progress | None = None
    ) -> PrivateAnswers:
        """Returns the answers of one run with simulated noise, which is seeded, so that it is not a private release.

        Args:
            records: The n records.
            rng: The generator of the noise.
            progress: Called after each round with the number of finished rounds and R, and nothing else.
        """
        function("progress", len if progress is None else progress)
        found = Transcripts(np.empty((1, self.rounds), dtype=np.int64), np.empty((1, self.rounds)))
        self._played(self.cells.answers(self.counts(records)), generator(rng), found, progress)
        return self.answers(found, simulated=True)

    def release(
        self,
        records: npt.ArrayLike,
        *,
        ledger: AnyLedger | None = None,
        name: str | None = None,
        reads: Iterable[str] | None = None,
        noise: Noise | None = None,
        progress: Progress | None = None,
    ) -> PrivateAnswers:
        """Releases one run with secure noise; for the arguments see the release of a mechanism.

        Scores are multiples of 2^-20, so that one record moves them by no more than the accounted sensitivity. The
        event of all rounds is recorded once, before anything is drawn.

        Raises:
            InvalidArgumentError: n is too large for exact sums (2^33 for queries of range 1).
        """
        function("progress", len if progress is None else progress)  # before anything is charged
        sums, source = self.cells.answers(self.counts(records)), check_noise(noise)
        largest = max(abs(self.cells.low), abs(self.cells.low + self.cells.width))
        if self.records * largest * _GRID > _EXACT:
            raise InvalidArgumentError(
                "records", self.records, "is too many for exact sums", "use a sample of the records"
            )
        whole = np.rint(sums * _GRID).astype(np.int64)
        choose, measure = self.selection, self.measurement
        choose = evolve(choose, scale=choose.scale * _GRID, sensitivity=choose.sensitivity * _GRID)

        def drawn() -> Transcripts:
            walk = self._walk(1)
            found = Transcripts(np.empty((1, self.rounds), dtype=np.int64), np.empty((1, self.rounds)))
            for i in range(self.rounds):
                now = np.rint(self.cells.answers(walk.weights[0]) * (self.records * _GRID)).astype(np.int64)
                q = int(choose.release(np.abs(now - whole), noise=source))
                value = int(sums[q]) if isinstance(measure, DiscreteLaplace) else float(sums[q])
                found.queries[0, i] = q
                found.measurements[0, i] = measure.release(value, noise=source) / self.records
                walk.update(found.queries[:, i], found.measurements[:, i])
                if progress is not None:
                    progress(i + 1, self.rounds)
            return found

        found = charged(self.event(), drawn, source, ledger, name, reads, adjacency=Adjacency.REPLACE_ONE)
        return self.answers(found, simulated=source.simulated)

    def answers(self, transcripts: Transcripts, *, simulated: bool) -> PrivateAnswers:
        """Returns the answers computed from a single transcript."""
        self._check(transcripts, runs=1)
        return PrivateAnswers(
            cells=self.cells,
            records=self.records,
            projected=self.project,
            transcripts=transcripts,
            weights=self.weights(transcripts)[0],
            bound=self._bound_or_none(),
            simulated=simulated,
        )

    def weights(self, transcripts: Transcripts) -> FloatArray:
        """Returns the laws of transcripts, the masses of cells, shape (R, C): a function of public values alone."""
        self._check(transcripts)
        found = np.empty((len(transcripts), len(self.cells.masses)))
        for rows in blocks(len(transcripts), max(self.cells.queries, found.shape[1])):
            some = transcripts[rows]
            walk = self._walk(len(some))
            for i in range(self.rounds):
                walk.update(some.queries[:, i], some.measurements[:, i])
            found[rows] = self._published(walk)
        return found

    def log_likelihood(self, transcripts: Transcripts, records: npt.ArrayLike) -> FloatArray:
        """Returns ln of the density of transcripts under records, shape (R,), in O(R rounds (K + C))."""
        return self._log_likelihoods(transcripts, (records,))[0]

    def log_likelihood_ratio(
        self, transcripts: Transcripts, records0: npt.ArrayLike, records1: npt.ArrayLike
    ) -> FloatArray:
        """Returns ln p(transcript | records0)/p(transcript | records1), shape (R,), the score of the best test."""
        first, second = self._log_likelihoods(transcripts, (records0, records1))
        return first - second

    def error_bound(self, *, chi: float = 0.0, failure: float | None = None) -> ErrorBound:
        """Returns the a priori error bound for (σ, χ)-smooth data; see ``error_bounds.error_bound``.

        Raises:
            InvalidArgumentError: ``replay`` or the last law, for which nothing is proved.
        """
        if self.replay or self.output == "last":
            raise InvalidArgumentError(
                "output", self.output, "or a replay has no a priori error bound", "use measured_bounds"
            )
        return error_bound(
            records=self.records,
            width=self.cells.width,
            sigma=self.sigma,
            gamma=self.cells.gamma,
            queries=self.cells.queries,
            rounds=self.rounds,
            epsilon_em=self.epsilon_em,
            epsilon_lap=self.epsilon_lap,
            step=self.step,
            projected=self.project,
            whole_noise=self.noise != "laplace",
            printed=self.printed,
            chi=chi,
            failure=failure,
            cover_failure=self.cells.failure,
        )

    def measured_bounds(self, transcripts: Transcripts, *, failure: float = 0.05) -> MeasuredBounds:
        """Returns a posteriori bounds on the true answers and the published ones' errors, for any options.

        See :mod:`hockeystick.learners.smoothed.queries.measured_error`. A function of public values alone, in O(R
        rounds (K + C)) time and O(R K) memory.

        Args:
            transcripts: The transcripts of R runs.
            failure: In (0, 1); the failure probability of each run's bounds, over the noise.

        Raises:
            InvalidArgumentError: an argument outside its domain.
        """
        self._check(transcripts)
        allowed, cells, n = probability("failure", failure, open=True), self.cells, self.records
        each = allowed / (2.0 * self.rounds)
        missed = (
            self.selection.accuracy(each, candidates=cells.queries) + 2.0 / _GRID
        )  # for the rounded scores of a release
        noise = -np.log(each) * self.measurement.scale
        noise = np.ceil(noise) if isinstance(self.measurement, DiscreteLaplace) else noise
        walk, every = self._walk(len(transcripts)), np.arange(len(transcripts))
        low = np.full((len(transcripts), cells.queries), cells.low)
        high = low + cells.width
        for i in range(self.rounds):
            q, m, now = transcripts.queries[:, i], transcripts.measurements[:, i], walk.answers()
            clipped = np.clip(
                m, cells.low, cells.low + cells.width
            )  # clipping moves it no farther from the true answer
            reach = np.abs(clipped - now[every, q]) + (missed + noise) / n
            np.maximum(low, now - reach[:, None], out=low)
            np.minimum(high, now + reach[:, None], out=high)
            low[every, q] = np.maximum(low[every, q], m - noise / n)
            high[every, q] = np.minimum(high[every, q], m + noise / n)
            walk.update(q, m)
        law = self._published(walk)
        answers = cells.answers(law)
        density = np.divide(law, cells.masses, out=np.zeros_like(law), where=cells.masses > 0.0).max(axis=1)
        apart = cells.width * cells.gamma
        return MeasuredBounds(
            failure=min(1.0, allowed + cells.failure),
            low=low,
            high=high,
            cover=np.maximum(0.0, np.maximum(high - answers, answers - low).max(axis=1)),
            free=free_error(cells, low, high, answers),
            off=apart / self.sigma + apart * density * self.project,
            needs_chi=cells.gamma > 0.0,
        )

    def counts(self, records: npt.ArrayLike) -> IntArray:
        """Returns the number of records in each cell, shape (C,). It reads the data.

        Raises:
            InvalidDataError: there are not n records.
        """
        return checked_counts(self.cells, records, self.records)

    def _bound_or_none(self) -> ErrorBound | None:
        try:
            return self.error_bound()
        except InvalidArgumentError:  # nothing is proved for these options
            return None

    def _walk(self, runs: int) -> LawWalk:
        rate = 0.5 if self.step == "paper" else 4.0 / self.cells.width**2
        sigma = self.sigma if self.project else None
        return LawWalk(self.cells, runs=runs, rate=rate, sigma=sigma, clip=self.clip, replay=self.replay)

    def _published(self, walk: LawWalk) -> FloatArray:
        if self.output == "last":
            return walk.weights
        if self.printed:
            return (walk.before - self.cells.masses + walk.weights) / self.rounds
        return (walk.before + walk.weights) / (self.rounds + 1)

    def _played(
        self, sums: FloatArray, rng: np.random.Generator, found: Transcripts, progress: Progress | None = None
    ) -> None:
        """Fills in the transcripts ``found``; ``sums`` are n*q(D_B)."""
        walk, choose, measure = self._walk(len(found)), self.selection, self.measurement
        for i in range(self.rounds):
            logits = np.abs(walk.answers() * self.records - sums) / choose.scale
            logits += rng.gumbel(size=logits.shape)
            found.queries[:, i] = q = logits.argmax(axis=1)
            if isinstance(measure, Laplace):
                noise = rng.laplace(scale=measure.scale, size=len(q))
            else:
                noise = SimulationNoise(rng).laplace(measure.scale, len(q)).astype(float)
            found.measurements[:, i] = (sums[q] + noise) / self.records
            walk.update(q, found.measurements[:, i])
            if progress is not None:
                progress(i + 1, self.rounds)

    def _log_likelihoods(self, transcripts: Transcripts, worlds: Iterable[npt.ArrayLike]) -> list[FloatArray]:
        self._check(transcripts)
        sums = [self.cells.answers(self.counts(records)) for records in worlds]
        choose, measure = self.selection, self.measurement
        rate = 1.0 / measure.scale
        discrete = isinstance(measure, DiscreteLaplace)
        constant = np.log(np.tanh(0.5 * rate)) if discrete else np.log(0.5 * rate * self.records)
        found = [np.full(len(transcripts), self.rounds * constant) for _ in sums]
        for rows in blocks(len(transcripts), max(self.cells.queries, len(self.cells.masses))):
            some, walk = transcripts[rows], self._walk(len(transcripts[rows]))
            every = np.arange(len(some))
            for i in range(self.rounds):
                q, m, now = some.queries[:, i], some.measurements[:, i], walk.answers() * self.records
                for total, world in zip(found, sums, strict=True):
                    total[rows] += log_softmax(np.abs(now - world) / choose.scale, axis=1)[every, q]
                    total[rows] -= rate * np.abs(m * self.records - world[q])
                walk.update(q, m)
        return found

    def _check(self, transcripts: Transcripts, runs: int | None = None) -> None:
        if not isinstance(transcripts, Transcripts):
            raise InvalidArgumentError(
                "transcripts", type(transcripts).__name__, "is not a Transcripts", "use what simulate returns"
            )
        array("measurements", transcripts.measurements, shape=(runs, self.rounds))
        array("queries", transcripts.queries, shape=transcripts.measurements.shape)
        self.cells.checked_indices(transcripts.queries)
