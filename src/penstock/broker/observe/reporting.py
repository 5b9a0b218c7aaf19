"""What an operator should know: notices of a node, in its log and, where they are audited, in the audit."""

import logging
from collections.abc import Callable, Iterable

from penstock.broker.observe.log import NodeLog
from penstock.broker.observe.log_limit import Quiet
from penstock.engine.contracts import situation_audit
from penstock.engine.node import Notice
from penstock.engine.statements.review import DROPPED
from penstock.engine.trust.group_proofs import NOT_PROVEN
from penstock.engine.trust.keys import UNUSED_KEY

_AUDITED = (situation_audit.OPENED, situation_audit.ENDED, situation_audit.REFUSED)
_WARNINGS = (
    *(
        "monitor failed",
        "full",
        "slow",
        "too long to tell",
        NOT_PROVEN,
        UNUSED_KEY,
        "policy failed",
        "policy loop",
        DROPPED,
    ),
    *_AUDITED,
)
"""Notices of what an operator should do something about; refusals are what policies are for."""


class Reporting:
    """Of one node."""

    def __init__(self, log: NodeLog) -> None:
        self.audits: Callable[[Notice], None] | None = None
        """Who keeps what is audited, beside the log."""
        self._log = log
        self._quiet = Quiet()

    def report(self, notices: Iterable[Notice]) -> None:
        """Log notices, as far as there are not very many alike."""
        for notice in notices:
            kind, client, user, topic, reason = notice
            if kind in _AUDITED and self.audits is not None:
                self.audits(notice)
            level = logging.WARNING if kind in _WARNINGS else logging.INFO
            if level == logging.INFO and not self._quiet.lets(kind, client):
                continue
            extra = {"client": client, "user": user, "topic": topic or None, "reason": reason}
            self._log.log(level, kind, extra=extra)

    def tick(self, now: float) -> None:
        """Say how many there were that were not logged."""
        for kind, client, count in self._quiet.left_out(now):
            self._log.info(f"{kind}: {count} more that were not logged", extra={"client": client})
