"""A policy test, played: each step is done on a rehearsal, then what is expected is held against what came."""

import json
from collections.abc import Callable, Iterator

import msgspec

from penstock.domain.schema.tests import (
    OTHERS,
    AdvertiseStep,
    PolicyTest,
    PolicyTestStep,
    PublishStep,
    SetPolicyStep,
    state_key,
)
from penstock.domain.schema.tests import SubscribeStep as Wish
from penstock.engine.events import user_properties
from penstock.engine.explain.arrival import ExplainError, arrival
from penstock.engine.explain.report import receiver
from penstock.engine.explain.walk import explain
from penstock.engine.rehearsal.assembly import RehearsalError
from penstock.engine.rehearsal.expectations import (
    expected_texts,
    is_about,
    is_met,
    is_so,
    telling,
    texts,
    towards,
    verdict_text,
)
from penstock.engine.rehearsal.rating import rate
from penstock.engine.rehearsal.rehearsal import Rehearsal
from penstock.language.statements.printer import show_compact
from penstock.language.statements.statement import Statement
from penstock.model.decision import Decision
from penstock.model.event import Event
from penstock.model.sparkplug.payload import is_sparkplug
from penstock.model.sparkplug.topic import NUMBERED, SparkplugSource, message_topic


class Mismatch(msgspec.Struct, frozen=True):
    """An expectation that was not met."""

    step: int
    """Counted from 0."""
    about: str
    """Whom or what: a client, a monitor, a verdict."""
    expected: tuple[str, ...]
    got: tuple[str, ...]
    why: tuple[str, ...] = ()


class Result(msgspec.Struct, frozen=True):
    """The result of one test."""

    title: str
    passed: bool
    failures: tuple[Mismatch, ...] = ()
    """Of the first step that failed: what comes after it would only follow from that."""


def try_out(title: str, test: PolicyTest, rehearsal: Rehearsal) -> Result:
    """Play a test on a rehearsal that has just begun."""
    trial = _Trial(rehearsal)
    at = 0
    try:
        trial.begin(test)
        for at, step in enumerate(test.steps):
            failures = tuple(trial.step(at, step))
            if failures:
                return Result(title, False, failures)
    except (RehearsalError, ExplainError) as error:
        return Result(title, False, (Mismatch(at, "the step", ("that it can be done",), (str(error),)),))
    return Result(title, True)


