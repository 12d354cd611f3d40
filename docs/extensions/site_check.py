"""The built site: every link and anchor in it leads somewhere, and nothing is loaded from elsewhere.

Sphinx checks what the pages say; this checks what was written, templates and theme included. It runs at the end of each
build, where a problem is a warning, and on any folder of HTML files: ``python docs/extensions/site_check.py FOLDER``.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from sphinx.application import Sphinx

LOADS = {"img": "src", "script": "src", "iframe": "src", "source": "src", "link": "href", "object": "data"}
NOT_LOADED = {"canonical", "next", "prev", "index", "search", "author", "license"}
CSS_URL = re.compile(r"""@import\s+["']([^"']+)|url\(\s*["']?([^"')]+)""")


class Page(HTMLParser):
    """What one page loads, links to, and can be linked at; and its images without a text."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.loads: list[str] = []
        self.links: list[str] = []
        self.ids: list[str] = []
        self.silent_images: list[str] = []
        self.titled = self.has_language = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if "id" in given:
            self.ids.append(given["id"])
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag in LOADS and LOADS[tag] in given and not NOT_LOADED & set(given.get("rel", "").split()):
            self.loads.append(given[LOADS[tag]])
        if tag == "img" and not given.get("alt", "").strip():
            self.silent_images.append(given.get("src", ""))
        self.titled |= tag == "title"
        self.has_language |= tag == "html" and bool(given.get("lang"))


def problems(folder: Path) -> list[str]:
    """Returns what is wrong with the HTML files of a folder, one line each."""
    files = {path.resolve(): Page(path.read_text(encoding="utf-8")) for path in sorted(folder.rglob("*.html"))}
    found = [] if files else [f"{folder} holds no page"]
    for path, page in files.items():
        name = path.relative_to(folder.resolve()).as_posix()
        found += [f"{name}: no title"] * (not page.titled) + [f"{name}: no language"] * (not page.has_language)
        repeated = {anchor: count for anchor, count in Counter(page.ids).items() if count > 1}
        found += [f"{name}: the id {anchor!r} stands {count} times" for anchor, count in repeated.items()]
        found += [f"{name}: no text for the image {image}" for image in page.silent_images]
        for target in page.loads:
            if what := "which is elsewhere" if is_outside(target) else missing(path, target, files):
                found.append(f"{name}: loads {target}, {what}")
        for target in page.links:
            if not is_outside(target) and (what := missing(path, target, files)):
                found.append(f"{name}: links to {target}, {what}")
    for path in sorted(folder.rglob("*.css")):
        for match in CSS_URL.finditer(path.read_text(encoding="utf-8")):
            if (target := match[1] or match[2]).startswith(("http:", "https:", "//")):
                found.append(f"{path.name}: loads {target}, which is elsewhere")
    return found


def is_outside(target: str) -> bool:
    return bool(urlsplit(target).netloc) or urlsplit(target).scheme in ("http", "https", "mailto")


def missing(page: Path, target: str, files: dict[Path, Page]) -> str:
    """What a link of a page misses: nothing (""), a file, or an anchor in it."""
    parts = urlsplit(target)
    if parts.scheme or parts.netloc:
        return ""
    file = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    if file.is_dir():
        file /= "index.html"
    if not file.exists():
        return "which is missing"
    if parts.fragment and file in files and unquote(parts.fragment) not in files[file].ids:
        return "whose anchor is missing"
    return ""


def warn(app: Sphinx, exception: Exception | None) -> None:
    from sphinx.util import logging

    if exception is None and app.builder.name == "html":
        for problem in problems(Path(app.outdir)):
            logging.getLogger(__name__).warning("%s", problem)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("build-finished", warn)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


if __name__ == "__main__":
    found = problems(Path(sys.argv[1]))
    print(*found, sep="\n")
    sys.exit(bool(found))
