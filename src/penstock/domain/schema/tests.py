"""Policy tests in the domain file: actions step by step, and the expected results.

tests:
  an unlock needs a grant:
    - {publish: {bell: DL_unlock}, expect: {lock: []}}
    - publish: {bell: AC_request}
      expect: {lock: AC_request, phone: AC_request}
      states: {unlock-after-grant: asked}
"""

from __future__ import annotations

import json
import re
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from penstock.domain.schema.base import Name, OneOrMany, QosLevel, Settings, Short, TopicName, as_list
from penstock.domain.schema.contents import AdvertisementSettings, ConditionText
from penstock.domain.schema.statements import PolicyChoice
from penstock.domain.schema.trust import ExpectedRating, RateStep, ShownToken
from penstock.domain.units import Pair, Seconds, mistake, pair_form
from penstock.model.errors import ContentError, TopicError
from penstock.model.sparkplug.plain import write_plain
from penstock.model.topic import parse_filter
from penstock.policy.statements.advertisement import Scope

_POLICY = "policy to set on it: its name in `statements`, or a statement; unset: none"
OTHERS = "*"
"""In `expect`: every other client and foreign broker."""

_NAME = r"[A-Za-z0-9_-]{1,64}"
_STATE = re.compile(rf"({_NAME})\s*(?:@\s*({_NAME})\s*->\s*({_NAME})\s*)?", re.ASCII)


def _check_filter(value: str) -> str:
    try:
        return parse_filter(value).text
    except TopicError as error:
        raise mistake(f"a topic filter, and this is none: {error}") from None


Filter = Annotated[str, AfterValidator(_check_filter)]


LinkName = Annotated[Pair, pair_form(_NAME, r"\s*->\s*", "a link such as `cloud -> gateway`", r"[\w-]+")]
Links = Annotated[tuple[LinkName, ...], OneOrMany("a link or a list of links")]
Names = Annotated[tuple[Name, ...], OneOrMany("a name or a list of names")]
Stage = Literal["admit", "prune", "conform", "edit", "match", "route", "judge", "shape", "release", "project", "emit"]
Effect = Literal["pass", "suppress", "replace", "inject"]


class ExpectedMessage(Settings):
    """An expected message; fields that are not set may have any value."""

    topic: TopicName = Field(description="topic of the message")
    payload: str | None = Field(None, description="its payload; unset: any")
    metrics: dict[str, Any] | None = Field(
        None, description="of a Sparkplug message, the values of all its metrics by name; unset: any"
    )
    without: Annotated[tuple[str, ...], OneOrMany("the name of a metric or a list of these")] = Field(
        (), description="of a Sparkplug message, metrics that are not in it"
    )
    seq: int | None = Field(None, ge=0, le=255, description="`seq` of a Sparkplug message; unset: any")
    qos: QosLevel | None = Field(None, description="its QoS; unset: any")
    retain: bool | None = Field(None, description="whether it is a retained message; unset: either")
    at: Name | None = Field(None, description="node that sends it; unset: any")


class PublishStep(Settings):
    """A publication of a client."""

    topic: TopicName = Field(description="topic that it publishes to")
    payload: str = Field("", description="its payload")
    content: Any = Field(None, description="in place of `payload`: any value, which is sent as JSON")
    metrics: dict[str, Any] | None = Field(
        None,
        description="in place of `payload`: a Sparkplug message, as values of metrics by name, or mappings with"
        " `value`, `type`, `alias`, `timestamp`, `properties`, `historical`, `transient`",
    )
    seq: int | None = Field(
        None, ge=0, le=255, description="`seq` of a Sparkplug message; unset: the next of its edge node"
    )
    qos: QosLevel = Field(0, description="QoS of the publication")
    retain: bool = Field(False, description="whether it is to be retained")
    policy: PolicyChoice | None = Field(None, description=_POLICY)
    at: Name | None = Field(None, description="node that it publishes at; unset: the first it is connected to")

    @model_validator(mode="after")
    def _payload_or_content(self) -> PublishStep:
        if self.payload and self.content is not None:
            raise mistake("either `payload` or `content`", "content")
        if self.metrics is None:
            if self.seq is not None:
                raise mistake("no `seq` without `metrics`", "seq")
            return self
        if self.payload or self.content is not None:
            raise mistake("either `payload`, `content` or `metrics`", "metrics")
        try:
            write_plain(self.metrics)
        except ContentError as error:
            raise mistake(f"what a Sparkplug message can have: {error}", "metrics") from None
        return self

    def data(self, seq: int | None = None) -> bytes:
        """Return the payload as it is sent, a Sparkplug message with this `seq` if it has none of its own."""
        if self.metrics is not None:
            return write_plain(self.metrics, seq if self.seq is None else self.seq)
        return self.payload.encode() if self.content is None else json.dumps(self.content, ensure_ascii=False).encode()


