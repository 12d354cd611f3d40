"""What the federated stochastic learner pays, as an accountant graph with a view for each threat model.

One record is one client's loss of one round, replaced by any other (rounds pinned). It lies in one phase, and in there
at one vertex at most, which feeds 2^(j - r) leaves of its tree j; all else is post-processing of what these leaves
publish. So phases, clients and vertices are alternatives, and leaves compose.

*How far a record moves a leaf.* Gradient coordinates are clipped to [low, high]; w = high - low. At a root, which
averages n losses, a replaced record moves each coordinate by at most D = w/n, one up and another down, so that the
scores' differences move by up to R = 2D. At a right child a record adds a *difference* of two gradients, in [-c, c]
with c = w, or c = min(w, beta * travel) where the client clips it to that: replaced, it moves by 2c, so D = 2c/n and
again R = 2D. Linear losses have no differences, and their right children read nothing.

*What a leaf costs.* Whoever sees messages pays for d noisy coordinates, each moved by D. Whoever sees the winners alone
pays for a report-noisy-max of range R: the other clients' values and noise are constants to them, known or not, so that
no number here depends on how many clients there are. The range is 2D and not D, as gradients go both ways (Dwork & Roth
2014, Claim 3.9, is for counts that all go one way). With noise at the server, who sees its inbox sees the gradients.

*Which vertex it is.* Under "contiguous" the round decides, and all vertices are alternatives. Under "secret" each
client reads its losses in a uniformly random order of its own. Exchange the record with one that no vertex reads: that
maps the orders in which it is at vertex v, paired with the unread places, one to one onto those in which it is unread,
paired with v's places. So the law without the record is the mixture, by the same weights, of laws in which another
record stands in its place at v; given v and all other places, the three laws (the record, its replacement, another)
are within one replacement of each other. That is the premise of Balle, Barthe & Gaboardi 2018, Theorem 2, for the joint
law of v and the outcome, whose profile is the weighted sum of the vertices' profiles.

Sources: Gao, Huang & Yang 2024, Theorems 1, 6 and 7, whose claims :func:`printed_claims` sets beside these numbers.
"""

from __future__ import annotations

import math
from fractions import Fraction

from attrs import frozen

from hockeystick import accounting
from hockeystick.accounting import AccountantGraph, Adjacency, InvalidArgumentError, PrivacyEvent, compose
from hockeystick.accounting.events.catalogue import (
    NO_EVENT,
    GaussianDP,
    LogLipschitz,
    NonPrivate,
    ReportNoisyMax,
    parallel,
    secret_assignment,
)
from hockeystick.accounting.validate import probability, real
from hockeystick.learners.common import arguments
from hockeystick.learners.common.printed_claims import Condition, PrintedGuarantee
from hockeystick.learners.federated.stochastic.frank_wolfe_tree import StochSetting, TreePhase, Vertex
from hockeystick.learners.network.threat_models import ThreatModel, threat_model
from hockeystick.mechanisms.contract.arguments import difference_up, quotient_up

_ROOM = 1.0 + 2.0**-36
"""The way that an iterate went is added up in floats by whoever clips to it."""

_SMALLEST = 1e-100  # of a range that is not 0: smaller ones are no events


def plan(setting: StochSetting, *, experts: int) -> AccountantGraph:
    """The data-independent plan: per phase a source, its messages, and the winners that are read off them.

    Views are named after threat models: "output", "client" and "server", and with noise at the server "central" too.
    Without a view everything is published, messages included. Replaced is one record; groups are refused, as two
    records may meet in one leaf.

    Args:
        setting: What decides the privacy.
        experts: d >= 2.

    Raises:
        InvalidArgumentError: an argument outside its domain.
    """
    experts = arguments.experts(experts)
    graph = AccountantGraph(adjacency=Adjacency.REPLACE_ONE, pinned=True, assumptions=_assumptions(setting))
    models = models_of(setting)
    messages: list[str] = []
    charged: dict[ThreatModel, dict[str, PrivacyEvent]] = {model: {} for model in models}
    for number, phase in enumerate(setting.phases, start=2):
        if phase is None:
            continue
        messages.append(name := f"messages of phase {number}")
        graph = graph.source(source := f"losses of phase {number}", size=setting.clients)
        for model in models:
            charged[model][name] = phase_event(setting, phase, experts=experts, model=model)
        graph = graph.release(name, charged[ThreatModel.SERVER][name], reads=(source,))
    if not messages:
        return graph.source("losses", size=setting.clients)
    graph = graph.post("plays", reads=messages)
    for model in models:
        if model is ThreatModel.SERVER:
            graph = graph.view(model.value, sees=(*messages, "plays"))
        else:
            graph = graph.view(model.value, sees=("plays",), events=charged[model])
    return graph


