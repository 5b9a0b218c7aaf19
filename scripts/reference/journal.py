"""The tables of the journal, from the schemas that it is written and read with."""

import ast
import inspect

import pyarrow as pa

from penstock.journal.format import READABLE, SCHEMA, VERSION, RowKind
from penstock.journal.read.events import EVENTS, QUARANTINE, REACHED
from scripts.reference.markdown import code, heading, plain, table

_INTRODUCTION = f"""\
The format has version {VERSION}; versions {", ".join(map(str, READABLE))} are read. What each column means, where the
files are and how to read them while they are written is on the page about [the journal](../journal.md).
"""


def page() -> str:
    rows = ((str(kind.value), code(kind.name.lower()), plain(text)) for kind, text in _kinds())
    return "".join(
        [
            heading("Tables of the journal", "`penstock.journal`"),
            _INTRODUCTION,
            _columns("Segments", "Rows of a segment, an Arrow IPC stream.", SCHEMA),
            f"\n`kind` says what a row is:\n\n{table(('kind', 'name', 'is'), rows)}",
            _columns("Events", "One row for each event: what readers make of segments; compacted files.", EVENTS),
            _columns("Reached", "Each of the column `reached`: whom the event was sent to.", REACHED),
            _columns("Quarantine", "What cannot be read or is not there, and why.", QUARANTINE),
        ]
    )


def _columns(title: str, about: str, fields: "pa.Schema | pa.StructType") -> str:
    rows = ((code(field.name), code(_type(field.type)), "yes" if field.nullable else "no") for field in fields)
    return f"\n## {title}\n\n{about}\n\n{table(('column', 'type', 'may be null'), rows)}"


def _type(kind: "pa.DataType") -> str:
    if pa.types.is_list(kind):
        return f"list of {'struct' if pa.types.is_struct(kind.value_type) else kind.value_type}"
    return str(kind)


def _kinds() -> list[tuple[RowKind, str]]:
    """Each kind with the text that stands below it in the source."""
    (body,) = ast.parse(inspect.getsource(RowKind)).body
    assert isinstance(body, ast.ClassDef)
    texts = [ast.literal_eval(statement.value) for statement in body.body[1:] if isinstance(statement, ast.Expr)]
    return list(zip(RowKind, texts, strict=True))
