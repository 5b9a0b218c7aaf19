"""Expressions and targets of the short form (docs/xacml.md)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, product
from typing import Any

from penstock.language.tree import Attribute as CelAttribute
from penstock.language.tree import Has, Select, Tree, XPath, walk
from penstock.policy.xacml import names
from penstock.policy.xacml.forms.short_types import (
    ANY,
    EXACT,
    ValueKind,
    among_integers,
    kind_of,
    kind_of_type,
    kinds_asked,
)
from penstock.policy.xacml.functions.cel import LIST, condition_of
from penstock.policy.xacml.functions.table import FUNCTIONS, HIGHER, LOGICAL
from penstock.policy.xacml.functions.xpath import XPATH_FUNCTIONS
from penstock.policy.xacml.names import FUNCTION_1
from penstock.policy.xacml.status import XacmlError
from penstock.policy.xacml.tree import (
    AllOf,
    Apply,
    Designator,
    Expression,
    FunctionName,
    LiteralValue,
    Selector,
    Target,
    TargetMatch,
    VariableReference,
)
from penstock.policy.xacml.values.values import DATA_TYPES, SHORT_TYPES, read_value, type_named

_CATEGORIES = {
    "subject": names.SUBJECT,
    "resource": names.RESOURCE,
    "action": names.ACTION,
    "environment": names.ENVIRONMENT,
}


@dataclass(frozen=True, slots=True)
class NamedAttribute:
    """What a name such as `subject.age` stands for."""

    designator: Designator
    is_list: bool = False
    is_open: bool = False
    """True if its type is not said: what it is compared with decides, and the designator has that of texts."""


_KNOWN = {
    "subject.id": Designator(names.SUBJECT, "urn:oasis:names:tc:xacml:1.0:subject:subject-id", names.STRING, False),
    "resource.id": Designator(names.RESOURCE, "urn:oasis:names:tc:xacml:1.0:resource:resource-id", names.STRING, False),
    "action.id": Designator(names.ACTION, "urn:oasis:names:tc:xacml:1.0:action:action-id", names.STRING, False),
    "environment.time": Designator(names.ENVIRONMENT, names.CURRENT_TIME, names.TIME, False),
    "environment.date": Designator(names.ENVIRONMENT, names.CURRENT_DATE, names.DATE, False),
    "environment.now": Designator(names.ENVIRONMENT, names.CURRENT_DATE_TIME, names.DATE_TIME, False),
}

_OPERATORS = {
    # A match asks `function(value, attribute)`, so the sides are the other way round.
    "==": "equal",
    ">": "less-than",
    ">=": "less-than-or-equal",
    "<": "greater-than",
    "<=": "greater-than-or-equal",
    "matches": "regexp-match",
    "starts_with": "starts-with",
    "ends_with": "ends-with",
    "contains": "contains",
}
_SHORT_FUNCTIONS: dict[str, str] = {}
for _identifier in sorted(chain(FUNCTIONS, HIGHER, LOGICAL, XPATH_FUNCTIONS)):
    _SHORT_FUNCTIONS[_identifier.rpartition(":")[2]] = _identifier  # the latest of a name stays


def mapping(value: Any, what: str, *allowed: str) -> Mapping[str, Any]:
    """Return the value, if it is a mapping with no other names than these (any, if none are given); raises
    `XacmlError`.
    """
    if not isinstance(value, dict):
        raise XacmlError(f"{what} is a mapping")
    for name in value:
        if allowed and name not in allowed:
            raise XacmlError(f"`{name}` does not belong in {what}; there are {', '.join(allowed)}")
    return value


def text(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise XacmlError(f"{what} is a text, not `{value}`")
    return value


def sequence(value: Any, what: str) -> Sequence[Any]:
    if not isinstance(value, list):
        raise XacmlError(f"{what} is a list")
    return value


@dataclass(frozen=True, slots=True)
class AttributeNames:
    """The attributes that have names here; others have their own name as identifier."""

    known: Mapping[str, NamedAttribute] = field(default_factory=dict)

    def with_declared(self, declared: Any) -> "AttributeNames":
        """With more of them; raises `XacmlError`."""
        found = dict(self.known)
        for name, value in mapping(declared, "`attributes`").items():
            found[name] = _declared(name, value)
        return AttributeNames(found)

    def find(self, name: str) -> NamedAttribute:
        """Raises `XacmlError`."""
        if name in self.known:
            return self.known[name]
        if name in _KNOWN:
            return NamedAttribute(_KNOWN[name])
        of, point, rest = name.partition(".")
        if not point or not rest or of not in _CATEGORIES:
            raise XacmlError(f"`{name}` is not an attribute: expected {', '.join(_CATEGORIES)}, a point and a name")
        return NamedAttribute(Designator(_CATEGORIES[of], rest, names.STRING, False), is_open=True)


def _declared(name: str, value: Any) -> NamedAttribute:
    said = mapping(
        {"id": value} if isinstance(value, str) else value,
        f"`{name}`",
        *("id", "type", "category", "issuer", "required", "many"),
    )
    of, point, rest = name.partition(".")
    category = said.get("category", _CATEGORIES.get(of))
    if category is None or not point or not rest:
        raise XacmlError(f"`{name}`: expected {', '.join(_CATEGORIES)} and a point before its name, or a `category`")
    issuer = said.get("issuer")
    return NamedAttribute(
        Designator(
            names.CATEGORIES.get(text(category, "`category`"), category),
            text(said.get("id", rest), "`id`"),
            _type(said.get("type", "string")),
            _flag(said, "required"),
            None if issuer is None else text(issuer, "`issuer`"),
        ),
        _flag(said, "many"),
        "type" not in said,
    )


def _flag(said: Mapping[str, Any], name: str) -> bool:
    value = said.get(name, False)
    if not isinstance(value, bool):
        raise XacmlError(f"`{name}` is true or false")
    return value


def _type(value: Any) -> str:
    word = text(value, "`type`")
    return type_named(SHORT_TYPES.get(word, word))


# --- values


def literal(value: Any, type_uri: str | None = None) -> LiteralValue:
    """Return a value, of this type or of the one that it shows; raises `XacmlError`."""
    kinds = {bool: names.BOOLEAN, int: names.INTEGER, float: names.DOUBLE, str: names.STRING}
    if type(value) not in kinds:
        raise XacmlError(f"`{value}` is not a value")
    type_uri = type_uri or kinds[type(value)]
    shown = ("true" if value else "false") if isinstance(value, bool) else str(value)
    if any(not (each.isprintable() or each in "\t\n") for each in shown):
        raise XacmlError("a value with characters that XML cannot have")
    return LiteralValue(type_uri, read_value(type_uri, shown))


# --- targets

_MAX_ALTERNATIVES = 64
"""Of numbers whose types are not declared, in one alternative of a target."""


def target(value: Any, known: AttributeNames) -> Target:
    """Return a mapping: all of it must hold; a list of mappings: one of them. Raises `XacmlError`."""
    if isinstance(value, list):
        if not value:
            raise XacmlError("a target that is a list has an alternative at least")
        return (tuple(one for each in value for one in _alternative(each, known)),)
    parts = mapping(value, "a target")
    return tuple(_part(name, asked, known) for name, asked in parts.items())


def _alternative(value: Any, known: AttributeNames) -> list[AllOf]:
    found: list[AllOf] = [()]
    for name, asked in mapping(value, "an alternative of a target").items():
        if isinstance(asked, list):
            raise XacmlError(f"`{name}`: in a list of alternatives, each has one value; write more alternatives")
        found = [before + more for before, more in product(found, _matches(name, asked, known))]
        if len(found) > _MAX_ALTERNATIVES:
            raise XacmlError("too many numbers in an alternative of a target: declare types")
    if not all(found):
        raise XacmlError("an alternative of a target asks for something")
    return found


def _part(name: str, asked: Any, known: AttributeNames) -> tuple[AllOf, ...]:
    several = asked if isinstance(asked, list) else [asked]
    if not several:
        raise XacmlError(f"`{name}` is one of no values")
    return tuple(alternative for one in several for alternative in _matches(name, one, known))


def _matches(name: str, asked: Any, known: AttributeNames) -> list[AllOf]:
    """What is asked of an attribute, for each type that it may have: one of them must hold."""
    found = known.find(name)
    comparisons = list((asked if isinstance(asked, dict) else {"==": asked}).items())
    if not comparisons:
        raise XacmlError(f"`{name}` is asked for nothing")
    kinds = {kind for _, value in comparisons if (kind := kind_of(value)) is not None}
    if not found.is_open:
        return [_matches_of(name, found.designator, comparisons)]
    if len(kinds) > 1:
        raise XacmlError(f"`{name}` is compared with texts and with others at once: declare its type")
    if kinds != {ValueKind.NUMBER}:
        types = next(iter(kinds), ValueKind.TEXT).value
        return [_matches_of(name, replace(found.designator, type=one), comparisons) for one in types]
    if any(abs(value) >= EXACT for _, value in comparisons):
        raise XacmlError(f"`{name}` is compared with a number that not every type of numbers has: declare its type")
    sources = {one: replace(_unrequired(name, found.designator), type=one) for one in ValueKind.NUMBER.value}
    whole = [among_integers(operator, value) for operator, value in comparisons]
    made = [_matches_of(name, sources[names.DOUBLE], comparisons)]
    if None not in whole:
        made.insert(0, _matches_of(name, sources[names.INTEGER], [one for one in whole if one is not None]))
    return made


def _matches_of(name: str, source: Designator, comparisons: Sequence[tuple[str, Any]]) -> AllOf:
    short = DATA_TYPES[source.type].name
    found = []
    for operator, value in comparisons:
        function = _SHORT_FUNCTIONS.get(f"{short}-{_OPERATORS.get(operator)}")
        if function is None:
            raise XacmlError(f"`{name}`: there is no `{operator}` for {short}; there are {', '.join(_OPERATORS)}")
        type_uri = FUNCTIONS[function].parameters[0].data
        kind = kind_of(value)
        if kind in (ValueKind.NUMBER, ValueKind.BOOLEAN) and kind is not kind_of_type(type_uri):
            raise XacmlError(
                f"`{name}` is of type {short}, and `{value}` is a {kind.name.lower()}: write it in quotes, or"
                " declare another type"
            )
        found.append(TargetMatch(function, literal(value, type_uri), source))
    return tuple(found)


def _unrequired(name: str, source: Designator) -> Designator:
    if source.must_be_present:
        raise XacmlError(f"`{name}` is required, and compared with a number: declare its type")
    return source


# --- expressions


def condition(value: Any, known: AttributeNames) -> Expression:
    """What is true or false: a condition as text, `all`, `any`, `not`, or an expression; raises `XacmlError`."""
    if isinstance(value, bool):
        return literal(value)
    if isinstance(value, str):
        return _cel(value, known)
    said = mapping(value, "a condition")
    if len(said) == 1:
        ((word, inside),) = said.items()
        if word in ("all", "any"):
            operands = tuple(condition(one, known) for one in sequence(inside, f"`{word}`"))
            return Apply(FUNCTION_1 + ("and" if word == "all" else "or"), operands)
        if word == "not":
            return Apply(FUNCTION_1 + "not", (condition(inside, known),))
    return expression(value, known)


def _cel(value: str, known: AttributeNames) -> Expression:
    """Return a name is there once for each type that the attribute may have."""
    tree = condition_of(value).tree
    asked = {name: known.find(name) for name in _asked(tree)}
    kinds = kinds_asked(
        tree, {name: kind_of_type(one.designator.type) for name, one in asked.items() if not one.is_open}
    )
    arguments: list[Expression] = [literal(value)]
    for name, found in asked.items():
        for type_uri in _types(name, found, kinds.get(name)):
            arguments += (literal(name + (LIST if found.is_list else "")), replace(found.designator, type=type_uri))
    return Apply(names.CEL, tuple(arguments))


def _types(name: str, found: NamedAttribute, kind: ValueKind | None) -> tuple[str, ...]:
    if not found.is_open:
        return (found.designator.type,)
    if kind is ValueKind.NUMBER:
        _unrequired(name, found.designator)
    if kind is None:
        return ValueKind.TEXT.value if found.designator.must_be_present else ANY
    return kind.value


def _asked(tree: Tree) -> list[str]:
    """Return the attributes that a condition names."""
    found: dict[str, None] = {}
    inside: set[int] = set()
    for node, _ in walk(tree):
        match node:
            case Select(CelAttribute(of) as operand, name) | Has(CelAttribute(of) as operand, name):
                found[f"{of}.{name}"] = None
                inside.add(id(operand))
            case CelAttribute(name) if id(node) not in inside:
                raise XacmlError(f"`{name}` in a condition: expected a category, a point and a name")
            case Has(None, name):
                raise XacmlError(f"`has({name})` in a condition: expected `has(subject.{name})`, or another category")
            case XPath():
                raise XacmlError("`xpath` in a condition: write it as an expression, with `xpath` and `category`")
    return list(found)


_WORDS = ("value", "attribute", "variable", "function", "xpath", "cel", "all", "any", "not", "apply")
"""What an expression that is a mapping is, by which of them it has: its keys have no order."""


def expression(value: Any, known: AttributeNames) -> Expression:
    """Return a value, an attribute, a variable, XPath, a condition or a function applied; raises `XacmlError`."""
    if not isinstance(value, dict):
        return literal(value)
    words = [word for word in _WORDS if word in value]
    match words[0] if len(words) == 1 else "":
        case "value":
            said = mapping(value, "a value", "value", "type")
            return literal(said["value"], _type(said["type"]) if "type" in said else None)
        case "attribute":
            said = mapping(value, "an attribute", "attribute")
            return known.find(text(said["attribute"], "`attribute`")).designator
        case "variable":
            return VariableReference(text(mapping(value, "a variable", "variable")["variable"], "`variable`"))
        case "function":
            return FunctionName(_function(mapping(value, "a function", "function")["function"]))
        case "xpath":
            return _selector(value)
        case "cel":
            return _cel(text(mapping(value, "a condition", "cel")["cel"], "`cel`"), known)
        case "all" | "any" | "not":
            return condition(value, known)
        case "apply":
            said = mapping(value, "a function applied", "apply", "to")
            arguments = tuple(expression(one, known) for one in sequence(said.get("to", []), "`to`"))
            return Apply(_function(said["apply"]), arguments)
    found = ", ".join(f"`{name}`" for name in value) or "nothing"
    raise XacmlError(f"expected one of {', '.join(_WORDS)}, found {found}")


def _function(value: Any) -> str:
    word = text(value, "a function")
    return _SHORT_FUNCTIONS.get(word, word)


def _selector(value: Any) -> Selector:
    said = mapping(value, "XPath", "xpath", "category", "type", "required", "prefixes", "from")
    category = text(said.get("category", "resource"), "`category`")
    prefixes = mapping(said.get("prefixes", {}), "`prefixes`")
    start = said.get("from")
    return Selector(
        _CATEGORIES.get(category, category),
        text(said["xpath"], "`xpath`"),
        _type(said.get("type", "string")),
        _flag(said, "required"),
        None if start is None else text(start, "`from`"),
        tuple(sorted((prefix, text(uri, "a namespace")) for prefix, uri in prefixes.items())),
    )
