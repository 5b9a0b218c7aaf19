"""Birth certificates at a node: what edge nodes and devices say of themselves, learnt, kept and told to other nodes."""

import contextlib
from collections.abc import Iterable

from penstock.engine.events import publishers, user_properties
from penstock.engine.events.passage import Passage
from penstock.engine.ledger import Withheld
from penstock.engine.node import Node
from penstock.engine.sessions.session import Session
from penstock.engine.sparkplug.messages import actor_of, make_actor, moment
from penstock.engine.sparkplug.state import CERTIFICATES, Actor, Read, Sparkplug, governed
from penstock.model.errors import ContentError
from penstock.model.event import Event
from penstock.model.sparkplug.message import dated as dated_payload
from penstock.model.sparkplug.message import parse
from penstock.model.sparkplug.topic import (
    BIRTHS,
    DEATHS,
    SparkplugSource,
    birth_topic,
    in_namespace,
    is_birth,
    message_topic,
    report_topic,
)
from penstock.model.subject import Subject
from penstock.policy.sparkplug.views import ViewRequest, WithheldMetrics, write_view
from penstock.wire.properties import Properties, encode_properties

SPEAKER = user_properties.BIRTH + "-of"
"""User property of a certificate: the client that published the birth, while it counts."""
BORN_AT = "sparkplug-born-at"
"""User property of a certificate: the time of the birth in nanoseconds, later than those before it."""
_DIGITS = 20


def begin(passage: Passage) -> None:
    """Prepare for a birth, before any stage has decided about it."""
    end(passage.node, passage.event)


def end(node: Node, birth: Event) -> None:
    """End what aliases meant when another birth comes from their client, whatever stages make of the birth."""
    if is_birth(birth.topic):
        _end(node, message_topic(birth.topic).source, speaker(node, birth))


def _end(node: Node, source: SparkplugSource | None, speaker: str) -> None:
    """Let the births of a client count no more: in the store too, so that they do not after a restart."""
    if node.sparkplug is not None and source is not None:
        _keep_ended(node, node.sparkplug.plant.end(source, speaker))


def leave(node: Node, client_id: str) -> None:
    """End what aliases meant when their client connects anew: its next birth may have been lost with the connection
    before, or with the node.
    """
    if node.sparkplug is not None:
        _keep_ended(node, node.sparkplug.plant.leave(client_id))


def _keep_ended(node: Node, sources: Iterable[SparkplugSource]) -> None:
    for ended in sources:
        kept = node.retained.get(CERTIFICATES + birth_topic(ended))
        if kept is not None and not kept.path:
            kept = user_properties.having(kept, None, (), without=SPEAKER)
            node.retained.hold(kept)
            node.ledger.retained(kept.topic, kept)


def generation(node: Node, topic: str, now: float) -> str:
    """Return a name for a birth that comes now, by which messages name it: its time and a number, later than any before
    it. It tells nothing of the metrics, which may be cut from the birth where the name goes; and it is the same on
    recorded events.
    """
    source, time, number = message_topic(topic).source, round(now * 1_000_000), 0
    if node.sparkplug is not None and source is not None:
        for before in node.sparkplug.plant.generations(source.node):
            parts = before.partition(" ")[0].split(".")
            if len(parts) == 2 and all(part.isdecimal() and len(part) < _DIGITS for part in parts):
                time, number = max((time, number), (int(parts[0]), int(parts[1]) + 1))
    return f"{time}.{number} {node.name}"


def speaker(node: Node, event: Event) -> str:
    """Return the client that published an event at this node; empty: it comes from another node."""
    return "" if any(hop in node.ensemble.nodes for hop in event.path) else event.origin


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
            is_end = read.topic.type in DEATHS and sparkplug.plant.is_ended_by(read.topic, read.message)
            if is_end:
                _end(node, read.topic.source, speaker(node, event))
            sparkplug.plant.take(read.topic, read.message, user_properties.born_by(event), speaker(node, event))
            if sparkplug.access.is_timed and (is_end or read.topic.type not in DEATHS):
                sparkplug.windows.note(read.topic, event, node.revision.access)
        else:
            _learn_certificate(sparkplug, read, _born_at(event), event)
    except ContentError as error:
        return str(error)
    return ""


def _born_at(event: Event) -> int | None:
    """Return the time of a birth, from the node that keeps its certificate."""
    text = dict(user_properties.carried(event.properties).user_properties).get(BORN_AT, "")
    return int(text) if text.isdecimal() and len(text) < _DIGITS else None


