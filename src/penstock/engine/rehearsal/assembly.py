"""The parts of a rehearsal: the nodes of a domain, clients and foreign brokers, and wires between them."""

from collections.abc import Mapping
from itertools import count

from msgspec import structs

from penstock.domain import Domain, Ensemble, LinkSettings
from penstock.engine.capsules import hosting
from penstock.engine.connections.connection import NodeConnection
from penstock.engine.connections.host import Host, Storage
from penstock.engine.connections.inbound import Inbound
from penstock.engine.connections.outbound import Outbound
from penstock.engine.federation import overlay
from penstock.engine.federation.dialling import Greeting
from penstock.engine.node import Node
from penstock.engine.rehearsal.peer import Delivered, Peer
from penstock.engine.rehearsal.wires import Choose, RehearsedConnection, Wire
from penstock.engine.sessions import lifecycle
from penstock.engine.stages.admit import Door
from penstock.engine.trust import group_proofs, keys
from penstock.engine.trust.state import GroupSecrets
from penstock.engine.trust.tokens import Keys
from penstock.model.errors import PenstockError
from penstock.model.group_proof import METHOD, NONCE_BYTES, Claimant
from penstock.model.subject import Subject
from penstock.policy.access.acl import Acl
from penstock.policy.tokens.keys import KeySet, PublicKey, SigningKey
from penstock.policy.tokens.revocation import NOTHING
from penstock.policy.tokens.token import Party
from penstock.wire.packet import Connect
from penstock.wire.properties import Properties

START = 1_000_000.0
MAX_STEPS = 100_000
"""Packets that `run` hands over before it gives up."""
_SECRET = b"rehearsal"
_DOOR = Door("rehearsal", "link", False)


class RehearsalError(PenstockError):
    """Something cannot be played: no such entity, a link that breaks, a system that never comes to rest."""


