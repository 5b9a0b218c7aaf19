"""What tests do with `penstock.client`."""

import asyncio
from typing import Any

from penstock.client import Client, Event, Subscription
from tests.support.processes.commands import PATIENCE
from tests.support.processes.mosquitto import HOST


def client(port: int, client_id: str | None = None, **settings: Any) -> Client:
    """A client for a node on this machine."""
    return Client(HOST, port, client_id=client_id, **settings)


async def take(subscription: Subscription, count: int = 1) -> list[Event]:
    """The next events of a subscription."""
    async with asyncio.timeout(PATIENCE):
        return [await anext(subscription) for _ in range(count)]


async def payloads(subscription: Subscription, count: int = 1) -> list[bytes]:
    """The payloads of the next events of a subscription."""
    return [event.payload for event in await take(subscription, count)]


async def all_until(subscription: Subscription, last: bytes) -> list[bytes]:
    """The payloads of all events before the one with this payload."""
    found: list[bytes] = []
    async with asyncio.timeout(PATIENCE):
        async for event in subscription:
            if event.payload == last:
                break
            found.append(event.payload)
    return found
