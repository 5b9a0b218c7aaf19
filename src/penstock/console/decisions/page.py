"""The part `decisions`: a live table of the nodes' decisions, with filters; a click explains one."""

from typing import Any
from urllib.parse import urlencode

from nicegui import events, ui
from nicegui.element import Element

from penstock.broker.http.answers.decisions import DecisionRow
from penstock.console import names, widgets
from penstock.console.decisions.explanation import NAMES
from penstock.console.decisions.feed import FILTERS, MAX_ROWS, DecisionFeed, NewDecisions
from penstock.console.decisions.panel import DecisionPanel
from penstock.console.person import Person
from penstock.model.verdict import Effect

BEAT = 1.0
MAX_CELL = 300
"""Characters of a cell; the panel shows all."""
_ABOUT = "Refusals as they happen, and a sample of all other events while you watch."
_COLUMNS = (
    ("at", "Time"),
    ("node", "Node"),
    ("source", "From"),
    ("target", "To"),
    ("topic", "Topic"),
    ("effect", "Verdict"),
    ("stage", "Stage"),
    ("rule", "Rule"),
    ("reason", "Reason"),
)


class DecisionRows(Element, component="rows.js"):
    """The table; emits `pick` with node and number of the clicked row, and `look` with whether the page is visible."""

    def __init__(self) -> None:
        super().__init__()
        self.props["columns"] = _COLUMNS
        self.props["most"] = MAX_ROWS
        self.props["shown"] = []

    def put(self, rows: list[dict[str, object]]) -> None:
        """Show these rows and no others."""
        self.props["shown"] = rows
        self.run_method("put", rows)

    def add(self, rows: list[dict[str, object]], all: list[dict[str, object]]) -> None:
        """Add these rows; `all` is for a reload of the page, and not sent."""
        self.props["shown"] = all
        self.run_method("add", rows)


async def show(person: Person) -> None:
    """Show the part to a person."""
    await _Table(person).begin()


