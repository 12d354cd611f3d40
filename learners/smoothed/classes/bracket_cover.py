"""Covers with one predicate for each bracket: any predicate of a bracket is within the bracket's mass of its member.

A predicate is then looked up by its bracket, without a comparison with the others. What is found is within gamma of it,
and a function of public values alone; a nearer one may exist.
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
        brackets: Of the class, of mass gamma under the measure.
    """

    brackets: Brackets

    def nearest(self, parameters: npt.ArrayLike) -> IntArray:
        return self.brackets.index(self.concepts.checked_parameters(parameters))


def bracket_cover(concepts: ConceptClass, brackets: Brackets, gamma: float, measure: BaseMeasure) -> BracketCover:
    """The gamma-cover of the members of brackets of mass <= gamma under ``measure``.

    Raises:
        InvalidArgumentError: there are too many to be listed.
    """
    if brackets.count * concepts.parameter_count > _MOST_NUMBERS:
        raise InvalidArgumentError(
            "gamma",
            gamma,
            f"needs {brackets.count} predicates",
            "take a larger one, or work with the brackets' indices",
        )
    return BracketCover(
        concepts=concepts, parameters=brackets.members(), measure=measure, gamma=gamma, brackets=brackets
    )
