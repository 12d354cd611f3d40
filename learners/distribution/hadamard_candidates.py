"""The class of candidates for which local privacy costs most: pairs of laws that differ by a row of a Hadamard matrix.

There are K' pairs of laws over N = 2^n labels, N/2 <= K' <= N - 1. The first law of a pair is uniform on one half of
the labels; the second moves a share of a/2 of the mass to the other half:

    p_i1[y] = 0 where H[i+1, y] = 1, else 2/N,           p_i2[y] = p_i1[y] + a H[i+1, y]/N.

A channel cannot distinguish all pairs: rows are orthogonal, so by Parseval's equality the pairs share the power of a
message to distinguish them. For every ε-LDP channel

    sum over i of KL(messages under p_i1 || under p_i2) <= a^2 (e^(ε/2) - 1)^2,

and with the a of :meth:`HadamardClass.hardest` some pair cannot be distinguished in T rounds. The class depends on T.

Source: Sima, Wu, Milenkovic & Szpankowski 2024, Theorem 3 and Appendix A. The bound above, sharper than (23) and valid
for all ε, is ours, and so are a and the lower bound on the risk that follow from it.
"""

import math

import numpy as np
import numpy.typing as npt
from attrs import field, frozen

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.accounting.validate import array, integer, real
from hockeystick.learners.common import arguments
from hockeystick.learners.common.printed_claims import Condition
from hockeystick.learners.distribution.channels.candidates import LabelTable
from hockeystick.mechanisms.local.hadamard_response import walsh_hadamard

_MOST_PAIRS = 2**12


def _pairs(value: object) -> int:
    return integer("pairs", value, low=1, high=_MOST_PAIRS)


def _lean(value: object) -> float:
    return real("lean", value, low=0.0, high=1.0, low_open=True)


@frozen
class HadamardClass:
    """A class of 2 K' candidates over N labels, in the order p_11, p_12, p_21, p_22, ..

    Source: Sima, Wu, Milenkovic & Szpankowski 2024, Theorem 3 and Appendix A.

    Args:
        pairs: K' >= 1.
        lean: a in (0, 1].

    Raises:
        InvalidArgumentError: an argument outside its domain.

    Example:
        >>> from hockeystick.learners.distribution import HadamardClass
        >>> HadamardClass(1, lean=0.5).hypotheses().tables.tolist()  # one pair over 2 labels
        [[0.0, 1.0], [0.25, 0.75]]
        >>> round(HadamardClass.hardest(8, rounds=10_000, epsilon=1.0).lean, 4)
        0.0308
    """

    pairs: int = field(converter=_pairs)
    lean: float = field(converter=_lean, kw_only=True)

    @classmethod
    def hardest(cls, pairs: int, *, rounds: int, epsilon: float) -> "HadamardClass":
        """Returns the hardest class for T = ``rounds`` rounds: a = sqrt(2 K'/T) / (2 (e^(ε/2) - 1)).

        Raises:
            InvalidArgumentError: an argument outside its domain, or fewer rounds than 2 K' / (4 (e^(ε/2) - 1)^2).
        """
        count, growth = _pairs(pairs), math.expm1(min(arguments.epsilon(epsilon) / 2.0, 350.0))
        lean = math.sqrt(2.0 * count / integer("rounds", rounds, low=1)) / 2.0 / max(growth, 5e-324)
        if lean > 1.0:
            raise InvalidArgumentError("rounds", rounds, "are too few for the bound", "use more, or a larger epsilon")
        return cls(count, lean=lean)

    @property
    def labels(self) -> int:
        """The number of labels N, the power of two with N/2 <= K' <= N - 1."""
        return 1 << self.pairs.bit_length()

    @property
    def signs(self) -> npt.NDArray[np.int64]:
        """Rows 2 .. K' + 1 of the Sylvester matrix, shape (K', N)."""
        rows = np.eye(self.labels, dtype=np.int64)[1 : self.pairs + 1]
        return np.asarray(walsh_hadamard(rows), dtype=np.int64)

    def hypotheses(self) -> LabelTable:
        """Returns the candidates, a table of shape (2 K', N)."""
        signs, n = self.signs, self.labels
        first = np.where(signs == 1, 0.0, 2.0 / n)
        table = np.empty((2 * self.pairs, n))
        table[0::2] = first
        table[1::2] = first + self.lean * signs / n
        return LabelTable(table)

    def information(self, channel: npt.ArrayLike) -> float:
        """Returns the sum over pairs of KL(messages under p_i1 || under p_i2), for a finite channel.

        Args:
            channel: Probabilities of each message given each label, shape (N, messages); rows sum to 1.

        Raises:
            InvalidArgumentError: wrong shape, a probability outside [0, 1], or a row with another sum.
        """
        law = array("channel", channel, ndim=2, shape=(self.labels, None), low=0.0, high=1.0)
        if np.abs(law.sum(axis=1) - 1.0).max() > 1e-9:
            raise InvalidArgumentError("channel", channel, "has a row that does not sum to 1", "normalise the rows")
        laws: FloatArray = self.hypotheses().tables @ law
        first, second = laws[0::2], laws[1::2]
        sent = first > 0.0
        with np.errstate(divide="ignore"):
            return float(np.sum(first[sent] * (np.log(first[sent]) - np.log(second[sent]))))

    def information_bound(self, epsilon: float) -> float:
        """Returns a^2 (e^(ε/2) - 1)^2: an upper bound on the ``information`` of every ε-LDP channel."""
        return (self.lean * math.expm1(real("epsilon", epsilon, low=0.0, high=700.0) / 2.0)) ** 2

    def printed_information_bound(self, epsilon: float) -> float:
        """Returns the printed bound (23), (a^2/2) min((e^ε - 1)^2, 1) e^ε: false for some ε > 2.456."""
        eps = real("epsilon", epsilon, low=0.0, high=700.0)
        return self.lean**2 / 2.0 * min(math.expm1(min(eps, 300.0)) ** 2, 1.0) * math.exp(eps)


