"""The side panel: one decision, or the answer to "ask why"."""

import json
from base64 import b64decode
from collections.abc import Callable

from nicegui import ui

from penstock.broker.http.answers.decisions import DecisionDetail
from penstock.console import widgets
from penstock.console.admin_client import ApiClientError
from penstock.console.decisions import explanation
from penstock.console.names import field, form
from penstock.console.person import Person
from penstock.engine.explain.report import Account, DecisionAccount
from penstock.model.errors import ContentError
from penstock.model.sparkplug.payload import is_sparkplug
from penstock.model.sparkplug.plain import write_plain


class DecisionPanel:
    """Opens over the page from its right edge; Escape closes it and returns the focus."""

    def __init__(self, person: Person, on_close: Callable[[], None]) -> None:
        self._person = person
        with ui.dialog().props('position=right full-height aria-labelledby="pk-panel-title"') as self._dialog:
            self._box = ui.element("div").classes("pk-panel")
        self._dialog.on_value_change(lambda event: None if event.value else on_close())

    async def decision(self, node: str, id: int) -> None:
        """Open on one decision of a node's process."""
        box = self._begin(f"Decision {id}")
        with box:
            widgets.loading()
        try:
            detail = await self._person.client_for(node).get("/api/decision", DecisionDetail, id=id)
            if node and detail.row.node != node:  # numbers restart with the nodes
                raise ApiClientError("no such decision any more", 404)
        except ApiClientError as error:
            if not box.is_deleted:
                _failed(box, error)
            return
        if box.is_deleted:  # something else has been opened meanwhile
            return
        with widgets.emptied(box):
            _decided(detail)
            if explanation.is_refusal(detail.decision):
                self._offer(detail.decision)

    def why(self, source: str = "", topic: str = "") -> None:
        """Open on the form."""
        with self._begin("Ask why"):
            WhyForm(self._person, source, topic)

    def _begin(self, title: str) -> ui.element:
        """Open it anew; return the element for its content."""
        with widgets.emptied(self._box):
            with ui.element("div").classes("pk-panel-head"):
                ui.label(title).classes("pk-heading").props("role=heading aria-level=2 id=pk-panel-title")
                ui.space()
                ui.button(icon="close", on_click=self._dialog.close).props('flat round dense aria-label="Close"')
            content = ui.element("div").classes("pk-panel-content")
        self._dialog.open()
        return content

    def _offer(self, decision: DecisionAccount) -> None:
        """Offer to explain a recorded refusal in full, by the present policies."""
        event = decision.event
        if event.encoding == "hidden":  # another payload, or none, may be decided differently
            with ui.element("div").classes("pk-offer"):
                widgets.note("The payload is hidden from you. You can ask what would happen to another one.")
                button = ui.button("Ask why with a payload of your own").props("outline no-caps")
                button.on_click(lambda: self.why(decision.came_by.source, event.topic))
            return
        with ui.element("div").classes("pk-offer"):
            widgets.note("Of a refusal only the verdict that refused is kept.")
            button = ui.button("Explain with the present policies").props("outline no-caps")
        answer = ui.element("div").classes("pd-answer").props("aria-live=polite")

        async def ask() -> None:
            button.disable()
            payload = b64decode(event.payload) if event.encoding == "base64" else event.payload.encode()
            question = {"from_": decision.came_by.source, "topic": event.topic, "at": decision.node}
            await _answer(self._person, answer, payload, question | {"qos": str(event.qos)})

        button.on_click(ask)


def _failed(box: ui.element, error: ApiClientError) -> None:
    with widgets.emptied(box):
        if error.status == 404:
            widgets.empty("No longer available", "Nodes keep the latest decisions; the journal has all.")
        else:
            widgets.problem("The decision cannot be shown", str(error))


def _decided(detail: DecisionDetail) -> None:
    row = detail.row
    with ui.element("div").classes("pk-told"):
        widgets.verdict(row.effect)
        explanation.html(
            explanation.data(row.stage)
            + (f" by {explanation.data(row.rule)}" if row.rule else "")
            + (f": {explanation.prose_html(row.reason)}" if row.reason else "")
        )
    explanation.decision(detail.decision)


class WhyForm:
    """The form: sender, topic, payload, receiver; and the answer."""

    def __init__(self, person: Person, source: str, topic: str) -> None:
        self._person = person
        widgets.note("What would happen to an event at present. Nothing is published.")
        with form(self._ask):
            self._from = field("From", source, list="pk-entities", hint="a client, a neighbour or a foreign broker")
            self._topic = field("Topic", topic)
            self._to = field("To (optional)", list="pk-entities", hint="one receiver; empty: all receivers")
            hint = "text; for Sparkplug topics metrics as JSON" if person.domain is None or person.domain.access else ""
            self._payload = ui.textarea("Payload").classes("pk-field pk-tall").props("outlined dense autogrow")
            self._payload.props["hint"], self._payload.props["name"] = hint, "Payload"
            ui.button("Explain").props("type=submit no-caps unelevated color=primary")
        self._answer = ui.element("div").classes("pd-answer").props("aria-live=polite")

    async def _ask(self) -> None:
        self._answer.clear()
        source, topic = self._from.value.strip(), self._topic.value
        if not source or not topic:
            with self._answer:
                widgets.problem("Something is missing", "Give a sender and a topic.")
            return
        try:
            payload = _payload(topic, self._payload.value or "")
        except ContentError as error:
            with self._answer:
                widgets.problem("The payload is not valid", str(error))
            return
        question = {"from_": source, "topic": topic, "to": self._to.value.strip(), "at": _home(self._person, source)}
        await _answer(self._person, self._answer, payload, question)


def _payload(topic: str, text: str) -> bytes:
    """Return the payload: for Sparkplug, JSON of metrics stands for the message."""
    if is_sparkplug(topic) and text.lstrip().startswith("{"):
        try:
            metrics = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ContentError(f"metrics: {error}") from None
        return write_plain(metrics)
    return text.encode(errors="replace")


def _home(person: Person, entity: str) -> str:
    """Return the node that an entity publishes at."""
    client = person.domain.clients.get(entity) if person.domain is not None else None
    if client is not None and isinstance(client.node, str):
        return client.node
    states = list(reversed(person.states.items()))  # the first that knows it counts
    clients = {client.entity: name for name, state in states for client in state.portrait.clients}
    links = {link.neighbour: name for name, state in states for link in state.portrait.links}
    return clients.get(entity) or links.get(entity, "")


async def _answer(person: Person, into: ui.element, payload: bytes, question: dict[str, str]) -> None:
    with into:
        waiting = widgets.loading()
    try:
        explained = await person.client_for(question["at"]).post("/api/explain", Account, payload, **question)
        why = ""
    except ApiClientError as error:
        explained, why = None, str(error)
    if not into.is_deleted:
        waiting.delete()
        with into:
            if explained is not None:
                explanation.explanation(explained)
            else:
                widgets.problem("It cannot be explained", why)
