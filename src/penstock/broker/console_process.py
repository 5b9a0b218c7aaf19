"""The console of a node, as a process beside it: started with the node, restarted if it ends, stopped with it."""

import asyncio
import contextlib
import sys
from typing import TYPE_CHECKING

from penstock.broker.observe.log import NodeLog

if TYPE_CHECKING:
    from penstock.broker.http.admin import AdminServer
    from penstock.broker.server import Server

MIN_SECONDS, MAX_SECONDS = 1.0, 60.0
"""Shortest and longest wait before a restart: longer each time, unless the console has run for a while."""
STOP_SECONDS = 5.0


class ConsoleProcess:
    """The console process of one node."""

    def __init__(self, server: "Server", admin: "AdminServer") -> None:
        self._log: NodeLog = server.log
        self._settings = server.settings
        self._hosts = admin.hosts
        self._admin = admin
        self._task: asyncio.Task[None] | None = None
        self._process: asyncio.subprocess.Process | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._keep())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        process = self._process
        if process is not None and process.returncode is None:
            process.terminate()
            try:
                await asyncio.wait_for(process.wait(), STOP_SECONDS)
            except TimeoutError:
                process.kill()
                await process.wait()

    def _command(self) -> list[str]:
        settings = self._settings
        command = [sys.executable, "-m", "penstock", "console", self._admin.address, "--at", str(settings.console)]
        if (tls := settings.admin_tls) is not None:
            command += ["--cert", str(tls.cert), "--key", str(tls.key), "--pin", str(tls.cert)]
            command += ["--min-tls", tls.min_version]
            command += ["--client-ca", str(tls.ca)] if tls.ca is not None else []
            command += ["--require-certificate"] if tls.require_certificate else []
        elif settings.console is not None and not settings.console.loopback:
            command.append("--behind-proxy")
        for host in self._hosts:
            command += ["--host", host]
        return command

    async def _keep(self) -> None:
        wait = MIN_SECONDS
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            code = await self._run()
            wait = MIN_SECONDS if loop.time() - began > MAX_SECONDS else min(wait * 2, MAX_SECONDS)
            self._log.error("the console process ended", extra={"code": code, "again_in": f"{wait:g} s"})
            await asyncio.sleep(wait)

    async def _run(self) -> int:
        # It ends when its standard input does: also if the node is killed and cannot stop it.
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*self._command(), "--until-eof", stdin=pipe, stdout=pipe)
        self._process = process
        assert process.stdout is not None
        line = await process.stdout.readline()
        if line:
            self._log.info("console ready", extra={"address": line.decode().split()[-1]})
        return await process.wait()
