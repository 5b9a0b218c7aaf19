"""A session from CONNECT to its end: authentication, take-over, resumption, expiry."""

from collections.abc import Iterator, Mapping
from hmac import compare_digest
from typing import NamedTuple

from penstock.engine.contracts import client_contracts, release_recheck, situations
from penstock.engine.events import entrances, publishers, retained, wills
from penstock.engine.federation import overlay, wants
from penstock.engine.mobility import newest, search
from penstock.engine.mobility.state import Search
from penstock.engine.node import Node
from penstock.engine.sessions import advertise, placement, session_flow, session_rights, subscribe
from penstock.engine.sessions import connack as hello
from penstock.engine.sessions.connack import NO_EXPIRY as NO_EXPIRY
from penstock.engine.sessions.refusal import encode_told, wants_reasons
from penstock.engine.sessions.session import NEVER, Outlet, Session
from penstock.engine.sparkplug import births, messages
from penstock.engine.stages.admit import Door, authenticate, is_known
from penstock.engine.stages.runner import read_topic
from penstock.engine.trust import client_tokens, group_proofs, groups, token_exchange
from penstock.engine.trust.state import Showing
from penstock.model.subject import Subject
from penstock.policy.tokens.verification import Verified
from penstock.wire.codec import encode
from penstock.wire.errors import WireError
from penstock.wire.packet import MQTT_311, Auth, Connack, Connect, Disconnect
from penstock.wire.properties import Properties
from penstock.wire.reason import Reason, connack_code_311

TO_NODE = "node"
"""The user property of a DISCONNECT with which a client says to which node it goes."""


class Refusal(NamedTuple):
    """The reason why a CONNECT is refused."""

    reason: Reason
    text: str


class Opened(NamedTuple):
    """A session with a connection, and the keep alive that holds for it."""

    session: Session
    keepalive: int


class Awaited(NamedTuple):
    """A CONNECT that waits for a session of another node."""

    search: Search
    packet: Connect
    door: Door
    proof: group_proofs.Proof | None


def connect(
    node: Node, packet: Connect, door: Door, outlet: Outlet, now: float
) -> Opened | Awaited | group_proofs.Challenged | Refusal:
    """Open or resume the client's session and queue its CONNACK, or say why not; or ask for proofs first."""
    refusal = _check(node, packet)
    if refusal is not None:
        return refusal
    method = packet.properties.auth_method
    if method is None or method == client_tokens.METHOD:
        proof = None if method is None else group_proofs.Proof(Showing(), {}, answer=client_tokens.TOLD)
        return _open(node, packet, door, outlet, now, proof)
    who = _who(node, packet, door, now)
    if isinstance(who, Refusal):
        return who
    try:
        return group_proofs.ask(node, packet)
    except WireError as error:
        return Refusal(error.reason, str(error))


def answered(
    node: Node, challenged: group_proofs.Challenged, packet: Auth, door: Door, outlet: Outlet, now: float
) -> Opened | Awaited | Refusal:
    """Open the session of a client that has answered with what it has proven, or refuse it."""
    try:
        proof = group_proofs.judge(node, challenged.state, packet, now)
    except WireError as error:  # [MQTT-4.12.0-4]
        return Refusal(error.reason, str(error))
    return _open(node, challenged.connect, door, outlet, now, proof)


class Identity(NamedTuple):
    """A client that is known, and the token that it has shown."""

    subject: Subject
    token: Verified | None


