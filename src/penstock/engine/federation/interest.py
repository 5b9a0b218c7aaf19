"""Interest: what a node wants of a neighbour and what it offers to it, in the four modes of a link.

| mode | subscriptions | advertisements | what a node wants of a neighbour |
| --- | --- | --- | --- |
| all | | | everything (brokering §5) |
| subscribed | go everywhere | need not go | what somebody here or beyond subscribes to (contracts §2.1, mode 1) |
| advertised | stay | go everywhere | what is advertised there or beyond (contracts §2.1, mode 2) |
| routed | go to advertisements | go everywhere | what is subscribed to and may be advertised there (statements §3.2) |

Advertisements go over every link if they count for any: modes may be mixed.

A want or an offer that travels in an ensemble with cycles carries the nodes it has been through and does not come to
one of them again. So when its cause is gone, no two nodes keep it up for each other. An advertisement is taken from the
neighbour that it came by on the shortest way: what is advertised travels on a tree.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple, TypeVar

from penstock.domain.schema.federation import Forward
from penstock.engine.contracts import link_needs, subscribers
from penstock.engine.contracts.state import CONSUMER, SITUATION
from penstock.engine.federation.messages import Room
from penstock.engine.federation.neighbour_wants import Demands, NeighbourWants
from penstock.engine.federation.offer_matches import Matter, Meetings
from penstock.engine.federation.offers import best_offer, known_ids, told_classes, way_to
from penstock.engine.federation.state import Change, News, Source
from penstock.engine.federation.wants import Farewell, Offer, Path, Want
from penstock.engine.node import Node
from penstock.engine.sessions.session import Session, Subscribed
from penstock.engine.sparkplug.state import CERTIFICATES
from penstock.engine.statements import filter_policies, side_effects
from penstock.engine.statements.filter_policies import Filtered
from penstock.language.condition import Condition, make_condition
from penstock.language.errors import ConditionError
from penstock.model.sparkplug.topic import NAMESPACE
from penstock.model.topic import intersection, overlaps, parse_filter
from penstock.policy.access.covering import is_covered

_Lost = TypeVar("_Lost", Source, str)
"""A subscription that was taken back, or the id of an offer."""


class _Class(NamedTuple):
    """A class of events on a link."""

    filter: str
    mode: str
    earlier: list[str]
    """Classes before it: the first that an event is of counts."""

    def cut(self, filter: str) -> Iterator[str]:
        """Return the intersection of a filter with the class. `#` is the class of all events, those with a `$` too."""
        for both in (filter,) if self.filter == "#" else intersection(filter, self.filter):
            if not self.earlier or not is_covered(both, self.earlier):
                yield both


class NeighbourExchange:
    """The wants and offers told to a neighbour since their link is up, and what they are computed from."""

    def __init__(self, node: Node, neighbour: Session) -> None:
        self._node = node
        self._neighbour = neighbour
        self._room = Room(node, neighbour)
        self._wanted: NeighbourWants | None = None
        self._meetings: Meetings[Source] = Meetings()
        self._classes: list[_Class] = []
        self._offered: dict[str, Offer] = {}
        self._lingering: dict[Want, float] = {}
        """Wants that a new domain has ended, and the time until which they are not withdrawn."""

    @property
    def has_asked(self) -> bool:
        return self._wanted is not None

    def offer_all(self) -> tuple[Offer, ...]:
        """Return all offers, the first message to the neighbour."""
        return self._offers(known_ids(self._node)).offer

    def ask_all(self, forward: Forward) -> frozenset[Want]:
        """Return all wants, once the neighbour has sent its offers."""
        return self._rebuild(forward).add

    def update(self, news: News, forward: Forward, linger: float) -> Change:
        """Return the change in what the neighbour must know.

        The neighbour may not have a new domain yet, nor told what it offers by it. So what is not wanted any more
        because of one is taken back only after the time `linger`.
        """
        ids = [*known_ids(self._node), *self._offered] if news.is_all else news.offers
        change = self._offers(ids)
        gone = {id: (id,) for id in change.withdraw if id in news.withdrawals}
        change = change._replace(farewell=tuple(self._farewells(gone, news)))
        if self._wanted is None:
            return change
        wanted = {source: self._wanted.of(source) for source in news.withdrawals if not isinstance(source, str)}
        if news.is_all:
            wants = self._rebuild(forward)
            more, less = wants.add, wants.remove
            self._lingering.update(dict.fromkeys(less, linger))
        else:
            touched: dict[Source, None] = {}
            for id in news.offers:
                touched.update(dict.fromkeys(self._take_offer(self._wanted, id)))
            for source in {**touched, **news.subscriptions}:
                self._take_subscription(self._wanted, source)
            more, less = self._wanted.changes()
        lost = {source: less.intersection(wants) for source, wants in wanted.items() if less.intersection(wants)}
        change = change._replace(farewell=(*change.farewell, *self._farewells(lost, news)))
        return change._replace(add=self._not_lingering(more), remove=frozenset() if news.is_all else less)

    def _farewells(self, lost: Mapping[_Lost, Iterable[Want | str]], news: News) -> Iterator[Farewell]:
        """Apply the policies of what is taken back from the neighbour; yield those that go on with that."""
        for source, entries in lost.items():
            withdrawal = news.withdrawals[source]
            filter_policies.forward_withdrawal(self._node, withdrawal, self._neighbour, source)
            for entry in entries if withdrawal.attached else ():
                about = {"offer": entry} if isinstance(entry, str) else {"want": entry}
                farewell = Farewell(withdrawal.attached, **about)
                if self._room.fits(farewell, withdrawal.filter):
                    yield farewell

    def _not_lingering(self, wants: frozenset[Want]) -> frozenset[Want]:
        """Return those that the neighbour does not know; it knows the lingering ones, which are wanted again."""
        return frozenset(want for want in wants if self._lingering.pop(want, None) is None)

    def take_back(self, now: float) -> frozenset[Want]:
        """Remove and return the wants that have lingered long enough."""
        due = frozenset(want for want, until in self._lingering.items() if until <= now)
        for want in due:
            del self._lingering[want]
        return due

    # --- offers

    def _offers(self, ids: Iterable[str]) -> Change:
        offers: list[Offer] = []
        gone: list[str] = []
        classes = told_classes(self._node)
        for id in dict.fromkeys(ids):
            best = best_offer(self._node, self._neighbour, id, classes)
            if best is None:
                if self._offered.pop(id, None) is not None:
                    gone.append(id)
                continue
            best = self._room.fit(best)
            if self._offered.get(id) != best:
                self._offered[id] = best
                offers.append(best)
        return Change(offer=tuple(sorted(offers)), withdraw=tuple(sorted(gone)))

    # --- wants

    def _rebuild(self, forward: Forward) -> Change:
        """Work everything out anew."""
        node, neighbour = self._node, self._neighbour
        known: frozenset[Want] = self._wanted.told() if self._wanted is not None else frozenset()
        self._room = Room(node, neighbour)
        self._meetings = Meetings()
        self._classes = list(_classes(forward))
        wanted = self._wanted = NeighbourWants()
        wanted.put(None, dict(self._own_wants()))
        for id in neighbour.federation.offers:
            self._take_offer(wanted, id)
        for session in node.sessions.values():
            for key in (*session.subscriptions, *session.federation.subscribers):
                self._take_subscription(wanted, (session, key))
        wanted.changes()
        wants = wanted.told()
        return Change(wants - known, known - wants)

    def _own_wants(self) -> Iterator[tuple[Want, Condition | None]]:
        """Return the wants that do not depend on subscribers: everything, and what monitors must see."""
        node, neighbour = self._node, self._neighbour
        all_ = (class_ for class_ in self._classes if class_.mode == "all")
        watched = [filter for class_ in all_ for filter in class_.cut(class_.filter)]
        for filter in watched:
            yield from (self._want(filter, None, self._here(), consumer=consumer) for consumer in self._whoever())
        watched += neighbour.place.watch_in.alphabet() if neighbour.place.watch_in is not None else ()
        for ends, filters in node.monitors.onlookers.items():
            if node.table.allows(neighbour.place.publish_type, node.monitors.watches[ends].link.type):
                watched += filters
        if node.sparkplug is not None and neighbour.neighbour in node.ensemble.nodes:
            watched.append(f"{CERTIFICATES}#")  # they tell which aliases metrics have
        if node.ensemble.contracts is not None and neighbour.neighbour in node.ensemble.nodes:
            watched += [f"{SITUATION}#"] if node.ensemble.contracts.situations else []
            watched += [f"{CONSUMER}#"] if node.ensemble.contracts.bring else []
        for filter in watched:
            yield self._want(filter, None, self._here())

    def _take_offer(self, wanted: NeighbourWants, id: str) -> list[Source]:
        """Update an offer, if this neighbour is the way to it; return the subscriptions that it may concern."""
        offered = self._neighbour.federation.offers[id] if way_to(self._node, id) is self._neighbour else None
        matter = Matter(offered.offer.filter, offered.condition) if offered is not None else None
        is_global = offered is not None and offered.offer.is_global
        wanted.put(id, self._advertised(matter, is_global) if matter is not None else {})
        return self._meetings.offer(id, matter) if any(class_.mode == "routed" for class_ in self._classes) else []

    def _advertised(self, matter: Matter, is_global: bool) -> Demands:
        classes = (class_ for class_ in self._classes if is_global or class_.mode == "advertised")
        filters = [filter for class_ in classes for filter in class_.cut(matter.filter)]
        return dict(
            self._want(filter, None if consumer else matter.condition, self._here(), consumer=consumer)
            for filter in filters
            for consumer in self._whoever()
        )

    def _take_subscription(self, wanted: NeighbourWants, source: Source) -> None:
        session, key = source
        subscribed = session.subscriptions.get(key)
        if subscribed is None and key in session.federation.subscribers:
            wanted.put(source, self._beyond(source, session.federation.subscribers[key]))
            return
        if subscribed is not None and self._may_reach(session, subscribed):
            filter = parse_filter(subscribed.filter).filter
            judged = filter_policies.forward_subscription(self._node, subscribed, filter, self._neighbour)
            if judged is not None:
                matter = Matter(filter, judged.condition)
                if any(class_.mode == "routed" for class_ in self._classes):
                    self._meetings.ask(source, matter)
                wanted.put(source, self._subscribed(source, subscribed, matter, judged))
                return
        self._meetings.forget(source)
        wanted.put(source, {})

    def _may_reach(self, session: Session, subscribed: Subscribed) -> bool:
        """Return True if events from this neighbour may go to the subscriber."""
        if subscribed.scope == "local" or session is self._neighbour:
            return False
        return self._node.table.allows(self._neighbour.place.publish_type, session.place.notify_type)

    def _subscribed(self, source: Source, subscribed: Subscribed, matter: Matter, judged: Filtered) -> Demands:
        if matter.is_empty:
            return {}
        ways = [way for way in subscribed.ways or ((),) if self._neighbour.neighbour not in way]
        condition = matter.condition
        is_told = condition is None or condition.text == subscribed.asked or _is_tellable(condition)
        if not is_told or self._is_projected(matter.filter):
            condition = None
        # Nobody advertises the nodes' own events.
        is_told_anyway = judged.is_flooded or matter.filter.startswith(side_effects.META)
        modes = self._modes(source, subscribed)
        classes = (class_ for class_ in self._classes if is_told_anyway or class_.mode in modes)
        is_global = subscribed.scope == "global"
        session, node = subscribed.session, self._node
        is_client = session.neighbour not in node.ensemble.nodes
        needs = link_needs.of_client(node, session, matter.filter) if is_client else link_needs.needs_in(subscribed)
        demands: dict[Want, Condition | None] = dict(
            self._want(filter, condition, (*way, *self._here()), judged.policy, is_global=is_global, needs=needs)
            for class_ in classes
            for filter in class_.cut(matter.filter)
            for way in ways
        )
        if is_client:
            consumer = subscribers.written(subscribers.here(session, node.runtime.clock()))
            for filter in subscribers.filters(node, session, matter.filter):
                demands |= self._identified(filter, consumer, ways, modes, is_global)
        return demands

    def _beyond(self, source: Source, subscribed: Subscribed) -> Demands:
        """Return the wants that tell the neighbour of a subscriber beyond another one."""
        if not self._may_reach(source[0], subscribed):
            return {}
        if any(class_.mode == "routed" for class_ in self._classes):
            self._meetings.ask(source, Matter(subscribed.filter, None))
        ways = [way for way in subscribed.ways or ((),) if self._neighbour.neighbour not in way]
        consumer, modes = subscribers.consumer_in(subscribed.name), self._modes(source, subscribed)
        return self._identified(subscribed.filter, consumer, ways, modes, subscribed.scope == "global")

    def _identified(
        self, filter: str, consumer: str, ways: list[Path], modes: tuple[str, ...], is_global: bool
    ) -> Demands:
        """Return the wants that tell who subscribes. Where all events go over the link anyway, private ones do not."""
        classes = (class_ for class_ in self._classes if class_.mode in (*modes, "all"))
        cut = (both for class_ in classes for both in class_.cut(filter))
        return dict(
            self._want(both, None, (*way, *self._here()), "", consumer, is_global) for both in cut for way in ways
        )

    def _modes(self, source: Source, subscribed: Subscribed) -> tuple[str, ...]:
        """Return the modes of classes for which a subscription is told."""
        if subscribed.scope == "global":
            return ("subscribed", "routed", "advertised")
        return ("subscribed", "routed") if self._meetings.is_met(source) else ("subscribed",)

    def _whoever(self) -> tuple[str, ...]:
        """Return the consumers of what is wanted whoever subscribes: none, and those whom only their nodes know."""
        contracts = self._node.ensemble.contracts
        return ("", subscribers.WHOEVER) if contracts is not None and contracts.is_private else ("",)

    def _is_projected(self, filter: str) -> bool:
        """Return True if subscribers see only a part of such events: then only their node knows what satisfies them."""
        namespaces = (f"{NAMESPACE}/#", f"{CERTIFICATES}#")
        return self._node.sparkplug is not None and any(overlaps(filter, namespace) for namespace in namespaces)

    def _want(
        self,
        filter: str,
        condition: Condition | None,
        path: Path,
        policy: str = "",
        consumer: str = "",
        is_global: bool = False,
        needs: str = "",
    ) -> tuple[Want, Condition | None]:
        where = condition.text if condition is not None else ""
        want = self._room.fit(Want(filter, where, path, policy, consumer, is_global, needs))
        return want, condition if want.where else None

    def _here(self) -> Path:
        return (self._node.name,) if self._node.ensemble.is_cyclic else ()


def _classes(forward: Forward) -> Iterator[_Class]:
    earlier: list[str] = []
    for filter, mode in forward:
        yield _Class(filter, mode, list(earlier))
        if filter == "#":
            return
        earlier.append(filter)


@lru_cache(maxsize=65_536)
def _is_tellable(condition: Condition) -> bool:
    """Return True if another node can read it: the client's condition and the domain's may be too long together."""
    try:
        make_condition(condition.text)
    except ConditionError:
        return False
    return True
