"""`python -m benchmarks.federation`: what tokens and trust cost messages between two nodes, beside the same without.

One process runs both nodes; the processor time that it takes for a message is of both. Runs are alike but for what the
domain says of tokens, and take turns.
"""

from __future__ import annotations

import argparse
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from benchmarks.brokers import Broker, Process, penstock_program, start
from benchmarks.machine import describe
from benchmarks.node import OUTPUT
from examples.nodes import free_ports
from penstock.policy.tokens.keys import KeySet, PublicKey, SigningKey
from penstock.policy.tokens.token import Claims, Party, issue
from penstock.wire.codec import encode
from penstock.wire.packet import Connect, Publish, Subscribe, SubscriptionRequest

AIM = 1.10
"""At most so much of the processor time without tokens."""
KINDS = ("none", "tokens", "strict", "path", "feedback")
TOPICS = 8
PAYLOAD = b"x" * 175
BURST = 200
WINDOW = 4_000
"""Messages under way at most, so that none is dropped."""


def domain(kind: str, ports: Sequence[int]) -> str:
    """Two nodes with a link."""
    key = {name: f", signing_key: {name}.pem" if kind != "none" else "" for name in ("b1", "b2")}
    nodes = "".join(
        f"  {name}: {{listen: '127.0.0.1:{port}', store: memory, sys_interval: 0{key[name]}}}\n"
        for name, port in zip(("b1", "b2"), ports, strict=True)
    )
    links = "links:\n  - {between: [b1, b2], type: t}\nbrokering: {types: [t], default: t}\n"
    text = f"domain: bench\nnodes:\n{nodes}{links}"
    if kind != "none":
        text += "tokens: {keys: keys.json}\n"
    if kind in ("strict", "path", "feedback"):
        more = ", feedback: {from: '*'}" if kind == "feedback" else ""
        rule = "path" if kind == "path" else "strict"
        text += f"trust: {{rule: {rule}, sign: 0.5{more}}}\n"
    return text


class Client:
    """An MQTT 5 client that has shown its token."""

    def __init__(self, port: int, name: str, token: bytes) -> None:
        self.sock = socket.create_connection(("127.0.0.1", port), 10)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock.sendall(encode(Connect(name, 5, True, 0, name, token), 5))
        answer = self.sock.recv(4096)
        if answer[3]:
            raise SystemExit(f"the node refuses `{name}`: {answer!r}")


def run(kind: str, qos: int, seconds: float, folder: Path) -> float:
    """Seconds of processor time of both nodes for one message."""
    ports = free_ports(2)
    keys = {name: SigningKey.generate() for name in ("b1", "b2")}
    for name, key in keys.items():
        key.write(folder / f"{name}.pem")
    KeySet.of(PublicKey(name, key.public) for name, key in keys.items()).write(folder / "keys.json")
    (folder / "domain.yaml").write_text(domain(kind, ports))
    broker = Broker(
        "penstock", "penstock", "", lambda _port, where: [penstock_program(), "run", str(where / "domain.yaml")]
    )
    process = start(broker, ports[1], folder)
    try:
        process.wait_until_listening()
        return _drive(process, ports, keys, qos, seconds)
    finally:
        process.stop()


def _token(key: SigningKey, node: str, name: str) -> bytes:
    now = int(time.time())
    claims = Claims(
        issuer=node,
        subject=Party("client", name),
        audience=frozenset({Party("domain", "bench")}),
        publish=frozenset({"plant/#"}),
        subscribe=frozenset({"plant/#"}),
        issued=now,
        not_before=now,
        expiry=now + 3600,
        id=name,
    )
    return issue(claims, key).text


