"""The audit log: log-ins, changes and situations, in the log, in a file if the domain names one, and over the API."""

import logging
import os
import time
from collections import deque
from operator import attrgetter
from typing import TYPE_CHECKING

import msgspec

from penstock.broker.http.endpoint import ApiRequest, Endpoints
from penstock.engine.contracts.situation_audit import REFUSED
from penstock.engine.node import Notice

if TYPE_CHECKING:
    from penstock.broker.server import Server

ENDPOINTS = Endpoints()

MAX_KEPT = 1_000
MAX_REFUSED, REFUSED_SECONDS = 30, 60.0
"""Refusals of one caller that are logged in this period; others are counted."""
MAX_CALLERS = 100
"""Number of callers whose refusals are kept, apart from successful changes: refusals never displace these."""


class AuditEntry(msgspec.Struct, frozen=True):
    """One action, or one attempt that was refused."""

    at: float
    node: str
    who: str
    how: str
    address: str
    what: str
    detail: str
    done: bool
    left_out: int = 0
    """Refusals of the same caller before this one that were too many to log."""


class _Refusals:
    """The refusals of one caller."""

    def __init__(self) -> None:
        self.kept: deque[AuditEntry] = deque(maxlen=MAX_REFUSED)
        self.left_out = 0

    def take(self, entry: AuditEntry) -> AuditEntry | None:
        """Return the entry if it is to be logged."""
        if len(self.kept) == MAX_REFUSED and entry.at - self.kept[0].at < REFUSED_SECONDS:
            self.left_out += 1
            return None
        counted, self.left_out = msgspec.structs.replace(entry, left_out=self.left_out), 0
        self.kept.append(counted)
        return counted


class AuditLog:
    """Actions over the admin HTTP of the nodes of this process, and the situations of these nodes."""

    def __init__(self) -> None:
        self.kept: deque[AuditEntry] = deque(maxlen=MAX_KEPT)
        """The latest actions."""
        self._refused: dict[tuple[str, str], _Refusals] = {}
        self.file: str | None = None

    def watch(self, server: "Server") -> None:
        """Record what a node reports about situations from now on."""

        def audits(notice: Notice) -> None:
            user = notice.user or notice.client_id
            is_done = notice.kind != REFUSED
            entry = AuditEntry(time.time(), server.name, user, "MQTT", "", notice.kind, notice.reason, is_done)
            bounded = self._bounded(entry)
            if bounded is not None:
                self.append(server, bounded)

        server.reporting.audits = audits

    def _bounded(self, entry: AuditEntry) -> AuditEntry | None:
        """Return the entry, unless it is one refusal too many: bad requests do not flood the log and the file."""
        if entry.done:
            return entry
        asker = ("address", entry.address) if entry.what == "log-in" else (entry.how, entry.who)
        refusals = self._refused.pop(asker, None) or _Refusals()
        self._refused[asker] = refusals  # the latest are the last
        while len(self._refused) > MAX_CALLERS:
            del self._refused[next(iter(self._refused))]
        return refusals.take(entry)

    def record(self, server: "Server", entry: AuditEntry) -> None:
        """Log an entry, and keep it."""
        bounded = self._bounded(entry)
        if bounded is None:
            return
        entry = bounded
        extra: dict[str, object] = {"who": entry.who, "how": entry.how, "address": entry.address}
        extra |= {"detail": entry.detail or None, "left_out": entry.left_out or None}
        server.log.log(logging.INFO if entry.done else logging.WARNING, f"admin: {entry.what}", extra=extra)
        self.append(server, entry)

    def last(self, limit: int) -> list[AuditEntry]:
        """Return the latest actions and refusals, the latest last; refusals are half of it at most."""
        by_time = attrgetter("at")
        refused = sorted((entry for refusals in self._refused.values() for entry in refusals.kept), key=by_time)
        refused = refused[len(refused) - min(len(refused), limit // 2) :]
        done = list(self.kept)[max(0, len(self.kept) - limit + len(refused)) :]
        return sorted((*done, *refused), key=by_time)

    def append(self, server: "Server", entry: AuditEntry) -> None:
        if entry.done:
            self.kept.append(entry)
        if self.file is not None:
            try:
                handle = os.open(self.file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
                with os.fdopen(handle, "ab") as file:
                    file.write(msgspec.json.encode(entry) + b"\n")
            except OSError as error:
                server.log.error("the audit file cannot be written", extra={"cause": str(error)})


def record(request: ApiRequest, what: str, detail: str, is_done: bool) -> None:
    """Record that a caller has done something, or was refused."""
    server, (name, _, how) = request.server, request.caller
    entry = AuditEntry(time.time(), server.name, name, how, request.address, what, detail, is_done)
    request.api.audit.record(server, entry)


@ENDPOINTS.add("GET /api/audit", "read", "the latest log-ins, changes, and situations that opened and ended")
async def _audit(request: ApiRequest) -> list[AuditEntry]:
    return request.api.audit.last(int(request.number("limit", 200, MAX_KEPT)))