def models_of(setting: StochSetting) -> tuple[ThreatModel, ...]:
    """The threat models that a guarantee is given for: CENTRAL is one only where the server adds the noise."""
    local = (ThreatModel.OUTPUT, ThreatModel.CLIENT, ThreatModel.SERVER)
    return local if setting.where == "client" else (*local, ThreatModel.CENTRAL)


def _assumptions(setting: StochSetting) -> tuple[str, ...]:
    found = [f"clients clip every coordinate of a gradient to [{setting.low:g}, {setting.high:g}]"]
    if setting.smoothness == 0.0:
        found.append("losses are linear: one vector each, read once")
    elif setting.smoothness is not None:
        found.append(f"clients clip every correction to {setting.smoothness:g} times the way that the iterate went")
    if setting.assignment == "secret":
        found.append("each client reads the losses of a phase in a uniformly random order that it keeps secret")
    return (*found, "each person is one client's loss of one round")


# --- what a record pays ----------------------------------------------------------------------------------------------


@frozen(kw_only=True)
class Place:
    """Where a record may be read: the vertices of one depth of one tree.

    Attributes:
        tree: j, or 0 for the one release.
        depth: r.
        share: The part of a client's losses of the phase that is read there.
        leaves: How many leaves a record read there reaches.
        shift: D > 0, the most by which it moves a coordinate of the client's gradient at them.
        scale: Of the noise on that gradient; with noise at the server, of the noise on the sum over clients.
    """

    tree: int
    depth: int
    share: Fraction
    leaves: int
    shift: float
    scale: float

    def outweighs(self, other: Place) -> bool:
        """Whether a record pays here at least what it pays at the other place, to whomever."""
        more = Fraction(self.shift) * Fraction(other.scale) >= Fraction(other.shift) * Fraction(self.scale)
        return more and self.leaves >= other.leaves


def places(setting: StochSetting, phase: TreePhase) -> tuple[Place, ...]:
    """Where a record of ``phase`` matters, by tree and depth; not at right children if losses are linear.

    Of the vertices of one depth the first has seen the iterate go the longest way, and its bound is taken for all.
    """
    alike: dict[tuple[int, int], list[Vertex]] = {}
    for vertex in phase.vertices():
        alike.setdefault((vertex.tree, vertex.depth), []).append(vertex)
    return tuple(
        Place(
            tree=first.tree,
            depth=first.depth,
            share=Fraction(len(vertices) * first.records, phase.records),
            leaves=first.leaves,
            shift=shift,
            scale=_effective(setting, phase.scale(first.tree)),
        )
        for vertices in alike.values()
        if (shift := _shift(setting, first := vertices[0]))
    )


def _shift(setting: StochSetting, vertex: Vertex) -> float:
    """D, rounded up."""
    width = real("high - low", difference_up(setting.high, setting.low), high=0.25 / _SMALLEST)
    if vertex.depth:
        if setting.smoothness is not None:
            width = min(width, setting.smoothness * float(vertex.travel()) * _ROOM)
        width *= 2.0
    return max(quotient_up(width, vertex.records), _SMALLEST) if width else 0.0


def _effective(setting: StochSetting, scale: float) -> float:
    """The noise's scale on one client's gradient, rounded down: at the server it is m times that on the average."""
    m = 1 if setting.where == "client" else setting.clients
    found = min(m * scale, 1.0 / _SMALLEST)
    return math.nextafter(found, 0.0) if Fraction(found) > m * Fraction(scale) else found


