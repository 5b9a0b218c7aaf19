"""Checks about content: conditions, advertisements, content rules, classes of events on links."""

from collections.abc import Iterator

from penstock.domain.compile.monitors import attributes_at
from penstock.domain.problems import Loc, Mistake, Remark, WrongValue
from penstock.domain.schema.contents import WrittenCondition
from penstock.domain.schema.domain import Domain
from penstock.language.condition import Condition, make_condition
from penstock.language.errors import ConditionError
from penstock.language.types import RecordType
from penstock.model.topic import covers
from penstock.policy.access.covering import is_covered


def check(domain: Domain) -> Iterator[Mistake]:
    """Find mistakes in conditions and advertisements of clients."""
    for loc, filter, expression in _conditions(domain):
        condition = compiled(expression, domain.declared(filter))
        if isinstance(condition, str):
            yield Remark(loc, condition)
        elif "advertises" in loc and _is_never_true(condition):
            yield Remark(loc, f"no content satisfies `{condition.text}`, so nothing could be published under it")
    yield from _wrong_context(domain)
    for name, client in domain.clients.items():
        names = [advertised.name for advertised in client.advertises]
        for index, advertised in enumerate(names):
            first = names.index(advertised)
            if first != index:
                loc = ("clients", name, "advertises", index, "name")
                yield WrongValue(loc, f"a name of its own, and `advertises[{first}]` has this one", f"`{advertised}`")


def _wrong_context(domain: Domain) -> Iterator[Mistake]:
    """Find entities and observables that there are not, and observations that content cannot be."""
    loc: Loc
    context = domain.context
    for name, observable in context.observables.items():
        for at, entity in enumerate(observable.entities):
            if entity not in context.entities:
                yield WrongValue(
                    ("context", "observables", name, "entities", at), "an entity of `context`", f"`{entity}`"
                )
    if any(entity not in context.entities for one in context.observables.values() for entity in one.entities):
        return
    for name, client in domain.clients.items():
        for at, settings in enumerate(client.advertises):
            loc = ("clients", name, "advertises", at, "observable")
            if settings.observable is None:
                continue
            if settings.observable not in context.observables:
                yield WrongValue(loc, "an observable of `context`", f"`{settings.observable}`")
                continue
            try:
                make_condition(context.observable(settings.observable).condition, domain.declared(settings.filter))
            except ConditionError as error:
                yield Remark(loc, f"`content` says that these events are no observations: {error}")


def warnings(domain: Domain) -> Iterator[Remark]:
    """Find conditions that are never true and rules that never apply."""
    for where, filter, expression in (*_conditions(domain), *_guards(domain)):
        condition = expression.compiled(attributes_at(filter, domain.declared))
        if _is_never_true(condition):
            yield Remark(where, f"`{condition.text}` is never true, so nothing satisfies it")
    earlier = list[str]()
    for index, rule in enumerate(domain.content):
        yield from _never_met(rule.topics, earlier, ("content", index, "topics"))
        earlier += rule.topics
    for index, link in enumerate(domain.links):
        classes = [filter for filter, _ in link.forward]
        for at, filter in enumerate(classes):
            loc: Loc = ("links", index, "forward", filter)
            if "#" in classes[:at]:
                yield Remark(loc, f"`{filter}` never counts: `#` is every event that is of no class before it")
            elif filter != "#":
                yield from _never_met((filter,), classes[:at], loc)


def compiled(expression: WrittenCondition, declared: RecordType) -> Condition | str:
    """Compile a condition; return the error message if it is wrong."""
    try:
        return expression.compiled(declared)
    except ConditionError as error:
        return str(error)


def _conditions(domain: Domain) -> Iterator[tuple[Loc, str, WrittenCondition]]:
    """Yield every condition about a client: its location, its topics, and the condition."""
    for name, client in domain.clients.items():
        for filter, expression in client.where.items():
            yield ("clients", name, "where", filter), filter, expression
        for index, advertised in enumerate(client.advertises):
            if advertised.where is not None:
                yield ("clients", name, "advertises", index, "where"), advertised.filter, advertised.where


def _guards(domain: Domain) -> Iterator[tuple[Loc, str, WrittenCondition]]:
    """Yield every condition of a monitor."""
    for name, monitor in domain.monitors.items():
        for state, edges in (monitor.states or {}).items():
            for filter, guarded in edges.items():
                for index, edge in enumerate(guarded):
                    if edge.when is not None:
                        yield ("monitors", name, "states", state, filter, index, "when"), filter, edge.when


def _is_never_true(condition: Condition) -> bool:
    return condition.ranges is not None and condition.ranges.is_empty


def _never_met(filters: tuple[str, ...], earlier: list[str], loc: Loc) -> Iterator[Remark]:
    """Find topics that never apply, because earlier filters match everything they match."""
    for filter in filters:
        if is_covered(filter, earlier):
            by = next((f"`{covering}`" for covering in earlier if covers(covering, filter)), "what stands before it")
            yield Remark(loc, f"`{filter}` never counts: {by} matches all that it matches")
