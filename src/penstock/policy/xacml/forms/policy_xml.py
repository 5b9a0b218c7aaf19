"""The reader of policies in XML (XACML 3.0, section 5). It refuses unknown elements, and names the line."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar

from penstock.policy.xacml import tree as xacml
from penstock.policy.xacml.forms.literals import prefixes_of, read_literal
from penstock.policy.xacml.forms.xml import XmlElement, core, read_xml
from penstock.policy.xacml.limits import MAX_POLICY_BYTES, MAX_POLICY_NODES
from penstock.policy.xacml.names import XPATH_1
from penstock.policy.xacml.status import XacmlError, located
from penstock.policy.xacml.values.values import type_named
from penstock.policy.xacml.values.versions import check_pattern, check_version

T = TypeVar("T")


def read_policy(data: bytes) -> xacml.Root:
    """Return the policy or the policy set of a document; raises `XacmlError`."""
    root = read_xml(data, MAX_POLICY_BYTES, MAX_POLICY_NODES)
    match core(root):
        case "Policy":
            return _policy(root)
        case "PolicySet":
            return _policy_set(root)
    raise root.wrong(f"expected a `Policy` or a `PolicySet`, not `{root.name}`")


def xpath_version(element: XmlElement) -> None:
    """Check the defaults of a policy or a request: the one version of XPath that there is."""
    for child in element.children:
        version = child.text.strip()
        # The public conformance cases write `Rec-xpath`.
        if core(child) == "XPathVersion" and version.lower() != XPATH_1.lower():
            raise child.unsupported(f"`{version}` is not a version of XPath that is known here, expected `{XPATH_1}`")


class _Parts:
    """The children of an element by name; raises `XacmlError` for a child that does not belong."""

    def __init__(self, element: XmlElement, *ignored: str) -> None:
        self._element = element
        self._ignored = frozenset(ignored)
        self._of: dict[str, list[XmlElement]] = {}
        for child in element.children:
            self._of.setdefault(core(child), []).append(child)
        if "PolicyIssuer" in self._of:
            raise self._of["PolicyIssuer"][0].unsupported(
                "`PolicyIssuer`: policies that others issue (the administration profile) are not taken on"
            )
        if element.get("MaxDelegationDepth") is not None:
            raise element.unsupported("`MaxDelegationDepth`: delegation (the administration profile) is not taken on")

    def several(self, name: str) -> list[XmlElement]:
        return self._of.pop(name, [])

    def one(self, name: str) -> XmlElement | None:
        elements = self.several(name)
        if len(elements) > 1:
            raise elements[1].wrong(f"a second `{name}` in one `{self._element.name}`")
        return elements[0] if elements else None

    def description(self) -> str:
        element = self.one("Description")
        return " ".join(element.text.split()) if element is not None else ""

    def done(self) -> None:
        for name, elements in self._of.items():
            if name not in self._ignored:
                raise elements[0].wrong(f"`{name}` does not belong in `{self._element.name}`")


_PARAMETERS = (
    "CombinerParameters",
    "RuleCombinerParameters",
    "PolicyCombinerParameters",
    "PolicySetCombinerParameters",
)
"""Accepted and not used: no standard algorithm has parameters (C.1)."""


def _policy(element: XmlElement) -> xacml.XacmlPolicy:
    parts = _Parts(element, *_PARAMETERS)
    _defaults(parts, "PolicyDefaults")
    policy = xacml.XacmlPolicy(
        element.need("PolicyId"),
        _version(element),
        element.need("RuleCombiningAlgId"),
        _target(_needed(parts, element)),
        tuple(_rule(child) for child in parts.several("Rule")),
        tuple((child.need("VariableId"), _only(child)) for child in parts.several("VariableDefinition")),
        *_duties(parts),
        parts.description(),
    )
    parts.done()
    return policy


def _policy_set(element: XmlElement) -> xacml.XacmlPolicySet:
    parts = _Parts(element, *_PARAMETERS, "Policy", "PolicySet", "PolicyIdReference", "PolicySetIdReference")
    _defaults(parts, "PolicySetDefaults")
    policy_set = xacml.XacmlPolicySet(
        element.need("PolicySetId"),
        _version(element),
        element.need("PolicyCombiningAlgId"),
        _target(_needed(parts, element)),
        tuple(_children(element)),
        *_duties(parts),
        parts.description(),
    )
    parts.done()
    return policy_set


def _needed(parts: _Parts, element: XmlElement) -> XmlElement:
    target = parts.one("Target")
    if target is None:
        raise element.wrong(f"`{element.name}` has no `Target`")
    return target


def _defaults(parts: _Parts, name: str) -> None:
    defaults = parts.one(name)
    if defaults is not None:
        xpath_version(defaults)


def _version(element: XmlElement) -> str:
    # The schema asks for it; many policies in use, the paper's among them, go without.
    version = element.get("Version") or "1.0"
    with located(f"line {element.line}", unless=("line ",)):
        return check_version(version)


def _children(element: XmlElement) -> Iterator[xacml.XacmlPolicy | xacml.XacmlPolicySet | xacml.PolicyReference]:
    for child in element.children:
        match core(child):
            case "Policy":
                yield _policy(child)
            case "PolicySet":
                yield _policy_set(child)
            case "PolicyIdReference" | "PolicySetIdReference" as name:
                yield _reference(child, name == "PolicySetIdReference")


def _reference(element: XmlElement, is_set: bool) -> xacml.PolicyReference:
    versions = [element.get(name) for name in ("Version", "EarliestVersion", "LatestVersion")]
    with located(f"line {element.line}", unless=("line ",)):
        for version in versions:
            if version is not None:
                check_pattern(version)
    return xacml.PolicyReference(element.text.strip(), is_set, *versions)


def _rule(element: XmlElement) -> xacml.XacmlRule:
    parts = _Parts(element)
    target, condition = parts.one("Target"), parts.one("Condition")
    rule = xacml.XacmlRule(
        element.need("RuleId"),
        _effect(element, "Effect"),
        _target(target) if target is not None else (),
        _only(condition) if condition is not None else None,
        *_duties(parts),
        parts.description(),
    )
    parts.done()
    return rule


def _effect(element: XmlElement, name: str) -> xacml.XacmlEffect:
    try:
        return xacml.XacmlEffect(element.need(name))
    except ValueError:
        raise element.wrong(f"`{name}` is `{element.need(name)}`, not Permit or Deny") from None


def _only(element: XmlElement) -> xacml.Expression:
    expressions = list(element.children)
    if len(expressions) != 1:
        raise element.wrong(f"`{element.name}` has one expression, not {len(expressions)}")
    return _expression(expressions[0])


def _expression(element: XmlElement) -> xacml.Expression:
    match core(element):
        case "AttributeValue":
            return literal(element)
        case "AttributeDesignator":
            return _designator(element)
        case "AttributeSelector":
            return _selector(element)
        case "VariableReference":
            return xacml.VariableReference(element.need("VariableId"))
        case "Function":
            return xacml.FunctionName(element.need("FunctionId"))
        case "Apply":
            arguments = (child for child in element.children if core(child) != "Description")
            return xacml.Apply(element.need("FunctionId"), tuple(map(_expression, arguments)))
    raise element.wrong(f"`{element.name}` is not an expression")


def literal(element: XmlElement) -> xacml.LiteralValue:
    """Read the value of an `AttributeValue`; raises `XacmlError`."""
    with located(f"line {element.line}", unless=("line ",)):
        type_named(element.need("DataType"))
        if any(True for _ in element.children):
            raise XacmlError("a value has no elements inside")
        return read_literal(element)


def _designator(element: XmlElement) -> xacml.Designator:
    with located(f"line {element.line}", unless=("line ",)):
        return xacml.Designator(
            element.need("Category"),
            element.need("AttributeId"),
            type_named(element.need("DataType")),
            _must(element),
            element.get("Issuer"),
        )


def _selector(element: XmlElement) -> xacml.Selector:
    with located(f"line {element.line}", unless=("line ",)):
        return xacml.Selector(
            element.need("Category"),
            element.need("Path"),
            type_named(element.need("DataType")),
            _must(element),
            element.get("ContextSelectorId"),
            prefixes_of(element),
        )


def _must(element: XmlElement) -> bool:
    flag = element.flag("MustBePresent")
    if flag is None:
        raise element.wrong(f"`{element.name}` has no `MustBePresent`")
    return flag


def _target(element: XmlElement) -> xacml.Target:
    return tuple(_several(element, "AnyOf", _any_of))


def _any_of(element: XmlElement) -> xacml.AnyOf:
    return tuple(_some(element, "AllOf", _all_of))


def _all_of(element: XmlElement) -> xacml.AllOf:
    return tuple(_some(element, "Match", _match))


def _match(element: XmlElement) -> xacml.TargetMatch:
    operands = [_expression(child) for child in element.children]
    match operands:
        case [xacml.LiteralValue() as value, xacml.Designator() | xacml.Selector() as source]:
            return xacml.TargetMatch(element.need("MatchId"), value, source)
        case [xacml.Designator() | xacml.Selector() as source, xacml.LiteralValue() as value]:
            # Not what the schema says, but what the contracts paper writes (Listing 2).
            return xacml.TargetMatch(element.need("MatchId"), value, source)
    raise element.wrong("a `Match` has a value, and a designator or selector")


def _several(element: XmlElement, name: str, make: Callable[[XmlElement], T]) -> Iterator[T]:
    for child in element.children:
        if core(child) != name:
            raise child.wrong(f"expected `{name}` in `{element.name}`, not `{child.name}`")
        yield make(child)


def _some(element: XmlElement, name: str, make: Callable[[XmlElement], T]) -> Iterator[T]:
    if not any(True for _ in element.children):
        raise element.wrong(f"`{element.name}` has no `{name}`")
    return _several(element, name, make)


_Duties = tuple[xacml.DutyExpression, ...]


def _duties(parts: _Parts) -> tuple[_Duties, _Duties]:
    return _duties_of(parts, "Obligation", "FulfillOn"), _duties_of(parts, "Advice", "AppliesTo")


def _duties_of(parts: _Parts, kind: str, when: str) -> _Duties:
    around = parts.one(f"{kind}Expressions")
    read = partial(_duty, kind=kind, when=when)
    return tuple(_several(around, f"{kind}Expression", read)) if around is not None else ()


def _duty(element: XmlElement, kind: str, when: str) -> xacml.DutyExpression:
    assignments = _several(element, "AttributeAssignmentExpression", _assignment)
    return xacml.DutyExpression(element.need(f"{kind}Id"), _effect(element, when), tuple(assignments))


def _assignment(element: XmlElement) -> xacml.Assignment:
    return xacml.Assignment(element.need("AttributeId"), _only(element), element.get("Category"), element.get("Issuer"))
