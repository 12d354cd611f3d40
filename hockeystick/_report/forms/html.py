"""Reports as one self-contained HTML page, with styles, plots and drawings inside, and without scripts.

The template escapes all text from outside (events, names, messages). Only plots and graphs, which are drawn here and
escape their own text, are inserted as markup.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from itertools import count

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from hockeystick._report.parts.content import Picture, Report
from hockeystick._report.parts.plots import Plot, svg_plot
from hockeystick.accounting.errors import visible
from hockeystick.accounting.graph.drawing.svg import MOST_NODES, to_svg


def _shown(value: object) -> object:
    """Returns a value of the template; of a text, each line without characters that are not printed."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    return "\n".join(visible(line) for line in value.split("\n"))


def page(reports: Sequence[tuple[Report, str]]) -> str:
    """Returns the page of the reports, each with its JSON in a collapsed section."""
    numbers = count()

    def drawn(what: Plot | Picture) -> Markup:
        name = f"drawing{next(numbers)}"  # unique, for the identifiers inside
        if isinstance(what, Plot):
            return Markup(svg_plot(what, name=name))
        if len(what.graph.nodes) > MOST_NODES:
            return Markup(f"<p>(The graph has {len(what.graph.nodes)} nodes, too many for a drawing.)</p>")
        return Markup(to_svg(what.graph, spent=dict(what.spent), standalone=False, name=name))

    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_shown,
    )
    source = files("hockeystick").joinpath("templates/report.html.jinja").read_text(encoding="utf-8")
    return environment.from_string(source).render(reports=reports, drawn=drawn)
