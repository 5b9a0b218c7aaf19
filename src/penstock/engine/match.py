"""Stage 5, match: which subscriptions does the event satisfy?"""

from penstock.engine.edit import Watch
from penstock.engine.plan import Draft, Group


def plan(draft: Draft) -> None:
    """Collect the subscriptions and groups whose filter matches and whose subject may read the topic."""
    topic = draft.topic
    known = draft.plans.routes.get(topic)
    if known is not None and known.valid:
        draft.plan = known  # found for another class of links already
        return
    # [MQTT-3.3.2-3] [MQTT-4.7.3-4]
    for found in draft.node.index.match(topic):
        if isinstance(found, Group):
            draft.groups.append(found)
            continue
        if isinstance(found, Watch):
            draft.onlookers.append(found)
            continue
        rights = found.session.rights
        if rights is None or rights.may_read(topic):
            draft.matched.append(found)
