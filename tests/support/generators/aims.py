"""Plays over time that aim: a message waits somewhere for a reader that may have it, then just a policy that concerns
this message changes, then what it waited for happens.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.support.generators.closings import Aim, closing, is_allowed
from tests.support.generators.plays import Play
from tests.support.models.present_domain import DELAY, EDGE, FOREIGN, METRICS, TOPICS, Ends, Present

UNTIL = 2
"""Seconds until the time closes what it is aimed at."""
AIMS = 12
"""Acts that aim, beside the others."""


class AimedPlay(Play):
    """A play with acts that aim."""

    def acts(self) -> tuple[Callable[[], object], ...]:
        return (*super().acts(), *(self._aim for _ in range(AIMS)))

    def _aim(self) -> None:
        """Let a message wait, change the domain so that it is no longer allowed, and let it go on."""
        random = self.random
        self._heal()
        aim = self._draw()
        if aim is None:
            return
        waits = self._for_anybody if aim.reader == FOREIGN else (*self._for_anybody, *self._for_clients)
        wait = random.choice(waits if aim.sent.publisher == FOREIGN else (*waits, self._delayed, self._delayed))
        self.log.append(f"aim{wait.__name__} at {aim.reader}")
        if aim.reader != FOREIGN:
            filter = "spBv1.0/#" if aim.metrics else random.choice(("t/+", aim.sent.topic))
            self.rehearsal.subscribe(aim.reader, filter, random.randint(1, 2))
        if aim.metrics and not self.peers[EDGE].is_born:
            self._birth(qos=1, is_damaged=False)
            self._rest()
        what_it_waits_for = wait(aim)
        next(what_it_waits_for)
        self.check()
        self._close(aim, DELAY if wait == self._delayed else 0)
        if random.random() < 0.15:
            self._restart()
        next(what_it_waits_for, None)
        self._rest()

    def _heal(self) -> None:
        for link in sorted(self.cut):
            self.rehearsal.restore(*link)
        self.cut.clear()
        self._rest()

    def _cut(self, links: list[Ends]) -> None:
        for link in links:
            self.rehearsal.cut(*link)
        self.cut.update(links)

    def _draw(self) -> Aim | None:
        """A message that the present domain allows; if there is none, most policies have to go."""
        found = self._allowed()
        if not found:
            self._become(Present(self.shape, revoked=self.present.revoked))
            for name, peer in self.peers.items():
                if not peer.is_open or peer.token in self.present.revoked:
                    self._come(name)
            self._rest()
            found = self._allowed()
        return self.random.choice(found) if found else None

    def _allowed(self) -> list[Aim]:
        random, found = self.random, list[Aim]()
        for reader in filter(self.rehearsal.is_connected, self.shape.receivers):
            for publisher in filter(self.rehearsal.is_connected, self.shape.speakers):
                sent = self._sent(publisher, random.choice(TOPICS), random.randint(1, 9))
                found.append(Aim(sent, reader))
            if reader != FOREIGN and self.rehearsal.is_connected(EDGE):
                metrics = tuple(random.sample(METRICS, random.randint(1, 2)))
                found += [Aim(self._sent(EDGE, "spBv1.0/G/NDATA/E"), reader, metrics)] * 2
        return [aim for aim in found if is_allowed(self.present, aim, self.now)]

    def _close(self, aim: Aim, after: int) -> None:
        """Change one policy, so that the message is not allowed after so many seconds."""
        kinds = closing(self.present, aim, self.now + after)
        if self.cut:  # nodes that are cut off do not hear of another access list
            kinds = {name: changed for name, changed in kinds.items() if name not in ("reads", "writes")}
        if aim.metrics:
            kinds["until"] = [replace(self.present, until=self.present.until | {aim.reader: int(self.now) + UNTIL})]
        kind = self.random.choice(list(kinds))
        self.log.append(f"by {kind}")
        self._become(self.random.choice(kinds[kind]))
        self.check()
        if kind == "until":
            self.rehearsal.wait(UNTIL + 1)
            self.check()

    # --- what a message waits for: each does so, and yields while it waits

    @property
    def _for_anybody(self) -> tuple[Callable[[Aim], Iterator[None]], ...]:
        return self._live, self._linked, self._in_flight

    @property
    def _for_clients(self) -> tuple[Callable[[Aim], Iterator[None]], ...]:
        return self._away, self._unacknowledged, self._unacknowledged, self._full, self._retained, self._retained

    def _speak(self, aim: Aim, qos: int = 0, retain: bool = False) -> None:
        if aim.metrics:
            self._say_metrics(aim.metrics, min(qos, 1))
        elif self.rehearsal.is_connected(aim.sent.publisher):
            sent = aim.sent
            self._say(self._sent(sent.publisher, sent.topic, sent.x), qos, retain)

    def _live(self, aim: Aim) -> Iterator[None]:
        """For nothing: it comes when the domain has changed."""
        yield
        self._speak(aim, self.random.randint(0, 2))

    def _away(self, aim: Aim) -> Iterator[None]:
        """For the reader to come back."""
        self.rehearsal.disconnect(aim.reader)
        self._speak(aim, self.random.randint(1, 2))
        self._rest()
        yield
        self._come(aim.reader)

    def _unacknowledged(self, aim: Aim) -> Iterator[None]:
        """To be acknowledged; the reader comes back and has not."""
        peer = self.peers[aim.reader]
        peer.is_slow = True
        self._speak(aim, self.random.randint(1, 2))
        self._rest()
        self.rehearsal.assembly.break_off(peer.node, peer.name)
        yield
        peer.is_slow = False
        self._come(aim.reader)

    def _full(self, aim: Aim) -> Iterator[None]:
        """For the reader's window."""
        peer = self.peers[aim.reader]
        peer.is_slow = True
        for _ in range(4):
            self._speak(aim, self.random.randint(1, 2))
        self._rest()
        yield
        peer.acknowledge()

    def _retained(self, aim: Aim) -> Iterator[None]:
        """For a subscription."""
        if aim.metrics:
            self._birth(is_damaged=False)
        self._speak(aim, self.random.randint(0, 2), retain=True)
        self._rest()
        yield
        if self.rehearsal.is_connected(aim.reader):
            filter = "$sparkplug/#" if aim.metrics else aim.sent.topic
            self.rehearsal.subscribe(aim.reader, filter, self.random.randint(0, 2))

    def _delayed(self, aim: Aim) -> Iterator[None]:
        """For the time of a contract."""
        contracts = self.present.contracts | {aim.sent.publisher: "delay"}
        self._become(
            replace(self.present, contracts=contracts, purposes=self.present.purposes | {aim.reader: "health"})
        )
        self._speak(aim, self.random.randint(0, 2))
        self._rest()
        yield
        self.rehearsal.wait(DELAY + 1)

    def _around(self, aim: Aim) -> list[Ends]:
        """The links of the publisher's node, but to the publisher."""
        ends = (aim.sent.node, aim.sent.publisher)
        return [link for link in self.shape.joined if aim.sent.node in link and link != ends]

    def _linked(self, aim: Aim) -> Iterator[None]:
        """For a link."""
        self._cut(self._around(aim))
        self._speak(aim, self.random.randint(1, 2))
        self._rest()
        yield
        self._heal()

    def _in_flight(self, aim: Aim) -> Iterator[None]:
        """To be sent again over a link that was cut while it was under way."""
        self._speak(aim, self.random.randint(1, 2))
        for connection in self.rehearsal.assembly.connections.values():
            for wire in connection.wires:
                while wire and wire.source == aim.sent.publisher:
                    wire.hand_over()
        self._cut(self._around(aim))
        self._rest()
        yield
        self._heal()
