"""The actions of the edges of an edit automaton, and their form in the domain file.

pass                                      the event goes on as it is
suppress                                  it does not
{pass: true, next: s}                     and the automaton goes to state s; likewise `suppress`
{rename: house/{1}/t, next: s}            the same event under another topic
{emit: [a, {topic: b, payload: "{payload}!", qos: 1, retain: true}], next: s}
                                          new events in place of it; `{topic}` is the event itself
{pass: true, when: "celsius < 80.0"}      only if the event's content satisfies the condition; likewise the others
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from penstock.language.condition import Condition
from penstock.model.errors import PolicyError
from penstock.policy.monitors.monitor import MAX_OUTPUTS

_FORMS = ("pass", "suppress", "rename", "emit")
_KEYS = (*_FORMS, "next")
_OUTPUT_KEYS = ("topic", "payload", "qos", "retain")
_EXPECTED = "`pass`, `suppress`, or a mapping with one of `pass`, `suppress`, `rename`, `emit`"


@dataclass(frozen=True, slots=True)
class MonitorOutput:
    """One output event. None means: as in the input event."""

    topic: str | None = None
    """A topic template."""
    payload: str | None = None
    """A payload template."""
    qos: int | None = None
    retain: bool | None = None

    def __post_init__(self) -> None:
        if self.qos is not None and (isinstance(self.qos, bool) or self.qos not in (0, 1, 2)):
            raise PolicyError(f"expected a QoS of 0, 1 or 2, found `{self.qos}`")


SAME = MonitorOutput()


@dataclass(frozen=True, slots=True)
class Action:
    """The outputs in order, and the next state (None: it stays). No output suppresses the event."""

    outputs: tuple[MonitorOutput, ...]
    next: str | None = None
    when: Condition | None = None
    """The condition on the event's content; None: always."""

    def __post_init__(self) -> None:
        if len(self.outputs) > MAX_OUTPUTS:
            raise PolicyError(f"{len(self.outputs)} events at one step, more than {MAX_OUTPUTS}")


PASS = Action((SAME,))
SUPPRESS = Action(())


def parse_action(edge: str, value: object, when: Condition | None = None) -> Action:
    """Parse the action of an edge as the domain file writes it, without `when`; raises `PolicyError`."""
    if value in ("pass", "suppress"):
        value = {value: True}
    if not isinstance(value, Mapping):
        raise PolicyError(f"expected {_EXPECTED}, found `{value!r:.80}`")
    _check_keys(value, _KEYS)
    forms = [form for form in _FORMS if form in value]
    if len(forms) != 1:
        raise PolicyError(f"expected {_EXPECTED}, found {_listed(forms) if forms else 'none of them'}")
    following = value.get("next")
    if following is not None and not isinstance(following, str):
        raise PolicyError(f"`next`: expected the name of a state, found `{following!r:.80}`")
    return Action(_outputs(edge, forms[0], value[forms[0]]), following, when)


def _outputs(edge: str, form: str, value: object) -> tuple[MonitorOutput, ...]:
    if form in ("pass", "suppress"):
        if value is not True:
            raise PolicyError(f"`{form}`: expected `true`, found `{value!r:.80}`")
        return (SAME,) if form == "pass" else ()
    if form == "rename":
        if not isinstance(value, str):
            raise PolicyError(f"`rename`: expected a topic template, found `{value!r:.80}`")
        return (MonitorOutput(topic=_other(edge, value)),)
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise PolicyError(f"`emit`: expected a list of topics, found `{value!r:.80}`")
    return tuple(_output(edge, output) for output in value)


def _output(edge: str, value: object) -> MonitorOutput:
    if isinstance(value, str):
        value = {"topic": value}
    if not isinstance(value, Mapping):
        raise PolicyError(f"`emit`: expected a topic, or a mapping with `topic`, found `{value!r:.80}`")
    _check_keys(value, _OUTPUT_KEYS)
    topic, payload, qos, retain = (value.get(key) for key in _OUTPUT_KEYS)
    if not isinstance(topic, str):
        raise PolicyError(f"`emit`: expected a topic template as `topic`, found `{topic!r:.80}`")
    if payload is not None and not isinstance(payload, str):
        raise PolicyError(f"`emit`: expected text as `payload`, found `{payload!r:.80}`; put it in quotes")
    if qos is not None and not isinstance(qos, int):
        raise PolicyError(f"`emit`: expected a QoS of 0, 1 or 2, found `{qos!r:.80}`")
    if retain is not None and not isinstance(retain, bool):
        raise PolicyError(f"`emit`: expected true or false as `retain`, found `{retain!r:.80}`")
    topic = _other(edge, topic)
    if retain is None and topic is not None:
        retain = False  # a new event; the event itself, listed among others, stays as it is
    return MonitorOutput(topic, None if payload == "{payload}" else payload, qos, retain)


def _other(edge: str, topic: str) -> str | None:
    """Return the topic template; None if it is the event's own topic."""
    return None if topic == "{topic}" or (topic == edge != "*") else topic


def _check_keys(value: Mapping[object, object], known: tuple[str, ...]) -> None:
    for key in value:
        if key not in known:
            raise PolicyError(f"unknown key `{key}` (known: {_listed(known)})")


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
