"""Stage 2, prune: which metrics of this message may it write? (sparkplug Definition 3)

What is not Sparkplug is refused on Sparkplug's topics. An edge node that is a client of the domain is nobody else's to
speak for.
"""

from collections.abc import Iterable, Mapping

from penstock.engine.events import publishers, user_properties
from penstock.engine.events.passage import Delivery, Passage
from penstock.engine.node import Node
from penstock.engine.sessions.render import Forms
from penstock.engine.sparkplug import births
from penstock.engine.sparkplug.messages import actor_of, make_actor, moment
from penstock.engine.sparkplug.state import Actor, Read, Sparkplug, governed
from penstock.engine.stages.draft import Draft
from penstock.model.errors import ContentError
from penstock.model.event import Event
from penstock.model.sparkplug.message import Metric
from penstock.model.sparkplug.topic import BIRTHS, COMMANDS, STATE, MessageTopic
from penstock.model.subject import Subject
from penstock.model.verdict import Effect, Verdict
from penstock.policy.sparkplug.views import BirthRecord, ViewRequest, write_view


def plan(draft: Draft) -> None:
    """Content decides: each event must be looked at."""
    if draft.node.sparkplug is None or not governed(draft.topic):
        return
    if draft.waits is not None:
        draft.for_each_delivery(ask_again)
    elif not draft.link.is_admitted:
        draft.for_each_event(run)


def ask_again(delivery: Delivery) -> Verdict | None:
    """Take out of what has waited what its publisher may not write now; a certificate is what is kept of a birth. What
    a monitor has made is not asked about.
    """
    passage, event = delivery.passage, delivery.event
    node, topic, sparkplug = passage.node, governed(event.topic), passage.node.sparkplug
    publisher = publishers.publisher_of(node, event)
    if publisher is None or sparkplug is None or publishers.cause_of(event) not in (None, topic):
        return None
    if not passage.is_replay and delivery.revision.access == node.revision.access:
        return None
    entry = publishers.entry_of(node, publisher)
    actor = make_actor(Subject(publisher.client_id, publisher.user), entry, entry.name if entry is not None else "")
    try:
        read = sparkplug.read(topic, event.payload)
        born = user_properties.born_by(event)
        request = sparkplug.plant.request(read.topic, read.message, born, moment(passage.now), read.state)
        view = write_view(actor.grants(sparkplug.access, topic, "write"), request, actor.record)
    except ContentError:
        return _NOT_WRITABLE
    if view is None or usurped(node.ensemble.edges, actor.edge, read.topic):
        return _NOT_WRITABLE
    if not view.is_whole:
        passage.event = event._replace(payload=view.payload())
        passage.forms = Forms(passage.event, passage.now)
        delivery.show(passage.forms)
    return None


_NOT_WRITABLE = Verdict("prune", Effect.SUPPRESS, "access")


def run(passage: Passage) -> Verdict | None:
    """Take out what the publisher may not write."""
    node, sender = passage.node, passage.sender
    assert sender is not None  # what the node says itself is not pruned
    event, verdict = judge(node, actor_of(node, sender), passage.event, passage.now)
    if verdict.effect is Effect.SUPPRESS:
        return verdict
    passage.replace(event)
    return None


def judge(node: Node, actor: Actor | None, event: Event, now: float) -> tuple[Event, Verdict]:
    """Judge by the publisher; None: a node of the domain."""
    sparkplug = node.sparkplug
    assert sparkplug is not None
    if actor is None:
        return event, _PASS  # it was pruned where it began, and is looked at when it is taken in
    try:
        read = sparkplug.read(event.topic, event.payload)
        if read.topic.type in BIRTHS:
            BirthRecord().born(read.message)
    except ContentError as error:
        return event, Verdict("prune", Effect.SUPPRESS, "sparkplug", str(error))
    if read.topic.type == STATE and not event.payload and not event.retain:
        return event, Verdict("prune", Effect.SUPPRESS, "sparkplug", "not a STATE message: it is empty")
    return _judge(node, sparkplug, actor, event, read, now)


_PASS = Verdict("prune", Effect.PASS)


def _judge(
    node: Node, sparkplug: Sparkplug, actor: Actor, event: Event, read: Read, now: float
) -> tuple[Event, Verdict]:
    foreign = usurped(node.ensemble.edges, actor.edge, read.topic)
    if foreign:
        return event, Verdict("prune", Effect.SUPPRESS, "edge", foreign)
    generation = meant(sparkplug, event, read)
    unnamed = [] if generation or read.topic.type in BIRTHS else read.message.unnamed()
    if unnamed and read.topic.type not in COMMANDS:
        source = read.topic.source
        assert source is not None  # STATE has no metrics
        if sparkplug.plant.known(source).speaker == event.origin:
            reason = f"aliases of `{source}` mean nothing until its next birth: the last was refused, or it has died"
            return event, Verdict("prune", Effect.SUPPRESS, "birth", reason)
        event = event._replace(payload=read.message.cut(unnamed))
        read = sparkplug.read(event.topic, event.payload)
        made = Verdict("prune", Effect.REPLACE, "birth", f"without {_names(unnamed)}: no birth of `{source}` came here")
    else:
        made = _PASS
    grants = actor.grants(sparkplug.access, event.topic, "write")
    try:
        view = write_view(grants, asked(sparkplug, event, read, now), actor.record)
    except ContentError as error:
        return event, Verdict("prune", Effect.SUPPRESS, "sparkplug", f"not Sparkplug B: {error}")
    if view is None:
        reason = f"no access policy that applies lets `{actor.record['client']}` write to `{event.topic}`"
        return event, Verdict("prune", Effect.SUPPRESS, "access", reason)
    if event.retain and read.topic.type != STATE:
        # Norm, section 6.4; and later subscribers would resolve its aliases by a later birth.
        event = event._replace(retain=False)
    if not view.is_whole:
        event = event._replace(payload=view.payload())
        made = Verdict("prune", Effect.REPLACE, "access", f"without {_names(view.removed)}, which it may not write")
    if read.topic.type in BIRTHS:
        generation = births.generation(node, event.topic, now)
    return user_properties.with_birth(event, generation), made


def _names(metrics: Iterable[Metric]) -> str:
    return ", ".join(f"`{metric.name or metric.alias}`" for metric in metrics)


def meant(sparkplug: Sparkplug, event: Event, read: Read) -> str:
    """Return the birth by which a message is to be read: a report by its own client's, a command by the last one."""
    if read.topic.source is None or read.topic.type in BIRTHS:
        return ""
    known = sparkplug.plant.known(read.topic.source)
    is_of_it = read.topic.type in COMMANDS or known.speaker == event.origin
    return known.generation if is_of_it and not known.is_over else ""


def asked(sparkplug: Sparkplug, event: Event, read: Read, now: float) -> ViewRequest:
    """Return the policies' request for a message that somebody wants to write."""
    return sparkplug.plant.request(read.topic, read.message, meant(sparkplug, event, read), moment(now), read.state)


def usurped(edges: Mapping[str, str], own: str, topic: MessageTopic) -> str:
    """Return why a client may not speak for an edge node; empty if it may. `own` is its own edge node."""
    source = topic.source
    if source is None or topic.type in COMMANDS:
        return ""
    edge = str(source.node)
    owner = edges.get(edge)
    if own == edge or (owner is None and not own):
        return ""
    if owner is not None:
        return f"edge node `{edge}` is client `{owner}`, and nobody else speaks for it"
    return f"the client is edge node `{own}`, and does not speak for `{edge}`"
