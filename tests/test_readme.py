"""The commands of the README, run as they stand there, on ports that are free."""

import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def commands(heading: str) -> str:
    """All shell blocks of one section."""
    section = README.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return "".join(re.findall(r"^```sh\n(.*?)^```", section, re.MULTILINE | re.DOTALL))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def run(script: str, folder: Path, port: int) -> str:
    """What the commands print. They leave no node behind."""
    script = re.sub(r"penstock (pub|sub)", rf"penstock \1 -p {port}", script)
    # A machine under load takes longer than a reader to get a node up.
    until_it_listens = f"until (: < /dev/tcp/127.0.0.1/{port}) 2>/dev/null; do sleep 0.05; done"
    script = script.replace("node=$!\nsleep 1\n", f"node=$!\n{until_it_listens}\n")
    script = f"trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n{script}\nwait\n"
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env={**os.environ, "PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_the_quick_tour(tmp_path: Path) -> None:
    port = free_port()
    script = commands("A quick tour").replace("penstock run", f"penstock run -p {port}")
    printed = run(script, tmp_path, port)
    wanted = ("plant/pump-7/temperature 71.2", "plant/pump-7/temperature retained=1 71.2", "pump 7 is hot")
    assert [line for line in wanted if line not in printed.splitlines()] == [], printed


@pytest.fixture
def checkout(tmp_path: Path) -> tuple[Path, int]:
    """A folder with the example in it, and the port that its node takes there."""
    shutil.copytree(ROOT / "examples" / "one-node", tmp_path / "examples" / "one-node")
    file = tmp_path / "examples" / "one-node" / "domain.yaml"
    ports = {usual: free_port() for usual in ("1883", "8083", "8080")}
    file.write_text(re.sub(r"(?<=127\.0\.0\.1:)\d+", lambda found: str(ports[found[0]]), file.read_text()))
    return tmp_path, ports["1883"]


def test_the_configuration_example(checkout: tuple[Path, int]) -> None:
    printed = run(commands("Configuration by example"), *checkout)
    assert "publish denied" in printed
    assert "Not authorized" in printed
    assert "penstock version" in printed


def test_the_configuration_that_is_shown_is_the_example() -> None:
    shown = re.findall(r"^```yaml\n(.*?)^```", README, re.MULTILINE | re.DOTALL)[0]
    example = (ROOT / "examples" / "one-node" / "domain.yaml").read_text(encoding="utf-8")
    assert [line for line in shown.splitlines() if line not in example.splitlines()] == []
