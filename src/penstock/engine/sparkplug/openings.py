"""Messages that a reader is owed when the time lets it see more, and when to ask again."""

from collections.abc import Iterator
from dataclasses import dataclass

from penstock.engine.events import user_properties
from penstock.engine.node import Node
from penstock.engine.sessions.session import Session
from penstock.engine.sparkplug.messages import moment
from penstock.engine.sparkplug.state import Actor, Sparkplug
from penstock.model.errors import ContentError
from penstock.model.event import Event
from penstock.model.sparkplug.message import bare, parse
from penstock.model.sparkplug.topic import BIRTHS, STATE, SparkplugSource, message_topic, report_topic
from penstock.policy.sparkplug.edge_nodes import PlantReader
from penstock.policy.sparkplug.views import START, WithheldMetrics


@dataclass(frozen=True, slots=True)
class DueMessage:
    """A message that a reader may see now, with what the reader was owed before."""

    event: Event
    reader: PlantReader
    speaker: str
    before: WithheldMetrics

    def take_back(self) -> None:
        """Have the reader owed the same as before: the message was not sent."""
        source = source_of(self.speaker)
        if source is not None and self.before != START:
            self.reader.standings[source] = self.before
        if message_topic(self.event.topic).type not in ("NDATA", "DDATA"):
            self.reader.late.add(self.speaker)


def source_of(speaker: str) -> SparkplugSource | None:
    """Return the edge node or device; None for a host."""
    return None if speaker.startswith(f"{STATE}/") else SparkplugSource(*speaker.split("/"))


def opened(node: Node, actor: Actor, speaker: str, now: float) -> Iterator[DueMessage]:
    """Yield what is to be sent to a reader, each when the one before has been sent."""
    sparkplug, source, reader = node.sparkplug, source_of(speaker), actor.reader
    life = None if sparkplug is None else sparkplug.windows.lives.get(speaker)
    if sparkplug is None or life is None:
        return
    before = START if source is None else reader.standings.get(source, START)
    if speaker in reader.late:
        yield DueMessage(life, reader, speaker, before)
        if source is None or speaker in reader.late:
            return
        known, after = sparkplug.plant.known(source), reader.standings.get(source, START)
        changed = (name for name, value in known.values.items() if value != known.births.get(name))
        withheld = after.withheld.union(changed)  # the birth says what was then
        if withheld:
            reader.standings[source] = WithheldMetrics(withheld, after.unborn)
    if source is None or message_topic(life.topic).type not in BIRTHS:
        return
    standing = reader.standings.get(source, START)
    report = _report(sparkplug, speaker, source, life, now)
    if standing.withheld and _shows_more(sparkplug, actor, report, now):
        yield DueMessage(report, reader, speaker, standing)


def _report(sparkplug: Sparkplug, speaker: str, source: SparkplugSource, life: Event, now: float) -> Event:
    """Return a report that says nothing new: a reader's view of it has what it is owed."""
    last = sparkplug.windows.reports.get(speaker, life)
    payload = bare(int(now * 1000), sparkplug.plant.last_seq(source.node) or 0)
    return last._replace(topic=report_topic(source), payload=payload, retain=False, expires=None)


def _shows_more(sparkplug: Sparkplug, actor: Actor, report: Event, now: float) -> bool:
    grants = actor.grants(sparkplug.access, report.topic, "read")
    topic, generation = message_topic(report.topic), user_properties.born_by(report)
    request = sparkplug.plant.request(topic, parse(report.payload), generation, moment(now), {})
    try:
        view = sparkplug.plant.preview(actor.reader, grants, request, actor.record)
    except ContentError:
        return False
    return view is not None and bool(view.added)


def next_changes(node: Node, actor: Actor, speaker: str, now: float, is_exact: bool = True) -> list[float]:
    """Return the next times at which a reader may be shown what it is owed of an edge node, a device or a host.

    `is_exact`: only those that are known, not those at which conditions that read the time are asked again.
    """
    sparkplug, source, reader = node.sparkplug, source_of(speaker), actor.reader
    life = None if sparkplug is None else sparkplug.windows.lives.get(speaker)
    is_owed = speaker in reader.late or (source is not None and bool(reader.standings.get(source, START).withheld))
    if sparkplug is None or life is None or not is_owed:
        return []
    topics = {life.topic} if source is None else {life.topic, report_topic(source)}
    grants = (actor.grants(sparkplug.access, topic, "read") for topic in topics)
    return [at for at in (each.next_change(now, is_exact) for each in grants) if at is not None]


def ask_again(node: Node, session: Session, actor: Actor, speaker: str, now: float) -> None:
    """Have the reader asked about again at the next change, if it is still owed something."""
    changes = next_changes(node, actor, speaker, now, is_exact=False)
    if changes and node.sparkplug is not None:
        node.sparkplug.windows.ask(min(changes), session.id, session, speaker)
