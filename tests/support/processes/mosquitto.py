"""A real Mosquitto on a free loopback port, and its command line clients."""

import contextlib
import itertools
import os
import random
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

HOST = "127.0.0.1"
_PATH = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/usr/local/sbin"))
_PATIENCE = 60.0


@dataclass(frozen=True)
class Mosquitto:
    """A running Mosquitto: where it listens, and the file it logs to."""

    port: int
    log: Path

    @property
    def address(self) -> list[str]:
        """The options that bring a command line client here."""
        return ["-h", HOST, "-p", str(self.port)]

    @property
    def text(self) -> str:
        """What it has logged until now: every packet it received and sent."""
        return self.log.read_text(errors="replace")

    @property
    def subscribed(self) -> int:
        """How many times it has answered a SUBSCRIBE."""
        return self.text.count("Sending SUBACK")


def program(name: str) -> str:
    """The path of one of Mosquitto's programs."""
    found = shutil.which(name, path=_PATH)
    if found is None:
        raise RuntimeError(f"`{name}` is not installed: apt-get install mosquitto mosquitto-clients")
    return found


def _ports() -> Iterator[int]:
    """Those of this process among the tests', in any order, again and again.

    They are none of those that connections get, 32768 and up: whoever listens on one may end, and come back.
    """
    first = 20_000 + 3_000 * (int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]) % 4)
    ports = list(range(first, first + 3_000))
    random.SystemRandom().shuffle(ports)  # other tests may run beside these
    return itertools.cycle(ports)


_PORTS = _ports()


def free_port() -> int:
    """A port of the loopback address that nobody listens on, each time another."""
    for port in _PORTS:
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind((HOST, port))
            return port
    raise AssertionError("no port is free")


@contextmanager
def mosquitto(config: str = "allow_anonymous true", *, port: int = 0, options: str = "") -> Iterator[Mosquitto]:
    """Run Mosquitto with `config`; `options` are lines for its listener (`certfile ...`, `protocol ...`)."""
    port = port or free_port()
    with tempfile.TemporaryDirectory(prefix="mosquitto-") as folder:
        settings, log = Path(folder) / "mosquitto.conf", Path(folder) / "log"
        # Started as root it would drop to a user that cannot read the tests' files.
        settings.write_text(f"user root\nlistener {port} {HOST}\n{options}\n{config}\n")
        with log.open("wb") as output:
            process = subprocess.Popen([program("mosquitto"), "-v", "-c", str(settings)], stdout=output, stderr=output)
            try:
                _wait(process, port, log)
                yield Mosquitto(port, log)
            finally:
                process.terminate()
                try:
                    process.wait(_PATIENCE)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()


def until_listening(port: int) -> None:
    """Wait for another listener than the first: they come one after the other."""
    deadline = time.monotonic() + _PATIENCE
    while not _listens(port):
        assert time.monotonic() < deadline, f"nobody listens on port {port}"
        time.sleep(0.02)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0


def _wait(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"mosquitto ended with {process.returncode}:\n{log.read_text()}")
        if _listens(port):
            return
        time.sleep(0.02)
    raise RuntimeError(f"mosquitto does not listen on port {port}:\n{log.read_text()}")
