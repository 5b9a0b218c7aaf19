"""The part `map` of the page: the ensemble as it is now, and what is behind each node and link."""

from nicegui import events, ui

from penstock.console import widgets
from penstock.console.map.element import LiveMap, opened
from penstock.console.map.panel import Panel
from penstock.console.person import Person


async def show(person: Person) -> None:
    """Show it to a person."""
    widgets.heading("Map", "The ensemble as it is now. A click on a node or link opens it; colours are link types.")
    if person.domain is None and not person.states:
        widgets.wrong("There is nothing to draw", person.error or "No node has told anything yet.")
        return
    with ui.element("div").classes("pm-whole") as whole:
        picture = LiveMap(person)
        panel = Panel(picture, whole)

    async def opening(event: events.GenericEventArguments) -> None:
        await panel.open(opened(event))

    picture.element.on("open", opening)
    picture.element.on("close", panel.close)
    asked = ui.context.client.request.query_params.getlist("open")  # `/?open=gateway&open=cloud` opens that link
    if asked:
        ui.timer(0, lambda: panel.open(tuple(asked)), once=True)
