"""Sentences, our own and those of nodes: what they have in backticks is shown as code. Nothing in them is HTML."""

import re
from html import escape

_CODE = re.compile(r"`([^`]+)`")


def prose(text: str) -> str:
    """As markup; all of the text is escaped."""
    parts = _CODE.split(text)  # every second one stood in backticks
    return "".join(f"<code>{escape(one)}</code>" if at % 2 else escape(one) for at, one in enumerate(parts))
