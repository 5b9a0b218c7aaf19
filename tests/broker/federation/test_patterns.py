"""The brokering paper's usage patterns on live nodes: scoping in hierarchies (Fig. 1, §6.1.2), and roles (§6.2.3)."""

import random
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import product
from typing import Any

import pytest

from tests.support.clients.paho import Paho
from tests.support.models.ensembles import FIGURE_1
from tests.support.processes.commands import until
from tests.support.processes.federation import Nodes, federated, together

Parents = Mapping[str, tuple[str, ...]]
Seen = set[tuple[str, str]]
"""The publishers that each client received."""


def hierarchy(parents: Parents, devices: Parents) -> dict[str, Any]:
    """A domain of brokers with their parents, and devices with theirs."""
    return {
        "nodes": {name: {"store": "memory"} for name in parents},
        "links": [{"between": [child, parent]} for child, above in parents.items() for parent in above],
        "patterns": [{"pattern": "hierarchy", "parents": {name: list(above) for name, above in devices.items()}}],
    }


class Room:
    """Clients that all hear what they can of each other."""

    def __init__(self, clients: Mapping[str, Paho]) -> None:
        self.clients = clients
        self.seen: list[tuple[str, str]] = []
        """Return which publishers each client has received since the last round began."""
        for client in clients.values():
            client.subscribe("from/#", 1, noLocal=True)

    def hear(self) -> None:
        for name, client in self.clients.items():
            for _ in range(client.messages.qsize()):
                self.seen.append((client.receive().topic.removeprefix("from/"), name))

    def says_each(self) -> None:
        for name, client in self.clients.items():
            client.publish(f"from/{name}", b"", 1)

    def sees(self, expected: Seen) -> Seen:
        """Return which client receives which once all expected events have come, in two rounds of which the second
        is complete."""

        def has_come() -> bool:
            self.says_each()
            self.hear()
            return set(self.seen) >= expected

        until(has_come, f"all of {sorted(expected)}, of which there is {sorted(set(self.seen))}")
        first = set(self.seen)
        self.seen = []
        self.says_each()

        def has_come_again() -> bool:
            self.hear()
            return set(self.seen) >= expected

        until(has_come_again, "all of it once more")
        return first | set(self.seen)


@contextmanager
def room(nodes: Nodes, devices: Parents) -> Iterator[Room]:
    with ExitStack() as stack:
        clients = {
            name: stack.enter_context(Paho(name).connects(nodes.ports[node])) for name, (node,) in devices.items()
        }
        yield Room(clients)


def ancestors(parents: Parents, x: str) -> set[str]:
    """x, and all that is above it."""
    return {x}.union(*(ancestors(parents, parent) for parent in parents.get(x, ())))


def visible(parents: Parents, devices: Parents) -> Seen:
    """The scoping rule of §3: who shares an ancestor with whom."""
    everything = {**parents, **devices}
    return {
        (x, y)
        for x, y in product(devices, devices)
        if x != y and ancestors(everything, x) & ancestors(everything, y) - {x, y}
    }


def test_figure_1_an_event_is_seen_where_there_is_a_common_ancestor() -> None:
    brokers = {name: tuple(y for x, y in FIGURE_1 if x == name) for name in "ABCDE"}
    devices = {name: tuple(y for x, y in FIGURE_1 if x == name) for name in "1234"}
    expected = {(x, y) for x, heard_by in {"1": "23", "2": "13", "3": "124", "4": "3"}.items() for y in heard_by}
    with federated(hierarchy(brokers, devices)) as nodes, room(nodes, devices) as devices_of_figure_1:
        assert devices_of_figure_1.sees(expected) == expected


@pytest.mark.parametrize("seed", [0, 1, 4, 5])
def test_in_a_random_hierarchy_an_event_is_seen_if_and_only_if_there_is_a_common_ancestor(seed: int) -> None:
    rng = random.Random(seed)
    names = [f"b{at}" for at in range(rng.randint(3, 6))]
    brokers = {
        name: tuple(rng.sample(names[:at], k=min(at, rng.choice((0, 1, 1, 2))))) for at, name in enumerate(names)
    }
    devices = {f"d{at}": (rng.choice(names),) for at in range(5)}
    expected = visible(brokers, devices)
    links = sum(map(len, brokers.values()))
    with together(hierarchy(brokers, devices), links) as nodes, room(nodes, devices) as random_room:
        assert random_room.sees(expected) == expected


