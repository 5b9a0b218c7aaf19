"""One node's state: sessions, subscriptions, retained messages, plans. No sockets, no clock, no files.

Time comes in as an argument. What goes out: bytes in the buffers of the sessions listed in `dirty`, changes to make
durable in `ledger`, and what an operator should know in `notices`.
"""

from collections.abc import Callable
from typing import NamedTuple
from weakref import WeakValueDictionary

from penstock.domain import LimitSettings
from penstock.domain.compile.ensemble import Ensemble
from penstock.engine.contracts import client_contracts
from penstock.engine.contracts.delayed import Later
from penstock.engine.contracts.state import renewed_contracts
from penstock.engine.events import entrances
from penstock.engine.events.dedup import Once
from penstock.engine.events.link_class import LinkClass
from penstock.engine.events.plan import Group, Plan, Plans
from penstock.engine.federation import overlay
from penstock.engine.federation.offers import OwnOffer
from penstock.engine.federation.pending import News
from penstock.engine.federation.state import Exchange
from penstock.engine.federation.wants import Want
from penstock.engine.ledger import Ledger
from penstock.engine.matching.predicates import Predicates
from penstock.engine.monitors import Watch
from penstock.engine.recorder import Recorder
from penstock.engine.sessions import outbox, placement, subscribe, window
from penstock.engine.sessions.placement import alone
from penstock.engine.sessions.render import to_version_4, to_version_5
from penstock.engine.sessions.session import Session, Subscribed
from penstock.engine.sessions.timers import Timers
from penstock.engine.sparkplug.state import Sparkplug, renewed
from penstock.engine.stages import runner
from penstock.engine.stages.edit import tell_failures
from penstock.engine.statements import bindings, review
from penstock.engine.statements.state import AdvertisedPolicies
from penstock.engine.stats import Stats
from penstock.engine.trust import client_tokens, keys, token_exchange
from penstock.engine.trust.state import FeedbackLimits, GroupSecrets, Ratings
from penstock.engine.trust.tokens import BETWEEN_NODES, EVERYTHING, Keys, Passing, Tokens
from penstock.model.event import Event
from penstock.model.topic import Filter
from penstock.model.topic_tree import FilterIndex, TopicTree
from penstock.model.verdict import Verdict
from penstock.policy.access.acl import Acl, Rights
from penstock.policy.access.passwords import Passwords
from penstock.policy.monitors.monitor import State
from penstock.policy.tokens.rights import NO_RIGHTS, TokenRights
from penstock.policy.tokens.token import Token
from penstock.policy.trust.rating import Evidence
from penstock.wire.reason import Reason

Onlooker = Callable[[Session, Event, Verdict, float], None]


class Notice(NamedTuple):
    """Something that an operator should know."""

    kind: str
    client_id: str
    user: str | None
    topic: str
    reason: str