class _Table:
    """The table, its filters, and the panel beside it."""

    def __init__(self, person: Person) -> None:
        self._person = person
        request = ui.context.client.request
        self._query = dict(request.query_params) if request is not None else {}
        if "verdict" in self._query:  # as the field is called
            self._query.setdefault("effect", self._query["verdict"])
        self._recent = DecisionFeed(person, **self._query)
        self._shown: DecisionFeed | None = None
        self._panel: DecisionPanel
        self._is_paused = False
        self._is_visible = True
        self._shown_state: tuple[str, bool, bool] | None = None

    async def begin(self) -> None:
        with ui.element("div").classes("pk-top"):
            with ui.element("div"):
                widgets.heading("Decisions", _ABOUT)
            ui.space()
            ui.button("Ask why", icon="help_outline", on_click=lambda: self._panel.why()).props("outline no-caps")
        names.datalist("pk-entities", names.entities(self._person))
        self._filters()
        with widgets.card("Recent decisions"):
            with ui.element("div").classes("pd-bar"):
                self._pause = ui.button("Pause", icon="pause", on_click=self._toggle_pause)
                self._pause.props("flat dense no-caps aria-pressed=false")
                self._status = widgets.note("").props("id=pk-decisions-status")
            self._nothing = ui.element("div").classes("pk-wide")
            with ui.element("div").classes("pd-scroll"):
                self._table = DecisionRows()
            self._table.on("pick", self._pick)
            self._table.on("look", self._set_visible)
        self._panel = DecisionPanel(self._person, self._address)
        await self._fetch()
        ui.timer(BEAT, self._beat)
        if self._query.get("id", "").isdigit():
            node, id = self._query.get("of", ""), int(self._query["id"][:18])
            ui.timer(0, lambda: self._panel.decision(node, id), once=True)

    def _filters(self) -> None:
        filters = self._recent.wanted
        with widgets.card("Filters"), ui.element("div").classes("pk-filters").props("role=search"):
            fields: dict[str, Any] = {
                "subject": names.field("Subject", filters.get("subject", ""), "pk-entities").props("clearable"),
                "topic": names.field("Topic filter", filters.get("topic", "")).props("clearable"),
                "stage": _choice("Stage", NAMES, filters.get("stage")),
                "rule": names.field("Rule", filters.get("rule", "")).props("clearable"),
                "effect": _choice("Verdict", tuple(Effect), filters.get("effect")),
                "node": _choice("Node", tuple(self._person.states), filters.get("node")),
            }
        self._fields = fields
        for field_ in fields.values():
            field_.on_value_change(self._filtered)

    async def _filtered(self) -> None:
        filters = {name: str(self._fields[name].value or "").strip() for name in FILTERS}
        self._recent = DecisionFeed(self._person, **filters)
        self._address()
        await self._fetch()

    def _address(self, **more: object) -> None:
        """Put the filters and the open decision into the page's address, so that it can be shared."""
        ui.navigate.history.replace(_href(self._recent.wanted | {name: str(value) for name, value in more.items()}))

    async def _beat(self) -> None:
        if self._is_visible and not self._is_paused:
            await self._fetch()

    async def _set_visible(self, event: events.GenericEventArguments) -> None:
        """Handle a change of visibility: a hidden page asks for nothing."""
        self._is_visible = event.args is not False
        await self._beat()

    async def _fetch(self) -> None:
        feed = self._recent
        fresh = await feed.fetch()
        if feed is self._recent:  # otherwise another filter was set meanwhile
            self._update(fresh)

    def _update(self, fresh: NewDecisions) -> None:
        recent = self._recent
        rows = [_plain(row, recent.wanted) for row in recent.rows]
        if self._shown is not recent:
            self._shown = recent
            self._table.put(rows)
        elif fresh.new:
            self._table.add([_plain(row, recent.wanted) for row in fresh.new], rows)
        status = "paused" if self._is_paused else "incomplete" if fresh.trouble else "live"
        status += f" · {len(recent.rows)} shown" + (f", the latest {MAX_ROWS}" if len(recent.rows) == MAX_ROWS else "")
        if fresh.left_out:
            status += f" · {fresh.left_out:,} refusals left out: too many in a second"
        self._status.text = status
        state = (fresh.trouble, bool(recent.rows), bool(recent.wanted))
        if state != self._shown_state:
            self._shown_state = state
            self._empty(fresh.trouble)
        self._table.set_visibility(bool(recent.rows))

    def _empty(self, trouble: str) -> None:
        with widgets.emptied(self._nothing):
            if trouble:
                widgets.problem("Some decisions cannot be shown", trouble)
            elif not self._recent.rows and self._recent.wanted:
                hint = "The nodes keep none that matches; new ones appear here as they come."
                widgets.empty("No decision matches", hint)
            elif not self._recent.rows:
                widgets.empty("No decisions yet", "They appear here as soon as a client publishes.")

    def _toggle_pause(self) -> None:
        self._is_paused = not self._is_paused
        self._pause.text = "Resume" if self._is_paused else "Pause"
        icon = "play_arrow" if self._is_paused else "pause"
        self._pause.props(f"icon={icon} aria-pressed={str(self._is_paused).lower()}")
        self._status.text = self._status.text.replace("live", "paused") if self._is_paused else self._status.text

    async def _pick(self, event: events.GenericEventArguments) -> None:
        node, id = event.args
        if isinstance(node, str) and isinstance(id, int):
            self._address(id=id, of=node)
            await self._panel.decision(node, id)


def _choice(label: str, among: tuple[str, ...], value: str | None) -> ui.select:
    chosen = value if value in among else None
    select = ui.select([str(option) for option in among], label=label, value=chosen, clearable=True)
    return select.classes("pk-field").props("outlined dense")


def _href(query: dict[str, str]) -> str:
    return f"/decisions?{urlencode(query)}" if query else "/decisions"


def _plain(row: DecisionRow, filters: dict[str, str]) -> dict[str, object]:
    return {
        "key": f"{row.node} {row.id}",
        "id": row.id,
        "at": row.at,
        "href": _href(filters | {"id": str(row.id), "of": row.node}),
        **{name: getattr(row, name)[:MAX_CELL] for name, _ in _COLUMNS[1:]},
    }
