"""Lower bounds on the regret of federated private learners of experts, and the printed bounds beside them.

Gao, Huang & Yang 2024 give two lower bounds on regret per client,
Reg = (1/m) [sum over i, t of l_it(x_it) - min_x sum over i, t of l_it(x)].

* **Theorem 2**, for losses that all clients share: Omega(sqrt(T ln d) + min(ln(d)/ε, T)) for every m. The first term
  is correct; :func:`shared_floor` computes it exactly. The second term, :func:`printed_private_floor`, is wrong: a
  changed round changes m losses, so the argument proves the term for m ε only, and
  :class:`~hockeystick.learners.federated.noisy_hedge.NoisyHedge` falls below it. (The term is correct if a round of
  all clients is protected as one record.)
* **Theorem 3**, for an expert that never loses: order ln(d) / (m ε). It is correct. :func:`theorem_3` evaluates the
  printed bound with its constants; :func:`packing_floor` needs no conditions and is mostly 20 times as large.

:func:`regret_floor` is the corrected Theorem 2. All bounds are for learners that are (ε, δ)-DP against an
adversary who sees all plays, when one client's loss of one round is replaced, and that play round t before they see its
losses. The bounds hold on average over the adversary's coins or its secret expert, and so for some sequence of losses.

The printed proofs use two reductions: :func:`policy_average`, to one player, and :func:`printed_one_select` (Algorithm
6), from selection to online learning. The second is wrong; :func:`one_select` is the corrected form.
"""

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from attrs import field, frozen
from scipy import stats

from hockeystick.accounting import InvalidArgumentError, InvalidDataError
from hockeystick.accounting.arrays import FloatArray, IntArray
from hockeystick.accounting.validate import array, integer, probability
from hockeystick.learners.common import arguments
from hockeystick.learners.common.printed_claims import Condition, PrintedFloor
from hockeystick.mechanisms.contract.arguments import generator, zeros

_SOURCE = "Gao, Huang & Yang 2024"

Algorithm = Callable[[FloatArray, np.random.Generator], IntArray]
"""An online algorithm: takes losses of shape (runs, n, d), returns the expert of each round, shape (runs, n)."""


def _changed(value: object) -> int:
    return integer("entries", value, low=1)


# --- proved bounds ---------------------------------------------------------------------------------------------------


@frozen
class RegretFloor:
    """A lower bound on the regret per client: the larger of two bounds.

    Attributes:
        shared: For losses that are coins and that all clients share. It holds for every learner, private or not.
        packing: For losses with one secret expert that never loses. It holds for private learners.
    """

    shared: float
    packing: float

    @property
    def value(self) -> float:
        """The larger of the two bounds."""
        return max(self.shared, self.packing)


def regret_floor(*, clients: int, rounds: int, experts: int, epsilon: float, delta: float = 0.0) -> RegretFloor:
    """Returns a lower bound on the regret per client of every (ε, δ)-DP federated learner.

    Some oblivious sequence of losses attains it. This is Theorem 2, corrected: sqrt(T ln(d) / 2) asymptotically, and
    about ln(d) / (m ε) for the price of privacy.

    Args:
        clients: m >= 1.
        rounds: T >= 1.
        experts: d >= 2.
        epsilon: > 0.
        delta: In [0, 1].
    """
    return RegretFloor(
        shared_floor(rounds=rounds, experts=experts),
        packing_floor(clients=clients, rounds=rounds, experts=experts, epsilon=epsilon, delta=delta),
    )


def shared_floor(*, rounds: int, experts: int) -> float:
    """Returns the expected regret of every learner on :func:`shared_losses`: T/2 - E min of d binomials (T, 1/2).

    The losses of a round are independent of the plays of that round, so this is the regret itself and not only a
    bound, for any number of clients. Its ratio to sqrt(T ln(d) / 2) tends to 1 as first T and then d grow: for many
    rounds the ratio is 0.48 for 2 experts, 0.81 for 64 and 0.87 for 1000.
    """
    return _half_less_least(arguments.rounds(rounds), arguments.experts(experts))


