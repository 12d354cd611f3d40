"""A report as one page that needs nothing but itself: styles and plots are inside, and it runs no script.

Everything that comes from outside (events, names, messages) passes through the template's escaping; only the plots,
which are drawn here and escape their own texts, are let through.
"""

from __future__ import annotations

from importlib.resources import files

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from hockeystick.report_content import Report
from hockeystick.report_plots import svg_plot


def page(report: Report, *, json: str) -> str:
    """Returns the page: the report, and behind a fold the JSON that it was made from."""
    plots = [plot for section in report.sections for plot in section.plots]
    drawings = {plot: Markup(svg_plot(plot, name=f"plot{i}")) for i, plot in enumerate(plots)}
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    source = files("hockeystick").joinpath("templates/report.html.jinja").read_text(encoding="utf-8")
    return environment.from_string(source).render(report=report, drawings=drawings, json=json)
