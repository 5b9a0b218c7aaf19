"""Conditions over a table of content, with the meaning that they have in a node.

A condition becomes an expression of Spark's own wherever this can mean the same. What cannot is named in `GAPS`, and
then the whole condition is evaluated by a function on Arrow batches. `explain_column` says which it is, and why.

Content is a struct with a column for each attribute (`native/shapes.py` has the types): its schema is given as Spark
has it, or as the attributes that are declared. Content whose types are not known is its payload; the schema is None.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from penstock.language.condition import Condition
from penstock.language.tree import Attribute, Has, Tree, XPath, walk
from penstock.language.types import ANYTHING, RecordType
from penstock.model.content.content import Format
from penstock.pipeline.conditions.batch import over_payload, over_struct
from penstock.pipeline.conditions.gaps import GAPS as GAPS
from penstock.pipeline.conditions.gaps import NativeGap
from penstock.pipeline.conditions.native.compiler import NativeOutcome, compile_native
from penstock.pipeline.conditions.native.parts import Part
from penstock.pipeline.conditions.native.shapes import column_type, names_collide

Schema = StructType | RecordType | None
Payload = Column | None


@dataclass(frozen=True, slots=True)
class Explanation:
    """How a condition is evaluated: natively, or because of a construct at a place by the batch function."""

    construct: str = ""
    at: int = 0

    @property
    def native(self) -> bool:
        """Return whether it is an expression of Spark's own."""
        return not self.construct

    def __str__(self) -> str:
        if self.native:
            return "native"
        return f"batch function, for {self.construct} at character {self.at + 1}: {GAPS[self.construct]}"


def condition_column(
    condition: Condition | Tree, schema: Schema, content: Column, payload: Payload = None, format: Format | None = None
) -> Column:
    """Return the outcome of a condition in each row: a struct of `value`, a bool, and `error`, the kind of a failure.

    Exactly one of the two is NULL. Content that is NULL is unreadable. Beside a schema, `xpath()` asks the `payload`,
    and finds no XML without one. The `format` of payloads is found by looking if it is not given.
    """
    return explained_column(condition, schema, content, payload, format)[0]


def explained_column(
    condition: Condition | Tree, schema: Schema, content: Column, payload: Payload = None, format: Format | None = None
) -> tuple[Column, Explanation]:
    """Return what `condition_column` gives, and how it is evaluated."""
    native = _native(_tree(condition), schema, content, payload)
    if isinstance(native, NativeGap):
        explanation = Explanation(native.construct, native.at or 0)
        return _batch(_tree(condition), schema, content, payload, format), explanation
    return F.struct(native.value.alias("value"), native.error.alias("error")), Explanation()


def holds(
    condition: Condition | Tree, schema: Schema, content: Column, payload: Payload = None, format: Format | None = None
) -> Column:
    """Return whether a permit's condition is true: one that fails grants nothing. Arguments as `condition_column`."""
    return F.coalesce(_value(_tree(condition), schema, content, payload, format), F.lit(False))


def applies(
    condition: Condition | Tree, schema: Schema, content: Column, payload: Payload = None, format: Format | None = None
) -> Column:
    """Return whether a denial applies: one whose condition fails does too. Arguments as `condition_column`."""
    return F.coalesce(_value(_tree(condition), schema, content, payload, format), F.lit(True))


def native_holds(tree: Tree, schema: Schema, content: Column, given: Mapping[str, Part]) -> Column | None:
    """Return whether a condition is true, if it is an expression of Spark's own. Variables are `given`."""
    native = _native(tree, schema, content, content, given)
    return None if isinstance(native, NativeGap) else F.coalesce(native.value, F.lit(False))


def explain_column(condition: Condition | Tree, schema: Schema, payload: Payload = None) -> Explanation:
    """Return how a condition is evaluated over content of a schema."""
    native = _native(_tree(condition), schema, F.col("content"), payload)
    return Explanation(native.construct, native.at or 0) if isinstance(native, NativeGap) else Explanation()


def _tree(condition: Condition | Tree) -> Tree:
    return condition.tree if isinstance(condition, Condition) else condition


def _struct(schema: Schema) -> StructType | None:
    if schema is None or schema == ANYTHING:
        return None
    struct = column_type(schema) if isinstance(schema, RecordType) else schema
    assert isinstance(struct, StructType)
    return struct


def _native(
    tree: Tree, schema: Schema, content: Column, payload: Payload, given: Mapping[str, Part] = MappingProxyType({})
) -> NativeOutcome | NativeGap:
    struct = _struct(schema)
    if struct is None:
        return NativeGap("content without types")
    if payload is not None and (xpath := _xpath(tree)) is not None:
        return NativeGap("xpath", xpath.at)
    if names_collide(struct):
        return NativeGap("names that differ in case")
    try:
        return compile_native(tree, struct, content, given)
    except NativeGap as gap:
        return gap


def _xpath(tree: Tree) -> XPath | None:
    return next((node for node, _ in walk(tree) if isinstance(node, XPath)), None)


def _value(tree: Tree, schema: Schema, content: Column, payload: Payload, format: Format | None) -> Column:
    native = _native(tree, schema, content, payload)
    if isinstance(native, NativeGap):
        return _batch(tree, schema, content, payload, format).getField("value")
    return native.value


def _batch(tree: Tree, schema: Schema, content: Column, payload: Payload, format: Format | None) -> Column:
    struct = _struct(schema)
    if struct is None:
        return over_payload(tree, content, format)
    if payload is not None and _xpath(tree) is not None:
        return over_payload(tree, payload, format)
    return over_struct(tree, _needed(tree, struct, content))


def _needed(tree: Tree, struct: StructType, content: Column) -> Column:
    """Return the attributes that a condition asks for, so that no others are sent to the function."""
    names = {node.name for node, _ in walk(tree) if isinstance(node, Attribute | Has)} & set(struct.names)
    if names_collide(struct) or not names:
        return content
    kept = F.struct(*[content.getField(name).alias(name) for name in struct.names if name in names])
    return F.when(content.isNotNull(), kept)
