"""The first use of a term of the glossary on a page is a link to the entry, in running text; API pages are left out."""

from __future__ import annotations

import re
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx

GLOSSARY = "glossary"
ENTRY = re.compile(r"\n\n\*\*([^*]+)\*\*")
NOT_PROSE = (nodes.reference, nodes.literal, nodes.title, nodes.literal_block, nodes.strong, nodes.emphasis)


def anchor(term: str) -> str:
    return "term-" + re.sub(r"[^a-z0-9]+", "-", term.lower()).strip("-")


def terms(text: str) -> dict[str, str]:
    """Term in lower case -> its anchor; of "Neighbouring data sets" and the like. Symbols have no link."""
    found = {entry.lower(): anchor(entry) for entry in ENTRY.findall(text)}
    return {term: where for term, where in found.items() if re.fullmatch(r"[a-z][a-z -]{3,}", term)}


def mark_entries(document: nodes.document) -> None:
    """Gives the entries of the glossary their anchors; of two of one name, the first."""
    seen = set()
    for entry in list(document.findall(nodes.strong)):
        where = anchor(entry.astext())
        if entry.parent.astext().startswith(entry.astext()) and where not in seen:
            entry.parent.insert(0, nodes.target("", "", ids=[where]))
            seen.add(where)


def link_terms(document: nodes.document, known: dict[str, str], page: str) -> None:
    """Makes the first use of each term a link to ``page``."""
    left = dict(known)
    for text in list(document.findall(nodes.Text)):
        parent, inside = text.parent, text.parent
        while inside is not None and not isinstance(inside, NOT_PROSE):
            inside = inside.parent
        if not left or inside is not None or not isinstance(parent, nodes.paragraph):
            continue
        words = "|".join(sorted(map(re.escape, left), key=len, reverse=True))
        match = re.search(rf"\b({words})\b", text.astext(), re.IGNORECASE)
        if match is None:
            continue
        before, shown, after = text[: match.start()], match[0], text[match.end() :]
        link = nodes.reference("", shown, refuri=f"{page}#{left.pop(shown.lower())}", internal=True)
        parts = [nodes.Text(before), link, nodes.Text(after)]
        parent.replace(text, [part for part in parts if part.astext()])


def resolve(app: Sphinx, document: nodes.document, name: str) -> None:
    """Links the terms of a page, before it is written."""
    if app.builder.format != "html" or name.startswith("api/"):
        return
    if name == GLOSSARY:
        mark_entries(document)
        return
    text = (Path(app.srcdir) / f"{GLOSSARY}.md").read_text(encoding="utf-8")
    link_terms(document, terms(text), app.builder.get_relative_uri(name, GLOSSARY))


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("doctree-resolved", resolve)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
