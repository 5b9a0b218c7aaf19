"""The part `subjects` of the page: what each may read and write and why, what it used of that, and its contracts."""

from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import urlencode

from nicegui import events, ui

from penstock.broker.http.answers.subjects import SubjectAccount
from penstock.console import widgets
from penstock.console.admin_client import AskError
from penstock.console.person import Person
from penstock.console.subjects.subject import Opened
from penstock.console.tables import Cell, table

BEAT = 3.0
MOST_LISTED = 200
_ABOUT = "Clients, listed in the domain or not: what each may do, by which rule, and what it did of late."


class Known(NamedTuple):
    """A client in the list."""

    name: str
    listed: bool
    nodes: tuple[str, ...]
    up: bool
    took: int
    gave: int
    denied: int


def known(person: Person) -> dict[str, Known]:
    """All clients that the domain lists or nodes have sessions of, by name."""
    found: dict[str, Known] = {}
    for name, settings in (person.domain.clients if person.domain is not None else {}).items():
        found[name] = Known(name, True, tuple(settings.node), False, 0, 0, 0)
    for node, state in person.states.items():
        for one in state.portrait.clients:
            before = found.get(one.entity) or Known(one.entity, False, (), False, 0, 0, 0)
            nodes = before.nodes if node in before.nodes else (*before.nodes, node)
            found[one.entity] = Known(
                one.entity,
                before.listed,
                nodes,
                before.up or one.up,
                before.took + one.took,
                before.gave + one.gave,
                before.denied + one.denied,
            )
    return found


async def show(person: Person) -> None:
    """Show it to a person."""
    widgets.heading("Subjects", _ABOUT)
    query = ui.context.client.request.query_params
    name, sought = query.get("name", ""), query.get("q", "")
    await person.refresh()
    if not person.states and person.domain is None:
        widgets.wrong("The nodes do not tell", person.error or "No node has told anything yet.")
        return
    with ui.element("div").classes("pk-subjects" + (" pk-opened" if name else "")):
        with widgets.card("All subjects"):
            List(person, sought, name).build()
        with ui.element("div").classes("pk-answer"):
            if not name:
                widgets.empty("No subject is opened", "Choose one from the list to see its rights and what it used.")
            else:
                await _open(person, name)


class List:
    """The list, with a field to search in it."""

    def __init__(self, person: Person, sought: str, opened: str) -> None:
        self._person, self._sought, self._opened = person, sought, opened
        self._shown: object = None

    def build(self) -> None:
        field = ui.input("Search", value=self._sought, on_change=self._search).props(
            'outlined dense clearable type=search debounce=200 aria-label="Search subjects"'
        )
        field.classes("pk-search")
        self._box = ui.element("div")
        self._fill()
        ui.timer(BEAT, self._fill)

    def _search(self, event: events.ValueChangeEventArguments[str | None]) -> None:
        self._sought = event.value or ""
        self._fill()

    def _fill(self) -> None:
        every = known(self._person)
        words = self._sought.lower()
        found = [one for one in every.values() if words in one.name.lower() or words in " ".join(one.nodes).lower()]
        found.sort(key=lambda one: (not one.up, one.name))
        shown = (self._sought, [one[:4] for one in found[:MOST_LISTED]], len(found))  # not the counters
        if shown == self._shown:
            return
        self._shown = shown
        self._box.clear()
        with self._box:
            if not every:
                widgets.empty("Nobody yet", "The domain lists no clients, and none has connected.")
            elif not found:
                widgets.empty("Nobody is called so", f"{len(every):,} subjects are known.")
            else:
                heads = ("subject", "node", "state")
                table(f"{len(found):,} of {len(every):,}", heads, self._rows(found), MOST_LISTED)

    def _rows(self, found: list[Known]) -> Iterator[tuple[object, ...]]:
        for one in found:
            to = {"name": one.name} | ({"q": self._sought} if self._sought else {})
            look = "pk-chosen" if one.name == self._opened else ""
            state = Cell("connected", "pk-gain") if one.up else Cell("away", "pk-about")
            yield Cell(one.name, look, f"/subjects?{urlencode(to)}"), widgets.some(one.nodes, 3), state


async def _open(person: Person, name: str) -> None:
    waiting = widgets.loading()
    found: list[SubjectAccount] = []
    wrong = ""
    for one in person.asked:
        try:
            found.append(await one.get("/api/subject", SubjectAccount, name=name))
        except AskError as error:
            wrong = wrong if error.status == 404 and wrong else str(error)
    waiting.delete()
    if not found:
        widgets.wrong("There is nothing to tell", wrong)
        return
    await Opened(person, found).build()
