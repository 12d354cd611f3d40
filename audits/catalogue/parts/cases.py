"""An entry of the catalogue of audits: a target, a claim about it, and whether the claim is true."""

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
"""The confidence level of the stated sample sizes; a thousand cases at this level are at 0.999 together."""


def _truth(value: float | None) -> float | None:
    return None if value is None else real("truth", value, low=0.0, allow_inf=True)


def _samples(value: int) -> int:
    return integer("samples", value, low=MINIMUM_SAMPLES)


def _options(value: Mapping[str, Any]) -> Mapping[str, Any]:
    return MappingProxyType(dict(value))


@frozen(kw_only=True, eq=False)
class Subject:
    """The subject of an audit.

    Attributes:
      target: The target, as :func:`hockeystick.audits.audit` takes it.
      neighbours: Two data sets that are neighbours under the claim's relation.
      claim: The claim about the target.
      truth: The exact epsilon at ``claim.delta`` *on these two data sets*, the larger of both directions, which an
        audit with unlimited samples would find. May be infinite; None if it is not known.
    """

    target: Any
    neighbours: tuple[Any, Any]
    claim: Claim
    truth: float | None = field(default=None, converter=_truth)


@frozen(kw_only=True, eq=False, slots=False)
class Case:
    """A target with a claim that is known to be true, or known to be false.

    The subject is built on first use, so a case is cheap to make, list and select.

    Attributes:
      name: A name that is unique in the catalogue, such as "zoo/svt-3@1" or "mechanism/laplace[half the scale]".
      build: Returns the subject.
      broken: Whether the claim is false on the subject's neighbours.
      samples: For a broken case, the number of outputs from each data set with which ``audit`` refutes it with
        probability at least 0.9, at the confidence level ``STATED_CONFIDENCE`` and otherwise its default settings;
        measured. For a correct case, the number to draw.
      source: The source: authors, year, algorithm.
      oracle: The method by which the truth is known; empty if it is not known.
      options: Further arguments of ``audit``.

    Raises:
      InvalidArgumentError: The name is empty, or ``samples`` is not a count.
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
            raise InvalidArgumentError("name", self.name, "is not a non-empty text", 'name a case "kind/name"')

    @classmethod
    def of(
        cls, name: str, build: Callable[[], Subject], refuted_by: int | None, *, correct: int = 40_000, **more: Any
    ) -> Case:
        """Returns a broken case that ``refuted_by`` samples refute; if None, a correct one with ``correct`` samples."""
        broken = refuted_by is not None
        return cls(name=name, build=build, broken=broken, samples=refuted_by or correct, **more)

    @cached_property
    def subject(self) -> Subject:
        """The subject of the audit; built once."""
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
        """Audits the subject with the case's options.

        Args:
          samples: Outputs from each data set; the stated number by default.
          rng: The seed.
          confidence: The confidence level; by default that of the stated sample sizes.
          more: Further arguments of :func:`hockeystick.audits.audit`, which override the case's options.
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
