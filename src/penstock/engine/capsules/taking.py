"""A capsule takes an event that the stages have let its client have. The stage emit hands it over."""

from penstock.engine.capsules.reading import quality_of, until_of
from penstock.engine.capsules.state import RunningCapsule, micros_of
from penstock.engine.node import Node
from penstock.model.errors import PolicyError
from penstock.model.event import Event
from penstock.policy.capsules.steps import take as take_event


def take(node: Node, running: RunningCapsule, event: Event, now: float) -> None:
    """Take an event; what it makes is published in this turn. Conditions of the capsule are not counted for others."""
    reader, states, capsule, machine = node.ensemble.reader, node.capsules, running.capsule, running.machine
    arrival, before = micros_of(now), reader.spent
    states.made.extend((running, outcome) for outcome in machine.advance(arrival))
    content, until = reader.read(event), until_of(event.properties)
    for input in capsule.inputs_of(event.topic):
        try:
            quality = quality_of(content, event.properties or None, arrival)
            taken = take_event(capsule, event.topic, content, quality, arrival, input)
            outcome = None if taken is None else machine.take(taken, arrival, until)
        except PolicyError as error:
            node.notice("capsule", running.session, event.topic, f"`{capsule.name}` does not take it: {error}")
            continue
        if outcome is not None:
            states.made.append((running, outcome))
    node.runtime.paid_steps += reader.spent - before
