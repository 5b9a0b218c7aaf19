"""Domain files from a few lines: nodes need an address and a store, which most tests do not care about."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from penstock.domain import Domain, Ensemble, ensemble, load, read
from penstock.model.link import Link


def nodes(*names: str) -> dict[str, Any]:
    """Nodes that listen somewhere and keep nothing."""
    return {name: {"listen": "127.0.0.1:0", "store": "memory"} for name in names}


def write_domain(folder: Path, plain: Mapping[str, Any], name: str = "domain.yaml") -> Path:
    file = folder / name
    file.write_text(yaml.safe_dump(dict(plain), sort_keys=False), "utf-8")
    return file


def loaded(folder: Path, **plain: Any) -> Domain:
    """The domain that a file with these keys describes, checked and expanded."""
    return load(write_domain(folder, plain), {})


def as_written(folder: Path, **plain: Any) -> Domain:
    """The domain as the file has it, patterns and all."""
    return read(write_domain(folder, plain), {}).domain


def compiled(folder: Path, **plain: Any) -> Ensemble:
    return ensemble(loaded(folder, **plain), folder)


def types_of(whole: Ensemble) -> dict[tuple[str, str], str]:
    """The function *type* of brokering §5.1."""
    return {ends: link.type for ends, link in whole.links.items()}


def allow_of(whole: Ensemble, node: str) -> set[tuple[str, str]]:
    """The relation *allow* of brokering §5.1, as it is at a node."""
    table = whole.table(node)
    return {(one, other) for one in table.types for other in table.types if table.allows(one, other)}


def monitor_names(whole: Ensemble, source: str, target: str) -> list[str]:
    return [monitor.name for monitor in whole.monitors(Link(source, target))]
