"""The checker: finds what is wrong with a condition before it meets content, and says it with its place."""

from collections.abc import Callable, Mapping

from penstock.language import tree as ast
from penstock.language import types
from penstock.language.errors import ConditionError, EvaluationError
from penstock.language.evaluators.functions import FUNCTIONS, METHODS, OPERATORS, Overloads
from penstock.language.evaluators.patterns import compiled
from penstock.language.evaluators.times import duration_from_string, timestamp_from_string
from penstock.language.limits import MAX_MACROS, MAX_XPATH
from penstock.language.words import hint
from penstock.model.content.xpath import compile_xpath
from penstock.model.errors import ContentError

_LITERALS: dict[str, types.Type] = {"null_type": types.NULL}
_UNORDERED = frozenset({types.NULL, types.TYPE})
_ONLY_BOOL = {"!": (types.BOOL,)}
_SIGNED = (types.INT, types.DOUBLE)
_READERS: dict[str, Callable[[str], object]] = {
    "matches": compiled,
    "timestamp": timestamp_from_string,
    "duration": duration_from_string,
}


def check(tree: ast.Tree, text: str, declared: types.RecordType = types.ANYTHING) -> types.Type:
    """Return the type of an expression over content of the declared attributes; raises `ConditionError`."""
    return _Checker(text, declared).type_of(tree, {})


def check_condition(tree: ast.Tree, text: str, declared: types.RecordType = types.ANYTHING) -> None:
    """Check a condition, which is true or false; raises `ConditionError`."""
    kind = check(tree, text, declared)
    if not types.accepts(types.BOOL, kind):
        raise ConditionError(f"a condition is true or false, this is {_a(kind)}{_type_hint(tree)}", text, tree.at)


def _a(type_: types.Type) -> str:
    return f"{'an' if str(type_)[0] in 'ai' else 'a'} {type_}" if type_ != types.NULL else "null"


def _elements_of(container: types.Type) -> types.Type | None:
    """Return the type of what `in` and macros go through; None if it is neither a list nor a map."""
    match container:
        case types.ListType(element) | types.MapType(element, _):
            return element
        case types.RecordType():
            return types.STRING
    return types.DYN if container == types.DYN else None


Scope = Mapping[str, types.Type]


