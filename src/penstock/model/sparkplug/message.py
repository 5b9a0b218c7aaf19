"""The parts of a Sparkplug B payload by their positions, so that a view can be cut from the original bytes.

Values are not decoded here (`metric.py` does that for the few that a condition asks for). What is kept is
kept byte for byte, fields that nobody knows included.
"""

import zlib
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from penstock.model.content.bounds import MAX_BYTES, MAX_NODES
from penstock.model.errors import BoundError, ContentError
from penstock.model.sparkplug.protobuf import LENGTH, VARINT, fields, key, length_field, varint_field
from penstock.model.sparkplug.values import moment
from penstock.model.values import Value, unsigned

COMPRESSED = b"SPBV1.0_COMPRESSED"
"""The uuid of a payload whose body is another payload, compressed."""

_TIMESTAMP, _METRICS, _SEQ = key(1, VARINT), key(2, LENGTH), key(3, VARINT)
_UUID, _BODY = key(4, LENGTH), key(5, LENGTH)
_NAME, _ALIAS, _HISTORICAL = key(1, LENGTH), key(2, VARINT), key(5, VARINT)
_STRING_VALUE = key(15, LENGTH)


class Metric(NamedTuple):
    """One metric of a payload: its name and alias, and the position of its fields."""

    name: str | None
    """None: the birth certificate knows it by the alias."""
    alias: int | None
    historical: bool
    """True if it reports a past value, and does not change the present one."""
    start: int
    """The position of its field in the payload, key and length included."""
    body: int
    """The position of its own fields."""
    stop: int


Edit = tuple[int, int, bytes]
"""Bytes from a place to another, and what is to stand there instead."""


class Shell(NamedTuple):
    """A payload whose body is another one, compressed."""

    payload: bytes
    algorithm: str
    body_place: tuple[int, int]
    seq_place: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class SparkplugMessage:
    """A payload and the places of its parts. Made by `parse`."""

    payload: bytes
    """Uncompressed."""
    metrics: tuple[Metric, ...]
    seq: int | None
    seq_place: tuple[int, int] | None
    timestamp: Value = None
    shell: Shell | None = None
    """The payload around it, if it came compressed."""

    @property
    def whole(self) -> bytes:
        """The payload as it came."""
        return self.payload if self.shell is None else self.shell.payload

    def unnamed(self) -> list[Metric]:
        """Return the metrics that have only an alias."""
        return [metric for metric in self.metrics if metric.name is None]

    def bytes_of(self, metric: Metric) -> bytes:
        """Return a metric with its key and length, as it stands in a payload."""
        return self.payload[metric.start : metric.stop]

    def cut(self, removed: Collection[Metric], added: Iterable[bytes] = (), seq: int | None = None) -> bytes:
        """Return the payload without some metrics, with others at its end, and with another `seq` if it has one."""
        edits: list[Edit] = [(metric.start, metric.stop, b"") for metric in removed]
        if seq is not None and self.seq_place is not None:
            edits.append((*self.seq_place, varint_field(_SEQ, seq)))
        view = b"".join((_edited(self.payload, edits), *added))
        return view if self.shell is None else _compress(view, self.shell, seq)


def _edited(payload: bytes, edits: Iterable[Edit]) -> bytes:
    parts: list[bytes] = []
    at = 0
    for start, stop, instead in sorted(edits):
        parts += payload[at:start], instead
        at = stop
    return b"".join((*parts, payload[at:]))


def parse(payload: bytes) -> SparkplugMessage:
    """Return the places of a payload's parts; raises `ContentError` for what is not Sparkplug B."""
    try:
        return _parse(payload)
    except UnicodeDecodeError:
        raise ContentError("not Sparkplug B: a name is not UTF-8") from None
    except BoundError:
        raise
    except ContentError as error:
        raise ContentError(f"not Sparkplug B: {error}") from None


def _parse(payload: bytes, shell: Shell | None = None) -> SparkplugMessage:
    metrics: list[Metric] = []
    seq: int | None = None
    seq_place: tuple[int, int] | None = None
    body_place = (0, 0)
    uuid = body = b""
    timestamp: Value = None
    for tag, value, start, stop in fields(payload, 0, len(payload)):
        if tag == _METRICS:
            if len(metrics) >= MAX_NODES:
                raise BoundError(f"more than {MAX_NODES} metrics")
            metrics.append(_metric(payload, start, value, stop))
        elif tag == _SEQ:
            if seq is not None:  # readers take the last of two, so a view could differ from the message
                raise ContentError("there are two `seq`")
            seq, seq_place = value, (start, stop)
        elif tag == _TIMESTAMP:
            timestamp = moment(value)
        elif tag == _UUID:
            uuid = payload[value:stop]
        elif tag == _BODY:
            if body_place[1]:
                raise ContentError("there are two bodies")
            body, body_place = payload[value:stop], (start, stop)
    if uuid != COMPRESSED:
        return SparkplugMessage(payload, tuple(metrics), seq, seq_place, timestamp, shell)
    if shell is not None:
        raise ContentError("what was compressed is compressed again")
    algorithm = _algorithm(payload, metrics)
    outer = Shell(payload, algorithm, body_place, seq_place)
    inner = _parse(_decompress(body, algorithm), outer)
    return inner if inner.seq is not None else replace(inner, seq=seq)


