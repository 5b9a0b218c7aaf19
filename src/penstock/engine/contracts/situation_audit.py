"""Break-the-glass is audited: each opening and end of a situation is told and kept, with who got what because of it."""

from collections import Counter
from collections.abc import Iterable

import msgspec

from penstock.engine.events import user_properties
from penstock.engine.ledger import Persisted
from penstock.engine.node import Node
from penstock.engine.sessions.session import Session
from penstock.model.errors import ContentError
from penstock.model.event import Event
from penstock.policy.contracts.release import RELEASED, read_marks
from penstock.policy.contracts.situation import OpenSituations, SituationChange, SituationNotice

OPENED, ENDED, REFUSED = "situation opened", "situation ended", "situation refused"
"""Kinds of notices that are never left out; what is prolonged, or refused to a client, is told as `situation`."""
COLLECTION = "situations"
"""Of the persisted messages of a store: all that has opened and ended."""
MAX_CLIENTS = 1_000
"""Clients of which it is counted what they got; others are counted together."""
_OTHERS = "others"
_KINDS = {SituationChange.OPENED: OPENED, SituationChange.CLOSED: ENDED, SituationChange.EXPIRED: ENDED}


class SituationRecord(msgspec.Struct, frozen=True):
    """The recorded part of an opening or an end."""

    situation: str
    change: str
    by: str
    at: float
    node: str
    released: dict[str, int]


def tell(node: Node, sender: Session | None, topic: str, notices: Iterable[SituationNotice], now: float) -> None:
    """Tell of what has changed, and keep what has opened or ended."""
    state = node.contracts
    assert state is not None
    for notice in notices:
        by = f" by `{notice.by}`" if notice.by else ""
        reason = f"`{notice.situation}` {notice.change}{by} {notice.reason}".rstrip()
        kind = _KINDS.get(notice.change, "situation")
        if kind != "situation":
            counted = state.counted.pop(notice.situation, Counter())
            if kind == ENDED:
                counts = ", ".join(f"`{client}` {count}" for client, count in counted.most_common())
                reason += f"; events released here because of it: {counts or 'none'}"
            kept = SituationRecord(notice.situation, notice.change, notice.by, notice.at, node.name, dict(counted))
            row = Persisted(now, COLLECTION, f"situation {notice.situation}", topic, msgspec.json.encode(kept))
            node.ledger.persist(row, node.limits.persisted_messages)
        node.notice(kind, sender, topic, reason)


def heard(node: Node, sender: Session, name: str, before: OpenSituations, now: float) -> None:
    """Record an opening or an end that the source's node announced."""
    assert node.contracts is not None
    after = node.contracts.open
    if (name in before) == (name in after):
        return
    change, by = (SituationChange.OPENED, after[name].by) if name in after else (SituationChange.CLOSED, "")
    notice = SituationNotice(name, change, by, now, f"as node `{sender.neighbour}` tells")
    tell(node, sender, "", [notice], now)


def refused(node: Node, sender: Session | None, name: str, why: str) -> None:
    """Record that a node's announcement of a situation does not count here, if there is a reason."""
    if why:
        source = "as the store has it" if sender is None else f"as node `{sender.neighbour}` tells it"
        node.notice(REFUSED, sender, "", f"`{name:.80}` {source}: {why:.200}")


def count(node: Node, session: Session, event: Event) -> None:
    """Count an event that goes to a client, by the rules that released it."""
    state = node.contracts
    if state is None or not state.open:
        return
    texts = user_properties.told(event, RELEASED)
    try:
        situations = {name for text in texts for mark in read_marks(text) for name in mark.during}
    except ContentError:
        return  # it is not released by that
    for name in situations:
        counted = state.counted.setdefault(name, Counter())
        is_known = session.place.entity in counted or len(counted) < MAX_CLIENTS
        counted[session.place.entity if is_known else _OTHERS] += 1