def independent_floor(*, clients: int, rounds: int, experts: int) -> float:
    """Returns the expected regret if each client has its own coins: about 1/sqrt(m) of :func:`shared_floor`."""
    clients = arguments.clients(clients)
    return _half_less_least(clients * arguments.rounds(rounds), arguments.experts(experts)) / clients


def packing_floor(
    *,
    clients: int,
    rounds: int,
    experts: int,
    epsilon: float,
    delta: float = 0.0,
    entries: int | None = None,
) -> float:
    """Returns a lower bound on the regret per client against a :class:`PackingAdversary`, averaged over its expert j.

    Let k losses have changed before a play. On sequences without changes the probabilities of playing j, over all j,
    sum to 1. With k losses changed they are on average at most g_k(1/d), where g_k is the trade-off curve of a k-fold
    group of (ε, δ)-DP (Dong, Roth & Su 2022, Theorem 2.14), which is concave. Every play of a changed entry
    loses 1 unless it is j, and j never loses. Hence

        m Reg >= sum over changed entries of 1 - g_k(1/d),

    about ln(d) / ε in all. (Fewer entries may give a little more, by less than 1 per client.) With clients = 1 it
    bounds the regret of learners that protect a round of all clients as one record, for any number of clients.

    Args:
        clients: m >= 1.
        rounds: T >= 1.
        experts: d >= 2.
        epsilon: > 0.
        delta: In [0, 1].
        entries: q in 1 .. m T, the number of changed entries at the end; None for all.
    """
    adversary = PackingAdversary(
        clients=clients,
        rounds=rounds,
        experts=experts,
        entries=arguments.clients(clients) * arguments.rounds(rounds) if entries is None else entries,
    )
    partial, whole = adversary.entries % adversary.clients, adversary.entries // adversary.clients
    changes = partial + adversary.clients * np.arange(whole, dtype=np.float64)
    missed = 1.0 - group_curve(1.0 / adversary.experts, changes, epsilon=epsilon, delta=delta)
    return float(missed.sum()) + partial / adversary.clients * (1.0 - 1.0 / adversary.experts)


def group_curve(chance: float, changes: npt.ArrayLike, *, epsilon: float, delta: float = 0.0) -> FloatArray:
    """Returns the largest probability, after k records change, of an event that had probability ``chance``.

    Under (ε, δ)-DP one change takes p to min(e^ε p + δ, 1 - e^-ε (1 - δ - p)) at most. This is
    the k-fold iterate in closed form.

    Args:
        chance: p in [0, 1].
        changes: k >= 0, whole numbers, of any shape.
        epsilon: > 0.
        delta: In [0, 1].
    """
    p, eps, delta = probability("chance", chance), arguments.epsilon(epsilon), probability("delta", delta)
    k = np.asarray(changes, dtype=np.float64)
    if not np.isfinite(k).all() or (k < 0.0).any() or (k != np.floor(k)).any():
        raise InvalidArgumentError("changes", changes, "are not whole numbers >= 0", "give counts of changed records")
    # Up to the turn the first branch is the smaller one, from there on the second: p grows, and then 1 - p shrinks.
    turn = (1.0 - delta) / (1.0 + math.exp(min(eps, 700.0)))
    steps = 0
    if p <= turn and (p > 0.0 or delta > 0.0):
        offset = delta / math.expm1(eps) if eps < 700.0 else 0.0  # p + offset grows by e^eps
        steps = max(0, math.floor((math.log(turn + offset) - math.log(p + offset)) / eps))
        # One step too many or too few takes the larger branch, so that a lower bound errs downwards.
        steps += int(_grown(p, steps, eps, delta) <= turn)
    elif p <= turn:
        return np.zeros(k.shape)
    reached = _grown(p, steps, eps, delta)
    growing = _grown(p, np.minimum(k, steps), eps, delta)
    more = np.maximum(k - steps, 0.0)
    left = np.exp(-eps * more) * (1.0 - reached) - delta * -np.expm1(-eps * more) / math.expm1(min(eps, 700.0))
    return np.where(k <= steps, growing, 1.0 - np.maximum(left, 0.0))


def _grown(p: float, steps: npt.ArrayLike, epsilon: float, delta: float) -> FloatArray:
    """p e^(k ε) + δ (e^(k ε) - 1) / (e^ε - 1), at most 1."""
    k = np.asarray(steps, dtype=np.float64)
    growth = np.minimum(epsilon * k, 700.0)
    return np.minimum(p * np.exp(growth) + delta * np.expm1(growth) / math.expm1(min(epsilon, 700.0)), 1.0)