def _who(node: Node, packet: Connect, door: Door, now: float) -> Identity | Session | Refusal:
    """Return the client or the neighbour that a CONNECT comes from."""
    if wants.neighbour_in(packet.client_id) is not None:
        return _neighbour(node, packet, door)
    # [MQTT-3.1.4-2]
    text, token = client_tokens.text_of(node, packet), None
    if text is not None:
        shown = client_tokens.look(node, packet, door, text, now)
        if isinstance(shown, str):
            node.stats.tokens_refused += 1
            return Refusal(Reason.NOT_AUTHORIZED, shown)
        subject, token = shown
    elif node.trust.tokens is not None and node.trust.tokens.settings.required:
        # No password is checked here: guesses would not be counted, and the answer would confirm a right one.
        return Refusal(Reason.NOT_AUTHORIZED, "this node asks for an authorisation token, as the password")
    else:
        authenticated = authenticate(packet, door, node.admission.passwords)
        if isinstance(authenticated, str):
            return Refusal(Reason.NOT_AUTHORIZED, authenticated)
        if not is_known(authenticated, node.admission.passwords, node.admission.unchecked):
            return Refusal(Reason.NOT_AUTHORIZED, f"a user name cannot be checked here, and {node.admission.unchecked}")
        subject = authenticated
    if not packet.client_id:  # [MQTT-3.1.3-6]
        subject = subject._replace(client_id=node.runtime.make_id())
    entry = placement.entry_of(node, subject)
    if entry is None:
        return Refusal(Reason.NOT_AUTHORIZED, placement.why_not(node, subject))
    if entry.name in node.capsules.clients:
        capsule = node.capsules.clients[entry.name]
        return Refusal(Reason.NOT_AUTHORIZED, f"client `{entry.name}` is capsule `{capsule}`, which this node runs")
    if token is not None and not client_tokens.is_holder(token, subject, entry):
        node.stats.tokens_refused += 1
        return Refusal(Reason.NOT_AUTHORIZED, client_tokens.not_holder(token, entry))
    return Identity(subject, token)


def found(node: Node, awaited: Awaited, outlet: Outlet, now: float) -> Opened | Refusal:
    """Open the session of a client for which other nodes have been asked."""
    opened = _open(node, awaited.packet, awaited.door, outlet, now, awaited.proof, is_found=True)
    assert not isinstance(opened, Awaited)
    return opened


def _open(
    node: Node,
    packet: Connect,
    door: Door,
    outlet: Outlet,
    now: float,
    proof: group_proofs.Proof | None,
    is_found: bool = False,
) -> Opened | Awaited | Refusal:
    who = _who(node, packet, door, now)  # also after an exchange of proofs: the domain may be another since it began
    if isinstance(who, Refusal):
        return who
    if isinstance(who, Session):
        return _open_neighbour(node, who, packet, outlet, now, proof)
    subject, token = who
    refused = wills.refused(node, packet, subject)
    if refused:
        return Refusal(Reason.NOT_AUTHORIZED, refused)
    if subject.client_id not in node.sessions and len(node.sessions) >= node.limits.sessions:
        return Refusal(Reason.QUOTA_EXCEEDED, f"the node keeps {node.limits.sessions} sessions already")
    entry = placement.entry_of(node, subject)
    if entry is not None and entry.homes:
        proven = proof.proven if proof is not None else {}
        if not is_found:
            looked_for = search.begin(node, subject, entry, packet.clean_start, proven, now)
            if looked_for is not None:
                return Awaited(looked_for, packet, door, proof)
        known = node.sessions.get(subject.client_id)
        if known is not None and newest.is_leaving(known):
            return Refusal(Reason.SERVER_BUSY, "the session is on its way to another node, which cannot be reached")
    assigned = None if packet.client_id else subject.client_id
    # [MQTT-3.1.3-2] [MQTT-3.1.3-7] [MQTT-3.1.4-4]
    session, present = _session(node, packet, subject, proof.proven if proof is not None else {}, now)
    before = session.rights
    client_tokens.attach(node, session, token)
    placement.settle_in(node, session)
    is_roaming = entry is not None and entry.homes
    _attach(node, session, packet, outlet, newest.stamp(node, subject.client_id, now) if is_roaming else now)
    if present and session.rights != before:  # what waits may be more than its token lets it have now
        node.plans.forget_all()
        node.later.begin_anew(session, now)
        session.outbox.begin_revision()
    group_proofs.attach(node, session, proof, now)
    if entry is not None and entry.homes:
        if not present:
            session.outbox.last_id = newest.first_id(node, session.client_id, session.connection.began)
        newest.served(node, session, entry, tuple(sorted(proof.proven)) if proof is not None else ())
    keepalive = hello.keepalive_of(node, packet)
    # [MQTT-3.1.4-5] [MQTT-3.2.0-1] [MQTT-3.2.0-2]
    hello.say(node, session, packet, present, assigned, keepalive, proof)
    if present:
        session_flow.resume(node, session, now)
        entrances.replay(node, session, now)
        messages.ask_windows(node, session, now)
    return Opened(session, keepalive)


