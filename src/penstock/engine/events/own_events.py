"""The node's own publications."""

from penstock.engine.events.link_plans import own_plans
from penstock.engine.node import Node
from penstock.engine.stages import runner
from penstock.model.event import Event


def publish(node: Node, topic: str, payload: bytes, now: float, retain: bool = False) -> None:
    """Publish as the node itself."""
    runner.publish_own(node, own_plans(node), Event(topic, payload, 0, retain), None, now)


def say(node: Node, topic: str, payload: bytes, now: float) -> None:
    """Tell the other nodes something that they keep."""
    runner.publish_own(node, own_plans(node), Event(topic, payload, 1, True), None, now)
