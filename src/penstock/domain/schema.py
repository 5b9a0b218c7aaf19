"""What a domain file may say: frozen models, every key described, unknown keys refused.

The models are the one source for validation, for defaults and for the JSON schema that editors use. Fields
that name a file carry a `FileRole`, so that `load` can make them relative to the file they stand in and
`check` can look for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from penstock.domain.access import Access
from penstock.domain.admin import AdminSettings
from penstock.domain.base import (
    MEMORY,
    Count,
    MadeFolder,
    Name,
    OptionalReadFile,
    QosLevel,
    ReadFile,
    Settings,
    StorePath,
    TlsVersion,
    UrlPath,
    without_default,
)
from penstock.domain.capsules import CapsuleSettings
from penstock.domain.contents import ContentRule, declared
from penstock.domain.contracts import ContractSettings, PrivacySettings, QualitySettings
from penstock.domain.federation import ClientSettings, ForeignSettings, LinkSettings, LinkTypes
from penstock.domain.patterns.settings import Pattern
from penstock.domain.policies import (
    AssertionSettings,
    BrokeringSettings,
    MonitorSettings,
    NodeBrokering,
    ProtocolSettings,
    TableSettings,
)
from penstock.domain.statements import StatementSettings
from penstock.domain.tests import Tests
from penstock.domain.tokens import TokenSettings
from penstock.domain.tree import Step
from penstock.domain.trust import NodeTrust, TrustSettings
from penstock.domain.trust_groups import TrustGroupSettings
from penstock.domain.units import Address, HostPort, Seconds, Size, WholeSeconds, mistake
from penstock.language.types import Record

_MIB = 2**20
# The longest packet that MQTT's four length bytes can state, its fixed header included.
_LARGEST_PACKET = 268_435_460
_LARGEST_EXPIRY = 2**32 - 1


class Tls(Settings):
    """Transport encryption of one listener."""

    cert: ReadFile = Field(description="PEM file with the server's certificate, then its intermediates")
    key: ReadFile = Field(description="PEM file with the private key of `cert`, not encrypted")
    ca: OptionalReadFile = Field(
        default=None, description="PEM file with the authorities that client certificates are checked against"
    )
    require_certificate: bool = Field(
        default=False, description="whether a client must present a certificate signed by one of `ca`"
    )
    identity: Literal["none", "cn", "subject"] = Field(
        default="none",
        description="what of a client certificate becomes the user name: nothing, its common name,"
        " or its whole subject",
    )
    min_version: TlsVersion = Field(default="1.2", description="lowest TLS version that is accepted")

    @model_validator(mode="after")
    def _client_certificates_need_an_authority(self) -> Tls:
        if self.ca is None and self.require_certificate:
            raise mistake("a file of authorities, because of `require_certificate: true`", "ca")
        if self.ca is None and self.identity != "none":
            raise mistake(f"a file of authorities, because of `identity: {self.identity}`", "ca")
        return self


class Listener(Settings):
    """One address on which a node accepts MQTT connections."""

    address: HostPort = Field(
        description="`host:port` to listen on; an IPv6 host stands in brackets, port 0 is any free port"
    )
    websocket: bool = Field(default=False, description="whether MQTT comes inside WebSocket")
    path: UrlPath = Field(
        default="/mqtt",
        description="URL path of the WebSocket; `/` is accepted beside it. Only with `websocket: true`",
    )
    tls: Tls | None = Field(default=None, description="transport encryption; unset: in the clear")
    anonymous: bool | None = Field(
        default=None,
        description="whether clients without a user name may connect here; unset: as the node says",
    )
    max_connections: Count | None = Field(
        default=None,
        ge=1,
        description="connections on this listener at a time; unset: only the node's limit",
    )

    @model_validator(mode="after")
    def _path_is_for_websocket(self) -> Listener:
        if "path" in self.model_fields_set and not self.websocket:
            raise mistake("no `path` without `websocket: true`", "path")
        return self


class Log(Settings):
    """What the node writes to standard error."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="least severe record that is written"
    )
    format: Literal["text", "json"] = Field(
        default="text", description="one readable line, or one JSON object, for each record"
    )


