"""A logged-in person: its tokens at the nodes, and the last states of the nodes."""

import asyncio
import contextlib
import secrets
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from penstock.broker.http.answers.status import NodeState, NodeStates, RevisionState
from penstock.broker.http.people import About
from penstock.console.admin_client import ApiClient, ApiClientError
from penstock.domain import Domain, expand, read
from penstock.model.errors import DomainError

FRESH_SECONDS = 0.8
"""Seconds for which the states of nodes are not asked for again: several pages of a person ask once."""
MANY_CLIENTS = 300
CLIENTS_SECONDS = 5.0
LATE_SECONDS = 3.0
"""Seconds after which a page does not wait for nodes any longer."""
OTHERS_SECONDS = 2.5
"""Seconds in which processes besides the first must answer: one that hangs must not delay the others."""
MAX_SECONDS = 12 * 3600.0
MAX_PEOPLE = 200


class KeptDraft(NamedTuple):
    """A draft of the domain file, and the revision that it was made from."""

    text: str
    revision: str


class Person:
    """One session of the console."""

    def __init__(self, asking: ApiClient, ca: str | None, also: tuple[str, ...] = ()) -> None:
        self.first = asking
        """The process that the console was started for."""
        self.others: list[ApiClient] = []
        """Processes with other nodes of the domain, where the same log-in is valid."""
        self.about = About("", "", "", (), "", "", "")
        self.states: dict[str, NodeState] = {}
        """By node, its last state."""
        self.state_times: dict[str, float] = {}
        """By node, the time of its last state, in seconds since 1970 by its own clock."""
        self.homes: dict[str, ApiClient] = {}
        """By node, the process that reported it."""
        self.unreachable: dict[str, str] = {}
        """By admin address, why its nodes cannot be reached."""
        self.error = ""
        """The reason why the first process cannot be reached; empty if it can."""
        self.domain: Domain | None = None
        self.draft: KeptDraft | None = None
        """The text on the page Try, in case the page has to be reloaded."""
        self.comparison = 0
        """The number of the last comparison of a draft."""
        self.began = time.monotonic()
        self.dark: bool | None = None
        """True if the page is dark; None: as the browser says."""
        self.has_ended = False
        """True after the log-out."""
        self._ca = ca
        self._also = also
        """Admin addresses of other processes where the same log-in may be made."""
        self._revision = ""
        self._refreshed_at = float("-inf")
        self._with_clients = float("-inf")
        """The time when clients were last asked for."""
        self._refreshing: asyncio.Task[None] | None = None
        self._since = time.monotonic()
        """The time when nodes were last asked, whether they have answered or not."""

    def client_for(self, node: str) -> ApiClient:
        """Return the process that a node runs in; the first, if it is not known."""
        return self.homes.get(node, self.first)

    @property
    def clients(self) -> list[ApiClient]:
        return [self.first, *self.others]

    async def begin(self, user: str, password: str, token: str, address: str = "") -> None:
        """Log in, here and at the other nodes of the domain; raise `ApiClientError`."""
        if token:
            self.first.token = token
        else:
            await self.first.log_in(user, password, address)
        self.about = await self.first.get("/api/about", About)
        await self._refresh()
        await self._log_in_elsewhere(user, password, token, address)

    async def _log_in_elsewhere(self, user: str, password: str, token: str, address: str) -> None:
        nodes = set(self.about.nodes)
        for name, node in (self.domain.nodes if self.domain is not None else {}).items():
            if name in nodes or node.admin is None or not node.admin.port:
                continue
            url = f"{'https' if node.admin_tls else 'http'}://{node.admin}"
            if token or url not in self._also:
                continue  # otherwise a changed domain could send people's passwords elsewhere
            other = ApiClient(url, self._ca)
            try:
                await other.log_in(user, password, address)
                nodes |= set((await other.get("/api/about", About)).nodes)
                self.others.append(other)
            except ApiClientError as error:
                self.unreachable[other.url] = str(error)
                await other.close()

    async def refresh(self) -> None:
        """Ask the nodes for their states, unless they are fresh. If a node is slow, `late_message` says since when."""
        if self._refreshing is None:
            if time.monotonic() - self._refreshed_at < FRESH_SECONDS:
                return
            self._since = time.monotonic()
            self._refreshing = asyncio.create_task(self._refresh())
            self._refreshing.add_done_callback(self._refreshed)
        patience = self._since + LATE_SECONDS - time.monotonic()
        await asyncio.wait({self._refreshing}, timeout=max(patience, 0.0))

    @property
    def late_message(self) -> str:
        """Return a message if nodes have not answered recently, and since when; empty if they have."""
        waited = time.monotonic() - self._since
        if self._refreshing is None or waited < LATE_SECONDS:
            return ""
        since = datetime.fromtimestamp(round(time.time() - waited), UTC)
        return f"no answer since {since:%H:%M:%S} UTC: the page shows older data"

    async def _refresh(self) -> None:
        states: dict[str, NodeState] = {}
        state_times: dict[str, float] = {}
        homes: dict[str, ApiClient] = {}
        clients = self.clients
        for client, answer in zip(clients, await asyncio.gather(*map(self._ask_states, clients)), strict=True):
            if answer is not None:
                states = {**answer.nodes, **states}  # the first is believed about its own nodes
                state_times |= dict.fromkeys(answer.nodes, answer.at)
                homes |= dict.fromkeys(answer.nodes, client)
        self.states, self.state_times, self.homes = states, state_times, homes
        self._refreshed_at = time.monotonic()

    async def _ask_states(self, client: ApiClient) -> NodeStates | None:
        """Return the states of a process; None if it does not answer. Only the first has no time limit."""
        try:
            if client is self.first:
                answer = await self._ask(client)
                self.error = ""
                await self._read_domain(answer.revision)
                return answer
            async with asyncio.timeout(OTHERS_SECONDS):
                answer = await self._ask(client)
            self.unreachable.pop(client.url, None)
            return answer
        except TimeoutError:
            self.unreachable[client.url] = f"{client.url}: no answer in {OTHERS_SECONDS:g} s"
        except ApiClientError as error:
            if client is self.first:
                self.has_ended |= error.status == 401  # the node has restarted, or the session was idle too long
                self.error = str(error)
            else:
                self.unreachable[client.url] = str(error)
        return None

    def _refreshed(self, _: asyncio.Task[None]) -> None:
        self._refreshing = None

    async def _ask(self, client: ApiClient) -> NodeStates:
        """Return the states of its nodes; many clients are asked for now and then only, and kept meanwhile."""
        has_many = sum(len(state.portrait.clients) for state in self.states.values()) > MANY_CLIENTS
        if not has_many or time.monotonic() - self._with_clients > CLIENTS_SECONDS:
            answer = await client.get("/api/nodes", NodeStates)
            if client is self.clients[-1]:
                self._with_clients = time.monotonic()
            return answer
        answer = await client.get("/api/nodes", NodeStates, clients=0)
        return replace(answer, nodes={name: self._with_known(name, state) for name, state in answer.nodes.items()})

    def _with_known(self, name: str, state: NodeState) -> NodeState:
        earlier = self.states.get(name)
        if earlier is None:
            return state
        clients, past = earlier.portrait.clients, earlier.portrait.past
        return replace(state, portrait=replace(state.portrait, clients=clients, past=past))

    async def _read_domain(self, revision: str) -> None:
        """Read the domain in force; nothing that it names is run here."""
        if revision == self._revision:
            return
        try:
            revision_state = await self.first.get("/api/revision", RevisionState)
            with tempfile.TemporaryDirectory(prefix="penstock-revision-") as name:
                file = Path(name) / "domain.yaml"
                file.write_text(next((stored.text for stored in revision_state.files if stored.name == file.name), ""))
                self.domain = expand(read(file).domain)
            self._revision = revision
        except ApiClientError as error:
            self.error = str(error)
        except (DomainError, OSError) as error:
            self.error = f"the domain cannot be read; is the console older than the node? {error}"[:500]

    async def end(self) -> None:
        self.has_ended = True
        for client in self.clients:
            with contextlib.suppress(ApiClientError):
                await client.close()


