"""An edge node or a host on Eclipse Tahu's Python code, by mqtt-spb-wrapper: told what to do, it says what it hears.

    tahu_client.py edge|host PORT CLIENT_ID GROUP NAME

Runs in a process of its own (`examples/sparkplug.py`). Orders of an edge node: `{"report": {"name": value}}`.
"""

import json
import sys
from typing import Any

from mqtt_spb_wrapper import MqttSpbEntityEdgeNode, MqttSpbEntityScada


def say(**said: Any) -> None:
    print(json.dumps(said), flush=True)


def hear(kind: str) -> Any:
    def told(topic: Any, payload: Any) -> None:
        say(type=kind, topic=str(topic), metrics={one["name"]: one["value"] for one in payload["metrics"]})

    return told


def main(role: str, port: str, client_id: str, group: str, name: str) -> None:
    if role == "host":
        host = MqttSpbEntityScada(group, name)
        host.callback_birth, host.callback_data = hear("birth"), hear("data")
        say(ready=host.connect("127.0.0.1", int(port), user=client_id, password="-"))
        for line in sys.stdin:
            order = json.loads(line)
            host.send_commands(order["metrics"], order["order"])
        return
    edge = MqttSpbEntityEdgeNode(group, name)
    for key, value in (("temperature", 20.5), ("secret", "SECRET")):
        edge.data.set_value(key, value)
    edge.on_command = lambda payload: say(ordered={one["name"]: one["value"] for one in payload["metrics"]})
    say(ready=edge.connect("127.0.0.1", int(port), client_id=client_id))
    edge.publish_birth()
    for line in sys.stdin:
        for key, value in json.loads(line)["report"].items():
            edge.data.set_value(key, value)
        edge.publish_data()


if __name__ == "__main__":
    main(*sys.argv[1:])
