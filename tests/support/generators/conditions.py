"""Random expressions and contents: most mean something, some have the wrong types or touch what is not there."""

from hypothesis import strategies as st

_LEAVES = {
    "number": [
        "0",
        "1",
        "-1",
        "2",
        "7",
        "1u",
        "0u",
        "0.0",
        "-0.0",
        "1.0",
        "2.5",
        "1e308",
        "9223372036854775807",
        "-9223372036854775808",
        "18446744073709551615u",
        "9007199254740993",
        "9007199254740992.0",
        "a",
        "b",
        "n.m",
    ],
    "string": ["''", "'a'", "'ab'", "'1'", "'é'", "'2009-02-13T23:31:30Z'", "'90s'", "s", "t", "o.k", "b'a'"],
    "bool": ["true", "false", "p", "q", "has(a)", "has(o.k)", "has(o.z)", "has(o.z.y)", "null"],
    "list": ["[]", "[1, 2]", "['a', s]", "l", "o", "{'k': 1, 's': s}", "{1: a, true: b}", "m"],
    "other": ["null", "x", "y", "z", "int", "type(a)", "timestamp(0)", "duration('1h')", "xpath('//a')", "missing"],
    "variable": ["x", "y"],
    "arithmetic": ["+", "-", "*", "/", "%"],
    "relation": ["<", "<=", ">", ">=", "==", "!="],
    "equality": ["==", "!="],
    "method": ["startsWith", "endsWith", "contains", "matches"],
    "accessor": ["getHours", "getDate", "getMilliseconds", "getDayOfWeek", "getFullYear"],
    "conversion": ["int", "uint", "double", "string", "bytes", "bool", "timestamp", "duration", "type", "dyn", "size"],
    "quantifier": ["all", "exists", "exists_one"],
    "field": ["k", "z"],
}

_FORMS = {
    "number": [
        ("({} {} {})", "number", "arithmetic", "number"),
        ("-({})", "number"),
        ("size({})", "list"),
        ("int({})", "number"),
        ("{}[{}]", "list", "number"),
        ("timestamp({}).{}()", "number", "accessor"),
    ],
    "string": [
        ("({} + {})", "string", "string"),
        ("string({})", "number"),
        ("o[{}]", "string"),
    ],
    "bool": [
        ("({} && {})", "bool", "bool"),
        ("({} || {})", "bool", "bool"),
        ("({} || {} || {})", "bool", "bool", "bool"),
        ("!({})", "bool"),
        ("({} ? {} : {})", "bool", "bool", "bool"),
        ("({} {} {})", "number", "relation", "number"),
        ("({} {} {})", "string", "relation", "string"),
        ("({} == {})", "list", "list"),
        ("({} in {})", "number", "list"),
        ("({} in ['a', 'ab'])", "string"),
        ("({}).{}({})", "string", "method", "string"),
        ("({}).{}({}, {})", "list", "quantifier", "variable", "inside"),
    ],
    "inside": [
        ("{}", "bool"),
        ("({} {} {})", "variable", "relation", "number"),
        ("({} {} {})", "variable", "equality", "string"),
    ],
    "list": [
        ("[{}, {}]", "number", "string"),
        ("{{{}: {}, {}: {}}}", "number", "number", "string", "number"),
        ("({} + {})", "list", "list"),
        ("({}).filter({}, {})", "list", "variable", "inside"),
        ("({}).map({}, {})", "list", "variable", "number"),
        ("({}).map({}, x + x)", "list", "variable"),
        ("({}).map({}, {}, [x, y])", "list", "variable", "inside"),
    ],
    "other": [
        ("{}({})", "conversion", "other"),
        ("({}).{}({})", "other", "method", "other"),
        ("({}).{}({})", "other", "accessor", "other"),
        ("({}).{}", "other", "field"),
        ("({})[{}]", "other", "other"),
        ("({} {} {})", "other", "arithmetic", "other"),
        ("({} {} {})", "other", "relation", "other"),
    ],
}

_ANY = ["number", "string", "bool", "list", "other"]


@st.composite
def expressions(draw: st.DrawFn, kind: str = "", depth: int = 3) -> str:
    """The text of an expression of a kind (none: of any); at times there is something of the wrong kind in it."""
    kind = kind or draw(st.sampled_from(_ANY))
    if kind in _ANY and draw(st.integers(0, 15)) == 15:
        kind, depth = draw(st.sampled_from(_ANY)), min(depth, 1)
    forms = _FORMS.get(kind, [])
    if not forms or depth == 0 or (kind in _LEAVES and draw(st.integers(0, 3)) == 0):
        return draw(st.sampled_from(_LEAVES.get(kind, _LEAVES["bool"])))
    form, *parts = draw(st.sampled_from(forms))
    return form.format(*(draw(expressions(part, depth - 1)) for part in parts))


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-2, 3),
    st.floats(),
    st.sampled_from([0.0, 1.0, 2.0, 0.5]),
    st.sampled_from(["", "a", "ab", "1", "true", "é", "\ud800", "2009-02-13T23:31:30Z", "90s", "UTC"]),
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("kszm"), inner, max_size=3),
    max_leaves=5,
)
contents = st.dictionaries(st.sampled_from("abstpqlomnxyz"), values, max_size=10)
"""Contents as JSON has them."""

usual_contents = st.fixed_dictionaries(
    {},
    optional={
        "a": st.integers(-2, 3),
        "b": st.sampled_from([0.0, 1.0, 2.5, 1]),
        "s": st.sampled_from(["", "a", "ab"]),
        "t": st.sampled_from(["b", "ab"]),
        "p": st.booleans(),
        "q": st.booleans(),
        "l": st.lists(st.integers(0, 3), max_size=3),
        "m": st.lists(scalars, max_size=3),
        "o": st.dictionaries(st.sampled_from("ks"), scalars, max_size=2),
        "n": st.fixed_dictionaries({"m": st.integers(0, 2)}),
        "x": st.integers(0, 2),
    },
)
"""Contents with attributes of the types that the expressions hope for."""
