"""YAML as plain values, within bounds: no aliases, no name twice. Words without quotes are as in the domain file."""

import re
from collections.abc import Iterator
from typing import Any

import yaml
from yaml.events import AliasEvent, Event, MappingStartEvent, NodeEvent, ScalarEvent, SequenceStartEvent

from penstock.policy.xacml.limits import MOST_DEPTH, MOST_POLICY_BYTES
from penstock.policy.xacml.status import XacmlError

_WORDS = {"": None, "~": None, "null": None, "true": True, "false": False}
_INTEGER = re.compile(r"[-+]?[0-9]{1,40}", re.ASCII)
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?", re.ASCII)
_END = "end"


def read_yaml(data: bytes) -> Any:
    """What a YAML text says; raises `XacmlError`."""
    if len(data) > MOST_POLICY_BYTES:
        raise XacmlError(f"more than {MOST_POLICY_BYTES} bytes of YAML")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        text = data.decode("utf-8-sig")
        events = (event for event in yaml.parse(text, Loader=loader) if isinstance(event, NodeEvent) or _ends(event))
        found = _value(next(events, None), events, 0)
        if next(events, None) is not None:
            raise XacmlError("not one YAML document")
        return found
    except UnicodeDecodeError:
        raise XacmlError("not UTF-8 text") from None
    except yaml.YAMLError as error:
        said = " ".join(str(error).split())
        raise XacmlError(f"not YAML: {said}") from None


def _line(event: Event) -> int:
    return event.start_mark.line + 1 if event.start_mark is not None else 0


def _ends(event: Event) -> bool:
    return isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent)


def _value(event: Event | None, events: Iterator[Event], depth: int) -> Any:
    if event is None:
        raise XacmlError("nothing is written here")
    line = _line(event)
    if isinstance(event, AliasEvent) or getattr(event, "anchor", None) is not None:
        raise XacmlError(f"line {line}: anchors and aliases are not read here")
    if depth > MOST_DEPTH:
        raise XacmlError(f"line {line}: more than {MOST_DEPTH} values inside each other")
    match event:
        case ScalarEvent():
            return event.value if event.style else _word(event.value)
        case SequenceStartEvent():
            return list(_items(events, depth))
        case MappingStartEvent():
            return _mapping(events, depth)
    raise XacmlError(f"line {line}: this is not read here")


def _items(events: Iterator[Event], depth: int) -> Iterator[Any]:
    while not _ends(event := next(events)):
        yield _value(event, events, depth + 1)


def _mapping(events: Iterator[Event], depth: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    while not _ends(event := next(events)):
        line = _line(event)
        if not isinstance(event, ScalarEvent):
            raise XacmlError(f"line {line}: a name is a text")
        if event.value in found:
            raise XacmlError(f"line {line}: `{event.value}` is there twice")
        found[event.value] = _value(next(events), events, depth + 1)
    return found


def _word(text: str) -> Any:
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text
