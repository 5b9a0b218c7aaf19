"""Between nodes: who the neighbours are, and what the two sides tell each other.

A neighbour is a session like a client's, with its window, its queue and its place in the store. What it subscribes to
is what somebody beyond it wants (`interest.py` works it out); the two sides tell each other that, and what they know to
be advertised, on a control topic that only they may use.
"""

from collections.abc import Iterator

import msgspec

from penstock.domain.schema.federation import LinkSettings
from penstock.engine.contracts import link_needs, subscribers
from penstock.engine.contracts.subscribers import GLOBAL
from penstock.engine.events import entrances
from penstock.engine.federation import messages, offers, write_rights
from penstock.engine.federation.interest import NeighbourExchange
from penstock.engine.federation.messages import Interest
from penstock.engine.federation.state import Change, News, Withdrawal
from penstock.engine.federation.wants import NODE_PREFIX, Offer, Offered, Want
from penstock.engine.mobility.messages import tell_ready
from penstock.engine.node import Node
from penstock.engine.sessions import outbox, placement, subscribe
from penstock.engine.sessions.session import NEVER, Session, Subscribed, key_of
from penstock.engine.statements import advertised_policies, bindings, filter_policies
from penstock.language.condition import Condition, make_condition
from penstock.language.errors import ConditionError
from penstock.language.statements.statement import Message
from penstock.model.errors import UNREADABLE, PolicyError, TopicError
from penstock.model.subject import Subject
from penstock.model.topic import parse_filter
from penstock.policy.statements.judging import Bound
from penstock.policy.statements.statement import Policy
from penstock.wire.errors import WireError
from penstock.wire.reason import Reason

WINDOW = 1000
"""Messages that two nodes may have under way to each other."""
GRACE_SECONDS = 5.0
"""The time for which a returned neighbour's earlier announcements count before it repeats them; and for which a node
keeps wants that a new domain has ended.
"""
REFRESH_SECONDS = 0.05
"""The shortest time between computations of interest: many subscriptions at once are one change."""


def connections(node: Node) -> Iterator[tuple[str, LinkSettings]]:
    """Return each neighbour of the node with the domain's description of the connection."""
    for connection in node.ensemble.connections:
        if node.name in connection.between:
            first, second = connection.between
            yield (second if first == node.name else first), connection


def prepare(node: Node) -> list[Session]:
    """Make a session for each neighbour; returns those of neighbours that are no longer there."""
    node.federation.neighbours = {name: _session(node, name, connection) for name, connection in connections(node)}
    placement.look_on(node)
    known = (None, *node.federation.neighbours)
    return [session for session in node.sessions.values() if session.neighbour not in known]


def _session(node: Node, name: str, connection: LinkSettings) -> Session:
    client_id = NODE_PREFIX + name
    session = node.sessions.get(client_id)
    if session is None:
        node.sessions.last_id += 1
        session = node.sessions[client_id] = Session(node.sessions.last_id, Subject(client_id), 5)
        session.connection.expiry = NEVER
        session.durable = node.ledger.durable
        node.ledger.session(session)
    session.neighbour = name
    session.outbox.queue_limit = connection.queue
    placement.settle_in(node, session)
    return session


def subscribe_foreign(node: Node, session: Session, filters: tuple[str, ...], qos: int) -> None:
    """Subscribe for a foreign broker, which cannot send its wants: the domain has them."""
    for text in set(session.subscriptions) - set(filters):
        subscribe.remove(node, session, text)
    for text in filters:
        if text not in session.subscriptions:
            subscribe.add(node, Subscribed(session, text, qos, retain_as_published=True), parse_filter(text))


# --- to a neighbour


def refresh(node: Node, now: float) -> None:
    """Tell every connected neighbour what has changed in what we want of it, and in what we can offer."""
    if now < node.federation.interest_due:
        return
    node.federation.interest_due = now + REFRESH_SECONDS
    news, node.federation.news = node.federation.news, News(is_all=False)
    if news.is_all:
        node.federation.own_offers = offers.own_offers(node)
    for name, connection in connections(node):
        session = node.federation.neighbours[name]
        if session.id in node.federation.exchanges:
            change = node.federation.exchanges[session.id].update(news, connection.forward, now + GRACE_SECONDS)
            if change:
                _tell(node, session, messages.packets(session, change))
            tell_ready(node, session)


def announce(node: Node, session: Session) -> None:
    """Send all offers over a new link. Wants follow when the other's offers, which they may depend on, are here."""
    if node.federation.news.is_all:
        node.federation.own_offers = offers.own_offers(node)
    exchange = node.federation.exchanges[session.id] = NeighbourExchange(node, session)
    write_rights.announce(node, session)
    _tell(node, session, messages.packets(session, Change(offer=exchange.offer_all()), "offers"))
    node.federation.news.offer(*session.federation.offers)  # there is a way to them again


