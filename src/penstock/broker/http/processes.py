"""What is run for people, in processes of its own: behind nodes in the queue for the processor, within bounds."""

import asyncio
import contextlib
import os
import resource
import sys
import tempfile
from collections.abc import AsyncIterator

from penstock.broker.http.endpoint import Refused

CHECK_SECONDS = 60.0
"""In which a draft must have been checked."""
NICE = 5
"""How far what is run for people stands behind nodes: further, and a busy machine would never come to it."""
MOST_AT_ONCE, MOST_WAITING = 2, 8
"""Drafts that are looked at at a time, and that wait for it."""
MASK_SECONDS, MASK_BYTES = 20, 1 << 30
"""Of the processor, and of memory, that are enough for the longest domain file."""


class Turns:
    """Who may have something run now: few at a time, and few that wait."""

    def __init__(self) -> None:
        self._room = asyncio.Semaphore(MOST_AT_ONCE)
        self._waiting = 0

    @contextlib.asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Raises `Refused` if too many wait."""
        if self._waiting >= MOST_AT_ONCE + MOST_WAITING:
            raise Refused("too many drafts are looked at: try again in a moment", 503, 5)
        self._waiting += 1
        try:
            async with self._room:
                yield
        finally:
            self._waiting -= 1


async def run_penstock(*arguments: str, seconds: float = CHECK_SECONDS) -> tuple[int, bytes, bytes]:
    """A command of ours; exit code and what it says. What it leaves behind if it is ended is removed."""
    with tempfile.TemporaryDirectory(prefix="penstock-run-", ignore_cleanup_errors=True) as folder:
        return await _run("penstock", *arguments, seconds=seconds, said=b"", folder=folder)


async def run_masks(question: bytes) -> tuple[int, bytes]:
    """`masks` as a program."""
    code, told, _ = await _run("penstock.broker.http.secret_masks", seconds=CHECK_SECONDS, said=question)
    return code, told


async def _run(
    module: str, *arguments: str, seconds: float, said: bytes, folder: str | None = None
) -> tuple[int, bytes, bytes]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        module,
        *arguments,
        stdin=asyncio.subprocess.PIPE if said else asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=dict(os.environ) if folder is None else {**os.environ, "TMPDIR": folder},
        preexec_fn=_step_back if folder is not None else _step_back_in_bounds,
    )
    try:
        told, wrong = await asyncio.wait_for(process.communicate(said or None), seconds)
    except TimeoutError:
        raise Refused(f"it took longer than {seconds:g} seconds", 503) from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return process.returncode or 0, told, wrong


def _step_back() -> None:
    """Between fork and exec; a service manager may not allow it."""
    with contextlib.suppress(OSError):
        os.nice(NICE)


def _step_back_in_bounds() -> None:
    _step_back()
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CPU, (MASK_SECONDS, MASK_SECONDS))
        resource.setrlimit(resource.RLIMIT_AS, (MASK_BYTES, MASK_BYTES))
