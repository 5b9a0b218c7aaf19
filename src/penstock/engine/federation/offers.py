"""Advertisements on their way through the nodes: which are known here, and who is told of them."""

from collections.abc import Iterator
from hashlib import sha256

from penstock.engine.federation.state import OwnOffer
from penstock.engine.federation.wants import Offer
from penstock.engine.node import Node
from penstock.engine.sessions.session import Session
from penstock.engine.statements import filter_policies
from penstock.language.statements.statement import Message
from penstock.model.topic import overlaps
from penstock.policy.statements.advertisement import ProducerAdvertisement
from penstock.policy.statements.assignments import AssignedPolicy

MAX_CLIENT_ID_LENGTH = 64
"""Characters; of a longer client id the digest stands in an offer's id."""


def changed(node: Node, session: Session, name: str) -> None:
    """Note that a client has set or withdrawn an advertisement of this name."""
    id = _client_offer_id(node, session, name)
    node.statements.acted.pop(("offer", id), None)  # it is another message
    one = session.declared.advertisements.get(name)
    if one is not None and one.scope == "global":
        node.federation.own_offers[id] = _own(node, id, one, session.place.publish_type, session)
    else:
        node.federation.own_offers.pop(id, None)
    node.federation.news.offer(id)


def own_offers(node: Node) -> dict[str, OwnOffer]:
    """Return the offers of clients here, and of the domain for them, by id."""
    made: dict[str, OwnOffer] = {}
    for entry in node.ensemble.listed(node.name):
        for one in entry.advertises:
            if one.scope == "global":
                id = f"{_part(node.name)}/{_part(entry.name)}/domain/{_part(one.name)}"
                made[id] = _own(node, id, one, entry.publish, None)
        for given in node.ensemble.statements.of(entry.name, Message.ADVERTISEMENT):
            made.update(_given(node, given, entry.name, entry.publish))
    for session in node.sessions.values():
        for one in session.declared.advertisements.values():
            if one.scope == "global":
                id = _client_offer_id(node, session, one.name)
                made[id] = _own(node, id, one, session.place.publish_type, session)
    return made


def _own(node: Node, id: str, one: ProducerAdvertisement, source: str, session: Session | None) -> OwnOffer:
    return OwnOffer(_offer(node, id, one), source, one.condition, one.policy, session)


def _given(node: Node, given: AssignedPolicy, client: str, source: str) -> dict[str, OwnOffer]:
    """Return the domain's advertisements for a client, or for the node itself, that have a policy."""
    name = sha256(f"{given.name} {given.filter} {given.condition and given.condition.text}".encode()).hexdigest()[:16]
    id = f"{_part(node.name)}/{_part(client)}/policy/{name}"
    one = ProducerAdvertisement(name, given.filter, given.condition, policy=given.policy)
    return {id: _own(node, id, one, source, None)}


def known_ids(node: Node) -> Iterator[str]:
    """Return the ids of all offers that are known here; some may come twice."""
    yield from node.federation.own_offers
    for session in node.federation.neighbours.values():
        yield from session.federation.offers


def told_classes(node: Node) -> frozenset[str]:
    """Return the classes of events for which advertisements count on some link of the ensemble."""
    return frozenset(
        filter
        for connection in node.ensemble.connections
        for filter, mode in connection.forward
        if mode in ("advertised", "routed")
    )


def best_offer(node: Node, neighbour: Session, id: str, classes: frozenset[str]) -> Offer | None:
    """Return the offer told to a neighbour under this id: the one that came the shortest way; None if none is told."""
    found = [
        one
        for one in _known(node, id)
        if node.table.allows(one.source, neighbour.place.notify_type) and neighbour.neighbour not in one.offer.path
    ]
    best = min(found, key=lambda one: (len(one.offer.path), one.offer.path), default=None)
    if best is None:
        return None
    offer = best.offer
    is_told = any(one == "#" or overlaps(one, offer.filter) for one in classes)
    if best.policy is None:
        return offer if is_told else None
    about = (id, offer.filter, best.condition, best.policy, best.session)
    judged = filter_policies.forward_advertisement(node, *about, neighbour)
    if judged is None or not (is_told or judged.is_flooded or judged.policy):
        return None
    where = judged.condition.text if judged.condition is not None else ""
    return Offer(id, offer.filter, where, offer.path, judged.policy)


def way_to(node: Node, id: str) -> Session | None:
    """Return the neighbour by which to go for an offer: links that are up first, then the shortest way."""
    knowing = (session for session in node.federation.neighbours.values() if id in session.federation.offers)
    return min(
        knowing,
        key=lambda session: (session.outlet is None, len(session.federation.offers[id].offer.path), session.client_id),
        default=None,
    )


def _known(node: Node, id: str) -> Iterator[OwnOffer]:
    own = node.federation.own_offers.get(id)
    if own is not None:
        yield own
    for session in node.federation.neighbours.values():
        if id in session.federation.offers:
            offer, condition, policy = session.federation.offers[id]
            if node.name not in offer.path:
                told = Offer(id, offer.filter, offer.where, (*offer.path, node.name))
                yield OwnOffer(told, session.place.publish_type, condition, policy, session)


def _offer(node: Node, id: str, one: ProducerAdvertisement) -> Offer:
    where = one.condition.text if one.condition is not None else ""
    return Offer(id, one.filter, where, (node.name,))


def _client_offer_id(node: Node, session: Session, name: str) -> str:
    """Several sessions may be of one entity, and each has names of its own."""
    client_id = session.client_id
    if len(client_id) > MAX_CLIENT_ID_LENGTH:
        client_id = f"sha256:{sha256(client_id.encode()).hexdigest()}"
    return f"{_part(node.name)}/{_part(client_id)}/client/{_part(name)}"


def _part(text: str) -> str:
    """Encode a part of an id, so that ids with different parts differ."""
    return text.replace("%", "%25").replace("/", "%2F")