class SubscribeStep(Settings):
    """A subscription of a client."""

    filter: Filter = Field(description="topic filter")
    qos: QosLevel = Field(2, description="highest QoS that it wants")
    no_local: bool = Field(True, description="whether it does not want its own publications")
    where: ConditionText | None = Field(None, description="condition that content must satisfy; unset: any content")
    name: Name | None = Field(
        None, description="its name among the client's subscriptions with this filter; unset: no name"
    )
    scope: Scope | None = Field(
        None,
        description="`global`: told over every link; `local`: to no other node; unset: as the links' `forward` says",
    )
    policy: PolicyChoice | None = Field(None, description=_POLICY)
    contract: dict[str, Any] | None = Field(
        None, description="contract of the subscription: guarantees and needs; unset: none"
    )
    at: Name | None = Field(None, description="node that it subscribes at; unset: all it is connected to")


class UnsubscribeStep(Settings):
    """The end of a client's subscription."""

    filter: Filter = Field(description="its topic filter")
    name: Name | None = Field(None, description="its name; unset: the one without a name")


class AdvertiseStep(AdvertisementSettings):
    """An advertisement of a client."""

    policy: PolicyChoice | None = Field(None, description=_POLICY)
    at: Name | None = Field(None, description="node that it advertises at; unset: all it is connected to")


class SetPolicyStep(Settings):
    """A policy for an existing subscription or advertisement of a client."""

    subscription: str | None = Field(None, description="topic filter of the subscription")
    name: str | None = Field(None, description="name of the subscription; unset: it has none")
    advertisement: str | None = Field(None, description="in place of `subscription`: name of an advertisement")
    policy: PolicyChoice | None = Field(
        None, description="its policy from now on: a name in `statements`, or a statement; unset: none any more"
    )

    @model_validator(mode="after")
    def _of_one(self) -> SetPolicyStep:
        if (self.subscription is None) is (self.advertisement is None):
            raise mistake("one of `subscription` and `advertisement`")
        if self.name is not None and self.subscription is None:
            raise mistake("`name` only with a subscription", "name")
        return self


_TOPICS = OneOrMany("a topic or a list of topics")
_FILTERS = OneOrMany("a topic filter or a list of topic filters")
Messages = Annotated[tuple[Annotated[ExpectedMessage, Short.of_text("topic")], ...], OneOrMany()]
Publications = Annotated[tuple[Annotated[PublishStep, Short.of_text("topic")], ...], _TOPICS]
Subscriptions = Annotated[tuple[Annotated[SubscribeStep, Short.of_text("filter")], ...], _FILTERS]
Unsubscriptions = Annotated[tuple[Annotated[UnsubscribeStep, Short.of_text("filter")], ...], _FILTERS]
SetPolicies = Annotated[tuple[SetPolicyStep, ...], OneOrMany("what the policy is for, or a list of these")]
Rates = Annotated[tuple[Annotated[RateStep, Short.of_text("topic")], ...], _TOPICS]
Advertisements = Annotated[tuple[AdvertiseStep, ...], OneOrMany("an advertisement or a list of these")]


class Expected(Settings):
    """All messages that a client gets."""

    in_order: Messages | None = Field(None, description="these messages, in this order")
    any_order: Messages | None = Field(None, description="these messages, in any order")

    @model_validator(mode="after")
    def _one_of_both(self) -> Expected:
        if (self.in_order is None) is (self.any_order is None):
            raise mistake("either `in_order` or `any_order`")
        return self


def _as_expected(value: object) -> object:
    """Accept the short form of messages in order: a list of them, or one."""
    if isinstance(value, dict) and value.keys() & {"in_order", "any_order"}:
        return value
    return value if isinstance(value, Expected) else {"in_order": as_list(value)}


_MESSAGES_FORM: dict[str, Any] = {"type": ["string", "array", "object"]}


class ExpectedVerdict(Settings):
    """An expected verdict on what was published; fields that are not set may have any value."""

    at: Name = Field(description="node that decides")
    from_: Name | None = Field(None, alias="from", description="where the event came from; unset: anywhere")
    to: Name | None = Field(None, description="where it was to go; unset: anywhere")
    stage: Stage | None = Field(None, description="stage that spoke; unset: any")
    effect: Effect | None = Field(None, description="what it did; unset: anything")
    rule: str | None = Field(None, description="rule of the verdict, such as a monitor's name; unset: any")


class StateKey(Settings):
    """A monitor, and one of its links if not all of them."""

    monitor: str
    link: Pair | None = None


def state_key(text: str) -> StateKey | None:
    """Parse a key of `states`: `monitor`, or `monitor @ source -> target`; None if it is neither."""
    match = _STATE.fullmatch(text)
    if match is None:
        return None
    return StateKey(monitor=match[1], link=(match[2], match[3]) if match[2] else None)


