"""Processes that serve operators' requests: at a lower priority than nodes, within limits."""

import asyncio
import contextlib
import os
import resource
import sys
import tempfile
from collections.abc import AsyncIterator

from penstock.broker.http.endpoint import ApiError

CHECK_SECONDS = 60.0
"""Time limit of the check of a draft."""
NICE = 5
"""The niceness of these processes: with more, they would never run on a busy machine."""
MAX_AT_ONCE, MAX_WAITING = 2, 8
"""Drafts that are processed at a time, and that wait."""
MASK_SECONDS, MASK_BYTES = 20, 1 << 30
"""Seconds of the processor, and bytes of memory: enough for the longest domain file."""


class Turns:
    """Limits the processes: few at a time, and few that wait."""

    def __init__(self) -> None:
        self._room = asyncio.Semaphore(MAX_AT_ONCE)
        self._waiting = 0

    @contextlib.asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for a turn; raise `ApiError` if too many wait."""
        if self._waiting >= MAX_AT_ONCE + MAX_WAITING:
            raise ApiError("too many drafts are being processed: try again in a moment", 503, 5)
        self._waiting += 1
        try:
            async with self._room:
                yield
        finally:
            self._waiting -= 1


async def run_penstock(*arguments: str, seconds: float = CHECK_SECONDS) -> tuple[int, bytes, bytes]:
    """Run a `penstock` command; return its exit code and output. Files it leaves when it is stopped are removed."""
    with tempfile.TemporaryDirectory(prefix="penstock-run-", ignore_cleanup_errors=True) as folder:
        return await _run("penstock", *arguments, seconds=seconds, data=b"", folder=folder)


async def run_masks(question: bytes) -> tuple[int, bytes]:
    """Run `secret_masks` as a program."""
    code, output, _ = await _run("penstock.broker.http.secret_masks", seconds=CHECK_SECONDS, data=question)
    return code, output


async def _run(
    module: str, *arguments: str, seconds: float, data: bytes, folder: str | None = None
) -> tuple[int, bytes, bytes]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        module,
        *arguments,
        stdin=asyncio.subprocess.PIPE if data else asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=dict(os.environ) if folder is None else {**os.environ, "TMPDIR": folder},
        preexec_fn=_step_back if folder is not None else _step_back_in_bounds,
    )
    try:
        output, wrong = await asyncio.wait_for(process.communicate(data or None), seconds)
    except TimeoutError:
        raise ApiError(f"it took longer than {seconds:g} seconds", 503) from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return process.returncode or 0, output, wrong


def _step_back() -> None:
    """Lower the priority, between fork and exec; a service manager may not allow it."""
    with contextlib.suppress(OSError):
        os.nice(NICE)


def _step_back_in_bounds() -> None:
    _step_back()
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CPU, (MASK_SECONDS, MASK_SECONDS))
        resource.setrlimit(resource.RLIMIT_AS, (MASK_BYTES, MASK_BYTES))
