"""A host application that keeps the norm's rules to the letter (section 6.4): it asks for a rebirth whenever an edge
node's messages are not what they must be.

It asks when `seq` is not the next one, when a report comes before a birth, when an alias or a name is none of the
birth's.
"""

from typing import Any

from paho.mqtt.client import MQTTMessage

from tests.support.clients.paho import Paho
from tests.support.memory.sparkplug import PAYLOAD, encode

REBIRTH = "Node Control/Rebirth"


class StrictHost:
    """A host on a connected client. `read` takes what has come, and answers it."""

    def __init__(self, client: Paho, filter: str = "spBv1.0/#") -> None:
        self._client = client
        self._seq: dict[str, int] = {}
        self._names: dict[str, set[str]] = {}
        self._aliases: dict[str, dict[int, str]] = {}
        self.values: dict[str, dict[str, Any]] = {}
        """By source, what it holds to be so."""
        self.counts: dict[str, int] = {}
        """Messages by type."""
        self.asked: list[str] = []
        """Why it asked for rebirths."""
        client.subscribe(filter, 1)

    def read(self, until: int) -> None:
        """Take in messages until there are as many as this."""
        while sum(self.counts.values()) < until:
            self._take(self._client.receive())

    def read_all(self) -> None:
        """Take in what is there."""
        while not self._client.messages.empty():
            self._take(self._client.receive())

    def _take(self, message: MQTTMessage) -> None:
        _, group, kind, edge, *device = message.topic.split("/")
        if kind in ("NCMD", "DCMD"):
            return
        self.counts[kind] = self.counts.get(kind, 0) + 1
        node, source = f"{group}/{edge}", "/".join((group, edge, *device))
        payload: Any = PAYLOAD.FromString(bytes(message.payload))
        if kind in ("NDEATH", "DDEATH"):
            self._names.pop(source, None)
        elif kind == "NBIRTH":
            for known in [one for one in self._names if one.split("/")[:2] == [group, edge]]:
                del self._names[known]
            self._seq[node] = payload.seq
            self._born(source, payload)
        else:
            self._number(node, payload)
            if kind == "DBIRTH":
                self._born(source, payload)
            else:
                self._report(node, source, payload)

    def _born(self, source: str, payload: Any) -> None:
        self._names[source] = {metric.name for metric in payload.metrics}
        self._aliases[source] = {metric.alias: metric.name for metric in payload.metrics if metric.HasField("alias")}
        self.values[source] = {metric.name: _value(metric) for metric in payload.metrics}

    def _number(self, node: str, payload: Any) -> None:
        expected = (self._seq.get(node, -1) + 1) % 256
        if payload.seq != expected:
            self._ask(node, f"seq {payload.seq} instead of {expected}")
        self._seq[node] = payload.seq

    def _report(self, node: str, source: str, payload: Any) -> None:
        if source not in self._names:
            self._ask(node, f"{source} was not born")
            return
        for metric in payload.metrics:
            name = metric.name or self._aliases[source].get(metric.alias)
            if name is None:
                self._ask(node, f"alias {metric.alias} of {source} is not known")
            elif name not in self._names[source]:
                self._ask(node, f"metric {name} of {source} is not known")
            elif not metric.is_historical:
                self.values[source][name] = _value(metric)

    def _ask(self, node: str, why: str) -> None:
        self.asked.append(why)
        group, edge = node.split("/")
        order = {"timestamp": 1, "metrics": [{"name": REBIRTH, "datatype": 11, "boolean_value": True}]}
        self._client.publish(f"spBv1.0/{group}/NCMD/{edge}", encode(order), 0)


def _value(metric: Any) -> Any:
    kind = metric.WhichOneof("value")
    return None if metric.is_null or kind is None else getattr(metric, kind)
