"""`$SYS/broker/...`: the node's counters as retained messages, under the names that Mosquitto's users know."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from penstock import __version__
from penstock.engine.events import own_events

if TYPE_CHECKING:
    from penstock.broker.server import Server

_MINUTES = (1, 5, 15)
_JOURNAL = "penstock/journal"
_TRUST, _TOKENS = "penstock/trust", "penstock/tokens"
_OF_NODES = (f"{_TRUST}/", f"{_TOKENS}/")


class LoadAverage:
    """A moving average over some minutes, like a load average."""

    def __init__(self) -> None:
        self._last = 0
        self.averages = [0.0, 0.0, 0.0]

    def update(self, count: int, seconds: float) -> None:
        per_minute = (count - self._last) * 60 / seconds
        self._last = count
        for place, minutes in enumerate(_MINUTES):
            share = min(1.0, seconds / (minutes * 60))
            self.averages[place] += (per_minute - self.averages[place]) * share


class SysTopics:
    """Publishes the values that have changed since the last time."""

    def __init__(self, server: "Server") -> None:
        self._server = server
        self._due = 0.0
        self._last = 0.0
        self._published: dict[str, bytes] = {}
        self._most_connected = 0
        self._loads: dict[str, LoadAverage] = {}

    def tick(self, now: float) -> None:
        interval = self._server.settings.sys_interval
        self._most_connected = max(self._most_connected, self._server.node.sessions.connected)
        if not interval or now < self._due:
            return
        self._due = now + interval
        seconds, self._last = (now - self._last if self._last else interval), now
        values = (*self._values(now), *self._trust(now), *self._averages(max(seconds, 0.001)))
        for name, value in values:
            self._publish(name, value, now)
        present = dict(values)
        for name in [name for name in self._published if name.startswith(_OF_NODES) and name not in present]:
            self._publish(name, "", now)  # it has no value any more
            del self._published[name]

    def alarm(self, now: float) -> None:
        """Publish the state of the journal at once."""
        if self._server.settings.sys_interval and self._server.journal is not None:
            self._publish(_JOURNAL, self._server.journal.failing or "ok", now)

    def _publish(self, name: str, value: object, now: float) -> None:
        payload = str(value).encode()
        if self._published.get(name) != payload:
            self._published[name] = payload
            own_events.publish(self._server.node, f"$SYS/broker/{name}", payload, now, retain=True)

    def _counts(self) -> dict[str, int]:
        stats = self._server.node.stats
        return {
            "messages/received": stats.packets_received,
            "messages/sent": stats.packets_sent,
            "publish/received": stats.received,
            "publish/sent": stats.sent,
            "publish/dropped": stats.dropped,
            "bytes/received": stats.bytes_received,
            "bytes/sent": stats.bytes_sent,
            "connections": stats.connections_total,
        }

    def _values(self, now: float) -> Iterator[tuple[str, object]]:
        node = self._server.node
        sessions, connected = len(node.sessions), node.sessions.connected
        stats = node.stats
        yield "version", f"penstock version {__version__}"
        if self._server.journal is not None:
            yield _JOURNAL, self._server.journal.failing or "ok"
        yield "uptime", f"{int(now - self._server.started)} seconds"
        yield "clients/total", sessions
        yield "clients/connected", connected
        yield "clients/disconnected", sessions - connected
        yield "clients/maximum", self._most_connected
        yield "clients/active", connected
        yield "clients/inactive", sessions - connected
        yield "subscriptions/count", sum(len(session.subscriptions) for session in node.sessions.values())
        yield "shared_subscriptions/count", len(node.subscriptions.groups)
        yield "retained messages/count", len(node.retained)
        waiting = sum(s.outbox.waiting() + len(s.outbox.inflight) for s in node.sessions.values())
        yield "messages/stored", waiting + len(node.retained)
        yield "store/messages/count", waiting
        yield "store/messages/bytes", sum(s.outbox.queued_bytes for s in node.sessions.values())
        yield "messages/received", stats.packets_received
        yield "messages/sent", stats.packets_sent
        yield "publish/messages/received", stats.received
        yield "publish/messages/sent", stats.sent
        yield "publish/messages/dropped", stats.dropped
        yield "publish/messages/denied", stats.denied
        yield "bytes/received", stats.bytes_received
        yield "bytes/sent", stats.bytes_sent

    def _trust(self, now: float) -> Iterator[tuple[str, object]]:
        """Yield tokens and the ratings of neighbours, if the domain has any."""
        node = self._server.node
        if node.trust.tokens is not None:
            yield f"{_TOKENS}/known", len(node.trust.tokens.known)
            yield f"{_TOKENS}/refused", node.stats.tokens_refused
        if node.trust.ratings is not None:
            for name in node.federation.rated:
                evidence = node.trust.ratings.of(name, now).aged(node.trust.ratings.settings.weights, now)
                yield f"{_TRUST}/{name}/rating", f"{node.trust.ratings.rating(name, now):.6g}"
                yield f"{_TRUST}/{name}/good", f"{evidence.good:.6g}"
                yield f"{_TRUST}/{name}/bad", f"{evidence.bad:.6g}"

    def _averages(self, seconds: float) -> Iterator[tuple[str, object]]:
        for name, count in self._counts().items():
            load = self._loads.setdefault(name, LoadAverage())
            load.update(count, seconds)
            for minutes, average in zip(_MINUTES, load.averages, strict=True):
                yield f"load/{name}/{minutes}min", f"{average:.2f}"
