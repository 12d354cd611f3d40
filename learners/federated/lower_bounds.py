"""What no federated private learner of experts can do better, in numbers, and what was printed about it.

Gao, Huang & Yang 2024 give two lower bounds on regret per client,
Reg = (1/m) [sum over i, t of l_it(x_it) - min_x sum over i, t of l_it(x)].

* **Theorem 2**, all clients have the same losses: Omega(sqrt(T ln d) + min(ln(d)/eps, T)) for every m. The first term
  is right, and here exact: :func:`shared_floor`. The second, :func:`printed_private_floor`, is not: a changed round
  changes m losses, so the argument shows it for m eps, and
  :class:`~hockeystick.learners.federated.noisy_hedge.NoisyHedge` goes below it. (It stands where a whole round of all
  clients is protected as one.)
* **Theorem 3**, one expert without loss: order ln(d) / (m eps). It stands. :func:`theorem_3` has the printed argument
  with its constants; :func:`packing_floor` is a direct argument without its conditions, mostly 20 times as strong.

:func:`regret_floor` is what holds of Theorem 2. All floors are for learners that are (eps, delta)-DP for who sees all
plays, under replacement of one client's loss of one round, and that play round t before they hear its losses. They hold
on average over the adversary's coins or its secret expert, hence on some sequence.
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

_SOURCE = "Gao, Huang & Yang 2024"

Algorithm = Callable[[FloatArray, np.random.Generator], IntArray]
"""An online algorithm: from losses of shape (runs, n, d), the expert of each round, shape (runs, n)."""


def _changed(value: object) -> int:
    return integer("entries", value, low=1)


# --- what holds ------------------------------------------------------------------------------------------------------


@frozen
class RegretFloor:
    """A lower bound on regret per client, and the two bounds that it is the larger of.

    Attributes:
        shared: On coin losses that all clients share: for all learners, private or not.
        packing: On losses with one secret expert that never loses: for private learners.
    """

    shared: float
    packing: float

    @property
    def value(self) -> float:
        """The larger one."""
        return max(self.shared, self.packing)


def regret_floor(*, clients: int, rounds: int, experts: int, epsilon: float, delta: float = 0.0) -> RegretFloor:
    """What every (epsilon, delta)-DP federated learner's regret per client is at least, on some oblivious sequence.

    Theorem 2, corrected: sqrt(T ln(d) / 2) asymptotically, and about ln(d) / (m eps) for the price of privacy.

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
    """T/2 - E min of d independent binomials (T, 1/2): every learner's expected regret on :func:`shared_losses`.

    The losses of a round are independent of what is played in it, so that this is no bound but the regret itself,
    however many clients there are. Over sqrt(T ln(d) / 2) it tends to 1 as first T and then d grow: for many rounds it
    is 0.48 of that for 2 experts, 0.81 for 64 and 0.87 for 1000.
    """
    return _half_less_least(arguments.rounds(rounds), arguments.experts(experts))


def independent_floor(*, clients: int, rounds: int, experts: int) -> float:
    """The same where every client's losses are coins of their own: about 1/sqrt(m) of :func:`shared_floor`."""
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
    """A bound on the expected regret per client on a :class:`PackingAdversary`, on average over its expert j.

    Let k losses have changed before a play. On sequences without changes the chances of playing j, over all j, sum to
    1; so with k of them changed they are on average at most g_k(1/d), where g_k is the trade-off curve of a k-fold
    group of (eps, delta)-DP (Dong, Roth & Su 2022, Theorem 2.14), which is concave. Every play of a changed entry
    loses 1 unless it is j, and j never loses. Hence

        m Reg >= sum over changed entries of 1 - g_k(1/d),

    about ln(d) / eps in all. (Fewer entries may give a little more, by less than 1 per client.) For clients = 1 it
    bounds the regret of learners that protect a whole round of all clients as one, whatever their number.

    Args:
        clients: m >= 1.
        rounds: T >= 1.
        experts: d >= 2.
        epsilon: > 0.
        delta: In [0, 1].
        entries: q in 1 .. m T, how many entries at the end are changed; None for all.
    """
    adversary = PackingAdversary(
        clients=clients,
        rounds=rounds,
        experts=experts,
        entries=arguments.clients(clients) * arguments.rounds(rounds) if entries is None else entries,
    )
    partial, whole = adversary.entries % adversary.clients, adversary.entries // adversary.clients
    heard = partial + adversary.clients * np.arange(whole, dtype=np.float64)
    missed = 1.0 - group_curve(1.0 / adversary.experts, heard, epsilon=epsilon, delta=delta)
    return float(missed.sum()) + partial / adversary.clients * (1.0 - 1.0 / adversary.experts)


