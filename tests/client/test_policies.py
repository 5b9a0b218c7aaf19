"""`penstock.client` with policies: set, set again, taken away, refused, and told again after a lost session."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import yaml

from penstock.client import Refused, StatementError, policies
from penstock.domain import Domain
from penstock.domain.compile.ensemble import ensemble
from penstock.engine.rehearsal.rehearsal import Rehearsal
from penstock.language.statements.parser import parse_statement
from penstock.language.statements.printer import show_compact
from penstock.language.statements.statement import Attach, Message, Statement
from tests.support.clients.library import client, payloads, take
from tests.support.processes.cable import Cable
from tests.support.processes.node import LiveNode, running

PAPER = yaml.safe_load((Path(__file__).parents[1] / "cases" / "statements" / "paper.yaml").read_text())
ALL = {
    "to": "*",
    "set": ["publication", "subscription", "advertisement", "unsubscription", "unadvertisement"],
    "elements": ["TrimAttributes", "RemoveAttributes", "BlockMessage", "UninsertMessage", "Publish"],
    "others": "#",
}
TELL = 'PolicyStatement {{ On(Forward, {}) {{ If {{}} Then {{Publish("[class,{}],[message,$Message]")}} }} }}'


@pytest.fixture(scope="module")
def granting() -> Iterator[LiveNode]:
    """A node where anybody may set policies of a few elements."""
    with running(statements={"grants": [ALL]}) as live:
        yield live
        assert "Traceback" not in live.log


@pytest.fixture
async def cable(granting: LiveNode) -> AsyncIterator[Cable]:
    async with Cable(granting.port) as cable:
        yield cable


async def test_the_policy_of_a_subscription_is_set_and_taken_away(granting: LiveNode, name: str) -> None:
    async with client(granting.port) as both:
        trimmed = await both.subscribe(name, "a > 1", policy=policies.trim())
        assert trimmed.policy == policies.text_of(policies.trim())
        await both.publish(name, {"a": 2, "b": 3})
        await both.set_policy(
            trimmed, "PolicyStatement { On(Forward, Publication) { If {} Then {RemoveAttributes(a)} } }"
        )
        await both.publish(name, {"a": 2, "b": 3})
        await both.set_policy(trimmed, None)
        await both.publish(name, {"a": 2, "b": 3})
        assert await payloads(trimmed, 3) == [b'{"a":2}', b'{"b":3}', b'{"a":2,"b":3}']
        assert trimmed.policy is None


async def test_who_is_refused_by_the_policy_of_another_does_not_hear_whose_it_is(granting: LiveNode, name: str) -> None:
    none = "PolicyStatement { On(Insert, Subscription) { If {} Then {UninsertMessage()} } }"
    async with client(granting.port) as producer, client(granting.port) as reader:
        early = await reader.subscribe(name)
        await producer.advertise(name, name="hidden", policy=none)
        with pytest.raises(Refused) as refused:
            await reader.subscribe(f"{name}/#")
        assert (refused.value.code, refused.value.words) == (0x87, "a policy does not let it in")
        with pytest.raises(Refused) as refused:
            await reader.set_policy(early, policies.trim())
        assert (refused.value.code, refused.value.words) == (0x87, "a policy does not let it in")
        assert early.policy is None
    granting.until_logged(f"{producer.client_id}: hidden")


async def test_the_policy_of_a_publication_goes_with_it(granting: LiveNode, name: str) -> None:
    async with client(granting.port) as both:
        subscription = await both.subscribe(name)
        await both.publish(name, {"a": 1, "b": 2}, policy=policies.remove("b"))
        await both.publish(name, {"a": 2, "b": 2}, policy=policies.block())
        await both.publish(name, {"a": 3, "b": 2})
        first, last = await take(subscription, 2)
        assert (first.payload, last.payload) == (b'{"a":1}', b'{"a":3,"b":2}')
        assert first.properties == ()


async def test_the_policy_of_an_advertisement(granting: LiveNode, name: str) -> None:
    async with client(granting.port) as both:
        subscription = await both.subscribe(name)
        advertised = await both.advertise(name, "a < 10", policy=policies.remove("b"))
        await both.publish(name, {"a": 1, "b": 2})
        await both.set_policy(advertised, policies.remove("c"))
        await both.publish(name, {"a": 1, "b": 2, "c": 3})
        await both.unadvertise(advertised)
        await both.publish(name, {"a": 1, "b": 2, "c": 3})
        assert await payloads(subscription, 3) == [b'{"a":1}', b'{"a":1,"b":2}', b'{"a":1,"b":2,"c":3}']


async def test_policies_of_what_is_taken_back(granting: LiveNode, name: str) -> None:
    async with client(granting.port) as both:
        meta = await both.subscribe(f"$penstock/meta/{name}")
        subscription, advertised = await both.subscribe(name), await both.advertise(name)
        await both.unsubscribe(subscription, policy=TELL.format("Unsubscription", name))
        await both.unadvertise(advertised, policy=TELL.format("Unadvertisement", name))
        assert [event async for event in subscription] == []
        assert [event.attributes["message"] for event in await take(meta, 2)] == [name, name]


async def test_policies_are_told_again_in_a_new_session(cable: Cable, name: str) -> None:
    async with client(cable.port, session_expiry=0) as both:
        await both.advertise(name, policy=policies.remove("c"))
        trimmed = await both.subscribe(name, "a > 1", policy=policies.trim())
        later = await both.subscribe(name, name="later")
        await both.set_policy(later, policies.remove("a"))
        cable.cut()
        cable.plug()
        await both.subscribe(f"{name}/other")  # is answered over the new connection
        await both.publish(name, {"a": 2, "b": 3, "c": 4})
        await both.publish(name, {"a": 1, "b": 3, "c": 4})
        # both policies are applied to the one copy that goes to both subscriptions
        assert await payloads(trimmed) == [b"{}"]
        assert await payloads(later, 2) == [b"{}", b'{"b":3}']


@pytest.mark.parametrize("policy", ["", "PolicyStatement {", "nonsense \0", Statement(()), 5, b""])
async def test_what_is_no_policy_is_found_before_anything_is_sent(
    granting: LiveNode, name: str, policy: str | Statement
) -> None:
    async with client(granting.port) as both:
        subscription, advertised = await both.subscribe(name), await both.advertise(name)
        for call in (
            both.publish(name, 1, policy=policy),
            both.subscribe(name, policy=policy),
            both.advertise(name, policy=policy),
            both.set_policy(subscription, policy),
            both.unsubscribe(subscription, policy=policy),
            both.unadvertise(advertised, policy=policy),
        ):
            with pytest.raises(StatementError):
                await call
        await both.publish(name, 2)
        assert await payloads(subscription) == [b"2"]


async def test_what_the_node_does_not_grant_is_refused_with_its_words(granting: LiveNode, name: str) -> None:
    log = "PolicyStatement {{ On(Forward, {}) {{ If {{}} Then {{Log()}} }} }}"
    async with client(granting.port, client_id=name) as both:
        subscription = await both.subscribe(name, "a > 1", policy=policies.trim())
        advertised = await both.advertise(name)
        publication = log.format("Publication")
        for call in (
            both.publish(name, {"a": 1}, policy=publication),
            both.subscribe(name, policy=publication),
            both.advertise(name, policy=publication),
            both.set_policy(subscription, publication),
            both.set_policy(advertised, publication),
            both.unsubscribe(subscription, policy=log.format("Unsubscription")),
            both.unadvertise(advertised, policy=log.format("Unadvertisement")),
        ):
            with pytest.raises(Refused) as caught:
                await call
            assert caught.value.words.endswith(f"policy: `{name}` may not use `Log`")
        with pytest.raises(Refused, match="a policy of a publication is about a publication"):
            await both.publish(name, {"a": 1}, policy=policies.flood())
        await both.publish(name, {"a": 2, "b": 3})
        assert await payloads(subscription) == [b'{"a":2}']
        assert subscription.policy == policies.text_of(policies.trim())


FIGURES = {
    "Fig. 4": policies.trim(),
    "Fig. 6": policies.trace(),
    "§5.1, tracing attached": policies.trace(Attach.ALWAYS),
    "Fig. 8": policies.flood(),
    "Fig. 22": policies.block_strictly(),
}


@pytest.mark.parametrize("figure", FIGURES)
def test_policies_of_the_paper_from_the_factory(figure: str) -> None:
    text = next(case["text"] for case in PAPER if case["title"].startswith(figure))
    assert FIGURES[figure] == parse_statement(text)


MADE = {
    "remove": (
        policies.remove("a", "b.c", where="x > 1"),
        "@broker: Egress If {x > 1} Then {RemoveAttributes(a, b.c)}",
    ),
    "keep only": (policies.keep_only("a"), "@broker: Egress If {} Then {KeepOnlyAttributes(a)}"),
    "XML": (policies.as_xml(), "@broker: Egress If {} Then {ToXML()}"),
    "JSON": (policies.as_json(), "@broker: Egress If {} Then {ToJSON()}"),
    "block": (policies.block("x > 1"), "If {x > 1} Then {BlockMessage()}"),
    "one of two groups": (
        policies.authenticate_receiver("G-1", "G2"),
        "If {AuthenticateReceiver('G-1')} Then {} Elseif {AuthenticateReceiver('G2')} Then {}"
        " Elseif {} Then {BlockMessage()}",
    ),
    "every group": (
        policies.authenticate_sender("G1", "G2", every=True),
        "If {AuthenticateSender('G1') && AuthenticateSender('G2')} Then {} Elseif {} Then {BlockMessage()}",
    ),
    "a name that would be more than a name": (
        policies.authenticate_sender("G') || true || Sender('", every=True),
        "If {AuthenticateSender(\"G') || true || Sender('\")} Then {} Elseif {} Then {BlockMessage()}",
    ),
}


@pytest.mark.parametrize("title", MADE)
def test_policies_from_the_factory(title: str) -> None:
    statement, rule = MADE[title]
    assert show_compact(statement) == f"PolicyStatement {{On(Forward, Publication) {{{rule}}}}}"
    assert parse_statement(policies.text_of(statement)) == statement


AT_THE_EDGE = {
    "trim": (policies.trim(), b'{"a":2}'),
    "remove": (policies.remove("a"), b'{"b":3}'),
    "keep only": (policies.keep_only("b"), b'{"b":3}'),
    "XML": (policies.as_xml(), b"<event><a>2</a><b>3</b></event>"),
}


@pytest.mark.parametrize("title", AT_THE_EDGE)
def test_what_is_taken_out_for_a_subscriber_does_not_keep_its_condition_from_holding_at_the_next_node(
    title: str,
) -> None:
    policy, left = AT_THE_EDGE[title]
    domain = Domain.model_validate(
        {
            "nodes": {name: {"listen": "127.0.0.1:0"} for name in ("n0", "n1", "n2")},
            "links": [
                {"between": ["n0", "n1"], "forward": "subscribed"},
                {"between": ["n1", "n2"], "forward": "subscribed"},
            ],
            "statements": {"grants": [{**ALL, "elements": "*"}]},
        }
    )
    rehearsal = Rehearsal(domain, ensemble(domain))
    rehearsal.connect("p", "n0")
    rehearsal.connect("s", "n2")
    rehearsal.subscribe("s", "t", where="a > 1", policy=policies.text_of(policy))
    rehearsal.run()
    rehearsal.publish("p", "t", b'{"a":2,"b":3}')
    rehearsal.run()
    assert [delivery.payload for delivery in rehearsal.deliveries("s")] == [left]


def test_policies_about_other_messages_and_several_in_one() -> None:
    statement = policies.joined(
        policies.authenticate_receiver("G", of=Message.ADVERTISEMENT), TELL.format("Publication", "X")
    )
    assert [rule.message for rule in statement.rules] == [Message.ADVERTISEMENT, Message.PUBLICATION]


def test_one_policy_of_what_is_none() -> None:
    with pytest.raises(StatementError, match="expected a policy, a text or a statement, not 5"):
        policies.joined(policies.trim(), 5)  # type: ignore[arg-type]


def test_a_policy_that_is_too_long_for_mqtt() -> None:
    text = TELL.format("Publication", "X],[a," + 19_000 * "\U00010348")
    with pytest.raises(StatementError, match="at most"):
        policies.text_of(text)


def test_authentication_for_nobody() -> None:
    with pytest.raises(ValueError, match="trust group"):
        policies.authenticate_receiver()
