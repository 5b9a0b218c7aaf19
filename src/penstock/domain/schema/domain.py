"""The domain file: frozen models, every key described, unknown keys refused.

The models are the one source for validation, for defaults and for the JSON schema that editors use. Fields that name
a file carry a `FileRole`, so that `load` can make them relative to the file they stand in and `check` can look for
them.
"""

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from penstock.domain.patterns.settings import Pattern
from penstock.domain.schema import policies
from penstock.domain.schema.access import Access
from penstock.domain.schema.admin import AdminSettings
from penstock.domain.schema.base import MEMORY, MadeFolder, Name, Settings
from penstock.domain.schema.capsules import CapsuleSettings
from penstock.domain.schema.contents import ContentRule, ContextSettings, declared
from penstock.domain.schema.contracts import ContractSettings, PrivacySettings, QualitySettings
from penstock.domain.schema.federation import ClientSettings, ForeignSettings, LinkSettings, LinkTypes
from penstock.domain.schema.node_settings import Listener, NodeSettings
from penstock.domain.schema.statements import StatementSettings
from penstock.domain.schema.tests import Tests
from penstock.domain.schema.tokens import TokenSettings
from penstock.domain.schema.trust import TrustGroupSettings, TrustSettings
from penstock.domain.units import Address, Seconds, Size
from penstock.language.types import RecordType
from penstock.model.yaml.tree import Step


class JournalSettings(Settings):
    """The journal: files of events and decisions that the pipeline reads."""

    folder: MadeFolder = Field(description="folder of the journal; each node has a folder of its own in it")
    flush: Seconds = Field(0.5, ge=0, le=60, description="seconds of events that a killed node loses at most")
    segment_size: Size = Field(64 * 2**20, ge=4096, description="bytes after which a file is sealed")
    segment_age: Seconds = Field(3600.0, ge=1, le=86400, description="seconds after which a file is sealed")
    when_failing: Literal["stop", "go on"] = Field(
        "stop",
        description="behaviour of a node that cannot write its journal: admit nothing until it can, or go on"
        " and record how many rows are missing",
    )


class Domain(Settings):
    """The description of one deployment."""

    domain: Name = Field("penstock", description="name of the domain: letters, digits, `-` and `_`")
    nodes: dict[Name, NodeSettings] = Field(
        min_length=1, description="the brokers by name; a name has letters, digits, `-` and `_`"
    )
    links: tuple[LinkSettings, ...] = Field((), description="connections between nodes, and with foreign brokers")
    foreign: dict[Name, ForeignSettings] = Field({}, description="brokers that are not Penstock nodes, by name")
    admin: AdminSettings | None = Field(
        None, description="users of the admin HTTP and their rights; unset: only the system user that runs the nodes"
    )
    clients: dict[Name, ClientSettings] = Field({}, description="the listed clients, by name")
    content: tuple[ContentRule, ...] = Field(
        (), description="how payloads are read, by topic; the first rule that matches counts"
    )
    brokering: policies.BrokeringSettings | None = Field(
        None, description="link types and the brokering table; unset: everything is allowed"
    )
    monitors: dict[Name, policies.MonitorSettings] = Field(
        {}, description="execution monitors by name; those on one link are applied in this order"
    )
    protocols: dict[Name, policies.ProtocolSettings] = Field(
        {}, description="required orders of events, by name; they expand to monitors"
    )
    access: Access | None = Field(
        None,
        description="rights to read and write Sparkplug messages and metrics; unset: Sparkplug is treated like"
        " other messages",
    )
    context: ContextSettings = Field(
        ContextSettings(entities={}, observables={}),
        description="the context model: entities and what is observed of them",
    )
    quality: QualitySettings | None = Field(
        None, description="quality of context: indicators and their measurement; unset: nothing is measured"
    )
    privacy: tuple[PrivacySettings, ...] = Field(
        (), description="XACML policies that decide who may receive events, by topic"
    )
    contracts: ContractSettings | None = Field(
        None, description="guarantees and needs of producers and consumers of context, and situations; unset: none"
    )
    trust_groups: dict[Name, TrustGroupSettings] = Field(
        {}, description="groups of nodes and clients that prove to each other that they share a secret, by name"
    )
    tokens: TokenSettings | None = Field(
        None, description="authorisation tokens that clients show and that travel with what they publish; unset: none"
    )
    trust: TrustSettings | None = Field(
        None, description="ratings of neighbours, by which nodes accept each other's tokens; unset: every valid one"
    )
    statements: StatementSettings | None = Field(
        None, description="policy statements: actions on messages that match; unset: none"
    )
    capsules: dict[Name, CapsuleSettings] = Field(
        {}, description="capsules, which make context of a higher level, by name; run in a node or on Spark"
    )
    journal: JournalSettings | None = Field(
        None, description="record of events and decisions; unset: nothing is recorded"
    )
    patterns: tuple[Pattern, ...] = Field(
        (), description="short forms that expand to the keys above; `penstock check --expand` shows it"
    )
    assertions: tuple[policies.AssertionSettings, ...] = Field(
        (), description="claims about the flows of the ensemble; `penstock check` proves them"
    )
    tests: Tests = Field({}, description="policy tests by title, each a list of steps; `penstock test` runs them")

    def declared(self, filter: str) -> RecordType:
        """Return the attributes that `content` declares of all events that a topic filter matches."""
        return declared(self.content, filter)

    def default_types(self, node: str) -> LinkTypes | None:
        """Return the link types of a node's unlisted clients."""
        own = self.nodes[node].brokering
        if own is not None and own.default is not None:
            return own.default
        return self.brokering.default if self.brokering is not None else None

    @property
    def types(self) -> tuple[str, ...] | None:
        """Return the declared link types; None if none are declared."""
        return self.brokering.types if self.brokering is not None else None

    def tables(self) -> Iterator[tuple[tuple[Step, ...], policies.TableSettings]]:
        """Yield every brokering table of the file, with its location."""
        if self.brokering is not None:
            yield ("brokering",), self.brokering
        for name, node in self.nodes.items():
            if node.brokering is not None:
                yield ("nodes", name, "brokering"), node.brokering

    def admits_unlisted(self, node: str) -> bool:
        """Return whether a node admits clients that `clients` does not list."""
        return self.default_types(node) is not None or (self.types is None and not self.clients)


class DomainFile(Domain):
    """The contents of a domain file: a domain, or a part of one and the files with the others."""

    include: str | tuple[str, ...] = Field(
        (), description="files whose mappings are united with this file's; relative to this file"
    )


def default_domain(port: int = 1883, store: str = MEMORY, host: str = "127.0.0.1") -> Domain:
    """Return the domain of `penstock run` without a domain file: one open node, `main`."""
    listener = Listener(address=Address(host, port))
    return Domain(nodes={"main": NodeSettings(listen=(listener,), store=store)})
