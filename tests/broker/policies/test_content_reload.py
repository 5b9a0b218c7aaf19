"""Content settings of a domain change while nodes run and clients stay connected."""

import json
from typing import Any

from tests.support.clients.paho import Paho
from tests.support.processes.commands import until
from tests.support.processes.federation import TOGETHER, settled, together

NODES = {"a": {"store": "memory"}, "b": {"store": "memory"}}
BEFORE: dict[str, Any] = {
    "nodes": NODES,
    "links": [{"between": ["b", "a"]}],
    "clients": {"sensor": {"node": "a"}, "view": {"node": "b"}},
}
AFTER: dict[str, Any] = {
    "nodes": NODES,
    "links": [{"between": ["b", "a"], "forward": "routed"}],
    "clients": {
        "sensor": {
            "node": "a",
            "advertises": [
                {"name": "settling", "filter": "+"},
                {"name": "readings", "filter": "t/1", "where": "x < 100"},
            ],
        },
        "view": {"node": "b", "where": {"t/#": "x > 5"}},
    },
    "content": [{"topics": "t/#", "format": "json", "schema": {"x": "int"}}],
}


def test_conditions_advertisements_and_modes_are_taken_from_a_new_domain() -> None:
    with (
        together(BEFORE, 1) as nodes,
        Paho("sensor").connects(nodes.ports["a"]) as sensor,
        Paho("view").connects(nodes.ports["b"]) as view,
    ):
        for filter in ("t/1", "settled", "settle"):
            view.subscribe(filter, 1)
        settled(view, sensor)
        sensor.publish("t/1", b'{"x": 1}', 1)
        assert view.receive().payload == b'{"x": 1}'
        nodes.write(AFTER)
        nodes.reload(TOGETHER)
        settled(view, sensor)
        reasons = [sensor.publish("t/1", b'{"x": %d}' % value, 1) for value in (1, 200, 7)]
        assert [reason >= 0x80 for reason in reasons] == [False, True, False]
        assert view.receive().payload == b'{"x": 7}'  # not 1, nor 200
        for line in (
            "client `sensor` changed: `advertises`",
            "client `view` changed: `where`",
            "connection `b - a` changed: `forward`",
            "content `t/#` added",
        ):
            nodes.until_logged(TOGETHER, line)
        assert "needs a restart" not in nodes.log(TOGETHER)
        assert nodes.log(TOGETHER).count(" linked ") == 1  # the connection has stayed


TRIM = "PolicyStatement { On(Forward, Publication) { If {} Then {RemoveAttributes(secret)} } }"
STATEMENTS = {
    "policies": {"trim": TRIM},
    "apply": [{"policy": "trim", "to": "publication", "of": "sensor", "filter": "t/#"}],
}


def test_policies_are_taken_from_a_new_domain_and_one_that_is_granted_no_longer_is_dropped() -> None:
    grant = {"to": "view", "set": "subscription", "elements": "*"}
    start = {**BEFORE, "statements": {"grants": [grant]}}
    with (
        together(start, 1) as nodes,
        Paho("sensor").connects(nodes.ports["a"]) as sensor,
        Paho("view").connects(nodes.ports["b"]) as view,
    ):
        for filter in ("t/1", "settled", "settle"):
            view.subscribe(filter, 1)
        set_policy = {"subscription": {"filter": "t/1"}, "policy": TRIM.replace("Remove", "KeepOnly")}
        assert view.publish("$penstock/policy", json.dumps(set_policy).encode(), 1) == 0
        settled(view, sensor)
        sensor.publish("t/1", b'{"x":1,"secret":2}', 1)
        assert view.receive().payload == b'{"secret":2}'
        nodes.write({**start, "statements": STATEMENTS})
        nodes.reload(TOGETHER)
        nodes.until_logged(TOGETHER, "policy dropped", "client=view")

        def is_new() -> bool:
            sensor.publish("t/1", b'{"x":1,"secret":2}', 1)
            return view.receive().payload == b'{"x":1}'

        until(is_new, "node a has forgotten what was wanted by the old domain")
        for line in ("policy `trim` added", "given policies changed", "grants of policies changed"):
            nodes.until_logged(TOGETHER, line)