def _ask(node: Node, session: Session) -> None:
    """Say all that we want."""
    exchange = node.federation.exchanges.get(session.id)
    if exchange is not None and not exchange.has_asked:
        forward = dict(connections(node))[session.neighbour or ""].forward
        _tell(node, session, messages.packets(session, Change(exchange.ask_all(forward)), "wants"))
        tell_ready(node, session)


def _tell(node: Node, session: Session, packets: Iterator[bytes]) -> None:
    for packet in packets:
        outbox.push(node, session, packet)


# --- from a neighbour


def take_interest(node: Node, session: Session, payload: bytes, now: float) -> None:
    """Take the wants and offers of a neighbour."""
    try:
        change = msgspec.json.decode(payload, type=Interest)
        wanted = [(want, parse_filter(want.filter), _condition(want.where)) for want in change.add]
        offered = {offer.id: Offered(offer, _condition(offer.where)) for offer in change.offer}
        policies = _policies(node, session, [*change.offer, *change.add])
    except (*UNREADABLE, TopicError, ConditionError) as error:
        raise WireError(Reason.PROTOCOL_ERROR, f"interest of node `{session.neighbour}`: {error}") from None
    if change.begins == "offers":
        session.federation.doubted_offers = dict.fromkeys(session.federation.offers, NEVER)
        session.federation.farewells.clear()
    if change.begins == "wants":
        # A neighbour that has just started does not know yet what those beyond it want.
        known = (*session.subscriptions, *session.federation.subscribers)
        session.federation.doubted = dict.fromkeys(known, NEVER)
        node.federation.refused.pop(session.id, None)
    readable = (offer for offer in offered.values() if offer.offer.policy in policies)
    offered = {offer.offer.id: offer._replace(policy=policies[offer.offer.policy]) for offer in readable}
    for farewell in change.farewell:
        session.federation.farewells[farewell.want or farewell.offer] = farewell.policy
    _take_offers(node, session, change, offered, now)
    for want, _, condition in wanted:
        if want.policy in policies:
            _take_want(node, session, want, condition, policies[want.policy], now)
    for want in change.remove:
        _drop_want(node, session, want, now)
    if change.ends == "offers":
        session.federation.doubted_offers = dict.fromkeys(session.federation.doubted_offers, now + GRACE_SECONDS)
        _ask(node, session)
    if change.ends == "wants":
        session.federation.doubted = dict.fromkeys(session.federation.doubted, now + GRACE_SECONDS)
    entrances.replay(node, session, now)


def expire(node: Node, now: float) -> None:
    """Forget what neighbours told before they came back, and have not told again for a while."""
    for session in node.federation.neighbours.values():
        exchange = node.federation.exchanges.get(session.id)
        gone = exchange.take_back(now) if exchange is not None else frozenset()
        if gone:
            _tell(node, session, messages.packets(session, Change(remove=gone)))
        over = [key for key, due in session.federation.doubted.items() if due <= now]
        if over:
            session.federation.doubted.update(dict.fromkeys(over, NEVER))
            node.sessions.undone.append(_removal(node, session, over))
        for id in [id for id, due in session.federation.doubted_offers.items() if due <= now]:
            del session.federation.doubted_offers[id]
            session.federation.offers.pop(id, None)
            advertised_policies.note(node, session)
            node.federation.news.offer(id)


def _removal(node: Node, session: Session, doubted: list[str]) -> Iterator[None]:
    """Remove what a neighbour has not told again, a subscription in each step."""
    for key in doubted:
        if session.federation.doubted.pop(key, None) is not None:  # else it has told it now
            subscribe.remove(node, session, key)
            subscribers.remove(node, session, key)
        yield


def _condition(where: str) -> Condition | None:
    return make_condition(where) if where else None


def _policies(node: Node, session: Session, entries: list[Want | Offer]) -> dict[str, Policy | None]:
    """Return the policies of wants and offers by text. One whose policy cannot be applied does not count."""
    policies: dict[str, Policy | None] = {"": None}
    for entry in entries:
        if entry.policy not in policies:
            try:
                policies[entry.policy] = bindings.readable(entry.policy)
            except PolicyError as error:
                node.notice("policy failed", session, entry.filter, f"what a node tells cannot be applied: {error}")
    return policies


