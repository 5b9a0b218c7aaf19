"""Random policies in random networks: what is explained is what a rehearsal delivers, and nothing comes of asking."""

from collections import Counter
from dataclasses import dataclass, replace

from hypothesis import given
from hypothesis import strategies as st

from penstock.domain.schema.node_settings import LimitSettings
from penstock.domain.schema.statements import StatementSettings
from penstock.domain.schema.trust import TrustGroupSettings
from penstock.engine.events import user_properties
from penstock.engine.explain.arrival import arrival
from penstock.engine.explain.walk import explain
from penstock.engine.rehearsal.rehearsal import Rehearsal
from penstock.model.decision import Decision
from penstock.model.event import Event
from penstock.policy.statements.elements.tracing import HOST
from tests.engine.explain.test_explain import everything
from tests.support.generators import networks

_RULE = "On(Forward, Publication) {{ {} {} }}"
_QUALIFIERS = (
    "",
    "@broker: Egress",
    "@broker: Ingress",
    "@broker: Routing",
    "@matching: Before",
    "@matching: Before @broker: Egress",
    "@matching: Before @broker: Routing",
    "@broker: Ingress, Egress",
)
_ATTACH = ("", "@attach: Always", "@attach: KeepExisting", "@attach: IfYield", "@attach: Always @yield_attach: True")
_FLOOD = "If {} Then {FloodMessage()}"
_CHAINS = (
    "If {} Then {RemoveAttributes(y)}",
    "If {x > 2} Then {BlockMessage()}",
    "If {x > 2} Then {RemoveAttributes(x)} Elseif {} Then {Log(other), Publish('[class,Other],[message,$Message]')}",
    "If {Broker() == 'n1'} Then {KeepOnlyAttributes(y)}",
    "If {Sender() == 'p0'} Then {AppendPrevHop()}",
    "If {} Then {AugmentBrokerHostInfo()}",
    _FLOOD,
    "If {y == 'k'} Then {ToXML()} OnException { If {} Then {AppendPrevHop()} }",
    "If {y == 'k'} Then {BlockMessage()}",
)
_WITH_FILTER = (
    "If {StrictMatch()} Then {BlockMessage()}",
    "If {} Then {TrimAttributes()} OnException { If {} Then {} }",
)
_WITH_RECEIVER = (
    "If {AuthenticateReceiver(inner)} Then {} Elseif {} Then {BlockMessage()}",
    "If {Receiver() == 's0'} Then {RemoveAttributes(x)}",
)


@st.composite
def policies(draw: st.DrawFn, has_filter: bool, is_given_to_subscription: bool = False) -> str:
    """The text of a policy about publications."""
    rules = []
    for _ in range(draw(st.integers(1, 2))):
        qualifiers = [one for one in _QUALIFIERS if not (is_given_to_subscription and one.endswith("Routing"))]
        qualifier = draw(st.sampled_from(qualifiers))
        attach = draw(st.sampled_from(_ATTACH)) if has_filter and not is_given_to_subscription else ""
        chains = [chain for chain in _CHAINS if not (is_given_to_subscription and chain is _FLOOD)]
        if has_filter and not attach:
            chains += _WITH_FILTER
        if "Before" not in qualifier:
            chains += _WITH_RECEIVER
        rules.append(_RULE.format(f"{qualifier} {attach}", draw(st.sampled_from(chains))))
    return f"PolicyStatement {{ {' '.join(rules)} }}"


@dataclass(frozen=True)
class Scene:
    network: networks.NetworkScene
    wanted: tuple[str, ...]
    """The policy of each subscription, empty if none; then of each advertisement, and of each publication."""
    advertised: tuple[str, ...]
    published: tuple[str, ...]


