"""Recent decisions of all nodes that a person can ask: the newest first, up to a limit."""

from typing import NamedTuple

from penstock.broker.http.answers.decisions import DecisionRow, Decisions
from penstock.console.admin_client import ApiClient, ApiClientError
from penstock.console.person import Person

MAX_ROWS = 200
FILTERS = ("subject", "topic", "stage", "rule", "effect", "node")


class NewDecisions(NamedTuple):
    """The decisions since the last request."""

    new: tuple[DecisionRow, ...]
    """At most as many as are shown."""
    left_out: int
    """Refusals that nodes could not keep."""
    trouble: str
    """The reason why some cannot be shown; empty if all can."""


class DecisionFeed:
    """Follows the nodes' decisions with one set of filters."""

    def __init__(self, person: Person, **filters: str) -> None:
        self.person = person
        self.wanted = {name: filters[name] for name in FILTERS if filters.get(name)}
        self.rows: list[DecisionRow] = []
        self._since: dict[str, int] = {}
        self._left_out: dict[str, int] = {}

    async def fetch(self) -> NewDecisions:
        """Ask every process for its decisions since the last call."""
        new: list[DecisionRow] = []
        trouble = ""
        for client in self.person.clients:
            try:
                new += await self._fetch_from(client)
            except ApiClientError as error:
                trouble = str(error)
        self.rows = _newest([*new, *self.rows])
        return NewDecisions(tuple(_newest(new)), sum(self._left_out.values()), trouble)

    async def _fetch_from(self, client: ApiClient) -> tuple[DecisionRow, ...]:
        since = self._since.get(client.url, 0)
        decisions = await client.get("/api/decisions", Decisions, since=since, limit=MAX_ROWS, **self.wanted)
        if decisions.next < since:  # the node has restarted, and its numbers with it
            decisions = await client.get("/api/decisions", Decisions, limit=MAX_ROWS, **self.wanted)
        self._since[client.url], self._left_out[client.url] = decisions.next, decisions.left_out
        return decisions.rows


def _newest(rows: list[DecisionRow]) -> list[DecisionRow]:
    return sorted(rows, key=lambda row: (row.at, row.id), reverse=True)[:MAX_ROWS]
