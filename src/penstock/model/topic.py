"""Topic names, topic filters, and the algebra of filters.

A topic is text that names one matter; a filter names a set of topics. The algebra (`matches`, `covers`,
`overlaps`, `intersection`) is on plain filters, that is on `Filter.filter`, never on the text of a shared
subscription. Its arguments must have been checked. It is exact but for one thing: it does not know that a
topic has at most 65,535 bytes.
"""

from dataclasses import dataclass

from .errors import TopicError

MAX_BYTES = 65_535
"""The longest topic or filter, as UTF-8: its length is sent as two bytes. [MQTT-4.7.3-3]"""

_SHARE = "$share/"
_SHOWN = 80


@dataclass(frozen=True, slots=True)
class Filter:
    """A topic filter as a client sends it, taken apart. Made by `parse_filter`."""

    text: str
    """The whole, with `$share/GROUP/` if it is a shared subscription."""
    group: str | None
    """The group of a shared subscription."""
    filter: str
    """The part that matches topics."""

    @property
    def levels(self) -> tuple[str, ...]:
        return tuple(self.filter.split("/"))

    @property
    def is_wild(self) -> bool:
        return is_wild(self.filter)

    @property
    def prefix(self) -> str:
        """The literal text before the first wildcard; the whole filter if there is none.

        Every topic that matches begins with it, but for one: `a/#`, whose prefix is `a/`, matches `a` too.
        """
        return self.filter.partition("#")[0].partition("+")[0]


def is_wild(filter: str) -> bool:
    """Return whether a plain filter has a wildcard; one that has none matches just the topic of the same text."""
    return "+" in filter or "#" in filter


def check_topic(text: str) -> str:
    """Return the topic name, or raise `TopicError`."""
    _check_text("topic", text)
    if is_wild(text):  # [MQTT-4.7.0-1], [MQTT-3.3.2-2]
        at = next(at for at, character in enumerate(text) if character in "+#")
        raise TopicError(f"wildcard `{text[at]}` at character {at + 1} of topic `{_show(text)}`")
    return text


def parse_filter(text: str) -> Filter:
    """Take a topic filter apart, or raise `TopicError`."""
    _check_text("topic filter", text)
    if not text.startswith(_SHARE):
        _check_wildcards(text, text)
        return Filter(text, None, text)
    group, slash, filter = text[len(_SHARE) :].partition("/")
    if not group:  # [MQTT-4.8.2-1]
        raise TopicError(f"no group name after `$share/` in topic filter `{_show(text)}`")
    if is_wild(group):  # [MQTT-4.8.2-2]
        raise TopicError(f"wildcard in group name `{_show(group)}` of topic filter `{_show(text)}`")
    if not slash or not filter:  # [MQTT-4.8.2-2]
        raise TopicError(f"no filter after group `{_show(group)}` in topic filter `{_show(text)}`")
    _check_wildcards(filter, text)
    return Filter(text, group, filter)


def matches(filter: str, topic: str) -> bool:
    """Return whether the filter matches the topic."""
    return covers(filter, topic)  # a topic, read as a filter, matches just itself


def covers(a: str, b: str) -> bool:
    """Return whether `a` matches every topic that `b` matches."""
    narrower = shape(b)
    return _meet(shape(a), narrower) == narrower


def overlaps(a: str, b: str) -> bool:
    """Return whether there is a topic that both match."""
    return _meet(shape(a), shape(b)) is not None


def intersection(a: str, b: str) -> tuple[str, ...]:
    """Return the filters that together match exactly the topics that both `a` and `b` match: none or one (`_meet`)."""
    meet = _meet(shape(a), shape(b))
    return () if meet is None else (_text(meet),)


# The shape of a filter: what it asks of its first levels (a name, or `+` for any), and whether it is open, so
# that more levels may follow. `a/#` matches its parent level `a` too (MQTT 5, 4.7.1.2), so it is ["a"], open.
# Filters that match the same topics have the same shape: `shape` settles the two cases where they would not.
Shape = tuple[list[str], bool]


def shape(filter: str) -> Shape:
    """Return what a plain filter asks of its levels, and whether more levels may follow."""
    levels = filter.split("/")
    if levels[-1] != "#":
        return levels, False
    levels.pop()
    if not levels:
        levels = ["+"]  # `#` is `+/#`: a topic has at least one level
    elif levels == [""]:
        levels = ["", "+"]  # `/#` is `/+/#`: its parent level would be the empty topic [MQTT-4.7.3-1]
    return levels, True


def _text(shape: Shape) -> str:
    levels, is_open = shape
    if not is_open:
        return "/".join(levels)
    if levels in (["+"], ["", "+"]):  # undo what `shape` spelled out
        levels = levels[:-1]
    return "/".join([*levels, "#"])


def _meet(a: Shape, b: Shape) -> Shape | None:
    """Return the shape that matches just what both match; None if that is nothing.

    One shape is always enough. What a shape asks of a level does not depend on other levels: one name, or any name (at
    the first level: any that does not begin with `$`). Two such demands on a level make one such demand, or cannot both
    be met; so do two demands on the number of levels: exactly n, or at least n.
    """
    (short, short_open), (long, long_open) = (a, b) if len(a[0]) <= len(b[0]) else (b, a)
    if len(short) < len(long) and not short_open:
        return None
    if short[0] != long[0] and (short[0].startswith("$") or long[0].startswith("$")):
        return None  # a wildcard at the first level does not match `$...` [MQTT-4.7.2-1]
    levels = long.copy()
    for at, level in enumerate(short):
        if levels[at] == "+":
            levels[at] = level
        elif level not in ("+", levels[at]):
            return None
    return levels, short_open and long_open


def _check_text(what: str, text: str) -> None:
    if not text:  # [MQTT-4.7.3-1]
        raise TopicError(f"{what} is empty")
    if "\0" in text:  # [MQTT-4.7.3-2]
        raise TopicError(f"U+0000 at character {text.index(chr(0)) + 1} of {what} `{_show(text)}`")
    try:
        length = len(text.encode())
    except UnicodeEncodeError as error:  # [MQTT-1.5.4-1]
        raise TopicError(f"surrogate at character {error.start + 1} of {what} `{_show(text)}`") from None
    if length > MAX_BYTES:  # [MQTT-4.7.3-3]
        raise TopicError(f"{what} has {length} bytes, more than {MAX_BYTES}: `{_show(text)}`")


def _check_wildcards(filter: str, text: str) -> None:
    if not is_wild(filter):
        return
    levels = filter.split("/")
    for number, level in enumerate(levels, 1):
        for wildcard in "+#":
            if wildcard in level and level != wildcard:  # [MQTT-4.7.1-1], [MQTT-4.7.1-2]
                raise TopicError(f"wildcard `{wildcard}` does not fill level {number} of topic filter `{_show(text)}`")
        if level == "#" and number < len(levels):  # [MQTT-4.7.1-1]
            raise TopicError(f"wildcard `#` at level {number}, not the last, of topic filter `{_show(text)}`")


def _show(text: str) -> str:
    """Return the text for a message: short, on one line, printable."""
    shown = repr(text[:_SHOWN])[1:-1]
    return shown if len(text) <= _SHOWN else f"{shown}..."
