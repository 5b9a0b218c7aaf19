"""`penstock` in a process of its own, without the second of processor time that loading its modules takes.

A process that has them loaded waits for orders, and forks for each command: the fork gets the command's arguments,
folder, environment and files, and becomes a child of who gave the order, so that pid, signals and exit code are a
command's own. What is forked has no thread and no loop yet. Where that cannot be had, commands are started as always.
"""

import array
import atexit
import ctypes
import gc
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PENSTOCK = [sys.executable, "-c", "import sys; from penstock.cli.main import main; sys.exit(main())"]
_SERVE = "import sys; sys.path.insert(0, '.'); from tests.support.processes.forking import serve; sys.exit(serve())"
_PIECE = 60_000
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER of Linux
_LOADED = (
    "cli.node.run",
    "cli.domain.check",
    "cli.domain.explain",
    "cli.domain.test",
    "cli.client.pub",
    "cli.client.sub",
    "broker.run",
    "broker.http.admin",
)
_NEEDED = {"console": ("fastapi", "socketio", "penstock.console.app")}
"""By command, what takes long to load and others do without: loaded when such a command is ordered first."""
_CANNOT = {"preexec_fn", "pass_fds", "shell", "start_new_session", "process_group", "user", "umask", "executable"}
"""What `Popen` may be told that an order cannot carry."""


class Process(subprocess.Popen[Any]):
    """As `Popen`; a `penstock` command is forked if it can be."""

    def __init__(self, args: list[str], **how: Any) -> None:
        self._order: dict[str, Any] | None = None
        environment = dict(os.environ if how.get("env") is None else how["env"])
        is_plain = args[: len(PENSTOCK)] == PENSTOCK and not any(how.get(name) for name in _CANNOT)
        if is_plain and _FORKER.serves(environment):
            folder = os.getcwd() if how.get("cwd") is None else str(how["cwd"])
            self._order = {"args": args[len(PENSTOCK) :], "cwd": folder, "env": environment}
        super().__init__(args, **how)

    def _execute_child(self, *given: Any) -> None:  # where Popen forks
        if self._order is None:
            super()._execute_child(*given)  # type: ignore[misc]
            return
        pipes = given[10:16]  # what the child reads and writes, each with our end of it
        theirs = (pipes[0], pipes[3], pipes[5])
        files = [file if file != -1 else ours for ours, file in enumerate(theirs)]
        try:
            self.pid = _FORKER.fork(self._order, files)
        finally:
            self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]
        self._child_created = True


class _Forker:
    """The way to the process that forks. It is started when it is first needed."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._line: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._settings: dict[str, str] = {}

    def serves(self, environment: Mapping[str, str]) -> bool:
        """Whether it can be asked for commands with this environment: some of it is read when an interpreter starts."""
        with self._turn:
            if self._line is None and sys.platform == "linux":
                self._start()
        return self._line is not None and _read_at_start(environment) == self._settings

    def _start(self) -> None:
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._settings = _read_at_start(os.environ)
        with theirs:
            command = [sys.executable, "-c", _SERVE, str(theirs.fileno())]
            self._process = subprocess.Popen(
                command, pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL, cwd=Path(__file__).parents[3]
            )
        atexit.register(self._stop)

    def _stop(self) -> None:
        if self._line is not None and self._process is not None:
            self._line.close()
            self._process.wait()

    def fork(self, order: dict[str, Any], files: list[int]) -> int:
        """Have a process forked that is a child of this one; its pid."""
        assert self._line is not None
        text = json.dumps(order).encode()
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", files))]
        libc = ctypes.CDLL(None)
        with self._turn:
            # Its parent in between ends at once. Then it is ours, because we say so until the answer is there.
            libc.prctl(_SUBREAPER, 1, 0, 0, 0)
            try:
                self._line.sendmsg([len(text).to_bytes(4, "big")], rights)
                for start in range(0, len(text), _PIECE):
                    self._line.send(text[start : start + _PIECE])
                return int(self._line.recv(100))
            finally:
                libc.prctl(_SUBREAPER, 0, 0, 0, 0)


def _read_at_start(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(("PYTHON", "LC_", "LANG"))}


_FORKER = _Forker()


# --- The process that forks


def serve() -> int:
    """Take orders until nobody can give any; in a fork: be the command, and return its exit code."""
    line = socket.socket(fileno=int(sys.argv[1]))
    for name in _LOADED:
        importlib.import_module(f"penstock.{name}")
    gc.freeze()
    while True:
        order, files = ordered(line)
        if order is None:
            return 0
        for name in _NEEDED.get(order["args"][0], ()) if order["args"] else ():
            importlib.import_module(name)
        told, tells = os.pipe()
        between = os.fork()
        if between == 0:
            forked = os.fork()
            if forked == 0:
                return _be(order, files, (line.detach(), told, tells))
            os.write(tells, str(forked).encode())
            os._exit(0)
        os.waitpid(between, 0)  # from now on it is a child of who gave the order
        line.send(os.read(told, 100))
        for file in (told, tells, *files):
            os.close(file)


def ordered(line: socket.socket) -> tuple[dict[str, Any] | None, list[int]]:
    """The next order, with the files that it is to have; None: there will be no more."""
    size, files, _, _ = socket.recv_fds(line, 4, 3)
    if not size:
        return None, []
    wanted, text = int.from_bytes(size, "big"), b""
    while len(text) < wanted:
        text += line.recv(65_536)
    return json.loads(text), files


def _be(order: dict[str, Any], files: list[int], not_its: tuple[int, ...]) -> int:
    take_place(order, files)
    for file in {*files, *not_its} - {0, 1, 2}:
        os.close(file)
    sys.argv = ["-c", *order["args"]]
    from penstock.cli.main import main

    return main()


def take_place(order: dict[str, Any], files: list[int]) -> None:
    """In a fork: take the folder, the environment and the standard files that were ordered."""
    for at, file in enumerate(files):
        os.dup2(file, at)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["env"])
    time.tzset()
