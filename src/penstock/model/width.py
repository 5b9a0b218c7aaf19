"""The width of a text in a terminal, so that a caret on the line below stands in the right column."""

from unicodedata import category, east_asian_width

_WITHOUT_WIDTH = frozenset({"Mn", "Me", "Cf"})


def columns(text: str) -> int:
    """Return the columns that a text takes in a terminal: wide characters two, marks on others none."""
    return sum(
        0 if category(character) in _WITHOUT_WIDTH else 2 if east_asian_width(character) in "WF" else 1
        for character in text
    )
