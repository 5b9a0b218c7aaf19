"""What a server with users and rights says: MQTT 5 §3.1.4, §3.4.2.1, §3.9.3, §5.4; MQTT 3.1.1 §3.2.2.3, §3.9.3."""

from collections.abc import AsyncIterator, Iterator

import pytest

from penstock.wire.packet import (
    MQTT_5,
    MQTT_311,
    Connack,
    Connect,
    Disconnect,
    Puback,
    Publish,
    Pubrec,
    Suback,
    Subscribe,
    SubscriptionRequest,
)
from penstock.wire.properties import Properties
from penstock.wire.reason import Reason
from tests.conformance.conftest import Join, chosen_version, joining, titled
from tests.support.clients.peer import Peer
from tests.support.processes.server import Server, Wishes, serving

# `secret`, as mosquitto_passwd wrote it
PASSWORDS = (
    "alice:$7$101$gSXhnE3hCmofbm86$+dRo7/8GOI1AoVxgc3GVKR+DverVmb"
    "+yb55qyjgbUFQZfJdd1SHnlcOkCsbdou7O57IqQiR+9PUDQKCQnSPQDw=="
)
RIGHTS = """
user alice
topic readwrite open/#
topic read only-read/#
topic write only-write/#
"""
ALICE = {"username": "alice", "password": b"secret"}


@pytest.fixture(scope="module")
def guarded() -> Iterator[Server]:
    with serving(Wishes(passwords=PASSWORDS + "\n", acl=RIGHTS)) as running:
        yield running


@pytest.fixture
async def enter(guarded: Server, request: pytest.FixtureRequest) -> AsyncIterator[Join]:
    """As `join`, to `guarded`."""
    clients: list[Peer] = []
    yield joining(guarded, clients, chosen_version(request))
    for client in clients:
        await client.close()


async def test_the_right_password_opens(enter: Join, version: int) -> None:
    """[MQTT-3.1.4-5]"""
    await enter("", **ALICE)


OTHERS = {
    "nobody": {},
    "no password": {"username": "alice"},
    "wrong password": {"username": "alice", "password": b"wrong"},
    "unknown": {"username": "bob", "password": b"secret"},
}


@pytest.mark.parametrize("who", titled(OTHERS))
async def test_anybody_else_is_refused(enter: Join, version: int, who: dict[str, object]) -> None:
    """[MQTT-3.1.4-2] [MQTT-3.2.2-7] [MQTT-4.13.2-1] [MQTT311-3.2.2-5]"""
    client = await enter(None)
    await client.send(Connect("", version=version, **who))  # type: ignore[arg-type]
    answer = await client.expect(Connack, session_present=False)
    wanted = (Reason.BAD_USER_NAME_OR_PASSWORD, Reason.NOT_AUTHORIZED) if version == MQTT_5 else (4, 5)
    assert answer.reason in wanted
    await client.expect_close()


async def test_a_refused_client_does_not_disturb_the_one_that_is_there(enter: Join, version: int, name: str) -> None:
    """[MQTT-3.1.4-2]: checks come before the session is taken over."""
    client = await enter(name, **ALICE)
    other = await enter(None)
    await other.send(Connect(name, version=version, username="alice", password=b"wrong"))
    await other.expect(Connack)
    await other.expect_close()
    await client.expect_nothing()


async def test_a_message_without_the_right_goes_nowhere(enter: Join, version: int) -> None:
    """[MQTT311-3.3.5-2], §3.4.2.1: MQTT 5 is told, 3.1.1 cannot be; the connection stays."""
    watcher, client = await enter("", **ALICE), await enter("", **ALICE)
    await watcher.subscribe("only-read/#", qos=2)
    denied = Reason.NOT_AUTHORIZED if version == MQTT_5 else 0
    await client.send(Publish("only-read/a", b"x", qos=1, packet_id=1))
    await client.expect(Puback, packet_id=1, reason=denied)
    await client.send(Publish("only-read/a", b"x", qos=2, packet_id=2))
    await client.expect(Pubrec, packet_id=2, reason=denied)
    await client.send(Publish("only-read/a", b"x"))
    await client.expect_nothing()
    await watcher.expect_nothing()


