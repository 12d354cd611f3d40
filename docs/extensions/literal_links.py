"""Code in a sentence that names something public, ``hs.Claim.curve(guarantee, delta)`` for one, becomes a link."""

from __future__ import annotations

import re

from docutils import nodes
from public_names import PARTS, meant
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.domains.python import ObjectEntry
from sphinx.util.nodes import make_refnode

CODE = re.compile(r"((?:\w+\.)*\w+)(?:\(.*\))?", re.DOTALL)
# A word in code that is also a public name need not mean it; a capital, an underscore or a prefix says that it does.
NAME = re.compile(r"[A-Z]\w+|\w+_\w+|.*\..*")


def link(app: Sphinx, document: nodes.document, docname: str) -> None:
    entries = app.env.domains.python_domain.objects
    part = docname.rpartition("/")[2].partition("-")[0]  # what api/learners-lazy and accounting are about
    package = f"hockeystick.{part}" if part in PARTS else None
    for literal in list(document.findall(nodes.literal)):
        code = CODE.fullmatch(literal.astext())
        if not code or not NAME.fullmatch(code[1]) or is_linked_or_heading(literal):
            continue
        if found := entry(code[1], package, entries):
            name, at = found
            literal.replace_self(make_refnode(app.builder, docname, at.docname, at.node_id, literal.deepcopy(), name))


def entry(name: str, package: str | None, entries: dict[str, ObjectEntry]) -> tuple[str, ObjectEntry] | None:
    """What a name means: something public, or a member of something public."""
    owner, _, member = name.rpartition(".")
    for full in (meant(name, package), f"{meant(owner, package)}.{member}" if owner else None):
        if full in entries:
            return full, entries[full]
    return None


def is_linked_or_heading(node: nodes.Node) -> bool:
    while node := node.parent:
        if isinstance(node, (nodes.reference, nodes.title, addnodes.desc_signature)):
            return True
    return False


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("doctree-resolved", link)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
