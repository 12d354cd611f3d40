from .arm_stream import BanditRelease as BanditRelease
from .contextual_rewards import ContextualRewards as ContextualRewards
from .linear_stream import LinUCBStream as LinUCBStream
from .linear_ucb import JointRelease as JointRelease
from .linear_ucb import PrivateLinUCB as PrivateLinUCB
from .noisy_bandit import BanditRuns as BanditRuns
from .noisy_bandit import BanditStream as BanditStream
from .noisy_bandit import NoisyBandit as NoisyBandit
from .private_elimination import EliminationRuns as EliminationRuns
from .private_elimination import EliminationStream as EliminationStream
from .private_elimination import PrivateElimination as PrivateElimination
from .private_ucb import PrivateUCB as PrivateUCB
from .private_ucb import UCBRuns as UCBRuns
from .private_ucb import UCBStream as UCBStream

__all__: list[str]
