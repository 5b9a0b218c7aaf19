"""Monitors of the user's own class: what they may do, and what is caught."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.model.errors import PolicyError
from penstock.model.event import Event
from penstock.policy.monitors.monitor import (
    MAX_OUTPUTS,
    Monitor,
    MonitorError,
    PythonMonitor,
    derive,
    python_monitor,
)
from tests.support.models.automata import topics

EVENT = Event("a/b", b"1", 2, True, b"properties", 9.0, "ann", path=("n1",))

COUNTER = """
from dataclasses import dataclass

@dataclass
class Count:
    "Lets so many events of each topic pass."
    limit: "int" = 1
    alphabet = ("a/#",)

    def start(self):
        return {}

    def step(self, state, event, now):
        seen = state.get(event.topic, 0)
        return {**state, event.topic: seen + 1}, (event,) if seen < self.limit else ()
"""


class Steps:
    """A monitor whose step returns what it was made with, or raises it."""

    def __init__(self, result: object) -> None:
        self.result = result

    def start(self) -> object:
        return 0

    def step(self, state: object, event: Event, now: float) -> object:
        if isinstance(self.result, BaseException):
            raise self.result
        return self.result


def test_it_counts(tmp_path: Path) -> None:
    (tmp_path / "count.py").write_text(COUNTER)
    made: Monitor = python_monitor("c", "count:Count", {"limit": 2}, tmp_path)
    assert topics(made, "x y x x y x") == "x y x y"
    assert made.alphabet() == ("a/#",)
    assert made.steady(made.start(), "x") is None
    assert made.resume({"x": 1}) == {"x": 1}
    made.close({})


def test_a_file_is_read_anew_at_each_load(tmp_path: Path) -> None:
    (tmp_path / "count.py").write_text(COUNTER)
    assert topics(python_monitor("c", "count:Count", {}, tmp_path), "x x") == "x"
    (tmp_path / "count.py").write_text(COUNTER.replace("else ()", "else (event, event)"))
    assert topics(python_monitor("c", "count:Count", {}, tmp_path), "x x") == "x x x"


def test_a_module_in_a_folder_is_named_with_dots(tmp_path: Path) -> None:
    (tmp_path / "our").mkdir()
    (tmp_path / "our" / "count.py").write_text(COUNTER)
    assert topics(python_monitor("c", "our.count:Count", {}, tmp_path), "x x") == "x"


def test_a_module_that_is_not_in_the_folder_is_imported(tmp_path: Path) -> None:
    made = python_monitor("c", "tests.policy.monitors.test_python_monitor:Steps", {"result": (1, ())}, tmp_path)
    assert made.step(0, EVENT, 0.0) == (1, ())


def test_all_that_a_class_may_have_is_asked() -> None:
    closed: list[object] = []

    class Whole:
        def start(self) -> int:
            return 0

        def step(self, state: int, event: Event, now: float) -> tuple[int, list[Event]]:
            return state + int(now), [event]

        def resume(self, stored: object) -> object:
            return -1

        def alphabet(self) -> list[str]:
            return ["a", "b/+"]

        def outputs(self, topic_filter: str) -> list[str]:
            return ["out/" + topic_filter]

        def close(self, state: object) -> None:
            closed.append(state)

    made = PythonMonitor("w", Whole())
    assert made.step(1, EVENT, 5.0) == (6, (EVENT,))
    assert made.resume("junk") == -1
    assert made.alphabet() == ("a", "b/+")
    assert made.outputs("x/#") == ("out/x/#",)
    made.close(3)
    assert closed == [3]


def test_without_a_word_anything_is_seen_and_may_come_out() -> None:
    made = PythonMonitor("s", Steps((0, ())))
    assert made.alphabet() == ("#",)
    assert made.outputs("a") == ("#",)
    assert made.outputs("$SYS/a") == ("$SYS/a", "#")


def test_a_passed_event_is_the_same_object() -> None:
    assert PythonMonitor("s", Steps((0, [EVENT]))).step(0, EVENT, 0.0)[1][0] is EVENT
    assert PythonMonitor("s", Steps((0, [Event("x", b""), EVENT]))).step(0, EVENT, 0.0)[1][1] is EVENT


def test_an_event_out_of_nothing_has_the_origin_and_path_of_its_cause() -> None:
    (out,) = PythonMonitor("s", Steps((0, [Event("x", b"2", 1, origin="eve")]))).step(0, EVENT, 0.0)[1]
    assert out == Event("x", b"2", 1, origin="ann", path=("n1",))


def test_a_derived_event_has_the_qos_of_its_cause_and_is_not_retained() -> None:
    assert derive(EVENT, "x") == EVENT._replace(topic="x", retain=False)
    assert derive(EVENT, "x", b"2", qos=0, retain=True) == EVENT._replace(
        topic="x", payload=b"2", qos=0, properties=b"", retain=True
    )


def endless() -> Iterator[Event]:
    while True:
        yield EVENT


@pytest.mark.parametrize(
    ("title", "result", "said"),
    [
        ("raises", KeyError("x"), "KeyError: 'x'"),
        ("ends the program", SystemExit(3), "SystemExit: 3"),
        ("returns nothing", None, "TypeError"),
        ("returns a state that cannot be stored", (object(), [EVENT]), "TypeError: Encoding objects of type object"),
        ("returns one thing", (0,), "ValueError"),
        ("returns an event, not a sequence", (0, EVENT), "is not a sequence of events"),
        ("returns None for the events", (0, None), "is not a sequence of events"),
        ("returns what cannot be gone through", (0, 5), "TypeError"),
        ("yields without end", (0, endless()), f"more than {MAX_OUTPUTS} events at one step, on `a/b`"),
        ("yields one too many", (0, [EVENT] * (MAX_OUTPUTS + 1)), f"more than {MAX_OUTPUTS} events"),
        ("yields what is no event", (0, ["x"]), "output is not an event: `'x'`"),
        ("yields a tuple", (0, [tuple(EVENT)]), "output is not an event"),
        ("yields a bad topic", (0, [Event("x/#", b"")]), "wildcard `#` at character 3 of topic `x/#`"),
        ("yields an empty topic", (0, [Event("", b"")]), "topic is empty"),
        ("yields a $ topic", (0, [Event("$SYS/x", b"")]), "a monitor cannot make events on `$` topics: `$SYS/x`"),
        ("yields a topic that is no text", (0, [EVENT._replace(topic=5)]), "monitor `s`: output"),  # type: ignore[arg-type]
        ("yields a payload of text", (0, [EVENT._replace(payload="x")]), "the payload is not bytes: `'x'`"),  # type: ignore[arg-type]
        ("yields a bad QoS", (0, [EVENT._replace(qos=3)]), "bad QoS or properties: `3`"),
        ("yields an expiry of text", (0, [EVENT._replace(expires="soon")]), "`expires` is not a time: `'soon'`"),  # type: ignore[arg-type]
    ],
)
def test_a_step_that_goes_wrong_is_an_error_of_the_monitor(title: str, result: object, said: str) -> None:
    with pytest.raises(MonitorError) as raised:
        PythonMonitor("s", Steps(result)).step(0, EVENT, 0.0)
    assert str(raised.value).startswith("monitor `s`: "), title
    assert said in str(raised.value), title


def test_as_many_events_as_are_allowed_come_out() -> None:
    assert len(PythonMonitor("s", Steps((0, [EVENT] * MAX_OUTPUTS))).step(0, EVENT, 0.0)[1]) == MAX_OUTPUTS


@pytest.mark.parametrize(
    ("where", "arguments", "said"),
    [
        ("count", {}, "expected `module:Class`, found `count`"),
        ("count:", {}, "expected `module:Class`, found `count:`"),
        ("../count:Count", {}, "expected `module:Class`, found `../count:Count`"),
        ("absent:Count", {}, "cannot import `absent`: ModuleNotFoundError"),
        ("broken:Count", {}, "cannot import `broken`: SyntaxError"),
        ("ending:Count", {}, "cannot import `ending`: SystemExit: 0"),
        ("other:Ending", {}, "cannot make `other:Ending`: SystemExit: 0"),
        ("count:Cuont", {}, "module `count` has no class `Cuont`"),
        ("count:dataclass", {}, "`count:dataclass` is not a class"),
        ("count:Count", {"lmit": 1}, "cannot make `count:Count`: TypeError"),
        ("other:Nothing", {}, "`Nothing` has no method `start`"),
        ("other:NoStep", {}, "`NoStep` has no method `step`"),
        ("other:BadStart", {}, "its start state cannot be stored"),
        ("other:RaisingStart", {}, "RuntimeError: not today"),
        ("other:BadAlphabet", {}, "alphabet: wildcard `+` does not fill level 1"),
        ("other:TextAlphabet", {}, "alphabet: `alphabet` is not a sequence of topic filters"),
    ],
)
def test_a_class_that_is_no_monitor_is_refused(
    tmp_path: Path, where: str, arguments: dict[str, object], said: str
) -> None:
    (tmp_path / "count.py").write_text(COUNTER)
    (tmp_path / "broken.py").write_text("class Count(:\n")
    (tmp_path / "ending.py").write_text("raise SystemExit(0)")
    (tmp_path / "other.py").write_text(
        "class Nothing: pass\n"
        "class NoStep:\n    def start(self): return 0\n"
        "class Good(NoStep):\n    def step(self, state, event, now): return state, ()\n"
        "class BadStart(Good):\n    def start(self): return object()\n"
        "class RaisingStart(Good):\n    def start(self): raise RuntimeError('not today')\n"
        "class Ending(Good):\n    def __init__(self): raise SystemExit(0)\n"
        "class BadAlphabet(Good):\n    alphabet = ['a+']\n"
        "class TextAlphabet(Good):\n    alphabet = 'a'\n"
    )
    with pytest.raises(PolicyError) as raised:
        python_monitor("c", where, arguments, tmp_path)
    assert str(raised.value).startswith("monitor `c`: ")
    assert said in str(raised.value)
