"""Where the privacy filter of a subscription is evaluated (contracts §2.2, Algorithm 1).

The first node that knows both the advertisement, with its privacy policy, and the subscription, with what its consumer
guarantees, decides; the others go by what it decided. A producer's node tells them by the publication's ACE set: the
subscriptions for which access control is already enabled.

Two things are other than in the paper. Line 9 of its Algorithm 1 brackets the predicate otherwise than its text does,
so that it would evaluate privacy filters for publications without privacy requirements; here it is as in the text. And
where both advertisement and subscription are local and the publication is not at its first node (something else has
drawn it there), no node ever knows both. The paper's algorithm lets it pass; here it is refused.
"""

from base64 import urlsafe_b64encode
from collections.abc import Callable, Collection, Mapping, Sequence
from enum import StrEnum
from hashlib import blake2b
from typing import NamedTuple

import msgspec

from penstock.model.errors import ContentError


class Circumstance(NamedTuple):
    """What the place depends on, with the paper's abbreviations."""

    is_private: bool
    """p: the advertisement has a privacy requirement. A publication whose advertisement is elsewhere says so itself."""
    is_advertised_locally: bool
    """la"""
    is_subscribed_locally: bool
    """ls"""
    is_at_first_node: bool
    """s1: the publication's path has one node, this one."""


class FilterPlace(StrEnum):
    """What a node does about the privacy filter of one subscription."""

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
    """What a node does about the privacy filter of a subscription."""
    if not at.is_private:
        return FilterPlace.SKIP
    if must_evaluate(at):
        return FilterPlace.EVALUATE
    return FilterPlace.REFUSE if at.is_subscribed_locally else FilterPlace.ENABLED


class SimpleFilter(NamedTuple):
    """A simple filter of a subscription, which is the conjunction of such."""

    id: str
    is_privacy: bool
    holds: Callable[[], bool]


def evaluate(filters: Sequence[SimpleFilter], at: Circumstance, ace: Collection[str]) -> tuple[bool, str]:
    """Return whether a publication satisfies a subscription (Algorithm 1), and why not."""
    found = not at.is_private
    for one in filters:
        if one.is_privacy:
            found = True
            match place(at):
                case FilterPlace.SKIP:
                    continue
                case FilterPlace.REFUSE:
                    return False, "no node knows both the advertisement and the subscription: both are local"
                case FilterPlace.ENABLED:
                    if one.id not in ace:
                        return False, "the producer's node has not enabled access for this subscription"
                    continue
        if not one.holds():
            return False, f"`{one.id}` does not hold"
    return (True, "") if found else (False, "the publication is private, and the subscription guarantees nothing")


# --- the ACE set as a publication carries it

ACE = "penstock-ace"
"""The user property, which is there with private publications only: it also says that there is a requirement."""

LATE = "*"
"""In place of a set, beside it: the subscription is newer than the publication, which was retained. So the first node
that knows both is the subscriber's own, if the advertisement is global.
"""

MAX_ACE = 3_000
"""Subscriptions of one set: a user property has 65,535 bytes. What is not in the set is refused where it is asked."""

_BYTES = 12
_LETTERS = _BYTES * 4 // 3
_MAX_TEXT = 65_535
_decode = msgspec.json.Decoder(dict[str, str]).decode


def ace_digest(subscription: str) -> str:
    """What stands for a subscription, by its id in the whole ensemble."""
    return urlsafe_b64encode(blake2b(subscription.encode(), digest_size=_BYTES).digest()).decode()


def write_ace(enabled: Mapping[str, str]) -> str:
    """Return the set as text: digests of subscriptions, each with the id of the rule that permits; of too many, some.

    Other nodes must know the rule, as it may be one that degrades.
    """
    rules: dict[str, str] = {}
    for digest in sorted(enabled)[:MAX_ACE]:
        rules[enabled[digest]] = rules.get(enabled[digest], "") + digest
    return msgspec.json.encode(rules).decode()


def read_ace(text: str) -> dict[str, str]:
    """Return the set of a text: the rules by the digests of subscriptions; raises `ContentError`."""
    try:
        rules = _decode(text) if len(text) <= _MAX_TEXT else None
    except (msgspec.MsgspecError, UnicodeEncodeError):
        rules = None
    if rules is None or not all(len(several) % _LETTERS == 0 and several.isascii() for several in rules.values()):
        raise ContentError("not a set of subscriptions with access control enabled")
    return {
        several[at : at + _LETTERS]: rule for rule, several in rules.items() for at in range(0, len(several), _LETTERS)
    }
