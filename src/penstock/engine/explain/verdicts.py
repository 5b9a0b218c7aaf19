"""Verdicts of the stages for `explain`, each with its rule and reason."""

from penstock.engine.events.link_class import LinkClass
from penstock.engine.events.plan import Plans
from penstock.engine.node import Node
from penstock.engine.sessions import advertise
from penstock.engine.sessions.session import Session
from penstock.engine.stages import admit, route
from penstock.engine.stages.draft import Draft
from penstock.engine.stages.runner import read_topic
from penstock.engine.trust import feedback
from penstock.model.event import Event
from penstock.model.link import Link
from penstock.model.verdict import Effect, Verdict
from penstock.policy.access.acl import Rights
from penstock.policy.monitors.monitor import State
from penstock.policy.tokens.rights import TokenRights
from penstock.wire.errors import WireError

_CONTROL = advertise.TOPICS | feedback.TOPICS


def admitted(node: Node, link: LinkClass, topic: str) -> Verdict:
    """May it be published on such a link?"""
    try:
        read_topic(topic.encode(), node.limits.topic_levels)
    except WireError as error:
        return Verdict("admit", Effect.SUPPRESS, "topic", str(error))
    draft = Draft(node, topic, Plans(link, {}))
    if topic in _CONTROL and link.neighbour is None:
        verdict = advertise.judge(node, link, topic)
        if verdict.effect is Effect.SUPPRESS:
            return verdict
        what = "advertised" if topic in advertise.TOPICS else "said there"
        reason = f"`{topic}` is for the node itself: what is {what} goes to no subscriber"
        return Verdict("admit", Effect.SUPPRESS, "reserved", reason)
    admit.plan(draft)
    if draft.verdict.effect is Effect.PASS and link.rights is not None:
        rule = "token" if isinstance(link.rights, TokenRights) and link.rights.base is None else "acl"
        return draft.verdict._replace(rule=rule, reason=link.rights.why_write(topic))
    return draft.verdict


def edit_effect(went_in: tuple[Event, ...], came_out: tuple[Event, ...]) -> Effect:
    """Return the effect of a monitor."""
    if not came_out:
        return Effect.SUPPRESS
    if came_out == went_in:
        return Effect.PASS
    return Effect.REPLACE if len(came_out) <= len(went_in) else Effect.INJECT


def edit_reason(before: State, after: State, went_in: tuple[Event, ...], came_out: tuple[Event, ...], why: str) -> str:
    """Return the reason of a monitor's effect."""
    texts = [f"in state `{before!s:.80}`" if before == after else f"from state `{before!s:.80}` to `{after!s:.80}`"]
    texts += [why] if why else []
    if came_out and came_out != went_in:
        ins, outs = (", ".join(f"`{event.topic}`" for event in some) for some in (went_in, came_out))
        texts.append(f"{ins} becomes {outs}" if ins != outs else "the payload is another")
    return ", ".join(texts)


def routed(node: Node, came_by: Link, link: Link, event: Event) -> Verdict:
    """May it go on by this link?"""
    if event.path and route.has_been(node, event, link.target):
        return Verdict("route", Effect.SUPPRESS, "path", f"it has been at `{link.target}` already")
    effect = Effect.PASS if node.table.allows(came_by.type, link.type) else Effect.SUPPRESS
    return Verdict("route", effect, "brokering", node.table.why(came_by.type, link.type))


def unreadable(rights: Rights | TokenRights | None, topic: str) -> Verdict:
    """Return the verdict that a topic may not be read, by the token or by the access list."""
    assert rights is not None
    rule = "token" if isinstance(rights, TokenRights) and not rights.reads(topic) else "acl"
    return Verdict("match", Effect.SUPPRESS, rule, rights.why_read(topic))


def had_it(entity: str) -> Verdict:
    return Verdict("route", Effect.SUPPRESS, "once", f"`{entity}` has had it by another way")


def leaves(session: Session, qos: int) -> Verdict:
    """Return the verdict of `emit` after the monitors."""
    if session.outlet is not None:
        reason = f"goes on to `{session.neighbour}`" if session.neighbour else f"delivered with QoS {qos}"
        return Verdict("emit", Effect.PASS, "", reason)
    who = f"the link to `{session.neighbour}` is down" if session.neighbour else f"`{session.place.entity}` is away"
    if qos:
        return Verdict("emit", Effect.PASS, "", f"waits, as {who}")
    return Verdict("emit", Effect.SUPPRESS, "", f"QoS 0 does not wait, and {who}")
