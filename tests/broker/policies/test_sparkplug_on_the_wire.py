"""Metrics that no reader beyond a link may have do not cross the link: a recording proxy between two live nodes shows
it, and readers there get all that they may have, in an unbroken `seq`.
"""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from hashlib import blake2b, md5, sha1, sha256
from pathlib import Path
from typing import Any

import pytest

from penstock.model.sparkplug.payload import read_sparkplug
from tests.support.clients.paho import Paho
from tests.support.memory.sparkplug import encode
from tests.support.processes.commands import until
from tests.support.processes.federation import Nodes
from tests.support.processes.wiretap import Wiretap

NBIRTH, NDATA = (f"spBv1.0/G1/{kind}/E1" for kind in ("NBIRTH", "NDATA"))
DBIRTH, DDATA = (f"spBv1.0/G1/{kind}/E1/vault" for kind in ("DBIRTH", "DDATA"))
MARK = "SECRET"
"""Stands in every value that may not leave, and nowhere else."""
EDGE = {"subject": "G1/E1", "topics": "spBv1.0/G1/#", "may": ["read", "write"]}
HERE = {"subject": "here", "topics": "spBv1.0/#", "may": "read"}
EITHER_KIND = ("spBv1.0/G1/+/E1", "spBv1.0/STATE/+")


def reads(*subjects: str, **more: Any) -> dict[str, Any]:
    return {"subject": list(subjects), "topics": list(EITHER_KIND), "may": "read", "except": "hidden*", **more}


def domain(*policies: dict[str, Any]) -> dict[str, Any]:
    clients: dict[str, Any] = {name: {"node": "b"} for name in ("there", "late", "shift")}
    return {
        "nodes": {"a": {"store": "memory"}, "b": {"store": "memory"}},
        "clients": {"e1": {"node": "a", "edge": "G1/E1"}, "here": {"node": "a"}, **clients},
        "access": [EDGE, HERE, *policies],
    }


@contextmanager
def tapped(folder: Path, *policies: dict[str, Any]) -> Iterator[tuple[Nodes, Wiretap]]:
    """Two nodes; a, with the edge node, dials b, with the readers, through a proxy that records."""
    nodes = Nodes(folder, domain(*policies))
    with Wiretap(nodes.ports["b"]) as tap:
        write(nodes, tap, *policies)
        try:
            nodes.start("b", "a")
            nodes.until_logged("a", "linked", "neighbour=b")
            yield nodes, tap
        finally:
            nodes.stop()


def write(nodes: Nodes, tap: Wiretap, *policies: dict[str, Any]) -> None:
    links = [{"between": ["a", "b"], "address": f"127.0.0.1:{tap.port}"}]
    nodes.write({**domain(*policies), "links": links})


def metric(name: str, alias: int, value: str) -> dict[str, Any]:
    return {"name": name, "alias": alias, "datatype": 12, "string_value": value}


def by_alias(**values: str) -> list[dict[str, Any]]:
    return [{"alias": int(alias[1:]), "string_value": value} for alias, value in values.items()]


def payload(seq: int, *metrics: dict[str, Any]) -> bytes:
    return encode({"timestamp": 1, "metrics": list(metrics), "seq": seq})


BORN = (metric("open", 1, "born"), metric("hidden", 2, MARK), metric("hidden/too", 3, MARK))


def told(client: Paho, count: int) -> list[tuple[str, dict[Any, Any]]]:
    """The next messages: topic; seq and metrics by name or alias."""
    got = [client.receive() for _ in range(count)]
    read = [(message.topic, read_sparkplug(bytes(message.payload))) for message in got]
    return [(topic, {"seq": said.get("seq"), **said["metrics"], **said["aliases"]}) for topic, said in read]


def spread(edge: Paho, reader: Paho) -> None:
    """Wait until the edge node's reports reach a reader of the other node."""

    def arrives() -> bool:
        edge.publish(NDATA, payload(200), 1)
        return not reader.messages.empty()

    until(arrives, "interest has spread")
    edge.publish(NDATA, payload(201), 1)
    while told(reader, 1)[0][1]["seq"] != 201:
        pass


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_no_byte_of_a_metric_crosses_that_nobody_beyond_may_read(tmp_path: Path, qos: int) -> None:
    with (
        tapped(tmp_path, reads("there", "late")) as (nodes, tap),
        Paho("e1").connects(nodes.ports["a"]) as edge,
        Paho("here").connects(nodes.ports["a"]) as here,
        Paho("there").connects(nodes.ports["b"]) as there,
        Paho("late").connects(nodes.ports["b"]) as late,
    ):
        here.subscribe("spBv1.0/#", 1)
        there.subscribe("spBv1.0/#", 1)
        spread(edge, there)
        edge.publish(NBIRTH, payload(0, *BORN), qos)
        edge.publish(DBIRTH, payload(1, metric("door", 9, MARK)), qos)
        edge.publish(NDATA, payload(2, *by_alias(_1="x", _2=MARK)), qos)
        edge.publish(DDATA, payload(3, *by_alias(_9=MARK)), qos)
        edge.publish(NDATA, payload(4, *by_alias(_3=MARK)), qos)
        edge.publish(NDATA, payload(5, *by_alias(_1="y")), qos)
        expected = [
            (NBIRTH, {"seq": 0, "open": "born"}),
            (NDATA, {"seq": 1, 1: "x"}),
            (NDATA, {"seq": 2}),
            (NDATA, {"seq": 3, 1: "y"}),
        ]
        assert told(there, 4) == expected
        late.subscribe("$sparkplug/certificates/#", 1)
        assert told(late, 1) == [(f"$sparkplug/certificates/{NBIRTH}", {"seq": 0, "open": "born"})]
        while told(here, 1)[0][1] != {"seq": 5, 1: "y"}:
            pass
        assert b"born" in tap.forth
        for part in (MARK.encode(), b"hidden", b"vault", b"door"):
            assert part not in tap.forth


