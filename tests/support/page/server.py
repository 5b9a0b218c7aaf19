"""Runs commands for the shells of pages: each in a process of its own, forked from one that has everything imported.

A command of `penstock` spends most of its time on imports. Its process here has its own memory, files, folder and
environment, as if a shell had started it.
"""

import importlib
import os
import select
import signal
import socket
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from penstock.cli.main import COMMANDS, main, module_of
from tests.support.processes.forking import ordered, take_place


def serve(path: str) -> None:
    """Until standard input ends."""
    for name in COMMANDS:
        importlib.import_module(module_of(name))
    for name in (
        "broker.run",
        "broker.observe.journal",
        "broker.http.admin",
        "journal.read.tables",
        "journal.write.compact",
        "analysis.flows",
    ):
        importlib.import_module(f"penstock.{name}")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen(64)
        while 0 not in select.select([listening.fileno(), 0], [], [])[0]:
            taken, _ = listening.accept()
            if os.fork() == 0:
                listening.close()
                _supervise(taken)
                os._exit(0)
            taken.close()
            with suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass


def _supervise(taken: socket.socket) -> None:
    """Run one command; hand on signals, and end it if who asked for it is gone."""
    order, files = ordered(taken)
    if order is None:
        return
    process = os.fork()
    if process == 0:
        taken.close()
        _run(order, files)
    for file in files:
        os.close(file)
    mark = Path(order["env"]["PAGE_PROCESSES"], str(process))
    mark.write_text(str(order["asked"]))
    ended = os.pidfd_open(process)
    while ended not in select.select([ended, taken.fileno()], [], [])[0]:
        numbers = taken.recv(16)
        for number in numbers or [signal.SIGKILL]:
            os.kill(process, number)
        if not numbers:
            break
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    mark.unlink()
    taken.sendall(bytes([code if code >= 0 else 128 - code]))


def _run(order: dict[str, Any], files: list[int]) -> NoReturn:
    take_place(order, files)
    os.closerange(3, 256)
    sys.argv = ["penstock", *order["args"]]
    code: object = 1
    try:
        code = main(order["args"])
    except SystemExit as end:
        code = end.code if end.code is not None else 0
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 1)


if __name__ == "__main__":
    serve(sys.argv[1])
