"""Stage 9, project: which metrics may this subject read, and which withheld ones does it now get back?

It is asked for each session when an event is delivered, so that there is no way around it; readers of whom the same is
said, and who have had the same, share one view (`policy/sparkplug/edge_nodes.py`).
"""

import contextlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from penstock.engine.events import user_properties
from penstock.engine.events.plan import Draft
from penstock.engine.ledger import Withheld
from penstock.engine.sessions.render import Forms
from penstock.engine.sparkplug.messages import CERTIFICATES, Actor, Read, Sparkplug, actor_of, governed, moment
from penstock.model.errors import ContentError
from penstock.model.event import Event
from penstock.model.sparkplug.topic import BIRTHS, Source, is_birth, message_topic
from penstock.model.values import Timestamp
from penstock.policy.sparkplug.views import START, UNKNOWN, Request, Standing, seen
from penstock.wire.properties import Properties, encode_properties

if TYPE_CHECKING:
    from penstock.engine.node import Node
    from penstock.engine.sessions.session import Session


BORN_AT = "sparkplug-born-at"
"""User property of a certificate: the time of the birth in nanoseconds, later than those before it."""
_DIGITS = 20


def plan(draft: Draft) -> None:
    """Each delivery must be looked at, so no packet's own bytes are passed on."""
    if concerns(draft.node, draft.topic):
        draft.is_projected = True


def take(node: "Node", event: Event) -> str:
    """Learn from an event that goes out now; why it must not go, if it is no Sparkplug."""
    if event.id and governed(event.topic) and not node.once.is_first(event, CERTIFICATES):
        return ""  # it has come by another way already
    return learn(node, event)


def learn(node: "Node", event: Event) -> str:
    """Learn from an event; what is wrong with it, if it is no Sparkplug."""
    sparkplug = node.sparkplug
    topic = "" if sparkplug is None else governed(event.topic)
    if sparkplug is None or not topic:
        return ""
    try:
        read = sparkplug.read(topic, event.payload)
        if event.topic == topic:
            sparkplug.plant.take(read.topic, read.message)
        else:
            _learn_certificate(sparkplug, read, _born_at(event))
    except ContentError as error:
        return str(error)
    return ""


def _born_at(event: Event) -> int | None:
    """When a birth was, as the node says that keeps its certificate."""
    said = dict(user_properties.carried(event.properties).user_properties).get(BORN_AT, "")
    return int(said) if said.isdecimal() and len(said) < _DIGITS else None


def _learn_certificate(sparkplug: Sparkplug, read: Read, time: int | None) -> None:
    """What two nodes keep of an edge node that has moved is not equally old."""
    source = read.topic.source
    if source is None or read.topic.type not in BIRTHS:
        raise ContentError("only births have certificates")
    known = sparkplug.plant.known(source)
    if known.is_newer_than(read.message, time):
        raise ContentError(f"a newer birth certificate of `{source}` is known")
    sparkplug.plant.learn(source, read.message, time)


def certificate(node: "Node", event: Event) -> Event | None:
    """What is kept of a birth for those who come later; None of other events, and of one that another node keeps."""
    if node.sparkplug is None or not node.ensemble.certificates or not is_birth(event.topic):
        return None
    if any(one in node.ensemble.nodes for one in event.path):
        return None
    source = message_topic(event.topic).source
    time = None if source is None else node.sparkplug.plant.known(source).time
    told = encode_properties(Properties(user_properties=((BORN_AT, str(time)),))) if time is not None else b""
    # At QoS 1, so that on its way to another node it stays before reports that are sent so.
    return Event(CERTIFICATES + event.topic, event.payload, 1, True, told, link_type=event.link_type, path=event.path)


def concerns(node: "Node", topic: str) -> bool:
    """Whether events on this topic are projected."""
    return node.sparkplug is not None and bool(governed(topic))


class Asked(NamedTuple):
    """An event as all its readers ask for it."""

    topic: str
    """The Sparkplug topic; empty: this is no Sparkplug, and goes out as it is."""
    request: Request | None = None
    edge: Source | None = None
    """None also for a certificate: it tells of the past, and is no part of what readers are told in order."""

    @property
    def is_of_the_past(self) -> bool:
        """Whether it is a certificate."""
        return self.edge is None and self.request is not None and self.request.topic.source is not None


_AS_IT_IS = Asked("")


def show(node: "Node", session: "Session", forms: Forms) -> Forms | None:
    """The event as a session may see it; None if it may not."""
    asked = forms.asked
    if asked is None:
        asked = forms.asked = _asked(node, forms.event, forms.now)
    if not asked.topic:
        return forms
    actor = session.actor or actor_of(node, session)
    if actor is None:
        return forms
    if asked.request is None or node.sparkplug is None:
        return None
    payload = _payload(node, node.sparkplug, session, actor, asked, asked.request)
    if payload is None:
        return None
    return forms if payload is forms.event.payload else forms.view(payload)


