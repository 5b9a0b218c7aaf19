"""Access policies that are valid at times, at live nodes: a window that opens releases what is due, one that ends stops
it, and what waits is judged by the time at which it leaves.
"""

import time
from datetime import UTC, datetime
from typing import Any

import pytest

from penstock.model.sparkplug.plain import read_plain, write_plain
from tests.support.clients.paho import Paho
from tests.support.processes.commands import until
from tests.support.processes.federation import TOGETHER, federated, together

NBIRTH, NDATA = "spBv1.0/G1/NBIRTH/E1", "spBv1.0/G1/NDATA/E1"


def written(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat()


def domain(*policies: dict[str, Any], nodes: str = "a") -> dict[str, Any]:
    return {
        "nodes": {name: {"store": "memory"} for name in nodes},
        "links": [{"between": list(nodes)}] if len(nodes) == 2 else [],
        "clients": {"e1": {"node": nodes[0], "edge": "G1/E1"}, "a1": {"node": nodes[-1]}},
        "access": [{"subject": "G1/E1", "topics": "spBv1.0/G1/#", "may": ["read", "write"]}, *policies],
    }


def reads(**more: Any) -> dict[str, Any]:
    return {"subject": "a1", "topics": "spBv1.0/#", "may": "read", **more}


def told(client: Paho, count: int) -> list[tuple[str, dict[str, Any]]]:
    got = [client.receive() for _ in range(count)]
    return [(message.topic, read_plain(bytes(message.payload))) for message in got]


@pytest.mark.parametrize("nodes", ["a", "ab"])
def test_a_window_that_opens_releases_what_is_due_and_one_that_ends_stops_it(nodes: str) -> None:
    with (
        federated(domain(reads(), nodes=nodes)) as live,
        Paho("e1").connects(live.ports["a"]) as edge,
        Paho("a1").connects(live.ports[nodes[-1]]) as reader,
    ):
        reader.subscribe("spBv1.0/#", 1)
        until(lambda: edge.publish(NDATA, write_plain({}, 9), 1) == 0, "interest has spread")
        reader.receive()
        opens = time.time() + 6
        valid = {"from": written(opens), "until": written(opens + 6)}
        live.write(domain(reads(valid=valid), nodes=nodes))
        live.reload(*nodes)
        edge.publish(NBIRTH, write_plain({"x": 1, "y": 1}, 0), qos=1)
        edge.publish(NDATA, write_plain({"x": 2}, 1), qos=1)
        assert time.time() < opens, "the machine is too slow for this test"
        reader.nothing_arrives()
        assert told(reader, 2) == [(NBIRTH, {"x": 1, "y": 1}), (NDATA, {"x": 2})]
        assert opens <= time.time() < opens + 5
        edge.publish(NDATA, write_plain({"y": 3}, 2), qos=1)
        assert told(reader, 1) == [(NDATA, {"y": 3})]
        time.sleep(max(0, opens + 6.2 - time.time()))
        edge.publish(NDATA, write_plain({"y": 4}, 3), qos=1)
        reader.nothing_arrives()


def test_what_waits_is_judged_by_the_time_at_which_it_leaves() -> None:
    """It came while its reader might see it, and its reader is back when it may not any more."""
    with together(domain(), links=0) as live:
        port = live.ports["a"]
        with Paho("e1").connects(port) as edge:
            reader = Paho("a1", clean=False).connects(port, SessionExpiryInterval=600)
            reader.subscribe("spBv1.0/#", 1)
            reader.leaves()
            ends = time.time() + 5
            later = reads(**{"except": "secret", "valid": {"from": written(ends)}})
            live.write(domain(reads(valid={"until": written(ends)}), later))
            live.reload(TOGETHER)
            edge.publish(NBIRTH, write_plain({"a": 1, "secret": 1}, 0), qos=1)
            edge.publish(NDATA, write_plain({"secret": 2, "a": 2}, 1), qos=1)
            assert time.time() < ends, "the machine is too slow for this test"
            time.sleep(ends - time.time())
            with Paho("a1", clean=False).connects(port, SessionExpiryInterval=600) as again:
                assert told(again, 2) == [(NBIRTH, {"a": 1}), (NDATA, {"a": 2})]
