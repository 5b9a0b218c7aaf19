"""All nodes of a domain joined in memory: no sockets, no event loop, time by hand.

    rehearsal = Rehearsal(domain, ensemble(domain))
    rehearsal.connect("lock")
    rehearsal.subscribe("lock", "#")
    rehearsal.connect("phone")
    rehearsal.publish("phone", "DL_unlock")
    rehearsal.run()
    rehearsal.deliveries("lock")

The nodes are those of a live domain, and so are the bytes between them; only what carries the bytes is not. Every
connection keeps its order. Which connection is served next is for `choose` to say: as it is, what was sent first
arrives first.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime

import msgspec

from penstock.domain import Domain, Ensemble, LinkSettings, expand
from penstock.engine.connections.host import Storage
from penstock.engine.events.user_properties import POLICY
from penstock.engine.monitors import Watch
from penstock.engine.node import Node, Notice
from penstock.engine.rehearsal.assembly import START, Assembly, RehearsalError, made_up_secret
from penstock.engine.rehearsal.peer import Delivered, Pairs, Peer
from penstock.engine.rehearsal.wires import Choose, earliest
from penstock.engine.sessions import lifecycle, placement
from penstock.engine.sessions.advertise import SET_POLICY
from penstock.engine.trust import group_proofs, token_exchange
from penstock.language.statements.statement import Statement
from penstock.model.subject import Subject
from penstock.policy.access.acl import Acl
from penstock.policy.monitors.placing import SureSuppression
from penstock.wire.packet import SubscriptionRequest


class Rehearsal:
    """A domain that is played: at first all its nodes run and are linked, and no client is connected."""

    def __init__(
        self,
        domain: Domain,
        whole: Ensemble,
        acls: Mapping[str, Acl] | None = None,
        stores: Mapping[str, Storage] | None = None,
        choose: Choose = earliest,
        now: float = START,
    ) -> None:
        """Start the nodes at a time; `acls` are their access rights, `stores` the storage of nodes that survive a
        restart.

        Passwords are not asked for: whoever connects is who it says it is.
        """
        self.assembly = Assembly(expand(domain), whole, acls or {}, stores or {}, choose, now)
        self.ensemble = whole
        self.nodes = self.assembly.nodes
        self._notices: list[Notice] = []

    @property
    def now(self) -> float:
        """The time at all nodes."""
        return self.assembly.now

    def run(self) -> None:
        """Hand over what is under way until nothing is. Time goes on no more than nodes need to tell their interest."""
        self.assembly.run()

    @property
    def policies(self) -> dict[str, Statement]:
        """The policies that the domain has names for."""
        settings = self.assembly.domain.statements
        written = settings.statements() if settings is not None else ()
        return {name: statement for name, _, statement in written if isinstance(statement, Statement)}

    # --- actions of entities

    def connect(self, entity: str, node: str | None = None, user: str | None = None) -> None:
        """Connect a client to a node; None: to every node that the domain lists it at, or to the first if it roams.

        One that is not listed can be connected as well, as `user`, where such clients are let in. Whether the node
        let it in is what `refusal` says.
        """
        for at in self._places(entity, node):
            subject = self.ensemble.shown(at, entity) or Subject(entity, user, "", f"{at}/0")
            self.assembly.join_client(self.assembly.peer(entity, at), subject)
        self.run()

    def disconnect(self, entity: str, node: str | None = None) -> None:
        """Disconnect a client; its session stays."""
        self._do(entity, node, Peer.disconnect)

    def subscribe(
        self,
        entity: str,
        filter: str,
        qos: int = 2,
        no_local: bool = True,
        node: str | None = None,
        where: str = "",
        name: str = "",
        scope: str = "",
        policy: str = "",
        contract: str = "",
    ) -> None:
        """Subscribe a client at every node that it is connected to, or at one; `contract`: its guarantees, as JSON."""
        wish = SubscriptionRequest(filter, qos, no_local)
        pairs = {"where": where, "scope": scope, "policy": policy, "contract": contract}
        self._do(entity, node, lambda peer: peer.subscribe(wish, name, **pairs))

    def bring(self, entity: str, name: str, contract: dict[str, object]) -> None:
        """Have a client bring a contract: `produces` or `consumes`, as data; or neither, to take it back."""
        self._do(entity, None, lambda peer: peer.bring(name, contract))

    def unsubscribe(self, entity: str, filter: str, node: str | None = None, name: str = "", policy: str = "") -> None:
        self._do(entity, node, lambda peer: peer.unsubscribe(filter, name, policy))

    def advertise(
        self,
        entity: str,
        name: str,
        filter: str,
        where: str = "",
        scope: str = "",
        node: str | None = None,
        policy: str = "",
    ) -> None:
        """Have a client advertise what it will publish, at every node that it is connected to, or at one."""
        fields = {"filter": filter, "scope": scope, "where": where, "policy": policy}
        self._do(entity, node, lambda peer: peer.advertise(name, **fields))

    def unadvertise(self, entity: str, name: str, node: str | None = None, policy: str = "") -> None:
        self._do(entity, node, lambda peer: peer.unadvertise(name, policy))

    def set_policy(
        self, entity: str, policy: str | None, subscription: str = "", advertisement: str = "", name: str = ""
    ) -> None:
        """Have a client set the policy of a subscription or advertisement that it has, or remove it."""
        about: dict[str, object] = {"advertisement": advertisement}
        if subscription:
            about = {"subscription": {"filter": subscription, "name": name}}
        payload = msgspec.json.encode({"policy": policy, **about})
        self._do(entity, None, lambda peer: peer.publish(SET_POLICY, payload, 1))

    def publish(
        self,
        entity: str,
        topic: str,
        payload: bytes = b"",
        qos: int = 0,
        retain: bool = False,
        node: str | None = None,
        policy: str = "",
        properties: Pairs = (),
        expiry: int | None = None,
    ) -> None:
        """Publish at a node, or at the first that the entity is connected to; `run` then does the rest."""
        peer = self._connected(entity, node)[0]
        if entity in self.ensemble.foreign:
            peer.forward(topic, payload, qos, retain, properties)
        else:
            pairs = ((POLICY, policy), *properties) if policy else properties
            peer.publish(topic, payload, qos, retain, pairs, expiry)

    def prove(self, entity: str, groups: Iterable[str], node: str | None = None) -> None:
        """Have a client prove that it is in these trust groups only, wherever it is connected or at one node."""
        for peer in self._connected(entity, node):
            peer.secrets = {group: made_up_secret(group) for group in groups}
            peer.prove(self.assembly.make_nonce())
        self.run()

    def show(self, entity: str, publish: Iterable[str], subscribe: Iterable[str]) -> None:
        """Connect a client again wherever it is, with a token for these filters instead of its own."""
        self.assembly.shown[entity] = frozenset(publish), frozenset(subscribe)
        for node in [at for name, at in self.assembly.peers if name == entity]:
            self.connect(entity, node)

    def widest(self, entity: str, filters: Iterable[str]) -> tuple[str, ...]:
        """Return what a client subscribes to that wants all it may have: these filters, or those of its token."""
        if not self.is_connected(entity):
            return ()
        granted = self.assembly.granted(entity)
        return tuple(filters) if granted is None else tuple(sorted(granted[1]))

    def refusal(self, entity: str, node: str) -> str:
        """Return why the node refused the client; empty if it is connected, or never tried."""
        peer = self.assembly.peers.get((entity, node))
        return peer.refused if peer is not None else ""

    def is_connected(self, entity: str) -> bool:
        return any(peer.is_open for (name, _), peer in self.assembly.peers.items() if name == entity)

    def where(self, entity: str, node: str | None = None) -> str:
        """Return the node that an entity publishes at: this one, or the first that it is connected to."""
        return self._connected(entity, node)[0].node

    @property
    def entities(self) -> tuple[str, ...]:
        """The clients and foreign brokers that have been connected so far."""
        return tuple(dict.fromkeys(name for name, _ in self.assembly.peers))

    def deliveries(self, entity: str) -> tuple[Delivered, ...]:
        """Return everything that a client or a foreign broker has received so far, in order."""
        return tuple(self.assembly.got.get(entity, ()))

    @property
    def notices(self) -> tuple[Notice, ...]:
        """The notices of the nodes to their operators so far."""
        for node in self.nodes.values():
            self._notices += node.notices
            node.notices = []
        return tuple(self._notices)

    # --- changes of nodes and links

    def cut(self, first: str, second: str) -> None:
        """Cut the connection of two nodes, or of a node and a foreign broker."""
        self._link(first, second)
        self.assembly.cut.add(frozenset((first, second)))
        self.assembly.break_off(first, second)
        self.assembly.break_off(second, first)
        self.run()

    def restore(self, first: str, second: str) -> None:
        """Connect two nodes again whose connection was cut."""
        link = self._link(first, second)
        self.assembly.cut.discard(frozenset((first, second)))
        self.assembly.dial(link)
        self.run()

    def restart(self, name: str) -> None:
        """Kill a node and start it again with what its store has; clients and links come back."""
        if name not in self.nodes:
            raise RehearsalError(f"no node `{name}`")
        clients = [peer for (_, node), peer in self.assembly.peers.items() if node == name and peer.is_open]
        self.assembly.kill(name)
        self._notices += self.nodes[name].notices
        self.assembly.start(name)
        for link in self.ensemble.connections:
            if name in link.between:
                self.assembly.dial(link)
        for peer in clients:
            if peer.name not in self.ensemble.foreign:
                self.connect(peer.name, name)
        self.run()

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.assembly.now += seconds
        for node in self.nodes.values():
            for neighbour in node.federation.neighbours.values():
                group_proofs.renew(node, neighbour, self.now)
            token_exchange.renew(node, self.now)
            self.assembly.turn(node)
        self.run()
        self._show_again()
        for node in self.nodes.values():
            lifecycle.tick(node, self.now)
            self.assembly.turn(node)
        self.run()

    def wait_until(self, written: str) -> None:
        """Let time pass until a moment, in UTC unless it says otherwise; raise `RehearsalError` if it is past."""
        moment = datetime.fromisoformat(written)
        seconds = (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp() - self.now
        if seconds < 0:
            raise RehearsalError(f"`{written}` is past: it is {datetime.fromtimestamp(self.now, UTC).isoformat()}")
        self.wait(seconds)

    def _show_again(self) -> None:
        """Connect clients again whose tokens have expired, with new ones; good clients do so before."""
        for name, at in [ends for ends, peer in self.assembly.peers.items() if peer.is_open]:
            sessions = [session for session in self.nodes[at].sessions.values() if session.place.entity == name]
            tokens = [session.trust.token for session in sessions if session.outlet is not None]
            if any(token is not None and token.end <= self.now for token in tokens):
                self.connect(name, at)

    def states(self, monitor: str) -> dict[tuple[str, str], object]:
        """Return a monitor's state on each link that it is on, by source and target; if both ends of the link ask it,
        where the event arrives, unless only what the other end has not asked it about is asked about there.
        """
        states: dict[tuple[str, str], object] = {}
        for _, watch, place in self._watches(monitor):
            if watch.ends not in states or place >= watch.placing.done:
                states[watch.ends] = watch.states[place]
        return states

    def rating(self, of: str, by: str) -> float:
        """Return how far the node `by` trusts its neighbour `of`."""
        ratings = self.nodes[by].trust.ratings
        if ratings is None or of not in self.nodes[by].federation.neighbours:
            raise RehearsalError(f"`{by}` does not rate `{of}`")
        return ratings.rating(of, self.now)

    def put_state(self, monitor: str, state: object, link: tuple[str, str] | None = None) -> None:
        """Put a monitor into a state, on one link or on all that it is on."""
        is_known = False
        for node, watch, place in self._watches(monitor):
            if link in (None, watch.ends):
                placed = watch.monitors[place]
                resumed = placed.resume(state)
                if isinstance(placed.start(), str) and resumed != state:
                    raise RehearsalError(f"monitor `{monitor}` has no state `{state}`")
                watch.move(place, resumed)
                node.ledger.monitor(watch.link, monitor, resumed)
                is_known = True
        if not is_known:
            raise RehearsalError(f"no monitor `{monitor}`" + (f" on `{link[0]} -> {link[1]}`" if link else ""))
        for node in self.nodes.values():
            self.assembly.turn(node)

    def _watches(self, monitor: str) -> Iterator[tuple[Node, Watch, int]]:
        """Find a monitor at the nodes that ask it: where its link begins, and where it ends."""
        for link in self.ensemble.links.values():
            for node in (self.nodes[at] for at in (link.source, link.target) if at in self.nodes):
                watch = placement.watch(node, link)
                for place, placed in enumerate(() if watch is None else watch.monitors):
                    if watch is not None and placed.name == monitor and not isinstance(placed, SureSuppression):
                        yield node, watch, place

    def _do(self, entity: str, node: str | None, act: Callable[[Peer], None]) -> None:
        """Have an entity do something wherever it is connected, or at one node, and wait until all is at rest."""
        for peer in self._connected(entity, node):
            act(peer)
        self.run()

    # --- names

    def _places(self, entity: str, node: str | None) -> tuple[str, ...]:
        """Return the nodes that a client is to be connected to."""
        if entity in self.ensemble.foreign or entity in self.nodes:
            raise RehearsalError(f"`{entity}` is not a client")
        if node is not None:
            if node not in self.nodes:
                raise RehearsalError(f"no node `{node}`")
            return (node,)
        listed = tuple(name for name in self.nodes if (entity, name) in self.ensemble.links)
        entry = self.ensemble.entry(listed[0], entity) if listed else None
        if entry is not None and entry.homes:
            return listed[:1]  # it has one session, at one node at a time
        if listed or len(self.nodes) == 1:
            return listed or tuple(self.nodes)
        raise RehearsalError(f"client `{entity}` is not listed: say which node it connects to")

    def _connected(self, entity: str, node: str | None) -> list[Peer]:
        """Return the ends of an entity's connections; at least one."""
        known = [peer for (name, at), peer in self.assembly.peers.items() if name == entity and node in (None, at)]
        connected = [peer for peer in known if peer.is_open]
        if not connected:
            refused = next((f": {peer.refused}" for peer in known if peer.refused), "")
            raise RehearsalError(f"`{entity}` is not connected{f' to `{node}`' if node else ''}{refused}")
        return connected

    def _link(self, first: str, second: str) -> LinkSettings:
        for link in self.ensemble.connections:
            if {first, second} == set(link.between):
                return link
        raise RehearsalError(f"no link between `{first}` and `{second}`")
