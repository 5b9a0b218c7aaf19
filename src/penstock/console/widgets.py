"""Common widgets of all parts: headings, and placeholders for empty, loading and failed content."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from nicegui import ui

from penstock.console.prose import prose


def sentence(text: str) -> ui.html:
    """Show a sentence with code in backticks."""
    return ui.html(prose(text), sanitize=False).classes("pk-prose")


def heading(text: str, about: str = "") -> None:
    """Show the heading of a part, with a line on what it is for."""
    ui.label(text).classes("pk-heading").props("role=heading aria-level=1")
    if about:
        sentence(about).classes("pk-about")


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


def verdict(effect: str) -> ui.label:
    """Show the word for an effect, with its colour."""
    return ui.label(effect).classes(f"pk-effect pk-{effect}")


def first_names(names: Sequence[str], most: int) -> str:
    """Return the first of these, and how many more there are."""
    return ", ".join(names[:most]) + (f" and {len(names) - most:,} more" if len(names) > most else "")
