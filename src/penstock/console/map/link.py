"""An opened link of the map: both directions, its monitors as state diagrams, its last decisions."""

import time

from nicegui import ui
from nicegui.element import Element

from penstock.broker.http.answers.decisions import DecisionRow, Decisions
from penstock.console import widgets
from penstock.console.admin_client import ApiClientError
from penstock.console.facts import FactList
from penstock.console.map.automata import DrawnAutomaton, drawn
from penstock.console.map.element import LiveMap
from penstock.console.map.scene import DrawnLink
from penstock.console.person import plain
from penstock.domain import Domain
from penstock.domain.compile.graph import graph
from penstock.domain.compile.monitors import side

ASK_SECONDS = 2.0
MAX_DECISIONS = 12
WORDS = {"up": "up", "down": "down", "away": "not connected", "silent": "no data"}


class LinkView:
    """Both directions of a connection."""

    def __init__(self, picture: LiveMap, link: DrawnLink) -> None:
        self._picture, self._link = picture, link
        self._facts = FactList()
        self._monitors: dict[tuple[str, str, str], MonitorView] = {}
        self._placed = monitors_of_link(picture.person.domain, link)
        self._monitor_box = ui.element("div").classes("pm-list")
        widgets.subheading("Last decisions")
        self._decision_box = ui.element("div").classes("pm-list")
        self._shown_rows: tuple[DecisionRow, ...] | None = None
        self._due = 0.0
        self._is_held = False
        # Rows do not move while the pointer is over them.
        for begin, end in (("mouseenter", "mouseleave"), ("focusin", "focusout")):
            self._decision_box.on(begin, lambda: self._hold(True)).on(end, lambda: self._hold(False))

    async def beat(self) -> None:
        link, say = self._link, self._facts.set
        state, there, back, denied, waiting, _ = self._picture.link_now(link)
        say("State", WORDS[state])
        for ends, kind, rate in (
            (f"{link.a} → {link.b}", link.there, there),
            (f"{link.b} → {link.a}", link.back, back),
        ):
            say(ends[:160], f"type {kind}" + ("" if state == "silent" else f", {rate:.1f} packets/s"))
        say("Denied", f"{denied} since the nodes started")
        say("Waiting", f"{waiting} messages")
        self._show_monitors()
        if time.monotonic() >= self._due and not self._is_held:
            self._due = time.monotonic() + ASK_SECONDS
            await self._ask()

    def _hold(self, is_held: bool) -> None:
        self._is_held = is_held

    def _show_monitors(self) -> None:
        states = self._picture.person.states
        ends = {self._link.a, self._link.b}
        states_now: dict[tuple[str, str, str], str] = {}
        for node, state in list(states.items()):
            for monitor in state.portrait.monitors:
                key = monitor.name, monitor.source, monitor.target
                # where both ends ask it, what arrives counts
                if {monitor.source, monitor.target} == ends and (key not in states_now or node == monitor.target):
                    states_now[key] = monitor.state
        for key in dict.fromkeys([*states_now, *self._placed, *self._monitors]):
            if key not in self._monitors:
                with self._monitor_box:
                    self._monitors[key] = MonitorView(self._picture, *key)
            node = self._placed.get(key, "")
            why = "does not answer" if node not in states else "reports none"
            self._monitors[key].show(states_now.get(key), f"node {node} {why}" if node else "it is no longer reported")

    async def _ask(self) -> None:
        try:
            rows = await self._decisions()
        except ApiClientError as error:
            self._shown_rows = None
            with widgets.emptied(self._decision_box):
                widgets.problem("Decisions cannot be shown", str(error))
            return
        if rows != self._shown_rows:
            self._shown_rows = rows
            with widgets.emptied(self._decision_box):
                for row in rows:
                    _decision(row)
                if not rows:
                    ui.label("None yet. Events that pass are sampled while the page is open; all refusals are here.")

    async def _decisions(self) -> tuple[DecisionRow, ...]:
        """Return the decisions at either end about the other end."""
        link, homes = self._link, self._picture.person.homes
        rows: list[DecisionRow] = []
        for here, other in ((link.a, link.b), (link.b, link.a)):
            if here in homes and not (link.client and here == link.a):
                about: dict[str, str] = {"node": here, "subject": other}
                rows += (await homes[here].get("/api/decisions", Decisions, limit=MAX_DECISIONS, **about)).rows
        return tuple(sorted(rows, key=lambda row: (row.at, row.id), reverse=True)[:MAX_DECISIONS])


def monitors_of_link(domain: Domain | None, link: DrawnLink) -> dict[tuple[str, str, str], str]:
    """Return the monitors that the domain has on both directions of a link, by name and ends, and the node of each."""
    if domain is None or not domain.monitors:
        return {}
    joined, both = graph(domain), {(link.a, link.b), (link.b, link.a)}
    return {
        (name, *ends): ends[1] if ends[1] in domain.nodes and side(settings, ends) != "departure" else ends[0]
        for name, settings in domain.monitors.items()
        for ends in joined.monitored(settings)
        if ends in both
    }


def _decision(row: DecisionRow) -> None:
    towards = f" → {row.target}" if row.target else ""
    with ui.link(target=f"/decisions?id={row.id}&of={row.node}").classes("pm-decision"):
        ui.label(time.strftime("%H:%M:%S", time.localtime(row.at)))
        widgets.verdict(row.effect)
        ui.label(f"{row.topic[:120]}")
        why = f"{row.source}{towards} at {row.node}; {row.stage}: {row.reason or row.rule}"
        widgets.sentence(why[:300]).classes("pm-why")


class Diagram(Element, component="automaton.js"):
    """A state diagram; `state` is highlighted."""

    def __init__(self, name: str, automaton: DrawnAutomaton) -> None:
        super().__init__()
        self.classes("pm-diagram")
        self.props["name"], self.props["drawn"], self.props["state"] = name, plain(automaton), ""


class MonitorView:
    """A monitor in its state: as a diagram if it is an automaton, in words if it is a program."""

    def __init__(self, picture: LiveMap, name: str, source: str, target: str) -> None:
        domain = picture.person.domain
        settings = domain.monitors.get(name) if domain is not None else None
        with ui.element("section").classes("pm-monitor").props("role=group") as box:
            box.props["aria-label"] = f"Monitor {name}"
            ui.label(f"Monitor {name}").classes("pk-state-title")
            widgets.note(f"on {source} → {target}")
            self._state = ui.label().classes("pm-state").props("aria-live=polite")
            automaton = drawn(settings) if settings is not None else None
            self._diagram = Diagram(name, automaton) if automaton is not None else None
            if settings is not None and settings.python is not None:
                widgets.note(f"A program: {settings.python}")

    def show(self, state: str | None, why: str) -> None:
        """Show the present state, or why it is not known."""
        text = f"State: {state}" if state is not None else f"State unknown: {why}"
        if self._state.text != text:
            self._state.set_text(text)
            if self._diagram is not None:
                self._diagram.props["state"] = state or ""
