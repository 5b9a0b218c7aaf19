"""The contracts of the paper's section 3, from `tests/cases/contracts/paris.yaml`."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from penstock.model.quality import Catalogue, MetricValue, Quality, moment
from penstock.policy.contracts.contract import ConsumerContract, ProducerContract
from penstock.policy.contracts.situation import Situation
from penstock.policy.contracts.text_form import read_consumer, read_indicator, read_producer, read_situation
from penstock.policy.quality.criteria import make_catalogue

NOW = 1_790_000_000.0


@dataclass(frozen=True)
class Paris:
    """All of it."""

    catalogue: Catalogue
    producers: dict[str, ProducerContract]
    consumers: dict[str, ConsumerContract]
    situations: list[Situation]
    fits: list[dict[str, Any]]
    events: list[dict[str, Any]]

    def quality(self, said: dict[str, float], at: float = NOW) -> Quality:
        """Quality with a value for each of the indicators named."""
        return Quality(MetricValue(self.catalogue.key(name), value, moment(at)) for name, value in said.items())


@cache
def paris() -> Paris:
    """The contracts as they are read."""
    text = (Path(__file__).parents[2] / "cases" / "contracts" / "paris.yaml").read_text(encoding="utf-8")
    said = yaml.safe_load(text)
    catalogue = make_catalogue(read_indicator(id, one) for id, one in said["indicators"].items())
    return Paris(
        catalogue,
        {name: read_producer(name, one, catalogue) for name, one in said["producers"].items()},
        {name: read_consumer(name, one, catalogue) for name, one in said["consumers"].items()},
        [read_situation(name, one) for name, one in said["situations"].items()],
        said["fits"],
        said["events"],
    )