ROLES: dict[str, dict[str, list[str]]] = {
    "sensor": {"publish": ["pulse/#"], "members": ["monitor"]},
    "nurse": {"publish": ["call"], "subscribe": ["pulse/#"], "members": ["ann", "eve"]},
    "porter": {"publish": ["moved"], "subscribe": ["call"], "members": ["bob", "eve"]},
    "doctor": {"publish": ["order"], "subscribe": ["moved"], "inherits": ["nurse"], "members": ["dan"]},
}
"""Eve is a nurse and a porter; a doctor can do what a nurse can."""


def with_roles(roles: Mapping[str, Any], **keys: Any) -> dict[str, Any]:
    nodes = ["bus", *(f"{role}-{side}" for role in roles for side in ("pub", "sub"))]
    return {
        "nodes": {name: {"store": "memory"} for name in nodes},
        "patterns": [{"pattern": "roles", "roles": roles, **keys}],
    }


@pytest.fixture(scope="module")
def hospital() -> Iterator[Nodes]:
    with together(with_roles(ROLES), links=8) as nodes:
        yield nodes


class Member:
    """A device with its two connections for each role that it has activated."""

    def __init__(self, nodes: Nodes, stack: ExitStack, name: str, *roles: str) -> None:
        self.out = {role: stack.enter_context(Paho(name).connects(nodes.ports[f"{role}-pub"])) for role in roles}
        self.into = {role: stack.enter_context(Paho(name).connects(nodes.ports[f"{role}-sub"])) for role in roles}
        for client in self.into.values():
            client.subscribe("#", 1)

    def says(self, role: str, topic: str, payload: bytes = b"") -> None:
        self.out[role].publish(topic, payload, 1)

    def heard_until(self, role: str, topic: str, payload: bytes) -> set[str]:
        """The topics of what comes up to this event, the event not counted."""
        received = set[str]()
        while (message := self.into[role].receive()).payload != payload:
            received.add(message.topic)
        assert message.topic == topic
        return received

    def hears(self, role: str, speaker: "Member", speaking_as: str, topic: str) -> None:
        """Interest takes a moment to travel: wait until an event gets through."""

        def is_heard() -> bool:
            speaker.says(speaking_as, topic, b"settle")
            client = self.into[role]
            return topic in [client.receive().topic for _ in range(client.messages.qsize())]

        until(is_heard, f"`{topic}` gets through")


def test_roles_what_one_may_say_reaches_those_who_may_hear_it(hospital: Nodes) -> None:
    with ExitStack() as stack:
        monitor = Member(hospital, stack, "monitor", "sensor")
        ann = Member(hospital, stack, "ann", "nurse")
        bob = Member(hospital, stack, "bob", "porter")
        ann.hears("nurse", monitor, "sensor", "pulse/7")
        bob.hears("porter", ann, "nurse", "call")
        ann.says("nurse", "pulse/fake")
        ann.says("nurse", "order")
        ann.says("nurse", "call", b"last")
        assert bob.heard_until("porter", "call", b"last") <= {"call"}
        monitor.says("sensor", "call")
        monitor.says("sensor", "pulse/8", b"last")
        assert ann.heard_until("nurse", "pulse/8", b"last") <= {"pulse/7"}, "nurses do not make the pulse"


def test_roles_a_device_in_two_roles_can_do_what_each_can_and_no_more(hospital: Nodes) -> None:
    with ExitStack() as stack:
        monitor = Member(hospital, stack, "monitor", "sensor")
        bob = Member(hospital, stack, "bob", "porter")
        dan = Member(hospital, stack, "dan", "doctor")
        eve = Member(hospital, stack, "eve", "nurse", "porter")
        eve.hears("nurse", monitor, "sensor", "pulse/1")
        bob.hears("porter", eve, "nurse", "call")
        eve.hears("porter", eve, "nurse", "call")
        dan.hears("doctor", eve, "porter", "moved")
        eve.says("porter", "pulse/fake")
        eve.says("porter", "call", b"as a porter")
        eve.says("porter", "moved", b"last")
        assert dan.heard_until("doctor", "moved", b"last") <= {"moved", "pulse/1"}, "all of it has passed the bus"
        monitor.says("sensor", "pulse/2", b"last")
        assert eve.heard_until("nurse", "pulse/2", b"last") <= {"pulse/1"}, "a porter does not make the pulse"
        eve.says("nurse", "call", b"as a nurse")
        assert bob.heard_until("porter", "call", b"as a nurse") <= {"call"}
        assert eve.heard_until("porter", "call", b"as a nurse") <= {"call"}