class _Trial:
    """The results so far, and those that no expectation has consumed yet."""

    def __init__(self, rehearsal: Rehearsal) -> None:
        self._play = rehearsal
        self._texts = {name: show_compact(said) for name, said in rehearsal.policies.items()}
        self._seen: dict[str, int] = {}
        """By entity, how many of its deliveries were there when something was last expected."""
        self._published: list[tuple[str, str, tuple[Decision, ...]]] = []
        """Who published what since then, and what was decided about it."""
        self._numbers: dict[SparkplugSource, int] = {}
        """By edge node, the `seq` of its next message."""

    def begin(self, test: PolicyTest) -> None:
        play = self._play
        for client in play.ensemble.devices:
            play.connect(client)
            for filter in play.widest(client, ("#",)) if test.subscribe is None else ():
                play.subscribe(client, filter)
        self._subscribe(test.subscribe or {})
        for text, state in test.states.items():
            key = state_key(text)
            assert key is not None
            play.put_state(key.monitor, state, key.link)

    def step(self, at: int, step: PolicyTestStep) -> Iterator[Mismatch]:
        """Do it; what was not as expected."""
        for deed in step.actions:
            _DEEDS[deed](self, step)
        if not step.expects:
            return
        yield from self._deliveries(at, step)
        yield from self._refused(at, step)
        yield from self._verdicts(at, step)
        yield from self._states(at, step)
        yield from self._ratings(at, step)
        self._published = []
        self._seen = {name: len(self._play.deliveries(name)) for name in self._entities()}

    # --- deeds

    def _connect(self, step: PolicyTestStep) -> None:
        for client, node in (step.connect or {}).items():
            self._play.connect(client, node)

    def _disconnect(self, step: PolicyTestStep) -> None:
        for client in step.disconnect or ():
            self._play.disconnect(client)

    def _subscribe_step(self, step: PolicyTestStep) -> None:
        self._subscribe(step.subscribe or {})

    def _subscribe(self, wishes: dict[str, tuple[Wish, ...]]) -> None:
        for client, several in wishes.items():
            for one in several:
                no_local = one.no_local and not one.filter.startswith("$share/")  # [MQTT-3.8.3-4]
                where = one.where.text if one.where is not None else ""
                contract = "" if one.contract is None else json.dumps(one.contract)
                names = (one.name or "", one.scope, self._text(one), contract)
                self._play.subscribe(client, one.filter, one.qos, no_local, one.at, where, *names)

    def _unsubscribe(self, step: PolicyTestStep) -> None:
        for client, several in (step.unsubscribe or {}).items():
            for one in several:
                self._play.unsubscribe(client, one.filter, name=one.name or "")

    def _advertise(self, step: PolicyTestStep) -> None:
        for client, several in (step.advertise or {}).items():
            for one in several:
                where = one.where.text if one.where is not None else ""
                self._play.advertise(client, one.name, one.filter, where, one.scope, one.at, self._text(one))

    def _unadvertise(self, step: PolicyTestStep) -> None:
        for client, names in (step.unadvertise or {}).items():
            for name in names:
                self._play.unadvertise(client, name)

    def _set_policy(self, step: PolicyTestStep) -> None:
        for client, several in (step.set_policy or {}).items():
            for one in several:
                policy = self._text(one) or None
                self._play.set_policy(client, policy, one.subscription or "", one.advertisement or "", one.name or "")

    def _prove(self, step: PolicyTestStep) -> None:
        for client, groups in (step.prove or {}).items():
            self._play.prove(client, groups)

    def _show(self, step: PolicyTestStep) -> None:
        for client, token in (step.show or {}).items():
            self._play.show(client, token.publish, token.subscribe)

    def _rate(self, step: PolicyTestStep) -> None:
        for client, several in (step.rate or {}).items():
            for one in several:
                rate(self._play, client, one)

    def _publish(self, step: PolicyTestStep) -> None:
        for entity, several in (step.publish or {}).items():
            for one in several:
                self._publish_one(entity, one)

    def _publish_one(self, entity: str, one: PublishStep) -> None:
        play, payload = self._play, one.data(self._next(one))
        node = play.where(entity, one.at)
        event, policy = Event(one.topic, payload, one.qos, one.retain), self._text(one)
        if policy:
            event = user_properties.having(event, None, [(user_properties.POLICY, policy)])
        decisions = explain(play.nodes, arrival(play.nodes[node], entity, event), play.now, self._entities())
        self._published.append((entity, one.topic, decisions))
        play.publish(entity, one.topic, payload, one.qos, one.retain, node, policy)
        play.run()

    def _text(self, one: PublishStep | Wish | AdvertiseStep | SetPolicyStep) -> str:
        """Return the policy attached to it; empty: none."""
        if isinstance(one.policy, Statement):
            return show_compact(one.policy)
        return "" if one.policy is None else self._texts[one.policy]

    def _next(self, one: PublishStep) -> int | None:
        """Return the `seq` of an edge node's next message."""
        if one.metrics is None or not is_sparkplug(one.topic):
            return one.seq
        place = message_topic(one.topic)
        if place.source is None or place.type not in NUMBERED:
            return one.seq
        edge = place.source.node
        number = 0 if place.type == "NBIRTH" else self._numbers.get(edge, 0)
        number = number if one.seq is None else one.seq
        self._numbers[edge] = (number + 1) % 256
        return number

    def _cut(self, step: PolicyTestStep) -> None:
        for ends in step.cut or ():
            self._play.cut(*ends)

    def _restore(self, step: PolicyTestStep) -> None:
        for ends in step.restore or ():
            self._play.restore(*ends)

    def _restart(self, step: PolicyTestStep) -> None:
        for node in step.restart or ():
            self._play.restart(node)

    def _wait(self, step: PolicyTestStep) -> None:
        self._play.wait(step.wait or 0)

    # --- expectations

    def _entities(self) -> tuple[str, ...]:
        """Everybody who may get something: clients, those that are not listed too, and foreign brokers."""
        whole = self._play.ensemble
        return tuple(dict.fromkeys((*whole.devices, *whole.foreign, *self._play.entities)))

    def _deliveries(self, at: int, step: PolicyTestStep) -> Iterator[Mismatch]:
        others = [name for name in self._entities() if name not in step.expect]
        wanted = {name: one for name, one in step.expect.items() if name != OTHERS}
        if OTHERS in step.expect:
            wanted |= dict.fromkeys(others, step.expect[OTHERS])
        for name, expected in wanted.items():
            got = self._play.deliveries(name)[self._seen.get(name, 0) :]
            if not is_met(expected, got):
                yield Mismatch(at, name, expected_texts(expected), texts(got, expected), tuple(self._why(name)))

    def _why(self, entity: str) -> Iterator[str]:
        """Return the decisions towards somebody about everything that was published."""
        for source, topic, decisions in self._published:
            told = receiver(decisions, entity, self._play.ensemble)
            reasons = told.why_not or tuple(
                f"{one.node} -> {entity}: {telling(one)}"
                for one in decisions
                if one.goes_by is not None and one.goes_by.target == entity and one.outputs
            )
            yield from (f"`{topic}` from {source}: {reason}" for reason in reasons)
        for notice in self._play.notices:
            if notice.kind == "monitor failed":
                yield notice.reason

    def _refused(self, at: int, step: PolicyTestStep) -> Iterator[Mismatch]:
        for client in step.refused:
            if self._play.is_connected(client):
                yield Mismatch(at, client, ("that it is not let in",), ("it is connected",))

    def _verdicts(self, at: int, step: PolicyTestStep) -> Iterator[Mismatch]:
        all_ = [decision for _, _, decisions in self._published for decision in decisions]
        for wanted in step.verdicts:
            decided = [(one, verdict) for one in all_ for verdict in one.verdicts if is_about(wanted, one)]
            if not any(is_so(wanted, verdict) for _, verdict in decided):
                got = dict.fromkeys(f"{towards(one)}: {verdict}" for one, verdict in decided)
                yield Mismatch(at, "a verdict", (verdict_text(wanted),), tuple(got) or ("no decision there",))

    def _states(self, at: int, step: PolicyTestStep) -> Iterator[Mismatch]:
        for text, wanted in step.states.items():
            key = state_key(text)
            assert key is not None
            found = self._play.states(key.monitor)
            here = {ends: state for ends, state in found.items() if key.link in (None, ends)}
            wrong = {ends: state for ends, state in here.items() if state != wanted}
            if wrong or not here:
                got = tuple(f"{state} on {source} -> {target}" for (source, target), state in wrong.items())
                yield Mismatch(at, f"monitor {key.monitor}", (str(wanted),), got or ("it is on no such link",))

    def _ratings(self, at: int, step: PolicyTestStep) -> Iterator[Mismatch]:
        for one in step.ratings:
            found = self._play.rating(one.of, one.by)
            if not one.is_met(found):
                yield Mismatch(at, f"{one.of} as {one.by} rates it", (str(one),), (f"rated {found:.3g}",))


_DEEDS: dict[str, Callable[[_Trial, PolicyTestStep], None]] = {
    "connect": _Trial._connect,
    "disconnect": _Trial._disconnect,
    "subscribe": _Trial._subscribe_step,
    "unsubscribe": _Trial._unsubscribe,
    "advertise": _Trial._advertise,
    "unadvertise": _Trial._unadvertise,
    "set_policy": _Trial._set_policy,
    "prove": _Trial._prove,
    "show": _Trial._show,
    "rate": _Trial._rate,
    "publish": _Trial._publish,
    "cut": _Trial._cut,
    "restore": _Trial._restore,
    "restart": _Trial._restart,
    "wait": _Trial._wait,
}
