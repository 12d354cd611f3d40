"""The privacy cost of Fed-SVT, as an accountant graph with one view per threat model, and the printed claims.

One record is one client's loss of one round, replaced by any other in [0, 1] (rounds and clients pinned). It enters the
sums of one window, whose beginning and expert are determined by earlier public values:

* The window's answers compare running sums with one noisy threshold. From its block on the record moves all of them by
  the same number in [-1, 1], for any number of clients: one ``CumulativeAboveThreshold``. All other windows have fresh
  noise and do not read the record.
* Every draw of an expert at the end of this window or of a later one reads scores. The record moves each score by at
  most 1, also after the cut-off from below: one ``BoundedRange(eta)`` for each switch.

So the pure cost is max(1/b1, 1/b2) + kappa*eta. The printed proofs charge the threshold as if the record could move
queries in either direction, ε/2 for noise that costs ε/4, and compose the draws by a lemma that does not use their
bounded range.

Clients send exact sums: an adversary who sees the messages sees the data, whatever noise the server adds.

Sources: Gao, Huang & Yang 2024, Theorems 4 and 10; Dwork & Roth 2014, Theorem 3.24; Durfee & Rogers 2019.
"""

from __future__ import annotations

import math

from hockeystick.accounting import AccountantGraph, Adjacency, InvalidArgumentError
from hockeystick.accounting.events.catalogue import BoundedRange, CumulativeAboveThreshold, NonPrivate
from hockeystick.accounting.numerics.directed_rounding import product_up, sum_up
from hockeystick.accounting.validate import integer, probability, real
from hockeystick.learners.common import arguments
from hockeystick.learners.common.printed_claims import Condition, PrintedGuarantee
from hockeystick.learners.network.threat_models import ThreatModel

_STEEPEST = 300.0  # learning rate, beyond which its exponential and products overflow

TRUSTED = (ThreatModel.OUTPUT, ThreatModel.CLIENT, ThreatModel.CENTRAL)
"""The threat models in which only the server sees the clients' sums."""


def graph(
    *,
    blocks: int,
    switches: int,
    learning_rate: float,
    threshold_scale: float,
    query_scale: float,
) -> AccountantGraph:
    """Returns the data-independent plan.

    Views are named after threat models: "output", "client" and "central" see the plays; "server" sees the clients'
    messages and has no guarantee. Without a view everything is published, messages included.

    Args:
        blocks: The number of tests of sums.
        switches: kappa, the largest number of redraws of the expert.
        learning_rate: eta. A draw has odds exp(-eta*score/2).
        threshold_scale, query_scale: b1 and b2, the scales of the Laplace noise.
    """
    found = (
        AccountantGraph(
            adjacency=Adjacency.REPLACE_ONE,
            pinned=True,
            assumptions=(
                "every loss lies in [0, 1]",
                "which clients answer depends on no loss",
                "each person is one client's loss of one round",
            ),
        )
        .source("losses")
        .release("messages", NonPrivate(), reads=("losses",))
        .release("thresholds", CumulativeAboveThreshold(threshold_scale, query_scale), reads=("losses",))
        .release("draws", BoundedRange(learning_rate), reads=("losses", "thresholds"), count=min(switches, blocks))
        .post("plays", reads=("thresholds", "draws"))
    )
    for model in TRUSTED:
        found = found.view(model.value, sees=("plays",))
    return found.view(ThreatModel.SERVER.value, sees=("messages", "plays"))


# --- as printed ------------------------------------------------------------------------------------------------------


def printed_cost(
    delta: float, *, switches: int, learning_rate: float, threshold_scale: float, query_scale: float
) -> PrintedGuarantee:
    """Returns the cost of given parameters by the printed proofs, at ``delta`` in [0, 1): correct, but not tight.

    The thresholds cost 1/b1 + 2/b2, as for arbitrary queries. The draws cost kappa*eta for δ = 0, and for any other
    δ sqrt(2 kappa ln(1/δ)) eta + kappa eta (e^eta - 1) by advanced composition, even if that is larger.

    Raises:
        InvalidArgumentError: an argument outside its domain.
    """
    kappa, eta = integer("switches", switches, low=1), arguments.learning_rate(learning_rate)
    b1 = real("threshold_scale", threshold_scale, low=0.0, low_open=True)
    b2 = real("query_scale", query_scale, low=0.0, low_open=True)
    failure = real("delta", delta, low=0.0, high=1.0, high_open=True)
    if failure == 0.0:
        draws = [product_up(kappa, eta)]
    else:
        if eta > _STEEPEST:
            raise InvalidArgumentError("learning_rate", eta, "makes the printed bound infinite", "use a smaller one")
        log = -math.log(failure)
        draws = [math.sqrt(2.0 * kappa * log) * eta, product_up(kappa, eta * math.expm1(eta))]
    return PrintedGuarantee(
        sum_up([1.0 / b1, 2.0 / b2, *draws]), failure, (), source="Gao, Huang & Yang 2024, proofs of Theorems 4 and 10"
    )


def printed_pure(target: float, *, switches: int) -> PrintedGuarantee:
    """Returns the printed pure guarantee: eta = ε/(2 kappa), b1 = 4/ε and b2 = 8/ε are ε-DP.

    The claim is true; these parameters cost at most 3 ε/4.

    Args:
        target: ε > 0.
        switches: kappa >= 1.

    Raises:
        InvalidArgumentError: an argument outside its domain.
    """
    eps, kappa = _target(target), integer("switches", switches, low=1)
    return PrintedGuarantee(
        eps,
        0.0,
        (),
        source="Gao, Huang & Yang 2024, Theorem 4, pure",
        constants=(*_constants(eps, eps / (2.0 * kappa)), ("proof", eps)),
    )


def printed_approximate(target: float, delta: float, *, switches: int) -> PrintedGuarantee:
    """Returns the printed approximate guarantee: eta = ε/sqrt(kappa ln(1/δ)), noise as in :func:`printed_pure`.

    The constant "proof" is the cost of these parameters by :func:`printed_cost`: about twice ε, although the printed
    proof claims ε. The claim is true under the condition given here, by another proof: the thresholds cost ε/4, and
    the draws kappa eta^2/8 in concentrated DP.

    Args:
        target: ε > 0.
        delta: In (0, 1).
        switches: kappa >= 1.

    Raises:
        InvalidArgumentError: an argument outside its domain.
    """
    eps, kappa = _target(target), integer("switches", switches, low=1)
    log = -math.log(probability("delta", delta, open=True))
    eta = eps / math.sqrt(kappa * log)
    constants = _constants(eps, eta)
    proof = printed_cost(delta, switches=kappa, **dict(constants)).epsilon
    limit = 8.0 * (0.75 - math.sqrt(0.5)) * log  # eps/4 + eps/sqrt(2) + eps^2/(8 ln(1/delta)) <= eps
    return PrintedGuarantee(
        eps,
        delta,
        (Condition("eps <= 8 (3/4 - 1/sqrt(2)) ln(1/delta)", eps, limit, eps <= limit),),
        source="Gao, Huang & Yang 2024, Theorem 4, approximate",
        constants=(*constants, ("proof", proof)),
    )


def _target(value: float) -> float:
    return real("target", value, low=0.0, low_open=True)


def _constants(eps: float, eta: float) -> tuple[tuple[str, float], ...]:
    return ("learning_rate", eta), ("threshold_scale", 4.0 / eps), ("query_scale", 8.0 / eps)
