"""A server to test against, as a process of its own: a penstock node, or Mosquitto as the reference.

`PENSTOCK_TEST_BROKER=mosquitto` chooses Mosquitto, to see whether a test says what the standard says.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.processes.mosquitto import HOST, mosquitto
from tests.support.processes.node import running

REFERENCE = os.environ.get("PENSTOCK_TEST_BROKER", "penstock") == "mosquitto"


@dataclass(frozen=True)
class Server:
    """Where a server listens."""

    host: str
    port: int


@dataclass(frozen=True)
class Wishes:
    """How a server is to be set up, in words that both kinds of server have. None leaves the default."""

    max_packet_size: int | None = None
    max_keepalive: int | None = None
    max_qos: int | None = None
    retain: bool = True
    passwords: str = ""
    acl: str = ""
    websocket: bool = False


def _settings(wishes: Wishes) -> dict[str, object]:
    limits = {
        "max_packet_size": wishes.max_packet_size,
        "max_keepalive": wishes.max_keepalive,
        "max_qos": wishes.max_qos,
        "retain": None if wishes.retain else False,
    }
    settings: dict[str, object] = {"limits": {name: value for name, value in limits.items() if value is not None}}
    if wishes.websocket:
        settings["listen"] = {"address": f"{HOST}:0", "websocket": True}
    for name in ("passwords", "acl"):
        if getattr(wishes, name):
            settings[name] = name
    return settings


def _mosquitto_settings(wishes: Wishes, folder: Path) -> tuple[str, str]:
    """The settings of the whole, and those of the listener."""
    general = [f"allow_anonymous {'false' if wishes.passwords else 'true'}"]
    if wishes.max_packet_size is not None:
        general.append(f"max_packet_size {wishes.max_packet_size}")
    if wishes.max_keepalive is not None:
        general.append(f"max_keepalive {wishes.max_keepalive}")
    if not wishes.retain:
        general.append("retain_available false")
    for name, option in (("passwords", "password_file"), ("acl", "acl_file")):
        if content := getattr(wishes, name):
            (folder / name).write_text(content)
            general.append(f"{option} {folder / name}")
    listener = [] if wishes.max_qos is None else [f"max_qos {wishes.max_qos}"]
    if wishes.websocket:
        listener.append("protocol websockets")
    return "\n".join(general), "\n".join(listener)


@contextmanager
def serving(wishes: Wishes | None = None) -> Iterator[Server]:
    """Run a server set up as wished until the block ends."""
    wishes = wishes or Wishes()
    if REFERENCE:
        with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
            general, listener = _mosquitto_settings(wishes, Path(folder))
            with mosquitto(general, options=listener) as reference:
                yield Server(HOST, reference.port)
    else:
        files = {name: getattr(wishes, name) for name in ("passwords", "acl") if getattr(wishes, name)}
        with running(_settings(wishes), files) as node:
            yield Server(HOST, node.ports("ws" if wishes.websocket else "mqtt")[0])
