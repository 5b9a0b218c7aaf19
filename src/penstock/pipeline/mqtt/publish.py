"""Views out to MQTT topics of a broker: at least once, in order, as an ordinary client with rights of its own."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import paho.mqtt.client as paho
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from penstock.engine.events import user_properties
from penstock.model.errors import TopicError
from penstock.model.topic import check_topic
from penstock.pipeline.errors import ArgumentError, PipelineError
from penstock.pipeline.mqtt.connection import BrokerAddress
from penstock.pipeline.tables.view import NOT_BEFORE

SUBJECT = "{subject}"
ID = "governed-id"
"""The user property by which one can tell that an event was published again: node, number, place and part."""
LONGEST_TOPIC = 65_535
_PATIENCE = 60.0
"""Seconds without any answer."""
_UNDER_WAY = 1000


def check_prefix(prefix: str, subjects: int) -> None:
    """Raise `ArgumentError` if topics cannot begin so, or if subjects could not be told apart."""
    if subjects > 1 and SUBJECT not in prefix:
        raise ArgumentError(f"with several subjects the prefix must have `{SUBJECT}` in it, as `governed/{SUBJECT}`")
    try:
        check_topic(prefix.replace(SUBJECT, "x") + "/x")
    except TopicError as error:
        raise ArgumentError(f"`{prefix}` is not a valid topic prefix: {error}") from error


@dataclass
class ViewPublisher:
    """Publishes batches of views to `prefix/TOPIC`, and waits until the broker has them."""

    broker: BrokerAddress
    prefix: str
    """Before the topics, with a slash after it; empty: topics are as they are."""
    now: Callable[[], float] = time.time
    by: tuple[str, ...] = ("node", "seq", "place", "part")
    """The columns by which rows are told apart; they go out in this order."""

    def __post_init__(self) -> None:
        self._client: paho.Client | None = None
        self._changed = threading.Condition()
        self._under_way: dict[int, str] = {}
        self._answers: dict[int, str] = {}
        self._refused: list[str] = []
        self.too_long = 0
        """Events that were left out: with the prefix, their topics are longer than MQTT allows."""

    def publish(self, batch: DataFrame, number: int) -> None:
        """Publish one batch, in the order of each node; raises `PipelineError` if the broker refuses any of it."""
        client = self._connected()
        since = F.coalesce(NOT_BEFORE, "time") if NOT_BEFORE in batch.columns else F.col("time")
        ordered = batch.withColumn("at", F.unix_micros(since)).orderBy(*self.by, "subject")
        for row in ordered.toLocalIterator(prefetchPartitions=True):
            self._send(client, row)
        self._wait(0)

    def close(self) -> None:
        """Leave."""
        if self._client is not None:
            self._client.disconnect()
            self._client.loop_stop()
            self._client = None

    def _connected(self) -> paho.Client:
        if self._client is None:
            client = self.broker.client()
            client.max_inflight_messages_set(_UNDER_WAY)
            client.on_publish = self._on_publish
            self.broker.connect(client, keeps_session=False)
            self._client = client
        return self._client

    def _send(self, client: paho.Client, row: Row) -> None:
        left = None if row["expiry"] is None else row["expiry"] - int(self.now() - row["at"] / 1_000_000)
        if left is not None and left <= 0:
            return  # nobody would get it any more
        before = f"{self.prefix.replace(SUBJECT, row['subject'])}/" if self.prefix else ""
        topic = f"{before}{row['topic']}"
        if len(topic.encode()) > LONGEST_TOPIC:
            self.too_long += 1  # no broker could have it; one publisher must not stop all the others
            return
        self._wait(_UNDER_WAY)
        sent = client.publish(topic, bytes(row["payload"]), 1, False, _properties(row, left, self.by))
        with self._changed:
            self._under_way[sent.mid] = topic
            self._settle()

    def _wait(self, max_under_way: int) -> None:
        """Until no more than so many are under way."""
        with self._changed:
            while len(self._under_way) > max_under_way and not self._refused:
                before = len(self._under_way)
                if not self._changed.wait(_PATIENCE) and len(self._under_way) == before:
                    raise PipelineError(f"`{self.broker}` does not acknowledge what is published")
            if self._refused:
                raise PipelineError(f"`{self.broker}` refuses what is published to {self._refused[0]}")

    def _on_publish(self, client: paho.Client, data: Any, mid: int, code: ReasonCode, properties: Any) -> None:
        with self._changed:
            self._answers[mid] = f"{getattr(properties, 'ReasonString', '') or code}" if code.is_failure else ""
            self._settle()

    def _settle(self) -> None:
        """Take answers and what they answer together: the thread may be the first to know."""
        for mid in self._answers.keys() & self._under_way.keys():
            topic, problem = self._under_way.pop(mid), self._answers.pop(mid)
            if problem:
                self._refused.append(f"`{topic}`: {problem}")
            self._changed.notify_all()


def _properties(row: Row, left: int | None, by: tuple[str, ...]) -> Properties:
    given = user_properties.carried(bytes(row["properties"] or b""))
    made = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
    values = {
        "PayloadFormatIndicator": given.payload_format,
        "MessageExpiryInterval": left,
        "ContentType": given.content_type or row["content_type"],
        "ResponseTopic": given.response_topic,
        "CorrelationData": given.correlation_data,
    }
    for name, value in values.items():
        if value is not None:
            setattr(made, name, value)
    place = "/".join(str(row[name]) for name in by)
    made.UserProperty = [*given.user_properties, (ID, place)]
    return made
