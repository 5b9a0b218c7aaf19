"""Expressions, compiled to closures: types are checked once, here."""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from penstock.policy.xacml import names, status
from penstock.policy.xacml import tree as xacml
from penstock.policy.xacml.functions.cel import holds, named, split_arguments
from penstock.policy.xacml.functions.function import BOOLEAN, INTEGER, XacmlFunction
from penstock.policy.xacml.functions.table import HIGHER, LOGICAL, Higher, function_named
from penstock.policy.xacml.functions.xpath import XPATH_FUNCTIONS
from penstock.policy.xacml.request import TIMES, Context
from penstock.policy.xacml.values.values import Bag, Type, Value, read_value
from penstock.policy.xacml.xpath import compile_path, text_of

Run = Callable[[Context], Value]


class CompiledExpression(NamedTuple):
    """A compiled expression: its type, and the function that evaluates it in a context or raises `Indeterminate`."""

    type: Type
    run: Run


class Compiler:
    """A compiler of the expressions of one policy, which share its variables."""

    def __init__(self, variables: Sequence[tuple[str, xacml.Expression]] = ()) -> None:
        self._definitions = dict(variables)
        if len(self._definitions) < len(variables):
            raise status.XacmlError("two variables have one name")
        self._variables: dict[str, CompiledExpression] = {}
        self._underway: list[str] = []
        for name in self._definitions:
            self._variable(name)

    def expression(self, tree: xacml.Expression) -> CompiledExpression:
        """Compile an expression; raises `XacmlError` if it is invalid."""
        match tree:
            case xacml.LiteralValue(type_uri, value):
                return CompiledExpression(Type(type_uri), lambda _: value)
            case xacml.Designator():
                return CompiledExpression(Type(tree.type, is_bag=True), designate(tree))
            case xacml.Selector():
                return CompiledExpression(Type(tree.type, is_bag=True), select(tree))
            case xacml.VariableReference(name):
                return self._variable(name)
            case xacml.Apply():
                return self._apply(tree)
            case xacml.FunctionName(name):
                raise status.XacmlError(f"`{name}` is a function where a value is expected")

    def condition(self, tree: xacml.Expression) -> Run:
        """Compile an expression that is true or false; raises `XacmlError`."""
        compiled = self.expression(tree)
        if compiled.type != BOOLEAN:
            raise status.ill_typed(f"a condition is a boolean, not {compiled.type}")
        return compiled.run

    def _variable(self, name: str) -> CompiledExpression:
        if name in self._variables:
            return self._variables[name]
        if name not in self._definitions:
            raise status.XacmlError(f"there is no variable `{name}`")
        if name in self._underway:
            raise status.XacmlError(f"variables go in a circle: {' -> '.join([*self._underway, name])}")
        self._underway.append(name)
        compiled = self.expression(self._definitions[name])
        self._underway.pop()
        self._variables[name] = CompiledExpression(compiled.type, once(compiled.run))
        return self._variables[name]

    def _apply(self, tree: xacml.Apply) -> CompiledExpression:
        if tree.function in HIGHER:
            return self._higher(tree, HIGHER[tree.function])
        if tree.function == names.CEL:
            return self._condition_text(tree)
        arguments = [self.expression(argument) for argument in tree.arguments]
        if tree.function in LOGICAL:
            return _logical(tree.function, arguments)
        of_xpath = XPATH_FUNCTIONS.get(tree.function)
        function = of_xpath or function_named(tree.function)
        check_arguments(function, [argument.type for argument in arguments])
        runs = [argument.run for argument in arguments]
        if of_xpath is not None:
            apply = of_xpath.apply
            return CompiledExpression(function.result, lambda context: apply(context, *(run(context) for run in runs)))
        return CompiledExpression(
            function.result, _applied(function.apply, runs) if function.cost is None else _charged(function, runs)
        )

    def _condition_text(self, tree: xacml.Apply) -> CompiledExpression:
        condition, arguments = split_arguments(tree.arguments)
        attributes = []
        for name, argument in arguments:
            compiled = self.expression(argument)
            if not compiled.type.is_bag:
                raise status.XacmlError(f"`{name}` of a condition is a bag, not {compiled.type}")
            attributes.append(named(name, compiled.type.data, compiled.run))
        return CompiledExpression(BOOLEAN, lambda context: holds(condition, attributes, context))

    def _higher(self, tree: xacml.Apply, higher: Higher) -> CompiledExpression:
        if not tree.arguments or not isinstance(tree.arguments[0], xacml.FunctionName):
            raise status.XacmlError(f"the first argument of `{tree.function}` is a function")
        function = function_named(tree.arguments[0].id)
        arguments = [self.expression(argument) for argument in tree.arguments[1:]]
        types = [argument.type for argument in arguments]
        result = check_higher(tree.function, higher, function, types)
        apply, cost, combine = function.apply, function.cost, higher.combine
        runs = [argument.run for argument in arguments]
        are_bags = [argument.is_bag for argument in types]

        def run(context: Context) -> Value:
            values = [run(context) for run in runs]
            bags = [value if is_bag else (value,) for value, is_bag in zip(values, are_bags, strict=True)]
            size = 1
            for bag in bags:
                size *= max(1, len(bag))
            context.charge(size)
            if cost is None:
                return combine(apply, bags)

            def charged(*members: Value) -> Value:
                context.charge(cost(*members))
                return apply(*members)

            return combine(charged, bags)

        return CompiledExpression(result, run)


