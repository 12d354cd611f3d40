"""Hedge on noisy sums of the losses of all clients, for a number of rounds that is not known.

It is ``NoisyHedge`` with Gaussian noise on the sums of a ``HybridTree``: every doubling of the stream has a tree of its
own, and its total stays in all later sums. A run costs the same however long it becomes. The noise is padded to the
largest so far, and the rate falls from round to round.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from attrs import field, frozen
from scipy.special import softmax

from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import integer
from hockeystick.learners.common import arguments
from hockeystick.learners.common.noisy_sum_stream import Coins
from hockeystick.learners.common.regret_bound import Adversary, RegretBound, refuse_adaptive
from hockeystick.learners.experts import noisy_sum_bounds
from hockeystick.learners.experts.rising_noise import (
    MOST_ROUNDS,
    RisingNoise,
    calibrated_scale,
    checked_rounds,
    sums_of_losses,
)
from hockeystick.learners.federated.clients_hedge import ClientsHedge
from hockeystick.learners.network.protocol import Communication
from hockeystick.mechanisms import HybridTree


@frozen(kw_only=True)
class AnytimeNoisyHedge(ClientsHedge):
    """A federated learner of experts for a number of rounds that is not known; see ``NoisyHedge``.

    Neighbouring data differ in one loss vector of one client in one round, replaced by any other in [0, 1]^d
    (replace-one; clients and rounds keep their places). Losses do not depend on the plays (oblivious).

    For δ = 0 use ``Anytime`` with a function that calibrates ``NoisyHedge``.

    Sources: Chan, Shi & Song 2011 (the sums); Abernethy, Lee, Sinha & Tewari 2014 (smoothing).

    Args:
        clients: m >= 1.
        experts: d >= 2.
        scale: Standard deviation of the noise on the first round's sum of losses, per expert; see ``HybridTree``.
        rounds: The largest number of rounds, which changes nothing else.
        clip: Clip losses to [0, 1], infinite ones too, instead of refusing those outside; NaN is always refused.

    Raises:
        InvalidArgumentError: an argument outside its domain.

    Example:
        >>> learner = AnytimeNoisyHedge.calibrated(clients=50, experts=10, epsilon=0.5, delta=1e-6)
        >>> round(learner.guarantee("client").epsilon(1e-6).upper, 6)  # of a run of any length
        0.5
        >>> [round(learner.regret_bound(rounds), 1) for rounds in (10**3, 10**5)]  # per client
        [49.5, 480.1]
    """

    refuses = {
        "log_likelihood_ratio": "it belongs to the sums, which a run of mixtures does not show; see its mechanism",
        "expected_regret": "Hedge's law on noisy sums has no closed form; simulate, and see regrets()",
    }

    clients: int = field(converter=arguments.clients)
    experts: int = field(converter=arguments.experts)
    scale: float = field(converter=arguments.scale)
    rounds: int = field(default=MOST_ROUNDS, converter=checked_rounds)
    clip: bool = field(default=False, converter=arguments.clip)

    def __attrs_post_init__(self) -> None:
        _ = self.mechanism  # refuses a scale that is no noise

    @classmethod
    def calibrated(
        cls,
        *,
        clients: int,
        experts: int,
        epsilon: float,
        delta: float,
        group: int = 1,
        rounds: int = MOST_ROUNDS,
        clip: bool = False,
    ) -> AnytimeNoisyHedge:
        """Returns the learner with the least noise that is (ε, δ)-DP, for any number of rounds.

        It protects against all who do not see the clients' messages.

        Args:
            clients, experts, rounds, clip: As for the learner.
            epsilon: Target, > 0.
            delta: The δ of the target, in (0, 1).
            group: The target holds for so many losses together.
        """
        scale = calibrated_scale(experts=experts, epsilon=epsilon, delta=delta, group=group)
        return cls(clients=clients, experts=experts, scale=scale, rounds=rounds, clip=clip)

    @property
    def mechanism(self) -> HybridTree:
        """The prefix sums of all rounds but the last; replacing one loss vector moves them by up to sqrt(d) in L2."""
        return sums_of_losses(self.rounds, self.scale, self.experts)

    def communication(self, rounds: int) -> Communication:
        """Returns the numbers sent in so many rounds: d losses up from every client, and d weights down, in each."""
        each = self.clients * integer("rounds", rounds, low=1, high=self.rounds) * self.experts
        return Communication(up=each, down=each)

    def regret_bound(self, rounds: int | None = None, *, adversary: Adversary = "oblivious") -> RegretBound:
        """Returns a bound on the expected regret per client after so many rounds; see ``noisy_sum_bounds``.

        It is that of ``AnytimeTreeExperts`` with a noise that is divided by the number of clients.

        Args:
            rounds: The number of rounds that were played; None for the largest.
            adversary: "oblivious" or "stochastic".

        Raises:
            InvalidArgumentError: ``rounds`` is not in 1 .. ``self.rounds``, or losses are adaptive, which the plan
                excludes.
        """
        count = self.rounds if rounds is None else integer("rounds", rounds, low=1, high=self.rounds)
        checked = refuse_adaptive(adversary, "is excluded by the plan, whose losses do not depend on what is played")
        bound = noisy_sum_bounds.rising_hedge(self.experts, self._noise.pieces(count, self.clients))
        bound += self._rounding(count, self.mechanism.rounding(self.experts, max(1, count - 1)))
        return RegretBound(bound, most=count, adversary=checked)

    @property
    def _noise(self) -> RisingNoise:
        return RisingNoise.of(self.mechanism, self.experts)

    @property
    def _dearest_round(self) -> int:
        """The first round of the last tree that is whole."""
        return (1 << self.rounds.bit_length() - 2) - 1

    def _padded(self, sums: FloatArray, first: int, coins: Coins) -> FloatArray:
        """Returns the noisy sums before the rounds ``first`` …, padded, times their rates for the mean losses."""
        stop = first + sums.shape[-2]
        spreads = self._noise.between(first, stop)
        read = sums + self._noise.missing(spreads, first) * coins.normal.standard_normal(sums.shape)
        rates = noisy_sum_bounds.falling_rate(np.arange(first + 1, stop + 1), self.experts, spreads / self.clients)
        return np.asarray(read * (rates / self.clients)[:, None])

    def _mixtures_of(self, read: FloatArray) -> FloatArray:
        """Returns the laws after what their rounds read, in its shape."""
        return np.asarray(softmax(-read, axis=-1))

    def _whole_stream(self, losses: npt.ArrayLike, name: str) -> FloatArray:
        return self._shorter(losses, name)
