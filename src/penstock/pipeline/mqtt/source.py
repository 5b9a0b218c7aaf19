"""Any MQTT broker as a stream: `spark.readStream.format("mqtt")`, after `register(spark)`.

A client on the driver keeps a session with the broker. What comes is written to a spool on disk; its place there is
the offset that Spark keeps. The broker hears that it has arrived when the batch with it is committed, so that it comes
again if driver and disk are lost before: at least once. `docs/pipeline.md` has the options.
"""

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho
import pyarrow as pa
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from penstock.journal.read.events import EVENTS
from penstock.model.errors import TopicError
from penstock.model.topic import parse_filter
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.mqtt.connection import PATIENCE, BrokerAddress
from penstock.pipeline.mqtt.spool import Spool, SpooledMessage
from penstock.wire.properties import Properties as Carried
from penstock.wire.properties import encode_properties

FORMAT = "mqtt"
COLUMNS = ("node", "seq", "time", "topic", "payload", "qos", "retain", "content_type", "properties", "expiry")
"""What a client can know of the table of events. `node` is the broker's address, `seq` the place in the spool."""
SCHEMA = pa.schema([EVENTS.field(name) for name in COLUMNS])
MAX_ROWS = 50_000
"""For a batch."""
_TASK_ROWS = 10_000
_QUIET = 1.0
"""Seconds without a message after which a job that does not wait for more takes it that this was all."""
_ON_COMMIT, _ON_SPOOL = "committed", "spooled"

Offset = dict[str, int]


def register(spark: SparkSession) -> None:
    """Let a session know the format `mqtt`."""
    spark.dataSource.register(MqttSource)


class MqttSource(DataSource):
    """Options: host, port, topics, client_id, username, password, tls, version, spool, acknowledge, max_rows."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        return from_arrow_schema(SCHEMA)

    def streamReader(self, schema: StructType) -> "MqttReader":
        return MqttReader(schema, dict(self.options))


class MessagePartition(InputPartition):
    """Messages on their way to a worker, which may be on another machine than the spool."""

    def __init__(self, first: int, messages: list[SpooledMessage]) -> None:
        self.first, self.messages = first, messages


class MqttReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Made wherever Spark plans or reads; only where offsets are asked for it becomes a client."""

    def __init__(self, schema: StructType, options: Mapping[str, str]) -> None:
        self._columns = schema.names
        self._broker = BrokerAddress.of_options(options)
        self._topics = _topics(options.get("topics") or "")
        if not options.get("spool"):
            raise PipelineError("`mqtt` needs the option `spool`: a folder on the driver, beside the checkpoint")
        self._spool = Path(options["spool"])
        self._acknowledge = options.get("acknowledge") or _ON_COMMIT
        if self._acknowledge not in (_ON_COMMIT, _ON_SPOOL):
            raise PipelineError(f"`acknowledge` is `{_ON_COMMIT}` or `{_ON_SPOOL}`, not `{self._acknowledge}`")
        self._most = int(options.get("max_rows") or MAX_ROWS)
        self._target: int | None = None
        self._inbox: Inbox | None = None

    def initialOffset(self) -> Offset:
        return {"next": self._open().spool.committed}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._most)

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._open().settled()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        inbox = self._open()
        begin = self._begin(start, inbox.spool)
        end = inbox.written()
        if self._target is not None:
            end = max(min(end, self._target), begin)
        if isinstance(limit, ReadMaxRows):
            end = min(end, begin + limit.max_rows)
        return {"next": end}

    def partitions(self, start: Offset, end: Offset) -> Sequence[MessagePartition]:
        spool = self._open().spool
        try:
            return [
                MessagePartition(first, list(spool.read(first, min(first + _TASK_ROWS, end["next"]))))
                for first in range(self._begin(start, spool), end["next"], _TASK_ROWS)
            ]
        except LookupError as error:
            raise PipelineError(f"the spool `{self._spool}` is not that of this checkpoint: {error}") from error

    def _begin(self, start: Offset, spool: Spool) -> int:
        """Return where a batch begins.

        The spool of the checkpoint may be lost: the broker has what was not acknowledged.
        """
        if start["next"] < spool.committed and self._acknowledge == _ON_SPOOL:
            raise PipelineError(
                f"the spool `{self._spool}` is not that of this checkpoint, and what was in that one was acknowledged:"
                " what of it no batch had is lost; begin with a new checkpoint"
            )
        return max(start["next"], spool.committed)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, MessagePartition)
        messages = partition.messages
        columns = {
            "node": [str(self._broker)] * len(messages),
            "seq": list(range(partition.first, partition.first + len(messages))),
            **{name: [getattr(message, name) for message in messages] for name in COLUMNS[2:]},
        }
        schema = pa.schema([SCHEMA.field(name) for name in self._columns])
        arrays = [pa.array(columns[field.name], field.type) for field in schema]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    def commit(self, end: Offset) -> None:
        self._open().commit(end["next"])

    def stop(self) -> None:
        if self._inbox is not None:
            self._inbox.close()
            self._inbox = None

    def _open(self) -> "Inbox":
        if self._inbox is None:
            self._inbox = Inbox(self._broker, self._topics, Spool(self._spool), self._acknowledge == _ON_SPOOL)
        return self._inbox


