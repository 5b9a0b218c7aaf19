"""Rule elements: conditions and actions that statements call by name."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from penstock.language.statements.statement import Argument, Message, Verb
from penstock.language.types import Type
from penstock.model.errors import PenstockError, PolicyError
from penstock.model.values import Value

ANY_MESSAGE = frozenset(Message)
FILTERS = frozenset({Message.ADVERTISEMENT, Message.SUBSCRIPTION})
PUBLICATIONS = frozenset({Message.PUBLICATION})


class ElementError(PenstockError):
    """The failure of an element: an exception of its rule."""


@dataclass(frozen=True, slots=True)
class Element:
    """An element. `run` is called with the judgement and the arguments.

    A condition returns its value and changes nothing; an action returns nothing. Either may raise `ElementError`. What
    comes from outside is read from the judgement only, so that the same is found when recorded messages are judged.
    """

    name: str
    run: Callable[..., Value | None]
    gives: Type | None = None
    """The type of a condition's value; None: it is an action."""
    messages: frozenset[Message] = ANY_MESSAGE
    """The messages that it can be applied to."""
    verbs: frozenset[Verb] = frozenset(Verb)
    least: int = 0
    """The least number of arguments; `most` is the greatest."""
    most: int | None = 0
    check: Callable[[tuple[Argument, ...]], str] | None = None
    """Returns what is wrong with arguments of the right number; empty: nothing."""
    needs_filter: bool = False
    """True if it refers to the subscription or advertisement that its policy belongs to."""
    needs_receiver: bool = False
    is_shared: bool = False
    """True if its effect is the same for all receivers, and it has no side effects."""
    is_blind: bool = False
    """True if it does not depend on the content of a publication, so that it reveals nothing of it."""
    is_removal: bool = False
    """True if it only takes something away. It is then run again on a message that waits, when policies change."""

    @property
    def about(self) -> str:
        """A one-line description: the first paragraph of the docstring of `run`."""
        return " ".join((inspect.getdoc(self.run) or "").split("\n\n")[0].split())

    @property
    def usage(self) -> str:
        """Its usage: `Publish(text[, topic])`, from the parameters of `run`."""
        _, *parameters = inspect.signature(self.run).parameters.values()
        shown = ""
        for parameter in parameters:
            name = f", {parameter.name}" if shown else parameter.name
            if parameter.kind is parameter.VAR_POSITIONAL:
                shown += f"{name.removesuffix('s')}, ..."
            else:
                shown += name if parameter.default is parameter.empty else f"[{name}]"
        return f"{self.name}({shown})"

    def check_arguments(self, arguments: tuple[Argument, ...]) -> None:
        """Raise `PolicyError` if the element cannot be called with these."""
        if len(arguments) < self.least or (self.most is not None and len(arguments) > self.most):
            raise PolicyError(f"`{self.name}` takes {self._count()}, not {len(arguments)}")
        problem = self.check(arguments) if self.check is not None else ""
        if problem:
            raise PolicyError(f"`{self.name}`: {problem}")

    def _count(self) -> str:
        if self.most is None:
            return f"at least {_arguments(self.least)}"
        if self.least == self.most:
            return _arguments(self.most) if self.most else "no arguments"
        return f"{self.least} to {_arguments(self.most)}"


def _arguments(count: int) -> str:
    return f"{count} argument{'' if count == 1 else 's'}"


def all_texts(arguments: tuple[Argument, ...]) -> str:
    """Check that all arguments are names."""
    wrong = next((argument for argument in arguments if not isinstance(argument, str) or not argument), None)
    return "" if wrong is None else f"expected a name, not `{wrong}`"


class PolicyPublication(NamedTuple):
    """A publication by a policy. The topic is empty for a meta-event."""

    content: dict[str, object]
    topic: str = ""
    detail: str = ""
    """Additional text for the log."""


class KeptMessage(NamedTuple):
    """A message that a policy writes to the log or to the store."""

    kind: str
    """`log` or `persist`."""
    policy: str
    about: str
    """The argument of the policy: a text, or the name of a collection."""
    message: str
    topic: str
    payload: bytes
