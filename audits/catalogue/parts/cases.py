"""One entry of the catalogue of audits: a target, a claim about it, and what an audit of it has to say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Any

from attrs import field, frozen

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.validate import integer, real
from hockeystick.audits.claims.claim import Claim
from hockeystick.audits.drawing.draws import MINIMUM_SAMPLES
from hockeystick.audits.fixed_sample import audit
from hockeystick.audits.verdicts.verdict import Verdict

STATED_CONFIDENCE = 1 - 1e-6
"""At which the sample sizes of the catalogue are stated: enough for a thousand cases at 0.999 together."""


def _truth(value: float | None) -> float | None:
    return None if value is None else real("truth", value, low=0.0, allow_inf=True)


def _samples(value: int) -> int:
    return integer("samples", value, low=MINIMUM_SAMPLES)


def _options(value: Mapping[str, Any]) -> Mapping[str, Any]:
    return MappingProxyType(dict(value))


@frozen(kw_only=True, eq=False)
class Subject:
    """What is audited.

    Attributes:
      target: as :func:`hockeystick.audits.audit` takes it.
      neighbours: two data sets that differ as the claim's neighbouring relation allows.
      claim: what is said of it.
      truth: the exact epsilon at ``claim.delta`` *on these two data sets*, the larger of both directions: what an audit
        of them with unlimited samples would find. May be infinite; None if it is not known.
    """

    target: Any
    neighbours: tuple[Any, Any]
    claim: Claim
    truth: float | None = field(default=None, converter=_truth)


@frozen(kw_only=True, eq=False, slots=False)
class Case:
    """A target with a claim that is known to hold, or known to be false.

    Nothing is built before it is asked for: a case is cheap to make, list and select.

    Attributes:
      name: "zoo/svt-3@1", "mechanism/laplace[half scale]"; unique in the catalogue.
      build: gives the subject.
      broken: whether the claim is false on the subject's neighbours.
      samples: outputs from each data set with which ``audit`` refutes a broken case with probability at least 0.9, at
        the confidence ``STATED_CONFIDENCE`` and otherwise its default settings; measured. For a correct case: how many
        to draw.
      source: who described it: authors, year, algorithm.
      oracle: how the truth is known; empty if it is not.
      options: further arguments of ``audit``.

    Raises:
      InvalidArgumentError: an empty name, or samples that are no count.
    """

    name: str
    build: Callable[[], Subject] = field(repr=False)
    broken: bool
    samples: int = field(converter=_samples)
    source: str = ""
    oracle: str = ""
    options: Mapping[str, Any] = field(factory=dict, converter=_options)

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise InvalidArgumentError("name", self.name, "is no name", 'name a case "kind/what"')

    @cached_property
    def subject(self) -> Subject:
        """What is audited; built once."""
        return self.build()

    @property
    def target(self) -> Any:
        """The subject's target."""
        return self.subject.target

    @property
    def neighbours(self) -> tuple[Any, Any]:
        """The subject's two data sets."""
        return self.subject.neighbours

    @property
    def claim(self) -> Claim:
        """The subject's claim."""
        return self.subject.claim

    @property
    def truth(self) -> float | None:
        """The exact epsilon at ``claim.delta`` on the two data sets; None if it is not known."""
        return self.subject.truth

    def audit(
        self, *, samples: int | None = None, rng: int, confidence: float = STATED_CONFIDENCE, **more: Any
    ) -> Verdict:
        """Audits its subject, with its own options.

        Args:
          samples: outputs from each data set; the stated number by default.
          rng: seed.
          confidence: that at which sample sizes are stated, by default.
          more: further arguments of :func:`hockeystick.audits.audit`, before the case's own.
        """
        return audit(
            self.target,
            claim=self.claim,
            neighbours=self.neighbours,
            samples=self.samples if samples is None else samples,
            rng=rng,
            confidence=confidence,
            **{**self.options, **more},
        )
