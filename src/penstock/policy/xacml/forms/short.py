"""The short form of policies: plain values from YAML, compiled to the same tree (docs/xacml.md)."""

from collections.abc import Mapping
from typing import Any

from penstock.model.errors import DomainError
from penstock.model.yaml.document import Bounds, read_values
from penstock.policy.xacml import tree as xacml
from penstock.policy.xacml.evaluation.algorithms import algorithm_named
from penstock.policy.xacml.forms.short_expressions import (
    AttributeNames,
    condition,
    expression,
    mapping,
    sequence,
    target,
    text,
)
from penstock.policy.xacml.limits import MAX_DEPTH, MAX_POLICY_BYTES, MAX_POLICY_NODES
from penstock.policy.xacml.status import XacmlError, located
from penstock.policy.xacml.values.versions import check_pattern, check_version

_COMMON = ("version", "description", "combine", "attributes", "target", "obligations", "advice")
_EFFECTS = {"permit": xacml.XacmlEffect.PERMIT, "deny": xacml.XacmlEffect.DENY}


_BOUNDS = Bounds(MAX_DEPTH, MAX_POLICY_NODES, has_aliases=False)


def read_short(data: bytes) -> xacml.Root:
    """Read a policy or policy set from YAML; raises `XacmlError`."""
    return from_plain(read_yaml(data))


def read_yaml(data: bytes) -> Any:
    """Return the plain values of a YAML text; raises `XacmlError`."""
    if len(data) > MAX_POLICY_BYTES:
        raise XacmlError(f"more than {MAX_POLICY_BYTES} bytes of YAML")
    try:
        return read_values(data.decode("utf-8-sig"), _BOUNDS)
    except UnicodeDecodeError:
        raise XacmlError("not UTF-8 text") from None
    except DomainError as error:
        raise XacmlError("; ".join(map(str, error.problems))) from None


def from_plain(value: Any, known: AttributeNames | None = None) -> xacml.Root:
    """Read a policy or policy set from plain values; raises `XacmlError`."""
    known = known or AttributeNames()
    fields = mapping(value, "a policy")
    if "policy" in fields:
        return _policy(mapping(value, "a policy", "policy", *_COMMON, "variables", "rules"), known)
    if "policy_set" in fields:
        return _policy_set(mapping(value, "a policy set", "policy_set", *_COMMON, "policies"), known)
    raise XacmlError("expected `policy` or `policy_set` with its name")


def _policy(fields: Mapping[str, Any], known: AttributeNames) -> xacml.XacmlPolicy:
    name = text(fields["policy"], "`policy`")
    with located(f"policy `{name}`"):
        known = known.with_declared(fields.get("attributes", {}))
        variables = mapping(fields.get("variables", {}), "`variables`")
        return xacml.XacmlPolicy(
            name,
            _version(fields),
            _algorithm(fields, "rule"),
            target(fields.get("target", {}), known),
            tuple(_rule(rule, at, known) for at, rule in enumerate(sequence(fields.get("rules", []), "`rules`"), 1)),
            tuple((name, _variable(value, known)) for name, value in variables.items()),
            _duties(fields.get("obligations", []), None, known),
            _duties(fields.get("advice", []), None, known),
            text(fields.get("description", ""), "`description`"),
        )


def _policy_set(fields: Mapping[str, Any], known: AttributeNames) -> xacml.XacmlPolicySet:
    name = text(fields["policy_set"], "`policy_set`")
    with located(f"policy set `{name}`"):
        known = known.with_declared(fields.get("attributes", {}))
        return xacml.XacmlPolicySet(
            name,
            _version(fields),
            _algorithm(fields, "policy"),
            target(fields.get("target", {}), known),
            tuple(_child(child, known) for child in sequence(fields.get("policies", []), "`policies`")),
            _duties(fields.get("obligations", []), None, known),
            _duties(fields.get("advice", []), None, known),
            text(fields.get("description", ""), "`description`"),
        )


def _algorithm(fields: Mapping[str, Any], kind: str) -> str:
    return algorithm_named(text(fields.get("combine", "deny-overrides"), "`combine`"), kind)


def _version(fields: Mapping[str, Any]) -> str:
    version = fields.get("version", "1.0")
    if not isinstance(version, str):
        raise XacmlError(f'`version` is a text: write it in quotes, `"{version}"`')
    return check_version(version)


def _child(value: Any, known: AttributeNames) -> xacml.XacmlPolicy | xacml.XacmlPolicySet | xacml.PolicyReference:
    if not isinstance(value, dict) or not value.keys() & {"reference", "reference_set"}:
        return from_plain(value, known)
    fields = mapping(value, "a reference", "reference", "reference_set", "version", "earliest", "latest")
    is_set = "reference_set" in fields
    if is_set and "reference" in fields:
        raise XacmlError("a reference is to a policy or to a policy set, not both")
    versions = (fields.get(name) for name in ("version", "earliest", "latest"))
    checked = (None if pattern is None else check_pattern(text(pattern, "a version")) for pattern in versions)
    name = text(fields["reference_set" if is_set else "reference"], "a reference")
    return xacml.PolicyReference(name, is_set, *checked)


def _variable(value: Any, known: AttributeNames) -> Any:
    """Read a variable. A text is a condition; another value is written `{value: …}`."""
    return condition(value, known) if isinstance(value, str | bool) else expression(value, known)


def _rule(value: Any, number: int, known: AttributeNames) -> xacml.XacmlRule:
    fields = mapping(value, f"rule {number}", *_EFFECTS, "id", "description", "when", "obligations", "advice")
    effects = [name for name in _EFFECTS if name in fields]
    if len(effects) != 1:
        raise XacmlError(f"rule {number} has `permit` or `deny`")
    (name,) = effects
    effect = _EFFECTS[name]
    identifier = text(fields.get("id", f"{name}-{number}"), "`id`")
    with located(f"rule `{identifier}`"):
        return xacml.XacmlRule(
            identifier,
            effect,
            target({} if fields[name] is None else fields[name], known),
            condition(fields["when"], known) if "when" in fields else None,
            _duties(fields.get("obligations", []), effect, known),
            _duties(fields.get("advice", []), effect, known),
            text(fields.get("description", ""), "`description`"),
        )


def _duties(value: Any, effect: xacml.XacmlEffect | None, known: AttributeNames) -> tuple[xacml.DutyExpression, ...]:
    return tuple(_duty(item, effect, known) for item in sequence(value, "obligations or advice"))


def _duty(value: Any, effect: xacml.XacmlEffect | None, known: AttributeNames) -> xacml.DutyExpression:
    fields = mapping(value, "an obligation or advice", "id", "with", "set")
    name = text(fields.get("id"), "`id`")
    goes_with = fields.get("with", effect.lower() if effect is not None else None)
    if goes_with not in _EFFECTS:
        raise XacmlError(f"`{name}`: `with` is permit or deny")
    assignments = mapping(fields.get("set", {}), "`set`")
    return xacml.DutyExpression(
        name,
        _EFFECTS[goes_with],
        tuple(xacml.Assignment(attribute, expression(item, known)) for attribute, item in assignments.items()),
    )
