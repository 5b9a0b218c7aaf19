"""The framer: chunks to packet boundaries, within a bound of memory."""

import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.codec import encode_varint
from penstock.wire.framing import Framer
from penstock.wire.reason import Reason

PING = b"\xc0\x00"


def _packet(size: int, first: int = 0x30) -> bytes:
    """A frame with a body of `size` bytes."""
    return bytes([first]) + encode_varint(size) + b"x" * size


def test_whole_packets_are_found_in_the_buffer_that_was_fed() -> None:
    chunk = PING + _packet(5) + _packet(300, 0x32)
    buffer, frames = Framer(1_000).feed(chunk)
    assert buffer is chunk
    assert frames == [(0xC0, 2, 2), (0x30, 4, 9), (0x32, 12, 312)]


@pytest.mark.parametrize("size", [0, 1, 127, 128, 129, 16_383, 16_384, 2_097_151, 2_097_152])
def test_every_length_of_length_is_read(size: int) -> None:
    packet = _packet(size)
    _, frames = Framer().feed(packet + PING)
    assert frames == [(0x30, len(packet) - size, len(packet)), (0xC0, len(packet) + 2, len(packet) + 2)]


def test_an_incomplete_packet_waits_for_its_rest() -> None:
    framer = Framer()
    packet = _packet(200)
    assert framer.feed(PING + packet[:50])[1] == [(0xC0, 2, 2)]
    assert framer.pending == 50
    assert framer.feed(packet[50:100]) == (b"", [])
    buffer, frames = framer.feed(packet[100:] + PING)
    assert buffer == packet + PING
    assert frames == [(0x30, 3, 203), (0xC0, 205, 205)]
    assert framer.pending == 0


@pytest.mark.parametrize("header", range(1, 5))
def test_a_packet_can_be_cut_anywhere_in_its_header(header: int) -> None:
    framer = Framer()
    packet = _packet(2_097_152)
    assert framer.feed(packet[:header]) == (packet[:header], [])
    assert framer.feed(packet[header:])[1] == [(0x30, 5, len(packet))]


def test_nothing_is_nothing() -> None:
    assert Framer().feed(b"") == (b"", [])


def test_a_packet_of_just_the_limit_passes() -> None:
    framer = Framer(203)
    assert len(framer.feed(_packet(200))[1]) == 1
    assert framer.error is None


def test_a_packet_over_the_limit_is_refused_before_its_body_comes() -> None:
    framer = Framer(202)
    _, frames = framer.feed(PING + _packet(200)[:3])
    assert frames == [(0xC0, 2, 2)]
    assert framer.error is not None
    assert framer.error.reason is Reason.PACKET_TOO_LARGE
    assert framer.pending == 0


def test_the_limit_can_be_changed_between_chunks() -> None:
    framer = Framer(10)
    framer.feed(PING)
    framer.limit = 1_000
    assert len(framer.feed(_packet(500))[1]) == 1


def test_nothing_is_read_after_an_error() -> None:
    framer = Framer()
    framer.feed(b"\x30\xff\xff\xff\xff\x01")
    error = framer.error
    assert error is not None
    assert error.reason is Reason.MALFORMED_PACKET
    assert framer.feed(PING) == (b"", [])
    assert framer.error is error
    assert framer.pending == 0


@pytest.mark.parametrize("length", ["80 00", "ff 00", "80 80 00", "ff ff 80 00"])
def test_a_padded_length_is_read_as_mqtt_311_allows(length: str) -> None:
    framer = Framer()
    padded = b"\x30" + bytes.fromhex(length)
    _, frames = framer.feed(padded + b"x" * 16_383 + PING)
    assert frames[0][1] == len(padded)
    assert framer.error is None


@pytest.mark.parametrize("length", ["80 00", "ff 00", "80 80 00", "ff ff 80 00"])
def test_a_padded_length_is_refused_when_lengths_must_be_minimal(length: str) -> None:
    framer = Framer()
    framer.minimal = True
    framer.feed(b"\x30" + bytes.fromhex(length))
    assert framer.error is not None
    assert framer.error.reason is Reason.MALFORMED_PACKET


@given(st.lists(st.binary(max_size=300), max_size=20), st.integers(5, 400))
def test_what_is_held_is_never_more_than_the_limit(chunks: list[bytes], limit: int) -> None:
    framer = Framer(limit)
    for chunk in chunks:
        framer.feed(chunk)
        assert framer.pending <= limit


@given(st.lists(st.integers(0, 400), max_size=8), st.lists(st.integers(0, 3_300), max_size=8))
def test_bodies_are_the_same_however_they_are_chunked(sizes: list[int], cuts: list[int]) -> None:
    stream = b"".join(_packet(size, 0x30 | number) for number, size in enumerate(sizes))
    places = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    framer = Framer()
    bodies = []
    for start, end in pairwise(places):
        buffer, frames = framer.feed(stream[start:end])
        bodies += [(first, buffer[low:high]) for first, low, high in frames]
    assert bodies == [(0x30 | number, b"x" * size) for number, size in enumerate(sizes)]
    assert framer.pending == 0


def test_a_packet_in_tiny_chunks_takes_little_more_memory_than_its_bytes() -> None:
    size = 400_000
    packet = _packet(size)
    framer = Framer()
    tracemalloc.start()
    try:
        found = 0
        for at in range(0, len(packet), 3):
            found += len(framer.feed(packet[at : at + 3])[1])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found == 1
    assert peak < 3 * size
