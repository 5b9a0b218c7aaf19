"""Who takes part in the demo: a node in a process of its own, clients, and the account they appear in."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from rich.console import Console
from rich.markup import escape

HERE = Path(__file__).parent
PATIENCE = 15.0
"""Seconds until something that should happen is held not to have happened."""
AN_HOUR = 3600


def wait_for(happened: Callable[[], bool], patience: float = PATIENCE) -> bool:
    """Whether it happened in time."""
    end = time.monotonic() + patience
    while not happened():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


class Account:
    """What happened, printed as it happens, and whether all of it was as it should be."""

    def __init__(self) -> None:
        self.console = Console(highlight=False, soft_wrap=True)
        self.scenes = 0
        self.failures = 0
        self.started = time.monotonic()

    def scene(self, title: str) -> None:
        self.scenes += 1
        self.console.print(f"\n[bold]{self.scenes}. {escape(title)}[/bold]")

    def quote(self, text: str) -> None:
        self.console.print(f"   [dim]{escape(text)}[/dim]")

    def check(self, claim: str, seen: object, expected: object = True) -> None:
        """Print the claim as true or as untrue."""
        if seen == expected:
            self.console.print(f"   [green]ok[/green]  {escape(claim)}")
            return
        self.failures += 1
        detail = "" if expected is True else f" (expected {expected!r:.200}, saw {seen!r:.200})"
        self.console.print(f"   [bold red]NO[/bold red]  {escape(claim + detail)}")

    def close(self) -> int:
        seconds = time.monotonic() - self.started
        if self.failures:
            self.console.print(f"\n[bold red]{self.failures} things did not happen as told[/bold red]")
            return 1
        self.console.print(f"\n[bold green]Everything happened as told[/bold green], in {seconds:.0f} s.")
        return 0


class Node:
    """A node in a process of its own, with the domain file beside this one on ports that are free."""

    def __init__(self, folder: Path) -> None:
        for name in ("domain.yaml", "acl", "passwords"):
            shutil.copy(HERE / name, folder)
        self.file = folder / "domain.yaml"
        self.log = folder / "node.log"
        text = self.file.read_text(encoding="utf-8")
        ports = {port: free_port() for port in re.findall(r"127\.0\.0\.1:(\d+)", text)}
        self.process: subprocess.Popen[str] | None = None
        self.port, self.websocket, self.admin = ports["1883"], ports["8083"], ports["8080"]
        self.file.write_text(re.sub(r"(?<=127\.0\.0\.1:)\d+", lambda found: str(ports[found[0]]), text), "utf-8")

    def start(self) -> str:
        """Start it and return the line that says it is ready."""
        command = [str(Path(sys.executable).with_name("penstock")), "run", str(self.file)]
        with self.log.open("a", encoding="utf-8") as log:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        self.process = process
        assert process.stdout is not None
        for line in process.stdout:
            if "ready" in line:
                return line.strip()
        raise SystemExit(f"the node did not start:\n{self.log.read_text(encoding='utf-8')}")

    def kill(self) -> None:
        """As a power failure would: no chance to write anything."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def stop(self) -> int:
        """SIGTERM, and the exit code."""
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(PATIENCE)

    def logged(self, *words: str) -> str:
        """The last line of the log that has all these words; empty if there is none."""
        lines = self.log.read_text(encoding="utf-8").splitlines()
        return next((line for line in reversed(lines) if all(word in line for word in words)), "")

    def logs(self, *words: str) -> bool:
        """Whether a line with all these words comes into the log."""
        return wait_for(lambda: self.logged(*words) != "")

    def page(self, path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.admin}{path}", timeout=PATIENCE) as answer:
            return str(answer.read(), "utf-8")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Client:
    """A paho-mqtt client, MQTT 5, that remembers what the node told it."""

    def __init__(
        self,
        name: str,
        user: str,
        *,
        password: str = "",
        session: int = 0,
        returns: bool = False,
        transport: Literal["tcp", "websockets"] = "tcp",
    ) -> None:
        self.session = session
        self.received: list[mqtt.MQTTMessage] = []
        self.answers: dict[int, ReasonCode] = {}
        self.greeting: ReasonCode | None = None
        self.resumed = False
        self.paho = mqtt.Client(
            CallbackAPIVersion.VERSION2,
            name,
            protocol=mqtt.MQTTv5,
            transport=transport,
            reconnect_on_failure=returns,
        )
        self.paho.username_pw_set(user, password or f"{user}-demo")
        self.paho.on_connect = self._on_connect
        self.paho.on_message = lambda _client, _data, message: self.received.append(message)
        self.paho.on_subscribe = lambda _client, _data, mid, codes, _said: self.answers.update({mid: codes[0]})
        self.paho.on_publish = lambda _client, _data, mid, code, _said: self.answers.update({mid: code})

    def _on_connect(
        self, client: mqtt.Client, data: object, flags: mqtt.ConnectFlags, code: ReasonCode, said: object
    ) -> None:
        self.resumed = flags.session_present
        self.greeting = code

    def connect(self, port: int) -> Client:
        """Connect, and wait for the node's answer. A client with a session takes it up again."""
        wanted = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        wanted.SessionExpiryInterval = self.session
        self.greeting = None
        self.paho.connect("127.0.0.1", port, clean_start=not self.session, properties=wanted)
        self.paho.loop_start()
        wait_for(lambda: self.greeting is not None)
        return self

    def subscribe(self, filter: str, qos: int = 0) -> ReasonCode:
        _, mid = self.paho.subscribe(filter, qos)
        return self._answered(mid)

    def publish(self, topic: str, payload: str, qos: int, *, retain: bool = False) -> ReasonCode:
        return self._answered(self.paho.publish(topic, payload, qos, retain).mid)

    def _answered(self, mid: int | None) -> ReasonCode:
        assert mid is not None
        if not wait_for(lambda: mid in self.answers):
            raise SystemExit("a client got no answer from the node")
        return self.answers[mid]

    def payloads(self, topic: str = "#") -> list[str]:
        chosen = [message for message in list(self.received) if mqtt.topic_matches_sub(topic, message.topic)]
        return [str(message.payload, "utf-8") for message in chosen]

    def leave(self) -> None:
        self.paho.disconnect()
        self.paho.loop_stop()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *reason: object) -> None:
        self.leave()

    def vanish(self) -> None:
        """Lose the connection without a word, as a device does that loses power."""
        connection = self.paho.socket()
        assert isinstance(connection, socket.socket)
        connection.shutdown(socket.SHUT_RDWR)
        self.paho.loop_stop()
