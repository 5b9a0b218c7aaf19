"""Checks of policy statements: that names are known and that policies may be set where they are."""

from collections.abc import Iterator

from penstock.domain.checks.access import KnownSubjects, is_never_true
from penstock.domain.checks.contents import compiled
from penstock.domain.problems import Entities, Loc, Mistake, Remark, WrongValue, join_names, known_names_hint, unknown
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
_SEALING = ("Encrypt", "Decrypt")
_AUTHENTICATE = ("AuthenticateSender", "AuthenticateReceiver")


def check(domain: Domain) -> Iterator[Mistake]:
    """Find mistakes that would keep the policies from being used."""
    settings = domain.statements
    if settings is None:
        return
    by_name: dict[str, Statement] = {}
    for name, where, statement in settings.statements():
        loc: Loc = ("statements", *where)
        if isinstance(statement, PolicyError):
            yield Remark((*loc, "file"), str(statement))
            continue
        if name in by_name:
            yield WrongValue((*loc, "name"), "a name that no other policy has", f"`{name}`")
        by_name[name] = statement
        yield from _unknown_groups(domain, compile_statement(statement), loc)
    names = [name for name, _, _ in settings.statements()]
    for index, applied in enumerate(settings.apply):
        yield from _applied(domain, applied, by_name, names, ("statements", "apply", index))
    for index, grant in enumerate(settings.grants):
        loc = ("statements", "grants", index)
        yield from _clients(domain, grant.to, (*loc, "to"))
        for at, name in enumerate(grant.elements):
            if name not in elements() and name != EVERYBODY:
                yield unknown((*loc, "elements", at), "a rule element", name, elements())


def _unknown_groups(domain: Domain, policy: Policy, loc: Loc) -> Iterator[Remark]:
    for group in dict.fromkeys(group for rule in policy.rules for group in _groups(rule)):
        if group not in domain.trust_groups:
            yield Remark(loc, f"there is no trust group `{group}`, {known_names_hint(group, domain.trust_groups)}")


def _groups(rule: CompiledRule) -> Iterator[str]:
    """Return the trust groups that a rule asks for."""
    for clause in (*rule.chain, *rule.on_exception):
        for _, act in clause.test.acts if clause.test is not None else ():
            if act.element.name in _AUTHENTICATE:
                yield str(act.arguments[0])
        yield from (str(act.arguments[0]) for act in clause.actions if act.element.name in _SEALING)


def _applied(
    domain: Domain, applied: ApplySettings, by_name: dict[str, Statement], names: list[str], loc: Loc
) -> Iterator[Mistake]:
    if applied.policy not in names:
        yield unknown((*loc, "policy"), "a policy", applied.policy, names)
    yield from _clients(domain, applied.of, (*loc, "of"))
    entities = Entities.of(domain)
    for index, node in enumerate(applied.at):
        if node not in domain.nodes:
            yield WrongValue((*loc, "at", index), entities.not_a_node(node), f"`{node}`")
    condition = applied.where and compiled(applied.where, domain.declared(applied.filter))
    if isinstance(condition, str):
        yield Remark((*loc, "where"), condition)
    elif applied.policy in by_name:
        problem = problem_of(applied, by_name[applied.policy])
        if problem:
            yield Remark(loc, f"policy `{applied.policy}` cannot be given to this: {problem}")


def _clients(domain: Domain, names: tuple[str, ...], loc: Loc) -> Iterator[WrongValue]:
    """Find clients that cannot connect. Where clients need not be listed, any client id is valid."""
    entities = Entities.of(domain)
    for index, name in enumerate(names):
        if name in domain.clients or name == EVERYBODY:
            continue
        if entities.kind(name) or not any(map(domain.admits_unlisted, domain.nodes)):
            yield WrongValue((*loc, index), entities.not_a_client(name), f"`{name}`")


# --- warnings


def warnings(domain: Domain) -> Iterator[Remark]:
    """Find policies that are probably not what was meant."""
    settings = domain.statements
    if settings is None:
        return
    in_tests = _policies_in([case.model_dump() for case in domain.tests.values()])
    used = {*(applied.policy for applied in settings.apply), *in_tests}
    for name, where, statement in settings.statements():
        if isinstance(statement, Statement):
            loc: Loc = ("statements", *where)
            if name not in used:
                yield Remark(loc, f"policy `{name}` is not used")
            for number, rule in enumerate(statement.rules, 1):
                yield from (Remark(loc, f"rule {number}: {what}") for what in _idle_clauses(rule))
    for index, applied in enumerate(settings.apply):
        yield from (Remark(("statements", "apply", index), what) for what in _pointless(domain, settings, applied))
    yield from _open_grants(domain, settings)


