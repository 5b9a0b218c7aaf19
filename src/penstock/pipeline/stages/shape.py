"""Stage shape over tables: what do the monitors on the link to a subject make of an event?

Before them, an event that came to a node by several ways is taken once, by the first that policy statements let pass.
"""

from collections.abc import Callable, Iterator

from pyspark.sql import DataFrame

from penstock.engine.events import user_properties
from penstock.engine.events.plan import Target
from penstock.engine.node import Node
from penstock.engine.sessions.session import Session
from penstock.engine.stages import edit, shape
from penstock.journal.read.packets import PUBLISHER
from penstock.model.event import Event
from penstock.pipeline.spark.policies import CompiledDomain, by_name
from penstock.pipeline.stages.judge import JudgedCause, Then, advertise, prove, remembered
from penstock.pipeline.stages.stage import KeyDraft, Traffic
from penstock.pipeline.state.actors import Actors
from penstock.pipeline.state.buckets import Kept, in_order
from penstock.pipeline.state.monitors import LINKS, LinkMonitors
from penstock.pipeline.state.rows import Fields, event_fields, event_of, with_publisher
from penstock.pipeline.state.scope import Scope
from penstock.pipeline.tables.executor import F, Window
from penstock.pipeline.tables.view import NOT_BEFORE, UNTIL, VIEW

_KEY = ("node", "subject")
_OTHERS = ("arrival", "policy", "revision", "client_id", "user", "link_type_now", "path", "id", *PUBLISHER)
_KEPT = (*(name for name in VIEW if name not in (NOT_BEFORE, UNTIL)), *_OTHERS)
"""The columns that stages after this need; Spark keeps no others of a stream."""
_JUDGED = ("entity", "neighbour", "facts", "left")
"""The columns by which what monitors make is judged."""


def plan(draft: KeyDraft) -> None:
    """Plan nothing: match has said which receivers are watched."""


def on_table(traffic: Traffic) -> Traffic:
    """Leave what monitors let out to subjects, of each event one."""
    scope, rows = traffic.scope, traffic.rows
    if scope.is_cyclic:
        rows = _once(rows, scope)
    if not scope.has_monitors_out:
        return traffic.with_rows(rows.filter("wanted"))
    shaped = in_order(rows.filter("watched"), _KEY, _make(scope, False), (LINKS,), False)
    return traffic.with_rows(rows.filter(~F.col("watched") & F.col("wanted")).unionByName(shaped))


def on_stream(traffic: Traffic) -> Traffic:
    """Do the same in one pass, which remembers what came by another way."""
    scope, rows = traffic.scope, traffic.rows
    if not scope.has_monitors_out and not scope.is_cyclic:
        return traffic.with_rows(rows.filter("wanted"))
    if not (scope.has_statements and scope.is_cyclic):
        rows = rows.withColumn("said", F.col("payload"))
    asks = ("release_asks",) if scope.has_contracts else ()
    judged = _JUDGED if scope.has_statements and scope.has_monitors_out else ()
    rows = rows.select(*_KEPT, *asks, *judged, "wanted", "said")
    return traffic.with_rows(in_order(rows, _KEY, _make(scope, scope.is_cyclic), (LINKS,), True))


def _make(scope: Scope, once: bool) -> Callable[[Kept | None], "ShapeSteps"]:
    return lambda kept: ShapeSteps(scope, kept, once)


def _once(rows: DataFrame, scope: Scope) -> DataFrame:
    payload = "said" if scope.has_statements else "payload"
    first = F.min("arrival").over(Window.partitionBy("subject", "node", "id", "topic", payload))
    rows = rows.withColumn("first", first)
    rows = rows.filter(F.col("id").isNull() | (F.col("first") == F.col("arrival"))).drop("first")
    return rows.drop("said")


def _without_publisher(event: Event) -> Event:
    if not user_properties.told(event, user_properties.PUBLISHER):
        return event
    return user_properties.having(event, None, (), without=user_properties.PUBLISHER)


class ShapeSteps(LinkMonitors):
    """The engine's monitors for one row after the other; rows that are not `wanted` are only seen by the monitors."""

    def __init__(self, scope: Scope, kept: Kept | None, once: bool) -> None:
        """`once`: an event is taken by the first way that it came."""
        super().__init__(scope.policies, "subject", kept)
        self._askers = {asker.label: asker for asker in scope.askers}
        self._once, self._scope = once, scope
        self._actors = Actors(scope.policies) if scope.has_statements else None
        self._session: Session | None = None

    def step(self, row: Fields) -> Iterator[Fields]:
        """Yield what changes in each event that is let out."""
        if self._once and not self.link(row).is_first(row):
            return
        policy, node, is_new = self.enter(row)
        if is_new:
            self._session = policy.session(node, self._askers[row["subject"]])
        session = self._session
        assert session is not None  # it is among the receivers of the row's key
        watch, event, now = session.place.watch_out, event_of(row, row["link_type_now"]), row["time"]
        # Contracts, which are asked later, need what is attached.
        shown = user_properties.for_clients if node.contracts is None else _without_publisher
        if watch is None:
            yield {**event_fields(shown(event), now), "part": 0}
            return
        targets = (Target([by_name(node, session, event.topic)]),) if row["wanted"] else ()
        sender: Session | None = None
        judging: JudgedCause | None = None
        if self._actors is not None:
            sender, event, judging = self._came(self._actors, policy, node, event, row)
        part = 0
        for output in edit.run_monitors(node, watch, event, now):
            session.subscriptions = {output.topic: by_name(node, session, output.topic)}
            for _, left in shape.receivers(node, watch, targets, event, output, sender, now, judging):
                yield {**event_fields(shown(left), now), "part": part}
                part += 1
            session.subscriptions = {}
        node.notices.clear()

    def _came(
        self, actors: Actors, policy: CompiledDomain, node: Node, event: Event, row: Fields
    ) -> tuple[Session | None, Event, JudgedCause]:
        """Return who sent an event, the event with its publisher, and how it was judged: what monitors make of it is
        judged as well.
        """
        facts, session, at_rest = remembered(row["facts"]), self._session, self._scope.at_rest
        assert session is not None
        sender = actors.publisher(policy, actors.node(policy, row["node"]), row)
        if sender is not None and sender.neighbour is None:
            advertise(node, sender, facts, self._scope.policies.decide_again)
        prove(node, session, facts, at_rest)
        event = with_publisher(row, event)
        return sender, event, JudgedCause(node, event, row, Then.of(node, policy, facts, at_rest))
