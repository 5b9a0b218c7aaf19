"""A person who has logged in: its tokens at the nodes, and what they have told last."""

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

from penstock.broker.http.answers.status import Nodes, NodeState, RevisionState
from penstock.broker.http.people import About
from penstock.console.admin_client import AskError, Asking
from penstock.domain import Domain, expand, read
from penstock.model.errors import DomainError

FRESH_SECONDS = 0.8
"""For so long what nodes have told is not asked for again: several pages of a person ask once."""
MANY_CLIENTS = 300
CLIENTS_SECONDS = 5.0
LATE_SECONDS = 3.0
"""After which a page does not wait for nodes any longer."""
OTHERS_SECONDS = 2.5
"""In which processes besides the first must answer: one that hangs must not make the others' answers late."""
LONGEST_SECONDS = 12 * 3600.0
MOST_PEOPLE = 200


class KeptDraft(NamedTuple):
    """A draft of the domain file, and the revision that it was made of."""

    text: str
    revision: str


class Person:
    """One session of the console."""

    def __init__(self, asking: Asking, ca: str | None, also: tuple[str, ...] = ()) -> None:
        self.first = asking
        """The process that the console was started for."""
        self.others: list[Asking] = []
        """Processes with other nodes of the domain, where the same log-in counts."""
        self.about = About("", "", "", (), "", "", "")
        self.states: dict[str, NodeState] = {}
        """By node, what it has told last."""
        self.told_at: dict[str, float] = {}
        """By node, when it told that, in seconds since 1970 by its own clock."""
        self.homes: dict[str, Asking] = {}
        """By node, the process that told it."""
        self.unheard: dict[str, str] = {}
        """By admin address, why its nodes cannot be asked."""
        self.error = ""
        """Why the first process cannot be asked; empty if it can."""
        self.domain: Domain | None = None
        self.draft: KeptDraft | None = None
        """What was written on the page Try, in case the page has to be loaded again."""
        self.comparison = 0
        """The number of the last comparison of a draft."""
        self.began = time.monotonic()
        self.dark: bool | None = None
        """How it wants the page; None: as its browser says."""
        self.has_ended = False
        """It has logged out."""
        self._ca = ca
        self._also = also
        """Admin addresses of other processes where the same log-in may be made."""
        self._revision = ""
        self._asked = float("-inf")
        self._with_clients = float("-inf")
        """When clients were asked for last."""
        self._refreshing: asyncio.Task[None] | None = None
        self._since = time.monotonic()
        """When nodes were asked last, whether they have answered or not."""

    def at(self, node: str) -> Asking:
        """The process that a node runs in; the first, if it is not known."""
        return self.homes.get(node, self.first)

    @property
    def asked(self) -> list[Asking]:
        return [self.first, *self.others]

    async def begin(self, user: str, password: str, token: str, address: str = "") -> None:
        """Log in, here and at the other nodes of the domain; raises `AskError`."""
        if token:
            self.first.token = token
        else:
            await self.first.log_in(user, password, address)
        self.about = await self.first.get("/api/about", About)
        await self._refresh()
        await self._log_in_elsewhere(user, password, token, address)

    async def _log_in_elsewhere(self, user: str, password: str, token: str, address: str) -> None:
        known = set(self.about.nodes)
        for name, node in (self.domain.nodes if self.domain is not None else {}).items():
            if name in known or node.admin is None or not node.admin.port:
                continue
            url = f"{'https' if node.admin_tls else 'http'}://{node.admin}"
            if token or url not in self._also:
                continue  # who may change the domain must not have people's passwords sent to an address of its own
            other = Asking(url, self._ca)
            try:
                await other.log_in(user, password, address)
                known |= set((await other.get("/api/about", About)).nodes)
                self.others.append(other)
            except AskError as error:
                self.unheard[other.url] = str(error)
                await other.close()

    async def refresh(self) -> None:
        """Have what the nodes tell now, unless it is known already. Who takes long is not waited for: then what is
        known is old, and `late` says since when.
        """
        if self._refreshing is None:
            if time.monotonic() - self._asked < FRESH_SECONDS:
                return
            self._since = time.monotonic()
            self._refreshing = asyncio.create_task(self._refresh())
            self._refreshing.add_done_callback(self._refreshed)
        patience = self._since + LATE_SECONDS - time.monotonic()
        await asyncio.wait({self._refreshing}, timeout=max(patience, 0.0))

    @property
    def late(self) -> str:
        """That nodes have not answered of late, and since when; empty if they have."""
        waited = time.monotonic() - self._since
        if self._refreshing is None or waited < LATE_SECONDS:
            return ""
        since = datetime.fromtimestamp(round(time.time() - waited), UTC)
        return f"no answer since {since:%H:%M:%S} UTC: what is shown is from before"

    async def _refresh(self) -> None:
        found: dict[str, NodeState] = {}
        told_at: dict[str, float] = {}
        homes: dict[str, Asking] = {}
        asked = self.asked
        for one, told in zip(asked, await asyncio.gather(*map(self._hear, asked)), strict=True):
            if told is not None:
                found = {**told.nodes, **found}  # the first is believed about its own nodes
                told_at |= dict.fromkeys(told.nodes, told.at)
                homes |= dict.fromkeys(told.nodes, one)
        self.states, self.told_at, self.homes = found, told_at, homes
        self._asked = time.monotonic()

    async def _hear(self, one: Asking) -> Nodes | None:
        """What a process tells; None if it does not. The first is waited for, the others keep nobody waiting."""
        try:
            if one is self.first:
                told = await self._ask(one)
                self.error = ""
                await self._learn(told.revision)
                return told
            async with asyncio.timeout(OTHERS_SECONDS):
                told = await self._ask(one)
            self.unheard.pop(one.url, None)
            return told
        except TimeoutError:
            self.unheard[one.url] = f"{one.url}: no answer in {OTHERS_SECONDS:g} s"
        except AskError as error:
            if one is self.first:
                self.has_ended |= error.status == 401  # the node has been started again, or it took too long
                self.error = str(error)
            else:
                self.unheard[one.url] = str(error)
        return None

    def _refreshed(self, _: asyncio.Task[None]) -> None:
        self._refreshing = None

    async def _ask(self, one: Asking) -> Nodes:
        """What its nodes tell; many clients are asked for now and then only, and kept meanwhile."""
        many = sum(len(state.portrait.clients) for state in self.states.values()) > MANY_CLIENTS
        if not many or time.monotonic() - self._with_clients > CLIENTS_SECONDS:
            told = await one.get("/api/nodes", Nodes)
            if one is self.asked[-1]:
                self._with_clients = time.monotonic()
            return told
        told = await one.get("/api/nodes", Nodes, clients=0)
        return replace(told, nodes={name: self._with_known(name, state) for name, state in told.nodes.items()})

    def _with_known(self, name: str, state: NodeState) -> NodeState:
        known = self.states.get(name)
        if known is None:
            return state
        clients, past = known.portrait.clients, known.portrait.past
        return replace(state, portrait=replace(state.portrait, clients=clients, past=past))

    async def _learn(self, revision: str) -> None:
        """Read the domain as it is in force; nothing of it is run here, whatever it names."""
        if revision == self._revision:
            return
        try:
            told = await self.first.get("/api/revision", RevisionState)
            with tempfile.TemporaryDirectory(prefix="penstock-revision-") as name:
                file = Path(name) / "domain.yaml"
                file.write_text(next((one.text for one in told.files if one.name == file.name), ""))
                self.domain = expand(read(file).domain)
            self._revision = revision
        except AskError as error:
            self.error = str(error)
        except (DomainError, OSError) as error:
            self.error = f"the domain is not understood, is the console older than the node? {error}"[:500]

    async def end(self) -> None:
        self.has_ended = True
        for one in self.asked:
            with contextlib.suppress(AskError):
                await one.close()


