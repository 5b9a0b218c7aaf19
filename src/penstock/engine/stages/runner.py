"""The way of an event: the tuple of stages, and the two loops that run it.

An event comes to a node by one of the entrances in `ENTRANCES`. The plan of its topic and link class has the steps that
are left of the stages (`compile_plan`): `run` goes through those for each event, then `deliver` through those for each
delivery. A step is asked, and answers with a verdict if the event, or the delivery, goes no further. Nothing else puts
stages into a sequence. What has waited has a plan of its own, compiled from the same tuple (`Draft.waits`): every stage
is asked about it again.
"""

from typing import NamedTuple

from penstock.engine.events import dedup, fan_out, link_plans, publishers, user_properties
from penstock.engine.events.passage import Delivery, DeliveryStep, Outputs, Passage
from penstock.engine.events.plan import PASS, Plan, Plans
from penstock.engine.matching.step_budget import StepBudget
from penstock.engine.node import Node
from penstock.engine.recorder import Recorder, source_of
from penstock.engine.sessions import outbox
from penstock.engine.sessions.refusal import Outcome
from penstock.engine.sessions.session import Session
from penstock.engine.sparkplug import births
from penstock.engine.stages import (
    admit,
    conform,
    edit,
    emit,
    judge,
    match,
    project,
    prune,
    release,
    route,
    shape,
)
from penstock.engine.stages.draft import Draft, Stage
from penstock.engine.trust import evidence
from penstock.model.event import Event
from penstock.model.verdict import Effect, Verdict
from penstock.wire.errors import WireError
from penstock.wire.primitives import topic_of
from penstock.wire.reason import Reason

STAGES: tuple[Stage, ...] = (admit, prune, conform, edit, match, route, judge, shape, release, project, emit)


class Entrance(NamedTuple):
    """A way into the stages."""

    stage: str
    """The first stage with work to do: those before it are behind the event. If it has waited, they are asked again."""
    what: str


def names() -> tuple[str, ...]:
    """Return the names of the stages, in order."""
    return tuple(stage.__name__.rpartition(".")[2] for stage in STAGES)


ENTRANCES = {
    "published": Entrance("admit", "what a client publishes"),
    "bridged": Entrance("admit", "what a neighbour, a node or a foreign broker, sends"),
    "will": Entrance("admit", "the will of a client whose connection is lost"),
    "capsule": Entrance("admit", "what a capsule of the node makes, as its client"),
    "monitor": Entrance("match", "what a monitor on a link into the node puts in the place of an event"),
    "policy": Entrance("match", "what a policy statement publishes"),
    "own": Entrance("match", "what the node itself says: $SYS, birth certificates, situations"),
    "retained": Entrance("route", "a retained message, for a subscription that is new"),
    "delayed": Entrance("release", "what a contract has held back until now"),
    "opened": Entrance("route", "what the time now lets a reader of Sparkplug messages see"),
    "moved": Entrance("route", "what waits for a session that goes on at another node"),
    "queued": Entrance("emit", "what waited for a session's window; asked about again if policies have changed"),
    "resent": Entrance("emit", "what a session has not acknowledged; asked about again"),
}
"""Every way in."""

MAX_PLANS = 200_000
"""Plans made before all are thrown away and made again as needed: topics may be without number."""
_REFUSED = {"sparkplug": Reason.PAYLOAD_FORMAT_INVALID, "steps": Reason.QUOTA_EXCEEDED}
DONE = Outcome(Reason.SUCCESS)
_UNHEARD = Outcome(Reason.NO_MATCHING_SUBSCRIBERS)


def compile_plan(draft: Draft) -> Plan:
    """Let each stage plan its part, until one says what the plan is."""
    is_observed = draft.is_observed
    for stage in STAGES:
        if is_observed:
            draft.ask(stage)
        else:
            stage.plan(draft)
        if draft.plan is not None or draft.is_edited:
            break
    rest = draft.plan
    steps = tuple(draft.steps) if draft.link_steps is None else draft.link_steps
    if not steps or draft.waits is not None:  # what has waited is only delivered
        assert rest is not None  # emit comes last and makes a plan
        return rest
    plan = Plan(PASS)
    plan.steps, plan.rest, plan.is_open = steps, rest, draft.is_open
    if rest is None:  # monitors yield what goes on
        plan.edited = steps == (edit.run,)
        plan.statements = draft.link.statements  # for the journal: monitors may make something on any topic
    return plan


def find_plan(node: Node, plans: Plans, raw: bytes) -> Plan:
    """Return the plan for a topic, compiling it on first use; raise `WireError` for what is not a topic."""
    plan = plans.known.get(raw)
    if plan is not None and plan.valid and (plan.rest is None or plan.rest.valid):
        return plan
    topic = read_topic(raw, node.limits.topic_levels)
    if node.plans.planned >= MAX_PLANS:
        node.plans.forget_all()
    node.plans.planned += 1
    plan = plans.known[raw] = compile_plan(Draft(node, topic, plans))
    return plan


