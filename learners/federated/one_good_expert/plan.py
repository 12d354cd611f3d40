"""What Fed-SVT pays, as an accountant graph with a view for each threat model, beside what was printed.

One record is one client's loss of one round, replaced by any other in [0, 1] (rounds and clients pinned). It enters the
sums of one window, of which the beginning and the expert are fixed by what is public before:

* the window's answers compare running sums with one noisy threshold. From its block on the record moves all of them by
  one and the same number in [-1, 1], whatever the number of clients: ``CumulativeAboveThreshold``, once. All other
  windows have fresh noise and do not see it.
* every draw of an expert at the end of this window or of a later one reads scores of which the record moves each by at
  most 1, also where they are cut off from below: ``BoundedRange(eta)``, at most as many as there are switches.

So the pure cost is max(1/b1, 1/b2) + kappa*eta. The printed proofs charge the threshold as if the record could move
queries in either direction, eps/2 for the noise that costs eps/4, and compose the draws by a lemma that knows nothing
of their range.

Clients send their sums as they are: who sees the messages sees the data, and no noise of the server changes that.

Sources: Gao, Huang & Yang 2024, Theorems 4 and 10; Dwork & Roth 2014, Theorem 3.24; Durfee & Rogers 2019.
"""

from __future__ import annotations

import math

from hockeystick.accounting import AccountantGraph, Adjacency, compose, epsilon
from hockeystick.accounting.events.catalogue import BoundedRange, CumulativeAboveThreshold, NonPrivate
from hockeystick.accounting.numerics.directed_rounding import product_up, sum_up
from hockeystick.accounting.validate import integer, probability, real
from hockeystick.learners.common import arguments
from hockeystick.learners.common.printed_claims import Condition, PrintedGuarantee
from hockeystick.learners.network.threat_models import ThreatModel

TRUSTED = (ThreatModel.OUTPUT, ThreatModel.CLIENT, ThreatModel.CENTRAL)
"""The threat models in which the clients' sums reach nobody but the server."""


def graph(
    *,
    blocks: int,
    switches: int,
    learning_rate: float,
    threshold_scale: float,
    query_scale: float,
) -> AccountantGraph:
    """The data-independent plan.

    Views are named after threat models: "output", "client" and "central", which see the plays, and "server", which sees
    the clients' messages and has no guarantee. Without a view everything is published, messages included.

    Args:
        blocks: How often sums are tested.
        switches: kappa: how often an expert is drawn anew at most.
        learning_rate: eta: a draw has odds exp(-eta*score/2).
        threshold_scale, query_scale: b1 and b2, of the Laplace noise.
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


def split_epsilon(
    delta: float, *, switches: int, learning_rate: float, threshold_scale: float, query_scale: float
) -> float:
    """The pure cost of the threshold and the Renyi cost of the draws at ``delta``, added up: a baseline.

    It is a guarantee, and never below the graph's: composing both by their Renyi curves is at least as good.
    """
    draws = compose((BoundedRange(learning_rate), switches))
    pure = CumulativeAboveThreshold(threshold_scale, query_scale).pure_epsilon()
    return sum_up([pure, epsilon(draws, probability("delta", delta, open=True), method="rdp").upper])


# --- as printed ------------------------------------------------------------------------------------------------------


def printed_cost(
    delta: float, *, switches: int, learning_rate: float, threshold_scale: float, query_scale: float
) -> PrintedGuarantee:
    """What the printed proofs charge for given parameters, at ``delta`` in [0, 1); it holds, and is not tight.

    The thresholds cost 1/b1 + 2/b2, as for arbitrary queries. The draws cost kappa*eta, or by advanced composition
    sqrt(2 kappa ln(1/delta)) eta + kappa eta (e^eta - 1); the print takes the first for delta = 0, the second for all
    other, though it may be the larger one.

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
        log = -math.log(failure)
        draws = [math.sqrt(2.0 * kappa * log) * eta, product_up(kappa, eta * math.expm1(eta))]
    return PrintedGuarantee(
        sum_up([1.0 / b1, 2.0 / b2, *draws]), failure, (), source="Gao, Huang & Yang 2024, proofs of Theorems 4 and 10"
    )


def printed_pure(target: float, *, switches: int) -> PrintedGuarantee:
    """The printed pure guarantee: eta = eps/(2 kappa), b1 = 4/eps and b2 = 8/eps are eps-DP.

    It holds, and these parameters cost no more than 3 eps/4.

    Args:
        target: eps > 0.
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
    """The printed approximate guarantee: eta = eps/sqrt(kappa ln(1/delta)), noise as in :func:`printed_pure`.

    What :func:`printed_cost` charges for these parameters, which should have been eps, is the constant "proof", about
    twice eps. The statement is true under the condition given here, by another proof: the thresholds cost eps/4, and
    the draws kappa eta^2/8 in concentrated DP.

    Args:
        target: eps > 0.
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
