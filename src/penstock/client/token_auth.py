"""paho-mqtt with authorisation tokens: as the password, or by MQTT 5's enhanced authentication.

By the method, a new token is shown on the same connection before the old one ends; a password only on a new connection.
"""

import math
import time
from collections.abc import Callable
from typing import Any

import paho.mqtt.client as paho
from paho.mqtt.enums import MQTTErrorCode

from penstock.client.group_auth import AUTH, ProvingClient, prepare_connect, send_auth
from penstock.client.tokens import renewal_of

METHOD = "penstock-token"
"""The authentication method; its data is the token."""
_SUCCESS, _REAUTHENTICATE = 0x00, 0x19
_AGAIN = 1.0
"""Seconds between checks for a new token."""

Current = Callable[[], str]
"""Returns the current token. It is called on paho-mqtt's thread, and should not block for long."""


class _TokenClient(paho.Client):
    def __init__(self, *arguments: Any, token: Current, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._token = token
        self.shown = ""
        """The token that was shown last."""


class TokenAsPassword(_TokenClient):
    """Sends the current token as the password of each new connection."""

    def _send_connect(self, keepalive: int) -> MQTTErrorCode:
        self.shown = self._token()
        self._password = self.shown.encode()
        self._username = self._username or b""  # before MQTT 5 a password needs a user name
        return super()._send_connect(keepalive)


class ProvingWithToken(TokenAsPassword, ProvingClient):
    """Sends the token as the password: proofs of trust groups take the one authentication method of a connection."""


class TokenByMethod(_TokenClient):
    """Shows the token when it connects, and a newer one on the same connection before the old one ends."""

    _renewal = math.inf

    # --- called by paho-mqtt

    def _send_connect(self, keepalive: int) -> MQTTErrorCode:
        self._take(self._token())
        prepare_connect(self, METHOD, self.shown.encode())
        return super()._send_connect(keepalive)

    def _packet_handle(self) -> MQTTErrorCode:
        if self._in_packet["command"] & 0xF0 != AUTH:
            return super()._packet_handle()
        packet = bytes(self._in_packet["packet"])
        is_taken = not packet or packet[0] == _SUCCESS  # otherwise the node gives the reason when it disconnects
        return MQTTErrorCode.MQTT_ERR_SUCCESS if is_taken else MQTTErrorCode.MQTT_ERR_PROTOCOL

    def loop_misc(self) -> MQTTErrorCode:
        if time.time() >= self._renewal and self.is_connected():
            token = self._token()
            if token == self.shown:
                self._renewal = time.time() + _AGAIN
            else:
                self._take(token)
                send_auth(self, METHOD, _REAUTHENTICATE, token.encode())
        return super().loop_misc()

    # --- private

    def _take(self, token: str) -> None:
        self.shown, self._renewal = token, renewal_of(token)