async def test_after_a_refused_qos_2_message_its_identifier_is_free(enter: Join) -> None:
    """[MQTT-4.3.3-9]"""
    client = await enter("", **ALICE)
    for _ in range(2):
        await client.send(Publish("only-read/a", b"x", qos=2, packet_id=2))
        await client.expect(Pubrec, packet_id=2, reason=Reason.NOT_AUTHORIZED)
    watcher = await enter("", **ALICE)
    await watcher.subscribe("open/a", qos=2)
    await client.send(Publish("open/a", b"x", qos=2, packet_id=2))
    await client.expect(Pubrec, packet_id=2, reason=0)


async def test_what_may_not_be_read_is_not_delivered(enter: Join, version: int) -> None:
    """§5.4.2"""
    watcher, client = await enter("", **ALICE), await enter("", **ALICE)
    await watcher.subscribe("#")
    await client.publish("only-write/a", b"x")
    await client.publish("open/a", b"x")
    await watcher.receive("open/a")
    await watcher.expect_nothing()


async def test_codes_of_311_are_those_it_has(enter: Join) -> None:
    """[MQTT311-3.9.3-2]"""
    client = await enter("", version=MQTT_311, **ALICE)
    for reason in await client.subscribe("open/a", "elsewhere/a", qos=1):
        assert reason in (0, 1, 2, 0x80)


# --- reason strings


@pytest.mark.mosquitto_differs("sends no reason strings")
@pytest.mark.parametrize("asked", titled({"absent, which means 1": None, "1": True}))
async def test_a_client_is_told_why(enter: Join, name: str, asked: bool | None) -> None:
    """§3.1.2.11.7, §3.4.2.2.2"""
    client = await enter(name, properties=Properties(request_problem_info=asked), **ALICE)
    await client.send(Publish("only-read/a", b"x", qos=1, packet_id=1))
    assert (await client.expect(Puback, reason=Reason.NOT_AUTHORIZED)).properties.reason_string


async def test_a_client_that_asks_for_no_reasons_is_told_none(enter: Join, name: str) -> None:
    """[MQTT-3.1.2-29]"""
    client = await enter(name, properties=Properties(request_problem_info=False), **ALICE)
    await client.send(Publish("only-read/a", b"x", qos=1, packet_id=1))
    await client.expect(Puback, reason=Reason.NOT_AUTHORIZED, properties=Properties())


async def test_no_reason_string_makes_a_packet_too_large(enter: Join, name: str) -> None:
    """[MQTT-3.4.2-2] [MQTT-3.5.2-2] [MQTT-3.9.2-1]: it is left out, and nothing else."""
    small = Properties(request_problem_info=True, maximum_packet_size=20)
    client = await enter(name, properties=small, **ALICE)
    await client.send(Publish("only-read/a", b"x", qos=1, packet_id=1))
    await client.expect(Puback, packet_id=1, reason=Reason.NOT_AUTHORIZED, properties=Properties())
    await client.send(Publish("only-read/a", b"x", qos=2, packet_id=2))
    await client.expect(Pubrec, packet_id=2, reason=Reason.NOT_AUTHORIZED, properties=Properties())
    await client.send(Subscribe(3, (SubscriptionRequest("elsewhere/a"),)))
    await client.expect(Suback, packet_id=3, properties=Properties())


async def test_no_reason_string_makes_connack_too_large(enter: Join, name: str) -> None:
    """[MQTT-3.2.2-19]"""
    client = await enter(None)
    small = Properties(request_problem_info=True, maximum_packet_size=20)
    await client.send(Connect(name, username="alice", password=b"wrong", properties=small))
    refused = (Reason.BAD_USER_NAME_OR_PASSWORD, Reason.NOT_AUTHORIZED)
    assert (await client.expect(Connack, properties=Properties())).reason in refused
    await client.expect_close()


async def test_no_reason_string_makes_disconnect_too_large(enter: Join, name: str) -> None:
    """[MQTT-3.14.2-3]"""
    small = Properties(request_problem_info=True, maximum_packet_size=20)
    client = await enter(name, properties=small, **ALICE)
    await client.send_raw(b"\x36\x05\0\x01a\0\x01")
    await client.expect(Disconnect, reason=Reason.MALFORMED_PACKET, properties=Properties())
    await client.expect_close()
