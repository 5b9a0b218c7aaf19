"""Policies on the way of events in the domain file: the brokering table, monitors, protocols and assertions."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from penstock.domain.schema.base import Name, OneOrMany, QosLevel, Settings, Short, TopicFilter, check_filter
from penstock.domain.schema.contents import ConditionText
from penstock.domain.schema.federation import Types
from penstock.domain.units import Pair, mistake, pair_form

ANY = "*"
"""At the end of a link: any entity."""
START = "q0"
"""The initial state of an automaton, if it has one of this name. (brokering §4.2, Convention 1, rule 1)"""

Direction = Literal["im_pub", "im_sub", "ex_pub", "ex_sub"]


SomeTypes = Annotated[tuple[Name, ...], OneOrMany("a link type or a list of link types")]


class BrokeringRule(Settings):
    """Pairs of link types: events from a link of one type, on to a link of the other."""

    from_: SomeTypes = Field(alias="from", description="link type, or list of link types, on which events come in")
    to: SomeTypes = Field(description="link type, or list of link types, on which events go out")

    @property
    def pairs(self) -> Iterator[Pair]:
        return product(self.from_, self.to)


class TableSettings(Settings):
    """A brokering table: what is allowed, or what is denied."""

    allow: tuple[BrokeringRule, ...] | None = Field(
        None, description="everything that is allowed; all other pairs of link types are denied"
    )
    deny: tuple[BrokeringRule, ...] | None = Field(
        None, description="everything that is denied; all other pairs of link types are allowed"
    )
    default: Types | None = Field(
        None,
        description="type of the links of clients that `clients` does not list, or lists without a type; unset:"
        " clients that are not listed are refused, if `clients` or `brokering.types` is there",
    )

    @model_validator(mode="after")
    def _one_list(self) -> TableSettings:
        if self.allow is not None and self.deny is not None:
            raise mistake("either `allow` or `deny`: pairs that neither names would have no meaning", "deny")
        return self

    @property
    def listed(self) -> tuple[str, tuple[BrokeringRule, ...]] | None:
        """Return the key of the one list that is given, and the list."""
        if self.allow is not None:
            return "allow", self.allow
        return None if self.deny is None else ("deny", self.deny)


class BrokeringSettings(TableSettings):
    """The brokering table of the domain and the link types it is about."""

    types: tuple[Name, ...] | None = Field(
        None, min_length=1, description="the link types; unset: all links are of one type"
    )


class NodeBrokering(TableSettings):
    """A node's replacement for the domain's brokering table."""

    @model_validator(mode="after")
    def _says_something(self) -> NodeBrokering:
        if self.listed is None and self.default is None:
            raise mistake("`allow`, `deny` or `default`")
        return self


_LINK_FORM = "a link such as `cloud -> gateway`, with `*` for any entity"
LinkPattern = Annotated[Pair, pair_form(r"\*|\?|[A-Za-z0-9_-]{1,64}", r"\s*->\s*", _LINK_FORM, r"([*?]|[\w-]+)")]


class NodeSide(Settings):
    """One of the four directions at a node. (brokering §7.3.2)"""

    node: Name = Field(description="the node")
    direction: Direction = Field(
        description="incoming from clients and child nodes (`im_pub`), outgoing to these (`im_sub`), incoming from"
        " parent nodes (`ex_pub`), outgoing to these (`ex_sub`)"
    )


class OutputSettings(Settings):
    """One event that a monitor sends."""

    topic: str = Field(
        min_length=1,
        description="its topic; `{topic}` is that of the event that came in, `{1}`, `{2}` are what the wildcards of"
        " the edge's filter matched",
    )
    payload: str | None = Field(
        None, description="its payload, a text; `{payload}` is that of the event that came in; unset: the same"
    )
    qos: QosLevel | None = Field(None, description="its QoS; unset: that of the event that came in")
    retain: bool | None = Field(None, description="whether it is retained; unset: not, if the topic is new")


OutputForm = Annotated[OutputSettings, Short.of_text("topic")]


def _as_true(value: object) -> object:
    if value is not True:
        raise mistake("true")
    return value


IsSo = Annotated[Literal[True], BeforeValidator(_as_true)]
_FORMS = ("pass", "suppress", "rename", "emit")


class EdgeSettings(Settings):
    """The action of an automaton in one state: one of `pass`, `suppress`, `rename`, `emit`; `when`; `next`."""

    when: ConditionText | None = Field(
        None, description="condition on the event's content; if it does not hold, the next edge that matches is tried"
    )
    pass_: IsSo | None = Field(None, alias="pass", description="true: the event goes on as it is")
    suppress: IsSo | None = Field(None, description="true: the event ends here")
    rename: str | None = Field(
        None, min_length=1, description="the event goes on under this topic, a template as in `emit`"
    )
    emit: Annotated[tuple[OutputForm, ...], OneOrMany()] | None = Field(
        None, description="the events that go on in its place, in order: topics, or mappings with `topic` and `payload`"
    )
    next: Name | None = Field(None, description="the state after it; unset: the same")

    @model_validator(mode="after")
    def _one_form(self) -> EdgeSettings:
        present = [
            key for key, name in zip(_FORMS, ("pass_", *_FORMS[1:]), strict=True) if getattr(self, name) is not None
        ]
        if not present:
            raise mistake("one of `pass`, `suppress`, `rename` and `emit`")
        if len(present) > 1:
            raise mistake(f"either `{present[0]}` or `{present[1]}`", present[1])
        return self


def _as_edge(value: object) -> object:
    """Accept the short forms of an edge: `pass` and `suppress`."""
    if isinstance(value, str):
        if value not in ("pass", "suppress"):
            raise mistake("`pass`, `suppress`, or a mapping with one of `pass`, `suppress`, `rename`, `emit`")
        return {value: True}
    return value


def _as_edge_name(value: str) -> str:
    return value if value == ANY else check_filter(value)


EdgeForm = Annotated[EdgeSettings, Short(_as_edge, {"enum": ["pass", "suppress"]})]
SomeEdges = Annotated[tuple[EdgeForm, ...], OneOrMany("what it does, or a list of such, all but the last with `when`")]
EdgeName = Annotated[str, AfterValidator(_as_edge_name)]


class MonitorSettings(Settings):
    """An execution monitor and the links it is on."""

    link: Annotated[tuple[LinkPattern, ...], OneOrMany(_LINK_FORM)] | None = Field(
        None,
        description="the link it is on, `cloud -> gateway`, or a list; `*` at either end is any entity, `?` any"
        " client that is not listed",
    )
    on: NodeSide | None = Field(None, description="in place of `link`: all links of a node in one direction")
    at: Literal["departure", "arrival"] | None = Field(
        None,
        description="on a link between nodes, the node that asks it: only the one that the event leaves"
        " (`departure`), or only the one where it arrives (`arrival`); unset: the one that `on` names, else the one"
        " that it leaves where that can be, and again, if it only passes or suppresses, where it arrives",
    )
    states: dict[Name, dict[EdgeName, SomeEdges]] | None = Field(
        None,
        description="an edit automaton: its states, and for each what it does with events by topic filter, or a list"
        " of this with conditions; `*` is every other event, and without it these are suppressed. It begins in `q0`,"
        " or if there is none, in the first",
        min_length=1,
    )
    python: str | None = Field(None, description="a class of your own, `module:Class`")
    with_: dict[str, Any] | None = Field(None, alias="with", description="arguments of the class, by name")
    filter: Annotated[tuple[TopicFilter, ...], OneOrMany()] | None = Field(
        None, description="topic filters of the events that pass; all others are suppressed"
    )
    mapper: dict[TopicFilter, str] | None = Field(
        None,
        description="new topics by topic filter, with `{1}` for what the first wildcard matched; other events pass",
    )

    @model_validator(mode="after")
    def _one_place_and_one_kind(self) -> MonitorSettings:
        if self.link is None and self.on is None:
            raise mistake("`link` or `on`: what the monitor is on", "link")
        if self.link is not None and self.on is not None:
            raise mistake("either `link` or `on`", "on")
        kinds = [key for key in ("states", "python", "filter", "mapper") if getattr(self, key) is not None]
        if not kinds:
            raise mistake("`states`, `filter`, `mapper` or `python`: what the monitor does")
        if len(kinds) > 1:
            raise mistake(f"only one of `{kinds[0]}` and `{kinds[1]}`", kinds[1])
        if self.with_ is not None and self.python is None:
            raise mistake("no `with` without `python`", "with")
        return self


class ProtocolSettings(Settings):
    """The order in which certain events may come, and who sends them."""

    protocol: str = Field(
        min_length=1,
        description="the order of events, as topic filters: `a b` one after the other, `a | b` one of them, `a?`, `a*`,"
        " `a+`, with parentheses",
    )
    senders: dict[str, Annotated[tuple[Name, ...], OneOrMany("a client or a list of clients")]] = Field(
        {}, description="for an event of the protocol the client that sends it, or a list; unset: anybody"
    )
    receivers: dict[str, Annotated[tuple[Name, ...], OneOrMany("a client or a list of clients")]] = Field(
        {}, description="for an event of the protocol the client that gets it, or a list; unset: whoever subscribes"
    )
    protects: Annotated[tuple[Name, ...], OneOrMany("an entity or a list of entities")] = Field(
        (),
        description="the entities that must see these events only in this order; unset: all senders and receivers",
    )
    guard: Annotated[tuple[str, ...], OneOrMany("an event of the protocol, or a list")] | None = Field(
        None, description="the events that are suppressed when they are out of order; unset: all of them"
    )
    table: bool = Field(
        False,
        description="whether the links of participants, and those between nodes, get link types and a brokering table"
        " by which an event goes from its senders to its receivers only; needs both for each event",
    )

    @property
    def participants(self) -> set[str]:
        """The entities that it names."""
        named = {name for ends in (self.senders, self.receivers) for names in ends.values() for name in names}
        return named | set(self.protects)


_FLOW_FORM = "two entities, such as `motion to phone`"
Flow = Annotated[Pair, pair_form(r"[A-Za-z0-9_-]{1,64}|\?", r"\s+to\s+", _FLOW_FORM, r"([\w-]+|\?)")]


class AssertionSettings(Settings):
    """A claim about the flows of the whole ensemble."""

    never: Flow | None = Field(None, description="nothing may flow from one entity to another: `a to b`")
    can: Flow | None = Field(None, description="something can flow from one entity to another: `a to b`")
    on: TopicFilter | None = Field(
        None, description="topic filter of the events it is about; unset: events of any topic"
    )
    routes: bool = Field(
        False,
        description="whether only ways through brokers count; otherwise clients on the way may republish what"
        " they read",
    )

    @model_validator(mode="after")
    def _one_claim(self) -> AssertionSettings:
        if self.never is None and self.can is None:
            raise mistake("`never` or `can`", "never")
        if self.never is not None and self.can is not None:
            raise mistake("either `never` or `can`", "can")
        return self

    @property
    def flow(self) -> Pair:
        """Return the source and the target."""
        flow = self.never or self.can
        assert flow is not None
        return flow
