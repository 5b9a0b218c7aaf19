"""Forms, and suggestions of names while the user types: clients, nodes, neighbours."""

from collections.abc import Awaitable, Callable, Iterable
from html import escape

from nicegui import ui
from nicegui.events import GenericEventArguments

from penstock.console.person import Person

MAX_NAMES = 3_000
_SEEN = "(event) => emit(Object.fromEntries(new FormData(event.target)))"
"""The values of a form's fields, by their names."""


def entities(person: Person) -> list[str]:
    """Return all entities that events come from or go to: those of the domain, and connected others."""
    domain = person.domain
    names: dict[str, None] = {}
    if domain is not None:
        names |= dict.fromkeys([*domain.clients, *domain.nodes])
    for state in person.states.values():
        names |= dict.fromkeys(link.neighbour for link in state.portrait.links)
        names |= dict.fromkeys(client.entity for client in state.portrait.clients)
    return sorted(name for name in list(names)[:MAX_NAMES] if name)


def datalist(id: str, names: Iterable[str]) -> None:
    """Add a list for inputs with the property `list`."""
    options = "".join(f'<option value="{escape(name)}"></option>' for name in names)
    ui.html(options, sanitize=False, tag="datalist").props(f"id={id}")


def form(ask: Callable[[], Awaitable[None]]) -> ui.element:
    """Add a form; on submit, the values shown in the browser are used."""
    element = ui.element("form").classes("pk-form")

    async def submitted(event: GenericEventArguments) -> None:
        for child in element.descendants():
            if isinstance(child, ui.input) and (seen := event.args.get(child.props.get("name"))) is not None:
                child.value = str(seen)
        await ask()

    return element.on("submit.prevent", submitted, js_handler=_SEEN)


def field(label: str, value: str = "", list: str = "", hint: str = "") -> ui.input:
    """Add a field of a form; changes are sent after a short pause."""
    input_ = ui.input(label, value=value).classes("pk-field").props("outlined dense debounce=300 autocomplete=off")
    input_.props["name"] = label
    if list:
        input_.props(f"list={list}")
    if hint:
        input_.props["hint"] = hint
    return input_
