"""The federated stochastic learner before a run: its parameters, and the guarantee and bound that follow from them."""

from __future__ import annotations

from typing import Self

from attrs import evolve, field, frozen

from hockeystick.accounting import AccountantGraph, Guarantee, InvalidArgumentError
from hockeystick.accounting.arrays import FloatArray
from hockeystick.learners.common import arguments
from hockeystick.learners.common.online_learner import OnlineLearner
from hockeystick.learners.common.regret_bound import Adversary, RegretBound, checked_adversary
from hockeystick.learners.federated.stochastic.calibration import calibrated
from hockeystick.learners.federated.stochastic.frank_wolfe_tree import Assignment, Noise, StochSetting, Where
from hockeystick.learners.federated.stochastic.losses import ExpertLosses, LossFamily
from hockeystick.learners.federated.stochastic.printed_batches import Sizes, certified_phases
from hockeystick.learners.federated.stochastic.privacy_plan import group_plan, plan
from hockeystick.learners.federated.stochastic.regret_bound import explicit_regret_bound
from hockeystick.learners.federated.stochastic.simulation import neighbours
from hockeystick.learners.network.threat_models import ThreatModel, threat_model
from hockeystick.mechanisms.contract.arguments import target_epsilon


def _setting(value: object) -> StochSetting:
    if not isinstance(value, StochSetting):
        raise InvalidArgumentError("setting", value, "is not a StochSetting", "give clients, phases and noise as one")
    return value


def _family(value: object) -> LossFamily:
    if not isinstance(value, LossFamily) or isinstance(value, type):
        raise InvalidArgumentError(
            "family", value, "is not a LossFamily", "use ExpertLosses() or another family of losses"
        )
    return value


