"""Views out to topics of a node: as an ordinary client, whose rights count."""

from datetime import UTC, datetime

import pytest
from pyspark.sql import DataFrame, SparkSession

from penstock.pipeline.errors import PipelineError
from penstock.pipeline.mqtt.connection import BrokerAddress
from penstock.pipeline.mqtt.publish import ID, ViewPublisher, check_prefix
from penstock.wire.properties import Properties, encode_properties
from tests.support.clients.paho import Paho, value
from tests.support.processes.node import running

ACL = "user stream\ntopic write governed/#\nuser reader\ntopic read #\n"
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
TYPES = (
    "subject string, node string, seq long, place int, part int, time timestamp, topic string, payload binary,"
    " qos int, retain boolean, content_type string, properties binary, expiry long"
)
CARRIED = encode_properties(Properties(content_type="text/plain", user_properties=(("a", "b"),)))


def _view(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(
        [
            ("office", "main", 2, 0, 0, NOON, "t/2", bytearray(b"two"), 0, False, None, bytearray(), None),
            ("office", "main", 1, 0, 0, NOON, "t/1", bytearray(b"one"), 1, True, "text/plain", bytearray(CARRIED), 60),
            ("office", "main", 3, 0, 0, NOON, "t/3", bytearray(b"too late"), 1, True, None, bytearray(), 9),
            ("office", "main", 4, 0, 0, NOON, "end", bytearray(b""), 1, True, None, bytearray(), None),
        ],
        TYPES,
    )


def _broker(port: int, user: str) -> BrokerAddress:
    return BrokerAddress.of_url(f"mqtt://{user}@127.0.0.1:{port}", "stream")


def test_events_come_in_order_with_what_they_carry(spark: SparkSession) -> None:
    with running({"acl": "acl"}, {"acl": ACL}) as node, Paho("reader").is_user("reader") as reader:
        reader.connects(node.port)
        reader.subscribe("#", 1)
        publisher = ViewPublisher(_broker(node.port, "stream"), "governed/{subject}", now=lambda: NOON.timestamp() + 10)
        publisher.publish(_view(spark), 0)
        publisher.close()
        one, two, end = (reader.receive() for _ in range(3))
    assert [one.topic, two.topic, end.topic] == ["governed/office/t/1", "governed/office/t/2", "governed/office/end"]
    assert (one.payload, one.qos, one.retain) == (b"one", 1, False)
    assert value(one.properties, "ContentType") == "text/plain"
    assert 0 < value(one.properties, "MessageExpiryInterval") <= 50
    assert value(one.properties, "UserProperty") == [("a", "b"), (ID, "main/1/0/0")]


def test_what_a_node_refuses_ends_the_job(spark: SparkSession) -> None:
    with running({"acl": "acl"}, {"acl": ACL}) as node:
        publisher = ViewPublisher(_broker(node.port, "reader"), "governed/{subject}")
        with pytest.raises(PipelineError, match="refuses what is published to `governed/office/t/"):
            publisher.publish(_view(spark), 0)
        publisher.close()


@pytest.mark.parametrize(
    ("prefix", "subjects", "problem"),
    [
        ("governed", 2, "must have `{subject}` in it"),
        ("a/#/{subject}", 1, "is not a valid topic prefix"),
    ],
    ids=["subjects that nobody could tell apart", "no topic"],
)
def test_prefixes(prefix: str, subjects: int, problem: str) -> None:
    with pytest.raises(PipelineError, match=problem):
        check_prefix(prefix, subjects)


@pytest.mark.parametrize("url", ["http://x", "mqtt://", "mqtt://h:p", "host:1883", "mqtt://h/t"])
def test_addresses(url: str) -> None:
    with pytest.raises(PipelineError, match="is not an address"):
        BrokerAddress.of_url(url, "c")
