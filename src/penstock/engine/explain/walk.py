"""Why an event is delivered, changed or withheld: its decisions, node after node, towards each link.

Nothing changes by it: the stages are asked, and monitors work on copies of their states. A monitor that is a Python
class and does more than its `step` returns does that here too.
"""

from collections import deque
from collections.abc import Collection, Generator, Iterator, Mapping

from penstock.engine.events import dedup, fan_out
from penstock.engine.events.dedup import Once
from penstock.engine.events.plan import Group, LinkClass, Target
from penstock.engine.explain import releasing
from penstock.engine.explain import verdicts as says
from penstock.engine.explain.access import Views
from penstock.engine.explain.arrival import Arrival
from penstock.engine.explain.judging import Asked, refused_policy
from penstock.engine.explain.matching import (
    NO_MEANS,
    Candidate,
    asks_by_content,
    local_part,
    match_verdict,
    unsatisfied,
)
from penstock.engine.explain.tokens import Carried
from penstock.engine.matching.predicates import Predicates
from penstock.engine.node import Node
from penstock.engine.sessions import placement
from penstock.engine.sessions.session import Session, Subscribed
from penstock.engine.stages import conform, edit, match, release, route, shape
from penstock.engine.stages.edit import Watch
from penstock.model.decision import Decision
from penstock.model.event import Event
from penstock.model.link import Link
from penstock.model.verdict import Effect, Verdict
from penstock.policy.monitors.monitor import Monitor


def explain(nodes: Mapping[str, Node], start: Arrival, now: float, about: Collection[str] = ()) -> tuple[Decision, ...]:
    """Every decision on the way of an event, as far as it leads through `nodes`.

    `about` are clients to decide about even where they have no subscription that matches.
    """
    return tuple(explaining(nodes, start, now, about))


def explaining(
    nodes: Mapping[str, Node], start: Arrival, now: float, about: Collection[str] = ()
) -> Generator[Decision, None, None]:
    """The same one after the other, for who may not want all of them, and closes it then."""
    return _Walk(nodes, now, frozenset(about)).decisions(start)


