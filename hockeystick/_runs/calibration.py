"""The subjects of ``hockeystick calibrate``: a named mechanism, or a graph in a file with an open parameter.

A graph's open parameter is the string "?" in place of a number. It may stand in several places, which then all get the
same value. If it stands for a count, only whole numbers are tried.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from difflib import get_close_matches
from typing import Any

from attrs import evolve, frozen

from hockeystick._words.figures import exact
from hockeystick._words.guarantee_terms import RECORD
from hockeystick.accounting import (
    AccountantGraph,
    Adjacency,
    Calibrated,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    GraphError,
    InvalidArgumentError,
    Laplace,
    PoissonSampled,
    PrivacyEvent,
    SampledWithoutReplacement,
    Skellam,
)
from hockeystick.accounting.files.reading import UnreadableFileError, json_value
from hockeystick.accounting.numerics.directed_rounding import quotient_down, quotient_up

_DEEPEST = 200  # levels of nesting
OPEN = "?"
_WHOLE = {"count", "answers", "categories", "k", "size", "coordinates", "batch", "population", "length"}
_SHARES = {"probability", "keep_probability", "delta", "gamma", "p", "q"}  # at most 1


@frozen
class Noise:
    """A family of noise with one parameter.

    Attributes:
      parameter: The parameter's name.
      norm: The norm of the sensitivity.
      event: The function (parameter, sensitivity) -> event of one use.
    """

    parameter: str
    norm: str
    event: Callable[[float, float], PrivacyEvent]


MECHANISMS = {
    "gaussian": Noise("sigma", "L2", lambda sigma, s: Gaussian(quotient_down(sigma, s))),
    "laplace": Noise("scale", "L1", lambda scale, s: Laplace(quotient_down(scale, s))),
    "discrete-gaussian": Noise("sigma", "L2", lambda sigma, s: DiscreteGaussian(sigma).at(s)),
    "discrete-laplace": Noise("scale", "L1", lambda scale, s: DiscreteLaplace(scale).at(s)),
    "skellam": Noise("variance", "L2", lambda variance, s: Skellam(variance).at(s)),
}


@frozen
class Question:
    """A mechanism with one open number.

    Attributes:
      mechanism: A name of ``MECHANISMS``.
      sensitivity: The sensitivity of the value under ``adjacency``, in the mechanism's norm.
      clip: Alternatively, the norm up to which each record adds to a sum. Without both, the sensitivity is 1.
      noise, count, sampling: The noise parameter, the number of uses, and the probability of a record in each use's
        sample; the open one is None.
      batch, population: Instead of ``sampling``: the sizes of each use's sample and of the data set.
      adjacency: The neighbouring relation.
    """

    mechanism: str
    sensitivity: float | None
    clip: float | None
    noise: float | None
    count: int | None
    sampling: float | None
    batch: int | None
    population: int | None
    adjacency: Adjacency

    @property
    def parameter(self) -> str:
        """The name of the open number."""
        if self.noise is None:
            return MECHANISMS[self.mechanism].parameter
        return "count" if self.count is None else "sampling"

    @property
    def distance(self) -> float:
        """The sensitivity of the value, in the mechanism's norm.

        Each record adds a vector of norm at most C to a sum. Adding or removing a record, or replacing it by a null,
        moves the sum by at most C; replacing it by another record by at most 2·C. The same holds within a sample.
        """
        if self.clip is not None:
            return 2.0 * self.clip if self.adjacency is Adjacency.REPLACE_ONE else self.clip
        return 1.0 if self.sensitivity is None else self.sensitivity

    @property
    def unit(self) -> str:
        """The sensitivity in words."""
        what = "the value" if self.clip is None else "the sum"
        if self.clip is None:
            why = "the default sensitivity" if self.sensitivity is None else "from --sensitivity"
        else:
            why = f"{'twice ' if self.distance > self.clip else ''}the clip {exact(self.clip)}"
        where = "" if self.sampling == 1.0 and self.batch is None else ", if sampled,"
        norm = MECHANISMS[self.mechanism].norm
        return f"{RECORD[self.adjacency]}{where} moves {what} by at most {exact(self.distance)} in {norm} ({why})"

    def multiplier(self, value: float) -> float | None:
        """Returns the noise multiplier (noise/clip), rounded up, at the open number ``value``; None without a clip."""
        noise = value if self.noise is None else self.noise
        if self.clip is None or MECHANISMS[self.mechanism].parameter == "variance":
            return None
        return quotient_up(noise, self.clip)

    def graph(self, value: float) -> AccountantGraph:
        """Returns the graph with the open number set to ``value``."""
        if self.noise is None:
            return evolve(self, noise=value)._built()
        return (evolve(self, count=int(value)) if self.count is None else evolve(self, sampling=value))._built()

    def _built(self) -> AccountantGraph:
        assert self.noise is not None and self.count is not None and self.sampling is not None
        event = MECHANISMS[self.mechanism].event(self.noise, self.distance)
        if self.batch is not None and self.population is not None:
            event = SampledWithoutReplacement(self.population, self.batch, event)
        elif self.sampling < 1.0:
            event = PoissonSampled(self.sampling, event)
        graph = AccountantGraph(adjacency=self.adjacency).source("records")
        return graph.release(self.mechanism, event, reads=["records"], count=self.count)


@frozen
class Template:
    """A graph's JSON with an open parameter.

    Attributes:
      data: The decoded JSON.
      places: The positions of "?", as paths of keys and indices.
    """

    data: Any
    places: tuple[tuple[str | int, ...], ...]

    @classmethod
    def read(cls, text: str) -> Template:
        """Returns the template in a text.

        Raises:
          GraphError: The text is not JSON, or has no open parameter.
        """
        try:
            data = json_value(text)
        except UnreadableFileError as error:
            raise GraphError(f"graph: not valid JSON ({error})") from None
        places = tuple(place for place in _open_places(data, ()) if not {"reads", "sees"} & set(place))
        if not places:
            raise GraphError('graph: no parameter is open; write "?" in place of the number to calibrate')
        return cls(data, places)

    @property
    def whole(self) -> bool:
        """Whether the parameter is a whole number."""
        return any(place[-1] in _WHOLE for place in self.places)

    @property
    def share(self) -> bool:
        """Whether the parameter is at most 1."""
        return any(place[-1] in _SHARES for place in self.places)

    @property
    def parameter(self) -> str:
        """The names of the open parameters, each with its node."""
        return ", ".join(dict.fromkeys(map(self._named, self.places)))

    def graph(self, value: float) -> AccountantGraph:
        """Returns the graph with ``value`` in every open place.

        Raises:
          GraphError, InvalidArgumentError: The graph is invalid with this value.
        """
        filled = copy.deepcopy(self.data)
        for place in self.places:
            inside = filled
            for key in place[:-1]:
                inside = inside[key]
            inside[place[-1]] = int(value) if self.whole else value
        return AccountantGraph.from_json(json.dumps(filled))

    def _named(self, place: tuple[str | int, ...]) -> str:
        words = [str(key) for key in place[2:] if key != "event"]
        node = self.data
        for key in place[:2]:
            node = node[key]
        name = node.get("name", place[1]) if isinstance(node, dict) else place[1]
        return ".".join([str(name), *words])


def _open_places(data: Any, at: tuple[str | int, ...]) -> list[tuple[str | int, ...]]:
    """Returns the positions of "?" as a parameter: inside a node or a view, but not as its name."""
    if len(at) > _DEEPEST:
        raise GraphError(f"graph: values are nested more than {_DEEPEST} deep")
    if data == OPEN and len(at) > 2 and at[-1] not in ("name", "kind", "type"):
        return [at]
    inside: list[tuple[str | int, Any]] = []
    if isinstance(data, dict):
        inside = list(data.items())
    elif isinstance(data, list):
        inside = list(enumerate(data))
    return [place for key, value in inside for place in _open_places(value, (*at, key))]


def found_content(
    what: str, parameter: str, found: Calibrated, *, whole: bool, target: dict[str, float], given: dict[str, Any]
) -> dict[str, Any]:
    """Returns the entries of a result of calibration.

    Args:
      what: The mechanism or file.
      parameter: The name of the open number.
      found: Its value, and an adjacent value that fails.
      whole: Whether it is a whole number.
      target: The target, by name.
      given: The other numbers, by name.
    """
    return {
        "what": what,
        "parameter": parameter,
        "value": int(found.value) if whole else found.value,
        "rejected": None if found.rejected is None else int(found.rejected) if whole else found.rejected,
        "whole": whole,
        "target": target,
        "given": given,
        "evaluations": found.evaluations,
    }


def mechanism_named(name: str) -> str:
    """Returns the name in ``MECHANISMS`` that is meant, in whatever case and with whatever hyphens it is written.

    Raises:
      InvalidArgumentError: it is neither known nor a file.
    """
    plain = {known.replace("-", ""): known for known in MECHANISMS}
    word = name.lower().replace("-", "").replace("_", "").replace(" ", "")
    if word in plain:
        return plain[word]
    meant = get_close_matches(word.removesuffix("mechanism"), plain, 1)
    way_out = f"give one of {', '.join(MECHANISMS)}, or a graph's .json file"
    hint = f"did you mean {plain[meant[0]]}? " if meant else ""
    raise InvalidArgumentError("MECHANISM", name, "is unknown", hint + way_out)
