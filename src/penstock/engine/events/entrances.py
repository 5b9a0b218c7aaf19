"""The ways into the stages that no packet of a client takes: what the node or a policy publishes, and what has waited.

What has waited is asked about by the stages again when it leaves: by rights, brokering table, statements, contracts and
access policies as they are then.
"""

from penstock.engine.events import dedup, link_plans, publishers, retained, user_properties
from penstock.engine.events.passage import Delivery, DeliveryStep, Packet, Passage
from penstock.engine.events.plan import Plan, Target, WaitingPlace
from penstock.engine.mobility.state import TOPIC as MOVE
from penstock.engine.node import Node
from penstock.engine.sessions.render import Forms
from penstock.engine.sessions.session import Outgoing, PolicyRevision, Session, Subscribed
from penstock.engine.sessions.window import STEP_BYTES
from penstock.engine.sparkplug import openings
from penstock.engine.stages import release, runner
from penstock.engine.stages.draft import Draft
from penstock.engine.statements import side_effects
from penstock.engine.trust import token_exchange
from penstock.model.event import Event
from penstock.model.topic import matches
from penstock.model.verdict import Effect, Verdict
from penstock.wire.errors import WireError

RELEASED = Verdict("release", Effect.PASS, "", "it was held back until now")
MOVED = Verdict("emit", Effect.PASS, "", "its receiver has moved to another node")
OPENED = Verdict("project", Effect.PASS, "", "its time has come")
MAX_REPLAYED = 100
"""Retained messages that are sent in one turn, to one session or to several."""
STEP_COST = 2
"""The number of messages that can be sent in the time that a step of a replay may take."""


def plan_at_once(node: Node, session: Session, raw: bytes) -> Plan | None:
    """Return the plan for a topic that a session publishes to, before its packet is read; None if that must be first.

    Of what a neighbour sends, the token is looked at, and some is for the node itself.
    """
    if session.neighbour is not None:
        return None
    try:
        return runner.find_plan(node, link_plans.plans_of(node, session), raw)
    except WireError:  # it is told where the packet is read
        return None


def relay_edited(node: Node, session: Session, packet: bytes, start: int, after_topic: int, now: float) -> None:
    """Take a QoS 0 packet without properties through the monitors of its link. Its topic is from `start` to
    `after_topic`.
    """
    payload = packet[after_topic + (session.version == 5) :]
    path = (session.neighbour,) if session.neighbour is not None else ()
    source = (session.client_id, session.subject.user, session.place.publish_type, path)
    event = Event(packet[start:after_topic].decode(), payload, 0, False, b"", None, *source)
    plans = link_plans.plans_of(node, session)
    if session.trust.tokens is not None:
        plans = token_exchange.plans_for(node, session, session.trust.tokens.bound_in.get(event.topic, ""), now)
        if session.trust.tokens.history is not None:
            session.trust.tokens.history.append(event)
    if plans.key.token is not None:
        event = event._replace(token=plans.key.token.goes)
    if node.ensemble.is_cyclic:
        event = dedup.arriving(node, event, "", now)
    runner.run_within_budget(Passage(node, plans, event, session, now, Packet(packet, session.version, after_topic)))


def publish_made(node: Node, now: float) -> None:
    """Publish what policies have made: the way that the message may go which was the cause."""

    def publish(sender: Session | None, event: Event) -> None:
        if sender is None:
            runner.publish_own(node, link_plans.own_plans(node), event, None, now)
        else:
            event = event._replace(link_type=sender.place.publish_type)
            runner.publish_own(node, link_plans.plans_of_made(node, sender.place.publish_type), event, None, now)

    side_effects.drain(node, publish)


# --- events that have waited


def _steps(node: Node, topic: str, waits: WaitingPlace) -> Plan:
    return runner.compile_plan(Draft(node, topic, link_plans.own_plans(node), waits))


def replay(node: Node, session: Session, now: float, budget: int = MAX_REPLAYED) -> None:
    """Send the next retained messages; what is left goes on in a later turn, as the client reads."""
    if session.trust.tokens is not None and not session.trust.tokens.is_registered:
        return
    room = STEP_BYTES
    while session.replays and budget > 0 and room > 0 and not session.connection.blocked and session.outlet is not None:
        key, replaying = next(iter(session.replays.items()))
        if not replaying.left:
            budget -= STEP_COST
            if not replaying.step():
                del session.replays[key]
            continue
        topic, subscribed = replaying.left[-1], replaying.subscribed
        event = node.retained.get(topic)
        if event is None or node.retained.numbers[topic] > replaying.number:
            replaying.left.pop()  # gone or replaced meanwhile, and the newer one has been delivered live
            continue
        if min(event.qos, subscribed.qos) and (
            session.outbox.queue or session.outbox.resend or session.outbox.quota <= 0
        ):
            return  # goes on with the next acknowledgement
        replaying.left.pop()
        budget -= 1
        if event.expires is not None and event.expires <= now:
            retained.forget(node, topic)
            continue
        room -= event.size()
        subscribed.since = max(subscribed.since, replaying.begun)
        _send_retained(node, session, subscribed, event, now)
    if session.replays and not session.connection.blocked and session.outlet is not None:
        node.sessions.go_on(session)