def _metric(payload: bytes, start: int, body: int, stop: int) -> Metric:
    name: str | None = None
    alias: int | None = None
    historical = False
    for tag, value, _, end in fields(payload, body, stop):
        if tag == _NAME:
            if name is not None:
                raise ContentError(f"the metric at byte {start} has two names")
            name = payload[value:end].decode()
        elif tag == _ALIAS:
            if alias is not None:
                raise ContentError(f"the metric at byte {start} has two aliases")
            alias = unsigned(value)
        elif tag == _HISTORICAL:
            historical = value != 0
    if not name and alias is not None:
        name = None  # some writers write an empty name beside an alias
    elif name is None:
        raise ContentError(f"the metric at byte {start} has neither a name nor an alias")
    return Metric(name, alias, historical, start, body, stop)


def named(field: bytes, name: str) -> bytes:
    """Return a metric's field, key and length included, with its name put in, for readers without its alias."""
    (_, body, _, stop), *_ = fields(field, 0, len(field))
    rest = b"".join(field[start:end] for tag, _, start, end in fields(field, body, stop) if tag != _NAME)
    return length_field(_METRICS, length_field(_NAME, name.encode()) + rest)


def bare(milliseconds: int, seq: int | None) -> bytes:
    """Return a payload without metrics."""
    return varint_field(_TIMESTAMP, milliseconds) + (b"" if seq is None else varint_field(_SEQ, seq))


def dated(payload: bytes, milliseconds: int) -> bytes:
    """Return a payload with this time in the place of its own; raises `ContentError` for what is not Sparkplug B."""
    edits = [(start, stop, b"") for tag, _, start, stop in fields(payload, 0, len(payload)) if tag == _TIMESTAMP]
    return varint_field(_TIMESTAMP, milliseconds) + _edited(payload, edits)


# --- compressed payloads (Tahu's way: the norm leaves it to hosts)


def _algorithm(payload: bytes, metrics: list[Metric]) -> str:
    """Return the compression algorithm. Other metrics beside the body are refused, as no policy looks there."""
    if any(metric.name != "algorithm" or metric.alias is not None for metric in metrics) or len(metrics) > 1:
        raise ContentError("beside a compressed body there is another metric than `algorithm`")
    algorithm = "DEFLATE"
    for metric in metrics:
        for tag, value, _, end in fields(payload, metric.body, metric.stop):
            if tag == _STRING_VALUE:
                algorithm = payload[value:end].decode().upper()
    if algorithm not in _WINDOW:
        raise ContentError(f"compressed by `{algorithm}`: expected GZIP or DEFLATE")
    return algorithm


def _decompress(body: bytes, algorithm: str) -> bytes:
    decompressor = zlib.decompressobj(_WINDOW[algorithm])
    try:
        inner = decompressor.decompress(body, MAX_BYTES + 1)
    except zlib.error as error:
        raise ContentError(f"the body cannot be decompressed: {error}") from None
    if len(inner) > MAX_BYTES:
        raise BoundError(f"more than {MAX_BYTES} bytes when decompressed")
    if not decompressor.eof:
        raise ContentError("the compressed body is cut short")
    if decompressor.unused_data:  # some readers would take it for more of the payload
        raise ContentError("there are bytes after the compressed body")
    return inner


_WINDOW = {"GZIP": 16 + zlib.MAX_WBITS, "DEFLATE": zlib.MAX_WBITS}


def _compress(payload: bytes, shell: Shell, seq: int | None) -> bytes:
    compressor = zlib.compressobj(wbits=_WINDOW[shell.algorithm])
    body = compressor.compress(payload) + compressor.flush()
    edits: list[Edit] = [(*shell.body_place, length_field(_BODY, body))]
    if seq is not None and shell.seq_place is not None:
        edits.append((*shell.seq_place, varint_field(_SEQ, seq)))
    return _edited(shell.payload, edits)