class Assembly:
    """Nodes that run and are linked, except by links that are cut, and the peers that are connected to them."""

    def __init__(
        self,
        domain: Domain,
        whole: Ensemble,
        acls: Mapping[str, Acl],
        stores: Mapping[str, Storage],
        choose: Choose,
        now: float = START,
    ) -> None:
        """Make the nodes of an expanded `domain`."""
        self.now = now
        self.choose = choose
        self.domain = domain
        self.ensemble = whole
        self.acls = acls
        self._stores = stores
        self._numbers = count()
        self._made_ids = count(1)
        self._nonces = count(1)
        self._keys = {name: SigningKey.generate() for name in whole.nodes} if whole.tokens is not None else {}
        self._public = KeySet.of(PublicKey(name, key.public) for name, key in self._keys.items())
        self.revoked = NOTHING
        self.shown: dict[str, tuple[frozenset[str], frozenset[str]]] = {}
        """Of clients that show other tokens than they are granted: filters to publish, and to subscribe."""
        self.connections: dict[tuple[str, str], RehearsedConnection] = {}
        self.cut: set[frozenset[str]] = set()
        self.peers: dict[tuple[str, str], Peer] = {}
        self.got: dict[str, list[Delivered]] = {}
        self.nodes: dict[str, Node] = {}
        self._hosts: dict[str, Host] = {}
        for name in whole.nodes:
            self.start(name)
        for link in whole.connections:
            self.dial(link)
        self.run()

    def run(self) -> None:
        """Hand over what is under way until nothing is. Time goes on no more than nodes need to tell their interest."""
        for _ in range(MAX_STEPS):
            waiting = [wire for connection in self.connections.values() for wire in connection.wires if wire]
            if waiting:
                waiting.sort(key=lambda wire: wire.first)
                self.choose(waiting).hand_over()
            elif any(map(_has_more, self.nodes.values())):
                self.now += overlay.REFRESH_SECONDS
                for node in self.nodes.values():
                    self.turn(node)
            else:
                return
            self.end_closed()
        raise RehearsalError(f"not at rest after {MAX_STEPS} packets")

    def turn(self, node: Node) -> None:
        """Let a node act on what has come to it."""
        self._hosts[node.name].turn()

    # --- nodes

    def start(self, name: str) -> None:
        """Start a node, with what its store has."""
        store, acl, limits = self._stores.get(name), self.acls.get(name), self.domain.nodes[name].limits
        node = Node(name, limits, self._make_id, store is not None, None, acl, self.ensemble, self.make_nonce)
        self.nodes[name], self._hosts[name] = node, Host(node, lambda: self.now, store)
        if self.ensemble.tokens is not None:
            node.trust.keys = Keys(self._keys[name], self._public, self.revoked)
        keys.hold(node, node.trust.keys, self.now)
        if store is not None:
            store.load(node, self.now)
        for neighbour, _ in overlay.connections(node):
            node.federation.secrets[neighbour] = _SECRET
        for session in overlay.prepare(node):
            lifecycle.end(node, session, self.now)
        hosting.prepare(node, self.now)
        keys.join(node, self.now)
        within = (group.name for group in self.ensemble.trust_groups.values() if name in group.nodes)
        group_proofs.hold(node, GroupSecrets({group: made_up_secret(group) for group in within}), self.now)

    def make_nonce(self) -> bytes:
        return next(self._nonces).to_bytes(NONCE_BYTES, "little")

    def _make_id(self) -> str:
        return f"unnamed-{next(self._made_ids)}"

    # --- connections

    def dial(self, link: LinkSettings) -> None:
        """Connect the first end of a link to the second, unless it is connected or the link is cut."""
        first, second = link.between
        if frozenset(link.between) in self.cut or (first, second) in self.connections:
            return
        node = self.nodes[first]
        neighbour = node.federation.neighbours[second]
        foreign = self.domain.foreign.get(second)
        if foreign is None:
            greeting = Greeting.of_node(first, _SECRET, node.limits.max_packet_size)
        else:
            overlay.subscribe_foreign(node, neighbour, foreign.out, foreign.qos)
            greeting = Greeting("rehearsal", foreign.version, filters=foreign.in_, qos=foreign.qos)
        near = Outbound(self._hosts[first], neighbour, greeting)
        self.connections[first, second] = connection = self._connect(near, first, second)
        if isinstance(connection.other, Peer):
            connection.other.join(connection.wires[1], None)

    def join_client(self, peer: Peer, subject: Subject) -> None:
        """Connect a client to its node, as this subject."""
        self.break_off(peer.node, peer.name)
        door = Door("rehearsal", subject.listener, True, subject.certificate)
        connection = self._connect(Inbound(self._hosts[peer.node], door), peer.node, peer.name)
        self.connections[peer.node, peer.name] = connection
        claimant = None
        properties = Properties(session_expiry=lifecycle.NO_EXPIRY, request_problem_info=True)
        if self.ensemble.trust_groups:
            claimant = Claimant(subject.client_id, peer.secrets, self.make_nonce())
            properties = structs.replace(properties, auth_method=METHOD, auth_data=claimant.claim)
        password = self.token_of(peer.name, peer.node)
        greeting = Connect(subject.client_id, 5, False, 0, subject.user, password, properties=properties)
        peer.join(connection.wires[1], greeting, claimant)

    def token_of(self, client: str, node: str) -> bytes | None:
        """Return the token that a node's authorisation endpoint would give a client, if any."""
        tokens, granted = self.nodes[node].trust.tokens, self.granted(client)
        if tokens is None or granted is None:
            return None
        return tokens.issue(Party("client", client), *granted, self.now).text

    def granted(self, client: str) -> tuple[frozenset[str], frozenset[str]] | None:
        """Return the filters to publish and to subscribe in a client's token; None if it gets no token."""
        if client in self.shown or self.ensemble.tokens is None:
            return self.shown.get(client)
        return self.ensemble.tokens.granted(client)

    def _connect(self, near: NodeConnection, node: str, other: str) -> RehearsedConnection:
        """Join a node's end of a connection to its other end."""
        far = Inbound(self._hosts[other], _DOOR) if other in self.nodes else self.peer(other, node)
        outwards = Wire(node, other, self._numbers, lambda data: self._arrive(far, data))
        inwards = Wire(other, node, self._numbers, lambda data: self._arrive(near, data))
        near.begin(outwards)
        if isinstance(far, NodeConnection):
            far.begin(inwards)
        return RehearsedConnection(near, far, (outwards, inwards))

    def _arrive(self, end: NodeConnection | Peer, data: bytes) -> None:
        end.receive(data)
        if isinstance(end, NodeConnection):
            end.host.turn()

    def peer(self, entity: str, node: str) -> Peer:
        """Return the end of an entity that is no node, towards a node; it is made on first use."""
        if (entity, node) not in self.peers:
            self.peers[entity, node] = Peer(entity, node, self.got.setdefault(entity, []).append)
        return self.peers[entity, node]

    def end_closed(self) -> None:
        """End connections that a node has closed, once its last packets have arrived."""
        for ends, connection in list(self.connections.items()):
            if not connection.is_over or connection.wires[0]:
                continue
            if isinstance(connection.other, NodeConnection):
                reasons = [end.reason.name for end in (connection.node_end, connection.other) if end.reason]
                raise RehearsalError(f"the link between `{ends[0]}` and `{ends[1]}` broke: {', '.join(reasons)}")
            self.break_off(*ends)

    def kill(self, name: str) -> None:
        """Cut all connections of a node that does nothing more itself: only the other ends notice."""
        for ends in [ends for ends in self.connections if name in ends]:
            connection = self.connections.pop(ends)
            (connection.other if ends[0] == name else connection.node_end).end()
            for neighbour in {*ends} & self.nodes.keys() - {name}:
                self.turn(self.nodes[neighbour])

    def break_off(self, node: str, other: str) -> None:
        """Cut a connection: what is under way is lost, and both ends notice."""
        connection = self.connections.pop((node, other), None)
        if connection is not None:
            connection.cut()
            for name in {node, other} & self.nodes.keys():
                self.turn(self.nodes[name])


def _has_more(node: Node) -> bool:
    """Return whether a node has something to send once a little time has passed."""
    rates = node.trust.ratings is not None and (node.trust.ratings.is_stale or node.trust.ratings.is_changed)
    return bool(
        node.sessions.replaying
        or node.sessions.undone
        or (node.federation.news and node.federation.neighbours)
        or rates
    )


def made_up_secret(group: str) -> bytes:
    """Return a trust group's secret for rehearsals; the real one is not read."""
    return f"rehearsal of {group}".encode()
