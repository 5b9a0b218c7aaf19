"""Columns of small tables: each works itself out over the rows that it is asked of, at once. NULL is as in SQL."""

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import reduce
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

Rows: TypeAlias = pa.Table
"""What a column is asked of: each column is one chunk."""
Of = Callable[[Rows], pa.Array]

_TYPES = {
    "bigint": pa.int64(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "string": pa.string(),
    "timestamp": pa.timestamp("us", "UTC"),
}


class Equal(NamedTuple):
    """A column of one table that equals one of another."""

    left: str
    right: str
    null_safe: bool


def _operator(work: Callable[[pa.Array, pa.Array], pa.Array]) -> Callable[["Column", object], "Column"]:
    return lambda column, other: both(work, column, other)


class Column:
    """What is asked of each row."""

    def __init__(self, of: Of, name: str, is_plain: bool = False, equals: tuple[Equal, ...] = ()) -> None:
        self.of = of
        self.name = name
        self.is_plain = is_plain
        """Whether it is a column of the table, as it is."""
        self.equals = equals
        """What two tables are joined by, if it says nothing else."""

    def alias(self, name: str) -> "Column":
        return Column(self.of, name)

    def cast(self, kind: str) -> "Column":
        return Column(lambda rows: self.of(rows).cast(_TYPES[kind]), self.name)

    # --- asked of one row

    def __eq__(self, other: object) -> "Column":  # type: ignore[override]
        return self._equal(other, False)

    def eqNullSafe(self, other: object) -> "Column":
        return self._equal(other, True)

    def _equal(self, other: object, null_safe: bool) -> "Column":
        that = literal(other)
        joined = (Equal(self.name, that.name, null_safe),) if self.is_plain and that.is_plain else ()

        def of(rows: Rows) -> pa.Array:
            mine, its = self.of(rows), that.of(rows)
            same = pc.equal(mine, its)
            if not null_safe:
                return same
            return pc.if_else(pc.or_(mine.is_null(), its.is_null()), pc.and_(mine.is_null(), its.is_null()), same)

        return Column(of, "equal", equals=joined)

    __hash__ = None  # type: ignore[assignment]

    def __ne__(self, other: object) -> "Column":  # type: ignore[override]
        return ~(self == other)

    __lt__, __le__, __gt__, __ge__ = map(_operator, (pc.less, pc.less_equal, pc.greater, pc.greater_equal))
    __add__, __sub__, __mul__ = map(_operator, (pc.add, pc.subtract, pc.multiply))
    __or__ = _operator(pc.or_kleene)

    def __and__(self, other: object) -> "Column":
        that = literal(other)
        made = both(pc.and_kleene, self, that)
        made.equals = (*self.equals, *that.equals) if self.equals and that.equals else ()
        return made

    def __invert__(self) -> "Column":
        return each(pc.invert, self)

    __truediv__ = _operator(lambda left, right: pc.divide(left.cast(pa.float64()), right))

    def isNull(self) -> "Column":
        return each(pc.is_null, self)

    def isNotNull(self) -> "Column":
        return each(pc.is_valid, self)

    def isin(self, *values: object) -> "Column":
        def of(rows: Rows) -> pa.Array:
            mine = self.of(rows)
            if not values:
                return pa.repeat(False, len(mine))
            is_in = pc.is_in(mine, value_set=pa.array(values, mine.type))
            return pc.if_else(mine.is_valid(), is_in, pa.scalar(None, pa.bool_()))

        return Column(of, "isin")

    def startswith(self, text: str) -> "Column":
        return each(lambda mine: pc.starts_with(mine, pattern=text), self)

    def rlike(self, pattern: str) -> "Column":
        known = re.compile(as_python(pattern))
        return each(lambda mine: by_value(mine, lambda text: known.search(text) is not None, pa.bool_()), self)

    def __getitem__(self, name: str) -> "Column":
        return Column(lambda rows: pc.struct_field(self.of(rows), name), name)

    # --- in order

    def desc(self) -> "Column":
        made = Column(self.of, self.name)
        made.is_down = True
        return made

    is_down = False
    """Whether the largest comes first where rows are brought into order by it."""


class Chosen(Column):
    """The value of the first branch whose condition is true, else the last; what no row takes is not asked."""

    def __init__(self, branches: Sequence[tuple[Column, Column]], last: Column | None = None) -> None:
        super().__init__(self._of, "chosen")
        self._branches = branches
        self._last = last

    def when(self, condition: Column, value: object) -> "Column":
        return Chosen([*self._branches, (condition, literal(value))])

    def otherwise(self, value: object) -> "Column":
        return Chosen(self._branches, literal(value))

    def _of(self, rows: Rows) -> pa.Array:
        taken = [pc.fill_null(condition.of(rows), False) for condition, _ in self._branches]
        chosen = pa.nulls(rows.num_rows) if self._last is None else self._last.of(rows)
        for at in reversed(range(len(taken))):
            before = reduce(pc.or_, taken[:at], pa.repeat(False, rows.num_rows))
            mine = pc.and_not(taken[at], before)
            # What nobody takes has a type all the same, which the whole has too.
            asked = rows if mine.true_count else rows.slice(0, 0)
            value = self._branches[at][1].of(asked)
            value = value if mine.true_count else pa.nulls(rows.num_rows, value.type)
            chosen = pc.if_else(mine, *_alike(value, chosen))
        return chosen


def _alike(left: pa.Array, right: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Both of one type, where one of them has none."""
    if pa.types.is_null(right.type):
        return left, pa.nulls(len(right), left.type)
    return (pa.nulls(len(left), right.type), right) if pa.types.is_null(left.type) else (left, right)


class Exploded(Column):
    """A row for each element of its lists; rows with none are left out."""

    def alias(self, name: str) -> "Exploded":
        return Exploded(self.of, name)


def named(name: str) -> Column:
    """Return a column of the table; `a.b` is member `b` of its column `a`."""
    whole, _, member = name.partition(".")

    def of(rows: Rows) -> pa.Array:
        values = rows.column(whole).chunk(0) if rows.column(whole).num_chunks else rows.column(whole).combine_chunks()
        return pc.struct_field(values, member) if member else values

    return Column(of, member or whole, is_plain=not member)


def literal(value: object) -> Column:
    """Return a column with the same value in each row; a column as it is."""
    if isinstance(value, Column):
        return value
    kind = pa.int32() if type(value) is int and -(2**31) <= value < 2**31 else None
    if isinstance(value, datetime):
        kind = _TYPES["timestamp"]
    made = pa.scalar(value, kind)
    return Column(lambda rows: pa.repeat(made, rows.num_rows) if made.is_valid else pa.nulls(rows.num_rows), "literal")


def asked(value: "Column | str") -> Column:
    """Return a column as it is, a text as a column's name."""
    return named(value) if isinstance(value, str) else value


def each(work: Callable[[pa.Array], pa.Array], of: Column) -> Column:
    """Return what a function makes of a column."""
    return Column(lambda rows: work(of.of(rows)), "each")


def both(work: Callable[[pa.Array, pa.Array], pa.Array], one: object, other: object) -> Column:
    """Return what a function makes of two columns."""
    left, right = literal(one), literal(other)
    return Column(lambda rows: work(left.of(rows), right.of(rows)), "both")


def by_value(values: pa.Array, work: Callable[[Any], object], kind: pa.DataType) -> pa.Array:
    """Return what a function makes of each value that is not NULL."""
    return pa.array([None if value is None else work(value) for value in values.to_pylist()], kind)


def as_python(pattern: str) -> str:
    """Return a pattern of Java's as one of Python's, as far as patterns here need it."""
    pattern = re.sub(r"\\Q(.*?)\\E", lambda match: re.escape(match[1]), pattern)
    return re.sub(r"\\z$", r"\\Z", pattern)


def elements(lists: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return the elements of lists, one after the other, and for each the row that it is of."""
    return lists.flatten(), pc.list_parent_indices(lists)


def lists_of(parents: Sequence[int], values: pa.Array, count: int, kind: pa.DataType) -> pa.Array:
    """Lists of so many rows, of elements in the order of their rows."""
    offsets = [0] * (count + 1)
    for parent in parents:
        offsets[parent + 1] += 1
    for at in range(count):
        offsets[at + 1] += offsets[at]
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values, type=kind)


Name = Column | str


def unpacked(columns: Sequence["Column | str"], rows: Rows) -> Iterator[Column]:
    """Return columns, where `*` stands for all of the table's and `a.*` for all members of its column `a`."""
    for name in columns:
        if isinstance(name, str) and name == "*":
            yield from map(named, rows.column_names)
        elif isinstance(name, str) and name.endswith(".*"):
            whole = name.removesuffix(".*")
            yield from (named(f"{whole}.{field.name}") for field in rows.schema.field(whole).type)
        else:
            yield asked(name)
