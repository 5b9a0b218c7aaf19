"""Functions of single values: equality, order, arithmetic, texts, times (A.3.1 to A.3.9, A.3.14)."""

import math
import operator
from collections.abc import Callable
from typing import Any

from penstock.policy.xacml.functions.function import FunctionTable, XacmlFunction, add
from penstock.policy.xacml.functions.patterns import matches_pattern, pattern_cost
from penstock.policy.xacml.limits import MAX_BITS, MAX_CHARACTERS
from penstock.policy.xacml.names import FUNCTION_1, FUNCTION_2, FUNCTION_3
from penstock.policy.xacml.status import XacmlError, malformed, unprocessable
from penstock.policy.xacml.values import moments
from penstock.policy.xacml.values.moments import Days, Moment, Months
from penstock.policy.xacml.values.values import DATA_TYPES, SHORT_TYPES, Mailbox, Spelled, Type, read_value

_MAX_NANOS = 10**9 * 366 * moments.DAY
"""About a thousand million years: beyond it, times are not calculated."""


def _equalities(table: FunctionTable) -> None:
    for word in SHORT_TYPES:
        for prefix in (FUNCTION_1, FUNCTION_3) if word.endswith("Duration") else (FUNCTION_1,):
            add(table, prefix, f"{word}-equal", f"{word} {word} -> boolean", operator.eq)
    for word in ("xpathExpression", "ipAddress", "dnsName"):
        del table[f"{FUNCTION_1}{word}-equal"]
    add(table, FUNCTION_1, "double-equal", "double double -> boolean", _equal_doubles)
    ignoring = lambda left, other: left.lower() == other.lower()  # noqa: E731
    add(table, FUNCTION_3, "string-equal-ignore-case", "string string -> boolean", ignoring)


def _equal_doubles(left: float, other: float) -> bool:
    """Return whether two doubles are equal in the value space of XML Schema, where NaN is equal to itself."""
    return left == other or (math.isnan(left) and math.isnan(other))


def _orders(table: FunctionTable) -> None:
    orders: dict[str, Callable[[Any, Any], bool]] = {
        "greater-than": operator.gt,
        "greater-than-or-equal": operator.ge,
        "less-than": operator.lt,
        "less-than-or-equal": operator.le,
    }
    for word in ("integer", "double", "string", "time", "date", "dateTime"):
        for name, test in orders.items():
            add(table, FUNCTION_1, f"{word}-{name}", f"{word} {word} -> boolean", test)
    add(table, FUNCTION_2, "time-in-range", "time time time -> boolean", moments.in_range)


# --- numbers


def _fitting(value: int) -> int:
    if value.bit_length() > MAX_BITS:
        raise unprocessable(f"an integer of more than {MAX_BITS} bits")
    return value


def _divide(left: int, other: int) -> int:
    if not other:
        raise unprocessable("an integer is divided by zero")
    quotient = abs(left) // abs(other)
    return quotient if (left < 0) == (other < 0) else -quotient


def _remainder(left: int, other: int) -> int:
    return left - _divide(left, other) * other


def _divide_doubles(left: float, other: float) -> float:
    if not other:
        raise unprocessable("a double is divided by zero")
    return left / other


def _round(value: float) -> float:
    return math.copysign(math.floor(value + 0.5), value) if math.isfinite(value) and abs(value) < 2**52 else value


def _floor(value: float) -> float:
    return float(math.floor(value)) if math.isfinite(value) else value


def _truncate(value: float) -> int:
    if not math.isfinite(value):
        raise unprocessable("a double that is not finite cannot be an integer")
    return math.trunc(value)


