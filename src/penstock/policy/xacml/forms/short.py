"""The short form of policies: plain values, as YAML gives them, to the same tree (docs/xacml.md)."""

from collections.abc import Mapping
from typing import Any

from penstock.model.errors import DomainError
from penstock.model.yaml.document import Bounds, read_values
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
from penstock.policy.xacml.status import XacmlError
from penstock.policy.xacml.tree import (
    Assignment,
    DutyExpression,
    PolicyReference,
    Root,
    XacmlEffect,
    XacmlPolicy,
    XacmlPolicySet,
    XacmlRule,
)
from penstock.policy.xacml.values.versions import check_pattern, check_version

_COMMON = ("version", "description", "combine", "attributes", "target", "obligations", "advice")
_EFFECTS = {"permit": XacmlEffect.PERMIT, "deny": XacmlEffect.DENY}


_BOUNDS = Bounds(MAX_DEPTH, MAX_POLICY_NODES, has_aliases=False)


def read_short(data: bytes) -> Root:
    """Return the policy or policy set of a YAML text; raises `XacmlError`."""
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


def from_plain(value: Any, known: AttributeNames | None = None) -> Root:
    """Return the policy or policy set that plain values say; raises `XacmlError`."""
    known = known or AttributeNames()
    said = mapping(value, "a policy")
    if "policy" in said:
        return _policy(mapping(value, "a policy", "policy", *_COMMON, "variables", "rules"), known)
    if "policy_set" in said:
        return _policy_set(mapping(value, "a policy set", "policy_set", *_COMMON, "policies"), known)
    raise XacmlError("expected `policy` or `policy_set` with its name")


def _policy(said: Mapping[str, Any], known: AttributeNames) -> XacmlPolicy:
    name = text(said["policy"], "`policy`")
    with _inside(f"policy `{name}`"):
        known = known.with_declared(said.get("attributes", {}))
        variables = mapping(said.get("variables", {}), "`variables`")
        return XacmlPolicy(
            name,
            _version(said),
            _algorithm(said, "rule"),
            target(said.get("target", {}), known),
            tuple(_rule(rule, at, known) for at, rule in enumerate(sequence(said.get("rules", []), "`rules`"), 1)),
            tuple((name, _variable(value, known)) for name, value in variables.items()),
            _duties(said.get("obligations", []), None, known),
            _duties(said.get("advice", []), None, known),
            text(said.get("description", ""), "`description`"),
        )


def _policy_set(said: Mapping[str, Any], known: AttributeNames) -> XacmlPolicySet:
    name = text(said["policy_set"], "`policy_set`")
    with _inside(f"policy set `{name}`"):
        known = known.with_declared(said.get("attributes", {}))
        return XacmlPolicySet(
            name,
            _version(said),
            _algorithm(said, "policy"),
            target(said.get("target", {}), known),
            tuple(_child(child, known) for child in sequence(said.get("policies", []), "`policies`")),
            _duties(said.get("obligations", []), None, known),
            _duties(said.get("advice", []), None, known),
            text(said.get("description", ""), "`description`"),
        )


def _algorithm(said: Mapping[str, Any], kind: str) -> str:
    return algorithm_named(text(said.get("combine", "deny-overrides"), "`combine`"), kind)


def _version(said: Mapping[str, Any]) -> str:
    version = said.get("version", "1.0")
    if not isinstance(version, str):
        raise XacmlError(f'`version` is a text: write it in quotes, `"{version}"`')
    return check_version(version)


def _child(value: Any, known: AttributeNames) -> XacmlPolicy | XacmlPolicySet | PolicyReference:
    if not isinstance(value, dict) or not value.keys() & {"reference", "reference_set"}:
        return from_plain(value, known)
    said = mapping(value, "a reference", "reference", "reference_set", "version", "earliest", "latest")
    is_set = "reference_set" in said
    if is_set and "reference" in said:
        raise XacmlError("a reference is to a policy or to a policy set, not both")
    versions = (said.get(name) for name in ("version", "earliest", "latest"))
    checked = (None if one is None else check_pattern(text(one, "a version")) for one in versions)
    return PolicyReference(text(said["reference_set" if is_set else "reference"], "a reference"), is_set, *checked)


def _variable(value: Any, known: AttributeNames) -> Any:
    """Return a text is a condition here; another value is written `{value: …}`."""
    return condition(value, known) if isinstance(value, str | bool) else expression(value, known)


def _rule(value: Any, number: int, known: AttributeNames) -> XacmlRule:
    said = mapping(value, f"rule {number}", *_EFFECTS, "id", "description", "when", "obligations", "advice")
    effects = [name for name in _EFFECTS if name in said]
    if len(effects) != 1:
        raise XacmlError(f"rule {number} has `permit` or `deny`")
    (name,) = effects
    effect = _EFFECTS[name]
    identifier = text(said.get("id", f"{name}-{number}"), "`id`")
    with _inside(f"rule `{identifier}`"):
        return XacmlRule(
            identifier,
            effect,
            target({} if said[name] is None else said[name], known),
            condition(said["when"], known) if "when" in said else None,
            _duties(said.get("obligations", []), effect, known),
            _duties(said.get("advice", []), effect, known),
            text(said.get("description", ""), "`description`"),
        )


def _duties(value: Any, effect: XacmlEffect | None, known: AttributeNames) -> tuple[DutyExpression, ...]:
    return tuple(_duty(one, effect, known) for one in sequence(value, "obligations or advice"))


def _duty(value: Any, effect: XacmlEffect | None, known: AttributeNames) -> DutyExpression:
    said = mapping(value, "an obligation or advice", "id", "with", "set")
    name = text(said.get("id"), "`id`")
    goes_with = said.get("with", effect.lower() if effect is not None else None)
    if goes_with not in _EFFECTS:
        raise XacmlError(f"`{name}`: `with` is permit or deny")
    assignments = mapping(said.get("set", {}), "`set`")
    return DutyExpression(
        name,
        _EFFECTS[goes_with],
        tuple(Assignment(attribute, expression(one, known)) for attribute, one in assignments.items()),
    )


class _inside:
    """Say of an error which policy or rule it is in."""

    def __init__(self, where: str) -> None:
        self._where = where

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if isinstance(error, XacmlError):
            raise error.at(self._where) from None
