"""Ctrl-C, and readers that have had enough: a command ends with no trace, and leaves no process behind."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.cli.domain import check
from penstock.cli.exit_codes import EXIT_ERROR, EXIT_INTERRUPTED
from penstock.cli.main import main
from penstock.cli.pipeline.signals import delayed_interrupt, noted_interrupt, wait
from tests.support.processes.commands import PATIENCE

DOMAIN = "domain: test\nnodes: {gateway: {listen: 127.0.0.1:1883}}\nclients: {phone: {node: gateway}}\n"


def _interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_an_interrupted_command_prints_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(check, "main", lambda argv: _interrupt())
    assert main(["check"]) == EXIT_INTERRUPTED
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    "command", ["--help", "check --help", "schema", "check domain.yaml", "flows domain.yaml", "journal stats journal"]
)
def test_who_does_not_read_on_gets_no_trace(tmp_path: Path, command: str) -> None:
    (tmp_path / "domain.yaml").write_text(DOMAIN, encoding="utf-8")
    (tmp_path / "journal").mkdir()
    reads, writes = os.pipe()
    os.close(reads)
    words = [sys.executable, "-m", "penstock", *command.split()]
    done = subprocess.run(words, cwd=tmp_path, stdout=writes, stderr=subprocess.PIPE, timeout=PATIENCE, check=False)
    os.close(writes)
    assert done.stderr == b""
    assert done.returncode == (0 if command == "check --help" else EXIT_ERROR)  # argparse does not mind


@pytest.fixture(autouse=True)
def own_handler() -> Iterator[None]:
    """As a process has it when it begins; tests of Spark in this one leave another."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_what_is_held_is_not_interrupted() -> None:
    done = []

    def work() -> None:
        with delayed_interrupt():
            _interrupt()
            done.append(True)

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == [True]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_handler_set_meanwhile_is_kept() -> None:
    with delayed_interrupt():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_what_is_noted_is_handed_on() -> None:
    before, handed = signal.getsignal(signal.SIGINT), []
    signal.signal(signal.SIGINT, lambda number, frame: handed.append(number))
    ours = signal.getsignal(signal.SIGINT)
    with noted_interrupt() as is_interrupted:
        assert not is_interrupted()
        _interrupt()
        assert is_interrupted()
    assert handed == [signal.SIGINT]
    assert signal.getsignal(signal.SIGINT) is ours
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_waiting_ends_when_asked_to(number: signal.Signals) -> None:
    calls = []

    def is_over(seconds: int) -> bool:
        calls.append(seconds)
        os.kill(os.getpid(), number)
        return False

    wait(is_over, is_over)
    assert len(calls) == 1


def test_waiting_is_for_all() -> None:
    left = [3, 2]

    def is_over(which: int) -> bool:
        left[which] -= 1
        return left[which] == 0

    wait(lambda seconds: is_over(0), lambda seconds: is_over(1))
    assert left == [0, 0]


@pytest.mark.recorded
@pytest.mark.parametrize("seconds", [1.0, 2.0, 4.0, 8.0])
def test_an_interrupted_job_leaves_nothing(tmp_path: Path, seconds: float) -> None:
    """Return whether Java is starting, the session exists, or Spark works."""
    (tmp_path / "domain.yaml").write_text(DOMAIN, encoding="utf-8")
    (tmp_path / "journal").mkdir()
    words = ["pipeline", "stream", "--domain", "domain.yaml", "--all-subjects", "--from", "journal", "--to", "tables"]
    with subprocess.Popen(
        [sys.executable, "-m", "penstock", *words, "--checkpoint", "checkpoint"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as job:
        time.sleep(seconds)
        job.send_signal(signal.SIGINT)
        printed, _ = job.communicate(timeout=PATIENCE)  # Java has its output too: that is closed when all have ended
    assert "Traceback" not in printed
    assert job.returncode in (0, EXIT_INTERRUPTED), printed
