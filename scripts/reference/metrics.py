"""The metrics of a node, from one that has all of them."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

from prometheus_client.core import Metric

from penstock.broker.observe.metrics import NodeCollector
from penstock.broker.server import Server
from penstock.domain import ensemble, load
from penstock.engine.trust.keys import hold
from penstock.policy.tokens.keys import KeySet, PublicKey, SigningKey
from scripts.reference.markdown import code, heading, plain, table

_DOMAIN = """\
domain: all
nodes:
  here: {listen: 127.0.0.1:1883, store: memory, signing_key: here.pem}
  there: {listen: 127.0.0.1:1884, store: memory, signing_key: there.pem}
links:
  - {between: [here, there]}
tokens: {keys: keys.json}
trust: {rule: path}
journal: {folder: journal}
"""
_INTRODUCTION = """\
What a node with an `admin` address tells Prometheus at `/metrics`. [Running nodes](../running.md#metrics-and-health)
says more. Those of the journal, of tokens and of trust are there in domains that have them.

"""


def _labels(metric: Metric) -> tuple[str, ...]:
    """The library has no public name for it."""
    return tuple(getattr(metric, "_labelnames", ()))


def page() -> str:
    rows = [
        (
            code(_name(family)),
            family.type,
            ", ".join(code(label) for label in _labels(family)),
            plain(family.documentation),
        )
        for family in _collected()
    ]
    return (
        heading("Metrics", "`penstock.broker.observe.metrics`")
        + _INTRODUCTION
        + table(("metric", "type", "labels", "what"), rows)
    )


def _name(metric: Metric) -> str:
    return f"{metric.name}_total" if metric.type == "counter" else metric.name


def _collected() -> Iterator[Metric]:
    with tempfile.TemporaryDirectory() as name:
        folder, keys = Path(name), {node: SigningKey.generate() for node in ("here", "there")}
        (folder / "domain.yaml").write_text(_DOMAIN, encoding="utf-8")
        for node, key in keys.items():
            key.write(folder / f"{node}.pem")
        KeySet.of(PublicKey(node, key.public) for node, key in keys.items()).write(folder / "keys.json")
        domain = load(folder / "domain.yaml", {})
        server = Server("here", domain.nodes["here"], ensemble(domain, folder))
        assert domain.journal is not None
        server.keep_journal(domain.journal, domain.domain)
        hold(server.node, server.node.trust.keys, now=0.0)
        yield from NodeCollector(server).collect()