def _learn_certificate(sparkplug: Sparkplug, read: Read, time: int | None, certificate: Event) -> None:
    """Learn from a certificate, if it is newer: two nodes may keep one each of an edge node that has moved."""
    source, generation = read.topic.source, user_properties.born_by(certificate)
    if source is None or read.topic.type not in BIRTHS:
        raise ContentError("only births have certificates")
    known = sparkplug.plant.known(source)
    if generation and generation == known.generation:
        if known.complete(read.message):  # the birth itself came first, and less of it might come here then
            sparkplug.windows.complete(read.topic, generation, certificate.payload)
        return
    if known.is_newer_than(read.message, time):
        raise ContentError(f"a newer birth certificate of `{source}` is known")
    sparkplug.plant.learn(source, read.message, time, generation)


def certificate(node: Node, event: Event) -> Event | None:
    """Return what is kept of a birth for later subscribers; None for other events, and if another node keeps it."""
    if node.sparkplug is None or not node.ensemble.certificates or not is_birth(event.topic):
        return None
    if not speaker(node, event):
        return None
    source = message_topic(event.topic).source
    time = None if source is None else node.sparkplug.plant.known(source).time
    times = ((BORN_AT, str(time)),) if time is not None else ()
    cause = (user_properties.CAUSE, publishers.cause_of(event) or event.topic)
    properties = encode_properties(Properties(user_properties=(*times, (SPEAKER, speaker(node, event)), cause)))
    # At QoS 1, so that on its way to another node it stays ahead of QoS 1 reports.
    kept = event._replace(topic=CERTIFICATES + event.topic, qos=1, retain=True, properties=properties, expires=None)
    return user_properties.with_birth(kept._replace(id=""), user_properties.born_by(event))


def dated(node: Node, will: Event, now: float) -> Event:
    """Return the will of an edge node, its NDEATH, with the time at which it is published in the place of that at which
    its client connected (norm, tck-id-conformance-mqtt-aware-ndeath-timestamp). Other wills stay as they are.
    """
    if node.sparkplug is None or not node.ensemble.certificates or not in_namespace(will.topic):
        return will
    with contextlib.suppress(ContentError):
        if message_topic(will.topic).type == "NDEATH":
            return will._replace(payload=dated_payload(will.payload, int(now * 1000)))
    return will


def restore(node: Node, owed: Iterable[tuple[Session, str, Withheld]]) -> None:
    """After a restart: learn the births that were kept, and what each reader is owed."""
    if node.sparkplug is None:
        return
    plant = node.sparkplug.plant
    for _, event in node.retained.match(f"{CERTIFICATES}#"):
        with contextlib.suppress(ContentError):
            read = node.sparkplug.read(governed(event.topic), event.payload)
            if read.topic.source is not None:
                by = "" if event.path else next(iter(user_properties.told(event, SPEAKER)), "")
                plant.learn(read.topic.source, read.message, _born_at(event), user_properties.born_by(event), by)
                if by and node.sparkplug.access.is_timed:
                    birth = event._replace(topic=governed(event.topic), qos=0, origin=by)
                    node.sparkplug.windows.note(read.topic, birth)
    for session, name, withheld in owed:
        actor, source = actor_of(node, session), SparkplugSource(*name.split("/"))
        if actor is not None:
            actor.reader.standings[source] = WithheldMetrics(frozenset(withheld.metrics), frozenset(withheld.unborn))
            if withheld.late:
                actor.reader.late.add(name)
            if source in plant.sources():
                plant.known(source).values.update(withheld.metrics)
    review(node, node.runtime.clock())


def review(node: Node, now: float) -> None:
    """Keep values from being given back to readers that are owed them, if their edge nodes may not write them now. The
    next report makes them known again.
    """
    sparkplug = node.sparkplug
    readers = [session.place.actor.reader for session in node.sessions.values() if session.place.actor is not None]
    owed = {source for reader in readers for source, standing in reader.standings.items() if standing.withheld}
    late = {name for reader in readers for name in reader.late}
    for source in () if sparkplug is None or not (owed or late) else sparkplug.plant.sources():
        edge = str(source.node)
        if edge not in node.ensemble.edges or (source not in owed and str(source) not in late):
            continue
        assert sparkplug is not None
        known, topic = sparkplug.plant.known(source), report_topic(source)
        actor, kept = _owner(node, node.ensemble.edges[edge]), dict[str, bytes]()
        with contextlib.suppress(ContentError):
            message = parse(b"".join(known.values.values()))
            request = ViewRequest(message_topic(topic), message, known, moment(now))
            grants = None if actor is None else actor.grants(sparkplug.access, topic, "write")
            view = None if grants is None or actor is None else write_view(grants, request, actor.record)
            gone = {known.name(metric) for metric in (message.metrics if view is None else view.removed)}
            kept = {name: value for name, value in known.values.items() if name not in gone}
        known.values = kept


def _owner(node: Node, name: str) -> Actor | None:
    """Return the client that is an edge node, as the domain lists it; None if it does not."""
    for place in node.ensemble.nodes:
        for match in node.ensemble.matches(place):
            if match.entry.name == name:
                return make_actor(Subject(match.client_id or name, match.user), match.entry, name)
    return None
