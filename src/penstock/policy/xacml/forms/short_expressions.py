"""Expressions and targets of the short form (docs/xacml.md)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, product
from typing import Any

from penstock.language.tree import Attribute as CelAttribute
from penstock.language.tree import Has, Select, Tree, XPath, walk
from penstock.policy.xacml import names
from penstock.policy.xacml import tree as xacml
from penstock.policy.xacml.forms import short_types as types
from penstock.policy.xacml.functions.cel import LIST, condition_of
from penstock.policy.xacml.functions.table import FUNCTIONS, HIGHER, LOGICAL
from penstock.policy.xacml.functions.xpath import XPATH_FUNCTIONS
from penstock.policy.xacml.names import FUNCTION_1, SHORT_CATEGORIES
from penstock.policy.xacml.status import XacmlError
from penstock.policy.xacml.values.values import DATA_TYPES, SHORT_TYPES, read_value, type_named

_CATEGORIES = ", ".join(SHORT_CATEGORIES)


@dataclass(frozen=True, slots=True)
class NamedAttribute:
    """The attribute that a name such as `subject.age` stands for."""

    designator: xacml.Designator
    is_list: bool = False
    is_open: bool = False
    """True if its type is not declared: it follows from comparisons, and the designator has the type of texts."""


_KNOWN = {
    "subject.id": xacml.Designator(names.SUBJECT, names.SUBJECT_ID, names.STRING, False),
    "resource.id": xacml.Designator(names.RESOURCE, names.RESOURCE_ID, names.STRING, False),
    "action.id": xacml.Designator(names.ACTION, names.ACTION_ID, names.STRING, False),
    "environment.time": xacml.Designator(names.ENVIRONMENT, names.CURRENT_TIME, names.TIME, False),
    "environment.date": xacml.Designator(names.ENVIRONMENT, names.CURRENT_DATE, names.DATE, False),
    "environment.now": xacml.Designator(names.ENVIRONMENT, names.CURRENT_DATE_TIME, names.DATE_TIME, False),
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
    """Check that a value is a mapping with only these keys (any, if none are given); raises `XacmlError`."""
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
    """Declared attributes by name; other names are their own identifier."""

    known: Mapping[str, NamedAttribute] = field(default_factory=dict)

    def with_declared(self, declared: Any) -> "AttributeNames":
        """Return the names with these declarations; raises `XacmlError`."""
        names_known = dict(self.known)
        for name, value in mapping(declared, "`attributes`").items():
            names_known[name] = _declared(name, value)
        return AttributeNames(names_known)

    def find(self, name: str) -> NamedAttribute:
        """Return the attribute of a name; raises `XacmlError`."""
        if name in self.known:
            return self.known[name]
        if name in _KNOWN:
            return NamedAttribute(_KNOWN[name])
        of, point, rest = name.partition(".")
        if not point or not rest or of not in SHORT_CATEGORIES:
            raise XacmlError(f"`{name}` is not an attribute: expected {_CATEGORIES}, a point and a name")
        return NamedAttribute(xacml.Designator(SHORT_CATEGORIES[of], rest, names.STRING, False), is_open=True)


def _declared(name: str, value: Any) -> NamedAttribute:
    written = {"id": value} if isinstance(value, str) else value
    fields = mapping(written, f"`{name}`", "id", "type", "category", "issuer", "required", "many")
    of, point, rest = name.partition(".")
    category = fields.get("category", SHORT_CATEGORIES.get(of))
    if category is None or not point or not rest:
        raise XacmlError(f"`{name}`: expected {_CATEGORIES} and a point before its name, or a `category`")
    issuer = fields.get("issuer")
    return NamedAttribute(
        xacml.Designator(
            names.CATEGORIES.get(text(category, "`category`"), category),
            text(fields.get("id", rest), "`id`"),
            _type(fields.get("type", "string")),
            _flag(fields, "required"),
            None if issuer is None else text(issuer, "`issuer`"),
        ),
        _flag(fields, "many"),
        "type" not in fields,
    )


def _flag(fields: Mapping[str, Any], name: str) -> bool:
    value = fields.get(name, False)
    if not isinstance(value, bool):
        raise XacmlError(f"`{name}` is true or false")
    return value


def _type(value: Any) -> str:
    word = text(value, "`type`")
    return type_named(SHORT_TYPES.get(word, word))


# --- values


def literal(value: Any, type_uri: str | None = None) -> xacml.LiteralValue:
    """Make a literal of this type, or of the type of the value; raises `XacmlError`."""
    kinds = {bool: names.BOOLEAN, int: names.INTEGER, float: names.DOUBLE, str: names.STRING}
    if type(value) not in kinds:
        raise XacmlError(f"`{value}` is not a value")
    type_uri = type_uri or kinds[type(value)]
    shown = ("true" if value else "false") if isinstance(value, bool) else str(value)
    if any(not (character.isprintable() or character in "\t\n") for character in shown):
        raise XacmlError("a value with characters that XML cannot have")
    return xacml.LiteralValue(type_uri, read_value(type_uri, shown))


# --- targets

_MAX_ALTERNATIVES = 64
"""Of numbers whose types are not declared, in one alternative of a target."""


def target(value: Any, known: AttributeNames) -> xacml.Target:
    """Read a target. Of a mapping all must hold; of a list of mappings, one. Raises `XacmlError`."""
    if isinstance(value, list):
        if not value:
            raise XacmlError("a target that is a list has an alternative at least")
        return (tuple(all_of for item in value for all_of in _alternative(item, known)),)
    parts = mapping(value, "a target")
    return tuple(_part(name, asked, known) for name, asked in parts.items())


def _alternative(value: Any, known: AttributeNames) -> list[xacml.AllOf]:
    alternatives: list[xacml.AllOf] = [()]
    for name, asked in mapping(value, "an alternative of a target").items():
        if isinstance(asked, list):
            raise XacmlError(f"`{name}`: in a list of alternatives, each has one value; write more alternatives")
        alternatives = [before + more for before, more in product(alternatives, _matches(name, asked, known))]
        if len(alternatives) > _MAX_ALTERNATIVES:
            raise XacmlError("too many numbers in an alternative of a target: declare types")
    if not all(alternatives):
        raise XacmlError("an alternative of a target is empty")
    return alternatives


def _part(name: str, asked: Any, known: AttributeNames) -> tuple[xacml.AllOf, ...]:
    items = asked if isinstance(asked, list) else [asked]
    if not items:
        raise XacmlError(f"`{name}` is one of no values")
    return tuple(alternative for item in items for alternative in _matches(name, item, known))


def _matches(name: str, asked: Any, known: AttributeNames) -> list[xacml.AllOf]:
    """Return the matches on an attribute for each type that it may have: one of them must hold."""
    attribute = known.find(name)
    comparisons = list((asked if isinstance(asked, dict) else {"==": asked}).items())
    if not comparisons:
        raise XacmlError(f"`{name}` is asked for nothing")
    kinds = {kind for _, value in comparisons if (kind := types.kind_of(value)) is not None}
    if not attribute.is_open:
        return [_matches_of(name, attribute.designator, comparisons)]
    if len(kinds) > 1:
        raise XacmlError(f"`{name}` is compared with texts and with others at once: declare its type")
    if kinds != {types.ValueKind.NUMBER}:
        uris = next(iter(kinds), types.ValueKind.TEXT).value
        return [_matches_of(name, replace(attribute.designator, type=type_uri), comparisons) for type_uri in uris]
    if any(abs(value) >= types.EXACT for _, value in comparisons):
        raise XacmlError(f"`{name}` is compared with a number that not every type of numbers has: declare its type")
    _check_unrequired(name, attribute.designator)
    sources = {uri: replace(attribute.designator, type=uri) for uri in types.ValueKind.NUMBER.value}
    whole = [types.among_integers(operator, value) for operator, value in comparisons]
    matches = [_matches_of(name, sources[names.DOUBLE], comparisons)]
    if None not in whole:
        integers = [comparison for comparison in whole if comparison is not None]
        matches.insert(0, _matches_of(name, sources[names.INTEGER], integers))
    return matches


def _matches_of(name: str, source: xacml.Designator, comparisons: Sequence[tuple[str, Any]]) -> xacml.AllOf:
    short = DATA_TYPES[source.type].name
    matches = []
    for operator, value in comparisons:
        function = _SHORT_FUNCTIONS.get(f"{short}-{_OPERATORS.get(operator)}")
        if function is None:
            raise XacmlError(f"`{name}`: there is no `{operator}` for {short}; there are {', '.join(_OPERATORS)}")
        type_uri = FUNCTIONS[function].parameters[0].data
        kind = types.kind_of(value)
        if kind in (types.ValueKind.NUMBER, types.ValueKind.BOOLEAN) and kind is not types.kind_of_type(type_uri):
            raise XacmlError(
                f"`{name}` is of type {short}, and `{value}` is a {kind.name.lower()}: write it in quotes, or"
                " declare another type"
            )
        matches.append(xacml.TargetMatch(function, literal(value, type_uri), source))
    return tuple(matches)


def _check_unrequired(name: str, source: xacml.Designator) -> None:
    if source.must_be_present:
        raise XacmlError(f"`{name}` is required, and compared with a number: declare its type")


# --- expressions


def condition(value: Any, known: AttributeNames) -> xacml.Expression:
    """Read what is true or false: a condition as text, `all`, `any`, `not`, or another; raises `XacmlError`."""
    if isinstance(value, bool):
        return literal(value)
    if isinstance(value, str):
        return _cel(value, known)
    fields = mapping(value, "a condition")
    if len(fields) == 1:
        ((word, inside),) = fields.items()
        if word in ("all", "any"):
            operands = tuple(condition(item, known) for item in sequence(inside, f"`{word}`"))
            return xacml.Apply(FUNCTION_1 + ("and" if word == "all" else "or"), operands)
        if word == "not":
            return xacml.Apply(FUNCTION_1 + "not", (condition(inside, known),))
    return expression(value, known)


def _cel(value: str, known: AttributeNames) -> xacml.Expression:
    """Compile a condition. A name is there once for each type that its attribute may have."""
    tree = condition_of(value).tree
    attributes = {name: known.find(name) for name in _asked(tree)}
    declared = {name: attribute.designator.type for name, attribute in attributes.items() if not attribute.is_open}
    kinds = types.kinds_asked(tree, {name: types.kind_of_type(uri) for name, uri in declared.items()})
    arguments: list[xacml.Expression] = [literal(value)]
    for name, attribute in attributes.items():
        for type_uri in _types(name, attribute, kinds.get(name)):
            shown = literal(name + (LIST if attribute.is_list else ""))
            arguments += (shown, replace(attribute.designator, type=type_uri))
    return xacml.Apply(names.CEL, tuple(arguments))


def _types(name: str, attribute: NamedAttribute, kind: types.ValueKind | None) -> tuple[str, ...]:
    if not attribute.is_open:
        return (attribute.designator.type,)
    if kind is types.ValueKind.NUMBER:
        _check_unrequired(name, attribute.designator)
    if kind is None:
        return types.ValueKind.TEXT.value if attribute.designator.must_be_present else types.ANY
    return kind.value


def _asked(tree: Tree) -> list[str]:
    """Return the attributes that a condition names."""
    asked_names: dict[str, None] = {}
    inside: set[int] = set()
    for node, _ in walk(tree):
        match node:
            case Select(CelAttribute(of) as operand, name) | Has(CelAttribute(of) as operand, name):
                asked_names[f"{of}.{name}"] = None
                inside.add(id(operand))
            case CelAttribute(name) if id(node) not in inside:
                raise XacmlError(f"`{name}` in a condition: expected a category, a point and a name")
            case Has(None, name):
                raise XacmlError(f"`has({name})` in a condition: expected `has(subject.{name})`, or another category")
            case XPath():
                raise XacmlError("`xpath` in a condition: write it as an expression, with `xpath` and `category`")
    return list(asked_names)


_WORDS = ("value", "attribute", "variable", "function", "xpath", "cel", "all", "any", "not", "apply")
"""The keys of expressions that are mappings: exactly one of them says what the expression is."""


def expression(value: Any, known: AttributeNames) -> xacml.Expression:
    """Read a value, an attribute, a variable, XPath, a condition or an applied function; raises `XacmlError`."""
    if not isinstance(value, dict):
        return literal(value)
    words = [word for word in _WORDS if word in value]
    match words[0] if len(words) == 1 else "":
        case "value":
            fields = mapping(value, "a value", "value", "type")
            return literal(fields["value"], _type(fields["type"]) if "type" in fields else None)
        case "attribute":
            fields = mapping(value, "an attribute", "attribute")
            return known.find(text(fields["attribute"], "`attribute`")).designator
        case "variable":
            return xacml.VariableReference(text(mapping(value, "a variable", "variable")["variable"], "`variable`"))
        case "function":
            return xacml.FunctionName(_function(mapping(value, "a function", "function")["function"]))
        case "xpath":
            return _selector(value)
        case "cel":
            return _cel(text(mapping(value, "a condition", "cel")["cel"], "`cel`"), known)
        case "all" | "any" | "not":
            return condition(value, known)
        case "apply":
            fields = mapping(value, "a function applied", "apply", "to")
            arguments = tuple(expression(argument, known) for argument in sequence(fields.get("to", []), "`to`"))
            return xacml.Apply(_function(fields["apply"]), arguments)
    keys = ", ".join(f"`{name}`" for name in value) or "nothing"
    raise XacmlError(f"expected one of {', '.join(_WORDS)}, found {keys}")


def _function(value: Any) -> str:
    word = text(value, "a function")
    return _SHORT_FUNCTIONS.get(word, word)


def _selector(value: Any) -> xacml.Selector:
    fields = mapping(value, "XPath", "xpath", "category", "type", "required", "prefixes", "from")
    category = text(fields.get("category", "resource"), "`category`")
    prefixes = mapping(fields.get("prefixes", {}), "`prefixes`")
    start = fields.get("from")
    return xacml.Selector(
        SHORT_CATEGORIES.get(category, category),
        text(fields["xpath"], "`xpath`"),
        _type(fields.get("type", "string")),
        _flag(fields, "required"),
        None if start is None else text(start, "`from`"),
        tuple(sorted((prefix, text(uri, "a namespace")) for prefix, uri in prefixes.items())),
    )
