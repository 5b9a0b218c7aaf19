"""Every rule that may be written is applied where it says, or refused with a sentence when it is set.

All of {message} x {verb} x {before, after matching} x {ingress, routing, egress} x {message that the policy is set on}
x {set by a client, given by the domain}. Two parts of a domain, `n0 - n1` and `n2 - n3`, are joined between n1 and n2.
The producer p is at n0 and the subscriber s at n3, so publications and advertisements go from n0 to n3, and
subscriptions from n3 to n0. What a rule does is seen: it publishes the name of the node that applies it.
"""

from itertools import product
from typing import Any

import pytest

from penstock.domain import Domain
from penstock.domain.compile.ensemble import ensemble
from penstock.domain.schema.statements import problem_of
from penstock.engine.rehearsal.rehearsal import Rehearsal
from penstock.language.statements.statement import Matching, Message, Point, Verb
from penstock.model.errors import PenstockError
from penstock.policy.statements.statement import make_policy, policy_on
from tests.engine.statements.test_paper import got, play, say

PARTS = {"n0": "left", "n1": "left", "n2": "right", "n3": "right"}
DOWN = {"Ingress": "n0 n2", "Routing": "n0 n1 n2", "Egress": "n1 n3"}
"""Where a publication is at each point, on its way from p to s."""
OF_ADVERTISEMENT = DOWN | {"Egress": "n1"}
UP = {"Ingress": "n3 n1", "Routing": "n3 n2 n1", "Egress": "n2"}
"""Where a subscription is forwarded, on its way from s to p."""
MET = UP | {"Routing": "n3 n2 n1 n0"}
"""The same of rules of p's advertisement: at p's node the subscription is applied to as it comes."""
INTO_DOWN = {"Ingress": "n0 n2", "Routing": "n1 n3", "Egress": "nothing is inserted where it leaves the overlay"}
INTO_UP = {"Ingress": "n3 n1", "Routing": "n2 n0", "Egress": "nothing is inserted where it leaves the overlay"}
"""Where it comes into the tables."""
AT_READER = {"Ingress": "n3", "Routing": "does not go on to another node", "Egress": "n3"}
"""Where the domain's policy for a subscription acts on publications: of p, and of somebody at s's node."""

FORWARDED = {
    ("Advertisement", "Advertisement"): OF_ADVERTISEMENT,
    ("Advertisement", "Subscription"): MET,
    ("Advertisement", "Publication"): DOWN,
    ("Advertisement", "Unadvertisement"): OF_ADVERTISEMENT,
    ("Subscription", "Subscription"): UP,
    ("Subscription", "Publication"): DOWN,
    ("Subscription", "Unsubscription"): UP,
    ("Publication", "Publication"): DOWN,
    ("Unadvertisement", "Unadvertisement"): OF_ADVERTISEMENT,
    ("Unsubscription", "Unsubscription"): UP,
}
"""Table 1 of the paper, by carrier and message."""
INSERTED = {pair: INTO_UP if where in (UP, MET) else INTO_DOWN for pair, where in FORWARDED.items()}

CELLS = list(product(Message, Message, Verb, Matching, Point))
BY_DOMAIN = ("Advertisement", "Subscription", "Publication")


def text(verb: str, message: str, matching: str, point: str) -> str:
    seen = 'Publish("[class,Seen],[at,$Broker]")'
    rule = f"@matching: {matching} @broker: {point} If {{}} Then {{{seen}}}"
    return f"PolicyStatement {{ On({verb}, {message}) {{ {rule} }} }}"


def expected(carrier: str, message: str, verb: str, point: str) -> str:
    """The nodes at which it is applied, or a part of the sentence that refuses it."""
    if (carrier, message) not in FORWARDED:
        return f"a policy of {'an' if carrier[0] in 'AU' else 'a'} {carrier.lower()} is about"
    if verb == "Insert" and message == "Publication":
        return "a publication is never inserted into routing tables"
    return (FORWARDED if verb == "Forward" else INSERTED)[carrier, message][point]


def is_refusal(said: str) -> bool:
    return " " in said and not all(word in PARTS for word in said.split())


def scene(carrier: str, policy: str) -> Rehearsal:
    """All that can happen: p advertises, s subscribes, p publishes, both take back."""
    on = {carrier.lower(): policy}
    rehearsal = play(4, "routed", nodes={name: {"overlay": part} for name, part in PARTS.items()}, **GRANTS)
    _act(rehearsal, on)
    return rehearsal


GRANTS = {
    "statements": {
        "grants": [{"to": "*", "set": [message.lower() for message in Message], "elements": "*", "others": "#"}]
    }
}


