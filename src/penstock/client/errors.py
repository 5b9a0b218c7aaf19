"""Errors between a client and its node, besides invalid conditions and topics."""

from penstock.model.errors import PenstockError


class Refused(PenstockError):
    """The node refused a request: `code` is MQTT's reason code, `words` the node's own text, or the code's name."""

    def __init__(self, what: str, code: int, words: str) -> None:
        super().__init__(f"{what} was refused (0x{code:02X}): {words}")
        self.code = code
        self.words = words


class Disconnected(PenstockError):
    """There is no connection and there will be none: it could not be made, or it was ended for good."""
