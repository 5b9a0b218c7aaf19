"""Tokens between nodes: what travels with events, and what is accepted of it (trust §II-B).

A neighbour is told a token once on a connection and then its digest. For a topic whose events come with one token the
digest is said once too (`bind`), so that packets are passed on as they are; otherwise each event has it as a user
property. Two neighbours also give each other tokens to subscribe with, and show them.
"""

from typing import cast

import msgspec

from penstock.engine.events import link_plans, user_properties
from penstock.engine.events.plan import Plans
from penstock.engine.node import Node
from penstock.engine.sessions.session import NEVER, Session
from penstock.engine.trust import announcements, evidence
from penstock.engine.trust.announcements import Announcement, PathUpdate, deny, verify
from penstock.engine.trust.outgoing_tokens import MAX_BOUND_TOPICS
from penstock.engine.trust.state import Ratings, TokenLink
from penstock.engine.trust.tokens import TokenHandling
from penstock.model.errors import UNREADABLE, PolicyError, TopicError
from penstock.model.topic import check_topic
from penstock.model.verdict import Effect, Verdict
from penstock.policy.tokens.errors import TokenError
from penstock.policy.tokens.errors import TokenFault as Wrong
from penstock.policy.tokens.token import Party, Token
from penstock.policy.tokens.verification import Verified
from penstock.policy.trust.vectors import TrustTable, Update, Walk
from penstock.wire.errors import WireError
from penstock.wire.properties import Properties
from penstock.wire.reason import Reason

REGISTER_SECONDS = 10.0
"""The time that a neighbour may take to show the token that it was given to subscribe with."""
MAX_ANNOUNCED = 20_000
"""Tokens that a neighbour may tell on a connection."""
DIGEST_LETTERS = 64
_NOT_TOLD = "not told"
"""In place of the digest of a token that a neighbour names and has not told."""
_LATER = {Wrong.NOT_YET_VALID, Wrong.KEY_NOT_IN_USE}
"""Reasons to refuse a token that pass with time."""
_BLAMELESS = {Wrong.EXPIRED, Wrong.REVOKED, Wrong.UNKNOWN_KEY, Wrong.WRONG_AUDIENCE, *_LATER}
"""Those for which who sends it on is not to blame: it may not have known, or it counts there."""
LATER_SECONDS = 1.0
MAX_REFUSED = 1_000
"""Tokens of a connection that are refused and may count later."""
MAX_SUMS = 5_000
"""Sums of paths that are told in one turn, about 10 ms; the rest waits for `trust.interval`."""


# --- the connection


def begin(node: Node, session: Session, now: float) -> None:
    """Reset a link that comes up: nothing has been told on it yet."""
    link = session.trust.tokens
    if link is None:
        return
    link.begin(now + REGISTER_SECONDS)
    node.plans.forget_all()
    _register(node, session, now)
    if node.trust.ratings is not None:
        node.trust.ratings.lost(session.neighbour or "")


def end(node: Node, session: Session) -> None:
    """Reset a link that is down."""
    if session.trust.tokens is not None:
        session.trust.tokens.begin(NEVER)
        node.plans.forget_all()
        if node.trust.ratings is not None:
            node.trust.ratings.lost(session.neighbour or "")


def renew(node: Node, now: float) -> None:
    """Renew the node's own token and those of its neighbours in time, and forget what no longer counts."""
    tokens = node.trust.tokens
    if tokens is None:
        return
    tokens.time_passed(now)
    if now >= tokens.own_due:
        node.ledger.token(tokens.renew_own(now))
        for digest in tokens.drop_ended(_used(node)):
            node.ledger.token_gone(digest)
        node.plans.forget_all()
        for session in node.federation.neighbours.values():
            if session.trust.tokens is not None and session.outlet is not None:
                session.trust.tokens.sent &= tokens.known.keys()
                _register(node, session, now)


