"""Shell commands of pages that people read, run as they stand there, on ports that are free."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.support.mosquitto import free_port


def commands(page: str, heading: str) -> str:
    """All shell blocks of one section."""
    section = page.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return "".join(re.findall(r"^```sh\n(.*?)^```", section, re.MULTILINE | re.DOTALL))


def move(file: Path) -> dict[str, str]:
    """Give a domain file free ports; the new ones by those that it had."""
    text = file.read_text(encoding="utf-8")
    ports = {port: str(free_port()) for port in re.findall(r"127\.0\.0\.1:(\d+)", text)}
    file.write_text(re.sub(r"(?<=127\.0\.0\.1:)\d+", lambda found: ports[found[0]], text), encoding="utf-8")
    return ports


def run(script: str, folder: Path, ports: Mapping[str, str]) -> str:
    """What the commands print. They leave no node behind; `pub` and `sub` go to the ports that stand for theirs."""
    script = re.sub(r"penstock (pub|sub)(?! -p)", r"penstock \1 -p 1883", script)
    script = re.sub(r"(penstock (?:pub|sub|run) -p) (\d+)", lambda found: f"{found[1]} {ports[found[2]]}", script)
    # A machine under load takes longer than a reader to get a node up.
    listens = " && ".join(f"(: < /dev/tcp/127.0.0.1/{port}) 2>/dev/null" for port in ports.values())
    script = re.sub(r"(& nodes?=\$!\n)sleep 1\n", rf"\1until {listens}; do sleep 0.05; done\n", script)
    script = f"trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n{script}\nwait\n"
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout
