"""Structured logs on standard error: one line, or one JSON object, for each record."""

import atexit
import json
import logging
import re
import sys
import time
from collections.abc import MutableMapping
from logging.handlers import QueueHandler, QueueListener
from queue import SimpleQueue
from typing import Any

MAX_VALUE = 256
"""Characters of a value that are logged; clients choose their ids and topics."""
MAX_WAITING = 10_000
"""Records that wait to be written before new ones are dropped."""

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def _details(record: logging.LogRecord) -> dict[str, object]:
    return {key: _cut(value) for key, value in vars(record).items() if key not in _STANDARD and value is not None}


def _cut(value: object) -> object:
    return f"{value[:MAX_VALUE]}…" if isinstance(value, str) and len(value) > MAX_VALUE else value


def _timestamp(record: logging.LogRecord) -> str:
    moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    return f"{moment}.{int(record.msecs):03d}Z"


class NodeLog(logging.LoggerAdapter[logging.Logger]):
    """The log of one node: each record names the node, since a process may run several."""

    def __init__(self, node: str) -> None:
        super().__init__(logging.getLogger("penstock.node"))
        self._node = node

    def process(self, msg: object, kwargs: MutableMapping[str, Any]) -> tuple[object, MutableMapping[str, Any]]:
        kwargs["extra"] = {"node": self._node, **(kwargs.get("extra") or {})}
        return msg, kwargs


class TextFormatter(logging.Formatter):
    """`time level logger: message key=value ...`; text with blanks is quoted, so that a record stays one line."""

    def format(self, record: logging.LogRecord) -> str:
        details = "".join(f" {key}={_quoted(value)}" for key, value in _details(record).items())
        line = f"{_timestamp(record)} {record.levelname.lower():7} {record.name}: {record.getMessage()}{details}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


class JsonFormatter(logging.Formatter):
    """One JSON object per record."""

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, object] = {
            "time": _timestamp(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_details(record),
        }
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        text = json.dumps(entry, default=str, ensure_ascii=False)
        return text if text.isprintable() else _UNPRINTABLE.sub(lambda found: json.dumps(found[0])[1:-1], text)


def _quoted(value: object) -> str:
    text = str(value)
    return text if text and text.isprintable() and " " not in text and '"' not in text else json.dumps(text)


_UNPRINTABLE = re.compile("[\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]+")
"""Beside what JSON must escape: what a terminal may act on, or shows as nothing or in another order."""


class _Handover(QueueHandler):
    """Hands records to the writing thread, so that a reader of our standard error that stops does not stop the node."""

    def __init__(self, records: "SimpleQueue[logging.LogRecord]") -> None:
        super().__init__(records)
        self.records = records
        self.lost = 0

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        """Return the record with the exception's text; the writer formats the rest."""
        return record

    def enqueue(self, record: logging.LogRecord) -> None:
        if self.records.qsize() >= MAX_WAITING:
            self.lost += 1
            return
        if self.lost:
            lost, self.lost = self.lost, 0
            extra = {"msg": f"{lost} log records were dropped: nobody reads them", "levelno": logging.WARNING}
            self.records.put_nowait(logging.makeLogRecord({"name": "penstock.log", "levelname": "WARNING", **extra}))
        self.records.put_nowait(record)


def configure(level: str, form: str) -> None:
    """Set up logging for the process."""
    writer = logging.StreamHandler(sys.stderr)
    writer.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    records: SimpleQueue[logging.LogRecord] = SimpleQueue()
    listener = QueueListener(records, writer)
    root = logging.getLogger("penstock")
    root.handlers = [_Handover(records)]
    root.setLevel(level.upper())
    root.propagate = False
    listener.start()
    atexit.register(listener.stop)
