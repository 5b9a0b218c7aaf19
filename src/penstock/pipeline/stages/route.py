"""Stage route over tables: may an event from this link's type go on to that link's type? Keys alone decide it."""

from penstock.engine.stages import route
from penstock.pipeline.stages.stage import KeyDraft, Traffic


def plan(draft: KeyDraft) -> None:
    """Leave the receivers that what came by the publisher's link may go on to."""
    draft.receivers = [
        (session, receiver)
        for session, receiver in draft.receivers
        if route.is_open(draft.node, draft.publisher.link, session)
    ]


def on_table(traffic: Traffic) -> Traffic:
    """Decide nothing more."""
    return traffic


on_stream = on_table
