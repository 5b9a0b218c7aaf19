"""Fig. 14: a publication from one node to another, where the policy of a subscription asks for proofs of the sender.

Both nodes are in this process. What is measured is the processor time of the receiving node for a publication, of the
sending node for its proof where proofs are not cached (`expiry: 0`), and of both for exchanges that are due.
"""

from __future__ import annotations

import time
from functools import partial
from statistics import median
from typing import Any, NamedTuple

from benchmarks.reproduce.statements.inside import interleaved
from benchmarks.reproduce.statements.policies import EVERYTHING, authenticating
from penstock.domain import Domain, ensemble
from penstock.engine.connections.inbound import Inbound
from penstock.engine.rehearsal.rehearsal import Rehearsal
from penstock.engine.sessions.render import packet_parts
from penstock.engine.trust import group_proofs, publication_proofs
from penstock.engine.trust.state import Claiming, GroupSecrets
from penstock.model.event import Event
from penstock.model.publication_proof import PROOF
from penstock.wire.codec import encode
from penstock.wire.packet import Publish
from penstock.wire.properties import Properties

GROUPS = (0, 1, 3, 5)
PUBLICATIONS = 200
PERIOD = 0.5
"""Seconds between two publications, by the clock of the rehearsal."""
EXPIRY = 10.0
"""Seconds that a proof counts: little, so that it expires while it is measured."""
PAYLOAD = b'{"class": "event", "a": 1}'
AUTHORISED, DENIED, CACHED = "authorised, not cached", "denied", "authorised, cached"


class Cost(NamedTuple):
    """The processor time of one publication, in seconds."""

    line: str
    groups: int
    seconds: float
    proofs: float
    """That the other node has checked, for each publication: of single ones, or by exchanges."""


class _Link:
    """Two nodes, a subscriber at the second, and a policy that asks for groups of the first."""

    def __init__(self, count: int, is_member: bool, is_cached: bool = False) -> None:
        names = [f"TrustGroup{number}" for number in range(1, count + 1)]
        expiry = EXPIRY if is_cached else 0
        domain_settings: dict[str, Any] = {
            "nodes": {name: {"listen": "127.0.0.1:0"} for name in ("n0", "n1")},
            "links": [{"between": ["n0", "n1"]}],
            "brokering": {"default": "default", "types": ["default"]},
            "trust_groups": {
                name: {"secret": {"env": "NOT_READ"}, "nodes": ["n0", "n1"], "expiry": expiry} for name in names
            },
            "statements": {"grants": [EVERYTHING]},
        }
        domain = Domain.model_validate(domain_settings)
        self.played = Rehearsal(domain, ensemble(domain))
        self.is_cached, self.own = is_cached, dict[str, bytes]()
        if not is_member:  # it tries, with secrets of its own, and fails
            self.own = {name: f"not the secret of {name}".encode() for name in names}
            group_proofs.hold(self.played.nodes["n0"], GroupSecrets(self.own), self.played.now)
            self.played.run()
        self.played.connect("s", "n1")
        self.played.subscribe("s", "t", policy=authenticating(names))
        other = self.played.assembly.connections["n0", "n1"].other
        assert isinstance(other, Inbound)
        self.end = other
        self.packet = encode(Publish("t", PAYLOAD), 5)
        self.proofs = 0

    def _leaving(self) -> bytes:
        """The publication as it leaves the sending node, or one that has only secrets of its own."""
        node = self.played.nodes["n0"]
        neighbour = node.federation.neighbours["n1"]
        claiming = neighbour.trust.proving
        if self.is_cached or not isinstance(claiming, Claiming) or claiming.prover is None:
            return self.packet
        self.proofs += 1
        if self.own:
            tried = claiming.prover.prove(publication_proofs.as_sent(Publish("t", PAYLOAD), "t"), self.own)
            return encode(Publish("t", PAYLOAD, properties=Properties(user_properties=((PROOF, tried),))), 5)
        event = publication_proofs.proving(node, neighbour, Event("t", PAYLOAD), 0, False, self.played.now)
        return b"".join(packet_parts(event, 5, 0, False, (), self.played.now))

    def run(self, publications: int) -> float:
        """Seconds for one publication, with its proof, and with the exchanges that are due meanwhile."""
        played = self.played
        node = played.nodes["n0"]
        neighbour = node.federation.neighbours["n1"]
        seconds = 0.0
        for _ in range(publications):
            played.assembly.now += PERIOD
            claiming = neighbour.trust.proving
            if isinstance(claiming, Claiming) and played.now >= claiming.due:
                self.proofs += self.is_cached
                began = time.process_time()
                group_proofs.renew(node, neighbour, played.now)
                played.assembly.turn(node)
                played.run()
                seconds += time.process_time() - began
            began = time.process_time()
            self.end.receive(self._leaving())
            seconds += time.process_time() - began
            played.assembly.turn(self.end.host.node)
            played.run()
        return seconds / publications

    def got(self) -> int:
        return len(self.played.deliveries("s"))


def measure(rounds: int, publications: int = PUBLICATIONS) -> list[Cost]:
    """Each line with each number of groups."""
    lines = {AUTHORISED: (True, False), DENIED: (False, False), CACHED: (True, True)}
    cases = [(line, count) for line in lines for count in GROUPS]
    links = [_Link(count, *lines[line]) for line, count in cases]
    works = [partial(link.run, publications) for link in links]
    times = interleaved(works, rounds)
    for (line, count), link in zip(cases, links, strict=True):
        if bool(link.got()) is (line == DENIED and count > 0):
            raise AssertionError(f"{line}, {count} groups: {link.got()} publications arrived")
    total = publications * (rounds + 2)
    return [
        Cost(line, count, median(costs), link.proofs / total)
        for (line, count), link, costs in zip(cases, links, times, strict=True)
    ]
