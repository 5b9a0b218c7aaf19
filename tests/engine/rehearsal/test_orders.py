"""Every interleaving of a policy test: the reduction finds what brute force finds, and what the paper's rules allow."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from penstock.domain import Domain, ensemble
from penstock.domain.schema.tests import PolicyTest
from penstock.engine.rehearsal.interleavings import PlayedMove, Trace, in_fifo_order, interleavings
from penstock.engine.rehearsal.ordered_play import OrderedPlay
from penstock.engine.rehearsal.orders import LinkOrdering, try_orders
from penstock.engine.rehearsal.rehearsal import Rehearsal
from penstock.policy.monitors.automaton import Automaton
from penstock.semantics.explore import DevicePublication, ExplorationError, explore
from penstock.semantics.ordering import in_order_links
from tests.engine.test_semantics import outcome, rehearse
from tests.support.generators.domains import Scene, parts, scenes
from tests.support.generators.examples import some
from tests.support.models.interleaved import all_endings

# --- the reduction by itself, on machines that are nothing but conflicts


@dataclass(frozen=True)
class Machine:
    """Clients that send numbers to cells. A cell that gets a number adds it to its own, and sends on what it has."""

    programs: tuple[tuple[tuple[int, int], ...], ...]
    """By client, the cells that it sends numbers to, in order."""
    onward: tuple[tuple[int, ...], ...]
    """By cell, the later cells that it sends its value to."""
    looks: tuple[bool, ...]
    """By cell, whether it only looks at what it has, and sends that on."""


class Run:
    """A machine that runs; a `System`."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def begin(self) -> None:
        self.values = [1] * len(self.machine.onward)
        self.done = [0] * len(self.machine.programs)
        self.under_way: list[tuple[object, object, int, int]] = []
        self.sent_at: dict[object, int] = {}
        self.moves = 0

    def options(self) -> list[object]:
        clients = [at for at, program in enumerate(self.machine.programs) if self.done[at] < len(program)]
        return [*(key for key, *_ in self.under_way), *clients]

    def fifo_options(self) -> list[object]:
        """Who can move if packets come in the order in which they were sent."""
        first = min((self.sent_at[key] for key, *_ in self.under_way), default=0)
        packets = [key for key, *_ in self.under_way]
        return [option for option in self.options() if option not in packets or self.sent_at[option] == first]

    def take(self, actor: object) -> PlayedMove:
        self.moves += 1
        if isinstance(actor, int):
            number = self.done[actor]
            self.done[actor] += 1
            made = ("client", actor, number)
            self._send(made, [self.machine.programs[actor][number]])
            return PlayedMove(actor, made)
        at = next(at for at, packet in enumerate(self.under_way) if packet[0] == actor)
        key, cause, cell, number = self.under_way.pop(at)
        if self.machine.looks[cell]:
            self._send(key, [(to, self.values[cell] + number) for to in self.machine.onward[cell]])
            return PlayedMove(key, key, cause, reads=frozenset({cell}), is_packet=True)
        self.values[cell] = self.values[cell] * 2 + number
        self._send(key, [(to, self.values[cell]) for to in self.machine.onward[cell]])
        return PlayedMove(key, key, cause, writes=frozenset({cell}), is_packet=True)

    def _send(self, cause: object, packets: list[tuple[int, int]]) -> None:
        for cell, number in packets:
            key = (cause, cell)
            self.under_way.append((key, cause, cell, number))
            self.sent_at[key] = self.moves


@st.composite
def machines(draw: st.DrawFn) -> Machine:
    cells = draw(st.integers(1, 3))
    send = st.tuples(st.integers(0, cells - 1), st.integers(0, 3))
    programs = draw(st.lists(st.lists(send, min_size=1, max_size=2).map(tuple), min_size=1, max_size=3))
    onward = [tuple(sorted(draw(st.sets(st.integers(0, cells - 1))) - set(range(at + 1)))) for at in range(cells)]
    looks = draw(st.lists(st.booleans(), min_size=cells, max_size=cells))
    return Machine(tuple(programs), tuple(onward), tuple(looks))


