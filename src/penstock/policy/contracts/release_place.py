"""The node that evaluates the privacy filter of a subscription (contracts §2.2, Algorithm 1).

The first node that knows both the advertisement, with its privacy policy, and the subscription, with what its consumer
guarantees, decides; the others go by what it decided. A producer's node tells them by the publication's ACE set: the
subscriptions for which access control is already enabled.

Two things are other than in the paper. Line 9 of its Algorithm 1 brackets the predicate otherwise than its text does,
so that it would evaluate privacy filters for publications without privacy requirements; here it is as in the text. And
where both advertisement and subscription are local and the publication is not at its first node (something else has
drawn it there), no node ever knows both. The paper's algorithm lets it pass; here it is refused.
"""

from base64 import urlsafe_b64encode
from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

import msgspec

from penstock.model.errors import ContentError


class Circumstance(NamedTuple):
    """The facts that the place depends on, with the paper's abbreviations."""

    is_private: bool
    """p: the advertisement has a privacy requirement. A publication whose advertisement is elsewhere says so itself."""
    is_advertised_locally: bool
    """la"""
    is_subscribed_locally: bool
    """ls"""
    is_at_first_node: bool
    """s1: the publication's path has one node, this one."""


class FilterPlace(StrEnum):
    """The role of a node for the privacy filter of one subscription."""

    SKIP = "skip"
    """There is no privacy requirement."""
    EVALUATE = "evaluate"
    """It is the first that knows both: the policy is asked."""
    ENABLED = "enabled"
    """It was decided before: the ACE set is asked."""
    REFUSE = "refuse"
    """No node has decided or can."""


def must_evaluate(at: Circumstance) -> bool:
    """Return the predicate of §2.2: p and [s1 and (la or not ls) or (not la and ls)]."""
    is_private, la, ls, s1 = at
    return is_private and ((s1 and (la or not ls)) or (not la and ls))


def place(at: Circumstance) -> FilterPlace:
    """Return the role of a node for the privacy filter of a subscription."""
    if not at.is_private:
        return FilterPlace.SKIP
    if must_evaluate(at):
        return FilterPlace.EVALUATE
    return FilterPlace.REFUSE if at.is_subscribed_locally else FilterPlace.ENABLED


# --- the ACE set as a publication carries it

ACE = "penstock-ace"
"""The user property of the ACE set. Only private publications have it, so it also marks them."""

DEGRADED = "penstock-degraded"
"""The user property of a private event that was degraded before it left a node: by contract, what was done."""

LATE = "*"
"""In place of a set, beside it: the subscription is newer than the publication, which was retained. So the first node
that knows both is the subscriber's own, if the advertisement is global.
"""

LOCAL = "-"
"""The same, for those beyond a link who have subscribed locally: their own nodes decide about who is not in the set.
"""

MAX_ACE = 3_000
"""Subscriptions of one property, which has 65,535 bytes; a set has as many properties as it needs."""

MARKS = (LATE, LOCAL)
_BYTES = 12
_LETTERS = _BYTES * 4 // 3
_MAX_TEXT = 65_535
_decode = msgspec.json.Decoder(dict[str, str]).decode


@lru_cache(maxsize=65_536)
def ace_digest(subscription: str) -> str:
    """Return the digest of a subscription's id in the whole ensemble."""
    return urlsafe_b64encode(blake2b(subscription.encode(), digest_size=_BYTES).digest()).decode()


def write_ace(enabled: Mapping[str, str]) -> tuple[str, ...]:
    """Encode the set: digests of subscriptions with the rule that permits, as it may degrade; at least one text."""
    digests, texts = sorted(enabled), []
    for start in range(0, max(len(digests), 1), MAX_ACE):
        rules: dict[str, list[str]] = {}
        for digest in digests[start : start + MAX_ACE]:
            rules.setdefault(enabled[digest], []).append(digest)
        texts.append(msgspec.json.encode({rule: "".join(joined) for rule, joined in rules.items()}).decode())
    return tuple(texts)


def read_ace(text: str) -> dict[str, str]:
    """Decode the set: the rules by the digests of subscriptions; raises `ContentError`."""
    try:
        rules = _decode(text) if len(text) <= _MAX_TEXT else None
    except (msgspec.MsgspecError, UnicodeEncodeError):
        rules = None
    if rules is None or not all(len(joined) % _LETTERS == 0 and joined.isascii() for joined in rules.values()):
        raise ContentError("not a set of subscriptions with access control enabled")
    return {
        joined[at : at + _LETTERS]: rule for rule, joined in rules.items() for at in range(0, len(joined), _LETTERS)
    }