class Limits(Settings):
    """What one node, session or connection may use at most."""

    connections: Count = Field(default=100_000, ge=1, description="connections to the node at a time")
    connect_timeout: Seconds = Field(
        default=10.0,
        gt=0,
        le=86400,
        description="seconds in which a new connection must send its CONNECT",
    )
    max_packet_size: Size = Field(
        default=_LARGEST_PACKET,
        ge=20,
        le=_LARGEST_PACKET,
        description="bytes of the largest packet accepted; unset: as large as MQTT allows",
    )
    receive_maximum: Count = Field(
        default=20,
        ge=1,
        le=65535,
        description="QoS 1 and 2 messages a client may have sent and not yet seen acknowledged",
    )
    inflight: Count = Field(
        default=64,
        ge=1,
        le=65535,
        description="QoS 1 and 2 messages sent to a client and not yet acknowledged, where the client states"
        " no receive maximum",
    )
    queued_messages: Count = Field(default=1000, ge=1, description="messages that wait for one session")
    queued_bytes: Size = Field(
        default=16 * _MIB,
        ge=1,
        description="bytes of the messages that wait for one session",
    )
    outbox_bytes: Size = Field(
        default=4 * _MIB,
        ge=1,
        description="bytes waiting for one slow connection before QoS 0 messages to it are dropped",
    )
    topic_alias_maximum: Count = Field(
        default=10, ge=0, le=65535, description="topic aliases a client may use on a connection; 0 is none"
    )
    topic_levels: Count = Field(default=201, ge=1, le=65536, description="levels of a topic name or filter")
    max_keepalive: WholeSeconds = Field(
        default=0,
        ge=0,
        le=65535,
        description="seconds of the longest keep alive; a client that asks for more, or for none, gets"
        " this one; 0 leaves it as the client says",
    )
    max_qos: QosLevel = Field(default=2, description="highest QoS of a message that is accepted")
    retain: bool = Field(default=True, description="whether retained messages are accepted and kept")
    retained_messages: Count = Field(default=1_000_000, ge=0, description="retained messages the node keeps")
    persisted_messages: Count = Field(
        default=100_000,
        ge=1,
        description="messages that policies have had persisted; the oldest are dropped for new ones",
    )
    session_expiry: WholeSeconds | None = Field(
        default=None,
        ge=0,
        le=_LARGEST_EXPIRY,
        description="seconds a session outlives its connection at most; unset: as long as the client asks",
    )
    subscriptions_per_client: Count | None = Field(
        default=None, ge=1, description="subscriptions that one session may hold; unset: no limit"
    )


def _as_listeners(value: object) -> object:
    """The short forms of `listen`: one address, one listener, or a list that mixes both."""
    if value in ([], ()):
        raise mistake("at least one listener")
    items = list(value) if isinstance(value, list | tuple) else [value]
    return [item if isinstance(item, dict | Listener) else {"address": item} for item in items]


def _listen_schema(schema: dict[str, Any]) -> None:
    item = schema.pop("items")
    one = {"anyOf": [{"type": "string", "description": "`host:port`"}, item]}
    schema.pop("type")
    schema["anyOf"] = [*one["anyOf"], {"type": "array", "items": one, "minItems": 1}]


