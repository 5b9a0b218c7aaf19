"""Connections in the domain file: links between nodes, foreign brokers, and listed clients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal, cast, get_args

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from penstock.domain.schema import base
from penstock.domain.schema.contents import ConditionText, ListedAdvertisement
from penstock.domain.units import KEY, Below, HostPort, Written, mistake, mistakes

Mode = Literal["all", "subscribed", "advertised", "routed"]
"""The way in which events, subscriptions and advertisements spread over a link."""

EdgeName = Annotated[
    str,
    base.matching(r"^[^/+#]+/[^/+#]+$", "`GROUP/EDGE`, the two names of an edge node"),
    WithJsonSchema({"type": "string", "pattern": "^[^/+#]+/[^/+#]+$"}),
]

_PAIR_FORM = "two names, the one that dials first, such as `[gateway, cloud]`"


class LinkTypes(base.Settings):
    """The types of a client's two links with a node."""

    publish: base.Name = Field(description="type of the link on which the client publishes to the node")
    notify: base.Name = Field(description="type of the link on which the node notifies the client")


def _as_types(value: object) -> object:
    """Accept the short form of a client's types: one for both directions."""
    return {"publish": value, "notify": value} if isinstance(value, str) else value


Types = Annotated[LinkTypes, base.Short(_as_types, {"type": "string"})]


def _as_pair(value: object) -> object:
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise mistake(_PAIR_FORM)
    return value


_MODES = get_args(Mode)
_MODE_FORM = "`all`, `subscribed`, `advertised` or `routed`"
Forward = tuple[tuple[str, Mode], ...]


def _as_forward(value: object) -> Forward:
    """Accept one mode, or modes by topic filter; return pairs."""
    if isinstance(value, str) and value in _MODES:
        return (("#", cast(Mode, value)),)
    modes = dict(value) if isinstance(value, dict | tuple) else {}
    if not modes:
        raise mistake(f"{_MODE_FORM}, or a mapping of topic filters to these")
    wrong = list(_wrong_modes(modes))
    if wrong:
        raise mistakes(*wrong)
    return tuple(modes.items())


def _wrong_modes(modes: dict[str, object]) -> Iterator[tuple[Below, PydanticCustomError]]:
    for filter, mode in modes.items():
        try:
            base.check_filter(filter)
        except PydanticCustomError as error:
            yield (filter, KEY), error
        if mode not in _MODES:
            yield (filter,), mistake(_MODE_FORM)


def _short_forward(value: Forward) -> object:
    return value[0][1] if [filter for filter, _ in value] == ["#"] else dict(value)


_MODE_SCHEMA: dict[str, Any] = {"enum": list(_MODES)}
Forwarding = Annotated[
    Forward,
    Written(
        _as_forward,
        _short_forward,
        {"anyOf": [_MODE_SCHEMA, {"type": "object", "additionalProperties": _MODE_SCHEMA, "minProperties": 1}]},
    ),
]


class LinkTls(base.Settings):
    """TLS of a link, for the node that dials."""

    ca: base.OptionalReadFile = Field(
        None, description="PEM file with the authorities of the other's certificate; unset: the system's"
    )
    cert: base.OptionalReadFile = Field(None, description="PEM file with the dialling node's own certificate")
    key: base.OptionalReadFile = Field(None, description="PEM file with the private key of `cert`, not encrypted")

    @model_validator(mode="after")
    def _certificate_and_key_go_together(self) -> LinkTls:
        if self.cert is not None and self.key is None:
            raise mistake("the private key of `cert`", "key")
        if self.key is not None and self.cert is None:
            raise mistake("the certificate of `key`", "cert")
        return self


class LinkSettings(base.Settings):
    """A connection of two nodes, or of a node and a foreign broker: a link in each direction."""

    between: Annotated[tuple[base.Name, base.Name], BeforeValidator(_as_pair)] = Field(
        description="the two it joins; the first dials the second and counts as its child, the second as its parent"
    )
    type: base.Name | None = Field(
        None, description="link type from the first to the second, and back unless `back` says another"
    )
    back: base.Name | None = Field(None, description="link type from the second to the first; unset: as `type`")
    forward: Forwarding = Field(
        (("#", "subscribed"),),
        description="which events go over the link: one of `all`, `subscribed`, `advertised` and `routed`, or a mapping"
        " of topic filters to these, of which the first that matches counts; an event that matches none does not go",
        json_schema_extra={"default": "subscribed"},
    )
    address: HostPort | None = Field(
        None, description="`host:port` where the first reaches the second; unset: the second's first listener"
    )
    secret: str | None = Field(
        None,
        min_length=1,
        repr=False,
        description="text with which the first proves itself to the second; unset, without `secret_file`: one is"
        " made and kept in a file beside the domain file",
    )
    secret_file: base.OptionalReadFile = Field(None, description="file with that text, so that it is not in this one")
    tls: LinkTls | None = Field(None, description="transport encryption of the dialling side; unset: none")
    queue: base.Count = Field(
        10_000, ge=0, description="QoS 1 and 2 messages kept for the other side while the link is down"
    )

    @model_validator(mode="after")
    def _one_way_of_each(self) -> LinkSettings:
        if self.secret is not None and self.secret_file is not None:
            raise mistake("either `secret` or `secret_file`", "secret_file")
        if self.back is not None and self.type is None:
            raise mistake("a link type, because of `back`", "type")
        return self


