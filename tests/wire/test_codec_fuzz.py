"""The codec with packets, bytes and chunks that nobody thought of."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.codec import decode, encode
from penstock.wire.errors import WireError
from penstock.wire.packet import MQTT_5, MQTT_311, Packet
from penstock.wire.primitives import encode_varint
from penstock.wire.stream import StreamDecoder
from tests.support.cases.packets import all_cases
from tests.support.generators.packets import connects, packets

VERSIONS = pytest.mark.parametrize("version", [MQTT_311, MQTT_5])


def _chunks(data: bytes, cuts: list[int]) -> list[bytes]:
    places = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[start:end] for start, end in pairwise(places)]


def _fed(decoder: StreamDecoder, chunks: list[bytes]) -> list[Packet]:
    return [packet for chunk in chunks for packet in decoder.feed(chunk)]


@VERSIONS
@given(data=st.data())
def test_what_is_encoded_decodes_to_the_same(version: int, data: st.DataObject) -> None:
    packet = data.draw(packets(version))
    decoder = StreamDecoder(version=version)
    assert decoder.feed(encode(packet, version)) == [packet]
    assert decoder.error is None


@VERSIONS
@given(first=st.integers(0, 255), body=st.binary(max_size=80))
def test_random_bytes_are_a_packet_or_a_wire_error(version: int, first: int, body: bytes) -> None:
    _decodes_or_is_refused(first, body, version)


@st.composite
def _mutants(draw: st.DrawFn) -> tuple[int, bytes, int]:
    """A packet of the corpus with some of its body changed, and a fixed header that fits."""
    case = draw(st.sampled_from(all_cases()))
    header = 2
    while header < len(case.data) and case.data[header - 1] >= 0x80:
        header += 1
    body = bytearray(case.data[header:])
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(body)))
        cut = draw(st.integers(0, 3))
        body[at : at + cut] = draw(st.binary(max_size=3))
    first = draw(st.just(case.data[0]) | st.integers(0, 255))
    return first, bytes(body), draw(st.sampled_from([case.version, MQTT_311, MQTT_5]))


@given(_mutants())
def test_mutated_packets_are_a_packet_or_a_wire_error(mutant: tuple[int, bytes, int]) -> None:
    _decodes_or_is_refused(*mutant)


def _decodes_or_is_refused(first: int, body: bytes, version: int) -> None:
    """Only `WireError` may come out; and a packet that does come out can be encoded and says the same."""
    try:
        packet = decode(first, body, version)
    except WireError:
        return
    own = getattr(packet, "version", version)
    again = encode(packet, own)
    assert StreamDecoder(version=own).feed(again) == [packet]
    assert len(again) <= 1 + len(encode_varint(len(body))) + len(body)


@VERSIONS
@given(data=st.data(), cuts=st.lists(st.integers(0, 10_000), max_size=12))
def test_chunking_changes_nothing(version: int, data: st.DataObject, cuts: list[int]) -> None:
    sent = [data.draw(connects(version)), *data.draw(st.lists(packets(version), max_size=6))]
    stream = b"".join(encode(packet, version) for packet in sent)
    decoder = StreamDecoder()
    assert _fed(decoder, _chunks(stream, cuts)) == sent
    assert decoder.error is None
    assert decoder.version == version


@VERSIONS
@given(data=st.data())
def test_a_stream_can_be_fed_byte_by_byte(version: int, data: st.DataObject) -> None:
    sent = data.draw(st.lists(packets(version), max_size=3))
    stream = b"".join(encode(packet, version) for packet in sent)
    decoder = StreamDecoder(version=version)
    assert _fed(decoder, [stream[at : at + 1] for at in range(len(stream))]) == sent
    assert decoder.error is None


@VERSIONS
@given(data=st.data(), junk=st.binary(max_size=60), cuts=st.lists(st.integers(0, 10_000), max_size=12))
def test_chunking_changes_nothing_about_junk(version: int, data: st.DataObject, junk: bytes, cuts: list[int]) -> None:
    sent = data.draw(st.lists(packets(version), max_size=3))
    stream = b"".join(encode(packet, version) for packet in sent) + junk
    whole = StreamDecoder(limit=1_000, version=version)
    parts = StreamDecoder(limit=1_000, version=version)
    read = whole.feed(stream)
    assert _fed(parts, _chunks(stream, cuts)) == read
    assert read[: len(sent)] == sent
    assert str(parts.error) == str(whole.error)
