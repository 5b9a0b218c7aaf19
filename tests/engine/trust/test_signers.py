"""How many signers a token needs: nodes deliver what a small model of a tree says, and never ask for too many."""

from itertools import combinations
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.rehearsal.rehearsal import Rehearsal
from tests.engine.trust.test_trust import begin, denied, play
from tests.support.generators.examples import some

TWENTIETHS = st.integers(1, 19)
Tree = dict[str, str]
"""By node, the one that it has joined."""


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    return {f"b{at}": f"b{draw(st.integers(1, at - 1))}" for at in range(2, draw(st.integers(2, 6)) + 1)}


def gets(rehearsal: Rehearsal, names: list[str], publisher: str) -> set[str]:
    """The nodes at which a client gets what another publishes."""
    for name in names:
        rehearsal.connect(f"bob-{name}", name)
        rehearsal.subscribe(f"bob-{name}", "home/#")
    rehearsal.connect("ann", publisher)
    rehearsal.publish("ann", "home/door", b"1")
    rehearsal.run()
    return {name for name in names if rehearsal.deliveries(f"bob-{name}")}


def way(tree: Tree, begins: str, ends: str) -> list[str]:
    """The nodes from one to another: up from both to where they meet."""

    def up(name: str) -> list[str]:
        return [name, *up(tree[name])] if name in tree else [name]

    one, other = up(begins), up(ends)
    meets = next(name for name in one if name in other)
    return [*one[: one.index(meets) + 1], *reversed(other[: other.index(meets)])]


def accepted(tree: Tree, ratings: dict[tuple[str, str], int], publisher: str, at: str, trust: dict[str, Any]) -> bool:
    """Whether each node on the way accepts: enough of those before it have signed, with a good average to it."""
    nodes, signed = way(tree, publisher, at), [publisher]
    for place in range(1, len(nodes)):
        edges = [ratings[nodes[step], nodes[step + 1]] for step in range(place)]
        good = [
            signer
            for signer in signed
            if sum(edges[nodes.index(signer) :]) >= trust["accept"] * 20 * (place - nodes.index(signer)) - 1e-6
        ]
        if len(good) < min(trust["signers"], place):
            return False
        if edges[-1] >= trust["sign"] * 20 - 1e-6:
            signed.append(nodes[place])
    return True


@settings(max_examples=some(60))
@given(trees(), st.data())
def test_on_trees_each_node_asks_for_as_many_signers_as_there_can_be(tree: Tree, data: st.DataObject) -> None:
    names = sorted({*tree, *tree.values()})
    edges = [edge for pair in tree.items() for edge in (pair, pair[::-1])]
    ratings = {edge: data.draw(TWENTIETHS | st.just(19)) for edge in edges}
    sign = data.draw(TWENTIETHS)
    trust = {
        "rule": "path",
        "sign": sign / 20,
        "accept": min(sign, data.draw(TWENTIETHS)) / 20,
        "signers": data.draw(st.integers(1, 4)),
        "begin": [begin(*edge, rating / 20) for edge, rating in ratings.items()],
    }
    publisher = data.draw(st.sampled_from(names))
    rehearsal = play([(second, first) for first, second in tree.items()], trust)
    expected = {name for name in names if accepted(tree, ratings, publisher, name, trust)}
    assert gets(rehearsal, names, publisher) == expected, denied(rehearsal)


@settings(max_examples=some(40))
@given(trees(), st.data())
def test_where_all_trust_each_other_no_number_of_signers_keeps_anything_back(tree: Tree, data: st.DataObject) -> None:
    """With cycles too, and with numbers of their own."""
    names = sorted({*tree, *tree.values()})
    more = data.draw(st.lists(st.sampled_from(list(combinations(names, 2))), max_size=3))
    pairs = {(min(pair), max(pair)) for pair in tree.items()} | set(more)
    trust = {"rule": "path", "signers": data.draw(st.integers(1, 5))}
    own = {name: {"trust": {"signers": data.draw(st.integers(1, 5))}} for name in names if data.draw(st.booleans())}
    rehearsal = play(sorted(pairs), trust, nodes=own)
    assert gets(rehearsal, names, data.draw(st.sampled_from(names))) == set(names), denied(rehearsal)
