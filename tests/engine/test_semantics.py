"""Live engines and the semantics of brokering §5, on random ensembles: what nodes deliver is what the paper says.

The differences that are on purpose (DESIGN §9) are kept out: clients ask not to be told their own events, and graphs
with cycles, in which an event of the semantics may travel for ever, are compared by what can arrive at all.
"""

from collections.abc import Iterable
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.rehearsal.rehearsal import Rehearsal
from penstock.engine.rehearsal.wires import Choose, earliest
from penstock.semantics.explore import DevicePublication, ExplorationError, RunOutcome, explore, run, work_first
from penstock.semantics.ordering import in_order_links
from penstock.semantics.rules import Notification, process, t_publish
from penstock.semantics.schema import Schema
from penstock.semantics.state import initial
from penstock.semantics.task import AnnotatedTask
from tests.support.generators.domains import Scene, parts, scenes, word


def rehearse(scene: Scene, choose: Choose = earliest) -> Rehearsal:
    """The nodes of a scene with all devices connected and subscribed."""
    rehearsal = Rehearsal(scene.domain, scene.whole, choose=choose)
    for device in scene.whole.devices:
        rehearsal.connect(device)
    for (node, device), topics in scene.subscriptions.items():
        for topic in sorted(topics):
            rehearsal.subscribe(device, topic, node=node)
    return rehearsal


def publish(rehearsal: Rehearsal, publications: Iterable[DevicePublication], qos: int) -> None:
    for device, node, event in publications:
        topic, payload = parts(event)
        rehearsal.publish(device, topic, payload.encode(), qos=qos, node=node)


def outcome(rehearsal: Rehearsal) -> RunOutcome:
    """What all devices were told, as the semantics says it."""
    told = (
        Notification(one.node, device, word(one.topic, one.payload.decode()))
        for device in rehearsal.ensemble.devices
        for one in rehearsal.deliveries(device)
    )
    return RunOutcome().after(told)


def by_link(outcome: RunOutcome) -> dict[tuple[str, str], list[str]]:
    """What each device was told by each broker: there the order is certain."""
    found: dict[tuple[str, str], list[str]] = {}
    for device, notifications in outcome.histories:
        for one in notifications:
            found.setdefault((one.broker, device), []).append(one.topic)
    return found


@given(scenes(most_nodes=4, most_devices=4, most_publications=5), st.sampled_from([0, 1, 2]))
def test_one_publication_after_the_other_is_delivered_as_the_semantics_says(scene: Scene, qos: int) -> None:
    rehearsal = rehearse(scene)
    for publication in scene.publications:
        publish(rehearsal, [publication], qos)
        rehearsal.run()
    _, expected = run(scene.schema(in_order_links), scene.publications, work_first)
    assert by_link(outcome(rehearsal)) == by_link(expected)


@given(scenes(most_publications=2), st.sampled_from([0, 1]), st.integers())
def test_publications_at_once_are_delivered_as_some_interleaving_allows(scene: Scene, qos: int, seed: int) -> None:
    rehearsal = rehearse(scene)
    random = Random(seed)
    rehearsal.assembly.choose = random.choice
    publish(rehearsal, scene.publications, qos)
    rehearsal.run()
    try:
        allowed = explore(scene.schema(in_order_links), scene.publications, max_states=20_000)
    except ExplorationError:
        return  # too many interleavings to follow them all
    assert outcome(rehearsal) in allowed


def can_arrive(schema: Schema, publications: Iterable[DevicePublication]) -> set[tuple[str, str]]:
    """Devices and topics that they may be told of, given monitors that keep no state: all that the rules lead to."""
    start = initial(schema)
    found: set[tuple[str, str]] = set()
    waiting: list[AnnotatedTask] = []
    seen = set()
    for device, broker, topic in publications:
        waiting += t_publish(schema, start, device, broker, topic).state.wl
    while waiting:
        alpha = waiting.pop()
        if alpha.task in seen:
            continue
        seen.add(alpha.task)
        step = process(schema, start._replace(wl=frozenset({alpha})), alpha)
        found |= {(told.device, told.topic) for told in step.notifications}
        waiting += step.state.wl
    return found


@given(scenes(most_nodes=5, max_states=1, cyclic=True), st.sampled_from([0, 2]))
def test_in_graphs_with_cycles_nothing_arrives_that_cannot_and_nothing_travels_for_ever(scene: Scene, qos: int) -> None:
    rehearsal = rehearse(scene)
    publish(rehearsal, scene.publications, qos)
    rehearsal.run()
    got = {(told.device, told.topic) for _, history in outcome(rehearsal).histories for told in history}
    assert got <= can_arrive(scene.schema(in_order_links), scene.publications)