def _half_less_least(trials: int, experts: int) -> float:
    """n/2 - E min of d binomials (n, 1/2)."""
    # The sum over k of P(min > k) around the middle; beyond 12 standard deviations less than 1e-30 remains.
    spread = 6.0 * math.sqrt(trials)
    low, high = max(0, math.floor(trials / 2.0 - spread)), min(trials, math.ceil(trials / 2.0 + spread))
    survivors = stats.binom.sf(np.arange(low, high), trials, 0.5)
    return trials / 2.0 - low - float(np.sum(survivors**experts))


# --- adversaries -----------------------------------------------------------------------------------------------------


def shared_losses(*, rounds: int, experts: int, rng: np.random.Generator) -> FloatArray:
    """Returns fair coins of shape (rounds, experts): the losses of every client, and so also their average."""
    shape = (arguments.rounds(rounds), arguments.experts(experts))
    return rng.integers(0, 2, size=shape).astype(np.float64)


@frozen(kw_only=True)
class PackingAdversary:
    """Losses that are 0 before the last q entries, in which all experts but a secret one lose 1.

    An entry is one client's losses of one round. Entries are ordered by round, and within a round by client.
    Source: Gao, Huang & Yang 2024, the construction of Theorem 3.

    Args:
        clients: m >= 1.
        rounds: T >= 1.
        experts: d >= 2.
        entries: q in 1 .. m T.

    Example:
        >>> from hockeystick.learners.federated import PackingAdversary
        >>> adversary = PackingAdversary(clients=2, rounds=3, experts=2, entries=3)
        >>> adversary.average(0).tolist()  # expert 0 never loses; half of round 1 and all of round 2 are changed
        [[0.0, 0.0], [0.0, 0.5], [0.0, 1.0]]
    """

    clients: int = field(converter=arguments.clients)
    rounds: int = field(converter=arguments.rounds)
    experts: int = field(converter=arguments.experts)
    entries: int = field(converter=_changed)

    def __attrs_post_init__(self) -> None:
        integer("entries", self.entries, low=1, high=self.clients * self.rounds)

    @classmethod
    def printed(cls, *, clients: int, rounds: int, experts: int, epsilon: float) -> "PackingAdversary":
        """Returns the adversary of Theorem 3: q = floor(min(m T, ln(d) / (2 ε))).

        Raises:
            InvalidArgumentError: q is 0.
        """
        return cls(clients=clients, rounds=rounds, experts=experts, entries=_entries(clients, rounds, experts, epsilon))

    def average(self, expert: int) -> FloatArray:
        """Returns the losses averaged over clients, shape (rounds, experts); ``expert`` is the one that never loses."""
        j = integer("expert", expert, low=0, high=self.experts - 1)
        found, changed = zeros((self.rounds, self.experts)), np.zeros(self.rounds)
        whole, partial = divmod(self.entries, self.clients)
        changed[self.rounds - whole :] = 1.0
        if partial:
            changed[self.rounds - whole - 1] = partial / self.clients
        found += changed[:, None]
        found[:, j] = 0.0
        return found

    def losses(self, expert: int) -> FloatArray:
        """Returns the losses, shape (clients, rounds, experts)."""
        j = integer("expert", expert, low=0, high=self.experts - 1)
        found = zeros((self.clients, self.rounds, self.experts))
        changed = np.zeros(self.clients * self.rounds)
        changed[-self.entries :] = 1.0
        found += changed.reshape(self.rounds, self.clients).T[:, :, None]
        found[:, :, j] = 0.0
        return found


def _entries(clients: int, rounds: int, experts: int, epsilon: float) -> int:
    wanted = math.log(arguments.experts(experts)) / (2.0 * arguments.epsilon(epsilon))
    return math.floor(min(float(arguments.clients(clients) * arguments.rounds(rounds)), wanted))


# --- reductions ------------------------------------------------------------------------------------------------------