class Node:
    """A broker without its input and output."""

    def __init__(
        self,
        name: str,
        limits: LimitSettings,
        make_id: Callable[[], str],
        durable: bool = False,
        passwords: Passwords | None = None,
        acl: Acl | None = None,
        ensemble: Ensemble | None = None,
        make_nonce: Callable[[], bytes] | None = None,
    ) -> None:
        self.name = name
        self.ensemble = alone(name) if ensemble is None else ensemble
        self.table = self.ensemble.table(name)
        self.limits = limits
        self.make_id = make_id
        self.make_nonce = make_nonce
        """What proofs of membership are about, 32 bytes that never come again; None: there are no such proofs here."""
        self.trust = GroupSecrets()
        self.keys: Keys | None = None
        """What it signs tokens with; taken by `keys.hold`."""
        self.tokens: Tokens | None = None
        """Its authorisation tokens, if the domain has any; and in `ratings` how far it trusts its neighbours."""
        self.ratings: Ratings | None = None
        self.feedback = FeedbackLimits()
        self.stored_tokens: list[Token] = []
        """Tokens of events from before a restart or a reload, and in `stored_evidence` what was held of neighbours."""
        self.stored_evidence: dict[str, Evidence] = {}
        self.passwords = passwords
        self.acl = acl
        self.sessions: dict[str, Session] = {}
        self.last_session = 0
        self.index: FilterIndex[Subscribed | Group | Watch | Predicates[Subscribed]] = FilterIndex()
        self.groups: dict[tuple[str, str], Group] = {}
        self.predicates: dict[str, Predicates[Subscribed]] = {}
        """By filter, the subscriptions that ask for content."""
        self.retained: TopicTree[Event] = TopicTree()
        self.retained_due: list[tuple[float, str]] = []
        """When retained messages expire, as a heap."""
        self.plans: WeakValueDictionary[LinkClass, Plans] = WeakValueDictionary()
        """By class of links; kept by the sessions that use them, so that those of clients long gone do not gather."""
        self.routes: dict[tuple[object, ...], dict[str, Plan]] = {}
        """What matching and routing found by topic, for each kind of source that they can tell apart."""
        self.own_plans = self._plans(self._own_class())
        self.watches: dict[tuple[str, str], Watch] = {}
        """The monitors of each link that has any, with their states."""
        self.onlookers: dict[tuple[str, str], tuple[str, ...]] = {}
        """Of these, the links out of this node whose monitors must see more than is notified: filters by link."""
        self.stored_states: dict[tuple[str, str, str], State] = {}
        """States of monitors from an earlier run, by link and name."""
        self.planned = 0
        self.interned: dict[tuple[object, ...], Plan] = {}
        """Plans by what they are made of, so that topics share them; in `resolved` those that content decided on."""
        self.resolved: dict[tuple[object, ...], Plan] = {}
        self.neighbours: dict[str, Session] = {}
        self.exchanges: dict[int, Exchange] = {}
        """By session, what we tell the neighbour that we want and offer, while the link is up."""
        self.notified: dict[tuple[str, str], list[Session]] = {}
        """By link with monitors out of this node, the sessions that are notified over it."""
        self.secrets: dict[str, bytes] = {}
        """By neighbour, what it must show to be taken for it."""
        self.news = News(is_all=True)
        """What has changed in what is wanted and offered, since neighbours were last told."""
        self.interest_due = 0.0
        self.own_offers: dict[str, OwnOffer] = {}
        """What clients here advertise, by id."""
        self.suppressed_reason = Reason.NOT_AUTHORIZED
        """What the sender of a suppressed message is told."""
        self.contracts = renewed_contracts(None, self.ensemble.contracts)
        """What contracts say, if the domain has any; and in `later` what they hold back for a while."""
        self.sparkplug = None if self.ensemble.access is None else Sparkplug(self.ensemble.access)
        """What it knows of edge nodes, if there are access policies."""
        self.judged_access = self.ensemble.access_digest
        """Stands for the access policies by which all that waits was judged."""
        self.judged_statements = self.ensemble.statements_digest
        """And for the policy statements that the domain gives."""
        self.is_persisted_full = False
        """Whether persisted messages have been dropped for newer ones."""
        self.timers = Timers()
        self.ledger = Ledger(durable)
        self.later = Later(self.ledger)
        self.once = Once()
        self.recorder: Recorder | None = None
        """Gathers what the journal keeps, if there is one."""
        self.past: dict[str, tuple[int, int, int]] = {}
        """By client of the domain, what its sessions that have ended took, gave and were denied."""
        self.onlooker: Onlooker | None = None
        """Is told of what is refused, as it happens, if somebody looks on."""
        self.stats = Stats()
        self.connected = 0
        self.dirty: list[Session] = []
        self.made: list[tuple[Session | None, Event]] = []
        """What policies have made and is not published yet, and whose message was the cause."""
        self.draining = self.is_looping = False
        self.with_policies: dict[int, Session] = {}
        """Sessions whose advertisements, or those that they told of, have policies."""
        self.advertised: AdvertisedPolicies | None = None
        """Those policies, indexed; None: they have changed since."""
        self.refused: dict[int, set[Want]] = {}
        """By neighbour's session, the wants that policies did not let in: others may."""
        self.acted: dict[tuple[object, ...], set[tuple[object, ...]]] = {}
        """By subscription or offer, the policies for which something was done besides."""
        self.host = ""
        self.load = 0.0
        """How busy the node is, from 0 to 1; and in `host` where it runs. Who runs it says so."""
        self.clock: Callable[[], float] = lambda: 0.0
        self.unchecked = ""
        """Why who gives a user name is refused, if nobody can check that here; empty: any name is taken."""
        """The time, for policies that ask how long something took."""
        self.replaying: dict[int, Session] = {}
        """Sessions with more to be sent in the next turn; and in `lagging` those that wait for the store first."""
        self.lagging: dict[int, Session] = {}
        self.notices: list[Notice] = []

    # --- plans

    def plans_of(self, session: Session) -> Plans:
        """Return the plans that this session's publications follow; sessions that are alike share them."""
        plans, watch = session.plans, session.watch_in
        if plans is None or (watch is not None and plans.key.states is not watch.key):
            statements = bindings.bounds_of(self, session)
            link = LinkClass(
                session.rights, session.publish_type, session.neighbour, claims=session.claims, statements=statements
            )
            if session.token is not None and self.tokens is not None and self.neighbours:
                carried = client_tokens.carry(self, session)
                assert carried is not None
                link = link._replace(token=Passing(carried.digest, carried.digest, carried.claims.publish))
            if watch is not None:
                link = link._replace(monitors=watch.monitors, states=watch.key)
            plans = session.plans = self._plans(link)
            if watch is not None and plans.key.states == watch.key:
                watch.key = plans.key.states  # the same object, so that the next look is quick
        return plans

    def plans_of_made(self, link_type: str) -> Plans:
        """Return the plans for what policies make because of something that came by a link of this type."""
        statements = bindings.own_bounds(self)
        return self._plans(LinkClass(None, link_type, is_admitted=True, statements=statements))

    def plans_with(self, plans: Plans, token: Passing) -> Plans:
        """Return the plans for events that have this token."""
        return self._plans(plans.key._replace(token=token))

    def forget_link(self, session: Session) -> None:
        """Forget what is accepted of a neighbour."""
        if session.tokens is not None:
            session.tokens.forget()
        if session.plans is not None:
            session.plans.known.clear()
        session.plans = session.edited_plans = None

    def plans_after_edit(self, session: Session, token: Passing | None = None) -> Plans:
        """Return the plans for what a monitor on this session's link has made; `token`: what the event came with."""
        plans = session.edited_plans
        if plans is None or plans.key.token != token:
            link = LinkClass(
                None,
                session.publish_type,
                session.neighbour,
                is_admitted=True,
                statements=bindings.bounds_of(self, session),
                token=token,
            )
            plans = session.edited_plans = self._plans(link)
        return plans

    def _own_class(self) -> LinkClass:
        """Return the link class of the node's own events."""
        statements = bindings.own_bounds(self)
        return LinkClass(is_admitted=True, is_own=True, statements=statements)

    def _plans(self, link: LinkClass) -> Plans:
        plans = self.plans.get(link)
        if plans is None:
            goes = "" if link.token is None else link.token.goes
            routes = self.routes.setdefault((link.link_type, link.neighbour, link.is_own, link.statements, goes), {})
            plans = self.plans[link] = Plans(link, routes)
        return plans

    def forget(self, filter: Filter) -> None:
        """Forget the plans of topics that a changed subscription may concern."""
        self.resolved.clear()
        prefix = filter.prefix.rstrip("/")  # `a/#` also matches `a`
        for routes in self.routes.values():
            if not filter.is_wild:
                self._invalidate(routes.pop(filter.filter, None))
                continue
            for topic in [topic for topic in routes if topic.startswith(prefix)]:
                self._invalidate(routes.pop(topic))

    def forget_all(self) -> None:
        """Forget all plans: rights may have changed, or what a session can take."""
        for plans in self.plans.values():
            plans.known.clear()
        used = {id(plans.routes) for plans in self.plans.values()}
        self.routes = {key: routes for key, routes in self.routes.items() if id(routes) in used}
        for routes in self.routes.values():
            routes.clear()
        self.interned.clear()
        self.resolved.clear()
        self.planned = 0

    def _invalidate(self, plan: Plan | None) -> None:
        if plan is not None:
            self.interned.pop(plan.key, None)
            plan.retire()

    def govern(
        self,
        limits: LimitSettings,
        passwords: Passwords | None,
        acl: Acl | None,
        ensemble: Ensemble | None = None,
        now: float | None = None,
    ) -> None:
        """Take new settings: whatever waits is judged by them, as of `now` where a policy asks for the time."""
        self.limits, self.passwords, self.acl = limits, passwords, acl
        self.ensemble = ensemble or self.ensemble
        self.table = self.ensemble.table(self.name)
        self.contracts = renewed_contracts(self.contracts, self.ensemble.contracts)  # what is brought follows below
        self.sparkplug = renewed(self.sparkplug, self.ensemble.access)
        self.forget_all()
        self.plans.clear()
        keys.hold(self, self.keys, self.clock() if now is None else now)
        self.own_plans = self._plans(self._own_class())
        for watch in self.watches.values():
            watch.take(self.ensemble.monitors(watch.link))
            tell_failures(self, watch)
        placement.look_on(self)
        for session in self.sessions.values():
            session.rights = self.rights_for(session)
            self.later.begin_anew(session, self.clock() if now is None else now)
            placement.settle_in(self, session)
            subscribe.renew(self, session)
        client_contracts.review(self, self.clock() if now is None else now)
        review.review(self, self.clock() if now is None else now)
        for session in self.sessions.values():
            entrances.recheck_queue(self, session, now)
        self.judged()

    def judged(self) -> None:
        """Note that all waiting events have been judged by the present policies."""
        if self.judged_access != self.ensemble.access_digest:
            self.judged_access = self.ensemble.access_digest
            self.ledger.access(self.judged_access)
        if self.judged_statements != self.ensemble.statements_digest:
            self.judged_statements = self.ensemble.statements_digest
            self.ledger.statements(self.judged_statements)

    def rights_of(self, client_id: str, user: str | None) -> Rights | None:
        """Return the rights of a client; None: everything. A neighbour's events were admitted where they began."""
        if self.acl is None or overlay.neighbour_in(client_id) is not None:
            return None
        return self.acl.rights(client_id, user)

    def rights_for(self, session: Session) -> Rights | TokenRights | None:
        """Return the rights of a session: by the access list, and by the token that it has shown or been given."""
        rights = self.rights_of(session.client_id, session.subject.user)
        if self.tokens is None:
            return rights
        if session.token is not None:
            claims = session.token.token.claims
            return TokenRights(claims.publish, claims.subscribe, rights)
        if session.neighbour is not None and session.neighbour in self.ensemble.nodes:
            return TokenRights(EVERYTHING, self.tokens.settings.shared(self.name, session.neighbour) | BETWEEN_NODES)
        return NO_RIGHTS if self.tokens.settings.required and session.neighbour is None else rights

    @property
    def rated(self) -> list[str]:
        """The neighbours that are nodes, in a domain with tokens."""
        return [name for name, session in self.neighbours.items() if session.tokens is not None]

    # --- the hot path

    def relay(self, plan: Plan, packet: bytes, version: int, after_topic: int) -> None:
        """Pass a QoS 0 packet's own bytes on to all sessions of a simple plan."""
        same, other = (plan.direct4, plan.direct5) if version == 4 else (plan.direct5, plan.direct4)
        dirty = self.dirty
        for session in same:
            if session.open:
                buffer = session.buffer
                if not buffer:
                    dirty.append(session)
                buffer.append(packet)
            elif not outbox.push_lossy(self, session, packet) and self.recorder is not None:
                self.recorder.dropped(plan, session)
        if other:
            packet = (to_version_5 if version == 4 else to_version_4)(packet, after_topic)
            for session in other:
                if not outbox.push_lossy(self, session, packet) and self.recorder is not None:
                    self.recorder.dropped(plan, session)
        self.stats.sent += len(same) + len(other)
        if plan.closed:
            for session in plan.closed:
                session.denied += 1

    # --- flow

    def block(self, session: Session) -> None:
        """Stop sending to a connection that takes no more bytes for now."""
        session.blocked = True
        session.open = False

    def unblock(self, session: Session, now: float) -> None:
        """Resume sending to a connection that takes bytes again."""
        session.blocked = False
        session.overflowing = False
        session.backlog = 0
        session.open = session.outlet is not None and not session.held
        if session.buffer:
            self.dirty.append(session)
        window.pump(self, session, now)
        entrances.replay(self, session, now)

    def turn(self, now: float) -> None:
        """Between two rounds of input: go on with what was too much for one round."""
        if self.news and self.neighbours:
            overlay.refresh(self, now)
        if self.ratings is not None and (self.ratings.is_stale or self.ratings.is_changed):
            token_exchange.turn(self, now)
        if self.made:
            entrances.publish_made(self, now)
        if self.replaying or self.lagging:
            unfinished = {**self.lagging, **self.replaying}
            self.lagging, self.replaying = {}, {}
            for session in unfinished.values():
                self._continue(session, now)

    def go_on(self, session: Session) -> None:
        """Schedule the session to send more: in the next turn, or after the store has what was sent now."""
        (self.lagging if session.held else self.replaying)[session.id] = session

    def _continue(self, session: Session, now: float) -> None:
        if session.outlet is None:
            return
        if session.held:
            self.lagging[session.id] = session
            return
        window.pump(self, session, now)
        entrances.replay(self, session, now)

    def publish(self, topic: str, payload: bytes, now: float, retain: bool = False) -> None:
        """Publish as the node itself."""
        runner.publish_own(self, self.own_plans, Event(topic, payload, 0, retain), None, now)

    def say(self, topic: str, payload: bytes, now: float) -> None:
        """Tell the other nodes something that they keep."""
        runner.publish_own(self, self.own_plans, Event(topic, payload, 1, True), None, now)

    # --- notices

    def notice(self, kind: str, session: Session | None, topic: str, reason: str) -> None:
        client_id, user = (session.client_id, session.subject.user) if session else (self.name, None)
        self.notices.append(Notice(kind, client_id, user, topic, reason))

    def deny(self, kind: str, session: Session | None, topic: str, reason: str) -> None:
        """Count a refused publication or subscription."""
        self.stats.denied += 1
        if session is not None:
            session.denied += 1
        self.notice(kind, session, topic, reason)
