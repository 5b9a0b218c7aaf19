"""An event on its way through the stages, by its plan: what a packet brought, and what none did."""

from typing import TYPE_CHECKING

from penstock.engine.contracts import quality, registry, situations
from penstock.engine.events import dedup, fan_out, retained, user_properties
from penstock.engine.events.plan import Draft, Plan, Plans
from penstock.engine.sessions.refusal import Outcome
from penstock.engine.sessions.session import Session
from penstock.engine.stages import conform, edit, emit, judge, match, project, prune
from penstock.engine.stages.path import MAX_PLANS, compile_plan, read_topic
from penstock.engine.statements import side_effects
from penstock.engine.trust import evidence, token_exchange
from penstock.engine.trust.tokens import Passing
from penstock.model.event import Event
from penstock.model.verdict import Effect, Verdict
from penstock.wire.errors import WireError
from penstock.wire.reason import Reason

if TYPE_CHECKING:
    from penstock.engine.node import Node

MOST_RESOLVED = 10_000
"""Plans for single contents that are kept: contents may satisfy subscriptions in any combination."""

_REFUSED = {"sparkplug": Reason.PAYLOAD_FORMAT_INVALID}
DONE = Outcome(Reason.SUCCESS)
_UNHEARD = Outcome(Reason.NO_MATCHING_SUBSCRIBERS)


def find_plan(node: "Node", plans: Plans, raw: bytes) -> Plan:
    """The plan for a topic, made if it is not there; raises `WireError` for what is not a topic."""
    plan = plans.known.get(raw)
    if plan is not None and plan.valid:
        return plan
    topic = read_topic(raw, node.limits.topic_levels)
    if node.planned >= MAX_PLANS:
        node.forget_all()
    node.planned += 1
    plan = plans.known[raw] = compile_plan(Draft(node, topic, plans))
    return plan


def plan_at_once(node: "Node", session: Session, raw: bytes) -> Plan | None:
    """The plan for a topic that a session publishes to, before its packet is read; None if that must be first.

    Of what a neighbour sends, the token is looked at, and some is for the node itself.
    """
    if session.neighbour is not None:
        return None
    try:
        return find_plan(node, node.plans_of(session), raw)
    except WireError:  # it is told where the packet is read
        return None


def carry(node: "Node", plans: Plans, event: Event, sender: Session | None, now: float) -> Outcome:
    """Take an event through the stages, by its plan; what became of it, as its sender is told."""
    plan = find_plan(node, plans, event.topic.encode())
    if plan.pruned:
        assert sender is not None  # what the node says itself is not pruned
        pruned, judged = prune.run(node, sender, event, now)
        if judged.effect is Effect.SUPPRESS:
            record(node, plans, plan, event, sender, now, judged)
            node.deny("publish denied", sender, event.topic, judged.reason)
            return Outcome(_REFUSED.get(judged.rule, Reason.NOT_AUTHORIZED), judged.reason)
        event, plans = pruned, node.plans_after_prune(plans)
        plan = find_plan(node, plans, event.topic.encode())
    if plan.conforms:
        if not conform.takes_back(event):
            judged = conform.judge(plan.conforms, event.topic, node.ensemble.reader.read(event))
            if judged.effect is Effect.SUPPRESS:
                record(node, plans, plan, event, sender, now, judged)
                return suppressed(node, event, sender, judged.reason)
        plans = node.plans_after_conform(plans)
        plan = find_plan(node, plans, event.topic.encode())
    verdict = plan.verdict
    if verdict.effect is Effect.SUPPRESS:
        record(node, plans, plan, event, sender, now)
        if verdict.stage == "edit":
            evidence.edited(node, sender, False, now)
        if verdict.stage == "admit":
            node.deny("publish denied", sender, event.topic, verdict.reason)
            return Outcome(Reason.NOT_AUTHORIZED, verdict.reason)
        return suppressed(node, event, sender, verdict.reason)
    if registry.is_bound(node, sender, event, plans.key.is_admitted):
        assert sender is not None
        conformed = quality.attach(node, sender, event, now)
        if isinstance(conformed, Verdict):
            record(node, plans, plan, event, sender, now, conformed)
            return suppressed(node, event, sender, conformed.reason)
        event = conformed
    if plan.edited:
        assert sender is not None  # only links have monitors
        assert sender.watch_in is not None
        outputs = edit.run(node, sender.watch_in, event, now)
        record(node, plans, plan, event, sender, now, None if outputs else _edited(sender.watch_in))
        if sender.tokens is not None:
            evidence.edited(node, sender, bool(outputs), now)
        return _carry_outputs(node, event, outputs, sender, now, plans.key.token)
    if node.sparkplug is not None:
        wrong = project.take(node, event)
        if wrong:
            return suppressed(node, event, sender, wrong)
        certificate = project.certificate(node, event)
        if certificate is not None:  # it goes where the birth may go
            ways = node.own_plans if sender is None else node.plans_after_edit(sender, plans.key.token)
            publish_own(node, ways, certificate, None, now)
    if node.contracts is not None and node.contracts.concerns(event.topic):
        for told in situations.look(node, event, sender, now):
            publish_own(node, node.own_plans, told, None, now)
    judging, came = None, event
    if plan.statements or user_properties.RESERVED_BYTES in event.properties:
        judging = judge.Judging(node, event, sender, now, plan.statements)
        if judging.verdict is not None:
            record(node, plans, plan, event, sender, now, judging.verdict)
            fan_out.note_facts(node, judging, sender)
            return suppressed(node, event, sender, judging.verdict.reason)
        event = judging.event
    # [MQTT-3.3.1-5] [MQTT-3.3.1-8] [MQTT311-3.3.1-7] [MQTT311-3.3.1-12]
    if event.retain:
        retained.keep(node, event if judging is None else judging.kept, sender)
    if plan.predicates:
        plan = _resolve(node, plan, plans, event, now)
    record(node, plans, plan, came, sender, now)
    return DONE if fan_out.spread(node, plan, event, sender, now, judging) else _UNHEARD


