"""Forms, and names to choose from while one types: clients, nodes, neighbours."""

from collections.abc import Awaitable, Callable, Iterable
from html import escape

from nicegui import ui
from nicegui.events import GenericEventArguments

from penstock.console.person import Person

MOST = 3_000
_SEEN = "(event) => emit(Object.fromEntries(new FormData(event.target)))"
"""What stands in a form's fields, by their names."""


def entities(person: Person) -> list[str]:
    """Everything that events come from or go to: of the domain, and who is connected besides."""
    domain = person.domain
    found: dict[str, None] = {}
    if domain is not None:
        found |= dict.fromkeys([*domain.clients, *domain.nodes])
    for state in person.states.values():
        found |= dict.fromkeys(one.neighbour for one in state.portrait.links)
        found |= dict.fromkeys(one.entity for one in state.portrait.clients)
    return sorted(name for name in list(found)[:MOST] if name)


def listed(id: str, names: Iterable[str]) -> None:
    """A list for inputs with the property `list`."""
    options = "".join(f'<option value="{escape(name)}"></option>' for name in names)
    ui.html(options, sanitize=False, tag="datalist").props(f"id={id}")


def form(ask: Callable[[], Awaitable[None]]) -> ui.element:
    """A form: what is asked is what is seen in its fields, whatever of it has come here by then."""
    made = ui.element("form").classes("pk-form")

    async def submitted(event: GenericEventArguments) -> None:
        for one in made.descendants():
            if isinstance(one, ui.input) and (seen := event.args.get(one.props.get("name"))) is not None:
                one.value = str(seen)
        await ask()

    return made.on("submit.prevent", submitted, js_handler=_SEEN)


def field(label: str, value: str = "", list: str = "", hint: str = "") -> ui.input:
    """A field of a form; what is typed is told when one has stopped typing for a moment."""
    made = ui.input(label, value=value).classes("pk-field").props("outlined dense debounce=300 autocomplete=off")
    made.props["name"] = label
    if list:
        made.props(f"list={list}")
    if hint:
        made.props["hint"] = hint
    return made
