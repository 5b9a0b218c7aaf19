"""Paris, recorded: the contracts paper's section 3 on nodes without sockets, and what each client got."""

import json
from pathlib import Path
from typing import Any

from penstock.domain import Domain
from penstock.domain.ensemble import ensemble
from penstock.engine.rehearsal import Rehearsal
from tests.engine.test_contracts_paris import CLIENTS, LOCATION, paris_domain
from tests.support.recorded import Views, Written, delivered, record

PUBLISHERS = ("paris-sensors", "bob-phone", "bob-wrist", "bob-health-capsule")
SUBJECTS = tuple(name for name in CLIENTS if name not in PUBLISHERS)
Said = tuple[str, str, dict[str, Any]]


def location(lat: float, q: int) -> Said:
    return "bob-phone", "paris/bob/location", {"lat": lat, "lon": 2.275432, "q": q}


def health(danger: bool, who: str = "bob-health-capsule") -> Said:
    return who, "paris/bob/health", {"danger": danger, "q": 90}


def vitals(pulse: int) -> Said:
    return "bob-wrist", "paris/bob/vitals", {"pulse": pulse, "q": 90}


def pollution(q: int) -> Said:
    return "paris-sensors", "paris/pollution/45", {"pm": 12, "q": q}


STORY: tuple[Said, ...] = (
    ("bob-phone", "paris/bob/location", LOCATION),
    pollution(91),
    pollution(12),
    vitals(71),
    health(True, "curious"),
    location(48.87, 95),
    health(True),
    location(48.88, 95),
    location(48.89, 60),
    vitals(171),
    health(True),
    health(False),
    location(48.90, 95),
    vitals(72),
    health(True),
    location(48.91, 95),
)
"""An ordinary walk, a false alarm, danger, its end; and danger again, of which nobody tells that it is over."""


def wanting(domain: Domain, **more: Any) -> Domain:
    """The domain with other settings."""
    return Domain.model_validate({**domain.model_dump(mode="json", exclude_defaults=True), **more})


def played(domain: Domain, folder: Path, story: tuple[Said, ...] = STORY, after: float = 4000.0) -> tuple[Path, Views]:
    """The journal, and what clients got."""
    rehearsal = Rehearsal(domain, ensemble(domain))
    record(rehearsal)
    for client in CLIENTS:
        rehearsal.connect(client)
        if client in SUBJECTS:
            rehearsal.subscribe(client, "paris/#", no_local=False)
    for who, topic, content in story:
        rehearsal.publish(who, topic, json.dumps(content).encode(), qos=1)
        rehearsal.run()
        rehearsal.wait(1.5)
    rehearsal.wait(after)  # what nobody has ended is over
    rehearsal.publish("bob-phone", "paris/bob/location", json.dumps(LOCATION).encode())
    rehearsal.run()
    journal = Written(folder / "journal")
    journal.add_all(rehearsal.nodes.values(), journal.keep(domain))
    return journal.folder, delivered(rehearsal, SUBJECTS)


__all__ = ["STORY", "SUBJECTS", "paris_domain", "played", "wanting"]
