"""Birth certificates at a node: what edge nodes and devices say of themselves, learnt, kept and told to other nodes."""

import contextlib
from collections.abc import Iterable

from penstock.engine.events import link_plans, user_properties
from penstock.engine.events.passage import Passage
from penstock.engine.ledger import Withheld
from penstock.engine.node import Node
from penstock.engine.sessions.session import Session
from penstock.engine.sparkplug.messages import actor_of
from penstock.engine.sparkplug.state import CERTIFICATES, Read, Sparkplug, governed
from penstock.model.errors import ContentError
from penstock.model.event import Event
from penstock.model.sparkplug.topic import BIRTHS, SparkplugSource, is_birth, message_topic
from penstock.model.verdict import Effect, Verdict
from penstock.policy.sparkplug.views import WithheldMetrics
from penstock.wire.properties import Properties, encode_properties

BORN_AT = "sparkplug-born-at"
"""User property of a certificate: the time of the birth in nanoseconds, later than those before it."""
_DIGITS = 20


def learn(passage: Passage) -> Verdict | None:
    """Learn from an event that goes on, and have the certificate of a birth kept for those who come later."""
    node, event = passage.node, passage.event
    wrong = take(node, event)
    if wrong:
        return Verdict("project", Effect.SUPPRESS, "sparkplug", wrong)
    kept = certificate(node, event)
    if kept is not None:  # it goes where the birth may go
        sender, token = passage.sender, passage.plans.key.token
        ways = link_plans.own_plans(node) if sender is None else link_plans.plans_after_edit(node, sender, token)
        passage.publish_first(ways, kept)
    return None


def take(node: Node, event: Event) -> str:
    """Learn from an event that goes out now; why it must not go, if it is no Sparkplug."""
    if event.id and governed(event.topic):
        if node.once.has_had(event, CERTIFICATES):
            return ""  # it has come by another way already
        node.once.note(event, CERTIFICATES)
    return take_in(node, event)


def take_in(node: Node, event: Event) -> str:
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
    """Return the time of a birth, from the node that keeps its certificate."""
    text = dict(user_properties.carried(event.properties).user_properties).get(BORN_AT, "")
    return int(text) if text.isdecimal() and len(text) < _DIGITS else None


def _learn_certificate(sparkplug: Sparkplug, read: Read, time: int | None) -> None:
    """Learn from a certificate, if it is newer: two nodes may keep one each of an edge node that has moved."""
    source = read.topic.source
    if source is None or read.topic.type not in BIRTHS:
        raise ContentError("only births have certificates")
    known = sparkplug.plant.known(source)
    if known.is_newer_than(read.message, time):
        raise ContentError(f"a newer birth certificate of `{source}` is known")
    sparkplug.plant.learn(source, read.message, time)


def certificate(node: Node, event: Event) -> Event | None:
    """Return what is kept of a birth for later subscribers; None for other events, and if another node keeps it."""
    if node.sparkplug is None or not node.ensemble.certificates or not is_birth(event.topic):
        return None
    if any(hop in node.ensemble.nodes for hop in event.path):
        return None
    source = message_topic(event.topic).source
    time = None if source is None else node.sparkplug.plant.known(source).time
    properties = encode_properties(Properties(user_properties=((BORN_AT, str(time)),))) if time is not None else b""
    # At QoS 1, so that on its way to another node it stays ahead of QoS 1 reports.
    topic, link_type = CERTIFICATES + event.topic, event.link_type
    return Event(topic, event.payload, 1, True, properties, link_type=link_type, path=event.path)


def restore(node: Node, owed: Iterable[tuple[Session, str, Withheld]]) -> None:
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
        actor, source = actor_of(node, session), SparkplugSource(*name.split("/"))
        if actor is not None:
            actor.reader.standings[source] = WithheldMetrics(frozenset(withheld.metrics), frozenset(withheld.unborn))
            if source in plant.sources():
                plant.known(source).values.update(withheld.metrics)