class _Checker:
    def __init__(self, text: str, declared: types.RecordType) -> None:
        self._text = text
        self._declared = declared
        self._macros = 0

    def type_of(self, node: ast.Tree, scope: Scope) -> types.Type:
        match node:
            case ast.Literal(kind, _):
                return _LITERALS.get(kind, types.ScalarType(kind))
            case ast.TypeLiteral():
                return types.TYPE
            case ast.Attribute(name):
                return self._field(self._declared, name, node.at)
            case ast.Variable(name):
                return scope[name]
            case ast.Select(operand, name) | ast.Has(operand, name):
                return self._selected(node, operand, name, scope)
            case ast.IndexAccess(operand, index):
                return self._indexed(node, self.type_of(operand, scope), self.type_of(index, scope))
            case ast.Call():
                return self._called(node, scope)
            case ast.XPath(expression):
                return self._xpath(expression, node.at)
            case ast.Unary(operator, operand):
                return self._unary(node, operator, self.type_of(operand, scope))
            case ast.Binary():
                return self._binary(node, self.type_of(node.left, scope), self.type_of(node.right, scope))
            case ast.And(operands) | ast.Or(operands):
                for operand in operands:
                    self._expect_bool("&&" if isinstance(node, ast.And) else "||", operand, scope)
                return types.BOOL
            case ast.Conditional(condition, yes, no):
                self._expect_bool("?", condition, scope)
                return types.joined([self.type_of(yes, scope), self.type_of(no, scope)])
            case ast.ListOf(items):
                return types.ListType(types.joined([self.type_of(item, scope) for item in items]))
            case ast.MapOf():
                return self._map(node, scope)
            case ast.Macro():
                return self._macro(node, scope)

    def _field(self, record: types.RecordType, name: str, at: int) -> types.Type:
        kind = record.field(name)
        if kind is None:
            raise self._problem(f"there is no attribute `{name}`{hint(name, record.fields)}", at)
        return kind

    def _selected(self, node: ast.Select | ast.Has, operand: ast.Tree | None, name: str, scope: Scope) -> types.Type:
        if operand is None:
            self._field(self._declared, name, node.at)
            return types.BOOL
        operand_type = self.type_of(operand, scope)
        kind: types.Type = types.DYN
        if isinstance(operand_type, types.RecordType):
            kind = self._field(operand_type, name, node.at)
        elif isinstance(operand_type, types.MapType):
            kind = operand_type.value
        elif operand_type != types.DYN:
            raise self._wrong(node.at, f"`.{name}` is a field of {_a(operand_type)}, which has none", operand)
        return types.BOOL if isinstance(node, ast.Has) else kind

    def _indexed(self, node: ast.IndexAccess, operand_type: types.Type, key: types.Type) -> types.Type:
        match operand_type:
            case types.ListType(element) if key == types.DYN or key in types.NUMBERS:
                return element
            case types.ListType():
                raise self._problem(f"elements of a list have numbers, this is {_a(key)}", node.at)
            case types.MapType(_, value):
                return value
            case types.RecordType() if types.accepts(types.STRING, key):
                match node.index:
                    case ast.Literal("string", str(name)):
                        return self._field(operand_type, name, node.index.at)
                return types.DYN
            case types.ScalarType() if operand_type == types.DYN:
                return types.DYN
            case _:
                raise self._wrong(node.at, f"`[]` takes a list or a map, this is {_a(operand_type)}", node.operand)

    def _called(self, node: ast.Call, scope: Scope) -> types.Type:
        types_given = [self.type_of(operand, scope) for operand in node.operands]
        table = FUNCTIONS if node.receiver is None else METHODS
        overloads = table.get(node.function)
        if overloads is None:
            raise self._problem(self._unknown(node), node.at)
        self._check_count(node, overloads)
        result = self._result(node.function, overloads, node, types_given)
        self._check_constants(node)
        return result

    def _unknown(self, node: ast.Call) -> str:
        name = node.function
        if node.receiver is None and name in METHODS:
            return f"`{name}` comes after what it is about: `x.{name}(…)`"
        if node.receiver is not None and name in FUNCTIONS:
            return f"`{name}` comes before what it is about: `{name}(x)`"
        return f"there is no function `{name}`{hint(name, FUNCTIONS if node.receiver is None else METHODS)}"

    def _check_count(self, node: ast.Call, overloads: Overloads) -> None:
        receivers = 0 if node.receiver is None else 1
        counts = sorted({len(key) - receivers for key in overloads})
        if len(node.arguments) not in counts:
            allowed = " or ".join(map(str, counts))
            plural = "" if counts[-1] == 1 else "s"
            what = f"`{node.function}` takes {allowed} argument{plural}, there are {len(node.arguments)}"
            raise self._problem(what.replace("there are 1", "there is 1"), node.at)

    def _result(
        self, function: str, overloads: Overloads, node: ast.Call | ast.Binary, types_given: list[types.Type]
    ) -> types.Type:
        results = [
            overload.result
            for key, overload in overloads.items()
            if len(key) == len(types_given) and all(map(types.accepts, map(types.of_python, key), types_given))
        ]
        if not results:
            what = f"`{function}` does not take {' and '.join(map(_a, types_given))}"
            raise self._wrong(node.at, what, *ast.children(node))
        return types.joined(results)

    def _check_constants(self, node: ast.Call) -> None:
        """Check patterns, timestamps and durations that are literals."""
        match node:
            case ast.Call("matches" | "timestamp" | "duration", _, (*_, ast.Literal("string", str(text)) as argument)):
                try:
                    _READERS[node.function](text)
                except EvaluationError as error:
                    raise self._problem(error.failure.reason, argument.at) from None

    def _xpath(self, expression: str, at: int) -> types.Type:
        if not expression.strip():
            raise self._problem("an XPath expression cannot be empty", at)
        if len(expression) > MAX_XPATH:
            raise self._problem(f"an XPath expression has at most {MAX_XPATH} characters", at)
        if (open_mark := _unclosed(expression)) is not None:
            raise self._problem(f"`{open_mark}` in this XPath expression has no partner", at)
        try:
            compile_xpath(expression)
        except ContentError as error:
            raise self._problem(str(error), at) from None
        return types.DYN

    def _unary(self, node: ast.Unary, operator: str, operand_type: types.Type) -> types.Type:
        allowed = _ONLY_BOOL.get(operator, _SIGNED)
        if not any(types.accepts(kind, operand_type) for kind in allowed):
            raise self._problem(f"`{operator}` does not take {_a(operand_type)}", node.at)
        return types.BOOL if operator == "!" else operand_type

    def _binary(self, node: ast.Binary, left: types.Type, right: types.Type) -> types.Type:
        symbol = node.operator
        if symbol in ast.EQUALITY:
            if not types.comparable(left, right):
                raise self._wrong(node.at, f"{_a(left)} and {_a(right)} are never equal", node.left, node.right)
            return types.BOOL
        if symbol in ast.ORDER:
            self._check_order(node, left, right)
            return types.BOOL
        if symbol == "in":
            self._check_in(node, left, right)
            return types.BOOL
        return self._result(symbol, OPERATORS[symbol], node, [left, right])

    def _check_order(self, node: ast.Binary, left: types.Type, right: types.Type) -> None:
        both_numbers = left in types.NUMBERS and right in types.NUMBERS
        for kind in (left, right):
            if kind in _UNORDERED or not isinstance(kind, types.ScalarType):
                raise self._wrong(node.at, f"`{node.operator}` does not take {_a(kind)}", node.left, node.right)
        if not both_numbers and not types.accepts(left, right):
            raise self._wrong(
                node.at, f"`{node.operator}` does not take {_a(left)} and {_a(right)}", node.left, node.right
            )

    def _check_in(self, node: ast.Binary, left: types.Type, right: types.Type) -> None:
        inside = _elements_of(right)
        if inside is None:
            raise self._wrong(node.at, f"`in` takes a list or a map on its right, this is {_a(right)}", node.right)
        if not types.comparable(left, inside):
            container = "list" if isinstance(right, types.ListType) else "map"
            raise self._problem(f"{_a(left)} is never in a {container} of {inside}s", node.at)

    def _expect_bool(self, symbol: str, operand: ast.Tree, scope: Scope) -> None:
        operand_type = self.type_of(operand, scope)
        if not types.accepts(types.BOOL, operand_type):
            what = f"`{symbol}` takes what is true or false, this is {_a(operand_type)}"
            raise self._wrong(operand.at, what, operand)

    def _map(self, node: ast.MapOf, scope: Scope) -> types.Type:
        keys = [self.type_of(key, scope) for key, _ in node.entries]
        for (key, _), key_type in zip(node.entries, keys, strict=True):
            if key_type not in (types.DYN, types.INT, types.UINT, types.BOOL, types.STRING):
                raise self._problem(f"{_a(key_type)} cannot be the key of a map", key.at)
        values = [self.type_of(value, scope) for _, value in node.entries]
        return types.MapType(types.joined(keys), types.joined(values))

    def _macro(self, node: ast.Macro, scope: Scope) -> types.Type:
        range_type = self.type_of(node.range, scope)
        element = _elements_of(range_type)
        if element is None:
            raise self._wrong(node.at, f"`{node.name}` takes a list or a map, this is {_a(range_type)}", node.range)
        self._macros += 1
        if self._macros > MAX_MACROS:
            raise self._problem(f"more than {MAX_MACROS} macros inside each other", node.at)
        body_type = self._inside_macro(node, {**scope, node.variable: element})
        self._macros -= 1
        return types.ListType(element) if node.name == "filter" else body_type

    def _inside_macro(self, node: ast.Macro, scope: Scope) -> types.Type:
        if node.name == "map":
            if node.guard is not None:
                self._expect_bool(node.name, node.guard, scope)
            return types.ListType(self.type_of(node.body, scope))
        self._expect_bool(node.name, node.body, scope)
        return types.BOOL

    def _wrong(self, at: int, what: str, *nodes: ast.Tree) -> ConditionError:
        """Return the error of a type that is wrong; `nodes` are what has it."""
        return self._problem(what + _type_hint(*nodes), at)

    def _problem(self, what: str, at: int) -> ConditionError:
        return ConditionError(what, self._text, at)


def _type_hint(*nodes: ast.Tree) -> str:
    """Return a hint if a type's name stands where an attribute was meant; else an empty text."""
    for side in nodes:
        if isinstance(side, ast.TypeLiteral):
            return f"; `{side.name}` is a type here, the attribute is `.{side.name}`"
    return ""


def _unclosed(expression: str) -> str | None:
    """Return a bracket or a quotation mark in an XPath expression that has no partner."""
    partners = {")": "(", "]": "["}
    waiting: list[str] = []
    quote = ""
    for character in expression:
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character in "([":
            waiting.append(character)
        elif character in partners and (not waiting or waiting.pop() != partners[character]):
            return character
    return quote or (waiting[-1] if waiting else None)
