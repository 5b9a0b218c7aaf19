"""Which access policies are at odds, beside what policies really do to messages."""

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.analysis.access_conflicts import AccessFinding, conflicts
from penstock.domain import Domain
from penstock.model.sparkplug.message import parse
from penstock.model.sparkplug.plain import read_plain, write_plain
from penstock.model.sparkplug.topic import message_topic
from penstock.policy.sparkplug.bulk_files import make_policies
from penstock.policy.sparkplug.edge_nodes import Plant
from penstock.policy.sparkplug.policies import Access, AccessPolicy
from penstock.policy.sparkplug.views import ViewRequest, write_view

DOMAIN = Domain.model_validate(
    {
        "nodes": {"plant": {"listen": "127.0.0.1:0"}},
        "clients": {"a1": {"node": "plant", "groups": ["g"]}, "e1": {"node": "plant", "edge": "G1/E1"}},
    }
)
TOPIC = "spBv1.0/G1/NCMD/E1"


def policies(*rows: str) -> list[AccessPolicy]:
    """`a1 spBv1.0/# read -x,y when condition`"""
    made: list[AccessPolicy] = []
    for number, row in enumerate(rows):
        text, _, when = row.partition(" when ")
        subject, topics, may, *excepted = text.split()
        said: dict[str, Any] = {"subject": subject, "topics": topics, "may": may, "when": when}
        said["except"] = excepted[0][1:].split(",") if excepted else []
        made += make_policies(said, f"p{number}")
    return made


def found(*rows: str) -> list[tuple[str, str, str]]:
    return [(one.kind, one.policy, one.other) for one in conflicts(DOMAIN, policies(*rows))]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (["a1 spBv1.0/# read", "a1 spBv1.0/# write"], []),
        (["a1 spBv1.0/# read", "e1 spBv1.0/# read"], []),
        (["a1 spBv1.0/# read -x,y", "a1 spBv1.0/# read -y,x"], [("duplicate", "p1", "p0")]),
        (["a1 spBv1.0/G1/# read", "a1 spBv1.0/# read"], [("redundant", "p0", "p1")]),
        (["a1 spBv1.0/G1/# read", "* spBv1.0/# read"], [("redundant", "p0", "p1")]),
        (["a1 spBv1.0/G1/# read", "group:g spBv1.0/# read"], [("redundant", "p0", "p1")]),
        (["e1 spBv1.0/G1/# read", "group:g spBv1.0/# read"], []),
        (["a1 spBv1.0/# read when m.value > 5", "a1 spBv1.0/# read when m.value > 3"], [("redundant", "p0", "p1")]),
        (["a1 spBv1.0/# read -x when m.value > 5", "a1 spBv1.0/# read -x when m.value > 3"], []),
        (["a1 spBv1.0/# read -x when m.value > 5", "a1 spBv1.0/# read -x"], [("redundant", "p0", "p1")]),
        (["a1 spBv1.0/G1/# read -x1", "a1 spBv1.0/# read -x*"], [("redundant", "p0", "p1")]),
        (["a1 spBv1.0/G1/# read", "a1 spBv1.0/# read -x"], [("overruled", "p0", "p1")]),
        (["a1 spBv1.0/# read", "a1 spBv1.0/G1/# read -x"], [("conflict", "p1", "p0")]),
        (["a1 spBv1.0/+/NDATA/E1 read", "a1 spBv1.0/G1/+/E1 read -x"], [("conflict", "p1", "p0")]),
        (["a1 spBv1.0/+/NDATA/E1 read", "a1 spBv1.0/G1/+/E2 read -x"], []),
        (["a1 spBv1.0/# read -y when m.value < 3", "a1 spBv1.0/G1/# read -x when m.value > 3"], []),
        (["* spBv1.0/G1/# read", "a1 spBv1.0/# read -x"], [("conflict", "p1", "p0")]),
        (["a1 spBv1.0/# read -*"], [("empty", "p0", "")]),
        (["a2 spBv1.0/# read"], [("never", "p0", "")]),
        (["G1/E2 spBv1.0/# read"], [("never", "p0", "")]),
        (["a1 plant/# read"], [("never", "p0", "")]),
        (["a1 spBv1.0/# read when m.value > 3 && m.value < 3"], [("never", "p0", "")]),
    ],
)
def test_findings(rows: list[str], expected: list[tuple[str, str, str]]) -> None:
    assert found(*rows) == expected


def test_exceptions_that_no_birth_has() -> None:
    plant = Plant()
    plant.take(message_topic("spBv1.0/G1/NBIRTH/E1"), parse(write_plain({"speed": 1, "x/1": 2})))
    rows = ["a1 spBv1.0/G1/NDATA/E1 read -sped,speed,x/*", "e1 spBv1.0/G2/NDATA/E1 read -sped"]
    (one,) = conflicts(DOMAIN, policies(*rows), plant)
    assert one == AccessFinding("unmatched", "p0", "", "no birth on `spBv1.0/G1/NDATA/E1` has `sped`")


ROWS = st.lists(
    st.builds(
        "{} {} write{}{}".format,
        st.sampled_from(["a1", "group:g", "*"]),
        st.sampled_from(["spBv1.0/#", "spBv1.0/G1/#", TOPIC, "spBv1.0/+/NCMD/+", "spBv1.0/G2/#"]),
        st.sampled_from(["", " -x", " -m", " -x,m", " -*"]),
        st.sampled_from(["", " when m.value > 3", " when m.value > 5", " when x.value == 1", " when !has(x)"]),
    ),
    min_size=1,
    max_size=5,
)
MESSAGES = [
    {name: value for name, value in (("m", m), ("x", x), ("z", 0)) if value is not None}
    for m, x in product((None, 1, 4, 6), (None, 0, 1))
]


def views(several: list[AccessPolicy]) -> list[dict[str, Any] | None]:
    """What a1 may write of each of the messages."""
    grants = Access(several).grants(["client:a1", "group:g"], TOPIC, "write")
    requests = (ViewRequest(message_topic(TOPIC), parse(write_plain(one))) for one in MESSAGES)
    made = (write_view(grants, request, {}) for request in requests)
    return [None if view is None else read_plain(view.payload()) for view in made]


@given(ROWS)
def test_what_is_said_to_change_nothing_changes_nothing_and_what_is_overruled_is_cut(rows: list[str]) -> None:
    several = policies(*rows)
    for one in conflicts(DOMAIN, several):
        rest = [policy for policy in several if policy.id != one.policy]
        if one.kind in ("never", "duplicate", "redundant"):
            assert views(rest) == views(several), one
        if one.kind == "overruled":
            pair = [policy for policy in several if policy.id in (one.policy, one.other)]
            alone = [policy for policy in pair if policy.id == one.policy]
            whole = zip(views(alone), views(pair), strict=True)
            assert all(cut is not None and cut.keys() <= own.keys() for own, cut in whole if own is not None), one
