"""The observer of a run of the stages: steps that tell what they find, in place of those that act."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import partial

from penstock.engine.events import dedup
from penstock.engine.events.fan_out import may_take
from penstock.engine.events.link_class import LinkClass
from penstock.engine.events.passage import Delivery, Outputs, Passage
from penstock.engine.events.plan import PASS, Group, Plan, Target
from penstock.engine.events.state import Dedup
from penstock.engine.explain import releasing, verdicts
from penstock.engine.explain.access import Views
from penstock.engine.explain.arrival import Arrival
from penstock.engine.explain.judging import ExplainedJudging, refused_policy
from penstock.engine.explain.matching import (
    NO_MEANS,
    Candidate,
    asks_by_content,
    local_part,
    match_verdict,
    unsatisfied,
)
from penstock.engine.explain.observed import ExplainedDelivery, ExplainedPassage, ObservedDraft
from penstock.engine.explain.tokens import Carried, WeighedToken
from penstock.engine.matching.predicates import Predicates
from penstock.engine.monitors import Watch
from penstock.engine.node import Node
from penstock.engine.sessions import placement
from penstock.engine.sessions.session import Session, Subscribed
from penstock.engine.stages import (
    admit,
    conform,
    edit,
    emit,
    judge,
    match,
    project,
    prune,
    release,
    route,
    runner,
    shape,
)
from penstock.engine.stages.draft import Draft, Stage
from penstock.model.decision import Decision
from penstock.model.event import Event
from penstock.model.link import Link
from penstock.model.verdict import Effect, Verdict

_STOPPED = Verdict("match", Effect.SUPPRESS)
"""Ends a delivery of which everything has been said."""


class Explainer:
    """Explains the way of one event. What it moves on are its own copies."""

    def __init__(self, nodes: Mapping[str, Node], now: float, about: frozenset[str]) -> None:
        self._nodes = nodes
        self._now = now
        self._about = about
        self._watches: dict[tuple[str, str, str], Watch | None] = {}
        self._scratch: dict[str, Node] = {}
        self._had: dict[str, Dedup] = {}
        self._forwarded: list[Arrival] = []
        self._views = Views()
        self._carried = Carried(now)
        self._supposed = releasing.SupposedSituations(tuple(nodes.values()))
        self._planners: dict[Stage, Callable[[Draft], None]] = {
            admit: partial(self._plan_for_arrivals, self._admit),
            prune: partial(self._plan_for_arrivals, self._prune),
            conform: lambda draft: draft.for_each_event(self._conform),
            edit: partial(self._plan_for_arrivals, self._edit),
            match: self._plan_match,
            route: lambda draft: draft.for_each_delivery(self._route),
            judge: lambda draft: draft.for_each_delivery(self._judge),
            shape: lambda draft: draft.for_each_delivery(self._shape),
            release: lambda draft: draft.for_each_delivery(self._release),
            project: lambda draft: draft.for_each_delivery(self._project),
            emit: self._plan_emit,
        }

    def supposing(self) -> AbstractContextManager[None]:
        """Suppose, for a while, that situations are open which the event would open."""
        return self._supposed.for_a_while()

    def begin(self, start: Arrival) -> Arrival:
        """Return the event as it comes to its first node, with its token."""
        return self._carried.begin(start)

    def arrive(self, came: Arrival) -> ExplainedPassage:
        """Return the passage of an event that comes to a node."""
        self._had.setdefault(came.node.name, Dedup()).arrives()
        weighed = self._carried.weigh(came)
        watch = self._watch(came.node, came.link)
        monitors = ((), ()) if watch is None else (watch.monitors, watch.key)
        link = LinkClass(came.rights, came.link.type, came.neighbour, *monitors, token=weighed.passing)
        return self._observed(came, link, came.event, weighed)

    def take_forwarded(self) -> list[Arrival]:
        """Return the arrivals at other nodes that have come of the last passage."""
        forwarded, self._forwarded = self._forwarded, []
        return forwarded

    def _observed(self, came: Arrival, link: LinkClass, event: Event, weighed: WeighedToken) -> ExplainedPassage:
        passage = ExplainedPassage(came, link, event, self._now, weighed)
        passage.observer = self
        passage.plan = runner.compile_plan(ObservedDraft(came.node, event.topic, passage.plans, self._planners))
        return passage

    # --- the interface of an observer

    def stopped(self, passage: Passage, verdict: Verdict) -> None:
        """Take note of an event that goes no further."""
        assert isinstance(passage, ExplainedPassage)
        if verdict not in passage.verdicts:
            passage.verdicts.append(verdict)
        passage.decisions.append(passage.decide(None, passage.verdicts))

    def outputs(self, passage: Passage, events: tuple[Event, ...]) -> Iterator[Passage]:
        """Return the passages of what monitors have made of an event."""
        assert isinstance(passage, ExplainedPassage)
        link = passage.plans.key._replace(is_admitted=True, monitors=(), states=())
        for event in dedup.told_apart(events):
            if event.topic != passage.event.topic:
                event = event._replace(token="")
            output = self._observed(passage.arrival, link, event, passage.weighed)
            output.verdicts = list(passage.verdicts)
            output.decisions = passage.decisions
            yield output

    def deliveries(self, passage: Passage) -> Iterator[Delivery]:
        """Return the deliveries to every link that the event might leave by. Each decision is made once all deliveries
        by its link have been through the stages.
        """
        assert isinstance(passage, ExplainedPassage)
        node, topic = passage.node, passage.event.topic
        entries = node.subscriptions.index.match(topic)
        plain = [entry for entry in entries if not isinstance(entry, Group | Predicates)]
        plain += [
            subscribed for predicates in entries if isinstance(predicates, Predicates) for subscribed in predicates
        ]
        decisions, by_group = list[Decision](), list[Decision]()
        for group in (entry for entry in entries if isinstance(entry, Group)):
            yield from self._to_members(passage, group, by_group)
        shared = {decision.goes_by.target for decision in by_group if decision.goes_by is not None}
        for candidate in self._candidates(passage, plain):
            if candidate.is_concerned or candidate.link.target not in shared:
                yield from self._to_candidate(passage, candidate, decisions)
        decisions += by_group
        if not decisions:
            nobody = Verdict("match", Effect.SUPPRESS, "", f"nobody here subscribes to `{topic}`")
            decisions.append(passage.decide(None, (*passage.verdicts, nobody)))
        passage.decisions += decisions

    # --- stages 1 to 4, once for an event

    def _plan_for_arrivals(self, step: Callable[[ExplainedPassage], Verdict | Outputs | None], draft: Draft) -> None:
        if not draft.link.is_admitted:
            draft.for_each_event(step)  # type: ignore[arg-type]

    def _admit(self, passage: ExplainedPassage) -> Verdict | None:
        came, event = passage.arrival, passage.event
        admitted = verdicts.admitted(came.node, passage.plans.key, event.topic)
        passage.verdicts.append(passage.weighed.told(admitted))
        refused = refused_policy(came.node, passage.sender, event)
        if refused is not None and passage.verdicts[-1].effect is not Effect.SUPPRESS:
            passage.verdicts.append(refused)
        passage.event = event._replace(token=passage.weighed.goes)
        return _suppressed(passage)

    def _prune(self, passage: ExplainedPassage) -> Verdict | None:
        passage.event, verdicts = self._views.pruned(passage.node, passage.arrival.actor, passage.event, self._now)
        passage.verdicts += verdicts
        return _suppressed(passage)

    def _conform(self, passage: Passage) -> Verdict | None:
        assert isinstance(passage, ExplainedPassage)
        came, is_admitted = passage.arrival, passage.plans.key.is_admitted
        if not is_admitted:
            passage.verdicts += conform.judged(came.node, came.claims, passage.event)
            if passage.verdicts[-1].effect is Effect.SUPPRESS:
                return passage.verdicts[-1]
        passage.event, verdicts = releasing.conformed(came, passage.event, is_admitted, self._now)
        passage.verdicts += verdicts
        return _suppressed(passage)

    def _edit(self, passage: ExplainedPassage) -> Verdict | Outputs | None:
        came = passage.arrival
        watch = self._watch(came.node, came.link)
        if watch is None:
            return None
        events, verdicts = self._asked("edit", came.node, watch, passage.event)
        passage.verdicts += verdicts
        return Outputs(events) if events else passage.verdicts[-1]

    def _asked(
        self, stage: str, node: Node, watch: Watch, event: Event
    ) -> tuple[tuple[Event, ...], tuple[Verdict, ...]]:
        """Return what the monitors of a link make of the event, and what each has to say."""
        events: tuple[Event, ...] = (event,)
        own_verdicts: list[Verdict] = []
        scratch = self._scratch.setdefault(node.name, _scratch(node))
        for at, monitor in enumerate(watch.monitors):
            before, went_in = watch.states[at], events
            why = monitor.why(before, went_in)
            events = edit.ask(scratch, watch, at, went_in, self._now)
            failures, scratch.notices = scratch.notices, []
            if failures:
                own_verdicts.append(Verdict(stage, Effect.SUPPRESS, monitor.name, failures[0].reason))
            else:
                reason = verdicts.edit_reason(before, watch.states[at], went_in, events, why)
                own_verdicts.append(Verdict(stage, verdicts.edit_effect(went_in, events), monitor.name, reason))
            if not events:
                break
        return events, tuple(own_verdicts)

    def _watch(self, node: Node, link: Link) -> Watch | None:
        key = (node.name, link.source, link.target)
        if key not in self._watches:
            known = node.monitors.watches.get(key[1:])
            self._watches[key] = known.copy() if known is not None else placement.new_watch(node, link)
        return self._watches[key]

    # --- stage 5, for each event that edit yields

    def _plan_match(self, draft: Draft) -> None:
        draft.end_link_part()
        draft.for_each_event(self._begin_match)
        draft.for_each_delivery(self._match)

    def _begin_match(self, passage: Passage) -> Verdict | None:
        """Learn from what goes on, and ask the rules of policy statements that come before matching."""
        assert isinstance(passage, ExplainedPassage)
        wrong = self._views.taken(passage.node, passage.event)
        if wrong:
            return Verdict("project", Effect.SUPPRESS, "sparkplug", wrong)
        self._supposed.look(passage.arrival, passage.event, self._now)
        asked = passage.asked = ExplainedJudging(passage.node, passage.event, passage.sender, self._now)
        passage.verdicts += asked.said_before
        passage.event = asked.event
        return None if asked.verdict is None else passage.verdicts[-1]

    def _candidates(self, passage: ExplainedPassage, matched: list[Subscribed | Watch]) -> list[Candidate]:
        """Return the links out: to every neighbour but the one that it came from, and to the clients that it may
        concern.
        """
        node, event, came = passage.node, passage.event, passage.arrival
        assert passage.asked is not None
        links = {name: _outwards(session, node) for name, session in node.federation.neighbours.items()}
        candidates = {name: Candidate(link, [node.federation.neighbours[name]]) for name, link in links.items()}
        about = {name: node.ensemble.links.get((node.name, name)) for name in sorted(self._about)}
        candidates |= {name: Candidate(link) for name, link in about.items() if link and name not in candidates}
        for receiver in matched:
            link = receiver.link if isinstance(receiver, Watch) else _outwards(receiver.session, node)
            candidate = candidates.setdefault(link.target, Candidate(link))
            if isinstance(receiver, Watch):
                candidate.onlooker = True
            else:
                (candidate.matched if match.satisfies(node, event, receiver, self._now) else candidate.unmet).append(
                    receiver
                )
        for receiver in passage.asked.asked_for():
            candidate = candidates[receiver.session.place.entity]
            candidate.matched = candidate.matched or [receiver]
        for session in node.sessions.values():
            if session.neighbour is None and session.place.entity in candidates:
                candidates[session.place.entity].sessions.append(session)
        candidates.pop(came.neighbour or "", None)
        return list(candidates.values())

    def _to_candidate(
        self, passage: ExplainedPassage, candidate: Candidate, decisions: list[Decision]
    ) -> Iterator[Delivery]:
        link_verdicts, outputs = list(passage.verdicts), list[Event]()
        link, topic = candidate.link, passage.event.topic
        candidate.readable = [subscribed for subscribed in candidate.matched if _may_read(subscribed.session, topic)]
        candidate.targets = _targets(candidate.readable)
        watch = self._watch(passage.node, link) if link.target not in passage.node.ensemble.nodes else None
        for target in candidate.targets or (None,):
            delivery = ExplainedDelivery(link, target, passage.event, link_verdicts)
            delivery.passage, delivery.candidate, delivery.outputs, delivery.watch = passage, candidate, outputs, watch
            yield delivery
        if candidate.has_output and not candidate.is_wanted:
            link_verdicts.append(Verdict("shape", Effect.SUPPRESS, "", f"`{link.target}` has asked for none of it"))
        decision = passage.decide(link, link_verdicts, outputs)
        decisions.append(decision._replace(by_content=candidate.asks_by_content(topic)))

    def _to_members(self, passage: ExplainedPassage, group: Group, decisions: list[Decision]) -> Iterator[Delivery]:
        """Return the delivery to the member whose turn it is; and to those that cannot have it, to say why."""
        node, event = passage.node, passage.event
        asked = passage.asked
        assert asked is not None
        choice = group.peek(lambda member: may_take(node, event, member, self._now) and asked.lets(member))
        by_content = any(asks_by_content(member, event.topic) for member in group.members)
        for member in group.members:
            link, link_verdicts = _outwards(member.session, node), list(passage.verdicts)
            outputs = list[Event]()
            if choice is not None and member is choice[0]:
                if event.id and not self._had[node.name].is_first(event, (group.name, group.filter)):
                    decision = passage.decide(link, (*link_verdicts, verdicts.had_it(group.name)))
                    decisions.append(decision._replace(by_content=by_content))
                    continue
                turn = f"the turn of `{link.target}` among {len(group.members)}"
                matched: Verdict | None = Verdict("match", Effect.PASS, member.filter, turn)
                watch = self._watch(node, link)
            else:
                matched, watch = self._denied(passage, member, is_turn=choice is None), None
            if matched is None:
                continue  # another's turn
            delivery = ExplainedDelivery(link, Target([member]), event, link_verdicts)
            delivery.passage, delivery.matched, delivery.outputs, delivery.watch = passage, matched, outputs, watch
            delivery.is_echo = choice is None or member is not choice[0]
            yield delivery
            decisions.append(passage.decide(link, link_verdicts, outputs)._replace(by_content=by_content))

    def _denied(self, passage: ExplainedPassage, member: Subscribed, is_turn: bool) -> Verdict | None:
        """Return what match says of a member that does not get the event; None if it is only not its turn."""
        node, event, asked = passage.node, passage.event, passage.asked
        assert asked is not None
        if not _may_read(member.session, event.topic):
            return verdicts.unreadable(member.session.rights, event.topic)
        if not match.satisfies(node, event, member, self._now):
            return unsatisfied(node, event, [member], self._now)
        shown = match.shown(node, member.session, event, self._now)
        if asked.lets(member) and shown.in_mean:
            return Verdict("match", Effect.SUPPRESS, member.filter, NO_MEANS)
        if asked.lets(member) and shown.event is not None and not is_turn:
            return None
        return Verdict("match", Effect.PASS, member.filter)

    def _match(self, delivery: Delivery) -> Verdict | None:
        assert isinstance(delivery, ExplainedDelivery)
        passage, candidate, target = delivery.passage, delivery.candidate, delivery.target
        assert isinstance(passage, ExplainedPassage)
        came = passage.arrival
        if candidate is None:
            assert delivery.matched is not None
            matched = delivery.matched
        else:
            about = (candidate, candidate.readable, candidate.targets, passage.event, self._now)
            matched = match_verdict(came.node, came.session, *about)
        delivery.say(matched)
        if matched.effect is Effect.SUPPRESS:
            return matched
        if candidate is not None and target is not None and delivery.watch is None:
            delivery.target = local_part(target, came.session)
            return _STOPPED if delivery.target is None else None
        return None

    # --- stages 6 to 11, for each delivery

    def _route(self, delivery: Delivery) -> Verdict | None:
        assert isinstance(delivery, ExplainedDelivery)
        passage, link, event = delivery.passage, delivery.link, delivery.event
        assert isinstance(passage, ExplainedPassage)
        node = passage.node
        routed = verdicts.routed(node, passage.arrival.link, link, event)
        delivery.say(routed)
        if routed.effect is Effect.SUPPRESS:
            return routed
        if not event.id or delivery.candidate is None or link.target in node.federation.neighbours:
            return None
        receiver = delivery.session.id if delivery.watch is None else link
        if self._had[node.name].is_first(event, receiver):
            return None
        had_it = verdicts.had_it(link.target)
        delivery.say(had_it)
        return had_it

    def _judge(self, delivery: Delivery) -> Verdict | None:
        assert isinstance(delivery, ExplainedDelivery)
        passage, target = delivery.passage, delivery.target
        assert isinstance(passage, ExplainedPassage)
        assert passage.asked is not None
        if target is None:
            return None
        for _, event in passage.asked.towards([target], delivery.verdicts):
            delivery.event = event
            return None
        return judge.BLOCKED

    def _shape(self, delivery: Delivery) -> list[Delivery] | None:
        assert isinstance(delivery, ExplainedDelivery)
        passage, watch, target, candidate = delivery.passage, delivery.watch, delivery.target, delivery.candidate
        assert isinstance(passage, ExplainedPassage)
        node, sender = passage.node, passage.arrival.session
        if watch is None:
            return None
        events = None if candidate is None else candidate.shaped.get(delivery.event)
        if events is None:
            events, verdicts = self._asked("shape", node, watch, delivery.event)
            delivery.say(*verdicts)
            if candidate is not None:
                candidate.shaped[delivery.event] = events
        targets = () if target is None else (target,)
        deliveries: list[Delivery] = [
            delivery.copy(each, event)
            for event in events
            for each in shape.receivers(node, watch, targets, event, sender, self._now)
            if not (each.no_local and each.session is sender)
        ]
        if candidate is not None:
            candidate.has_output |= bool(events)
            candidate.is_wanted |= bool(deliveries)
        return deliveries

    def _release(self, delivery: Delivery) -> Verdict | None:
        assert isinstance(delivery, ExplainedDelivery)
        passage, target, event = delivery.passage, delivery.target, delivery.event
        if target is None:
            return _STOPPED  # only monitors have seen it
        offered = event._replace(qos=min(event.qos, target.qos), retain=event.retain and target.retain_as_published)
        released, verdicts = releasing.released(passage.node, delivery.session, offered, self._now)
        delivery.say(*verdicts)
        if released is None:
            return verdicts[-1]
        delivery.event = released
        return None

    def _project(self, delivery: Delivery) -> Verdict | None:
        assert isinstance(delivery, ExplainedDelivery)
        shown, verdicts = self._views.shown(delivery.passage.node, delivery.session, delivery.event, self._now)
        delivery.say(*verdicts)
        if shown is None:
            return verdicts[-1]
        delivery.event = shown
        return None

    def _plan_emit(self, draft: Draft) -> None:
        draft.for_each_delivery(self._emit)
        draft.plan = Plan(PASS)
        draft.plan.steps, draft.plan.delivery_steps = tuple(draft.steps), tuple(draft.delivery_steps)

    def _emit(self, delivery: Delivery) -> Verdict | None:
        assert isinstance(delivery, ExplainedDelivery)
        passage, session, event = delivery.passage, delivery.session, delivery.event
        assert isinstance(passage, ExplainedPassage)
        if delivery.is_echo:
            return _STOPPED  # of a member of a group that does not get it
        leaves = verdicts.leaves(session, event.qos)
        delivery.say(leaves)
        if leaves.effect is Effect.SUPPRESS:
            return leaves
        delivery.outputs.append(event)
        self._forward(passage.node, session, event)
        return None

    def _forward(self, node: Node, session: Session, event: Event) -> None:
        """Let an event that leaves for another node come there."""
        beyond = self._nodes.get(session.neighbour or "")
        if beyond is None or session.outlet is None:
            return
        back = beyond.federation.neighbours[node.name]
        path = (*event.path, node.name) if node.ensemble.is_cyclic else (node.name,)
        token = self._carried.named(node, event)
        came = event._replace(
            origin=back.client_id, user=back.subject.user, link_type=back.place.publish_type, path=path, token=token
        )
        self._forwarded.append(
            Arrival(beyond, Link(node.name, beyond.name, back.place.publish_type), came, back, back.rights)
        )


def _suppressed(passage: ExplainedPassage) -> Verdict | None:
    """Return the last verdict, if it ends the way of the event."""
    last = passage.verdicts[-1] if passage.verdicts else None
    return last if last is not None and last.effect is Effect.SUPPRESS else None


def _may_read(session: Session, topic: str) -> bool:
    return session.rights is None or session.rights.may_read(topic)


def _outwards(session: Session, node: Node) -> Link:
    return Link(node.name, session.place.entity, session.place.notify_type)


def _targets(subscriptions: list[Subscribed]) -> tuple[Target, ...]:
    of_session: dict[int, list[Subscribed]] = {}
    for subscribed in subscriptions:
        of_session.setdefault(subscribed.session.id, []).append(subscribed)
    return tuple(map(Target, of_session.values()))


def _scratch(node: Node) -> Node:
    """Return a node to report failures of monitors to, in place of the real one."""
    return Node(node.name, node.limits, node.runtime.make_id, ensemble=node.ensemble)
