"""Names that clients choose do nothing to the terminal of who reads the log or the journal, and make no lines there."""

import json
from pathlib import Path
from typing import Any

from tests.support.clients.paho import Paho
from tests.support.memory.sparkplug import encode
from tests.support.processes.commands import penstock, run, until
from tests.support.processes.node import running

NAME = "bad \x1b[2J\x9b31m\r\n2026-01-01T00:00:00Z main #7 forged from `admin`\u202e"
"""A metric may have any name, unlike a topic or a client."""


def test_a_metric_cannot_forge_lines_or_command_a_terminal(tmp_path: Path) -> None:
    """Attacked again: the name of a metric that was cut stood in the printed journal as it was."""
    journal = tmp_path / "journal"
    policies = [
        {"subject": "G/E", "topics": "spBv1.0/G/#", "may": ["read", "write"]},
        {"subject": "bob", "topics": "spBv1.0/G/#", "may": "read", "except": "bad*"},
    ]
    domain: dict[str, Any] = {
        "clients": {"edge": {"node": "main", "edge": "G/E"}, "bob": {"node": "main"}},
        "access": policies,
        "journal": {"folder": str(journal), "flush": 0.1},
    }
    metric = {"name": NAME, "alias": 1, "datatype": 12, "string_value": "v"}
    birth = encode({"timestamp": 1, "seq": 0, "metrics": [metric]})
    with (
        running({}, **domain) as node,
        Paho("edge").connects(node.port) as edge,
        Paho("bob").connects(node.port) as bob,
    ):
        bob.subscribe("spBv1.0/#")
        edge.publish("spBv1.0/G/NBIRTH/E", birth, 1)

        def shown(*form: str) -> str:
            return run(penstock("journal", "show", str(journal), *form))[1]

        until(lambda: "NBIRTH" in shown(), "the journal has it")
        account = shown()
        told = [json.loads(line) for line in shown("--json").splitlines()]
    assert any(NAME in kept["reason"] for row in told for kept in row["withheld"] or ()), told
    assert "forged" in account
    assert not any(line.startswith("2026-01-01") for line in account.splitlines())
    assert account.replace("\n", "").isprintable()
