"""Whether each member of a JSON object is there once.

Of two members with one name some parsers take the first and some the last, so that what a policy allows need not be
what a subscriber reads. The decoder takes the last and does not tell.
"""

import json

import msgspec

from penstock.model.errors import AmbiguityError
from penstock.model.values import Value

_encode = msgspec.json.Encoder().encode
COLON_IN_DISGUISE = b"\\u003"
_SHOWN = 100


def check_members(payload: bytes, value: Value) -> None:
    """Raises `AmbiguityError` if the payload, which is this value, has two members with one name in one object."""
    # What was read, written again, has a colon less for each member that was dropped. This is much faster than to look.
    if COLON_IN_DISGUISE in payload or payload.count(b":") != colons(value):
        json.loads(payload, object_pairs_hook=_once, parse_int=str, parse_float=str)


def colons(value: Value) -> int:
    """How many there are in the value, written again; -1 if it cannot be."""
    try:
        return _encode(value).count(b":")
    except OverflowError:  # an integer of more than 64 bits
        return -1


def _once(members: list[tuple[str, object]]) -> None:
    names = set[str]()
    for name, _ in members:
        if name in names:
            shown = f"`{name}`" if len(name) <= _SHOWN else "with a long name"
            raise AmbiguityError(f"not clear: an object has two members {shown}")
        names.add(name)
