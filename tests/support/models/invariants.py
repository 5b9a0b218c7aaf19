"""What holds of a node between any two packets: counters that agree with what they count, nothing left behind."""

from collections import Counter

from penstock.engine.events import link_plans
from penstock.engine.events.plan import Plan
from penstock.engine.federation.wants import NOTHING_TOLD
from penstock.engine.node import Node
from penstock.engine.sessions.connack import receive_maximum
from penstock.engine.sessions.session import NEVER, Session, Subscribed
from penstock.model.topic import matches, parse_filter
from penstock.model.verdict import Effect
from penstock.wire.session import OFFERED, PUBLISHED, RELEASED, WAITING


def check_node(node: Node, are_plans_plain: bool = True) -> None:
    """Raise AssertionError if the node contradicts itself; plans only where topic, rights and conditions decide."""
    sessions = list(node.sessions.values())
    assert node.sessions.connected == sum(session.outlet is not None for session in sessions)
    for session in sessions:
        _check_sending(session)
        _check_queue(session)
        _check_presence(node, session)
        assert len(session.refused or ()) <= receive_maximum(node, session)
        assert not (session.received or set()) & (session.refused or {}).keys()
        assert (session.neighbour is None) is (session.federation is NOTHING_TOLD)
    assert not any((NOTHING_TOLD.offers, NOTHING_TOLD.doubted, NOTHING_TOLD.doubted_offers))
    _check_subscriptions(node, sessions)
    _check_timers(node, sessions)
    _check_kept(sessions)
    if are_plans_plain:
        _check_plans(node)


def _check_sending(session: Session) -> None:
    if session.outlet is None:
        return
    waiting = list(session.outbox.resend or ())
    assert session.outbox.quota == session.outbox.window - (len(session.outbox.inflight) - len(waiting))
    assert all(session.outbox.inflight[one.packet_id] is one for one in waiting)
    assert session.open is (not session.connection.blocked and not session.connection.held)
    if session.outbox.queue or waiting:
        assert session.outbox.quota <= 0 or session.connection.blocked, "nothing waits that could be sent"


def _check_queue(session: Session) -> None:
    queue = session.outbox.queue or ()
    assert session.outbox.queued_bytes == sum(one.event.size() for one in queue)
    assert all(one.session is session for one in (*queue, *session.outbox.inflight.values()))
    assert all(one.state == WAITING and one.packet_id == 0 for one in queue)
    for packet_id, one in session.outbox.inflight.items():
        assert one.packet_id == packet_id
        assert one.state in ((PUBLISHED,) if one.qos == 1 else (OFFERED, RELEASED))


def _check_presence(node: Node, session: Session) -> None:
    held = sum(1 for one, outlet, _ in node.ledger.deferred if one is session and outlet is session.outlet)
    assert session.durable is (node.ledger.durable and session.connection.expiry > 0)
    if session.outlet is None:
        assert session.connection.expiry > 0, "a session without expiry outlives its connection"
        assert not session.buffer
        assert session.open is session.connection.blocked is False
        assert session.connection.held == session.connection.backlog == 0
        assert (session.connection.aliases_in, session.connection.aliases_out, session.outbox.resend) == (
            None,
            None,
            None,
        )
    else:
        assert session.connection.held >= held, "packets that wait for a commit under way are counted too"


def _check_subscriptions(node: Node, sessions: list[Session]) -> None:
    plain, shared, conditional = 0, Counter[tuple[str, str]](), Counter[str]()
    for session in sessions:
        for key, subscribed in session.subscriptions.items():
            filter = parse_filter(subscribed.filter)
            assert (subscribed.key, subscribed.session) == (key, session)
            if filter.group is not None:
                shared[filter.group, filter.filter] += 1
                assert subscribed in node.subscriptions.groups[filter.group, filter.filter].members
            elif subscribed.condition is not None:
                conditional[filter.filter] += 1
            else:
                plain += 1
    assert {key: len(group.members) for key, group in node.subscriptions.groups.items()} == shared
    assert {filter: len(several) for filter, several in node.subscriptions.predicates.items()} == conditional
    watching = sum(map(len, node.monitors.onlookers.values()))
    assert len(node.subscriptions.index) == plain + len(shared) + len(conditional) + watching


def _check_timers(node: Node, sessions: list[Session]) -> None:
    timed = [
        one
        for one in sessions
        if one.outlet is None and (one.connection.expiry != NEVER or one.connection.will is not None)
    ]
    assert len(node.sessions.timers) == len(timed)


def _check_kept(sessions: list[Session]) -> None:
    references = Counter[int]()
    keepers = {}
    for session in sessions:
        for one in (*session.outbox.inflight.values(), *(session.outbox.queue or ())):
            assert (one.kept is not None) or not session.durable
            if one.kept is not None and one.row:
                references[one.kept.id] += 1
                keepers[one.kept.id] = one.kept
    assert {number: kept.references for number, kept in keepers.items()} == references


def _check_plans(node: Node) -> None:
    """Every plan that is still used is what looking at each subscription would give."""
    for plans in (link_plans.own_plans(node), *node.plans.by_class.values()):
        for raw, plan in plans.known.items():
            routed = plan.rest or plan
            if routed.valid and routed.verdict.effect is not Effect.SUPPRESS and routed.delivery_steps:
                _check_plan(node, raw.decode(), routed)


def _check_plan(node: Node, topic: str, plan: Plan) -> None:
    matched: dict[int, list[Subscribed]] = {}
    groups, conditional, narrowed = set(), set(), set()
    for session in node.sessions.values():
        for subscribed in session.subscriptions.values():
            filter = parse_filter(subscribed.filter)
            if not matches(filter.filter, topic):
                continue
            if filter.group is not None:
                groups.add((filter.group, filter.filter))
            elif subscribed.condition is not None:
                conditional.add(filter.filter)
            elif session.rights is not None and not session.rights.may_read(topic):
                continue
            elif any(matches(one, topic) for one, _ in subscribed.also):
                narrowed.add(subscribed)
            else:
                matched.setdefault(session.id, []).append(subscribed)
    assert {(group.name, group.filter) for group in plan.groups} == groups
    if conditional or narrowed:
        shared = {id(node.subscriptions.predicates[filter]) for filter in conditional}
        assert plan.unresolved is not None
        predicates, sure, _ = plan.unresolved
        assert {id(one) for one in predicates} >= shared
        alone = {value for one in predicates if id(one) not in shared for value in one}
        assert alone == narrowed
        assert sorted(one.key for one in sure) == sorted(one.key for some in matched.values() for one in some)
        return
    assert {target.session.id: target.qos for target in plan.targets} == {
        number: max(one.qos for one in found) for number, found in matched.items()
    }
    for target in plan.targets:
        ids = [one.identifier for one in matched[target.session.id] if one.identifier]
        assert sorted(target.ids) == sorted(ids)
    direct = [(4, session) for session in plan.direct4] + [(5, session) for session in plan.direct5]
    for version, session in direct:
        assert session.connection.plain
        assert session.version == version
        assert not any(one.identifier or one.no_local for one in matched[session.id])
    rest = set(matched) - {session.id for _, session in direct}
    for number in rest:
        found = matched[number]
        assert not found[0].session.connection.plain or any(one.identifier or one.no_local for one in found)
    assert plan.simple is (not rest and not groups)
