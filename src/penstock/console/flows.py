"""The part `flows`: can X's events reach Y? By which way, or what closes it."""

from collections.abc import Sequence
from urllib.parse import urlencode

from nicegui import ui

from penstock.broker.http.answers.flows import Assertions, AssertionState, Flow, Flows, FlowStep
from penstock.console import names, widgets
from penstock.console.admin_client import AskError
from penstock.console.decisions.explanation import data, html, told
from penstock.console.map.element import LiveMap
from penstock.console.person import Person

MOST_ENDS = 24
"""Clients and foreign brokers of which it is shown at once who reaches whom."""
MOST_ASSERTIONS = 200
MOST_TOPICS = 6
ANY_TOPIC = "#"
ROUTES, PATHS = "by the nodes alone", "through devices too"
_WAYS = {
    ROUTES: "One event, as the nodes pass it on.",
    PATHS: "A client on the way may publish what it has read, under any topic: the worst that devices could do.",
}
_BOUNDS = (
    "That is what link types and monitors let through. Access control, tokens, access policies, statements and"
    " contracts may still keep it: of one event, <a href='/decisions'>Decisions</a> says why, with “Ask why”."
)
"""What a yes does not say."""


async def show(person: Person) -> None:
    """Show it to a person."""
    await _Page(person).begin()


class _Page:
    def __init__(self, person: Person) -> None:
        self._person = person
        request = ui.context.client.request
        self._said = dict(request.query_params) if request is not None else {}
        self._asked = 0
        """How many questions there were."""

    async def begin(self) -> None:
        widgets.heading("Flows", "Can one's events reach another? As the policies in force allow it.")
        names.listed("pk-entities", names.entities(self._person))
        with widgets.card("Question"):
            self._form()
        self._answer = ui.element("div").classes("pd-answer pk-wide").props("aria-live=polite")
        with ui.element("div").classes("pm-whole"):
            self._map = LiveMap(self._person)
            self._map.leads_to_map()
        self._rest = ui.element("div").classes("pd-answer pk-wide")
        ui.timer(0, self._first, once=True)

    def _form(self) -> None:
        said = self._said
        with names.form(self._ask):
            self._from = names.field("From", said.get("from", ""), "pk-entities")
            self._to = names.field("To", said.get("to", ""), "pk-entities")
            self._on = names.field("Topic (optional)", said.get("on", ""), hint="a topic or filter; empty: any")
            chosen = PATHS if said.get("routes") == "0" else ROUTES
            self._ways = ui.radio(list(_WAYS), value=chosen).classes("pk-tall").props('inline aria-label="Which ways"')
            self._hint = ui.label(_WAYS[chosen]).classes("pk-about pk-tall")
            self._ways.on_value_change(lambda: self._hint.set_text(_WAYS[self._ways.value]))
            ui.button("Can they?").props("type=submit no-caps unelevated color=primary")

    async def _first(self) -> None:
        if self._from.value and self._to.value:
            await self._ask()
        await self._whole()

    async def _ask(self) -> None:
        self._asked += 1
        asking, source, target = self._asked, self._from.value.strip(), self._to.value.strip()
        self._answer.clear()
        self._map.light([])
        if not source or not target:
            with self._answer:
                widgets.wrong("Something is missing", "Say from whom and to whom.")
            return
        on, routes = self._on.value or "", self._ways.value == ROUTES
        asked = {"from": source, "to": target, "on": on, "routes": "1" if routes else "0"}
        ui.navigate.history.replace(f"/flows?{urlencode({name: text for name, text in asked.items() if text})}")
        with self._answer:
            widgets.loading("Looking for a way")
        why = ""
        try:
            found = await self._flow(source, target, on, routes)
            beyond = await self._flow(source, target, on, False) if routes and not found.flows else None
        except AskError as error:
            why = str(error)
        if asking != self._asked:  # another question has been asked meanwhile
            return
        self._answer.clear()
        if why:
            with self._answer:
                widgets.wrong("It cannot be answered", why)
            return
        with self._answer, widgets.card("Answer"):
            _told(found, on, routes)
            if beyond is not None and beyond.flows:
                ui.label("What a device hears it may still say itself; this way is open then:").classes("pk-about")
                _way(beyond.way, "Way through devices")
        if found.flows:
            self._map.light([(step.source, step.target) for step in found.way])

    async def _flow(self, source: str, target: str, on: str, routes: bool) -> Flow:
        query = {"from_": source, "to": target, "on": on, "routes": "1" if routes else ""}
        found = await self._person.first.get_long("/api/flows", Flows, **query)
        return found.flows[0]

    async def _whole(self) -> None:
        """What the domain claims, and of a small one who reaches whom."""
        with self._rest:
            with widgets.card("Assertions"):
                widgets.subheading("Assertions of the domain")
                claims = ui.element("div").classes("pk-wide")
            if self._is_small:
                with widgets.card("Who reaches whom"), ui.expansion("Who reaches whom").classes("pk-wide") as matrix:
                    pairs = ui.element("div").classes("pk-wide")
                matrix.on_value_change(lambda event: self._pairs(pairs) if event.value else None)
        try:
            with claims:
                widgets.loading("Proving them")
            found = await self._person.first.get_long("/api/assertions", Assertions)
            claims.clear()
            with claims:
                _claims(found.assertions)
        except AskError as error:
            _failed(claims, error)

    async def _pairs(self, into: ui.element) -> None:
        """Worked out when somebody wants to see it."""
        into.clear()
        try:
            with into:
                widgets.loading("Looking for all ways")
            found = await self._person.first.get_long("/api/flows", Flows, routes="1")
            into.clear()
            with into:
                _matrix(found)
        except AskError as error:
            _failed(into, error)

    @property
    def _is_small(self) -> bool:
        domain = self._person.domain
        return domain is not None and 1 < len(domain.clients) <= MOST_ENDS and len(domain.nodes) <= MOST_ENDS