def place_event(setting: StochSetting, place: Place, *, experts: int, model: ThreatModel | str) -> PrivacyEvent:
    """What a record read at ``place`` pays to an adversary: all leaves that it reaches.

    Noise that hides no message (Gumbel and exponential noise are unbounded on one side) costs NonPrivate to who sees
    messages. Gaussian noise costs the message, of L2 distance sqrt(d) D, also to who sees the winners alone.

    Raises:
        InvalidArgumentError: the model is unknown, or CENTRAL while clients add the noise.
    """
    model, experts = threat_model(model), arguments.experts(experts)
    if model not in models_of(setting):
        raise InvalidArgumentError(
            "threat_model", model.value, "trusts the server with the noise, which the clients add", "ask for output"
        )
    messages = model is ThreatModel.SERVER
    if messages and (setting.where == "server" or setting.noise in ("gumbel", "exponential")):
        return NonPrivate()
    if setting.noise == "gaussian":
        # Leaves compose to one shift in all their coordinates (Dong, Roth & Su 2022, Corollary 3.3).
        distance = place.shift * math.sqrt(experts * place.leaves) * (1.0 + 2.0**-50)
        return GaussianDP(max(quotient_up(distance, place.scale), _SMALLEST))
    if messages:  # a coordinate with Laplace noise: of the same curves as accounting.Laplace
        return compose((LogLipschitz(quotient_up(place.shift, place.scale)), place.leaves * experts))
    return compose((ReportNoisyMax(place.scale, setting.noise, score_range=2.0 * place.shift), place.leaves))


def phase_event(setting: StochSetting, phase: TreePhase, *, experts: int, model: ThreatModel | str) -> PrivacyEvent:
    """What one record of a phase pays to an adversary. It has no rule for groups.

    Raises:
        InvalidArgumentError: as :func:`place_event`.
    """
    found = places(setting, phase)
    if setting.assignment == "contiguous":
        found = _worst(found)
    events = [place_event(setting, place, experts=experts, model=model) for place in found]
    if NonPrivate() in events:
        return NonPrivate()
    if setting.assignment == "secret":
        shares = [quotient_up(place.share.numerator, place.share.denominator) for place in found]
        events = [secret_assignment(shares, events)]
    return parallel(*events, NO_EVENT)  # or it is not read: two alternatives at least, which refuse groups


def _worst(found: tuple[Place, ...]) -> tuple[Place, ...]:
    """Places that no other outweighs."""
    kept: list[Place] = []
    for place in sorted(found, key=lambda place: (-place.leaves, -place.shift / place.scale)):
        if not any(other.outweighs(place) for other in kept):
            kept.append(place)
    return tuple(kept)


# --- what was printed ------------------------------------------------------------------------------------------------


@frozen(kw_only=True)
class PrintedClaim:
    """A printed claim, beside what is known of it, for one threat model.

    Attributes:
        threat_model: Who sees what.
        printed: The claim and its conditions; its noise is one of them.
        certified: The epsilon that the graph certifies at the claim's delta.
        attained: An epsilon that the true one is not below: the exact loss of linear losses at a root that is known to
            hold the record. 0 where none is known.
    """

    threat_model: ThreatModel
    printed: PrintedGuarantee
    certified: float
    attained: float

    @property
    def holds(self) -> bool:
        """Whether the graph certifies what is claimed, whatever its conditions, up to the room for rounding."""
        return self.certified <= self.printed.epsilon * (1.0 + 1e-10)

    @property
    def refuted(self) -> bool:
        """Whether the claim is false for this setting, by more than rounding."""
        return self.attained > self.printed.epsilon * (1.0 + 1e-12)


