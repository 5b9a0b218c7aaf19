"""Hints for error messages."""

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the known name that is most like an unknown one; empty if there is none."""
    names = list(known)
    near = get_close_matches(name, names, n=1) or [other for other in names if other.lower() == name.lower()]
    return near[0] if near else ""


def hint(name: str, known: Iterable[str]) -> str:
    """Return a hint for an unknown name, as the end of a sentence; may be empty."""
    near = nearest(name, known)
    return f"; there is `{near}`" if near else ""


def question(name: str, known: Iterable[str]) -> str:
    """Return a hint for an unknown name: the nearest one as a question, or all known names."""
    names = sorted(known)
    near = nearest(name, names)
    return f"did you mean `{near}`?" if near else f"known: {', '.join(f'`{other}`' for other in names) or 'none'}"
