"""Mixed load with churn for a long time, and then: is everything that came gone again?

    python -m tests.soak --minutes 10

Senders and receivers with lasting sessions keep account of every message; beside them clients come and go, with wills,
retained messages, wildcards and shared subscriptions. At the end the node must hold no more sessions, subscriptions,
messages, plans and files than it should, and its memory must not have grown since the load became steady.
"""

import argparse
import asyncio
import contextlib
import random
import sys
import time
from dataclasses import dataclass, field

from penstock.wire.packet import Publish, WillMessage
from penstock.wire.properties import Properties
from tests.support.clients.peer import Peer
from tests.support.clients.strict_session import Receiver, Sender, numbers
from tests.support.processes.admin import ask
from tests.support.processes.mosquitto import HOST
from tests.support.processes.node import ANY_PORT, LiveNode, open_files, running

PAUSE = 0.02
"""What slows senders down so far that receivers keep up: a queue that grows would look like a leak."""
GROWTH = 24 * 2**20
"""What memory may vary by under steady load, for reasons of Python's own."""
SETTINGS = {
    "store": "main.db",
    "synchronous": "normal",
    "admin": ANY_PORT,
    "sys_interval": 1,
    "log": {"level": "warning"},
    "limits": {"queued_messages": 1_000_000, "queued_bytes": "1 GiB"},
}


@dataclass
class Report:
    messages: int = 0
    clients: int = 0
    memory: list[int] = field(default_factory=list)


def metrics(node: LiveNode) -> dict[str, float]:
    """The node's own figures."""
    body = ask(f"http://{HOST}:{node.ports('http')[0]}/metrics")[2]
    lines = [line for line in body.splitlines() if not line.startswith("#")]
    return {line.partition("{")[0].removeprefix("penstock_"): float(line.split()[-1]) for line in lines}


