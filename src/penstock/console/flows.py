"""The part `flows`: whether events of X can reach Y, by which way, or what blocks them."""

from collections.abc import Sequence
from urllib.parse import urlencode

from nicegui import ui

from penstock.broker.http.answers.flows import Assertions, AssertionState, EntityFlow, Flows, FlowStep
from penstock.console import names, widgets
from penstock.console.admin_client import ApiClientError
from penstock.console.decisions.explanation import data, html, prose_html
from penstock.console.map.element import LiveMap
from penstock.console.person import Person

MAX_ENDS = 24
"""Clients and foreign brokers up to which the whole matrix is shown."""
MAX_ASSERTIONS = 200
MAX_TOPICS = 6
ANY_TOPIC = "#"
ROUTES, PATHS = "by the nodes alone", "through devices too"
_WAYS = {
    ROUTES: "One event, as the nodes pass it on.",
    PATHS: "A client on the way may publish what it has read, under any topic: the worst case.",
}
_BOUNDS = (
    "Link types and monitors allow this. The ACL, tokens, access policies, statements and contracts may still deny it:"
    " for one event, use “Ask why” under <a href='/decisions'>Decisions</a>."
)
"""The limits of a yes."""


async def show(person: Person) -> None:
    """Show the part to a person."""
    await _FlowsPage(person).begin()


class _FlowsPage:
    def __init__(self, person: Person) -> None:
        self._person = person
        request = ui.context.client.request
        self._query = dict(request.query_params) if request is not None else {}
        self._requests = 0
        """Number of requests so far."""

    async def begin(self) -> None:
        widgets.heading("Flows", "Can events of one client reach another? By the policies in force.")
        names.datalist("pk-entities", names.entities(self._person))
        with widgets.card("Question"):
            self._form()
        self._answer = ui.element("div").classes("pd-answer pk-wide").props("aria-live=polite")
        with ui.element("div").classes("pm-whole"):
            self._map = LiveMap(self._person)
            self._map.link_to_map()
        self._rest = ui.element("div").classes("pd-answer pk-wide")
        ui.timer(0, self._first, once=True)

    def _form(self) -> None:
        query = self._query
        with names.form(self._ask):
            self._from = names.field("From", query.get("from", ""), "pk-entities")
            self._to = names.field("To", query.get("to", ""), "pk-entities")
            self._on = names.field("Topic (optional)", query.get("on", ""), hint="a topic or filter; empty: any")
            chosen = PATHS if query.get("routes") == "0" else ROUTES
            self._ways = ui.radio(list(_WAYS), value=chosen).classes("pk-tall").props('inline aria-label="Which ways"')
            self._hint = ui.label(_WAYS[chosen]).classes("pk-about pk-tall")
            self._ways.on_value_change(lambda: self._hint.set_text(_WAYS[self._ways.value]))
            ui.button("Can they?").props("type=submit no-caps unelevated color=primary")

    async def _first(self) -> None:
        if self._from.value and self._to.value:
            await self._ask()
        await self._whole()

    async def _ask(self) -> None:
        self._requests += 1
        request, source, target = self._requests, self._from.value.strip(), self._to.value.strip()
        self._answer.clear()
        self._map.highlight([])
        if not source or not target:
            with self._answer:
                widgets.problem("Something is missing", "Give a sender and a receiver.")
            return
        on, routes = self._on.value or "", self._ways.value == ROUTES
        query = {"from": source, "to": target, "on": on, "routes": "1" if routes else "0"}
        ui.navigate.history.replace(f"/flows?{urlencode({name: text for name, text in query.items() if text})}")
        with self._answer:
            widgets.loading("Looking for a way")
        why = ""
        try:
            answer = await self._flow(source, target, on, routes)
            beyond = await self._flow(source, target, on, False) if routes and not answer.flows else None
        except ApiClientError as error:
            why = str(error)
        if request != self._requests:  # another request has been made meanwhile
            return
        self._answer.clear()
        if why:
            with self._answer:
                widgets.problem("The request failed", why)
            return
        with self._answer, widgets.card("Answer"):
            _show_answer(answer, on, routes)
            if beyond is not None and beyond.flows:
                widgets.note("A device may publish what it has received; then this way is open:")
                _way(beyond.way, "Way through devices")
        if answer.flows:
            self._map.highlight([(step.source, step.target) for step in answer.way])

    async def _flow(self, source: str, target: str, on: str, routes: bool) -> EntityFlow:
        query = {"from_": source, "to": target, "on": on, "routes": "1" if routes else ""}
        flows = await self._person.first.get("/api/flows", Flows, **query)
        return flows.flows[0]

    async def _whole(self) -> None:
        """Show the domain's assertions and, for a small domain, the matrix of all flows."""
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
            answer = await self._person.first.get("/api/assertions", Assertions)
            with widgets.emptied(claims):
                _claims(answer.assertions)
        except ApiClientError as error:
            _failed(claims, error)

    async def _pairs(self, into: ui.element) -> None:
        """Compute the matrix when it is opened."""
        into.clear()
        try:
            with into:
                widgets.loading("Looking for all ways")
            flows = await self._person.first.get("/api/flows", Flows, routes="1")
            with widgets.emptied(into):
                _matrix(flows)
        except ApiClientError as error:
            _failed(into, error)

    @property
    def _is_small(self) -> bool:
        domain = self._person.domain
        return domain is not None and 1 < len(domain.clients) <= MAX_ENDS and len(domain.nodes) <= MAX_ENDS


