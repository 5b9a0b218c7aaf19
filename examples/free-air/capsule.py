"""What the example's programs make of context: the health capsule on Bob's phone, and the FreeAir application.

A capsule is a consumer and a producer, and governed as both (contracts §2.3). This one is an ordinary client: it has
what its contract lets it have of Bob's vital signs, aggregates and infers, and says how good its result is.
"""

from __future__ import annotations

import json
import time
from collections import deque
from statistics import fmean
from typing import Any

from penstock.client import Event
from penstock.model.content.content import Content
from penstock.model.quality import Quality, moment
from penstock.policy.quality.carriage import CLAIMED, read_properties, write_quality
from penstock.policy.quality.criteria import LIBRARY
from penstock.policy.quality.propagation import Operation, propagate

WINDOW = 3
"""Measurements that the capsule looks at together."""
PULSE, CELSIUS, IRREGULAR = 140.0, 39.0, 0.2
"""A pulse or a temperature above that, with more of the ECG's beats irregular: a life is in danger."""
POLLUTED = 50.0
"""µg/m³ of fine dust above which FreeAir alerts."""


def quality_of(event: Event) -> Quality:
    """What an event's properties say of its quality."""
    return read_properties(event.properties, moment(time.time()), CLAIMED)


def figures(event: Event) -> dict[str, float]:
    """The same, by indicator."""
    return {value.key.indicator: round(value.value, 1) for value in quality_of(event)}


class HealthCapsule:
    """The capsule `health` of the domain file, without Spark: knows by vital signs whether Bob is in danger."""

    log = ""

    def __init__(self) -> None:
        self._window: deque[Event] = deque(maxlen=WINDOW)

    def takes(self, vitals: Event) -> bytes:
        """What it says when these have come."""
        self._window.append(vitals)
        read = [json.loads(event.payload) for event in self._window]
        pulse, celsius, irregular = (fmean(one[name] for one in read) for name in ("pulse", "celsius", "irregular"))
        is_danger = (pulse > PULSE or celsius > CELSIUS) and irregular > IRREGULAR
        said = json.dumps({"danger": is_danger, "pulse": round(pulse, 1)}).encode()
        known = [quality_of(event) for event in self._window]
        mean = propagate(Operation.MEAN, known, LIBRARY, time.time())
        return write_quality(Content(said), propagate(Operation.INFER, [mean], LIBRARY, time.time()))


class FreeAir:
    """Knows the air of each street, and warns travellers who are near the bad air."""

    def __init__(self) -> None:
        self.air: dict[str, dict[str, Any]] = {}

    def measures(self, event: Event) -> None:
        self.air[event.topic] = dict(event.attributes)

    def advises(self, location: Event) -> dict[str, Any] | None:
        """An alert for somebody who is about there."""
        here = json.loads(location.payload)
        near = sorted(self.air.values(), key=lambda one: _distance(one, here))
        if not near or near[0]["pm25"] <= POLLUTED:
            return None
        clean = next((one["street"] for one in near if one["pm25"] <= POLLUTED), "home")
        return {"near": near[0]["street"], "pm25": near[0]["pm25"], "go": clean}


def _distance(one: Any, other: Any) -> float:
    """Squared, in degrees of latitude; at Paris a degree of longitude is two thirds of one."""
    return float((one["lat"] - other["lat"]) ** 2 + ((one["lon"] - other["lon"]) * 0.658) ** 2)
