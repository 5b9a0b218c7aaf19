"""What FreeAir makes of context, and what an event says of its quality."""

from __future__ import annotations

import json
import time
from typing import Any

from penstock.client import Event
from penstock.model.quality import Quality, moment
from penstock.policy.quality.carriage import CLAIMED, read_properties

POLLUTED = 50.0
"""µg/m³ of fine dust above which FreeAir alerts."""


def quality_of(event: Event) -> Quality:
    """What an event's properties say of its quality."""
    return read_properties(event.properties, moment(time.time()), CLAIMED)


def figures(event: Event) -> dict[str, float]:
    """The same, by indicator."""
    return {value.key.indicator: round(value.value, 1) for value in quality_of(event)}


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