class People:
    """The logged-in people, by their session cookie."""

    def __init__(self, url: str, ca: str | None, pin: str | None, also: tuple[str, ...]) -> None:
        self._url = url
        self._ca = ca
        self._pin = pin
        self._also = also
        self._known: dict[str, Person] = {}

    async def log_in(self, user: str, password: str, token: str, address: str = "") -> str:
        """Log in and return the session cookie; raise `ApiClientError`."""
        person = Person(ApiClient(self._url, self._ca, self._pin), self._ca, self._also)
        try:
            await person.begin(user, password, token, address)
        except (ApiClientError, asyncio.CancelledError):
            await person.end()
            raise
        while len(self._known) >= MAX_PEOPLE:
            await self._known.pop(next(iter(self._known))).end()
        mark = secrets.token_urlsafe(32)
        self._known[mark] = person
        return mark

    def find(self, mark: str) -> Person | None:
        person = self._known.get(mark)
        if person is not None and (person.has_ended or time.monotonic() - person.began > MAX_SECONDS):
            del self._known[mark]
            return None
        return person

    async def log_out(self, mark: str) -> None:
        person = self._known.pop(mark, None)
        if person is not None:
            await person.end()


def plain(value: object) -> object:
    """Return a value as JSON types."""
    return msgspec.to_builtins(value)