def refusal_packet(packet: Connect, refusal: Refusal) -> bytes:
    """Return the CONNACK that refuses."""
    if packet.version == MQTT_311:
        return encode(Connack(False, connack_code_311(refusal.reason)), MQTT_311)
    asked, most = wants_reasons(packet.properties), packet.properties.maximum_packet_size or 0
    return encode_told(Connack(False, refusal.reason), refusal.text, packet.version, asked, most)


def _neighbour(node: Node, packet: Connect, door: Door) -> Session | Refusal:
    """Identify a node that dials: it must be a neighbour, and prove it."""
    name = wants.neighbour_in(packet.client_id)
    session = node.federation.neighbours.get(name or "")
    secret = node.federation.secrets.get(name or "")
    shown = packet.password is not None and secret is not None and compare_digest(packet.password, secret)
    if session is None or packet.version != 5 or not (shown or door.certificate_user == name):
        return Refusal(Reason.NOT_AUTHORIZED, f"`{name}` is not a neighbour of this node, or cannot show that it is")
    return session


def _open_neighbour(
    node: Node, session: Session, packet: Connect, outlet: Outlet, now: float, proof: group_proofs.Proof | None
) -> Opened:
    _join(node, session, packet, outlet, now, proof)
    hello.say(node, session, packet, True, None, packet.keepalive, proof)
    token_exchange.begin(node, session, now)
    session_flow.resume(node, session, now)
    overlay.announce(node, session)
    node.federation.moves.links.append((session.neighbour or "", True))
    entrances.replay(node, session, now)
    return Opened(session, packet.keepalive)


def joined(
    node: Node, session: Session, connack: Connack, outlet: Outlet, now: float, proof: group_proofs.Proof | None = None
) -> None:
    """Open the session of a neighbour that accepted this node's connection; `proof`: of the groups that both are in."""
    answer = connack.properties
    properties = Properties(
        session_expiry=NO_EXPIRY,
        receive_maximum=answer.receive_maximum or overlay.WINDOW,
        maximum_packet_size=answer.maximum_packet_size,
    )
    packet = Connect(session.client_id, session.version, False, 0, properties=properties)
    _join(node, session, packet, outlet, now, proof)
    token_exchange.begin(node, session, now)
    session_flow.resume(node, session, now)
    if session.neighbour in node.ensemble.nodes:
        overlay.announce(node, session)
        node.federation.moves.links.append((session.neighbour or "", True))
    entrances.replay(node, session, now)


def _join(
    node: Node, session: Session, packet: Connect, outlet: Outlet, now: float, proof: group_proofs.Proof | None
) -> None:
    if session.outlet is not None:
        before = session.outlet
        before.disconnect(Reason.SESSION_TAKEN_OVER, "the node has dialled anew")
        lost(node, session, before, now)
    _attach(node, session, packet, outlet, now)
    group_proofs.attach(node, session, proof, now)
    session.outbox.window = session.outbox.quota = min(
        packet.properties.receive_maximum or overlay.WINDOW, overlay.WINDOW
    )
    if node.ensemble.is_cyclic:
        session.connection.plain = False  # the path travels with each event


def disconnect(node: Node, session: Session, packet: Disconnect, now: float) -> None:
    """Handle a DISCONNECT; the caller closes the connection and then calls `lost`."""
    expiry = packet.properties.session_expiry
    if expiry is not None:
        if expiry and not session.connection.expiry:  # [MQTT-3.14.2-1]
            raise WireError(Reason.PROTOCOL_ERROR, "session expiry cannot be set at the end of a session without one")
        session.connection.expiry = _expiry(node, expiry)
    if packet.reason == Reason.SUCCESS:
        session.connection.will = None  # [MQTT-3.14.4-3]
    search.announced(node, session, dict(packet.properties.user_properties).get(TO_NODE, ""), now)


def lost(node: Node, session: Session, outlet: Outlet, now: float) -> None:
    """Handle the loss of the connection, for whatever reason."""
    # [MQTT-4.1.0-1]
    if session.outlet is not outlet:
        return  # taken over
    _detach(node, session, now)
    if not session.connection.expiry:
        end(node, session, now)
        return
    if session.connection.will is not None and not session.connection.will.delay:
        wills.publish(node, session, now)
    schedule(node, session)
    node.ledger.session(session)


