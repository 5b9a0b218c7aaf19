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


class PagePart(NamedTuple):
    path: str
    name: str
    icon: str
    show: Callable[[Person], Awaitable[None]]


PARTS = (
    PagePart("/", "Map", "hub", map.show),
    PagePart("/flows", "Flows", "route", flows.show),
    PagePart("/decisions", "Decisions", "rule", decisions.show),
    PagePart("/subjects", "Subjects", "badge", subjects.show),
    PagePart("/trust", "Trust", "handshake", trust.show),
    PagePart("/try", "Try", "science", trying.show),
    PagePart("/pipeline", "Pipeline", "storage", pipeline.show),
)
