"""Synthetic losses of many clients over many rounds, on which federated learners are compared.

A stream draws blocks of rounds, of shape ``(clients, rounds of the block, experts)``, one after the other, so it can be
longer than memory. The losses depend on the generator alone and not on the size of the blocks.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Literal, get_args

import numpy as np
from attrs import field, frozen

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import integer, one_of, real
from hockeystick.learners.common import arguments
from hockeystick.mechanisms.contract.arguments import array_length, zeros

Draw = Callable[[int], FloatArray]
_MOST_NUMBERS = 1 << 32  # drawn at once: 32 GiB

Form = Literal["expected", "sampled", "distributions"]


def _best(value: object) -> int | None:
    return None if value is None else integer("best", value, low=0)


def _gap(value: object) -> float:
    return real("gap", value, low=0.0, high=0.5)


def _mean(value: object) -> float:
    return real("low, high", value, low=0.0, high=1.0)


def _any(value: object) -> float:
    return real("mean_low, mean_high", value)


def _variance(value: object) -> float:
    return real("variance_low, variance_high", value, low=0.0)


def _spread(value: object) -> float:
    return real("spread", value, low=0.0, high=1e100, low_open=True)


@frozen(kw_only=True)
class FederatedStream(ABC):
    """Base class of streams: losses of m clients over T rounds, drawn block by block.

    See :class:`UniformLosses` for an example.

    Args:
        clients: m >= 1.
        rounds: T >= 1.
        experts: d >= 2.

    Raises:
        InvalidArgumentError: an argument outside its domain.
    """

    clients: int = field(converter=arguments.clients)
    rounds: int = field(converter=arguments.rounds)
    experts: int = field(converter=arguments.experts)

    @abstractmethod
    def start(self, rng: np.random.Generator) -> Draw:
        """Draws the parameters of the whole stream.

        Returns:
            The function that draws the next n rounds, shape ``(clients, n, experts)``.
        """

    def blocks(self, rng: np.random.Generator, *, block: int = 256) -> Iterator[FloatArray]:
        """Returns the stream in blocks of shape ``(clients, block, experts)``; the last block may be shorter.

        The numbers are the same for every ``block``.

        Raises:
            InvalidArgumentError: ``block`` is not an integer >= 1, or has more than 2^32 losses.
        """
        block = integer("block", block, low=1)
        self._check_fits(min(block, self.rounds), "play with fewer, or plan only")
        draw = self.start(rng)
        return (draw(min(block, self.rounds - first)) for first in range(0, self.rounds, block))

    def losses(self, rng: np.random.Generator) -> FloatArray:
        """Returns the whole stream, shape ``(clients, rounds, experts)``.

        Raises:
            InvalidArgumentError: it has more than 2^32 losses.
        """
        self._check_fits(self.rounds, "take it in blocks")
        return self.start(rng)(self.rounds)

    def totals(self, rng: np.random.Generator, *, block: int = 256) -> FloatArray:
        """Returns the sums over the clients, shape ``(rounds, experts)``, with at most one block in memory.

        Raises:
            InvalidArgumentError: ``block`` is not an integer >= 1.
        """
        return np.concatenate([part.sum(axis=0) for part in self.blocks(rng, block=block)])

    def _check_fits(self, rounds: int, remedy: str) -> None:
        if (numbers := self.clients * self.experts * rounds) > _MOST_NUMBERS:
            reason = f"with {self.experts} experts has {numbers} losses in {rounds} rounds"
            raise InvalidArgumentError("clients", self.clients, reason, remedy)

    def _uniforms(self, rng: np.random.Generator) -> Draw:
        """Independent uniform numbers in [0, 1); a round's are drawn together, whatever the block."""
        return lambda n: rng.random((n, self.clients, self.experts)).swapaxes(0, 1)


