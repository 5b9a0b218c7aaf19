"""A chain of brokers: started, joined, with the subscribers at its end and publishers at its beginning."""

from __future__ import annotations

import contextlib
import socket
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks import frames
from benchmarks.brokers import Broker, Process, start
from benchmarks.generator import LoadError, close_all, open_clients, subscribe
from benchmarks.loads import IN_TURN, OWN_TOPICS, PAYLOAD_SIZE
from benchmarks.reproduce.brokering.configurations import Configuration
from examples.nodes import free_ports

JOIN_TIMEOUT = 30.0
PROBE_SILENCE = 0.3
"""Seconds without a packet after which a probe that has not arrived whole counts as lost."""
LAYOUT = frames.PublishLayout(len(IN_TURN[0]), PAYLOAD_SIZE, 0)


class Chain:
    """The started brokers of one configuration, and the clients that stay connected from round to round."""

    def __init__(self, configuration: Configuration, brokers: int, scratch: Path) -> None:
        """Start `brokers` of them and wait until what is published at the first arrives behind the last."""
        self.configuration = configuration
        self.processes: list[Process] = []
        self.subscribers: list[socket.socket] = []
        self.publishers: list[socket.socket] = []
        self._stack = contextlib.ExitStack()
        try:
            scratch.mkdir(parents=True, exist_ok=True)
            self._start(brokers, Path(self._stack.enter_context(TemporaryDirectory(dir=scratch, prefix="chain-"))))
            self.subscribers = self._clients(self.processes[-1], [f"sub{at}" for at in range(len(OWN_TOPICS))])
            for sock, topics in zip(self.subscribers, OWN_TOPICS, strict=True):
                subscribe(sock, topics, 0)
            self.have_publishers(1)
            self._await_way()
        except BaseException:
            self.stop()
            raise

    def _start(self, brokers: int, folder: Path) -> None:
        ports = free_ports(brokers)
        commands = self.configuration.commands(ports, folder)
        for at, (port, command) in enumerate(zip(ports, commands, strict=True)):
            broker = Broker(f"{self.configuration.name} {at + 1}", "chain", "", lambda *_, line=command: line)
            process = start(broker, port, folder)
            self._stack.callback(process.stop)
            self.processes.append(process)
        for process in self.processes:
            process.wait_until_listening()

    def _clients(self, process: Process, client_ids: list[str]) -> list[socket.socket]:
        opened = open_clients(process.port, client_ids, clean=True, keepalive=0)
        self._stack.callback(close_all, opened)
        return opened

    def _await_way(self) -> None:
        """Publish on every topic until all of it arrives: links come up, and what is wanted is told, in their time."""
        probe = frames.STAMP.pack(0).join(LAYOUT.burst(IN_TURN, 1))
        deadline = time.monotonic() + JOIN_TIMEOUT
        while time.monotonic() < deadline:
            self.publishers[0].sendall(probe)
            if self._arrived() == len(probe):
                return
        raise LoadError(f"the chain is not joined after {JOIN_TIMEOUT:.0f} s")

    def _arrived(self) -> int:
        """The bytes that come to the subscribers before all of them are silent."""
        size = 0
        for sock in self.subscribers:
            sock.settimeout(PROBE_SILENCE)
            share = len(OWN_TOPICS[0]) * LAYOUT.size
            with contextlib.suppress(TimeoutError):
                while share > 0:
                    got = len(sock.recv(share))
                    if not got:
                        raise LoadError("the last broker closed a subscriber's connection")
                    share -= got
                    size += got
        return size

    def have_publishers(self, count: int) -> list[socket.socket]:
        """Return that many connected publishers."""
        missing = [f"pub{at}" for at in range(len(self.publishers), count)]
        self.publishers += self._clients(self.processes[0], missing)
        return self.publishers[:count]

    def cpu_seconds(self) -> tuple[float, ...]:
        """Processor time so far of each broker, the first first."""
        return tuple(process.own_cpu_seconds() for process in self.processes)

    def stop(self) -> None:
        """Close the clients and stop the brokers."""
        self._stack.close()