class NodeSettings(Settings):
    """One broker."""

    listen: Annotated[tuple[Listener, ...], BeforeValidator(_as_listeners)] = Field(
        description="where the node accepts connections: `host:port`, a listener, or a list of these",
        json_schema_extra=_listen_schema,
    )
    store: StorePath = Field(
        default=MEMORY,
        description="SQLite file for sessions, retained and queued messages, or `memory`; unset in a domain"
        " file: `<node>.db` beside it",
        json_schema_extra=without_default,
    )
    synchronous: Literal["full", "normal"] = Field(
        default="full",
        description="what was acknowledged survives a power cut (`full`), or only the end of the process (`normal`)",
    )
    passwords: OptionalReadFile = Field(
        default=None, description="password file as `mosquitto_passwd` or `penstock passwd` writes it"
    )
    acl: OptionalReadFile = Field(default=None, description="topic rights, as a Mosquitto ACL file")
    anonymous: bool | None = Field(
        default=None,
        description="whether clients without a user name may connect; unset: only on loopback listeners, and"
        " only without `passwords`",
    )
    admin: HostPort | None = Field(
        default=None,
        description="`host:port` of the HTTP server for operators, and for who asks for tokens; unset: none",
    )
    admin_tls: Tls | None = Field(
        default=None,
        description="transport encryption of `admin` and `console`; required unless they are on loopback",
    )
    console: HostPort | None = Field(
        default=None,
        description="`host:port` of the console, a page for operators, usually 127.0.0.1:18083; needs `admin`;"
        " unset: none",
    )
    suppressed: Literal["tell", "hide"] = Field(
        default="tell",
        description="what an MQTT 5 client gets for a QoS 1 or 2 message that a monitor suppressed: `tell` is reason"
        " code 0x87 (not authorized), `hide` is success",
    )
    sys_interval: Seconds = Field(
        default=10.0, ge=0, le=86400, description="seconds between updates of the $SYS topics; 0 is no $SYS topics"
    )
    log: Log = Field(default=Log(), description="what the node writes to standard error")
    limits: Limits = Field(default=Limits(), description="what the node, a session or a connection may use at most")
    overlay: Name | None = Field(
        default=None,
        description="part of the domain that the node belongs to: what comes from a node of another part comes from"
        " outside; unset: the same part as all others where it is unset",
    )
    brokering: NodeBrokering | None = Field(
        default=None, description="what this node has in place of the domain's brokering table; unset: nothing"
    )
    signing_key: OptionalReadFile = Field(
        default=None,
        description="PEM file with the node's private key for tokens, as `penstock token key` makes it; required with"
        " `tokens`",
    )
    trust: NodeTrust | None = Field(
        default=None, description="what this node asks for in place of what `trust` says; unset: nothing"
    )

    @property
    def listeners(self) -> tuple[Listener, ...]:
        """Every address on which the node accepts MQTT connections."""
        return self.listen

    @property
    def durable(self) -> bool:
        """Whether the store is a file."""
        return self.store != MEMORY

    def allows_anonymous(self, listener: Listener) -> bool:
        """Whether a client without a user name may connect on `listener`."""
        for choice in (listener.anonymous, self.anonymous):
            if choice is not None:
                return choice
        return listener.address.loopback and self.passwords is None


class JournalSettings(Settings):
    """What nodes record of events and decisions, as files that the pipeline reads."""

    folder: MadeFolder = Field(description="folder of the journal; each node has a folder of its own in it")
    flush: Seconds = Field(
        default=0.5, ge=0, le=60, description="seconds of events that a node which is killed loses at most"
    )
    segment_size: Size = Field(default=64 * _MIB, ge=4096, description="bytes after which a file is sealed")
    segment_age: Seconds = Field(default=3600.0, ge=1, le=86400, description="seconds after which a file is sealed")
    when_failing: Literal["stop", "go on"] = Field(
        default="stop",
        description="what a node does that cannot write its journal: admit nothing until it can, or go on and say how"
        " much is missing",
    )


