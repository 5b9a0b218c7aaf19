"""Writes the tables of settings in docs/running.md from the models that validate the domain file.

Run `python -m scripts.settings_table` after a change to `penstock.domain.schema`; a test compares the page with what
this would write.
"""

import re
import types
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from penstock.domain import Limits, Listener, Log, NodeSettings, Tls

PAGE = Path(__file__).parent.parent / "docs" / "running.md"
TABLES: tuple[tuple[str, type[BaseModel]], ...] = (
    ("nodes.NAME", NodeSettings),
    ("nodes.NAME.listen", Listener),
    ("nodes.NAME.listen.tls", Tls),
    ("nodes.NAME.log", Log),
    ("nodes.NAME.limits", Limits),
)
_MIB = 2**20
_BLOCK = re.compile(r"(<!-- settings of (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)


def with_tables(page: str) -> str:
    """The page with the table of each marked block as the models say it today."""
    models = dict(TABLES)
    return _BLOCK.sub(lambda found: f"{found[1]}{table(models[found[2]])}{found[3]}", page)


def table(model: type[BaseModel]) -> str:
    stated = model.model_json_schema()["properties"]
    rows = [
        f"| `{name}` | {default_text(field, stated[name])} | {description(field)} |\n"
        for name, field in model.model_fields.items()
    ]
    return "| key | default | meaning |\n| --- | --- | --- |\n" + "".join(rows)


def default_text(field: FieldInfo, schema: dict[str, Any]) -> str:
    value: Any = field.default
    if field.is_required():
        return "required"
    if "default" not in schema:
        return "depends"
    if value is None:
        return "unset"
    if isinstance(value, BaseModel):
        return "see below"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, int) and value >= _MIB and value % _MIB == 0:
        return f"`{value // _MIB} MiB`"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


def description(field: FieldInfo) -> str:
    choices = [f"`{choice}`" for choice in _choices(field.annotation)]
    text = (field.description or "").replace("|", "\\|")
    return f"{text}; one of {', '.join(choices)}" if choices else text


def _choices(annotation: Any) -> tuple[Any, ...]:
    """The values of a `Literal`, inside a union too."""
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    if get_origin(annotation) in (Union, types.UnionType):
        return tuple(choice for part in get_args(annotation) for choice in _choices(part))
    return ()


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
