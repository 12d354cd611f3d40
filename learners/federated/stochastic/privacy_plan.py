"""The privacy cost of the federated stochastic learner, as an accountant graph with one view per threat model.

One record is one client's loss of one round, replaced by any other (rounds pinned). It lies in one phase, and there at
one vertex at most, which feeds 2^(j - r) leaves of its tree j; everything else is post-processing of the output of
these leaves. So phases, clients and vertices are alternatives, and leaves compose.

*The effect of a record on a leaf.* Gradient coordinates are clipped to [low, high]; w = high - low. At a root, which
averages n losses, a replaced record moves each coordinate by at most D = w/n, one up and another down, so differences
of scores move by up to R = 2D. At a right child a record adds a *difference* of two gradients, in [-c, c] with c = w,
or c = min(w, beta * travel) if the client clips it to that. A replacement moves it by 2c, so D = 2c/n and again R = 2D.
Linear losses have no differences, and their right children read nothing.

*The cost of a leaf.* An adversary who sees messages sees d noisy coordinates, each moved by D. An adversary who sees
only the winners sees a report-noisy-max of range R: the other clients' values and noise are constants, known or not, so
no cost depends on the number of clients. The range is 2D and not D, as gradients move both ways (Dwork & Roth 2014,
Claim 3.9, is for counts that all move one way). If the server adds the noise, its inbox holds the gradients themselves.

*The vertex of a record.* With "contiguous" assignment it depends on the round, and all vertices are alternatives. With
"secret" assignment each client reads its losses in a uniformly random order. Exchange the record with one that no
vertex reads: this maps the orders in which it is at vertex v, paired with the unread places, one to one onto those in
which it is unread, paired with the places of v. So the law without the record is the mixture, with the same weights, of
laws in which another record takes its place at v. Given v and all other places, the three laws (the record, its
replacement, another record) are within one replacement of each other. That is the premise of Balle, Barthe & Gaboardi
2018, Theorem 2, for the joint law of v and the outcome, whose profile is the weighted sum of the vertices' profiles.

*Groups.* k losses of any clients and rounds, each replaced. Given the places of all losses, each moves the gradients at
its own leaves, and what several move at one leaf adds up. Let all of them move evenly, from the old data to the new.
The log-probability of the winner at a leaf, and the log-density of a message, then change at a rate of at most the sum
of what these records cost alone at that leaf; given the answers before, so does that of the whole transcript of all
leaves and phases, at a rate of at most k times the cost e of the costliest place. A secret order mixes such laws with
equal weights, at the same rate. So the group costs ``LogLipschitz(k e)``, the theorem of its module, without a discount
for the order. Gaussian noise: the shifts of the leaves are a vector, and the lengths of the records' vectors add up.
A root feeds 2^j leaves: k records may reach more than k of them.

Sources: Gao, Huang & Yang 2024, Theorems 1, 6 and 7; :func:`printed_claims` compares their claims with these costs.
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
"""Covers the rounding of the client's sum of how far the iterate moved."""

_SMALLEST = 1e-100  # the least range that is not 0; events do not accept smaller ones


