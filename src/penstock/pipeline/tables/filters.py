"""Topic filters over columns of topics."""

import re

from pyspark.sql import Column


def is_on(filter: str, topic: Column) -> Column:
    """Return whether a topic matches a plain filter."""
    return topic.rlike(_pattern(filter))


def _pattern(filter: str) -> str:
    *levels, last = filter.split("/")
    parts = [_level(level) for level in (*levels, *(() if last == "#" else (last,)))]
    rest = "" if last != "#" else "(/.*)?" if levels else ".*"
    # A wildcard in the first place does not match what begins with `$`. [MQTT-4.7.2-1]
    barred = "(?!\\$)" if filter[0] in "+#" else ""
    return f"(?s)\\A{barred}{'/'.join(parts)}{rest}\\z"


def _level(level: str) -> str:
    return "[^/]*" if level == "+" else re.sub(r"[^\w\s]", lambda match: "\\" + match[0], level, flags=re.ASCII)
