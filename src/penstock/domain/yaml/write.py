"""Writing a domain as the text of a domain file, in short forms where possible."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock.domain.problems import Loc
from penstock.domain.schema.base import MEMORY
from penstock.domain.schema.domain import Domain
from penstock.domain.yaml.files import FileName, FileRole, map_files
from penstock.domain.yaml.layout import layout
from penstock.model.yaml.document import scalar
from penstock.model.yaml.tree import SourcePlace, YamlEntry, YamlMapping, YamlNode, YamlScalar, YamlSequence

_NOWHERE = SourcePlace("", 0, Path())


def domain_text(domain: Domain, folder: Path = Path()) -> str:
    """Return the text of a file in `folder` that describes the domain; defaults are omitted."""
    return yaml_of(plain_form(_beside(domain, folder)))


def yaml_of(value: Any) -> str:
    """Return dictionaries, lists and scalars as YAML, laid out as domain files are."""
    return layout(_node(value))


def plain_form(domain: Domain) -> dict[str, Any]:
    """Return the contents of the file as dictionaries, lists and scalars."""
    plain = domain.model_dump(by_alias=True, exclude_defaults=True)
    plain["domain"] = domain.domain
    for name, node in plain.get("nodes", {}).items():
        _shorten(node, "listen", _listen)
        node["store"] = domain.nodes[name].store
        if node["store"] == f"{name}.db":
            del node["store"]
        _shorten_table(node.get("brokering"))
    for client in plain.get("clients", {}).values():
        _shorten(client, "node", _nodes)
        _shorten(client, "type", _types)
    for rule in plain.get("content", ()):
        _shorten(rule, "topics", _one)
    _shorten_table(plain.get("brokering"))
    for monitor in plain.get("monitors", {}).values():
        _shorten(monitor, "link", _one)
        for edges in monitor.get("states", {}).values():
            for filter in edges:
                edges[filter] = _one([_edge(edge) for edge in edges[filter]])
    return plain


def _shorten(owner: dict[str, Any], key: str, form: Callable[[Any], Any]) -> None:
    if key in owner:
        owner[key] = form(owner[key])


def _one(value: Any) -> Any:
    return value[0] if len(value) == 1 else value


def _types(value: dict[str, str]) -> Any:
    return value["publish"] if value["publish"] == value["notify"] else value


def _nodes(value: dict[str, Any]) -> Any:
    if any(value.values()):
        return {node: types and _types(types) for node, types in value.items()}
    return _one(list(value))


def _listen(value: Any) -> Any:
    return _one([item["address"] if list(item) == ["address"] else item for item in value])


def _shorten_table(table: dict[str, Any] | None) -> None:
    if table is None:
        return
    _shorten(table, "default", _types)
    for key in ("allow", "deny"):
        for rule in table.get(key, ()):
            rule.update({side: _one(rule[side]) for side in ("from", "to")})


def _edge(edge: dict[str, Any]) -> Any:
    if edge in ({"pass": True}, {"suppress": True}):
        return next(iter(edge))
    _shorten(edge, "emit", lambda outputs: [item["topic"] if list(item) == ["topic"] else item for item in outputs])
    return edge


def _beside(domain: Domain, folder: Path) -> Domain:
    """Return the domain with file names relative to `folder`."""

    def placed(loc: Loc, role: FileRole, name: FileName) -> FileName:
        if role is FileRole.STORE and name == MEMORY:
            return name
        elsewhere = os.path.isabs(name) and not Path(name).is_relative_to(folder)
        return name if elsewhere else type(name)(os.path.relpath(name, folder))

    return map_files(domain, (), placed)


def _node(value: Any) -> YamlNode:
    match value:
        case dict():
            return YamlMapping({str(key): YamlEntry(_NOWHERE, _node(item)) for key, item in value.items()})
        case list() | tuple():
            return YamlSequence(tuple(YamlEntry(_NOWHERE, _node(item)) for item in value))
        case None | bool():
            return YamlScalar("", value)
        case int() | float():
            return _number(value)
        case _:
            return YamlScalar(str(value), str(value))


def _number(value: float) -> YamlScalar:
    text = {"inf": ".inf", "-inf": "-.inf", "nan": ".nan"}.get(str(value), str(value))
    return YamlScalar(text, scalar(text).value)
