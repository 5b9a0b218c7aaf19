"""Pages without the framework: the log-in, and the page for unknown addresses. They need no script."""

from pathlib import Path
from string import Template

_STATIC = Path(__file__).parents[1] / "static"


def plain(title: str, name: str, **parts: str) -> str:
    """Return a whole page around the content in a file; `parts` are inserted as they are."""
    content = Template((_STATIC / f"{name}.html").read_text()).substitute(parts)
    return Template((_STATIC / "plain.html").read_text()).substitute(title=title, content=content)
