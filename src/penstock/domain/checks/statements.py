"""Checks of policy statements: that names are known and policies may be set where they are; and what is odd."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.domain.checks.access import is_never_true
from penstock.domain.checks.contents import compiled
from penstock.domain.finding import Entities, Finding, Loc, Mistake, Said, hint, listed
from penstock.domain.schema.domain import Domain
from penstock.domain.schema.statements import EVERYBODY, ApplySettings, StatementSettings, problem_of
from penstock.language.printer import show
from penstock.language.statements.statement import Message, Point, Statement, StatementClause, StatementRule
from penstock.language.tree import Literal
from penstock.model.errors import PolicyError
from penstock.model.topic import overlaps
from penstock.policy.statements.elements.table import elements
from penstock.policy.statements.statement import CompiledRule, Policy, compile_statement

_PERSIST = "Persist"
_AUTHENTICATE = ("AuthenticateSender", "AuthenticateReceiver")


def check(domain: Domain) -> Iterator[Mistake]:
    """What would keep the policies from being used."""
    settings = domain.statements
    if settings is None:
        return
    known: dict[str, Statement] = {}
    for name, where, said in settings.statements():
        loc: Loc = ("statements", *where)
        if isinstance(said, PolicyError):
            yield Said((*loc, "file"), str(said))
            continue
        if name in known:
            yield Finding((*loc, "name"), "a name that no other policy has", f"`{name}`")
        known[name] = said
        yield from _unknown_groups(domain, compile_statement(said), loc)
    names = [name for name, _, _ in settings.statements()]
    for index, one in enumerate(settings.apply):
        yield from _applied(domain, one, known, names, ("statements", "apply", index))
    for index, grant in enumerate(settings.grants):
        loc = ("statements", "grants", index)
        yield from _clients(domain, grant.to, (*loc, "to"))
        for at, name in enumerate(grant.elements):
            if name not in elements() and name != EVERYBODY:
                yield Finding((*loc, "elements", at), f"a rule element, {hint(name, elements())}", f"`{name}`")


def _unknown_groups(domain: Domain, policy: Policy, loc: Loc) -> Iterator[Said]:
    for group in dict.fromkeys(group for rule in policy.rules for group in _groups(rule)):
        if group not in domain.trust_groups:
            yield Said(loc, f"there is no trust group `{group}`, {hint(group, domain.trust_groups)}")


def _groups(rule: CompiledRule) -> Iterator[str]:
    """The trust groups that a rule asks for."""
    for clause in (*rule.chain, *rule.on_exception):
        for _, act in clause.test.acts if clause.test is not None else ():
            if act.element.name in _AUTHENTICATE:
                yield str(act.arguments[0])


def _applied(
    domain: Domain, one: ApplySettings, known: dict[str, Statement], names: list[str], loc: Loc
) -> Iterator[Mistake]:
    if one.policy not in names:
        yield Finding((*loc, "policy"), f"a policy, {hint(one.policy, names)}", f"`{one.policy}`")
    yield from _clients(domain, one.of, (*loc, "of"))
    entities = Entities.of(domain)
    for index, node in enumerate(one.at):
        if node not in domain.nodes:
            yield Finding((*loc, "at", index), entities.not_a_node(node), f"`{node}`")
    condition = one.where and compiled(one.where, domain.declared(one.filter))
    if isinstance(condition, str):
        yield Said((*loc, "where"), condition)
    elif one.policy in known:
        problem = problem_of(one, known[one.policy])
        if problem:
            yield Said(loc, f"policy `{one.policy}` cannot be given to this: {problem}")


def _clients(domain: Domain, names: tuple[str, ...], loc: Loc) -> Iterator[Finding]:
    """Clients that cannot be there. Where clients need not be listed, a name is that of any client id."""
    entities = Entities.of(domain)
    for index, name in enumerate(names):
        if name in domain.clients or name == EVERYBODY:
            continue
        kind = entities.kind(name)
        if kind or not any(map(domain.admits_unlisted, domain.nodes)):
            expected = f"and `{name}` is {kind}" if kind else hint(name, entities.clients)
            yield Finding((*loc, index), f"a client, {expected}", f"`{name}`")


# --- what is odd


def warnings(domain: Domain) -> Iterator[Said]:
    """What may not be what was meant."""
    settings = domain.statements
    if settings is None:
        return
    used = {*(one.policy for one in settings.apply), *_in_tests(domain)}
    for name, where, said in settings.statements():
        if isinstance(said, Statement):
            loc: Loc = ("statements", *where)
            if name not in used:
                yield Said(loc, f"policy `{name}` is given to nothing")
            for number, rule in enumerate(said.rules, 1):
                yield from (Said(loc, f"rule {number}: {what}") for what in _idle_clauses(rule))
    for index, one in enumerate(settings.apply):
        yield from (Said(("statements", "apply", index), what) for what in _pointless(domain, settings, one))
    yield from _open_grants(domain, settings)


def _in_tests(domain: Domain) -> Iterator[str]:
    for case in domain.tests.values():
        for value in case.model_dump().values():
            yield from _policies_in(value)


def _policies_in(value: object) -> Iterator[str]:
    """The names under `policy` anywhere in a test."""
    if isinstance(value, dict):
        for key, below in value.items():
            if key == "policy" and isinstance(below, str):
                yield below
            yield from _policies_in(below)
    elif isinstance(value, list | tuple):
        for below in value:
            yield from _policies_in(below)


def _idle_clauses(rule: StatementRule) -> Iterator[str]:
    for chain, of in ((rule.clauses, ""), (rule.on_exception, " of `OnException`")):
        for number, clause in enumerate(chain, 1):
            if _always(clause) and number < len(chain):
                yield f"clauses{of} after clause {number}, which always holds, are never reached"
                break
    tests = [clause.test for clause in (*_compiled(rule).chain, *_compiled(rule).on_exception)]
    for test, clause in zip(tests, (*rule.clauses, *rule.on_exception), strict=True):
        if test is not None and clause.condition is not None and is_never_true(test.condition):
            yield f"`{show(clause.condition)}` is never true"


def _compiled(rule: StatementRule) -> CompiledRule:
    return compile_statement(Statement((rule,))).rules[0]


def _always(clause: StatementClause) -> bool:
    return clause.condition is None or (isinstance(clause.condition, Literal) and clause.condition.value is True)


def _pointless(domain: Domain, settings: StatementSettings, one: ApplySettings) -> Iterator[str]:
    said = next(said for name, _, said in settings.statements() if name == one.policy)
    if not isinstance(said, Statement):
        return
    if one.to in ("publication", "advertisement") and one.of and EVERYBODY not in one.of:
        silent = [name for name in one.of if name in domain.clients and not _publishes(domain, name, one.filter)]
        if silent:
            what = f"{listed(silent, 'and')} {'has' if len(silent) == 1 else 'have'} nothing to publish"
            yield f"{what} on `{one.filter}`: see `advertises`"
    policy = compile_statement(said)
    if one.to != "publication":
        yield from _not_held(domain, policy, one)
    yield from _not_persisted(domain, policy, one)


def _publishes(domain: Domain, name: str, filter: str) -> bool:
    advertised = domain.clients[name].advertises
    return not advertised or any(overlaps(each.filter, filter) for each in advertised)


def _not_held(domain: Domain, policy: Policy, one: ApplySettings) -> Iterator[str]:
    """Groups that the policy asks for where none of the nodes has the secret, and the domain vouches for nobody."""
    listed_at = (node for name in one.of if name in domain.clients for node in domain.clients[name].node)
    nodes = set(one.at) or set(listed_at)
    if not nodes or EVERYBODY in one.of:
        return
    # A rule of an advertisement is asked at other nodes too, where that has come, unless it is for its edge only.
    here = [rule for rule in policy.rules if one.to == "subscription" or rule.points == {Point.INGRESS}]
    for group in dict.fromkeys(group for rule in here for group in _groups(rule)):
        held = domain.trust_groups[group]
        if not held.clients and not nodes & set(held.nodes):
            where = f"node {listed(sorted(nodes), 'or')}"
            yield f"policy `{one.policy}` asks for trust group `{group}`, and nobody can prove it at {where}"


def _not_persisted(domain: Domain, policy: Policy, one: ApplySettings) -> Iterator[str]:
    """Rules with `Persist` that come to nodes which have no store."""
    for number, rule in enumerate(policy.rules, 1):
        if not any(act.element.name == _PERSIST for clause in rule.chain for act in clause.actions):
            continue
        forgetful = [name for name in _asked_at(domain, rule, one) if not domain.nodes[name].durable]
        if forgetful:
            where = (
                f"node {listed(forgetful, 'and')}, {'whose store is' if len(forgetful) == 1 else 'whose stores are'}"
            )
            comes = "`OnException` is run" if rule.on_exception else "what it is for is blocked"
            yield f"policy `{one.policy}`, rule {number}: `{_PERSIST}` fails at {where} in memory, and {comes}"


def _asked_at(domain: Domain, rule: CompiledRule, one: ApplySettings) -> list[str]:
    """The nodes where a rule may be asked: where its clients connect, if it is for that edge only, or all."""
    if one.to == "subscription" and rule.message is Message.PUBLICATION:
        edge = {Point.EGRESS}
    else:
        edge = set() if one.to == "advertisement" and rule.message is Message.SUBSCRIPTION else {Point.INGRESS}
    is_one_overlay = len({node.overlay for node in domain.nodes.values()}) == 1
    places = [tuple(domain.clients[name].node) if name in domain.clients else () for name in one.of] or [one.at]
    if is_one_overlay and rule.points <= edge and all(places):
        return [name for name in domain.nodes if any(name in nodes for nodes in places)]
    return list(domain.nodes)


def _open_grants(domain: Domain, settings: StatementSettings) -> Iterator[Said]:
    """Grants to client ids that anybody can take."""
    open_node = next(
        (
            name
            for name, node in domain.nodes.items()
            if domain.admits_unlisted(name) and any(map(node.allows_anonymous, node.listeners))
        ),
        None,
    )
    for index, grant in enumerate(settings.grants):
        for at, name in enumerate(grant.to):
            if open_node is not None and name != EVERYBODY and name not in domain.clients:
                why = f"it is not among `clients`, and node `{open_node}` asks for no password"
                yield Said(("statements", "grants", index, "to", at), f"anyone may connect as `{name}`: {why}")
