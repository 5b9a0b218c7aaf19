"""The observer of a run of the stages: steps that tell what they find, in place of those that act."""

from collections import deque
from collections.abc import Collection, Iterator, Mapping

from penstock.engine.events import dedup, publishers
from penstock.engine.events.fan_out import may_take
from penstock.engine.events.link_class import LinkClass
from penstock.engine.events.passage import Delivery, Outputs, Passage
from penstock.engine.events.plan import Group, Target
from penstock.engine.events.state import Dedup
from penstock.engine.explain import matching, releasing, verdicts
from penstock.engine.explain.access import Views
from penstock.engine.explain.arrival import Arrival
from penstock.engine.explain.judging import ExplainedJudging, refused_policy
from penstock.engine.explain.matching import Candidate, local_part
from penstock.engine.explain.observed import ExplainedDelivery, ExplainedPassage, ObservedDraft, Steps
from penstock.engine.explain.tokens import CarriedTokens, WeighedToken
from penstock.engine.matching.predicates import Predicates
from penstock.engine.monitors import Watch
from penstock.engine.node import Node
from penstock.engine.sessions import placement
from penstock.engine.sessions.session import Session, Subscribed
from penstock.engine.stages import conform, edit, judge, match, runner, satisfaction, shape
from penstock.model.decision import Decision
from penstock.model.event import Event
from penstock.model.link import Link
from penstock.model.verdict import Effect, Verdict

_STOPPED = Verdict("match", Effect.SUPPRESS)
"""Ends a delivery of which everything has been said."""


