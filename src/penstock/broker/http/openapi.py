"""The OpenAPI document of the endpoints."""

from collections.abc import Iterable
from typing import Any

import msgspec

from penstock import __version__
from penstock.broker.http.endpoint import ApiEndpoint, Error

_SCHEMAS = "#/components/schemas/{name}"
_RIGHTS = "What a token may do: `read`; `content`, which is `read` and payloads; `change`, which is all."


def document(endpoints: Iterable[ApiEndpoint]) -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of the endpoints."""
    listed = list(endpoints)
    bodies = (endpoint.body for endpoint in listed if endpoint.body)
    types = list(dict.fromkeys([Error, *(endpoint.answer for endpoint in listed), *bodies]))
    schemas, components = msgspec.json.schema_components(types, ref_template=_SCHEMAS)
    schema_of = dict(zip(types, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in listed:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint, schema_of)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Penstock: admin HTTP of a node", "version": __version__, "description": _RIGHTS},
        "paths": paths,
        "security": [{"bearer": []}],
        "components": {"schemas": components, "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}}},
    }


def _operation(endpoint: ApiEndpoint, schema_of: dict[Any, Any]) -> dict[str, Any]:
    def content(kind: Any) -> dict[str, Any]:
        return {"application/json": {"schema": schema_of[kind]}}

    operation: dict[str, Any] = {
        "summary": endpoint.summary,
        "operationId": f"{endpoint.method.lower()}_{endpoint.path.strip('/').replace('/', '_').replace('.', '_')}",
        "responses": {
            "200": {"description": endpoint.summary, "content": content(endpoint.answer)},
            "4XX": {"description": "why not", "content": content(Error)},
        },
        "x-penstock-right": endpoint.right or "none",
    }
    if endpoint.right is None:
        operation["security"] = []
    if endpoint.query:
        operation["parameters"] = [
            {"name": query.name, "in": "query", "description": query.text, "schema": {"type": query.kind}}
            for query in endpoint.query
        ]
    if endpoint.body is not None:
        operation["requestBody"] = {"required": True, "content": content(endpoint.body)}
    return operation