def _resolve(node: "Node", plan: Plan, plans: Plans, event: Event, now: float) -> Plan:
    """The plan for an event whose content decides too: with the conditional subscriptions that it satisfies."""
    if len(node.resolved) >= MOST_RESOLVED:
        node.resolved.clear()
    found = match.satisfied(node, plan, plans.key, event, now)
    matched = [*plan.matched, *found]
    about = (False, plan.statements, (), plan.closed)
    return emit.known_plan(node.resolved, plan.verdict, matched, plan.groups, plan.onlookers, *about)


def relay_edited(node: "Node", session: Session, packet: bytes, start: int, after_topic: int, now: float) -> None:
    """A QoS 0 packet without properties on a link whose monitors must be asked: if they let it pass as it is, its own
    bytes go on. Its topic is from `start` to `after_topic`.
    """
    raw = packet[start:after_topic]
    payload = packet[after_topic + (session.version == 5) :]
    path = (session.neighbour,) if session.neighbour is not None else ()
    source = (session.client_id, session.subject.user, session.publish_type, path)
    event = Event(raw.decode(), payload, 0, False, b"", None, *source)
    plans = node.plans_of(session)
    if session.tokens is not None:
        plans = token_exchange.plans_for(node, session, session.tokens.bound_in.get(event.topic, ""), now)
        if session.tokens.history is not None:
            session.tokens.history.append(event)
    if plans.key.token is not None:
        event = event._replace(token=plans.key.token.goes)
    if node.ensemble.is_cyclic:
        event = arriving(node, event, "", now)
    if node.recorder is not None or (node.contracts is not None and node.contracts.concerns(event.topic)):
        carry(node, plans, event, session, now)
        return
    assert session.watch_in is not None
    outputs = edit.run(node, session.watch_in, event, now)
    if session.tokens is not None:
        evidence.edited(node, session, bool(outputs), now)
    if len(outputs) == 1 and outputs[0] is event:
        plan = find_plan(node, node.plans_after_edit(session, plans.key.token), raw)
        if plan.simple:
            node.relay(plan, packet, session.version, after_topic)
            return
    _carry_outputs(node, event, outputs, session, now, plans.key.token)


def _carry_outputs(
    node: "Node", event: Event, outputs: tuple[Event, ...], sender: Session, now: float, token: Passing | None
) -> Outcome:
    """Take further what the link's monitors made of an event. For what is on another topic the node itself vouches."""
    if not outputs:
        assert sender.watch_in is not None
        return suppressed(node, event, sender, _edited(sender.watch_in).reason)
    outcomes = []
    for output in dedup.told_apart(outputs):
        is_same = output.topic == event.topic
        edited = node.plans_after_edit(sender, token if is_same else None)
        outcomes.append(carry(node, edited, output if is_same else output._replace(token=""), sender, now))
    return DONE if DONE in outcomes else _UNHEARD


def _edited(watch: edit.Watch) -> Verdict:
    """What is said of an event of which a link's monitors made nothing."""
    names = [monitor.name for monitor in watch.monitors]
    why = f": {watch.said}" if watch.said else ""
    said = ", ".join(f"`{name}`" for name in names)
    return Verdict("edit", Effect.SUPPRESS, ", ".join(names), f"suppressed by monitor {said}{why}")


def record(
    node: "Node",
    plans: Plans,
    plan: Plan,
    event: Event,
    sender: Session | None,
    now: float,
    verdict: Verdict | None = None,
) -> None:
    """Tell the journal, if there is one, and who looks on; `verdict`: what was decided about this event alone."""
    if node.onlooker is not None and sender is not None:
        told = plan.verdict if verdict is None else verdict
        if told.effect is Effect.SUPPRESS:
            node.onlooker(sender, event, told, now)
    if node.recorder is not None and sender is not None:
        is_output = plans.key.is_admitted
        node.recorder.add(sender, event, plan, now, is_output, verdict)


def suppressed(node: "Node", event: Event, sender: Session | None, text: str) -> Outcome:
    node.deny("suppressed", sender, event.topic, text)
    return Outcome(node.suppressed_reason, text if node.suppressed_reason >= 0x80 else "")


def arriving(node: "Node", event: Event, told: str, now: float) -> Event:
    """The event with its id, where nodes are joined in a cycle: `told` by a neighbour, else a new one."""
    node.once.arrives()
    return event._replace(id=told or node.once.name(node.name, now))


def publish_own(node: "Node", plans: Plans, event: Event, sender: Session | None, now: float) -> None:
    """An event that no packet brought: a will, or what the node itself has to say. The same way as all others."""
    if node.ensemble.is_cyclic:
        event = arriving(node, event, "", now)
    try:
        carry(node, plans, event, sender, now)
    except WireError as error:  # a limit has changed since the will was left
        node.deny("publish denied", sender, event.topic, str(error))


def publish_made(node: "Node", now: float) -> None:
    """Publish what policies have made: the way that the message may go which was the cause."""

    def publish(sender: Session | None, event: Event) -> None:
        if sender is None:
            publish_own(node, node.own_plans, event, None, now)
        else:
            event = event._replace(link_type=sender.publish_type)
            publish_own(node, node.plans_of_made(sender.publish_type), event, None, now)

    side_effects.drain(node, publish)
