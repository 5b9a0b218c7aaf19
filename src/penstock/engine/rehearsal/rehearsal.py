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

from collections.abc import Iterable, Iterator, Mapping

from penstock.domain import Domain, Ensemble, LinkSettings, expand
from penstock.engine.node import Node, Notice
from penstock.engine.rehearsal.actor import Actor, Delivered
from penstock.engine.rehearsal.assembly import Assembly, RehearsalError, made_up_secret
from penstock.engine.rehearsal.turns import Storage
from penstock.engine.rehearsal.wires import Choose, earliest
from penstock.engine.sessions import lifecycle, placement
from penstock.engine.stages.edit import Watch
from penstock.engine.trust import group_proofs, token_exchange
from penstock.language.statements.statement import Statement
from penstock.model.subject import Subject
from penstock.policy.access.acl import Acl
from penstock.wire.packet import Subscription


class Rehearsal:
    """A domain that is played. Made, it has all its nodes running and linked, and no client connected."""

    def __init__(
        self,
        domain: Domain,
        whole: Ensemble,
        acls: Mapping[str, Acl] | None = None,
        stores: Mapping[str, Storage] | None = None,
        choose: Choose = earliest,
    ) -> None:
        """`acls` are the nodes' access rights; `stores` what the nodes keep that survive a restart with all they have.

        Passwords are not asked for: whoever connects is who it says it is.
        """
        self.assembly = Assembly(expand(domain), whole, acls or {}, stores or {}, choose)
        self.ensemble = whole
        self.nodes = self.assembly.nodes
        self._notices: list[Notice] = []

    @property
    def now(self) -> float:
        """What time it is for all nodes."""
        return self.assembly.now

    def run(self) -> None:
        """Hand over what is under way until nothing is. Time goes on no more than nodes need to tell their interest."""
        self.assembly.run()

    @property
    def policies(self) -> dict[str, Statement]:
        """The policies that the domain has names for."""
        settings = self.assembly.domain.statements
        said = settings.statements() if settings is not None else ()
        return {name: one for name, _, one in said if isinstance(one, Statement)}

    # --- what entities do

    def connect(self, entity: str, node: str | None = None, user: str | None = None) -> None:
        """Connect a client to a node; None: to every node that the domain lists it at.

        One that is not listed can be connected as well, as `user`, where such clients are let in. Whether the node
        let it in is what `refusal` says.
        """
        for at in self._places(entity, node):
            subject = self.ensemble.shown(at, entity) or Subject(entity, user, "", f"{at}/0")
            self.assembly.join_client(self.assembly.actor(entity, at), subject)
        self.run()

    def disconnect(self, entity: str, node: str | None = None) -> None:
        """A client says goodbye; its session stays."""
        for actor in self._connected(entity, node):
            actor.disconnect()
        self.run()

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
        for actor in self._connected(entity, node):
            actor.subscribe(Subscription(filter, qos, no_local), where, name, scope, policy, contract)
        self.run()

    def bring(self, entity: str, name: str, told: dict[str, object]) -> None:
        """A client brings a contract: `produces` or `consumes`, as data; or neither, to take it back."""
        for actor in self._connected(entity, None):
            actor.bring(name, told)
        self.run()

    def unsubscribe(self, entity: str, filter: str, node: str | None = None, name: str = "", policy: str = "") -> None:
        for actor in self._connected(entity, node):
            actor.unsubscribe(filter, name, policy)
        self.run()

    def advertise(
        self,
        entity: str,
        name: str,
        filter: str,
        where: str = "",
        scope: str = "global",
        node: str | None = None,
        policy: str = "",
    ) -> None:
        """A client says what it will publish, at every node that it is connected to, or at one."""
        for actor in self._connected(entity, node):
            actor.advertise(name, filter, where, scope, policy)
        self.run()

    def unadvertise(self, entity: str, name: str, node: str | None = None, policy: str = "") -> None:
        for actor in self._connected(entity, node):
            actor.unadvertise(name, policy)
        self.run()

    def set_policy(
        self, entity: str, policy: str | None, subscription: str = "", advertisement: str = "", name: str = ""
    ) -> None:
        """A client sets the policy of a subscription or advertisement that it has, or takes it away."""
        about: dict[str, object] = {"advertisement": advertisement}
        if subscription:
            about = {"subscription": {"filter": subscription, "name": name}}
        for actor in self._connected(entity, None):
            actor.set_policy({"policy": policy, **about})
        self.run()

    def publish(
        self,
        entity: str,
        topic: str,
        payload: bytes = b"",
        qos: int = 0,
        retain: bool = False,
        node: str | None = None,
        policy: str = "",
        properties: tuple[tuple[str, str], ...] = (),
        expiry: int | None = None,
    ) -> None:
        """Publish at a node, unless said at the first that it is connected to; `run` then does the rest."""
        actor = self._connected(entity, node)[0]
        if entity in self.ensemble.foreign:
            actor.forward(topic, payload, qos, retain, properties)
        else:
            actor.publish(topic, payload, qos, retain, policy, properties, expiry)

    def prove(self, entity: str, groups: Iterable[str], node: str | None = None) -> None:
        """A client proves that it is in these trust groups and no others, wherever it is connected, or at one node."""
        for actor in self._connected(entity, node):
            actor.secrets = {group: made_up_secret(group) for group in groups}
            actor.prove(self.assembly.make_nonce())
        self.run()

    def show(self, entity: str, publish: Iterable[str], subscribe: Iterable[str]) -> None:
        """A client connects again wherever it is, with a token for this in place of what it is granted."""
        self.assembly.shown[entity] = frozenset(publish), frozenset(subscribe)
        for node in [at for name, at in self.assembly.actors if name == entity]:
            self.connect(entity, node)

    def widest(self, entity: str, filters: Iterable[str]) -> tuple[str, ...]:
        """What a client subscribes to that wants all it may have: these filters, or those of its token."""
        if not self.is_connected(entity):
            return ()
        granted = self.assembly.granted(entity)
        return tuple(filters) if granted is None else tuple(sorted(granted[1]))

    def refusal(self, entity: str, node: str) -> str:
        """Why the client is not connected to the node; empty if it is, or never tried."""
        actor = self.assembly.actors.get((entity, node))
        return actor.refused if actor is not None else ""

    def is_connected(self, entity: str) -> bool:
        return any(actor.is_open for (name, _), actor in self.assembly.actors.items() if name == entity)

    def where(self, entity: str, node: str | None = None) -> str:
        """The node that an entity publishes at, if it is not told where: the first it is connected to."""
        return self._connected(entity, node)[0].node

    @property
    def entities(self) -> tuple[str, ...]:
        """Clients and foreign brokers that have been connected so far."""
        return tuple(dict.fromkeys(name for name, _ in self.assembly.actors))

    def deliveries(self, entity: str) -> tuple[Delivered, ...]:
        """Everything that a client or a foreign broker has got so far, in order."""
        return tuple(self.assembly.got.get(entity, ()))

    @property
    def notices(self) -> tuple[Notice, ...]:
        """All that the nodes would have told their operators so far."""
        for node in self.nodes.values():
            self._notices += node.notices
            node.notices = []
        return tuple(self._notices)

    # --- what happens to nodes and links

    def cut(self, first: str, second: str) -> None:
        """Cut the connection of two nodes, or of a node and a foreign broker."""
        self._link(first, second)
        self.assembly.cut.add(frozenset((first, second)))
        self.assembly.break_off(first, second)
        self.assembly.break_off(second, first)
        self.run()

    def restore(self, first: str, second: str) -> None:
        """Let a connection that was cut come back."""
        link = self._link(first, second)
        self.assembly.cut.discard(frozenset((first, second)))
        self.assembly.dial(link)
        self.run()

    def restart(self, name: str) -> None:
        """Kill a node and start it again. What it keeps is what its store has; clients and links come back."""
        if name not in self.nodes:
            raise RehearsalError(f"no node `{name}`")
        clients = [actor for (_, node), actor in self.assembly.actors.items() if node == name and actor.is_open]
        for ends in [ends for ends in self.assembly.connections if name in ends]:
            self.assembly.break_off(*ends)
        self._notices += self.nodes[name].notices
        self.assembly.start(name)
        for link in self.ensemble.connections:
            if name in link.between:
                self.assembly.dial(link)
        for actor in clients:
            if actor.name not in self.ensemble.foreign:
                self.connect(actor.name, name)
        self.run()

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.assembly.now += seconds
        for node in self.nodes.values():
            for neighbour in node.neighbours.values():
                group_proofs.renew(node, neighbour, self.now)
            token_exchange.renew(node, self.now)
            self.assembly.turn(node)
        self.run()
        self._show_again()
        for node in self.nodes.values():
            lifecycle.tick(node, self.now)
            self.assembly.turn(node)
        self.run()

    def _show_again(self) -> None:
        """Clients whose tokens have ended come back with new ones; good clients do so before."""
        for name, at in [ends for ends, actor in self.assembly.actors.items() if actor.is_open]:
            here = [one for one in self.nodes[at].sessions.values() if one.entity == name and one.outlet is not None]
            if any(one.token is not None and one.token.end <= self.now for one in here):
                self.connect(name, at)

    def states(self, monitor: str) -> dict[tuple[str, str], object]:
        """A monitor's state on each link that it is on, by source and target."""
        return {
            (watch.link.source, watch.link.target): watch.states[place]
            for _, watch in self._watches(monitor)
            for place, one in enumerate(watch.monitors)
            if one.name == monitor
        }

    def rating(self, of: str, by: str) -> float:
        """How far a node trusts a neighbour."""
        ratings = self.nodes[by].ratings
        if ratings is None or of not in self.nodes[by].neighbours:
            raise RehearsalError(f"`{by}` does not rate `{of}`")
        return ratings.rating(of, self.now)

    def put_state(self, monitor: str, state: object, link: tuple[str, str] | None = None) -> None:
        """Let a monitor be in a state, on one link or on all that it is on."""
        found = False
        for node, watch in self._watches(monitor):
            for at, one in enumerate(watch.monitors):
                if one.name == monitor and link in (None, (watch.link.source, watch.link.target)):
                    resumed = one.resume(state)
                    if isinstance(one.start(), str) and resumed != state:
                        raise RehearsalError(f"monitor `{monitor}` has no state `{state}`")
                    watch.move(at, resumed)
                    node.ledger.monitor(watch.link, monitor, resumed)
                    found = True
        if not found:
            raise RehearsalError(f"no monitor `{monitor}`" + (f" on `{link[0]} -> {link[1]}`" if link else ""))
        for node in self.nodes.values():
            self.assembly.turn(node)

    def _watches(self, monitor: str) -> Iterator[tuple[Node, Watch]]:
        """Where a monitor is, at the nodes that ask it: where the link ends, or begins if it leads out of the nodes."""
        for link in self.ensemble.links.values():
            at = link.target if link.target in self.nodes else link.source
            if at in self.nodes and any(one.name == monitor for one in self.ensemble.monitors(link)):
                watch = placement.watch(self.nodes[at], link)
                assert watch is not None
                yield self.nodes[at], watch

    # --- names

    def _places(self, entity: str, node: str | None) -> tuple[str, ...]:
        """The nodes that a client is to be connected to."""
        if entity in self.ensemble.foreign or entity in self.nodes:
            raise RehearsalError(f"`{entity}` is not a client")
        if node is not None:
            if node not in self.nodes:
                raise RehearsalError(f"no node `{node}`")
            return (node,)
        listed = tuple(name for name in self.nodes if (entity, name) in self.ensemble.links)
        if listed or len(self.nodes) == 1:
            return listed or tuple(self.nodes)
        raise RehearsalError(f"client `{entity}` is not listed: say which node it connects to")

    def _connected(self, entity: str, node: str | None) -> list[Actor]:
        """The ends of an entity's connections; at least one."""
        known = [actor for (name, at), actor in self.assembly.actors.items() if name == entity and node in (None, at)]
        connected = [actor for actor in known if actor.is_open]
        if not connected:
            refused = next((f": {actor.refused}" for actor in known if actor.refused), "")
            raise RehearsalError(f"`{entity}` is not connected{f' to `{node}`' if node else ''}{refused}")
        return connected

    def _link(self, first: str, second: str) -> LinkSettings:
        for link in self.ensemble.connections:
            if {first, second} == set(link.between):
                return link
        raise RehearsalError(f"no link between `{first}` and `{second}`")
