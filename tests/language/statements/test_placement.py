"""What may be set where, beside the mistakes: what is near to one and is none."""

import pytest

from penstock.language.statements.parser import parse_statement
from penstock.language.statements.statement import Message
from penstock.language.statements.table import check_place

ALLOWED = [
    ("Advertisement", "On(Forward, Advertisement) {If {AuthenticateReceiver(G)} Then {}}"),
    ("Advertisement", "On(Insert, Advertisement) {If {} Then {}}"),
    ("Advertisement", "On(Forward, Unadvertisement) {If {} Then {}}"),
    ("Advertisement", "On(Insert, Unadvertisement) {@broker: Ingress If {} Then {}}"),
    ("Advertisement", "On(Forward, Subscription) {@attach: KeepExisting If {} Then {}}"),
    ("Advertisement", "On(Insert, Subscription) {@attach: Always @yield_attach: True If {} Then {}}"),
    ("Advertisement", "On(Forward, Publication) {@attach: IfYield If {} Then {}}"),
    ("Advertisement", "On(Forward, Advertisement) {@attach: Never If {} Then {}}"),
    ("Subscription", "On(Forward, Subscription) {@yield_attach: True If {} Then {}}"),
    ("Subscription", "On(Insert, Subscription) {@broker: Ingress, Routing, Egress If {} Then {}}"),
    ("Subscription", "On(Forward, Publication) {@attach: Always If {} Then {}}"),
    ("Subscription", "On(Forward, Unsubscription) {If {} Then {}}"),
    ("Publication", "On(Forward, Publication) {@broker: Egress @yield_attach: True If {} Then {}}"),
    ("Publication", "On(Forward, Publication) {@matching: Before If {AuthenticateSender(G)} Then {}}"),
    ("Publication", "On(Forward, Publication) {@matching: Before If {AuthenticateReceiver == 1} Then {}}"),
    ("Publication", "On(Forward, Publication) {@yield_attach: False If {AuthenticateReceiver(G)} Then {}}"),
    ("Unsubscription", "On(Forward, Unsubscription) {If {} Then {}} On(Insert, Unsubscription) {If {} Then {}}"),
    ("Unadvertisement", "On(Insert, Unadvertisement) {@broker: Routing If {} Then {}}"),
]


@pytest.mark.parametrize(("carrier", "rules"), ALLOWED)
def test_allowed(carrier: str, rules: str) -> None:
    check_place(parse_statement(f"PolicyStatement {{{rules}}}"), Message(carrier))
