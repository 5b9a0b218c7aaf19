"""Stage 1, admit: may this subject publish here?"""

from typing import NamedTuple

from penstock.engine.events import publishers
from penstock.engine.events.passage import Delivery
from penstock.engine.federation.wants import neighbour_in
from penstock.engine.sparkplug import births
from penstock.engine.sparkplug.state import governed
from penstock.engine.stages.draft import Draft
from penstock.model.sparkplug.topic import is_birth
from penstock.model.subject import Subject
from penstock.model.topic import matches
from penstock.model.verdict import Effect, Verdict
from penstock.policy.access.passwords import Passwords
from penstock.policy.tokens.rights import TokenRights
from penstock.wire.packet import Connect

RESERVED = ("$SYS/", "$CONTROL/", "$share/", "$queue/", "$penstock/", "$sparkplug/")
"""Topics that only the node itself publishes to, and those above them: `$SYS/#` matches `$SYS` too."""
_BETWEEN_NODES = ("$sparkplug/certificates/", "$penstock/meta/", "$penstock/situation/", "$penstock/consumer/")
"""Those of them that nodes tell each other about."""


class Door(NamedTuple):
    """The properties of a connection that the listener knows before its client sends anything."""

    address: str
    listener: str
    anonymous: bool
    certificate_user: str | None = None
    """The name in a verified client certificate, where the listener takes it as identity."""
    is_local: bool = False
    """Anonymous clients may connect because the listener is on loopback: the domain does not say so."""


def authenticate(connect: Connect, door: Door, passwords: Passwords | None) -> Subject | str:
    """Return the subject behind a CONNECT, or why there is none."""
    user = connect.username
    if door.certificate_user is not None:
        return Subject(connect.client_id, door.certificate_user, door.address, door.listener, door.certificate_user)
    if user is None:
        if door.anonymous:
            return Subject(connect.client_id, None, door.address, door.listener)
        return "anonymous access is not allowed on this listener"
    if passwords is None:
        if door.anonymous:
            return Subject(connect.client_id, user, door.address, door.listener)
        return "no password file is configured"
    if connect.password is None or not passwords.check(user, connect.password):
        return f"user `{user}`: unknown user or wrong password"
    return Subject(connect.client_id, user, door.address, door.listener)


def is_known(subject: Subject, passwords: Passwords | None, unchecked: str = "") -> bool:
    """Return True if a subject authenticated earlier is still a user; `unchecked`: why unverifiable names are
    refused.
    """
    if subject.user is None or subject.certificate is not None:
        return True
    return not unchecked if passwords is None else subject.user in passwords.hashes


def plan(draft: Draft) -> None:
    """Decide by topic and rights."""
    if draft.waits is not None:
        draft.for_each_delivery(ask_again)
        return
    topic, rights = draft.topic, draft.link.rights
    if draft.link.is_admitted:
        return
    if draft.node.sparkplug is not None and is_birth(topic) and not _is_node(draft):
        draft.for_each_event(births.begin)
    token = draft.link.token if draft.link.neighbour else None
    # A certificate has the token of the birth that it was made of.
    refused = token.judge(governed(topic) or topic) if token is not None else None
    if refused is not None:
        draft.suppress(refused)
        return
    taken = draft.node.ensemble.taken.get(draft.link.neighbour or "")
    if f"{topic}/".startswith(RESERVED) and not (topic.startswith(_BETWEEN_NODES) and _is_node(draft)):
        draft.suppress(Verdict("admit", Effect.SUPPRESS, "reserved", f"topic `{topic}` is reserved for the node"))
    elif rights is not None and not rights.may_write(topic):
        by_token = isinstance(rights, TokenRights) and not rights.publishes(topic)
        draft.suppress(Verdict("admit", Effect.SUPPRESS, "token" if by_token else "acl", rights.why_write(topic)))
    elif taken is not None and not any(matches(filter, topic) for filter in taken):
        reason = f"`in` of foreign broker `{draft.link.neighbour}` does not list `{topic}`"
        draft.suppress(Verdict("admit", Effect.SUPPRESS, "foreign", reason))


def ask_again(delivery: Delivery) -> Verdict | None:
    """Ask whether the publisher of an event that has waited still has a place and the right to its topic, also at
    another node, and whether the token that it was published with counts.

    Of what monitors have made, the right to the topic that they made it of is asked; where that is not told, it counts
    as lost once the access list has changed.
    """
    passage, event = delivery.passage, delivery.event
    node = passage.node
    if node.trust.tokens is not None and node.trust.tokens.is_revoked(event.token):
        return _NO_LONGER
    publisher = publishers.publisher_of(node, event)
    if publisher is None:
        return None  # a node's own
    if publishers.entry_of(node, publisher) is None:
        return _NO_LONGER
    topic, rights = publishers.cause_of(event) or event.topic, publishers.rights_of(node, publisher)
    if topic.startswith(publishers.HIDDEN):
        return None if rights is None or publishers.is_same_list(node, topic, publisher) else _NO_LONGER
    taken = node.ensemble.taken.get(neighbour_in(publisher.client_id) or "")
    if taken is not None and not any(matches(filter, topic) for filter in taken):
        return _NO_LONGER
    return _NO_LONGER if rights is not None and not rights.may_write(topic) else None


_NO_LONGER = Verdict("admit", Effect.SUPPRESS, "acl")


def _is_node(draft: Draft) -> bool:
    return draft.link.neighbour in draft.node.ensemble.nodes
