"""GroupSecrets groups: who is a member, and for how long that counts.

A session has proven groups (`session.proven`) by an exchange with the node (`engine/trust/group_proofs.py`); for some
clients the domain vouches. No I/O, no clock, no randomness: time and nonces come in.
"""

from collections.abc import Collection

from penstock.engine.node import Node
from penstock.engine.sessions.session import NEVER, Session
from penstock.engine.trust import publication_proofs
from penstock.engine.trust.state import NO_GROUPS, GroupSecrets
from penstock.model.event import Event
from penstock.model.group_proof import MIN_SECONDS


def is_member(node: Node, session: Session, group: str, now: float, sent: Event | None = None) -> bool:
    """Return True if a session's client or neighbour is known to be in a trust group; `sent`: as the sender of this."""
    known = node.ensemble.trust_groups.get(group)
    if known is None:
        return False
    due = session.trust.proven.get(group, 0.0)
    if sent is None or known.expiry or due == NEVER:  # a replayed journal has the answer of then
        if now < due:
            return True
    elif not publication_proofs.why_unproven(node, sent, group):
        return True
    entry = session.place.entry
    return session.neighbour is None and entry is not None and entry.listed and entry.name in known.clients


def shared(node: Node, neighbour: str) -> dict[str, bytes]:
    """Return the groups that the domain has both this node and a neighbour in, with their secrets."""
    with_both = {name for name, group in node.ensemble.trust_groups.items() if neighbour in group.nodes}
    return {group: secret for group, secret in node.trust.groups.secrets.items() if group in with_both}


def until(node: Node, group: str, now: float) -> float:
    """Return how long a proof made now counts; no time at all if the group is gone."""
    known = node.ensemble.trust_groups.get(group)
    return now + (known.expiry or MIN_SECONDS) if known is not None else now


def set_proven(node: Node, session: Session, proven: dict[str, float]) -> bool:
    """Take what a session has proven in place of what it had; whether something is lost by it."""
    before, session.trust.proven = session.trust.proven, proven
    if not session.trust.bound.issuperset(proven):
        session.trust.bound |= proven.keys()
        if session.connection.is_stored:
            node.ledger.session(session)
    if session.neighbour is not None and before.keys() != proven.keys():
        node.federation.news.everything()
    return not before.keys() <= proven.keys()


def may_resume(session: Session, proven: Collection[str]) -> bool:
    """Return True if somebody who has proven these groups may have what waits in a session.

    A client id is no secret: what was queued for a member must not reach who only has the member's name.
    """
    if session.trust.bound.issubset(proven):
        return True
    if session.outbox.inflight or session.outbox.queue or session.replays:
        return False
    session.trust.bound = NO_GROUPS
    return True


def hold(node: Node, held: GroupSecrets, now: float) -> list[Session]:
    """Hold these secrets and no others; proofs of others no longer count. The sessions that lose something by it."""
    before, node.trust.groups = node.trust.groups.secrets, held
    same = {group for group, secret in held.secrets.items() if before.get(group) == secret}
    is_lost = not before.keys() <= same
    sessions = list[Session]()
    for session in node.sessions.values():
        if is_lost and (session.outbox.queue or session.outbox.inflight):
            sessions.append(session)  # what waits may have proven itself by a secret of before
        if session.trust.proven:
            left = ((group, due) for group, due in session.trust.proven.items() if group in same)
            kept = {group: min(due, until(node, group, now)) for group, due in left}
            if set_proven(node, session, kept):
                sessions.append(session)
    return sessions


def expire(node: Node, now: float) -> None:
    """Forget proofs of neighbours whose time is over. Clients' need no attention: `is_member` looks at the time."""
    for session in node.federation.neighbours.values():
        if any(due <= now for due in session.trust.proven.values()):
            set_proven(node, session, {group: due for group, due in session.trust.proven.items() if due > now})