def brute_force(machine: Machine, options: Callable[[Run], list[Any]], most: int) -> set[tuple[int, ...]] | None:
    """The final values of all interleavings; None if there are more."""
    endings, given, count = set(), list[int](), 0
    while True:
        run = Run(machine)
        run.begin()
        taken, widths = list[int](), list[int]()
        while open_ := options(run):
            taken.append(given[len(taken)] if len(taken) < len(given) else 0)
            widths.append(len(open_))
            run.take(open_[taken[-1]])
        endings.add(tuple(run.values))
        count += 1
        while taken and taken[-1] + 1 == widths[len(taken) - 1]:
            taken.pop()
        if not taken:
            return endings
        if count == most:
            return None
        taken[-1] += 1
        given = taken


@given(machines())
def test_the_reduction_ends_as_brute_force_does(machine: Machine) -> None:
    expected = brute_force(machine, Run.options, 3000)
    assume(expected is not None)
    run = Run(machine)
    kinds = [(tuple(run.values), _kind(trace)) for trace in interleavings(run)]
    assert {values for values, _ in kinds} == expected
    assert len({kind for _, kind in kinds}) == len(kinds), "no two are of one kind"


@given(machines())
def test_an_order_that_fifo_allows_is_found_where_there_is_one(machine: Machine) -> None:
    expected = brute_force(machine, Run.fifo_options, 3000)
    assume(expected is not None)
    run = Run(machine)
    endings = set()
    for trace in interleavings(run):
        order = in_fifo_order(trace)
        if order is not None:
            again = Run(machine)
            again.begin()
            for move in order:
                assert move.actor in again.fifo_options()
                again.take(move.actor)
            assert again.values == run.values
            endings.add(tuple(run.values))
    assert endings == expected


def _kind(trace: Trace) -> frozenset[tuple[object, object]]:
    """What tells interleavings apart: the order of moves in conflict."""
    keys = [move.key for move in trace.moves]
    pairs = ((a, b) for b in range(len(keys)) for a in range(b) if trace.before[b] >> a & 1)
    return frozenset((keys[a], keys[b]) for a, b in pairs)


# --- policy tests on live nodes


def begin(scene: Scene) -> Callable[[], Rehearsal]:
    return lambda: Rehearsal(scene.domain, scene.whole)


@st.composite
def ordered_tests(draw: st.DrawFn, scene: Scene) -> PolicyTest:
    """A test of what is published in a scene, that expects some of what comes if one thing is done after the other."""
    rehearsal = rehearse(scene)
    seen = dict[str, int]()
    steps = list[dict[str, Any]]()
    for device, node, event in scene.publications:
        topic, payload = parts(event)
        step: dict[str, Any] = {"publish": {device: _publication(node, event)}}
        rehearsal.publish(device, topic, payload.encode(), node=node)
        rehearsal.run()
        expect = {}
        for name in scene.whole.devices:
            got = [{"topic": one.topic, "payload": one.payload.decode()} for one in rehearsal.deliveries(name)]
            way = draw(st.sampled_from(["in_order", "any_order", "unsaid"]))
            if way != "unsaid":
                expect[name] = {way: got[seen.get(name, 0) :]}
        if expect:
            step["expect"] = expect
            seen = {name: len(rehearsal.deliveries(name)) for name in scene.whole.devices}
        steps.append(step)
    return PolicyTest.model_validate({"subscribe": _subscriptions(scene), "steps": steps})


def _publication(node: str, event: str) -> dict[str, str]:
    topic, payload = parts(event)
    return {"topic": topic, "payload": payload, "at": node}


def _subscriptions(scene: Scene) -> dict[str, list[dict[str, str]]]:
    subscribe: dict[str, list[dict[str, str]]] = {}
    for (node, device), topics in scene.subscriptions.items():
        subscribe.setdefault(device, []).extend({"filter": topic, "at": node} for topic in sorted(topics))
    return {device: wishes for device, wishes in subscribe.items() if wishes}


@st.composite
def guarded_links(draw: st.DrawFn) -> Scene:
    """Two clients at one node, one at another, and between the nodes an automaton that moves at each event."""
    states = ["q0", "q1", "q2"]
    edge = st.builds(
        lambda what, following: {what: True, "next": following},
        st.sampled_from(["pass", "suppress"]),
        st.sampled_from(states),
    )
    domain = Domain.model_validate(
        {
            "nodes": {"n0": {"listen": "127.0.0.1:1883"}, "n1": {"listen": "127.0.0.1:1884"}},
            "links": [{"between": ["n0", "n1"]}],
            "clients": {"d0": {"node": "n0"}, "d1": {"node": "n0"}, "d2": {"node": "n1"}},
            "monitors": {"m": {"link": "n0 -> n1", "states": {q: {t: draw(edge) for t in ("a", "b")} for q in states}}},
        }
    )
    events = st.sampled_from(["a 1", "b 2"])
    published = [DevicePublication(device, "n0", draw(events)) for device in draw(st.permutations(["d0", "d1"]))]
    return Scene(domain, ensemble(domain), {("n1", "d2"): frozenset("ab")}, tuple(published))