class Domain(Settings):
    """All that one deployment describes."""

    domain: Name = Field(default="penstock", description="name of the domain: letters, digits, `-` and `_`")
    nodes: dict[Name, NodeSettings] = Field(
        min_length=1, description="the brokers by name; a name has letters, digits, `-` and `_`"
    )
    links: tuple[LinkSettings, ...] = Field(
        default=(), description="connections between nodes, and with foreign brokers"
    )
    foreign: dict[Name, ForeignSettings] = Field(default={}, description="brokers that are not ours, by name")
    admin: AdminSettings | None = Field(
        default=None,
        description="who may ask nodes about themselves, and change them; unset: only the system's user that runs them",
    )
    clients: dict[Name, ClientSettings] = Field(default={}, description="the clients that are known, by name")
    content: tuple[ContentRule, ...] = Field(
        default=(), description="how payloads are read, by topic; the first rule that matches counts"
    )
    brokering: BrokeringSettings | None = Field(
        default=None, description="link types and the brokering table; unset: everything is allowed"
    )
    monitors: dict[Name, MonitorSettings] = Field(
        default={}, description="execution monitors by name; those on one link are applied in this order"
    )
    protocols: dict[Name, ProtocolSettings] = Field(
        default={}, description="orders of events that are held, by name; they expand to monitors"
    )
    access: Access | None = Field(
        default=None,
        description="who may read and write which Sparkplug messages and metrics; unset: Sparkplug is like all else",
    )
    quality: QualitySettings | None = Field(
        default=None, description="quality of context: what is measured of events, and how; unset: nothing"
    )
    privacy: tuple[PrivacySettings, ...] = Field(
        default=(), description="policies in XACML about who may have events, by topic"
    )
    contracts: ContractSettings | None = Field(
        default=None,
        description="what producers and consumers of context guarantee and ask for, and situations; unset: nothing",
    )
    trust_groups: dict[Name, TrustGroupSettings] = Field(
        default={}, description="groups of nodes and clients that prove to each other that they share a secret, by name"
    )
    tokens: TokenSettings | None = Field(
        default=None,
        description="authorisation tokens that clients show and that travel with what they publish; unset: none",
    )
    trust: TrustSettings | None = Field(
        default=None,
        description="ratings of neighbours, by which nodes accept each other's tokens; unset: every valid one",
    )
    statements: StatementSettings | None = Field(
        default=None, description="policy statements: what is done with messages that match; unset: nothing"
    )
    capsules: dict[Name, CapsuleSettings] = Field(
        default={}, description="what makes context of a higher level of what it is given, by name; run on Spark"
    )
    journal: JournalSettings | None = Field(
        default=None, description="what nodes record of events and decisions; unset: nothing"
    )
    patterns: tuple[Pattern, ...] = Field(
        default=(), description="short forms that expand to the keys above; `penstock check --expand` shows it"
    )
    assertions: tuple[AssertionSettings, ...] = Field(
        default=(), description="what must hold of the flows of the ensemble; `penstock check` proves it"
    )
    tests: Tests = Field(
        default={}, description="policy tests by title, each a list of steps; `penstock test` runs them"
    )

    def declared(self, filter: str) -> Record:
        """The attributes that `content` declares of all events that a topic filter matches."""
        return declared(self.content, filter)

    def default_types(self, node: str) -> LinkTypes | None:
        """The link types that the file gives to clients of a node which it does not list."""
        own = self.nodes[node].brokering
        if own is not None and own.default is not None:
            return own.default
        return self.brokering.default if self.brokering is not None else None

    @property
    def types(self) -> tuple[str, ...] | None:
        """The link types that the file declares; None if it declares none."""
        return self.brokering.types if self.brokering is not None else None

    def tables(self) -> Iterator[tuple[tuple[Step, ...], TableSettings]]:
        """Every brokering table of the file, and where it stands."""
        if self.brokering is not None:
            yield ("brokering",), self.brokering
        for name, node in self.nodes.items():
            if node.brokering is not None:
                yield ("nodes", name, "brokering"), node.brokering

    def admits_unlisted(self, node: str) -> bool:
        """Whether a node admits clients that `clients` does not list."""
        return self.default_types(node) is not None or (self.types is None and not self.clients)


class DomainFile(Domain):
    """What a domain file may say: a domain, or a part of one and the files with the others."""

    include: str | tuple[str, ...] = Field(
        default=(),
        description="files whose mappings are united with this file's; relative to this file",
    )


def default_domain(port: int = 1883, store: str = MEMORY, host: str = "127.0.0.1") -> Domain:
    """One open node, `main`, as `penstock run` starts it without a domain file."""
    listener = Listener(address=Address(host, port))
    return Domain(nodes={"main": NodeSettings(listen=(listener,), store=store)})
