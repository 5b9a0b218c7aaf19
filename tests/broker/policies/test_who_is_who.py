"""Who is who, on live nodes: rights and policies concern only their owner, and answers tell nothing of others."""

from typing import Any

from tests.support.clients.paho import Paho, value
from tests.support.processes.node import passwords, running

WARM, COLD = b'{"x": 30}', b'{"x": 3}'


def test_a_listed_client_id_is_refused_to_every_other_client() -> None:
    """Issue 17, item 13: another client with the id of `pump` had its rights by `%c`, and ended its session."""
    files = {
        "passwords": passwords(pump="p", eve="e", guest="g"),
        "acl": "pattern readwrite plant/%c/#\nuser guest\ntopic write plant/#\n",
    }
    clients = {"pump": {"node": "main", "user": "pump", "id": "pump-1"}, "eve": {"node": "main", "user": "eve"}}
    default = {"types": ["open"], "default": "open"}
    with (
        running({"passwords": "passwords", "acl": "acl"}, files, clients=clients, brokering=default) as node,
        Paho("pump-1", clean=False).is_user("pump", "p").connects(node.port, SessionExpiryInterval=60) as pump,
    ):
        pump.subscribe("plant/pump-1/#", 1)
        for user, password, id in (("eve", "e", "pump-1"), ("guest", "g", "pump-1"), ("guest", "g", "eve")):
            with Paho(id, clean=False).is_user(user, password) as other:
                refused = other.tries(node.port)
                assert refused.reason.value == 0x87, (user, id)
                assert f"client id `{id}` belongs to another" in value(refused.properties, "ReasonString")
        with Paho("eve").is_user("eve", "e").connects(node.port) as eve:
            assert eve.publish("plant/eve/x", b"", 1) in (0, 0x10)
            assert eve.publish("plant/pump-1/x", b"", 1) == 0x87
        with Paho("phone").is_user("guest", "g").connects(node.port) as guest:
            assert guest.publish("plant/pump-1/go", b"", 1) == 0
        assert pump.receive().topic == "plant/pump-1/go"  # the session is as it was


def test_an_answer_does_not_tell_what_others_ask_for() -> None:
    """Issue 17, item 15: 0x10 told a publisher which values no `where` of another client is true for."""
    with (
        running() as node,
        Paho("reader").connects(node.port) as reader,
        Paho("publisher").connects(node.port) as publisher,
    ):
        reader.subscribe("room/1", 1, said={"where": "x > 20"})
        assert publisher.publish("room/1", WARM, 1) == publisher.publish("room/1", COLD, 1) == 0
        assert publisher.publish("room/2", WARM, 1) == 0x10
        assert reader.receive().payload == WARM


def test_what_is_suppressed_in_secret_is_answered_like_what_nobody_subscribes_to() -> None:
    """Issue 17, item 15: with `suppressed: hide` the answers were 0x00 and 0x10."""
    monitor = {"link": "eve -> main", "states": {"q0": {"secret": "suppress", "*": "pass"}}}
    more: dict[str, Any] = {
        "clients": {"eve": {"node": "main"}, "reader": {"node": "main"}},
        "monitors": {"quiet": monitor},
    }
    with (
        running({"suppressed": "hide"}, **more) as node,
        Paho("reader").connects(node.port) as reader,
        Paho("eve").connects(node.port) as eve,
    ):
        reader.subscribe("heard", 1)
        reader.subscribe("asked", 1, said={"where": "x > 20"})
        assert [eve.publish(topic, COLD, 1) for topic in ("secret", "unheard", "heard", "asked")] == [0, 0, 0, 0]
        assert reader.receive().topic == "heard"
