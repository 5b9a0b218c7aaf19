"""The exchange of proofs with a client or a neighbour, as enhanced authentication of MQTT 5 (§4.12).

It comes on top of passwords and certificates and replaces none of them. A proof that is wrong leaves its group
unproven, and the connection stays; what cannot be read is a protocol error. `model/group_proof.py` has the messages.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

from penstock.engine.federation.wants import NODE_PREFIX
from penstock.engine.node import Node
from penstock.engine.sessions import outbox
from penstock.engine.sessions.session import NEVER, Session
from penstock.engine.trust import client_tokens, groups
from penstock.engine.trust.state import NOT_PROVEN, Accepting, Claiming, GroupSecrets, Showing
from penstock.model import group_proof as proofs
from penstock.model.group_proof import METHOD, Claimant
from penstock.model.publication_proof import PublicationChecker, PublicationProver
from penstock.wire.codec import encode
from penstock.wire.errors import WireError
from penstock.wire.framing import MAX_PACKET
from penstock.wire.packet import Auth, Connack, Connect
from penstock.wire.properties import Properties
from penstock.wire.reason import Reason

T = TypeVar("T")

_WRONG: dict[type, str] = {
    Accepting: "the proof of membership is wrong",
    Claiming: "the neighbour does not prove its membership, or does not accept the proof of ours",
}


class Proof(NamedTuple):
    """The groups that an exchange has proven about the other side."""

    state: Accepting | Claiming | Showing
    proven: dict[str, float]
    """By group, until when it counts."""
    wrong: tuple[str, ...] = ()
    """Groups of which a wrong proof was given."""
    answer: Properties | None = None
    """The answer to the other side."""


class Challenged(NamedTuple):
    """A CONNECT that will be taken once its sender has answered."""

    connect: Connect
    state: Accepting
    packet: bytes
    """The AUTH with the question."""


def supports(node: Node, method: str) -> bool:
    """Return True if a CONNECT may name this authentication method."""
    return method == METHOD and node.runtime.make_nonce is not None


# --- the side that is connected to


def ask(node: Node, connect: Connect) -> Challenged:
    """Return the answer to a CONNECT with claims; raise `WireError`."""
    state = Accepting(connect.client_id)
    packet = encode(challenge(node, state, connect.properties.auth_data), connect.version)
    if len(packet) > (connect.properties.maximum_packet_size or MAX_PACKET):  # [MQTT-3.1.2-24]
        raise WireError(Reason.PACKET_TOO_LARGE, "the proofs that are claimed are larger than the client takes")
    return Challenged(connect, state, packet)


def challenge(node: Node, accepting: Accepting, data: bytes | None) -> Auth:
    """Return the answer to a claim; raise `WireError`."""
    claim = _read(proofs.GroupClaim.decode, data)
    assert node.runtime.make_nonce is not None
    nonces = claim.nonce, node.runtime.make_nonce()
    exchange = accepting.exchange = proofs.ProofExchange(*nonces, accepting.client_id, node.name)
    ours = exchange.proofs("node", claim.groups, node.trust.groups.secrets)
    # [MQTT-4.12.0-2] [MQTT-3.15.2-1]
    return auth(Reason.CONTINUE_AUTHENTICATION, proofs.GroupChallenge(exchange.node_nonce, node.name, ours).encode())


def judge(node: Node, accepting: Accepting, packet: Auth, now: float) -> Proof:
    """Return what the other side's answer proves; raise `WireError`."""
    exchange, accepting.exchange = accepting.exchange, None
    _check_method(packet.properties)
    if exchange is None or packet.reason != Reason.CONTINUE_AUTHENTICATION:  # [MQTT-4.12.0-3]
        raise WireError(Reason.PROTOCOL_ERROR, f"AUTH with reason {packet.reason:#04x} is not expected here")
    given, secrets = _read(proofs.GroupAnswer.decode, packet.properties.auth_data).proofs, node.trust.groups.secrets
    proven = {group: groups.until(node, group, now) for group in exchange.proven("client", given, secrets)}
    accepting.prover, accepting.checker = PublicationProver(exchange, "node"), PublicationChecker(exchange, "client")
    seconds = {group: 0.0 if group in node.ensemble.uncached_groups else due - now for group, due in proven.items()}
    accepted = proofs.AcceptedGroups.of(seconds).encode()
    # [MQTT-4.12.0-5]
    properties = Properties(auth_method=METHOD, auth_data=accepted)
    wrong = tuple(group for group in given if group in secrets and group not in proven)
    return Proof(accepting, proven, wrong, properties)


# --- the side that connects


def make_claimant(node: Node, session: Session) -> Claimant | None:
    """Return the claimant for a neighbour that is dialled; None if no group is common."""
    name = session.neighbour or ""
    secrets = dict(list(groups.shared(node, name).items())[: proofs.MAX_GROUPS])
    if not secrets or node.runtime.make_nonce is None:
        return None
    return Claimant(NODE_PREFIX + node.name, secrets, node.runtime.make_nonce(), name)


def answer(claimant: Claimant, packet: Auth) -> Auth:
    """Answer a challenge; raise `WireError`."""
    _check_method(packet.properties)
    if packet.reason != Reason.CONTINUE_AUTHENTICATION:
        raise WireError(Reason.PROTOCOL_ERROR, f"AUTH with reason {packet.reason:#04x} is not expected here")
    return auth(Reason.CONTINUE_AUTHENTICATION, _read(claimant.answer, packet.properties.auth_data))  # [MQTT-4.12.0-3]


