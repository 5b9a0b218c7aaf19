"""paho-mqtt with authorisation tokens: as the password, or by MQTT 5's enhanced authentication, which paho-mqtt knows
by name only.

By the method, a new token is shown on the same connection before the old one ends; a password only on a new connection.
"""

import math
import time
from collections.abc import Callable
from typing import Any

import paho.mqtt.client as paho
from paho.mqtt.enums import MQTTErrorCode
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from penstock.client.proving import ProvingClient
from penstock.client.tokens import renewal_of

METHOD = "penstock-token"
"""The authentication method; its data is the token."""
_SUCCESS, _REAUTHENTICATE = 0x00, 0x19
_AUTH = PacketTypes.AUTH << 4
_AGAIN = 1.0
"""Seconds before it is asked again whether there is a new token."""

Current = Callable[[], str]
"""Gives the token of now. It is called on paho-mqtt's thread, and should not block for long."""


class TokenAsPassword(paho.Client):
    """Each connection begins with the token of then as its password."""

    def __init__(self, *arguments: Any, token: Current, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._token = token
        self.shown = ""
        """The token that was shown last."""

    def _send_connect(self, keepalive: int) -> MQTTErrorCode:
        self.shown = self._token()
        self._password = self.shown.encode()
        self._username = self._username or b""  # before MQTT 5 there is no password without a user name
        return super()._send_connect(keepalive)


class ProvingWithToken(TokenAsPassword, ProvingClient):
    """Proofs of trust groups take the one authentication method that a connection has; so the token is the password."""


class TokenByMethod(paho.Client):
    """Shows the token when it connects, and another on the same connection when there is one and it is time."""

    def __init__(self, *arguments: Any, token: Current, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._token = token
        self._renewal = math.inf
        self.shown = ""
        """The token that was shown last."""

    # --- what paho-mqtt calls

    def _send_connect(self, keepalive: int) -> MQTTErrorCode:
        self._take(self._token())
        said = self._connect_properties or Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        said.AuthenticationMethod = METHOD
        said.AuthenticationData = self.shown.encode()
        self._connect_properties = said
        return super()._send_connect(keepalive)

    def _packet_handle(self) -> MQTTErrorCode:
        if self._in_packet["command"] & 0xF0 != _AUTH:
            return super()._packet_handle()
        packet = bytes(self._in_packet["packet"])
        is_taken = not packet or packet[0] == _SUCCESS  # if not, the node says why when it disconnects
        return MQTTErrorCode.MQTT_ERR_SUCCESS if is_taken else MQTTErrorCode.MQTT_ERR_PROTOCOL

    def loop_misc(self) -> MQTTErrorCode:
        if time.time() >= self._renewal and self.is_connected():
            token = self._token()
            if token == self.shown:
                self._renewal = time.time() + _AGAIN
            else:
                self._take(token)
                self._show_again()
        return super().loop_misc()

    # --- its own

    def _take(self, token: str) -> None:
        self.shown, self._renewal = token, renewal_of(token)

    def _show_again(self) -> None:
        said = Properties(PacketTypes.AUTH)  # type: ignore[no-untyped-call]
        said.AuthenticationMethod = METHOD
        said.AuthenticationData = self.shown.encode()
        body = bytes((_REAUTHENTICATE,)) + said.pack()  # type: ignore[no-untyped-call]
        packet = bytearray((_AUTH,))
        self._pack_remaining_length(packet, len(body))
        self._packet_queue(_AUTH, packet + body, 0, 0)
