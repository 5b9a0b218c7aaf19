"""Who logged in, who changed what, and which situations opened and ended: logged, appended to a file if the domain
names one, and the last of it told.
"""

import logging
import os
import time
from collections import deque
from typing import TYPE_CHECKING

import msgspec

from penstock.broker.api.endpoint import Asked, Endpoint
from penstock.engine.node import Notice

if TYPE_CHECKING:
    from penstock.broker.server import Server

MOST_KEPT = 1_000
MOST_REFUSED, REFUSED_SECONDS = 40, 10.0
"""Refusals that are told in so many seconds."""


class Audited(msgspec.Struct, frozen=True):
    """One thing that somebody did, or was not let do."""

    at: float
    node: str
    who: str
    how: str
    address: str
    what: str
    detail: str
    done: bool


class Audit:
    """What was done over the admin HTTP of the nodes of this process, and the situations of these nodes."""

    def __init__(self) -> None:
        self.kept: deque[Audited] = deque(maxlen=MOST_KEPT)
        self._refused: deque[float] = deque(maxlen=MOST_REFUSED)
        self.file: str | None = None

    def watch(self, server: "Server") -> None:
        """Keep what a node tells of situations from now on."""

        def audits(notice: Notice) -> None:
            who = notice.user or notice.client_id
            self.keep(server, Audited(time.time(), server.name, who, "MQTT", "", notice.kind, notice.reason, True))

        server.reporting.audits = audits

    def tell(self, server: "Server", one: Audited) -> None:
        """Log it, and keep it."""
        if not one.done and one.what == "log-in":
            if len(self._refused) == MOST_REFUSED and one.at - self._refused[0] < REFUSED_SECONDS:
                return  # who floods this with nonsense does not flood the log
            self._refused.append(one.at)
        extra = {"who": one.who, "how": one.how, "address": one.address, "detail": one.detail or None}
        server.log.log(logging.INFO if one.done else logging.WARNING, f"admin: {one.what}", extra=extra)
        self.keep(server, one)

    def keep(self, server: "Server", one: Audited) -> None:
        self.kept.append(one)
        if self.file is not None:
            try:
                handle = os.open(self.file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
                with os.fdopen(handle, "ab") as file:
                    file.write(msgspec.json.encode(one) + b"\n")
            except OSError as error:
                server.log.error("the audit file cannot be written", extra={"cause": str(error)})


def tell(asked: Asked, what: str, detail: str, is_done: bool) -> None:
    """Who asks has done something, or was not let."""
    who = asked.who
    told = Audited(time.time(), asked.server.name, who.name, who.how, asked.address, what, detail, is_done)
    asked.api.audit.tell(asked.server, told)


async def _audit(asked: Asked) -> list[Audited]:
    most = int(asked.number("limit", 200, MOST_KEPT))
    return list(asked.api.audit.kept)[-most:] if most else []


ENDPOINTS = (
    Endpoint(
        "GET",
        "/api/audit",
        "read",
        "who logged in, who changed what, which situations opened and ended: the last of it",
        list[Audited],
        _audit,
    ),
)
