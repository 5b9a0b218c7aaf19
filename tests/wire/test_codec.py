"""The codec against the corpus of packet cases: `tests/cases/packets`."""

import pytest

from penstock.wire.codec import encode
from penstock.wire.framing import Framer
from penstock.wire.stream import StreamDecoder
from tests.support.cases.packets import PacketCase, all_cases, invalid_cases, valid_cases


@pytest.mark.parametrize("case", valid_cases(), ids=str)
def test_a_valid_packet_decodes_as_the_case_says(case: PacketCase) -> None:
    decoder = StreamDecoder(version=case.version)
    assert decoder.feed(case.data) == [case.packet]
    assert decoder.error is None


@pytest.mark.parametrize("case", [case for case in valid_cases() if case.canonical], ids=str)
def test_a_canonical_packet_encodes_to_the_same_bytes(case: PacketCase) -> None:
    assert case.packet is not None
    assert encode(case.packet, case.version).hex(" ") == case.data.hex(" ")


@pytest.mark.parametrize("case", [case for case in valid_cases() if not case.canonical], ids=str)
def test_a_packet_in_another_form_encodes_to_other_bytes_that_say_the_same(case: PacketCase) -> None:
    assert case.packet is not None
    canonical = encode(case.packet, case.version)
    assert canonical != case.data
    assert StreamDecoder(version=case.version).feed(canonical) == [case.packet]


@pytest.mark.parametrize("case", invalid_cases(), ids=str)
def test_an_invalid_packet_is_refused_with_the_reason_of_the_case(case: PacketCase) -> None:
    decoder = StreamDecoder(version=case.version)
    assert decoder.feed(case.data) == []
    assert decoder.error is not None
    assert decoder.error.reason is case.error, decoder.error


@pytest.mark.parametrize("case", invalid_cases(), ids=str)
def test_a_refusal_is_told_in_one_lower_case_sentence(case: PacketCase) -> None:
    decoder = StreamDecoder(version=case.version)
    decoder.feed(case.data)
    message = str(decoder.error)
    assert message == message.strip()
    assert "\n" not in message
    assert not message.endswith(".")


def test_titles_are_unique_in_a_version() -> None:
    names = [str(case) for case in all_cases()]
    assert [name for name in set(names) if names.count(name) > 1] == []


@pytest.mark.parametrize("case", all_cases(), ids=str)
def test_a_case_is_one_packet_unless_its_length_is_the_matter(case: PacketCase) -> None:
    framer = Framer()
    _, frames = framer.feed(case.data)
    if framer.error is None:
        assert [end for _, _, end in frames] == [len(case.data)]
    else:
        assert framer.error.reason is case.error
