"""What a rule element is: a condition or an action that statements call by name."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from penstock.language.statements.statement import Argument, Message, Verb
from penstock.language.types import Type
from penstock.model.errors import PenstockError, PolicyError
from penstock.model.values import Value

if TYPE_CHECKING:
    pass

ANY_MESSAGE = frozenset(Message)
FILTERS = frozenset({Message.ADVERTISEMENT, Message.SUBSCRIPTION})
PUBLICATIONS = frozenset({Message.PUBLICATION})


class ElementError(PenstockError):
    """An element that cannot do here what it is called for: an exception of its rule."""


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
    """How many arguments it takes; and at most."""
    most: int | None = 0
    check: Callable[[tuple[Argument, ...]], str] | None = None
    """What is wrong with arguments of the right number; empty: nothing."""
    needs_filter: bool = False
    """It refers to the subscription or advertisement that its policy belongs to."""
    needs_receiver: bool = False
    is_shared: bool = False
    """What it does is the same whoever gets the message, and nothing comes of it besides."""
    is_blind: bool = False
    """Whatever the content of a publication is, it says and does the same: by it nobody finds out what that is."""

    @property
    def about(self) -> str:
        """What it is for, in a line: what the docstring of `run` begins with."""
        return " ".join((inspect.getdoc(self.run) or "").split("\n\n")[0].split())

    @property
    def usage(self) -> str:
        """How it is written: `Publish(text[, topic])`, after the parameters of `run`."""
        _, *parameters = inspect.signature(self.run).parameters.values()
        shown = ""
        for one in parameters:
            comma = ", " if shown else ""
            if one.kind is one.VAR_POSITIONAL:
                shown += f"{comma}{one.name.removesuffix('s')}, ..."
            else:
                shown += f"{comma}{one.name}" if one.default is one.empty else f"[{comma}{one.name}]"
        return f"{self.name}({shown})"

    def check_arguments(self, arguments: tuple[Argument, ...]) -> None:
        """Raises `PolicyError` if the element cannot be called with these."""
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
    """Return the check of elements that take names."""
    wrong = next((one for one in arguments if not isinstance(one, str) or not one), None)
    return "" if wrong is None else f"expected a name, not `{wrong}`"


class PolicyPublication(NamedTuple):
    """A publication that a policy makes. The topic is empty if it is a meta-event."""

    content: dict[str, object]
    topic: str = ""
    detail: str = ""
    """What the log says of it besides."""


class KeptMessage(NamedTuple):
    """What a policy wants kept."""

    kind: str
    """`log` or `persist`."""
    policy: str
    about: str
    """What the policy says of it: a text, or the name of a collection."""
    message: str
    topic: str
    payload: bytes
