"""`penstock sub --rate`: rating of each message as good or bad, as evidence about the neighbour it came from."""

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
_MAX_OPEN = 1000
"""Number of ratings that the node has not answered."""
_MAX_WARNINGS = 1000


class Rater:
    """Rates messages, and reports once why a rating does not count."""

    def __init__(self, text: str, warn: Callable[[str], None]) -> None:
        """`text`: `good`, `bad`, or a condition on content that is true of good messages; raises `UsageError`."""
        self._judge = judge_of(text)
        self._warn = warn
        self._open: dict[int, str] = {}
        self._warnings: set[str] = set()

    @property
    def is_waiting(self) -> bool:
        """Return whether the node has still to answer."""
        return bool(self._open)

    def rate(self, client: paho.Client, message: paho.MQTTMessage) -> None:
        """Send the rating of a message to the node; nothing if the condition cannot be evaluated."""
        content_type = getattr(message.properties, "ContentType", "")
        event = Event(message.topic, bytes(message.payload), content_type=content_type)
        good, why = self._judge(event.content), ""
        if isinstance(good, Failure):
            why = str(good)
        elif len(self._open) >= _MAX_OPEN:
            why = f"the node has not answered the last {_MAX_OPEN}"
        if why:
            self._warn_once(f"no rating of a message on `{event.topic}`: {why}")
            return
        payload = json.dumps({"topic": event.topic, "good": good, "payload": event.digest})
        sent = client.publish(FEEDBACK, payload, 1, properties=properties(PacketTypes.PUBLISH, ContentType=JSON))
        self._open[sent.mid] = event.topic

    def answered(self, number: int, reason: ReasonCode, packet_properties: Properties | None) -> None:
        """Handle the node's answer to a publication."""
        topic = self._open.pop(number, None)
        if topic is not None and reason.is_failure:
            self._warn_once(f"rating of a message on `{topic}` was refused: {answer(reason, packet_properties).words}")

    def give_up(self) -> None:
        """Report the ratings that will not be answered."""
        if self._open:
            self._warn_once(f"the connection was lost before {len(self._open)} ratings were answered")
            self._open.clear()

    def _warn_once(self, text: str) -> None:
        if text not in self._warnings and len(self._warnings) < _MAX_WARNINGS:
            self._warnings.add(text)
            self._warn(text)


def judge_of(text: str) -> Callable[[Content], bool | Failure]:
    """Return a function that rates content; raise `UsageError`."""
    if text in _ALWAYS:
        return lambda content: _ALWAYS[text]
    try:
        return make_condition(text).holds
    except ConditionError as error:
        raise UsageError(str(error)) from None