class _Walk:
    """One event's way. What it moves on are its own copies."""

    def __init__(self, nodes: Mapping[str, Node], now: float, about: frozenset[str]) -> None:
        self._nodes = nodes
        self._now = now
        self._about = about
        self._watches: dict[tuple[str, str, str], Watch | None] = {}
        self._scratch: dict[str, Node] = {}
        self._had: dict[str, Once] = {}
        self._waiting: deque[Arrival] = deque()
        self._views = Views()
        self._carried = Carried(now)
        self._supposed = releasing.Supposed(tuple(nodes.values()))

    def decisions(self, start: Arrival) -> Generator[Decision, None, None]:
        self._waiting.append(self._carried.begin(start))
        with self._supposed.for_a_while():
            while self._waiting:
                came = self._waiting.popleft()
                self._had.setdefault(came.node.name, Once()).arrives()
                yield from self._at(came)

    # --- stages 1 to 4, once for an event

    def _at(self, came: Arrival) -> Iterator[Decision]:
        weighed = self._carried.weigh(came)
        link = LinkClass(came.rights, came.link.type, came.neighbour, *self._watched(came), token=weighed.passing)
        event = came.event
        verdicts: tuple[Verdict, ...] = (weighed.told(says.admitted(came.node, link, event.topic)),)
        refused = refused_policy(came.node, came.session or came.stand_in, event)
        if refused is not None and verdicts[-1].effect is not Effect.SUPPRESS:
            verdicts += (refused,)
        if verdicts[-1].effect is not Effect.SUPPRESS:
            event, pruned = self._views.pruned(came.node, came.actor, event, self._now)
            verdicts += pruned
        if verdicts[-1].effect is not Effect.SUPPRESS:
            verdicts += conform.judged(came.node, came.claims, event)
        if verdicts[-1].effect is not Effect.SUPPRESS:
            event, held = releasing.conformed(came, event, False, self._now)
            verdicts += held
        outputs: tuple[Event, ...] = ()
        if verdicts[-1].effect is not Effect.SUPPRESS:
            outputs, edited = self._edit("edit", came.node, came.link, event._replace(token=weighed.goes))
            outputs = tuple(one if one.topic == event.topic else one._replace(token="") for one in outputs)
            verdicts += edited
        if not outputs:
            yield Decision(came.node.name, came.link, came.event, None, verdicts)
        for output in dedup.told_apart(outputs):
            wrong = self._views.taken(came.node, output)
            if wrong:
                refused = Verdict("project", Effect.SUPPRESS, "sparkplug", wrong)
                yield Decision(came.node.name, came.link, came.event, None, (*verdicts, refused))
                continue
            bound, held = releasing.conformed(came, output, True, self._now)
            if held and held[-1].effect is Effect.SUPPRESS:
                yield Decision(came.node.name, came.link, came.event, None, (*verdicts, *held))
                continue
            self._supposed.look(came, bound, self._now)
            judging = Asked(came.node, bound, came.session or came.stand_in, self._now)
            before = (*verdicts, *held, *judging.said_before)
            if judging.verdict is not None:
                yield Decision(came.node.name, came.link, came.event, None, before)
                continue
            found = list(self._towards_all(came, judging, before))
            nobody = Verdict("match", Effect.SUPPRESS, "", f"nobody here subscribes to `{output.topic}`")
            yield from found or [Decision(came.node.name, came.link, came.event, None, (*before, nobody))]

    def _watched(self, came: Arrival) -> tuple[tuple[Monitor, ...], tuple[str | None, ...]]:
        """The monitors on the link that it came by, and their states, as plans have them."""
        watch = self._watch(came.node, came.link)
        return ((), ()) if watch is None else (watch.monitors, watch.key)

    def _edit(self, stage: str, node: Node, link: Link, event: Event) -> tuple[tuple[Event, ...], tuple[Verdict, ...]]:
        """What the monitors of a link make of the event, and what each has to say."""
        watch = self._watch(node, link)
        events: tuple[Event, ...] = (event,)
        verdicts: list[Verdict] = []
        if watch is None:
            return events, ()
        scratch = self._scratch.setdefault(node.name, _scratch(node))
        for at, monitor in enumerate(watch.monitors):
            before, went_in = watch.states[at], events
            why = monitor.why(before, went_in)
            events = edit.ask(scratch, watch, at, went_in, self._now)
            failures, scratch.notices = scratch.notices, []
            if failures:
                verdicts.append(Verdict(stage, Effect.SUPPRESS, monitor.name, failures[0].reason))
            else:
                reason = says.edit_reason(before, watch.states[at], went_in, events, why)
                verdicts.append(Verdict(stage, says.edit_effect(went_in, events), monitor.name, reason))
            if not events:
                break
        return events, tuple(verdicts)

    def _watch(self, node: Node, link: Link) -> Watch | None:
        key = (node.name, link.source, link.target)
        if key not in self._watches:
            known = node.watches.get(key[1:])
            self._watches[key] = known.copy() if known is not None else placement.new_watch(node, link)
        return self._watches[key]

    # --- stages 5 to 10, for each link

    def _towards_all(self, came: Arrival, judging: Asked, before: tuple[Verdict, ...]) -> Iterator[Decision]:
        found = came.node.index.match(judging.event.topic)
        plain = [one for one in found if not isinstance(one, Group | Predicates)]
        plain += [one for several in found if isinstance(several, Predicates) for one in several]
        groups = [one for one in found if isinstance(one, Group)]
        by_group = list[Decision]()
        for group in groups:
            by_content = any(asks_by_content(one, judging.event.topic) for one in group.members)
            decisions = self._towards_group(came, group, judging, before)
            by_group += (one._replace(by_content=by_content) for one in decisions)
        shared = {one.goes_by.target for one in by_group if one.goes_by is not None}
        for candidate in self._candidates(came, plain, judging):
            if candidate.is_concerned or candidate.link.target not in shared:
                decision = self._towards(came, candidate, judging, before)
                yield decision._replace(by_content=candidate.asks_by_content(judging.event.topic))
        yield from by_group

    def _candidates(self, came: Arrival, found: list[Subscribed | Watch], judging: Asked) -> list[Candidate]:
        """The links out: to every neighbour but the one that it came from, and to the clients that it may concern."""
        node, event = came.node, judging.event
        links = {name: _outwards(session, node) for name, session in node.neighbours.items()}
        candidates = {name: Candidate(link, [node.neighbours[name]]) for name, link in links.items()}
        about = {name: node.ensemble.links.get((node.name, name)) for name in sorted(self._about)}
        candidates |= {name: Candidate(link) for name, link in about.items() if link and name not in candidates}
        for one in found:
            link = one.link if isinstance(one, Watch) else _outwards(one.session, node)
            candidate = candidates.setdefault(link.target, Candidate(link))
            if isinstance(one, Watch):
                candidate.onlooker = True
            else:
                (candidate.matched if match.satisfies(node, event, one, self._now) else candidate.unmet).append(one)
        for one in judging.asked_for():
            candidate = candidates[one.session.entity]
            candidate.matched = candidate.matched or [one]
        for session in node.sessions.values():
            if session.neighbour is None and session.entity in candidates:
                candidates[session.entity].sessions.append(session)
        candidates.pop(came.neighbour or "", None)
        return list(candidates.values())

    def _towards(self, came: Arrival, candidate: Candidate, judging: Asked, before: tuple[Verdict, ...]) -> Decision:
        link, event, topic = candidate.link, judging.event, judging.event.topic
        readable = [one for one in candidate.matched if _may_read(one.session, topic)]
        targets = _targets(readable)
        matched, routed = (
            match_verdict(came.node, came.session, candidate, readable, targets, event, self._now),
            says.routed(came.node, came.link, link, event),
        )
        verdicts, outputs = [*before, matched], list[Event]()
        if matched.effect is not Effect.SUPPRESS:
            verdicts.append(routed)
        goes_on = routed.effect is not Effect.SUPPRESS and bool(targets or candidate.onlooker)
        if goes_on and self._is_first(came, link, event, verdicts):
            sent = self._emitted(came, candidate, targets, judging, verdicts)
            outputs = [made for target, one in sent for made in self._sent(came.node, target, one, verdicts)]
        return Decision(came.node.name, came.link, came.event, link, tuple(verdicts), tuple(outputs))

    def _is_first(self, came: Arrival, link: Link, event: Event, verdicts: list[Verdict]) -> bool:
        """Whether the monitors of a link to a client see the event for the first time; without any, `_sent` asks."""
        if not event.id or link.target in came.node.neighbours or self._watch(came.node, link) is None:
            return True
        if self._had[came.node.name].is_first(event, link):
            return True
        verdicts.append(says.had_it(link.target))
        return False

    def _is_news(self, came: Arrival, target: Target, judging: Asked, verdicts: list[Verdict]) -> bool:
        """Whether a client without monitors has not had the event by another way; whatever policies make of it then."""
        event, session = judging.event, target.session
        if not event.id or session.neighbour is not None or self._had[came.node.name].is_first(event, session.id):
            return True
        verdicts.append(says.had_it(session.entity))
        return False

    def _emitted(
        self, came: Arrival, candidate: Candidate, targets: tuple[Target, ...], judging: Asked, verdicts: list[Verdict]
    ) -> list[tuple[Target, Event]]:
        """What leaves by a link, and for whom."""
        watch = (
            self._watch(came.node, candidate.link) if candidate.link.target not in came.node.ensemble.nodes else None
        )
        if watch is None:
            local = [one for one in (local_part(target, came.session) for target in targets) if one is not None]
            return judging.towards([one for one in local if self._is_news(came, one, judging, verdicts)], verdicts)
        forms: dict[Event, list[Target]] = {} if targets else {judging.event: []}
        for target, event in judging.towards(targets, verdicts):
            forms.setdefault(event, []).append(target)
        sent, has_any = list[tuple[Target, Event]](), False
        for event, several in forms.items():
            events, said = self._edit("emit", came.node, candidate.link, event)
            verdicts += said
            has_any = has_any or bool(events)
            sent += (
                (target, output)
                for output in events
                for target in shape.receivers(came.node, watch, tuple(several), output, came.session, self._now)
                if not (target.no_local and target.session is came.session)
            )
        if has_any and not sent:
            verdicts.append(Verdict("emit", Effect.SUPPRESS, "", f"`{candidate.link.target}` has asked for none of it"))
        return sent

    def _towards_group(
        self, came: Arrival, group: Group, judging: Asked, before: tuple[Verdict, ...]
    ) -> Iterator[Decision]:
        """Towards the member whose turn it is; and towards those that cannot have it, why."""
        node, event = came.node, judging.event
        found = group.peek(
            lambda member: fan_out.may_take(node, event, member, self._now) and judging.lets(member),
        )
        for member in group.members:
            link = _outwards(member.session, node)
            if found is not None and member is found[0]:
                if event.id and not self._had[node.name].is_first(event, (group.name, group.filter)):
                    yield Decision(node.name, came.link, came.event, link, (*before, says.had_it(group.name)))
                    continue
                yield self._towards_chosen(came, member, len(group.members), judging, before)
                continue
            verdicts = list(before)
            if not _may_read(member.session, event.topic):
                verdicts.append(says.unreadable(member.session.rights, event.topic))
            elif not match.satisfies(node, event, member, self._now):
                verdicts.append(unsatisfied(node, event, [member], self._now))
            elif not judging.lets(member):
                verdicts.append(Verdict("match", Effect.PASS, member.filter))
                judging.towards([Target([member])], verdicts)
            elif release.preview(node, member.session, event, self._now).in_mean:
                verdicts.append(Verdict("match", Effect.SUPPRESS, member.filter, NO_MEANS))
            elif release.preview(node, member.session, event, self._now).event is None:
                verdicts += [Verdict("match", Effect.PASS, member.filter), says.routed(node, came.link, link, event)]
                verdicts += releasing.released(node, member.session, event, self._now)[1]
            elif found is None:
                verdicts += [Verdict("match", Effect.PASS, member.filter), says.routed(node, came.link, link, event)]
            else:
                continue  # another's turn
            yield Decision(node.name, came.link, came.event, link, tuple(verdicts))

    def _towards_chosen(
        self, came: Arrival, member: Subscribed, members: int, judging: Asked, before: tuple[Verdict, ...]
    ) -> Decision:
        node, link = came.node, _outwards(member.session, came.node)
        turn = Verdict("match", Effect.PASS, member.filter, f"the turn of `{link.target}` among {members}")
        verdicts = [*before, turn, says.routed(node, came.link, link, judging.event)]
        target = Target([member])
        readable = list[Event]()
        for _, event in judging.towards([target], verdicts):
            events, said = self._edit("emit", node, link, event)
            verdicts += said
            readable += (one for one in events if route.may_have(node, one, member.session))
        outputs = [made for one in readable for made in self._sent(node, target, one, verdicts)]
        return Decision(node.name, came.link, came.event, link, tuple(verdicts), tuple(outputs))

    def _sent(self, node: Node, target: Target, event: Event, verdicts: list[Verdict]) -> Iterator[Event]:
        """The event as it leaves for one session, if it does: then it goes on from there."""
        session = target.session
        told = event._replace(qos=min(event.qos, target.qos), retain=event.retain and target.retain_as_published)
        released, said = releasing.released(node, session, told, self._now)
        verdicts += [one for one in said if one not in verdicts]
        if released is None:
            return
        shown, projected = self._views.shown(node, session, released, self._now)
        verdicts += [one for one in projected if one not in verdicts]
        if shown is None:
            return
        told = shown
        last = says.leaves(session, told.qos)
        if last not in verdicts:
            verdicts.append(last)
        if last.effect is Effect.SUPPRESS:
            return
        yield told
        beyond = self._nodes.get(session.neighbour or "")
        if beyond is None or session.outlet is None:
            return
        back = beyond.neighbours[node.name]
        path = (*event.path, node.name) if node.ensemble.is_cyclic else (node.name,)
        token = self._carried.named(node, event)
        came = told._replace(
            origin=back.client_id, user=back.subject.user, link_type=back.publish_type, path=path, token=token
        )
        link = Link(node.name, beyond.name, back.publish_type)
        self._waiting.append(Arrival(beyond, link, came, back, back.rights))


def _may_read(session: Session, topic: str) -> bool:
    return session.rights is None or session.rights.may_read(topic)


def _outwards(session: Session, node: Node) -> Link:
    return Link(node.name, session.entity, session.notify_type)


def _targets(subscriptions: list[Subscribed]) -> tuple[Target, ...]:
    of_session: dict[int, list[Subscribed]] = {}
    for one in subscriptions:
        of_session.setdefault(one.session.id, []).append(one)
    return tuple(map(Target, of_session.values()))


def _scratch(node: Node) -> Node:
    """A node to report failures of monitors to, in place of the real one."""
    return Node(node.name, node.limits, node.make_id, ensemble=node.ensemble)
