"""The policies of subscriptions for what goes to one session."""

from collections.abc import Iterator, Sequence

from penstock.domain.compile.ensemble import Ensemble
from penstock.engine.sessions.session import Subscribed
from penstock.language.statements.statement import Attach, Matching, Message, Point, Verb
from penstock.policy.statements.copies import Path, paths_read
from penstock.policy.statements.judging import Bound, applicable


class Course:
    """The policies for what goes to a session by some of its subscriptions."""

    __slots__ = ("asked", "attaches", "ensemble", "given", "given_first", "key", "mine", "mine_first", "own", "where")

    def __init__(
        self,
        ensemble: Ensemble,
        own: tuple[Bound, ...],
        first: Sequence[Bound],
        where: frozenset[Point],
        subscribed: Sequence[Subscribed],
    ) -> None:
        self.ensemble = ensemble
        """The ensemble it was computed for: in another, nodes may be in other overlays."""
        self.own = own
        self.where = where
        given = [bound for bound in own if bound.is_given]
        self.given = applicable(Message.PUBLICATION, Verb.FORWARD, where, given, Matching.AFTER)
        """The rules of the domain; and in `mine`, those of who subscribes."""
        mine = [bound for bound in own if not bound.is_given]
        self.mine = applicable(Message.PUBLICATION, Verb.FORWARD, where, mine, Matching.AFTER)
        self.given_first = applicable(Message.PUBLICATION, Verb.FORWARD, where, first, Matching.BEFORE)
        """The rules of the domain that come before matching; and in `mine_first`, those of who subscribes."""
        mine_first = [bound for bound in mine if bound.policy.precedes_matching]
        self.mine_first = applicable(Message.PUBLICATION, Verb.FORWARD, where, mine_first, Matching.BEFORE)
        self.asked = _asked(subscribed, is_all=bool(given))
        """The attributes that subscriptions ask for: the copy is trimmed to what all of them want."""
        self.attaches = any(rule.attach is not Attach.NEVER for bound in own for rule in bound.policy.rules)
        """True if rules of theirs may be attached to what goes this way."""
        self.key: tuple[object, ...] | None = None
        """Copies of one event by courses of the same key are equal. None: it depends on who gets it."""
        if not first and not mine_first and all(bound.policy.is_shared for bound in own):
            self.key = (where, *(each for bound in own for each in _told_by(bound)))
            if given or any(bound.policy.needs_filter for bound in own):
                self.key = (*self.key, *asked_by(subscribed))


def asked_by(subscribed: Sequence[Subscribed]) -> Iterator[object]:
    """Yield the parts of a key that subscriptions with the same conditions share."""
    return (id(subscription.condition) for subscription in subscribed)


Courses = dict[frozenset[Point], Course]
"""Of one target, by where the event has come from."""


def _told_by(bound: Bound) -> tuple[object, ...]:
    """Return the key of a shared policy's result. Identities suffice: all of it lives as long as the event."""
    if not bound.policy.needs_filter:
        return (id(bound.policy),)
    return (id(bound.policy), id(bound.condition), bound.filter)


def _asked(subscribed: Sequence[Subscribed], is_all: bool) -> frozenset[Path]:
    """Return the attributes that subscriptions ask for; the copy is trimmed to what all of them want."""
    asking = (subscription for subscription in subscribed if is_all or subscription.policy is not None)
    trees = (subscription.condition.tree for subscription in asking if subscription.condition is not None)
    return frozenset(path for tree in trees for path in paths_read(tree))