def _take_offers(node: Node, session: Session, change: Interest, offered: dict[str, Offered], now: float) -> None:
    for id, offer in offered.items():
        about = (offer.offer.filter, offer.condition, offer.policy)
        if filter_policies.insert_advertisement(node, session, *about, now):
            session.federation.offers.pop(id, None)
            continue
        session.federation.offers[id] = offer
        session.federation.doubted_offers.pop(id, None)
    for id in change.withdraw:
        gone = session.federation.offers.pop(id, None)
        session.federation.doubted_offers.pop(id, None)
        bounds, text = _said_with(node, session, id, id)
        if gone is not None:
            node.statements.acted.pop(("offer", id), None)
            if gone.policy is not None:
                own = Bound(gone.policy, id, gone.offer.filter, gone.condition, Message.ADVERTISEMENT)
                bounds = [own, *bounds]
            what = (session, gone.offer.filter, gone.condition, tuple(bounds), text)
            filter_policies.taken_back(node, id, Withdrawal(Message.UNADVERTISEMENT, *what), now)
    advertised_policies.note(node, session)
    node.federation.news.offer(*offered, *change.withdraw)


def _said_with(node: Node, session: Session, withdrawn: Want | str, about: str) -> tuple[list[Bound], str]:
    """Return the policies that a neighbour has told to be attached to a withdrawal, as applied and as text."""
    text = session.federation.farewells.pop(withdrawn, "")
    try:
        return filter_policies.attached_to_withdrawal(bindings.readable(text) if text else None)
    except PolicyError as error:
        node.notice("policy failed", session, about, f"what a node tells cannot be applied: {error}")
        return [], text


def _take_want(
    node: Node, session: Session, want: Want, condition: Condition | None, policy: Policy | None, now: float
) -> None:
    name, known = _known(session, want)
    key = key_of(want.filter, name)
    if known is not None:
        node.federation.news.subscription(session, key)
        known.ways = (want.path,) if session.federation.doubted.pop(key, None) else (*known.ways, want.path)
        return
    subscribed = Subscribed(session, want.filter, 2, retain_as_published=True, name=name, asked=want.where)
    subscribed.scope = "global" if want.is_global else None
    subscribed.condition, subscribed.policy, subscribed.ways = condition, policy, (want.path,)
    filter = parse_filter(want.filter)
    if want.consumer:
        subscribers.keep(node, subscribed)
        node.ledger.subscription(session, key, subscribed)
        subscribe.begin_replay(node, subscribed, filter, now)
        return
    if filter_policies.insert_subscription(node, subscribed, filter.filter, now):
        node.federation.refused.setdefault(session.id, set()).add(want)
        return
    subscribe.add(node, subscribed, filter)
    node.ledger.subscription(session, subscribed.key, subscribed)
    subscribe.begin_replay(node, subscribed, filter, now)


def _known(session: Session, want: Want) -> tuple[str, Subscribed | None]:
    """Return the name under which a neighbour's want is kept, and what is kept of it."""
    if want.consumer:
        name = subscribers.name_of(want.consumer, want.is_global)
        return name, session.federation.subscribers.get(key_of(want.filter, name))
    name = link_needs.with_needs(filter_policies.name_with_policy(want.where, want.policy), want.needs)
    name += GLOBAL if want.is_global else ""
    return name, session.subscriptions.get(key_of(want.filter, name))


def take_refused(node: Node, session: Session, now: float) -> None:
    """Let in the neighbour's wants that changed policies no longer refuse."""
    for want in sorted(node.federation.refused.pop(session.id, ())):
        policy = bindings.readable(want.policy) if want.policy else None
        _take_want(node, session, want, _condition(want.where), policy, now)


def refuse(node: Node, session: Session, subscribed: Subscribed) -> None:
    """Remove a want that changed policies no longer let in."""
    text = "" if subscribed.policy is None else subscribed.policy.text
    about = (subscribed.filter, subscribed.asked)
    is_global, needs = subscribed.scope == "global", link_needs.needs_in(subscribed)
    wants = {Want(*about, way, text, is_global=is_global, needs=needs) for way in subscribed.ways}
    node.federation.refused.setdefault(session.id, set()).update(wants)


def _drop_want(node: Node, session: Session, want: Want, now: float) -> None:
    _, known = _known(session, want)
    if known is None:
        node.federation.refused.get(session.id, set()).discard(want)
        return
    node.federation.news.subscription(session, known.key)
    known.ways = tuple(way for way in known.ways if way != want.path)
    if not known.ways:
        session.federation.doubted.pop(known.key, None)
        if want.consumer:
            subscribers.remove(node, session, known.key)
            return
        attached, text = _said_with(node, session, want, want.filter)
        bounds = (*filter_policies.of_subscription(session, known), *attached)
        what = (session, known.filter, known.condition, bounds, text)
        filter_policies.taken_back(node, (session, known.key), Withdrawal(Message.UNSUBSCRIPTION, *what), now)
        subscribe.remove(node, session, known.key)
