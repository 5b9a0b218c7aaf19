"""The errors of the codec: the peer is at fault (`WireError`), or this program (`PacketError`)."""

from penstock.model.errors import PenstockError
from penstock.wire.reason import Reason


class WireError(PenstockError):
    """The peer sent what MQTT does not allow; `reason` is what to tell it in CONNACK or DISCONNECT."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class PacketError(PenstockError):
    """This program tried to encode a packet that MQTT cannot carry."""


def malformed(message: str) -> WireError:
    """Return the error for bytes that cannot be parsed as the standard says."""
    return WireError(Reason.MALFORMED_PACKET, message)


def protocol_error(message: str) -> WireError:
    """Return the error for bytes that can be parsed but are not allowed."""
    return WireError(Reason.PROTOCOL_ERROR, message)
