"""DP-SGD in the terms of its user: records, batch, epochs and clip give the steps, the event and the guarantee.

The relation belongs to the sampling. A gradient clipped to norm C moves the sum of a step by at most C if its record is
added, removed or replaced by null, and by at most 2·C if it is replaced. The noise multiplier is noise/clip everywhere,
as in the libraries for training, so that under replace-one an access to the sum costs ``Gaussian(noise_multiplier/2)``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from attrs import evolve, field, frozen

from hockeystick._guess.arguments import guessing_arguments
from hockeystick._guess.attributes import guessing_attributes
from hockeystick.accounting import field_checks, validate
from hockeystick.accounting.adjacency import Adjacency
from hockeystick.accounting.budgets.calibration import Calibrated, EpsilonDelta, calibrate
from hockeystick.accounting.engines.best_bound import Bracket
from hockeystick.accounting.errors import InvalidArgumentError, UnsupportedAdjacencyError
from hockeystick.accounting.events.basic.composition import compose
from hockeystick.accounting.events.basic.event import PrivacyEvent
from hockeystick.accounting.events.basic.group_steps import chain
from hockeystick.accounting.events.noise.gaussian_laplace import Gaussian
from hockeystick.accounting.events.sampling.allocation import RandomAllocation
from hockeystick.accounting.events.sampling.poisson import PoissonSampled
from hockeystick.accounting.events.sampling.replace_one import PoissonSampledReplace, SampledWithoutReplacement
from hockeystick.accounting.events.sampling.sampled_matrices import banded_matrix_mechanism
from hockeystick.accounting.events.sampling.shuffled_batches import ShuffledBatches
from hockeystick.accounting.graph.accountant_graph import AccountantGraph
from hockeystick.accounting.graph.guarantee import Guarantee
from hockeystick.accounting.numerics.directed_rounding import quotient_up

_ADD, _NULL, _REPLACE = Adjacency.ADD_OR_REMOVE_ONE, Adjacency.REPLACE_WITH_NULL, Adjacency.REPLACE_ONE
_PUBLIC = "the numbers of records, batch and epochs are public constants, not counted from the data"
_CLIPPED = (
    "each record's gradient depends on no other record, and is clipped to an L2 norm of at most the clip before the sum"
)
_NOISE = (
    "each step adds Gaussian noise of standard deviation noise multiplier × clip to the sum of gradients; what divides "
    "the sum is a constant, never the size of the batch that was drawn"
)
_GROUPS = (
    "each record is in one of {0} groups, by a choice that depends on no other record; step i draws each record of "
    "group i mod {0} independently with probability {0} × batch/records; none is padded, cut or dropped for its size"
)
_CORRELATED = (
    "the noise of the steps is C⁻¹·z for a lower triangular matrix C of at most {} bands, and z of standard deviation "
    "noise multiplier × clip × the longest column of C; what divides the sum is a constant"
)
_FILTERED = (
    "the noise of the steps is C⁻¹·z for one lower triangular matrix C, chosen without the data, and z of standard "
    "deviation noise multiplier × clip × the sensitivity of C to {} participations {} steps apart; what divides the "
    "sum is a constant"
)
_SAME_ORDER = (
    "the list of all records is shuffled once and cut into batches, each record is in one of them, and every epoch "
    "reads the same batches in the same order"
)
_NULLS = "a null record's gradient is zero"


@frozen
class _Sampling:
    """A way to draw batches: its relations (the default first), the cost of all steps, and what a loader must do."""

    adjacencies: tuple[Adjacency, ...]
    loader: str
    event: Callable[[DPSGD, float], tuple[PrivacyEvent, int]]


def _moved(run: DPSGD, noise_multiplier: float) -> Gaussian:
    """Returns the cost of an access to the sum of a batch for a record that is in it."""
    return Gaussian(noise_multiplier / 2.0 if run.relation is _REPLACE else noise_multiplier)


def _poisson(run: DPSGD, noise_multiplier: float) -> tuple[PrivacyEvent, int]:
    if run.bands:
        rate = min(1.0, quotient_up(run.batch * run.bands, run.records))
        banded = banded_matrix_mechanism(
            run.steps, bands=run.bands, noise_multiplier=noise_multiplier, sampling_rate=rate
        )
        return banded, 1
    kind = PoissonSampledReplace if run.relation is _REPLACE else PoissonSampled
    return kind(quotient_up(run.batch, run.records), Gaussian(noise_multiplier)), run.steps


def _without_replacement(run: DPSGD, noise_multiplier: float) -> tuple[PrivacyEvent, int]:
    return SampledWithoutReplacement(run.records, run.batch, _moved(run, noise_multiplier)), run.steps


def _full(run: DPSGD, noise_multiplier: float) -> tuple[PrivacyEvent, int]:
    return _moved(run, noise_multiplier), run.steps


def _allocation(run: DPSGD, noise_multiplier: float) -> tuple[PrivacyEvent, int]:
    return RandomAllocation(run.batches, 1, _moved(run, noise_multiplier)), run.steps // run.batches


def _fixed_allocation(run: DPSGD, noise_multiplier: float) -> tuple[PrivacyEvent, int]:
    every_epoch = compose((_moved(run, noise_multiplier), run.steps // run.batches))
    return RandomAllocation(run.batches, 1, every_epoch), 1


def _shuffle(run: DPSGD, noise_multiplier: float) -> tuple[PrivacyEvent, int]:
    if run.buffers:  # all noisy steps are one release of C·x + z, and the noise is per sensitivity of C
        return _moved(run, noise_multiplier), 1
    return ShuffledBatches(run.steps // run.batches, run.batches, _moved(run, noise_multiplier)), 1


_ALLOCATED = (
    "each record independently takes one of the epoch's steps, all equally likely, so that batches differ in size; "
    "none is padded, cut or dropped for its size, and an empty one adds noise as well; the steps are chosen "
)
_SAMPLINGS = {
    "poisson": _Sampling(
        (_ADD, _NULL, _REPLACE),
        "each step draws each record independently with probability batch/records; batches differ in size, none is "
        "padded, cut or dropped for its size, and an empty one adds noise as well",
        _poisson,
    ),
    "without-replacement": _Sampling(
        (_REPLACE,),
        "each step draws a new uniformly random batch of exactly the given size, independently of all other steps; a "
        "shuffled list that is cut into batches is another sampling",
        _without_replacement,
    ),
    "full": _Sampling((_ADD, _NULL, _REPLACE), "each step reads all records", _full),
    "allocation": _Sampling((_NULL, _ADD), _ALLOCATED + "anew in every epoch", _allocation),
    "allocation-fixed": _Sampling((_NULL, _ADD), _ALLOCATED + "once, for all epochs", _fixed_allocation),
    "shuffle": _Sampling(
        (_NULL, _REPLACE),
        "each epoch cuts the shuffled list of all records into batches, whether it is shuffled once or in every epoch; "
        "each record is in one batch an epoch",
        _shuffle,
    ),
}


_MOST_DELTA = 0.99  # of a calibration
_BY_EPOCHS = ("allocation", "allocation-fixed", "shuffle")


def _records(value: int) -> int:
    return validate.integer("records", value, low=1, high=validate.MOST)


def _batch(value: int) -> int:
    return validate.integer("batch", value, low=1, high=validate.MOST)


def _epochs(value: float) -> float:
    return validate.real("epochs", value, low=0.0, low_open=True, high=validate.MOST)


def _clip(value: float | None) -> float | None:
    return None if value is None else validate.real("clip", value, low=0.0, low_open=True)


def _sampling(value: str) -> str:
    return validate.one_of("sampling", value, *_SAMPLINGS)


def _user_records(value: int) -> int:
    return validate.integer("user_records", value, low=1, high=validate.MOST)


def _strategy(value: str | None) -> str | None:
    kind, _, number = (value or "").partition(":")
    if value is None or (number.isascii() and number.isdigit() and 1 <= len(number) <= 9 and kind in _STRATEGIES):
        return value
    raise InvalidArgumentError("strategy", value, "is not a known strategy", "give banded:K, or blt:D for D buffers")


_STRATEGIES = ("banded", "blt")
_MOST_BUFFERS = 10


def _normaliser(value: str) -> str:
    if validate.one_of("normaliser", value, "constant", "drawn-batch") == "constant":
        return value
    reason = "makes the noise depend on the secret size of the batch, for which no bound of this training holds"
    remedy = "divide by a constant, such as the expected batch; no other number has to change"
    raise InvalidArgumentError("normaliser", value, reason, remedy)


@guessing_attributes
@guessing_arguments
@frozen
class DPSGD:
    """A training run by DP-SGD: N records, batches of B, E epochs, gradients clipped to C.

    A step adds Gaussian noise of standard deviation ``noise_multiplier``·C to the sum of the clipped gradients of one
    batch. All noisy sums are published.

    | sampling            | a step reads                        | default relation  | also                           |
    |---------------------|-------------------------------------|-------------------|--------------------------------|
    | poisson             | each record with probability B/N    | add-or-remove-one | replace-with-null, replace-one |
    | without-replacement | a random batch of exactly B records | replace-one       |                                |
    | full                | all records (B = N)                 | add-or-remove-one | replace-with-null, replace-one |
    | allocation          | one step of each epoch, chosen anew | replace-with-null | add-or-remove-one              |
    | allocation-fixed    | the same step in every epoch        | replace-with-null | add-or-remove-one              |
    | shuffle             | a batch of a shuffled list          | replace-with-null | replace-one                    |

    In the last three, each record is in one of the ⌈N/B⌉ batches of every epoch. A choice that records make
    independently ("allocation") is amplified; the batches of a shuffled list, whose sizes are fixed, are charged
    without amplification, and ``known_epsilon`` shows what they are known to need.

    A user's K records are charged exactly under the first two relations (with a binomial number of them in each Poisson
    sample), and under replace-one as K replacements one after the other.

    The relations protect different changes of the data, so that their ε are not comparable as they stand.

    Args:
      records: N, ≥ 1.
      batch: B, 1 ≤ B ≤ N; the expected size for Poisson samples.
      epochs: E > 0. Where E·N/B is not whole, ``steps`` is the next larger whole number.
      clip: C > 0, the largest L2 norm of a record's gradient. It is needed under replace-one, and for
        ``standard_deviation``.
      sampling: how batches are drawn, as in the table.
      user_records: K, the most records that one user owns, ≤ N. The guarantee is then that of a user: of all K records
        at once.
      adjacency: the neighbouring relation; by default that of the table.
      normaliser: what divides the noisy sum of a step: "constant", such as the expected batch. "drawn-batch", the size
        of the batch that was drawn, is refused: it tells how many records were drawn, and the noise is divided with it.
      strategy: "banded:K" for noise that is correlated over steps by a matrix of K bands (BandMF), with Poisson samples
        of K groups of records in turn; see ``banded_matrix_mechanism``. The noise multiplier is then per clip and per
        longest column of the matrix. "blt:D" for noise from a filter of D buffers (``factorisations.blt``), with
        sampling="shuffle" and the same order in every epoch: each record takes part in E steps, N/B apart. There is no
        amplification, and the noise multiplier is per clip and per sensitivity of C to these participations, so that
        the training costs as much as one Gaussian mechanism.

    Raises:
      InvalidArgumentError: an argument outside its domain, a batch larger than ``records`` (or, for "full", not equal
        to it), ``user_records`` > ``records``, or no clip under replace-one.
      UnsupportedAdjacencyError: the sampling has no bound under the relation.

    Example:
      >>> from hockeystick.accounting import DPSGD
      >>> run = DPSGD(records=60_000, batch=256, epochs=10, clip=1.0)
      >>> run.steps
      2344
      >>> round(run.calibrated(epsilon=3.0, delta=1e-5).value, 4)
      0.6937
      >>> print(f"{run.epsilon(1.0, 1e-5):.3f}")
      1.100
    """

    records: int = field(converter=_records)
    batch: int = field(converter=_batch)
    epochs: float = field(converter=_epochs)
    clip: float | None = field(default=None, converter=_clip, kw_only=True)
    sampling: str = field(default="poisson", converter=_sampling, kw_only=True)
    user_records: int = field(default=1, converter=_user_records, kw_only=True)
    adjacency: Adjacency | None = field(default=None, kw_only=True)
    normaliser: str = field(default="constant", converter=_normaliser, kw_only=True)
    strategy: str | None = field(default=None, converter=_strategy, kw_only=True)

    def __attrs_post_init__(self) -> None:
        for name, value in (("batch", self.batch), ("user_records", self.user_records)):
            if value > self.records:
                raise InvalidArgumentError(
                    name, value, f"is larger than records={self.records}", "give at most the number of records"
                )
        if self.sampling == "full" and self.batch != self.records:
            raise InvalidArgumentError(
                "batch",
                self.batch,
                f'is not records={self.records}, but sampling="full" reads all records in each step',
                "give batch=records, or another sampling",
            )
        if self.sampling in _BY_EPOCHS and self.epochs != int(self.epochs):
            reason = f'is not whole, but sampling="{self.sampling}" puts each record into one batch of every epoch'
            raise InvalidArgumentError("epochs", self.epochs, reason, "give whole epochs, or another sampling")
        known = _SAMPLINGS[self.sampling].adjacencies
        if self.adjacency is not None and self.adjacency not in known:
            raise UnsupportedAdjacencyError(
                f"sampling={self.sampling!r} has no bound under {getattr(self.adjacency, 'value', self.adjacency)}: "
                f"use {' or '.join(one.value for one in known)}, or another sampling"
            )
        if self.strategy is not None:
            self._check_strategy()
        if self.relation is _REPLACE and self.clip is None:
            raise InvalidArgumentError(
                "clip",
                None,
                "is needed under replace-one, where a gradient clipped to C moves the sum by 2·C",
                "give the clip; the noise multiplier is then noise/clip",
            )
        validate.integer("steps", self.steps, high=validate.MOST)

    def _check_strategy(self) -> None:
        kind, _, number = (self.strategy or "").partition(":")
        if kind == "blt":
            if self.sampling != "shuffle":
                reason = f"has no amplification by sampling, and no bound with sampling={self.sampling!r}"
                raise InvalidArgumentError("strategy", self.strategy, reason, 'give sampling="shuffle"')
            if not 1 <= int(number) <= _MOST_BUFFERS:
                remedy = f"give blt:D with D from 1 to {_MOST_BUFFERS}"
                raise InvalidArgumentError("strategy", self.strategy, "is not a number of buffers", remedy)
            return
        if self.sampling != "poisson" or self.relation is _REPLACE:
            reason = f"has no bound with sampling={self.sampling!r} under {self.relation.value}"
            remedy = "use Poisson samples under add-or-remove-one or replace-with-null"
            raise InvalidArgumentError("strategy", self.strategy, reason, remedy)
        if not 1 <= self.bands <= self.records // self.batch:
            reason = f"is not a number of groups that have a batch of {self.batch} records each"
            remedy = f"give banded:K with K from 1 to {self.records // self.batch}"
            raise InvalidArgumentError("strategy", self.strategy, reason, remedy)

    @property
    def bands(self) -> int:
        """The number of bands of a banded strategy, and of groups of records that take turns; 0 without one."""
        return self._number_of("banded")

    @property
    def buffers(self) -> int:
        """The number of buffers of a strategy without bands; 0 without one."""
        return self._number_of("blt")

    def _number_of(self, kind: str) -> int:
        found, _, number = (self.strategy or "").partition(":")
        return int(number) if found == kind else 0

    @property
    def relation(self) -> Adjacency:
        """The neighbouring relation of the guarantee."""
        return _SAMPLINGS[self.sampling].adjacencies[0] if self.adjacency is None else self.adjacency

    @property
    def steps(self) -> int:
        """The number of steps: E·N/B, rounded up; by epochs, E times ``batches``."""
        if self.sampling in _BY_EPOCHS:
            return int(self.epochs) * self.batches
        return math.ceil(Fraction(self.epochs) * self.records / self.batch)

    @property
    def batches(self) -> int:
        """The number of batches in an epoch: N/B, rounded up."""
        return -(-self.records // self.batch)

    @property
    def sampling_rate(self) -> float:
        """The share B/N of the records in an average batch."""
        return self.batch / self.records

    @property
    def loader(self) -> str:
        """The duties of the data loader, on which the guarantee rests, in words."""
        if self.bands:
            return _GROUPS.format(self.bands)
        if self.buffers:
            return _SAME_ORDER
        return _SAMPLINGS[self.sampling].loader

    @property
    def assumptions(self) -> tuple[str, ...]:
        """All that the guarantee assumes about the training, in words."""
        nulls = (_NULLS,) if self.relation is _NULL else ()
        noise = _CORRELATED.format(self.bands) if self.bands else _NOISE
        if self.buffers:
            noise = _FILTERED.format(int(self.epochs), self.batches)
        return self.loader, _CLIPPED, noise, *nulls, _PUBLIC

    def event(self, noise_multiplier: float) -> PrivacyEvent:
        """Returns the cost of the whole training for one record under ``relation``.

        Raises:
          InvalidArgumentError: ``noise_multiplier`` is not a number > 0.
        """
        step, count = _SAMPLINGS[self.sampling].event(self, field_checks.noise_multiplier(noise_multiplier))
        return compose((step, count))

    def graph(self, noise_multiplier: float) -> AccountantGraph:
        """Returns the training as a graph with one release, "gradients"; further releases can be added to it.

        Raises:
          InvalidArgumentError: ``noise_multiplier`` is not a number > 0.
        """
        step, count = _SAMPLINGS[self.sampling].event(self, field_checks.noise_multiplier(noise_multiplier))
        graph = AccountantGraph(self.relation, assumptions=self.assumptions).source("records")
        return graph.release("gradients", step, reads=["records"], count=count)

    def guarantee(self, noise_multiplier: float) -> Guarantee:
        """Returns the guarantee at every δ, to a user of ``user_records`` records.

        Raises:
          InvalidArgumentError: ``noise_multiplier`` is not a number > 0.
        """
        graph = self.graph(noise_multiplier)
        if self.user_records == 1 or self.relation is not _REPLACE or self.batch == self.records:
            return graph.guarantee(group=self.user_records)
        # A step's rule for groups pays for all K records where one is drawn, in each step: far more than K replacements
        # of the whole training do.
        group = chain(self.event(noise_multiplier), self.user_records)
        graph = AccountantGraph(_REPLACE, assumptions=self.assumptions).source("records")
        return evolve(graph.release("gradients", group, reads=["records"]).guarantee(), group=self.user_records)

    def epsilon(self, noise_multiplier: float, delta: float) -> Bracket:
        """Returns the least certified ε at ``delta``.

        Raises:
          InvalidArgumentError: an argument outside its domain.
        """
        return self.guarantee(noise_multiplier).epsilon(delta)

    def calibrated(self, epsilon: float, delta: float) -> Calibrated:
        """Returns the least noise multiplier with which the training is (``epsilon``, ``delta``)-DP.

        Raises:
          InvalidArgumentError: ``epsilon`` is not > 0, or ``delta`` not in (0, 0.99]: Gaussian noise has no finite ε at
            0, and a larger δ than 0.99 promises next to nothing, while its noise takes long to find.
        """
        number = validate.real("delta", delta, low=0.0, high=_MOST_DELTA, low_open=True)
        return calibrate(self.guarantee, EpsilonDelta(epsilon, number))

    def standard_deviation(self, noise_multiplier: float) -> float:
        """Returns the standard deviation of the noise on the sum of a batch: noise multiplier × clip, rounded up.

        Of a strategy it is that of z for a matrix C of longest column, or of sensitivity, 1.

        Raises:
          InvalidArgumentError: the run has no clip, or ``noise_multiplier`` is not a number > 0.
        """
        if self.clip is None:
            raise InvalidArgumentError("clip", None, "is needed for the standard deviation", "give the clip")
        exact = Fraction(field_checks.noise_multiplier(noise_multiplier)) * Fraction(self.clip)
        found = float(exact)
        return found if Fraction(found) >= exact else math.nextafter(found, math.inf)

    def known_epsilon(self, noise_multiplier: float, delta: float) -> float | None:
        """Returns an ε that shuffled batches are known to need at ``delta``, below the certified one; else None.

        It is that of ``ShuffledBatches.lower_bound`` (Chua et al. 2024), for lists that are shuffled in every epoch or
        once, and for one record that is replaced by null.

        Raises:
          InvalidArgumentError: an argument outside its domain.
        """
        if self.sampling != "shuffle" or self.buffers:
            return None
        nulled = evolve(self, adjacency=_NULL)
        event, _ = _shuffle(nulled, field_checks.noise_multiplier(noise_multiplier))
        return event.lower_bound(delta) if isinstance(event, ShuffledBatches) else None

    def others(self) -> tuple[DPSGD, ...]:
        """Returns this training with each other sampling, under the default relation of each.

        The relations differ: a guarantee of one is not that of another. Where this run has no clip, that of the others
        is 1, as only noise/clip matters. "full" has as many steps as epochs. Where epochs are not whole, the samplings
        by epochs are left out.
        """
        return tuple(
            evolve(
                self,
                batch=self.records if name == "full" else self.batch,
                clip=self.clip or 1.0,
                sampling=name,
                adjacency=None,
                strategy=None,
            )
            for name in _SAMPLINGS
            if name != self.sampling and (name not in _BY_EPOCHS or self.epochs == int(self.epochs))
        )
