"""The closures that conditions are made of. Each takes the attributes and the frame of one evaluation."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from penstock.language.errors import EvaluationError, Failure
from penstock.language.evaluators.comparison import same
from penstock.language.evaluators.functions import Overloads
from penstock.language.evaluators.patterns import match_cost, matcher
from penstock.language.evaluators.work import CHARACTERS, Work, charge
from penstock.language.values import Value, keys, no_overload

Frame = Work
"""The state of one evaluation: its steps so far, the function that evaluates XPath, each macro's variable."""

Code = Callable[[Mapping[str, Value], Frame], Value]

XPATH, FIRST_VARIABLE = 1, 2


class ConstantComparison(NamedTuple):
    """A comparison with a constant: with Python's operator for values of two types, else in general."""

    compare: Callable[[Any, Any], bool]
    constant: Value
    kind: type
    other: type
    general: Callable[[Value], Value]


def attribute(name: str, failure: Failure) -> Code:
    def read(attributes: Mapping[str, Value], frame: Frame) -> Value:
        try:
            return attributes[name]
        except KeyError:
            raise EvaluationError(failure) from None

    return read


def finds(expression: str, is_wanted: bool) -> Code:
    """Return code that tests whether XPath finds nodes, or with `is_wanted` false, whether it finds none."""

    def read(attributes: Mapping[str, Value], frame: Frame) -> Value:
        result = frame[XPATH](expression, frame)
        if type(result) is list:
            return (not result) is not is_wanted
        return same(result, [], frame) is not is_wanted

    return read


def path(path: tuple[str, ...], general: Code) -> Code:
    """Return all steps of a path in one; where one fails, the general code says why."""
    first, *rest = path

    def read(attributes: Mapping[str, Value], frame: Frame) -> Value:
        try:
            value = attributes[first]
            for name in rest:
                if type(value) is not dict:
                    return general(attributes, frame)
                value = value[name]
            return value
        except KeyError:
            return general(attributes, frame)

    return read


def compared_attribute(name: str, failure: Failure, test: ConstantComparison) -> Code:
    """Return a comparison of an attribute with a constant: the commonest condition, so it is one closure."""
    compare, constant, kind, other, general = test

    def compared_attribute(attributes: Mapping[str, Value], frame: Frame) -> Value:
        try:
            value = attributes[name]
        except KeyError:
            raise EvaluationError(failure) from None
        value_type = type(value)
        if value_type is kind or value_type is other:
            return compare(value, constant)
        return general(value)

    return compared_attribute


def compared(run: Code, test: ConstantComparison) -> Code:
    """Return a comparison of any value with a constant."""
    compare, constant, kind, other, general = test

    def compared(attributes: Mapping[str, Value], frame: Frame) -> Value:
        value = run(attributes, frame)
        value_type = type(value)
        if value_type is kind or value_type is other:
            return compare(value, constant)
        return general(value)

    return compared


def in_strings(run: Code, constants: list[str]) -> Code:
    strings = frozenset(constants)

    def is_in_strings(attributes: Mapping[str, Value], frame: Frame) -> Value:
        value = run(attributes, frame)
        return type(value) is str and value in strings

    return is_in_strings


def arithmetic(symbol: str, overloads: Overloads) -> Callable[[Value, Value], Value]:
    """Return the arithmetic of numbers and times, whose cost does not depend on the values."""
    runs = {key: overload.run for key, overload in overloads.items() if overload.cost is None}

    def arithmetic(left: Value, right: Value) -> Value:
        run = runs.get((type(left), type(right)))
        if run is None:
            raise no_overload(symbol, left, right)
        return run(left, right)

    return arithmetic


def paid_arithmetic(symbol: str, overloads: Overloads) -> Callable[[Frame, Value, Value], Value]:
    runs = {key: (overload.run, overload.cost) for key, overload in overloads.items()}

    def paid_arithmetic(frame: Frame, left: Value, right: Value) -> Value:
        overload = runs.get((type(left), type(right)))
        if overload is None:
            raise no_overload(symbol, left, right)
        run, cost = overload
        if cost is not None:
            charge(frame, cost(left, right))
        return run(left, right)

    return paid_arithmetic


