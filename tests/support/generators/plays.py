"""Random plays over time: random traffic of all kinds in a random domain of one to four nodes, and between it the
domain changes, nodes are killed, links are cut, clients go and come.

`Play.check` asks after each step whether all that left in it is what the present domain allows.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from msgspec import structs

from penstock.broker.store.store import Store
from penstock.domain import Domain, ensemble
from penstock.engine.rehearsal.peer import Delivered, Peer
from penstock.engine.rehearsal.rehearsal import Rehearsal
from penstock.engine.rehearsal.wires import Wire
from penstock.engine.sessions import lifecycle
from penstock.policy.access.acl import Acl
from penstock.policy.tokens.revocation import Revoked
from penstock.policy.tokens.token import parse_token
from penstock.wire import packet as mqtt
from penstock.wire.packet import Packet
from penstock.wire.properties import NO_PROPERTIES, Properties
from tests.support.memory.recording import seen_by
from tests.support.memory.rehearsed import reload
from tests.support.memory.sparkplug import encode
from tests.support.models.present_domain import EDGE, FOREIGN, METRICS, TOPICS, Present, Sent, Shape

FILTERS = ("#", "t/+", *TOPICS, "spBv1.0/#", "$sparkplug/#", "$share/g/t/#")
STEPS = 20


class PlayPeer(Peer):
    """A client that can leave a will, take its time with acknowledgements, and tell which token it has shown."""

    leave_will: Callable[["PlayPeer"], mqtt.WillMessage | None]
    token = ""
    is_slow = False
    is_born = False
    """An edge node: it has published a birth on this connection."""

    def __init__(self, name: str, node: str, got: Callable[[Delivered], None]) -> None:
        super().__init__(name, node, got)
        self.got_bytes: Counter[bytes] = Counter()
        """All that it was sent, each once, as the journal has it."""
        self._last: dict[int, bytes] = {}

    def join(self, transport: Any, greeting: mqtt.Connect | None, claimant: Any = None) -> None:
        assert greeting is not None
        self.unacknowledged: list[Packet] = []
        self.is_born = False
        self.token = parse_token(greeting.password).claims.id if greeting.password else ""
        properties = structs.replace(greeting.properties, receive_maximum=3)
        will = self.leave_will(self)
        super().join(transport, structs.replace(greeting, will=will, properties=properties), claimant)

    def _handle(self, packet: Packet) -> None:
        if isinstance(packet, mqtt.Publish):
            seen = seen_by(self.name, packet)
            if not packet.dup or self._last.get(packet.packet_id) != seen:
                self.got_bytes[seen] += 1
            self._last[packet.packet_id] = seen
        super()._handle(packet)

    def _send(self, packet: Packet) -> None:
        if self.is_slow and isinstance(packet, mqtt.Puback | mqtt.Pubrec):
            self.unacknowledged.append(packet)
        else:
            super()._send(packet)

    def acknowledge(self) -> None:
        self.is_slow = False
        while self.unacknowledged:
            self._send(self.unacknowledged.pop(0))


class Leak(AssertionError):
    """Something left that the present domain does not allow."""


class Play:
    """One play: what was published, what the domain is, and what each reader has got so far."""

    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        self.shape = shape = Shape.draw(random)
        self.present = Present(shape)
        self.log: list[str] = [f"{shape}"]
        self.published: dict[int, Sent] = {}
        self.seen: Counter[str] = Counter()
        self.begun: set[tuple[str, Sent]] = set()
        self.cut: set[tuple[str, str]] = set()
        self.aliases = dict(zip(METRICS, range(1, 4), strict=True))
        domain = Domain.model_validate(self.present.as_domain())
        stores = {name: Store(Path(":memory:"), "normal") for name in shape.nodes}
        self.rehearsal = Rehearsal(domain, ensemble(domain), self._acls(), stores, self._choose)
        self.begin()
        self.peers = {name: PlayPeer(name, node, self._got(name)) for name, node in shape.clients.items()}
        for name, peer in self.peers.items():
            peer.leave_will = self._will
            self.rehearsal.assembly.peers[name, peer.node] = peer
            self._come(name)
        for reader in shape.readers:
            self.rehearsal.subscribe(reader, random.choice(("#", "t/+", *TOPICS)), random.randint(0, 2))
            self.rehearsal.subscribe(reader, "spBv1.0/#", random.randint(0, 2))
        self._birth()
        self._rest()

    def begin(self) -> None:
        """Do what must be done before anybody connects."""

    def fit(self, present: Present) -> Present:
        """Leave out of a domain what is not to be played."""
        return present

    def changes(self) -> None:
        """Do what must be done before nodes are given the present domain."""

    def took(self, reader: str, delivered: Delivered) -> None:
        """Note what a reader was sent since the last check."""

    def _got(self, name: str) -> Any:
        return self.rehearsal.assembly.got.setdefault(name, []).append

    def _acls(self) -> dict[str, Acl]:
        return {name: Acl.parse(self.present.access_list(name), "acl") for name in self.shape.nodes}

    def _choose(self, wires: Sequence[Wire]) -> Wire:
        """What has left a node for a client arrives at once; between nodes, connections are served in any order."""
        return next((wire for wire in wires if wire.target not in self.shape.nodes), None) or self.random.choice(wires)

    @property
    def now(self) -> float:
        return self.rehearsal.now

    def play(self, steps: int = STEPS) -> "Play":
        for _ in range(steps):
            self.step()
        self._rest()
        return self

    def acts(self) -> tuple[Callable[[], object], ...]:
        """What may be done in a step."""
        return (
            *(self._publish, self._publish, self._publish, self._report, self._report, self._birth),
            *(self._change, self._change, self._restart, self._rebirth_meanwhile),
            *(self._link, self._come_or_go, self._come_or_go, self._lose, self._subscribe, self._slow, self._wait),
        )

    def step(self) -> None:
        self.random.choice(self.acts())()
        if self.random.random() < 0.8:
            self._rest()

    def _rest(self) -> None:
        """Let everything arrive."""
        self.rehearsal.run()
        self.check()

    # --- traffic

    def _new(self, sent: Sent) -> tuple[int, bytes]:
        number = len(self.published)
        self.published[number] = sent
        return number, json.dumps({"n": number, "x": sent.x, "y": 1}).encode()

    def _publish(self) -> None:
        random = self.random
        for _ in range(random.randint(1, 2)):
            publisher, topic = random.choice(self.shape.speakers), random.choice(TOPICS)
            if self.rehearsal.is_connected(publisher):
                expiry = None if publisher == FOREIGN else random.choice((None, None, 4))
                sent = self._sent(publisher, topic, random.randint(1, 9), expiry)
                self._say(sent, random.randint(0, 2), random.random() < 0.4, expiry)

    def _sent(self, publisher: str, topic: str, x: int = 0, expiry: int | None = None) -> Sent:
        """What a publisher that is connected would publish now."""
        token = "" if publisher == FOREIGN else self.peers[publisher].token
        expires = None if expiry is None else self.now + expiry
        return Sent(publisher, self.rehearsal.where(publisher), topic, x, self.now, expires, token)

    def _say(self, sent: Sent, qos: int, retain: bool, expiry: int | None = None) -> None:
        number, payload = self._new(sent)
        self.log.append(f"{sent.publisher} publishes {number}: {sent} qos={qos} retain={retain}")
        self.rehearsal.publish(sent.publisher, sent.topic, payload, qos, retain, sent.node, expiry=expiry)

    def _sparkplug(
        self, kind: str, metrics: list[dict[str, Any]], payload: bytes | None = None, qos: int | None = None
    ) -> None:
        if self.rehearsal.is_connected(EDGE):
            sent = self._sent(EDGE, f"spBv1.0/G/{kind}/E")
            number = len(self.published)
            self.published[number] = sent
            for metric in metrics:
                metric["string_value"] = f"{metric['string_value']}!{number};"
            content = payload or encode({"timestamp": number, "seq": int(kind == "NDATA"), "metrics": metrics})
            qos = self.random.randint(0, 1) if qos is None else qos
            self.log.append(f"{number}: {kind} qos={qos} {metrics or payload!r}")
            self.rehearsal.publish(EDGE, sent.topic, content, qos)

    def _birth(self, qos: int | None = None, is_damaged: bool | None = None) -> None:
        """Give aliases other meanings. A birth may be damaged: nodes refuse it, and the edge node goes on as it is."""
        if not self.rehearsal.is_connected(EDGE):
            return
        self.aliases = dict(zip(METRICS, self.random.sample(range(1, 5), len(METRICS)), strict=True))
        self.peers[EDGE].is_born = True
        if self.random.random() < 0.3 if is_damaged is None else is_damaged:
            self._sparkplug("NBIRTH", [], b"\xff\xffdamaged", qos)
            return
        metrics = [
            {"name": name, "alias": alias, "datatype": 12, "string_value": name} for name, alias in self.aliases.items()
        ]
        self._sparkplug("NBIRTH", metrics, qos=qos)

    def _report(self) -> None:
        """Report by aliases. After a connection, most edge nodes publish a birth first."""
        if not self.peers[EDGE].is_born and self.random.random() < 0.8:
            self._birth()
        self._say_metrics(self.random.sample(METRICS, self.random.randint(1, len(METRICS))))

    def _say_metrics(self, names: Sequence[str], qos: int | None = None) -> None:
        metrics = [{"alias": self.aliases[name], "string_value": name} for name in names]
        self._sparkplug("NDATA", metrics, qos=qos)

    # --- clients

    def _will(self, peer: PlayPeer) -> mqtt.WillMessage | None:
        """Each time a publisher connects, it may leave another will."""
        random = self.random
        if peer.name not in ("p1", "p2") or random.random() < 0.3:
            return None
        topic, qos, retain, delay = (
            random.choice(TOPICS),
            random.randint(0, 2),
            random.random() < 0.4,
            random.choice((0, 0, 3)),
        )
        sent = Sent(peer.name, peer.node, topic, random.randint(1, 9), self.now, None, peer.token)
        number, payload = self._new(sent)
        self.log.append(f"will {number}: {self.published[number]} qos={qos} retain={retain} delay={delay}")
        return mqtt.WillMessage(topic, payload, qos, retain, Properties(will_delay=delay) if delay else NO_PROPERTIES)

    def _come(self, name: str) -> None:
        self.log.append(f"{name} comes")
        self.rehearsal.connect(name, self.shape.clients[name])

    def _come_or_go(self) -> None:
        name = self.random.choice(list(self.shape.clients))
        if self.rehearsal.is_connected(name):
            self.log.append(f"{name} goes")
            self.rehearsal.disconnect(name)
        elif name not in self.present.unlisted:
            self._come(name)

    def _lose(self) -> None:
        """The connection of a client breaks; or the session of one that is away ends."""
        name = self.random.choice(["p1", "p2", *self.shape.clients])
        node = self.shape.clients[name]
        if self.rehearsal.is_connected(name):
            self.log.append(f"the connection of {name} breaks")
            self.rehearsal.assembly.break_off(node, name)
        elif self.random.random() < 0.3:
            self.log.append(f"the session of {name} ends")
            sessions = self.rehearsal.nodes[node].sessions
            for session in [session for session in sessions.values() if session.client_id == name]:
                lifecycle.end(self.rehearsal.nodes[node], session, self.now)

    def _subscribe(self) -> None:
        random = self.random
        name, filter, qos = random.choice(list(self.shape.readers)), random.choice(FILTERS), random.randint(0, 2)
        if self.rehearsal.is_connected(name):
            is_more = random.random() < 0.8
            self.log.append(f"{name} subscribes to {filter} qos={qos}" if is_more else f"{name} leaves {filter}")
            if is_more:
                self.rehearsal.subscribe(name, filter, qos)
            else:
                self.rehearsal.unsubscribe(name, filter)

    def _slow(self) -> None:
        """A reader acknowledges nothing from now on, or all that it has not."""
        peer = self.peers[self.random.choice(list(self.shape.readers))]
        self.log.append(f"{peer.name} {'acknowledges' if peer.is_slow else 'is slow'}")
        if peer.is_slow:
            peer.acknowledge()
        else:
            peer.is_slow = True

    def _wait(self) -> None:
        seconds = self.random.choice((1, 3, 6))
        self.log.append(f"{seconds} s pass")
        self._rest()
        self.rehearsal.wait(seconds)

    # --- nodes, links and the domain

    def _change(self) -> None:
        before, random = self.present, self.random
        changed = before.changed(random, self.now)
        tokens = [sent.token for sent in self.published.values() if sent.token]
        if tokens and random.random() < 0.3:
            changed = replace(before, revoked=before.revoked | {random.choice(tokens)})
        if self.cut and changed.lists != before.lists:
            return  # nodes that are cut off do not hear of another access list
        self._become(changed)
        if random.random() < 0.5:  # what is retained is judged by the domain of now
            self._subscribe()

    def _become(self, changed: Present) -> None:
        """Have all nodes take another domain; one of them may be killed and start with it."""
        self._rest()
        self.present = self.fit(changed)
        killed = self.random.choice(self.shape.nodes) if self.random.random() < 0.25 else None
        self.log.append(
            f"the domain is {self.present}" + (f", and {killed} is killed and starts with it" if killed else "")
        )
        self.changes()
        revoked = Revoked(self.present.revoked)
        reload(self.rehearsal, self.present.as_domain(), self._acls(), revoked, killed)

    def _restart(self) -> None:
        name = self.random.choice(self.shape.nodes)
        self.log.append(f"{name} is killed and starts again")
        self.rehearsal.restart(name)

    def _link(self) -> None:
        if self.shape.joined:
            link = self.random.choice(self.shape.joined)
            self.log.append(f"{link} is {'restored' if link in self.cut else 'cut'}")
            (self.rehearsal.restore if link in self.cut else self.rehearsal.cut)(*link)
            self.cut ^= {link}

    def _rebirth_meanwhile(self) -> None:
        """Aliases get other meanings while a link is cut; reports by these come over it as soon as it is back."""
        links = [link for link in self.shape.links if link not in self.cut]
        if links:
            link = self.random.choice(links)
            self._rest()
            self.log.append(f"{link} is cut, and restored after a birth")
            self.rehearsal.cut(*link)
            self._birth()
            self._rest()
            self.rehearsal.restore(*link)
            self._report()

    # --- the oracle

    def check(self) -> None:
        for reader in (*self.shape.readers, *([FOREIGN] if self.shape.foreign else [])):
            got = self.rehearsal.deliveries(reader)
            for delivered in got[self.seen[reader] :]:
                is_allowed = self.is_allowed(reader, delivered)
                self.took(reader, delivered)
                if not is_allowed:
                    raise Leak("\n".join((*self.log, f"{self.now}: {reader} gets {delivered}")))
            self.seen[reader] = len(got)

    def is_allowed(self, reader: str, delivered: Delivered) -> bool:
        if delivered.topic.startswith("t/"):
            content = json.loads(delivered.payload)
            sent = self.published[content["n"]]
            if (reader, sent) in self.begun:
                sent = sent._replace(expires=None)  # [MQTT-3.3.2-5] is about deliveries that have not begun
            self.begun.add((reader, sent))
            return delivered.topic == sent.topic and self.present.allows(sent, reader, "y" in content, self.now)
        said = re.findall(rb"(\w+)!(\d+);", delivered.payload)
        metrics = {name.decode() for name, _ in said}
        is_kept = delivered.topic.startswith("$sparkplug/")
        return all(
            self.present.allows_metrics(self.published[int(number)], reader, metrics, self.now, is_kept)
            for _, number in said
        )
