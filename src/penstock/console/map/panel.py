"""The panel of a node or link of the map: opened beside it, updated while it is open."""

from nicegui import ui

from penstock.console import widgets
from penstock.console.map.element import BEAT, LiveMap
from penstock.console.map.link import LinkView
from penstock.console.map.node import NodeView


class MapPanel:
    """Shows one node or one link at a time; hidden if it shows none."""

    def __init__(self, picture: LiveMap, layout: ui.element) -> None:
        self._picture = picture
        self._whole = layout
        self._who: tuple[str, ...] = ()
        self._shown: LinkView | NodeView | None = None
        with layout:
            self._box = ui.element("aside").classes("pm-panel").props('aria-label="What is open"')
        self._box.set_visibility(False)
        self._box.on("keydown.esc", self.close)
        ui.timer(BEAT, self._beat)

    async def open(self, who: tuple[str, ...]) -> None:
        """Open a node by its name, a link by its ends in either order, or a client's link by the client's name."""
        if not who:
            return
        picture = self._picture
        link = None if len(who) == 1 and who[0] in picture.nodes else picture.link(who)
        who = (link.a, link.b) if link is not None else who
        is_there = link is not None or (len(who) == 1 and who[0] in picture.nodes)
        self._who = who
        with widgets.emptied(self._box):
            with ui.element("div").classes("pm-panel-head"):
                title = " ⇄ ".join(who)
                widgets.subheading(title if len(title) <= 120 else f"{title[:119]}…")
                closing = ui.button(icon="close", on_click=self.close).props('flat round dense aria-label="Close"')
            self._shown = None
            if link is not None:
                self._shown = LinkView(picture, link)
            elif is_there:
                self._shown = NodeView(picture, who[0], self.open)
            else:
                widgets.empty("Not on the map", "No node, client or link of this name is known here.")
        self._box.set_visibility(True)
        self._whole.classes(add="pm-two")
        picture.element.point_at(who if is_there else ())
        ui.run_javascript(f"getHtmlElement({closing.id})?.focus()")
        await picture.person.refresh()
        await self._beat()

    def close(self) -> None:
        """Close it; the focus returns to what was open."""
        if self._who:
            self._picture.element.run_method("leave", list(self._who))
            self._who, self._shown = (), None
            self._box.clear()
            self._box.set_visibility(False)
            self._whole.classes(remove="pm-two")
            self._picture.element.point_at(())

    async def _beat(self) -> None:
        if self._shown is not None:
            await self._shown.beat()
