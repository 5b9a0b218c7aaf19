"""Copies that policies change: what is taken out and put in, in which format it is in the end, and what is hidden."""

from collections.abc import Callable
from typing import NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.language.condition import make_condition
from penstock.model.content.content import Content, Format
from penstock.model.event import Event
from penstock.policy.statements.copies import FilterCopy, Path, PublicationCopy
from penstock.policy.statements.elements.element import ElementError
from penstock.policy.statements.redact import path_of
from tests.support.memory.sparkplug import encode

Do = Callable[[PublicationCopy], None]


def copy_of(payload: bytes, format: Format | None = None) -> PublicationCopy:
    return PublicationCopy(Event("t", payload), Content(payload, format))


def remove(*names: str) -> Do:
    return lambda copy: copy.remove({path_of(name) for name in names})


def keep(*names: str) -> Do:
    return lambda copy: copy.keep({path_of(name) for name in names})


def to(format: Format) -> Do:
    return lambda copy: copy.convert(format)


def put(name: str, value: object) -> Do:
    return lambda copy: copy.put(name, value)


XML, JSON = to(Format.XML), to(Format.JSON)


class Case(NamedTuple):
    payload: bytes
    does: tuple[Do, ...]
    left: bytes | str
    """A payload, or what is wrong."""


CASES = {
    # lists
    "of each object in a list": Case(
        b'{"p":[{"n":"A","x":1},{"n":"B"}],"n":1}', (remove("p.n"),), b'{"p":[{"x":1},{}],"n":1}'
    ),
    "of lists in lists' objects": Case(
        b'{"p":[{"q":[{"n":1},{"n":2,"m":3}]}]}', (remove("p.q.n"),), b'{"p":[{"q":[{},{"m":3}]}]}'
    ),
    "of a list with null": Case(b'{"p":[null,{"n":"B"}]}', (remove("p.n"),), b'{"p":[null,{}]}'),
    "of null": Case(b'{"p":null,"a":1}', (remove("p.n"),), b'{"p":null,"a":1}'),
    "of an empty list": Case(b'{"p":[]}', (remove("p.n"),), b'{"p":[]}'),
    "of what is not there": Case(b'{"a":1}', (remove("p.n"),), b'{"a":1}'),
    "of a text": Case(b'{"p":"Ada"}', (remove("p.n"),), "`p` is neither an object"),
    "of a number far inside": Case(b'{"p":{"q":7}}', (remove("p.q.n"),), "`q` is neither an object"),
    "of a list with a text": Case(b'{"p":[{"n":1},"Ada"]}', (remove("p.n"),), "`p` is neither an object"),
    "of a list of lists": Case(b'{"p":[[{"n":1}]]}', (remove("p.n"),), "`p` is neither an object"),
    "kept of each object in a list": Case(
        b'{"p":[{"n":"A","x":1},{"n":"B"},{"x":1}],"n":1}', (keep("p.n"),), b'{"p":[{"n":"A"},{"n":"B"},{}]}'
    ),
    "kept of texts": Case(b'{"p":"Ada","q":["Ada",{"n":1},null,[1]]}', (keep("p.n", "q.n"),), b'{"q":[{"n":1}]}'),
    "numbers stay as they are written": Case(
        b'{"p":[{"n":1,"x":12345678901234567890123.50}]}', (remove("p.n"),), b'{"p":[{"x":12345678901234567890123.50}]}'
    ),
    # XML
    "XML, each of several": Case(
        b"<e><p><n>A</n><x>1</x></p><p><n>B</n></p></e>", (remove("p.n"),), b"<e><p><x>1</x></p><p/></e>"
    ),
    "XML, the root": Case(b"<salary>5000</salary>", (remove("salary"),), "`salary` is the root"),
    "XML, the root and one inside": Case(b"<a><a>1</a>t</a>", (remove("a"),), "`a` is the root"),
    "XML, part of a text": Case(b"<e><p>Ada</p></e>", (remove("p.n"),), "`p` is a text"),
    "XML, part of the root that is a text": Case(b"<e>Ada</e>", (remove("n"),), "`e` is a text"),
    "XML, part of nothing": Case(b"<e><p/><q>1</q></e>", (remove("p.n", "r"),), b"<e><p/><q>1</q></e>"),
    "XML, an attribute": Case(b'<e><p n="1">A</p><p>B</p></e>', (remove("p.@n"),), b"<e><p>A</p><p>B</p></e>"),
    "XML, meant in two ways": Case(b"<p><p><n>1</n></p><n>2</n><x/></p>", (remove("p.n"),), b"<p><p/><x/></p>"),
    "XML, the text after it stays": Case(
        b"<e>a<n>1</n>b<x/>c<n>2</n>d<n>3</n></e>", (remove("n"),), b"<e>ab<x/>cd</e>"
    ),
    "XML, own text": Case(b"<e>a<n>1</n>b<x>2</x>c</e>", (remove("e.#text"),), b"<e><n>1</n><x>2</x></e>"),
    "XML, own text is not kept": Case(b"<e>a<n>1</n>b<x>2</x>c</e>", (keep("n"),), b"<e><n>1</n></e>"),
    "XML, own text is kept": Case(b"<e>a<n>1</n>b<x>2</x>c</e>", (keep("n", "#text"),), b"<e>a<n>1</n>bc</e>"),
    "XML, part of a text is kept": Case(
        b"<e><p>Ada</p><q><n>1</n></q></e>", (keep("p.n", "q.n"),), b"<e><q><n>1</n></q></e>"
    ),
    "XML, the root is kept": Case(b"<salary>5000</salary>", (keep("salary"),), b"<salary>5000</salary>"),
    "XML, one inside is kept": Case(b"<a><a>1</a><b>2</b>t</a>", (keep("a"),), b"<a><a>1</a></a>"),
    "XML, put in place of another": Case(b"<e><a>1</a>t<b/></e>", (put("a", 2),), b"<e>t<b/><a>2</a></e>"),
    # another format
    "as XML": Case(b'{"a":{"b":1}}', (XML,), b"<event><a><b>1</b></a></event>"),
    "as XML, then removed by its path": Case(
        b'{"a":{"b":1,"c":2}}', (XML, remove("a.b")), b"<event><a><c>2</c></a></event>"
    ),
    "an attribute `event`": Case(
        b'{"event":{"s":1,"c":2}}', (XML, remove("event.s")), b"<event><event><c>2</c></event></event>"
    ),
    "as JSON, then removed by its path": Case(b"<e><s>5</s><c>1</c></e>", (JSON, remove("e.s")), b'{"c":"1"}'),
    "as JSON, then kept by its path": Case(b"<e><s>5</s><c>1</c></e>", (JSON, keep("e.s")), b'{"s":"5"}'),
    "there and back": Case(b'{"a": 1}', (XML, JSON), b'{"a": 1}'),
    "as XML, then put": Case(b'{"a":1}', (XML, put("b", [1, 2])), b"<event><a>1</a><b>1</b><b>2</b></event>"),
    "as JSON, then put": Case(b"<e><a>1</a></e>", (JSON, put("b", 2)), b'{"a":"1","b":"2"}'),
    "as JSON what is JSON": Case(b'{"a": 1}', (JSON,), b'{"a": 1}'),
    "what XML has no name for": Case(b'{"a b":1}', (XML,), "`a b` or what it says cannot be written in XML"),
    "as XML, then put what it has no name for": Case(b'{"a":1}', (XML, put("a b", 1)), "`a b` or what"),
    "what XML has no name for, if it is removed first": Case(
        b'{"a b":1,"c":2}', (remove("a b"), XML), b"<event><c>2</c></event>"
    ),
    "no object as XML": Case(b"[1]", (XML,), "no object"),
    "a text as XML": Case(b"hello", (XML,), "the content is opaque"),
}