# --- lower bounds on the risk ----------------------------------------------------------------------------------------


@frozen
class RiskFloor:
    """A lower bound on the risk of every learner, with the conditions under which it is stated.

    Attributes:
        value: The value of the formula, whether or not its conditions hold.
        conditions: The conditions and their values.
        source: The publication that states it.
    """

    value: float
    conditions: tuple[Condition, ...]
    source: str

    @property
    def applies(self) -> bool:
        """Whether every condition holds."""
        return all(condition.holds for condition in self.conditions)


def risk_floor(*, rounds: int, experts: int, epsilon: float) -> RiskFloor:
    """Returns sqrt(|F| T) / (64 (e^(ε/2) - 1)): a lower bound on every learner's risk, for some truth in some class.

    It holds for history-free ε-LDP channels: a message depends on the person's label, the context and coins only.

    The class is ``HadamardClass.hardest``. The bound holds for all ε and is sharper than the printed Theorem 3,
    because sum_i KL(i, 1 || i, 2) <= a^2 (e^(ε/2) - 1)^2 after the channel, from Var <= (max - mean)(mean - min).

    Args:
        rounds: T >= 1.
        experts: |F| >= 2, even.
        epsilon: > 0.
    """
    n, k, growth = (
        integer("rounds", rounds, low=1),
        _even(experts),
        math.expm1(min(arguments.epsilon(epsilon) / 2.0, 700.0)),
    )
    least = k / (4.0 * growth * growth)
    condition = Condition("T >= |F| / (4 (e^(eps/2) - 1)^2)", float(n), least, n >= least)
    return RiskFloor(
        math.sqrt(k * n) / (64.0 * growth), (condition,), "after Sima, Wu, Milenkovic & Szpankowski 2024, Theorem 3"
    )


def printed_risk_floor(*, rounds: int, experts: int, epsilon: float) -> RiskFloor:
    """Returns the printed Theorem 3: T a/132 with a = sqrt((|F|/2) / (9 T min((e^ε - 1)^2, 1) e^ε)).

    Its proof is valid for ε <= 2.456 only: beyond that (23)(c) is false.
    """
    n, k, eps = integer("rounds", rounds, low=1), _even(experts), arguments.epsilon(epsilon)
    capped = min(eps, 700.0)
    least = k / 2.0 / (9.0 * min(math.expm1(capped) ** 2 if capped < 1.0 else 1.0, 1.0) * math.exp(capped))
    conditions = (
        Condition("T >= (|F|/2) / (9 min((e^eps - 1)^2, 1) e^eps)", float(n), least, n >= least),
        Condition("epsilon <= 2.456 (not in print)", eps, 2.456, eps <= 2.456),
    )
    return RiskFloor(n * math.sqrt(least / n) / 132.0, conditions, "Sima, Wu, Milenkovic & Szpankowski 2024, Theorem 3")


def _even(experts: object) -> int:
    found = arguments.experts(experts)
    if found % 2:
        raise InvalidArgumentError("experts", experts, "is odd", "use an even number: the class consists of pairs")
    return found
