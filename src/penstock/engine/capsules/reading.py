"""Reading what a capsule asks of an event: its quality, and until when it may be kept."""

import math

from penstock.engine.events import user_properties
from penstock.model.content.content import Content, Format
from penstock.model.errors import ContentError
from penstock.model.quality import NO_QUALITY, Quality
from penstock.model.values import Timestamp
from penstock.policy.capsules.capsule import MICROSECONDS
from penstock.policy.contracts.release import RETAIN_UNTIL, read_retain
from penstock.policy.quality.carriage import ATTACHED, CLAIMED, MEMBER, read_properties, read_quality

_NANOSECONDS = 1_000


def quality_of(content: Content, properties: bytes | None, came: int) -> Quality:
    """Return the quality that nodes have attached, else what the event claims itself; none if that is not valid.

    `properties`: those of the event, None if they do not speak of quality.
    """
    attributes = content.attributes
    is_said = isinstance(attributes, dict) and (MEMBER in attributes or content.format is Format.XML)
    if properties is None and not is_said:
        return NO_QUALITY
    received = Timestamp(came * _NANOSECONDS)
    try:
        if properties is not None:
            pairs = user_properties.carried(properties).user_properties
            name = ATTACHED if any(name == ATTACHED for name, _ in pairs) else CLAIMED
            if quality := read_properties(pairs, received, name):
                return quality
        return read_quality(content, received) if is_said else NO_QUALITY
    except ContentError:
        return NO_QUALITY


def until_of(properties: bytes | None) -> int | None:
    """Return when an event with such properties is to be deleted, in microseconds; at once, if that cannot be read."""
    if properties is None or RETAIN_UNTIL.encode() not in properties:
        return None
    texts = [text for name, text in user_properties.carried(properties).user_properties if name == RETAIN_UNTIL]
    try:
        return min((math.floor(read_retain(text) * MICROSECONDS) for text in texts), default=None)
    except ContentError:
        return 0
