"""JSON and base64url as tokens and key files are written: in one way only.

What is signed must say the same to everybody who reads it. So an object has each member once and no member that is not
known, and base64url has no padding and no stray bits. `canonical` is RFC 8785 for what tokens are made of: members with
ASCII names, texts, whole numbers below 2^53, lists.
"""

import base64
import binascii
import json
from typing import TypeVar

import msgspec

from penstock.policy.tokens.errors import TokenError, TokenFault, malformed, show

T = TypeVar("T")


def canonical(value: object) -> bytes:
    """Return the canonical JSON of the value."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode()


def read_json(data: bytes, what: str) -> object:
    """Decode JSON in which no object has two members of one name; raises `TokenError`, which says `what` it is."""
    try:
        return json.loads(data.decode(), object_pairs_hook=_without_repeats, parse_constant=_refuse)
    except TokenError as error:
        raise TokenError(error.reason, f"{what}: {error.detail}") from None
    except (ValueError, RecursionError):  # syntax and UTF-8 too; not shown: it may be long, and is not ours
        raise malformed(f"{what} is not JSON") from None


def as_type(value: object, kind: type[T], what: str) -> T:
    """Return the decoded JSON as a struct, without conversions between types; raises `TokenError`."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        problem = str(error)
        raise malformed(f"{what}: {show(problem[:1].lower() + problem[1:])}") from None


def to_base64url(data: bytes) -> str:
    """Encode without padding, as RFC 7515 §2 says."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def from_base64url(text: str, what: str) -> bytes:
    """Decode what `to_base64url` can have written, and nothing else; raises `TokenError`."""
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        data = b""
    # The decoder drops bits that are left over in the last letter, so that two texts could be the same bytes.
    if to_base64url(data) != text:
        raise malformed(f"{what} is not base64url without padding")
    return data


def _without_repeats(members: list[tuple[str, object]]) -> dict[str, object]:
    object_ = dict(members)
    if len(object_) != len(members):
        raise TokenError(TokenFault.DUPLICATE_MEMBERS, "an object has two members of one name")
    return object_


def _refuse(constant: str) -> object:
    raise ValueError(f"`{constant}` is not JSON")
