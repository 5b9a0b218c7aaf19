"""The codec in one import: bytes to packets and back."""

from penstock.wire.decode import decode
from penstock.wire.encode import encode
from penstock.wire.primitives import encode_varint

__all__ = ["decode", "encode", "encode_varint"]