@st.composite
def scenes(draw: st.DrawFn, cyclic: bool) -> Scene:
    network = draw(networks.scenes(cyclic))
    names = [name for name in network.domain.clients if draw(st.booleans())]
    carriers = ("publication", "subscription", "advertisement")
    applied = draw(st.lists(st.tuples(st.sampled_from(carriers), st.sampled_from(networks.CONDITIONS)), max_size=2))
    texts = [draw(policies(to != "publication", to == "subscription")) for to, _ in applied]
    statements = StatementSettings.model_validate(
        {
            "policies": {f"given{at}": text for at, text in enumerate(texts)},
            "apply": [
                {"policy": f"given{at}", "to": to, "of": names or "*", **({"where": where} if where else {})}
                for at, (to, where) in enumerate(applied)
            ],
            "grants": [{"to": "*", "set": carriers, "elements": "*", "others": draw(st.sampled_from(["#", "none"]))}],
        }
    )
    members = {"nodes": ["n0", "n1"], "clients": ["s0", "s1"]}
    group = TrustGroupSettings.model_validate({"secret": {"env": "INNER"}, **members})
    nodes = {name: node.model_copy(update={"limits": LimitSettings()}) for name, node in network.domain.nodes.items()}
    more = {"statements": statements, "trust_groups": {"inner": group}, "nodes": nodes}
    domain = network.domain.model_copy(update=more)
    return Scene(
        replace(network, domain=domain),
        *(
            tuple(draw(st.one_of(st.just(""), policies(has_filter))) for _ in several)
            for several, has_filter in (
                (network.wanted, True),
                (network.advertised, True),
                (network.published, False),
            )
        ),
    )


def begin(scene: Scene) -> Rehearsal:
    network = scene.network
    rehearsal = networks.begin(replace(network, wanted=(), advertised=()))
    for number, (wish, policy) in enumerate(zip(network.advertised, scene.advertised, strict=True)):
        rehearsal.advertise(f"p{wish.at}", str(number), wish.filter, wish.where, policy=policy)
    for number, (wish, policy) in enumerate(zip(network.wanted, scene.wanted, strict=True)):
        rehearsal.subscribe(f"s{wish.at}", wish.filter, qos=1, where=wish.where, name=str(number), policy=policy)
    return rehearsal


Row = tuple[str, str, str, bytes, tuple[str, ...]]


def told(found: tuple[Decision, ...], rehearsal: Rehearsal) -> Counter[Row]:
    return Counter(
        (one.node, one.goes_by.target, output.topic, output.payload, user_properties.told(output, HOST))
        for one in found
        if one.goes_by is not None and one.goes_by.target in rehearsal.ensemble.devices
        for output in one.outputs
    )


def got(rehearsal: Rehearsal) -> Counter[Row]:
    return Counter(
        (one.node, name, one.topic, one.payload, tuple(value for key, value in one.properties if key == HOST))
        for name in rehearsal.ensemble.devices
        for one in rehearsal.deliveries(name)
    )


def check(scene: Scene, names_ways: bool = True) -> None:
    rehearsal = begin(scene)

    def compared(rows: Counter[Row]) -> Counter[Row]:
        return rows if names_ways else Counter((*row[:4], ()) for row in rows.elements())

    for (at, topic, payload), policy in zip(scene.network.published, scene.published, strict=True):
        event = Event(topic, payload, 1)
        if policy:
            event = user_properties.having(event, None, [(user_properties.POLICY, policy)])
        before, made = everything(rehearsal), [list(node.statements.made) for node in rehearsal.nodes.values()]
        came = arrival(rehearsal.nodes[f"n{at}"], f"p{at}", event)
        found = explain(rehearsal.nodes, came, rehearsal.now, rehearsal.ensemble.devices)
        assert everything(rehearsal) == before
        assert [list(node.statements.made) for node in rehearsal.nodes.values()] == made
        known = got(rehearsal)
        rehearsal.publish(f"p{at}", topic, payload, qos=1, policy=policy)
        rehearsal.run()
        assert compared(got(rehearsal) - known) == compared(told(found, rehearsal))


@given(scenes(cyclic=False))
def test_what_is_explained_of_policies_is_what_happens(scene: Scene) -> None:
    check(scene)


@given(scenes(cyclic=True))
def test_what_is_explained_of_policies_is_what_happens_in_graphs_with_cycles(scene: Scene) -> None:
    """Of two ways that are as long, either may be the quicker one: the nodes on it are not compared."""
    check(scene, names_ways=False)
