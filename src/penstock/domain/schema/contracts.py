"""Contracts in the domain file: guarantees and needs of producers and consumers, and quality (docs/contracts.md)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from penstock.domain.schema.base import Name, OneOrMany, Settings, TopicFilter
from penstock.domain.yaml.files import FileRole
from penstock.model.errors import PolicyError
from penstock.model.quality import Catalogue
from penstock.policy.contracts import text_form
from penstock.policy.contracts.contract import RESERVED, Subject
from penstock.policy.contracts.contract_set import CollectorAssignment, Contracts
from penstock.policy.contracts.privacy import PrivacyPolicy, given_types, roots_of
from penstock.policy.contracts.privacy_types import GivenTypes, Values, refused_types, text_of, typed, types_of
from penstock.policy.quality.criteria import make_catalogue
from penstock.policy.xacml import Pdp, XacmlError, read_policy, read_short
from penstock.policy.xacml.tree import Root

if TYPE_CHECKING:
    from penstock.domain.schema.domain import Domain
    from penstock.domain.schema.federation import ClientSettings

Written = dict[str, Any]
Where = tuple[str | int, ...]


class CollectSettings(Settings):
    """The measurement of the quality of some events."""

    topics: TopicFilter = Field(description="filter of the topics of these events")
    clients: Annotated[tuple[Name, ...], OneOrMany()] = Field(
        (), description="clients that publish these events; unset: all"
    )
    sensor: Written = Field({}, description="declared properties of the sensor, for all formulas below")
    collect: tuple[Written, ...] = Field(description="for each metric `indicator`, `formula` and its arguments")


class QualitySettings(Settings):
    """Quality of context: indicators and how they are measured."""

    indicators: dict[str, Written] = Field(
        {}, description="indicators with their criterion and metrics, beside those of the library"
    )
    collectors: tuple[CollectSettings, ...] = Field((), description="measurements of the quality of events")


class ContractSettings(Settings):
    """Guarantees and needs of producers and consumers of context."""

    bring: Annotated[tuple[Name | Literal["*"], ...], OneOrMany()] = Field(
        (), description="clients that may bring their own contracts; `*`: all; unset: none"
    )
    producers: dict[Name, Written] = Field({}, description="contracts of producers by name")
    consumers: dict[Name, Written] = Field({}, description="contracts of consumers by name")
    situations: dict[Name, Written] = Field(
        {}, description="situations by name; events of their sources open and close them"
    )


class PrivacySettings(Settings):
    """XACML policies about events on some topics."""

    name: Name = Field(description="name of these policies")
    topics: TopicFilter = Field(description="filter of the topics of these events")
    policies: Annotated[tuple[Path, ...], OneOrMany("the files with policies"), FileRole.READ] = Field(
        description="files with policies or policy sets: XACML 3.0 (`.xml`), or the short form in YAML"
    )
    references: Annotated[tuple[Path, ...], OneOrMany(), FileRole.READ] = Field(
        (), description="files with policies that the others may refer to"
    )
    combine: str = Field("deny-overrides", description="combining algorithm, if there are several policies")
    resource: dict[str, bool | int | float | str] = Field(
        {}, description="attributes of these events as a resource, by name; `id` defaults to the topic"
    )
    attributes: dict[str, str] = Field(
        {},
        description="by name (`subject.group`, `resource.kind`, `environment.situation`), the identifier by which the"
        " policies know an attribute; unset: its name, and for `id` the standard one",
    )

    def read(self) -> list[Root]:
        """Read all of the policies; raise `PolicyError`."""
        return [_read_policy(file) for file in (*self.policies, *self.references)]

    def compiled(self) -> PrivacyPolicy:
        """Compile the policies; raise `PolicyError`."""
        policies, references = ([_read_policy(file) for file in files] for files in (self.policies, self.references))
        pdp = Pdp(policies, references, self.combine)
        return PrivacyPolicy(self.name, self.topics, pdp, tuple(self.resource.items()), self.attributes)


def _read_policy(file: Path) -> Root:
    try:
        data = file.read_bytes()
    except OSError as error:
        raise PolicyError(f"cannot read `{file}`: {error.strerror}") from error
    try:
        return read_policy(data) if file.suffix == ".xml" else read_short(data)
    except XacmlError as error:
        raise PolicyError(f"`{file}`: {error}") from None


def compiled(domain: Domain) -> Contracts | None:
    """Compile the contracts of a domain, None if it has none; raise `PolicyError`."""
    if domain.contracts is None and domain.quality is None and not domain.privacy:
        return None
    wrong = next(mistakes(domain), None)
    if wrong is not None:
        raise PolicyError(f"{'.'.join(map(str, wrong[0]))}: {wrong[1]}")
    contracts, quality = domain.contracts or ContractSettings(), domain.quality or QualitySettings()
    catalogue = _catalogue(quality)
    return Contracts(
        catalogue,
        tuple(text_form.read_producer(name, written, catalogue) for name, written in contracts.producers.items()),
        tuple(text_form.read_consumer(name, written, catalogue) for name, written in contracts.consumers.items()),
        tuple(text_form.read_situation(name, written) for name, written in contracts.situations.items()),
        tuple(
            CollectorAssignment(
                collector.topics,
                frozenset(collector.clients),
                tuple(text_form.read_collector(formula, catalogue, collector.sensor) for formula in collector.collect),
            )
            for collector in quality.collectors
        ),
        {name: _known(client) for name, client in domain.clients.items()},
        {name: values for name, client in domain.clients.items() if (values := _values(client))},
        tuple(privacy.compiled() for privacy in domain.privacy),
        frozenset(contracts.bring),
        attribute_types(domain),
    )


def mistakes(domain: Domain) -> Iterator[tuple[Where, str]]:
    """Find the parts that cannot be read, with their locations."""
    contracts, quality = domain.contracts or ContractSettings(), domain.quality or QualitySettings()
    wrong = [
        problem
        for id, written in quality.indicators.items()
        for problem in _problems(("quality", "indicators", id), text_form.read_indicator, id, written)
    ]
    if wrong:
        yield from wrong
        return
    try:
        catalogue = _catalogue(quality)
    except PolicyError as error:
        yield ("quality", "indicators"), str(error)
        return
    for index, collector in enumerate(quality.collectors):
        for at, written in enumerate(collector.collect):
            where = ("quality", "collectors", index, "collect", at)
            yield from _problems(where, text_form.read_collector, written, catalogue, collector.sensor)
    for name, written in contracts.producers.items():
        wrong = list(_problems(("contracts", "producers", name), text_form.read_producer, name, written, catalogue))
        yield from wrong
        roots = [] if wrong else roots_of(text_form.read_producer(name, written, catalogue))
        for what in refused_types(roots, attribute_types(domain)) if roots else ():
            yield ("contracts", "producers", name, "xacml"), f"{what}: declare another type, or give another value"
    for name, written in contracts.consumers.items():
        yield from _problems(("contracts", "consumers", name), text_form.read_consumer, name, written, catalogue)
    for name, written in contracts.situations.items():
        yield from _problems(("contracts", "situations", name), text_form.read_situation, name, written)
    for index, private in enumerate(domain.privacy):
        if all(
            file.is_file() for file in (*private.policies, *private.references)
        ):  # a missing file is reported elsewhere
            wrong = list(_problems(("privacy", index), private.compiled))
            yield from wrong
            for what in () if wrong else refused_types(private.read(), attribute_types(domain, private)):
                yield ("privacy", index, "policies"), f"{what}: declare another type, or give another value"


def _problems(where: Where, read: Any, *arguments: Any) -> Iterator[tuple[Where, str]]:
    try:
        read(*arguments)
    except PolicyError as error:
        inside, what = text_form.mistake_at(error)
        yield (*where, *inside), what


def _catalogue(quality: QualitySettings) -> Catalogue:
    return make_catalogue(text_form.read_indicator(id, written) for id, written in quality.indicators.items())


def _known(client: ClientSettings) -> Subject:
    """Return what every node knows of a client: a client is admitted under its name only with the user and the
    certificate that the domain asks for."""
    attributes = {name: frozenset({text_of(value)}) for name, value in client.attributes.items()}
    if client.groups:
        attributes["group"] = attributes.get("group", frozenset()) | frozenset(client.groups)
    for name, shown in (("user", client.user), ("certificate", client.certificate)):
        if shown is not None:
            attributes.setdefault(name, frozenset({shown}))
    return tuple((name, values) for name, values in attributes.items() if name not in RESERVED)


def _values(client: ClientSettings) -> Values:
    """Return the attributes that are numbers or booleans."""
    attributes = ((name, typed(value)) for name, value in client.attributes.items() if name not in RESERVED)
    return tuple((name, values) for name, values in attributes if values)


def attribute_types(domain: Domain, private: PrivacySettings | None = None) -> GivenTypes:
    """Return the types of all attributes that nodes pass to these policies; to those of contracts if there are none."""
    owners: dict[tuple[str, frozenset[str]], str] = {}
    for client, settings in domain.clients.items():
        for name, value in settings.attributes.items():
            owners.setdefault((name, types_of(value)), f"that of client `{client}`")
        if settings.groups:
            owners.setdefault(("group", types_of("")), f"that of client `{client}`")
    for contract, written in (domain.contracts or ContractSettings()).consumers.items():
        attributes = written.get("attributes")
        for name in attributes if isinstance(attributes, dict) else ():
            owners.setdefault((str(name), types_of("")), f"that of contract `{contract}`")
    passed = ((name, whose, types) for (name, types), whose in owners.items() if name not in RESERVED)
    return given_types({}, {}, passed) if private is None else given_types(private.resource, private.attributes, passed)