@pytest.mark.parametrize("title", CASES)
def test_what_is_left(title: str) -> None:
    payload, does, left = CASES[title]
    copy = copy_of(payload)
    *first, last = does
    for do in first:
        do(copy)
    if isinstance(left, bytes):
        last(copy)
        assert copy.payload == left
        assert copy.size() == len(left)
    else:
        before = copy.payload
        with pytest.raises(ElementError, match=left):
            last(copy)
        assert (copy.payload, bool(copy.hidden)) == (before, False)


def test_what_changes_after_a_conversion_is_in_it() -> None:
    copy = copy_of(b'{"a":1,"b":2,"c":3}')
    copy.convert(Format.XML)
    assert (copy.payload, copy.content_type) == (b"<event><a>1</a><b>2</b><c>3</c></event>", "application/xml")
    copy.remove({("a",)})
    assert copy.payload == b"<event><b>2</b><c>3</c></event>"
    assert copy.current() == {"b": 2, "c": 3}
    copy.put("c", 4)
    assert copy.get("c") == 4
    assert copy.payload == b"<event><b>2</b><c>4</c></event>"
    copy.convert(Format.JSON)
    assert (copy.payload, copy.content_type) == (b'{"b":2,"c":4}', None)
    assert copy.is_changed


def test_a_conversion_is_a_change_until_it_is_taken_back() -> None:
    copy = copy_of(b'{"a": 1}')
    copy.convert(Format.XML)
    assert copy.is_changed
    copy.convert(Format.JSON)
    assert not copy.is_changed


