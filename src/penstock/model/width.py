"""How wide a text is shown, so that a caret on the line below stands under the right place."""

from unicodedata import category, east_asian_width

_WITHOUT_WIDTH = frozenset({"Mn", "Me", "Cf"})


def columns(text: str) -> int:
    """The columns that a text takes in a terminal: wide characters two, marks on others none."""
    return sum(0 if category(each) in _WITHOUT_WIDTH else 2 if east_asian_width(each) in "WF" else 1 for each in text)
