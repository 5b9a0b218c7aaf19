"""Who logged in, who changed what, and which situations opened and ended: logged, appended to a file if the domain
names one, and the last of it told.
"""

import logging
import os
import time
from collections import deque
from operator import attrgetter
from typing import TYPE_CHECKING

import msgspec

from penstock.broker.http.endpoint import Asked, Endpoint
from penstock.engine.contracts.situation_audit import REFUSED
from penstock.engine.node import Notice

if TYPE_CHECKING:
    from penstock.broker.server import Server

MOST_KEPT = 1_000
MOST_REFUSED, REFUSED_SECONDS = 30, 60.0
"""Refusals of one asker that are told in so many seconds; others are counted."""
MOST_ASKERS = 100
"""Whose refusals are kept, apart from what was done: no number of them takes the place of that."""


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
    left_out: int = 0
    """Refusals of the same asker before this one that were too many to tell."""


class _Refusals:
    """Those of one asker."""

    def __init__(self) -> None:
        self.kept: deque[Audited] = deque(maxlen=MOST_REFUSED)
        self.left_out = 0

    def take(self, one: Audited) -> Audited | None:
        """It, if it is to be told."""
        if len(self.kept) == MOST_REFUSED and one.at - self.kept[0].at < REFUSED_SECONDS:
            self.left_out += 1
            return None
        told, self.left_out = msgspec.structs.replace(one, left_out=self.left_out), 0
        self.kept.append(told)
        return told


class Audit:
    """What was done over the admin HTTP of the nodes of this process, and the situations of these nodes."""

    def __init__(self) -> None:
        self.kept: deque[Audited] = deque(maxlen=MOST_KEPT)
        """What was done."""
        self._refused: dict[tuple[str, str], _Refusals] = {}
        self.file: str | None = None

    def watch(self, server: "Server") -> None:
        """Keep what a node tells of situations from now on."""

        def audits(notice: Notice) -> None:
            who = notice.user or notice.client_id
            is_done = notice.kind != REFUSED
            one = Audited(time.time(), server.name, who, "MQTT", "", notice.kind, notice.reason, is_done)
            told = self._bounded(one)
            if told is not None:
                self.keep(server, told)

        server.reporting.audits = audits

    def _bounded(self, one: Audited) -> Audited | None:
        """It, unless it is one refusal too many: who floods this with nonsense does not flood log and file."""
        if one.done:
            return one
        asker = ("address", one.address) if one.what == "log-in" else (one.how, one.who)
        refusals = self._refused.pop(asker, None) or _Refusals()
        self._refused[asker] = refusals  # the latest are the last
        while len(self._refused) > MOST_ASKERS:
            del self._refused[next(iter(self._refused))]
        return refusals.take(one)

    def tell(self, server: "Server", one: Audited) -> None:
        """Log it, and keep it."""
        told = self._bounded(one)
        if told is None:
            return
        one = told
        extra: dict[str, object] = {
            "who": one.who,
            "how": one.how,
            "address": one.address,
            "detail": one.detail or None,
        }
        extra |= {"left_out": one.left_out} if one.left_out else {}
        server.log.log(logging.INFO if one.done else logging.WARNING, f"admin: {one.what}", extra=extra)
        self.keep(server, one)

    def last(self, most: int) -> list[Audited]:
        """What was done and refused, the latest last; refusals are half of it at most."""
        by_time = attrgetter("at")
        refused = sorted((one for each in self._refused.values() for one in each.kept), key=by_time)
        refused = refused[len(refused) - min(len(refused), most // 2) :]
        done = list(self.kept)[max(0, len(self.kept) - most + len(refused)) :]
        return sorted((*done, *refused), key=by_time)

    def keep(self, server: "Server", one: Audited) -> None:
        if one.done:
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
    return asked.api.audit.last(most)


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
