"""Stage project over tables: which metrics of a Sparkplug message may a subject read?

The steps are the engine's own, in order for each edge node at a node. What is known of an edge node comes from all of
its messages there, not only from those that a subject gets: these are beside the views, to be learnt from.
"""

from collections.abc import Iterator

from pyspark.sql import DataFrame

from penstock.engine.events import user_properties
from penstock.engine.node import Node
from penstock.engine.sessions.render import Forms
from penstock.engine.sessions.session import Session
from penstock.engine.sparkplug import openings
from penstock.engine.sparkplug.messages import actor_of
from penstock.engine.stages import project
from penstock.model.event import Event
from penstock.model.sparkplug.topic import in_namespace, message_topic
from penstock.pipeline.spark.policies import Asker, CompiledDomain, Policies
from penstock.pipeline.stages.stage import KeyDraft, Traffic
from penstock.pipeline.state.buckets import Kept
from penstock.pipeline.state.edge_nodes import EdgeNodes, by_edge_node, is_sparkplug
from penstock.pipeline.state.rows import Fields
from penstock.pipeline.tables.executor import F
from penstock.policy.sparkplug.edge_nodes import PlantReader

_LEARNT = ("policy", "node", "topic", "payload", "properties", "time", "arrival", "place", "id")
"""What is learnt from a message."""


def plan(draft: KeyDraft) -> None:
    """Plan nothing: each message is asked."""


def on_table(traffic: Traffic) -> Traffic:
    """Leave of Sparkplug messages what their subjects may see."""
    scope, views = traffic.scope, traffic.rows
    if not scope.has_access:
        return traffic
    messages = _with_learnt(views.filter(is_sparkplug()), traffic.all_learnt())
    projected = by_edge_node(messages, lambda kept: ProjectSteps(scope.policies, scope.askers, kept), traffic.is_stream)
    return traffic.with_rows(views.filter(~is_sparkplug()).unionByName(projected))


on_stream = on_table


def _with_learnt(views: DataFrame, learnt: DataFrame) -> DataFrame:
    """Return messages that go to subjects, and before them all messages, without a subject."""
    others = learnt.filter(is_sparkplug()).select(*_LEARNT).withColumn("part", F.lit(-1))
    return views.unionByName(others, allowMissingColumns=True)


class ProjectSteps(EdgeNodes):
    """The engine's stage for one message after the other; one without a subject is to be learnt from."""

    def __init__(self, policies: Policies, askers: tuple[Asker, ...], kept: Kept | None) -> None:
        super().__init__(policies, askers, kept)
        self._event = Event("", b"")

    def step(self, row: Fields) -> Iterator[Fields]:
        """Yield what changes in a message, if its subject may see any of it; and before it, what the time has shown."""
        policy, node = self.enter(row)
        if self.edge.due:
            yield from self._opened(policy, node, row)
        if row["subject"] is None:
            self._event = Event(row["topic"], row["payload"], properties=row["properties"] or b"")
            self.learn(node, row, self._event)
            return
        session = self._session(policy, node, row["subject"])
        if session is None:
            return
        if (row["topic"], row["payload"]) != (self._event.topic, self._event.payload):
            self._event = self._event._replace(topic=row["topic"], payload=row["payload"])
        forms = project.show(node, session, Forms(self._event, row["time"]))
        if node.sparkplug is not None and node.sparkplug.access.is_timed:
            self._ask_later(node, session, row)
        if forms is not None:
            event = Event("", b"", properties=row["properties"] or b"")
            yield {"payload": forms.event.payload, "properties": user_properties.for_clients(event).properties}

    def _opened(self, policy: CompiledDomain, node: Node, row: Fields) -> Iterator[Fields]:
        """Yield the rows of what has become due before a row came, each at its time."""
        opened: list[Fields] = []
        while due := sorted((at, *key) for key, at in self.edge.due.items() if at <= row["time"]):
            at, subject, speaker = due[0]
            del self.edge.due[subject, speaker]
            session = self._session(policy, node, subject)
            actor = None if session is None else actor_of(node, session)
            if session is None or actor is None:
                continue
            for each in openings.opened(node, actor, speaker, at):
                forms = project.show(node, session, Forms(each.event, at))
                before = self.edge.withheld.get((subject, each.event.topic))
                before = before or next((kept for (who, _), kept in self.edge.withheld.items() if who == subject), None)
                if forms is None or before is None:
                    each.take_back()
                    continue
                shown = user_properties.for_clients(forms.event)
                place = {"arrival": row["arrival"], "place": row["place"], "time": at}
                content = {"topic": shown.topic, "payload": shown.payload, "properties": shown.properties}
                opened.append({**before, **place, **content})
            changes = openings.next_changes(node, actor, speaker, at)
            if changes:
                self.edge.due[subject, speaker] = min(changes)
        for number, made in enumerate(opened, -len(opened) - 1):
            yield {**made, "part": number}

    def _ask_later(self, node: Node, session: Session, row: Fields) -> None:
        """Remember a message of which the time has withheld something."""
        actor = actor_of(node, session)
        if actor is None or not in_namespace(row["topic"]):
            return
        subject, speaker = row["subject"], message_topic(row["topic"]).speaker
        changes = openings.next_changes(node, actor, speaker, row["time"])
        if changes:
            self.edge.withheld[subject, row["topic"]] = row
            self.edge.due[subject, speaker] = min(changes)

    def _session(self, policy: CompiledDomain, node: Node, subject: str) -> Session | None:
        session = self.actors.subject(policy, node, subject)
        actor = actor_of(node, session) if session is not None and node.sparkplug is not None else None
        if actor is not None:
            actor.reader = self.edge.readers.setdefault(subject, PlantReader())
        return session
