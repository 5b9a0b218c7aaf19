"""The parts of the page, in the order of the navigation: one module each, which shows itself with `show`."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from penstock.console import flows, pipeline
from penstock.console.decisions import page as decisions
from penstock.console.draft import page as trying
from penstock.console.map import page as map
from penstock.console.person import Person
from penstock.console.subjects import page as subjects
from penstock.console.trust import page as trust


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
