"""The reference evaluator: one line for each thing that the language says. Slow; the oracle for the others."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from penstock.language import tree as ast
from penstock.language.errors import EvaluationError, Failure, FailureKind, Outcome, failed
from penstock.language.evaluators import functions
from penstock.language.evaluators.work import Work, charge, parts
from penstock.language.printer import show
from penstock.language.values import TypeName, Uint, Value, keys, make_map, no_overload, type_text

FindXPath = Callable[[str, Work], Value]
"""Evaluates an XPath expression on the content, paid for in steps; raises `EvaluationError` if it cannot."""


def no_xml(expression: str, work: Work) -> Value:
    """Raise `EvaluationError`: the content is not XML."""
    raise failed(FailureKind.UNREADABLE_CONTENT, f"the content is not XML, so `{expression}` finds nothing in it")


def evaluate(tree: ast.Tree, attributes: Mapping[str, Value], xpath: FindXPath = no_xml) -> Value | Failure:
    """Return the value of an expression over content, or the failure that it comes to."""
    try:
        return _Reference(attributes, xpath).value(tree, {})
    except EvaluationError as error:
        return error.failure


def steps(tree: ast.Tree, attributes: Mapping[str, Value], xpath: FindXPath = no_xml) -> int:
    """Return the steps of an evaluation, whatever its result."""
    evaluation = _Reference(attributes, xpath)
    with suppress(EvaluationError):
        evaluation.value(tree, {})
    return int(evaluation.work[0])


def decide(tree: ast.Tree, attributes: Mapping[str, Value], xpath: FindXPath = no_xml) -> Outcome:
    """Return the outcome of a condition used as policy; a value that is neither true nor false is a failure."""
    return as_outcome(evaluate(tree, attributes, xpath))


def as_outcome(value: Value | Failure) -> Outcome:
    """Convert the value of a condition to an outcome."""
    if isinstance(value, bool | Failure):
        return value
    return Failure(FailureKind.NO_MATCHING_OVERLOAD, f"a condition is true or false, this is {type_text(value)}")


Scope = Mapping[str, Value]


class _Reference:
    def __init__(self, attributes: Mapping[str, Value], xpath: FindXPath) -> None:
        self._attributes = attributes
        self._xpath = xpath
        self.work: Work = [0]

    def value(self, node: ast.Tree, scope: Scope) -> Value:
        match node:
            case ast.Literal(kind, value):
                return Uint(value) if kind == "uint" and isinstance(value, int) else value
            case ast.TypeLiteral(name):
                return TypeName(name)
            case ast.Attribute(name):
                if name not in self._attributes:
                    raise functions.missing(show(node))
                return self._attributes[name]
            case ast.Variable(name):
                return scope[name]
            case ast.Select(operand, name):
                return functions.select(self.value(operand, scope), name, show(node))
            case ast.Has(None, name):
                return name in self._attributes
            case ast.Has(operand, name) if operand is not None:
                return functions.has_field(self.value(operand, scope), name, show(ast.Select(operand, name)))
            case ast.IndexAccess(operand, key):
                return functions.index(self.value(operand, scope), self.value(key, scope))
            case ast.Call(function, receiver, _):
                arguments = tuple([self.value(operand, scope) for operand in node.operands])
                overloads = (functions.FUNCTIONS if receiver is None else functions.METHODS).get(function)
                return functions.call(function, overloads, arguments, self.work, functions.is_written(node.operands))
            case ast.XPath(expression):
                return self._xpath(expression, self.work)
            case ast.Unary(operator, operand):
                return (functions.invert if operator == "!" else functions.negate)(self.value(operand, scope))
            case ast.Binary(operator, left, right):
                values = self.value(left, scope), self.value(right, scope)
                return functions.calculate(operator, *values, self.work, isinstance(right, ast.ListOf))
            case ast.And(operands):
                return self._combined("&&", False, ((operand, scope) for operand in operands))
            case ast.Or(operands):
                return self._combined("||", True, ((operand, scope) for operand in operands))
            case ast.Conditional(condition, yes, no):
                return self.value(yes if self._truth("?", condition, scope) else no, scope)
            case ast.ListOf(items):
                return [self.value(item, scope) for item in items]
            case ast.MapOf(entries):
                return make_map([(self.value(key, scope), self.value(value, scope)) for key, value in entries])
            case ast.Macro():
                return self._macro(node, scope)
            case _:
                raise TypeError(f"not a tree: {node!r}")

    def _truth(self, symbol: str, node: ast.Tree, scope: Scope) -> bool:
        value = self.value(node, scope)
        if type(value) is not bool:
            raise no_overload(symbol, value)
        return value

    def _combined(self, symbol: str, deciding: bool, places: Iterable[tuple[ast.Tree, Scope]]) -> bool:
        """Return the first deciding operand, even if others fail, as CEL says; else raise the first error."""
        error: Failure | None = None
        for node, scope in places:
            try:
                if self._truth(symbol, node, scope) is deciding:
                    return deciding
            except EvaluationError as raised:
                error = raised.failure if error is None else error
        if error is not None:
            raise EvaluationError(error)
        return not deciding

    def _macro(self, node: ast.Macro, scope: Scope) -> Value:
        elements = self.value(node.range, scope)
        if type(elements) not in (list, dict):
            raise no_overload(node.name, elements)
        charge(self.work, len(elements) * parts(node.guard, node.body))
        if type(elements) is dict:
            elements = keys(elements)
        scopes = ({**scope, node.variable: element} for element in elements)
        match node.name:
            case "all" | "exists" as name:
                return self._combined(name, name == "exists", ((node.body, inner) for inner in scopes))
            case "exists_one":
                return sum([self._truth("exists_one", node.body, inner) for inner in scopes]) == 1
            case "filter":
                return [inner[node.variable] for inner in scopes if self._truth("filter", node.body, inner)]
            case _:
                guard = node.guard
                return [
                    self.value(node.body, inner)
                    for inner in scopes
                    if guard is None or self._truth("map", guard, inner)
                ]
