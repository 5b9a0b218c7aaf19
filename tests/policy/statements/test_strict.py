"""StrictMatch compares leaf paths, in every format; conflicts are between paths and their parts, attached or not."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.content.content import Content, Format
from penstock.model.event import Event
from penstock.policy.statements.copies import PublicationCopy
from penstock.policy.statements.elements.element import ElementError
from penstock.policy.statements.judging import ATTACHED
from tests.engine.statements.test_entrances import rule
from tests.engine.statements.test_paper import got, join, play, say

BLOCK = rule("If {StrictMatch()} Then {BlockMessage()}")


def leaves(payload: bytes, format: Format) -> set[str]:
    copy = PublicationCopy(Event("t", payload), Content(payload, format))
    return {".".join(path) for path in copy.leaves()}


@pytest.mark.parametrize(
    ("payload", "format", "expected"),
    [
        (b'{"pos":{"x":1,"y":{"z":2}},"a":3}', Format.JSON, {"pos.x", "pos.y.z", "a"}),
        (b'{"all":[{"x":1},{"y":2}],"some":[1,2]}', Format.JSON, {"all.x", "all.y", "some"}),
        (b'{"none":[],"empty":{},"mixed":[1,{"x":1}]}', Format.JSON, {"none", "empty", "mixed", "mixed.x"}),
        (b"<event><pos><x>1</x></pos><a>2</a></event>", Format.XML, {"event.pos.x", "event.a"}),
        (b"<event>text</event>", Format.XML, {"event"}),
    ],
)
def test_leaves(payload: bytes, format: Format, expected: set[str]) -> None:
    assert leaves(payload, format) == expected


def metric(name: str | None, alias: int | None = None) -> bytes:
    """A metric of Sparkplug: an Int32 of value 1."""
    named = b"" if name is None else b"\x0a" + bytes([len(name)]) + name.encode()
    fields = named + (b"" if alias is None else b"\x10" + bytes([alias])) + b"\x20\x03\x50\x01"
    return b"\x12" + bytes([len(fields)]) + fields


def test_leaves_of_sparkplug_are_metrics_and_aliases_do_not_count() -> None:
    assert leaves(metric("a/b", 7) + metric("c"), Format.SPARKPLUG) == {"metrics.a/b", "metrics.c"}
    with pytest.raises(ElementError, match="only an alias"):
        leaves(metric("c") + metric(None, 7), Format.SPARKPLUG)


@pytest.mark.parametrize(
    ("content", "is_strict"),
    [
        ({"pos": {"x": 1, "y": 2}}, True),
        ({"pos": {"x": 1, "y": 2, "z": 3}}, False),
        ({"pos": {"x": 1, "y": 2}, "a": 1}, False),
    ],
)
def test_a_nested_publication_strictly_matches_if_its_leaves_are_those_of_the_filter(
    content: dict[str, Any], is_strict: bool
) -> None:
    rehearsal = play()
    join(rehearsal, p="n0", s="n0")
    rehearsal.subscribe("s", "t", where="pos.x > 0 && pos['y'] > 0", policy=BLOCK)
    say(rehearsal, "p", content)
    assert got(rehearsal, "s") == ([] if is_strict else [content])


def _flat(value: Any, path: tuple[str, ...]) -> set[tuple[str, ...]]:
    """The oracle: leaves of objects in objects."""
    if isinstance(value, dict) and value:
        return {leaf for name, inner in value.items() for leaf in _flat(inner, (*path, name))}
    return {path}


trees = st.recursive(
    st.integers(0, 3), lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3), max_leaves=8
)


@given(st.dictionaries(st.sampled_from("abc"), trees, min_size=1))
def test_leaves_of_random_objects(content: dict[str, Any]) -> None:
    assert leaves(json.dumps(content).encode(), Format.JSON) == {".".join(path) for path in _flat(content, ())}


# --- conflicts


@pytest.mark.parametrize(
    ("first", "second", "told"),
    [
        ("RemoveAttributes(pos)", "KeepOnlyAttributes(pos.x)", f"says remove `pos`, `{ATTACHED}` says keep `pos.x`"),
        ("RemoveAttributes(pos.x)", "KeepOnlyAttributes(pos)", f"says remove `pos.x`, `{ATTACHED}` says keep `pos`"),
        ("RemoveAttributes(pos)", "KeepOnlyAttributes(pos)", "says remove, `attached policy` says keep"),
        ("ToXML()", "ToJSON()", "says XML, `attached policy` says JSON"),
        ("RemoveAttributes(pos.x)", "KeepOnlyAttributes(pos.y)", ""),
        ("RemoveAttributes(pos)", "RemoveAttributes(pos.x)", ""),
    ],
)  # fmt: skip
def test_conflicts_between_attached_policies_and_between_a_path_and_its_parts(
    first: str, second: str, told: str
) -> None:
    policies = {"one": rule(f"If {{}} Then {{{first}}}"), "two": rule(f"If {{}} Then {{{second}}}")}
    apply = [{"policy": name, "to": "publication", "of": "p"} for name in policies]
    rehearsal = play(2, statements={"policies": policies, "apply": apply})
    join(rehearsal, p="n0", s="n1", officer="n1")
    rehearsal.subscribe("officer", "$penstock/meta/PolicyConflict")
    rehearsal.subscribe("s", "t")
    rehearsal.run()
    say(rehearsal, "p", {"pos": {"x": 1, "y": 2}, "a": 3})
    reasons = [one["reason"] for one in got(rehearsal, "officer")]
    here = told.replace("attached policy", "two")
    assert set(reasons) == ({f"`one` {here}", f"`attached policy` {told}"} if told else set())
