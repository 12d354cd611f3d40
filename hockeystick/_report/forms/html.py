"""Reports as one page that needs nothing but itself: styles, plots and drawings are inside, and it runs no script.

Everything that comes from outside (events, names, messages) passes through the template's escaping; only plots and
graphs, which are drawn here and escape their own texts, are let through.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from itertools import count

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from hockeystick._report.parts.content import Picture, Report
from hockeystick._report.parts.plots import Plot, svg_plot
from hockeystick.accounting.graph.drawing.svg import MOST_NODES, to_svg


def page(reports: Sequence[tuple[Report, str]]) -> str:
    """Returns the page: the reports, each with the JSON that it was made from behind a fold."""
    numbers = count()

    def drawn(what: Plot | Picture) -> Markup:
        name = f"drawing{next(numbers)}"  # of its own, for the identifiers inside
        if isinstance(what, Plot):
            return Markup(svg_plot(what, name=name))
        if len(what.graph.nodes) > MOST_NODES:
            return Markup(f"<p>(Its {len(what.graph.nodes)} nodes are too many for a drawing.)</p>")
        return Markup(to_svg(what.graph, spent=dict(what.spent), standalone=False, name=name))

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    source = files("hockeystick").joinpath("templates/report.html.jinja").read_text(encoding="utf-8")
    return environment.from_string(source).render(reports=reports, drawn=drawn)