@frozen(kw_only=True)
class UniformLosses(FederatedStream):
    """Independent losses, uniform in [0, 1], except for one expert that never loses.

    This is the stream of Gao, Huang & Yang 2024, figures 2 and 5. They name no law of the losses; we chose the uniform
    law.

    Args:
        best: The expert with losses 0. None, the default, draws one at the start.

    Example:
        >>> import numpy as np
        >>> from hockeystick.learners.federated import UniformLosses
        >>> stream = UniformLosses(clients=3, rounds=1000, experts=4, best=2)
        >>> [block.shape for block in stream.blocks(np.random.default_rng(1), block=600)]
        [(3, 600, 4), (3, 400, 4)]
        >>> stream.losses(np.random.default_rng(1)).mean(axis=(0, 1)).round(1).tolist()
        [0.5, 0.5, 0.0, 0.5]
    """

    best: int | None = field(default=None, converter=_best)

    def __attrs_post_init__(self) -> None:
        integer("best", self.best or 0, high=self.experts - 1)

    def start(self, rng: np.random.Generator) -> Draw:
        """Draws the best expert if ``best`` is None."""
        best = int(rng.integers(self.experts)) if self.best is None else self.best
        uniforms = self._uniforms(rng)

        def draw(n: int) -> FloatArray:
            block = uniforms(n)
            block[:, :, best] = 0.0
            return block

        return draw


@frozen(kw_only=True)
class BernoulliLosses(FederatedStream):
    """Independent losses of 0 or 1; the mean of each expert is drawn at the start, uniformly in [low, high].

    Args:
        low, high: 0 <= low <= high <= 1.

    Example:
        >>> import numpy as np
        >>> from hockeystick.learners.federated import BernoulliLosses
        >>> stream = BernoulliLosses(clients=2, rounds=1000, experts=3, low=0.1, high=0.9)
        >>> stream.losses(np.random.default_rng(1)).mean(axis=(0, 1)).round(1).tolist()
        [0.5, 0.9, 0.2]
    """

    low: float = field(default=0.4, converter=_mean)
    high: float = field(default=0.5, converter=_mean)

    def __attrs_post_init__(self) -> None:
        real("high", self.high, low=self.low)

    def start(self, rng: np.random.Generator) -> Draw:
        """Draws the means."""
        means = rng.uniform(self.low, self.high, self.experts)
        uniforms = self._uniforms(rng)
        return lambda n: (uniforms(n) < means).astype(np.float64)


@frozen(kw_only=True)
class OneGoodExpert(FederatedStream):
    """Independent losses of 0 or 1 with mean 1/2, except for one expert with mean 1/2 - gap.

    Args:
        gap: In [0, 1/2].
        best: The good expert. None, the default, draws one at the start.

    Example:
        >>> import numpy as np
        >>> from hockeystick.learners.federated import OneGoodExpert
        >>> stream = OneGoodExpert(clients=2, rounds=1000, experts=3, gap=0.4, best=1)
        >>> stream.losses(np.random.default_rng(1)).mean(axis=(0, 1)).round(1).tolist()
        [0.5, 0.1, 0.5]
    """

    gap: float = field(converter=_gap)
    best: int | None = field(default=None, converter=_best)

    def __attrs_post_init__(self) -> None:
        integer("best", self.best or 0, high=self.experts - 1)

    def start(self, rng: np.random.Generator) -> Draw:
        """Draws the good expert if ``best`` is None."""
        means = np.full(self.experts, 0.5)
        means[int(rng.integers(self.experts)) if self.best is None else self.best] -= self.gap
        uniforms = self._uniforms(rng)
        return lambda n: (uniforms(n) < means).astype(np.float64)


