"""Results of capsules enter the stages: published by the session of the capsule, judged as its client."""

from penstock.engine.capsules.state import RunningCapsule, micros_of
from penstock.engine.events import link_plans
from penstock.engine.node import Node
from penstock.engine.stages import runner
from penstock.model.event import Event
from penstock.policy.capsules.capsule import MICROSECONDS
from penstock.policy.capsules.machine import CapsuleOutcome
from penstock.wire.properties import Properties, encode_properties

MAX_CHAINED = 10_000
"""Results that capsules make of each other's results in one turn; the others wait for the next turn."""


def take_turn(node: Node, now: float) -> None:
    """Have windows closed that are over, and publish all that there is: with what made it, in one transaction."""
    states = node.capsules
    states.advance(now)
    for _ in range(MAX_CHAINED):
        if not states.made:
            return
        _publish(node, *states.made.popleft(), now)


def _publish(node: Node, running: RunningCapsule, outcome: CapsuleOutcome, now: float) -> None:
    session, result = running.session, outcome.result
    if result is None:
        node.notice("capsule", session, "", f"`{running.capsule.name}`: {outcome.problem}")
        return
    if outcome.until is not None and outcome.until <= micros_of(now):
        return  # it is made of something that must not be had any longer
    carried = encode_properties(Properties(content_type=result.content_type, user_properties=result.properties))
    event = Event(
        result.topic,
        result.payload,
        min(1, node.limits.max_qos),
        False,
        carried,
        None if outcome.until is None else outcome.until / MICROSECONDS,
        session.client_id,
        session.subject.user,
        session.place.publish_type,
    )
    runner.publish_own(node, link_plans.plans_of(node, session), event, session, now)
