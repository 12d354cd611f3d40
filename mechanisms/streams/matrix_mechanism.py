"""The matrix mechanism: a linear map A = B·C of a stream, published as B·(C·x + noise).

Li, Miklau, Hay, McGregor & Rastogi 2015. For prefix sums, or a stream of gradients, the noise of different steps is
correlated such that it cancels in sums: DP-FTRL (Kairouz et al. 2021; Denisov, McMahan, Rush, Smith & Thakurta 2022).
B is post-processing; the cost is that of C·x with independent normal noise.

*Release.* It is computed from whole numbers. Let g be the step of the grid, and K the encoder in units of u = 2^-16, so
that C = u·K exactly.

1. Every contribution is rounded to a whole number n of steps g, and clipped so that no sum can overflow. One record
   moves its contribution, of d entries, by at most sensitivity/g + √d steps, as rounding moves an entry by half a step.
2. K·n is exact in 64-bit integers (``BufferedToeplitz`` is off by a known number of units, by which S·(…)/u below is
   raised). So, over the whole stream, one record moves it by at most S·(sensitivity/g + √d)/u
   in L2, where S is the sensitivity of C for the steps in which a record may participate: ``Factorisation.sensitivity``
   bounds C times any vectors of norm at most 1 at these steps, here the rounded moves.
3. Discrete Gaussian noise Z is added, with the scale at which ``noise_on_a_grid`` bounds the cost of an additive
   mechanism of this sensitivity, on that many entries, by that of real noise of ``scale`` at S·``sensitivity``.
4. B·(K·n + Z) in floating point is post-processing.

In a stream, row t of K·n needs the contributions up to t (C is lower triangular), and row t of B·y the noisy rows up to
t. Contributions may depend on earlier answers: in any case the squared moves of all rows add up to at most the square
of the number in step 2, and normal noise composes fully adaptively under such a bound (Denisov et al. 2022, Thm 2.1).
The law of Z is that of rounded normal noise up to a factor; step 3 covers the product of these factors over all
entries.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from attrs import define, field, frozen
from numpy.typing import ArrayLike
from scipy import special

from hockeystick import accounting
from hockeystick.accounting import InvalidArgumentError, validate
from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.mechanisms.contract import arguments
from hockeystick.mechanisms.numbers.gaussian import Gaussian
from hockeystick.mechanisms.randomness import noise_on_a_grid
from hockeystick.mechanisms.randomness.noise import Noise, check_noise
from hockeystick.mechanisms.release import AnyLedger
from hockeystick.mechanisms.streams import step_mechanism
from hockeystick.mechanisms.streams.factor_encoders import UNIT, Factorisation, RunningFilter
from hockeystick.mechanisms.streams.step_mechanism import RunningSteps, StepMechanism


def _factorisation(value: Factorisation) -> Factorisation:
    if not isinstance(value, Factorisation):
        raise InvalidArgumentError(
            "factorisation", value, "is not a Factorisation", "use square_root(steps), for example"
        )
    return value


@frozen
class MatrixMechanism(StepMechanism):
    """The matrix mechanism: the answers A·x for a stream x of contributions, each a number or an array.

    A value has shape (steps, ...), an output (answers, ...).

    Args:
      factorisation: A = B·C; see ``factorisations``.
      scale: the standard deviation of the noise on each entry of C·x, in the units of x.
      sensitivity: the largest L2 distance by which one record changes the contribution of one step.
      participations: the largest number of steps to which one record contributes.
      separation: the least distance of these steps.
      grid: the step of the grid that released contributions are rounded to, a power of two; by default fine enough that
        the noise grows by at most one part in 2^15, unless the noise is 2^20 times the sensitivity. Contributions
        beyond 2^61 steps over the encoder's largest row sum (in units of 2^-16) are clipped.

    Raises:
      InvalidArgumentError: a parameter is outside its domain.

    Example:
      >>> import numpy as np
      >>> from hockeystick.mechanisms import MatrixMechanism, TreeAggregation, factorisations
      >>> matrix = MatrixMechanism.calibrated(factorisations.square_root(1024), epsilon=1.0, delta=1e-6)
      >>> tree = TreeAggregation.calibrated(1024, epsilon=1.0, delta=1e-6)
      >>> [round(float(np.sqrt(one.variances().max())), 1) for one in (matrix, tree)]
      [13.8, 33.8]
    """

    factorisation: Factorisation = field(converter=_factorisation)
    scale: float = field(converter=arguments.noise_scale)
    sensitivity: float = field(default=1.0, converter=arguments.sensitivity, kw_only=True)
    participations: int = field(default=1, converter=step_mechanism.participations, kw_only=True)
    separation: int = field(default=1, converter=step_mechanism.separation, kw_only=True)
    grid: float | None = field(default=None, converter=noise_on_a_grid.grid, kw_only=True)

    def __attrs_post_init__(self) -> None:
        self.event()  # refuses a ratio that is not a valid noise multiplier

    @classmethod
    def calibrated(
        cls,
        factorisation: Factorisation,
        *,
        epsilon: float,
        delta: float,
        sensitivity: float = 1.0,
        participations: int = 1,
        separation: int = 1,
    ) -> MatrixMechanism:
        """Returns the mechanism with the least noise that is (``epsilon``, ``delta``)-DP.

        Raises:
          InvalidArgumentError: ``epsilon`` is not finite and ≥ 0, ``delta`` not in (0, 1), or another argument is
            outside its domain.
        """
        target, allowed = validate.real("epsilon", epsilon, low=0.0), validate.probability("delta", delta, open=True)
        distance = arguments.sensitivity(sensitivity)
        reach = _factorisation(factorisation).sensitivity(participations=participations, separation=separation)
        scale = Gaussian.calibrated(epsilon=target, delta=allowed, sensitivity=reach * distance).sigma

        def build() -> MatrixMechanism:
            return cls(factorisation, scale, sensitivity=distance, participations=participations, separation=separation)

        while accounting.delta(build().event(), target).upper > allowed:  # its quotients are rounded, too
            scale *= 1 + 2.0**-46
        return build()

    def event(self) -> accounting.PrivacyEvent:
        """Returns the cost for one record: one Gaussian event at the sensitivity of the encoder.

        It holds under any adjacency for which ``sensitivity`` bounds the change of a step, and under which all other
        records stay at their steps.
        """
        multiplier = arguments.quotient_down(self.scale, self.sensitivity)
        return accounting.Gaussian(multiplier).at(self._reach)

    @property
    def _reach(self) -> float:
        return self.factorisation.sensitivity(participations=self.participations, separation=self.separation)

    def simulate(self, value: ArrayLike, rng: np.random.Generator, runs: int) -> FloatArray:
        """Returns outputs of shape (runs, answers, ...), with real noise.

        Raises:
          InvalidArgumentError: the value is not numeric, not finite or not of the factorisation's steps, ``runs`` is
            not an integer ≥ 1, or ``rng`` is not a generator.
        """
        given, source = self._values("value", value), arguments.generator(rng)
        a, shape, width = self.factorisation, given.shape[1:], given[0].size
        found = np.empty((arguments.run_count(runs, a.answers * width), a.answers, width))
        for block in arguments.blocks(len(found), a.measurements * width):
            noise = source.standard_normal((block.stop - block.start, a.measurements, width))
            found[block] = a.decode(noise)
        found *= self.scale
        found += a.apply(given.reshape(a.steps, width))
        return found.reshape(len(found), a.answers, *shape)

    def variances(self) -> FloatArray:
        """Returns the exact variance of each entry of the answers, shape (answers,), in squared units of the output."""
        return self.factorisation.variances() * self.scale**2

    def accuracy(self, beta: float, *, entries: int = 1) -> float:
        """Returns a t such that with probability at least 1 − ``beta`` all answers are off by at most t in every entry.

        By Šidák's inequality (1967). In a release the rounding comes on top, at most half a step of the grid per
        contribution.

        Raises:
          InvalidArgumentError: ``beta`` is not in (0, 1), or ``entries`` is not an integer ≥ 1.
        """
        count, deviations = validate.integer("entries", entries, low=1), np.sqrt(self.factorisation.variances())

        def log_kept(t: float) -> float:
            with np.errstate(divide="ignore"):
                return count * float(np.log1p(-2 * special.ndtr(-t / deviations)).sum())

        return self.scale * step_mechanism.least_bound(beta, log_kept)

    def worst_case_neighbours(self) -> tuple[Any, Any]:
        """Returns streams of numbers without and with a record, at step 0 and the earliest further steps.

        For an encoder that is not a filter, the record starts at the step with the longest column instead.
        """
        a = self.factorisation
        times, first = min(self.participations, -(-a.steps // self.separation)), 0
        if not a.is_filter:
            arguments.array_length("steps", a.steps, a.steps**2)
            moved = a.encode(np.eye(a.steps, dtype=np.int64)).astype(float)
            room = a.steps - (times - 1) * self.separation  # starts that leave room for the others
            first = int(np.linalg.norm(moved[:, :room], axis=0).argmax())
        with_record = np.zeros(a.steps)
        with_record[first : first + times * self.separation : self.separation] = self.sensitivity
        return np.zeros(a.steps), with_record

    def log_likelihood_ratio(self, output: ArrayLike, value0: ArrayLike, value1: ArrayLike) -> FloatArray:
        """Returns ln(p(output | value0) / p(output | value1)) for outputs of shape (runs, answers, ...)."""
        a, v0 = self.factorisation, self._values("value0", value0)
        v1 = validate.array("value1", value1, shape=v0.shape, data=True)
        drawn = validate.array("output", output, shape=(None, a.answers, *v0.shape[1:]), data=True)
        x0, x1 = (v.reshape(a.steps, -1) for v in (v0, v1))
        errors = drawn.reshape(len(drawn), a.answers, -1) - a.apply((x0 + x1) / 2)
        return a.projected((x0 - x1) / self.scale, errors / self.scale)

    def stream(
        self,
        shape: tuple[int, ...] = (),
        *,
        ledger: AnyLedger | None = None,
        name: str | None = None,
        reads: Iterable[str] | None = None,
        noise: Noise | None = None,
    ) -> MatrixStream:
        """Returns a running release, which takes one contribution of ``shape`` at a time; see ``MatrixStream``.

        The cost of the whole stream is recorded here, before anything is drawn. The arguments are those of ``release``.

        Raises:
          InvalidArgumentError: the encoder is not a filter (``Toeplitz``, ``BufferedToeplitz``), or ``release`` refuses
            an argument.
        """
        source = check_noise(noise)
        found = self._running(arguments.zeros(shape).shape, source)
        return self._charged(lambda: found, source, ledger, name, reads)

    def _running(self, shape: tuple[int, ...], noise: Noise) -> MatrixStream:
        return MatrixStream(self, shape, noise, *self._on_grid(math.prod(shape)))

    @property
    def _length(self) -> int:
        return self.factorisation.steps

    def _draw(self, checked: FloatArray, noise: Noise) -> FloatArray:
        return self._at_once(checked, noise, *self._on_grid(checked[0].size))

    def _at_once(self, contributions: FloatArray, noise: Noise, scale: float, step: float) -> FloatArray:
        a = self.factorisation
        noisy = a.encode(self._whole(contributions.reshape(a.steps, -1), step))
        noisy += noise.gaussian(scale, noisy.size).reshape(noisy.shape)
        found = a.decode(noise_on_a_grid.values(noisy, step * UNIT)[None])[0]
        return np.asarray(found.reshape(a.answers, *contributions.shape[1:]))

    def rounding(self, entries: int) -> float:
        """Returns the step of the grid to which a release rounds contributions of so many entries."""
        return self._on_grid(validate.integer("entries", entries, low=1))[1]

    def released_scale(self, entries: int) -> float:
        """Returns the scale of a release's noise on contributions of so many entries, in units of the output.

        It is a little above ``scale``, which pays for the grid.
        """
        scale, step = self._on_grid(validate.integer("entries", entries, low=1))
        return scale * step * UNIT

    def _on_grid(self, width: int) -> tuple[float, float]:
        """The scale of the noise in units of 2^-16 steps of the grid, and the step."""
        d, reach = max(1, width), self._reach
        # What ``encode`` is off by, in all entries of both streams, in units of √d steps of the grid.
        off = UNIT * self.factorisation.rounding() * math.sqrt(self.factorisation.measurements)
        fine = 16 * noise_on_a_grid.gaussian_grid(2.0**12 * self.scale, self.sensitivity, d)
        fine = math.ldexp(fine, -max(0, math.frexp(off)[1]))
        step = self.grid or max(fine, math.ldexp(1.0, math.frexp(self.scale)[1] - 35))  # noise of up to 2^52 steps
        moved = (reach * (self.sensitivity + math.sqrt(d) * step) + off * math.sqrt(d) * step) * (1 + 2.0**-50)
        raised = self.scale * (moved / (reach * self.sensitivity)) * (1 + 2.0**-50)
        return noise_on_a_grid.gaussian_scale(raised, moved, step * UNIT, self.factorisation.measurements * d), step

    def _whole(self, contribution: FloatArray, step: float) -> IntArray:
        limit = 2**61 // self.factorisation.amplification()  # so that no sum overflows; clipping is a contraction
        return np.clip(noise_on_a_grid.steps(contribution, step), -limit, limit)


@define
class MatrixStream(RunningSteps[MatrixMechanism]):
    """A running release of a ``MatrixMechanism``: it takes one contribution after the other and returns the answers.

    It stores as many rounded contributions and noisy estimates as the encoder has coefficients, or an array of each
    kind for each buffer (``BufferedToeplitz``). The former are as secret as the data. It can be pickled and continued
    later; continuing *twice* from one copy publishes two draws of noise for the same step, which the recorded cost does
    not cover.

    Attributes:
      mechanism: the mechanism.
      shape: the shape of a contribution.
      done: the number of steps so far.

    Example:
      >>> from hockeystick.mechanisms import MatrixMechanism, SimulationNoise, factorisations
      >>> mechanism = MatrixMechanism.calibrated(factorisations.square_root(4), epsilon=1.0, delta=1e-6)
      >>> stream = mechanism.stream(noise=SimulationNoise(1))
      >>> [round(stream.add(contribution)) for contribution in (100.0, 200.0, 100.0)], stream.done
      ([102, 305, 404], 3)
    """

    _state: RunningFilter = field(init=False, repr=False)
    _total: FloatArray = field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        self._total = arguments.zeros(self.shape)
        self._state = self.mechanism.factorisation.running(self.shape)

    def _extended(self, contributions: FloatArray) -> FloatArray:
        if not self.done and len(contributions) == self.mechanism._length:  # by transforms, not by one step at a time
            self.done = len(contributions)
            return self.mechanism._at_once(contributions, self._noise, self._scale, self._step)
        found = np.empty(contributions.shape)
        for t, value in enumerate(contributions):
            found[t] = self._answer(value)
        return found

    def _answer(self, value: FloatArray) -> FloatArray:
        noise = self._noise.gaussian(self._scale, value.size).reshape(self.shape)
        noisy = noise + self._state.encode(self.mechanism._whole(value, self._step))
        estimate = self._state.decode(noise_on_a_grid.values(np.asarray(noisy), self._step * UNIT))
        self.done += 1
        factorisation = self.mechanism.factorisation
        self._total = getattr(factorisation, "discount", 1.0) * self._total + estimate
        sums = getattr(factorisation, "workload", "") == "prefix_sums"
        return np.asarray(self._total if sums else estimate)

    def _saved(self) -> dict[str, Any]:
        return {"total": np.asarray(self._total).tolist(), "filter": self._state.state()}

    def _restore(self, state: dict[str, Any]) -> None:
        self._total = validate.array("total", state["total"], shape=self.shape)
        self._state.restore(state["filter"])
