"""Table II of the sparkplug paper: deployments, and policy sets of the same sizes.

The sizes of PS1 follow from the deployments: nine policies for each device and each edge node, and five more. So we
take these nine: the edge node may write births, data and deaths, the two applications may read them. The others of PS2
and PS3 are policies with conditions for the secondary application.
"""

from __future__ import annotations

import csv
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

NOAC = 0
"""In place of a policy set: no access control."""
SETS = (NOAC, 1, 2, 3)
PRIMARY, SECONDARY = "primary", "secondary"
KINDS = ("BIRTH", "DATA", "DEATH")


@dataclass(frozen=True, slots=True)
class Deployment:
    """One column of Table II."""

    experiment: int
    name: str
    edges: int
    devices: int
    edge_metrics: int
    device_metrics: int
    sizes: tuple[int, int, int]
    """Policies in PS1, PS2 and PS3."""

    def sources(self) -> Iterator[tuple[str, str]]:
        """Edge node and device of all that reports; an empty device is the edge node itself."""
        for edge in range(self.edges):
            yield f"E{edge}", ""
            for device in range(self.devices):
                yield f"E{edge}", f"D{device}"

    def metrics(self, device: str) -> list[str]:
        """The names of the metrics of an edge node or device."""
        return [f"m{at}" for at in range(self.device_metrics if device else self.edge_metrics)]


DEPLOYMENTS = (
    Deployment(1, "D1", 50, 9, 20, 8, (4505, 5160, 5903)),
    Deployment(1, "D2", 50, 13, 25, 8, (6305, 7392, 8279)),
    Deployment(1, "D3", 50, 17, 30, 8, (8105, 9492, 10842)),
    Deployment(1, "D4", 50, 21, 35, 8, (9905, 11760, 13297)),
    Deployment(1, "D5", 50, 25, 40, 8, (11705, 13412, 15737)),
    Deployment(2, "D1", 60, 5, 10, 5, (3245, 3816, 4344)),
    Deployment(2, "D2", 70, 5, 10, 5, (3785, 4418, 5067)),
    Deployment(2, "D3", 80, 5, 10, 5, (4325, 5001, 5691)),
    Deployment(2, "D4", 90, 5, 10, 5, (4865, 5653, 6606)),
    Deployment(2, "D5", 100, 5, 10, 5, (5405, 6259, 7058)),
    Deployment(2, "D6", 150, 5, 10, 5, (8104, 9348, 10677)),
    Deployment(2, "D7", 200, 5, 10, 5, (10804, 12468, 14269)),
)

Row = tuple[str, str, str, str, str]
"""Subject, topics, exceptions, privilege, condition."""


def topic(edge: str, device: str, kind: str) -> str:
    """The topic of a message."""
    return f"spBv1.0/G/D{kind}/{edge}/{device}" if device else f"spBv1.0/G/N{kind}/{edge}"


def policies(deployment: Deployment, number: int) -> list[Row]:
    """The policies of a set."""
    draw = random.Random(f"{deployment} {number}")
    rows: list[Row] = [
        (PRIMARY, "spBv1.0/STATE/+", "", "read write", ""),
        (PRIMARY, "spBv1.0/G/NCMD/+", "", "write", ""),
        (PRIMARY, "spBv1.0/G/DCMD/+/+", "", "write", ""),
        ("*", "spBv1.0/G/NCMD/+", "", "read", ""),
        (SECONDARY, "spBv1.0/G/NCMD/+", "", "write", "metrics.all(name, name == 'Node Control/Rebirth')"),
    ]
    for edge, device in deployment.sources():
        names = deployment.metrics(device)
        for kind in KINDS:
            where = topic(edge, device, kind)
            exceptions = ";".join(draw.sample(names, draw.randint(1, number)))
            rows += [
                (f"G/{edge}", where, "", "write", ""),
                (PRIMARY, where, "", "read", ""),
                (SECONDARY, where, exceptions, "read", ""),
            ]
    sources = list(deployment.sources())
    size = deployment.sizes[number - 1]
    while len(rows) < size:
        edge, device = draw.choice(sources)
        names = deployment.metrics(device)
        exceptions = ";".join(draw.sample(names, draw.randint(1, number)))
        condition_metric = draw.choice(names)
        rows.append(
            (SECONDARY, topic(edge, device, draw.choice(KINDS)), exceptions, "read", f"{condition_metric}.value > 50")
        )
    return rows[:size]


def write(folder: Path, port: int, deployment: Deployment, number: int) -> Path:
    """A domain file with the deployment's clients, and a policy set, in a folder."""
    clients = [f"  {edge}: {{node: main, edge: G/{edge}}}\n" for edge in _edges(deployment)]
    clients += [f"  {name}: {{node: main}}\n" for name in (PRIMARY, SECONDARY)]
    text = (
        f'nodes:\n  main: {{listen: "127.0.0.1:{port}", store: memory, sys_interval: 0}}\nclients:\n{"".join(clients)}'
    )
    if number != NOAC:
        with (folder / "access.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(("subject", "topics", "except", "may", "when"))
            writer.writerows(policies(deployment, number))
        text += "access: {files: access.csv}\n"
    path = folder / "domain.yaml"
    path.write_text(text)
    return path


def _edges(deployment: Deployment) -> list[str]:
    return [f"E{edge}" for edge in range(deployment.edges)]