def read_topic(raw: bytes, levels: int) -> str:
    """Return the topic that the bytes name; raise `WireError` if it is none, or deeper than this node takes."""
    topic = topic_of(raw)
    if topic.count("/") >= levels:
        raise WireError(Reason.TOPIC_NAME_INVALID, f"topic has more than {levels} levels")
    return topic


def run_within_budget(passage: Passage) -> Outcome:
    """Take what a session has published through the stages, unless conditions have taken too many steps on what it
    published before; return what it is told. What its subscribers' conditions take is counted for these.
    """
    node, sender, now = passage.node, passage.sender, passage.now
    if sender is None or sender.neighbour is not None:
        return run(passage)
    plan = passage.plan = find_plan(node, passage.plans, passage.event.topic.encode())
    limit, reader = node.limits.condition_steps, node.ensemble.reader
    if plan.steps and sender.connection.publishing is not None and not sender.connection.publishing.is_left(now, limit):
        reason = f"conditions on what `{sender.client_id}` publishes take more than {limit} steps a second"
        births.end(node, passage.event)
        return _stop(passage, Verdict("admit", Effect.SUPPRESS, "steps", reason))
    before, paid = reader.spent, node.runtime.paid_steps
    outcome = run(passage)
    steps = reader.spent - before - (node.runtime.paid_steps - paid)
    if steps > 0:
        sender.connection.publishing = sender.connection.publishing or StepBudget()
        sender.connection.publishing.charge(steps)
    return outcome


def run(passage: Passage) -> Outcome:
    """Take an event through the stages; return what its sender is told."""
    node = passage.node
    plan = passage.plan or find_plan(node, passage.plans, passage.event.topic.encode())
    while True:
        passage.plan = plan
        for step in plan.steps:
            answer: Verdict | Outputs | None = step(passage)
            if passage.first:
                _publish_first(passage)
            if answer is None:
                continue
            return _go_on(passage, answer) if isinstance(answer, Outputs) else _stop(passage, answer)
        if plan.verdict is not PASS:
            return _stop(passage, plan.verdict)
        if plan.rest is None:
            break
        plan = plan.rest
    unresolved, plan = plan.unresolved, passage.plan  # which content may have decided on
    recorder = node.recorder if passage.observer is None else None
    if recorder is not None:
        _record(passage, None)
    # [MQTT-4.5.0-1] [MQTT-4.6.0-5] [MQTT-4.6.0-6] [MQTT311-4.6.0-6]
    for delivery in passage.observer.deliveries(passage) if passage.observer else fan_out.deliveries(passage, plan):
        target = delivery.target if delivery.is_planned and passage.sender is not None else None
        is_sent = deliver(delivery, plan.delivery_steps)
        if recorder is not None and target is not None and not (is_sent and delivery.is_planned):
            recorder.passed_over(target)
    if recorder is not None:
        _record_forms(passage, recorder)
    if plan.has_receivers or node.admission.hides or match.is_asked_for(passage, unresolved):
        return DONE
    return _UNHEARD


def deliver(delivery: Delivery, steps: tuple[DeliveryStep, ...], start: int = 0) -> bool:
    """Take a delivery through the steps from `start` on; return whether it was sent, or queued."""
    for place in range(start, len(steps)):
        answer = steps[place](delivery)
        if answer is None:
            continue
        if isinstance(answer, Verdict):
            if _is_withholding(answer):
                _withhold(delivery, answer)
            return False  # or not yet
        is_sent = False
        for output in answer:
            is_sent |= deliver(output, steps, place + 1)
        return is_sent
    return True


_NOT_WITHHELD = {("route", "path"), ("route", "once"), ("route", "loop"), ("match", "condition")}
"""Rules by which an event does not go where it has been, or is not asked for."""


def _is_withholding(verdict: Verdict) -> bool:
    """Return True if a verdict on a delivery says that a policy keeps the event from who subscribes to it."""
    return (
        verdict.effect is Effect.SUPPRESS
        and verdict.stage != "emit"
        and verdict is not release.IN_MEAN
        and verdict[:3:2] not in _NOT_WITHHELD
    )


def _withhold(delivery: Delivery, verdict: Verdict) -> None:
    """Record that a policy keeps an event from who subscribes to it. What monitors stop before it leaves for another
    node is a refusal of the link, as it is where monitors are asked on arrival.
    """
    passage, session = delivery.passage, delivery.session
    node = passage.node
    passage.withhold(session, verdict)
    if verdict.stage != "shape" or session.neighbour not in node.ensemble.overlays or passage.observer is not None:
        return
    node.stats.denied += 1
    session.denied += 1
    node.notice("suppressed", passage.sender, delivery.event.topic, verdict.reason)
    if node.onlooker is not None and passage.sender is not None:
        node.onlooker(passage.sender, passage.came, verdict, passage.now, delivery.target)


