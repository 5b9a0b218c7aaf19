"""A policy test, played one thing after the other: after each step, what is expected is compared with what came."""

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import msgspec

from penstock.domain.schema import tests as schema
from penstock.domain.schema.tests import OTHERS, PolicyTest, PolicyTestStep, state_key
from penstock.domain.schema.trust import RateStep
from penstock.engine.events import user_properties
from penstock.engine.explain.arrival import ExplainError, arrival
from penstock.engine.explain.report import receiver
from penstock.engine.explain.walk import explain
from penstock.engine.rehearsal import expectations
from penstock.engine.rehearsal.assembly import RehearsalError
from penstock.engine.rehearsal.rehearsal import Rehearsal
from penstock.engine.trust.feedback import FEEDBACK, RatingPayload
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
    """The subject of the expectation: a client, a monitor, a verdict."""
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
    trial = Trial(rehearsal)
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


NOTHING_SEEN = frozenset({0})


class Trial:
    """The results so far, and those that no expectation has consumed yet."""

    def __init__(self, rehearsal: Rehearsal) -> None:
        self._play = rehearsal
        self._texts = {name: show_compact(policy) for name, policy in rehearsal.policies.items()}
        self.seen: dict[str, frozenset[int]] = {}
        """By entity, how many of its deliveries were there when something was last expected; several, if that is not
        certain."""
        self._published: list[tuple[str, str, tuple[Decision, ...]]] = []
        """The publications since then by publisher and topic, with their decisions."""
        self._numbers: dict[SparkplugSource, int] = {}
        """By edge node, the `seq` of its next message."""

    def begin(self, test: PolicyTest) -> None:
        play = self._play
        for client in play.ensemble.devices:
            play.connect(client)
            for filter in play.widest(client, ("#",)) if test.subscribe is None else ():
                play.subscribe(client, filter)
        self._act("subscribe", test.subscribe or {})
        for text, state in test.states.items():
            key = state_key(text)
            assert key is not None
            play.put_state(key.monitor, state, key.link)

    def step(self, at: int, step: PolicyTestStep) -> Iterator[Mismatch]:
        """Do it; what was not as expected."""
        for action in step.actions:
            self._act(action, getattr(step, action))
        if not step.expects:
            return
        yield from self._deliveries(at, step)
        yield from self._verdicts(at, step)
        yield from self.facts(at, step)
        self._published = []
        self.seen = {name: frozenset({len(self._play.deliveries(name))}) for name in self.entities()}

    # --- actions

    def _act(self, action: str, value: Any) -> None:
        """Do the action of a step; `value` is what the step has under its name."""
        play = self._play
        match action:
            case "wait":
                play.wait(value)
            case "at":
                play.wait_until(value)
            case "disconnect" | "restart":
                for name in value:
                    getattr(play, action)(name)
            case "cut" | "restore":
                for ends in value:
                    getattr(play, action)(*ends)
            case "connect" | "prove":
                for client, node_or_groups in value.items():
                    getattr(play, action)(client, node_or_groups)
            case "show":
                for client, token in value.items():
                    play.show(client, token.publish, token.subscribe)
            case _:  # each is a method here, called for each item of each client
                for client, items in value.items():
                    for item in items:
                        getattr(self, f"_{action}")(client, item)

    def _subscribe(self, client: str, wish: schema.SubscribeStep) -> None:
        no_local = wish.no_local and not wish.filter.startswith("$share/")  # [MQTT-3.8.3-4]
        where = wish.where.text if wish.where is not None else ""
        contract = "" if wish.contract is None else json.dumps(wish.contract)
        names = (wish.name or "", wish.scope or "", self._text(wish), contract)
        self._play.subscribe(client, wish.filter, wish.qos, no_local, wish.at, where, *names)

    def _unsubscribe(self, client: str, wish: schema.UnsubscribeStep) -> None:
        self._play.unsubscribe(client, wish.filter, name=wish.name or "")

    def _advertise(self, client: str, wish: schema.AdvertiseStep) -> None:
        where = wish.where.text if wish.where is not None else ""
        self._play.advertise(client, wish.name, wish.filter, where, wish.scope or "", wish.at, self._text(wish))

    def _unadvertise(self, client: str, name: str) -> None:
        self._play.unadvertise(client, name)

    def _set_policy(self, client: str, wish: schema.SetPolicyStep) -> None:
        about = (wish.subscription or "", wish.advertisement or "", wish.name or "")
        self._play.set_policy(client, self._text(wish) or None, *about)

    def _rate(self, client: str, step: RateStep) -> None:
        """Rate a message; raise `RehearsalError` if the client got no such message, or the rating does not count."""
        play, topic = self._play, step.topic
        got = [message.payload for message in play.deliveries(client) if message.topic == topic]
        if step.payload is None and not got:
            raise RehearsalError(f"`{client}` has got nothing on `{topic}`, and cannot rate it")
        payload = got[-1] if step.payload is None else step.payload.encode()
        rating = RatingPayload(topic, step.good, hashlib.sha256(payload).hexdigest())
        before = len(play.notices)
        play.publish(client, FEEDBACK, msgspec.json.encode(rating), 1)
        play.run()
        for notice in play.notices[before:]:
            if notice.kind in ("feedback denied", "advertise denied"):
                raise RehearsalError(f"`{client}` cannot rate `{topic}`: {notice.reason}")

    def _publish(self, entity: str, publication: schema.PublishStep) -> None:
        play, payload = self._play, self.payload(publication)
        node = play.where(entity, publication.at)
        event, policy = Event(publication.topic, payload, publication.qos, publication.retain), self._text(publication)
        if policy:
            event = user_properties.having(event, None, [(user_properties.POLICY, policy)])
        decisions = explain(play.nodes, arrival(play.nodes[node], entity, event), play.now, self.entities())
        self._published.append((entity, publication.topic, decisions))
        self.send(entity, publication, payload)
        play.run()

    def payload(self, publication: schema.PublishStep) -> bytes:
        """Return the payload of the next publication, a Sparkplug message with the `seq` that is due."""
        return publication.data(self._next(publication))

    def send(self, entity: str, publication: schema.PublishStep, payload: bytes) -> None:
        """Publish without waiting for what follows."""
        node, policy = self._play.where(entity, publication.at), self._text(publication)
        self._play.publish(entity, publication.topic, payload, publication.qos, publication.retain, node, policy)

    def _text(
        self, item: schema.PublishStep | schema.SubscribeStep | schema.AdvertiseStep | schema.SetPolicyStep
    ) -> str:
        """Return the policy attached to it; empty: none."""
        if isinstance(item.policy, Statement):
            return show_compact(item.policy)
        return "" if item.policy is None else self._texts[item.policy]

    def _next(self, publication: schema.PublishStep) -> int | None:
        """Return the `seq` of an edge node's next message."""
        if publication.metrics is None or not is_sparkplug(publication.topic):
            return publication.seq
        place = message_topic(publication.topic)
        if place.source is None or place.type not in NUMBERED:
            return publication.seq
        edge = place.source.node
        number = 0 if place.type == "NBIRTH" else self._numbers.get(edge, 0)
        number = number if publication.seq is None else publication.seq
        self._numbers[edge] = (number + 1) % 256
        return number

    # --- expectations

    def entities(self) -> tuple[str, ...]:
        """Everybody who may get something: clients, those that are not listed too, and foreign brokers."""
        whole = self._play.ensemble
        return tuple(dict.fromkeys((*whole.devices, *whole.foreign, *self._play.entities)))

    def _deliveries(self, at: int, step: PolicyTestStep) -> Iterator[Mismatch]:
        others = [name for name in self.entities() if name not in step.expect]
        wanted = {name: expected for name, expected in step.expect.items() if name != OTHERS}
        if OTHERS in step.expect:
            wanted |= dict.fromkeys(others, step.expect[OTHERS])
        for name, expected in wanted.items():
            deliveries, seen = self._play.deliveries(name), self.seen.get(name, NOTHING_SEEN)
            if not any(expectations.is_met(expected, deliveries[mark:]) for mark in seen):
                got = deliveries[max(seen) :]
                texts = expectations.expected_texts(expected), expectations.texts(got, expected)
                yield Mismatch(at, name, *texts, tuple(self._why(name)))

    def _why(self, entity: str) -> Iterator[str]:
        """Return the decisions towards somebody about everything that was published."""
        for source, topic, decisions in self._published:
            account = receiver(decisions, entity, self._play.ensemble)
            reasons = account.why_not or tuple(
                f"{decision.node} -> {entity}: {expectations.telling(decision)}"
                for decision in decisions
                if decision.goes_by is not None and decision.goes_by.target == entity and decision.outputs
            )
            yield from (f"`{topic}` from {source}: {reason}" for reason in reasons)
        for notice in self._play.notices:
            if notice.kind == "monitor failed":
                yield notice.reason

    def facts(self, at: int, step: PolicyTestStep) -> Iterator[Mismatch]:
        """Compare what does not depend on what was published in the step: who is connected, states, ratings."""
        yield from self._refused(at, step)
        yield from self._states(at, step)
        yield from self._ratings(at, step)

    def _refused(self, at: int, step: PolicyTestStep) -> Iterator[Mismatch]:
        for client in step.refused:
            if self._play.is_connected(client):
                yield Mismatch(at, client, ("that it is not let in",), ("it is connected",))

    def _verdicts(self, at: int, step: PolicyTestStep) -> Iterator[Mismatch]:
        all_ = [decision for _, _, decisions in self._published for decision in decisions]
        for wanted in step.verdicts:
            about = [decision for decision in all_ if expectations.is_about(wanted, decision)]
            decided = [(decision, verdict) for decision in about for verdict in decision.verdicts]
            if not any(expectations.is_so(wanted, verdict) for _, verdict in decided):
                got = tuple(dict.fromkeys(f"{expectations.towards(way)}: {verdict}" for way, verdict in decided))
                text = expectations.verdict_text(wanted)
                yield Mismatch(at, "a verdict", (text,), got or ("no decision there",))

    def _states(self, at: int, step: PolicyTestStep) -> Iterator[Mismatch]:
        for text, wanted in step.states.items():
            key = state_key(text)
            assert key is not None
            states = self._play.states(key.monitor)
            here = {ends: state for ends, state in states.items() if key.link in (None, ends)}
            wrong = {ends: state for ends, state in here.items() if state != wanted}
            if wrong or not here:
                got = tuple(f"{state} on {source} -> {target}" for (source, target), state in wrong.items())
                yield Mismatch(at, f"monitor {key.monitor}", (str(wanted),), got or ("it is on no such link",))

    def _ratings(self, at: int, step: PolicyTestStep) -> Iterator[Mismatch]:
        for rating in step.ratings:
            rated = self._play.rating(rating.of, rating.by)
            if not rating.is_met(rated):
                yield Mismatch(at, f"{rating.of} as {rating.by} rates it", (str(rating),), (f"rated {rated:.3g}",))