class Soak:
    """One run."""

    def __init__(self, node: LiveNode, seconds: float, seed: int) -> None:
        self.node = node
        self.report = Report()
        self._end = time.monotonic() + seconds
        self._seeds = random.Random(seed)
        kinds = [(qos, version) for qos in (1, 2) for version in (4, 5)]
        self._senders = [Sender(f"send-{q}-{v}", v, 5, f"load/{q}/{v}", q, pause=PAUSE) for q, v in kinds]
        self._receivers = [Receiver("all", 5, filter="load/#"), Receiver("slow", 4, 2, filter="load/2/#")]

    async def run(self) -> Report:
        """Raises AssertionError when something was lost, delivered twice, or is left over."""
        for receiver in self._receivers:
            await receiver.subscribe(self.node.port)
        before, files = metrics(self.node), open_files(self.node)
        strict = [asyncio.create_task(self._keep_sending(sender)) for sender in self._senders]
        strict += [asyncio.create_task(self._keep_receiving(receiver)) for receiver in self._receivers]
        await asyncio.gather(self._measure(), *(self._come_and_go() for _ in range(20)))
        await asyncio.gather(*strict)
        self._check_messages()
        await self._check_left_over(before, files)
        return self.report

    # --- the load

    async def _keep_sending(self, sender: Sender) -> None:
        while time.monotonic() < self._end:  # a connection now and then, so that sessions are resumed
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(sender.run(self.node.port), self._seeds.uniform(0.5, 3))
        sender.stopping = True
        await sender.run(self.node.port)
        self.report.messages += sender.sent

    async def _keep_receiving(self, receiver: Receiver) -> None:
        while time.monotonic() < self._end:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(receiver.run(self.node.port), self._seeds.uniform(0.5, 3))
        while not all(sender.stopping and sender.sent == len(sender.acknowledged) for sender in self._senders):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(receiver.run(self.node.port), 0.5)
        await receiver.run(self.node.port, self._due(receiver))

    async def _come_and_go(self) -> None:
        chance = random.Random(self._seeds.random())
        while time.monotonic() < self._end:
            self.report.clients += 1
            await self._visit(chance, f"visitor-{self.report.clients}")

    async def _visit(self, chance: random.Random, name: str) -> None:
        """A short life in which everything that is made is also taken away."""
        peer = await Peer.open(HOST, self.node.port, chance.choice((4, 5)))
        will = WillMessage(f"wills/{name}", b"gone") if chance.random() < 0.3 else None
        await peer.connect(name, will=will)
        topics = [f"visits/{name}/{number}" for number in range(chance.randrange(1, 5))]
        await peer.subscribe(f"visits/{name}/+", f"$share/visitors/{name}", "+/+/nothing", qos=1)
        for topic in topics:
            await peer.send(Publish(topic, chance.randbytes(200), 0, retain=True))
            await peer.receive(topic)
        for topic in topics:
            await peer.send(Publish(topic, b"", 0, retain=True))
            await peer.receive(topic)
        if chance.random() < 0.5:
            await peer.unsubscribe("+/+/nothing")
        if chance.random() < 0.5:
            await peer.disconnect()
        else:
            await peer.close()

    # --- the account

    async def _measure(self) -> None:
        while time.monotonic() < self._end:
            await asyncio.sleep(0.5)
            self.report.memory.append(self.node.rss())

    def _due(self, receiver: Receiver) -> frozenset[bytes]:
        prefix = receiver.filter.removesuffix("#")
        wanted = [sender for sender in self._senders if sender.topic.startswith(prefix)]
        return frozenset(payload for sender in wanted for payload in sender.acknowledged)

    def _check_messages(self) -> None:
        for receiver in self._receivers:
            lost = self._due(receiver) - receiver.delivered.keys()
            assert not lost, f"{receiver.client_id} never got {len(lost)} messages"
            for sender in self._senders:
                got = numbers(receiver, sender)
                assert sender.qos == 1 or len(got) == len(set(got)), f"{receiver.client_id} got messages twice"

    async def _check_left_over(self, before: dict[str, float], files: int) -> None:
        lasting = len(self._senders) + len(self._receivers)
        wanted = {
            "connections": 0,
            "sessions": lasting,
            "subscriptions": before["subscriptions"],
            "retained_messages": before["retained_messages"],
            "queued_messages": 0,
            "inflight_messages": 0,
        }
        end = time.monotonic() + 20
        while (found := {name: metrics(self.node)[name] for name in wanted}) != wanted:
            assert time.monotonic() < end, f"left over: {found}, expected {wanted}"
            await asyncio.sleep(0.2)
        assert open_files(self.node) <= files + 5, f"{open_files(self.node)} files are open, there were {files}"
        assert "Traceback" not in self.node.log, self.node.log[-3000:]
        memory = self.report.memory
        steady = memory[len(memory) // 3 : 2 * len(memory) // 3]
        grown = memory[-1] - max(steady) if steady else 0
        assert grown < GROWTH, f"memory has grown by {grown / 2**20:.0f} MiB under steady load"


async def soak(seconds: float, seed: int) -> Report:
    """Start a node and load it; then it must stop well and start again."""
    with running(SETTINGS) as node:
        report = await Soak(node, seconds, seed).run()
        assert node.stop() == 0
        node.start()
        peer = await Peer.open(HOST, node.port)
        connack = await peer.connect("all", clean_start=False, properties=Properties(session_expiry=3600))
        assert connack.session_present
        await peer.disconnect()
    return report


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    options = parser.parse_args()
    print(f"soaking for {options.minutes:g} minutes with --seed {options.seed}", flush=True)
    try:
        report = asyncio.run(soak(options.minutes * 60, options.seed))
    except AssertionError as error:
        print(f"failed with --seed {options.seed}: {error}", file=sys.stderr)
        return 1
    memory = [one / 2**20 for one in report.memory]
    print(
        f"{report.messages} messages, {report.clients} clients; memory in MiB: {memory[0]:.0f}, most {max(memory):.0f}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
