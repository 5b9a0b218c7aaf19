"""Status codes and Indeterminate, in the words of the norm."""

from typing import NamedTuple

from penstock.model.errors import PolicyError
from penstock.policy.xacml.names import MISSING_ATTRIBUTE, OK, PROCESSING_ERROR, SYNTAX_ERROR


class MissingAttribute(NamedTuple):
    """An attribute that a decision needed (5.58, MissingAttributeDetail)."""

    category: str
    id: str
    type: str
    issuer: str | None = None


class Status(NamedTuple):
    """The status of a decision: ok, or why there is none."""

    code: str = OK
    message: str = ""
    missing: tuple[MissingAttribute, ...] = ()


FINE = Status()


class XacmlError(PolicyError):
    """A policy or a request that is invalid or not supported. Its status is that of a response."""

    def __init__(self, what: str, code: str = SYNTAX_ERROR) -> None:
        super().__init__(what)
        self.status = Status(code, what)

    def at(self, where: str) -> "XacmlError":
        """Return the same error, with its place before it."""
        text = f"{where}: {self}"
        return Unsupported(text) if isinstance(self, Unsupported) else XacmlError(text, self.status.code)


class Unsupported(XacmlError):
    """A part of the norm, or of a profile, that is not supported here."""

    def __init__(self, what: str) -> None:
        super().__init__(what, PROCESSING_ERROR)


class located:
    """Put the place before the message of an `XacmlError`, unless it begins with one of these already."""

    # A class, as a large policy has one for each value, and a generator would cost more.

    def __init__(self, where: str, unless: tuple[str, ...] = ()) -> None:
        self._where, self._unless = where, unless

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if isinstance(error, XacmlError) and not str(error).startswith(self._unless):
            raise error.at(self._where) from None


class Indeterminate(Exception):
    """An expression without a value. It never leaves this package."""

    def __init__(self, status: Status) -> None:
        super().__init__(status.message)
        self.status = status


def ill_typed(message: str) -> XacmlError:
    """Return the error of a policy with wrong types: not a syntax error, as in the public cases (IIC003)."""
    return XacmlError(message, PROCESSING_ERROR)


def unprocessable(message: str) -> Indeterminate:
    """Return the error of a function that has no value for these arguments."""
    return Indeterminate(Status(PROCESSING_ERROR, message))


def malformed(message: str) -> Indeterminate:
    """Return the error of a text that is not of its type, found at evaluation."""
    return Indeterminate(Status(SYNTAX_ERROR, message))


def lacking(missing: MissingAttribute) -> Indeterminate:
    """Return the error of a missing attribute that must be present."""
    return Indeterminate(Status(MISSING_ATTRIBUTE, f"`{missing.id}` is missing", (missing,)))
