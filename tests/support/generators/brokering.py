"""Many random domains joined into one, with rights, conditions and advertisements: one journal, one job on Spark."""

import re
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from penstock.domain import Domain, ensemble
from penstock.domain.yaml.write import domain_text
from penstock.engine.rehearsal.rehearsal import Rehearsal
from penstock.policy.access.acl import Acl
from tests.support.generators.domains import TOPICS, TYPES, parts, scenes
from tests.support.memory.recording import Views, Written, delivered, record

CONDITIONS = ("value == 1", "value > 1", "value < 3", "true", "has(value)", "value == 'x'")
FILTERS = ("#", "a", "b", "c/#", "+", "+/d")
RIGHTS = ("readwrite #", "read a", "write a", "readwrite c/#", "deny b", "read #", "write #", "deny c/d", "readwrite a")
ROUNDS = 2
"""Times that all is published, for monitors are in other states then."""
PATTERNS = ("readwrite %c/#", "read +", "deny a", "write #")


@dataclass(frozen=True)
class BrokeringPlay:
    """A domain as the file writes it, rights by node, and what is published: device, node, topic, payload, QoS."""

    plain: dict[str, Any]
    acls: dict[str, str]
    published: tuple[tuple[str, str, str, bytes, int], ...]
    advertised: tuple[tuple[str, str, str], ...]
    """What devices say by themselves: device, filter, condition."""


@st.composite
def plays(draw: st.DrawFn, cyclic: bool = False) -> BrokeringPlay:
    """A scene of `random_domains` with more to decide; devices may advertise by themselves too."""
    scene = draw(scenes(cyclic=cyclic, most_publications=6))
    plain = yaml.safe_load(domain_text(scene.domain))
    for client in plain["clients"].values():
        conditions = st.dictionaries(st.sampled_from(FILTERS), st.sampled_from(CONDITIONS), max_size=2)
        client["where"] = draw(st.one_of(st.just({}), conditions))
        filters = draw(st.one_of(st.just([]), st.lists(st.sampled_from(FILTERS), max_size=2)))
        client["advertises"] = [
            {"name": f"a{at}", "filter": filter, "where": draw(st.sampled_from(CONDITIONS))}
            for at, filter in enumerate(filters)
        ]
    acls = {}
    for node in plain["nodes"]:
        if draw(st.booleans()):
            rules = draw(st.lists(st.sampled_from(RIGHTS), min_size=1, max_size=3))
            patterns = draw(st.lists(st.sampled_from(PATTERNS), max_size=1))
            said = [f"topic {rule}\n" for rule in rules] + [f"pattern {rule}\n" for rule in patterns]
            acls[node] = "".join([*said, "pattern write $penstock/advertise\n"])
    published = [
        (one.device, one.broker, *_encoded(*parts(one.topic)), draw(st.integers(0, 2))) for one in scene.publications
    ]
    own = st.tuples(st.sampled_from(list(plain["clients"])), st.sampled_from(FILTERS), st.sampled_from(CONDITIONS))
    advertised = draw(st.lists(own, max_size=1))
    return BrokeringPlay(plain, acls, tuple(published), tuple(advertised))


def _encoded(topic: str, payload: str) -> tuple[str, bytes]:
    return topic, payload.encode()


def gathered(count: int, strategy: st.SearchStrategy[BrokeringPlay]) -> list[BrokeringPlay]:
    """So many plays, others each time."""
    found: list[BrokeringPlay] = []

    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def gather(play: BrokeringPlay) -> None:
        found.append(play)

    gather()
    return found


class BrokeringPlays:
    """Plays joined into one domain, each by itself in it."""

    def __init__(self, plays: list[BrokeringPlay], folder: Path) -> None:
        self.folder = folder
        self._plays = plays
        self.published = [
            (_named(at, device), _named(at, node), topic, payload, qos)
            for at, play in enumerate(plays)
            for device, node, topic, payload, qos in play.published
        ]
        self.advertised = [
            (_named(at, device), filter, condition)
            for at, play in enumerate(plays)
            for device, filter, condition in play.advertised
        ]
        self.plain: dict[str, Any] = {"brokering": {"types": list(TYPES)}}
        for at, play in enumerate(plays):
            self._join(at, play)
        self.domain = Domain.model_validate(self.plain)

    def _join(self, at: int, play: BrokeringPlay) -> None:
        plain = yaml.safe_load(re.sub(r"\b[ndm]\d\b", lambda found: _named(at, found[0]), yaml.safe_dump(play.plain)))
        table = {key: rules for key, rules in plain["brokering"].items() if key != "types"}
        for node in plain["nodes"].values():
            node["store"] = "memory"
            if "brokering" not in node and table:
                node["brokering"] = table
        for name, text in play.acls.items():
            path = self.folder / f"{_named(at, name)}.acl"
            path.write_text(text)
            plain["nodes"][_named(at, name)]["acl"] = str(path)
        for key in ("nodes", "clients", "monitors"):
            self.plain.setdefault(key, {}).update(plain.get(key, {}))
        self.plain.setdefault("links", []).extend(plain.get("links", []))

    @property
    def subjects(self) -> list[str]:
        return list(self.domain.clients)

    def renamed(self, *keys: str) -> Domain:
        """The same, with other names for its `monitors` or for what it `advertises`: what was recorded is no use."""
        plain = deepcopy(self.plain)
        if "monitors" in keys:
            plain["monitors"] = {f"{name}-again": one for name, one in plain.get("monitors", {}).items()}
        if "advertises" in keys:
            for client in plain["clients"].values():
                for one in client["advertises"]:
                    one["name"] += "-again"
        return Domain.model_validate({**plain, "domain": "again"})

    def told(self, subject: str) -> str:
        """The play that a subject is in, for whoever has to find out what is wrong with it."""
        play = self._plays[int(subject[1:].partition("d")[0])]
        return f"{yaml.safe_dump(play.plain)}\n{play.acls}\n{play.published}\n{play.advertised}"

    def played(self, journal: Written) -> Views:
        """Play all of it, and record it: what subjects that subscribed to each topic by its name got."""
        acls = {name: Acl.read(node.acl) for name, node in self.domain.nodes.items() if node.acl is not None}
        rehearsal = Rehearsal(self.domain, ensemble(self.domain), acls)
        record(rehearsal)
        for subject in self.subjects:
            rehearsal.connect(subject)
            for topic in TOPICS:
                rehearsal.subscribe(subject, topic, no_local=False)
        for device, filter, condition in self.advertised:
            rehearsal.advertise(device, "own", filter, condition)
        revision = journal.keep(self.domain)
        for _ in range(ROUNDS):
            for device, node, topic, payload, qos in self.published:
                rehearsal.publish(device, topic, payload, qos, node=node)
                rehearsal.run()
                rehearsal.wait(0.001)  # by its time a journal says which of two events at different nodes came first
            journal.add_all(rehearsal.nodes.values(), revision)
        return delivered(rehearsal, self.subjects)


def _named(at: int, name: str) -> str:
    return f"x{at}{name}"