def _send_retained(node: Node, session: Session, subscribed: Subscribed, event: Event, now: float) -> None:
    """Send a retained message for a subscription, as far as the stages let it have the message now."""
    late, target = release.late(node, session, event), Target([subscribed])
    passage = _passage(node, late, now)
    passage.is_replay = True
    delivery = Delivery(session, late, min(late.qos, subscribed.qos), True, target.ids)  # [MQTT-3.3.1-8]
    delivery.passage, delivery.target, delivery.forms = passage, target, passage.forms
    delivery.watch = session.place.watch_out
    runner.deliver(delivery, _steps(node, event.topic, WaitingPlace.RETAINED).delivery_steps)
    if node.recorder is not None and passage.source is not None:
        verdict = Verdict("match", Effect.PASS, subscribed.filter, "it was retained")
        withheld = runner.withheld_of(passage)
        node.recorder.forms_end(passage.source, now, node.recorder.rows.retained, verdict, withheld)


def _passage(node: Node, event: Event, now: float) -> Passage:
    passage = Passage(node, link_plans.own_plans(node), event, None, now)
    passage.forms = Forms(event, now)
    if node.recorder is not None and not event.topic.startswith("$SYS/"):
        passage.source = publishers.source_of(node, event)
    return passage


def send_delayed(node: Node, now: float) -> None:
    """Send what was held back until now by contracts, as far as they still release it; it is already what its receivers
    may see.
    """
    for _, session, event, revision in node.later.take(now):
        if event.expires is not None and event.expires <= now:  # [MQTT-3.3.2-5]
            node.stats.expired += 1
            continue
        delivery = Delivery(session, event, event.qos, event.retain, ())
        delivery.passage = passage = _passage(node, event, now)
        delivery.forms, delivery.revision = passage.forms, revision
        runner.deliver(delivery, _steps(node, event.topic, WaitingPlace.DELAYED).delivery_steps)
        if node.recorder is not None and passage.source is not None:
            withheld = runner.withheld_of(passage)
            node.recorder.forms_end(passage.source, now, node.recorder.rows.sent, RELEASED, withheld)


def send_opened(node: Node, now: float) -> None:
    """Send what the time shows to readers now: births, deaths and STATE messages that were withheld as a whole, and the
    metrics that reports and births lacked, with their present values, in a report of their own.
    """
    due: list[tuple[Session, str]] = [] if node.sparkplug is None else node.sparkplug.windows.due(now)
    for session, speaker in due:
        actor = session.place.actor
        if actor is None or session is not node.sessions.get(session.client_id):
            continue  # it has ended
        for opened in openings.opened(node, actor, speaker, now):
            if not _send_opened(node, session, speaker, opened.event, now):
                opened.take_back()  # it is asked about again when its client is back
        openings.ask_again(node, session, actor, speaker, now)


def _send_opened(node: Node, session: Session, speaker: str, event: Event, now: float) -> bool:
    """Send a message to the first subscription that asks for it, as far as the stages let it have the message now."""
    access = "" if node.sparkplug is None else node.sparkplug.windows.judged.get(speaker, "")
    for subscribed in sorted(session.subscriptions.values(), key=lambda each: -each.qos):
        if not matches(subscribed.filter, event.topic):  # a shared one matches none: another may have its turn
            continue
        passage, target = _passage(node, event, now), Target([subscribed])
        delivery = Delivery(session, event, min(event.qos, subscribed.qos), False, target.ids)
        delivery.passage, delivery.target, delivery.forms = passage, target, passage.forms
        delivery.watch, delivery.revision = session.place.watch_out, PolicyRevision(0, access, "", "")
        is_sent = runner.deliver(delivery, _steps(node, event.topic, WaitingPlace.RETAINED).delivery_steps)
        if node.recorder is not None and passage.source is not None:
            node.recorder.forms_end(passage.source, now, node.recorder.rows.sent, OPENED)
        if is_sent:
            return True
    return False


def send_moved(node: Node, neighbour: Session, event: Event, now: float, hand: DeliveryStep) -> None:
    """Take a message that waits for a session which goes to a neighbour through the stages, as far as they let it go
    there; `hand` puts it into the neighbour's window in the place of stage emit.
    """
    delivery = Delivery(neighbour, event, 2, False, ())
    delivery.passage = passage = _passage(node, event, now)
    delivery.target = Target([Subscribed(neighbour, "#", 2, retain_as_published=True)])
    delivery.forms, delivery.watch = passage.forms, neighbour.place.watch_out
    delivery.revision = neighbour.outbox.revision
    *steps, _ = _steps(node, event.topic, WaitingPlace.RETAINED).delivery_steps
    runner.deliver(delivery, (*steps, hand))
    if node.recorder is not None and passage.source is not None:
        withheld = runner.withheld_of(passage)
        node.recorder.forms_end(passage.source, now, node.recorder.rows.sent, MOVED, withheld)


def recheck(node: Node, waiting: Outgoing, now: float, place: WaitingPlace) -> bool:
    """Ask the stages about what is stale when it leaves; return whether its receiver gets it, or what is left of it."""
    if waiting.event.topic == MOVE:
        return True  # it is no event
    asked = Delivery(waiting.session, waiting.event, waiting.qos, waiting.retain, waiting.ids)
    asked.passage, asked.revision = _passage(node, waiting.event, now), waiting.revision
    if not runner.deliver(asked, _steps(node, waiting.event.topic, place).delivery_steps):
        node.stats.dropped += 1
        node.ledger.settle(waiting)
        if place is WaitingPlace.QUEUED:
            reason = "policies do not let its receiver have it now"
            publishers.record_withdrawn(node, waiting, now, reason, runner.withheld_of(asked.passage))
        return False
    waiting.revision = waiting.session.outbox.revision
    if asked.event is not waiting.event:
        if not user_properties.is_alike(asked.event, waiting.event):
            publishers.record_changed(node, waiting, asked.event, now, place is WaitingPlace.QUEUED)
        waiting.event = asked.event
        node.ledger.replaced(waiting)
    return True