def test_what_a_window_shows_later_crosses_before_and_nothing_else(tmp_path: Path) -> None:
    """A reader beyond may have a metric at another time: it crosses, and waits there."""
    opens = time.time() + 8
    valid = {"from": datetime.fromtimestamp(opens, UTC).isoformat()}
    before = {"until": datetime.fromtimestamp(opens, UTC).isoformat()}
    shifts = (
        reads("shift", **{"except": ["hidden*", "open"], "valid": before}),
        reads("shift", **{"except": "hidden", "valid": valid}),
    )
    with (
        tapped(tmp_path, *shifts) as (nodes, tap),
        Paho("e1").connects(nodes.ports["a"]) as edge,
        Paho("shift").connects(nodes.ports["b"]) as shift,
    ):
        shift.subscribe("spBv1.0/#", 1)
        spread(edge, shift)
        edge.publish(NBIRTH, payload(0, metric("open", 1, "born"), *BORN[1:2], metric("hidden/too", 3, "later")), 1)
        edge.publish(NDATA, payload(1, *by_alias(_1="x", _2=MARK, _3="latest")), 1)
        assert told(shift, 2) == [(NBIRTH, {"seq": 0}), (NDATA, {"seq": 1})]
        assert time.time() < opens, "the machine is too slow for this test"
        assert b"latest" in tap.forth
        ((topic, shown),) = told(shift, 1)
        assert (topic, shown) == (NDATA, {"seq": 2, "open": "x", "hidden/too": "latest"})
        assert MARK.encode() not in tap.forth


def test_a_reload_lets_more_cross_with_what_is_known_of_it(tmp_path: Path) -> None:
    """Who may read a metric from now on gets it by its alias, by name in the certificate, and what was withheld."""
    with (
        tapped(tmp_path, reads("there")) as (nodes, tap),
        Paho("e1").connects(nodes.ports["a"]) as edge,
        Paho("there").connects(nodes.ports["b"]) as there,
        Paho("late").connects(nodes.ports["b"]) as late,
    ):
        there.subscribe("spBv1.0/#", 1)
        spread(edge, there)
        edge.publish(NBIRTH, payload(0, *BORN[:2], metric("hidden/too", 3, "born")), 1)
        edge.publish(NDATA, payload(1, *by_alias(_2=MARK, _3="kept")), 1)
        assert told(there, 2) == [(NBIRTH, {"seq": 0, "open": "born"}), (NDATA, {"seq": 1})]
        assert b"kept" not in tap.forth
        write(nodes, tap, reads("there", "late", **{"except": "hidden"}))
        nodes.reload("b")
        nodes.reload("a")
        late.subscribe("$sparkplug/certificates/#", 1)
        certificate = (f"$sparkplug/certificates/{NBIRTH}", {"seq": 0, "open": "born", "hidden/too": "born"})
        until(lambda: not late.messages.empty() and told(late, 1) == [certificate], "the certificate is told again")
        edge.publish(NDATA, payload(2, *by_alias(_1="x")), 1)
        assert told(there, 1)[0][1] == {"seq": 2, 1: "x", "hidden/too": "kept"}
        edge.publish(NDATA, payload(3, *by_alias(_3="new")), 1)
        ((_, shown),) = told(there, 1)
        assert "new" in shown.values()
        assert MARK.encode() not in tap.forth


def test_what_waits_for_a_node_is_cut_when_it_leaves(tmp_path: Path) -> None:
    """Node b is away; a reload takes a right from its readers; it comes back."""
    with (
        tapped(tmp_path, reads("there", **{"except": "nothing"})) as (nodes, tap),
        Paho("e1").connects(nodes.ports["a"]) as edge,
    ):
        with Paho("there").connects(nodes.ports["b"]) as there:
            there.subscribe("spBv1.0/#", 1)
            spread(edge, there)
        nodes.kill("b")
        nodes.until_logged("a", "disconnected", "client=$node/b")
        edge.publish(NBIRTH, payload(0, *BORN), 1)
        edge.publish(NDATA, payload(1, *by_alias(_1="x", _2=MARK)), 1)
        write(nodes, tap, reads("there"))
        nodes.reload("a")
        nodes.start("b")
        until(lambda: b"born" in tap.forth, "what has waited has crossed")
        with Paho("there").connects(nodes.ports["b"]) as there:
            there.subscribe("spBv1.0/#", 1)
            spread(edge, there)
        assert MARK.encode() not in tap.forth


def test_what_goes_with_a_birth_does_not_depend_on_the_metrics_that_stay(tmp_path: Path) -> None:
    """Attacked again: the digest of the whole birth crossed, so a hidden value of few possible ones could be tried."""
    with (
        tapped(tmp_path, reads("there")) as (nodes, tap),
        Paho("e1").connects(nodes.ports["a"]) as edge,
        Paho("there").connects(nodes.ports["b"]) as there,
    ):
        there.subscribe("spBv1.0/#", 1)
        spread(edge, there)
        names: list[str] = []
        for number in (0, 1, 1):
            birth = payload(0, metric("open", 1, "born"), metric("hidden", 2, f"{number}"))
            before = len(tap.forth)
            edge.publish(NBIRTH, birth, 1)
            there.receive()
            crossed = re.findall(rb"penstock-birth\x00.([0-9a-f]+)", bytes(tap.forth[before:]))
            assert crossed
            for digest in (sha256, blake2b, sha1, md5):
                assert not any(name in digest(birth).hexdigest().encode() for name in crossed)
            names += {name.decode() for name in crossed}
        assert len(set(names)) == 3  # that two births are equal is not told either
