"""The admin HTTP API, from the OpenAPI document that nodes give."""

from typing import Any

from penstock.broker.http.api import ENDPOINTS
from penstock.broker.http.openapi import document
from scripts.reference.markdown import code, heading, plain, table

_INTRODUCTION = """\
Every question that a node with an `admin` address answers, with what it takes and gives as JSON. Nodes give the same as
OpenAPI 3.1 at `/api/openapi.json`. [The admin HTTP API](../admin-api.md) says who may ask, and how.
"""


def page() -> str:
    described = document(ENDPOINTS)
    questions = [
        _question(path, method.upper(), operation)
        for path, methods in described["paths"].items()
        for method, operation in methods.items()
    ]
    schemas = [_schema(name, schema) for name, schema in sorted(described["components"]["schemas"].items())]
    parts = [heading("The admin API, question by question", "the endpoints in `penstock.broker.http`"), _INTRODUCTION]
    return "".join([*parts, "\n## Questions\n", *questions, "\n## Types\n", *schemas])


def _question(path: str, method: str, operation: dict[str, Any]) -> str:
    about = operation["summary"][:1].upper() + operation["summary"][1:]
    lines = [f"\n### {method} {path}\n\n{plain(about)}. Right: {code(operation['x-penstock-right'])}.\n"]
    parameters = [
        (code(parameter["name"]), parameter["schema"]["type"], plain(parameter["description"]))
        for parameter in operation.get("parameters", ())
    ]
    if parameters:
        lines.append("\n" + table(("parameter", "type", "meaning"), parameters))
    if "requestBody" in operation:
        lines.append(f"\nTakes {_type(operation['requestBody']['content']['application/json']['schema'])}.\n")
    lines.append(f"\nGives {_type(operation['responses']['200']['content']['application/json']['schema'])}.\n")
    return "".join(lines)


def _schema(name: str, schema: dict[str, Any]) -> str:
    about = f"\n{plain(schema['description'])}\n" if "description" in schema else ""
    rows = [
        (code(key), _type(field), "yes" if key in schema.get("required", ()) else "no")
        for key, field in schema.get("properties", {}).items()
    ]
    return f"\n### {name}\n{about}\n{table(('member', 'type', 'always there'), rows)}"


def _type(schema: dict[str, Any]) -> str:
    """In words: `text`, a list of something, one of several, a type of this page."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(_type(option) for option in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(code(str(value)) for value in schema["enum"])
    kind = schema.get("type", "anything")
    if kind == "array":
        inside = schema.get("prefixItems") or [schema.get("items") or {}]
        return f"list of {', '.join(_type(item) for item in inside)}"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"by name, {_type(schema['additionalProperties'])}"
    return str(kind)