def _go_on(passage: Passage, outputs: Outputs) -> Outcome:
    """Take further what monitors have made of an event. For what is on another topic the node itself vouches."""
    if passage.observer is not None:
        for each in passage.observer.outputs(passage, outputs.events):
            run(each)
        return DONE
    node, event, sender, packet = passage.node, passage.event, passage.sender, passage.packet
    assert sender is not None  # only links have monitors
    _record(passage, None)
    evidence.edited(node, sender, True, passage.now)
    token = passage.plans.key.token
    if packet is not None and node.recorder is None and len(outputs.events) == 1 and outputs.events[0] is event:
        plan = find_plan(node, link_plans.plans_after_edit(node, sender, token), event.topic.encode())
        if plan.simple:
            outbox.relay(node, plan, packet.data, packet.version, packet.after_topic)
            return DONE
    outcomes = []
    for output in dedup.told_apart(tuple(publishers.made(output, event) for output in outputs.events)):
        is_same = output.topic == event.topic
        plans = link_plans.plans_after_edit(node, sender, token if is_same else None)
        output = output if is_same else output._replace(token="")
        outcomes.append(run(Passage(node, plans, output, sender, passage.now)))
    return DONE if DONE in outcomes or node.admission.hides else _UNHEARD


def _stop(passage: Passage, verdict: Verdict) -> Outcome:
    """End the way of an event; return what its sender is told."""
    if passage.observer is not None:
        passage.observer.stopped(passage, verdict)
        return DONE
    node, sender, topic = passage.node, passage.sender, passage.event.topic
    _record(passage, verdict)
    if verdict.stage == "edit":
        evidence.edited(node, sender, False, passage.now)
    if verdict.stage in ("admit", "prune"):
        node.deny("publish denied", sender, topic, verdict.reason)
        return Outcome(_REFUSED.get(verdict.rule, Reason.NOT_AUTHORIZED), verdict.reason)
    node.deny("suppressed", sender, topic, verdict.reason)
    return DONE if node.admission.hides else Outcome(Reason.NOT_AUTHORIZED, verdict.reason)


def _publish_first(passage: Passage) -> None:
    """Publish what a step wants published before its event goes on."""
    first, passage.first = passage.first, None
    for plans, event in first or ():
        publish_own(passage.node, plans, event, None, passage.now)


def publish_own(node: Node, plans: Plans, event: Event, sender: Session | None, now: float) -> None:
    """Publish an event that no packet brought: a will, or what the node itself has to say."""
    if node.ensemble.is_cyclic:
        event = dedup.arriving(node, event, "", now)
    passage = Passage(node, plans, event, sender, now)
    if sender is None and node.recorder is not None and not event.topic.startswith("$SYS/"):
        passage.source = publishers.source_of(node, event)
    try:
        run(passage)
    except WireError as error:  # a limit has changed since the will was left
        node.deny("publish denied", sender, event.topic, str(error))


def record_refused(passage: Passage, verdict: Verdict) -> None:
    """Record what a client or a neighbour has told the node itself, and what was decided about it."""
    passage.plan = find_plan(passage.node, passage.plans, passage.event.topic.encode())
    _record(passage, verdict)


def _record_forms(passage: Passage, recorder: Recorder) -> None:
    """Tell the journal in which other forms the event was sent; of the node's own, that it was sent."""
    if passage.sender is None:
        if passage.source is not None:
            recorder.forms_end(passage.source, passage.now, recorder.rows.sent, None, withheld_of(passage))
        return
    if passage.withheld is not None:
        recorder.withhold(passage.withheld)
    if passage.judging is not None and passage.judging.facts:
        recorder.judged(passage.judging.facts)
    recorder.forms_end(source_of(passage.sender), passage.now, recorder.rows.views)


def withheld_of(passage: Passage) -> publishers.Withheld | None:
    """Return an event that is no arrival, and from whom it was withheld, for the journal."""
    return None if passage.withheld is None else (user_properties.for_record(passage.event), passage.withheld)


def _record(passage: Passage, verdict: Verdict | None) -> None:
    """Tell the journal, if there is one, and who looks on; `verdict`: what was decided about this event alone."""
    node, sender, plan = passage.node, passage.sender, passage.plan
    assert plan is not None
    if sender is None or passage.observer is not None:
        return
    if node.onlooker is not None and verdict is not None:
        node.onlooker(sender, passage.came, verdict, passage.now, None)
    if node.recorder is not None:
        decided = None if verdict is plan.verdict else verdict
        node.recorder.add(sender, passage.came, plan, passage.now, passage.plans.key.is_admitted, decided)
        if verdict is not None and passage.judging is not None and passage.judging.facts:
            node.recorder.judged(passage.judging.facts)
