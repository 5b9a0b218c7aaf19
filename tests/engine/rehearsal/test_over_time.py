"""Random plays over time: whatever changes while messages are on their way or wait, at the moment a message leaves, the
present domain allows it.

Domains of one to four nodes, in a line or a cycle; events at all qualities of service, retained and not, for readers
that come and go; and between them reloads, kills, cut links.
"""

import json
from pathlib import Path
from random import Random

import pytest

from penstock.broker.store.store import Store
from penstock.domain import Domain, ensemble
from penstock.engine.rehearsal.rehearsal import Rehearsal
from penstock.policy.access.acl import Acl
from tests.support.generators.examples import some
from tests.support.memory.rehearsed import reload
from tests.support.models.present_domain import TOPICS, Present, Shape

CHUNK = 20
RUNS = some(200)


class Play:
    """One play: what was published, what the domain is, and what each reader has got so far."""

    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        self.shape = Shape.draw(random)
        self.present = Present(self.shape)
        self.log: list[str] = [f"{self.shape}"]
        self.published: dict[int, tuple[str, str, int]] = {}
        self.seen = dict.fromkeys(self.shape.readers, 0)
        self.cut: set[tuple[str, str]] = set()
        domain = Domain.model_validate(self.present.as_domain())
        stores = {name: Store(Path(":memory:"), "normal") for name in self.shape.nodes}
        self.rehearsal = Rehearsal(domain, ensemble(domain), self._acls(), stores)
        for name in (*self.shape.publishers, *self.shape.readers):
            self.rehearsal.connect(name)
        for reader in self.shape.readers:
            self.rehearsal.subscribe(reader, random.choice(("#", "t/+", *TOPICS)), random.randint(0, 2))

    def _acls(self) -> dict[str, Acl]:
        return {name: Acl.parse(self.present.access_list(name), "acl") for name in self.shape.nodes}

    def step(self) -> None:
        random = self.random
        act = random.choice((self._publish, self._publish, self._come_or_go, self._change, self._restart, self._link))
        act()
        self.rehearsal.run()
        self.check()

    def _publish(self) -> None:
        random = self.random
        publisher, topic, x = random.choice(list(self.shape.publishers)), random.choice(TOPICS), random.randint(1, 9)
        if not self.rehearsal.is_connected(publisher):
            return
        number = len(self.published)
        self.published[number] = publisher, topic, x
        qos, retain = random.randint(0, 2), random.random() < 0.4
        self.log.append(f"{publisher} publishes {number}: {topic} x={x} qos={qos} retain={retain}")
        payload = json.dumps({"n": number, "x": x, "y": 1}).encode()
        self.rehearsal.publish(publisher, topic, payload, qos, retain)

    def _come_or_go(self) -> None:
        random = self.random
        name = random.choice((*self.shape.readers, *self.shape.publishers))
        if self.rehearsal.is_connected(name):
            if random.random() < 0.5 and name in self.shape.readers:
                filter = random.choice(("#", "t/+", *TOPICS))
                self.log.append(f"{name} subscribes to {filter}")
                self.rehearsal.subscribe(name, filter, random.randint(0, 2))
            else:
                self.log.append(f"{name} goes")
                self.rehearsal.disconnect(name)
        elif name not in self.present.unlisted:
            self.log.append(f"{name} comes")
            self.rehearsal.connect(name)

    def _change(self) -> None:
        before = self.present
        self.present = before.changed(self.random)
        if self.cut and self.present.writes != before.writes:
            self.present = before  # nodes that are cut off do not hear of another access list
            return
        self.log.append(f"the domain is {self.present}")
        reload(self.rehearsal, self.present.as_domain(), self._acls())

    def _restart(self) -> None:
        name = self.random.choice(self.shape.nodes)
        self.log.append(f"{name} is killed and starts again")
        self.rehearsal.restart(name)

    def _link(self) -> None:
        if not self.shape.links:
            return
        link = self.random.choice(self.shape.links)
        self.log.append(f"{link} is {'restored' if link in self.cut else 'cut'}")
        (self.rehearsal.restore if link in self.cut else self.rehearsal.cut)(*link)
        self.cut ^= {link}

    def check(self) -> None:
        for reader in self.shape.readers:
            got = self.rehearsal.deliveries(reader)
            for delivered in got[self.seen[reader] :]:
                content = json.loads(delivered.payload)
                publisher, topic, x = self.published[content["n"]]
                is_allowed = delivered.topic == topic and self.present.allows(
                    publisher, reader, topic, x, "y" in content
                )
                assert is_allowed, "\n".join((*self.log, f"{reader} gets {delivered}"))
            self.seen[reader] = len(got)


@pytest.mark.fuzz
@pytest.mark.parametrize("first", range(0, RUNS, CHUNK))
def test_at_the_moment_a_message_leaves_the_present_domain_allows_it(first: int) -> None:
    for seed in range(first, first + CHUNK):
        play = Play(seed)
        for _ in range(25):
            play.step()