def printed_claims(
    setting: StochSetting, *, experts: int, epsilon: float, delta: float = 0.0
) -> tuple[PrintedClaim, ...]:
    """What Gao, Huang & Yang 2024 claim of a setting, for each threat model: claims, never certificates.

    Noise of the clients: Theorem 1 (one tree per phase: Corollary 1), or Theorem 6 for ``delta`` > 0, said of all that
    is exchanged. Noise of the server: Theorem 7. Theorem 6 names no constants, so that it never applies.

    Args:
        setting: The setting, with Laplace noise.
        experts: d >= 2.
        epsilon, delta: As claimed.

    Raises:
        InvalidArgumentError: an argument outside its domain; another noise; or noise at the server and a delta.
    """
    experts = arguments.experts(experts)
    epsilon, delta = real("epsilon", epsilon, low=0.0, low_open=True), probability("delta", delta)
    if setting.noise != "laplace":
        raise InvalidArgumentError("noise", setting.noise, "is not covered by a printed claim", "use laplace")
    if setting.where == "server" and delta:
        raise InvalidArgumentError(
            "delta", delta, "is not covered by a printed claim for noise at the server", "use delta = 0"
        )
    graph = plan(setting, experts=experts)
    printed = _printed(setting, epsilon, delta)
    return tuple(
        PrintedClaim(
            threat_model=model,
            printed=printed,
            certified=graph.guarantee(view=model.value).epsilon(delta).upper,
            attained=_attained(setting, experts, delta) if model is ThreatModel.SERVER else 0.0,
        )
        for model in models_of(setting)
    )


def _attained(setting: StochSetting, experts: int, delta: float) -> float:
    """What a linear loss loses to who sees messages: at a root all coordinates move by D, at all its leaves."""
    if setting.where == "server":
        return math.inf
    if setting.assignment == "secret":
        return 0.0
    roots = [place for phase in setting.phases if phase for place in places(setting, phase) if not place.depth]
    events = (place_event(setting, place, experts=experts, model=ThreatModel.SERVER) for place in roots)
    return max((accounting.epsilon(event, delta, bracket=True).lower or 0.0 for event in events), default=0.0)


def _printed(setting: StochSetting, epsilon: float, delta: float) -> PrintedGuarantee:
    phases = [(number, phase) for number, phase in enumerate(setting.phases, start=2) if phase is not None]
    trees = [(number, phase) for number, phase in phases if phase.trees]
    conditions = [
        Condition("all phases that read losses have trees", len(trees), len(phases), len(trees) == len(phases)),
    ]
    ratio = min(
        (
            phase.scale(tree) / printed_scale(setting, number, phase, tree, epsilon=epsilon, delta=delta)
            for number, phase in trees
            for tree in range(1, phase.trees + 1)
        ),
        default=math.inf,
    )
    conditions.append(Condition("noise over the printed scale", ratio, 1.0, ratio >= 1.0 - 1e-12))
    if not delta:
        name = "Theorem 7" if setting.where == "server" else "Theorem 1"
        if name == "Theorem 1" and trees and all(phase.trees == 1 for _, phase in trees):
            name = "Corollary 1"
        return PrintedGuarantee(epsilon, 0.0, tuple(conditions), source=f"Gao, Huang & Yang 2024, {name}")
    deepest = max((phase.trees for _, phase in trees), default=0)
    rounds = 2 ** (len(setting.phases) + 1) - 1
    limit = math.sqrt(2.0**-deepest * math.log(1.0 / delta)) if delta < 1.0 else 0.0
    conditions += [
        Condition("delta <= 1/T", delta, 1.0 / rounds, delta <= 1.0 / rounds),
        Condition("epsilon <= sqrt(2^-T1 ln(1/delta))", epsilon, limit, epsilon <= limit),
        Condition("constants of (O(epsilon), O(delta)) that are named", 0.0, 2.0, False),
    ]
    return PrintedGuarantee(epsilon, delta, tuple(conditions), source="Gao, Huang & Yang 2024, Theorem 6")


def printed_scale(
    setting: StochSetting, number: int, phase: TreePhase, tree: int, *, epsilon: float, delta: float = 0.0
) -> float:
    """The printed scale of tree ``tree`` >= 1 of phase ``number`` >= 2; alpha is the larger size of low and high.

    4 alpha 2^j/(b epsilon); alpha 2^(T1/2) ln(2^(p-1)/delta)/(b epsilon) for ``delta`` > 0 (Theorem 6). Divided by m
    with noise at the server (Theorem 7).
    """
    unit = _alpha(setting) / (phase.batch * epsilon)
    if delta:
        return unit * math.sqrt(2.0**phase.trees) * ((number - 1) * math.log(2.0) - math.log(delta))
    return unit * 4.0 * 2.0**tree / (setting.clients if setting.where == "server" else 1)


def _alpha(setting: StochSetting) -> float:
    return max(abs(setting.low), abs(setting.high))
