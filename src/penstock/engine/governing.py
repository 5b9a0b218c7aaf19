"""A node takes new settings, and whatever waits is judged by them."""

from penstock.domain import LimitSettings
from penstock.domain.compile.ensemble import Ensemble
from penstock.engine.contracts import client_contracts
from penstock.engine.contracts.state import renewed_contracts
from penstock.engine.federation import write_rights
from penstock.engine.matching.step_budget import at_once
from penstock.engine.node import Node
from penstock.engine.sessions import outbox, placement, subscribe
from penstock.engine.sessions.session import PolicyRevision
from penstock.engine.sessions.session_rights import rights_for
from penstock.engine.sparkplug import beyond, births, messages
from penstock.engine.sparkplug.state import renewed
from penstock.engine.stages.edit import tell_failures
from penstock.engine.statements import review
from penstock.engine.trust import keys
from penstock.policy.access.acl import Acl
from penstock.policy.access.passwords import Passwords


def govern(
    node: Node,
    limits: LimitSettings,
    passwords: Passwords | None,
    acl: Acl | None,
    ensemble: Ensemble | None = None,
    now: float | None = None,
) -> None:
    """Take new settings: what waits is judged by them when it leaves; `now` is for policies that ask for the time."""
    at = node.runtime.clock() if now is None else now
    node.limits, node.admission.passwords, node.admission.acl = limits, passwords, acl
    node.ensemble = ensemble or node.ensemble
    node.ensemble.reader.max_steps = at_once(limits.condition_steps)
    before = node.revision
    begin_revision(node, before)
    node.table = node.ensemble.table(node.name)
    node.contracts = renewed_contracts(node.contracts, node.ensemble.contracts)  # what is brought follows below
    node.sparkplug = renewed(node.sparkplug, node.ensemble.access)
    node.plans.begin_anew()
    keys.hold(node, node.trust.keys, at)
    for watch in node.monitors.watches.values():
        watch.take(node.ensemble.monitors_at(node.name, watch.link), node.ensemble.placing(watch.link))
        tell_failures(node, watch)
    placement.look_on(node)
    for session in node.sessions.values():
        session.rights = rights_for(node, session)
        node.later.begin_anew(session, at)
        placement.settle_in(node, session)
        subscribe.renew(node, session)
        outbox.recall(node, session)
        messages.ask_windows(node, session, at)
        if beyond.has_more(node, session):
            subscribe.replay_again(node, session, beyond.CERTIFICATE_FILTER, at)
    if before.access != node.revision.access:
        births.review(node, at)
    client_contracts.review(node, at)
    review.review(node, before, at)
    write_rights.renew(node)


def begin_revision(node: Node, before: PolicyRevision) -> None:
    """Judge by the present policies from now on; what was judged by others is judged again when it leaves."""
    node.revision = before.next(node.ensemble)
    node.ledger.revision(node.revision)
