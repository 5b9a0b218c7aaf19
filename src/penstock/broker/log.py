"""Structured logs on standard error: one line, or one JSON object, for each record."""

import json
import logging
import sys
import time

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def _details(record: logging.LogRecord) -> dict[str, object]:
    return {key: value for key, value in vars(record).items() if key not in _STANDARD and value is not None}


def _timestamp(record: logging.LogRecord) -> str:
    moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    return f"{moment}.{int(record.msecs):03d}Z"


class TextFormatter(logging.Formatter):
    """`time level logger: message key=value ...`; text with blanks is quoted, so that a line stays one line."""

    def format(self, record: logging.LogRecord) -> str:
        details = "".join(f" {key}={_quoted(value)}" for key, value in _details(record).items())
        line = f"{_timestamp(record)} {record.levelname.lower():7} {record.name}: {record.getMessage()}{details}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


class JsonFormatter(logging.Formatter):
    """One JSON object a record."""

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
        return json.dumps(entry, default=str, ensure_ascii=False)


def _quoted(value: object) -> str:
    text = str(value)
    return text if text and text.isprintable() and " " not in text and '"' not in text else json.dumps(text)


def configure(level: str, form: str) -> None:
    """Set up logging for the process."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    root = logging.getLogger("penstock")
    root.handlers = [handler]
    root.setLevel(level.upper())
    root.propagate = False
