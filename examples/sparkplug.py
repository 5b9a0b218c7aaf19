"""Real Sparkplug clients, each a process of its own with packages of its own.

pysparkplug needs an older paho-mqtt than Penstock does, so it is not in the virtual environment but in a folder below
it (`scripts/setup-venv … clients`).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from examples.narration import PATIENCE, wait_for

FACTORY = Path(__file__).parent / "factory"
Said = dict[str, Any]


class Program:
    """A client that is told what to do, and says what it hears: a JSON object in each line."""

    def __init__(self, script: Path, packages: str, *arguments: object) -> None:
        folder = Path(sys.prefix) / "clients" / packages
        assert folder.exists(), f"there is no {folder}: run `make` once, it installs the clients"
        self.said: list[Said] = []
        self._process = subprocess.Popen(
            [sys.executable, str(script), *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(folder)},
        )
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.said.append(json.loads(line))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def tell(self, **order: Any) -> None:
        """Have it do something."""
        assert self._process.stdin is not None
        print(json.dumps(order), file=self._process.stdin, flush=True)

    def kill(self) -> None:
        """End it without a goodbye: the broker is left to find out."""
        self._process.kill()
        self._process.wait()

    def heard(self, **parts: Any) -> list[Said]:
        """All that it said and that has these parts."""
        return [said for said in list(self.said) if all(said.get(name) == value for name, value in parts.items())]

    def hears(self, count: int = 1, patience: float = PATIENCE, **parts: Any) -> bool:
        """Whether it comes to say such things, as many as this."""
        return wait_for(lambda: len(self.heard(**parts)) >= count, patience)


def edge(port: int, name: str, metrics: dict[str, Any], client_id: str = "") -> Program:
    """An edge node `GROUP/EDGE` with these metrics; it says `born` when it hears orders, its birth behind it."""
    return Program(FACTORY / "edge.py", "pysparkplug", port, client_id or name, name, json.dumps(metrics))


def host(port: int, client_id: str, *filters: str) -> Program:
    """A host that says what it hears: `type`, `source`, `seq` and `metrics` by name; `ready` when it has subscribed."""
    return Program(FACTORY / "host.py", "pysparkplug", port, client_id, *filters)
