"""Stage 10, project: which metrics may this subject read, and which withheld ones does it now get back?

It is asked for each session when an event is delivered, so that there is no way around it; readers of whom the same is
said, and who have had the same, share one view (`policy/sparkplug/edge_nodes.py`). A node is asked about as a reader
too, for all who may be beyond it: what none of them may ever read stays (`engine/sparkplug/beyond.py`).
"""

from penstock.engine.events import user_properties
from penstock.engine.events.passage import Delivery
from penstock.engine.ledger import Withheld
from penstock.engine.node import Node
from penstock.engine.sessions.render import Forms
from penstock.engine.sessions.session import PolicyRevision, Session
from penstock.engine.sparkplug import openings
from penstock.engine.sparkplug.beyond import reader_of
from penstock.engine.sparkplug.messages import actor_of, moment
from penstock.engine.sparkplug.state import Actor, ReadRequest, Sparkplug, governed
from penstock.engine.stages.draft import Draft
from penstock.model.errors import ContentError
from penstock.model.event import Event
from penstock.model.sparkplug.topic import BIRTHS, COMMANDS, LIVES, REPORTS, SparkplugSource
from penstock.model.values import Timestamp
from penstock.model.verdict import Effect, Verdict
from penstock.policy.sparkplug.policies import SECOND
from penstock.policy.sparkplug.reasons import names
from penstock.policy.sparkplug.views import (
    START,
    UNKNOWN,
    BirthRecord,
    View,
    ViewRequest,
    WithheldMetrics,
    owed,
    read_view,
)


def plan(draft: Draft) -> None:
    """Add a step for each delivery, so no packet's own bytes are passed on. Monitors may put out Sparkplug too."""
    if draft.node.sparkplug is not None:
        step = ask_queued if draft.waits is not None and draft.waits.is_rechecked else run
        draft.for_each_delivery(step, is_for_plain=concerns(draft.node, draft.topic))


NOT_READABLE = Verdict("project", Effect.SUPPRESS, "access", "no access policy lets it read any of this")
NOT_READABLE_BEYOND = Verdict("project", Effect.SUPPRESS, "access", "nobody beyond the link may ever read any of this")
_NOT_UNDERSTOOD = Verdict("project", Effect.SUPPRESS, "sparkplug", "it cannot be read as a Sparkplug message")


def run(delivery: Delivery) -> Verdict | None:
    """Go on with what the receiver may see of the event."""
    node, session, asked = delivery.passage.node, delivery.session, delivery.forms
    forms = show(node, session, asked)
    if forms is None:
        if asked.asked is not None and (asked.asked.request is None or asked.asked.is_outdated):
            return _NOT_UNDERSTOOD
        return NOT_READABLE if session.place.beyond is None else NOT_READABLE_BEYOND
    actor = session.place.actor
    if asked.asked and asked.asked.topic and actor is not None and node.sparkplug is not None:
        delivery.is_timed |= actor.grants(node.sparkplug.access, asked.asked.topic, "read").reads_now
        delivery.is_timed |= asked.asked.is_by_birth
    if forms is not asked:
        if node.recorder is not None:
            _record_removed(delivery, asked)
        delivery.show(forms)
    return None


def _record_removed(delivery: Delivery, asked: Forms) -> None:
    """Tell the journal which metrics the receiver does not get."""
    session, request = delivery.session, None if asked.asked is None else asked.asked.request
    actor, sparkplug = session.place.actor or session.place.beyond, delivery.passage.node.sparkplug
    if asked.asked is None or request is None or actor is None or sparkplug is None:
        return
    view, _ = read_view(actor.grants(sparkplug.access, asked.asked.topic, "read"), request, actor.record, START)
    if view is not None and view.removed:
        delivery.passage.withhold(session, cut(view, request.known, session.place.beyond is not None))


def cut(view: View, known: BirthRecord, is_node: bool = False) -> Verdict:
    """Return the verdict on a message of which a reader, or another node, gets only some metrics."""
    removed = (known.name(metric) or f"alias {metric.alias}" for metric in view.removed)
    reason = f"without {names(dict.fromkeys(removed))}" if view.removed else ""
    reason += ": nobody beyond the link may ever read them" if view.removed and is_node else ""
    return Verdict("project", Effect.REPLACE, "access", reason)


def ask_queued(delivery: Delivery) -> Verdict | None:
    """Go on with what the receiver may still see of what waits for it."""
    passage = delivery.passage
    left = judge_again(passage.node, delivery.session, delivery.event, delivery.revision, passage.now)
    if left is None:
        return NOT_READABLE
    delivery.event = left
    return None


def concerns(node: Node, topic: str) -> bool:
    """Return True if events on this topic are projected."""
    return node.sparkplug is not None and bool(governed(topic))


_AS_IT_IS = ReadRequest("")


def show(node: Node, session: Session, forms: Forms) -> Forms | None:
    """Return the event as a session may see it; None if it may not."""
    asked = forms.asked
    if asked is None:
        asked = forms.asked = _asked(node, forms.event, forms.now)
    if not asked.topic:
        return forms
    actor = session.place.actor or reader_of(node, session)
    if actor is None:
        return forms
    if asked.request is None or node.sparkplug is None or (asked.is_outdated and session.place.beyond is None):
        return None
    payload = _payload(node, node.sparkplug, session, actor, asked, asked.request)
    if payload is None:
        return None
    return forms if payload is forms.event.payload else forms.view(payload)


def _asked(node: Node, event: Event, now: float | None) -> ReadRequest:
    sparkplug, topic = node.sparkplug, governed(event.topic)
    if sparkplug is None or not topic:
        return _AS_IT_IS
    try:
        read = sparkplug.read(topic, event.payload)
    except ContentError:
        return ReadRequest(topic)
    if topic != event.topic:
        return ReadRequest(topic, ViewRequest(read.topic, read.message, UNKNOWN, _time(now)))
    generation = user_properties.born_by(event)
    request = sparkplug.plant.request(read.topic, read.message, generation, _time(now), read.state)
    source = read.topic.source
    is_by_birth = bool(generation) and read.topic.type in COMMANDS and bool(read.message.unnamed())
    return ReadRequest(topic, request, None if source is None else source.node, is_by_birth)


def _payload(
    node: Node, sparkplug: Sparkplug, session: Session, actor: Actor, asked: ReadRequest, request: ViewRequest
) -> bytes | None:
    """Return the bytes that a session may see: those of the event itself if that is all of them."""
    grants = actor.grants(sparkplug.access, asked.topic, "read")
    source = request.topic.source
    try:
        if asked.is_of_the_past:
            view, _ = read_view(grants, request, actor.record, START)
            return None if view is None else request.message.whole if view.is_whole else view.payload()
        before = _standing(actor, source)
        shown = sparkplug.plant.show(actor.reader, grants, request, asked.edge, actor.record)
    except ContentError:
        return None
    if session.durable and source is not None and session.place.beyond is None:
        _keep(node, session, actor, source, before)
    if grants.reads_now:
        _ask_later(node, session, actor, request)
    if shown is None:
        return None
    return request.message.whole if shown.is_whole else shown.payload()


def preview(node: Node, session: Session, event: Event, now: float | None) -> Event | None:
    """Return the event as a session would see it, but for its `seq`; None if it would not."""
    asked = _asked(node, event, now)
    actor = actor_of(node, session) if asked.topic else None
    if actor is None or node.sparkplug is None:
        return event
    request = asked.request
    if request is None or asked.is_outdated:
        return None
    grants = actor.grants(node.sparkplug.access, asked.topic, "read")
    try:
        if asked.is_of_the_past:
            view, _ = read_view(grants, request, actor.record, START)
        else:
            view = node.sparkplug.plant.preview(actor.reader, grants, request, actor.record)
        return None if view is None else event if view.is_whole else event._replace(payload=view.payload())
    except ContentError:
        return None


def _time(now: float | None) -> Timestamp | None:
    return None if now is None else moment(now)


def _standing(actor: Actor, source: SparkplugSource | None) -> WithheldMetrics:
    return START if source is None else actor.reader.standings.get(source, START)


def _keep(node: Node, session: Session, actor: Actor, source: SparkplugSource, before: WithheldMetrics) -> None:
    """Have the store keep what a reader is owed, and the values that it would get now."""
    after, is_late = _standing(actor, source), str(source) in actor.reader.late
    if after is before and not after.withheld and not is_late:
        return
    assert node.sparkplug is not None
    values = node.sparkplug.plant.known(source).values
    owed = {name: values[name] for name in sorted(after.withheld) if name in values}
    withheld = Withheld(owed, tuple(sorted(after.unborn)), is_late)
    node.ledger.standing(session, str(source), withheld if after != START or is_late else None)


def judge_again(node: Node, session: Session, event: Event, judged: PolicyRevision, now: float | None) -> Event | None:
    """Return what may still be seen of an event that was projected by the policies of another revision or time."""
    sparkplug = node.sparkplug
    topic = "" if sparkplug is None else governed(event.topic)
    actor = reader_of(node, session) if topic else None
    if sparkplug is None or actor is None:
        return event
    grants = actor.grants(sparkplug.access, topic, "read")
    asked = _asked(node, event, now)
    request = asked.request
    if request is None or (asked.is_outdated and session.place.beyond is None):
        return None
    if judged.access == node.revision.access and not grants.reads_now and session.place.beyond is None:
        return event
    try:
        view, _ = read_view(grants, request, actor.record, START)
    except ContentError:
        return None
    if grants.reads_now and event.topic == topic:
        _owe(node, session, actor, request, view)
    if view is None:
        return None
    return event if view.is_whole else event._replace(payload=view.payload())


def _owe(node: Node, session: Session, actor: Actor, request: ViewRequest, view: View | None) -> None:
    """Have a reader owed what was taken out when it left: it was to be seen when it came."""
    topic, source, reader = request.topic, request.topic.source, actor.reader
    if view is None and topic.type in LIVES:
        reader.late.add(topic.speaker)
    gone = request.message.metrics if view is None else view.removed
    if source is not None and gone and topic.type in (*BIRTHS, *REPORTS):
        before = _standing(actor, source)
        after = owed(request, gone, before)
        if topic.type in BIRTHS:
            after = WithheldMetrics(after.withheld, before.unborn.union(after.withheld))
        reader.standings[source] = after
        if session.durable:
            _keep(node, session, actor, source, before)
    _ask_later(node, session, actor, request)


def _ask_later(node: Node, session: Session, actor: Actor, request: ViewRequest) -> None:
    """Have a reader asked about again when the time may show it what it is owed."""
    if isinstance(request.now, Timestamp):
        openings.ask_again(node, session, actor, request.topic.speaker, request.now.nanos / SECOND)
