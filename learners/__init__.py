"""Learners: private algorithms built from accounted parts.

Lazy online learning over any base measure, federated experts, estimates of KL divergence, and online distribution
learning under local privacy.
"""

from hockeystick._guess.names import attach

if __name__ != "hockeystick.learners":  # found at the root of a checkout: a second set of classes
    raise ImportError("import hockeystick.learners")

__getattr__, __dir__, __all__ = attach(__name__, __file__)
