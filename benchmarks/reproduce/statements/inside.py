"""A node without sockets, and the processor time of what it is given."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

from benchmarks.reproduce.statements.policies import EVERYTHING
from penstock.domain import Domain, LimitSettings, ensemble
from penstock.engine.connections.host import Host
from penstock.engine.connections.inbound import Inbound
from penstock.engine.node import Node
from penstock.engine.stages.admit import Door
from penstock.wire.codec import encode
from penstock.wire.packet import Connect, Subscribe, SubscriptionRequest, Unsubscribe
from penstock.wire.properties import Properties

NOW = 1_700_000_000.0
WARM_UP = 2


def make_node(statements: dict[str, Any] | None) -> Node:
    """The node `main` of a domain with these statements; unless they are None, anybody may set any policy."""
    settings: dict[str, Any] = {
        "nodes": {"main": {"listen": "127.0.0.1:1"}},
        "brokering": {"default": "default", "types": ["default"]},
    }
    if statements is not None:
        settings["statements"] = {"grants": [EVERYTHING], **statements}
    domain = Domain.model_validate(settings)
    return Node("main", LimitSettings(), lambda: "", ensemble=ensemble(domain))


def connect(node: Node, name: str) -> Inbound:
    """A client of it."""
    end = Inbound(Host(node, lambda: NOW), Door("here", "main/0", True))
    end.receive(encode(Connect(name, 5), 5))
    return end


def subscription(filter: str, number: int, where: str = "", policy: str = "") -> bytes:
    """The packet of a subscription, with the number as its name."""
    settings = (("where", where), ("name", str(number)), ("policy", policy))
    properties = Properties(user_properties=tuple(pair for pair in settings if pair[1]))
    return encode(Subscribe(1, (SubscriptionRequest(filter, 0),), properties), 5)


def unsubscription(filter: str, number: int) -> bytes:
    """The packet that takes it back."""
    return encode(Unsubscribe(1, (filter,), Properties(user_properties=(("name", str(number)),))), 5)


def take_all(node: Node, end: Inbound, packets: Sequence[bytes]) -> float:
    """Have a client send all of these; seconds for each, and then the node has nothing left to send."""
    take = end.receive
    began = time.process_time()
    for packet in packets:
        take(packet)
    seconds = time.process_time() - began
    empty(node)
    return seconds / len(packets)


def empty(node: Node) -> None:
    """Throw away what waits to be written to connections."""
    for session in node.sessions.values():
        session.buffer.clear()
    node.dirty.clear()


def interleaved(works: Sequence[Callable[[], float]], rounds: int) -> list[list[float]]:
    """Return the results of each work in each round; all take turns, so that a disturbance affects all of them."""
    for _ in range(WARM_UP):
        for work in works:
            work()
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        return [list(column) for column in zip(*([work() for work in works] for _ in range(rounds)), strict=True)]
    finally:
        gc.enable()
        gc.unfreeze()


def added(with_: Sequence[float], without: Sequence[float]) -> float:
    """Return the additional time of one against the other: the median of the rounds."""
    return median(with_seconds - other for with_seconds, other in zip(with_, without, strict=True))
