"""The brokers under test: how each is started on a port, watched and stopped."""

from __future__ import annotations

import contextlib
import importlib.metadata
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from examples.nodes import free_ports

START_TIMEOUT = 20.0
STOP_TIMEOUT = 10.0


class BrokerError(Exception):
    """A broker that cannot be started or has ended."""


@dataclass(frozen=True, slots=True)
class Broker:
    """One broker in one configuration; `command` may write into the folder it is given."""

    name: str
    family: str
    title: str
    command: Callable[[int, Path], list[str]]
    durable: bool = False


class Process:
    """A started broker: its resources, of its children too."""

    def __init__(self, broker: Broker, popen: subprocess.Popen[bytes], port: int, log: Path) -> None:
        self.broker = broker
        self.port = port
        self._popen = popen
        self._process = psutil.Process(popen.pid)
        self._log = log

    @property
    def pid(self) -> int:
        """The process id, for a profiler."""
        return self._popen.pid

    def cpu_seconds(self) -> float:
        """Processor time so far, user and system, of all threads and children."""
        return sum(_cpu_clock(process.pid) for process in self._family())

    def own_cpu_seconds(self) -> float:
        """The same without children, for brokers that have none: read in microseconds, where looking for children takes
        milliseconds in which nobody publishes."""
        try:
            return _cpu_clock(self.pid)
        except OSError as error:
            raise BrokerError(f"`{self.broker.name}` is gone: {self.last_words()}") from error

    def rss(self) -> int:
        """Resident memory in bytes."""
        return sum(int(process.memory_info().rss) for process in self._family())

    def wait_until_listening(self) -> None:
        """Return once the port accepts connections; raise BrokerError when it does not in time."""
        deadline = time.monotonic() + START_TIMEOUT
        while time.monotonic() < deadline:
            if self._popen.poll() is not None:
                raise BrokerError(f"`{self.broker.name}` ended with {self._popen.returncode}: {self.last_words()}")
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
                return
            time.sleep(0.02)
        raise BrokerError(f"`{self.broker.name}` does not listen after {START_TIMEOUT:.0f} s")

    def last_words(self) -> str:
        """The end of what the broker printed."""
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return " / ".join(lines[-3:])

    def stop(self) -> None:
        """End the process and its children, by force if asking does not help."""
        family = self._family() if self._popen.poll() is None else []
        if family:
            self._popen.terminate()
        _, alive = psutil.wait_procs(family, timeout=STOP_TIMEOUT)
        for process in alive:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self._popen.wait()

    def _family(self) -> list[psutil.Process]:
        try:
            return [self._process, *self._process.children(recursive=True)]
        except psutil.NoSuchProcess as error:
            raise BrokerError(f"`{self.broker.name}` is gone: {self.last_words()}") from error


def _cpu_clock(pid: int) -> float:
    # The clock of another process's processor time, as clock_getcpuclockid(3) makes its number: exact to the
    # nanosecond and with threads that have ended, where /proc/PID/stat counts in hundredths of a second.
    return time.clock_gettime(~pid << 3 | 2)


@contextlib.contextmanager
def running(broker: Broker, scratch: Path) -> Iterator[Process]:
    """The broker on a free loopback port with a fresh folder of its own below `scratch`."""
    scratch.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=scratch, prefix=f"{broker.family}-") as name:
        process = start(broker, free_ports(1)[0], Path(name))
        try:
            process.wait_until_listening()
            yield process
        finally:
            process.stop()


def start(broker: Broker, port: int, folder: Path) -> Process:
    """The broker, started and perhaps not yet listening; whoever calls this stops it."""
    log = folder / f"output-{port}.log"
    with log.open("wb") as output:
        popen = subprocess.Popen(
            broker.command(port, folder),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return Process(broker, popen, port, log)


def mosquitto_command(port: int, folder: Path, more: str = "") -> list[str]:
    """The command for a Mosquitto, whose configuration file is written; `more` goes at its end."""
    config = folder / f"mosquitto-{port}.conf"
    # Debian's defaults, but: no Nagle delay, as the others have none; and room for all that a QoS 2 publisher
    # has on its way, since past its 20 this version of Mosquitto leaves a publisher without a PUBREC for good.
    config.write_text(
        f"listener {port} 127.0.0.1\nallow_anonymous true\npersistence false\nset_tcp_nodelay true\n"
        f"max_inflight_messages 1000\nlog_dest none\nlog_type none\nuser root\n{more}"
    )
    return [shutil.which("mosquitto") or "/usr/sbin/mosquitto", "-c", str(config)]


def penstock_program() -> str:
    """The `penstock` command of this virtual environment."""
    return str(Path(sys.executable).with_name("penstock"))


def _amqtt(port: int, folder: Path) -> list[str]:
    config = folder / "amqtt.yaml"
    config.write_text(
        f"listeners:\n  default:\n    type: tcp\n    bind: 127.0.0.1:{port}\n    max_connections: 20000\n"
        "plugins:\n  amqtt.plugins.authentication.AnonymousAuthPlugin:\n    allow_anonymous: true\n"
    )
    return [str(Path(sys.executable).with_name("amqtt")), "-c", str(config)]


def _penstock(store: str, synchronous: str = "full") -> Callable[[int, Path], list[str]]:
    def command(port: int, folder: Path) -> list[str]:
        domain = folder / "domain.yaml"
        domain.write_text(
            "domain: bench\nnodes:\n  main:\n"
            f"    listen: 127.0.0.1:{port}\n    store: {store}\n    synchronous: {synchronous}\n"
        )
        return [penstock_program(), "run", str(domain)]

    return command


MOSQUITTO = Broker("mosquitto", "mosquitto", "Mosquitto, persistence off", mosquitto_command)
AMQTT = Broker("amqtt", "amqtt", "amqtt", _amqtt)
PENSTOCK = Broker("penstock memory", "penstock", "penstock, store: memory", _penstock("memory"))
PENSTOCK_FULL = Broker(
    "penstock full",
    "penstock",
    "penstock, SQLite store, synchronous: full",
    _penstock("store.db", "full"),
    durable=True,
)
PENSTOCK_NORMAL = Broker(
    "penstock normal",
    "penstock",
    "penstock, SQLite store, synchronous: normal",
    _penstock("store.db", "normal"),
    durable=True,
)

VOLATILE = (MOSQUITTO, PENSTOCK, AMQTT)
DURABLE = (MOSQUITTO, PENSTOCK_FULL, PENSTOCK_NORMAL, PENSTOCK, AMQTT)
FAMILIES = ("mosquitto", "penstock", "amqtt")


def versions() -> dict[str, str]:
    """Each family's version, `missing` where it is not installed."""
    programs = {}
    for family in FAMILIES[1:]:
        try:
            programs[family] = importlib.metadata.version(family)
        except importlib.metadata.PackageNotFoundError:
            programs[family] = "missing"
    return {"mosquitto": _mosquitto_version(), **programs}


def _mosquitto_version() -> str:
    program = shutil.which("mosquitto") or "/usr/sbin/mosquitto"
    try:
        help_text = subprocess.run([program, "-h"], capture_output=True, text=True, timeout=10, check=False).stdout
    except FileNotFoundError:
        return "missing"
    version = re.search(r"version (\S+)", help_text)
    return version.group(1) if version else "unknown"