def once(run: Run) -> Run:
    """Return the same evaluation, cached in a context: a variable or policy with many references is evaluated once."""

    def cached(context: Context) -> Value:
        key = id(cached)
        if key not in context.cache:
            try:
                context.cache[key] = run(context)
            except status.Indeterminate as error:
                context.cache[key] = error
        value = context.cache[key]
        if isinstance(value, status.Indeterminate):
            raise value
        return value

    return cached


def _applied(apply: Callable[..., Any], runs: list[Run]) -> Run:
    """Return a function of the values of its arguments, without a list for the usual few."""
    match runs:
        case [only]:
            return lambda context: apply(only(context))
        case [first, second]:
            return lambda context: apply(first(context), second(context))
    return lambda context: apply(*[run(context) for run in runs])


def _charged(function: XacmlFunction, runs: list[Run]) -> Run:
    """Return the same function, with a cost that depends on the values."""
    apply, cost = function.apply, function.cost
    assert cost is not None

    def run(context: Context) -> Value:
        values = [run(context) for run in runs]
        context.charge(1 + cost(*values))
        return apply(*values)

    return run


@lru_cache(maxsize=4096)  # many policies ask for the same few attributes
def designate(tree: xacml.Designator) -> Callable[[Context], Bag]:
    """Compile a designator to a function that returns the values of an attribute (7.3.5)."""
    missing = status.MissingAttribute(tree.category, tree.id, tree.type, tree.issuer)
    key = (tree.category, tree.id, tree.type)
    must = tree.must_be_present

    def find(context: Context) -> Bag:
        bag = context.bags.get(key, ())
        if must and not bag:
            raise status.lacking(missing)
        return bag

    if tree.issuer is None and key in TIMES:
        return lambda context: context.bag(key)
    if tree.issuer is None:
        return find
    of_issuer = (*key, tree.issuer)

    def find_issued(context: Context) -> Bag:
        bag = context.issued.get(of_issuer, ())
        if must and not bag:
            raise status.lacking(missing)
        return bag

    return find_issued


def select(tree: xacml.Selector) -> Callable[[Context], Bag]:
    """Compile a selector to a function that returns what XPath finds (7.3.7); raises `XacmlError` for a bad path."""
    compile_path(tree.path, tree.prefixes)
    missing = status.MissingAttribute(tree.category, tree.path, tree.type)

    def find(context: Context) -> Bag:
        nodes = context.select(tree.category, tree.path, tree.prefixes, tree.context_id)
        context.charge(len(nodes))
        try:
            bag = tuple(read_value(tree.type, text) for text in text_of(nodes, tree.path))
        except status.XacmlError as error:
            raise status.malformed(str(error)) from None
        if tree.must_be_present and not bag:
            raise status.lacking(missing)
        return bag

    return find


def check_arguments(function: XacmlFunction, types: Sequence[Type]) -> None:
    """Raise `XacmlError` if the function does not take arguments of these types."""
    if not function.accepts(len(types)):
        least = "at least " if function.rest is not None else ""
        raise status.ill_typed(f"`{function.id}` takes {least}{len(function.parameters)} arguments, not {len(types)}")
    for at, type_ in enumerate(types):
        if type_ != function.parameter(at):
            raise status.ill_typed(f"argument {at + 1} of `{function.id}` is {function.parameter(at)}, not {type_}")


def check_higher(name: str, higher: Higher, function: XacmlFunction, types: Sequence[Type]) -> Type:
    """Return the type of a higher-order function's value; raises `XacmlError`."""
    if not higher.fits([type_.is_bag for type_ in types]):
        raise status.ill_typed(f"`{name}` {higher.usage}")
    check_arguments(function, [Type(type_.data) for type_ in types])
    if higher.is_map:
        if function.result.is_bag:
            raise status.ill_typed(f"`{name}` takes no function that gives a bag")
        return Type(function.result.data, is_bag=True)
    if function.result != BOOLEAN:
        raise status.ill_typed(f"`{name}` takes a function that gives a boolean, not {function.result}")
    return BOOLEAN


def _logical(name: str, arguments: list[CompiledExpression]) -> CompiledExpression:
    kind = LOGICAL[name]
    types = [argument.type for argument in arguments]
    if kind == "n-of":
        if not types or types[0] != INTEGER:
            raise status.ill_typed(f"the first argument of `{name}` is an integer")
        types = types[1:]
    for type_ in types:
        if type_ != BOOLEAN:
            raise status.ill_typed(f"`{name}` takes booleans, not {type_}")
    runs = [argument.run for argument in arguments]
    if kind == "n-of":
        return CompiledExpression(BOOLEAN, lambda context: _n_of(runs[0](context), runs[1:], context))
    return CompiledExpression(BOOLEAN, _decided_by(runs, decisive=kind == "or"))


def _decided_by(runs: Iterable[Run], decisive: bool) -> Run:
    """Return the first deciding operand, whatever failed before it (A.3.5)."""
    runs = tuple(runs)

    def run(context: Context) -> bool:
        failure = None
        for operand in runs:
            try:
                if bool(operand(context)) == decisive:
                    return decisive
            except status.Indeterminate as error:
                failure = failure or error
        if failure is not None:
            raise failure
        return not decisive

    return run


def _n_of(needed: int, runs: Sequence[Run], context: Context) -> bool:
    if needed > len(runs):
        raise status.unprocessable(f"{needed} of {len(runs)} cannot be true")
    failures: list[status.Indeterminate] = []
    for at, run in enumerate(runs):
        if needed <= 0 or needed > len(runs) - at + len(failures):
            break
        try:
            needed -= run(context)
        except status.Indeterminate as error:
            failures.append(error)
    if 0 < needed <= len(failures):
        raise failures[0]
    return needed <= 0
