"""What is behind a node or a link of the map: opened beside it, kept up to date while it is open."""

import time
from collections.abc import Awaitable, Callable

from nicegui import ui
from nicegui.element import Element

from penstock.broker.api.decisions import DecisionRow, Decisions
from penstock.broker.api.looking import NodeState
from penstock.console import widgets
from penstock.console.asking import AskError
from penstock.console.automata import Drawn, drawn
from penstock.console.map_element import LiveMap
from penstock.console.person import plain
from penstock.console.scene import DrawnLink, link_now
from penstock.engine.portrait import MonitorPortrait

BEAT = 1.0
MOST_DECISIONS = 12
MOST_CLIENTS = 50
WORDS = {"up": "up", "down": "down", "away": "not connected", "silent": "no word of it", "trouble": "in trouble"}


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
            self._shown = LinkView(self._picture, link) if link is not None else NodeView(self._picture, who[0], self)
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


class Facts:
    """Names with values that change."""

    def __init__(self) -> None:
        self._box = ui.element("div").classes("pm-facts")
        self._values: dict[str, ui.label] = {}

    def say(self, name: str, value: str) -> None:
        if name not in self._values:
            with self._box:
                ui.label(name)
                self._values[name] = ui.label().classes("pm-fact")
        if self._values[name].text != value:
            self._values[name].set_text(value)


class LinkView:
    """Both directions of a connection."""

    def __init__(self, picture: LiveMap, link: DrawnLink) -> None:
        self._picture, self._link = picture, link
        self._facts = Facts()
        self._monitors: dict[tuple[str, str, str], MonitorView] = {}
        self._monitor_box = ui.element("div").classes("pm-list")
        widgets.subheading("Last decisions")
        self._decision_box = ui.element("div").classes("pm-list")
        self._told: tuple[DecisionRow, ...] | None = None
        self._wrong = ""
        self._due = 0.0

    async def beat(self) -> None:
        link, person, say = self._link, self._picture.person, self._facts.say
        state, there, back, denied, waiting, _ = link_now(link, person.states, self._picture.rates)
        say("State", WORDS[state])
        say(f"{link.a} → {link.b}"[:160], f"type {link.there}, {there:.1f} packets/s")
        say(f"{link.b} → {link.a}"[:160], f"type {link.back}, {back:.1f} packets/s")
        say("Denied", f"{denied} since the nodes began")
        say("Waiting", f"{waiting} messages")
        self._show_monitors()
        if time.monotonic() >= self._due:
            self._due = time.monotonic() + 2 * BEAT
            await self._ask()

    def _show_monitors(self) -> None:
        ends = {self._link.a, self._link.b}
        for state in list(self._picture.person.states.values()):
            for one in state.portrait.monitors:
                if {one.source, one.target} == ends:
                    key = (one.name, one.source, one.target)
                    if key not in self._monitors:
                        with self._monitor_box:
                            self._monitors[key] = MonitorView(self._picture, one)
                    self._monitors[key].show(one.state)

    async def _ask(self) -> None:
        try:
            rows = await self._decisions()
        except AskError as error:
            self._wrong = str(error)
            self._told = None
            self._decision_box.clear()
            with self._decision_box:
                widgets.wrong("Decisions cannot be asked for", self._wrong)
            return
        if rows != self._told:
            self._told = rows
            self._decision_box.clear()
            with self._decision_box:
                for row in rows:
                    _decision(row)
                if not rows:
                    ui.label("None yet. What passes is sampled while somebody looks; all that is refused is here.")

    async def _decisions(self) -> tuple[DecisionRow, ...]:
        """At either end, those about the other end."""
        link, homes = self._link, self._picture.person.homes
        found: list[DecisionRow] = []
        for here, other in ((link.a, link.b), (link.b, link.a)):
            if here in homes and not (link.client and here == link.a):
                told = await homes[here].get(
                    "/api/decisions", Decisions, node=here, subject=other, limit=MOST_DECISIONS
                )
                found += told.rows
        return tuple(sorted(found, key=lambda row: (row.at, row.id), reverse=True)[:MOST_DECISIONS])


def _decision(row: DecisionRow) -> None:
    towards = f" → {row.target}" if row.target else ""
    with ui.link(target=f"/decisions?id={row.id}&of={row.node}").classes("pm-decision"):
        ui.label(time.strftime("%H:%M:%S", time.localtime(row.at)))
        widgets.verdict(row.effect)
        ui.label(f"{row.topic[:120]}")
        ui.label(f"{row.source}{towards} at {row.node}; {row.stage}: {row.reason or row.rule}"[:300]).classes("pm-why")


class Diagram(Element, component="automaton.js"):
    """A state diagram; `state` is lit."""

    def __init__(self, name: str, automaton: Drawn) -> None:
        super().__init__()
        self.classes("pm-diagram")
        self.props["name"], self.props["drawn"], self.props["state"] = name, plain(automaton), ""


