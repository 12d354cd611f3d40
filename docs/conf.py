"""The documentation site: ``sphinx-build --fail-on-warning docs build/site`` (extra ``docs``). No network at any time.

Pages are Markdown; the API reference comes from docstrings (``extensions/api_reference.py``), names in ``code`` become
links (``extensions/literal_links.py``), and what was built is checked at last (``extensions/site_check.py``).
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import hockeystick

sys.path.insert(0, str(Path(__file__).parent / "extensions"))

project = "hockeystick"
version = release = hockeystick.__version__
project_copyright = "the authors of hockeystick, Apache-2.0"
language = "en"

# Notebooks of the gallery are run and shown where myst-nb is installed (extra ``docs``); no output is kept.
notebooks = find_spec("myst_nb") is not None
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 600  # seconds, for one cell on a busy machine
nb_merge_streams = True

extensions = [
    "myst_nb" if notebooks else "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "api_reference",
    "annotations",
    "literal_links",
    "glossary_links",
    "site_check",
]
source_suffix = {".md": "myst-nb", ".ipynb": "myst-nb"} if notebooks else {".md": "markdown"}
suppress_warnings = [] if notebooks else ["toc.not_readable"]  # the notebooks
exclude_patterns = ["figures", "extensions"]
nitpicky = True  # a cross-reference that leads nowhere is a warning, and warnings are errors

myst_enable_extensions = ["colon_fence"]  # ``` is left to code that is run
myst_heading_anchors = 4  # as in file views: a heading is its own anchor
myst_links_external_new_tab = False

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 100
napoleon_numpy_docstring = False
napoleon_use_ivar = True  # a field of a class is a line in its table, not an entry of its own
napoleon_use_rtype = False
napoleon_preprocess_types = False
add_module_names = False
toc_object_entries = False  # navigation by headings alone
default_role = "literal"

html_theme = "furo"
html_title = f"hockeystick {version}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {"navigation_with_keys": True}