def policy_average(policies: npt.ArrayLike) -> FloatArray:
    """Returns the mean policy of m clients: on losses that they share, its regret is their regret per client.

    Regret is linear in the policy, so the two are equal exactly. Privacy differs: a changed round changes the losses of
    m clients, so the mean policy of an ε-DP federated learner is only m ε-DP. Source: Gao, Huang & Yang 2024, proof of
    Theorem 2.

    Args:
        policies: Shape (m, T, d): the law over experts of each client in each round.

    Returns:
        Shape (T, d).

    Raises:
        InvalidArgumentError: not m x T laws over experts.

    Example:
        >>> import numpy as np
        >>> from hockeystick.learners.federated import federated_regret, policy_average
        >>> policies = np.array([[[1.0, 0.0]], [[0.5, 0.5]]])  # two clients, one round
        >>> policy_average(policies).tolist()
        [[0.75, 0.25]]
        >>> shared = np.array([[1.0, 0.0]])
        >>> federated_regret(policies, [shared, shared]), federated_regret([policy_average(policies)], [shared])
        (0.75, 0.75)
    """
    return np.asarray(_laws(policies).mean(axis=0))


def federated_regret(policies: npt.ArrayLike, losses: npt.ArrayLike) -> float:
    """Returns the expected regret per client of plays drawn from ``policies``, against the best expert for all clients.

    See :func:`policy_average` for an example.

    Args:
        policies: Shape (m, T, d): laws over experts; one-hot for known plays.
        losses: Shape (m, T, d), entries in [0, 1].

    Raises:
        InvalidArgumentError: shapes that differ, losses outside [0, 1], or a law that does not sum to 1.
    """
    laws = _laws(policies)
    given = array("losses", losses, shape=laws.shape, low=0.0, high=1.0, data=True)
    return float((np.sum(laws * given) - given.sum(axis=(0, 1)).min()) / len(laws))


def _laws(policies: npt.ArrayLike) -> FloatArray:
    laws = array("policies", policies, shape=(None, None, None), low=0.0, high=1.0)
    if not laws.size or np.abs(laws.sum(axis=2) - 1.0).max() > 1e-9:
        raise InvalidArgumentError("policies", laws.shape, "are not laws over experts", "give rows that sum to 1")
    return np.asarray(laws)


def printed_one_select(records: npt.ArrayLike, algorithm: Algorithm, rng: np.random.Generator) -> IntArray:
    """Returns the expert that an online algorithm plays last: selection as printed, which low regret does not justify.

    An algorithm can end with the worst expert at a cost of 1 in regret. See :func:`one_select`, the corrected form, for
    an example. Source: Gao, Huang & Yang 2024, Algorithm 6, after Jain et al. 2023.

    Args:
        records: Shape (runs, n, d), entries in [0, 1].
        algorithm: The online algorithm that plays on the records.
        rng: The generator of the algorithm.

    Returns:
        Shape (runs,).

    Raises:
        InvalidArgumentError: an argument outside its domain, or plays that are not one expert for each round.
        InvalidDataError: records without an entry, or outside [0, 1].
    """
    return np.asarray(_plays(records, algorithm, rng)[:, -1])


def one_select(records: npt.ArrayLike, algorithm: Algorithm, rng: np.random.Generator) -> IntArray:
    """Returns the expert that an online algorithm plays in a uniformly random round: Algorithm 6, corrected.

    If the records of a run are independent draws from one source, each play is independent of the record of its round.
    So its mean loss on a fresh record exceeds that of the best expert by at most the expected regret over n (online to
    batch; Cesa-Bianchi, Conconi & Gentile 2004).

    Args:
        records: Shape (runs, n, d), entries in [0, 1].
        algorithm: The online algorithm that plays on the records.
        rng: Its children draw for the algorithm and choose the rounds.

    Returns:
        Shape (runs,).

    Raises:
        InvalidArgumentError: an argument outside its domain, or plays that are not one expert for each round.
        InvalidDataError: records without an entry, or outside [0, 1].

    Example:
        >>> import numpy as np
        >>> from hockeystick.learners.federated import one_select, printed_one_select
        >>> def ends_badly(records, rng):  # expert 0, which never loses, until the last round
        ...     plays = np.zeros(records.shape[:2], dtype=int)
        ...     plays[:, -1] = 1
        ...     return plays
        >>> rng = np.random.default_rng(1)
        >>> records = np.tile([0.0, 1.0], (1000, 50, 1))
        >>> printed_one_select(records, ends_badly, rng).mean().item()  # its regret is 1, in 50 rounds
        1.0
        >>> one_select(records, ends_badly, rng).mean().item() < 0.05
        True
    """
    playing, choosing = generator(rng).spawn(2)
    plays = _plays(records, algorithm, playing)
    runs, rounds = plays.shape
    return np.asarray(plays[np.arange(runs), choosing.integers(0, rounds, size=runs)])


