"""Words for messages."""

from collections.abc import Iterable
from difflib import get_close_matches


def hint(name: str, known: Iterable[str]) -> str:
    """What a name that is not known may stand for, to be put at the end of a sentence; may be nothing."""
    names = list(known)
    near = get_close_matches(name, names, n=1) or [each for each in names if each.lower() == name.lower()]
    return f"; there is `{near[0]}`" if near else ""