def test_after_something_else_was_written_there_are_the_attributes_of_that_format() -> None:
    copy = copy_of(b'{"a":1,"b":2}')
    copy.convert(Format.XML)
    copy.write(b"a=1;b=2", "text/csv")
    assert (copy.payload, copy.content_type) == (b"a=1;b=2", "text/csv")
    for do in (remove("a"), keep("a"), put("a", 1), XML, JSON):
        with pytest.raises(ElementError, match="the content is text"):
            do(copy)
    copy.write(b'{"a":1,"b":2}', "application/json")
    copy.remove({("a",)})
    assert (copy.payload, copy.content_type) == (b'{"b":2}', "application/json")


SPARKPLUG = encode({"metrics": [{"name": name, "datatype": 3, "int_value": 7} for name in ("T", "a.b")], "seq": 5})

LEFT_OF_SPARKPLUG = {
    "one": (remove("T"), {"a.b": 7}),
    "one with a dot": (remove("metrics.a.b"), {"T": 7}),
    "all": (remove("metrics"), {}),
    "all others": (keep("metrics.T"), {"T": 7}),
    "none": (keep("metrics"), {"T": 7, "a.b": 7}),
}


@pytest.mark.parametrize("title", LEFT_OF_SPARKPLUG)
def test_metrics_that_are_left(title: str) -> None:
    do, left = LEFT_OF_SPARKPLUG[title]
    copy = copy_of(SPARKPLUG, Format.SPARKPLUG)
    do(copy)
    assert copy.current() == {"metrics": left, "aliases": {}, "seq": 5}