def test_roles_what_both_roles_hear_comes_by_both_connections() -> None:
    """§6.2.3: a device of several roles may receive the same event several times."""
    roles = {role: {"publish": ["x"], "subscribe": ["x"], "members": ["both"]} for role in ("one", "two")}
    with together(with_roles(roles), links=4) as nodes, ExitStack() as stack:
        both = Member(nodes, stack, "both", "one", "two")
        both.hears("one", both, "one", "x")
        both.hears("two", both, "one", "x")
        both.says("one", "x", b"once")
        both.heard_until("one", "x", b"once")
        both.heard_until("two", "x", b"once")


def test_roles_a_senior_role_hears_and_says_what_its_junior_does(hospital: Nodes) -> None:
    with ExitStack() as stack:
        monitor = Member(hospital, stack, "monitor", "sensor")
        bob = Member(hospital, stack, "bob", "porter")
        dan = Member(hospital, stack, "dan", "doctor")
        dan.hears("doctor", monitor, "sensor", "pulse/3")
        dan.hears("doctor", bob, "porter", "moved")
        bob.hears("porter", dan, "doctor", "call")


def test_roles_nested_have_the_events_of_their_juniors_by_the_juniors_nodes() -> None:
    """§6.2.3, the extension: brokers of roles that mirror the role hierarchy. What comes by two ways comes once."""
    roles = {
        "chief": {"publish": ["order"], "subscribe": ["pulse/#"], "inherits": ["nurse"], "members": ["dan"]},
        "nurse": {"publish": ["call"], "subscribe": ["pulse/#"], "inherits": ["guest"], "members": ["ann"]},
        "guest": {"publish": ["hello"], "subscribe": ["call", "order"], "members": ["bob"]},
        "sensor": {"publish": ["pulse/#"], "members": ["monitor"]},
    }
    with together(with_roles(roles, nested=True), links=12) as nodes, ExitStack() as stack:
        dan, ann = Member(nodes, stack, "dan", "chief"), Member(nodes, stack, "ann", "nurse")
        bob, monitor = Member(nodes, stack, "bob", "guest"), Member(nodes, stack, "monitor", "sensor")
        bob.hears("guest", dan, "chief", "order")
        bob.hears("guest", dan, "chief", "call")
        dan.hears("chief", ann, "nurse", "call")
        dan.hears("chief", monitor, "sensor", "pulse/1")
        ann.hears("nurse", monitor, "sensor", "pulse/1")
        ann.says("nurse", "order", b"not hers")
        bob.says("guest", "call", b"not his")
        ann.says("nurse", "call", b"last")
        payloads = []
        while b"last" not in payloads:
            payloads.append(bob.into["guest"].receive().payload)
        assert not {b"not hers", b"not his"} & set(payloads)
        for number in range(20):
            monitor.says("sensor", "pulse/2", str(number).encode())
        got = []
        while b"19" not in got:
            message = dan.into["chief"].receive()
            assert message.payload not in (b"not hers", b"not his")
            got += [message.payload] if message.topic == "pulse/2" else []
        assert got == [str(number).encode() for number in range(20)], "by two ways, and once"


def test_roles_only_members_come_in(hospital: Nodes) -> None:
    for stranger, node in (("bob", "nurse-pub"), ("bob", "nurse-sub"), ("mallory", "porter-pub"), ("ann", "bus")):
        with Paho(stranger) as client:
            assert client.tries(hospital.ports[node]).reason.value == 0x87


def test_roles_members_by_condition_come_in_and_others_do_not() -> None:
    roles = {"nurse": {"publish": ["call"], "subscribe": ["call"], "members": {"when": "subject.attributes.ward == 3"}}}
    clients = {"ann": {"attributes": {"ward": 3}}, "bob": {"attributes": {"ward": 4}, "node": "bus", "type": "DevUp"}}
    with together({**with_roles(roles), "clients": clients}, links=2) as nodes, ExitStack() as stack:
        ann = Member(nodes, stack, "ann", "nurse")
        ann.hears("nurse", ann, "nurse", "call")
        for node in ("nurse-pub", "nurse-sub"):
            with Paho("bob") as bob:
                assert bob.tries(nodes.ports[node]).reason.value == 0x87
