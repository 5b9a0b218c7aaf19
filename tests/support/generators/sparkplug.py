"""Random Sparkplug traffic: edge nodes that change what aliases mean with each birth, whether it is taken or not.

Each value is the name of its metric, so that a reader, or a test, can tell if it is taken for another.
"""

import random
from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.support.memory.sparkplug import encode

NAMES = ("a", "b", "secret", "secret/2")
FORBIDDEN = "forbidden"
"""A metric that its publisher's policy does not let it write: a birth with it is refused."""
UNADVERTISED = 99
"""The `timestamp` of what is not as advertised."""


class Said(NamedTuple):
    """A message of an edge node, or of a client that is not that edge node."""

    topic: str
    payload: bytes
    qos: int
    is_intruder: bool = False


def traffic(draw: random.Random, count: int) -> Iterator[Said]:
    """Yield what edge node `G1/E1` and its device `d` say: births that are taken or refused, reports, deaths."""
    aliases: dict[str, dict[str, int]] = {"N": {}, "D": {}}
    for number in range(count):
        level = draw.choice("NND")
        kind = draw.choice(["BIRTH"] * 3 + ["DATA"] * 12 + ["DEATH"]) if number else "BIRTH"
        topic = f"spBv1.0/G1/{level}{kind}/E1" + ("/d" if level == "D" else "")
        message: dict[str, Any] = {"timestamp": 1, "seq": 0 if level + kind == "NBIRTH" else number % 256}
        is_intruder = False
        if kind == "BIRTH":
            is_intruder = draw.random() < 0.1
            numbers = dict(zip(NAMES, draw.sample(range(len(NAMES)), len(NAMES)), strict=True))
            message["metrics"] = [_metric(metric, numbers[metric], True) for metric in NAMES]
            _spoil(draw, message)
            if not is_intruder:
                aliases[level] = numbers
        elif kind == "DATA":
            metrics = draw.sample(NAMES, draw.randrange(1, 4))
            message["metrics"] = [_metric(each, aliases[level].get(each), draw.random() < 0.2) for each in metrics]
        yield Said(topic, encode(message), draw.randrange(2), is_intruder)


def _metric(name: str, alias: int | None, is_named: bool) -> dict[str, Any]:
    metric: dict[str, Any] = {"string_value": name, "datatype": 12}
    if alias is not None:
        metric["alias"] = alias
    return {**metric, "name": name} if is_named or alias is None else metric


def _spoil(draw: random.Random, message: dict[str, Any]) -> None:
    """Now and then, make a birth one that is refused."""
    match draw.randrange(6):
        case 0:
            message["metrics"].append({"name": FORBIDDEN, "string_value": FORBIDDEN})
        case 1:
            message["metrics"].append({"alias": 77, "string_value": "malformed"})
        case 2:
            message["timestamp"] = UNADVERTISED