def _policies_in(value: object) -> Iterator[str]:
    """Return the names under `policy` anywhere in a test."""
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
            if _always_holds(clause) and number < len(chain):
                yield f"clauses{of} after clause {number}, which always holds, are never reached"
                break
    tests = [clause.test for clause in (*_compiled(rule).chain, *_compiled(rule).on_exception)]
    for test, clause in zip(tests, (*rule.clauses, *rule.on_exception), strict=True):
        if test is not None and clause.condition is not None and is_never_true(test.condition):
            yield f"`{show(clause.condition)}` is never true"


def _compiled(rule: StatementRule) -> CompiledRule:
    return compile_statement(Statement((rule,))).rules[0]


def _always_holds(clause: StatementClause) -> bool:
    return clause.condition is None or (isinstance(clause.condition, Literal) and clause.condition.value is True)


def _pointless(domain: Domain, settings: StatementSettings, applied: ApplySettings) -> Iterator[str]:
    statement = next(statement for name, _, statement in settings.statements() if name == applied.policy)
    if not isinstance(statement, Statement):
        return
    if applied.to in ("publication", "advertisement") and applied.of and EVERYBODY not in applied.of:
        silent = [
            name for name in applied.of if name in domain.clients and not _publishes(domain, name, applied.filter)
        ]
        if silent:
            what = f"{join_names(silent, 'and')} {'has' if len(silent) == 1 else 'have'} nothing to publish"
            yield f"{what} on `{applied.filter}`: see `advertises`"
    policy = compile_statement(statement)
    if applied.to != "publication":
        yield from _unprovable_groups(domain, policy, applied)
    yield from _not_persisted(domain, policy, applied)


def _publishes(domain: Domain, name: str, filter: str) -> bool:
    advertised = domain.clients[name].advertises
    return not advertised or any(overlaps(advertisement.filter, filter) for advertisement in advertised)


def _unprovable_groups(domain: Domain, policy: Policy, applied: ApplySettings) -> Iterator[str]:
    """Find groups that the policy asks for where none of the nodes has the secret and the domain vouches for nobody."""
    listed_at = (node for name in applied.of if name in domain.clients for node in domain.clients[name].node)
    nodes = set(applied.at) or set(listed_at)
    if not nodes or EVERYBODY in applied.of:
        return
    # A rule of an advertisement is evaluated at other nodes too, if the advertisement spreads there, unless it is for
    # its edge only.
    here = [rule for rule in policy.rules if applied.to == "subscription" or rule.points == {Point.INGRESS}]
    for group in dict.fromkeys(group for rule in here for group in _groups(rule)):
        held = domain.trust_groups[group]
        if not held.clients and not nodes & set(held.nodes):
            where = f"node {join_names(sorted(nodes), 'or')}"
            yield f"policy `{applied.policy}` asks for trust group `{group}`, and nobody can prove it at {where}"


def _not_persisted(domain: Domain, policy: Policy, applied: ApplySettings) -> Iterator[str]:
    """Find rules with `Persist` that reach nodes without a store."""
    for number, rule in enumerate(policy.rules, 1):
        if not any(act.element.name == _PERSIST for clause in rule.chain for act in clause.actions):
            continue
        forgetful = [name for name in _evaluating_nodes(domain, rule, applied) if not domain.nodes[name].durable]
        if forgetful:
            stores = "whose store is" if len(forgetful) == 1 else "whose stores are"
            where = f"node {join_names(forgetful, 'and')}, {stores}"
            comes = "`OnException` is run" if rule.on_exception else "its messages are blocked"
            yield f"policy `{applied.policy}`, rule {number}: `{_PERSIST}` fails at {where} in memory, and {comes}"


def _evaluating_nodes(domain: Domain, rule: CompiledRule, applied: ApplySettings) -> list[str]:
    """Return the nodes where a rule may be evaluated: where its clients connect, if it is for that edge only, or
    all."""
    if applied.to == "subscription" and rule.message is Message.PUBLICATION:
        edge = {Point.EGRESS}
    else:
        edge = set() if applied.to == "advertisement" and rule.message is Message.SUBSCRIPTION else {Point.INGRESS}
    is_one_overlay = len({node.overlay for node in domain.nodes.values()}) == 1
    places = [tuple(domain.clients[name].node) if name in domain.clients else () for name in applied.of] or [applied.at]
    if is_one_overlay and rule.points <= edge and all(places):
        return [name for name in domain.nodes if any(name in nodes for nodes in places)]
    return list(domain.nodes)


def _open_grants(domain: Domain, settings: StatementSettings) -> Iterator[Remark]:
    """Find grants to client ids that anybody can take."""
    open_node = KnownSubjects(domain).open_node
    for index, grant in enumerate(settings.grants):
        for at, name in enumerate(grant.to):
            if open_node is not None and name != EVERYBODY and name not in domain.clients:
                why = f"it is not among `clients`, and node `{open_node}` asks for no password"
                yield Remark(("statements", "grants", index, "to", at), f"anyone may connect as `{name}`: {why}")
