import time
from collections.abc import Iterator

import pytest
from paho.mqtt.client import MQTTMessage
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from penstock.cli.client.format import compile_format

NOW = 1_470_818_943_786_368_637


@pytest.fixture(autouse=True)
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "XXX-02:00")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def message(payload: bytes = b"p", *, qos: int = 0, properties: Properties | None = None) -> MQTTMessage:
    message = MQTTMessage(mid=7, topic=b"a/b")
    message.payload = payload
    message.qos = qos
    message.properties = properties
    return message


@pytest.mark.parametrize(
    ("format", "text"),
    [
        ("%I", b"2016-08-10T10:49:03+0200"),
        ("%30I", b"      2016-08-10T10:49:03+0200"),
        ("%U", b"1470818943.786368637"),
        ("@Y-@m-@d @H:@M:@S.@N", b"2016-08-10 10:49:03.786368637"),
        ("@@ %% \\\\", b"@ % \\"),
        ("\\0\\a\\e\\n\\r\\t\\v", b"\0\a\x1b\n\r\t\v"),
        ("%t|%6t|%-6t|%.1t|%6.1t", b"a/b|   a/b|a/b   |a|     a"),
        ("%q %r %m %03m %-3m|", b"0 0 7 007 7  |"),
        ("%4p|%04p|%-4p|", b"   p|000p|p   |"),
        ("%x %X %4x", b"70 70   70"),
        ("[%C%D%P%R%A%E%F%S]", b"[]"),
        ("%3C|%3A|%03E", b"   |   |000"),
        ("é", "é".encode()),
    ],
)
def test_sequences(format: str, text: bytes) -> None:
    assert compile_format(format, b"", None, pytest.fail)(message(), NOW) == text


def test_a_width_never_cuts_a_payload() -> None:
    assert compile_format("%2p %2x", b"", None, pytest.fail)(message(b"\xffabc"), NOW) == b"\xffabc ff616263"


def properties() -> Properties:
    properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
    properties.TopicAlias = 4
    properties.SubscriptionIdentifier = [8, 9]
    properties.CorrelationData = b"\xff"
    properties.UserProperty = [("k", "v"), ("k", "w")]
    return properties


def test_properties() -> None:
    form = compile_format("%A %S %D %P", b"", None, pytest.fail)
    assert form(message(properties=properties()), NOW) == b"4 8 \xff k:v k:w"


def test_json_keeps_what_came_more_than_once() -> None:
    form = compile_format("%j", b"\n", None, pytest.fail)
    assert form(message(b"\xff", qos=1, properties=properties()), NOW).decode() == (
        '{"tst":"2016-08-10T10:49:03.786368Z+0200","topic":"a/b","qos":1,"retain":0,"payloadlen":1,"mid":7,'
        '"properties":{"topic-alias":4,"subscription-identifier":8,"subscription-identifier":9,'
        '"correlation-data":[255],"user-properties":{"k":"v","k":"w"}},"payload":[255]}\n'
    )


@pytest.mark.parametrize(
    ("payload", "printed"),
    [
        (b'{"b":1,"a":[1,{}],"b":"\xc3\xa9"}', '{"b":1,"a":[1,{}],"b":"é"}'),
        (b"12345678901234567890", "12345678901234567890"),
        (b" true ", "true"),
        (b"", "null"),
    ],
)
def test_a_json_payload_is_put_in_as_it_is(payload: bytes, printed: str) -> None:
    form = compile_format("%J", b"", None, pytest.fail)
    assert form(message(payload), NOW).decode().endswith(f',"payload":{printed}}}')


@pytest.mark.parametrize("payload", [b"x", b"{", b"NaN", b"1 2", b"\xff", b"[" * 100_000])
def test_a_payload_that_is_not_json_is_told(payload: bytes) -> None:
    warnings: list[str] = []
    assert compile_format("<%J>", b"", None, warnings.append)(message(payload), NOW) == b"<>"
    assert warnings == ["the payload is not JSON, on topic `a/b`"]
