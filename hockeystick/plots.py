"""Pictures of several things at once, and of plans: trade-off curves in one figure, the power of an audit to come.

What one object shows of itself it has as a method: ``Guarantee.plot``, ``DurableLedger.plot``, ``Verdict.plot``. All of
them return axes of matplotlib (the extra ``report``), which can be restyled, and take ``ax``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hockeystick._guess.names import unknown
from hockeystick.accounting.engines import tradeoff_curve
from hockeystick.accounting.errors import InvalidArgumentError
from hockeystick.accounting.events.basic.event import PrivacyEvent
from hockeystick.accounting.graph.drawing.curves import plot_event, trade_off_axes
from hockeystick.accounting.graph.guarantee import Guarantee
from hockeystick.accounting.validate import integer, probability, real
from hockeystick.audits.claims.claim import Claim
from hockeystick.audits.verdicts.pictures import claimed_misses, plot_power

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["cost", "power", "trade_off"]

Drawn = Guarantee | PrivacyEvent | Claim


def trade_off(curves: Mapping[str, Drawn], *, ax: Any = None) -> Axes:
    """Draws the trade-off curves of several guarantees, events or claims in one figure, and returns its axes.

    A curve gives the least rate of misses that an attack can have at each rate of false alarms. The closer it is to the
    line of a random guess, the stronger is the privacy.

    Args:
      curves: what to draw, by the name in the legend.
      ax: axes to draw into; by default those of a new figure.

    Raises:
      MissingExtraError: matplotlib is not installed.
      InvalidArgumentError: no curve, or a value that is neither a guarantee nor an event nor a claim.

    Example:
      >>> import hockeystick as hs
      >>> axes = hs.plots.trade_off({"one": hs.events.Gaussian(2.0), "claimed": hs.Claim(1.0, 1e-6)})
      >>> [text.get_text() for text in axes.get_legend().get_texts()]
      ['a random guess', 'one', 'claimed']
    """
    if not isinstance(curves, Mapping) or not curves:
        raise InvalidArgumentError("curves", curves, "is not a dictionary of names", 'give {"a name": guarantee, ...}')
    return trade_off_axes({str(name): _curve(str(name), one) for name, one in curves.items()}, ax)


def _curve(name: str, drawn: object) -> Callable[[Any], Any]:
    if isinstance(drawn, Claim):
        return lambda alarms: np.clip(claimed_misses(drawn.points, alarms), 0.0, 1.0)
    event = drawn.event if isinstance(drawn, Guarantee) else drawn
    if not isinstance(event, PrivacyEvent):
        raise InvalidArgumentError(f"curves[{name!r}]", drawn, "has no curve", "give a guarantee, an event or a claim")
    return lambda alarms: tradeoff_curve.trade_off(event, alarms)


def cost(event: PrivacyEvent, kind: str = "utility", *, delta: float = 1e-6, points: int = 20, ax: Any = None) -> Axes:
    """Draws one event as ``Guarantee.plot`` draws a guarantee; the arguments and errors are the same.

    Example:
      >>> import hockeystick as hs
      >>> hs.plots.cost(hs.compose((hs.events.Gaussian(10.0), 50)), "profile").get_xlabel()
      'ε'
    """
    return plot_event(event, kind, delta=delta, points=points, ax=ax)


def power(
    epsilon: float,
    delta: float = 0.0,
    *,
    true_epsilons: Sequence[float],
    event_probability: float = 0.1,
    confidence: float = 0.999999,
    samples: tuple[int, int] = (1_000, 1_000_000),
    ax: Any = None,
) -> Axes:
    """Draws the power of an audit over the number of outputs, before it is run, and returns the axes.

    Args:
      epsilon, delta: the claim.
      true_epsilons: one line each, above ``epsilon``: the probability that the audit refutes the claim if the event has
        the probability q on one data set and e^ε·q + δ on the other.
      event_probability: q, in (0, 1). The power depends on it; ``Verdict.plot("power")`` takes that of its own event.
      confidence: of the audit.
      samples: the least and the largest number of outputs from each data set.
      ax: axes to draw into; by default those of a new figure.

    Raises:
      MissingExtraError: matplotlib is not installed.
      InvalidArgumentError: an argument is outside its domain, or no event has such probabilities.

    Example:
      >>> import hockeystick as hs
      >>> axes = hs.plots.power(1.0, true_epsilons=[2.0], samples=(10, 100))
      >>> [text.get_text() for text in axes.get_legend().get_texts()]
      ['true ε = 2']
    """
    epsilon, delta = real("epsilon", epsilon, low=0.0, high=700.0), probability("delta", delta)
    q, level = (
        probability("event_probability", event_probability, open=True),
        probability("confidence", confidence, open=True),
    )
    trues = [real("true_epsilons", one, low=epsilon, high=700.0) for one in true_epsilons]
    least, most = (integer("samples", one, low=10) for one in samples)
    if all(np.exp(one) * q + delta > 1.0 for one in trues):
        reason = f"leads to no event: e^ε times {q:g} is above 1"
        raise InvalidArgumentError("true_epsilons", tuple(trues), reason, "give a smaller event_probability")
    return plot_power(
        probability_of_event=q,
        epsilon=epsilon,
        delta=delta,
        true_epsilons=trues,
        alpha=1.0 - level,
        least=least,
        most=most,
        ax=ax,
    )


def __getattr__(name: str) -> object:
    raise unknown(__name__, name)
