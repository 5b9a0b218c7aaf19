"""A factory for tests of the console: Sparkplug with access policies, JSON with a statement, a secret kind of link."""

import contextlib
import json
from collections.abc import Iterator
from typing import Any

from penstock.model.sparkplug.plain import write_plain
from tests.support.clients.paho import Paho
from tests.support.processes.console import Looking

HOSTILE = "<img src=x onerror=alert(1)>"
DATA = "spBv1.0/Works/NDATA/Press"
WORKS: dict[str, Any] = {
    "domain": "works",
    "nodes": {"floor": {}, "office": {}},
    "links": [{"between": ["floor", "office"], "type": "plain"}],
    "clients": {
        "press": {"node": "floor", "type": "plain", "edge": "Works/Press"},
        "clock": {"node": "floor", "type": "plain"},
        "guard": {"node": "floor", "type": "secret"},
        "analytics": {"node": "office", "type": "plain", "groups": ["outside"]},
        "stranger": {"node": "floor", "type": "plain"},
    },
    "brokering": {"types": ["plain", "secret"], "deny": [{"from": "secret", "to": "plain"}]},
    "monitors": {"no-alarms": {"link": "clock -> floor", "states": {"q0": {"alarm/#": "suppress", "*": "pass"}}}},
    "access": [
        {"subject": "Works/Press", "topics": "spBv1.0/Works/+/Press", "may": ["read", "write"]},
        {
            "id": "no-recipes",
            "subject": "group:outside",
            "topics": ["spBv1.0/Works/NBIRTH/+", "spBv1.0/Works/NDATA/+"],
            "may": "read",
            "except": "Recipe/*",
        },
    ],
    "statements": {
        "policies": {
            "no-names": [
                {"on": "Forward Publication", "broker": "Egress", "then": "RemoveAttributes(name)"},
            ]
        },
        "apply": [{"policy": "no-names", "to": "publication", "of": "clock", "filter": "shifts/#"}],
    },
    "assertions": [{"never": "guard to analytics", "routes": True}, {"can": "press to analytics"}],
}


@contextlib.contextmanager
def at_work(live: Looking) -> Iterator[dict[str, Paho]]:
    """Clients of the factory, connected; analytics and guard hear everything."""
    floor, office = live.nodes.ports("mqtt")
    with contextlib.ExitStack() as stack:
        made = {
            name: stack.enter_context(Paho(name).connects(office if name == "analytics" else floor))
            for name in WORKS["clients"]
        }
        for name in ("analytics", "guard"):
            made[name].subscribe("#", 1)
        made["press"].publish("spBv1.0/Works/NBIRTH/Press", write_plain({"Torque": 3, "Recipe/Dough": 7}, 0), 0)
        yield made


def report(clients: dict[str, Paho], dough: int = 8) -> None:
    """The press reports; a metric of it is not for outsiders."""
    clients["press"].publish(DATA, write_plain({"Torque": 4, "Recipe/Dough": dough}, 1), 0)


def shift(clients: dict[str, Paho], name: str = "ann") -> None:
    """Somebody comes to work, and the statement takes the name away."""
    clients["clock"].publish("shifts/day", json.dumps({"name": name, "at": "06:00", "gate": 2}).encode(), 1)


def alarm(clients: dict[str, Paho], topic: str = "alarm/fire") -> None:
    """What the monitor refuses."""
    clients["clock"].publish(topic, b'{"floor": 1}', 1)
