"""What is behind a node or a link of the map: opened beside it, kept up to date while it is open."""

from nicegui import ui

from penstock.console import widgets
from penstock.console.map_element import BEAT, LiveMap
from penstock.console.map_link import LinkView
from penstock.console.map_node import NodeView
from penstock.console.scene import DrawnLink


class Panel:
    """Shows one node or one link at a time; is not there if it shows none."""

    def __init__(self, picture: LiveMap, whole: ui.element) -> None:
        self._picture = picture
        self._whole = whole
        self._who: tuple[str, ...] = ()
        self._shown: LinkView | NodeView | None = None
        with whole:
            self._box = ui.element("aside").classes("pm-panel").props('aria-label="What is open"')
        self._box.set_visibility(False)
        self._box.on("keydown.esc", self.close)
        ui.timer(BEAT, self._beat)

    async def open(self, who: tuple[str, ...]) -> None:
        """A node by its name, or a link by its ends."""
        link, person = self._link(who), self._picture.person
        if (len(who) == 2 and link is None) or (len(who) == 1 and who[0] not in self._picture.nodes) or not who:
            return
        self._who = who
        self._box.clear()
        with self._box:
            with ui.element("div").classes("pm-panel-head"):
                title = f"{link.a} ⇄ {link.b}" if link is not None else who[0]
                widgets.subheading(title if len(title) <= 120 else f"{title[:119]}…")
                closing = ui.button(icon="close", on_click=self.close).props('flat round dense aria-label="Close"')
            self._shown = (
                LinkView(self._picture, link) if link is not None else NodeView(self._picture, who[0], self.open)
            )
        self._box.set_visibility(True)
        self._whole.classes(add="pm-two")
        self._picture.element.point_at(who)
        ui.run_javascript(f"getHtmlElement({closing.id})?.focus()")
        await person.refresh()
        await self._beat()

    def close(self) -> None:
        """Put it away; the keyboard goes back to what was open."""
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

    def _link(self, who: tuple[str, ...]) -> DrawnLink | None:
        """As it is drawn, or of a client that is not drawn by itself."""
        if len(who) != 2:
            return None
        for one in (*self._picture.element.drawn.links, *self._picture.clients_of(who[1])):
            if (one.a, one.b) == who:
                return one
        flow = self._picture.rates.flow((who[1], "client", who[0]))
        return DrawnLink(who[0], who[1], flow.publish_type, flow.notify_type, True) if flow is not None else None
