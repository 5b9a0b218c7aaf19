"""Advertisements on their way through the nodes: which are known here, and which neighbours they are announced to."""

from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256

from penstock.engine.federation.state import OwnOffer
from penstock.engine.federation.wants import CLIENT, OTHERS, Offer, owner
from penstock.engine.federation.wants import encode_part as _part
from penstock.engine.node import Node
from penstock.engine.sessions.session import Session
from penstock.engine.statements import filter_policies
from penstock.language.statements.statement import Message
from penstock.model.topic import overlaps
from penstock.policy.statements.advertisement import ProducerAdvertisement
from penstock.policy.statements.assignments import AssignedPolicy


def changed(node: Node, session: Session, name: str) -> None:
    """Note that a client has set or withdrawn an advertisement of this name."""
    advertised = session.declared.advertisements.get(name)
    for kind in (CLIENT, OTHERS):
        id = _client_offer_id(node, session, kind, name)
        node.statements.acted.pop(("offer", id), None)  # it is another message
        if advertised is not None and advertised.scope != "local" and kind == _kind(node, session, advertised):
            node.federation.own_offers[id] = _of_client(node, id, advertised, session)
        else:
            node.federation.own_offers.pop(id, None)
        node.federation.news.offer(id)


def offer_id_of(node: Node, session: Session, advertised: ProducerAdvertisement) -> str:
    """Return the id under which other nodes are told of a client's advertisement."""
    return _client_offer_id(node, session, _kind(node, session, advertised), advertised.name)


def own_offers(node: Node) -> dict[str, OwnOffer]:
    """Return the offers of clients here, and of the domain for them, by id."""
    offers: dict[str, OwnOffer] = {}
    for entry in node.ensemble.listed(node.name):
        for advertised in entry.advertises:
            if advertised.scope != "local":
                id = f"{_part(node.name)}/{_part(entry.name)}/domain/{_part(advertised.name)}"
                policy = filter_policies.policy_of_advertisement(node, entry.name, advertised.filter, advertised.policy)
                offers[id] = _own(node, id, replace(advertised, policy=policy), entry.publish, None)
        for given in node.ensemble.statements.of(entry.name, Message.ADVERTISEMENT):
            offers.update(_given(node, given, entry.name, entry.publish))
    for session in node.sessions.values():
        for advertised in session.declared.advertisements.values():
            if advertised.scope != "local":
                id = offer_id_of(node, session, advertised)
                offers[id] = _of_client(node, id, advertised, session)
    return offers


def _of_client(node: Node, id: str, advertised: ProducerAdvertisement, session: Session) -> OwnOffer:
    about = (session.place.entity, advertised.filter, advertised.policy)
    policy = filter_policies.policy_of_advertisement(node, *about)
    return _own(node, id, replace(advertised, policy=policy), session.place.publish_type, session)


def _own(node: Node, id: str, advertised: ProducerAdvertisement, source: str, session: Session | None) -> OwnOffer:
    condition = advertised.condition
    where = condition.text if condition is not None else ""
    offer = Offer(id, advertised.filter, where, (node.name,), is_global=advertised.scope == "global")
    return OwnOffer(offer, source, condition, advertised.policy, session)


def _given(node: Node, given: AssignedPolicy, client: str, source: str) -> dict[str, OwnOffer]:
    """Return the domain's advertisements for a client, or for the node itself, that have a policy."""
    name = sha256(f"{given.name} {given.filter} {given.condition and given.condition.text}".encode()).hexdigest()[:16]
    id = f"{_part(node.name)}/{_part(client)}/policy/{name}"
    advertised = ProducerAdvertisement(name, given.filter, given.condition, policy=given.policy)
    return {id: _own(node, id, advertised, source, None)}


def known_ids(node: Node) -> Iterator[str]:
    """Return the ids of all offers that are known here; some may come twice."""
    yield from node.federation.own_offers
    for session in node.federation.neighbours.values():
        yield from session.federation.offers


def told_classes(node: Node) -> frozenset[str]:
    """Return the classes of events for which advertisements count on some link of the ensemble."""
    forward = (class_ for connection in node.ensemble.connections for class_ in connection.forward)
    return frozenset(filter for filter, mode in forward if mode in ("advertised", "routed"))


def best_offer(node: Node, neighbour: Session, id: str, classes: frozenset[str]) -> Offer | None:
    """Return the offer told to a neighbour under this id: the one that came the shortest way; None if none is told."""
    link_type, name = neighbour.place.notify_type, neighbour.neighbour
    known = (offered for offered in _known(node, id) if node.table.allows(offered.source, link_type))
    candidates = (offered for offered in known if name not in offered.offer.path)
    best = min(candidates, key=lambda candidate: (len(candidate.offer.path), candidate.offer.path), default=None)
    if best is None:
        return None
    offer = best.offer
    is_told = offer.is_global or any(filter == "#" or overlaps(filter, offer.filter) for filter in classes)
    if best.policy is None:
        return offer if is_told else None
    judged = filter_policies.forward_advertisement(node, best, neighbour)
    if judged is None or not (is_told or judged.is_flooded or judged.policy):
        return None
    where = judged.condition.text if judged.condition is not None else ""
    return Offer(id, offer.filter, where, offer.path, judged.policy, offer.is_global)


def way_to(node: Node, id: str) -> Session | None:
    """Return the neighbour by which to go for an offer: links that are up first, then the shortest way."""
    knowing = (session for session in node.federation.neighbours.values() if id in session.federation.offers)

    def rank(session: Session) -> tuple[bool, int, str]:
        return session.outlet is None, len(session.federation.offers[id].offer.path), session.client_id

    return min(knowing, key=rank, default=None)


def _known(node: Node, id: str) -> Iterator[OwnOffer]:
    own = node.federation.own_offers.get(id)
    if own is not None:
        yield own
    for session in node.federation.neighbours.values():
        if id in session.federation.offers:
            offer, condition, policy = session.federation.offers[id]
            if node.name not in offer.path:
                forwarded = Offer(id, offer.filter, offer.where, (*offer.path, node.name), is_global=offer.is_global)
                yield OwnOffer(forwarded, session.place.publish_type, condition, policy, session)


def _client_offer_id(node: Node, session: Session, kind: str, name: str) -> str:
    """Several sessions may be of one entity, and each has names of its own."""
    return f"{owner(node.name, session.client_id)}/{kind}/{_part(name)}"


def _kind(node: Node, session: Session, advertised: ProducerAdvertisement) -> str:
    judges_others = node.ensemble.statements.may_judge_others(session.place.entity, advertised.filter)
    return OTHERS if judges_others else CLIENT
