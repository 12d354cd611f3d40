from .classifier import PrivateClassifier as PrivateClassifier
from .queries_and_divergences import PrivateDivergence as PrivateDivergence
from .queries_and_divergences import PrivateLabelDistribution as PrivateLabelDistribution
from .queries_and_divergences import PrivateQueries as PrivateQueries

__all__: list[str]
