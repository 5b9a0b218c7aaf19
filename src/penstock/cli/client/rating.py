"""`penstock sub --rate`: each message is good or bad evidence about the neighbour that the node has it from."""

import json
from collections.abc import Callable

import paho.mqtt.client as paho
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from penstock.cli.options import UsageError
from penstock.client.client import FEEDBACK
from penstock.client.connection import answer, properties
from penstock.client.event import JSON, Event
from penstock.language.condition import make_condition
from penstock.language.errors import ConditionError, Failure
from penstock.model.content.content import Content

_ALWAYS = {"good": True, "bad": False}
_MOST_OPEN = 1000
"""Ratings that the node has not answered."""
_MOST_SAID = 1000


class Rater:
    """Rates messages, and says once why one does not count."""

    def __init__(self, text: str, warn: Callable[[str], None]) -> None:
        """`text`: `good`, `bad`, or a condition on content that is true of good messages; raises UsageError."""
        self._judge = judge_of(text)
        self._warn = warn
        self._open: dict[int, str] = {}
        self._said: set[str] = set()

    @property
    def is_waiting(self) -> bool:
        """Whether the node has still to answer."""
        return bool(self._open)

    def rate(self, client: paho.Client, message: paho.MQTTMessage) -> None:
        """Tell the node what is thought of a message; nothing if the condition cannot say."""
        said = getattr(message.properties, "ContentType", "")
        event = Event(message.topic, bytes(message.payload), content_type=said)
        good = self._judge(event.content)
        if isinstance(good, Failure):
            self._say(f"no rating of a message on `{event.topic}`: {good}")
            return
        if len(self._open) >= _MOST_OPEN:
            self._say(f"no rating of a message on `{event.topic}`: the node has not answered the last {_MOST_OPEN}")
            return
        payload = json.dumps({"topic": event.topic, "good": good, "payload": event.digest})
        sent = client.publish(FEEDBACK, payload, 1, properties=properties(PacketTypes.PUBLISH, ContentType=JSON))
        self._open[sent.mid] = event.topic

    def answered(self, number: int, reason: ReasonCode, said: Properties | None) -> None:
        """The node has answered a publication."""
        topic = self._open.pop(number, None)
        if topic is not None and reason.is_failure:
            self._say(f"rating of a message on `{topic}` was refused: {answer(reason, said).words}")

    def give_up(self) -> None:
        """There will be no answer."""
        if self._open:
            self._say(f"the connection was lost before {len(self._open)} ratings were answered")
            self._open.clear()

    def _say(self, text: str) -> None:
        if text not in self._said and len(self._said) < _MOST_SAID:
            self._said.add(text)
            self._warn(text)


def judge_of(text: str) -> Callable[[Content], bool | Failure]:
    """What a rating is made with; raises UsageError."""
    if text in _ALWAYS:
        return lambda content: _ALWAYS[text]
    try:
        return make_condition(text).holds
    except ConditionError as error:
        raise UsageError(str(error)) from None
