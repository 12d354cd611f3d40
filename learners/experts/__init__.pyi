from .expert_losses import batch_sums as batch_sums
from .expert_losses import checked_losses as checked_losses
from .multiplicative_weights import MultiplicativeWeights as MultiplicativeWeights
from .quantile_regret import Band as Band
from .quantile_regret import RegretReport as RegretReport
from .regret_release import RegretRelease as RegretRelease

__all__: list[str]
