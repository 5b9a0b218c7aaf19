import pytest

from penstock.model.errors import PolicyError
from penstock.policy.access.brokering import DEFAULT_TYPE, BrokeringTable

TYPES = ("internet", "door", "sensitive")


def test_the_table_of_the_smart_home_denies_one_pair_of_nine() -> None:
    """§4.3: events received from a link of type sensitive cannot be propagated to a link of type internet."""
    table = BrokeringTable.of_deny([("sensitive", "internet")], TYPES)
    denied = [(source, target) for source in TYPES for target in TYPES if not table.allows(source, target)]
    assert denied == [("sensitive", "internet")]


def test_the_table_of_roles_allows_three_pairs_of_thirty_six() -> None:
    """§6.2.3."""
    types = ("SubUp", "SubDown", "PubUp", "PubDown", "DevUp", "DevDown")
    pairs = {("PubUp", "SubDown"), ("DevUp", "PubUp"), ("SubDown", "DevDown")}
    table = BrokeringTable.of_allow(pairs, types)
    assert {(source, target) for source in types for target in types if table.allows(source, target)} == pairs


def test_the_most_liberal_table_has_one_type_and_allows_it() -> None:
    """§6.1, BP0."""
    table = BrokeringTable.open()
    assert table.types == {DEFAULT_TYPE}
    assert table.allows(DEFAULT_TYPE, DEFAULT_TYPE)


def test_the_relation_has_a_direction() -> None:
    table = BrokeringTable.of_allow([("door", "internet")], TYPES)
    assert table.allows("door", "internet")
    assert not table.allows("internet", "door")


def test_an_empty_allow_list_allows_nothing_and_an_empty_deny_list_everything() -> None:
    assert not BrokeringTable.of_allow([], TYPES).allows("door", "door")
    assert BrokeringTable.of_deny([], TYPES).allows("door", "door")


@pytest.mark.parametrize(
    "table", [BrokeringTable.open(), BrokeringTable.of_deny([], TYPES), BrokeringTable.of_allow([], TYPES)]
)
def test_a_type_that_is_not_known_gives_and_gets_nothing(table: BrokeringTable) -> None:
    assert not table.allows("dor", "door")
    assert not table.allows("door", "dor")


@pytest.mark.parametrize(
    ("table", "is_open"),
    [
        (BrokeringTable.open(), True),
        (BrokeringTable.of_deny([], TYPES), True),
        (BrokeringTable.of_deny([("door", "door")], TYPES), False),
        (BrokeringTable.of_allow([(source, target) for source in TYPES for target in TYPES], TYPES), True),
        (BrokeringTable.of_allow([("door", "door")], TYPES), False),
    ],
)
def test_a_table_is_open_if_it_allows_every_pair(table: BrokeringTable, is_open: bool) -> None:
    assert table.is_open is is_open


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (BrokeringTable.of_deny([("door", "internet")], TYPES), "denied by `deny` from `door` to `internet`"),
        (BrokeringTable.of_deny([("door", "door")], TYPES), "allowed: `deny` does not list from `door` to `internet`"),
        (BrokeringTable.of_deny([], TYPES), "allowed: nothing is denied from `door` to `internet`"),
        (BrokeringTable.of_allow([("door", "internet")], TYPES), "allowed by `allow` from `door` to `internet`"),
        (BrokeringTable.of_allow([], TYPES), "denied: `allow` does not list from `door` to `internet`"),
        (BrokeringTable.of_deny([], ["door"]), "denied: `internet` is not a link type (known: `door`)"),
    ],
)
def test_why_names_the_rule(table: BrokeringTable, said: str) -> None:
    assert table.why("door", "internet") == said
    assert table.allows("door", "internet") is said.startswith("allowed")


def test_a_pair_of_a_type_that_is_not_declared_is_refused() -> None:
    with pytest.raises(PolicyError) as raised:
        BrokeringTable.of_deny([("sensitive", "internt")], TYPES)
    message = "`deny` from `sensitive` to `internt`: `internt` is not a link type (did you mean `internet`?)"
    assert str(raised.value) == message


def test_tables_that_say_the_same_are_equal() -> None:
    assert BrokeringTable.of_deny([("door", "internet")] * 2, TYPES) == BrokeringTable.of_deny(
        [("door", "internet")], reversed(TYPES)
    )
