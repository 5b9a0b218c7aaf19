"""Nodes of an example as processes of their own, with the example's files on ports that are free."""

from __future__ import annotations

import contextlib
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from examples.narration import PATIENCE, wait_for
from penstock.client.admin import AdminClient

PENSTOCK = str(Path(sys.executable).with_name("penstock"))


def copy(example: Path, folder: Path, *names: str) -> dict[int, int]:
    """Copy files of an example; returns, for each port that its domain file names, the free one in the copy's."""
    for name in names:
        shutil.copy(example / name, folder)
    file = folder / "domain.yaml"
    text = file.read_text(encoding="utf-8")
    named = sorted({int(port) for port in re.findall(r"127\.0\.0\.1:(\d+)", text)})
    ports = dict(zip(named, free_ports(len(named)), strict=True))
    file.write_text(re.sub(r"(?<=127\.0\.0\.1:)\d+", lambda found: str(ports[int(found[0])]), text), "utf-8")
    return ports


def free_ports(count: int) -> list[int]:
    """Ports of the loopback address that nobody listens on, each another.

    None of those that the system gives to connections (32768 and up): such a port may be taken by somebody's
    connection before the program that it was meant for listens on it.
    """
    ports: list[int] = []
    for port in random.SystemRandom().sample(range(10_000, 20_000), 10_000):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            ports.append(port)
        if len(ports) == count:
            return ports
    raise SystemExit(f"{count} free ports were not found")


def penstock(folder: Path, *arguments: str) -> tuple[int, list[str]]:
    """Run a command of `penstock` to its end; its exit code, and the lines that it printed."""
    done = subprocess.run(
        [PENSTOCK, *arguments], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    return done.returncode, done.stdout.splitlines()


class NodeProcess:
    """One node of a domain file, in a process of its own."""

    def __init__(self, folder: Path, ports: Mapping[int, int], node: str) -> None:
        self.folder = folder
        self.name = node
        self.log = folder / f"{node}.log"
        self._ports = ports
        self.command: tuple[str, ...] = ("run", "domain.yaml", "--node", node)
        self._process: subprocess.Popen[str] | None = None

    def port(self, usual: int = 1883) -> int:
        """The port that stands for one of the example's domain file."""
        return self._ports[usual]

    def start(self) -> str:
        """Start it and return the line that says it is ready."""
        with self.log.open("a", encoding="utf-8") as log:
            process = subprocess.Popen(
                [PENSTOCK, *self.command], cwd=self.folder, stdout=subprocess.PIPE, stderr=log, text=True
            )
        self._process = process
        assert process.stdout is not None
        for line in process.stdout:
            if "ready" in line:
                return line.strip()
        raise SystemExit(f"the node did not start:\n{self.log.read_text(encoding='utf-8')}")

    def kill(self) -> None:
        """As a power failure would: no chance to write anything."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> int:
        """SIGTERM, and the exit code."""
        assert self._process is not None
        self._process.terminate()
        return self._process.wait(PATIENCE)

    def reload(self) -> bool:
        """SIGHUP; whether it has taken the files as they are now."""
        assert self._process is not None
        before = self._count("reloaded")
        self._process.send_signal(signal.SIGHUP)
        wait_for(lambda: self._count("reloaded") > before)
        return "not reloaded" not in self.logged("reloaded")

    def _count(self, word: str) -> int:
        return self.log.read_text(encoding="utf-8").count(word)

    def logged(self, *words: str) -> str:
        """The last line of the log that has all these words; empty if there is none."""
        lines = self.log.read_text(encoding="utf-8").splitlines()
        return next((line for line in reversed(lines) if all(word in line for word in words)), "")

    def logs(self, *words: str) -> bool:
        """Whether a line with all these words comes into the log."""
        return wait_for(lambda: self.logged(*words) != "")

    def page(self, usual: int, path: str) -> str:
        """A page of the admin port."""
        return AdminClient(f"http://127.0.0.1:{self.port(usual)}").ask("GET", path).decode()
