"""What an execution monitor is to the engine (brokering §4.2, §7.3), and monitors written in Python."""

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

import msgspec

from penstock.model.errors import PenstockError, PolicyError, TopicError
from penstock.model.event import Event
from penstock.model.topic import check_topic, parse_filter

State = object
"""A monitor's state on one link: text for an automaton, anything that msgspec can encode for a Python monitor."""

MOST_OUTPUTS = 100
"""The most events that one step may yield."""


_SAID = ("topic", "payload", "qos", "properties", "expires")
"""What a monitor says of an event that it makes, besides whether it is retained."""


class MonitorError(PenstockError):
    """A monitor that failed at an event. The event is suppressed and the state stays as it was."""


class Monitor(Protocol):
    """What transforms the events of a link. It holds no state itself: one monitor serves many links."""

    @property
    def name(self) -> str: ...

    def start(self) -> State:
        """The state of a link on which nothing has passed yet."""

    def resume(self, stored: State) -> State:
        """The state to go on with, given one that was stored by an earlier run, or under an earlier policy."""

    def step(self, state: State, event: Event, now: float) -> tuple[State, tuple[Event, ...]]:
        """The next state, and what becomes of the event: `()` suppresses it, `(event,)` with the same object passes
        it as it is, anything else replaces it or injects. Raises `MonitorError`.
        """

    def steady(self, state: State, topic: str) -> bool | None:
        """What needs no step: True if in this state every event on this topic passes as it is and the state stays,
        False if it is suppressed and the state stays, None if `step` must be asked.
        """

    def alphabet(self) -> tuple[str, ...]:
        """Filters of the events that it must see to do its work, whether or not anybody subscribes to them."""

    def outputs(self, topic_filter: str) -> tuple[str, ...]:
        """Filters that cover all that may come out, in any state, when an event that matches the filter goes in.
        `()` says that it is suppressed in every state.
        """

    def why(self, state: State, events: tuple[Event, ...]) -> str:
        """What conditions on content have to do with what becomes of these events, one after the other, in words."""

    def close(self, state: State) -> None:
        """The link is gone for good; nothing will be asked with this state any more."""


def derive(
    cause: Event, topic: str, payload: bytes | None = None, *, qos: int | None = None, retain: bool = False
) -> Event:
    """A new event because of another: of its QoS unless said otherwise, and not retained unless said.

    Without a payload it has that of its cause, with the properties that describe it; with one it has no properties.
    """
    return cause._replace(
        topic=topic,
        payload=cause.payload if payload is None else payload,
        properties=cause.properties if payload is None else b"",
        qos=cause.qos if qos is None else qos,
        retain=retain,
    )


