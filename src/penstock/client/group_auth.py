"""paho-mqtt with proofs of membership of trust groups, and with AUTH packets, which it knows only by name.

Each connection proves anew, with a fresh nonce, and again before the proof expires.
"""

import copy
import logging
import math
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import paho.mqtt.client as paho
from paho.mqtt.enums import MQTTErrorCode
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from penstock.model.group_proof import METHOD, MIN_SECONDS, NONCE_BYTES, Claimant, ProofError, renew_after
from penstock.model.publication_proof import PROOF, PublicationProver, SentPublication

_SUCCESS, _CONTINUE, _REAUTHENTICATE = 0x00, 0x18, 0x19
AUTH = PacketTypes.AUTH << 4
_log = logging.getLogger(__name__)


class ProvingClient(paho.Client):
    """A paho-mqtt client that proves to the node that it is in groups, after the node has proven it."""

    def __init__(self, *arguments: Any, groups: Mapping[str, bytes], **options: Any) -> None:
        """`groups`: their secrets by name."""
        super().__init__(*arguments, **options)
        self._group_secrets = {name: secret.strip() for name, secret in groups.items()}
        self._claimant: Claimant | None = None
        self._renewal = math.inf
        self._accepted: dict[str, float] = {}
        self._uncached: dict[str, bytes] = {}
        """The secrets of groups that each publication has to prove; `_prover` does it, in the order of sending."""
        self._prover: PublicationProver | None = None
        self._order = threading.RLock()
        self.problem = ""
        """The reason why the last exchange failed; empty if it did not."""

    @property
    def accepted(self) -> frozenset[str]:
        """Return the groups whose proof the node has accepted and that have not expired."""
        now = time.monotonic()
        return frozenset(group for group, until in self._accepted.items() if now < until)

    # --- called by paho-mqtt

    def _send_connect(self, keepalive: int) -> MQTTErrorCode:
        self._accepted, self._renewal = {}, math.inf
        self._uncached, self._prover = {}, None
        prepare_connect(self, METHOD, self._new_claim())
        return super()._send_connect(keepalive)

    def _packet_handle(self) -> MQTTErrorCode:
        kind = self._in_packet["command"] & 0xF0
        if kind == AUTH:
            return self._checked(self._handle_auth)
        if kind == PacketTypes.CONNACK << 4:
            outcome = self._checked(self._hear_connack)
            if outcome != MQTTErrorCode.MQTT_ERR_SUCCESS:
                return outcome
        return super()._packet_handle()

    def loop_misc(self) -> MQTTErrorCode:
        if time.monotonic() >= self._renewal and self.is_connected():
            self._renewal = math.inf
            send_auth(self, METHOD, _REAUTHENTICATE, self._new_claim())
        return super().loop_misc()

    def _send_publish(
        self,
        mid: int,
        topic: bytes,
        payload: bytes | bytearray = b"",
        qos: int = 0,
        retain: bool = False,
        dup: bool = False,
        info: paho.MQTTMessageInfo | None = None,
        properties: Properties | None = None,
    ) -> MQTTErrorCode:
        with self._order:
            if self._prover is not None and self._uncached:
                sent = _sent(topic.decode(), bytes(payload or b""), qos, retain, properties)
                properties = _with_proof(properties, self._prover.prove(sent, self._uncached))
            return super()._send_publish(mid, topic, payload, qos, retain, dup, info, properties)

    # --- the exchange

    def _new_claim(self) -> bytes:
        client_id = bytes(self._client_id).decode()
        self._claimant = Claimant(client_id, self._group_secrets, secrets.token_bytes(NONCE_BYTES))
        return self._claimant.claim

    def _checked(self, handle: Callable[[], None]) -> MQTTErrorCode:
        try:
            handle()
        except ProofError as error:
            self.problem = str(error)
            _log.error("proofs of trust groups: %s", error)
            return MQTTErrorCode.MQTT_ERR_PROTOCOL
        return MQTTErrorCode.MQTT_ERR_SUCCESS

    def _handle_auth(self) -> None:
        packet = bytes(self._in_packet["packet"])
        reason, data = packet[0] if packet else _SUCCESS, _data_of(PacketTypes.AUTH, packet[1:])
        if self._claimant is None or data is None:
            raise ProofError("unexpected AUTH: no exchange is under way")
        if reason == _CONTINUE:
            with self._order:  # publications from now on are proven by this exchange
                send_auth(self, METHOD, _CONTINUE, self._claimant.answer(data))
                if self._claimant.exchange is not None:
                    self._prover = PublicationProver(self._claimant.exchange, "client")
        elif reason == _SUCCESS:
            self._conclude(data)
        else:
            raise ProofError(f"unexpected AUTH with reason {reason:#04x}")

    def _hear_connack(self) -> None:
        packet = bytes(self._in_packet["packet"])
        is_taken = len(packet) > 2 and packet[1] == _SUCCESS
        data = _data_of(PacketTypes.CONNACK, packet[2:]) if is_taken else None
        if data is not None:
            self._conclude(data)

    def _conclude(self, data: bytes) -> None:
        done, self._claimant = self._claimant, None
        if done is None:
            raise ProofError("groups are accepted outside of an exchange")
        self.problem = ""
        accepted, now = done.accepted(data), time.monotonic()
        self._accepted = {group: now + (seconds or MIN_SECONDS) for group, seconds in accepted.items()}
        self._uncached = {group: self._group_secrets[group] for group, seconds in accepted.items() if not seconds}
        self._renewal = now + renew_after(done.groups, accepted)
        for group in done.groups:
            if group not in accepted:
                _log.warning("trust group `%s` is not proven: the node is not in it, or has another secret", group)


