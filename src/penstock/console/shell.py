"""What is around each part: navigation, who is logged in, what is wrong with the nodes, light and dark."""

from nicegui import ui

from penstock.console import widgets
from penstock.console.parts import PARTS, Part
from penstock.console.person import Person

BEAT = 1.0
"""Seconds between two looks at the nodes."""


async def shell(person: Person, part: Part) -> None:
    """A whole page."""
    ui.page_title(f"{part.name} · {person.about.domain} · Penstock")
    dark = ui.dark_mode(value=person.dark)
    with ui.header().classes("pk-header"):
        ui.html('<a class="pk-skip" href="#pk-main">Skip to the content</a>', sanitize=False)
        ui.label("Penstock").classes("pk-brand")
        ui.label(person.about.domain).classes("pk-domain")
        with ui.element("nav").classes("pk-nav").props('aria-label="Parts"'):
            for one in PARTS:
                link = ui.link(target=one.path).classes("pk-link")
                if one is part:
                    link.classes("pk-here").props("aria-current=page")
                with link:
                    ui.icon(one.icon).props("aria-hidden=true")
                    ui.label(one.name)
        ui.space()
        _who(person, dark)
    banner = ui.element("div").classes("pk-banner").props("role=alert aria-live=assertive")
    banner.set_visibility(False)
    with ui.element("div").classes("pk-main").props("id=pk-main tabindex=-1"):
        await part.show(person)

    told = [""]

    async def beat() -> None:
        if person.has_ended:
            ui.navigate.to("/login")  # logged out in another tab
            return
        await person.refresh()
        said = _trouble(person)
        if said != told[0]:
            told[0] = said
            banner.clear()
            with banner:
                if said:
                    ui.icon("warning").props("aria-hidden=true")
                    ui.label(said)
        banner.set_visibility(bool(said))

    ui.timer(BEAT, beat)


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
    """What an operator must know at once."""
    if person.error:
        return person.error
    found = [f"{name}: {state.trouble}" for name, state in person.states.items() if state.trouble]
    again = "log out and in again to see its nodes"
    found += [f"{why}: {again}" if "token" in why else why for why in person.unheard.values()]
    return "; ".join(found[:3]) + (f"; and {len(found) - 3} more" if len(found) > 3 else "")


__all__ = ["shell", "widgets"]
