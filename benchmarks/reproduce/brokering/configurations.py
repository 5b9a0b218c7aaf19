"""The configurations of §8.1.1, as data: what the brokers of a chain are started with."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml

from benchmarks.brokers import mosquitto_command, penstock_program

MONITORS = Path(__file__).with_name("monitors.py")


@dataclass(frozen=True, slots=True)
class Configuration:
    """One line of the figure; `commands` writes what the brokers on these ports need into a folder."""

    name: str
    title: str
    commands: Callable[[Sequence[int], Path], list[list[str]]]
    keeps_payload: bool = True
    """Events arrive as they were sent, so that the time stamp can be read."""


def _mosquittos(ports: Sequence[int], folder: Path) -> list[list[str]]:
    """Each but the last has a bridge to the next."""
    bridges = [
        f"connection bridge\naddress 127.0.0.1:{there}\ntopic # out 0\nremote_clientid from-{here}\n"
        f"local_clientid to-{there}\ncleansession true\nnotifications false\nrestart_timeout 1\n"
        for here, there in pairwise(ports)
    ]
    return [mosquitto_command(port, folder, more) for port, more in zip(ports, [*bridges, ""], strict=True)]


def names(count: int) -> list[str]:
    """The nodes of a chain; the first is the paper's PBroker, the last its SBroker."""
    return [f"n{at}" for at in range(1, count + 1)]


def domain(ports: Sequence[int]) -> dict[str, Any]:
    """A chain without policies: each node but the last dials the next, its parent."""
    chain = names(len(ports))
    return {
        "domain": "chain",
        "nodes": {
            name: {"listen": f"127.0.0.1:{port}", "store": "memory"} for name, port in zip(chain, ports, strict=True)
        },
        "links": [{"between": list(pair)} for pair in pairwise(chain)],
    }


def scoped(ports: Sequence[int]) -> dict[str, Any]:
    """The scoping rule of §6.1.2: clients are children of the node they come to, whoever they are."""
    chain = names(len(ports))
    clients = {
        f"clients-of-{name}": {"node": name, "listener": f"127.0.0.1:{port}"}
        for name, port in zip(chain, ports, strict=True)
    }
    return {**domain(ports), "clients": clients, "patterns": [{"pattern": "hierarchy"}]}


def _monitored(*monitors: dict[str, Any]) -> Callable[[Sequence[int]], dict[str, Any]]:
    """The scoping rule, and the monitors on every link into every node, from clients and from neighbours."""

    def made(ports: Sequence[int]) -> dict[str, Any]:
        links = [f"* -> {name}" for name in names(len(ports))]
        placed = {f"monitor{at}": {"link": links, **monitor} for at, monitor in enumerate(monitors)}
        return {**scoped(ports), "monitors": placed}

    return made


def _penstocks(make: Callable[[Sequence[int]], dict[str, Any]]) -> Callable[[Sequence[int], Path], list[list[str]]]:
    def commands(ports: Sequence[int], folder: Path) -> list[list[str]]:
        file = folder / "domain.yaml"
        file.write_text(yaml.safe_dump(make(ports), sort_keys=False))
        shutil.copy(MONITORS, folder)
        return [[penstock_program(), "run", str(file), "--node", name] for name in names(len(ports))]

    return commands


ORI = Configuration("ORI", "Mosquitto, joined by its bridges (`topic # out 0`)", _mosquittos)
PLAIN = Configuration("PLAIN", "Penstock nodes without policies", _penstocks(domain))
CONTROL = Configuration(
    "PLAIN again", "the same once more: what its ratio differs from 1 by is chance", _penstocks(domain)
)
NEW = Configuration("NEW", "Penstock with the scoping rule (types `up` and `down`), no monitor", _penstocks(scoped))
SEM = Configuration(
    "SEM",
    "NEW and on every link into a node an automaton that passes everything",
    _penstocks(_monitored({"states": {"q0": {"*": "pass"}}})),
)
SEM_PYTHON = Configuration(
    "SEM Python",
    "the same as a Python class, which is asked about every event",
    _penstocks(_monitored({"python": "monitors:Pass"})),
)
CEM = Configuration(
    "CEM",
    "NEW and on every link into a node a Python class that works on each byte and makes a random message",
    _penstocks(_monitored({"python": "monitors:Scramble"})),
    keeps_payload=False,
)

EXTRA = "extra"
"""A topic that nobody subscribes to: what is injected on it is not counted as received."""
_MOVES = {"states": {"q0": {"*": {"pass": True, "next": "q1"}}, "q1": {"*": {"pass": True, "next": "q0"}}}}
_INJECTS = {"states": {"q0": {EXTRA: "pass", "*": {"emit": ["{topic}", EXTRA]}}}}
_SUPPRESSES = {"states": {"q0": {EXTRA: "suppress", "*": "pass"}}}
MOV = Configuration(
    "MOV",
    "NEW and on every link into a node an automaton that changes its state on each event",
    _penstocks(_monitored(_MOVES)),
)
INJ = Configuration(
    "INJ",
    "NEW and on every link into a node an automaton that adds to each event a second one, which nobody subscribes to",
    _penstocks(_monitored(_INJECTS)),
)
SUP = Configuration(
    "SUP",
    "INJ and behind it an automaton that suppresses what was added: half of what it sees",
    _penstocks(_monitored(_INJECTS, _SUPPRESSES)),
)

ALL = (ORI, PLAIN, CONTROL, NEW, SEM, MOV, INJ, SUP, SEM_PYTHON, CEM)


def selected(names: Sequence[str]) -> tuple[Configuration, ...]:
    """The configurations of these names; all of them for none."""
    known_names = [configuration.name for configuration in ALL]
    for name in names:
        if name not in known_names:
            raise ValueError(f"no configuration `{name}`: there are {', '.join(known_names)}")
    return tuple(configuration for configuration in ALL if not names or configuration.name in names)
