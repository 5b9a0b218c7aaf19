"""Clients that may connect, and their rights: password file, ACL file, anonymous clients; and the log lines."""

import json
from collections.abc import Iterator

import pytest

from tests.support.clients.paho import Paho, value
from tests.support.clients.peer import Peer
from tests.support.processes.mosquitto import HOST
from tests.support.processes.node import ANY_PORT, LiveNode, passwords, running

ACL = """
topic read weather/#
user ann
topic readwrite home/ann/#
topic deny home/ann/diary
topic read weather/#
user bob
topic write home/ann/door
pattern readwrite sensor/%c/#
pattern read mail/%u
"""
ANYWHERE = "0.0.0.0:0"


@pytest.fixture(scope="module")
def files() -> dict[str, str]:
    return {"passwords": passwords(ann="apple", bob="banana"), "acl": ACL}


@pytest.fixture(scope="module")
def node(files: dict[str, str]) -> Iterator[LiveNode]:
    """Users with passwords; a second listener for anonymous clients; a log of JSON."""
    settings = {
        "listen": [ANY_PORT, {"address": ANY_PORT, "anonymous": True}],
        "passwords": "passwords",
        "acl": "acl",
        "log": {"format": "json"},
    }
    with running(settings, files) as live:
        yield live


def _ann(node: LiveNode, client_id: str = "", version: int = 5) -> Paho:
    return Paho(client_id, version).is_user("ann", "apple").connects(node.port)


def _logged(node: LiveNode, *parts: str) -> dict[str, str]:
    entry: dict[str, str] = json.loads(node.until_logged(*parts))
    return entry


# --- who may connect


@pytest.mark.parametrize(
    ("user", "password", "accepted"),
    [
        ("ann", "apple", True),
        ("ann", "banana", False),
        ("ann", "", False),
        ("ann", None, False),
        ("eve", "apple", False),
        (None, None, False),
    ],
)
@pytest.mark.parametrize("version", [4, 5])
def test_passwords(node: LiveNode, version: int, user: str | None, password: str | None, accepted: bool) -> None:
    with Paho(version=version) as client:
        if user is not None:
            client.is_user(user, password)
        reason = client.tries(node.port).reason
        assert reason.value == 0 if accepted else reason.is_failure
        if version == 5 and not accepted:
            assert reason.value == 0x87


def test_a_refusal_is_logged_without_the_password(node: LiveNode) -> None:
    with Paho().is_user("mallory", "guessed-password") as client:
        assert client.tries(node.port).reason.is_failure
    entry = _logged(node, "refused", "mallory")
    assert entry["reason"] == "NOT_AUTHORIZED"
    assert "guessed-password" not in node.log


def test_anonymous_where_it_is_asked_for(node: LiveNode) -> None:
    with Paho().connects(node.ports("mqtt")[1]) as guest:
        assert guest.subscribe("weather/today", 1) == 1
        assert guest.publish("weather/today", b"rain", 1) == 0x87


LISTENERS = [
    (ANY_PORT, None, True),
    (ANY_PORT, False, False),
    (ANYWHERE, None, False),
    (ANYWHERE, True, True),
]


def test_anonymous_is_for_loopback_unless_asked_for() -> None:
    listeners = [
        {"address": address} | ({} if anonymous is None else {"anonymous": anonymous})
        for address, anonymous, _ in LISTENERS
    ]
    with running({"listen": listeners}) as live:
        for port, (address, anonymous, accepted) in zip(live.ports("mqtt"), LISTENERS, strict=True):
            with Paho() as guest:
                assert guest.tries(port).reason.value == (0 if accepted else 0x87), (address, anonymous)


# --- who may do what


