"""The picture of the ensemble as an element of a page: drawn by the browser, updated from here."""

from collections.abc import Iterable, Sequence
from urllib.parse import urlencode

from nicegui import events, ui
from nicegui.element import Element

from penstock.console.map import scene
from penstock.console.map.rates import Rates
from penstock.console.person import Person, plain

BEAT = 1.0


class Map(Element, component="map.js"):
    """Nodes, clients and links, live.

    It emits `open` with what was clicked (`node`, or `a` and `b` of a link) and `close` on Escape.
    """

    def __init__(self, drawn: scene.Scene, now: scene.Live | None = None) -> None:
        super().__init__()
        self.drawn = drawn
        self.props["scene"], self.props["now"], self.props["lit"] = plain(drawn), plain(now), []

    def draw(self, drawn: scene.Scene) -> None:
        """Draw another scene; nothing is sent if it is the same."""
        if drawn != self.drawn:
            self.drawn = drawn
            self.props["scene"] = plain(drawn)

    def update_live(self, now: scene.Live) -> None:
        """Send the live values that have changed."""
        self.run_method("tell", plain(now))

    def light(self, path: Sequence[tuple[str, str]]) -> None:
        """Highlight a way over links, in order, and fade everything else; an empty way ends that."""
        self.props["lit"] = [list(ends) for ends in path]

    def point_at(self, who: tuple[str, ...]) -> None:
        """Show which node, or which link by its ends, is open; none if empty."""
        self.run_method("point", list(who))


class LiveMap:
    """A map of a person's nodes that is updated while the page is open."""

    def __init__(self, person: Person, rates: Rates | None = None) -> None:
        self.person = person
        self.rates = rates or Rates()
        self._also: tuple[str, ...] = ()
        self._domain, self._listed = person.domain, scene.listed(person.domain)
        self.rates.record(person.states, person.state_times)
        drawn = scene.scene(person.domain, self._listed, person.states)
        self.element = Map(drawn, self._now(drawn))
        ui.timer(BEAT, self.beat)

    async def beat(self) -> None:
        """Ask the nodes, and send what has changed."""
        await self.person.refresh()
        self.rates.record(self.person.states, self.person.state_times)
        self._show()

    def highlight(self, path: Iterable[tuple[str, str]]) -> None:
        """Highlight a way over links, in order: `[("motion", "gateway"), ("gateway", "bell")]`. Its clients are
        drawn, however many others there are. An empty way ends that."""
        way = list(path)
        self._also = tuple(dict.fromkeys(end for ends in way for end in ends))
        self._show()
        self.element.light(way)

    def link_to_map(self) -> None:
        """Let a click open the node or link on the map page, for other parts of the page."""

        def go(event: events.GenericEventArguments) -> None:
            ui.navigate.to(f"/?{urlencode([('open', end) for end in opened_names(event)])}")

        self.element.on("open", go)

    @property
    def nodes(self) -> list[str]:
        """Return the names of all nodes and foreign brokers."""
        return [node.name for node in self.element.drawn.nodes]

    def clients_of(self, node: str) -> Sequence[scene.DrawnLink]:
        """Return the clients that the domain lists at a node, connected or not."""
        return self._listed.get(node, ())

    def link(self, who: tuple[str, ...]) -> scene.DrawnLink | None:
        """Return a link by its ends, in either order, or that of a client by its name; drawn or not."""
        everyone = (link for links in self._listed.values() for link in links)
        for link in (*self.element.drawn.links, *everyone):
            if {link.a, link.b} == set(who) or (link.client and (link.a,) == who):
                return link
        for node, state in self.person.states.items():
            for client in state.portrait.clients:
                if (client.entity,) == who or {client.entity, node} == set(who):
                    return scene.DrawnLink(client.entity, node, client.publish_type, client.notify_type, True)
        return None

    def link_now(self, link: scene.DrawnLink) -> scene.LinkNow:
        """Return the live values of a link, drawn or not."""
        now = scene.link_now(link, self.person.states, self.rates)
        return scene.silent(now) if self.person.late_message else now

    def _show(self) -> None:
        person = self.person
        if person.domain is not self._domain:
            self._domain, self._listed = person.domain, scene.listed(person.domain)
        self.element.draw(scene.scene(person.domain, self._listed, person.states, self._also))
        self.element.update_live(self._now(self.element.drawn))

    def _now(self, drawn: scene.Scene) -> scene.Live:
        now = scene.live(drawn, self.person.states, self.rates)
        return scene.last_known(now) if self.person.late_message else now


def opened_names(event: events.GenericEventArguments) -> tuple[str, ...]:
    """Return what a map's event `open` is about: a node's name, or the two ends of a link."""
    names = event.args
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names) or len(names) not in (1, 2):
        return ()
    return tuple(names)
