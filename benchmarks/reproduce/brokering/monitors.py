"""The monitors of SEM and CEM as Python classes (brokering §8.1.1). A copy stands beside the domain file of a chain."""

from __future__ import annotations

import random

from penstock.model.event import Event


class Pass:
    """SEM: passes the event on as it is."""

    alphabet = ()

    def start(self) -> None:
        return None

    def step(self, state: None, event: Event, now: float) -> tuple[None, tuple[Event, ...]]:
        return None, (event,)


class Scramble:
    """CEM: works on each byte of the payload and puts a random message of the same size in its place."""

    alphabet = ()

    def start(self) -> None:
        return None

    def step(self, state: None, event: Event, now: float) -> tuple[None, tuple[Event, ...]]:
        number = random.getrandbits(32)
        data = bytearray()
        for byte in event.payload:
            number = (number * 1_664_525 + 1_013_904_223 + byte) & 0xFFFFFFFF
            data.append(number >> 24)
        return None, (event._replace(payload=bytes(data)),)
