"""The ACE set is made of subscriptions that exist: flat in contracts without a subscriber, and of any size."""

import json
from unittest.mock import patch

from benchmarks.reproduce.contracts.ace import TOPIC, measure, played
from penstock.policy.contracts import release_place


def test_contracts_without_a_subscriber_put_nothing_on_the_link() -> None:
    few, many = (measure(played(contracts, 1), 1, 3).bytes for contracts in (1, 200))
    assert few == many


def test_of_many_subscribers_beyond_a_link_none_is_dropped() -> None:
    with patch.object(release_place, "MAX_ACE", 10):
        play = played(40, 35)
        play.publish("bob", TOPIC, b'{"lat": 48.9}')
        play.run()
        for at in range(35):
            (event,) = play.deliveries(f"consumer{at}")
            assert json.loads(event.payload) == {"lat": 45.0}