class ForeignSettings(base.Settings):
    """A broker that is not a Penstock node, behind a link."""

    address: HostPort = Field(description="`host:port` where it listens")
    user: str | None = Field(None, description="user name to log in with; unset: none")
    password_file: base.OptionalReadFile = Field(None, description="file with the password of `user`")
    tls: LinkTls | None = Field(None, description="transport encryption; unset: none")
    version: Literal[4, 5] = Field(5, description="MQTT version to speak: 5, or 4 for MQTT 3.1.1")
    client_id: str | None = Field(None, description="client id to connect with; unset: `<domain>-<node>`")
    out: Annotated[tuple[base.TopicFilter, ...], base.OneOrMany()] = Field(
        ("#",), description="topics of the events that are sent to it"
    )
    in_: Annotated[tuple[base.TopicFilter, ...], base.OneOrMany()] = Field(
        ("#",), alias="in", description="topics of the events that are taken from it"
    )
    qos: base.QosLevel = Field(1, description="highest QoS in both directions")

    @model_validator(mode="after")
    def _a_password_is_somebody_s(self) -> ForeignSettings:
        if self.password_file is not None and self.user is None:
            raise mistake("a user name, because of `password_file`", "user")
        return self


def _as_nodes(value: object) -> object:
    """Accept the short forms of `node`: one name, or a list of names; the long form gives the types for each."""
    if value in ([], (), {}):
        raise mistake("the node that the client connects to, or several")
    if isinstance(value, dict):
        return value
    names = base.as_list(value)
    for name in names:
        if not isinstance(name, str):
            raise mistake("a node's name, a list of names, or a mapping of names to link types")
        if names.count(name) > 1:
            raise mistake(f"every node once, and `{name}` is there twice")
    return dict.fromkeys(names)


_NODES_SHORT: dict[str, Any] = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}


class ClientSettings(base.Settings):
    """A listed client: an entity with links to one node or several."""

    node: Annotated[dict[base.Name, Types | None], base.Short(_as_nodes, _NODES_SHORT)] = Field(
        {},
        description="the node that it connects to, a list of these, or a mapping of these to link types; required"
        " unless a pattern says it",
    )
    type: Types | None = Field(
        None,
        description="type of its links: one for both directions, or `publish` and `notify`; unset: `brokering.default`",
    )
    id: str | None = Field(None, min_length=1, description="its client id; unset, without the keys below: its name")
    user: str | None = Field(None, min_length=1, description="user name that it must have logged in with")
    certificate: str | None = Field(
        None,
        min_length=1,
        description="identity that its certificate must give it, as the listener's `tls.identity` takes it: the"
        " common name, or the whole subject",
    )
    listener: HostPort | None = Field(None, description="address of the node's listener that it must connect to")
    roams: bool = Field(
        False,
        description="whether it has one session at all its nodes together: when it connects to another of them, what it"
        " has there and what waits for it follow",
    )
    where: dict[base.TopicFilter, ConditionText] = Field(
        {},
        description="by topic filter, a condition that content on these topics must satisfy to go to it, whatever its"
        " subscriptions ask for",
    )
    advertises: tuple[ListedAdvertisement, ...] = Field(
        (),
        description="its advertisements; if there are any, it may publish nothing else, whatever it advertises itself",
    )

    edge: EdgeName | None = Field(
        None,
        description="`GROUP/EDGE`: its Sparkplug edge node; no other client may publish as this edge node, nor this"
        " client as another",
    )
    groups: Annotated[tuple[base.Name, ...], base.OneOrMany()] = Field(
        (), description="groups that it belongs to, for policies about groups"
    )
    attributes: dict[base.Name, bool | int | float | str] = Field(
        {}, description="its attributes, `subject.attributes` in conditions of policies"
    )

    def types_at(self, node: str) -> LinkTypes | None:
        """Return the types that the file gives its links with `node`."""
        return self.node.get(node) or self.type

    def client_id(self, name: str) -> str | None:
        """Return the client id it must have, given the entity's name; None if it may have any."""
        identities = (self.user, self.certificate, self.listener)
        return self.id if self.id is not None or any(part is not None for part in identities) else name
