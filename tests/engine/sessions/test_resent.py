"""What was sent and not acknowledged is asked about again when its client is back."""

from typing import Any

import pytest

from penstock.domain import Domain, ensemble
from tests.support.memory.node import MemoryNode

CLIENTS: dict[str, Any] = {"ann": {"node": "test"}, "bob": {"node": "test"}}
HOT = {"name": "hot", "filter": "a", "where": "x > 5"}
PRODUCER = {"producer": "ann", "filter": "a", "rules": {"all": {"purpose": "health"}}}
CHANGES: dict[str, dict[str, Any]] = {
    "advertises": {"clients": CLIENTS | {"ann": {"node": "test", "advertises": [HOT]}}},
    "where": {"clients": CLIENTS | {"bob": {"node": "test", "where": {"a": "x > 5"}}}},
    "contract": {"contracts": {"producers": {"ann": PRODUCER}}},
    "nothing": {},
}


def whole(**change: Any) -> Any:
    plain = {"nodes": {"test": {"listen": "127.0.0.1:0"}}, "clients": CLIENTS, "contracts": {"bring": "*"}}
    return ensemble(Domain.model_validate(plain | change))


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_sent_again_is_what_the_domain_lets_pass_now(change: str) -> None:
    joined = MemoryNode(whole=whole())
    bob = joined.connect("bob", clean_start=False, session_expiry=100)
    bob.subscribe("a", 1)
    joined.connect("ann").publish("a", b'{"x": 1}', qos=1)
    assert len(bob.messages()) == 1
    bob.lose()
    joined.govern(None, whole(**CHANGES[change]))
    again = joined.connect("bob", clean_start=False, session_expiry=100)
    assert [message.payload for message in again.messages()] == ([b'{"x": 1}'] if change == "nothing" else [])