def concluded(node: Node, claiming: Claiming, packet: Auth | Connack, now: float) -> Proof:
    """Return the result of an exchange from its last packet; raise `WireError`."""
    _check_method(packet.properties)
    done, claiming.claimant = claiming.claimant, None
    assert done is not None
    _count_by(claiming, done)
    accepted = _read(done.accepted, packet.properties.auth_data)
    proven = {group: groups.until(node, group, now) for group in done.node_proven}
    both = {group: min(due - now, accepted[group]) for group, due in proven.items() if group in accepted}
    claiming.due = now + proofs.renew_after(done.groups, both)
    return Proof(claiming, proven, tuple(group for group in done.groups if group not in both))


def _count_by(claiming: Claiming, claimant: Claimant) -> None:
    """Let publications from the other side prove themselves by an exchange, as those to it do since our answer."""
    if claimant.exchange is not None:
        claiming.checker = PublicationChecker(claimant.exchange, "node")
        if claiming.prover is None or claiming.prover.exchange is not claimant.exchange:
            claiming.prover = PublicationProver(claimant.exchange, "client")


def renew(node: Node, session: Session, now: float) -> None:
    """Prove again in time, to a neighbour that was dialled."""
    claiming = session.trust.proving
    if isinstance(claiming, Claiming) and now >= claiming.due:
        claiming.claimant = make_claimant(node, session)
        claiming.due = NEVER
        if claiming.claimant is not None:
            claiming.due = now + proofs.RETRY_SECONDS
            outbox.push(node, session, encode(auth(Reason.REAUTHENTICATE, claiming.claimant.claim), 5))


# --- both


def attach(node: Node, session: Session, proof: Proof | None, now: float) -> None:
    """Begin a connection, with this proof or none. An earlier one's does not count: its client id is no secret."""
    session.trust.proving = proof.state if proof is not None else None
    _take(node, session, proof, now)


def receive(node: Node, session: Session, packet: Auth, now: float) -> None:
    """AUTH on an open connection: the other side proves anew, or answers us; raises `WireError`."""
    match session.trust.proving, packet.reason:
        case Showing(), Reason.REAUTHENTICATE:
            refused = client_tokens.renew(node, session, packet.properties.auth_data or b"", now)
            if packet.properties.auth_method != client_tokens.METHOD or refused:  # [MQTT-4.12.1-1] [MQTT-4.12.1-2]
                node.stats.tokens_refused += 1
                raise WireError(Reason.NOT_AUTHORIZED, refused or "another authentication method")
            session.outbox.begin_revision()
            _say(node, session, Auth(Reason.SUCCESS, client_tokens.TOLD))
        case None, _:
            # [MQTT-4.12.0-7] [MQTT-4.12.1-2]
            raise WireError(Reason.PROTOCOL_ERROR, "AUTH without an authentication method")
        case Accepting() as accepting, Reason.REAUTHENTICATE:
            _check_method(packet.properties)  # [MQTT-4.12.1-1]
            _say(node, session, challenge(node, accepting, packet.properties.auth_data))
        case Accepting() as accepting, _:
            proof = judge(node, accepting, packet, now)
            _take(node, session, proof, now)
            _say(node, session, Auth(Reason.SUCCESS, proof.answer or Properties(auth_method=METHOD)))
        case Claiming(claimant=Claimant() as claimant) as claiming, Reason.CONTINUE_AUTHENTICATION:
            _say(node, session, answer(claimant, packet))
            if claimant.exchange is not None:
                claiming.prover = PublicationProver(claimant.exchange, "client")
        case Claiming(claimant=Claimant()) as claiming, Reason.SUCCESS:
            _take(node, session, concluded(node, claiming, packet, now), now)
        case _:
            raise WireError(Reason.PROTOCOL_ERROR, f"AUTH with reason {packet.reason:#04x} is not expected here")


def _take(node: Node, session: Session, proof: Proof | None, now: float) -> None:
    if groups.set_proven(node, session, proof.proven if proof is not None else {}):
        session.outbox.begin_revision()
    for group in proof.wrong if proof is not None else ():
        node.notice(NOT_PROVEN, session, "", f"trust group `{group}`: {_WRONG[type(session.trust.proving)]}")


def hold(node: Node, secrets: GroupSecrets, now: float) -> None:
    """Take other secrets: what was proven by those of before no longer counts, and neighbours are shown these."""
    for session in groups.hold(node, secrets, now):
        session.outbox.begin_revision()
    for session in node.federation.neighbours.values():
        if isinstance(session.trust.proving, Claiming):
            session.trust.proving.due = now


def _say(node: Node, session: Session, packet: Auth) -> None:
    outbox.push(node, session, encode(packet, 5))


def auth(reason: Reason, data: bytes) -> Auth:
    """Return a packet of the exchange."""
    return Auth(reason, Properties(auth_method=METHOD, auth_data=data))


def _check_method(properties: Properties) -> None:
    if properties.auth_method != METHOD:
        raise WireError(Reason.BAD_AUTHENTICATION_METHOD, f"the authentication method of this connection is `{METHOD}`")


def _read(decode: Callable[[bytes], T], data: bytes | None) -> T:
    if data is None:
        raise WireError(Reason.PROTOCOL_ERROR, "there is no authentication data")
    try:
        return decode(data)
    except proofs.ProofError as error:
        raise WireError(Reason.PROTOCOL_ERROR, str(error)) from None
