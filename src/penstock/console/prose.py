"""Sentences, our own and those of nodes: text in backticks is shown as code. Nothing in them is HTML."""

import re
from html import escape

_CODE = re.compile(r"`([^`]+)`")


def prose(text: str) -> str:
    """Return a sentence as markup; all of the text is escaped."""
    parts = _CODE.split(text)  # every second one stood in backticks
    return "".join(f"<code>{escape(part)}</code>" if at % 2 else escape(part) for at, part in enumerate(parts))
