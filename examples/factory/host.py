"""A host or another reader, with pysparkplug: says each message that it gets, metrics by name.

    host.py PORT CLIENT_ID FILTER…

Orders: `{"order": "GROUP/EDGE", "metrics": {"name": value}}`, `{"state": true}`. It says `error` if it cannot make
sense of what it gets, such as an alias that its birth certificate has not.
"""

import json
import sys
import threading
import time
from typing import Any

import pysparkplug as ps

TYPES = {bool: ps.DataType.BOOLEAN, int: ps.DataType.INT64, float: ps.DataType.DOUBLE, str: ps.DataType.STRING}


def say(**said: Any) -> None:
    print(json.dumps(said), flush=True)


def hear(_: Any, message: Any) -> None:
    topic, payload = message.topic, message.payload
    source = "/".join(filter(None, (topic.group_id, topic.edge_node_id, topic.device_id)))
    metrics = getattr(payload, "metrics", None) or [one for one in [getattr(payload, "bd_seq_metric", None)] if one]
    values = {one.name: one.value for one in metrics}
    historical = [one.name for one in metrics if one.is_historical]
    seq = getattr(payload, "seq", None)
    say(type=str(topic.message_type.value), source=source, seq=seq, metrics=values, historical=historical)


def metric(name: str, value: Any) -> Any:
    return ps.Metric(timestamp=_now(), name=name, datatype=TYPES[type(value)], value=value)


def _now() -> int:
    return int(time.time() * 1000)


def main(port: str, client_id: str, *filters: str) -> None:
    threading.excepthook = lambda failed: say(error=repr(failed.exc_value))
    client = ps.Client(client_id=client_id)
    for text in filters:
        client.subscribe(ps.Topic.from_str(text), ps.QoS.AT_MOST_ONCE, hear)
    left = list(filters)

    def subscribed(*_: Any) -> None:
        left.pop()
        if not left:
            say(ready=True)

    client._client.on_subscribe = subscribed  # pysparkplug has no way to tell
    client.connect("127.0.0.1", port=int(port))
    for line in sys.stdin:
        order = json.loads(line)
        if "order" in order:
            group, edge = order["order"].split("/")
            topic = ps.Topic(group_id=group, message_type=ps.MessageType.NCMD, edge_node_id=edge)
            payload: Any = ps.NCmd(timestamp=_now(), metrics=tuple(metric(*one) for one in order["metrics"].items()))
            client.publish(ps.Message(topic, payload, ps.QoS.AT_MOST_ONCE, False), include_dtypes=True)
        if "state" in order:
            topic = ps.Topic(message_type=ps.MessageType.STATE, sparkplug_host_id=client_id)
            payload = ps.State(timestamp=_now(), online=order["state"])
            client.publish(ps.Message(topic, payload, ps.QoS.AT_LEAST_ONCE, True))


if __name__ == "__main__":
    main(*sys.argv[1:])
