"""Other nodes as readers: what nobody beyond a link may ever read does not cross the link.

Who may be beyond a link is in the domain, whether connected now or not: so nothing has to be sent again when somebody
comes, and a window that opens there finds what it shows. Only a reload may let more cross. Where it is not known what
somebody sees there (statements, contracts, and monitors that look at content), messages go there as they are.
"""

from collections.abc import Iterator

from penstock.domain.compile.ensemble import Ensemble
from penstock.engine.federation.wants import NODE_PREFIX
from penstock.engine.node import Node
from penstock.engine.sessions.session import Session
from penstock.engine.sparkplug.messages import actor_of, make_actor
from penstock.engine.sparkplug.state import CERTIFICATES, Actor, ReadersBeyond, governed
from penstock.model.errors import ContentError
from penstock.model.event import Event
from penstock.model.sparkplug.message import parse
from penstock.model.sparkplug.topic import NAMESPACE, birth_topic
from penstock.model.subject import Subject
from penstock.model.topic import overlaps
from penstock.policy.contracts.contract_set import Contracts
from penstock.policy.sparkplug.policies import Access

CERTIFICATE_FILTER = f"{CERTIFICATES}#"
FILTERS = (f"{NAMESPACE}/#", CERTIFICATE_FILTER)


def reader_of(node: Node, session: Session) -> Actor | None:
    """Return the session as a reader; None for a node to which everything goes as it is."""
    place = session.place
    if place.actor is not None or session.neighbour not in node.ensemble.nodes or node.sparkplug is None:
        return place.actor or actor_of(node, session)
    if place.beyond is None:
        place.beyond = _make(node, session.neighbour)
    return None if place.beyond.is_unknown else place.beyond


def _make(node: Node, neighbour: str) -> ReadersBeyond:
    whole, sparkplug = node.ensemble, node.sparkplug
    assert sparkplug is not None
    access = sparkplug.access
    is_tree = whole.is_only_way(node.name, neighbour)
    places = tuple(whole.beyond(node.name, neighbour)) if is_tree else whole.nodes
    if _is_looked_at(whole, places):
        return ReadersBeyond(neighbour, access, None)
    made = ReadersBeyond(neighbour, access, (names for place in places for names in _readers_at(whole, access, place)))
    for source in sparkplug.plant.sources():
        if source.device:
            made.grants(access, birth_topic(source), "read")
    return made


def _is_looked_at(whole: Ensemble, places: tuple[str, ...]) -> bool:
    """Return whether somebody may look at what messages say there beside their readers."""
    statements, contracts = whole.statements, whole.contracts
    filters = [*(assigned.filter for assigned in statements.given), *(() if contracts is None else _of(contracts))]
    is_governed = any(overlaps(wide, filter) for wide in FILTERS for filter in filters)
    is_brought = bool(statements.grants) or (contracts is not None and bool(contracts.bring))
    return is_governed or is_brought or whole.reads_content(places, FILTERS)


def _of(contracts: Contracts) -> Iterator[str]:
    yield from (entry.filter for entries in (contracts.producers, contracts.collecting) for entry in entries)
    yield from (policy.filter for policy in contracts.privacy)
    yield from (want.filter for contract in contracts.consumers for want in contract.wants if want.asks)
    ends = (end for situation in contracts.situations for end in (situation.opens, situation.closes))
    yield from (end.filter for end in ends if end is not None)


def _readers_at(whole: Ensemble, access: Access, place: str) -> Iterator[frozenset[str]]:
    """Yield what policies may call each who may be at a node.

    Of who may choose a name, one with just this name stands for all that have it: whoever has more names may see no
    more than these see one by one, as exceptions of all policies that apply count.
    """
    subjects = access.subjects()
    ids = [name.removeprefix("client:") for name in subjects if name.startswith("client:")]
    users = [frozenset({name}) for name in subjects if name.startswith("user:")]
    for match in whole.matches(place):
        entry = match.entry
        shown = Subject(match.client_id or entry.name, match.user)
        yield frozenset(make_actor(shown, entry, entry.name).ids) & subjects
        if match.client_id is None:
            yield from (frozenset({f"client:{id}"}) for id in ids if whole.may_have_id(entry.name, id))
        if match.user is None:
            yield from users
    if whole.admits_unlisted(place):
        yield frozenset()
        yield from (frozenset({f"client:{id}"}) for id in ids if whole.may_have_id("", id))
        yield from users
    for name in whole.foreign:
        if (place, name) in whole.links:
            yield frozenset({f"client:{name}", f"client:{NODE_PREFIX}{name}"}) & subjects


def renew(node: Node, session: Session) -> None:
    """Renew who is beyond a node; what has been withheld from it stays so until it may go there."""
    before, session.place.beyond = session.place.beyond, None
    if before is None or node.sparkplug is None or session.neighbour not in node.ensemble.nodes:
        return
    session.place.beyond = made = _make(node, session.neighbour)
    made.reader, made.before = before.reader, before


def has_more(node: Node, session: Session) -> bool:
    """Return whether more of the birth certificates may go to a node than by the domain as it was, asked once."""
    made = session.place.beyond
    before = None if made is None else made.before
    if made is None or before is None or before.is_unknown:
        return False
    made.before = None
    return any(_is_wider(made, before, event) for _, event in node.retained.match(CERTIFICATE_FILTER))


def _is_wider(made: ReadersBeyond, before: ReadersBeyond, certificate: Event) -> bool:
    topic = governed(certificate.topic)
    try:
        now, then = (_shown(readers, topic, certificate.payload) for readers in (made, before))
    except ContentError:
        return False
    return now is not None and (then is None or not now <= then)


def _shown(readers: ReadersBeyond, topic: str, payload: bytes) -> set[str] | None:
    """Return the metrics of a birth that go there; None if it does not."""
    names = {metric.name for metric in parse(payload).metrics if metric.name is not None}
    if readers.is_unknown:
        return names
    granted = readers.grants(readers.access, topic, "read").decide(())
    return None if granted is None else {name for name in names if name not in granted.exceptions}