def tick(node: Node, now: float) -> None:
    """Time has passed: publish delayed wills, end expired sessions, forget expired retained messages."""
    retained.expire(node, now)
    overlay.expire(node, now)
    groups.expire(node, now)
    if node.contracts is not None:
        situations.expire(node, now)
        release_recheck.tick(node, now)
        entrances.send_delayed(node, now)
    if node.trust.tokens is not None:
        client_tokens.expire(node, now)
        token_exchange.tick(node, now)
    if node.sparkplug is not None:
        entrances.send_opened(node, now)
    node.sessions.undone.append(_look_at_due(node, now))


def _look_at_due(node: Node, now: float) -> Iterator[None]:
    """Publish the wills that are due and end the sessions whose time is over: many may be so at once."""
    for session in node.sessions.timers.due(now):
        if session.connection.will is not None and now >= session.connection.ended + session.connection.will.delay:
            wills.publish(node, session, now)
            node.ledger.session(session)
        # [MQTT-4.1.0-2]
        if now >= session.connection.ended + session.connection.expiry:
            end(node, session, now)
        else:
            schedule(node, session)
        yield


def schedule(node: Node, session: Session) -> None:
    """Look at an offline session again when its will is due or its time is over; one that leaves has no time here."""
    if newest.is_leaving(session):
        return
    after = (
        session.connection.expiry
        if session.connection.will is None
        else min(session.connection.expiry, session.connection.will.delay)
    )
    if after != NEVER:
        node.sessions.timers.set(session.connection.ended + after, session)


def end(node: Node, session: Session, now: float, is_moved: bool = False) -> None:
    """Forget the session; its will does not outlive it. `is_moved`: it goes on at another node."""
    # [MQTT-3.1.2-23], [MQTT-3.1.3-9]
    node.sessions.timers.cancel(session)
    node.ledger.drop_session(session)  # with all that the store has of it
    session.durable = False
    subscribe.end(node, session)
    wills.publish(node, session, now)  # now that no shared subscription can choose this session for it
    # [MQTT-4.8.2-5]
    queued = (*(session.outbox.queue or ()), *(session.outbox.behind or ()))
    for delivery in (*session.outbox.inflight.values(), *queued):
        node.ledger.settle(delivery)
    for delivery in queued:
        publishers.record_withdrawn(node, delivery, now, "its session has ended")
    session.outbox.inflight = {}
    session.outbox.queue = session.outbox.behind = None
    session.replays = {}
    if session.declared.advertisements:
        advertise.forget(node, session)
    client_contracts.forget(node, session, now, is_moved)
    if session.connection.moving is not None:
        node.federation.moves.inbox += session.connection.moving.pending
    node.later.forget(session)
    if node.sessions.get(session.client_id) is session:
        del node.sessions[session.client_id]
        node.statements.preceding.pop(session.id, None)
        placement.leave(node, session)


def _check(node: Node, packet: Connect) -> Refusal | None:
    # [MQTT-4.12.0-1] [MQTT-4.12.0-4] [MQTT-4.12.0-6]
    method = packet.properties.auth_method
    is_token = method == client_tokens.METHOD and node.trust.tokens is not None
    if method is not None and not is_token and not group_proofs.supports(node, method):
        return Refusal(Reason.BAD_AUTHENTICATION_METHOD, f"no method `{method}` here")
    if not packet.client_id and packet.version == 4 and not packet.clean_start:  # [MQTT311-3.1.3-8]
        return Refusal(Reason.CLIENT_IDENTIFIER_NOT_VALID, "a session that is kept needs a client id")
    will, limits = packet.will, node.limits
    if will is None:
        return None
    if will.qos > limits.max_qos:  # [MQTT-3.2.2-12]
        return Refusal(Reason.QOS_NOT_SUPPORTED, f"will has QoS {will.qos}, at most {limits.max_qos} is supported")
    if will.retain and not limits.retain:  # [MQTT-3.2.2-13]
        return Refusal(Reason.RETAIN_NOT_SUPPORTED, "will is to be retained, which is not supported")
    try:
        read_topic(will.topic.encode(), limits.topic_levels)
    except WireError as error:
        return Refusal(error.reason, str(error))
    return None


