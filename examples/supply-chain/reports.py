"""The supply chain of the statements paper (§3.3): four nodes, two warehouses, and management that wants extremes only.

Each node is a real `penstock run` in a process of its own, each client one of `penstock.client`. Run by `make demo`.
Exit code 1 if anything did not happen as told.
"""

import asyncio
import re
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))  # for what the examples share

from examples.narration import PATIENCE, Account, wait_for
from examples.nodes import NodeProcess, penstock
from examples.scenes import play
from penstock.client import Client, ConditionError, Refused, Subscription

HERE = Path(__file__).parent
PORTS = {"office": 1883, "hub": 1884, "north": 1885, "south": 1886}
ADMIN = {"office": 8080, "hub": 8081, "north": 8082, "south": 8083}
"""Ports of the domain file."""
HIGH, LOW = "class == 'report' && d1 > 900", "class == 'report' && d1 < 100"
"""S1 and S2 of the paper."""


async def until(happened: Callable[[], bool]) -> bool:
    """Whether it happens in time."""
    return await asyncio.to_thread(wait_for, happened)


class Reader:
    """Somebody who notes down how many pieces each report of a subscription speaks of."""

    def __init__(self, subscription: Subscription) -> None:
        self.pieces: list[int] = []
        self.probes: list[str] = []
        self._task = asyncio.create_task(self._read(subscription))

    async def _read(self, subscription: Subscription) -> None:
        async for event in subscription:
            if "probe" in event.attributes:
                self.probes.append(event.attributes["probe"])
            else:
                self.pieces.append(event.attributes["d1"])

    async def has(self, *pieces: int) -> bool:
        """Whether these come, and nothing else."""
        return await until(lambda: len(self.pieces) >= len(pieces)) and sorted(self.pieces) == sorted(pieces)


@dataclass
class Company:
    """The nodes, the clients, and who reads the reports."""

    folder: Path
    nodes: dict[str, NodeProcess]
    stack: AsyncExitStack
    clients: dict[str, Client] = field(default_factory=dict)
    readers: dict[str, Reader] = field(default_factory=dict)

    async def connect(self, name: str, node: str) -> Client:
        client = Client("127.0.0.1", self.nodes[node].port(PORTS[node]), client_id=name)
        self.clients[name] = await self.stack.enter_async_context(client)
        return client

    def scanner(self, place: str) -> Client:
        return self.clients[f"{place}-scanner"]

    async def report(self, place: str, *pieces: int) -> None:
        """The scanner of a warehouse reports, each time when the one before is acknowledged."""
        for d1 in pieces:
            await self.scanner(place).publish(f"stock/{place}/bolts", {"class": "report", "d1": d1, "d2": "and more"})

    async def arrives(self, place: str, d1: int, reader: Reader) -> bool:
        """Whether reports of a warehouse reach a reader, once the nodes have told each other what is wanted."""

        async def probe(title: str) -> None:
            content = {"class": "report", "d1": d1, "probe": f"{place} {title}"}
            await self.scanner(place).publish(f"stock/{place}/probe", content)

        while not any(title.startswith(place) for title in reader.probes):
            await probe("first")
            await asyncio.sleep(0.05)
        await probe("last")
        return await until(lambda: f"{place} last" in reader.probes)

    def received(self, *nodes: str) -> list[int]:
        """How many publications each node has received, from clients and from other nodes."""
        pages = [self.nodes[name].page(ADMIN[name], "/metrics") for name in nodes]
        counts = [re.search(r"^penstock_publications_received_total\{.*\} (\S+)$", page, re.M) for page in pages]
        return [int(float(count[1])) for count in counts if count is not None]


async def the_domain_is_tested(account: Account, company: Company) -> None:
    account.scene("Before anything runs: the domain file, and its tests")
    account.quote("$ penstock test domain.yaml")
    code, lines = penstock(company.folder, "test", "domain.yaml")
    for line in lines:
        account.quote(line)
    account.check("the policy tests pass", code, 0)


