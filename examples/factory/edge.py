"""An edge node, with pysparkplug. It is told what to do on standard input, and says what it does and hears.

    edge.py PORT CLIENT_ID GROUP/EDGE METRICS

`METRICS` is a JSON object. Orders: `{"report": {"name": value}}`, `{"historical": {…}}`, `{"skip": 3}` (lose so many
numbers), `{"rename": {…}}` (be born again with other aliases). Reports name metrics by alias only.
"""

import json
import sys
import time
from typing import Any

import pysparkplug as ps

Values = dict[str, Any]
REBIRTH = "Node Control/Rebirth"
TYPES = {bool: ps.DataType.BOOLEAN, int: ps.DataType.INT64, float: ps.DataType.DOUBLE, str: ps.DataType.STRING}


def say(**said: Any) -> None:
    print(json.dumps(said), flush=True)


class Edge:
    """One edge node."""

    def __init__(self, port: int, client_id: str, name: str, values: Values) -> None:
        self.group, self.edge = name.split("/")
        self.values: Values = {REBIRTH: False, **values}
        self.aliases = {name: number for number, name in enumerate(self.values, start=1)}
        self.seq = 0
        self.client = ps.Client(client_id=client_id)
        self.bd_seq = self.metric("bdSeq", 0, alias=None)
        death = ps.NDeath(timestamp=_now(), bd_seq_metric=self.bd_seq)
        self.client.set_will(self.message(ps.MessageType.NDEATH, death))
        self.client.subscribe(self.topic(ps.MessageType.NCMD), ps.QoS.AT_LEAST_ONCE, self.obey)
        self.client._client.on_subscribe = lambda *_: say(born=True)  # pysparkplug has no way to tell
        self.client.connect("127.0.0.1", port=port, callback=lambda _: self.birth())

    def topic(self, kind: Any) -> Any:
        return ps.Topic(group_id=self.group, message_type=kind, edge_node_id=self.edge)

    def message(self, kind: Any, payload: Any) -> Any:
        return ps.Message(topic=self.topic(kind), payload=payload, qos=ps.QoS.AT_MOST_ONCE, retain=False)

    def metric(self, name: str | None, value: Any, alias: int | None, **more: Any) -> Any:
        kind = TYPES[type(value)]
        return ps.Metric(timestamp=_now(), name=name, datatype=kind, value=value, alias=alias, **more)

    def birth(self) -> None:
        self.seq = 0
        metrics = [self.metric(name, value, self.aliases[name]) for name, value in self.values.items()]
        payload = ps.NBirth(timestamp=_now(), seq=0, metrics=(*metrics, self.bd_seq))
        self.client.publish(self.message(ps.MessageType.NBIRTH, payload), include_dtypes=True)

    def report(self, values: Values, **more: Any) -> None:
        self.values |= {} if more else values
        self.seq = (self.seq + 1) % 256
        metrics = tuple(self.metric(None, value, self.aliases[name], **more) for name, value in values.items())
        self.client.publish(self.message(ps.MessageType.NDATA, ps.NData(_now(), self.seq, metrics)))

    def obey(self, _: Any, message: Any) -> None:
        names = {alias: name for name, alias in self.aliases.items()}
        ordered = {one.name or names[one.alias]: one.value for one in message.payload.metrics}
        say(ordered=ordered)
        if ordered.pop(REBIRTH, False):
            self.birth()
        if ordered:
            self.report(ordered)

    def do(self, order: Values) -> None:
        if "report" in order:
            self.report(order["report"])
        if "historical" in order:
            self.report(order["historical"], is_historical=True)
        self.seq = (self.seq + order.get("skip", 0)) % 256
        if "rename" in order:
            self.aliases |= order["rename"]
            self.birth()
        if "done" in order:
            say(done=order["done"])


def _now() -> int:
    return int(time.time() * 1000)


if __name__ == "__main__":
    port, client_id, name, metrics = sys.argv[1:]
    edge = Edge(int(port), client_id, name, json.loads(metrics))
    for line in sys.stdin:
        edge.do(json.loads(line))