class People:
    """Who is logged in, by what their browser shows."""

    def __init__(self, url: str, ca: str | None, pin: str | None, also: tuple[str, ...]) -> None:
        self._url = url
        self._ca = ca
        self._pin = pin
        self._also = also
        self._known: dict[str, Person] = {}

    async def log_in(self, user: str, password: str, token: str, address: str = "") -> str:
        """What the browser is to show from now on; raises `AskError`."""
        person = Person(Asking(self._url, self._ca, self._pin), self._ca, self._also)
        try:
            await person.begin(user, password, token, address)
        except (AskError, asyncio.CancelledError):
            await person.end()
            raise
        while len(self._known) >= MOST_PEOPLE:
            await self._known.pop(next(iter(self._known))).end()
        mark = secrets.token_urlsafe(32)
        self._known[mark] = person
        return mark

    def find(self, mark: str) -> Person | None:
        person = self._known.get(mark)
        if person is not None and (person.has_ended or time.monotonic() - person.began > LONGEST_SECONDS):
            del self._known[mark]
            return None
        return person

    async def log_out(self, mark: str) -> None:
        person = self._known.pop(mark, None)
        if person is not None:
            await person.end()


def plain(value: object) -> object:
    """For what takes JSON."""
    return msgspec.to_builtins(value)