def tick(node: Node, now: float) -> None:
    """Time has passed: renew tokens, and part from who does not register."""
    renew(node, now)
    for session in node.federation.neighbours.values():
        link = session.trust.tokens
        if link is None:
            continue
        if now >= link.until:
            link_plans.forget_link(node, session)
        if session.outlet is not None and now > link.registered:
            node.notice("not registered", session, "", "the neighbour does not show the token that it was given")
            session.outlet.disconnect(Reason.NOT_AUTHORIZED, "the token that was given has not been shown")
        elif session.outlet is not None and not link.is_registered:
            _register(node, session, now)  # it may not have had the new domain, or the key to verify it
    if node.trust.ratings is not None and node.trust.ratings.settings.half_life is not None:
        node.trust.ratings.is_stale = True


def _used(node: Node) -> set[str]:
    """Return the tokens of what is kept: retained, or waiting for a session."""
    kept = (node.retained.get(topic) for topic in node.retained)
    digests = {event.token for event in kept if event is not None}
    for session in node.sessions.values():
        waiting = (*session.outbox.inflight.values(), *(session.outbox.queue or ()))
        digests.update(delivery.event.token for delivery in waiting)
    return digests


def turn(node: Node, now: float) -> None:
    """Work out ratings if something is new, and tell neighbours what has changed in the paths that end here."""
    known = node.trust.ratings
    assert known is not None
    if known.is_stale:
        names = node.federation.rated
        connected = {name for name in names if node.federation.neighbours[name].outlet is not None}
        if known.refresh(names, connected, now):
            for name in names:
                link_plans.forget_link(node, node.federation.neighbours[name])
    if known.is_changed and now >= known.due:
        known.due = now + known.settings.interval
        known.is_changed = known.table is not None and _tell_paths(node, known.table)


def _tell_paths(node: Node, table: TrustTable) -> bool:
    """Tell neighbours of paths, in as many messages as it takes; True if the rest must wait until the next time."""
    left, is_more = MAX_SUMS, False
    for name, session in node.federation.neighbours.items():
        if session.trust.tokens is None or session.outlet is None:
            continue
        while left > 0 and (update := table.update_for(name, announcements.room(session))) is not None:
            left -= len(update.sums)
            sums = tuple((walk.origin, walk.edges, total) for walk, total in update.sums.items())
            vector = PathUpdate(update.number, update.is_whole, sums)
            announcements.tell(node, session, Announcement(vector=vector))
        is_more |= left <= 0
    return is_more


# --- registration


def _register(node: Node, session: Session, now: float) -> None:
    """Give the neighbour a token to subscribe with."""
    assert node.trust.tokens is not None
    filters = node.trust.tokens.settings.shared(node.name, session.neighbour or "")
    token = node.trust.tokens.issue(Party("node", session.neighbour or ""), frozenset(), filters, now)
    announcements.tell(node, session, Announcement(gives=token.text.decode()))


def _given(node: Node, session: Session, text: str, now: float) -> None:
    """Keep and show the token with which a neighbour has registered this node."""
    verified = verify(node, text.encode(), now)
    name = session.neighbour or ""
    if isinstance(verified, TokenError):
        deny(node, session, f"what `{name}` gives to subscribe with: {verified}")
        return
    claims = verified.token.claims
    if claims.issuer != name or claims.subject != Party("node", node.name):
        deny(node, session, f"what `{name}` gives is `{claims.issuer}`'s for `{claims.subject}`")
        return
    assert node.trust.tokens is not None
    # With the node's own signature: knowing the link's secret is not enough to register.
    announcements.tell(node, session, Announcement(shows=node.trust.tokens.signed(verified.token).text.decode()))


def _shown(node: Node, session: Session, link: TokenLink, text: bytes, now: float) -> None:
    """Check the token that a neighbour shows: from now on events go to it."""
    verified = verify(node, text, now)
    name = session.neighbour or ""
    if isinstance(verified, TokenError):
        why = str(verified)
    elif verified.token.claims.issuer != node.name or verified.token.claims.subject != Party("node", name):
        why = f"it is `{verified.token.claims.issuer}`'s for `{verified.token.claims.subject}`"
    elif name not in verified.signers:
        why = f"`{name}` has not signed it"
    else:
        link.registered = verified.end
        if not link.is_registered:
            link.is_registered = True
            node.plans.forget_all()
            node.sessions.go_on(session)
        return
    deny(node, session, f"what `{name}` shows to subscribe with: {why}")


