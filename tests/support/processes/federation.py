"""The nodes of a domain on free loopback ports, each as a process of its own or all in one."""

import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import yaml

from tests.support.clients.paho import Paho
from tests.support.processes.commands import PATIENCE, penstock, until
from tests.support.processes.forking import Process
from tests.support.processes.mosquitto import free_port

_NUMBERS = count()
TOGETHER = "together"
"""Name of the process, and of its log, that has all nodes in it."""


class Nodes:
    """The processes, by node name; a node keeps its port and its store when it is started again."""

    def __init__(self, folder: Path, domain: Mapping[str, Any]) -> None:
        self.folder = folder
        self.ports = {name: free_port() for name in domain["nodes"]}
        self._processes: dict[str, subprocess.Popen[str]] = {}
        self.write(domain)

    def write(self, domain: Mapping[str, Any]) -> None:
        """Write the domain file; every node listens on the port it has had from the beginning."""
        nodes = {
            name: {"listen": f"127.0.0.1:{self.ports[name]}", **settings} for name, settings in domain["nodes"].items()
        }
        (self.folder / "domain.yaml").write_text(
            yaml.safe_dump({"domain": "test", **domain, "nodes": nodes}, sort_keys=False)
        )

    def start(self, *names: str) -> None:
        for name in names:
            self._launch(name, "--node", name)
        for name in names:
            self._until_ready(name)

    def start_together(self) -> None:
        """All nodes in one process."""
        self._launch(TOGETHER)
        self._until_ready(TOGETHER)

    def _launch(self, name: str, *arguments: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as errors:
            command = penstock("run", str(self.folder / "domain.yaml"), *arguments)
            self._processes[name] = Process(command, stdout=subprocess.PIPE, stderr=errors, text=True)

    def _until_ready(self, name: str) -> None:
        line = self._processes[name].stdout.readline()  # type: ignore[union-attr]
        assert "ready" in line, self.log(name)

    def kill(self, name: str) -> None:
        """SIGKILL."""
        self._processes[name].kill()
        self._processes[name].wait()

    def freeze(self, name: str) -> None:
        """SIGSTOP: it keeps its connections, and says nothing any more."""
        self._processes[name].send_signal(signal.SIGSTOP)

    def thaw(self, name: str) -> None:
        """SIGCONT: it goes on."""
        self._processes[name].send_signal(signal.SIGCONT)

    def reload(self, *names: str) -> None:
        for name in names:
            before = len(self.log(name))
            self._processes[name].send_signal(signal.SIGHUP)
            until(lambda name=name, before=before: "reloaded" in self.log(name)[before:], "the node has reloaded")  # type: ignore[misc]

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()

    def until_logged(self, name: str, *parts: str, times: int = 1) -> None:
        """Wait until so many lines of a node's log have all the parts."""

        def is_there() -> bool:
            return sum(all(part in line for part in parts) for line in self.log(name).splitlines()) >= times

        until(is_there, f"the log of {name} says {parts}; it says:\n{self.log(name)[-2000:]}")

    def stop(self) -> None:
        for process in self._processes.values():
            process.terminate()
        for process in self._processes.values():
            try:
                process.wait(PATIENCE)
            finally:
                process.kill()
                process.wait()
                if process.stdout is not None:
                    process.stdout.close()


@contextmanager
def federated(domain: Mapping[str, Any]) -> Iterator[Nodes]:
    """All nodes of a domain, running and linked."""
    with tempfile.TemporaryDirectory() as folder:
        nodes = Nodes(Path(folder), domain)
        try:
            nodes.start(*domain["nodes"])
            for link in domain.get("links", ()):
                dialling, dialled = link["between"]
                nodes.until_logged(dialling, "linked", f"neighbour={dialled}")
            yield nodes
        finally:
            nodes.stop()


@contextmanager
def together(domain: Mapping[str, Any], links: int) -> Iterator[Nodes]:
    """All nodes of a domain in one process, and so many links made."""
    with tempfile.TemporaryDirectory() as folder:
        nodes = Nodes(Path(folder), domain)
        try:
            nodes.start_together()
            nodes.until_logged(TOGETHER, "linked", times=links)
            yield nodes
        finally:
            nodes.stop()


def heard(client: Paho, speaker: Paho) -> list[str]:
    """What a client has got by the time that it hears another one say so."""
    now = str(next(_NUMBERS)).encode()
    speaker.publish("now", now, 1)
    topics = []
    while (message := client.receive()).payload != now:
        topics += [message.topic] if message.topic != "now" else []
    return topics


def settled(subscriber: Paho, publisher: Paho) -> None:
    """Interest takes a moment to travel: go on once a first event has arrived, and all of its kind are taken out.

    The subscriber must have subscribed to all topics, or to `settled` and at last to `settle`.
    """

    def arrives() -> bool:
        publisher.publish("settle", b"", qos=1)
        return not subscriber.messages.empty()

    until(arrives, "an event has come through")
    publisher.publish("settled", b"", qos=1)
    while subscriber.receive().topic != "settled":
        pass


def chain(*names: str, **settings: Any) -> dict[str, Any]:
    """A domain whose nodes are joined in a row; each but the last dials the next."""
    links = [{"between": list(pair)} for pair in pairwise(names)]
    return {"nodes": {name: {"store": "memory", **settings} for name in names}, "links": links}
