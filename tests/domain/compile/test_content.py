"""Content settings of a domain, compiled: rules for payloads, conditions, advertisements, modes of links."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from penstock.cli.main import main
from penstock.domain import LinkSettings, check, ensemble, load, read
from penstock.domain.yaml.format import formatted
from penstock.domain.yaml.write import domain_text
from penstock.language import types
from penstock.language.errors import ConditionError
from penstock.language.lexer import has_comment
from penstock.language.parser import parse
from penstock.language.printer import show
from penstock.language.types import ANYTHING, DYN, ListType, MapType, RecordType
from penstock.model.content.content import Format
from penstock.model.event import Event
from penstock.model.yaml.document import read_document
from penstock.model.yaml.tree import plain
from penstock.policy.statements.advertisement import ProducerAdvertisement
from tests.support.cases.conditions import cases
from tests.support.generators.conditions import expressions
from tests.support.scenes.domains import compiled, nodes, write_domain

RULES = [
    {"topics": "plant/log/#", "format": "text"},
    {"topics": ["plant/#", "site/+/t"], "format": "json", "schema": {"t": "double", "place": {"floor": "int"}}},
    {"topics": "legacy/#", "format": "xml"},
]
PLANT = RecordType({"t": types.DOUBLE, "place": RecordType({"floor": types.INT})})


# --- rules for payloads


@pytest.mark.parametrize(
    ("schema", "record"),
    [
        ({}, RecordType()),
        ({"*": "dyn"}, ANYTHING),
        ({"a": "uint", "*": "string"}, RecordType({"a": types.UINT}, types.STRING)),
        (
            {"a": "dyn", "b": "list", "c": "map"},
            RecordType({"a": DYN, "b": ListType(DYN), "c": MapType(types.STRING, DYN)}),
        ),
        ({"a": [["bool"]]}, RecordType({"a": ListType(ListType(types.BOOL))})),
        ({"a": [{"b": "string"}]}, RecordType({"a": ListType(RecordType({"b": types.STRING}))})),
        ({"a": {"*": "double"}}, RecordType({"a": RecordType({}, types.DOUBLE)})),
    ],
    ids=lambda value: json.dumps(value) if isinstance(value, dict) else "",
)
def test_a_schema_declares_attributes(schema: dict[str, Any], record: RecordType, tmp_path: Path) -> None:
    rules = [{"topics": "#", "format": "json", "schema": schema}]
    assert compiled(tmp_path, nodes=nodes("a"), content=rules).declared("x") == record


@pytest.mark.parametrize(
    ("filter", "record"),
    [
        ("plant/1", PLANT),
        ("plant/+/x", ANYTHING),  # may be a log
        ("plant/1/#", PLANT),
        ("site/7/t", PLANT),
        ("site/+/t", PLANT),
        ("site/#", ANYTHING),
        ("plant/log/1", RecordType({"value": types.STRING})),
        ("legacy/1", ANYTHING),
        ("elsewhere", ANYTHING),
        ("#", ANYTHING),
    ],
)
def test_the_first_rule_counts_if_it_is_about_all_events_of_a_filter(
    filter: str, record: RecordType, tmp_path: Path
) -> None:
    assert compiled(tmp_path, nodes=nodes("a"), content=RULES).declared(filter) == record


@pytest.mark.parametrize(
    ("topic", "format"),
    [("plant/log/1", Format.TEXT), ("plant/1", Format.JSON), ("site/1/t", Format.JSON), ("legacy/a/b", Format.XML)],
)
def test_payloads_are_read_by_the_first_rule_that_matches(topic: str, format: Format, tmp_path: Path) -> None:
    whole = compiled(tmp_path, nodes=nodes("a"), content=RULES)
    assert whole.reader.read(Event(topic, b"1")).format is format


def test_rules_of_several_files_are_joined(tmp_path: Path) -> None:
    write_domain(tmp_path, {"content": RULES[1:]}, "more.yaml")
    file = write_domain(tmp_path, {"include": "more.yaml", "nodes": nodes("a"), "content": RULES[:1]})
    assert [rule.format for rule in load(file, {}).content] == ["text", "json", "xml"]


# --- clients


def test_clients_have_their_conditions_and_advertisements_at_all_their_nodes(tmp_path: Path) -> None:
    client = {
        "node": ["a", "b"],
        "where": {"plant/#": "t>30.0", "x": "y"},
        "advertises": [
            {"name": "n", "filter": "plant/1", "where": "t<5"},
            {"name": "m", "filter": "z", "scope": "local"},
        ],
    }
    whole = compiled(tmp_path, nodes=nodes("a", "b"), clients={"c": client, "d": {"node": "a"}})
    for node in ("a", "b"):
        entry = whole.client(node, "c")
        assert entry is not None
        assert [(filter, condition.text) for filter, condition in entry.where] == [("plant/#", "t > 30.0"), ("x", "y")]
        first, second = entry.advertises
        assert first.condition is not None
        assert (first.name, first.filter, first.condition.text, first.scope) == ("n", "plant/1", "t < 5", None)
        assert second == ProducerAdvertisement("m", "z", None, "local")
    other_client = whole.client("a", "d")
    assert other_client is not None
    assert (other_client.where, other_client.advertises) == ((), ())


def test_a_domain_that_was_not_checked_is_not_compiled(tmp_path: Path) -> None:
    written = {"nodes": nodes("a"), "content": RULES, "clients": {"c": {"node": "a", "where": {"plant/1": "u > 1"}}}}
    with pytest.raises(ConditionError, match="there is no attribute `u`"):
        ensemble(read(write_domain(tmp_path, written), {}).domain)


# --- links


@pytest.mark.parametrize(
    ("forward", "pairs"),
    [
        ("routed", (("#", "routed"),)),
        ({"#": "all"}, (("#", "all"),)),
        ({"b/#": "routed", "a/#": "all"}, (("b/#", "routed"), ("a/#", "all"))),
    ],
    ids=["one mode", "one class", "classes in their order"],
)
def test_modes_are_pairs_of_filter_and_mode(forward: Any, pairs: Any) -> None:
    link = LinkSettings.model_validate({"between": ["a", "b"], "forward": forward})
    assert link.forward == pairs
    assert LinkSettings.model_validate(link.model_dump()) == link


def test_links_forward_what_is_subscribed_to_unless_they_say_otherwise() -> None:
    assert LinkSettings.model_validate({"between": ["a", "b"]}).forward == (("#", "subscribed"),)


# --- what is odd


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        (
            {"clients": {"c": {"node": "a", "where": {"p": "x>5 && x<3"}}}},
            ["clients.c.where.p: `x > 5 && x < 3` is never true, so nothing satisfies it"],
        ),
        (
            {"content": [{"topics": "p/#", "format": "json"}, {"topics": ["q", "p/+"], "format": "xml"}]},
            ["content[1].topics: `p/+` never counts: `p/#` matches all that it matches"],
        ),
        (
            {"links": [{"between": ["a", "b"], "forward": {"#": "all", "p/#": "routed", "$x": "all"}}]},
            [
                "links[0].forward.p/#: `p/#` never counts: `#` is every event that is of no class before it",
                "links[0].forward.$x: `$x` never counts: `#` is every event that is of no class before it",
            ],
        ),
        (
            {
                "links": [
                    {"between": ["a", "b"], "forward": {"+": "all", "p/+": "all", "p/+/#": "routed", "p/#": "all"}}
                ]
            },
            ["links[0].forward.p/#: `p/#` never counts: what stands before it matches all that it matches"],
        ),
        (
            {
                "monitors": {
                    "m": {
                        "link": "a -> b",
                        "states": {
                            "q0": {"p": [{"when": "x == 1 && x == 2", "suppress": True}, "pass"], "*": "pass"},
                        },
                    }
                }
            },
            ["monitors.m.states.q0.p[0].when: `x == 1 && x == 2` is never true, so nothing satisfies it"],
        ),
        ({"clients": {"c": {"node": "a", "where": {"p": "x.contains('a') && !x.contains('a')"}}}}, []),
        ({"content": [{"topics": "p/+", "format": "json"}, {"topics": "p/#", "format": "xml"}]}, []),
        ({"links": [{"between": ["a", "b"], "forward": {"p/#": "routed", "#": "all"}}]}, []),
    ],
    ids=[
        "a condition that is never true",
        "a rule behind a wider one",
        "a class behind a wider one",
        "a class behind two that are as wide",
        "a guard that is never true",
        "a condition that is not decided",
        "a rule before a wider one",
        "a class before a wider one",
    ],
)
def test_warnings(changed: dict[str, Any], expected: list[str], tmp_path: Path) -> None:
    written = {"nodes": nodes("a", "b"), "links": [{"between": ["a", "b"]}], **changed}
    warnings = check(read(write_domain(tmp_path, written), {})).warnings
    assert [f"{warning.path}: {warning.what}" for warning in warnings] == expected


# --- written down, and in canonical form

FULL: dict[str, Any] = {
    "nodes": nodes("a", "b"),
    "links": [{"between": ["a", "b"], "forward": {"plant/#": "routed", "alarm/#": "all", "#": "subscribed"}}],
    "clients": {
        "sensor": {
            "node": "b",
            "advertises": [{"name": "a1", "filter": "plant/+", "where": "(t<100) && place.floor>1"}],
        },
        "view": {"node": "a", "where": {"plant/1": "t>30.0", "#": "has( t )"}},
    },
    "content": RULES,
}


def test_the_expansion_has_it_all_with_canonical_conditions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_domain(tmp_path, FULL)
    assert main(["check", "--expand", "domain.yaml"]) == 0
    assert capsys.readouterr().out == (
        "domain: penstock\n"
        "nodes:\n"
        "  a: {listen: 127.0.0.1:0, store: memory}\n"
        "  b: {listen: 127.0.0.1:0, store: memory}\n"
        "links:\n"
        '  - {between: [a, b], forward: {plant/#: routed, alarm/#: all, "#": subscribed}}\n'
        "clients:\n"
        "  sensor: {node: b, advertises: [{name: a1, filter: plant/+, where: t < 100 && place.floor > 1}]}\n"
        '  view: {node: a, where: {plant/1: t > 30.0, "#": has(t)}}\n'
        "content:\n"
        "  - {topics: plant/log/#, format: text}\n"
        "  - {topics: [plant/#, site/+/t], format: json, schema: {t: double, place: {floor: int}}}\n"
        "  - {topics: legacy/#, format: xml}\n"
    )


def test_what_is_written_is_read_as_the_same(tmp_path: Path) -> None:
    domain = load(write_domain(tmp_path, FULL), {})
    (tmp_path / "again.yaml").write_text(domain_text(domain, tmp_path))
    assert load(tmp_path / "again.yaml", {}) == domain


FORMATTED = {
    "a condition": ("clients: {x: {where: {p: 'a>1&&(b)'}}}", "clients:\n  x: {where: {p: a > 1 && b}}\n"),
    "quotes where YAML needs them": (
        "clients: {x: {where: {p: 'a?b:c'}}}",
        'clients:\n  x: {where: {p: "a ? b : c"}}\n',
    ),
    "an advertisement": (
        "clients: {x: {advertises: [{where: a<1, filter: p, name: n}]}}",
        "clients:\n  x: {advertises: [{name: n, filter: p, where: a < 1}]}\n",
    ),
    "several lines become one": (
        "clients:\n  x:\n    where:\n      p: |\n        a > 1\n        && b\n",
        "clients:\n  x: {where: {p: a > 1 && b}}\n",
    ),
    "a condition that is wrong stays": ("clients: {x: {where: {p: 'a>'}}}", "clients:\n  x: {where: {p: a>}}\n"),
    "a comment in a condition stays, and so does the condition": (
        "clients: {x: {where: {p: 'a>1 // why'}}}",
        "clients:\n  x: {where: {p: a>1 // why}}\n",
    ),
    "two slashes in a string are no comment": (
        "clients: {x: {where: {p: 'a==\"//\"'}}}",
        "clients:\n  x: {where: {p: a == '//'}}\n",
    ),
    "an edge of a monitor": (
        "monitors: {m: {states: {q0: {p: [{pass: true, when: 'a>1'}, suppress], q: {when: 'b<1', pass: true}}}}}",
        "monitors:\n  m: {states: {q0: {p: [{when: a > 1, pass: true}, suppress], q: {when: b < 1, pass: true}}}}\n",
    ),
    "steps of tests": (
        "tests:\n"
        "  t: [{subscribe: {x: {where: 'a>1', filter: p}}}, {advertise: {x: [{where: 'a>1', filter: p, name: n}]}}]\n"
        "  u: {subscribe: {x: [{filter: p, where: 'a>1'}]}}\n",
        "tests:\n"
        "  t:\n"
        "    - {subscribe: {x: {filter: p, where: a > 1}}}\n"
        "    - {advertise: {x: [{name: n, filter: p, where: a > 1}]}}\n"
        "  u: {subscribe: {x: [{filter: p, where: a > 1}]}}\n",
    ),
    "a payload of JSON": (
        "tests: {t: [{publish: {x: {topic: p, payload: '{\"a\": 1}'}}}]}",
        "tests:\n  t: [{publish: {x: {topic: p, payload: '{\"a\": 1}'}}}]\n",
    ),
    "comments of the file stay": (
        "clients:\n  x:\n    # hot\n    where: {p: a>1}  # why\n",
        "clients:\n  x:\n    # hot\n    where: {p: a > 1}  # why\n",
    ),
    "other texts that look like conditions stay": (
        "monitors: {m: {python: 'p:C', with: {where: 'a>1'}}}\nclients: {x: {user: 'a>1'}}",
        "clients:\n  x: {user: a>1}\nmonitors:\n  m: {python: p:C, with: {where: a>1}}\n",
    ),
}


@pytest.mark.parametrize(("text", "canonical"), FORMATTED.values(), ids=FORMATTED)
def test_canonical_form(text: str, canonical: str, tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text(text, "utf-8")
    assert formatted(tmp_path / "t.yaml")[1] == canonical


def shown(text: str) -> str:
    """The canonical form of a condition; the text itself if it is none, or has a comment in it."""
    try:
        tree = parse(text)
        return text if has_comment(text) else show(tree)
    except ConditionError:
        return text


CONDITIONS = expressions("bool") | st.sampled_from([case.expression for case in cases()])


@given(st.lists(CONDITIONS, min_size=1, max_size=4))
def test_every_condition_is_formatted_once_and_for_all(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str]
) -> None:
    folder = tmp_path_factory.getbasetemp()
    where = {f"t/{at}": text for at, text in enumerate(texts)}
    advertises = [{"name": "n", "filter": "p", "where": text} for text in texts]
    file = folder / "fmt.yaml"
    written = {"clients": {"x": {"where": where, "advertises": advertises}}}
    file.write_text(yaml.safe_dump(written, default_style='"'), "utf-8")  # PyYAML would have `1e3` without quotes
    once = formatted(file)[1]
    again = folder / "again.yaml"
    again.write_text(once, "utf-8")
    text, twice = formatted(again)
    assert text == once == twice
    client = read_plain(again)["clients"]["x"]
    expected = list(map(shown, texts))
    assert [client["where"][f"t/{at}"] for at in range(len(texts))] == expected
    assert [advertised["where"] for advertised in client["advertises"]] == expected


def read_plain(file: Path) -> Any:
    """Return the values of a YAML file, as Penstock reads YAML."""
    return plain(read_document(file, []).node)
