"""A node's state about policy statements: those of known advertisements, and the events they made."""

from collections.abc import Iterator
from typing import NamedTuple

from penstock.domain.compile.ensemble import Ensemble
from penstock.engine.federation.offer_matches import Matter, Matters
from penstock.engine.sessions.session import Session
from penstock.language.condition import Condition
from penstock.language.ranges.ranges import intersects
from penstock.model.event import Event
from penstock.model.topic import overlaps
from penstock.policy.statements.judging import Bound


class Advertised(NamedTuple):
    """The policy of an advertisement that is known at a node, and whom it came from (None: the node, or the domain)."""

    bound: Bound
    source: Session | None


class AdvertisedPolicies:
    """All of them, as long as neither advertisements nor the domain change."""

    def __init__(self, ensemble: Ensemble, all: list[Advertised]) -> None:
        self.ensemble = ensemble
        self._all = all
        self._index: Matters[int] = Matters()
        self._empty: list[int] = []
        """Those of which no content can be: in no index, but without a condition one may meet them."""
        for number, advertised in enumerate(all):
            matter = Matter(advertised.bound.filter, advertised.bound.condition)
            self._index.add(number, matter)
            if matter.is_empty:
                self._empty.append(number)

    def meeting(self, filter: str, condition: Condition | None) -> Iterator[Advertised]:
        """Return those that a subscription meets, in their order."""
        matter = Matter(filter, condition)
        near = range(len(self._all)) if matter.is_empty else sorted((*self._index.meeting(matter), *self._empty))
        return (self._all[number] for number in near if _meet(self._all[number].bound, filter, condition))


def _meet(bound: Bound, filter: str, condition: Condition | None) -> bool:
    if not overlaps(bound.filter, filter):
        return False
    if bound.condition is None or condition is None:
        return True
    return intersects(bound.condition.ranges, condition.ranges) is not False


class StatementState:
    """The policy statements of a node: which there are, and what they have done."""

    __slots__ = (
        "acted",
        "advertised",
        "draining",
        "is_looping",
        "is_persisted_full",
        "made",
        "preceding",
        "with_policies",
    )

    def __init__(self) -> None:
        self.made: list[tuple[Session | None, Event]] = []
        """Events that policies have made and that are not published yet, each with the session that caused it."""
        self.draining = self.is_looping = False
        self.with_policies: dict[int, Session] = {}
        """Sessions whose advertisements, or those that they told of, have policies."""
        self.preceding: dict[int, Session] = {}
        """Sessions whose subscriptions may have policies with rules before matching."""
        self.advertised: AdvertisedPolicies | None = None
        """Those policies, indexed; None: they have changed since."""
        self.acted: dict[tuple[object, ...], set[tuple[object, ...]]] = {}
        """By subscription or offer, the policies for which something was done besides."""
        self.is_persisted_full = False
        """True if persisted messages have been dropped for newer ones."""

    def note_preceding(self, session: Session) -> None:
        """Note a session if policies of its subscriptions have rules before matching."""
        policies = [given.policy for given in session.place.policies]
        policies += (each.policy for each in session.subscriptions.values() if each.policy is not None)
        if any(policy.precedes_matching for policy in policies):
            self.preceding[session.id] = session
        else:
            self.preceding.pop(session.id, None)