def _asked(node: "Node", event: Event, now: float | None) -> Asked:
    sparkplug, topic = node.sparkplug, governed(event.topic)
    if sparkplug is None or not topic:
        return _AS_IT_IS
    try:
        read = sparkplug.read(topic, event.payload)
    except ContentError:
        return Asked(topic)
    if topic != event.topic:
        return Asked(topic, Request(read.topic, read.message, UNKNOWN, _time(now)))
    request = sparkplug.plant.request(read.topic, read.message, _time(now), read.state)
    return Asked(topic, request, None if read.topic.source is None else read.topic.source.node)


def _payload(
    node: "Node", sparkplug: Sparkplug, session: "Session", actor: Actor, asked: Asked, request: Request
) -> bytes | None:
    """The bytes that a session may see: those of the event itself if that is all of them."""
    grants = actor.grants(sparkplug.access, asked.topic, "read")
    source = request.topic.source
    try:
        if asked.is_of_the_past:
            view, _ = seen(grants, request, actor.record, START)
            return None if view is None else request.message.whole if view.is_whole else view.payload()
        before = _standing(actor, source)
        shown = sparkplug.plant.show(actor.reader, grants, request, asked.edge, actor.record)
    except ContentError:
        return None
    if session.durable and source is not None:
        _keep(node, session, actor, source, before)
    if shown is None:
        return None
    return request.message.whole if shown.is_whole else shown.payload()


def preview(node: "Node", session: "Session", event: Event, now: float | None) -> Event | None:
    """The event as a session would see it, but for its `seq`; None if it would not."""
    asked = _asked(node, event, now)
    actor = actor_of(node, session) if asked.topic else None
    if actor is None or node.sparkplug is None:
        return event
    request = asked.request
    if request is None:
        return None
    grants = actor.grants(node.sparkplug.access, asked.topic, "read")
    try:
        if asked.is_of_the_past:
            view, _ = seen(grants, request, actor.record, START)
        else:
            view = node.sparkplug.plant.preview(actor.reader, grants, request, actor.record)
        return None if view is None else event if view.is_whole else event._replace(payload=view.payload())
    except ContentError:
        return None


def _time(now: float | None) -> Timestamp | None:
    return None if now is None else moment(now)


def _standing(actor: Actor, source: Source | None) -> Standing:
    return START if source is None else actor.reader.standings.get(source, START)


def _keep(node: "Node", session: "Session", actor: Actor, source: Source, before: Standing) -> None:
    """Have the store keep what a reader is owed, and the values that it would get now."""
    after = _standing(actor, source)
    if after is before and not after.withheld:
        return
    assert node.sparkplug is not None
    values = node.sparkplug.plant.known(source).values
    owed = {name: values[name] for name in sorted(after.withheld) if name in values}
    node.ledger.standing(session, str(source), Withheld(owed, tuple(sorted(after.unborn))) if after != START else None)


def restore(node: "Node", owed: Iterable[tuple["Session", str, Withheld]]) -> None:
    """After a restart: learn the births that were kept, and what each reader is owed."""
    if node.sparkplug is None:
        return
    plant = node.sparkplug.plant
    for _, event in node.retained.match(f"{CERTIFICATES}#"):
        with contextlib.suppress(ContentError):
            read = node.sparkplug.read(governed(event.topic), event.payload)
            if read.topic.source is not None:
                plant.learn(read.topic.source, read.message, _born_at(event))
                plant.known(read.topic.source).is_steady = False  # who knows what aliases meant before
    for session, name, withheld in owed:
        actor, source = actor_of(node, session), Source(*name.split("/"))
        if actor is not None:
            actor.reader.standings[source] = Standing(frozenset(withheld.metrics), frozenset(withheld.unborn))
            if source in plant.sources():
                plant.known(source).values.update(withheld.metrics)


def judge_again(node: "Node", session: "Session", event: Event, now: float | None) -> Event | None:
    """What waits for a session and was projected before policies changed: what of it may still be seen."""
    sparkplug = node.sparkplug
    topic = "" if sparkplug is None else governed(event.topic)
    actor = actor_of(node, session) if topic else None
    if sparkplug is None or actor is None or node.judged_access == node.ensemble.access_digest:
        return event
    try:
        read = sparkplug.read(topic, event.payload)
        source = read.topic.source
        known = UNKNOWN if source is None else sparkplug.plant.known(source)
        if not known.is_steady:  # an alias may mean something else by now
            known = UNKNOWN
        grants = actor.grants(sparkplug.access, topic, "read")
        view, _ = seen(grants, Request(read.topic, read.message, known, _time(now), read.state), actor.record, START)
    except ContentError:
        return None
    if view is None:
        return None
    return event if view.is_whole else event._replace(payload=view.payload())
