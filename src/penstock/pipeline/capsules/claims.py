"""What producers say of the quality of their events, read quickly: many events say it in just the form that is written.

Only that form is read here, byte by byte as `policy/quality/carriage.py` writes it; of anything else, None is given,
and the slow way says what it is worth.
"""

import math
import re
from functools import lru_cache

from penstock.model.errors import ContentError, PolicyError
from penstock.model.quality import MAX_VALUES, MetricKey, MetricValue
from penstock.model.values import Timestamp
from penstock.policy.quality.carriage import CLAIMED, MAX_PROPERTY, read_time

Claims = dict[MetricKey, tuple[float, Timestamp, Timestamp | None]]
"""By metric: the value, when it was measured, and when it was last changed."""

_USER_PROPERTY = 0x26
_NAME = CLAIMED.encode()
_ID = rb'"([A-Za-z0-9_][A-Za-z0-9_.:-]{0,79})"'
_IDS = re.compile(rb'\{"indicator":' + _ID + rb',"criterion":' + _ID + rb',"definition":' + _ID)
_TIME = rb'"([0-9:T-]{19}(?:\.[0-9]{1,9})?)Z"'
# Numbers as JSON has them; the length is bounded, so that a double is made of them in no time.
_NUMBER = rb"(-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,25})?(?:[eE][+-]?[0-9]{1,4})?)"
_ENTRY = re.compile(
    rb'(\{"indicator":"[^"]+","criterion":"[^"]+","definition":"[^"]+"),"value":%b,"created":%b(?:,"modified":%b)?\}'
    % (_NUMBER, _TIME, _TIME)
)


def read_claims(properties: bytes) -> Claims | None:
    """Return what the properties of an event claim, if they are nothing but claims in the form that is written."""
    claims: Claims = {}
    at, end = 0, len(properties)
    while at < end:
        if properties[at] != _USER_PROPERTY:
            return None
        name = at + 3 + (properties[at + 1] << 8 | properties[at + 2] if at + 2 < end else end)
        if name + 2 > end or properties[at + 3 : name] != _NAME:
            return None
        size = properties[name] << 8 | properties[name + 1]
        at = name + 2 + size
        entry = _ENTRY.fullmatch(properties, name + 2, at) if at <= end and size <= MAX_PROPERTY else None
        if entry is None:
            return None
        ids, number, created, modified = entry.groups()
        key, value, measured = _key(ids), float(number), _time(created)
        if key is None or key in claims or not math.isfinite(value) or measured is None:
            return None
        changed = None if modified is None else _time(modified)
        if changed is None and modified is not None:
            return None
        claims[key] = value, measured, changed
    return claims if 0 < len(claims) <= MAX_VALUES else None


@lru_cache(maxsize=1024)  # there are a few, and many values
def _key(text: bytes) -> MetricKey | None:
    ids = _IDS.fullmatch(text)
    return None if ids is None else MetricKey(*(id.decode() for id in ids.groups()))


@lru_cache(maxsize=1024)  # mostly, all values of an event are of the same time
def _time(text: bytes) -> Timestamp | None:
    """Return a time that a value can have."""
    second = _second(text[:19])
    if second is None or len(text) == 19:
        return second
    return Timestamp(second.nanos + int(text[20:].ljust(9, b"0")))


@lru_cache(maxsize=1024)
def _second(text: bytes) -> Timestamp | None:
    try:
        return MetricValue(MetricKey("a", "a", "a"), 0.0, read_time(f"{text.decode()}Z")).created
    except (ContentError, PolicyError):
        return None
