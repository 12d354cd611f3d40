from .arm_stream import BanditRelease as BanditRelease
from .noisy_bandit import BanditRuns as BanditRuns
from .noisy_bandit import BanditStream as BanditStream
from .noisy_bandit import NoisyBandit as NoisyBandit

__all__: list[str]
