"""How the site is made of the pages: `make docs`. The pages stay plain Markdown, as the repository shows it."""

import re
from pathlib import Path

from sphinx.application import Sphinx

ROOT = Path(__file__).parent.parent
# The site has the repository's own layout, so that links lead to the same pages here and there.
PARTS = {"README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs", "examples", "benchmarks"}
# Pages whose links are the table of contents: each section of the first is a part of it.
CONTENTS = {"docs/index", "docs/decisions/README"}

project = "Penstock"
root_doc = "docs/index"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = [*(path.name for path in ROOT.iterdir() if path.name not in PARTS), "**/__pycache__"]
myst_heading_anchors = 4
suppress_warnings = ["misc.highlighting_failure"]  # Pygments has no lexer for statements, and a strict one for CEL
html_theme = "furo"
html_title = "Penstock"
html_copy_source = False
html_show_copyright = False


def with_contents(app: Sphinx, page: str, source: list[str]) -> None:
    """Add to a page of contents, section by section, the table that its links stand for."""
    if page not in CONTENTS:
        return
    sections = re.split(r"(?m)^(?=## )", source[0])
    source[0] = "".join(section + _table(section) for section in sections)


def _table(section: str) -> str:
    pages = re.findall(r"(?m)^(?:- |\| ).*?\]\(([^)#:]+\.md)\)", section)
    caption = re.match(r"## (.*)", section)
    if not pages:
        return ""
    options = [":hidden:", *([f":caption: {caption[1]}"] if caption else [])]
    return "\n".join(["", "```{toctree}", *options, "", *pages, "```", "", ""])


def with_entrance(app: Sphinx, failure: Exception | None) -> None:
    """Lead whoever opens the folder itself to the first page."""
    to = f"{root_doc}.html"
    entrance = f'<!doctype html><meta http-equiv="refresh" content="0; url={to}"><a href="{to}">{project}</a>\n'
    (Path(app.outdir) / "index.html").write_text(entrance, encoding="utf-8")


def setup(app: Sphinx) -> None:
    app.connect("source-read", with_contents)
    app.connect("build-finished", with_entrance)