class Explainer:
    """Explains the way of one event. What it moves on are its own copies."""

    def __init__(self, nodes: Mapping[str, Node], start: Arrival, now: float, about: Collection[str]) -> None:
        self._nodes = nodes
        self._now = now
        self._about = about
        self._watches: dict[tuple[str, str, str], Watch | None] = {}
        self._scratch: dict[str, Node] = {}
        self._had: dict[str, Dedup] = {}
        self._views = Views()
        self._carried = CarriedTokens(now)
        self.arrivals = deque([self._carried.begin(start)])
        """The event as it comes to its first node, with its token, and then to others."""
        self.supposed = releasing.SupposedSituations(tuple(nodes.values()))
        self._steps: Steps = {
            "admit": (self._admit, None),
            "prune": (self._prune, None),
            "conform": (self._conform, None),
            "edit": (self._edit, None),
            "match": (self._begin_match, self._match),
            "route": (None, self._route),
            "judge": (None, self._judge),
            "shape": (None, self._shape),
            "release": (None, self._release),
            "project": (None, self._project),
            "emit": (None, self._emit),
        }

    def arrive(self) -> ExplainedPassage:
        """Return the passage of the next arrival."""
        came = self.arrivals.popleft()
        self._had.setdefault(came.node.name, Dedup()).arrives()
        weighed = self._carried.weigh(came)
        watch = self._watch(came.node, came.link)
        monitors = ((), ()) if watch is None else (watch.monitors, watch.key)
        link = LinkClass(came.rights, came.link.type, came.neighbour, *monitors, token=weighed.passing)
        return self._observed(came, link, came.event, weighed)

    def _observed(self, came: Arrival, link: LinkClass, event: Event, weighed: WeighedToken) -> ExplainedPassage:
        passage = ExplainedPassage(came, link, event, self._now, weighed)
        passage.observer = self
        passage.plan = runner.compile_plan(ObservedDraft(came.node, event.topic, passage.plans, self._steps))
        return passage

    # --- the interface of an observer

    def stopped(self, passage: Passage, verdict: Verdict) -> None:
        """Take note of an event that goes no further."""
        assert isinstance(passage, ExplainedPassage)
        passage.say(verdict)
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
        """Yield the deliveries to every link that the event might leave by, and then decide about that link."""
        assert isinstance(passage, ExplainedPassage)
        node, topic = passage.node, passage.event.topic
        entries = match.entries(node, topic)
        plain = [entry for entry in entries if not isinstance(entry, Group | Predicates)]
        for predicates in (entry for entry in entries if isinstance(entry, Predicates)):
            plain += (each for each in predicates if each.session.id not in node.sessions.ending)
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

    def _admit(self, passage: ExplainedPassage) -> Verdict | None:
        if passage.plans.key.is_admitted:
            return None
        event = passage.event
        admitted = verdicts.admitted(passage.node, passage.plans.key, event.topic)
        passage.event = event._replace(token=passage.weighed.goes)
        stops = passage.say(passage.weighed.admission(admitted))
        return stops or passage.say(*refused_policy(passage.node, passage.sender, event))

    def _prune(self, passage: ExplainedPassage) -> Verdict | None:
        if passage.plans.key.is_admitted:
            return None
        passage.event, verdicts = self._views.pruned(passage.node, passage.arrival.actor, passage.event, self._now)
        return passage.say(*verdicts)

    def _conform(self, passage: ExplainedPassage) -> Verdict | None:
        came, is_admitted = passage.arrival, passage.plans.key.is_admitted
        stops = None if is_admitted else passage.say(*conform.judged(came.node, came.claims, passage.event))
        if stops is not None:
            return stops
        passage.event, verdicts = releasing.conformed(came, passage.event, is_admitted, self._now)
        return passage.say(*verdicts)

    def _edit(self, passage: ExplainedPassage) -> Verdict | Outputs | None:
        came = passage.arrival
        watch = self._watch(came.node, came.link)
        if watch is None or passage.plans.key.is_admitted:
            return None
        first, passage.event = edit.first_to_ask(watch, passage.event)
        events, verdicts = self._asked("edit", came.node, watch, passage.event, first)
        passage.verdicts += verdicts
        return Outputs(events) if events else passage.verdicts[-1]

    def _asked(
        self, stage: str, node: Node, watch: Watch, event: Event, first: int = 0
    ) -> tuple[tuple[Event, ...], tuple[Verdict, ...]]:
        """Return what the monitors of a link make of the event, and what each has to say."""
        events: tuple[Event, ...] = (event,)
        own_verdicts: list[Verdict] = []
        scratch = self._scratch.setdefault(node.name, _scratch(node))
        for at, monitor in enumerate(watch.monitors[first:], first):
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

    def _begin_match(self, passage: ExplainedPassage) -> Verdict | None:
        """Learn from what goes on, and ask the rules of policy statements that come before matching."""
        wrong = self._views.taken(passage.node, passage.event)
        if wrong:
            return Verdict("project", Effect.SUPPRESS, "sparkplug", wrong)
        self.supposed.look(passage.arrival, passage.event, self._now)
        judging = passage.judging = ExplainedJudging(passage.node, passage.event, passage.sender, self._now)
        passage.verdicts += judging.verdicts_before
        passage.event = judging.event
        return None if judging.verdict is None else passage.verdicts[-1]

    def _candidates(self, passage: ExplainedPassage, matched: list[Subscribed | Watch]) -> list[Candidate]:
        """Return the links out: to every neighbour but the one that it came from, and clients that it may concern."""
        node, event, came = passage.node, passage.event, passage.arrival
        links = {name: _outwards(session, node) for name, session in node.federation.neighbours.items()}
        candidates = {name: Candidate(link, [node.federation.neighbours[name]]) for name, link in links.items()}
        about = {name: node.ensemble.links.get((node.name, name)) for name in sorted(self._about)}
        candidates |= {name: Candidate(link) for name, link in about.items() if link and name not in candidates}
        for receiver in matched:
            link = receiver.link if isinstance(receiver, Watch) else _outwards(receiver.session, node)
            candidate = candidates.setdefault(link.target, Candidate(link))
            if isinstance(receiver, Watch):
                candidate.onlooker = True
            elif passage.judging.is_asked_late(receiver) or satisfaction.satisfies(node, event, receiver, self._now):
                candidate.matched.append(receiver)
            else:
                candidate.unmet.append(receiver)
        for session in passage.judging.flooded():
            candidate = candidates[session.place.entity]
            candidate.matched = candidate.matched or [Subscribed(session, event.topic, 2, retain_as_published=True)]
        for session in node.sessions.values():
            if session.neighbour is None and session.place.entity in candidates:
                candidates[session.place.entity].sessions.append(session)
        candidates.pop(came.neighbour or "", None)
        brokers, shared = node.ensemble.brokers, node.ensemble.shared_brokers
        return sorted(candidates.values(), key=lambda candidate: brokers.get(candidate.link.target) not in shared)

    def _to_candidate(
        self, passage: ExplainedPassage, candidate: Candidate, decisions: list[Decision]
    ) -> Iterator[Delivery]:
        link_verdicts, outputs = list(passage.verdicts), list[Event]()
        link, topic = candidate.link, passage.event.topic
        candidate.readable = [subscribed for subscribed in candidate.matched if _may_read(subscribed.session, topic)]
        candidate.targets = _targets(candidate.readable)
        watch = self._watch(passage.node, link)
        for target in candidate.targets or (None,):
            delivery = ExplainedDelivery(passage, link, target, link_verdicts, outputs)
            delivery.candidate, delivery.watch = candidate, watch
            if link.target not in passage.node.federation.neighbours:
                delivery.receiver = delivery.session.id if watch is None else link
            yield delivery
        if candidate.has_output and not candidate.is_wanted:
            link_verdicts.append(Verdict("shape", Effect.SUPPRESS, "", f"`{link.target}` has asked for none of it"))
        decision = passage.decide(link, link_verdicts, outputs)
        decisions.append(decision._replace(by_content=candidate.asks_by_content(topic)))

    def _to_members(self, passage: ExplainedPassage, group: Group, decisions: list[Decision]) -> Iterator[Delivery]:
        """Return the delivery to the member whose turn it is; and to those that cannot have it, to say why."""
        node, event, judging = passage.node, passage.event, passage.judging
        is_late = judging.is_late
        choice = group.peek(lambda member: may_take(node, event, member, self._now, is_late) and judging.lets(member))
        by_content = any(matching.asks_by_content(member, event.topic) for member in group.members)
        for member in group.members:
            if member.session.id in node.sessions.ending:
                continue
            link, link_verdicts, outputs = _outwards(member.session, node), list(passage.verdicts), list[Event]()
            if choice is not None and member is choice[0]:
                if event.id and self._had[node.name].has_had(event, (group.name, group.filter)):
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
            delivery = ExplainedDelivery(passage, link, Target([member]), link_verdicts, outputs)
            delivery.matched, delivery.watch, delivery.receiver = matched, watch, (group.name, group.filter)
            delivery.is_echo = choice is None or member is not choice[0]
            yield delivery
            decisions.append(passage.decide(link, link_verdicts, outputs)._replace(by_content=by_content))

    def _denied(self, passage: ExplainedPassage, member: Subscribed, is_turn: bool) -> Verdict | None:
        """Return what match says of a member that does not get the event; None if it is only not its turn."""
        node, event = passage.node, passage.event
        if not _may_read(member.session, event.topic):
            return verdicts.unreadable(member.session.rights, event.topic)
        if not passage.judging.is_asked_late(member) and not satisfaction.satisfies(node, event, member, self._now):
            return matching.unsatisfied(node, event, [member], self._now)
        shown = satisfaction.shown(node, member.session, event, self._now)
        is_let = passage.judging.lets(member)
        if is_let and shown.in_mean:
            return Verdict("match", Effect.SUPPRESS, member.filter, matching.NO_MEANS)
        if is_let and shown.event is not None and not is_turn:
            return None
        return Verdict("match", Effect.PASS, member.filter)

    def _match(self, delivery: ExplainedDelivery) -> Verdict | None:
        came, event, candidate = delivery.passage.arrival, delivery.passage.event, delivery.candidate
        if candidate is None:
            assert delivery.matched is not None
            return delivery.say(delivery.matched)
        is_late = delivery.passage.judging.is_late
        stops = delivery.say(matching.match_verdict(came.node, came.session, candidate, event, self._now, is_late))
        if stops is None and delivery.target is not None and delivery.watch is None:
            delivery.target = local_part(delivery.target, came.session)
            return _STOPPED if delivery.target is None else None
        return stops

    # --- stages 6 to 11, for each delivery

    def _route(self, delivery: ExplainedDelivery) -> Verdict | None:
        passage, link, event = delivery.passage, delivery.link, delivery.event
        node = passage.node
        stops = delivery.say(verdicts.routed(node, passage.arrival.link, link, event))
        if stops is not None or not event.id or not dedup.has_had(self._had[node.name], delivery):
            return stops
        return delivery.say(verdicts.had_it(link.target))

    def _judge(self, delivery: ExplainedDelivery) -> Verdict | None:
        if delivery.target is None:
            return None
        event, verdicts = delivery.passage.judging.towards(delivery.target)
        delivery.say(*verdicts)
        delivery.event = event or delivery.event
        return judge.BLOCKED if event is None else None

    def _shape(self, delivery: ExplainedDelivery) -> list[Delivery] | None:
        watch, target, candidate = delivery.watch, delivery.target, delivery.candidate
        node, sender = delivery.passage.node, delivery.passage.arrival.session
        if watch is None:
            return None
        dedup.taken(self._had[node.name], delivery)
        events = None if candidate is None else candidate.shaped.get(delivery.event)
        if events is None:
            events, verdicts = self._asked("shape", node, watch, delivery.event)
            events = shape.leaving(watch, delivery.event, events)
            delivery.say(*verdicts)
            if candidate is not None:
                candidate.shaped[delivery.event] = events
        targets = () if target is None else (target,)
        deliveries: list[Delivery] = [
            delivery.copy(own, left)
            for event in events
            for receiver, left in shape.receivers(
                node, watch, targets, delivery.event, event, sender, self._now, delivery.passage.judging
            )
            if (own := local_part(receiver, sender)) is not None
        ]
        if candidate is not None:
            candidate.has_output |= bool(events)
            candidate.is_wanted |= bool(deliveries)
        return deliveries

    def _release(self, delivery: ExplainedDelivery) -> Verdict | None:
        target, event = delivery.target, delivery.event
        if target is None:
            return _STOPPED  # only monitors have seen it
        offered = event._replace(qos=min(event.qos, target.qos), retain=event.retain and target.retain_as_published)
        released, verdicts = releasing.released(delivery.passage.node, delivery.session, offered, self._now, target)
        delivery.event = released or event
        stops = delivery.say(*verdicts)
        if stops is not None and released is not None:  # it goes out later
            dedup.taken(self._had[delivery.passage.node.name], delivery)
        return stops

    def _project(self, delivery: ExplainedDelivery) -> Verdict | None:
        shown, verdicts = self._views.shown(delivery.passage.node, delivery.session, delivery.event, self._now)
        delivery.event = shown or delivery.event
        return delivery.say(*verdicts)

    def _emit(self, delivery: ExplainedDelivery) -> Verdict | None:
        node, session, event = delivery.passage.node, delivery.session, delivery.event
        if delivery.is_echo:
            return _STOPPED  # of a member of a group that does not get it
        stops = delivery.say(verdicts.leaves(session, event.qos))
        if stops is None:
            dedup.sent(self._had[node.name], delivery)
            delivery.outputs.append(event)
            self._forward(node, session, dedup.with_served(self._had[node.name], delivery, event))
        return stops

    def _forward(self, node: Node, session: Session, event: Event) -> None:
        """Let an event that leaves for another node come there."""
        beyond = self._nodes.get(session.neighbour or "")
        if beyond is None or session.outlet is None:
            return
        back = beyond.federation.neighbours[node.name]
        path = (*event.path, node.name) if node.ensemble.is_cyclic else (node.name,)
        token, event = self._carried.named(node, event), publishers.carried(node, event)
        link, user = Link(node.name, beyond.name, back.place.publish_type), back.subject.user
        came = event._replace(origin=back.client_id, user=user, link_type=link.type, path=path, token=token)
        self.arrivals.append(Arrival(beyond, link, came, back, back.rights))


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
