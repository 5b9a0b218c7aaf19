"""Random domains: either every mistake is told, or the domain can be compiled, written down and read again."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from penstock.domain import Domain, diff, ensemble, load
from penstock.domain.yaml.write import domain_text
from penstock.model.errors import DomainError, Problem
from tests.support.scenes.domains import nodes, write_domain

NODES = st.sampled_from(["a", "b", "c"])
CLIENTS = st.sampled_from(["x", "y"])
ENTITIES = st.sampled_from(["a", "b", "c", "x", "y", "f"])
TYPES = st.sampled_from(["t", "u", "up"])
FILTERS = st.sampled_from(["p", "p/+", "p/#", "#", "q"])


def some(items: st.SearchStrategy[Any], most: int = 2) -> st.SearchStrategy[Any]:
    """An item, or a list of items."""
    return items | st.lists(items, max_size=most, unique_by=repr)


def mapping(required: dict[str, Any], optional: dict[str, Any] | None = None) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(required, optional=optional or {})


CONDITIONS = st.sampled_from(
    ["v > 1", "v>1 && v<0", "w == 'a' || !(v < 2)", "v >", "has(w)", "1 + 1 == 2", "n.m > 2.0"]
)
CLASSES = st.sampled_from(["all", "subscribed", "advertised", "routed"])
FORWARD = CLASSES | st.dictionaries(FILTERS, CLASSES, max_size=3)
ADVERTISEMENT = mapping(
    {"name": CLIENTS, "filter": FILTERS}, {"where": CONDITIONS, "scope": st.sampled_from(["global", "local"])}
)
ATTRIBUTES = st.recursive(
    st.sampled_from(["int", "double", "string", "dyn"]),
    lambda inner: inner.map(lambda item: [item]) | st.dictionaries(st.sampled_from("vwnm*"), inner, max_size=3),
    max_leaves=4,
)
CONTENT = mapping(
    {"topics": some(FILTERS), "format": st.sampled_from(["json", "xml", "opaque", "sparkplug"])},
    {"schema": st.dictionaries(st.sampled_from("vwn*"), ATTRIBUTES, max_size=4)},
)
BOTH = TYPES | mapping({"publish": TYPES, "notify": TYPES})
LINK = mapping(
    {"between": st.lists(NODES, min_size=2, max_size=2, unique=True)},
    {"type": TYPES, "back": TYPES, "forward": FORWARD},
)
CLIENT = mapping(
    {},
    {
        "node": some(NODES) | st.dictionaries(NODES, BOTH, max_size=2),
        "type": BOTH,
        "user": CLIENTS,
        "where": st.dictionaries(FILTERS, CONDITIONS, max_size=2),
        "advertises": st.lists(ADVERTISEMENT, max_size=2),
    },
)
RULES = st.lists(mapping({"from": some(TYPES), "to": some(TYPES)}), max_size=2)
TABLE = mapping({}, {"types": st.lists(TYPES, unique=True), "default": BOTH}) | mapping(
    {"deny": RULES}, {"types": st.just(["t", "u"])}
)
ENDS = st.sampled_from(["a -> b", "b -> a", "* -> a", "a -> *", "? -> b", "x -> a", "f -> c", "c -> f", "a -> x"])
EDGE = some(
    st.sampled_from(["pass", "suppress"])
    | mapping({"emit": some(FILTERS), "next": st.sampled_from(["q0", "q1"])})
    | mapping({"pass": st.just(True), "when": st.sampled_from(["x > 1", "x>1", "has(y)", "x = 1"])}),
)
WHERE = mapping({"link": some(ENDS)}) | mapping(
    {"on": mapping({"node": NODES, "direction": st.sampled_from(["im_pub", "im_sub", "ex_pub", "ex_sub"])})}
)
WHAT = (
    mapping({"filter": some(FILTERS)})
    | mapping({"mapper": st.dictionaries(FILTERS, st.sampled_from(["r", "r/{1}", "{topic}"]), max_size=2)})
    | mapping({"states": st.dictionaries(st.sampled_from(["q0", "q1"]), st.dictionaries(FILTERS, EDGE, max_size=3))})
)
MONITOR = st.tuples(WHERE, WHAT).map(lambda parts: parts[0] | parts[1])
ROLE = mapping(
    {}, {"publish": some(FILTERS), "subscribe": some(FILTERS), "members": some(CLIENTS), "inherits": some(CLIENTS)}
)
PATTERN = (
    mapping({"pattern": st.just("hierarchy"), "parents": st.dictionaries(ENTITIES, some(NODES), max_size=3)})
    | mapping({"pattern": st.just("levels"), "order": st.sampled_from([["t", "u"], ["t < u", "up"], ["u < t < u"]])})
    | mapping({"pattern": st.just("interface"), "node": NODES, "import": some(FILTERS), "export": some(FILTERS)})
    | mapping({"pattern": st.just("roles"), "listen": st.just("127.0.0.1:0"), "roles": st.dictionaries(CLIENTS, ROLE)})
)
PROTOCOL = mapping(
    {"protocol": st.sampled_from(["p", "p q", "p (q | p)", "(p"]), "protects": some(ENTITIES)},
    {"senders": st.dictionaries(st.sampled_from(["p", "q"]), some(CLIENTS), max_size=2)},
)
ASSERTION = mapping({"never": st.sampled_from(["x to y", "a to x", "z to x"])}, {"on": FILTERS})
DOMAIN = mapping(
    {"nodes": st.just(nodes("a", "b", "c"))},
    {
        "links": st.lists(LINK, max_size=3),
        "foreign": st.just({"f": {"address": "127.0.0.1:1"}}),
        "clients": st.dictionaries(CLIENTS, CLIENT, max_size=2),
        "content": st.lists(CONTENT, max_size=2),
        "brokering": TABLE,
        "monitors": st.dictionaries(st.sampled_from(["m", "n"]), MONITOR, max_size=2),
        "patterns": st.lists(PATTERN, max_size=2),
        "protocols": st.dictionaries(st.just("z"), PROTOCOL, max_size=1),
        "assertions": st.lists(ASSERTION, max_size=1),
    },
)


def loaded_or_problems(file: Path) -> Domain | tuple[Problem, ...]:
    try:
        return load(file, {})
    except DomainError as error:
        return error.problems


@given(DOMAIN)
def test_a_domain_is_refused_with_reasons_or_works(
    tmp_path_factory: pytest.TempPathFactory, plain: dict[str, Any]
) -> None:
    folder = tmp_path_factory.getbasetemp()
    domain = loaded_or_problems(write_domain(folder, plain))
    if not isinstance(domain, Domain):
        event("refused")
        assert all(problem.line > 0 and problem.path and problem.what for problem in domain)
        return
    event("works")
    whole = ensemble(domain)
    assert all(whole.table(node).types >= {link.type} for (_, node), link in whole.links.items() if node in whole.nodes)
    again = folder / "again.yaml"
    again.write_text(domain_text(domain, folder), "utf-8")
    assert load(again, {}) == domain
    assert not diff(domain, load(again, {}))
