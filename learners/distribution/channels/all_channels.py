"""All channels from a private label to a message, with the cost of one message.

=======================  =================================  ==================================================
channel                  a message                          event of one message
=======================  =================================  ==================================================
``OneBit``               an index and a bit                 randomised response; the recommended channel
``SampledLaplace``       an index and a number              Laplace(b/span): published, pure privacy
``SampledDiscreteLap..`` an index and a whole number        DiscreteLaplace(t, distance=steps)
``VectorLaplace``        K numbers                          K Laplace mechanisms: published, approximate privacy
``VectorGaussian``       K numbers                          Gaussian(σ/(sqrt(K) span))
``RandomizedLabels``     a label                            randomised response over M labels: for few labels
=======================  =================================  ==================================================

Source: Sima, Wu, Milenkovic & Szpankowski 2024 (arXiv 2402.00315) for the published ones, with a corrected sensitivity;
the others are ours.
"""

from hockeystick.learners.distribution.channels.laplace import SampledDiscreteLaplace, SampledLaplace
from hockeystick.learners.distribution.channels.messages import Channel, Message, Messages
from hockeystick.learners.distribution.channels.one_bit import OneBit
from hockeystick.learners.distribution.channels.randomized_response import RandomizedLabels
from hockeystick.learners.distribution.channels.vector import VectorGaussian, VectorLaplace, printed_multiplier

__all__ = [
    "Channel",
    "Message",
    "Messages",
    "OneBit",
    "RandomizedLabels",
    "SampledDiscreteLaplace",
    "SampledLaplace",
    "VectorGaussian",
    "VectorLaplace",
    "printed_multiplier",
]
