"""The cost of enforcement by the number of policies and of readers: processor time of a node without sockets."""

from __future__ import annotations

import gc
import random
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import NamedTuple

from benchmarks.reproduce.sparkplug.deployments import (
    DEPLOYMENTS,
    NOAC,
    PRIMARY,
    SECONDARY,
    Deployment,
    policies,
    topic,
    write,
)
from benchmarks.reproduce.sparkplug.plant import payload
from penstock.domain import LimitSettings, ensemble, load
from penstock.engine.connections.host import Host
from penstock.engine.connections.inbound import Inbound
from penstock.engine.node import Node
from penstock.engine.stages.admit import Door
from penstock.wire.codec import encode
from penstock.wire.packet import Connect, Publish, Subscribe, SubscriptionRequest

SIZES = (4_505, 20_000, 100_000)
READERS = (1, 10, 100)
_ROUNDS = 15
_MESSAGES = 200


class Cost(NamedTuple):
    """Processor time of one message, in seconds."""

    title: str
    policies: int
    readers: int
    seconds: float


def measure() -> list[Cost]:
    """Each size, then each number of readers; and one reader without policies."""
    costs = [_cost("without policies", DEPLOYMENTS[0], None, 1)]
    costs += [_cost("policies", DEPLOYMENTS[0], size, 1) for size in SIZES]
    costs += [_cost("readers", DEPLOYMENTS[0], SIZES[0], readers) for readers in READERS]
    costs += [_cost("readers without policies", DEPLOYMENTS[0], None, readers) for readers in READERS]
    return costs


def _cost(title: str, deployment: Deployment, size: int | None, readers: int) -> Cost:
    with tempfile.TemporaryDirectory() as name:
        path = write(Path(name), 1, deployment, NOAC if size is None else 1)
        text = path.read_text()
        names = [f"{SECONDARY}{at}" for at in range(readers)]
        text = text.replace(
            "clients:\n", "clients:\n" + "".join(f"  {name}: {{node: main, groups: readers}}\n" for name in names)
        )
        if size is not None:
            rows = policies(deployment, 1)
            rows += [
                (SECONDARY, topic(f"X{at}", "", "DATA"), "m1", "read", "m2.value > 5") for at in range(size - len(rows))
            ]
            lines = [
                ",".join(("group:readers" if name[0] == SECONDARY else name[0], *(f'"{cell}"' for cell in name[1:])))
                for name in rows
            ]
            (path.parent / "access.csv").write_text("\n".join(("subject,topics,except,may,when", *lines)))
        path.write_text(text)
        domain = load(path)
        node = Node("main", LimitSettings(), lambda: "", ensemble=ensemble(domain, path.parent))
    return Cost(title, size or 0, readers, _measured(node, deployment, names))


def _measured(node: Node, deployment: Deployment, readers: list[str]) -> float:
    now = 1_700_000_000.0
    edge = _client(node, "E0", now)
    for name in (PRIMARY, *readers):
        _client(node, name, now).receive(encode(Subscribe(1, (SubscriptionRequest("spBv1.0/G/#", 0),)), 5))
    draw = random.Random(1)
    metrics = deployment.metrics("")
    edge.receive(encode(Publish(topic("E0", "", "BIRTH"), payload(metrics, 0, draw, True)), 5))
    packets = [
        encode(Publish(topic("E0", "", "DATA"), payload(draw.sample(metrics, 10), seq % 256, draw, False)), 5)
        for seq in range(1, _MESSAGES + 1)
    ]
    gc.collect()
    gc.freeze()
    times = []
    for _ in range(_ROUNDS):
        began = time.process_time()
        for packet in packets:
            edge.receive(packet)
        times.append((time.process_time() - began) / len(packets))
        for session in node.sessions.values():
            session.buffer.clear()
        node.dirty.clear()
    gc.unfreeze()
    return median(times)


def _client(node: Node, name: str, now: float) -> Inbound:
    end = Inbound(Host(node, lambda: now), Door("here", "main/0", True))
    end.receive(encode(Connect(name, 5), 5))
    return end
