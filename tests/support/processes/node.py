"""`penstock run` as its own process on free loopback ports.

with running({"acl": "acl"}, {"acl": "topic readwrite #"}) as node:
    connect_to(node.port)
    node.until_logged("publish denied")
"""

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import yaml

from tests.support.processes.commands import PATIENCE, penstock, run, until
from tests.support.processes.forking import Process
from tests.support.processes.mosquitto import program

ANY_PORT = "127.0.0.1:0"


class LiveNode:
    """A node process. `restart` starts another one in the same folder, so with the same store."""

    def __init__(self, folder: Path, before: Callable[[], None] | None = None) -> None:
        self.folder = folder
        self.addresses: list[str] = []
        self._before = before
        self._process: subprocess.Popen[str] | None = None

    # --- the process

    @property
    def pid(self) -> int:
        return self._running().pid

    def _running(self) -> subprocess.Popen[str]:
        assert self._process is not None
        return self._process

    def start(self) -> None:
        """Start it and wait for the line with `ready`."""
        with (self.folder / "log").open("ab") as errors:
            self._process = Process(
                penstock("run", str(self.folder / "domain.yaml")),
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                preexec_fn=self._before,
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert "ready" in line, f"the node ended with {self._process.wait(PATIENCE)}:\n{self.log}"
        self.addresses = [word for word in line.split() if "://" in word]

    def kill(self) -> None:
        """SIGKILL: no goodbye, nothing is written any more."""
        self._running().kill()
        self._running().wait()

    def stop(self, which: signal.Signals = signal.SIGTERM) -> int:
        """Ask it to end; its exit code."""
        process = self._running()
        process.send_signal(which)
        try:
            return process.wait(PATIENCE)
        finally:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()

    @property
    def is_alive(self) -> bool:
        return self._running().poll() is None

    def reload(self) -> None:
        """SIGHUP, and wait until the log says what came of it."""
        before = len(self.log)
        self._running().send_signal(signal.SIGHUP)
        until(lambda: "reloaded" in self.log[before:], "the node says that it has reloaded, or not")

    def rss(self) -> int:
        """Resident memory in bytes."""
        return int(psutil.Process(self.pid).memory_info().rss)

    # --- where it listens

    def ports(self, scheme: str) -> list[int]:
        """The ports of its listeners of one kind: mqtt, mqtts, ws, wss or http; in the order of the domain file."""
        found = (urlsplit(address) for address in self.addresses)
        return [url.port for url in found if url.scheme == scheme and url.port is not None]

    @property
    def port(self) -> int:
        """The port of its first plain listener."""
        return self.ports("mqtt")[0]

    # --- its files

    @property
    def log(self) -> str:
        """All that it has written to standard error, of earlier starts too."""
        return (self.folder / "log").read_text(errors="replace")

    def until_logged(self, *parts: str) -> str:
        """Wait for a line of the log that has all the parts, and return it."""
        found: list[str] = []

        def is_there() -> bool:
            found.extend(line for line in self.log.splitlines() if all(part in line for part in parts))
            return bool(found)

        until(is_there, f"the log says {parts}; it says:\n{self.log[-2000:]}")
        return found[0]

    def configure(self, settings: Mapping[str, Any], **more: Any) -> None:
        """Write the domain file; listeners are on free ports and the store is in memory unless `settings` say more.
        `more` is what else the file has.
        """
        node = {"listen": ANY_PORT, "store": "memory", **settings}
        (self.folder / "domain.yaml").write_text(yaml.safe_dump({"domain": "test", "nodes": {"main": node}, **more}))

    def write(self, name: str, text: str) -> Path:
        """Write a file beside the domain file."""
        path = self.folder / name
        path.write_text(text)
        return path


@contextmanager
def running(
    settings: Mapping[str, Any] | None = None,
    files: Mapping[str, str] | None = None,
    before: Callable[[], None] | None = None,
    **more: Any,
) -> Iterator[LiveNode]:
    """A node with `settings` and with `files` beside its domain file; `before` runs in the process before it starts.
    `more` is what else the domain file has.
    """
    with tempfile.TemporaryDirectory(prefix="penstock-") as name:
        node = LiveNode(Path(name), before)
        for file, text in (files or {}).items():
            node.write(file, text)
        node.configure(settings or {}, **more)
        node.start()
        try:
            yield node
        finally:
            if node.is_alive:
                node.stop()


def passwords(**users: str) -> str:
    """A password file for these users, as `mosquitto_passwd` writes it."""
    with tempfile.TemporaryDirectory(prefix="passwords-") as name:
        path = Path(name) / "passwords"
        path.touch(mode=0o600)
        for user, password in users.items():
            subprocess.run([program("mosquitto_passwd"), "-b", path, user, password], check=True, capture_output=True)
        return path.read_text()


def refused(folder: Path) -> tuple[int, str]:
    """Run the domain file of a folder, of which it is expected that it cannot run: exit code and error."""
    code, out, err = run(penstock("run", str(folder / "domain.yaml")))
    assert out == ""
    return code, err


def open_files(node: LiveNode) -> int:
    """How many file descriptors the node holds."""
    return len(os.listdir(f"/proc/{node.pid}/fd"))


def settled(measure: Callable[[], int], seconds: float = 1.0) -> int:
    """The measure once it has not grown for a while."""
    last, since = measure(), time.monotonic()
    while time.monotonic() - since < seconds:
        time.sleep(0.1)
        now = measure()
        if now > last:
            last, since = now, time.monotonic()
    return last
