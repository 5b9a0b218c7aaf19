"""The node's counters as Prometheus metrics, read when they are scraped."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from penstock.broker.server import Server

Family = type[CounterMetricFamily] | type[GaugeMetricFamily]


class NodeCollector(Collector):
    """Collects the engine's own counters; nothing is counted twice."""

    def __init__(self, server: "Server") -> None:
        self._server = server

    def collect(self) -> Iterator[Metric]:
        node = self._server.node
        stats = node.stats
        counters = {
            "packets_received": (stats.packets_received, "control packets received"),
            "packets_sent": (stats.packets_sent, "control packets sent"),
            "bytes_received": (stats.bytes_received, "bytes received"),
            "bytes_sent": (stats.bytes_sent, "bytes sent"),
            "publications_received": (stats.received, "publications received"),
            "publications_sent": (stats.sent, "publications sent"),
            "publications_dropped": (stats.dropped, "publications dropped: full queue or slow consumer"),
            "publications_expired": (stats.expired, "publications that expired in a queue"),
            "denied": (stats.denied, "publications and subscriptions refused by policy"),
            "monitor_errors": (stats.monitor_errors, "times that a monitor failed"),
            "connects": (stats.connections_total, "CONNECT packets received"),
            "connections_refused": (stats.connections_refused, "connections and CONNECT packets refused"),
        }
        journal = self._server.journal
        if journal is not None:
            counters["journal_rows"] = (journal.rows, "rows written to the journal")
            counters["journal_rows_lost"] = (journal.lost, "rows that could not be written to the journal")
        for name, (value, text) in counters.items():
            yield self._metric(CounterMetricFamily, name, text, value)
        sessions = node.sessions.values()
        gauges = {
            "connections": (node.sessions.connected, "clients connected"),
            "sessions": (len(node.sessions), "sessions, connected or not"),
            "subscriptions": (len(node.subscriptions.index), "filters subscribed to"),
            "retained_messages": (len(node.retained), "retained messages"),
            "queued_messages": (sum(s.outbox.waiting() for s in sessions), "messages waiting for a session"),
            "inflight_messages": (sum(len(s.outbox.inflight) for s in sessions), "messages sent and not acknowledged"),
            "plans": (len(node.plans.routes), "topics with a compiled plan"),
            "store_healthy": (int(self._server.commits.healthy), "1 while the store can be written"),
        }
        if journal is not None:
            gauges["journal_healthy"] = (int(not journal.failing), "1 while the journal can be written")
        for name, (number, text) in gauges.items():
            yield self._metric(GaugeMetricFamily, name, text, number)
        if node.trust.tokens is not None:
            yield from self._tokens()

    def _metric(self, kind: Family, name: str, text: str, value: float) -> Metric:
        metric = kind(f"penstock_{name}", text, labels=["node"])
        metric.add_metric([self._server.node.name], value)
        return metric

    def _tokens(self) -> Iterator[Metric]:
        """Yield the metrics of a domain with tokens, and with trust those of neighbours."""
        node = self._server.node
        assert node.trust.tokens is not None
        known = len(node.trust.tokens.known)
        yield self._metric(GaugeMetricFamily, "tokens_known", "tokens at hand for neighbours", known)
        yield self._metric(CounterMetricFamily, "tokens_refused", "tokens refused", node.stats.tokens_refused)
        if node.trust.ratings is None:
            return
        about, now = ["node", "neighbour"], self._server.now()
        rating = GaugeMetricFamily("penstock_trust_rating", "how far a neighbour is trusted, 0 to 1", labels=about)
        for name in node.federation.rated:
            rating.add_metric([node.name, name], node.trust.ratings.rating(name, now))
        yield rating
        labels = [*about, "source", "good"]
        evidence = CounterMetricFamily("penstock_trust_evidence", "evidence about a neighbour", labels=labels)
        for (name, source, is_good), count in node.trust.ratings.counts.items():
            evidence.add_metric([node.name, name, source, str(is_good).lower()], count)
        yield evidence


def make_registry(server: "Server") -> CollectorRegistry:
    """Return a registry for one node, so that several can run in one process."""
    registry = CollectorRegistry()
    registry.register(NodeCollector(server))
    return registry