class PythonMonitor:
    """A monitor around an object of the user's own class; whatever that raises becomes a `MonitorError`."""

    def __init__(self, name: str, inner: object) -> None:
        """Raises `PolicyError` if the object is not a monitor."""
        self.name = name
        self._inner = inner
        for method, needed in (("start", True), ("step", True), ("close", False), ("resume", False)):
            if not callable(getattr(inner, method, None)) and (needed or hasattr(inner, method)):
                raise PolicyError(f"monitor `{name}`: `{_kind(inner)}` has no method `{method}`")
        self._step = inner.step  # type: ignore[attr-defined]
        try:
            msgspec.json.encode(self.start())
        except (MonitorError, TypeError, ValueError, msgspec.MsgspecError, OverflowError) as error:
            raise PolicyError(f"monitor `{name}`: its start state cannot be stored: {error}") from error
        self._alphabet = self._read_alphabet()

    def start(self) -> State:
        return self._call("start")

    def resume(self, stored: State) -> State:
        return self._call("resume", stored) if hasattr(self._inner, "resume") else stored

    def step(self, state: State, event: Event, now: float) -> tuple[State, tuple[Event, ...]]:
        try:
            result = self._step(state, event, now)
            following, events = result
            if events is None or isinstance(events, Event):
                raise TypeError("the second of what `step` returns is not a sequence of events")
            outputs = tuple(islice(events, MOST_OUTPUTS + 1))
            if following is not state:
                msgspec.json.encode(following)  # here the monitor is at fault; in the store it would be the node
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # `sys.exit` too: it would end the connection, or the node
            raise MonitorError(f"monitor `{self.name}`: {_said(error)}") from error
        if len(outputs) > MOST_OUTPUTS:
            raise MonitorError(
                f"monitor `{self.name}`: more than {MOST_OUTPUTS} events at one step, on `{event.topic}`"
            )
        if outputs and not (len(outputs) == 1 and outputs[0] is event):
            outputs = tuple(self._checked(event, output) for output in outputs)
        return following, outputs

    def steady(self, state: State, topic: str) -> bool | None:
        return None

    def alphabet(self) -> tuple[str, ...]:
        return self._alphabet

    def outputs(self, topic_filter: str) -> tuple[str, ...]:
        if not hasattr(self._inner, "outputs"):
            return (topic_filter, "#") if topic_filter.startswith("$") else ("#",)  # see `_checked`
        return self._filters("outputs", self._call("outputs", topic_filter))

    def why(self, state: State, events: tuple[Event, ...]) -> str:
        return ""

    def close(self, state: State) -> None:
        if hasattr(self._inner, "close"):
            self._call("close", state)

    def _call(self, method: str, *arguments: object) -> object:
        try:
            return getattr(self._inner, method)(*arguments)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise MonitorError(f"monitor `{self.name}`: {_said(error)}") from error

    def _read_alphabet(self) -> tuple[str, ...]:
        alphabet = getattr(self._inner, "alphabet", ("#",))
        try:
            return self._filters("alphabet", self._call("alphabet") if callable(alphabet) else alphabet)
        except MonitorError as error:
            raise PolicyError(str(error)) from error

    def _filters(self, what: str, given: object) -> tuple[str, ...]:
        try:
            if isinstance(given, str) or not isinstance(given, Iterable):
                raise TypeError(f"`{what}` is not a sequence of topic filters")
            return tuple(parse_filter(one).filter for one in given)
        except (TypeError, AttributeError, TopicError) as error:
            raise MonitorError(f"monitor `{self.name}`: {what}: {error}") from error

    def _checked(self, cause: Event, output: object) -> Event:
        """The output if it is a good event; what a monitor cannot change, origin and path among it, is its cause's."""
        if output is cause:
            return cause
        where = f"monitor `{self.name}`: output"
        if not isinstance(output, Event):
            raise MonitorError(f"{where} is not an event: `{output!r:.80}`")
        try:
            check_topic(output.topic)
        except (TopicError, TypeError, AttributeError) as error:
            raise MonitorError(f"{where}: {error}") from error
        if output.topic.startswith("$") and output.topic != cause.topic:
            raise MonitorError(f"{where}: a monitor cannot make events on `$` topics: `{output.topic}`")
        if not isinstance(output.payload, bytes):
            raise MonitorError(f"{where}: the payload is not bytes: `{output.payload!r:.80}`")
        if output.qos not in (0, 1, 2) or not isinstance(output.properties, bytes):
            raise MonitorError(f"{where}: bad QoS or properties: `{output.qos!r:.80}`")
        if not isinstance(output.expires, float | int | None):
            raise MonitorError(f"{where}: `expires` is not a time: `{output.expires!r:.80}`")
        said = {key: getattr(output, key) for key in _SAID}
        return cause._replace(**said, retain=bool(output.retain))


def python_monitor(
    name: str, where: str, arguments: Mapping[str, object] | None = None, folder: Path | None = None
) -> PythonMonitor:
    """The monitor that `module:Class` names, made with the arguments; raises `PolicyError`.

    A module is first looked for as a file in the folder (that of the domain file), then as Python imports it.
    """
    module_name, colon, class_name = where.partition(":")
    if not colon or not class_name.isidentifier() or not all(part.isidentifier() for part in module_name.split(".")):
        raise PolicyError(f"monitor `{name}`: expected `module:Class`, found `{where}`")
    made = import_named(where, folder, f"monitor `{name}`", "class")
    if not inspect.isclass(made):
        raise PolicyError(f"monitor `{name}`: `{where}` is not a class")
    try:
        inner = made(**(arguments or {}))
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise PolicyError(f"monitor `{name}`: cannot make `{where}`: {_said(error)}") from error
    return PythonMonitor(name, inner)


def module_file(module_name: str, folder: Path | None) -> Path | None:
    """The file of a module in the folder; None if there is none, and it is imported as Python does."""
    file = folder.joinpath(*module_name.split(".")).with_suffix(".py") if folder is not None else None
    return file if file is not None and file.is_file() else None


def import_named(where: str, folder: Path | None, user: str, kind: str) -> Any:
    """Return what `module:name` names; raises `PolicyError`, which says for whom it is and what kind of thing it is."""
    module_name, _, name = where.partition(":")
    try:
        return getattr(_import_from(module_name, folder), name)
    except AttributeError:
        raise PolicyError(f"{user}: module `{module_name}` has no {kind} `{name}`") from None
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # the module is the user's: anything may happen while it runs, `sys.exit` too
        raise PolicyError(f"{user}: cannot import `{module_name}`: {_said(error)}") from error


def _import_from(module_name: str, folder: Path | None) -> ModuleType:
    file = module_file(module_name, folder)
    if file is None:
        return importlib.import_module(module_name)
    unique = f"penstock monitor {file.resolve()}"  # run anew at each load, so that a reload sees the file as it is
    spec = importlib.util.spec_from_file_location(unique, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[unique] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def _kind(inner: object) -> str:
    return type(inner).__name__


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