def _plays(records: npt.ArrayLike, algorithm: Algorithm, rng: np.random.Generator) -> IntArray:
    given = array("records", records, shape=(None, None, None), low=0.0, high=1.0, data=True)
    if not given.size:
        raise InvalidDataError("records", given, "is empty", "give at least one record of one run")
    plays = np.asarray(algorithm(given, rng))
    whole = plays.shape == given.shape[:2] and plays.dtype.kind in "iu"
    if not whole or plays.min() < 0 or plays.max() >= given.shape[2]:
        raise InvalidArgumentError(
            "algorithm", plays.shape, "does not play one expert in each round", "return integers of shape (runs, n)"
        )
    return np.asarray(plays, dtype=np.int64)


# --- printed bounds --------------------------------------------------------------------------------------------------


def printed_private_floor(*, clients: int, rounds: int, experts: int, epsilon: float) -> PrintedFloor:
    """Returns the term for privacy of Theorem 2, min(ln(d)/ε, T), without its constant. It is false for many clients.

    The printed argument proves the term for ``clients`` times ε.
    """
    arguments.clients(clients)
    rounds, experts, epsilon = arguments.rounds(rounds), arguments.experts(experts), arguments.epsilon(epsilon)
    value = min(math.log(experts) / epsilon, float(rounds))
    return PrintedFloor(
        value, (Condition("epsilon <= 1", epsilon, 1.0, epsilon <= 1.0),), f"{_SOURCE}, Theorem 2 (does not hold)"
    )


def theorem_3(*, clients: int, rounds: int, experts: int, epsilon: float, delta: float = 0.0) -> PrintedFloor:
    """Returns the bound of Theorem 3 with its constants: q / (16 m), q = floor(min(m T, ln(d) / (2 ε))).

    :func:`packing_floor` is larger and needs no condition. The result lists the conditions of the printed proof; the
    one on the number of experts is the inequality that its argument by contradiction needs.
    """
    q = _entries(clients, rounds, experts, epsilon)
    delta = probability("delta", delta)
    margin = packing_margin(experts, pure=delta == 0.0)
    return PrintedFloor(
        q / (16.0 * clients),
        (
            Condition("epsilon <= 1", epsilon, 1.0, epsilon <= 1.0),
            Condition("delta <= epsilon / d", delta, epsilon / experts, delta <= epsilon / experts),
            Condition("(d/2 - 1)(1/(2 sqrt d) - ln(d)/(2d)) > 1/2", margin, 0.5, margin > 0.5),
        ),
        f"{_SOURCE}, Theorem 3, with q entries at the end",
    )


def packing_margin(experts: int, *, pure: bool = False) -> float:
    """Returns (d/2 - 1) (1/(2 sqrt d) - ln(d)/(2d)), which the proof of Theorem 3 needs to be above 1/2.

    The last term accounts for δ = ε/d: 32 experts are enough. Under ``pure`` privacy it is 0, and 8 are enough.
    """
    d = arguments.experts(experts)
    return (d / 2.0 - 1.0) * (0.5 / math.sqrt(d) - (0.0 if pure else 0.5 * math.log(d) / d))


def printed_step(experts: int) -> Condition:
    """Returns the printed step 1/(2 sqrt d) - ln(d)/(2d) >= 1/(4 sqrt d): stated for d >= 32, true from 75 on."""
    d = arguments.experts(experts)
    value, limit = 0.5 / math.sqrt(d) - 0.5 * math.log(d) / d, 0.25 / math.sqrt(d)
    return Condition("1/(2 sqrt d) - ln(d)/(2d) >= 1/(4 sqrt d)", value, limit, value >= limit)