def _act(rehearsal: Rehearsal, on: dict[str, str], is_local: bool = False) -> None:
    for name, node in (("p", "n0"), ("q", "n3"), ("s", "n3"), ("officer", "n1")):
        rehearsal.connect(name, node)
    rehearsal.subscribe("officer", "$penstock/meta/Seen")
    rehearsal.run()
    rehearsal.advertise("p", "A", "t", policy=on.get("advertisement", ""))
    rehearsal.run()
    rehearsal.subscribe("s", "t", policy=on.get("subscription", ""))
    rehearsal.run()
    say(rehearsal, "p", {"x": 1}, policy=on.get("publication", ""))
    if is_local:
        say(rehearsal, "q", {"x": 1})
    rehearsal.wait(10)
    rehearsal.unsubscribe("s", "t", policy=on.get("unsubscription", ""))
    rehearsal.wait(10)
    rehearsal.unadvertise("p", "A", policy=on.get("unadvertisement", ""))
    rehearsal.wait(10)


@pytest.mark.parametrize(("carrier", "message", "verb", "matching", "point"), CELLS)
def test_a_rule_that_a_client_sets_is_applied_where_it_says_or_refused(
    carrier: Message, message: Message, verb: Verb, matching: Matching, point: Point
) -> None:
    policy, said = text(verb, message, matching, point), expected(carrier, message, verb, point)
    if is_refusal(said):
        with pytest.raises(PenstockError, match=said):
            policy_on(make_policy(policy), carrier)
        return
    assert {one["at"] for one in got(scene(carrier, policy), "officer")} == set(said.split())


@pytest.mark.parametrize(
    ("carrier", "message", "verb", "matching", "point"), [cell for cell in CELLS if cell[0] in BY_DOMAIN]
)
def test_a_rule_that_the_domain_gives_is_applied_where_it_says_or_refused(
    carrier: Message, message: Message, verb: Verb, matching: Matching, point: Point
) -> None:
    said = expected(carrier, message, verb, point)
    if (carrier, message, verb) == ("Subscription", "Publication", "Forward"):
        said = AT_READER[point]
    of = "s" if carrier is Message.SUBSCRIPTION else "p"
    statements = {
        "policies": {"it": text(verb, message, matching, point)},
        "apply": [{"policy": "it", "to": carrier.lower(), "of": of, "filter": "t"}],
        **GRANTS["statements"],
    }
    settings: dict[str, Any] = {
        "nodes": {name: {"listen": "127.0.0.1:0", "overlay": part} for name, part in PARTS.items()},
        "links": [{"between": [f"n{at}", f"n{at + 1}"], "forward": "routed"} for at in range(3)],
        "clients": {"p": {"node": "n0"}, "q": {"node": "n3"}, "s": {"node": "n3"}, "officer": {"node": "n1"}},
        "statements": statements,
    }
    domain = Domain.model_validate(settings)
    assert domain.statements is not None
    (applied,), ((_, _, statement),) = domain.statements.apply, domain.statements.statements()
    assert not isinstance(statement, PenstockError)
    problem = problem_of(applied, statement)
    if is_refusal(said):
        assert said in problem
        return
    assert problem == ""
    rehearsal = Rehearsal(domain, ensemble(domain))
    _act(rehearsal, {}, is_local=True)
    assert {one["at"] for one in got(rehearsal, "officer")} == set(said.split())


def test_flooding_what_goes_to_a_subscriber_is_refused() -> None:
    before = "@matching: Before If {} Then {FloodMessage()}"
    flood = make_policy(f"PolicyStatement {{ On(Forward, Publication) {{ {before} }} }}")
    with pytest.raises(PenstockError, match="is about the copy for its subscriber, which goes nowhere else"):
        policy_on(flood, Message.SUBSCRIPTION)
    policy_on(flood, Message.PUBLICATION)
    policy_on(flood, Message.ADVERTISEMENT)


def test_rules_on_advertisements_that_nodes_make_themselves_are_refused() -> None:
    block = "PolicyStatement { On(Forward, Advertisement) { If {} Then {BlockMessage()} } }"
    apply = [{"policy": "it", "to": "advertisement", "at": "n0"}]
    settings = Domain.model_validate(
        {"nodes": {"n0": {"listen": "127.0.0.1:0"}}, "statements": {"policies": {"it": block}, "apply": apply}}
    ).statements
    assert settings is not None
    assert "goes nowhere" in problem_of(settings.apply[0], make_policy(block).statement)
