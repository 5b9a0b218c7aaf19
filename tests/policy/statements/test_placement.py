"""What may be set on which message, beyond Table 1: elements that refer to a filter need one."""

import pytest

from penstock.language.errors import StatementError
from penstock.language.statements.statement import Message
from penstock.model.errors import PolicyError
from penstock.policy.statements.statement import make_policy, policy_on

RULE = "PolicyStatement {{ On(Forward, {}) {{ {} If {{}} Then {{{}}} }} }}"
STRICT = "PolicyStatement { On(Forward, Subscription) { If {StrictMatch()} Then {BlockMessage()} } }"


@pytest.mark.parametrize(
    ("text", "carrier", "reason"),
    [
        (
            RULE.format("Publication", "", "TrimAttributes()"),
            Message.PUBLICATION,
            "`TrimAttributes()` is about a subscription or advertisement, and this is set on none",
        ),
        (
            RULE.format("Publication", "@attach: Always", "TrimAttributes()"),
            Message.ADVERTISEMENT,
            "`TrimAttributes()` is about the filter that a message matches, and cannot be attached",
        ),
        (
            STRICT,
            Message.SUBSCRIPTION,
            "`StrictMatch()` is about the filter that a message matches, and cannot be attached",
        ),
        (
            RULE.format("Subscription", "", "ToXML()"),
            Message.SUBSCRIPTION,
            "`ToXML` cannot be applied to a subscription",
        ),
        (
            RULE.format("Publication", "", "UninsertMessage()"),
            Message.PUBLICATION,
            "`UninsertMessage` cannot be applied to a publication",
        ),
        (
            "PolicyStatement { On(Insert, Subscription) { If {} Then {BlockMessage()} } }",
            Message.SUBSCRIPTION,
            "`BlockMessage` has no meaning where a message is inserted",
        ),
        (
            "PolicyStatement { On(Insert, Subscription) { If {AuthenticateReceiver(G)} Then {UninsertMessage()} } }",
            Message.SUBSCRIPTION,
            "`AuthenticateReceiver`: there is no receiver where a message is inserted",
        ),
        (RULE.format("Publication", "", "StrictMatch()"), Message.SUBSCRIPTION, "`StrictMatch` is a condition"),
        (
            RULE.format("Publication", "", "RemoveAttributes()"),
            Message.SUBSCRIPTION,
            "at least 1 argument, not 0",
        ),
        (RULE.format("Publication", "", "RemoveAttribute(a)"), Message.SUBSCRIPTION, "is `RemoveAttributes` meant?"),
        (RULE.format("Publication", "", "Publish('x')"), Message.SUBSCRIPTION, r"expected attributes such as"),
        (RULE.format("Publication", "", "Publish('[a,1]')"), Message.SUBSCRIPTION, "expected a `class`"),
        (RULE.format("Publication", "", "Publish('[class,A]', '$SYS/x')"), Message.SUBSCRIPTION, "of the node itself"),
        (RULE.format("Publication", "", "Publish('[class,A],[b,$Nobody]')"), Message.SUBSCRIPTION, "is not known"),
    ],
)
def test_what_cannot_be_set_is_refused_with_a_reason(text: str, carrier: Message, reason: str) -> None:
    with pytest.raises((PolicyError, StatementError)) as caught:
        policy_on(make_policy(text), carrier)
    assert reason in str(caught.value)


def test_a_strict_match_may_be_asked_of_what_meets_an_advertisement() -> None:
    assert policy_on(make_policy(STRICT), Message.ADVERTISEMENT).uses() == {"StrictMatch", "BlockMessage"}


ASKED = "PolicyStatement {{ On(Forward, {}) {{ If {{{}}} Then {{Log()}} OnException {{ If {{{}}} Then {{}} }} }} }}"
OTHERS = [message for message in Message if message is not Message.PUBLICATION]


@pytest.mark.parametrize("message", OTHERS)
@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        ("salary > 4", "there is no attribute `salary`"),
        ("has(salary)", "there is no attribute `salary`"),
        ("Sender() == name", "there is no attribute `name`"),
        ("filters == 'a'", "there is no attribute `filters`; there is `filter`"),
        ("where > 5", "where > 5"),
    ],
)
def test_of_what_is_no_publication_conditions_know_the_filter_and_nothing_else(
    message: Message, condition: str, reason: str
) -> None:
    for text in (ASKED.format(message, condition, ""), ASKED.format(message, "", condition)):
        with pytest.raises(StatementError) as caught:
            make_policy(text)
        assert reason in str(caught.value)


@pytest.mark.parametrize("message", OTHERS)
def test_a_filter_and_its_condition_can_be_asked_for(message: Message) -> None:
    make_policy(ASKED.format(message, "filter.startsWith('a/') && where == '' && Sender() == 'x'", "size(where) > 5"))


def test_of_publications_anything_can_be_asked() -> None:
    make_policy(ASKED.format("Publication", "salary > 4 && where > 5", "has(a.b)"))
