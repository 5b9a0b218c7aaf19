"""Acknowledgements: each once, in the order in which the messages came, and not before all have handed them out."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from penstock.client.subscription import Receipt, Receipts


@given(st.lists(st.integers(0, 3), max_size=30), st.randoms(use_true_random=False))
def test_in_order_and_once(holders: list[int], random: Random) -> None:
    acknowledged: list[int] = []
    receipts = Receipts(acknowledged.append)
    taken = [receipts.add(mid, held) for mid, held in enumerate(holders)]
    handed = [receipt for receipt in taken for _ in range(receipt.holders)]
    random.shuffle(handed)
    for receipt in handed:
        receipts.hand_out(receipt)
        assert acknowledged == list(range(len(acknowledged)))
        assert all(taken[mid].holders == 0 for mid in acknowledged)
    assert acknowledged == list(range(len(taken)))


def test_what_came_over_a_lost_connection_is_not_acknowledged_over_the_next() -> None:
    acknowledged: list[int] = []
    receipts = Receipts(acknowledged.append)
    old: Receipt = receipts.add(7, 1)
    receipts.forget()
    new = receipts.add(7, 1)
    receipts.hand_out(old)
    assert acknowledged == []
    receipts.hand_out(new)
    assert acknowledged == [7]