def string_test(function: str, argument: str) -> Callable[[str], bool] | None:
    """Return a test of a string with an argument that is known; None if it is no test, or one that always fails."""
    match function:
        case "startsWith":
            return lambda text: text.startswith(argument)
        case "endsWith":
            return lambda text: text.endswith(argument)
        case "contains":
            return lambda text: argument in text
        case "matches":
            with suppress(EvaluationError):
                return matcher(argument)
    return None


def tested(
    run: Code, function: str, argument: str, test: Callable[[str], bool], general: Callable[[Value], Value]
) -> Code:
    """Return a test of a string; what is none goes to the general function."""

    def tested(attributes: Mapping[str, Value], frame: Frame) -> Value:
        value = run(attributes, frame)
        return test(value) if type(value) is str else general(value)

    def contained(attributes: Mapping[str, Value], frame: Frame) -> Value:
        value = run(attributes, frame)
        if type(value) is not str:
            return general(value)
        if len(value) >= CHARACTERS:
            charge(frame, len(value) // CHARACTERS)
        return argument in value

    def matched(attributes: Mapping[str, Value], frame: Frame) -> Value:
        value = run(attributes, frame)
        if type(value) is not str:
            return general(value)
        charge(frame, match_cost(value, argument))
        return test(value)

    return {"contains": contained, "matches": matched}.get(function, tested)


def conditional(condition: Code, yes: Code, no: Code) -> Code:
    def conditional(attributes: Mapping[str, Value], frame: Frame) -> Value:
        value = condition(attributes, frame)
        if value is True:
            return yes(attributes, frame)
        if value is False:
            return no(attributes, frame)
        raise no_overload("?", value)

    return conditional


def logical(symbol: str, deciding: bool, codes: list[Code]) -> Code:
    other = not deciding

    def logical(attributes: Mapping[str, Value], frame: Frame) -> Value:
        failure = None
        for code in codes:
            try:
                value = code(attributes, frame)
            except EvaluationError as error:
                if failure is None:
                    failure = error.failure
                continue
            if value is deciding:
                return deciding
            if value is not other and failure is None:
                failure = no_overload(symbol, value).failure
        if failure is None:
            return other
        raise EvaluationError(failure)

    return logical


def elements(name: str, run: Code, parts: int) -> Callable[[Mapping[str, Value], Frame], list[Value]]:
    """Return code for the elements of a macro: each costs as many steps as the macro's body has parts."""

    def elements(attributes: Mapping[str, Value], frame: Frame) -> list[Value]:
        value = run(attributes, frame)
        if type(value) is list:
            charge(frame, len(value) * parts)
            return value
        if type(value) is dict:
            charge(frame, len(value) * parts)
            return keys(value)
        raise no_overload(name, value)

    return elements


def quantified(name: str, elements: Code, place: int, body: Code) -> Code:
    deciding = name == "exists"
    other = not deciding

    def quantified(attributes: Mapping[str, Value], frame: Frame) -> Value:
        failure = None
        for element in elements(attributes, frame):
            frame[place] = element
            try:
                value = body(attributes, frame)
            except EvaluationError as error:
                if failure is None:
                    failure = error.failure
                continue
            if value is deciding:
                return deciding
            if value is not other and failure is None:
                failure = no_overload(name, value).failure
        if failure is None:
            return other
        raise EvaluationError(failure)

    return quantified


def _holds(name: str, code: Code, attributes: Mapping[str, Value], frame: Frame) -> bool:
    value = code(attributes, frame)
    if value is True or value is False:
        return bool(value)
    raise no_overload(name, value)


def exists_one(elements: Code, place: int, body: Code) -> Code:
    def exists_one(attributes: Mapping[str, Value], frame: Frame) -> Value:
        count = 0
        for element in elements(attributes, frame):
            frame[place] = element
            count += _holds("exists_one", body, attributes, frame)
        return count == 1

    return exists_one


def filtered(elements: Code, place: int, body: Code) -> Code:
    def filtered(attributes: Mapping[str, Value], frame: Frame) -> Value:
        kept = []
        for element in elements(attributes, frame):
            frame[place] = element
            if _holds("filter", body, attributes, frame):
                kept.append(element)
        return kept

    return filtered


def mapped(elements: Code, place: int, guard: Code | None, body: Code) -> Code:
    def mapped(attributes: Mapping[str, Value], frame: Frame) -> Value:
        values = []
        for element in elements(attributes, frame):
            frame[place] = element
            if guard is None or _holds("map", guard, attributes, frame):
                values.append(body(attributes, frame))
        return values

    return mapped
