"""A play of scenes: real nodes in a folder of their own, a company of clients, and an account of what happens."""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TypeVar

from examples.narration import PATIENCE, Account
from examples.nodes import NodeProcess, copy

T = TypeVar("T")
Scene = Callable[[Account, T], Awaitable[None]]
Gather = Callable[[Path, dict[str, NodeProcess], AsyncExitStack], T]
"""Makes the company: of the folder, the nodes, and what its clients are left by."""


def play(
    title: str,
    home: Path,
    nodes: Iterable[str],
    gather: Gather[T],
    scenes: Iterable[Scene[T]],
    files: tuple[str, ...] = (),
    patience: float = 4 * PATIENCE,
) -> int:
    """Play the scenes with the domain of a folder; the exit code, 1 if anything did not happen as told.

    `files`: what the domain file names beside itself. `patience`: seconds that a scene may take.
    """
    account = Account(title)
    with tempfile.TemporaryDirectory(prefix="penstock-demo-") as folder:
        asyncio.run(_play(account, Path(folder), home, nodes, gather, scenes, files, patience))
    return account.close()


async def _play(
    account: Account,
    folder: Path,
    home: Path,
    names: Iterable[str],
    gather: Gather[T],
    scenes: Iterable[Scene[T]],
    files: tuple[str, ...],
    patience: float,
) -> None:
    ports = copy(home, folder, "domain.yaml", *files)
    nodes = {name: NodeProcess(folder, ports, name) for name in names}
    try:
        async with AsyncExitStack() as stack:
            company = gather(folder, nodes, stack)
            for scene in scenes:
                async with asyncio.timeout(patience):
                    await scene(account, company)
    finally:
        for node in nodes.values():
            node.kill()