@frozen(kw_only=True)
class ClassDistributions(FederatedStream):
    """Losses of predicting a class: each client and round has a distribution over d classes, the softmax of Gaussians.

    The Gaussians are independent. Each class has its own mean and variance, drawn uniformly at the start. This is the
    model of Gao, Huang & Yang 2024, figures 1 and 4. They state no range of the means and variances; we chose [0, 1].

    Args:
        form: The entries of the stream, for a distribution p:

            * "expected": 1 - p. Expert n predicts class n, and its loss is the expected error: the cross-entropy of
              the paper, made affine. Such losses hardly vary between rounds;
            * "sampled": the error itself, 0 or 1, at a class drawn from p;
            * "distributions": p, for convex losses of it, such as the cross-entropy of a smoothed prediction.
        mean_low, mean_high: Range of the means.
        variance_low, variance_high: Range of the variances, >= 0.

    Example:
        >>> import numpy as np
        >>> from hockeystick.learners.federated import ClassDistributions
        >>> stream = ClassDistributions(clients=2, rounds=5, experts=3, form="distributions")
        >>> stream.losses(np.random.default_rng(1)).sum(axis=2).round(6).tolist()
        [[1.0, 1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0, 1.0]]
    """

    form: Form = "expected"
    mean_low: float = field(default=0.0, converter=_any)
    mean_high: float = field(default=1.0, converter=_any)
    variance_low: float = field(default=0.0, converter=_variance)
    variance_high: float = field(default=1.0, converter=_variance)

    def __attrs_post_init__(self) -> None:
        one_of("form", self.form, *get_args(Form))
        real("mean_high", self.mean_high, low=self.mean_low)
        real("variance_high", self.variance_high, low=self.variance_low)

    def start(self, rng: np.random.Generator) -> Draw:
        """Draws the means and variances."""
        array_length("experts", self.experts, 2 * self.experts)
        means = rng.uniform(self.mean_low, self.mean_high, self.experts)
        deviations = np.sqrt(rng.uniform(self.variance_low, self.variance_high, self.experts))
        gaussians, labels = rng.spawn(2)  # so that blocks don't matter

        def draw(n: int) -> FloatArray:
            scores = means + deviations * gaussians.standard_normal((n, self.clients, self.experts))
            scores -= scores.max(axis=2, keepdims=True)
            p = np.exp(scores, out=scores)
            p /= p.sum(axis=2, keepdims=True)
            if self.form == "distributions":
                return p.swapaxes(0, 1)
            if self.form == "expected":
                return (1.0 - p).swapaxes(0, 1)
            upto = np.cumsum(p, axis=2)
            passed = upto <= labels.random((n, self.clients, 1)) * upto[:, :, -1:]
            found = np.ones_like(p)
            np.put_along_axis(found, passed.sum(axis=2, keepdims=True), 0.0, axis=2)
            return found.swapaxes(0, 1)

        return draw


@frozen(kw_only=True)
class Targets(FederatedStream):
    """Points y near one point y*, for the losses ||x - y||^2 / 2 of points x of the simplex.

    y* is drawn at the start, uniformly from the simplex, and y is uniform in the cube of half-width ``spread`` around
    it. Then |x - y| <= 1 + spread in every coordinate: the losses are (1 + spread)-Lipschitz in the 1-norm, and
    1/2-smooth between points of the simplex. Their expectation is least at y*.

    Args:
        spread: > 0, at most 1e100.

    Example:
        >>> import numpy as np
        >>> from hockeystick.learners.federated import Targets
        >>> points = Targets(clients=2, rounds=500, experts=3).losses(np.random.default_rng(1))
        >>> round(float(points.mean(axis=(0, 1)).sum()), 1)  # the mean is near y*, whose coordinates sum to 1
        1.0
    """

    spread: float = field(default=0.2, converter=_spread)

    def start(self, rng: np.random.Generator) -> Draw:
        """Draws y*."""
        centre = rng.dirichlet(zeros(self.experts) + 1.0)
        uniforms = self._uniforms(rng)
        return lambda n: centre + self.spread * (2.0 * uniforms(n) - 1.0)


def hard_gap(*, clients: int, records: int, experts: int, noise: float) -> float:
    """Returns the order of the gap that n records per client can hardly reveal: sqrt(ln(d)/(m n)) + noise.

    The first term is the order by which the mean of one of d equal experts stands out by chance; ``noise`` is the scale
    of the noise on the average. A learner's regret falls with m at the rate of its bound only if the gap shrinks at
    that rate too; with a fixed gap the regret falls faster.

    Args:
        clients: m >= 1.
        records: n >= 1 of each client.
        experts: d >= 2.
        noise: >= 0.

    Raises:
        InvalidArgumentError: an argument outside its domain.

    Example:
        >>> from hockeystick.learners.federated import hard_gap
        >>> round(hard_gap(clients=100, records=64, experts=16, noise=0.01), 4)
        0.0308
    """
    m, n, d = arguments.clients(clients), integer("records", records, low=1), arguments.experts(experts)
    return math.sqrt(math.log(d) / (m * n)) + real("noise", noise, low=0.0)