@frozen(kw_only=True)
class StochLearner(OnlineLearner):
    """The parameters of :class:`FedStoch`, documented there, and the methods that follow from them alone."""

    setting: StochSetting = field(converter=_setting)
    rounds: int = field(converter=arguments.rounds)
    experts: int = field(converter=arguments.experts)
    family: LossFamily = field(factory=ExpertLosses, converter=_family)

    def __attrs_post_init__(self) -> None:
        wanted = self.rounds.bit_length() - 1
        if len(self.setting.phases) != wanted:
            raise InvalidArgumentError(
                "setting",
                len(self.setting.phases),
                f"is not {wanted} phases, for {self.rounds} rounds",
                "give them all",
            )
        if not self.family.linear and self.setting.smoothness == 0.0:
            raise InvalidArgumentError(
                "smoothness", 0.0, "is for linear losses only", "give the family's smoothness, or None for no clipping"
            )

    def graph(self) -> AccountantGraph:
        """Returns the data-independent plan, one view for each threat model; see ``stochastic.privacy_plan.plan``."""
        return plan(self.setting, experts=self.experts)

    @classmethod
    def calibrated(
        cls,
        *,
        clients: int,
        rounds: int,
        experts: int,
        epsilon: float,
        delta: float = 0.0,
        view: ThreatModel | str = ThreatModel.OUTPUT,
        trees: int | None = None,
        noise: Noise = "laplace",
        assignment: Assignment = "secret",
        family: LossFamily | None = None,
        amplified: bool = True,
        group: int = 1,
    ) -> Self:
        """Returns the learner with the least noise whose certified ε at ``delta`` is at most ``epsilon``.

        The phases are those of ``certified_phases``. The server adds the noise if the view is ``central``, and else
        the clients.

        Args:
            clients, rounds, experts, family: As for the learner, which has ``family``'s range and smoothness.
            epsilon: Target, at least 1e-90.
            delta: Target, in [0, 1).
            view: The threat model.
            trees: T1 of every phase with enough losses. None, the default, is one release of all losses (0) if losses
                are linear, which needs the least noise, and else the rule of ``certified_trees``.
            noise, assignment: As for ``StochSetting``.
            amplified: Whether a secret assignment may reduce the noise; for groups it never does.
            group: The number of losses that are protected together; see :meth:`guarantee`.

        Raises:
            InvalidArgumentError: an argument outside its domain, or a target that no noise of this law meets.
        """
        model, losses = threat_model(view), ExpertLosses() if family is None else _family(family)
        where: Where = "server" if model is ThreatModel.CENTRAL else "client"
        smoothness = 0.0 if losses.linear else losses.smoothness
        sizes = Sizes(
            clients=clients,
            experts=experts,
            epsilon=target_epsilon(epsilon),
            lipschitz=max(abs(losses.low), abs(losses.high)),
            smoothness=smoothness,
            where=where,
        )
        setting = StochSetting(
            clients=clients,
            phases=certified_phases(sizes, rounds, trees=0 if trees is None and losses.linear else trees),
            low=losses.low,
            high=losses.high,
            smoothness=smoothness,
            noise=noise,
            where=where,
            assignment=assignment,
        )
        found = cls(setting=setting, rounds=rounds, experts=experts, family=losses)
        return found.recalibrated(model, epsilon=epsilon, delta=delta, amplified=amplified, group=group)

    def recalibrated(
        self,
        view: ThreatModel | str,
        *,
        epsilon: float,
        delta: float = 0.0,
        amplified: bool = True,
        group: int = 1,
    ) -> Self:
        """Returns this learner with the least noise that :meth:`graph` certifies; see ``calibration.calibrated``.

        Args:
            view: The threat model.
            epsilon: Target, at least 1e-90.
            delta: Target, in [0, 1).
            amplified, group: As for :meth:`calibrated`.

        Raises:
            InvalidArgumentError: an argument outside its domain, or a target that no noise of this law meets.
        """
        found = calibrated(
            self.setting,
            experts=self.experts,
            threat_model=view,
            epsilon=epsilon,
            delta=delta,
            amplified=amplified,
            group=min(arguments.group(group), max(1, self.setting.clients * self.client_losses)),
        )
        return evolve(self, setting=found)

    @property
    def client_losses(self) -> int:
        """The number of a client's losses that are read; a guarantee for a group of so many protects a client."""
        return sum(phase.used() for phase in self.setting.phases if phase is not None)

    def guarantee(self, view: ThreatModel | str | None = None, *, group: int = 1) -> Guarantee:
        """Returns the guarantee for ``group`` losses together, of any clients and rounds.

        A secret order reduces the cost of one loss alone. For groups see ``stochastic.privacy_plan.group_plan``.

        Args:
            view: The threat model; None for the plays.
            group: The number of losses that are replaced; :attr:`client_losses` to protect a client.

        Raises:
            InvalidArgumentError: the threat model is unknown, or ``group`` is not a whole number >= 1.

        Example:
            >>> from hockeystick.learners import FedStoch
            >>> learner = FedStoch.calibrated(clients=20, rounds=63, experts=4, epsilon=1.0)
            >>> [round(learner.guarantee(group=k).epsilon(0.0).upper, 3) for k in (1, 2, learner.client_losses)]
            [1.0, 2.0, 31.0]
        """
        model = threat_model(ThreatModel.OUTPUT if view is None else view)
        people = arguments.group(group)
        if people == 1:
            return self.graph().guarantee(view=model.value)
        read = min(people, max(1, self.setting.clients * self.client_losses))
        found = group_plan(self.setting, experts=self.experts).guarantee(view=model.value, group=read)
        return evolve(found, group=people)

    def worst_case_neighbours(self) -> tuple[FloatArray, FloatArray]:
        """Returns two neighbouring arrays of linear losses, shape (clients, rounds, d); see ``stochastic.simulation``.

        Raises:
            InvalidArgumentError: the losses are not linear, or no phase reads any.
        """
        if not self.family.linear:
            raise InvalidArgumentError("family", self.family, "is not linear", "use ExpertLosses()")
        return neighbours(self.setting, rounds=self.rounds, experts=self.experts)

    def regret_bound(self, *, pseudo: bool = False, adversary: Adversary = "stochastic") -> RegretBound:
        """Returns a bound on the expected regret per client of i.i.d. losses; see ``stochastic.regret_bound``.

        Args:
            pseudo: Compare with the expert that is best in expectation, instead of in hindsight.
            adversary: "stochastic": independent losses of one law.

        Raises:
            InvalidArgumentError: there is no bound for this noise, corrections are clipped too much, or losses are not
                stochastic.
        """
        if checked_adversary(adversary) != "stochastic":
            reason = "may change the best expert after each phase"
            raise InvalidArgumentError("adversary", adversary, reason, 'use "stochastic"')
        smoothness = 0.0 if self.family.linear else self.family.smoothness
        bound = explicit_regret_bound(
            self.setting, rounds=self.rounds, experts=self.experts, smoothness=smoothness, pseudo=pseudo
        )
        return RegretBound(bound, most=self.rounds * self.setting.span, adversary="stochastic")
