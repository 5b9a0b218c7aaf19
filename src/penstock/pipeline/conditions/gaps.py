"""What Spark's own expressions cannot say as the language means it.

A condition with such a part is evaluated as a whole by `batch.py`, with the same result; `explain_column` says which
part it was. Nothing else decides between the two.
"""

from collections.abc import Mapping

from penstock.model.errors import PenstockError

GAPS: Mapping[str, str] = {
    "content without types": "there are no columns to work on, so the payload is decoded",
    "xpath": "it asks the XML document, which typed columns no longer have",
    "matches": "Java reads the pattern otherwise than RE2, or may need more than linear time for it",
    "a pattern from content": "it has to be read as RE2 reads it",
    "string of a double": "Java 17 writes other digits than CEL",
    "string of a timestamp": "Spark's timestamps have microseconds, CEL's nanoseconds",
    "string of a duration": "Spark's intervals are written otherwise",
    "duration of a string": "Spark has no reader for `1h30m`",
    "duration in content": "Spark's intervals have microseconds, CEL's durations nanoseconds",
    "a time zone by name": "Java has its own tables of time zones",
    "values of different types": "a column has one type; so in lists, in the values of `? :` and of maps",
    "times in a list": "a list that is made of timestamps or durations has no column type that keeps nanoseconds",
    "equality of maps": "Spark does not compare maps",
    "a key from content": "which field or entry is meant is only known for each row, and each may have its own type",
    "work that has to be counted": "it may come to more steps than an evaluation may take, and Spark cannot count them",
    "a macro over a long list": "it would be written out for each element",
    "a large condition": "the expression would be too large for Spark to compile",
    "names that differ in case": "Spark takes them for one",
}
"""Each construct that is evaluated by the batch function, and why."""


class NativeGap(PenstockError):
    """Says, to whoever asked for a native column, that there is none; `at` is the place in the condition."""

    def __init__(self, construct: str, at: int | None = None) -> None:
        super().__init__(f"{construct}: {GAPS[construct]}")
        self.construct = construct
        self.at = at
