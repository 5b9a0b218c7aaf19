"""The form of the tables of native functions: by name and by the Python types of the arguments, as in `language`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql import Column

from penstock.language.errors import FailureKind
from penstock.pipeline.conditions.native.parts import Shape


@dataclass(frozen=True, slots=True, eq=False)
class NativeCall:
    """What a function makes of its arguments' columns.

    The value is NULL where one of them is, and where the function fails; then as `before` says, else as `fails` does.
    `uses` is how often each argument stands in the value; Spark's `try_` functions have each argument twice.
    """

    shape: Shape
    value: Column
    fails: FailureKind | None = None
    before: tuple[Column, ...] = ()
    uses: int = 1


Native = Callable[..., NativeCall]
Table = Mapping[tuple[str, tuple[type, ...]], Native]
