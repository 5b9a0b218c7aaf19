"""`python -m benchmarks console`: what the console costs the nodes that it shows, and whether it stays usable.

One process runs 200 nodes, joined in a tree, with 2,000 clients; each event is decided about towards four clients, one
of which may not have it: 5,000 decisions a second. The processor time of that process is taken in turns while nobody
looks and while a page is open in Chromium; that of the console's own process is told beside it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import psutil
import yaml

from benchmarks.frames import connect, subscribe, text, varint
from benchmarks.machine import describe
from benchmarks.node import OUTPUT
from examples.nodes import free_ports
from tests.support.processes.console import PEOPLE, browsing, console
from tests.support.processes.node import LiveNode, passwords

AIM = 0.05
"""Share of the nodes' processor time without the console."""
READERS = 3
"""Share of each node's clients that receive what the first one publishes; one more subscribes and is denied."""
PARTS = ("/", "/decisions")


def domain(nodes: int, clients: int, ports: Sequence[int], admin: int) -> dict[str, Any]:
    """A tree of nodes, four below each."""
    per_node = clients // nodes
    listed = {
        f"c{node}-{at}": {"node": f"n{node}", "type": "outside" if at == READERS + 1 else "inside"}
        for node in range(nodes)
        for at in range(per_node)
    }
    settings: dict[str, Any] = {
        f"n{node}": {"listen": f"127.0.0.1:{port}", "store": "memory", "sys_interval": 0, "log": {"level": "warning"}}
        for node, port in enumerate(ports)
    }
    settings["n0"]["admin"] = f"127.0.0.1:{admin}"
    return {
        "domain": "bench",
        "nodes": settings,
        "links": [{"between": [f"n{node}", f"n{(node - 1) // 4}"], "type": "inside"} for node in range(1, nodes)],
        "clients": listed,
        "brokering": {"types": ["inside", "outside"], "deny": [{"from": "inside", "to": "outside"}]},
        "admin": {"passwords": "people", "users": PEOPLE},
    }


class Load:
    """All clients, and the first of each node publishing, in a thread of its own."""

    def __init__(self, ports: Sequence[int], clients: int, rate: float) -> None:
        self._ports = ports
        self._each = clients // len(ports)
        self._pause = len(ports) / rate
        self._ready = threading.Event()
        self._ends = False
        self.published = 0
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)

    def start(self) -> None:
        self._thread.start()
        if not self._ready.wait(120):
            raise SystemExit("the clients could not connect")

    def stop(self) -> None:
        self._ends = True
        self._thread.join(30)

    async def _run(self) -> None:
        writers = []
        for node, port in enumerate(self._ports):
            for at in range(self._each):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(connect(f"c{node}-{at}", clean=True, keepalive=0))
                if 0 < at <= READERS + 1:
                    writer.write(subscribe(1, [f"at/{node}/#"], 0))
                await reader.read(100)
                task = asyncio.create_task(_drain(reader))
                writers.append((node, at, writer, task))
        self._ready.set()
        publishers = [(node, writer) for node, at, writer, _ in writers if not at]
        due = time.monotonic()
        while not self._ends:
            for node, writer in publishers:
                writer.write(_publication(f"at/{node}/temperature", b'{"value": 21.5}'))
                self.published += 1
                due += self._pause / len(publishers)
                await asyncio.sleep(max(0.0, due - time.monotonic()))


def _publication(topic: str, payload: bytes) -> bytes:
    body = text(topic) + payload
    return b"\x30" + varint(len(body)) + body


async def _drain(reader: asyncio.StreamReader) -> None:
    while await reader.read(1 << 16):
        pass


@contextmanager
def running(nodes: int, clients: int) -> Iterator[tuple[LiveNode, Sequence[int], Path]]:
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as name:
        ports = free_ports(nodes + 1)
        live = LiveNode(Path(name))
        live.write("people", passwords(**{user: user * 2 for user in PEOPLE}))
        live.write("domain.yaml", yaml.safe_dump(domain(nodes, clients, ports[1:], ports[0]), sort_keys=False))
        live.start()
        try:
            yield live, ports[1:], Path(name)
        finally:
            live.stop()


def cost(process: psutil.Process, seconds: float) -> float:
    """The part of a processor that it takes, over so many seconds."""
    times = process.cpu_times()
    begin, before = time.monotonic(), times.user + times.system
    time.sleep(seconds)
    times = process.cpu_times()
    return float((times.user + times.system - before) / (time.monotonic() - begin))


def measure(nodes: int, clients: int, decisions: float, seconds: float, rounds: int) -> dict[str, Any]:
    """Figures of the nodes without and with somebody who looks, of the console, and how quick the page answers."""
    with running(nodes, clients) as (live, ports, folder):
        load = Load(ports, clients, decisions / (READERS + 1))
        load.start()
        admin = next(address for address in live.addresses if address.startswith("http"))
        node = psutil.Process(live.pid)
        samples: dict[str, Any] = {"without": [], **{part: [] for part in PARTS}, "console": [], "answers": []}
        with console(admin, folder) as (address, pid), browsing() as browser:
            page_process = psutil.Process(pid)
            time.sleep(3)
            for _ in range(rounds):
                samples["without"].append(cost(node, seconds))
                for part in PARTS:
                    page = browser.new_page()
                    page.goto(f"{address}/login")
                    page.fill("#user", "ada")
                    page.fill("#password", "adaada")
                    page.click("button[type=submit]")
                    begin = time.monotonic()
                    page.goto(f"{address}{part}")
                    page.wait_for_selector(".pk-main")
                    samples["answers"].append(time.monotonic() - begin)
                    time.sleep(2)
                    times = page_process.cpu_times()
                    before = times.user + times.system
                    samples[part].append(cost(node, seconds))
                    times = page_process.cpu_times()
                    samples["console"].append((times.user + times.system - before) / seconds)
                    begin = time.monotonic()
                    page.click("nav[aria-label=Parts] a:has-text('Trust')")
                    page.wait_for_url(f"{address}/trust")
                    page.wait_for_selector(".pk-main")
                    samples["answers"].append(time.monotonic() - begin)
                    page.close()
                    time.sleep(16)  # until the nodes know that nobody looks any more
        load.stop()
        samples["published"] = load.published
        return samples


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; 0 whatever the figures are."""
    parser = argparse.ArgumentParser(prog="benchmarks.console", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few nodes and short runs, to see that it works")
    options = parser.parse_args(arguments)
    size = (10, 100, 200.0, 2.0, 1) if options.quick else (200, 2_000, 5_000.0, 15.0, 3)
    times = measure(*size)
    without = median(times["without"])
    print(json.dumps(describe(f"median of {size[4]}")))
    print(f"{size[0]} nodes, {size[1]} clients, {size[2]:g} decisions/s: {without:.1%} of a processor, nobody looks")
    for part in PARTS:
        points, more = median(times[part]) - without, median(times[part]) / without - 1
        summary = f"{points:+.1%} of a processor, {more:+.1%} of what it was (aim {AIM:+.0%})"
        print(f"  a page is open at {part:10} {median(times[part]):.1%}: {summary}")
    print(f"  the console's own process: {median(times['console']):.1%} of a processor")
    print(f"  a part is there after {median(times['answers']):.2f} s, at worst {max(times['answers']):.2f} s")
    OUTPUT.mkdir(parents=True, exist_ok=True)
    (OUTPUT / "console.json").write_text(json.dumps(times))
    return 0


if __name__ == "__main__":
    sys.exit(main())