# --- incoming


def plans_for(node: Node, session: Session, digest: str, now: float) -> Plans:
    """Return the plans for what comes from a neighbour with the token of that digest."""
    link, base = session.trust.tokens, link_plans.plans_of(node, session)
    assert link is not None
    known = link.plans.get(digest)
    if known is not None and known[0] is base and now < link.until:
        return known[1]
    decided = passing(node, session, digest, now)
    plans = link_plans.plans_with(node, base, decided)
    link.plans[decided.came] = base, plans
    return plans


def passing(node: Node, session: Session, digest: str, now: float) -> TokenHandling:
    """Return the handling of a neighbour's events with the token of that digest."""
    link = session.trust.tokens
    assert link is not None
    if now >= link.until:
        link_plans.forget_link(node, session)
    handling = link.passings.get(digest)
    if handling is None:
        handling = judge(node, session, link, digest, now)
        link.passings[handling.came] = handling
        link.until = min(link.until, handling.until)
    return handling


def judge(node: Node, session: Session, link: TokenLink, digest: str, now: float) -> TokenHandling:
    """Verify, rate, accept or refuse, and sign (§II-B, 1 to 4)."""
    assert node.trust.tokens is not None
    name = session.neighbour or ""
    if not digest:
        return _refused(digest, "token", f"no token came with it from `{name}`")
    heard = link.heard.get(digest)
    if isinstance(heard, Verified) and not heard.counts(now):
        heard = link.heard[digest] = verify(node, heard.token.text, now)
    if heard is None:
        # Not kept by its digest: a sender could invent any number of digests.
        return _refused(_NOT_TOLD, "token", f"`{name}` names a token that it has not told")
    if isinstance(heard, TokenError) and digest in link.refused and heard.reason in _LATER:
        heard = link.heard[digest] = verify(node, link.refused[digest], now)
    if isinstance(heard, TokenError):
        refused = _refused(digest, "token", f"the token that came with it from `{name}`: {heard}")
        return refused._replace(until=now + LATER_SECONDS) if heard.reason in _LATER else refused
    handling, goes = weigh(node, name, heard)
    if goes is not None and node.trust.tokens.keep(goes):
        node.ledger.token(goes)
    return handling


def weigh(node: Node, name: str, heard: Verified) -> tuple[TokenHandling, Token | None]:
    """Return the handling of events with a token that a neighbour announces, and the token that they go on with."""
    assert node.trust.tokens is not None
    token, reason, goes = heard.token, "", heard.token
    beyond = node.ensemble.beyond(node.name, name)
    if token.claims.issuer not in beyond:
        why = f"the token that came with it from `{name}` is of `{token.claims.issuer}`, which is not beyond `{name}`"
        return _refused(token.digest, "token", f"{why}: it has been told there, and comes back"), None
    if node.trust.ratings is not None:
        ruled = node.trust.ratings.rule(name, heard.signers.intersection(beyond), beyond[token.claims.issuer])
        reason = ruled.ruling.reason
        if not ruled.ruling.accepts:
            return _refused(token.digest, "trust", reason)._replace(until=heard.end), None
        goes = node.trust.tokens.signed(token) if ruled.signs else token
    return TokenHandling(token.digest, goes.digest, token.claims.publish, None, reason, heard.end), goes


def _refused(digest: str, rule: str, reason: str) -> TokenHandling:
    return TokenHandling(digest, refusal=Verdict("admit", Effect.SUPPRESS, rule, reason))


