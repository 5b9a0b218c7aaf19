"""Views of random payloads, whole and damaged: nothing of an excluded metric is in them, all else is, byte for byte."""

import zlib
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.language.condition import make_condition
from penstock.model.errors import ContentError
from penstock.model.sparkplug.message import COMPRESSED, parse
from penstock.model.sparkplug.topic import MessageTopic, SparkplugSource
from penstock.policy.sparkplug.edge_nodes import Plant, PlantReader
from penstock.policy.sparkplug.policies import AccessPolicy, Grants
from penstock.policy.sparkplug.views import START, BirthRecord, ViewRequest, read_view
from tests.support.memory.sparkplug import PAYLOAD

SOURCE = SparkplugSource("G", "E")
NBIRTH, NDATA = MessageTopic("NBIRTH", SOURCE), MessageTopic("NDATA", SOURCE)
NAMES = [f"<name {letter}>" for letter in "abcdef"]
ALIASES = {name: number for number, name in enumerate(NAMES, start=1)}


def mark(name: str) -> str:
    """What stands in all that is said of a metric, and nowhere else."""
    return f"<value of {name}>"


# --- payloads

_varints = st.integers(0, 2**64 - 1)


def varint(number: int) -> bytes:
    made = bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*made, number))


def field(number: int, body: bytes) -> bytes:
    """A field with bytes in it."""
    return varint(number << 3 | 2) + varint(len(body)) + body


def unknown(text: str) -> st.SearchStrategy[bytes]:
    """Fields that no norm knows."""
    numbers = st.integers(30, 2000)
    return st.one_of(
        numbers.map(lambda number: field(number, text.encode())),
        st.builds(lambda number, value: varint(number << 3) + varint(value), numbers, _varints),
        numbers.map(lambda number: varint(number << 3 | 1) + bytes(8)),
        numbers.map(lambda number: varint(number << 3 | 5) + bytes(4)),
    )


@st.composite
def metrics(draw: st.DrawFn, name: str, ways: Sequence[str] = ("name", "alias", "both")) -> bytes:
    """One metric's fields, whatever they are; its mark is in all that can hold text."""
    made: Any = PAYLOAD().metrics.add()  # type: ignore[attr-defined]
    text = mark(name)
    way = draw(st.sampled_from(ways))
    if way != "alias":
        made.name = name
    if way != "name":
        made.alias = ALIASES[name]
    for flag in ("is_historical", "is_transient", "is_null"):
        if draw(st.booleans()):
            setattr(made, flag, draw(st.booleans()))
    if draw(st.booleans()):
        made.timestamp = draw(_varints)
    kind = draw(st.sampled_from(["int", "string", "bytes", "data set", "template", "none"]))
    made.datatype = {"int": 3, "string": 12, "bytes": 17, "data set": 16, "template": 19, "none": 12}[kind]
    if kind == "int":
        made.int_value = draw(st.integers(0, 2**32 - 1))
    elif kind == "string":
        made.string_value = text
    elif kind == "bytes":
        made.bytes_value = text.encode()
    elif kind == "data set":
        made.dataset_value.columns.append(text)
        made.dataset_value.types.append(12)
        made.dataset_value.rows.add().elements.add().string_value = text
    elif kind == "template":
        inside = made.template_value
        inside.template_ref = text
        for _ in range(draw(st.integers(0, 3))):
            inside.parameters.add(name=text, type=12, string_value=text)
            metric = inside.metrics.add(name=text, datatype=19)
            inside = metric.template_value
    if draw(st.booleans()):
        made.metadata.description = text
    if draw(st.booleans()):
        made.properties.keys.append(text)
        made.properties.values.add(type=12, string_value=text)
    parts = [made.SerializeToString(), *draw(st.lists(unknown(text), max_size=2))]
    return b"".join(draw(st.permutations(parts)))


@st.composite
def births(draw: st.DrawFn) -> bytes:
    return b"\x08\x01" + b"".join(field(2, draw(metrics(name, ("both",)))) for name in NAMES) + b"\x18\x00"


Part = tuple[str | None, bytes]
"""The name of the metric that a field of a payload is, if it is one; and its bytes."""


@st.composite
def reports(draw: st.DrawFn) -> list[Part]:
    named = draw(st.lists(st.sampled_from(NAMES), max_size=8))
    parts: list[Part] = [(name, field(2, draw(metrics(name)))) for name in named]
    parts += [(None, one) for one in draw(st.lists(unknown("<nobody's>"), max_size=2))]
    parts += draw(st.sampled_from([[], [(None, b"\x18\x05")], [(None, b"\x08\x07"), (None, b"\x18\x85\x00")]]))
    return list(draw(st.permutations(parts)))


exclusions = st.lists(st.sampled_from(NAMES), unique=True)


def grants(excluded: Sequence[str], when: str = "") -> Grants:
    condition = make_condition(when) if when else None
    return Grants([AccessPolicy("client:a", "spBv1.0/#", tuple(excluded), "read", condition, "p")])


def known(birth: bytes) -> BirthRecord:
    made = BirthRecord()
    made.born(parse(birth))
    return made


# --- properties


@given(births(), exclusions)
def test_a_birth_without_what_is_excluded(birth: bytes, excluded: list[str]) -> None:
    view, after = read_view(grants(excluded), ViewRequest(NBIRTH, parse(birth)), {}, START)
    assert view is not None
    clean(view.payload(), excluded)
    assert after.unborn == set(excluded)


