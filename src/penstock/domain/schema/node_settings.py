"""Settings of one node: listeners, store, limits."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from penstock.domain.schema import base
from penstock.domain.schema.policies import NodeBrokering
from penstock.domain.schema.trust import NodeTrust
from penstock.domain.units import HostPort, Seconds, Size, WholeSeconds, mistake

_MIB = 2**20
# The longest packet that MQTT's four length bytes can state, its fixed header included.
_LARGEST_PACKET = 268_435_460
_LARGEST_EXPIRY = 2**32 - 1


class Tls(base.Settings):
    """TLS of one listener."""

    cert: base.ReadFile = Field(description="PEM file with the server's certificate, then its intermediates")
    key: base.ReadFile = Field(description="PEM file with the private key of `cert`, not encrypted")
    ca: base.OptionalReadFile = Field(
        None, description="PEM file with the authorities that client certificates are checked against"
    )
    require_certificate: bool = Field(
        False, description="whether a client must present a certificate signed by one of `ca`"
    )
    identity: Literal["none", "cn", "subject"] = Field(
        "none",
        description="what of a client certificate becomes the user name: nothing, its common name,"
        " or its whole subject",
    )
    min_version: base.TlsVersion = Field("1.2", description="lowest TLS version that is accepted")

    @model_validator(mode="after")
    def _client_certificates_need_an_authority(self) -> Tls:
        if self.ca is None and self.require_certificate:
            raise mistake("a file of authorities, because of `require_certificate: true`", "ca")
        if self.ca is None and self.identity != "none":
            raise mistake(f"a file of authorities, because of `identity: {self.identity}`", "ca")
        return self


class Listener(base.Settings):
    """One address on which a node accepts MQTT connections."""

    address: HostPort = Field(
        description="`host:port` to listen on; an IPv6 host stands in brackets, port 0 is any free port"
    )
    websocket: bool = Field(False, description="whether MQTT comes inside WebSocket")
    path: base.UrlPath = Field(
        "/mqtt", description="URL path of the WebSocket; `/` is accepted beside it. Only with `websocket: true`"
    )
    tls: Tls | None = Field(None, description="transport encryption; unset: in the clear")
    anonymous: bool | None = Field(
        None, description="whether clients without a user name may connect here; unset: as the node says"
    )
    max_connections: base.Count | None = Field(
        None, ge=1, description="connections on this listener at a time; unset: only the node's limit"
    )

    @model_validator(mode="after")
    def _path_is_for_websocket(self) -> Listener:
        if "path" in self.model_fields_set and not self.websocket:
            raise mistake("no `path` without `websocket: true`", "path")
        return self


class Log(base.Settings):
    """The log that the node writes to standard error."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="least severe record that is written"
    )
    format: Literal["text", "json"] = Field(
        "text", description="one readable line, or one JSON object, for each record"
    )


class LimitSettings(base.Settings):
    """Limits of a node, session or connection."""

    connections: base.Count = Field(100_000, ge=1, description="connections to the node at a time")
    connect_timeout: Seconds = Field(
        10.0, gt=0, le=86400, description="seconds in which a new connection must send its CONNECT"
    )
    max_packet_size: Size = Field(
        _LARGEST_PACKET,
        ge=20,
        le=_LARGEST_PACKET,
        description="bytes of the largest packet accepted; unset: as large as MQTT allows",
    )
    receive_maximum: base.Count = Field(
        20, ge=1, le=65535, description="QoS 1 and 2 messages a client may have sent and not yet seen acknowledged"
    )
    inflight: base.Count = Field(
        64,
        ge=1,
        le=65535,
        description="QoS 1 and 2 messages sent to a client and not yet acknowledged, where the client states"
        " no receive maximum",
    )
    queued_messages: base.Count = Field(1000, ge=1, description="messages that wait for one session")
    queued_bytes: Size = Field(16 * _MIB, ge=1, description="bytes of the messages that wait for one session")
    outbox_bytes: Size = Field(
        4 * _MIB, ge=1, description="bytes waiting for one slow connection before QoS 0 messages to it are dropped"
    )
    topic_alias_maximum: base.Count = Field(
        10, ge=0, le=65535, description="topic aliases a client may use on a connection; 0 is none"
    )
    topic_levels: base.Count = Field(201, ge=1, le=65536, description="levels of a topic name or filter")
    max_keepalive: WholeSeconds = Field(
        0,
        ge=0,
        le=65535,
        description="seconds of the longest keep alive; a client that asks for more, or for none, gets"
        " this one; 0 leaves it as the client says",
    )
    max_qos: base.QosLevel = Field(2, description="highest QoS of a message that is accepted")
    retain: bool = Field(True, description="whether retained messages are accepted and kept")
    retained_messages: base.Count = Field(1_000_000, ge=0, description="retained messages the node keeps")
    retained_bytes: Size = Field(1024 * _MIB, ge=0, description="bytes of the retained messages the node keeps")
    persisted_messages: base.Count = Field(
        100_000, ge=1, description="messages that policies have persisted; the oldest are dropped for new ones"
    )
    session_expiry: WholeSeconds | None = Field(
        None,
        ge=0,
        le=_LARGEST_EXPIRY,
        description="seconds a session outlives its connection at most; unset: as long as the client asks",
    )
    sessions: base.Count = Field(
        200_000, ge=1, description="sessions that the node keeps, of clients that are connected and of others"
    )
    subscriptions_per_client: base.Count = Field(10_000, ge=1, description="subscriptions that one session may hold")
    condition_steps: base.Count = Field(
        1_000_000,
        ge=1,
        description="steps a second that conditions may take on what one client publishes, and as many in its"
        " subscriptions; beyond them its messages are refused, and messages by these subscriptions withheld",
    )