@pytest.mark.parametrize("ordering", list(LinkOrdering), ids=str)
@settings(max_examples=some(12), phases=[Phase.explicit, Phase.generate], suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_policy_test_ends_as_by_brute_force(ordering: LinkOrdering, data: st.DataObject) -> None:
    scene = data.draw(st.one_of(guarded_links(), scenes(most_nodes=2, most_devices=3, most_publications=3)))
    test = data.draw(ordered_tests(scene))
    expected = all_endings(test, lambda: rehearse(scene), ordering.value, most=150)
    assume(expected is not None)
    assert expected is not None
    result = try_orders("t", test, begin(scene), ordering)
    assert result.holds is all(ending.holds for ending in expected)
    assert (result.breaks[ordering] is None) is result.holds
    play = OrderedPlay(test, begin(scene), keeps_order=True)
    assert _outcomes(scene, test, ordering) == {_shown(play, ending.got) for ending in expected}


def test_what_comes_before_something_expected_counts_where_anything_may_follow() -> None:
    """An order in which it does not hold was taken for the same as one in which it does: only one thing is expected."""
    nodes = {"n0": {"listen": "127.0.0.1:1883"}, "n1": {"listen": "127.0.0.1:1884"}}
    clients = {"d0": {"node": "n0"}, "d1": {"node": "n0"}, "d2": {"node": "n1"}}
    domain = Domain.model_validate({"nodes": nodes, "links": [{"between": ["n0", "n1"]}], "clients": clients})
    first = {"publish": {"d1": "a"}, "expect": {"d2": {"any_order": ["a"]}}}
    test = PolicyTest.model_validate({"subscribe": {"d2": "#"}, "steps": [first, {"publish": {"d0": "b"}}]})
    whole = ensemble(domain)
    assert not try_orders("t", test, lambda: Rehearsal(domain, whole), LinkOrdering.UNORDERED).holds


def _outcomes(scene: Scene, test: PolicyTest, ordering: LinkOrdering) -> set[object]:
    play = OrderedPlay(test, begin(scene), ordering is not LinkOrdering.UNORDERED)
    names = scene.whole.devices
    return {
        _shown(play, {name: play.play.deliveries(name) for name in names})
        for trace in interleavings(play)
        if ordering is not LinkOrdering.FIFO or in_fifo_order(trace) is not None
    }


def _shown(play: OrderedPlay, got: dict[str, Any]) -> object:
    """What everybody got; in order, where order makes a difference to the test."""
    return tuple(
        (name, tuple(history) if play.sees_order(name) else tuple(sorted(history))) for name, history in got.items()
    )


@settings(max_examples=some(30))
@given(scene=scenes(most_publications=3))
def test_links_that_keep_their_order_allow_what_the_rules_of_the_paper_allow(scene: Scene) -> None:
    """An independent account of the same: exploration of the operational semantics (brokering §5)."""
    try:
        allowed = explore(scene.schema(in_order_links), scene.publications, max_states=20_000)
    except ExplorationError:
        assume(False)
    steps = [{"publish": {device: _publication(node, event)}} for device, node, event in scene.publications]
    expects = {"expect": {name: {"in_order": ["a", "a"]} for name in scene.whole.devices}}  # so that order counts
    test = PolicyTest.model_validate({"subscribe": _subscriptions(scene), "steps": [*steps, expects]})
    play = OrderedPlay(test, begin(scene), keeps_order=True)
    found = {outcome(play.play) for _ in interleavings(play)}
    assert found <= allowed
    if not _injects(scene):  # the rules may deal with each of several events that a monitor makes at another time
        assert found == allowed


def _injects(scene: Scene) -> bool:
    automata = [monitor for link in scene.whole.links.values() for monitor in scene.whole.monitors(link)]
    return any(
        len(edge.action.outputs) > 1
        for automaton in automata
        if isinstance(automaton, Automaton)
        for state in automaton.states
        for edge in state.edges
    )
