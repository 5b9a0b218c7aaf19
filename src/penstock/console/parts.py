"""The parts of the page, in the order of the navigation: one module each, which shows itself with `show`."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from penstock.console import decisions, flows, map, pipeline, subjects, trust, trying
from penstock.console.person import Person


class Part(NamedTuple):
    path: str
    name: str
    icon: str
    show: Callable[[Person], Awaitable[None]]


PARTS = (
    Part("/", "Map", "hub", map.show),
    Part("/flows", "Flows", "route", flows.show),
    Part("/decisions", "Decisions", "rule", decisions.show),
    Part("/subjects", "Subjects", "badge", subjects.show),
    Part("/trust", "Trust", "handshake", trust.show),
    Part("/try", "Try", "science", trying.show),
    Part("/pipeline", "Pipeline", "storage", pipeline.show),
)
