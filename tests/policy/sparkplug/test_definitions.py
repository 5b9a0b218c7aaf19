"""Views against the sparkplug paper's own words: Definitions 2 to 5 as set expressions over whole histories."""

from dataclasses import dataclass
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from penstock.language.condition import make_condition
from penstock.model.sparkplug.message import parse
from penstock.model.sparkplug.payload import read_sparkplug
from penstock.model.sparkplug.topic import message_topic
from penstock.policy.sparkplug.policies import Access, AccessPolicy
from penstock.policy.sparkplug.views import START, BirthRecord, ViewRequest, read_view
from tests.support.memory.sparkplug import encode
from tests.support.models.sparkplug_views import State, views

NAMES = ("a", "b", "c", "d")
ALIASES = {name: number for number, name in enumerate(NAMES, 10)}
NBIRTH, NDATA = "spBv1.0/G/NBIRTH/E", "spBv1.0/G/NDATA/E"


@dataclass(frozen=True)
class Policy:
    """A policy whose condition the model decides by itself: true where a metric is there and above a bound."""

    exceptions: frozenset[str]
    metric: str | None = None
    bound: int = 0

    def outcome(self, metrics: State) -> bool | None:
        """None: it cannot be evaluated."""
        if self.metric is None:
            return True
        return metrics[self.metric] > self.bound if self.metric in metrics else None

    def compiled(self) -> AccessPolicy:
        condition = make_condition(f"{self.metric}.value > {self.bound}") if self.metric else None
        return AccessPolicy("client:s", NDATA, tuple(sorted(self.exceptions)), "read", condition)


values = st.integers(0, 3)
policies = st.lists(
    st.builds(
        Policy,
        st.frozensets(st.sampled_from(NAMES), max_size=3),
        st.one_of(st.none(), st.sampled_from(NAMES)),
        values,
    ),
    max_size=4,
    unique=True,
)
births = st.fixed_dictionaries(dict.fromkeys(NAMES, values))
reports = st.lists(st.dictionaries(st.sampled_from(NAMES), values), max_size=8)


@given(policies, births, reports, st.booleans())
def test_the_step_is_the_definition(rules: list[Policy], birth: State, history: list[State], aliased: bool) -> None:
    access = Access([AccessPolicy("client:s", NBIRTH, (), "read"), *(rule.compiled() for rule in rules)])
    known, standing, found = BirthRecord(), START, []
    for topic, state in [(NBIRTH, birth), *((NDATA, one) for one in history)]:
        message = parse(encode({"metrics": [_metric(topic, *one, aliased) for one in state.items()]}))
        known.born(message) if topic == NBIRTH else known.reported(message)
        request = ViewRequest(message_topic(topic), message, known)
        view, standing = read_view(access.grants(["client:s"], topic, "read"), request, {}, standing)
        found.append(None if view is None else _said(view.payload()))
    assert found[1:] == views(rules, birth, history)


def _metric(topic: str, name: str, value: int, aliased: bool) -> dict[str, Any]:
    called: dict[str, Any] = {"name": name} if topic == NBIRTH or not aliased else {}
    return {**called, **({"alias": ALIASES[name]} if aliased else {}), "int_value": value}


def _said(payload: bytes) -> State:
    read = read_sparkplug(payload)
    return {
        **read["metrics"],
        **{name: read["aliases"][alias] for name, alias in ALIASES.items() if alias in read["aliases"]},
    }