async def the_nodes_start(account: Account, company: Company) -> None:
    account.scene("Four nodes start; warehouses advertise what they will report, others subscribe by content")
    for node in company.nodes.values():
        account.quote(node.start())
    for place, where in (("north", "class == 'report'"), ("south", "class == 'report' && d1 < 500")):
        scanner = await company.connect(f"{place}-scanner", place)
        said = await scanner.advertise(f"stock/{place}/+", where)
        account.quote(f"the scanner in the {place} advertises {said.filter} where {said.where}")
    management, panel = await company.connect("management", "office"), await company.connect("panel", "hub")
    for name, where in (("high", HIGH), ("low", LOW)):
        made = await management.subscribe("stock/#", where, name=name)
        company.readers[name] = Reader(made)
        account.quote(f"management subscribes to {made.filter} where {made.where}")
    company.readers["panel"] = Reader(await panel.subscribe("stock/#"))
    account.quote("the panel subscribes to stock/#: the domain file says `where: {stock/#: d1 < 10}` for it")
    async with asyncio.timeout(PATIENCE):
        for place, d1, name in (("north", 1000, "high"), ("north", 0, "low"), ("south", 0, "low")):
            title = f"the way from the {place} to who wants the {name} is found"
            account.check(title, await company.arrives(place, d1, company.readers[name]))


async def reports_are_made(account: Account, company: Company) -> None:
    account.scene("Management hears of the high and of the low, the panel of what is running out")
    before = company.received("hub", "office")
    await company.report("north", *range(0, 1001, 25))
    await company.report("south", 5, 250, 450)
    account.quote("41 reports from the north, from 0 to 1000 pieces; 3 from the south: 5, 250, 450")
    account.check("S1, d1 > 900", await company.readers["high"].has(925, 950, 975, 1000))
    account.check("S2, d1 < 100", await company.readers["low"].has(0, 25, 50, 75, 5))
    account.check("the panel, d1 < 10", await company.readers["panel"].has(0, 5))
    after = company.received("hub", "office")
    carried = [now - then for now, then in zip(after, before, strict=True)]
    account.check("of the 44 reports just these 9 have left the warehouses", carried, [9, 9])


async def what_was_not_advertised_is_refused(account: Account, company: Company) -> None:
    account.scene("The south reports what it said it never would")
    try:
        await company.report("south", 5000)
        account.check("it is refused", False)
    except Refused as refused:
        account.quote(str(refused))
        account.check("it is refused, and the scanner is told why", refused.code, 0x87)


async def conditions_are_checked(account: Account, company: Company) -> None:
    account.scene("A condition with a mistake in it")
    management = company.clients["management"]
    try:
        await management.subscribe("stock/#", "d1 > 900 & class == 'report'")
        account.check("it is found", False)
    except ConditionError as error:
        for line in str(error).splitlines():
            account.quote(line)
        account.check("it is found before anything is sent", True)
    try:
        await management.subscribe("stock/#", "d1 > 'many'")
        account.check("it is found", False)
    except Refused as refused:
        for line in refused.words.splitlines():
            account.quote(line)
        account.check("what only the domain can know is refused by the node", refused.code, 0x83)


async def management_changes_its_mind(account: Account, company: Company) -> None:
    account.scene("Management has a new opinion of what is high")
    made = await company.clients["management"].subscribe("stock/#", HIGH.replace("900", "990"), name="high")
    company.readers["high"] = Reader(made)
    account.quote(f"the subscription `high` is replaced: where {made.where}")
    await company.report("north", 950, 995)
    account.check("of 950 and 995 it hears of 995", await company.readers["high"].has(995))


async def the_power_fails(account: Account, company: Company) -> None:
    account.scene("The node of the south loses power (kill -9), and the scanner goes on reporting")
    company.readers["low"].pieces.clear()
    company.nodes["south"].kill()
    reporting = asyncio.create_task(company.report("south", 7, 8))
    account.quote(await asyncio.to_thread(company.nodes["south"].start))
    await reporting
    account.check(
        "its client has connected again, and all that it reported arrives", await company.readers["low"].has(7, 8)
    )
    try:
        await company.report("south", 5000)
        account.check("what it advertised still holds", False)
    except Refused:
        account.check("what it advertised still holds", True)


async def everybody_goes(account: Account, company: Company) -> None:
    account.scene("The end")
    await company.stack.aclose()
    account.check(
        "the nodes end with exit code 0 on SIGTERM", [node.stop() for node in company.nodes.values()], [0] * 4
    )


SCENES = (
    the_domain_is_tested,
    the_nodes_start,
    reports_are_made,
    what_was_not_advertised_is_refused,
    conditions_are_checked,
    management_changes_its_mind,
    the_power_fails,
    everybody_goes,
)


if __name__ == "__main__":
    sys.exit(play("A supply chain: examples/supply-chain", HERE, PORTS, Company, SCENES))
