"""Hints for error messages."""

from collections.abc import Iterable
from difflib import get_close_matches


def hint(name: str, known: Iterable[str]) -> str:
    """Return a hint for an unknown name, as the end of a sentence; may be empty."""
    names = list(known)
    near = get_close_matches(name, names, n=1) or [other for other in names if other.lower() == name.lower()]
    return f"; there is `{near[0]}`" if near else ""
