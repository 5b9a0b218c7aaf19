"""The data types that MQTT packets are made of (MQTT 5, section 1.5), read from and written to bytes.

A reader takes the bytes and a position and returns the value and the position after it. It never reads past
the end: what is missing is a malformed packet.
"""

import re

from penstock.model.errors import TopicError
from penstock.model.topic import check_topic
from penstock.wire.errors import PacketError, malformed, protocol_error

MAX_U16 = 0xFFFF
MAX_U32 = 0xFFFF_FFFF
MAX_VARINT = 268_435_455

# Control characters and non-characters, which a receiver may refuse (MQTT 5, section 1.5.4). Penstock, like
# Mosquitto, refuses them in names (client, user, topic, filter), where they would forge log lines and hide
# from whoever reads an access list; in the values of properties they pass.
_NOT_IN_NAMES = re.compile(
    "[\0-\x1f\x7f-\x9f\ufdd0-\ufdef"
    + "".join(chr(plane << 16 | low) for plane in range(17) for low in (0xFFFE, 0xFFFF))
    + "]"
)


def read_u8(data: bytes, pos: int) -> tuple[int, int]:
    if pos >= len(data):
        raise malformed(f"packet ends at byte {pos} where one byte was expected")
    return data[pos], pos + 1


def read_u16(data: bytes, pos: int) -> tuple[int, int]:
    end = pos + 2
    if end > len(data):
        raise malformed(f"packet ends inside the two byte integer at byte {pos}")
    return data[pos] << 8 | data[pos + 1], end


def read_u32(data: bytes, pos: int) -> tuple[int, int]:
    end = pos + 4
    if end > len(data):
        raise malformed(f"packet ends inside the four byte integer at byte {pos}")
    return int.from_bytes(data[pos:end], "big"), end


def read_varint(data: bytes, pos: int) -> tuple[int, int]:
    """Read a variable byte integer: at most four bytes, and no more than it needs."""
    value = 0
    shift = 0
    start = pos
    while shift < 28:
        if pos >= len(data):
            raise malformed(f"packet ends inside the variable byte integer at byte {start}")
        byte = data[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if byte == 0 and shift:
                # [MQTT-1.5.5-1]
                raise malformed(f"variable byte integer `{data[start:pos].hex(' ')}` is longer than it needs to be")
            return value, pos
        shift += 7
    raise malformed(f"variable byte integer `{data[start:pos].hex(' ')}` has more than four bytes")


def read_binary(data: bytes, pos: int) -> tuple[bytes, int]:
    length, start = read_u16(data, pos)
    end = start + length
    if end > len(data):
        raise malformed(f"packet ends inside the {length} bytes of data at byte {start}")
    return data[start:end], end


def read_text(data: bytes, pos: int) -> tuple[str, int]:
    """Read a UTF-8 encoded string."""
    raw, pos = read_binary(data, pos)
    return text_of(raw), pos


def read_name(data: bytes, pos: int) -> tuple[str, int]:
    """Read a UTF-8 encoded string that names something."""
    raw, pos = read_binary(data, pos)
    return name_of(raw), pos


def text_of(raw: bytes) -> str:
    if 0 in raw:  # an eighth of the time of `b"\0" in raw`, which first takes it for a number, and fails
        raise malformed(f"text `{raw[:80]!r}` contains U+0000")  # [MQTT-1.5.4-2]
    try:
        # Python's strict decoder refuses surrogates and overlong forms, and keeps U+FEFF.
        return raw.decode()  # [MQTT-1.5.4-1] [MQTT-1.5.4-3]
    except UnicodeDecodeError:
        raise malformed(f"text `{raw[:80]!r}` is not UTF-8") from None


def name_of(raw: bytes) -> str:
    text = text_of(raw)
    if not is_name(text):
        raise malformed(f"name `{text[:80]!r}` contains a control character or a non-character")
    return text


def is_name(text: str) -> bool:
    """Return whether text that names something has no control character and no non-character in it; U+0000 is one."""
    return text.isprintable() or not _NOT_IN_NAMES.search(text)


def topic_of(raw: bytes) -> str:
    """Return the topic name that the bytes of a PUBLISH, a will or a response topic say."""
    topic = name_of(raw)
    if topic and "+" not in topic and "#" not in topic:
        return topic  # what else `check_topic` asks cannot be wrong in text that was received
    try:
        return check_topic(topic)  # [MQTT-3.3.2-2]
    except TopicError as error:
        raise protocol_error(str(error)) from None


def put_u16(value: int) -> bytes:
    if not 0 <= value <= MAX_U16:
        raise PacketError(f"`{value}` does not fit a two byte integer")
    return value.to_bytes(2, "big")


def put_u32(value: int) -> bytes:
    if not 0 <= value <= MAX_U32:
        raise PacketError(f"`{value}` does not fit a four byte integer")
    return value.to_bytes(4, "big")


def encode_varint(value: int) -> bytes:
    """Return a variable byte integer, in as few bytes as it needs."""
    if 0 <= value < 0x80:
        return value.to_bytes(1, "big")
    if 0x80 <= value < 0x4000:  # as long as most packets
        return bytes((value & 0x7F | 0x80, value >> 7))
    if not 0 <= value <= MAX_VARINT:
        raise PacketError(f"`{value}` does not fit a variable byte integer")
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def put_binary(value: bytes) -> bytes:
    if len(value) > MAX_U16:
        raise PacketError(f"{len(value)} bytes of data are more than {MAX_U16}")
    return len(value).to_bytes(2, "big") + value


def put_text(value: str) -> bytes:
    try:
        raw = value.encode()
    except UnicodeEncodeError:
        raise PacketError(f"text `{value[:80]!r}` contains a surrogate") from None
    if len(raw) > MAX_U16:
        raise PacketError(f"text of {len(raw)} bytes is more than {MAX_U16}")
    if b"\0" in raw:
        raise PacketError(f"text `{value[:80]!r}` contains U+0000")
    return len(raw).to_bytes(2, "big") + raw
