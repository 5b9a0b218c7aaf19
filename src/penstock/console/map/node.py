"""An opened node of the map: its counters, links and clients."""

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from nicegui import ui

from penstock.broker.http.answers.status import NodeState
from penstock.console import widgets
from penstock.console.facts import FactList
from penstock.console.map.element import LiveMap
from penstock.console.map.link import WORDS

MAX_CLIENTS = 50
ORDER_SECONDS = 5.0
"""Seconds for which clients stay in their order, so that rows do not move away from the pointer."""

Opens = Callable[[tuple[str, ...]], Awaitable[None]]


class NodeView:
    """A node with its counters, links and clients."""

    def __init__(self, picture: LiveMap, node: str, opens: Opens) -> None:
        self._picture, self._node = picture, node
        self._facts = FactList()
        widgets.subheading("Links")
        self._links = RowList(opens)
        widgets.subheading("Clients")
        self._wanted = ""
        self._names: list[str] = []
        self._due = 0.0
        finding = ui.input("Find a client", on_change=lambda event: self._find(str(event.value or "")))
        finding.props("dense outlined clearable debounce=200")
        self._clients = RowList(opens)
        self._more = widgets.note()

    async def beat(self) -> None:
        person, say, rates = self._picture.person, self._facts.set, self._picture.rates
        state = person.states.get(self._node)
        self._show_links()
        self._show_clients(state)
        if state is None:
            say("State", "no data: the console could not reach the process that runs this node")
            settings = person.domain.nodes.get(self._node) if person.domain is not None else None
            if settings is not None:
                say("Addresses", ", ".join(str(listener.address) for listener in settings.listeners))
            return
        rate = rates.rate((self._node, "node", ""))
        now = f"{rate.received:.1f} messages/s in, {rate.sent:.1f} out, {rate.denied:.1f} denied"
        say("State", person.late_message or state.trouble or "up")
        say("Addresses", ", ".join(state.addresses))
        say("Up for", "not known" if person.late_message else _for(time.time() - state.started))
        say("Connected", f"{state.connected}")
        say("Now", "not known" if person.late_message else now)
        _count(self._facts, state)

    def _show_links(self) -> None:
        rows = []
        for link in self._picture.element.drawn.links:
            if self._node in (link.a, link.b) and not link.client:
                state, there, back, *_ = self._picture.link_now(link)
                other, goes, comes = (link.b, there, back) if link.a == self._node else (link.a, back, there)
                figures = (f"{comes:.1f}/s in", f"{goes:.1f}/s out") if state == "up" else ("", WORDS[state])
                rows.append(Row((link.a, link.b), other, *figures))
        self._links.show(rows[:MAX_CLIENTS])

    def _find(self, text: str) -> None:
        self._wanted, self._due = text.lower(), 0.0
        self._show_clients(self._picture.person.states.get(self._node))

    def _show_clients(self, state: NodeState | None) -> None:
        """Show the clients with most traffic, or those that match; never more than can be read."""
        is_up = {link.a: False for link in self._picture.clients_of(self._node)}
        for client in state.portrait.clients if state is not None else ():
            is_up[client.entity] = is_up.get(client.entity, False) or client.up
        if time.monotonic() >= self._due:
            self._due = time.monotonic() + ORDER_SECONDS
            self._names = [name for name in is_up if self._wanted in name.lower()]
            self._names.sort(key=lambda name: (-self._rate(name), not is_up[name], name))
        rows, is_silent = [], state is None or bool(self._picture.person.late_message)
        for name in self._names[:MAX_CLIENTS]:
            rate = self._picture.rates.rate((self._node, "client", name))
            figures = ("", WORDS["silent" if is_silent else "away"])
            if is_up.get(name) and not is_silent:
                figures = (f"{rate.received:.1f}/s in", f"{rate.sent:.1f}/s out")
            rows.append(Row((name, self._node), name, *figures))
        more = len(self._names) - len(rows)
        self._more.set_text(f"and {more} more" if more else "" if rows else "None.")
        self._clients.show(rows)

    def _rate(self, entity: str) -> float:
        rate = self._picture.rates.rate((self._node, "client", entity))
        return rate.received + rate.sent


class Row(NamedTuple):
    """A link that can be opened, with two figures."""

    who: tuple[str, ...]
    name: str
    first: str
    second: str


class RowList:
    """Rows that are changed in place, so that the focus stays."""

    def __init__(self, opens: Opens) -> None:
        self._box = ui.element("div").classes("pm-list")
        self._opens = opens
        self._shown: list[Row] = []
        self._made: list[tuple[ui.element, tuple[ui.label, ui.label, ui.label]]] = []

    def show(self, rows: Sequence[Row]) -> None:
        self._shown = list(rows)
        while len(self._made) < len(rows):
            self._make(len(self._made))
        for at, (button, labels) in enumerate(self._made):
            button.set_visibility(at < len(rows))
            if at < len(rows):
                for label, text in zip(labels, rows[at][1:], strict=True):
                    shown = text if len(text) <= 80 else f"{text[:79]}…"
                    if label.text != shown:
                        label.set_text(shown)

    def _make(self, at: int) -> None:
        async def opening() -> None:
            if at < len(self._shown):
                await self._opens(self._shown[at].who)

        with self._box, ui.element("button").props("type=button").classes("pm-client-row") as button:
            labels = (ui.label(), ui.label(), ui.label())
        button.on("click", opening)
        self._made.append((button, labels))


def _count(facts: FactList, state: NodeState) -> None:
    counters = state.counters
    facts.set("Messages", f"{counters.received} received, {counters.sent} sent")
    facts.set("Bytes", f"{counters.bytes_received} received, {counters.bytes_sent} sent")
    facts.set("Denied", f"{counters.denied} messages and subscriptions, {counters.refused} connections")
    facts.set("Lost", f"{counters.dropped} dropped, {counters.expired} expired")
    facts.set("Retained", f"{state.portrait.retained}")
    if state.portrait.situations:
        facts.set("Situations", ", ".join(state.portrait.situations))
    journal = state.journal
    text = "none" if journal is None else f"{journal.rows} rows in {journal.folder}"
    if journal is not None and (journal.lost or journal.failing):
        text += f"; {journal.lost} lost; {journal.failing}"
    facts.set("Journal", text)


def _for(seconds: float) -> str:
    total = max(0, int(seconds))
    days, hours, minutes = total // 86400, total // 3600 % 24, total // 60 % 60
    if days:
        return f"{days} days {hours} h"
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {total % 60} s"
