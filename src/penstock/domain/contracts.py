"""Contracts in the domain file: who guarantees and asks what; and quality, which they speak of (docs/contracts.md)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from penstock.domain.base import Name, OneOrMany, Settings, TopicFilter
from penstock.model.errors import PolicyError
from penstock.model.quality import Catalogue
from penstock.policy.contract import Subject
from penstock.policy.contract_text import (
    read_collector,
    read_consumer,
    read_indicator,
    read_producer,
    read_situation,
)
from penstock.policy.contracts import Collecting, Contracts
from penstock.policy.quality import make_catalogue

if TYPE_CHECKING:
    from penstock.domain.schema import Domain

Written = dict[str, Any]
Path = tuple[str | int, ...]


class CollectSettings(Settings):
    """How the quality of some events is measured."""

    topics: TopicFilter = Field(description="filter of the topics of these events")
    clients: Annotated[tuple[Name, ...], OneOrMany()] = Field(
        default=(), description="clients whose events these are; unset: of all"
    )
    sensor: Written = Field(default={}, description="what is declared of the sensor, for all formulas below")
    collect: tuple[Written, ...] = Field(description="for each metric `indicator`, `formula` and its arguments")


class QualitySettings(Settings):
    """Quality of context: what is measured, and how."""

    indicators: dict[str, Written] = Field(
        default={}, description="indicators with their criterion and metrics, beside those of the library"
    )
    collectors: tuple[CollectSettings, ...] = Field(default=(), description="what measures the quality of events")


class ContractSettings(Settings):
    """What producers and consumers of context guarantee and ask for."""

    producers: dict[Name, Written] = Field(default={}, description="contracts of producers by name")
    consumers: dict[Name, Written] = Field(default={}, description="contracts of consumers by name")
    situations: dict[Name, Written] = Field(
        default={}, description="situations by name, which events of their sources open and close"
    )


def compiled(domain: Domain) -> Contracts | None:
    """The contracts of a domain, None if it has none; raises `PolicyError`."""
    if domain.contracts is None and domain.quality is None:
        return None
    wrong = next(mistakes(domain), None)
    if wrong is not None:
        raise PolicyError(f"{'.'.join(map(str, wrong[0]))}: {wrong[1]}")
    contracts, quality = domain.contracts or ContractSettings(), domain.quality or QualitySettings()
    catalogue = _catalogue(quality)
    return Contracts(
        catalogue,
        tuple(read_producer(name, said, catalogue) for name, said in contracts.producers.items()),
        tuple(read_consumer(name, said, catalogue) for name, said in contracts.consumers.items()),
        tuple(read_situation(name, said) for name, said in contracts.situations.items()),
        tuple(
            Collecting(
                one.topics,
                frozenset(one.clients),
                tuple(read_collector(said, catalogue, one.sensor) for said in one.collect),
            )
            for one in quality.collectors
        ),
        {name: _known(client.groups, client.attributes) for name, client in domain.clients.items()},
    )


def mistakes(domain: Domain) -> Iterator[tuple[Path, str]]:
    """What cannot be read, and where it stands."""
    contracts, quality = domain.contracts or ContractSettings(), domain.quality or QualitySettings()
    found: list[tuple[Path, str]] = []
    for id, said in quality.indicators.items():
        found.append((("quality", "indicators", id), _problem(read_indicator, id, said)))
    if any(problem for _, problem in found):
        yield from ((path, problem) for path, problem in found if problem)
        return
    try:
        catalogue = _catalogue(quality)
    except PolicyError as error:
        yield ("quality", "indicators"), str(error)
        return
    for index, one in enumerate(quality.collectors):
        for at, said in enumerate(one.collect):
            where = ("quality", "collectors", index, "collect", at)
            found.append((where, _problem(read_collector, said, catalogue, one.sensor)))
    for name, said in contracts.producers.items():
        found.append((("contracts", "producers", name), _problem(read_producer, name, said, catalogue)))
    for name, said in contracts.consumers.items():
        found.append((("contracts", "consumers", name), _problem(read_consumer, name, said, catalogue)))
    for name, said in contracts.situations.items():
        found.append((("contracts", "situations", name), _problem(read_situation, name, said)))
    yield from ((path, problem) for path, problem in found if problem)


def _problem(read: Any, *arguments: Any) -> str:
    try:
        read(*arguments)
    except PolicyError as error:
        return str(error)
    return ""


def _catalogue(quality: QualitySettings) -> Catalogue:
    return make_catalogue(read_indicator(id, said) for id, said in quality.indicators.items())


def _known(groups: tuple[str, ...], attributes: Mapping[str, object]) -> Subject:
    given = {name: frozenset({_text(value)}) for name, value in attributes.items()}
    if groups:
        given["group"] = given.get("group", frozenset()) | frozenset(groups)
    return tuple(given.items())


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
