"""Decisions of late of all nodes that a person can ask, as a table needs them: the newest first, and not too many."""

from typing import NamedTuple

from penstock.broker.http.answers.decisions import DecisionRow, Decisions
from penstock.console.admin_client import AskError, Asking
from penstock.console.person import Person

MOST = 200
FILTERS = ("subject", "topic", "stage", "rule", "effect", "node")


class Found(NamedTuple):
    """What a look has found."""

    new: tuple[DecisionRow, ...]
    """At most as many as are shown."""
    left_out: int
    """Refusals that nodes could not keep."""
    trouble: str
    """Why something cannot be shown; empty if all can."""


class Recent:
    """Follows the nodes' decisions under one set of filters."""

    def __init__(self, person: Person, **wanted: str) -> None:
        self.person = person
        self.wanted = {name: wanted[name] for name in FILTERS if wanted.get(name)}
        self.rows: list[DecisionRow] = []
        self._since: dict[str, int] = {}
        self._left_out: dict[str, int] = {}

    async def look(self) -> Found:
        """Ask every process for what it has decided since."""
        new: list[DecisionRow] = []
        trouble = ""
        for one in self.person.asked:
            try:
                new += await self._of(one)
            except AskError as error:
                trouble = str(error)
        self.rows = _newest([*new, *self.rows])
        return Found(tuple(_newest(new)), sum(self._left_out.values()), trouble)

    async def _of(self, one: Asking) -> tuple[DecisionRow, ...]:
        since = self._since.get(one.url, 0)
        told = await one.get("/api/decisions", Decisions, since=since, limit=MOST, **self.wanted)
        if told.next < since:  # the node has begun anew, and its numbers with it
            told = await one.get("/api/decisions", Decisions, limit=MOST, **self.wanted)
        self._since[one.url], self._left_out[one.url] = told.next, told.left_out
        return told.rows


def _newest(rows: list[DecisionRow]) -> list[DecisionRow]:
    return sorted(rows, key=lambda row: (row.at, row.id), reverse=True)[:MOST]
