"""Templates of a monitor's outputs: text with holes that are filled from the triggering event.

`{topic}` is the event's topic, `{payload}` its payload (in payloads only), `{1}`, `{2}` ... what the wildcards of the
edge's filter matched, first one first; `{{` and `}}` are braces.
"""

import re
from dataclasses import dataclass

from penstock.model.errors import PolicyError, TopicError
from penstock.model.topic import check_topic, is_wild, parse_filter

TOPIC = 0
PAYLOAD = -1

Part = str | int
"""Literal text, or a hole: TOPIC, PAYLOAD, or the number of a wildcard."""
Captures = tuple[str | None, ...]
"""The match of each wildcard: None for a `#` that matched nothing, the parent level."""

_TOKEN = re.compile(r"\{\{|\}\}|\{(topic|payload|[1-9][0-9]?)\}|([{}])")
_NAMES = {"topic": TOPIC, "payload": PAYLOAD}


@dataclass(frozen=True, slots=True)
class Template:
    """A checked template. Made by `topic_template` or `payload_template`."""

    text: str
    parts: tuple[Part, ...]

    def topic(self, topic: str, captures: Captures) -> str:
        """Return the topic that the event's topic makes of it; raises `TopicError` if that is not a topic.

        Where `#` matched nothing, its hole goes away with the slash before it (or after it, at the start): `b/{1}`
        makes `b` of `a` on an edge `a/#`.
        """
        topic_made = self._fill(topic, captures)
        check_topic(topic_made)
        if topic_made.startswith("$") and first_level(topic_made) != self._own_first_level(topic):
            raise TopicError(f"`{topic_made}` is a `$` topic, which `{self.text}` does not say")
        return topic_made

    def payload(self, topic: str, payload: bytes, captures: Captures) -> bytes:
        """Return the payload that an event makes of it."""
        payload_made = bytearray()
        for part in self.parts:
            if part == PAYLOAD:
                payload_made += payload
            else:
                payload_made += self._text_of(part, topic, captures).encode()
        return bytes(payload_made)

    def covering(self, topic_filter: str, captures: Captures) -> str | None:
        """Return a filter that covers what `topic` makes of the topics that match the filter; None if it makes none.

        The captures are those of the filter itself: what stands at the places of the edge's wildcards.
        """
        levels: list[str] = []
        for level in self._fill(topic_filter, captures).split("/"):
            if level == "#":
                levels.append(level)
                break
            if "#" in level:  # text joins what `#` matches; if that is nothing, it joins the level before
                joins_before = level.startswith("#") and levels and not levels[-1].startswith("$")
                levels[-1 if joins_before else len(levels) :] = ["+", "#"]
                break
            levels.append("+" if "+" in level else level)
        if levels[0].startswith("$") and levels[0] != self._own_first_level(topic_filter):
            return None
        return "/".join(levels) or None

    def _fill(self, topic: str, captures: Captures) -> str:
        parts = _without_nothing(self.parts, captures) if None in captures else self.parts
        return "".join([self._text_of(part, topic, captures) for part in parts])

    @staticmethod
    def _text_of(part: Part, topic: str, captures: Captures) -> str:
        if isinstance(part, str):
            return part
        return topic if part == TOPIC else captures[part - 1] or ""

    def _own_first_level(self, topic: str) -> str | None:
        """Return the first level that it gives itself, literal or `{topic}`; None if a wildcard is part of it."""
        head = self.parts[0] if self.parts else ""
        if isinstance(head, int):
            return first_level(topic) if head == TOPIC else None
        return first_level(head) if "/" in head or len(self.parts) == 1 else None


def _without_nothing(parts: tuple[Part, ...], captures: Captures) -> list[Part]:
    """Return the parts without the holes of wildcards that matched nothing, each with a slash beside it."""
    kept: list[Part] = []
    drops_next = False
    for part in parts:
        if isinstance(part, int) and part > 0 and captures[part - 1] is None:
            drops_next = not kept
            if kept and isinstance(kept[-1], str):
                kept[-1:] = [text for text in (kept[-1].removesuffix("/"),) if text]
            continue
        if drops_next and isinstance(part, str):
            part = part.removeprefix("/")
        if part != "":
            kept.append(part)
            drops_next = False
    return kept


def topic_template(text: str, edge: str) -> Template:
    """Return the template of a topic on an edge of this filter (`*` for all others); raises `PolicyError`."""
    template = Template(text, _parse(text, edge))
    if PAYLOAD in template.parts:
        raise PolicyError(f"template `{text}`: a payload cannot be part of a topic")
    literal = "".join(part for part in template.parts if isinstance(part, str))
    if is_wild(literal):
        raise PolicyError(f"template `{text}`: a wildcard cannot be part of a topic; write `{{1}}` for what it matched")
    if literal.startswith("$") and template.parts[0] != TOPIC and template._own_first_level("") is None:
        raise PolicyError(f"template `{text}`: the first level of a `$` topic must be literal text")
    try:
        if literal or not template.parts:
            check_topic(literal)
        if edge != "*" and not is_wild(edge):
            template.topic(edge, ())
    except TopicError as error:
        raise PolicyError(f"template `{text}`: {error}") from None
    return template


def payload_template(text: str, edge: str) -> Template:
    """Return the template of a payload on an edge of this filter (`*` for all others); raises `PolicyError`."""
    return Template(text, _parse(text, edge))


def captures_of(edge: str, topic: str) -> Captures:
    """Return what the wildcards of an edge's filter match in a topic that it matches.

    The topic may be a filter that the edge covers; then it is what stands at the places of the wildcards.
    """
    if topic in ("#", "/#"):
        topic = topic.replace("#", "+/#")  # the same topics, with a level for each that they must have
    levels = topic.split("/")
    captures: list[str | None] = []
    for at, level in enumerate(edge.split("/")):
        if level == "+":
            captures.append(levels[at])
        elif level == "#":
            captures.append("/".join(levels[at:]) if len(levels) > at else None)
    return tuple(captures)


def first_level(topic: str) -> str:
    return topic.partition("/")[0]


def check_edge(text: str) -> str:
    """Return the name of an edge: `*`, or a plain topic filter; raises `PolicyError`."""
    if text == "*":
        return text
    try:
        filter = parse_filter(text)
    except TopicError as error:
        raise PolicyError(str(error)) from None
    if filter.group is not None:
        raise PolicyError(f"a shared subscription is not a topic filter here: `{text}`")
    return text


def _parse(text: str, edge: str) -> tuple[Part, ...]:
    wildcards = 0 if edge == "*" else sum(level in ("+", "#") for level in edge.split("/"))
    parts: list[Part] = []
    literal = ""
    end = 0
    for token in _TOKEN.finditer(text):
        literal += text[end : token.start()]
        end = token.end()
        if token[2]:
            raise PolicyError(
                f"template `{text}`: `{token[2]}` at character {token.start() + 1} opens or closes no hole "
                "(known: `{topic}`, `{payload}`, `{1}`, `{2}` ...; a brace itself is written twice)"
            )
        if not token[1]:
            literal += token[0][0]
            continue
        hole = _NAMES[token[1]] if token[1] in _NAMES else int(token[1])
        if hole > wildcards:
            count = f"{wildcards} wildcard{'' if wildcards == 1 else 's'}"
            raise PolicyError(f"template `{text}`: `{token[0]}`, but edge `{edge}` has {count}")
        if literal:
            parts.append(literal)
        parts.append(hole)
        literal = ""
    literal += text[end:]
    return (*parts, literal) if literal else tuple(parts)
