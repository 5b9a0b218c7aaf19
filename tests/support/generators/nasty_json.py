"""JSON as nobody should write it, and what is nearly JSON: what parsers are known to disagree about."""

from hypothesis import strategies as st

NAMES = [b'"a"', b'"b"', b'"temperature"', rb'"\u0061"', rb'"a\u003ab"', b'"a:b"', b'"\xc3\xa4"', b'""', b'"{"']
SCALARS = [
    *(b"0", b"-0", b"-0.0", b"71", b"71.5", b"1e2", b"1E+2", b"1e400", b"-1e400", b"1e-400", b"01", b"+1", b"1."),
    *(b"9223372036854775807", b"9223372036854775808", b"-9223372036854775809", b"18446744073709551616"),
    *(b"9" * 19, b"9" * 400, b"0." + b"1" * 40, b"NaN", b"Infinity", b"-Infinity", b"null", b"true", b"false", b"True"),
    *(b'""', b'"a"', b'"12:00:00"', b'"{[,]}"', rb'"\u0041"', rb'"\u003a"', rb'"\ud83d\ude00"', rb'"\ud83d"', rb'"\x"'),
    *(b'"\xff"', b'"\xed\xa0\x80"', b'"\n"', b'"\x00"', b'"\xe2\x82\xac"', b"'a'", b'"' + b"1" * 30 + b'"', b"{}"),
]
_blanks = st.sampled_from([b"", b"", b"", b" ", b"\n", b"\t\r\n ", b"\x0b", b"\xc2\xa0"])
_scalars = st.sampled_from(SCALARS)


def _object(members: list[tuple[bytes, bytes]], blank: bytes) -> bytes:
    return b"{" + b",".join(name + b":" + blank + value for name, value in members) + blank + b"}"


def _array(values: list[bytes], blank: bytes) -> bytes:
    return b"[" + (b"," + blank).join(values) + b"]"


_values: st.SearchStrategy[bytes] = st.recursive(
    _scalars,
    lambda inner: (
        st.builds(_object, st.lists(st.tuples(st.sampled_from(NAMES), inner), max_size=3), _blanks)
        | st.builds(_array, st.lists(inner, max_size=3), _blanks)
    ),
    max_leaves=6,
)
_plain = st.builds(
    lambda number, at: b'{"temperature": %d.5, "a": %d, "at": "2026-01-01T%02d:00:00Z"}' % (number, number, at),
    st.integers(-5, 100),
    st.integers(0, 23),
)
_objects = st.builds(_object, st.lists(st.tuples(st.sampled_from(NAMES), _values), max_size=4), _blanks)
_deep = st.integers(1, 70).map(lambda depth: b'{"a":' * depth + b"1" + b"}" * depth)
_very_deep = st.sampled_from([b"[" * 5000 + b"]" * 5000, b'{"a":' * 5000 + b"1" + b"}" * 5000])
_wide = st.sampled_from([b'{"a":[' + b"1," * 100_001 + b"1]}", b'{"a":"' + b"x" * 100_001 + b'"}'])
_around = st.sampled_from([b"", b"", b"", b"", b"\xef\xbb\xbf", b" ", b"\n", b"x", b"{", b",", b"\xff\xfe", b"\x00"])
_cut = st.builds(lambda payload, end: payload[: max(0, len(payload) - end)], _objects, st.integers(1, 3))

payloads: st.SearchStrategy[bytes] = st.one_of(
    _plain,
    _plain,
    _objects,
    _objects,
    _values,
    _deep,
    _cut,
    st.builds(lambda before, inside, after: before + inside + after, _around, _objects, _around),
    st.binary(max_size=12),
)
large_payloads: st.SearchStrategy[bytes] = _very_deep | _wide
