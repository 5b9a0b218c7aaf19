"""What must not leave a node does not cross the wire: a recording proxy on the link between two live nodes."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from tests.support.clients.paho import Paho
from tests.support.processes.federation import Nodes, settled
from tests.support.processes.wiretap import Wiretap

SECRET = b"pulse 181, at rest"
INTERFACE = {
    "patterns": [{"pattern": "interface", "node": "home", "import": [], "export": ["public/#", "settle", "settled"]}]
}


def monitor(**what: Any) -> dict[str, Any]:
    return {"monitors": {"m": {"link": "home -> cloud", **what}}}


@contextmanager
def tapped(policies: Mapping[str, Any], folder: Any) -> Iterator[tuple[Nodes, Wiretap, Paho, Paho]]:
    """Two nodes, of which `home` dials `cloud` through a proxy that records; a client of each, that of the cloud
    subscribed to everything."""
    domain = {
        "nodes": {"home": {"store": "memory"}, "cloud": {"store": "memory"}},
        "links": [{"between": ["home", "cloud"]}],
        **policies,
    }
    nodes = Nodes(folder, domain)
    with Wiretap(nodes.ports["cloud"]) as tap:
        nodes.write({**domain, "links": [{"between": ["home", "cloud"], "address": f"127.0.0.1:{tap.port}"}]})
        try:
            nodes.start("cloud", "home")
            nodes.until_logged("home", "linked", "neighbour=cloud")
            with Paho("watch") as watch, Paho("doctor") as doctor:
                doctor.connects(nodes.ports["cloud"])
                watch.connects(nodes.ports["home"])
                doctor.subscribe("#", 1)
                settled(doctor, watch)
                yield nodes, tap, watch, doctor
        finally:
            nodes.stop()


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("retain", [False, True])
def test_what_an_interface_does_not_export_never_crosses_the_wire(tmp_path: Any, qos: int, retain: bool) -> None:
    with tapped(INTERFACE, tmp_path) as (_, tap, watch, doctor):
        watch.publish("private/health", SECRET, qos, retain)
        watch.publish("public/health", b"well", qos, retain)
        watch.publish("settled", b"", 1)
        assert doctor.receive().payload == b"well"
        assert doctor.receive().topic == "settled"
        assert b"public/health" in tap.forth
        assert b"private/health" not in tap.forth
        assert SECRET not in tap.forth


def test_a_retained_message_that_is_not_exported_is_not_sent_to_a_new_subscriber_beyond(tmp_path: Any) -> None:
    with tapped(INTERFACE, tmp_path) as (nodes, tap, watch, doctor):
        watch.publish("private/health", SECRET, 1, True)
        watch.publish("public/health", b"well", 1, True)
        assert doctor.receive().payload == b"well"
        with Paho("nurse") as nurse:
            nurse.connects(nodes.ports["cloud"])
            nurse.subscribe("private/#", 1)
            nurse.subscribe("public/#", 1)
            assert nurse.receive().payload == b"well"
            watch.publish("settled", b"", 1)
            assert doctor.receive().topic == "settled"
        assert SECRET not in tap.forth


def test_a_monitor_that_renames_and_scrubs_does_so_once_and_before_the_event_leaves(tmp_path: Any) -> None:
    edges = {
        "private/+": {"emit": [{"topic": "public/{1}", "payload": "there"}, "alarm"]},
        "public/+": {"rename": "twice/{1}"},
        "alarm": {"emit": ["alarm", "alarm"]},
        "*": "pass",
    }
    with tapped(monitor(states={"q0": edges}), tmp_path) as (_, tap, watch, doctor):
        watch.publish("private/health", SECRET, 1)
        watch.publish("public/x", b"1", 1)
        watch.publish("settled", b"", 1)
        got = [(one.topic, one.payload) for one in (doctor.receive() for _ in range(4))]
        assert got == [("public/health", b"there"), ("alarm", SECRET), ("twice/x", b"1"), ("settled", b"")]
        assert b"private/health" not in tap.forth
        assert SECRET in tap.forth  # the second output has the payload


def test_a_monitor_with_states_that_only_selects_stops_before_it_leaves_and_is_in_step_at_both_ends(
    tmp_path: Any,
) -> None:
    states = {
        "q0": {"ask": {"pass": True, "next": "asked"}, "secret": "suppress", "*": "pass"},
        "asked": {"secret": {"pass": True, "next": "q0"}, "*": "pass"},
    }
    with tapped(monitor(states=states), tmp_path) as (_, tap, watch, doctor):
        watch.publish("secret", SECRET, 1)
        for topic, payload in (("ask", b""), ("secret", b"first"), ("secret", SECRET), ("settled", b"")):
            watch.publish(topic, payload, 1)
        assert [doctor.receive().payload for _ in range(3)] == [b"", b"first", b""]
        assert SECRET not in tap.forth


def test_what_a_monitor_with_states_suppresses_in_each_of_them_is_stopped_before_it_leaves(tmp_path: Any) -> None:
    states = {
        "q0": {"secret": "suppress", "on": {"emit": ["on", "began"], "next": "q1"}, "*": "pass"},
        "q1": {"secret": "suppress", "off": {"emit": ["off", "ended"], "next": "q0"}, "*": "pass"},
    }
    with tapped(monitor(states=states), tmp_path) as (_, tap, watch, doctor):
        for topic in ("secret", "on", "secret", "off", "settled"):
            watch.publish(topic, SECRET if topic == "secret" else b"", 1)
        assert [doctor.receive().topic for _ in range(5)] == ["on", "began", "off", "ended", "settled"]
        assert SECRET not in tap.forth


def test_what_waits_for_a_neighbour_is_asked_about_when_a_reload_brings_a_monitor(tmp_path: Any) -> None:
    """The cloud is down; a message waits for it at home; a reload forbids it; the cloud comes back."""
    with tapped({}, tmp_path) as (nodes, tap, watch, _):
        nodes.kill("cloud")
        nodes.until_logged("home", "disconnected", "client=$node/cloud")
        watch.publish("private/health", SECRET, 1)
        watch.publish("public/health", b"well", 1)
        domain = {
            "nodes": {"home": {"store": "memory"}, "cloud": {"store": "memory"}},
            "links": [{"between": ["home", "cloud"], "address": f"127.0.0.1:{tap.port}"}],
            **monitor(states={"q0": {"private/#": "suppress", "*": "pass"}}),
        }
        nodes.write(domain)
        nodes.reload("home")
        nodes.start("cloud")
        with Paho("aide") as aide:
            aide.connects(nodes.ports["cloud"])
            aide.subscribe("#", 1)
            settled(aide, watch)
        assert b"public/health" in tap.forth
        assert SECRET not in tap.forth