def group_curve(chance: float, changes: npt.ArrayLike, *, epsilon: float, delta: float = 0.0) -> FloatArray:
    """How probable an event of probability ``chance`` can become when k records change, under (epsilon, delta)-DP.

    One change takes p to min(e^eps p + delta, 1 - e^-eps (1 - delta - p)); this is the k-fold iterate, in closed form.

    Args:
        chance: p in [0, 1].
        changes: k >= 0, whole numbers, of any shape.
        epsilon: > 0.
        delta: In [0, 1].
    """
    p, eps, delta = probability("chance", chance), arguments.epsilon(epsilon), probability("delta", delta)
    k = np.asarray(changes, dtype=np.float64)
    if not np.isfinite(k).all() or (k < 0.0).any() or (k != np.floor(k)).any():
        raise InvalidArgumentError("changes", changes, "are no whole numbers >= 0")
    # Up to the turn the first branch is the less, from it on the second: p grows, and then 1 - p shrinks.
    turn = (1.0 - delta) / (1.0 + math.exp(min(eps, 700.0)))
    steps = 0
    if p <= turn and (p > 0.0 or delta > 0.0):
        offset = delta / math.expm1(eps) if eps < 700.0 else 0.0  # p + offset grows by e^eps
        steps = max(0, math.floor((math.log(turn + offset) - math.log(p + offset)) / eps))
        # One step too many or too few takes the branch that is not the less, so that a floor errs downwards.
        steps += int(_grown(p, steps, eps, delta) <= turn)
    elif p <= turn:
        return np.zeros(k.shape)
    reached = _grown(p, steps, eps, delta)
    growing = _grown(p, np.minimum(k, steps), eps, delta)
    more = np.maximum(k - steps, 0.0)
    left = np.exp(-eps * more) * (1.0 - reached) - delta * -np.expm1(-eps * more) / math.expm1(min(eps, 700.0))
    return np.where(k <= steps, growing, 1.0 - np.maximum(left, 0.0))


def _grown(p: float, steps: npt.ArrayLike, epsilon: float, delta: float) -> FloatArray:
    """p e^(k eps) + delta (e^(k eps) - 1) / (e^eps - 1), at most 1."""
    k = np.asarray(steps, dtype=np.float64)
    growth = np.minimum(epsilon * k, 700.0)
    return np.minimum(p * np.exp(growth) + delta * np.expm1(growth) / math.expm1(min(epsilon, 700.0)), 1.0)


def _half_less_least(trials: int, experts: int) -> float:
    """n/2 - E min of d binomials (n, 1/2)."""
    # The sum over k of P(min > k), around the middle; 12 standard deviations away less than 1e-30 is left.
    spread = 6.0 * math.sqrt(trials)
    low, high = max(0, math.floor(trials / 2.0 - spread)), min(trials, math.ceil(trials / 2.0 + spread))
    survivors = stats.binom.sf(np.arange(low, high), trials, 0.5)
    return trials / 2.0 - low - float(np.sum(survivors**experts))


# --- adversaries -----------------------------------------------------------------------------------------------------


def shared_losses(*, rounds: int, experts: int, rng: np.random.Generator) -> FloatArray:
    """Fair coins, shape (rounds, experts), that every client is given: averaged over clients they are themselves."""
    shape = (arguments.rounds(rounds), arguments.experts(experts))
    return rng.integers(0, 2, size=shape).astype(np.float64)


@frozen(kw_only=True)
class PackingAdversary:
    """Losses that are 0 until the last q entries, where all experts lose but a secret one (Theorem 3's construction).

    Entries are a client's losses of a round, in the order of rounds and within a round of clients.

    Args:
        clients: m >= 1.
        rounds: T >= 1.
        experts: d >= 2.
        entries: q in 1 .. m T.
    """

    clients: int = field(converter=arguments.clients)
    rounds: int = field(converter=arguments.rounds)
    experts: int = field(converter=arguments.experts)
    entries: int = field(converter=_changed)

    def __attrs_post_init__(self) -> None:
        integer("entries", self.entries, low=1, high=self.clients * self.rounds)

    @classmethod
    def printed(cls, *, clients: int, rounds: int, experts: int, epsilon: float) -> "PackingAdversary":
        """The one of Theorem 3: q = floor(min(m T, ln(d) / (2 eps))).

        Raises:
            InvalidArgumentError: q is 0.
        """
        return cls(clients=clients, rounds=rounds, experts=experts, entries=_entries(clients, rounds, experts, epsilon))

    def average(self, expert: int) -> FloatArray:
        """The losses averaged over clients, shape (rounds, experts), where ``expert`` is the one that never loses."""
        j = integer("expert", expert, low=0, high=self.experts - 1)
        changed = np.zeros(self.rounds)
        whole, partial = divmod(self.entries, self.clients)
        changed[self.rounds - whole :] = 1.0
        if partial:
            changed[self.rounds - whole - 1] = partial / self.clients
        found = np.repeat(changed[:, None], self.experts, axis=1)
        found[:, j] = 0.0
        return found

    def losses(self, expert: int) -> FloatArray:
        """The losses themselves, shape (clients, rounds, experts)."""
        j = integer("expert", expert, low=0, high=self.experts - 1)
        changed = np.zeros(self.clients * self.rounds)
        changed[-self.entries :] = 1.0
        found = np.repeat(changed.reshape(self.rounds, self.clients).T[:, :, None], self.experts, axis=2)
        found[:, :, j] = 0.0
        return found


