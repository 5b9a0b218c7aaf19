"""A check that a JSON object has each member only once.

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
    """Raise `AmbiguityError` if an object in the payload, which decodes to this value, has two members of one name."""
    # The value encoded again has one colon less for each dropped member. Counting is much faster than parsing again.
    if COLON_IN_DISGUISE in payload or payload.count(b":") != colons(value):
        json.loads(payload, object_pairs_hook=_refuse_repeated, parse_int=str, parse_float=str)


def colons(value: Value) -> int:
    """Return the number of colons in the value when it is encoded again; -1 if it cannot be encoded."""
    try:
        return _encode(value).count(b":")
    except OverflowError:  # an integer of more than 64 bits
        return -1


def _refuse_repeated(members: list[tuple[str, object]]) -> None:
    names = set[str]()
    for name, _ in members:
        if name in names:
            shown = f"`{name}`" if len(name) <= _SHOWN else "with a long name"
            raise AmbiguityError(f"not clear: an object has two members {shown}")
        names.add(name)
