"""The systemd unit: systemd takes it, its commands are ours, and a node says when it is ready and when it stops."""

import os
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.cli.main import COMMANDS
from penstock.client import local_token
from tests.support.processes.commands import PATIENCE
from tests.support.processes.node import running

UNIT = Path(__file__).parents[2] / "packaging" / "penstock.service"
INSTALLED = "/opt/penstock/bin/penstock"


def _commands() -> list[list[str]]:
    lines = UNIT.read_text().splitlines()
    return [shlex.split(line.partition("=")[2]) for line in lines if line.startswith(("ExecStart=", "ExecReload="))]


def test_its_commands_are_ours() -> None:
    ours = [words[1] for words in _commands() if words[0] == INSTALLED]
    assert ours == ["run", "check"]
    assert set(ours) <= set(COMMANDS)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="Debian's package `systemd` is not installed")
def test_systemd_takes_it(tmp_path: Path) -> None:
    here = tmp_path / "bin" / "penstock"
    here.parent.mkdir()
    here.symlink_to(sys.executable)  # systemd looks for a program that can be run
    unit = tmp_path / "penstock.service"
    unit.write_text(UNIT.read_text().replace(INSTALLED, str(here)))
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, timeout=PATIENCE)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="Debian's package `systemd` is not installed")
def test_it_is_shut_in() -> None:
    """systemd's own measure of exposure, from 0 (safe) to 100; without the hardening it is 96."""
    words = ["systemd-analyze", "security", "--offline=yes", "--threshold=20", "--no-pager", str(UNIT)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stdout[-300:] + done.stderr


@pytest.fixture(params=["a file", "no file"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[socket.socket]:
    """The service manager's end of the line."""
    name = f"@penstock-test-{os.getpid()}" if request.param == "no file" else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line, pytest.MonkeyPatch.context() as patch:
        line.bind("\0" + name[1:] if name.startswith("@") else name)
        line.settimeout(PATIENCE)
        patch.setenv("NOTIFY_SOCKET", name)
        yield line


def test_a_node_says_when_it_is_ready_and_when_it_stops(manager: socket.socket) -> None:
    with running() as node:
        assert manager.recv(100) == b"READY=1"
        assert node.stop() == 0
    assert manager.recv(100) == b"STOPPING=1"


@pytest.mark.skipif(os.getuid() != 0, reason="only the system's administrator may")
def test_the_administrator_finds_the_token_of_the_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_token, "SERVICE", tmp_path)
    monkeypatch.delenv("RUNTIME_DIRECTORY", raising=False)
    url = "http://127.0.0.1:59999"
    file = tmp_path / local_token.token_path(url).name
    file.write_text("secret")
    os.chown(file, 61184, 61184)  # as one of systemd's dynamic users
    assert local_token.find_token(url) == "secret"
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    assert local_token.find_token(url) is None


def test_the_runtime_directory_is_where_tokens_are_looked_for() -> None:
    (name,) = (line.partition("=")[2] for line in UNIT.read_text().splitlines() if line.startswith("RuntimeDirectory="))
    assert Path("/run", name) == local_token.SERVICE
