"""The same access control file, the same clients: our Rights say what a real Mosquitto does."""

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.reasoncodes import ReasonCode

from penstock.model.topic import matches
from penstock.policy.access.acl import Acl
from tests.support.processes.mosquitto import HOST, Mosquitto, mosquitto

CLIENTS: list[tuple[str, str | None]] = [
    ("c1", None),
    ("a", "ann"),
    ("b", "ann"),
    ("c1", "bob"),
    ("x+", "bob"),
    ("#", None),
    ("x", "b"),
    ("%u", "a+b"),
    ("d", ""),
]
TOPICS = [
    *(
        "a",
        "b",
        "a/a",
        "a/b",
        "b/a",
        "a/ann",
        "ann/b",
        "c1/a",
        "a/c1/b",
        "b/%u",
        "b/a/b",
        "a/b/c1",
        "/",
        "/a",
    ),
    *("$d/a", "$d/c1", "with space", "b/", "a/b/"),
]
LEVELS = ["a", "b", "+", "a", "b", "+", "%c", "%u", "ann", "", "c%c"]
FILTERS = ["#", "a/#", "+/b", "a/+", "a", "b/a/#", "+/+", "/#", "$d/#", "$d/+"]
OVERSEER = "overseer"
_PATIENCE = 10


def random_file(seed: int) -> str:
    """Lines chosen so that grants and denials meet, by topic and by pattern, in every order."""
    choose = random.Random(seed)

    def line(keyword: str) -> str:
        levels = [choose.choice(LEVELS) for _ in range(choose.randint(1, 3))]
        filter = "/".join(levels) + choose.choice(["", "", "/#"])
        filter = choose.choice([filter or "+", filter or "+", filter or "+", "#", f"$d/{choose.choice(LEVELS)}"])
        return f"{keyword} {choose.choice(['read', 'write', 'readwrite', 'deny', 'deny'])} {filter}"

    def section(user: str) -> list[str]:
        rules = [line(choose.choice(["topic", "topic", "pattern"])) for _ in range(choose.randint(0, 5))]
        return [user, *rules]

    users = [f"user {choose.choice(['ann', 'bob', 'b', 'zoe'])}" for _ in range(4)]
    lines = [text for user in ["# clients without a name", *users] for text in section(user)]
    return "\n".join([*lines, f"user {OVERSEER}", "topic readwrite #", "topic readwrite $d/#", ""])


class Probe:
    """A client that asks the broker what it may do."""

    def __init__(self, broker: Mosquitto, client_id: str, user: str | None) -> None:
        self._client = paho.Client(CallbackAPIVersion.VERSION2, client_id, protocol=paho.MQTTv5)
        if user is not None:
            self._client.username_pw_set(user)
        self._answered = threading.Condition()
        self._answers: dict[int, ReasonCode] = {}
        self._received: set[str] = set()
        self._client.on_publish = self._on_publish
        self._client.on_subscribe = self._on_subscribe
        self._client.on_message = lambda client, data, message: self._received.add(message.topic)
        self._client.connect(HOST, broker.port)
        self._client.loop_start()

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()

    def subscribe(self, *filters: str) -> None:
        for filter in filters:
            number = self._client.subscribe(filter)[1]
            assert number is not None
            assert not self._answer(number).is_failure

    def received(self) -> set[str]:
        """Every topic that was sent to this client until now."""
        self.subscribe("barrier")  # its answer comes after whatever the broker has sent before
        return self._received

    def publish(self, topics: list[str]) -> set[str]:
        """Publish to each topic; those that the broker took."""
        numbers = {topic: self._client.publish(topic, "x", qos=1).mid for topic in topics}
        return {topic for topic, number in numbers.items() if not self._answer(number).is_failure}

    def _on_publish(self, client: Any, data: Any, number: int, code: ReasonCode, properties: Any) -> None:
        with self._answered:
            self._answers[number] = code
            self._answered.notify_all()

    def _on_subscribe(self, client: Any, data: Any, number: int, codes: Any, properties: Any) -> None:
        self._on_publish(client, data, number, codes[0], properties)

    def _answer(self, number: int) -> ReasonCode:
        with self._answered:
            assert self._answered.wait_for(lambda: number in self._answers, _PATIENCE), "no answer"
            return self._answers[number]


@contextmanager
def probe(broker: Mosquitto, client_id: str, user: str | None) -> Iterator[Probe]:
    client = Probe(broker, client_id, user)
    try:
        yield client
    finally:
        client.close()


@pytest.mark.parametrize("seed", range(20))
def test_reads_and_writes_as_mosquitto_does(seed: int, tmp_path: Path) -> None:
    file = tmp_path / "acl"
    file.write_text(random_file(seed))
    acl = Acl.read(file)
    with (
        mosquitto(f"allow_anonymous true\nset_tcp_nodelay true\nacl_file {file}") as broker,
        probe(broker, "o", OVERSEER) as overseer,
    ):
        for client_id, user in CLIENTS:
            with probe(broker, client_id, user) as client:
                client.subscribe("#", "$d/#")
                assert overseer.publish(TOPICS) == set(TOPICS)
                read = client.received()
                written = client.publish(TOPICS)
            rights = acl.rights(client_id, user)
            about = f"client {client_id!r} user {user!r} with\n{file.read_text()}"
            assert {topic for topic in TOPICS if rights.may_read(topic)} == read, about
            assert {topic for topic in TOPICS if rights.may_write(topic)} == written, about


@pytest.mark.parametrize("seed", range(200))
def test_a_refused_subscription_has_nothing_to_read(seed: int, tmp_path: Path) -> None:
    file = tmp_path / "acl"
    file.write_text(random_file(seed))
    acl = Acl.read(file)
    for client_id, user in CLIENTS:
        rights = acl.rights(client_id, user)
        for filter in FILTERS:
            if not rights.may_subscribe(filter):
                assert not [t for t in TOPICS if matches(filter, t) and rights.may_read(t)], rights.why_subscribe(
                    filter
                )