def _session(
    node: Node, packet: Connect, subject: Subject, proven: Mapping[str, float], now: float
) -> tuple[Session, bool]:
    """Return the session to use, and whether it was there before."""
    old = node.sessions.get(subject.client_id)
    if old is not None and old.outlet is not None:
        outlet = old.outlet
        outlet.disconnect(Reason.SESSION_TAKEN_OVER, "another connection uses this client id")  # [MQTT-3.1.4-3]
        lost(node, old, outlet, now)
        old = node.sessions.get(subject.client_id)
    if old is not None:
        is_own = placement.is_same(node, old.subject, subject) and groups.may_resume(old, proven)
        if packet.clean_start or not is_own or not lives(old, now):  # [MQTT-3.1.2-4]
            end(node, old, now)
        else:
            if old.version != packet.version:
                node.plans.forget_all()
            # [MQTT-3.1.2-5] [MQTT-3.2.2-3] [MQTT311-3.1.2-4] [MQTT311-3.2.2-2]
            old.subject = subject
            return old, True
    # [MQTT-3.1.2-6] [MQTT-3.2.2-2] [MQTT311-3.2.2-3]
    node.sessions.last_id += 1
    session = Session(node.sessions.last_id, subject, packet.version)
    node.sessions[subject.client_id] = session
    return session, False


def lives(session: Session, now: float) -> bool:
    """Return True if the time of a session without a connection is not over."""
    return now < session.connection.ended + session.connection.expiry


def _attach(node: Node, session: Session, packet: Connect, outlet: Outlet, began: float) -> None:
    properties, limits = packet.properties, node.limits
    session.version = packet.version
    births.leave(node, session.client_id)
    session.connection.is_bridge = packet.is_bridge
    if packet.version == 4:
        # [MQTT311-3.1.2-6] [MQTT311-4.1.0-1]
        session.connection.expiry = 0 if packet.clean_start else _expiry(node, NO_EXPIRY)
    else:
        session.connection.expiry = _expiry(node, properties.session_expiry or 0)
    if not session.connection.expiry:
        node.ledger.drop_session(session)
    session.durable = node.ledger.durable and session.connection.expiry > 0
    session.rights = session_rights.rights_for(node, session)
    session.plans = session.edited_plans = None
    # [MQTT-3.1.2-7] [MQTT311-3.1.2-8] [MQTT311-3.1.2-12]
    session.connection.will = wills.left(node, packet, session)
    node.sessions.timers.cancel(session)
    session.connection.began = began
    session.outlet = outlet
    session.buffer = []
    session.open = True
    session.outbox.window = min(properties.receive_maximum or limits.inflight, limits.inflight)  # [MQTT-3.3.4-9]
    # [MQTT-4.9.0-1]
    session.outbox.quota = session.outbox.window
    # [MQTT-3.1.2-29]
    session.connection.problem_info = wants_reasons(properties)
    session.connection.maximum_packet_size = properties.maximum_packet_size or 0
    # [MQTT-3.1.2-27] [MQTT-3.3.2-11]
    session.connection.alias_maximum = min(properties.topic_alias_maximum or 0, limits.topic_alias_maximum)
    session.connection.aliases_out = {} if session.connection.alias_maximum else None
    plain = not session.connection.maximum_packet_size and not session.connection.alias_maximum
    if plain != session.connection.plain and session.subscriptions:
        node.plans.forget_all()
    session.connection.plain = plain
    node.sessions.connected += 1
    if session.durable or session.connection.will is not None:
        node.ledger.session(session)


def _detach(node: Node, session: Session, now: float) -> None:
    session.outlet = None
    session.buffer = []
    session.open = session.connection.blocked = session.connection.overflowing = False
    session.connection.held = session.connection.backlog = 0
    # [MQTT-3.3.2-7]
    session.connection.aliases_in = session.connection.aliases_out = None
    session.outbox.resend = session.trust.proving = None
    if session.neighbour is not None:
        token_exchange.end(node, session)
        node.federation.exchanges.pop(session.id, None)
        node.federation.moves.links.append((session.neighbour, False))
        node.federation.news.offer(*session.federation.offers)  # there may be another way to what it offers
    session.connection.ended = now
    node.sessions.connected -= 1


def _expiry(node: Node, seconds: int) -> float:
    return bounded_expiry(node, NEVER if seconds == NO_EXPIRY else float(seconds))


def bounded_expiry(node: Node, wished: float) -> float:
    """Return for how many seconds a session stays without a connection, if it is to stay for so many."""
    most = node.limits.session_expiry
    return wished if most is None else min(wished, float(most))
