"""The stages prune and project, asked without effect: which policies let what through, and what each took out.

What nodes know of edge nodes, and what readers have had, are copied before a question changes them.
"""

from penstock.engine.events.user_properties import born_by
from penstock.engine.node import Node
from penstock.engine.sessions.session import Session
from penstock.engine.sparkplug import births
from penstock.engine.sparkplug.beyond import reader_of
from penstock.engine.sparkplug.messages import moment
from penstock.engine.sparkplug.state import Actor, Read, ReadersBeyond, governed
from penstock.engine.stages import project, prune
from penstock.model.errors import ContentError
from penstock.model.event import Event
from penstock.model.sparkplug.topic import SparkplugSource
from penstock.model.verdict import Effect, Verdict
from penstock.policy.sparkplug.edge_nodes import Plant, PlantReader
from penstock.policy.sparkplug.policies import Grants, Privilege
from penstock.policy.sparkplug.reasons import policy_results, verdict
from penstock.policy.sparkplug.views import START, write_view


class Views:
    """The Sparkplug views along one event's way, computed on copies."""

    def __init__(self) -> None:
        self._plants: dict[tuple[str, SparkplugSource], Plant] = {}
        self._readers: dict[tuple[str, int], PlantReader] = {}
        self._taken: set[tuple[str, str, str, bytes]] = set()

    def pruned(self, node: Node, actor: Actor | None, event: Event, now: float) -> tuple[Event, tuple[Verdict, ...]]:
        """Stage 2: the event as its publisher may write it."""
        sparkplug = node.sparkplug
        if sparkplug is None or not governed(event.topic):
            return event, ()
        pruned, judged = prune.judge(node, actor, event, now)
        if actor is None or judged.rule not in ("", "access"):
            return pruned, (judged,)
        request = prune.asked(sparkplug, event, sparkplug.read(event.topic, event.payload), now)
        policies = sparkplug.access.candidates(actor.ids, event.topic, "write")
        view = write_view(Grants(policies), request, actor.record)
        reasons = policy_results(policies, request, actor.record)
        return pruned, (verdict("prune", reasons, view, request, str(actor.record["client"]), event.topic, "write"),)

    def taken(self, node: Node, event: Event) -> str:
        """Learn from an event that goes out; why it must not."""
        sparkplug = node.sparkplug
        key = node.name, event.id, event.topic, event.payload
        if sparkplug is None or not governed(event.topic) or (event.id and key in self._taken):
            return ""  # if it has come by another way already, it is known
        self._taken.add(key)
        try:
            read = sparkplug.read(governed(event.topic), event.payload)
            self._plant(node, read).take(read.topic, read.message, born_by(event), births.speaker(node, event))
        except ContentError as error:
            return str(error)
        return ""

    def shown(self, node: Node, session: Session, event: Event, now: float) -> tuple[Event | None, tuple[Verdict, ...]]:
        """Stage 9: the event as a session may see it."""
        sparkplug, topic = node.sparkplug, governed(event.topic)
        actor = reader_of(node, session) if sparkplug is not None and topic else None
        if sparkplug is None or actor is None:
            return event, ()
        may: Privilege = "read"
        is_node = isinstance(actor, ReadersBeyond)
        policies = sparkplug.access.candidates(actor.ids, topic, may)
        try:
            read = sparkplug.read(topic, event.payload)
            plant, reader = self._plant(node, read), self._reader(node, session, actor)
            source = read.topic.source
            before = START if source is None else reader.standings.get(source, START)
            request = plant.request(read.topic, read.message, born_by(event), moment(now), read.state)
            reasons = policy_results(policies, request, actor.record, before)
            edge = None if source is None else source.node
            grants = actor.grants(sparkplug.access, topic, may) if is_node else Grants(policies)
            shown = plant.show(reader, grants, request, edge, actor.record)
        except ContentError as error:
            return None, (Verdict("project", Effect.SUPPRESS, "sparkplug", str(error)),)
        view = None if shown is None else shown.view
        if is_node and (view is None or view.is_whole):
            result = project.NOT_READABLE_BEYOND if view is None else Verdict("project", Effect.PASS)
        elif is_node and view is not None:
            result = project.cut(view, request.known, is_node=True)
        else:
            result = verdict("project", reasons, view, request, str(actor.record["client"]), topic, may)
        if shown is None or shown.is_whole:
            return event if shown is not None else None, (result,)
        return event._replace(payload=shown.payload()), (result,)

    def _plant(self, node: Node, read: Read) -> Plant:
        assert node.sparkplug is not None
        if read.topic.source is None:
            return Plant()
        edge = read.topic.source.node
        key = node.name, edge
        if key not in self._plants:
            self._plants[key] = node.sparkplug.plant.part(edge)
        return self._plants[key]

    def _reader(self, node: Node, session: Session, actor: Actor) -> PlantReader:
        return self._readers.setdefault((node.name, session.id), actor.reader.copy())
