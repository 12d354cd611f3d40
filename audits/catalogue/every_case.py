"""The catalogue: all cases to audit, correct and broken.

Every mechanism and learner of this package claims its event and must not be refuted; every mutant claims the event of
the correct variant and must be refuted. The zoo holds mechanisms from the literature, correct and broken, on which the
auditor's numbers can be compared with published ones. ``hockeystick catalogue run`` audits the catalogue.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

from hockeystick.accounting import InvalidArgumentError
from hockeystick.audits.catalogue.bandits.cases import bandit_cases
from hockeystick.audits.catalogue.bandits.contextual import contextual_cases
from hockeystick.audits.catalogue.distribution.cases import distribution_cases
from hockeystick.audits.catalogue.divergence.cases import kl_cases
from hockeystick.audits.catalogue.federated.cases import federated_cases
from hockeystick.audits.catalogue.lazy.cases import learner_cases
from hockeystick.audits.catalogue.lazy.restarts import restart_cases
from hockeystick.audits.catalogue.literature.cases import zoo_cases
from hockeystick.audits.catalogue.mechanisms.baselines import baseline_cases
from hockeystick.audits.catalogue.mechanisms.bounded_contributions import bounded_cases
from hockeystick.audits.catalogue.mechanisms.last_iterates import last_iterate_cases
from hockeystick.audits.catalogue.mechanisms.lazy_walk import walk_cases
from hockeystick.audits.catalogue.mechanisms.mechanisms import mechanism_cases
from hockeystick.audits.catalogue.mechanisms.noise_shares import share_cases
from hockeystick.audits.catalogue.mechanisms.secure_sums import secure_sum_cases
from hockeystick.audits.catalogue.parts.cases import STATED_CONFIDENCE, Case, Subject
from hockeystick.audits.catalogue.run import CaseResult, run_catalogue
from hockeystick.audits.catalogue.smoothed.cases import smoothed_cases
from hockeystick.audits.catalogue.smoothed.query_release import released_cases

__all__ = ["STATED_CONFIDENCE", "Case", "CaseResult", "Subject", "catalogue", "run_catalogue", "select"]


def catalogue() -> tuple[Case, ...]:
    """Returns all cases: the zoo of the literature, then mechanisms, then learners, each followed by its mutants.

    Example:
        >>> cases = catalogue()
        >>> sum(case.broken for case in cases) > 100 and sum(not case.broken for case in cases) > 100
        True
    """
    mechanisms = (
        *mechanism_cases(),
        *share_cases(),
        *secure_sum_cases(),
        *bounded_cases(),
        *walk_cases(),
        *last_iterate_cases(),
    )
    learners = (
        *learner_cases(),
        *restart_cases(),
        *baseline_cases(),
        *federated_cases(),
        *bandit_cases(),
        *contextual_cases(),
        *kl_cases(),
        *distribution_cases(),
        *smoothed_cases(),
    )
    return (*zoo_cases(), *mechanisms, *learners, *released_cases())


def select(*patterns: str) -> tuple[Case, ...]:
    """Returns the cases whose names match any of ``patterns``, in the catalogue's order; without patterns all cases.

    A pattern is a whole name, or a shell pattern (fnmatch): ``zoo/*``, ``*svt*@1``, ``mechanism/*[[]half*``. Brackets
    in a whole name are literal; in a shell pattern ``[[]`` matches an opening bracket.

    Raises:
      InvalidArgumentError: A pattern matches no case.

    Example:
        >>> [case.name for case in select("mechanism/laplace", "mechanism/laplace[[]half*")]
        ['mechanism/laplace', 'mechanism/laplace[half the scale]']
    """
    every = catalogue()
    found: set[str] = set()
    for pattern in patterns:
        names = {case.name for case in every if case.name == pattern or fnmatchcase(case.name, pattern)}
        if not names:
            raise InvalidArgumentError("pattern", pattern, "matches no case", "see `hockeystick catalogue list`")
        found |= names
    return tuple(case for case in every if not patterns or case.name in found)
