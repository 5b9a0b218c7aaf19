"""The way of an event. The order of the stages is the tuple below; each stage is the module of that name."""

from penstock.engine.events.plan import Draft, Plan
from penstock.engine.stages import admit, conform, edit, emit, judge, match, project, prune, release, route
from penstock.model.verdict import Effect
from penstock.wire.errors import WireError
from penstock.wire.primitives import topic_of
from penstock.wire.reason import Reason

STAGES = (admit, prune, conform, edit, match, route, judge, release, project, emit)

MAX_PLANS = 200_000
"""Plans made before all are thrown away and made again as needed: topics may be without number."""


def compile_plan(draft: Draft) -> Plan:
    """Let each stage plan its part; a suppressed event goes no further."""
    for stage in STAGES:
        stage.plan(draft)
        if draft.verdict.effect is Effect.SUPPRESS:
            return Plan(draft.verdict)
        if draft.plan is not None:
            if draft.plan.edited:  # for the journal: monitors may make something on any topic
                draft.plan.statements = draft.link.statements
            return draft.plan
    raise AssertionError("emit comes last and makes a plan")


def read_topic(raw: bytes, levels: int) -> str:
    """The topic that the bytes name, checked, and not deeper than this node takes."""
    topic = topic_of(raw)
    if topic.count("/") >= levels:
        raise WireError(Reason.TOPIC_NAME_INVALID, f"topic has more than {levels} levels")
    return topic