def _as_listeners(value: object) -> object:
    """Accept the short forms of `listen`: one address, one listener, or a list that mixes both."""
    if value in ([], ()):
        raise mistake("at least one listener")
    items = list(value) if isinstance(value, list | tuple) else [value]
    return [item if isinstance(item, dict | Listener) else {"address": item} for item in items]


def _listen_schema(schema: dict[str, Any]) -> None:
    item = schema.pop("items")
    listener = {"anyOf": [{"type": "string", "description": "`host:port`"}, item]}
    schema.pop("type")
    schema["anyOf"] = [*listener["anyOf"], {"type": "array", "items": listener, "minItems": 1}]


class NodeSettings(base.Settings):
    """One broker."""

    listen: Annotated[tuple[Listener, ...], BeforeValidator(_as_listeners)] = Field(
        description="where the node accepts connections: `host:port`, a listener, or a list of these",
        json_schema_extra=_listen_schema,
    )
    store: base.StorePath = Field(
        base.MEMORY,
        description="SQLite file for sessions, retained and queued messages, or `memory`; unset in a domain"
        " file: `<node>.db` beside it",
        json_schema_extra=base.without_default,
    )
    synchronous: Literal["full", "normal"] = Field(
        "full",
        description="acknowledged messages survive a power cut (`full`), or only the end of the process (`normal`)",
    )
    passwords: base.OptionalReadFile = Field(
        None, description="password file as `mosquitto_passwd` or `penstock passwd` writes it"
    )
    acl: base.OptionalReadFile = Field(None, description="topic rights, as a Mosquitto ACL file")
    anonymous: bool | None = Field(
        None,
        description="whether clients without a user name may connect; unset: only on loopback listeners, and"
        " only without `passwords`",
    )
    admin: HostPort | None = Field(
        None, description="`host:port` of the HTTP server for operators, and for token requests; unset: none"
    )
    admin_tls: Tls | None = Field(
        None, description="transport encryption of `admin` and `console`; required unless they are on loopback"
    )
    console: HostPort | None = Field(
        None,
        description="`host:port` of the console, a page for operators, usually 127.0.0.1:18083; needs `admin`;"
        " unset: none",
    )
    suppressed: Literal["tell", "hide"] = Field(
        "tell",
        description="the answer to an MQTT 5 client for a QoS 1 or 2 message that a policy suppressed: `tell` is"
        " reason code 0x87 (not authorized); `hide` is success, which is then the answer for what nobody subscribes"
        " to as well",
    )
    sys_interval: Seconds = Field(
        10.0, ge=0, le=86400, description="seconds between updates of the $SYS topics; 0 is no $SYS topics"
    )
    log: Log = Field(Log(), description="what the node writes to standard error")
    limits: LimitSettings = Field(
        LimitSettings(), description="what the node, a session or a connection may use at most"
    )
    overlay: base.Name | None = Field(
        None,
        description="overlay that the node belongs to: events from a node of another overlay come from"
        " outside; unset: the same overlay as all nodes where it is unset",
    )
    brokering: NodeBrokering | None = Field(
        None, description="this node's replacement for the domain's brokering table; unset: none"
    )
    signing_key: base.OptionalReadFile = Field(
        None,
        description="PEM file with the node's private key for tokens, as `penstock token key` makes it; required with"
        " `tokens`",
    )
    trust: NodeTrust | None = Field(
        None, description="this node's thresholds in place of those of `trust`; unset: none"
    )

    @property
    def listeners(self) -> tuple[Listener, ...]:
        """Return every address on which the node accepts MQTT connections."""
        return self.listen

    @property
    def durable(self) -> bool:
        """Return whether the store is a file."""
        return self.store != base.MEMORY

    def allows_anonymous(self, listener: Listener) -> bool:
        """Return whether a client without a user name may connect on `listener`."""
        for choice in (listener.anonymous, self.anonymous):
            if choice is not None:
                return choice
        return listener.address.loopback and self.passwords is None