def _failed(into: ui.element, error: ApiClientError) -> None:
    with widgets.emptied(into):
        widgets.problem("This cannot be shown", str(error))


def _show_answer(flow: EntityFlow, on: str, routes: bool) -> None:
    """Show the answer in words, and the way as steps."""
    about = f" on {data(on)}" if on and on != ANY_TOPIC else ""
    how = "as the nodes pass it on" if routes else "also through devices that receive it"
    word = '<b class="pk-pass">Yes</b>' if flow.flows else '<b class="pk-suppress">No</b>'
    verb = "can" if flow.flows else "cannot"
    sentence = f"{word}: what {data(flow.source)} publishes{about} {verb} reach {data(flow.target)}, {how}."
    html(f'<p class="pk-sentence" data-flows="{str(flow.flows).lower()}">{sentence}</p>')
    if flow.flows:
        if not about:
            _topics(flow)
        _way(flow.way, "Way")
        html(f'<p class="pk-about" data-flows="bounds">{_BOUNDS}</p>')
    elif not flow.way:
        widgets.note("No links lead there.")
    else:
        rules = "".join(f"<li>{prose_html(closure.what)} at {data(closure.at)}</li>" for closure in flow.closed)
        html(f'<p class="pk-about">Closed by:</p><ul class="pk-closed" aria-label="Closed by">{rules}</ul>')
        widgets.note("The nearest way, which that closes:")
        _way(flow.way, "Nearest way")


def _topics(flow: EntityFlow) -> None:
    """Show the topics that pass, as far as monitors on the way distinguish topics."""
    if flow.closed_on:
        held = ", ".join(map(data, flow.closed_on))
        html(f'<p class="pk-sentence" data-topics="closed">But nothing on {held}: monitors on the way suppress it.</p>')
    if flow.open_on:
        examples = ", ".join(map(data, flow.open_on[:MAX_TOPICS]))
        html(f'<p class="pk-about" data-topics="open">For example on {examples}.</p>')
    elif all(step.topics == ANY_TOPIC for step in flow.way):
        other = "any other topic" if flow.closed_on else "any topic: no monitor on the way distinguishes topics"
        html(f'<p class="pk-about" data-topics="open">On {other}.</p>')


def _way(steps: Sequence[FlowStep], label: str) -> None:
    items = "".join(
        f"<li>{data(step.source)} → {data(step.target)} <span class='pk-about'>type {data(step.type)}"
        + (f", topics {data(step.topics)}" if step.topics != ANY_TOPIC else "")
        + "</span></li>"
        for step in steps
    )
    html(f'<ol class="pk-steps" aria-label="{label}">{items}</ol>')


def _claims(claims: Sequence[AssertionState]) -> None:
    if not claims:
        widgets.hint("The domain has none. `assertions` state what must never flow, and what must.")
        return
    rows = "".join(
        f"<tr><td>{_word(claim.holds)}</td><td><a href='{_link(claim)}'>{data(claim.assertion)}</a></td>"
        f"<td>{prose_html(claim.why)}</td></tr>"
        for claim in claims[:MAX_ASSERTIONS]
    )
    head = "<tr><th scope=col>Holds</th><th scope=col>Assertion</th><th scope=col>Why not</th></tr>"
    html(f'<table class="pk-metrics pk-claims"><thead>{head}</thead><tbody>{rows}</tbody></table>')
    if len(claims) > MAX_ASSERTIONS:
        widgets.note(f"… and {len(claims) - MAX_ASSERTIONS} more")


def _word(holds: bool) -> str:
    return '<b class="pk-pass">yes</b>' if holds else '<b class="pk-suppress">no</b>'


def _link(claim: AssertionState) -> str:
    """Return the address of the request that an assertion answers."""
    query = {"from": claim.source, "to": claim.target, "on": "" if claim.on == ANY_TOPIC else claim.on}
    query["routes"] = "1" if claim.routes else "0"
    return "/flows?" + urlencode({name: text for name, text in query.items() if text}).replace("&", "&amp;")


def _matrix(flows: Flows) -> None:
    """Show which clients reach which through nodes alone; each cell links to the request."""
    widgets.note("One event, as the nodes forward it; each word links to the way, or to what blocks it.")
    ends = [entity for entity in flows.entities if entity.kind != "node"]
    shown = [end.name for end in ends]
    head = "".join(f"<th scope=col>{data(name)}</th>" for name in shown)
    rows = []
    for end in ends:
        reached, cells = set(end.reaches), ""
        for name in shown:
            link = "/flows?" + urlencode({"from": end.name, "to": name, "routes": "1"}).replace("&", "&amp;")
            word, look = ("yes", "pk-pass") if name in reached else ("no", "pk-suppress")
            cells += "<td></td>" if name == end.name else f"<td><a class='{look}' href='{link}'>{word}</a></td>"
        rows.append(f"<tr><th scope=row>{data(end.name)}</th>{cells}</tr>")
    body = f"<thead><tr><td>from, to</td>{head}</tr></thead><tbody>{''.join(rows)}</tbody>"
    table = f"<table class='pk-matrix'>{body}</table>"
    html(f'<div class="pd-scroll" tabindex="0" role="region" aria-label="Who reaches whom">{table}</div>')
