"""Common widgets of all parts: headings, and placeholders for empty, loading and failed content."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from nicegui import ui

from penstock.console.prose import prose

Box = TypeVar("Box", bound=ui.element)


def sentence(text: str) -> ui.html:
    """Show a sentence with code in backticks."""
    return ui.html(prose(text), sanitize=False).classes("pk-prose")


def note(text: str = "") -> ui.label:
    """Show a remark in the smaller grey type."""
    return ui.label(text).classes("pk-about")


def hint(text: str) -> ui.html:
    """Show a remark with code in backticks."""
    return sentence(text).classes("pk-about")


def emptied(box: Box) -> Box:
    """Remove what an element shows; return it, to be filled again."""
    box.clear()
    return box


def bullets(items: Iterable[str], id: str = "") -> None:
    """Show sentences as a list."""
    with ui.element("ul").classes("pk-list").props(f"id={id}" if id else ""):
        for item in items:
            with ui.element("li"):
                sentence(item)


def heading(text: str, about: str = "") -> None:
    """Show the heading of a part, with a line on what it is for."""
    ui.label(text).classes("pk-heading").props("role=heading aria-level=1")
    if about:
        hint(about)


def subheading(text: str) -> None:
    ui.label(text).classes("pk-subheading").props("role=heading aria-level=2")


@contextmanager
def card(label: str = "") -> Iterator[ui.element]:
    """Show a box with a border; a named region for screen readers."""
    box = ui.element("section").classes("pk-card")
    if label:
        box.props(f'aria-label="{label}"')
    with box:
        yield box


def empty(title: str, hint: str = "") -> ui.element:
    """Show that there is nothing to show, and what to do about it."""
    with ui.element("div").classes("pk-state").props("role=status") as box:
        ui.icon("inbox").classes("pk-state-icon").props("aria-hidden=true")
        ui.label(title).classes("pk-state-title")
        if hint:
            sentence(hint).classes("pk-about")
    return box


def problem(title: str, why: str) -> ui.element:
    """Show that something cannot be shown, and why."""
    with ui.element("div").classes("pk-state pk-wrong").props("role=alert") as box:
        ui.icon("error_outline").classes("pk-state-icon").props("aria-hidden=true")
        ui.label(title).classes("pk-state-title")
        sentence(why).classes("pk-about")
    return box


def loading(text: str = "Asking the nodes") -> ui.element:
    """Show that content is loading."""
    with ui.element("div").classes("pk-state").props("role=status aria-live=polite") as box:
        ui.spinner(size="2em").props("aria-hidden=true")
        ui.label(text).classes("pk-about")
    return box


def outcome(text: str, is_good: bool) -> None:
    """Show a word for success or failure, with its colour."""
    ui.label(text).classes(f"pk-effect {'pk-pass' if is_good else 'pk-suppress'}")


def verdict(effect: str) -> ui.label:
    """Show the word for an effect, with its colour."""
    return ui.label(effect).classes(f"pk-effect pk-{effect}")


def first_names(names: Sequence[str], limit: int) -> str:
    """Return the first of these, and how many more there are."""
    return ", ".join(names[:limit]) + (f" and {len(names) - limit:,} more" if len(names) > limit else "")
