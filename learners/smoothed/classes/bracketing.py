"""Covers with one predicate for each bracket: any predicate of a bracket is within the bracket's mass of its member.

``nearest`` looks a predicate up by its bracket, without comparing it with the others. The result is within γ of the
predicate and a function of public values alone; a nearer member of the cover may exist.
"""

import numpy.typing as npt
from attrs import frozen

from hockeystick.accounting import InvalidArgumentError
from hockeystick.accounting.arrays import IntArray
from hockeystick.learners.smoothed.classes.concept_class import Brackets, ConceptClass, Cover
from hockeystick.learners.smoothed.measures.base_measure import BaseMeasure

_MOST_NUMBERS = 2**26  # in the parameters of a cover


@frozen(eq=False, kw_only=True)
class BracketCover(Cover):
    """A cover by the members of brackets, in their order; ``nearest`` is the member of the predicate's own bracket.

    Args:
        brackets: Brackets of the class, of mass at most γ under the measure.
    """

    brackets: Brackets

    def nearest(self, parameters: npt.ArrayLike) -> IntArray:
        return self.brackets.index(self.concepts.checked_parameters(parameters))


def bracket_cover(concepts: ConceptClass, brackets: Brackets, gamma: float, measure: BaseMeasure) -> BracketCover:
    """Returns the γ-cover of the members of brackets of mass at most γ under ``measure``.

    Raises:
        InvalidArgumentError: there are too many members to list.
    """
    if brackets.count * concepts.parameter_count > _MOST_NUMBERS:
        raise InvalidArgumentError(
            "gamma",
            gamma,
            f"needs {brackets.count} predicates, too many to list",
            "use a larger gamma, or the brackets alone",
        )
    return BracketCover(
        concepts=concepts, parameters=brackets.members(), measure=measure, gamma=gamma, brackets=brackets
    )