class MonitorView:
    """A monitor in its state: as a diagram if it is an automaton, in words if it is a program."""

    def __init__(self, picture: LiveMap, monitor: MonitorPortrait) -> None:
        domain = picture.person.domain
        settings = domain.monitors.get(monitor.name) if domain is not None else None
        with ui.element("section").classes("pm-monitor").props("role=group") as box:
            box.props["aria-label"] = f"Monitor {monitor.name}"
            ui.label(f"Monitor {monitor.name}").classes("pk-state-title")
            ui.label(f"on {monitor.source} → {monitor.target}").classes("pk-about")
            self._state = ui.label().classes("pm-state").props("aria-live=polite")
            automaton = drawn(settings) if settings is not None else None
            self._diagram = Diagram(monitor.name, automaton) if automaton is not None else None
            if settings is not None and settings.python is not None:
                ui.label(f"A program: {settings.python}").classes("pk-about")

    def show(self, state: str) -> None:
        said = f"State: {state}"
        if self._state.text != said:
            self._state.set_text(said)
            if self._diagram is not None:
                self._diagram.props["state"] = state


class NodeView:
    """A node with its counters and clients."""

    def __init__(self, picture: LiveMap, node: str, panel: Panel) -> None:
        self._picture, self._node, self._panel = picture, node, panel
        self._facts = Facts()
        self._wanted = ""
        self._rows: list[tuple[str, str, str]] | None = None
        widgets.subheading("Clients")
        finding = ui.input("Find a client", on_change=lambda event: self._find(str(event.value or "")))
        finding.props("dense outlined clearable debounce=200")
        self._box = ui.element("div").classes("pm-list")
        self._more = ui.label().classes("pk-about")

    async def beat(self) -> None:
        person, say, rates = self._picture.person, self._facts.say, self._picture.rates
        state = person.states.get(self._node)
        if state is None:
            say("State", "no word of it: it does not run, or has no admin address that this log-in counts at")
            settings = person.domain.nodes.get(self._node) if person.domain is not None else None
            if settings is not None:
                say("Addresses", ", ".join(str(one.address) for one in settings.listeners))
            return
        rate = rates.of((self._node, "node", ""))
        say("State", state.trouble or "up")
        say("Addresses", ", ".join(state.addresses))
        say("Up for", _for(time.time() - state.started))
        say("Connected", f"{state.connected}")
        say("Now", f"{rate.took:.1f} messages/s in, {rate.gave:.1f} out, {rate.denied:.1f} denied")
        _count(self._facts, state)
        self._show_clients(state)

    def _find(self, text: str) -> None:
        self._wanted = text.lower()
        state = self._picture.person.states.get(self._node)
        if state is not None:
            self._show_clients(state)

    def _show_clients(self, state: NodeState) -> None:
        """Those that have most traffic, or match; never more than can be read."""
        is_up = {one.a: False for one in self._picture.clients_of(self._node)}
        for one in state.portrait.clients:
            is_up[one.entity] = is_up.get(one.entity, False) or one.up
        names = [name for name in is_up if self._wanted in name.lower()]
        names.sort(key=lambda name: (-self._rate(name), not is_up[name], name))
        rows = []
        for name in names[:MOST_CLIENTS]:
            rate = self._picture.rates.of((self._node, "client", name))
            rows.append((name, f"{rate.took:.1f}/s in", f"{rate.gave:.1f}/s out" if is_up[name] else "not connected"))
        more = len(names) - len(rows)
        self._more.set_text(f"and {more} more" if more else "" if rows else "None.")
        if rows == self._rows:
            return
        self._rows = rows
        self._box.clear()
        with self._box:
            for name, took, gave in rows:
                with ui.element("button").classes("pm-client-row").on("click", _opens(self._panel, name, self._node)):
                    ui.label(name if len(name) <= 80 else f"{name[:79]}…")
                    ui.label(took)
                    ui.label(gave)

    def _rate(self, entity: str) -> float:
        rate = self._picture.rates.of((self._node, "client", entity))
        return rate.took + rate.gave


def _opens(panel: Panel, client: str, node: str) -> Callable[[], Awaitable[None]]:
    return lambda: panel.open((client, node))


def _count(facts: Facts, state: NodeState) -> None:
    one = state.counters
    facts.say("Messages", f"{one.received} received, {one.sent} sent")
    facts.say("Bytes", f"{one.bytes_received} received, {one.bytes_sent} sent")
    facts.say("Denied", f"{one.denied} messages and subscriptions, {one.refused} connections")
    facts.say("Lost", f"{one.dropped} dropped, {one.expired} expired")
    facts.say("Retained", f"{state.portrait.retained}")
    if state.portrait.situations:
        facts.say("Situations", ", ".join(state.portrait.situations))
    kept = state.journal
    said = "none" if kept is None else f"{kept.rows} rows in {kept.folder}"
    if kept is not None and (kept.lost or kept.failing):
        said += f"; {kept.lost} lost; {kept.failing}"
    facts.say("Journal", said)


def _for(seconds: float) -> str:
    whole = max(0, int(seconds))
    days, hours, minutes = whole // 86400, whole // 3600 % 24, whole // 60 % 60
    if days:
        return f"{days} days {hours} h"
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {whole % 60} s"