def _sent(topic: str, payload: bytes, qos: int, retain: bool, properties: Properties | None) -> SentPublication:
    def value(name: str) -> Any:
        return getattr(properties, name, None)

    pairs = tuple((str(name), str(text)) for name, text in value("UserProperty") or ())
    about = (value("ContentType"), value("ResponseTopic"), value("CorrelationData"))
    times = (value("MessageExpiryInterval"), value("PayloadFormatIndicator"))
    return SentPublication(topic, payload, qos, retain, *times, *about, pairs)


def _with_proof(properties: Properties | None, proof: str) -> Properties:
    """Return the properties with a proof; those of the message stay as they are, as it may be sent again."""
    proven = copy.deepcopy(properties) if properties is not None else Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
    proven.UserProperty = (PROOF, proof)  # paho-mqtt appends
    return proven


def prepare_connect(client: paho.Client, method: str, data: bytes) -> None:
    """Put an authentication method and its data into the next CONNECT."""
    properties = client._connect_properties or Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
    properties.AuthenticationMethod, properties.AuthenticationData = method, data
    client._connect_properties = properties


def send_auth(client: paho.Client, method: str, reason: int, data: bytes) -> None:
    """Queue an AUTH packet."""
    properties = Properties(PacketTypes.AUTH)  # type: ignore[no-untyped-call]
    properties.AuthenticationMethod, properties.AuthenticationData = method, data
    body = bytes((reason,)) + properties.pack()  # type: ignore[no-untyped-call]
    packet = bytearray((AUTH,))
    client._pack_remaining_length(packet, len(body))
    client._packet_queue(AUTH, packet + body, 0, 0)


def _data_of(kind: int, data: bytes) -> bytes | None:
    """Return the authentication data among the properties of a packet; None unless it is of our method."""
    properties = Properties(kind)  # type: ignore[no-untyped-call]
    try:
        properties.unpack(data)  # type: ignore[no-untyped-call]
    except Exception as error:  # a packet may make it raise anything
        raise ProofError(f"properties that cannot be read: {error}") from None
    if getattr(properties, "AuthenticationMethod", None) != METHOD:
        return None
    value = getattr(properties, "AuthenticationData", None)
    return bytes(value) if value is not None else None