HIDDEN = {
    "nothing": (b'{"a":1}', (XML,), "", "a"),
    "what is removed, what is in it and what it is in": (
        b'{"a":{"b":{"c":1}}}',
        (remove("a.b"),),
        "a a.b a.b.c",
        "a.x b",
    ),
    "what is not kept": (b'{"a":{"b":1},"c":1}', (keep("a.b"),), "a a.x c x", "a.b a.b.c"),
    "what is not kept each time": (b'{"a":1,"b":1}', (keep("a", "b"), keep("a.c", "b")), "a a.d c", "a.c b b.x"),
    "what is kept and removed": (b'{"a":{"b":1,"c":1}}', (keep("a"), remove("a.b")), "a a.b", "a.c"),
    "XML below the root": (b"<e><s>1</s><c/></e>", (remove("s"),), "e e.s e.s.x", "e.c s"),
    "XML from the root on": (b"<e><s>1</s><c/></e>", (remove("e.s"),), "e e.s", "e.c e.e.s"),
    "XML converted": (b"<e><s>1</s><c/></e>", (JSON, remove("s")), "e e.s", "e.c"),
    "XML kept": (b"<e><s>1</s><c/></e>", (keep("s"),), "e e.c", "e.s e.s.x"),
    "XML kept whole": (b"<s>1</s>", (keep("s"),), "x", "s"),
    "XML with the root's name inside": (b"<p><p><n>1</n></p><n/></p>", (remove("p.n"),), "p p.n p.p.n", "p.x p.p.x"),
    "XML with the root's name inside, kept": (b"<p><p>1</p><n/></p>", (keep("p"),), "p p.n", "p.p"),
    "Sparkplug": (SPARKPLUG, (remove("T"),), "metrics metrics.T", "T seq metrics.x"),
    "Sparkplug in full": (SPARKPLUG, (remove("metrics.T"),), "metrics metrics.T", "seq"),
    "Sparkplug, all": (SPARKPLUG, (remove("metrics"),), "metrics metrics.T", "seq"),
    "Sparkplug, kept": (SPARKPLUG, (keep("T"),), "metrics metrics.x aliases", "metrics.T seq timestamp"),
    "Sparkplug, a dot is part of the name": (SPARKPLUG, (keep("a.b"),), "metrics metrics.a.b", "seq"),
}


@pytest.mark.parametrize("title", HIDDEN)
def test_what_is_hidden_by_the_names_that_conditions_have(title: str) -> None:
    payload, does, hidden, seen = HIDDEN[title]
    copy = copy_of(payload, Format.SPARKPLUG if payload is SPARKPLUG else None)
    for do in does:
        do(copy)
    paths = [path_of(name) for name in (*hidden.split(), *seen.split())]
    assert [".".join(path) for path in paths if copy.hidden.has(path)] == hidden.split()
    assert bool(copy.hidden) is bool(hidden)


def test_what_is_hidden_of_a_filter() -> None:
    copy = FilterCopy("t/#", make_condition("a.b > 1 && c > 1 && d > 1"))
    assert not copy.hidden
    copy.remove({("a",)})
    assert (copy.text(), copy.hidden.has(("a", "b")), copy.hidden.has(("c",))) == (
        "t/# where c > 1 && d > 1",
        True,
        False,
    )
    copy.keep({("c",)})
    assert (copy.text(), copy.hidden.has(("c",)), copy.hidden.has(("d",)), bool(copy.hidden)) == (
        "t/# where c > 1",
        False,
        True,
        True,
    )


NAMES = st.sampled_from("abc")
PATHS = st.lists(NAMES, min_size=1, max_size=3).map(tuple)
OBJECTS = st.recursive(
    st.dictionaries(NAMES, st.integers(0, 9) | st.none(), max_size=3),
    lambda inner: st.dictionaries(NAMES, inner | st.lists(inner, max_size=2) | st.integers(0, 9), max_size=3),
    max_leaves=8,
)


def found(value: object, path: Path) -> list[object]:
    """All that is at a path, through lists."""
    if isinstance(value, list):
        return [one for item in value for one in found(item, path)]
    if not path:
        return [value]
    return found(value[path[0]], path[1:]) if isinstance(value, dict) and path[0] in value else []


@given(
    OBJECTS, st.lists(st.tuples(st.booleans(), st.sets(PATHS, min_size=1, max_size=3)), min_size=1, max_size=3), PATHS
)
def test_what_is_not_hidden_is_as_it_came_and_what_was_removed_is_gone(
    value: dict[str, object], steps: list[tuple[bool, set[Path]]], asked: Path
) -> None:
    copy = copy_of(msgspec.json.encode(value))
    removed: set[Path] = set()
    for keeping, paths in steps:
        try:
            (copy.keep if keeping else copy.remove)(paths)
        except ElementError:
            continue
        removed |= set() if keeping else paths
    left = msgspec.json.decode(copy.payload)
    assert all(not found(left, path) for path in removed)
    if not copy.hidden.has(asked):
        assert found(left, asked) == found(value, asked)