def _as_double(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        raise unprocessable("an integer that is too large for a double") from None


def _numbers(table: FunctionTable) -> None:
    # The norm takes two or more for sums, and two for products; earlier versions took more of both.
    add(table, FUNCTION_1, "integer-add", "integer integer... -> integer", lambda *values: _fitting(sum(values)))
    add(table, FUNCTION_1, "double-add", "double double... -> double", lambda *values: sum(values))
    add(table, FUNCTION_1, "integer-multiply", "integer integer... -> integer", _product)
    add(table, FUNCTION_1, "double-multiply", "double double... -> double", lambda *values: math.prod(values))
    add(table, FUNCTION_1, "integer-subtract", "integer integer -> integer", lambda left, right: _fitting(left - right))
    add(table, FUNCTION_1, "integer-divide", "integer integer -> integer", _divide)
    add(table, FUNCTION_1, "integer-mod", "integer integer -> integer", _remainder)
    add(table, FUNCTION_1, "integer-abs", "integer -> integer", abs)
    add(table, FUNCTION_1, "double-subtract", "double double -> double", operator.sub)
    add(table, FUNCTION_1, "double-divide", "double double -> double", _divide_doubles)
    add(table, FUNCTION_1, "double-abs", "double -> double", abs)
    add(table, FUNCTION_1, "round", "double -> double", _round)
    add(table, FUNCTION_1, "floor", "double -> double", _floor)
    add(table, FUNCTION_1, "double-to-integer", "double -> integer", _truncate)
    add(table, FUNCTION_1, "integer-to-double", "integer -> double", _as_double)


def _product(*values: int) -> int:
    product = 1
    for value in values:
        product = _fitting(product * value)
    return product


# --- texts


def _concatenate(*texts: str) -> str:
    if sum(map(len, texts)) > MAX_CHARACTERS:
        raise unprocessable(f"a string of more than {MAX_CHARACTERS} characters")
    return "".join(texts)


def _substring(text: str, begin: int, end: int) -> str:
    stop = len(text) if end == -1 else end
    if not 0 <= begin <= stop <= len(text):
        raise unprocessable(f"there is no part from {begin} to {end} of a string of {len(text)} characters")
    return text[begin:stop]


def _reader(uri: str) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        try:
            return read_value(uri, text)
        except XacmlError as error:
            raise malformed(str(error)) from None

    return read


def _texts(table: FunctionTable) -> None:
    add(table, FUNCTION_1, "string-normalize-space", "string -> string", lambda text: text.strip(" \t\r\n"))
    add(table, FUNCTION_1, "string-normalize-to-lower-case", "string -> string", str.lower)
    add(table, FUNCTION_2, "string-concatenate", "string string... -> string", _concatenate)
    for name in ("uri-string-concatenate", "url-string-concatenate"):
        add(table, FUNCTION_2, name, "anyURI string... -> anyURI", _concatenate)
    for word in ("string", "anyURI"):
        is_part = f"string {word} -> boolean"  # the first argument is what is looked for (A.3.9)
        add(table, FUNCTION_3, f"{word}-starts-with", is_part, lambda part, text: text.startswith(part))
        add(table, FUNCTION_3, f"{word}-ends-with", is_part, lambda part, text: text.endswith(part))
        add(table, FUNCTION_3, f"{word}-contains", is_part, lambda part, text: part in text)
        add(table, FUNCTION_3, f"{word}-substring", f"{word} integer integer -> string", _substring)
    canonical = {"time": moments.show_canonical_time, "dateTime": moments.show_canonical_date_time}
    for word, uri in SHORT_TYPES.items():
        if word not in ("string", "hexBinary", "base64Binary", "xpathExpression"):
            add(table, FUNCTION_3, f"{word}-from-string", f"string -> {word}", _reader(uri))
            show = canonical.get(word, DATA_TYPES[uri].show)
            add(table, FUNCTION_3, f"string-from-{word}", f"{word} -> string", show)


# --- times


def _within(local: int, zone: int | None) -> Moment:
    if abs(local) > _MAX_NANOS:
        raise unprocessable("a time that is too far away")
    return Moment(local, zone)


def _add_days(moment: Moment, duration: Days) -> Moment:
    return _within(moment.local + duration.nanos, moment.zone)


def _subtract_days(moment: Moment, duration: Days) -> Moment:
    return _within(moment.local - duration.nanos, moment.zone)


def _add_months(moment: Moment, duration: Months) -> Moment:
    added = moments.add_months(moment, duration.months)
    return _within(added.local, added.zone)


def _subtract_months(moment: Moment, duration: Months) -> Moment:
    return _add_months(moment, Months(-duration.months))


def _times(table: FunctionTable) -> None:
    for prefix in (FUNCTION_1, FUNCTION_3):  # the earlier ones are of the earlier names of the types
        add(table, prefix, "dateTime-add-dayTimeDuration", "dateTime dayTimeDuration -> dateTime", _add_days)
        add(table, prefix, "dateTime-subtract-dayTimeDuration", "dateTime dayTimeDuration -> dateTime", _subtract_days)
        for word in ("dateTime", "date"):
            signature = f"{word} yearMonthDuration -> {word}"
            add(table, prefix, f"{word}-add-yearMonthDuration", signature, _add_months)
            add(table, prefix, f"{word}-subtract-yearMonthDuration", signature, _subtract_months)


# --- patterns


def _matching_mailbox(pattern: str, name: Spelled) -> bool:
    """Return whether a mailbox matches a whole mailbox, a domain, or `.` and a domain above its own (A.3.14)."""
    mailbox: Mailbox = name.key
    local, at, domain = pattern.rpartition("@")
    if at:
        return local == mailbox.local and domain.lower() == mailbox.domain
    return mailbox.domain.endswith(domain.lower()) if domain.startswith(".") else mailbox.domain == domain.lower()


def _is_end(end: Spelled, name: Spelled) -> bool:
    """Return whether the last relative names are those of the other."""
    return not end.key or name.key[-len(end.key) :] == end.key


def _patterns(table: FunctionTable) -> None:
    add(table, FUNCTION_1, "string-regexp-match", "string string -> boolean", matches_pattern)
    for word in ("anyURI", "ipAddress", "dnsName", "rfc822Name", "x500Name"):
        show = DATA_TYPES[SHORT_TYPES[word]].show
        apply = lambda pattern, value, show=show: matches_pattern(pattern, show(value))  # noqa: E731
        add(table, FUNCTION_2, f"{word}-regexp-match", f"string {word} -> boolean", apply)
    table[FUNCTION_1 + "regexp-string-match"] = table[FUNCTION_1 + "string-regexp-match"]  # its name in 1.0
    add(table, FUNCTION_1, "rfc822Name-match", "string rfc822Name -> boolean", _matching_mailbox)
    add(table, FUNCTION_1, "x500Name-match", "x500Name x500Name -> boolean", _is_end)


_CHARACTERS = 1024
"""Characters that are gone through in a step."""


def _length(*arguments: Any) -> int:
    return sum(len(argument) for argument in arguments if isinstance(argument, str)) // _CHARACTERS


def _metered(function: XacmlFunction) -> XacmlFunction:
    """Return the function with its cost, if that grows with its texts."""
    if function.id.endswith("-regexp-match") or function.id.endswith("regexp-string-match"):
        show = DATA_TYPES[function.parameters[1].data].show
        return function._replace(cost=lambda pattern, value: pattern_cost(pattern, show(value)))
    texts = {Type(SHORT_TYPES["string"]), Type(SHORT_TYPES["anyURI"])}
    return function._replace(cost=_length) if texts & {*function.parameters, function.result} else function


def value_functions() -> FunctionTable:
    table: FunctionTable = {}
    for fill in (_equalities, _orders, _numbers, _texts, _times, _patterns):
        fill(table)
    add(table, FUNCTION_1, "not", "boolean -> boolean", operator.not_)
    return {name: _metered(function) if not name.endswith("-equal") else function for name, function in table.items()}
