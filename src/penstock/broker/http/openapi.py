"""The OpenAPI document of the endpoints."""

from collections.abc import Iterable
from typing import Any

import msgspec

from penstock import __version__
from penstock.broker.http.endpoint import Endpoint, Error, Query

_SCHEMAS = "#/components/schemas/{name}"
_RIGHTS = "What a token may do: `read`; `content`, which is `read` and payloads; `change`, which is all."


def document(endpoints: Iterable[Endpoint]) -> dict[str, Any]:
    """OpenAPI 3.1 for all of them."""
    known = list(endpoints)
    types = list(dict.fromkeys([Error, *(one.answer for one in known), *(one.body for one in known if one.body)]))
    schemas, components = msgspec.json.schema_components(types, ref_template=_SCHEMAS)
    schema_of = dict(zip(types, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for one in known:
        paths.setdefault(one.path, {})[one.method.lower()] = _operation(one, schema_of)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Penstock: admin HTTP of a node", "version": __version__, "description": _RIGHTS},
        "paths": paths,
        "security": [{"bearer": []}],
        "components": {"schemas": components, "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}}},
    }


def _operation(one: Endpoint, schema_of: dict[Any, Any]) -> dict[str, Any]:
    wrong = {"description": "why not", "content": {"application/json": {"schema": schema_of[Error]}}}
    made: dict[str, Any] = {
        "summary": one.summary,
        "operationId": f"{one.method.lower()}_{one.path.strip('/').replace('/', '_').replace('.', '_')}",
        "responses": {
            "200": {"description": one.summary, "content": {"application/json": {"schema": schema_of[one.answer]}}},
            "4XX": wrong,
        },
        "x-penstock-right": one.right or "none",
    }
    if one.right is None:
        made["security"] = []
    if one.query:
        made["parameters"] = [_parameter(query) for query in one.query]
    if one.body is not None:
        made["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema_of[one.body]}}}
    return made


def _parameter(query: Query) -> dict[str, Any]:
    return {"name": query.name, "in": "query", "description": query.text, "schema": {"type": query.kind}}