def _check_states(value: dict[str, Any]) -> dict[str, Any]:
    for key in value:
        if state_key(key) is None:
            raise mistake("a monitor such as `unlock`, or `unlock @ gateway -> locks`", key)
    return value


States = Annotated[dict[str, Any], AfterValidator(_check_states)]


def _as_connections(value: object) -> object:
    """Accept the short forms of clients that connect: a name, or a list of names, to all their nodes."""
    return value if isinstance(value, dict) else dict.fromkeys(str(name) for name in as_list(value))


_CONNECT_FORM: dict[str, Any] = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}


def _check_moment(value: str) -> str:
    try:
        datetime.fromisoformat(value)
    except ValueError:
        raise mistake("a date, with or without a time, such as `2026-12-01T08:00:00Z`") from None
    return value


Moment = Annotated[str, AfterValidator(_check_moment)]


class PolicyTestStep(Settings):
    """One action, and the expected results."""

    connect: Annotated[dict[Name, Name | None], Short(_as_connections, _CONNECT_FORM)] | None = Field(
        None,
        description="clients that connect: a name, a list, or a mapping of names to nodes; listed clients are"
        " connected when a test begins",
    )
    disconnect: Names | None = Field(None, description="clients that disconnect; their sessions stay")
    subscribe: dict[Name, Subscriptions] | None = Field(
        None, description="by client, a topic filter or a list of these"
    )
    unsubscribe: dict[Name, Unsubscriptions] | None = Field(
        None, description="by client, a topic filter or a list of these"
    )
    advertise: dict[Name, Advertisements] | None = Field(
        None, description="by client, an advertisement or a list of these"
    )
    unadvertise: dict[Name, Names] | None = Field(
        None, description="by client, the name of an advertisement that it takes back, or a list of these"
    )
    set_policy: dict[Name, SetPolicies] | None = Field(
        None, description="by client, a policy for a subscription or advertisement that it has, or a list of this"
    )
    prove: dict[Name, Names] | None = Field(
        None, description="by client, the trust group that it proves to be in, or a list of these"
    )
    show: dict[Name, ShownToken] | None = Field(
        None, description="by client, the token with which it connects again, in place of what it is granted"
    )
    publish: dict[Name, Publications] | None = Field(
        None, description="by client or foreign broker, a topic or a list of these, published one after another"
    )
    rate: dict[Name, Rates] | None = Field(
        None, description="by client, the topic of a message that it calls bad, or a mapping, or a list of these"
    )
    cut: Links | None = Field(None, description="link between nodes that breaks, such as `cloud -> gateway`")
    restore: Links | None = Field(None, description="link that comes back")
    restart: Names | None = Field(None, description="nodes that are killed and started again")
    wait: Seconds | None = Field(None, ge=0, description="time that passes")
    at: Moment | None = Field(
        None, description="time that comes next, such as `2026-12-01T08:00:00Z`; a test begins in January 1970"
    )
    expect: dict[str, Annotated[Expected, Short(_as_expected, _MESSAGES_FORM)]] = Field(
        {},
        description="by client or foreign broker, all messages since the last `expect`, in"
        " order, or `any_order`; `*` is everybody who is not named",
    )
    refused: Names = Field((), description="clients that are refused")
    verdicts: Annotated[tuple[ExpectedVerdict, ...], OneOrMany()] = Field(
        (), description="verdicts on publications since the last `expect`"
    )
    states: States = Field({}, description="by monitor, or `monitor @ source -> target`, the state that it is in")
    ratings: Annotated[tuple[ExpectedRating, ...], OneOrMany()] = Field((), description="ratings of neighbours")

    @model_validator(mode="after")
    def _does_one_thing(self) -> PolicyTestStep:
        deeds = self.actions
        if len(deeds) > 1:
            raise mistake(f"one thing in a step, and `{deeds[0]}` is one already", deeds[1])
        if not deeds and not self.expects:
            raise mistake("something to do or to expect")
        return self

    @property
    def actions(self) -> list[str]:
        """Return the keys of the action: one, or none. An action is None if it is not set, other keys are empty."""
        fields = type(self).model_fields
        return [key for key, field in fields.items() if field.default is None and getattr(self, key) is not None]

    @property
    def expects(self) -> bool:
        return bool(self.expect or self.refused or self.verdicts or self.states or self.ratings)


class PolicyTest(Settings):
    """A test of a domain's policies, played without sockets."""

    subscribe: dict[Name, Subscriptions] | None = Field(
        None, description="subscriptions at the beginning; unset: every listed client to everything"
    )
    states: States = Field({}, description="by monitor, or `monitor @ source -> target`, the state that it begins in")
    steps: tuple[PolicyTestStep, ...] = Field(min_length=1, description="actions and expectations, one after the other")


Title = Annotated[str, Field(min_length=1, max_length=200)]
Tests = dict[Title, Annotated[PolicyTest, Short.of_list("steps")]]