def _topics(text: str) -> tuple[str, ...]:
    filters = tuple(filter.strip() for filter in text.split(",") if filter.strip())
    if not filters:
        raise PipelineError("`mqtt` needs the option `topics`: filters, with commas between")
    try:
        return tuple(parse_filter(filter).filter for filter in filters)
    except TopicError as error:
        raise PipelineError(str(error)) from error


class Inbox:
    """A client with a session, and the spool that it fills."""

    def __init__(
        self, broker: BrokerAddress, topics: tuple[str, ...], spool: Spool, acknowledges_at_once: bool
    ) -> None:
        self.spool = spool
        self._broker = broker
        self._topics = topics
        self._lock = threading.Lock()
        self._last = time.monotonic()
        self._granted = threading.Event()
        self._problem = ""
        self._unanswered: dict[int, int] = {}
        """Messages that the broker does not know to have arrived: what it calls them, and where they are."""
        if not acknowledges_at_once:  # else the broker may know, and mean another message by the same number
            pending = enumerate(spool.read(spool.committed, spool.next), spool.committed)
            self._unanswered = {message.mid: number for number, message in pending if message.qos}
        self._arrived, self._is_over = threading.Event(), False
        if acknowledges_at_once:
            threading.Thread(target=self._answer, daemon=True).start()
        self._client = broker.client()
        self._client.on_connect = self._on_connect
        self._client.on_subscribe = self._on_subscribe
        self._client.on_message = self._on_message
        broker.connect(self._client, keeps_session=True)
        if not self._granted.wait(PATIENCE):
            raise PipelineError(f"`{broker}` does not answer to SUBSCRIBE")
        self._check()

    def written(self) -> int:
        """Up to which number everything is on disk."""
        self._check()
        with self._lock:
            self.spool.sync()
            return self.spool.next

    def settled(self) -> int:
        """Return the same, once nothing more comes."""
        self._last = time.monotonic()
        while time.monotonic() - self._last < _QUIET:
            time.sleep(0.05)
        return self.written()

    def commit(self, number: int) -> None:
        """Forget what came up to this number: a batch is done with it."""
        with self._lock:
            self.spool.commit(number)
        self._acknowledge(number)

    def _acknowledge(self, number: int) -> None:
        with self._lock:
            done = [mid for mid, at in self._unanswered.items() if at < number]
            for mid in done:
                del self._unanswered[mid]
        for mid in done:
            self._client.ack(mid, 1)

    def _answer(self) -> None:
        """Acknowledge what is on disk."""
        while not self._is_over:
            self._arrived.wait()
            self._arrived.clear()
            try:
                self._acknowledge(self.written())
            except OSError as error:
                self._problem = f"the spool cannot be written: {error}"
            except PipelineError:
                return

    def _is_known(self, message: paho.MQTTMessage) -> bool:
        """Return whether the broker sends again what is in the spool, by packet identifier and content."""
        number = self._unanswered.get(message.mid)
        if number is None:
            return False
        (kept,) = self.spool.read(number, number + 1)
        return kept.topic == message.topic and kept.payload == message.payload

    def close(self) -> None:
        """Leave; the session stays."""
        self._is_over = True
        self._arrived.set()
        self._client.disconnect()
        self._client.loop_stop()
        self.spool.close()

    def _check(self) -> None:
        if self._problem:
            raise PipelineError(self._problem)

    # --- on paho-mqtt's thread

    def _on_connect(self, client: paho.Client, data: Any, flags: Any, code: Any, properties: Any) -> None:
        if not flags.session_present:
            with self._lock:
                self._unanswered.clear()  # nobody waits for an answer; all of it is in the spool
        options = SubscribeOptions(qos=1, retainAsPublished=True, retainHandling=1)
        if self._broker.version == "5":
            client.subscribe([(topic, options) for topic in self._topics])
        else:
            client.subscribe([(topic, 1) for topic in self._topics])

    def _on_subscribe(self, client: paho.Client, data: Any, mid: int, codes: Any, properties: Any) -> None:
        refused = [topic for topic, code in zip(self._topics, codes, strict=True) if code.is_failure]
        if refused:
            self._problem = f"`{self._broker}` does not let `{self._broker.client_id}` subscribe to `{refused[0]}`"
        self._granted.set()

    def _on_message(self, client: paho.Client, data: Any, message: paho.MQTTMessage) -> None:
        self._last = time.monotonic()
        try:
            with self._lock:
                if not (message.dup and self._is_known(message)):
                    number = self.spool.append(_spooled(message))
                    if message.qos:
                        self._unanswered[message.mid] = number
            self._arrived.set()
        except OSError as error:
            self._problem = f"the spool cannot be written: {error}"


def _spooled(message: paho.MQTTMessage) -> SpooledMessage:
    properties = message.properties
    content_type = getattr(properties, "ContentType", None)
    carried = Carried(
        payload_format=getattr(properties, "PayloadFormatIndicator", None),
        content_type=content_type,
        response_topic=getattr(properties, "ResponseTopic", None),
        correlation_data=getattr(properties, "CorrelationData", None),
        user_properties=tuple(getattr(properties, "UserProperty", ())),
    )
    content = message.topic, bytes(message.payload), message.qos, message.retain, content_type
    encoded = encode_properties(carried) if isinstance(properties, Properties) else b""
    expiry = getattr(properties, "MessageExpiryInterval", None)
    return SpooledMessage(int(time.time() * 1_000_000), *content, encoded, expiry, message.mid if message.qos else 0)
