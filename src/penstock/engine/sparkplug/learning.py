"""The step by which a node learns from Sparkplug messages that go on, and has certificates of births kept."""

from penstock.engine.events import link_plans, user_properties
from penstock.engine.events.passage import Passage
from penstock.engine.sparkplug.births import certificate, generation, speaker, take
from penstock.model.sparkplug.topic import is_birth
from penstock.model.verdict import Effect, Verdict


def learn(passage: Passage) -> Verdict | None:
    """Learn from an event that goes on, and have the certificate of a birth kept for those who come later."""
    node = passage.node
    if is_birth(passage.event.topic) and speaker(node, passage.event) and not user_properties.born_by(passage.event):
        name = generation(node, passage.event.topic, passage.now)  # a monitor has made it
        passage.replace(user_properties.with_birth(passage.event, name))
    event = passage.event
    wrong = take(node, event)
    if wrong:
        return Verdict("project", Effect.SUPPRESS, "sparkplug", wrong)
    kept = certificate(node, event)
    if kept is not None:  # it goes where the birth may go
        sender, token = passage.sender, passage.plans.key.token
        ways = link_plans.own_plans(node) if sender is None else link_plans.plans_after_edit(node, sender, token)
        passage.publish_first(ways, kept)
    return None
