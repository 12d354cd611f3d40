from .expert_losses import batch_sums as batch_sums
from .expert_losses import checked_losses as checked_losses
from .multiplicative_weights import MultiplicativeWeights as MultiplicativeWeights

__all__: list[str]