def _entries(clients: int, rounds: int, experts: int, epsilon: float) -> int:
    wanted = math.log(arguments.experts(experts)) / (2.0 * arguments.epsilon(epsilon))
    return math.floor(min(float(arguments.clients(clients) * arguments.rounds(rounds)), wanted))


# --- reductions ------------------------------------------------------------------------------------------------------


def policy_average(policies: npt.ArrayLike) -> FloatArray:
    """The single player's policy that does as well as m clients on losses that they share.

    Regret is linear in the policy, so that with losses shared by all clients the regret per client is exactly that of
    the mean policy. It is *not* as private: a changed round changes m clients' losses.

    Args:
        policies: Shape (m, T, d): in each round each client's law over experts.

    Returns:
        Shape (T, d).
    """
    return np.asarray(_laws(policies).mean(axis=0))


def federated_regret(policies: npt.ArrayLike, losses: npt.ArrayLike) -> float:
    """Expected regret per client of clients that draw from ``policies``, against the best expert for all of them.

    Args:
        policies: Shape (m, T, d); one-hot for plays that are known.
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
    """Selects an expert by an online algorithm as printed (Algorithm 6, after Jain et al. 2023): its last play.

    Low regret says nothing about one play: an algorithm may end with the worst expert at a cost of 1.

    Args:
        records: Shape (runs, n, d), entries in [0, 1].
        algorithm: What plays on them.
        rng: Of the algorithm.

    Returns:
        Shape (runs,).
    """
    return np.asarray(_plays(records, algorithm, rng)[:, -1])


def one_select(records: npt.ArrayLike, algorithm: Algorithm, rng: np.random.Generator) -> IntArray:
    """Selects an expert by an online algorithm: its play of a uniformly random round.

    Where a run's records are independent draws from one source, each play is independent of the record that it is
    judged by. So its mean loss on a fresh record exceeds the best expert's by at most the expected regret over n
    (online to batch; Cesa-Bianchi, Conconi & Gentile 2004). Arguments and result are those of
    :func:`printed_one_select`.
    """
    playing, choosing = rng.spawn(2)
    plays = _plays(records, algorithm, playing)
    runs, rounds = plays.shape
    return np.asarray(plays[np.arange(runs), choosing.integers(0, rounds, size=runs)])


def _plays(records: npt.ArrayLike, algorithm: Algorithm, rng: np.random.Generator) -> IntArray:
    given = array("records", records, shape=(None, None, None), low=0.0, high=1.0, data=True)
    if not given.size:
        raise InvalidDataError("records", given, "is empty", "give at least one record of one run")
    plays = np.asarray(algorithm(given, rng))
    if (
        plays.shape != given.shape[:2]
        or plays.dtype.kind not in "iu"
        or plays.min() < 0
        or plays.max() >= given.shape[2]
    ):
        raise InvalidArgumentError("algorithm", plays.shape, "does not play one of the experts in every round")
    return np.asarray(plays, dtype=np.int64)


# --- what is printed -------------------------------------------------------------------------------------------------


def printed_private_floor(*, clients: int, rounds: int, experts: int, epsilon: float) -> PrintedFloor:
    """Theorem 2's term for privacy, min(ln(d)/eps, T), without its constant: refuted for many clients.

    What its argument shows is this at ``clients`` times epsilon.
    """
    arguments.clients(clients)
    rounds, experts, epsilon = arguments.rounds(rounds), arguments.experts(experts), arguments.epsilon(epsilon)
    value = min(math.log(experts) / epsilon, float(rounds))
    return PrintedFloor(
        value, (Condition("epsilon <= 1", epsilon, 1.0, epsilon <= 1.0),), f"{_SOURCE}, Theorem 2 (does not hold)"
    )


def theorem_3(*, clients: int, rounds: int, experts: int, epsilon: float, delta: float = 0.0) -> PrintedFloor:
    """Theorem 3 with whole entries and its constants: q / (16 m), q = floor(min(m T, ln(d) / (2 eps))).

    A reference: :func:`packing_floor` is larger, and needs no condition. The printed proof's own conditions are listed,
    the one on the number of experts as the inequality that its argument by contradiction rests on.
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
    """What the proof of Theorem 3 needs to be above 1/2: (d/2 - 1) (1/(2 sqrt d) - ln(d)/(2d)).

    The last term is there for delta = eps/d; without it, under pure privacy, 8 experts are enough, with it 32.
    """
    d = arguments.experts(experts)
    return (d / 2.0 - 1.0) * (0.5 / math.sqrt(d) - (0.0 if pure else 0.5 * math.log(d) / d))


def printed_step(experts: int) -> Condition:
    """The printed step 1/(2 sqrt d) - ln(d)/(2d) >= 1/(4 sqrt d), stated for d >= 32: it holds for 75 and more."""
    d = arguments.experts(experts)
    value, limit = 0.5 / math.sqrt(d) - 0.5 * math.log(d) / d, 0.25 / math.sqrt(d)
    return Condition("1/(2 sqrt d) - ln(d)/(2d) >= 1/(4 sqrt d)", value, limit, value >= limit)
