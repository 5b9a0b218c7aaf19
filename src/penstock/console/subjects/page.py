"""The part `subjects` of the page: what each may read and write and why, its recent use of that, and its contracts."""

from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import urlencode

from nicegui import events, ui

from penstock.broker.http.answers.subjects import SubjectAccount
from penstock.console import widgets
from penstock.console.admin_client import ApiClientError
from penstock.console.person import Person
from penstock.console.subjects.subject import SubjectPanel
from penstock.console.tables import TableCell, table

BEAT = 3.0
MAX_LISTED = 200
_ABOUT = "Clients, listed in the domain or not: what each may do, by which rule, and what it did recently."


class KnownClient(NamedTuple):
    """A client in the list."""

    name: str
    listed: bool
    nodes: tuple[str, ...]
    up: bool


def known_clients(person: Person) -> dict[str, KnownClient]:
    """Return all clients that the domain lists or nodes have sessions of, by name."""
    by_name: dict[str, KnownClient] = {}
    for name, settings in (person.domain.clients if person.domain is not None else {}).items():
        by_name[name] = KnownClient(name, True, tuple(settings.node), False)
    for node, state in person.states.items():
        for client in state.portrait.clients:
            before = by_name.get(client.entity) or KnownClient(client.entity, False, (), False)
            nodes = before.nodes if node in before.nodes else (*before.nodes, node)
            by_name[client.entity] = before._replace(nodes=nodes, up=before.up or client.up)
    return by_name


async def show(person: Person) -> None:
    """Show the part to a person."""
    widgets.heading("Subjects", _ABOUT)
    query = ui.context.client.request.query_params
    name, sought = query.get("name", ""), query.get("q", "")
    await person.refresh()
    if not person.states and person.domain is None:
        widgets.problem("The nodes do not answer", person.error or "No node has answered yet.")
        return
    with ui.element("div").classes("pk-subjects" + (" pk-opened" if name else "")):
        with widgets.card("All subjects"):
            SubjectList(person, sought, name).build()
        with ui.element("div").classes("pk-answer"):
            if not name:
                hint = "Choose one from the list to see its rights and its recent use of them."
                widgets.empty("No subject is open", hint)
            else:
                await _open(person, name)


class SubjectList:
    """The list, with a search field."""

    def __init__(self, person: Person, sought: str, opened: str) -> None:
        self._person, self._sought, self._opened = person, sought, opened
        self._shown: object = None

    def build(self) -> None:
        field = ui.input("Search", value=self._sought, on_change=self._search).classes("pk-search")
        field.props('outlined dense clearable type=search debounce=200 aria-label="Search subjects"')
        self._box = ui.element("div")
        self._fill()
        ui.timer(BEAT, self._fill)

    def _search(self, event: events.ValueChangeEventArguments[str | None]) -> None:
        self._sought = event.value or ""
        self._fill()

    def _fill(self) -> None:
        clients = known_clients(self._person)
        words = self._sought.lower()
        matching = [
            client
            for client in clients.values()
            if words in client.name.lower() or words in " ".join(client.nodes).lower()
        ]
        matching.sort(key=lambda client: (not client.up, client.name))
        shown = (self._sought, matching[:MAX_LISTED], len(matching))
        if shown == self._shown:
            return
        self._shown = shown
        with widgets.emptied(self._box):
            if not clients:
                widgets.empty("No clients yet", "The domain lists no clients, and none has connected.")
            elif not matching:
                widgets.empty("No match", f"{len(clients):,} subjects are known.")
            else:
                heads = ("subject", "node", "state")
                table(f"{len(matching):,} of {len(clients):,}", heads, self._rows(matching), MAX_LISTED)

    def _rows(self, clients: list[KnownClient]) -> Iterator[tuple[object, ...]]:
        for client in clients:
            to = {"name": client.name} | ({"q": self._sought} if self._sought else {})
            look = "pk-chosen" if client.name == self._opened else ""
            state = TableCell("connected", "pk-gain") if client.up else TableCell("away", "pk-about")
            name = TableCell(client.name, look, f"/subjects?{urlencode(to)}")
            yield name, widgets.first_names(client.nodes, 3), state


async def _open(person: Person, name: str) -> None:
    waiting = widgets.loading()
    accounts: list[SubjectAccount] = []
    wrong = ""
    for client in person.clients:
        try:
            accounts.append(await client.get("/api/subject", SubjectAccount, name=name))
        except ApiClientError as error:
            wrong = wrong if error.status == 404 and wrong else str(error)
    waiting.delete()
    if not accounts:
        widgets.problem("No data", wrong)
        return
    await SubjectPanel(person, accounts).build()
