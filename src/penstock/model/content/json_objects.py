"""Decoding of thousands of JSON objects: the result of `read_json` for each, in a fraction of the time.

The decoder is the same. What is looked for afterwards (`checked`) is in few payloads, and whether it is in none of many
can be told from sums: no payload has less of it than its value has, so where the sums are equal, all are.
"""

from collections.abc import Iterator

from penstock.model.content.bounds import MAX_DEPTH, MAX_NODES
from penstock.model.content.json import checked, decode, has_long_number
from penstock.model.content.json_members import COLON_IN_DISGUISE, colons
from penstock.model.errors import UNREADABLE, ContentError
from penstock.model.values import Value

Attributes = dict[str, Value]
_TOGETHER = 256
"""Payloads that are looked at together: one that needs a closer look makes all of them need it."""


def read_objects(payloads: list[bytes]) -> Iterator[Attributes | None]:
    """Yield the members of each; None: it is no object, not readable, or large, and `read_json` is to be asked."""
    for start in range(0, len(payloads), _TOGETHER):
        group = payloads[start : start + _TOGETHER]
        values = _decoded(group)
        yield from values if _are_plain(group, values) else map(_checked, group, values)


def _decoded(payloads: list[bytes]) -> list[Value]:
    if max(map(len, payloads)) <= MAX_NODES:
        try:
            return [*map(decode, payloads)]
        except UNREADABLE:
            pass
    return [*map(_decoded_alone, payloads)]


def _decoded_alone(payload: bytes) -> Value:
    try:
        return decode(payload) if len(payload) <= MAX_NODES else None
    except UNREADABLE:
        return None


def _checked(payload: bytes, value: Value) -> Attributes | None:
    if type(value) is not dict:
        return None
    try:
        attributes: Attributes = checked(payload, value)
    except ContentError:
        return None
    return attributes


def _are_plain(payloads: list[bytes], values: list[Value]) -> bool:
    """Return whether all are objects within the bounds, in which no name is twice and no number is long."""
    if set(map(type, values)) != {dict}:
        return False
    text = b"\n".join(payloads)
    if has_long_number(text):
        return False
    objects, members = text.count(b"{"), text.count(b":")
    if objects == len(values) and b"[" not in text and members == sum(map(len, values)):
        return True  # there is nothing in any of them but one object, with as many names as colons
    # What was read, written again, has a colon less for each member that was dropped (see `check_members`).
    is_deep = any(payload.count(b"{") + payload.count(b"[") > MAX_DEPTH for payload in payloads)
    return not is_deep and COLON_IN_DISGUISE not in text and members == colons(values)
