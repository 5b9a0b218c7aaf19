"""`penstock sub` with conditions, names and scopes, and `penstock pub` with advertisements, at a real node."""

import json
from collections.abc import Iterator

import pytest

from tests.support.processes.commands import penstock, run
from tests.support.processes.federation import Nodes, federated
from tests.support.processes.mosquitto import HOST

REPORT = '{{"class": "report", "d1": {}}}'


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    content = [{"topics": "typed/#", "format": "json", "schema": {"t": "double"}}]
    with federated({"nodes": {"main": {"store": "memory"}}, "content": content}) as live:
        yield live


def command(nodes: Nodes, name: str, *arguments: str) -> list[str]:
    return penstock(name, "-h", HOST, "-p", str(nodes.ports["main"]), *arguments)


def publish(nodes: Nodes, topic: str, *payloads: str) -> None:
    for payload in payloads:
        assert run(command(nodes, "pub", "-t", topic, "-m", payload, "-q", "1", "-r")) == (0, "", "")


def test_sub_where_prints_what_satisfies_the_condition(nodes: Nodes) -> None:
    publish(nodes, "stock/north", REPORT.format(950))
    publish(nodes, "stock/south", REPORT.format(50))
    words = ["-t", "stock/+", "--where", "class == 'report' && d1 > 900", "-C", "1", "-F", "%t"]
    assert run(command(nodes, "sub", *words)) == (0, "stock/north\n", "")
    # Retained messages come in any order, so that the other way round shows that it was no luck.
    words = ["-t", "stock/+", "--where", "class == 'report' && d1 < 100", "-C", "1", "-F", "%t"]
    assert run(command(nodes, "sub", *words)) == (0, "stock/south\n", "")


def test_two_names_are_two_subscriptions_of_one_session(nodes: Nodes) -> None:
    session = ["-i", "two-names", "-c", "-x", "600", "-q", "1", "-t", "names"]
    for name, condition in (("low", "x < 10"), ("high", "x > 90")):
        words = ["--name", name, "--where", condition, "-E"]
        assert run(command(nodes, "sub", *session, *words)) == (0, "", "")
    publish(nodes, "names", '{"x": 50}', '{"x": 5}', '{"x": 95}')
    give_up = ["-i", "two-names", "-c", "-x", "600", "-U", "names", "--name", "low"]
    assert run(command(nodes, "sub", *give_up)) == (0, "", "")
    publish(nodes, "names", '{"x": 6}', '{"x": 96}')
    code, out, err = run(command(nodes, "sub", *session, "--name", "high", "--where", "x > 90", "-R", "-C", "3"))
    assert (code, err) == (0, "")
    assert [json.loads(line)["x"] for line in out.splitlines()] == [5, 95, 96]


def test_a_local_subscription_is_granted(nodes: Nodes) -> None:
    assert run(command(nodes, "sub", "-t", "a", "--scope", "local", "-E")) == (0, "", "")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (
            ["--where", "x & y"],
            "Error: --where: `&` is not an operator; write `&&`, at character 3\n  x & y\n    ^\n",
        ),
        (["--scope", "everywhere"], "Error: --scope: `everywhere` is not one of global, local\n"),
    ],
)
def test_a_mistake_is_exit_code_2(nodes: Nodes, arguments: list[str], error: str) -> None:
    code, out, err = run(command(nodes, "sub", "-t", "a", *arguments))
    assert (code, out) == (2, "")
    assert err.startswith(error)


def test_what_the_node_refuses_is_told_in_its_words(nodes: Nodes) -> None:
    code, out, err = run(command(nodes, "sub", "-t", "typed/a", "--where", "t == 'warm'"))
    assert (code, out) == (0x83, "")
    assert err.splitlines()[:2] == [
        "Warning: subscription to `typed/a` was refused: Implementation specific error",
        "Warning: the broker says: condition: a double and a string are never equal, at character 3",
    ]


def test_an_advertisement_by_pub_holds_for_the_session(nodes: Nodes) -> None:
    session = ["-V", "5", "-i", "advertiser", "-c", "-x", "600", "-q", "1"]
    advertisement = '{"name": "a1", "filter": "stock/east", "where": "d1 < 100"}'
    assert run(command(nodes, "pub", *session, "-t", "$penstock/advertise", "-m", advertisement)) == (0, "", "")
    assert run(command(nodes, "pub", *session, "-t", "stock/east", "-m", REPORT.format(50))) == (0, "", "")
    _, _, err = run(command(nodes, "pub", *session, "-t", "stock/east", "-m", REPORT.format(500)))
    assert err.startswith("Warning: message 1 was refused: Not authorized: ")
    assert run(command(nodes, "pub", *session, "-t", "$penstock/unadvertise", "-m", '{"name": "a1"}')) == (0, "", "")
    assert run(command(nodes, "pub", *session, "-t", "stock/east", "-m", REPORT.format(500))) == (0, "", "")


def test_help_names_the_options() -> None:
    code, out, _ = run(penstock("sub", "--help"))
    assert code == 0
    assert [name for name in ("--where CONDITION", "--name NAME", "--scope SCOPE") if name not in out] == []
