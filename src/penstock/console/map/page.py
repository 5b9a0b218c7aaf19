"""The part `map` of the page: the live ensemble, and details of each node and link."""

from nicegui import events, ui

from penstock.console import widgets
from penstock.console.map.element import LiveMap, opened_names
from penstock.console.map.panel import MapPanel
from penstock.console.person import Person


async def show(person: Person) -> None:
    """Show the part to a person."""
    widgets.heading("Map", "The live ensemble. Click a node or link to open it; colours are link types.")
    if person.domain is None and not person.states:
        widgets.problem("No data", person.error or "No node has answered yet.")
        return
    with ui.element("div").classes("pm-whole") as layout:
        picture = LiveMap(person)
        panel = MapPanel(picture, layout)

    async def opening(event: events.GenericEventArguments) -> None:
        await panel.open(opened_names(event))

    picture.element.on("open", opening)
    picture.element.on("close", panel.close)
    requested = ui.context.client.request.query_params.getlist("open")  # `/?open=gateway&open=cloud` opens that link
    if requested:
        ui.timer(0, lambda: panel.open(tuple(requested)), once=True)
