"""What producers claim, read quickly: never anything else than what the slow way reads."""

from hypothesis import example, given
from hypothesis import strategies as st

from penstock.engine.events import user_properties
from penstock.model.errors import ContentError
from penstock.model.quality import MetricKey, MetricValue, Quality
from penstock.model.values import Timestamp
from penstock.pipeline.capsules.claims import Claims, read_claims
from penstock.policy.quality.carriage import CLAIMED, read_properties, write_properties
from penstock.wire.properties import Properties, encode_properties

IDS = st.sampled_from(["precision", "10.1", "a:b_c-d", "-x", "é"])
TIMES = st.integers(0, 4_000_000_000 * 1_000_000_000).map(Timestamp)
VALUES = st.builds(
    MetricValue,
    st.builds(MetricKey, *[st.sampled_from(["precision", "10.1", "a:b_c-d"])] * 3),
    st.floats(-1e9, 1e9),
    TIMES,
    st.none() | TIMES,
)
WORDS = ["true", "null", '"1"', "1.5", "-0", "007", "1e5", "1e999", "12345678901234567890", "9" * 400]
TEXTS = st.builds(
    '{{"indicator":"{}","criterion":"{}","definition":"{}","value":{}{}}}'.format,
    IDS,
    IDS,
    IDS,
    st.sampled_from(WORDS),
    st.sampled_from(
        [
            "",
            ',"created":"2026-01-01T12:00:00Z"',
            ',"created":"2026-13-01T12:00:00Z"',
            ',"created":"2026-01-01T12:00:00.5+01:00","modified":"9999-12-31T23:59:59Z"',
            ',"created":"2026-01-01T12:00:00Z","modified":null',
            ',"created":"2026-01-01T12:00:00Z","value":2',
        ]
    ),
)
SHORT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=9)
PAIRS = st.lists(st.tuples(st.sampled_from([CLAIMED, CLAIMED, "qo", "penstock-quality"]), TEXTS | SHORT))
TWICE = '{"indicator":"a","criterion":"a","definition":"a","value":1,"created":"2026-01-01T12:00:00Z"}'
RECEIVED = Timestamp(5)


def _encoded(pairs: list[tuple[str, str]], content_type: str | None = None) -> bytes:
    return encode_properties(Properties(user_properties=tuple(pairs), content_type=content_type))


def _slowly(properties: bytes) -> Claims | None:
    try:
        quality = read_properties(user_properties.carried(properties).user_properties, RECEIVED)
    except ContentError:
        return None
    return {one.key: (one.value, one.created, one.modified) for one in quality}


@given(st.lists(VALUES, max_size=5, unique_by=lambda one: one.key))
def test_what_is_written_is_read(values: list[MetricValue]) -> None:
    properties = _encoded(list(write_properties(Quality(values))))
    found = read_claims(properties)
    assert found == (_slowly(properties) if values else None)


@given(PAIRS)
@example(
    [(CLAIMED, '{"indicator":"a","criterion":"a","definition":"a","value":1,"created":"2026-01-01T12:00:00Z"}')] * 2
)
def test_what_is_not_as_written_is_left_to_the_slow_way(pairs: list[tuple[str, str]]) -> None:
    properties = _encoded(pairs)
    found = read_claims(properties)
    assert found is None or found == _slowly(properties)


@given(st.lists(VALUES, min_size=1, max_size=2, unique_by=lambda one: one.key), st.data())
def test_nothing_is_read_out_of_the_middle_of_something_else(values: list[MetricValue], data: st.DataObject) -> None:
    properties = _encoded(list(write_properties(Quality(values))))
    assert read_claims(properties[: data.draw(st.integers(0, len(properties) - 1))]) in (None, _first(values))
    note = b"note" + properties
    inside = b"&\0\4note" + len(note).to_bytes(2) + note
    assert read_claims(inside) is None
    assert read_claims(_encoded(list(write_properties(Quality(values))), content_type="text/plain")) is None


def _first(values: list[MetricValue]) -> Claims:
    one = Quality(values)[0]
    return {one.key: (one.value, one.created, one.modified)}