def receive(node: Node, session: Session, payload: bytes, now: float) -> Verdict | None:
    """Take a neighbour's announcement; raise `WireError` for an impossible one. Return why a token is refused."""
    link, refusal = session.trust.tokens, None
    if link is None:
        return None  # it has tokens and this node has not: their domains differ for a moment
    try:
        announcement = msgspec.json.decode(payload, type=Announcement)
    except UNREADABLE as error:
        raise WireError(Reason.PROTOCOL_ERROR, f"tokens of node `{session.neighbour}`: {error}") from None
    if announcement.token:
        refusal = _hear(node, session, link, announcement.token.encode(), now)
    if announcement.bind is not None:
        _bound(session, link, *announcement.bind)
    if announcement.gives:
        _given(node, session, announcement.gives, now)
    if announcement.shows:
        _shown(node, session, link, announcement.shows.encode(), now)
    ratings = node.trust.ratings
    if ratings is not None and ratings.table is not None:
        if announcement.again:
            ratings.table.resend_whole(session.neighbour or "")
            ratings.is_changed = True
        if announcement.vector is not None:
            _hear_vector(node, session, ratings, ratings.table, announcement.vector)
    return refusal


def _bound(session: Session, link: TokenLink, topic: str, digest: str) -> None:
    try:
        check_topic(topic)
    except TopicError as error:
        raise WireError(Reason.PROTOCOL_ERROR, f"tokens of node `{session.neighbour}`: {error}") from None
    if len(digest) != DIGEST_LETTERS:
        raise WireError(Reason.PROTOCOL_ERROR, f"tokens of node `{session.neighbour}`: `{digest:.80}` is no digest")
    if len(link.bound_in) >= MAX_BOUND_TOPICS and topic not in link.bound_in:
        raise WireError(Reason.QUOTA_EXCEEDED, f"node `{session.neighbour}` binds more than {MAX_BOUND_TOPICS} topics")
    link.bound_in[topic] = digest
    if session.plans is not None:
        session.plans.known.pop(topic.encode(), None)


def _hear(node: Node, session: Session, link: TokenLink, text: bytes, now: float) -> Verdict | None:
    if len(link.heard) >= MAX_ANNOUNCED:
        known = ((digest, entry) for digest, entry in link.heard.items() if isinstance(entry, Verified))
        link.heard = {digest: entry for digest, entry in known if now < entry.end}
    if len(link.heard) >= MAX_ANNOUNCED:
        raise WireError(Reason.QUOTA_EXCEEDED, f"node `{session.neighbour}` tells more than {MAX_ANNOUNCED} tokens")
    verified = verify(node, text, now)
    digest = verified.token.digest if isinstance(verified, Verified) else user_properties.digest_of(text)
    link.heard[digest] = verified
    if not link.passings.keys().isdisjoint((digest, _NOT_TOLD)):  # it may have been named before, or counts only now
        link_plans.forget_link(node, session)
    if isinstance(verified, Verified):
        return None
    if verified.reason in _BLAMELESS and len(link.refused) < MAX_REFUSED:
        link.refused[digest] = text
    deny(node, session, f"from `{session.neighbour}`: {verified}")
    rated = node.trust.ratings
    if rated is not None and verified.reason not in _BLAMELESS and rated.settings.evidence.tokens:
        evidence.observe(node, session.neighbour or "", False, "token", now, is_before=True)
    return Verdict("admit", Effect.SUPPRESS, "token", str(verified))


def _hear_vector(node: Node, session: Session, ratings: Ratings, table: TrustTable, update: PathUpdate) -> None:
    name = session.neighbour or ""
    beyond, links = node.ensemble.beyond(node.name, name), node.ensemble.links
    sums = {Walk(origin, edges): total for origin, edges, total in update.sums}
    # Ignore nodes that are not beyond the neighbour, and links that the domain does not have.
    walks = (walk for walk in sums if walk.edges != 1 or (walk.origin, name) in links)
    believed = {walk: sums[walk] for walk in walks if walk.origin in beyond}
    try:
        table.check(name, Update(update.number, update.is_whole, sums))
        taken = ratings.heard(table, name, Update(update.number, update.is_whole, believed))
    except PolicyError as error:
        raise WireError(Reason.PROTOCOL_ERROR, f"ratings of node `{session.neighbour}`: {error}") from None
    if not taken:
        announcements.tell(node, session, Announcement(again=True))


def came_with(session: Session, topic: str, properties: Properties) -> str:
    """Return the digest of the token that an event from a neighbour has; empty if none."""
    for name, value in properties.user_properties:
        if name == user_properties.TOKEN:
            return value
    return cast(TokenLink, session.trust.tokens).bound_in.get(topic, "")
