"""Notices of a node for operators: in its log and, for audited ones, in the audit."""

import logging
from collections.abc import Callable, Iterable

from penstock.broker.observe.log import NodeLog
from penstock.broker.observe.log_limit import LogLimit
from penstock.engine.contracts import situation_audit
from penstock.engine.node import Notice
from penstock.engine.statements.review import DROPPED
from penstock.engine.trust.keys import UNUSED_KEY
from penstock.engine.trust.state import NOT_PROVEN

_AUDITED = (situation_audit.OPENED, situation_audit.ENDED, situation_audit.REFUSED)
_FAILURES = ("monitor failed", "full", "slow", "too long to tell", "policy failed", "policy loop")
_WARNINGS = (*_FAILURES, NOT_PROVEN, UNUSED_KEY, DROPPED, *_AUDITED)
"""Notices that an operator should act on; refusals are what policies are for."""


class Reporting:
    """Reports the notices of one node."""

    def __init__(self, log: NodeLog) -> None:
        self.audits: Callable[[Notice], None] | None = None
        """Callbacks that keep audited notices, beside the log."""
        self._log = log
        self._limit = LogLimit()

    def report(self, notices: Iterable[Notice]) -> None:
        """Log notices, up to a limit of similar ones."""
        for notice in notices:
            kind, client, user, topic, reason = notice
            if kind in _AUDITED and self.audits is not None:
                self.audits(notice)
            level = logging.WARNING if kind in _WARNINGS else logging.INFO
            if level == logging.INFO and not self._limit.allows(kind, client):
                continue
            extra = {"client": client, "user": user, "topic": topic or None, "reason": reason}
            self._log.log(level, kind, extra=extra)

    def tick(self, now: float) -> None:
        """Log how many notices were not logged."""
        for kind, client, count in self._limit.left_out(now):
            self._log.info(f"{kind}: {count} more that were not logged", extra={"client": client})
