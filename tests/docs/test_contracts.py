"""The examples of docs/quality.md and docs/contracts.md are read as they stand."""

import re
from pathlib import Path
from typing import Any

import yaml

from penstock.model.content.content import Content
from penstock.model.quality import moment
from penstock.policy.contracts.fit import FitLevel, match
from penstock.policy.contracts.text_form import (
    read_collector,
    read_consumer,
    read_indicator,
    read_producer,
    read_situation,
)
from penstock.policy.quality.carriage import read_quality
from penstock.policy.quality.criteria import FORMULAS, LIBRARY, make_catalogue
from penstock.policy.quality.needs import parse_constraint
from tests.support.models.abac import standing_in

DOCS = Path(__file__).parent.parent.parent / "docs"
QUALITY, CONTRACTS = ((DOCS / name).read_text(encoding="utf-8") for name in ("quality.md", "contracts.md"))


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)


def test_the_library_is_listed_with_the_arguments_of_its_formulas() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \| .* \| (.*) \| .* \|$", QUALITY.split("## Collectors")[0], re.MULTILINE)
    assert [name for name, _ in rows] == [one.id for one in LIBRARY.indicators]
    for name, arguments in rows:
        named = re.findall(r"`([a-z]+)`", arguments)
        parameters = FORMULAS[name].__annotations__
        assert named == [one for one in parameters if one not in ("now", "present", "return")], name


def test_the_examples_of_quality() -> None:
    indicators, collectors, _ = map(yaml.safe_load, blocks(QUALITY, "yaml"))
    catalogue = make_catalogue(read_indicator(id, one) for id, one in indicators.items())
    made = [read_collector(one, catalogue, collectors["sensor"]) for one in collectors["collectors"]]
    assert [one.key.indicator for one in made] == ["precision", "up-to-dateness", "completeness", "10"]
    for language in ("json", "xml"):
        text, _ = blocks(QUALITY, language)  # the second is an observation
        (value,) = read_quality(Content(text.encode()), moment(0)) if language == "json" else _in_a_document(text)
        assert (str(value.key), value.value) == ("10/10.1/10.1", 47.5)


def _in_a_document(text: str) -> Any:
    return read_quality(Content(b"<a>" + text.encode() + b"</a>"), moment(0))


def test_constraints_mean_the_same_as_text_and_as_yaml() -> None:
    indicators, *_ = map(yaml.safe_load, blocks(QUALITY, "yaml"))
    catalogue = make_catalogue(read_indicator(id, one) for id, one in indicators.items())
    rows = re.findall(r"^\| `([^`]+)` \| `(\{[^`]+\})` \|", QUALITY.split("## Constraints")[1], re.MULTILINE)
    assert len(rows) == 4
    for text, mapping in rows:
        if "…" not in text:
            assert parse_constraint(text, catalogue) == parse_constraint(yaml.safe_load(mapping), catalogue)


def test_the_example_of_contracts_fits_as_the_page_says() -> None:
    (said,) = map(yaml.safe_load, blocks(CONTRACTS, "yaml"))
    producer = read_producer("bob-location", said["producers"]["bob-location"], LIBRARY)
    consumer = read_consumer("free-air", said["consumers"]["free-air"], LIBRARY)
    situation = read_situation("life-hazard", said["situations"]["life-hazard"])
    (want,) = match(producer, consumer, LIBRARY).wants
    assert standing_in(want, []) is FitLevel.FITS
    assert standing_in(want, [situation.name]) is FitLevel.FAILS