def _drive(process: Process, ports: Sequence[int], keys: dict[str, SigningKey], qos: int, seconds: float) -> float:
    reader = Client(ports[1], "reader", _token(keys["b2"], "b2", "reader"))
    reader.sock.sendall(encode(Subscribe(1, (SubscriptionRequest("plant/#", 0),)), 5))
    writer = Client(ports[0], "writer", _token(keys["b1"], "b1", "writer"))
    packet_bytes = len(encode(Publish("plant/0", PAYLOAD), 5))
    state = {"bytes": 0, "ends": False}

    def read() -> None:
        while not state["ends"]:
            data = reader.sock.recv(1 << 20)
            if not data:
                return
            state["bytes"] += len(data)

    def drain() -> None:
        while not state["ends"] and writer.sock.recv(1 << 16):
            pass

    for action in (read, drain):
        threading.Thread(target=action, daemon=True).start()
    numbers = iter(range(1, 1 << 60))
    sent = 0

    def burst() -> int:
        packets = []
        for at in range(BURST):
            number = next(numbers) % 65_535 + 1 if qos else 0
            packets.append(encode(Publish(f"plant/{at % TOPICS}", PAYLOAD, qos, packet_id=number), 5))
        writer.sock.sendall(b"".join(packets))
        return BURST

    deadline = time.monotonic() + 20
    while state["bytes"] < 100 * packet_bytes:  # the link is up, and what is wanted is known beyond it
        if time.monotonic() > deadline:
            raise SystemExit("nothing arrives")
        sent += burst()
        time.sleep(0.05)
    time.sleep(0.3)
    begin, began, sent, pace = state["bytes"], process.cpu_seconds(), 0, BURST if qos else WINDOW
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        if sent - (state["bytes"] - begin) // packet_bytes < pace:
            sent += burst()
        else:
            time.sleep(0.0002)
    while (state["bytes"] - begin) // packet_bytes < sent and time.monotonic() < ends + 10:
        time.sleep(0.005)
    got = (state["bytes"] - begin) // packet_bytes
    state["ends"] = True
    if got < sent:
        raise SystemExit(f"`{sent - got}` of `{sent}` messages have not arrived")
    return (process.cpu_seconds() - began) / got


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; 0 whatever the figures are."""
    parser = argparse.ArgumentParser(prog="benchmarks.federation", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="short runs, to see that it works; not to be quoted")
    parser.add_argument("--kinds", default=",".join(KINDS), help="of: %(default)s")
    options = parser.parse_args(arguments)
    repeats, seconds = (1, 1.0) if options.quick else (5, 4.0)
    kinds = options.kinds.split(",")
    lines = ["| QoS | " + " | ".join(f"{kind} us/msg" for kind in kinds) + " | ratios to the first | aim |"]
    lines.append("| --- " * (len(kinds) + 3) + "|")
    for qos in (0, 1):
        by_kind: dict[str, list[float]] = {kind: [] for kind in kinds}
        for _ in range(repeats):
            for kind in kinds:
                with tempfile.TemporaryDirectory() as folder:
                    by_kind[kind].append(run(kind, qos, seconds, Path(folder)))
        first = by_kind[kinds[0]]
        ratios = {
            kind: median(cost / base for cost, base in zip(costs, first, strict=True))
            for kind, costs in by_kind.items()
        }
        figures = " | ".join(f"{median(by_kind[kind]) * 1e6:.2f}" for kind in kinds)
        shown = ", ".join(f"{kind} {ratios[kind]:.2f}" for kind in kinds[1:])
        is_met = all(ratio <= AIM for ratio in ratios.values())
        lines.append(f"| {qos} | {figures} | {shown} | <= {AIM}: {'met' if is_met else 'not met'} |")
        print(lines[-1], flush=True)
    text = "\n".join(lines)
    print(f"\n{text}")
    OUTPUT.mkdir(parents=True, exist_ok=True)
    about = "\n".join(f"- {name}: {value}" for name, value in describe(f"{repeats}").items())
    (OUTPUT / "federation.md").write_text(f"# What tokens cost messages between nodes\n\n{text}\n\n{about}\n")
    print(f"written: {OUTPUT / 'federation.md'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
