"""The devices of the smart home, as MQTT clients that do what §4.3 of the brokering paper says they do.

Each announces itself with a retained message, as devices do. None knows of brokering tables and monitors.
"""

from __future__ import annotations

import paho.mqtt.client as mqtt

from examples.clients import AN_HOUR, Client
from examples.narration import wait_for

ONLINE = "online"


class Device(Client):
    """A client that does something about what it hears."""

    usual_port = 1884
    """That of its node in the domain file: of the gateway, unless said otherwise."""
    wants: tuple[str, ...] = ()

    def __init__(self) -> None:
        super().__init__(type(self).__name__.lower(), session=AN_HOUR, returns=True)
        self.paho.on_message = lambda _client, _data, message: self._on_message(message)

    def _on_message(self, message: mqtt.MQTTMessage) -> None:
        self.received.append(message)
        self.hears(message.topic, str(message.payload, "utf-8"))

    def hears(self, topic: str, payload: str) -> None:
        """React; must not wait."""

    def say(self, topic: str, payload: str = "") -> None:
        """Publish, without waiting for the answer."""
        self.paho.publish(topic, payload, qos=1)

    def arrive(self, port: int) -> None:
        """Connect, subscribe, announce itself."""
        self.connect(port)
        for filter in (*self.wants, f"{ONLINE}/#"):
            self.subscribe(filter, qos=1)
        self.publish(f"{ONLINE}/{self.name}", "yes", qos=1, retain=True)

    def knows_of(self, other: Device) -> bool:
        """Whether it hears that another is there; what it subscribed to has then reached the other's node too."""
        return self.hears_of(f"{ONLINE}/{other.name}")

    def hears_of(self, topic: str, payload: str | None = None) -> bool:
        """Whether something comes on this topic (just this, if it is said)."""
        return wait_for(lambda: bool(self.payloads(topic)) if payload is None else payload in self.payloads(topic))

    def topics(self) -> list[str]:
        return [message.topic for message in list(self.received)]


class Motion(Device):
    """MD: says whether somebody is at home. (step 1)"""

    def see(self, somebody: bool) -> None:
        self.publish("MD_motion" if somebody else "MD_no_motion", "", qos=1)


class Camera(Device):
    """SC: takes a picture when it is asked to. (step 4)"""

    wants = ("SC_request",)

    def hears(self, topic: str, payload: str) -> None:
        if topic == "SC_request":
            self.say("SC_send", f"picture of {payload}")


class Bell(Device):
    """DB: asks the phone who may come in, if nobody is at home. (steps 2 to 5 and 7)"""

    wants = ("MD_motion", "MD_no_motion", "SC_send", "AC_grant", "AC_deny")

    def __init__(self) -> None:
        super().__init__()
        self.somebody_home: bool | None = None
        self.denied = 0

    def press(self, visitor: str) -> None:
        """Somebody is at the door."""
        if not self.somebody_home:
            self.say("SC_request", visitor)

    def hears(self, topic: str, payload: str) -> None:
        if topic in ("MD_motion", "MD_no_motion"):
            self.somebody_home = topic == "MD_motion"
        elif topic == "SC_send":
            self.say("AC_request", payload)
        elif topic == "AC_grant":
            self.say("DL_unlock")
        elif topic == "AC_deny":
            self.denied += 1


class Phone(Device):
    """SP: shows its owner the picture, and says what the owner decides. (step 6)"""

    usual_port = 1883
    wants = ("AC_request",)

    def __init__(self) -> None:
        super().__init__()
        self.pictures: list[str] = []

    def hears(self, topic: str, payload: str) -> None:
        if topic == "AC_request":
            self.pictures.append(payload)

    def shows(self, picture: str) -> bool:
        """Whether the owner gets to see this picture."""
        return wait_for(lambda: picture in self.pictures)

    def decide(self, let_in: bool) -> None:
        self.say("AC_grant" if let_in else "AC_deny")


class Lock(Device):
    """DL: opens the door each time it is told to, by whomever."""

    usual_port = 1885
    wants = ("DL_unlock",)

    def __init__(self) -> None:
        super().__init__()
        self.opened = 0

    def hears(self, topic: str, payload: str) -> None:
        if topic == "DL_unlock":
            self.opened += 1