def test_a_denied_publish_is_told_and_logged(node: LiveNode) -> None:
    with _ann(node, "ann-1") as ann:
        ann.subscribe("home/ann/#", 2)
        assert ann.publish("home/bob/door", b"x", 1) == 0x87
        assert ann.publish("home/ann/diary", b"x", 1) == 0x87
        ann.client.publish("home/bob/window", b"x", 0)
        assert ann.publish("home/ann/door", b"open", 1) == 0
        assert ann.receive().payload == b"open"
    for topic in ("home/bob/door", "home/ann/diary", "home/bob/window"):
        entry = _logged(node, "publish denied", topic)
        assert (entry["level"], entry["client"], entry["user"]) == ("info", "ann-1", "ann")
        assert entry["reason"]


async def test_a_denied_qos_2_publish_ends_with_its_pubrec(node: LiveNode) -> None:
    ann = await Peer.open(HOST, node.port)  # paho goes on with PUBREL whatever the PUBREC says
    await ann.connect(username="ann", password=b"apple")
    assert await ann.publish("home/ann/diary", b"x", 2) == 0x87
    await ann.disconnect()


def test_an_old_client_is_not_told_and_not_left_waiting(node: LiveNode) -> None:
    with _ann(node, version=4) as ann:
        ann.subscribe("home/ann/#", 2)
        for qos in (1, 2):
            assert ann.publish("home/ann/diary", b"x", qos) == 0
        ann.publish("home/ann/door", b"open", 1)
        assert ann.receive().payload == b"open"


def test_a_denied_subscription_is_told_and_logged(node: LiveNode) -> None:
    with _ann(node, "ann-2") as ann, _ann(node, version=4) as old:
        assert ann.subscribe("home/ann/diary", 1) == 0x87
        assert old.subscribe("home/ann/diary", 1) == 0x80
    entry = _logged(node, "subscribe denied", "ann-2")
    assert (entry["level"], entry["user"], entry["topic"]) == ("info", "ann", "home/ann/diary")
    assert entry["reason"]


def test_a_message_that_may_not_be_read_does_not_arrive(node: LiveNode) -> None:
    with _ann(node) as ann, Paho().is_user("bob", "banana").connects(node.port) as bob:
        bob.subscribe("home/#", 1)
        ann.subscribe("home/#", 1)
        ann.publish("home/ann/a", b"1", 1, retain=True)
        bob.publish("home/ann/door", b"2", 1)
        assert ann.payloads(2) == [b"1", b"2"]
        bob.subscribe("home/ann/#", 1)  # nor as a retained message
        bob.subscribe("sensor/#", 1)
        ann.publish("home/ann/a", b"", 1, retain=True)
        assert bob.messages.empty()


def test_patterns_have_the_client_id_and_the_user(node: LiveNode) -> None:
    with _ann(node, "meter") as ann:
        assert ann.publish("sensor/meter/power", b"x", 1) == 0x10
        assert ann.publish("sensor/other/power", b"x", 1) == 0x87
        assert ann.publish("mail/ann", b"x", 1) == 0x87


def test_a_will_is_judged_like_any_message(node: LiveNode) -> None:
    with _ann(node) as watcher:
        watcher.subscribe("home/ann/#", 1)
        for topic in ("home/ann/diary", "home/ann/left"):
            sender = Paho(topic.rpartition("/")[2]).is_user("ann", "apple")
            sender.client.will_set(topic, topic, 1)
            sender.connects(node.port).breaks()
            if topic == "home/ann/diary":
                _logged(node, "publish denied", '"client": "diary"')
        assert watcher.receive().payload == b"home/ann/left"


def test_the_reason_names_the_line_of_the_file(node: LiveNode) -> None:
    with _ann(node, "ann-3") as ann:
        ann.publish("home/ann/diary", b"x", 1)
    entry = _logged(node, "publish denied", "ann-3")
    assert "acl:5" in entry["reason"], entry


def test_a_reason_string_for_whoever_does_not_ask_for_none(node: LiveNode) -> None:
    with Paho().is_user("eve", "apple") as eve:
        connected = eve.tries(node.port)
        assert "eve" in value(connected.properties, "ReasonString")
