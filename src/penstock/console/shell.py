"""The frame of each part: navigation, the logged-in person, problems of the nodes, light and dark."""

import asyncio

from nicegui import background_tasks, ui

from penstock.console import widgets
from penstock.console.parts import PARTS, PagePart
from penstock.console.person import Person

BEAT = 1.0
"""Seconds between two updates from the nodes."""
SHOW_SECONDS = 2.0
"""Seconds that a browser waits for a page until it gets the unfinished page."""
CONNECT_SECONDS = 60.0
"""Seconds in which it must have loaded that."""


async def shell(person: Person, part: PagePart) -> None:
    """Build a whole page."""
    ui.page_title(f"{part.name} · {person.about.domain} · Penstock")
    dark = ui.dark_mode(value=person.dark)
    with ui.header().classes("pk-header"):
        ui.html('<a class="pk-skip" href="#pk-main">Skip to the content</a>', sanitize=False)
        ui.label("Penstock").classes("pk-brand")
        ui.label(person.about.domain).classes("pk-domain")
        with ui.element("nav").classes("pk-nav").props('aria-label="Parts"'):
            for entry in PARTS:
                link = ui.link(target=entry.path).classes("pk-link")
                if entry is part:
                    link.classes("pk-here").props("aria-current=page")
                with link:
                    ui.icon(entry.icon).props("aria-hidden=true")
                    ui.label(entry.name)
        ui.space()
        _who(person, dark)
    # Filled in the browser, by `lost.js`: the server cannot send anything then.
    ui.html('<div id="pk-lost" class="pk-banner" role="alert" hidden></div>', sanitize=False).style("display: contents")
    banner = ui.element("div").classes("pk-banner").props("role=alert aria-live=assertive")
    banner.set_visibility(False)
    main = ui.element("div").classes("pk-main").props("id=pk-main tabindex=-1")
    shown_trouble = [""]

    async def beat() -> None:
        if person.has_ended:
            ui.navigate.reload()  # logged out in another tab: the guard leads to the log-in, and back here
            return
        await person.refresh()
        trouble = _trouble(person)
        if trouble != shown_trouble[0]:
            shown_trouble[0] = trouble
            with widgets.emptied(banner):
                if trouble:
                    ui.icon("warning").props("aria-hidden=true")
                    widgets.sentence(trouble)
        banner.set_visibility(bool(trouble))

    ui.timer(BEAT, beat)
    await _show(main, person, part)


async def _show(main: ui.element, person: Person, part: PagePart) -> None:
    """Fill the page. If nodes are slow, the page is shown before, and says so."""

    async def fill() -> None:
        with main:
            await part.show(person)

    showing = background_tasks.create(fill())
    await asyncio.wait({showing}, timeout=SHOW_SECONDS)
    if not showing.done():
        with main:
            waiting = widgets.loading("Waiting for the nodes")
        await main.client.connected(CONNECT_SECONDS)
        await asyncio.wait({showing})
        if not waiting.is_deleted:
            waiting.delete()
    await showing


def _who(person: Person, dark: ui.dark_mode) -> None:
    def turn() -> None:
        person.dark = not dark.value
        dark.set_value(person.dark)

    with ui.element("div").classes("pk-who"):
        ui.label(f"{person.about.user} ({person.about.right})").classes("pk-user")
        with ui.button(icon="contrast", on_click=turn).props('flat round dense aria-label="Light or dark"'):
            ui.tooltip("Light or dark")
        ui.html(
            '<form method="post" action="/logout"><button class="pk-out" type="submit">Log out</button></form>',
            sanitize=False,
        )


def _trouble(person: Person) -> str:
    """Return what an operator must know at once."""
    if person.error or person.late_message:
        return person.error or f"{person.first.url}: {person.late_message}"
    problems = [f"{name}: {state.trouble}" for name, state in person.states.items() if state.trouble]
    again = "log out and in again to see its nodes"
    problems += [f"{why}: {again}" if "token" in why else why for why in person.unreachable.values()]
    return "; ".join(problems[:3]) + (f"; and {len(problems) - 3} more" if len(problems) > 3 else "")
