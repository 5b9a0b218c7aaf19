"""What the Spark side of a stage is: a module of the same name as the engine's, with three functions.

- `plan(draft)` decides what topic and publisher alone decide, once for each key of events, as the engine's `plan` does
  once for a topic and a link. What it decides is beside the events as columns (`keys.py`).
- `on_table(traffic)` decides the rest, over a table of recorded events.
- `on_stream(traffic)` does the same over a stream, which cannot know what is still to come.

`govern.py` pairs these modules with the engine's stages, and goes through them in the engine's order.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, Protocol

from pyspark.sql import Column, DataFrame

from penstock.engine.node import Node
from penstock.engine.sessions.session import Session
from penstock.engine.stages import runner
from penstock.model.topic_tree import FilterIndex
from penstock.model.verdict import Effect, Verdict
from penstock.pipeline.spark.policies import CompiledDomain, Policies, PublisherLink
from penstock.pipeline.state.actors import Actors
from penstock.pipeline.state.scope import Scope
from penstock.pipeline.tables.executor import F

AS_IT_CAME, RECORDED, RUN = "as it came", "recorded", "run"
"""What edit has to do: there are no monitors, they are those that were, they are others."""


class EventKey(NamedTuple):
    """All that events have in common which are planned alike."""

    revision: str
    node: str
    topic: str
    client_id: str
    user: str | None
    entity: str
    link_type: str
    neighbour: str | None


class Receiver(NamedTuple):
    """A subject that may get the events of a key."""

    subject: str
    reads: bool
    """Whether the subject may read the topic."""
    where: str | None
    """The condition that must hold then."""
    looks_on: bool
    """Whether the monitors on its link see the event in any case."""
    watched: bool
    """Whether there are such monitors."""
    judged: bool = False
    """Whether the domain has policy statements for it."""


class Before(NamedTuple):
    """Who published, under the policies that were in force."""

    policy: CompiledDomain
    publisher: PublisherLink


class KeyDraft:
    """What the stages have decided so far about the events of a key."""

    node: Node
    publisher: PublisherLink

    def __init__(
        self, key: EventKey, policies: Policies, actors: Actors, trees: dict[tuple[str | None, ...], FilterIndex[int]]
    ) -> None:
        self.key = key
        self.policies = policies
        self.policy = policies.of(key.revision or None)
        self.actors = actors
        self.trees = trees
        """Filters of policy statements by publisher, to be shared with other keys."""
        self.is_as_recorded = self.policy.digest == key.revision and policies.are_recorded
        """Whether the policies are those that were in force."""
        self.is_placed = True
        """Whether node and publisher exist under the policy. If not, no stage after admit is asked."""
        self.verdict = Verdict("admit", Effect.PASS)
        self.source, self.link_type = key.entity, ""
        """The entity that published, as the policy knows it, and the type of its link."""
        self.is_trusted = True
        """Whether what conform decided then holds now too."""
        self.conforms: bool | None = True
        """Else, what conform decides; None: one of `conditions` must hold."""
        self.conditions: tuple[str, ...] = ()
        self.edit = AS_IT_CAME
        self.receivers: list[tuple[Session, Receiver]] = []

    @cached_property
    def before(self) -> Before | None:
        """Return who published, under the policies that were in force; None if that is not known."""
        key = self.key
        then = self.policies.known(key.revision) if self.policies.are_recorded and not self.is_as_recorded else None
        if then is None or key.node not in then.ensemble.nodes:
            return None
        node = self.actors.node(then, key.node)
        publisher = then.publisher(node, key.client_id, key.user, key.entity, key.neighbour)
        return None if publisher is None else Before(then, publisher)


@dataclass(frozen=True)
class Traffic:
    """Events on their way through the stages."""

    rows: DataFrame
    """The events as they are now: with the columns of `keys.PLAN`; from match on, a row for each event and subject."""
    scope: Scope
    stages: "tuple[SparkStage, ...]"
    """All stages, in order: what monitors make is planned anew."""
    is_stream: bool = False
    learnt: DataFrame | None = None
    """From match on, all events that came there: release and project learn from them."""

    def with_rows(self, rows: DataFrame) -> "Traffic":
        """Return the traffic with other rows."""
        return replace(self, rows=rows)

    def all_learnt(self) -> DataFrame:
        """Return all events that came to match."""
        assert self.learnt is not None  # match comes first
        return self.learnt


class SparkStage(Protocol):
    """The Spark side of a stage: a module of this folder."""

    def plan(self, draft: KeyDraft, /) -> None:
        """Decide what topic and publisher alone decide."""

    def on_table(self, traffic: Traffic, /) -> Traffic:
        """Decide the rest, over a table."""

    def on_stream(self, traffic: Traffic, /) -> Traffic:
        """Decide the rest, over a stream."""


def was_stopped_before(stage: str) -> Column:
    """Return whether a node stopped an event at a stage before this one, in the engine's order."""
    names = runner.names()
    return was_stopped_at(*names[: names.index(stage)])


def was_stopped_at(*stages: str) -> Column:
    """Return whether a node stopped an event at one of these stages."""
    return (F.col("effect") == "suppress") & F.col("stage").isin(*stages)
