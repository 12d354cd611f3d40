"""The expected maximum of sums of Laplace noise: the effect of the clients' noise on a minimum over d experts.

Each of m clients adds Laplace noise of scale 1 to each of d scores, and the server takes the minimum of the sums. The
chosen score exceeds the least one by at most 2/m times the largest of the d sums of noise. All scales are 1: multiply
a result by the scale of the noise.

Gao, Huang & Yang 2024, Lemma 4, bound the expected maximum by an integral that their proof evaluates wrongly when there
are few clients: it takes the integral of e^-u from m/2 - ln d on, which is d e^(-m/2), to be at most ln d + 1. For one
client and 100 experts it is 60.7, and ln d + 1 is 5.6. :func:`maximum_bound` holds for every m and d.
"""

import math

import numpy as np
from scipy import special

from hockeystick.accounting.validate import real

_LOGITS = np.linspace(-24.0, 24.0, 2401)  # of the values u in (0, 1) at which the bound is evaluated


def maximum_bound(weight: float, candidates: float) -> float:
    """Returns an upper bound on E max of N weighted sums of independent Laplace noise with weights a_k in [-1, 1].

    The bound is min over u in (0, 1) of (ln N - W ln(1 - u^2)) / u, where W is the sum of a_k^2 of each variable. It
    follows from E max <= ln(sum of E exp(u Y)) / u and -ln(1 - a^2 u^2) <= -a^2 ln(1 - u^2), as ln is concave. The N
    variables may depend on each other. For the largest absolute value of d variables use N = 2d.

    Args:
        weight: W >= 0. A plain sum of m noise variables has W = m.
        candidates: N >= 1.
    """
    weight = real("weight", weight, low=0.0)
    log_count = math.log(real("candidates", candidates, low=1.0))
    # Every u gives a valid bound. This form of -ln(1 - u^2) rounds at neither end.
    u = special.expit(_LOGITS)
    cost = -special.log_expit(-_LOGITS) - np.log1p(u)
    return float(np.min((log_count + weight * cost) / u))