def plan(setting: StochSetting, *, experts: int) -> AccountantGraph:
    """Returns the data-independent plan: for each phase a source, its messages, and the winners computed from them.

    Views are named after threat models: "output", "client" and "server", and with noise at the server also "central".
    Without a view everything is published, messages included. One record is replaced; groups are refused, as two
    records may meet in one leaf: see :func:`group_plan`.

    Args:
        setting: The parameters that determine the privacy.
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
    """Returns the threat models with a guarantee; CENTRAL is one of them only if the server adds the noise."""
    local = (ThreatModel.OUTPUT, ThreatModel.CLIENT, ThreatModel.SERVER)
    return local if setting.where == "client" else (*local, ThreatModel.CENTRAL)


def _assumptions(setting: StochSetting) -> tuple[str, ...]:
    found = [f"clients clip every coordinate of a gradient to [{setting.low:g}, {setting.high:g}]"]
    if setting.smoothness == 0.0:
        found.append("losses are linear: one vector each, read once")
    elif setting.smoothness is not None:
        found.append(f"clients clip every correction to {setting.smoothness:g} times the distance the iterate moved")
    if setting.assignment == "secret":
        found.append("each client reads the losses of a phase in a uniformly random order that it keeps secret")
    return (*found, "each person is one client's loss of one round")


def group_plan(setting: StochSetting, *, experts: int) -> AccountantGraph:
    """Returns the plan for groups: one source, and one release of all messages; see the module.

    Views are those of :func:`plan`. For one record it is not below that plan's cost.

    Args:
        setting: The parameters that determine the privacy.
        experts: d >= 2.

    Raises:
        InvalidArgumentError: an argument outside its domain.
    """
    experts = arguments.experts(experts)
    models = models_of(setting)
    costs = {model: group_event(setting, experts=experts, model=model) for model in models}
    graph = AccountantGraph(adjacency=Adjacency.REPLACE_ONE, pinned=True, assumptions=_assumptions(setting))
    graph = graph.source("losses").release("messages", costs[ThreatModel.SERVER], reads=("losses",))
    graph = graph.post("plays", reads=("messages",))
    for model in models:
        if model is ThreatModel.SERVER:
            graph = graph.view(model.value, sees=("messages", "plays"))
        else:
            graph = graph.view(model.value, sees=("plays",), events={"messages": costs[model]})
    return graph


def group_event(setting: StochSetting, *, experts: int, model: ThreatModel | str) -> PrivacyEvent:
    """Returns an event whose ``at(k)`` is the cost of k records, at whatever places they are read.

    Raises:
        InvalidArgumentError: as :func:`place_event`.
    """
    found = [place for phase in setting.phases if phase is not None for place in places(setting, phase)]
    rate = max((place_rate(setting, place, experts=experts, model=model) for place in found), default=0.0)
    if rate == 0.0:
        return NO_EVENT
    if math.isinf(rate):
        return NonPrivate()
    return GaussianDP(rate) if setting.noise == "gaussian" else LogLipschitz(rate)


def place_rate(setting: StochSetting, place: Place, *, experts: int, model: ThreatModel | str) -> float:
    """Returns what a record at ``place`` costs: its pure ε, or mu for Gaussian noise; inf if nothing hides it.

    Raises:
        InvalidArgumentError: as :func:`place_event`.
    """
    event = place_event(setting, place, experts=experts, model=model)
    return event.mu if isinstance(event, GaussianDP) else event.pure_epsilon()


# --- the cost of a record --------------------------------------------------------------------------------------------


@frozen(kw_only=True)
class Place:
    """A set of vertices at which a record may be read: those of one depth of one tree.

    Attributes:
        tree: j, or 0 for a phase with one release.
        depth: r.
        share: The share of a client's losses of the phase that is read there.
        leaves: The number of leaves that a record read there reaches.
        shift: D > 0, the most by which it moves a coordinate of the client's gradient at these leaves.
        scale: The scale of the noise on that gradient; with noise at the server, of the noise on the sum over clients.
    """

    tree: int
    depth: int
    share: Fraction
    leaves: int
    shift: float
    scale: float

    def outweighs(self, other: Place) -> bool:
        """Whether the cost of a record here is at least that at the other place, against every adversary."""
        more = Fraction(self.shift) * Fraction(other.scale) >= Fraction(other.shift) * Fraction(self.scale)
        return more and self.leaves >= other.leaves


def places(setting: StochSetting, phase: TreePhase) -> tuple[Place, ...]:
    """Returns the places where a record of ``phase`` has an effect: by tree and depth, only roots for linear losses.

    Of the vertices of one depth the iterate has moved farthest at the first, and its bound is used for all.
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
    """The scale of the noise on one client's gradient, rounded down: at the server m times that on the average."""
    m = 1 if setting.where == "client" else setting.clients
    found = min(m * scale, 1.0 / _SMALLEST)
    return math.nextafter(found, 0.0) if Fraction(found) > m * Fraction(scale) else found


def place_event(setting: StochSetting, place: Place, *, experts: int, model: ThreatModel | str) -> PrivacyEvent:
    """Returns the cost of a record read at ``place``, against an adversary: that of all leaves that it reaches.

    Gumbel and exponential noise are unbounded on one side only and hide no message: against an adversary who sees
    messages the cost is NonPrivate. With Gaussian noise the cost is that of the message, of L2 distance sqrt(d) D, also
    against an adversary who sees only the winners.

    Raises:
        InvalidArgumentError: the model is unknown, or CENTRAL while clients add the noise.
    """
    model, experts = threat_model(model), arguments.experts(experts)
    if model not in models_of(setting):
        raise InvalidArgumentError(
            "threat_model", model.value, "is for noise at the server, but the clients add it", "use output"
        )
    messages = model is ThreatModel.SERVER
    if messages and (setting.where == "server" or setting.noise in ("gumbel", "exponential")):
        return NonPrivate()
    if setting.noise == "gaussian":
        # Leaves compose to one shift in all their coordinates (Dong, Roth & Su 2022, Corollary 3.3).
        distance = place.shift * math.sqrt(experts * place.leaves) * (1.0 + 2.0**-50)
        return GaussianDP(max(quotient_up(distance, place.scale), _SMALLEST))
    if messages:  # a coordinate with Laplace noise has the curves of accounting.Laplace
        return compose((LogLipschitz(quotient_up(place.shift, place.scale)), place.leaves * experts))
    return compose((ReportNoisyMax(place.scale, setting.noise, score_range=2.0 * place.shift), place.leaves))


