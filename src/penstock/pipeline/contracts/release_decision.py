"""What contracts and privacy policies release of an event for a subject, decided row by row by the engine's own steps.

A released event is degraded as in a node, byte for byte, and carries when it is to be deleted. What was recorded is
decided as it was then: with the situations that were open at its node, and with the access that its producer's node had
enabled. By other policies both are worked out again.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import NamedTuple

from penstock.engine.contracts import registry, release_recheck
from penstock.engine.contracts.held import WindowKey
from penstock.engine.contracts.release_decision import decide, needed
from penstock.engine.contracts.state import CONSUMER, SITUATION
from penstock.engine.events import user_properties
from penstock.engine.node import Node
from penstock.engine.sessions.session import Session
from penstock.engine.stages import release
from penstock.engine.statements import applicability
from penstock.model.content.content import Content
from penstock.model.event import Event
from penstock.model.quality import Quality
from penstock.pipeline.conditions.payloads import condition
from penstock.pipeline.contracts.situations import Timeline, place_of, scope_of
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.state.actors import Actors
from penstock.pipeline.state.rows import Fields, content_fields, event_of, expiry
from penstock.pipeline.state.scope import Scope
from penstock.pipeline.tables.view import NOT_BEFORE, UNTIL
from penstock.policy.contracts.release import RETAIN_UNTIL, read_retain
from penstock.policy.contracts.situation import NONE_OPEN, OpenSituations

Find = Callable[[Fields, str], OpenSituations]
"""What was open for a row, in its scope."""
FindLater = Callable[[Fields, str, float], OpenSituations]
"""What was open for a row that has waited up to a time at which no event came."""


class ReleaseOutcome(NamedTuple):
    """What becomes of a row: what changes in it; or from when on it may go out, and as what row it waits; or what of it
    goes into which mean. None of these: the subject does not get it."""

    changes: Fields | None = None
    waits: tuple[float, Fields] | None = None
    collected: tuple[WindowKey, Content, Quality] | None = None


class ReleaseSteps:
    """The engine's stage for one row after the other."""

    def __init__(self, scope: Scope, find: Find, find_later: FindLater, may_wait: bool = True) -> None:
        """`may_wait`: a row may be for later; else there is nothing that would hold it back."""
        self._scope = scope
        self._find = find
        self._find_later = find_later
        self._may_wait = may_wait
        self._actors = Actors(scope.policies, scope.askers)

    @classmethod
    def recorded(cls, scope: Scope, timeline: Timeline, may_wait: bool = True) -> "ReleaseSteps":
        """Return steps that know from a timeline which situations were open when."""
        return cls(
            scope,
            lambda row, where: timeline.open_at(where, place_of(row), row["time"]),
            lambda row, where, at: timeline.open_later(where, at),
            may_wait,
        )

    def step(self, row: Fields) -> Iterator[Fields]:
        """Yield what changes in a row, if the subject gets it; raises `PipelineError` for means."""
        made = self.decide(row)
        if made.collected is not None:
            raise gap(made.collected[0].rule)
        if made.waits is not None and not self._may_wait:
            raise gap(f"a contract for `{row['topic']}`", "events later")
        changes = made.changes if made.waits is None else self.recheck(made.waits[1], made.waits[0])
        if changes is not None:
            yield changes

    def decide(self, row: Fields) -> ReleaseOutcome:
        """Return what becomes of a row."""
        node, session = self.ends(row)
        event, now = event_of(row, row["link_type_now"]), row["time"]
        is_node = applicability.is_node(node, session)
        if event.topic.startswith((SITUATION, CONSUMER)) and not is_node:
            return ReleaseOutcome()
        state = node.contracts
        if state is None:
            return ReleaseOutcome(self._shown(node, row, event, is_node))
        where = scope_of(row, self._scope.policies, self._scope.at_rest)
        state.open = self._find(row, where) if state.contracts.situations else NONE_OPEN
        governed = registry.governed(node, event, now)
        if is_node:
            return ReleaseOutcome(
                _changes(event if governed is None else release.for_nodes(node, event, governed, now))
            )
        governed = governed or needed(node, session, event, now)
        if governed is None:
            return ReleaseOutcome(self._shown(node, row, event, False))
        asked = tuple(private._replace(is_asked_here=True) for private in governed.private)
        governed = governed._replace(private=asked)
        if not self._scope.at_rest:  # who has not subscribed then is in no recorded set
            enabled = release.enabled(node, event.topic, governed, now, session.place.entity)
            governed = governed._replace(ace={**enabled, **governed.ace} if where == row["node"] else enabled)
        decided = decide(node, session, event, governed, now)
        if decided.aggregate is not None:  # a condition is asked of the mean, when that goes
            return ReleaseOutcome(collected=decided.aggregate)
        if decided.event is None:
            return ReleaseOutcome()
        if decided.not_before > now:
            return ReleaseOutcome(waits=(decided.not_before, waiting(row, decided.event)))
        return ReleaseOutcome(self._shown(node, row, decided.event, False))

    def recheck(self, row: Fields, at: float) -> Fields | None:
        """Return what changes in a row that has waited up to a time; None if it may not go out any more."""
        node, session = self.ends(row)
        event, state = event_of(row, row["link_type_now"]), node.contracts
        assert state is not None
        state.open = self._find_later(row, scope_of(row, self._scope.policies, self._scope.at_rest), at)
        if not release_recheck.may_go(node, event, session, at):
            return None
        made = self._shown(node, row, event, False)
        times = {"retain": row["retain"], "expiry": expiry(event, at), NOT_BEFORE: _time(at)}
        return None if made is None else {**made, **times}

    def ends(self, row: Fields) -> tuple[Node, Session]:
        """Return the node of a row, and its subject's session there."""
        policy = self._actors.policy(row)
        node = self._actors.node(policy, row["node"])
        return node, self._actors.receiver(policy, node, row["subject"])

    def _shown(self, node: Node, row: Fields, event: Event, is_node: bool) -> Fields | None:
        if is_node:
            return _changes(event)
        asks = row["release_asks"]
        if asks is not None and condition(asks).holds(node.ensemble.reader.read(event)) is not True:
            return None
        return _changes(user_properties.for_clients(event))


def waiting(row: Fields, event: Event) -> Fields:
    """Return the row of an event that waits: with what it was released by."""
    return {
        **row,
        **content_fields(event),
        "retain": event.retain,
        "expiry": None if event.expires is None else event.expires - row["time"],
    }


def _changes(event: Event) -> Fields:
    made = content_fields(event)
    until = user_properties.told(event, RETAIN_UNTIL)
    return {**made, UNTIL: _time(read_retain(until[0]))} if until else made


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def gap(rule: str, what: str = "means over a time") -> PipelineError:
    """Return the error for a rule that cannot be followed."""
    return PipelineError(f"`{rule}` gives {what}, which cannot be done here: nothing is governed (docs/pipeline.md)")