def _failed(into: ui.element, error: AskError) -> None:
    into.clear()
    with into:
        widgets.wrong("It cannot be shown", str(error))


def _told(found: Flow, on: str, routes: bool) -> None:
    """The answer in words, and the way as steps."""
    about = f" on {data(on)}" if on and on != ANY_TOPIC else ""
    how = "as the nodes pass it on" if routes else "also through devices that hear it"
    word = '<b class="pk-pass">Yes</b>' if found.flows else '<b class="pk-suppress">No</b>'
    verb = "can" if found.flows else "cannot"
    said = f"{word}: what {data(found.source)} publishes{about} {verb} reach {data(found.target)}, {how}."
    html(f'<p class="pk-sentence" data-flows="{str(found.flows).lower()}">{said}</p>')
    if found.flows:
        if not about:
            _topics(found)
        _way(found.way, "Way")
        html(f'<p class="pk-about" data-flows="bounds">{_BOUNDS}</p>')
    elif not found.way:
        ui.label("No links lead there.").classes("pk-about")
    else:
        rules = "".join(f"<li>{told(one.what)} at {data(one.at)}</li>" for one in found.closed)
        html(f'<p class="pk-about">Closed by:</p><ul class="pk-closed" aria-label="Closed by">{rules}</ul>')
        ui.label("The nearest way, which that closes:").classes("pk-about")
        _way(found.way, "Nearest way")


def _topics(found: Flow) -> None:
    """Of which topics something gets there, as far as monitors on the way tell topics apart."""
    if found.closed_on:
        held = ", ".join(map(data, found.closed_on))
        html(f'<p class="pk-sentence" data-topics="closed">But nothing on {held}: monitors on the way suppress it.</p>')
    if found.open_on:
        examples = ", ".join(map(data, found.open_on[:MOST_TOPICS]))
        html(f'<p class="pk-about" data-topics="open">For example on {examples}.</p>')
    elif all(step.topics == ANY_TOPIC for step in found.way):
        other = "any other topic" if found.closed_on else "any topic: no monitor on the way tells topics apart"
        html(f'<p class="pk-about" data-topics="open">On {other}.</p>')


def _way(steps: Sequence[FlowStep], label: str) -> None:
    items = "".join(
        f"<li>{data(one.source)} → {data(one.target)} <span class='pk-about'>type {data(one.type)}"
        + (f", topics {data(one.topics)}" if one.topics != ANY_TOPIC else "")
        + "</span></li>"
        for one in steps
    )
    html(f'<ol class="pk-steps" aria-label="{label}">{items}</ol>')


def _claims(claims: Sequence[AssertionState]) -> None:
    if not claims:
        widgets.said(
            "The domain makes none. With `assertions` it can say what must never flow, and what must."
        ).classes("pk-about")
        return
    rows = "".join(
        f"<tr><td>{_word(one.holds)}</td><td><a href='{_link(one)}'>{data(one.assertion)}</a></td>"
        f"<td>{told(one.why)}</td></tr>"
        for one in claims[:MOST_ASSERTIONS]
    )
    head = "<tr><th scope=col>Holds</th><th scope=col>Assertion</th><th scope=col>Why not</th></tr>"
    html(f'<table class="pk-metrics pk-claims"><thead>{head}</thead><tbody>{rows}</tbody></table>')
    if len(claims) > MOST_ASSERTIONS:
        ui.label(f"… and {len(claims) - MOST_ASSERTIONS} more").classes("pk-about")


def _word(holds: bool) -> str:
    return '<b class="pk-pass">yes</b>' if holds else '<b class="pk-suppress">no</b>'


def _link(one: AssertionState) -> str:
    """The question that an assertion answers."""
    asked = {"from": one.source, "to": one.target, "on": "" if one.on == ANY_TOPIC else one.on}
    asked["routes"] = "1" if one.routes else "0"
    return "/flows?" + urlencode({name: text for name, text in asked.items() if text}).replace("&", "&amp;")


def _matrix(whole: Flows) -> None:
    """Who reaches whom by the nodes alone; each cell is the question."""
    ui.label("One event, as the nodes pass it on; each word leads to the way, or to what closes it.").classes(
        "pk-about"
    )
    ends = [one for one in whole.entities if one.kind != "node"]
    shown = [one.name for one in ends]
    head = "".join(f"<th scope=col>{data(name)}</th>" for name in shown)
    rows = []
    for one in ends:
        reached, cells = set(one.reaches), ""
        for name in shown:
            link = "/flows?" + urlencode({"from": one.name, "to": name, "routes": "1"}).replace("&", "&amp;")
            said = ("yes", "pk-pass") if name in reached else ("no", "pk-suppress")
            cells += "<td></td>" if name == one.name else f"<td><a class='{said[1]}' href='{link}'>{said[0]}</a></td>"
        rows.append(f"<tr><th scope=row>{data(one.name)}</th>{cells}</tr>")
    body = f"<thead><tr><td>from, to</td>{head}</tr></thead><tbody>{''.join(rows)}</tbody>"
    table = f"<table class='pk-matrix'>{body}</table>"
    html(f'<div class="pd-scroll" tabindex="0" role="region" aria-label="Who reaches whom">{table}</div>')