@given(births(), reports(), exclusions, st.booleans())
def test_a_report_is_cut_and_nothing_else_is_touched(
    birth: bytes, parts: list[Part], excluded: list[str], is_compressed: bool
) -> None:
    payload = b"".join(part for _, part in parts)
    whole = compressed(payload) if is_compressed else payload
    view, _ = read_view(grants(excluded), ViewRequest(NDATA, parse(whole), known(birth)), {}, START)
    assert view is not None
    made = inflated(view.payload()) if is_compressed else view.payload()
    clean(made, excluded)
    assert made == b"".join(part for name, part in parts if name not in excluded)
    kept: Any = PAYLOAD.FromString(made)
    assert [one.alias or ALIASES[one.name] for one in kept.metrics] == [
        ALIASES[name] for name, _ in parts if name is not None and name not in excluded
    ]


@given(births(), st.lists(st.tuples(reports(), st.booleans()), max_size=6), exclusions)
def test_nothing_leaks_over_a_history(birth: bytes, said: list[tuple[list[Part], bool]], excluded: list[str]) -> None:
    """Sometimes a message is withheld as a whole; what comes back is never what is still excluded."""
    plant, reader = Plant(), PlantReader()
    rights, none = grants(excluded), grants([], "false")
    message = parse(birth)
    plant.take(NBIRTH, message, "born")
    shown = plant.show(reader, rights, plant.request(NBIRTH, message, "born", None, {}), SOURCE, {})
    assert shown is not None
    clean(shown.payload(), excluded)
    for parts, is_shown in said:
        message = parse(b"".join(part for _, part in parts))
        plant.take(NDATA, message, "born")
        request = plant.request(NDATA, message, "born", None, {})
        shown = plant.show(reader, rights if is_shown else none, request, SOURCE, {})
        assert (shown is not None) is is_shown
        if shown is not None:
            clean(shown.payload(), excluded)


CONDITION = "metrics.all(name, metrics[name].value == null || metrics[name].properties != {} || true)"


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A payload that is cut short, changed, or has parts of itself in wrong places."""
    whole = b"".join(part for _, part in draw(reports()))
    data = bytearray(compressed(whole) if draw(st.booleans()) else whole)
    for _ in range(draw(st.integers(1, 5))):
        at = draw(st.integers(0, len(data)))
        match draw(st.sampled_from(["cut", "change", "repeat", "insert"])):
            case "cut":
                del data[at:]
            case "change" if at < len(data):
                data[at] = draw(st.integers(0, 255))
            case "repeat":
                data[at:at] = data[at // 2 : at]
            case _:
                data[at:at] = draw(st.binary(max_size=6))
    return bytes(data)


@given(births(), damaged(), exclusions, st.sampled_from(["", CONDITION]))
def test_damage_never_shows_what_is_excluded(birth: bytes, data: bytes, excluded: list[str], when: str) -> None:
    """What is refused is refused as content; what is taken, another reader takes for the same metrics."""
    try:
        view, _ = read_view(grants(excluded, when), ViewRequest(NDATA, parse(data), known(birth)), {}, START)
        made = None if view is None else view.payload()
    except ContentError:
        return
    if made is None:
        return
    try:
        read: Any = PAYLOAD.FromString(made)
        if read.uuid.encode() == COMPRESSED:
            read = PAYLOAD.FromString(inflated(made))
    except Exception:  # protobuf asks for more than we do: that strings inside of metrics are UTF-8
        return
    numbers = {ALIASES[name] for name in excluded}
    assert not [one for one in read.metrics if one.name in excluded or (one.HasField("alias") and one.alias in numbers)]


@given(st.binary(max_size=200))
def test_anything_at_all_is_a_message_or_an_error(data: bytes) -> None:
    try:
        message = parse(data)
    except ContentError:
        return
    assert message.cut(()) == data
    assert parse(message.cut(message.metrics)).metrics == ()


def clean(view: bytes, excluded: Sequence[str]) -> None:
    for name in excluded:
        assert name.encode() not in view
        assert mark(name).encode() not in view


def compressed(payload: bytes) -> bytes:
    return field(4, COMPRESSED) + field(5, zlib.compress(payload))


def inflated(payload: bytes) -> bytes:
    read: Any = PAYLOAD.FromString(payload)
    return zlib.decompress(read.body)


@pytest.mark.parametrize(
    ("number", "around"),
    [
        pytest.param(9, lambda inner: field(1, b"k") + field(2, field(9, inner)), id="property sets"),
        pytest.param(9, lambda inner: field(1, b"k") + field(2, field(10, field(1, inner))), id="lists of these"),
        pytest.param(18, lambda inner: field(2, field(1, b"n") + field(18, inner)), id="templates"),
    ],
)
def test_what_is_nested_without_end_is_refused(number: int, around: Callable[[bytes], bytes]) -> None:
    inner = b""
    for _ in range(3000):
        inner = around(inner)
    data = field(2, field(1, b"deep") + field(number, inner))
    with pytest.raises(ContentError):
        read_view(grants([], "deep.value == null"), ViewRequest(NDATA, parse(data), BirthRecord()), {}, START)