def phase_event(setting: StochSetting, phase: TreePhase, *, experts: int, model: ThreatModel | str) -> PrivacyEvent:
    """Returns the cost of one record of a phase, against an adversary. The event has no rule for groups.

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
    return parallel(*events, NO_EVENT)  # NO_EVENT: it is not read. At least two alternatives, which refuse groups


def _worst(found: tuple[Place, ...]) -> tuple[Place, ...]:
    """Places that no other outweighs."""
    kept: list[Place] = []
    for place in sorted(found, key=lambda place: (-place.leaves, -place.shift / place.scale)):
        if not any(other.outweighs(place) for other in kept):
            kept.append(place)
    return tuple(kept)


# --- printed claims --------------------------------------------------------------------------------------------------


@frozen(kw_only=True)
class PrintedClaim:
    """A printed claim for one threat model, with the certified ε and a lower bound on the true one.

    See :func:`printed_claims`, which returns it.

    Attributes:
        threat_model: The adversary.
        printed: The claim and its conditions, among them one on the noise.
        certified: The ε that the graph certifies at the claim's δ.
        attained: A lower bound on the true ε: the exact loss of linear losses at a root that is known to hold the
            record. 0 if none is known.
    """

    threat_model: ThreatModel
    printed: PrintedGuarantee
    certified: float
    attained: float

    @property
    def holds(self) -> bool:
        """Whether the graph certifies the claimed ε, up to rounding; the claim's conditions are ignored."""
        return self.certified <= self.printed.epsilon * (1.0 + 1e-10)

    @property
    def refuted(self) -> bool:
        """Whether the claim is false for this setting, by more than rounding."""
        return self.attained > self.printed.epsilon * (1.0 + 1e-12)


def printed_claims(
    setting: StochSetting, *, experts: int, epsilon: float, delta: float = 0.0
) -> tuple[PrintedClaim, ...]:
    """Returns the claims of Gao, Huang & Yang 2024 about a setting, for each threat model. They are not certificates.

    With noise at the clients: Theorem 1 (one tree per phase: Corollary 1), or Theorem 6 for ``delta`` > 0, claimed for
    all messages. With noise at the server: Theorem 7. Theorem 6 states no constants, so it never applies.

    Args:
        setting: The setting, with Laplace noise.
        experts: d >= 2.
        epsilon, delta: The claimed guarantee.

    Raises:
        InvalidArgumentError: an argument outside its domain; another noise; or noise at the server with δ > 0.

    Example:
        >>> from hockeystick.learners.federated import Sizes, StochSetting, certified_phases, printed_claims
        >>> phases = certified_phases(Sizes(clients=5, experts=8, epsilon=1.0), 31, trees=1)
        >>> claims = printed_claims(StochSetting(clients=5, phases=phases), experts=8, epsilon=1.0)
        >>> [(claim.threat_model.value, claim.holds) for claim in claims]
        [('output', True), ('client', True), ('server', False)]
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
    """The loss of a linear loss to an adversary who sees messages: all coordinates move by D at all leaves."""
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
        Condition("constants of (O(epsilon), O(delta)) that are stated", 0.0, 2.0, False),
    ]
    return PrintedGuarantee(epsilon, delta, tuple(conditions), source="Gao, Huang & Yang 2024, Theorem 6")


def printed_scale(
    setting: StochSetting, number: int, phase: TreePhase, tree: int, *, epsilon: float, delta: float = 0.0
) -> float:
    """Returns the printed scale of tree ``tree`` >= 1 of phase ``number`` >= 2.

    It is 4 alpha 2^j/(b ε), divided by m with noise at the server (Theorems 1 and 7); for ``delta`` > 0 it is
    alpha 2^(T1/2) ln(2^(p-1)/δ)/(b ε) (Theorem 6). alpha is max(abs(low), abs(high)).
    """
    unit = _alpha(setting) / (phase.batch * epsilon)
    if delta:
        return unit * math.sqrt(2.0**phase.trees) * ((number - 1) * math.log(2.0) - math.log(delta))
    return unit * 4.0 * 2.0**tree / (setting.clients if setting.where == "server" else 1)


def _alpha(setting: StochSetting) -> float:
    return max(abs(setting.low), abs(setting.high))
