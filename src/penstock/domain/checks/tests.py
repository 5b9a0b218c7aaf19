"""Checks of policy tests: that the names in them exist."""

from collections.abc import Collection, Iterator, Mapping

from penstock.domain.checks.contents import compiled
from penstock.domain.problems import Entities, Loc, Mistake, Remark, WrongValue, unknown
from penstock.domain.schema import tests
from penstock.domain.schema.domain import Domain
from penstock.language.errors import StatementError
from penstock.language.statements.statement import Message, Statement
from penstock.model.errors import PolicyError
from penstock.model.topic import parse_filter
from penstock.policy.statements.statement import compile_statement, policy_on


def check(domain: Domain) -> Iterator[Mistake]:
    """Find mistakes in the tests of a domain without patterns and protocols."""
    entities = Entities.of(domain)
    for title, test in domain.tests.items():
        yield from _TestCheck(domain, entities, test).all(("tests", title))


_CLIENT_KEYS = (
    *("disconnect", "subscribe", "unsubscribe", "advertise", "unadvertise", "set_policy", "prove", "show", "rate"),
    "refused",
)
_WithPolicy = tests.SubscribeStep | tests.AdvertiseStep | tests.PublishStep | tests.SetPolicyStep


class _TestCheck:
    """Checks one test."""

    def __init__(self, domain: Domain, entities: Entities, test: tests.PolicyTest) -> None:
        self._domain = domain
        self._entities = entities
        self._test = test
        joined = (step.connect or {} for step in test.steps)
        strangers = (name for connected in joined for name, node in connected.items() if node is not None)
        self._clients = tuple(dict.fromkeys((*entities.clients, *strangers)))

    def all(self, loc: Loc) -> Iterator[Mistake]:
        test = self._test
        yield from self._names(test.subscribe or (), self._clients, "a client", (*loc, "subscribe"))
        yield from self._conditions(test.subscribe or {}, (*loc, "subscribe"))
        yield from self._policies(test.subscribe or {}, (*loc, "subscribe"))
        yield from self._monitors(test.states, (*loc, "states"))
        for index, step in enumerate(test.steps):
            yield from self._step(step, (*loc, "steps", index))

    def _step(self, step: tests.PolicyTestStep, loc: Loc) -> Iterator[Mistake]:
        others = (*self._clients, *self._entities.foreign)
        yield from self._names(step.connect or (), self._clients, "a client", (*loc, "connect"))
        for key in _CLIENT_KEYS:
            yield from self._names(getattr(step, key) or (), self._clients, "a client", (*loc, key))
        yield from self._conditions(step.subscribe or {}, (*loc, "subscribe"))
        yield from self._conditions(step.advertise or {}, (*loc, "advertise"))
        for key in ("subscribe", "advertise", "publish", "set_policy"):
            yield from self._policies(getattr(step, key) or {}, (*loc, key))
        for client, groups in (step.prove or {}).items():
            yield from self._names(groups, self._domain.trust_groups, "a trust group", (*loc, "prove", client))
        for key in ("publish", "expect"):
            named = [name for name in getattr(step, key) or () if name != tests.OTHERS or key != "expect"]
            yield from self._names(named, others, "a client or foreign broker", (*loc, key))
        yield from self._names(step.restart or (), self._entities.nodes, "a node", (*loc, "restart"))
        yield from self._nodes(step, loc)
        for key in ("cut", "restore"):
            for ends in getattr(step, key) or ():
                if not any(set(ends) == set(link.between) for link in self._domain.links):
                    yield WrongValue((*loc, key), "a link between two nodes, or a node and a foreign broker")
        yield from self._monitors(step.states, (*loc, "states"))
        yield from self._trust(step, loc)
        for index, verdict in enumerate(step.verdicts):
            where = (*loc, "verdicts", index) if len(step.verdicts) > 1 else (*loc, "verdicts")
            for key, name in (("from", verdict.from_), ("to", verdict.to)):
                if name is not None and name not in (*self._entities.all, *self._clients):
                    yield WrongValue((*where, key), self._entities.not_an_entity(name))

    def _nodes(self, step: tests.PolicyTestStep, loc: Loc) -> Iterator[WrongValue]:
        named = [
            *(((*loc, "connect", client), node) for client, node in (step.connect or {}).items() if node is not None),
            *(
                ((*loc, key, client), entry.at)
                for key in ("subscribe", "advertise", "publish")
                for client, entries in (getattr(step, key) or {}).items()
                for entry in entries
                if entry.at is not None
            ),
            *(((*loc, "verdicts"), verdict.at) for verdict in step.verdicts),
        ]
        for where, name in named:
            if name not in self._entities.nodes:
                yield WrongValue(where, self._entities.not_a_node(name), f"`{name}`")

    def _trust(self, step: tests.PolicyTestStep, loc: Loc) -> Iterator[WrongValue]:
        """Check that tokens and ratings are only used if the domain has them, and ratings only of neighbours."""
        if step.show and self._domain.tokens is None:
            yield WrongValue((*loc, "show"), "`tokens` in the domain, because of this", "nothing")
        for key in ("rate", "ratings"):
            if getattr(step, key) and self._domain.trust is None:
                yield WrongValue((*loc, key), "`trust` in the domain, because of this", "nothing")
        for index, rating in enumerate(step.ratings):
            where = (*loc, "ratings", index) if len(step.ratings) > 1 else (*loc, "ratings")
            if not any({rating.of, rating.by} == set(link.between) for link in self._domain.links):
                yield WrongValue((*where, "of"), f"a neighbour of `{rating.by}`", f"`{rating.of}`")

    def _conditions(
        self, by_client: Mapping[str, tuple[tests.SubscribeStep | tests.AdvertiseStep, ...]], loc: Loc
    ) -> Iterator[Remark]:
        for client, entries in by_client.items():
            for index, entry in enumerate(entries):
                declared = self._domain.declared(parse_filter(entry.filter).filter)
                condition = entry.where and compiled(entry.where, declared)
                if isinstance(condition, str):
                    yield Remark((*loc, client, index, "where"), condition)

    def _policies(self, by_client: Mapping[str, tuple[_WithPolicy, ...]], loc: Loc) -> Iterator[Mistake]:
        settings = self._domain.statements
        policies = {name: statement for name, _, statement in settings.statements()} if settings is not None else {}
        for client, entries in by_client.items():
            for index, entry in enumerate(entries):
                where = (*loc, client, index, "policy") if len(entries) > 1 else (*loc, client, "policy")
                if isinstance(entry.policy, str):
                    yield from self._names((entry.policy,), policies, "a policy of `statements`", where)
                policy = policies.get(entry.policy) if isinstance(entry.policy, str) else entry.policy
                wrong = _not_on(policy, _carrier(entry)) if isinstance(policy, Statement) else ""
                if wrong:
                    yield Remark(where, wrong)

    def _names(self, names: Collection[str], known: Collection[str], kind: str, loc: Loc) -> Iterator[WrongValue]:
        for name in names:
            if name not in known:
                yield unknown(loc, kind, name, known)

    def _monitors(self, states: dict[str, object], loc: Loc) -> Iterator[WrongValue]:
        for text in states:
            key = tests.state_key(text)
            if key is not None and key.monitor not in self._domain.monitors:
                yield unknown((*loc, text), "a monitor", key.monitor, self._domain.monitors)


def _carrier(entry: _WithPolicy) -> Message:
    match entry:
        case tests.PublishStep():
            return Message.PUBLICATION
        case tests.AdvertiseStep() | tests.SetPolicyStep(subscription=None):
            return Message.ADVERTISEMENT
    return Message.SUBSCRIPTION


def _not_on(statement: Statement, carrier: Message) -> str:
    """Return why a policy cannot be set on such a message; empty if it can."""
    try:
        policy_on(compile_statement(statement), carrier)
    except (StatementError, PolicyError) as error:
        return str(error)
    return ""
