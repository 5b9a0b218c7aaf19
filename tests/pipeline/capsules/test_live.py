"""A capsule beside a live node: it takes what the node sends to its client, and publishes as that client."""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

from penstock.cli.pipeline.capsules import origin_of, target_of
from penstock.domain import load
from penstock.pipeline.capsules.rows import CapsuleReference
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.jobs.capsules import TOLD_BY, Running, start
from penstock.pipeline.mqtt.connection import BrokerAddress
from penstock.pipeline.mqtt.publish import ViewPublisher
from penstock.pipeline.spark.policies import judged_by
from tests.support.clients.paho import Paho, value
from tests.support.processes.commands import PATIENCE
from tests.support.processes.node import LiveNode, passwords
from tests.support.scenes.air_capsules import table

ACL = "user air\ntopic read city/#\ntopic write zones/#\nuser sensor\ntopic write city/#\nuser reader\ntopic read #\n"
QOC = {"indicator": "precision", "criterion": "precision", "definition": "precision", "value": 80.0}


def _domain(folder: Path, listen: str = "127.0.0.1:0", **client: Any) -> Path:
    said = {
        "domain": "city",
        "nodes": {"main": {"listen": listen, "store": "memory", "acl": "acl", "passwords": "passwords"}},
        "clients": {
            "sensor": {"node": "main", "user": "sensor"},
            "reader": {"node": "main", "user": "reader"},
            "air": {"node": "main", **client},
        },
        "capsules": {
            "air": {
                "client": "air",
                "input": {"topics": "city/+/air"},
                "window": {"length": "1s"},
                "operations": [
                    {"keep": "precision >= 50"},
                    {"aggregate": {"by": {"zone": 2}, "values": {"pm10": "mean(pm10)", "n": "count()"}}},
                ],
                "output": {"topic": "zones/{zone}/air"},
            }
        },
    }
    (folder / "acl").write_text(ACL)
    (folder / "passwords").write_text(passwords(air="secret", sensor="secret", reader="secret"))
    path = folder / "domain.yaml"
    path.write_text(yaml.safe_dump(said))
    return path


def _options(**more: Any) -> argparse.Namespace:
    return argparse.Namespace(**{"origin": "mqtt://127.0.0.1:1", "publish": "", **more})


@pytest.mark.recorded
def test_from_a_node_and_back_to_it(interpreted: SparkSession, tmp_path: Path) -> None:
    path = _domain(tmp_path, user="air")
    domain, node = load(path), LiveNode(tmp_path)
    node.start()
    publisher = None
    try:
        options = _options(origin=f"mqtt://air:secret@127.0.0.1:{node.port}")
        origin = origin_of(domain, "air", options)
        assert isinstance(origin, BrokerAddress)
        publisher = ViewPublisher(target_of(domain, "air", options, origin), "", by=TOLD_BY)
        running = Running(
            CapsuleReference(judged_by(domain, tmp_path), "air"), origin, tmp_path / "tables", partitions=1
        )
        with Paho("r").is_user("reader", "secret") as reader, Paho("s").is_user("sensor", "secret") as sensor:
            reader.connects(node.port)
            reader.subscribe("zones/#", 1)
            sensor.connects(node.port)
            with Paho(origin.client_id, clean=False).is_user("air", "secret") as early:  # it will go on with this
                early.connects(node.port, SessionExpiryInterval=3600)
                early.subscribe("city/+/air", 1)
            for zone, pm10, quality in (("a", 10.0, 80.0), ("a", 20.0, 80.0), ("a", 99.0, 10.0), ("b", 5.0, 80.0)):
                said = {"pm10": pm10, "qoc": [{**QOC, "value": quality}]}
                sensor.publish(f"city/{zone}/air", json.dumps(said).encode(), 1)
            query = start(interpreted, running, every=0.1, publish=publisher.publish)
            end = time.monotonic() + 10 * PATIENCE
            while sum(row["inputs"] for row in table(running.folder)) < 3:
                assert query.isActive, query.exception()
                assert time.monotonic() < end, "no results"
                sensor.publish("city/c/air", b"{}", 1)  # left out; but it tells how late it is
                time.sleep(0.2)
            got: dict[str, list[dict[str, Any]]] = {"zones/a/air": [], "zones/b/air": []}
            while sum(one["n"] for several in got.values() for one in several) < 3:
                message = reader.receive()
                got[message.topic].append(json.loads(message.payload))
                carried = [
                    json.loads(text) for name, text in value(message.properties, "UserProperty") if name == "qoc"
                ]
                assert [(one["indicator"], one["value"] >= 80.0) for one in carried] == [("precision", True)]
            query.stop()
    finally:
        if publisher is not None:
            publisher.close()
        node.stop()
    # They may have come in two seconds.
    assert sum(one["n"] for one in got["zones/a/air"]) == 2
    assert sum(one["n"] * one["pm10"] for one in got["zones/a/air"]) == 30.0
    assert {row["topic"] for row in table(tmp_path / "tables")} == got.keys()


def test_one_client_id_has_one_connection(tmp_path: Path) -> None:
    domain = load(_domain(tmp_path))
    options = _options()
    origin = origin_of(domain, "air", options)
    assert isinstance(origin, BrokerAddress)
    assert origin.client_id == "air"
    with pytest.raises(PipelineError, match="one id can have one connection"):
        target_of(domain, "air", options, origin)


def test_results_of_a_journal_go_to_the_client_s_node(tmp_path: Path) -> None:
    domain = load(_domain(tmp_path, "0.0.0.0:1999"))
    options = _options(origin="journal")
    broker = target_of(domain, "air", options, origin_of(domain, "air", options))
    assert (str(broker), broker.client_id) == ("127.0.0.1:1999", "air")
    with pytest.raises(PipelineError, match="has no listener for MQTT with a port"):
        target_of(load(_domain(tmp_path)), "air", options, Path("journal"))
