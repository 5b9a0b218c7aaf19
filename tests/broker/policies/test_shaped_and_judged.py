"""Live nodes: what a monitor on the link to a client makes of an event passes the policy statements for that client."""

from typing import Any

import pytest

from tests.support.clients.paho import Paho
from tests.support.processes.federation import federated

TRIM = 'PolicyStatement { On(Forward, Publication) { If {} Then {RemoveAttributes("pulse")} } }'
BLOCK = "PolicyStatement { On(Forward, Publication) { If {} Then {BlockMessage()} } }"
DOMAIN: dict[str, Any] = {
    "nodes": {"main": {"store": "memory"}},
    "clients": {"doctor": {"node": "main"}, "watch": {"node": "main"}},
    "statements": {
        "policies": {"trim": TRIM, "block": BLOCK},
        "apply": [
            {"policy": "trim", "to": "subscription", "of": "doctor", "filter": "report"},
            {"policy": "block", "to": "subscription", "of": "doctor", "filter": "diary"},
            {"policy": "block", "to": "publication", "of": "watch", "filter": "secret"},
        ],
    },
    "monitors": {
        "m": {
            "link": "main -> doctor",
            "states": {"q0": {"raw": {"emit": ["diary", "report"]}, "secret": {"emit": ["other"]}, "*": "pass"}},
        }
    },
}


@pytest.mark.parametrize("filters", [["#"], ["report", "diary", "other", "end"]], ids=["everything", "only outputs"])
def test_what_a_monitor_makes_is_judged_for_its_receiver(filters: list[str]) -> None:
    """With only the outputs subscribed to, nothing asked the statements: the pulse came through."""
    with federated(DOMAIN) as nodes, Paho("doctor") as doctor, Paho("watch") as watch:
        doctor.connects(nodes.ports["main"])
        watch.connects(nodes.ports["main"])
        for filter in filters:
            doctor.subscribe(filter, 1)
        watch.publish("raw", b'{"pulse":181,"day":3}', 1)
        watch.publish("secret", b'{"pulse":181}', 1)
        watch.publish("end", b"", 1)
        got = [doctor.receive() for _ in range(2)]
        assert [(message.topic, message.payload) for message in got] == [("report", b'{"day":3}'), ("end", b"")]
