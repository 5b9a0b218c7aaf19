"""The interface of execution monitors (brokering §4.2, §7.3), and monitors written in Python."""

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

MAX_OUTPUTS = 100
"""The most events that one step may yield."""


_SETTABLE = ("topic", "payload", "qos", "properties", "expires")
"""The fields of an event that a monitor sets, besides the retain flag."""


class MonitorError(PenstockError):
    """A monitor that failed at an event. The event is suppressed and the state stays as it was."""


class Monitor(Protocol):
    """A transformer of the events of a link. It holds no state itself: one monitor serves many links."""

    @property
    def name(self) -> str: ...

    @property
    def is_selector(self) -> bool:
        """Return whether it only passes or suppresses, and keeps its state where it suppresses: put through it again,
        what it has let pass passes again.
        """

    @property
    def is_stateless(self) -> bool:
        """Return whether it stays in its first state."""

    def start(self) -> State:
        """Return the initial state of a link."""

    def resume(self, stored: State) -> State:
        """Return the state to continue with, from one that was stored by an earlier run or under an earlier policy."""

    def step(self, state: State, event: Event, now: float) -> tuple[State, tuple[Event, ...]]:
        """Return the next state and the output events: `()` suppresses the event, `(event,)` with the same object
        passes it, anything else replaces it or injects. Raises `MonitorError`.
        """

    def steady(self, state: State, topic: str) -> bool | None:
        """Return what happens without a step: True if in this state every event on this topic passes unchanged and the
        state stays, False if it is suppressed and the state stays, None if `step` must be called.
        """

    def always(self, topic: str) -> bool | None:
        """Return what `steady` says in every state; None if it is not the same in all."""

    def may_pass(self, event: Event) -> bool:
        """Return False if the event passes unchanged in no state."""

    def may_make(self, topic: str) -> bool:
        """Return False if in no state it makes an event on this topic of another one."""

    def alphabet(self) -> tuple[str, ...]:
        """Return filters of the events that it must see, even without subscribers."""

    def outputs(self, topic_filter: str) -> tuple[str, ...]:
        """Return filters that cover all possible outputs, in any state, for an event that matches the filter; `()` if
        it is suppressed in every state.
        """

    def why(self, state: State, events: tuple[Event, ...]) -> str:
        """Return the outcomes of conditions on the content of these events, in words."""

    def close(self, state: State) -> None:
        """Release the state of a link that is gone for good."""


def derive(
    cause: Event, topic: str, payload: bytes | None = None, *, qos: int | None = None, retain: bool = False
) -> Event:
    """Return a new event caused by another: with its QoS by default, and not retained by default.

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

    is_selector = is_stateless = False
    """Only the class knows."""

    def __init__(self, name: str, inner: object) -> None:
        """Wrap an object; raises `PolicyError` if it is not a monitor."""
        self.name = name
        self._inner = inner
        for method, needed in (("start", True), ("step", True), ("close", False), ("resume", False)):
            if not callable(getattr(inner, method, None)) and (needed or hasattr(inner, method)):
                raise PolicyError(f"monitor `{name}`: `{type(inner).__name__}` has no method `{method}`")
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
            outputs = tuple(islice(events, MAX_OUTPUTS + 1))
            if following is not state:
                msgspec.json.encode(following)  # here the monitor is at fault; in the store it would be the node
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # `sys.exit` too: it would end the connection, or the node
            raise MonitorError(f"monitor `{self.name}`: {_described(error)}") from error
        if len(outputs) > MAX_OUTPUTS:
            raise MonitorError(f"monitor `{self.name}`: more than {MAX_OUTPUTS} events at one step, on `{event.topic}`")
        if outputs and not (len(outputs) == 1 and outputs[0] is event):
            outputs = tuple(self._checked(event, output) for output in outputs)
        return following, outputs

    def steady(self, state: State, topic: str) -> bool | None:
        return None

    def always(self, topic: str) -> bool | None:
        return None

    def may_pass(self, event: Event) -> bool:
        return True  # only its step could tell, and that may have effects

    def may_make(self, topic: str) -> bool:
        return True

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
            raise MonitorError(f"monitor `{self.name}`: {_described(error)}") from error

    def _read_alphabet(self) -> tuple[str, ...]:
        alphabet = getattr(self._inner, "alphabet", ("#",))
        try:
            return self._filters("alphabet", self._call("alphabet") if callable(alphabet) else alphabet)
        except MonitorError as error:
            raise PolicyError(str(error)) from error

    def _filters(self, what: str, filters: object) -> tuple[str, ...]:
        try:
            if isinstance(filters, str) or not isinstance(filters, Iterable):
                raise TypeError(f"`{what}` is not a sequence of topic filters")
            return tuple(parse_filter(filter).filter for filter in filters)
        except (TypeError, AttributeError, TopicError) as error:
            raise MonitorError(f"monitor `{self.name}`: {what}: {error}") from error

    def _checked(self, cause: Event, output: object) -> Event:
        """Check an output event, and return it with the fields of its cause that a monitor cannot change."""
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
        fields = {key: getattr(output, key) for key in _SETTABLE}
        return cause._replace(**fields, retain=bool(output.retain))


def python_monitor(
    name: str, where: str, arguments: Mapping[str, object] | None = None, folder: Path | None = None
) -> PythonMonitor:
    """Make the monitor of `module:Class` with the arguments; raises `PolicyError`.

    A module is first looked for as a file in the folder (that of the domain file), then as Python imports it.
    """
    module_name, colon, class_name = where.partition(":")
    if not colon or not class_name.isidentifier() or not all(part.isidentifier() for part in module_name.split(".")):
        raise PolicyError(f"monitor `{name}`: expected `module:Class`, found `{where}`")
    monitor_class = import_named(where, folder, f"monitor `{name}`", "class")
    if not inspect.isclass(monitor_class):
        raise PolicyError(f"monitor `{name}`: `{where}` is not a class")
    try:
        inner = monitor_class(**(arguments or {}))
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise PolicyError(f"monitor `{name}`: cannot make `{where}`: {_described(error)}") from error
    return PythonMonitor(name, inner)


def module_file(module_name: str, folder: Path | None) -> Path | None:
    """Return the file of a module in the folder; None if there is none, so that Python imports it as usual."""
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
        raise PolicyError(f"{user}: cannot import `{module_name}`: {_described(error)}") from error


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


def _described(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
