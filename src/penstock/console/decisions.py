"""The part `decisions` of the page."""

from penstock.console import widgets
from penstock.console.person import Person


async def show(person: Person) -> None:
    """Show it to a person."""
    widgets.empty("Nothing here yet", "This part is being built.")
